"""The record of a weight file: the source's hash, the method, and how far the outputs are from the
source's, beside another calculation; `verify` finds another number, and what was changed."""

import hashlib
import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conversions import convert_to
from phasor.errors import PhasorError
from phasor.files import replacing
from phasor.format import layout as L
from phasor.format import record
from phasor.format.file import (
    RECORD,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    VECTORS,
    PhasorFile,
)
from phasor.format.writer import replace_section, write_model
from phasor.program import ids_text
from phasor.reference.forward import Reference
from phasor.vectors import Vector
from phasor.vectors import read as read_vectors
from places import told
from records import read_record

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SEPARATE = GOLDEN / "pytorch/separate.pt"


def record_of(path: Path) -> record.Record:
    return read_record(PhasorFile(path).section(RECORD))


def verified(phasor: Path, path: Path, status: int = 0) -> dict:
    done = subprocess.run([phasor, "verify", path, "--json"], capture_output=True, timeout=120)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def log_shares(rows: np.ndarray) -> np.ndarray:
    x = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def vectors_of(path: Path) -> list[Vector]:
    file = PhasorFile(path)
    return read_vectors(file.section(VECTORS), file.descriptor).vectors


def outputs(path: Path) -> np.ndarray:
    """The output rows of the file's vectors by the float64 reference, one below the other."""
    model = Reference(PhasorFile(path))
    return np.concatenate(
        [model.decode(v.target, model.encode(v.source).output).logits for v in vectors_of(path)]
    )


def test_the_source_and_its_likeliest_tokens(phasor, tmp_path):
    path = convert_to(SEPARATE, tmp_path / "m.phasor", "--type", "f32", "--phasor", phasor)
    found = record_of(path)
    assert found.source == hashlib.sha256(SEPARATE.read_bytes()).digest()
    assert (found.method, found.calibration) == ("exact", bytes(32))
    wanted = log_shares(outputs(path))
    rows, width = found.outputs.shape
    places, values = found.outputs[:, :16], found.outputs[:, 16:].view("<f4")
    assert (rows, width) == (len(wanted), 33)
    for row, at, value in zip(wanted, places, values):
        assert set(at) == set(np.argsort(-row)[:16])
        others = np.log(np.exp(np.delete(row, at)).sum())
        assert np.abs(value - [*row[at], others]).max() < 1e-6
    assert 0 <= found.divergence < 1e-12


@pytest.mark.parametrize("kind", ["f16", "q8", "q4", "q4m", "q8r"])
def test_the_divergence_is_that_of_the_logits(kind, phasor, tmp_path):
    """Beside the whole vocabulary's, which it cannot exceed, and a calculation of its own."""
    words = SEPARATE.with_suffix(".toml").read_text()
    source, target = words.split("[target]")
    (tmp_path / "endless.toml").write_text(source + "[target]" + target.replace("end = [3]", ""))
    flags = ("--describe", tmp_path / "endless.toml", "--phasor", phasor, "--type")
    exact = convert_to(SEPARATE, tmp_path / "e.phasor", *flags, "f32")
    path = convert_to(SEPARATE, tmp_path / "m.phasor", *flags, kind)
    found, rows = record_of(path), []
    for v in vectors_of(path):
        words = [phasor, "run", path, "--ids", ids_text(v.source), "--print-ids", "--quiet"]
        words += ["-n", str(len(v.target)), "--logits", tmp_path / "l.npy"]
        prefix = ["--prefix-ids", ids_text(v.target[1:])] if len(v.target) > 1 else []
        told(*words, *prefix, timeout=60)
        rows.append(np.load(tmp_path / "l.npy"))
    q, p = log_shares(np.concatenate(rows)), log_shares(outputs(exact))
    whole = float((np.exp(p) * (p - q)).sum(axis=1).mean())
    taken = 0.0
    for row_p, row_q, stored in zip(p, q, found.outputs):
        at = stored[:16]
        a = np.append(np.exp(row_p[at]), np.exp(np.delete(row_p, at)).sum())
        b = np.append(np.exp(row_q[at]), np.exp(np.delete(row_q, at)).sum())
        taken += float((a * np.log(a / b)).sum()) / len(p)
    assert found.divergence == pytest.approx(taken, rel=1e-4)
    assert 0.3 * whole < found.divergence <= whole * (1 + 1e-6)
    assert found.method == "rounded"
    said = verified(phasor, path)
    assert np.float32(said["divergence"]) == np.float32(found.divergence) and said["ok"]


def changed(path: Path, found: record.Record) -> None:
    with open(path, "r+b") as file:
        replace_section(file, RECORD, found.section())


def test_another_divergence_is_found(phasor, tmp_path):
    path = convert_to(SEPARATE, tmp_path / "m.phasor", "--type", "q8", "--phasor", phasor)
    found = record_of(path)
    for other in (
        found._replace(divergence=float(np.nextafter(np.float32(found.divergence), np.float32(0)))),
        found._replace(outputs=found.outputs + np.eye(1, 33, 16, dtype="<u4")),
    ):
        changed(path, other)
        done = subprocess.run([phasor, "verify", path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "NOT as recorded" in done.stdout
        assert "the divergence from the source is" in done.stderr and done.stderr.count("\n") == 1
        assert verified(phasor, path, 1)["ok"] is False
    changed(path, found._replace(divergence=9.0, numerics=0))  # not measured: nothing to compare
    assert verified(phasor, path)["ok"]
    assert "not measured" in told(phasor, "inspect", path, timeout=60)
    convert_to(SEPARATE, path, "--type", "q8", "--phasor", phasor)  # as the line says
    assert verified(phasor, path)["divergence"] == pytest.approx(found.divergence)


@pytest.mark.parametrize("proof, rows", [("full", 50), ("short", 10), ("none", 0)])
def test_what_a_proof_stores(proof, rows, phasor, tmp_path):
    flags = ("--type", "q8", "--phasor", phasor, "--proof", proof)
    path = convert_to(SEPARATE, tmp_path / "m.phasor", *flags)
    found = record_of(path)
    assert len(found.outputs) == rows and (found.numerics != 0) == (rows != 0)
    assert found.source == hashlib.sha256(SEPARATE.read_bytes()).digest()
    verified(phasor, path)
    told(phasor, "quantize", path, tmp_path / "f.phasor", "--type", "f32", timeout=60)
    assert record_of(tmp_path / "f.phasor").method == "rounded"


def test_a_file_without_a_record_stays_one(phasor, tmp_path):
    golden = GOLDEN / "models/tiny-lm-f32.phasor"
    told(phasor, "quantize", golden, tmp_path / "q.phasor", "--type", "q8", timeout=60)
    assert not PhasorFile(tmp_path / "q.phasor").section(RECORD)
    assert "record" not in told(phasor, "inspect", golden, "--json", timeout=60)


def test_moments_and_measurement_are_recorded(phasor, tmp_path):
    """The converter and quantize write the same; the text's hash is that of hashlib, at lengths
    around a block of SHA-256."""
    exact = convert_to(SEPARATE, tmp_path / "e.phasor", "--type", "f32", "--phasor", phasor)
    slots = PhasorFile(exact).slots
    columns = sum(slot.cols for slot in slots.values() if slot.matrix)
    np.save(tmp_path / "m.npy", np.linspace(0.5, 2, columns, dtype=np.float32))
    flags = ("--type", "q4", "--moments", tmp_path / "m.npy")
    made = convert_to(SEPARATE, tmp_path / "m.phasor", *flags, "--phasor", phasor)
    told(phasor, "quantize", exact, tmp_path / "q.phasor", *flags, timeout=60)
    assert made.read_bytes() == (tmp_path / "q.phasor").read_bytes()
    found = record_of(made)
    assert found.method == "rounded moments"
    assert found.calibration == hashlib.sha256((tmp_path / "m.npy").read_bytes()).digest()
    full = [np.eye(slot.cols, dtype=np.float32).ravel() for slot in slots.values() if slot.matrix]
    np.save(tmp_path / "m.npy", np.concatenate(full))
    made = convert_to(SEPARATE, tmp_path / "m.phasor", *flags, "--phasor", phasor)
    assert record_of(made).method == "rounded second-moments"


@pytest.mark.parametrize("kind", ["f32", "f16", "q8r", "q4m"])
def test_moments_that_count_in_nothing_are_not_recorded(kind, phasor, tmp_path):
    """Of a type that ignores them, and of matrices that are kept."""
    source = convert_to(SEPARATE, tmp_path / "f32", "--phasor", phasor)
    columns = sum(s.cols for s in PhasorFile(source).slots.values() if s.matrix)
    np.save(tmp_path / "m.npy", np.ones(columns, np.float32))
    flags = ("--type", kind, "--moments", tmp_path / "m.npy", "--phasor", phasor)
    theirs = convert_to(SEPARATE, tmp_path / "theirs", *flags)
    told(phasor, "quantize", source, tmp_path / "ours", *flags[:4])
    for path in (theirs, tmp_path / "ours"):
        found = record_of(path)
        assert "moments" not in found.method and not any(found.calibration)


@pytest.mark.parametrize("size", [1, 55, 56, 63, 64, 65, 119, 120, 128, 1000])
def test_the_hash_of_a_text(size, phasor, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(bytes(97 + i % 26 for i in range(size)))
    given = PhasorFile(GOLDEN / "models/tiny-d2l-f32.phasor")
    sections = {kind: given.section(kind) for kind in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}
    none = np.zeros((0, 1), np.uint32)
    sections[RECORD] = record.Record(bytes(32), "exact", bytes(32), none).section()
    with replacing(tmp_path / "m.phasor") as file:
        write_model(file, given.meta, lambda slot: given.weights(slot.key), L.F32, sections)
    words = ("quantize", tmp_path / "m.phasor", tmp_path / "q.phasor", "--bytes", "1M")
    told(phasor, *words, "--text", text, timeout=60)
    found = record_of(tmp_path / "q.phasor")
    assert found.calibration == hashlib.sha256(text.read_bytes()).digest()
    assert found.method.endswith("measured")


def test_several_files(tmp_path):
    """The digests in the order of the files' names, and each file once."""
    (tmp_path / "b").write_bytes(b"second")
    (tmp_path / "a").write_bytes(b"first")
    digests = [hashlib.sha256(text).digest() for text in (b"first", b"second")]
    paths = [tmp_path / "b", tmp_path / "a", tmp_path / "b"]
    assert record.digest_of(paths) == hashlib.sha256(b"".join(digests)).digest()
    assert record.digest_of([tmp_path / "a"]) == digests[0]
    assert record.digest_of([]) == bytes(32)


def test_a_section_that_is_not_sound(tmp_path):
    rows = np.zeros((2, 3), np.uint32)
    good = record.Record(bytes(32), "exact", bytes(32), rows, 0.5, 1).section()
    assert read_record(good).divergence == 0.5

    def put(at: int, kind: str, value: float) -> bytes:
        out = bytearray(good)
        struct.pack_into(kind, out, at, value)
        return bytes(out)

    for wrong in (
        *(good[:-1], good[:100], good + bytes(4)),
        *(put(0, "<I", rows) for rows in (0, 3, 1 << 31)),
        *(put(8, "<f", value) for value in (-1, np.nan, np.inf)),
        *(put(4, "<I", 0), put(80, "<B", 0), put(81, "<B", 10)),
    ):
        with pytest.raises(PhasorError, match="record"):
            read_record(wrong)
