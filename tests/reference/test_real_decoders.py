"""Published decoders through the converter, against transformers. Skipped where the files are
not."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from conversions import convert_to
from phasor.format.file import PhasorFile
from places import told
from texts import ids_text, read_json

CAPP = Path(__file__).resolve().parents[3] / "shared" / "data" / "gpt2-capp"
PROMPTS, NEW = 200, 24
PARTS = ("geometry_", "holes_", "external_threads_", "surface_finish_", "tolerance_", "batch_size_")


@pytest.fixture(scope="module")
def words() -> dict[str, int]:
    if not CAPP.is_dir():
        pytest.skip(f"the model is not here: {CAPP}")
    return read_json(CAPP / "token_mappings.json")["token2id"]


@pytest.fixture(scope="module")
def prompts(words) -> list[list[int]]:
    """Words of a part's shape, one of each kind, drawn from all that there are, then the mark that
    its plan begins."""
    kinds = [[word for word in words if word.startswith(part)] for part in PARTS]
    assert all(kinds)
    every = list(itertools.product(*kinds))
    chosen = np.random.default_rng(5).choice(len(every), PROMPTS, replace=False)
    return [[words[word] for word in (*every[i], "<SOS>")] for i in chosen]


@pytest.fixture(scope="module")
def converted(words, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("capp")
    (folder / "words.txt").write_text(
        "".join(word + "\n" for word in sorted(words, key=words.__getitem__))
    )
    return convert_to(CAPP, folder / "capp.phasor", "--tokenizer", folder / "words.txt")


def test_the_ids_of_its_configuration(converted):
    """Its bos, 50256, is another model's."""
    target = PhasorFile(converted).descriptor["target"]
    assert (target["start"], target["end"], target["pad"], target["vocabulary"]) == (
        None,
        [51],
        52,
        53,
    )


def test_greedy_tokens_of_200_prompts(converted, prompts, words, phasor):
    model = transformers.GPT2LMHeadModel.from_pretrained(CAPP).eval()
    settings = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=NEW, eos_token_id=51, pad_token_id=52
    )
    batch = torch.tensor(prompts)
    with torch.no_grad():
        rows = model.generate(
            batch, attention_mask=torch.ones_like(batch), generation_config=settings
        )[:, batch.shape[1] :].tolist()
    theirs = [row[: row.index(51) + 1] if 51 in row else row for row in rows]
    ours = []
    for prompt in prompts:
        done = subprocess.run(
            [
                phasor,
                "run",
                converted,
                "--ids",
                ids_text(prompt),
                "-n",
                str(NEW),
                "--print-ids",
                "--quiet",
            ],
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        ours.append([int(i) for i in done.stdout.split(b",")])
    assert ours == theirs
    assert len({tuple(row) for row in ours}) > 5  # the prompts are told apart


def test_a_prompt_in_words(converted, prompts, words, phasor):
    text = {i: word for word, i in words.items()}
    prompt = " ".join(text[i] for i in prompts[0])

    def run(*what: str) -> str:
        return told(
            phasor, "run", converted, *what, "-n", NEW, "--print-ids", "--quiet", timeout=60
        )

    assert run(prompt) == run("--ids", ids_text(prompts[0]))
