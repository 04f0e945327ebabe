"""Models of transformers and of sentence-transformers, and pipelines: they say themselves what they
are, so they are saved and read by their family; the proof is their own outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from phasor import convert, scratch
from phasor.conversion import convert as write
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.live.asked import Asked, Exported
from phasor.live.inputs import (
    Given,
    Twin,
    call,
    check_whole,
    drawn,
    hooked,
    line_of,
    twin,
    unwrapped,
)
from phasor.live.proof import AGREES, gap_of
from phasor.program import find_phasor
from phasor.sources.find import source_of
from phasor.sources.interface import Asked as Source
from phasor.sources.tokenizer_files import NONE

_ROWS, _LENGTH, _SEED = 4, 9, 7
_OUTPUTS = ("logits", "sentence_embedding", "last_hidden_state")


class Known(NamedTuple):
    """What the library has: its model, the tokenizer with it, and what saves it."""

    module: nn.Module
    tokenizer: Any
    embedder: bool


def _is(thing: Any, package: str, name: str) -> bool:
    kinds = type(thing).__mro__
    return any(k.__name__ == name and k.__module__.startswith(f"{package}.") for k in kinds)


def known(thing: Any, tokenizer: Any) -> Known | None:
    """None of a module that is its owner's."""
    thing = unwrapped(thing)
    if _is(thing, "transformers", "Pipeline"):
        own = thing.tokenizer if tokenizer is None else tokenizer
        return Known(thing.model, own, False)
    if _is(thing, "sentence_transformers", "CrossEncoder"):
        own = thing.tokenizer if tokenizer is None else tokenizer
        return Known(thing.model, own, False)
    if _is(thing, "sentence_transformers", "SentenceTransformer"):
        return Known(thing, tokenizer, True)
    return Known(thing, tokenizer, False) if _is(thing, "transformers", "PreTrainedModel") else None


def exported(found: Known, output: Path, asked: Asked) -> Exported:
    name = type(found.module).__name__
    for key, value in asked.said._asdict().items():
        if value is not None:
            raise PhasorError(f"{key}=: goes without a {name}, whose configuration says it")
    if asked.description is not None:
        raise PhasorError(f"save_description=: goes without a {name}, which is read by its family")
    check_whole(found.module)
    with scratch.folder() as folder:
        saved = folder / "model"
        found.module.save_pretrained(str(saved))
        tokenizers = asked._replace(tokenizer=found.tokenizer).tokenizers(folder)
        if not tokenizers and not found.embedder:
            tokenizers = [NONE]
        options = vars(convert.parse([str(saved), "-o", str(output), "--quiet"]))
        what = Source(saved, tokenizers, output, options)
        source = source_of(what)
        model, sections = source.read(what)
        sections |= convert.chat_section(source, model, saved, None, None)
        if problems := model.problems():
            raise PhasorError(f"{name}: {problems[0]}")
        own, arrays = _outputs(found, model, asked)
        gap = gap_of(model, arrays, output)
        if not gap <= AGREES:
            raise PhasorError(
                f"{name}: what its family computes gives something else, {gap:.3g} of a row's"
                " range; nothing is written"
            )
        expected = folder / "outputs.npz"
        np.savez(expected, **arrays)  # type: ignore[arg-type]
        write(
            model,
            output,
            L.type_code(asked.type) if asked.type else None,
            sections,
            find_phasor(None),
            quiet=asked.quiet,
            output_kind=L.type_code(asked.output_type) if asked.output_type else None,
            expect=expected,
        )
    precision = str(own.dtype).removeprefix("torch.")
    head = f"# {name}, read by its family and proved against its outputs in {precision}."
    text = "".join(f"{line}\n" for line in (head, *hooked(found.module)))
    if not asked.quiet:
        print(text, end="")
    return Exported(output, text, gap, len(arrays["output"]), precision)


def _outputs(found: Known, model: Model, asked: Asked) -> tuple[Twin, dict[str, np.ndarray]]:
    """What the model gives for the example and for drawn ids, which are no special ones."""
    d, both = model.descriptor, model.descriptor["model"]["stack"] == D.ENCODER_DECODER
    sides = [d[name] for name in ("source", "target") if name in d]
    rows = [_drawn(side, i) for i, side in enumerate(sides)]
    given = asked.example
    if given is not None and not both:
        given = given["input_ids"] if hasattr(given, "keys") else given
        if not isinstance(given, Tensor) or given.dim() != 2:
            raise PhasorError("example=: expected ids of shape (B, T), or input_ids in a dict")
        more = drawn([given], [sides[0]["vocabulary"]], _ROWS, _SEED, None)
        rows = [torch.cat([given[:_ROWS].cpu(), *more])]
    inputs = _arguments(found, rows, both)
    own = twin(found.module, inputs)
    try:
        out = call(own.module, inputs)
    except Exception as error:
        raise PhasorError(f"{type(found.module).__name__}: fails: {line_of(error)}") from error
    name = next((n for n in _OUTPUTS if n in out), None)
    if name is None:
        raise PhasorError(
            f"{type(found.module).__name__}: gives {', '.join(map(str, out))}: expected one of"
            f" {', '.join(_OUTPUTS)}"
        )
    arrays = {"ids": rows[0].numpy(), "output": out[name].detach().double().numpy()}
    return own, {**arrays, "target": rows[1].numpy()} if both else arrays


def _arguments(found: Known, rows: list[Tensor], both: bool) -> Given:
    kwargs: dict[str, Any] = {"input_ids": rows[0]}
    data: list[tuple[int | str, Tensor]] = [("input_ids", rows[0])]
    if found.embedder:
        given = {"input_ids": rows[0], "attention_mask": torch.ones_like(rows[0])}
        return Given((given,), {}, [])
    if both:
        kwargs["decoder_input_ids"] = rows[1]
        data.append(("decoder_input_ids", rows[1]))
    return Given((), {**kwargs, "return_dict": True}, data)


def _drawn(side: dict[str, Any], seed: int) -> Tensor:
    """Ids that end, pad and mask nothing."""
    special = {side.get(name) for name in ("pad", "start", "unknown", "mask", "decoder_start")}
    special |= set(side.get("end", ()))
    plain = torch.tensor([i for i in range(side["vocabulary"]) if i not in special])
    rng = torch.Generator().manual_seed(_SEED + seed)
    return plain[torch.randint(0, len(plain), (_ROWS, _LENGTH - seed), generator=rng)]
