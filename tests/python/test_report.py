"""convert --report: a line for each tensor of the source, with its use and what its values are
like. The numbers are compared with numpy's own of the arrays that were saved."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import test_gguf
import test_llama2c
from test_convert_hf import POSITIONS, WIDTH, Directory, linear

from phasor import convert, tensor_report
from phasor.checkpoints.tensors import Checkpoint, Stored
from places import ROOT

pytestmark = pytest.mark.usefixtures("no_program")


@pytest.fixture()
def bert(tmp_path):
    return Directory(tmp_path)


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """The report's lines by their tensors; those of what the converter makes by their use."""
    first, head, *lines = text.splitlines()
    assert tuple(head.split("\t")) == tensor_report.COLUMNS
    rows = [dict(zip(tensor_report.COLUMNS, line.split("\t"), strict=True)) for line in lines]
    out = {row["use"] if row["tensor"] == "-" else row["tensor"]: row for row in rows}
    assert len(out) == len(rows) and " tensors" in first
    return out


def reported(bert: Directory, status: int = 0) -> dict[str, dict[str, str]]:
    path = bert.output.with_suffix(".txt")
    assert bert.run("--report", path) == status
    return rows_of(path.read_text(encoding="utf-8"))


def test_every_tensor_has_its_use_or_a_reason(bert):
    word = bert.arrays["bert.embeddings.word_embeddings.weight"]
    bert.arrays |= {
        "cls.predictions.decoder.weight": word,
        "cls.predictions.decoder.bias": bert.arrays["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(POSITIONS)[None],
        "bert.pooler.dense.bias": np.zeros(WIDTH, np.float32),
    }
    rows = reported(bert)
    assert rows.keys() == bert.arrays.keys()
    uses = {name: row["use"] for name, row in rows.items()}
    assert uses["bert.encoder.layer.1.attention.self.query.weight"] == "encoder 1 q,k,v weight"
    assert uses["bert.embeddings.word_embeddings.weight"] == "source embedding"
    assert uses["cls.predictions.decoder.weight"] == (
        "left out: the same values as bert.embeddings.word_embeddings.weight, with which it is tied"
    )
    assert uses["bert.pooler.dense.bias"] == "left out: this output has no use for it"
    assert uses["bert.embeddings.position_ids"].startswith("left out: a buffer")
    left_out = {name for name, use in uses.items() if use.startswith("left out: ")}
    assert left_out == {
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "bert.pooler.dense.bias",
        "bert.embeddings.position_ids",
    }


def test_the_numbers_are_those_of_the_values(bert):
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    bert.arrays[name][3] = bert.arrays[name][11] = 0
    bert.arrays[name] = bert.arrays[name].astype(np.float16)
    rows = reported(bert)
    for key, array in bert.arrays.items():
        row, values = rows[key], array.astype(np.float64)
        assert row["shape"] == "(" + "x".join(map(str, array.shape)) + ")"
        assert row["type"] == {"float32": "F32", "float16": "F16"}[str(array.dtype)]
        found = [float(row[column]) for column in ("mean", "least", "most")]
        wanted = [values.mean(), values.min(), values.max()]
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-7), key
        zero = int((values == 0).all(axis=1).sum()) if values.ndim > 1 else "-"
        assert row["zero rows"] == str(zero) and (row["NaN"], row["inf"]) == ("0", "0")
    assert rows[name]["zero rows"] == "2"


def test_what_stops_the_conversion_is_in_the_report(bert, capsys):
    """The report is there, whole, and the output is not."""
    del bert.arrays["bert.encoder.layer.1.output.dense.weight"]
    bert.arrays |= {f"more.{name}": np.ones(s, np.float32) for name, s in linear("x", 2, 3).items()}
    rows = reported(bert, 1)
    assert not bert.output.exists() and "left over: more.x.weight" in capsys.readouterr().err
    assert rows["more.x.weight"]["use"] == "NO USE in this model"
    missing = rows["bert.encoder.layer.1.output.dense.weight"]
    assert (
        missing["use"] == "MISSING for encoder 1 feed-forward out weight"
        and missing["shape"] == "-"
    )


def test_values_that_are_not_finite_are_counted(bert, capsys):
    name = "bert.encoder.layer.0.output.dense.weight"
    bert.arrays[name][2, :3] = np.nan, np.inf, -np.inf
    row = reported(bert, 1)[name]
    assert not bert.output.exists() and capsys.readouterr().err
    assert (row["NaN"], row["inf"]) == ("1", "2")
    finite = bert.arrays[name][np.isfinite(bert.arrays[name])]
    assert np.isclose(float(row["most"]), finite.max(), rtol=1e-5)
    bert.arrays[name][:] = np.nan
    assert reported(bert, 1)[name]["mean"] == "nan"


def test_standard_output(bert, capsys):
    assert bert.run("--report", "-") == 0
    out = capsys.readouterr().out
    assert rows_of(out).keys() == bert.arrays.keys()


@pytest.mark.parametrize("where", ["output", "source", "nowhere", "folder"])
def test_a_report_that_cannot_be_is_one_line(bert, capsys, where):
    bert.write()
    path = {
        "output": bert.output,
        "source": bert.path / "model.safetensors",
        "nowhere": bert.path.parent / "none" / "r.txt",
        "folder": bert.path,
    }[where]
    before = (bert.path / "model.safetensors").read_bytes()
    assert bert.run("--report", path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line and not bert.output.exists()
    assert (bert.path / "model.safetensors").read_bytes() == before


def write_sources(folder: Path) -> list[Path]:
    """A state_dict with a description, a GGUF file, a file of llama2.c."""
    test_llama2c.write_small(folder / "m.bin", own_output=True)
    (folder / "m.gguf").write_bytes(test_gguf.changed())
    pytorch = ROOT / "tests" / "golden" / "pytorch"
    return [folder / "m.bin", folder / "m.gguf", *sorted(pytorch.glob("*.pt"))]


def test_other_sources(tmp_path, capsys):
    """No tensor is without a word, whatever the source is."""
    for source in write_sources(tmp_path):
        out = tmp_path / "report.txt"
        words = [source, "-o", tmp_path / "m.phasor", "--quiet", "--report", out]
        assert convert.main([str(word) for word in words]) == 0, capsys.readouterr().err
        rows = rows_of(out.read_text(encoding="utf-8"))
        for row in rows.values():
            assert row["use"] and "NO USE" not in row["use"] and "MISSING" not in row["use"]
        count = int(out.read_text(encoding="utf-8").split(" tensors")[0].split()[-1])
        assert sum(row["tensor"] != "-" for row in rows.values()) == count
        assert bool(count) == (source.suffix != ".bin"), "a file of llama2.c has no names"


def test_one_tensor_is_in_memory_at_a_time():
    """Forty tensors of 2 MB in one mapping: less than four of them are held."""
    rows, cols = 1024, 512
    stored = Stored(np.zeros(4 * rows * cols, np.uint8), "<f4", (rows, cols), (cols, 1), 0)
    checkpoint = Checkpoint(Path("m"), {f"t{i}": stored for i in range(40)})
    tracemalloc.start()
    try:
        for name in checkpoint:
            assert tensor_report.statistics(checkpoint.load(name)).zero_rows == rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * stored.bytes
