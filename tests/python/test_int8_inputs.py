"""The bits that a default conversion of a language model gives the inputs of its products: the line
says what the files' logits say, and the file has what the line says."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import test_gguf
import test_packed

from phasor import convert, int8_inputs
from phasor import vectors as V
from phasor.format import layout as L
from phasor.format.file import DIRECTORY, ENTRY_BYTES, PhasorFile
from places import told

LINE = "convert: inputs of "
MEASURE = "the logits' divergence from f32 (Kullback-Leibler, the mean) would be "

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


def line_of(capsys) -> str:
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith(LINE)]
    return line


def bits_of(file: Path, phasor: Path) -> set[int]:
    """Of the inputs of the quantized panels, as the file and as the program have them."""
    shown = json.loads(told(phasor, "inspect", file, "--json"))["tensors"]
    entries = PhasorFile(file).entries.values()
    found = {
        16 if entry.inputs == L.INPUTS16 else 8
        for entry in entries
        if entry.type in L.QUANTIZED and entry.layout == L.PANEL16
    }
    assert found == {tensor["inputs"] for tensor in shown if "inputs" in tensor}
    return found


def divergence(phasor: Path, folder: Path, file: str, read: str) -> float:
    """The mean over the positions of what is read, from f32.phasor beside it."""
    rows, most = [], PhasorFile(folder / file).descriptor["decoder"]["max_positions"]
    for ids in read_by(phasor, folder / file, read):
        exact, got = (
            probabilities(logits(phasor, folder / name, ids[: min(32, most or 32)]))
            for name in ("f32.phasor", file)
        )
        rows.append((exact * np.log(exact / got)).sum(1))
    return float(np.concatenate(rows).mean())


@pytest.mark.parametrize("limit", [1e-12, 1e3])
@pytest.mark.parametrize("name", SOURCES)
def test_the_figure_and_the_choice(name, limit, tmp_path, phasor, capsys, monkeypatch):
    monkeypatch.setattr(int8_inputs, "LIMIT", limit)
    made, read = SOURCES[name]
    source = made(tmp_path)
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    bits = 8 if limit > 1 else 16
    end = (
        f"less than {limit}; --inputs 16 is nearer"
        if bits == 8
        else f"more than {limit}; --inputs 8 takes them"
    )
    found = re.fullmatch(
        re.escape(f"{LINE}{bits} bits: on {read} {MEASURE}")
        + r"(\S+) with inputs of 8 bits, "
        + re.escape(end),
        line_of(capsys),
    )
    assert found
    assert bits_of(tmp_path / "m.phasor", phasor) == {bits}
    told(phasor, "verify", tmp_path / "m.phasor")
    run(source, tmp_path / "f32.phasor", "--type", "f32", "--phasor", phasor)
    assert LINE not in capsys.readouterr().err
    for wanted in (8, 16):
        run(source, tmp_path / f"{wanted}.phasor", "--inputs", wanted, "--phasor", phasor)
        assert LINE not in capsys.readouterr().err
        assert bits_of(tmp_path / f"{wanted}.phasor", phasor) == {wanted}
    assert (tmp_path / f"{bits}.phasor").read_bytes() == (tmp_path / "m.phasor").read_bytes()
    of8, of16 = (divergence(phasor, tmp_path, f"{one}.phasor", read) for one in (8, 16))
    assert 0 < of8 and abs(float(found[1]) - of8) <= 0.06 * of8
    assert of16 < 0.01 * of8 + 1e-9


def test_a_tokenizer_that_knows_no_prompt(tmp_path, phasor, capsys, monkeypatch):
    monkeypatch.setattr(int8_inputs, "PROMPTS", ("Water boils", "wax"))
    source = gguf(tmp_path, **test_gguf.vocabulary())
    run(source, tmp_path / "m.phasor", "--phasor", phasor)
    why = "its tokenizer has no id for any of the prompts"
    assert f"was not measured ({why}); " in capsys.readouterr().err
    assert bits_of(tmp_path / "m.phasor", phasor) == {16}


def test_where_there_is_no_line(source, tmp_path, phasor, capsys):
    for flags in (["--type", "f16"], ["--type", "q8"], ["--quiet"]):
        run(source, tmp_path / "m.phasor", "--phasor", phasor, *flags)
        assert LINE not in capsys.readouterr().err


@pytest.mark.parametrize("bits", [8, 16])
def test_a_reader_of_release_0_2_0_refuses_16_bits_and_opens_8(source, tmp_path, bits):
    """That release refuses an entry of the directory whose bytes 6 and 7, reserved there, are not
    zero."""
    run(source, tmp_path / "m.phasor", "--inputs", bits)
    file = PhasorFile(tmp_path / "m.phasor")
    directory = file.section(DIRECTORY)
    places = range(8, len(directory), ENTRY_BYTES)
    reserved = [struct.unpack_from("<IBBH", directory, at) for at in places]
    wide = {key for key, *_, field in reserved if field != 0}
    quantized = {
        key for key, kind, layout, _ in reserved if kind in L.QUANTIZED and layout == L.PANEL16
    }
    assert len(quantized) > 4 and wide == (quantized if bits == 16 else set())


def test_inputs_of_no_quantized_matrix_are_refused(source, tmp_path, capsys):
    words = [str(source), "-o", str(tmp_path / "m.phasor"), "--type", "f16", "--inputs", "16"]
    assert convert.main(words) == 1
    assert "--inputs 16: no matrix is quantized; give --type q8" in capsys.readouterr().err
    kinds = test_gguf.tensors(lambda name: "F32")[0]
    source.write_bytes(test_gguf.file_bytes(test_gguf.metadata(), kinds))
    assert convert.main([*words[:3], "--inputs", "16"]) == 1
    assert "no matrix is quantized; give --type q8" in capsys.readouterr().err


@pytest.mark.parametrize("why", ["there is no phasor program", "the model is too large for that"])
def test_what_is_not_measured_is_said(source, tmp_path, phasor, capsys, monkeypatch, why):
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")
    monkeypatch.setattr(int8_inputs, "_MOST_WEIGHTS", 1000)
    given = [] if "no phasor" in why else ["--phasor", phasor]
    run(source, tmp_path / "m.phasor", *given)
    said = f"{LINE}16 bits; what 8 bits would cost was not measured ({why}); --inputs 8 takes them"
    assert line_of(capsys) == said
    assert bits_of(tmp_path / "m.phasor", phasor) == {16}


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
