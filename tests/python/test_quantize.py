"""`phasor quantize` writes the converter's bytes, for every type; what it cannot do is one line,
and nothing is left behind."""

import os
import pty
import re
import select
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conversions import convert_to
from phasor import vectors as V
from phasor.families.model import is_end
from phasor.files import replacing
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import CHAT, SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, PhasorFile
from phasor.format.writer import replace_section, write_model
from phasor.moments import Moments
from phasor.replay import finished
from places import told

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PRESETS = ("torch-transformer", "separate", "bias-free")
TYPES = tuple(L.TYPES[kind] for kind in L.ROUNDED)


def quantize(phasor, *arguments, status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [phasor, "quantize", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    assert status == 0 or (done.stderr.startswith("phasor: ") and done.stderr.count("\n") == 1), (
        done.stderr
    )
    return done


def verify(phasor, path) -> None:
    told(phasor, "verify", path, timeout=120)


def converted(
    source: Path, output: Path, phasor: Path, kind: int, end: int, moments: np.ndarray | None = None
) -> None:
    """What the converter makes of the weights of an f32 file."""
    given = PhasorFile(source)
    section = given.section(VECTORS)
    inputs = [
        V.Input(tuple(v.source.tolist()), tuple(v.target.tolist()))
        for v in V.read(section, given.descriptor).vectors
    ]
    extra = {
        s: given.section(s)
        for s in (SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, CHAT)
        if given.section(s)
    }
    with replacing(output) as file:
        write_model(
            file,
            given.meta,
            lambda slot: given.weights(slot.key),
            lambda slot: end if is_end(slot) else kind,
            extra,
            moments=None if moments is None else Moments(given.descriptor, moments),
        )
        file.flush()
        replace_section(file, VECTORS, finished(file, section, inputs, phasor)[0])


@pytest.mark.parametrize("preset", PRESETS)
def test_the_bytes_of_the_converter(phasor, preset, tmp_path):
    """A checkpoint by each type, and its f32 file by the same type."""

    def theirs(name: str, *arguments: str) -> Path:
        words = ("--phasor", phasor, *arguments)
        return convert_to(GOLDEN / f"pytorch/{preset}.pt", tmp_path / name, *words)

    exact = theirs("exact")
    for arguments in [("--type", kind) for kind in TYPES] + [
        ("--type", "q4", "--output-type", "q8"),
        ("--type", "q8rh", "--output-type", "q8r"),
        ("--type", "q4k", "--output-type", "q4m"),
        ("--type", "q4t", "--output-type", "q6"),
        ("--type", "q3", "--output-type", "q4x"),
        ("--type", "q5k", "--output-type", "q5m"),
        ("--type", "f32", "--output-type", "bf16"),
    ]:
        quantize(phasor, exact, tmp_path / "ours", *arguments)
        assert (tmp_path / "ours").read_bytes() == theirs("theirs", *arguments).read_bytes(), (
            arguments
        )
        verify(phasor, tmp_path / "ours")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["exact", "ours", "theirs"]


@pytest.mark.long
@pytest.mark.parametrize(
    "path", sorted((GOLDEN / "models").glob("*-f32.phasor")), ids=lambda p: p.stem
)
def test_golden_models_give_the_bytes_of_the_converter(phasor, path, tmp_path):
    """Every family, shape and section: fused parts, ties, rows, odd widths, tokenizers, chat
    programs."""
    for kind, end in (
        (L.Q4, L.Q4),
        (L.Q8, L.F16),
        (L.BF16, L.Q8),
        (L.Q8R, L.Q8),
        (L.Q8RH, L.Q8RH),
        (L.Q4M, L.Q4K),
        (L.Q4T, L.Q4T),
        (L.Q6, L.Q6),
        (L.Q4X, L.Q3),
        (L.Q5K, L.Q5M),
    ):
        quantize(
            phasor,
            path,
            tmp_path / "ours",
            "--type",
            L.TYPES[kind],
            "--output-type",
            L.TYPES[end],
            "--quiet",
        )
        converted(path, tmp_path / "theirs", phasor, kind, end)
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes(), L.TYPES[kind]
        PhasorFile(tmp_path / "ours").check()
        verify(phasor, tmp_path / "ours")


def odd_file(path: Path, seed: int) -> PhasorFile:
    """A language model whose weights are outliers, zeros, whole groups of zeros, tiny and large
    values, of odd widths."""
    golden = PhasorFile(GOLDEN / "models/tiny-lm-f32.phasor")
    rng = np.random.default_rng(seed)

    def source(slot: R.Slot) -> np.ndarray:
        given = golden.weights(slot.key)
        if not slot.matrix:
            return given
        x = given * np.exp(rng.normal(0, 4, given.shape)) * (rng.random(given.shape) < 0.8)
        x[rng.random(len(x)) < 0.2] = 0
        x[rng.random(len(x)) < 0.1] *= 1e-7
        x[rng.random(len(x)) < 0.05] *= 2.0**-130
        return np.clip(x, -4e4, 4e4).astype(np.float32)

    with replacing(path) as file:
        write_model(file, golden.meta, source)
    return PhasorFile(path)


@pytest.mark.parametrize("seed", range(4))
def test_odd_weights_and_moments(phasor, seed, tmp_path):
    """Without test vectors: the tensors alone, with and without moments."""
    given = odd_file(tmp_path / "odd", seed)
    columns = sum(slot.cols for slot in R.slots(given.descriptor) if slot.matrix)
    moments = np.random.default_rng(seed).gamma(0.3, size=columns).astype(np.float32)
    np.save(tmp_path / "moments.npy", moments)
    for kind in (L.F16, L.BF16, *(kind for kind in L.QUANTIZED if kind in L.ROUNDED)):
        for weights in (None, moments) if kind in L.QUANTIZED else (None,):
            quantize(
                phasor,
                given.path,
                tmp_path / "ours",
                "--type",
                L.TYPES[kind],
                *(["--moments", tmp_path / "moments.npy"] if weights is not None else []),
            )
            with replacing(tmp_path / "theirs") as file:
                write_model(
                    file,
                    given.meta,
                    lambda slot: given.weights(slot.key),
                    kind,
                    moments=None if weights is None else Moments(given.descriptor, weights),
                )
            assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes(), L.TYPES[
                kind
            ]


def test_the_report_and_a_place_that_is_taken(phasor, tmp_path):
    """What was there is replaced; IN itself is refused: a wrong flag would take its weights."""
    given, path = tmp_path / "given", tmp_path / "m"
    shutil.copy(GOLDEN / "models/tiny-bert-f32.phasor", given)
    path.write_text("something else")
    line = quantize(phasor, given, given, "--type", "q8", status=1).stderr
    assert "is both the model and OUT" in line
    assert given.read_bytes() == (GOLDEN / "models/tiny-bert-f32.phasor").read_bytes()
    text = quantize(phasor, given, path, "--type", "q8").stdout
    assert (
        f"{path.stat().st_size:,} bytes" in text
        and "q8 " in text
        and "stored exactly" in text
        and "largest rounding error" in text
    )
    assert "a logit differs by at most 0.0" in text and "of 6" in text.split("best at")[1]
    assert {e.type for e in PhasorFile(path).entries.values() if e.layout == L.PANEL16} == {L.Q8}
    assert quantize(phasor, path, tmp_path / "n", "--type", "f32", "--quiet").stdout == ""
    widened = PhasorFile(tmp_path / "n")
    assert {e.type for e in widened.entries.values()} <= {L.F32, L.F64}
    for key in widened.entries:
        assert np.array_equal(widened.weights(key), PhasorFile(path).weights(key))


def test_what_was_rounded_is_not_rounded_again(phasor, tmp_path):
    for kind, wanted in (("q8", "q4"), ("q4", "q8"), ("q8", "f16")):
        model = GOLDEN / f"models/tiny-bert-{kind}.phasor"
        line = quantize(phasor, model, tmp_path / "out", "--type", wanted, status=1).stderr
        assert (
            str(model) in line
            and f"is {kind}, and what was rounded is not rounded again to {wanted}" in line
        )
    assert not list(tmp_path.iterdir())


def rows_of(path: Path, inputs: int | None = None) -> dict[int, tuple]:
    """Of each matrix its type, the form of its inputs (this one, if it has one), and its bytes."""
    file, data = PhasorFile(path), path.read_bytes()
    wide = {k for k, e in file.entries.items() if e.type in L.QUANTIZED and e.layout == L.PANEL16}
    return {
        key: (
            e.type,
            e.inputs if inputs is None or key not in wide else inputs,
            data[e.offset : e.offset + e.bytes],
        )
        for key, e in file.entries.items()
    }


@pytest.mark.parametrize(
    "kind",
    ["q8", "q4", "q4m", "q4k", "q4t", "q6", "q4x", "q3", "q8r", "q8rh", "q2", "q2w", "q1", "q2r"]
    + ["q5m", "q5k"],
)
def test_inputs_alone_leave_every_matrix_as_it_is(phasor, kind, tmp_path):
    """Also types to which nothing is rounded."""
    plain = GOLDEN / f"models/tiny-gptj-{kind}.phasor"
    quantize(phasor, plain, tmp_path / "wide", "--inputs", "16")
    assert rows_of(tmp_path / "wide") == rows_of(plain, L.INPUTS16) != rows_of(plain)
    verify(phasor, tmp_path / "wide")
    quantize(phasor, tmp_path / "wide", tmp_path / "plain", "--inputs", "8")
    assert rows_of(tmp_path / "plain") == rows_of(plain)


def test_inputs_alone_of_a_file_of_several_types(phasor, tmp_path):
    source, mixed = GOLDEN / "models/tiny-gptj-f32.phasor", ("--type", "q4", "--output-type", "q6")
    quantize(phasor, source, tmp_path / "mixed", *mixed)
    quantize(phasor, tmp_path / "mixed", tmp_path / "wide", "--inputs", "16")
    quantize(phasor, source, tmp_path / "wanted", *mixed, "--inputs", "16")
    assert rows_of(tmp_path / "wide") == rows_of(tmp_path / "wanted")
    line = quantize(phasor, source, tmp_path / "no", "--inputs", "16", status=1).stderr
    assert "inputs of 16 bits go with a quantized type" in line


def test_bad_files_and_places(phasor, tmp_path):
    good = GOLDEN / "models/tiny-lm-f32.phasor"
    damaged = tmp_path / "damaged"
    data = bytearray(good.read_bytes())
    data[-3] ^= 1
    damaged.write_bytes(data)
    for source, target, says in (
        (tmp_path / "absent", tmp_path / "o", "no such file"),
        (damaged, tmp_path / "o", "checksum"),
        (good, tmp_path / "no/where", "No such file"),
        (good, tmp_path, "is a directory"),
        (GOLDEN / "make_models.py", tmp_path / "o", "not a .phasor file"),
    ):
        assert says in quantize(phasor, source, target, "--type", "q4", status=1).stderr
    large = odd_file(tmp_path / "large", 0)
    with replacing(tmp_path / "huge") as file:
        write_model(
            file, large.meta, lambda slot: large.weights(slot.key) + (1e9 if slot.matrix else 0)
        )
    for kind in ("f16", "q8", "q4"):
        assert (
            f"a weight is too large for {kind}"
            in quantize(phasor, tmp_path / "huge", tmp_path / "o", "--type", kind, status=1).stderr
        )
    (tmp_path / "text.npy").write_text("no array at all")
    np.save(tmp_path / "short.npy", np.ones(3, np.float32))
    np.save(tmp_path / "double.npy", np.ones(3))
    columns = sum(slot.cols for slot in R.slots(PhasorFile(good).descriptor) if slot.matrix)
    np.save(tmp_path / "negative.npy", -np.ones(columns, np.float32))
    for name, says in (
        ("text", "not a NumPy file"),
        ("short", f"3 moments, the file's matrices have {columns} columns"),
        ("double", "f32"),
        ("negative", "moment 0"),
    ):
        assert (
            says
            in quantize(
                phasor,
                good,
                tmp_path / "o",
                "--type",
                "q4",
                "--moments",
                tmp_path / f"{name}.npy",
                status=1,
            ).stderr
        )
    assert not (tmp_path / "o").exists() and not list(tmp_path.glob("*.part"))


def test_a_wider_tolerance_is_what_the_type_costs_and_no_more(phasor, tmp_path):
    """A value that is off by more than twice what rounding did is still found, hash or none."""
    source = GOLDEN / "models/tiny-d2l-f32.phasor"
    quantize(phasor, source, tmp_path / "m", "--type", "q8", "--quiet")
    file = PhasorFile(tmp_path / "m")
    section = V.read(file.section(VECTORS), file.descriptor)
    exact = PhasorFile(source)
    assert (
        V.read(exact.section(VECTORS), exact.descriptor).tolerance < section.tolerance < 0.2
        and section.numerics == 1
    )
    for change in ("hash", "value"):
        shutil.copy(tmp_path / "m", tmp_path / "changed")
        data = bytearray(file.section(VECTORS))
        if change == "value":
            vectors = [v._replace(hash=0) for v in section.vectors]
            data = bytearray(
                V.with_hashes(bytes(data), file.descriptor, [v.hash for v in vectors], 0)
            )
            at = data.index(section.vectors[0].logits[0].tobytes())
            wrong = (
                section.vectors[0].logits[0, 0]
                + 3 * section.tolerance * section.vectors[0].range[0]
            )
            data[at : at + 4] = np.float32(wrong).tobytes()
        else:
            data = V.with_hashes(bytes(data), file.descriptor, [1, 2, 3], 1)
        with open(tmp_path / "changed", "r+b") as stream:
            replace_section(stream, VECTORS, bytes(data))
        done = subprocess.run(
            [phasor, "verify", tmp_path / "changed"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert (
            done.returncode == 1
            and ("not the bits" if change == "hash" else "differs") in done.stderr
        )


@pytest.mark.parametrize("flags", [(), ("--quiet",)])
def test_a_terminal_sees_what_it_does(phasor, tmp_path, flags):
    """Standard output and standard error are one terminal: the line is gone before the report."""
    own, theirs = pty.openpty()
    model = GOLDEN / "models" / "tiny-lm-f32.phasor"
    words = [phasor, "quantize", model, tmp_path / "m.phasor", "--type", "q8", *flags]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while select.select([own], [], [], 60)[0]:
            try:
                shown += os.read(own, 4096)
            except OSError:
                break
        assert process.wait() == 0
    os.close(own)
    lines = re.findall(rb"\r(?:phasor: ([^\r\n]*))?\x1b\[K", shown)
    count = (tmp_path / "m.phasor").stat().st_size
    vectors = [f"test vector {i} of 3".encode() for i in (1, 2, 3)]
    assert lines == ([] if flags else [f"quantizing, {count:,} bytes".encode(), *vectors, b""])
    assert flags or shown.index(b"\r\x1b[K") < shown.index(f"{count:,} bytes\r\n".encode())
