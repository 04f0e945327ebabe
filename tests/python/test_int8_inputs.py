"""The line of a default conversion whose products take int8 inputs: what it says is what the two
files' logits say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_gguf

from phasor import convert, int8_inputs
from phasor import vectors as V
from phasor.format.file import PhasorFile

LINE = "convert: the inputs of products are rounded to int8"


@pytest.fixture()
def source(tmp_path) -> Path:
    """A small GGUF file with matrices of Q8_0."""
    kinds = test_gguf.tensors(lambda name: "F32" if "norm" in name else "Q8_0")[0]
    (tmp_path / "m.gguf").write_bytes(test_gguf.file_bytes(given=kinds))
    return tmp_path / "m.gguf"


def run(source: Path, out: Path, *flags: object) -> None:
    assert convert.main([str(word) for word in (source, "-o", out, *flags)]) == 0


def logits(phasor: Path, file: Path, ids: tuple[int, ...]) -> np.ndarray:
    out = file.with_suffix(".npy")
    words = [phasor, "run", file, "--ids", ",".join(map(str, ids)), "-n", "1", "--quiet"]
    subprocess.run([*words, "--print-ids", "--logits", out], check=True, stdout=subprocess.DEVNULL)
    return np.load(out)[: len(ids)].astype(np.float64)


def probabilities(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


def test_the_figure(source, tmp_path, phasor, capsys):
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    said = capsys.readouterr().err
    found = re.search(r"on four prompts .* \(Kullback-Leibler, the mean\) is (\S+); ", said)
    assert found and LINE in said and "; --type f16 avoids it\n" in said
    run(source, tmp_path / "f32.phasor", "--type", "f32", "--phasor", phasor)
    assert LINE not in capsys.readouterr().err
    rows = []
    inputs = V.choose_inputs(PhasorFile(tmp_path / "m.phasor").descriptor)
    for given in inputs[: len(int8_inputs.PROMPTS)]:
        exact, got = (
            probabilities(logits(phasor, tmp_path / f"{name}.phasor", given.target[:32]))
            for name in ("f32", "m")
        )
        rows.append((exact * np.log(exact / got)).sum(1))
    wanted = np.concatenate(rows).mean()
    assert 0 < wanted and abs(float(found[1]) - wanted) <= 0.06 * wanted


def test_where_there_is_no_line(source, tmp_path, phasor, capsys):
    for flags in (["--type", "f16"], ["--type", "q8"], ["--quiet"]):
        run(source, tmp_path / "m.phasor", "--phasor", phasor, *flags)
        assert LINE not in capsys.readouterr().err


@pytest.mark.parametrize("why", ["there is no phasor program", "the model is too large for that"])
def test_what_is_not_measured_is_said(source, tmp_path, phasor, capsys, monkeypatch, why):
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")
    monkeypatch.setattr(int8_inputs, "_MOST_WEIGHTS", 1000)
    given = [] if "no phasor" in why else ["--phasor", phasor]
    run(source, tmp_path / "m.phasor", *given)
    said = capsys.readouterr().err
    assert f"{LINE}; what that costs was not measured ({why}); --type f16" in said


def test_a_program_that_fails(source, tmp_path, phasor, capsys, monkeypatch):
    """The file is there, and the line says why there is no figure; no scratch file stays."""

    def fails(*words: object, **more: object) -> str:
        raise convert.PhasorError("run: exit 1: of no use")

    monkeypatch.setattr(int8_inputs, "run", fails)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    assert "was not measured (run: exit 1: of no use); " in capsys.readouterr().err
    assert list((tmp_path / "scratch").iterdir()) == []
