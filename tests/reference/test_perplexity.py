"""`phasor score --blocks` beside llama.cpp: the perplexity of its own logits, window by window as
its perplexity program takes them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cyllama")
pytest.importorskip("gguf")

import gguf_models  # noqa: E402
from conversions import convert_to
from llama_cpp import LlamaCpp  # noqa: E402


@pytest.mark.parametrize("window", [16, 33])
def test_blocks_are_llama_cpps_perplexity(tmp_path: Path, phasor: Path, window: int) -> None:
    path, out = tmp_path / "model.gguf", tmp_path / "model.phasor"
    gguf_models.write(path, gguf_models.CASES["llama"])
    convert_to(path, out)
    ids = np.random.default_rng(8).integers(3, gguf_models.VOCABULARY, 150).tolist()
    model, nll, count = LlamaCpp(path), 0.0, 0
    for begin in range(0, len(ids) - window + 1, window):
        rows = model.logits(ids[begin : begin + window]).astype(np.float64)
        rows -= rows.max(1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(1, keepdims=True))
        for i in range(window // 2, window - 1):
            nll -= rows[i][ids[begin + i + 1]]
            count += 1
    done = subprocess.run(
        [
            phasor,
            "score",
            out,
            "--ids",
            ",".join(map(str, ids)),
            "--context",
            str(window),
            "--blocks",
            "--json",
            "--quiet",
        ],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    got = json.loads(done.stdout)
    assert got["tokens"] == count and got["nll"] == pytest.approx(nll, rel=2e-5)
