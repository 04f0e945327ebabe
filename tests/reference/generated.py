"""What transformers generates, in either version: test_families_translators.py,
test_translator_rules.py and save_newer.py, which run in processes of their own, call it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

# Of a source: the scores of its outputs (zeros: greedy), and their new tokens up to the end.
Outputs = list[tuple[list[float], list[list[int]]]]


def cut(row: list[int], end: int) -> list[int]:
    """The new tokens of a row, up to its end."""
    new = row[1:]
    return new[: new.index(end) + 1] if end in new else new


def generated(
    model: torch.nn.Module, sources: list[list[int]], new: int | None, beams: int = 1
) -> Outputs:
    """The greedy outputs of at most `new` tokens, or all hypotheses of a search with beams. None:
    as many as the model's own generation config says. Sources of one length that follow each other
    make a batch."""
    out: Outputs = []
    options = {"num_beams": beams, "num_return_sequences": beams}
    first = 0
    while first < len(sources):
        last = first
        while last < len(sources) and len(sources[last]) == len(sources[first]):
            last += 1
        batch = torch.tensor(sources[first:last])
        with torch.no_grad():
            made = model.generate(
                batch,
                attention_mask=torch.ones_like(batch),
                do_sample=False,
                max_new_tokens=new,
                return_dict_in_generate=True,
                output_scores=True,
                **options,
            )
        rows = [cut(row, model.config.eos_token_id) for row in made.sequences.tolist()]
        scores = made.sequences_scores.tolist() if beams > 1 else [0.0] * len(rows)
        for i in range(0, len(rows), beams):
            out.append((scores[i : i + beams], rows[i : i + beams]))
        first = last
    return out


def recommended(
    model: torch.nn.Module,
    rule: dict[str, Any],
    folder: Path,
    sources: list[list[int]],
    new: int,
    beams: int,
) -> list[Outputs]:
    """The model, saved with these options beside its own, and what it generates with them: greedy
    outputs, and hypotheses."""
    own = model.generation_config
    model.generation_config = copy.deepcopy(own)
    model.generation_config.update(num_beams=beams, **rule)
    model.save_pretrained(folder)
    made = [generated(model, sources, new, n) for n in (1, beams)]
    model.generation_config = own
    return made
