"""The line of a default conversion whose products take int8 inputs: what it says is what the two
files' logits say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import test_gguf
import test_packed

from phasor import convert, int8_inputs
from phasor import vectors as V
from phasor.format.file import PhasorFile
from places import told

LINE = "convert: the inputs of products are rounded to int8"


IDS = "3 sequences of random ids (the model has no tokenizer)"
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789(),:TCFOWĠĊ", "th", "<a>", "<b>"]
WORDS = test_gguf.vocabulary(
    tokens=(test_gguf.ARRAY, (test_gguf.STRING, LETTERS)),
    merges=(test_gguf.ARRAY, (test_gguf.STRING, ["t h"])),
)


def gguf(folder: Path, **keys: object) -> Path:
    """A small GGUF file with matrices of Q8_0."""
    kinds = test_gguf.tensors(lambda name: "F32" if "norm" in name else "Q8_0")[0]
    given = test_gguf.metadata() | {name.replace("__", "."): v for name, v in keys.items()}
    (folder / "m.gguf").write_bytes(test_gguf.file_bytes(given, kinds))
    return folder / "m.gguf"


def packed(folder: Path, form: str) -> Path:
    """A directory that a quantizer packed, without a file of a tokenizer."""
    directory = test_packed.Directory(folder, form)
    directory.write(directory.tensors, directory.quantization)
    return directory.folder


SOURCES = {
    "GGUF": (gguf, IDS),
    "GGUF with a tokenizer": (lambda at: gguf(at, **WORDS), "four prompts"),
    "GGUF without the letters of a prompt": (
        lambda at: gguf(at, **test_gguf.vocabulary()),
        "3 of four prompts",
    ),
    "a directory of q4 without a tokenizer": (lambda at: packed(at, "gptq"), IDS),
    "a directory of q8r without a tokenizer": (lambda at: packed(at, "int-quantized"), IDS),
}


@pytest.fixture()
def source(tmp_path) -> Path:
    return gguf(tmp_path)


def run(source: Path, out: Path, *flags: object) -> None:
    assert convert.main([str(word) for word in (source, "-o", out, *flags)]) == 0


def logits(phasor: Path, file: Path, ids: tuple[int, ...]) -> np.ndarray:
    out = file.with_suffix(".npy")
    words = [phasor, "run", file, "--ids", ",".join(map(str, ids)), "-n", "1", "--quiet"]
    told(*words, "--print-ids", "--logits", out)
    return np.load(out)[: len(ids)].astype(np.float64)


def probabilities(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


def read_by(phasor: Path, file: Path, read: str) -> list[tuple[int, ...]]:
    """The ids that the line speaks of."""
    if read == IDS:
        return [given.target for given in V.choose_inputs(PhasorFile(file).descriptor)]
    words = [phasor, "tokenize", file, "--print-ids", "--"]
    texts = [told(*words, prompt) for prompt in int8_inputs.PROMPTS]
    return [tuple(map(int, text.split(","))) for text in texts if text.strip()]


@pytest.mark.parametrize("name", SOURCES)
def test_the_figure(name, tmp_path, phasor, capsys):
    made, read = SOURCES[name]
    source = made(tmp_path)
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    said = capsys.readouterr().err
    (line,) = [one for one in said.splitlines() if LINE in one]
    found = re.fullmatch(
        re.escape(f"{LINE}: on {read} the logits' divergence from f32 (Kullback-Leibler, the mean)")
        + r" is (\S+); --type f16 avoids it",
        line,
    )
    assert found, line
    run(source, tmp_path / "f32.phasor", "--type", "f32", "--phasor", phasor)
    assert LINE not in capsys.readouterr().err
    rows, most = [], PhasorFile(tmp_path / "m.phasor").descriptor["decoder"]["max_positions"]
    for ids in read_by(phasor, tmp_path / "m.phasor", read):
        exact, got = (
            probabilities(logits(phasor, tmp_path / f"{file}.phasor", ids[: min(32, most or 32)]))
            for file in ("f32", "m")
        )
        rows.append((exact * np.log(exact / got)).sum(1))
    wanted = np.concatenate(rows).mean()
    assert 0 < wanted and abs(float(found[1]) - wanted) <= 0.06 * wanted


def test_a_tokenizer_that_knows_no_prompt(tmp_path, phasor, capsys, monkeypatch):
    monkeypatch.setattr(int8_inputs, "PROMPTS", ("Water boils", "wax"))
    source = gguf(tmp_path, **test_gguf.vocabulary())
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    why = "its tokenizer has no id for any of the prompts"
    assert f"was not measured ({why}); " in capsys.readouterr().err


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
