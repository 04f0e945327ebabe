"""Rotated inputs of types in groups (rule 1.29): beside formulas in float64 that nothing here
shares, the same bytes from the converter and the program, what is refused, and outputs that the
reference agrees with."""

import json
from pathlib import Path

import numpy as np
import pytest
import test_gguf
from test_quantize import odd_file, quantize

from conversions import convert_to
from phasor import convert
from phasor.errors import PhasorError
from phasor.files import replacing
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format import writer
from phasor.moments import Moments
from phasor.reference import functions
from places import told

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TYPES = ("q8", "q4", "q4m", "q4k", "q4t")


def turns(cols: int) -> np.ndarray:
    """(K, K): Sylvester's matrix, (−1) to the bits that i and j share, orthonormal, for each block
    of the largest power of two in K, at most 64."""
    block = min(64, cols & -cols)
    signs = [[(-1.0) ** (i & j).bit_count() for j in range(block)] for i in range(block)]
    result: np.ndarray = np.kron(np.eye(cols // block), np.array(signs) / np.sqrt(block))
    return result


def int8(x: np.ndarray) -> np.ndarray:
    """Groups of 32 of rows to the nearest of 255 steps."""
    out = np.zeros_like(x)
    for first in range(0, x.shape[1], 32):
        part = x[:, first : first + 32]
        step = np.abs(part).max(axis=1, keepdims=True) / 127
        out[:, first : first + 32] = np.rint(part / step) * step
    return out


@pytest.mark.parametrize("cols", [64, 96, 100, 576])
def test_the_product_of_the_reference(cols):
    rng = np.random.default_rng(cols)
    x, w = rng.normal(size=(5, cols)), rng.normal(size=(7, cols))
    x[:, 3] *= 40
    got = functions.round_activations(x, L.Q8, L.INPUTS_ROTATED) @ w.T
    want = int8(x @ turns(cols)) @ (w @ turns(cols)).T
    assert np.allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
    error, plain = (np.abs(y - x @ w.T).mean() for y in (got, int8(x) @ w.T))
    assert cols % 32 or error < 0.6 * plain  # one channel no longer sets the steps of 31 others


@pytest.mark.parametrize("type_", TYPES)
def test_the_stored_weights_are_the_rotated_matrix(type_, phasor, tmp_path):
    source, made = GOLDEN / "models/tiny-gptj-f32.phasor", tmp_path / "m"
    quantize(phasor, source, made, "--type", type_, "--inputs", "rotated", "--quiet")
    exact, file, kind = F.PhasorFile(source), F.PhasorFile(made), L.type_code(type_)
    seen = 0
    for slot in exact.slots.values():
        entry = file.entries[slot.key]
        turned = slot.matrix and slot.layout == L.PANEL16
        assert entry.inputs == (L.INPUTS_ROTATED if turned else 0)
        if not turned:
            continue
        w, cols = exact.weights(slot.key), slot.cols
        q = file.quantized(slot.key)
        assert q.rotated and q.type == kind
        stored = L.dequantize(q.scales, q.values, cols, kind)
        block = min(64, cols & -cols)  # of lengths that are no square the factor is with the inputs
        scale = np.sqrt(block) / 2 ** ((block.bit_length() - 1) // 2)
        wanted = w @ turns(cols) * scale
        plain = L.dequantize(*L.quantize(wanted.astype(np.float32), kind), cols, kind)
        assert np.abs(stored - wanted).max() < 1.001 * np.abs(plain - wanted).max()
        back = stored @ turns(cols) / scale
        assert np.allclose(file.weights(slot.key), back, rtol=0, atol=1e-6 * np.abs(w).max())
        seen += 1
    assert seen > 4


@pytest.mark.parametrize("type_", TYPES)
def test_the_bytes_of_the_converter(type_, phasor, tmp_path):
    """A checkpoint, and its f32 file, by the same words: also a smaller type for the ends."""
    checkpoint = GOLDEN / "pytorch/separate.pt"
    exact = convert_to(checkpoint, tmp_path / "exact", "--phasor", phasor)
    words = ("--type", type_, "--output-type", "q8r" if type_ == "q4" else "q8")
    words += ("--inputs", "rotated")
    theirs = convert_to(checkpoint, tmp_path / "theirs", "--phasor", phasor, *words)
    quantize(phasor, exact, tmp_path / "ours", *words)
    assert (tmp_path / "ours").read_bytes() == theirs.read_bytes()
    told(phasor, "verify", theirs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighed", [False, True])
def test_odd_weights_and_moments(seed, weighed, phasor, tmp_path):
    given = odd_file(tmp_path / "odd", seed)
    columns = sum(slot.cols for slot in given.slots.values() if slot.matrix)
    moments = np.random.default_rng(seed).exponential(1, columns).astype(np.float32)
    moments[:7] = 0
    np.save(tmp_path / "moments.npy", moments)
    for type_ in TYPES:
        kind = L.type_code(type_)
        with replacing(tmp_path / "theirs") as file:
            writer.write_model(
                file,
                given.meta,
                lambda slot: given.weights(slot.key),
                kind,
                moments=Moments(given.descriptor, moments) if weighed else None,
                inputs=L.INPUTS_ROTATED,
            )
        words = ["--type", type_, "--inputs", "rotated", "--quiet"]
        words += ["--moments", tmp_path / "moments.npy"] if weighed else []
        quantize(phasor, tmp_path / "odd", tmp_path / "ours", *words)
        ours, theirs = (F.PhasorFile(tmp_path / name) for name in ("ours", "theirs"))
        for key in given.entries:
            assert ours.raw(key).tobytes() == theirs.raw(key).tobytes(), type_
            assert ours.entries[key].inputs == theirs.entries[key].inputs


@pytest.mark.parametrize("cols", [64, 96, 100])
def test_the_moments_of_rotated_inputs(cols):
    x = np.random.default_rng(cols).normal(size=(300, cols)) * np.exp(np.arange(cols) / cols)
    turned = x @ turns(cols)
    one = writer._rotated_moments((x**2).mean(axis=0).astype(np.float32))
    alone = np.diag(turns(cols).T @ np.diag((x**2).mean(axis=0)) @ turns(cols))
    assert np.allclose(one, alone, rtol=1e-5)
    whole = writer._rotated_moments(x.T @ x / len(x))
    block = min(64, cols & -cols)
    scale = 2.0 ** (2 * ((block.bit_length() - 1) // 2)) / block
    assert np.allclose(whole, turned.T @ turned / len(x) * scale, rtol=1e-9, atol=1e-9)


def test_second_moments(phasor, tmp_path):
    """Rounded against R·H·Rᵀ, the products of the inputs that were measured with are nearer."""
    source = GOLDEN / "models/tiny-gptj-f32.phasor"
    exact = F.PhasorFile(source)
    rng = np.random.default_rng(1)
    inputs = {
        s.key: rng.normal(size=(400, s.cols)) @ rng.normal(size=(s.cols, s.cols))
        for s in exact.slots.values()
        if s.matrix
    }
    errors = []
    for full in (False, True):

        def moments(slot: R.Slot) -> np.ndarray:
            h = inputs[slot.key].T @ inputs[slot.key] / 400
            return h if full else np.ascontiguousarray(np.diag(h), np.float32)

        with replacing(tmp_path / "m") as file:
            writer.write_model(
                file,
                exact.meta,
                lambda slot: exact.weights(slot.key),
                L.Q4,
                moments=moments,
                inputs=L.INPUTS_ROTATED,
            )
        made = F.PhasorFile(tmp_path / "m")
        errors.append(
            sum(
                float((((made.weights(key) - exact.weights(key)) @ x.T) ** 2).sum())
                for key, x in inputs.items()
                if made.entries[key].inputs == L.INPUTS_ROTATED
            )
        )
    assert 0 < errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("name", ["tiny-gptj-rotated-q8", "tiny-rotary-rotated-q4k"])
def test_the_engine_beside_the_reference(name, phasor, tmp_path):
    """Its own vectors; and as f32, where a tied embedding is rotated back too, the logits."""
    path = GOLDEN / f"models/{name}.phasor"
    told(phasor, "verify", path)
    quantize(phasor, path, tmp_path / "f32", "--type", "f32", "--quiet")
    narrow, wide = F.PhasorFile(path), F.PhasorFile(tmp_path / "f32")
    for key in narrow.slots:
        a, b = narrow.weights(key), wide.weights(key)
        assert np.allclose(a, b, rtol=0, atol=2e-6 * np.abs(a).max())
    shown = json.loads(told(phasor, "inspect", path, "--json"))["tensors"]
    turned = [t for t in shown if t.get("rotated")]
    assert len(turned) > 4 and all(t["inputs"] == 8 for t in turned)
    assert " 8 rot." in told(phasor, "inspect", path)


def test_what_is_refused(phasor, tmp_path, capsys):
    def refused(*words: object) -> str:
        assert convert.main([*map(str, words), "-o", str(tmp_path / "m.phasor")]) != 0
        line: str = capsys.readouterr().err.strip().splitlines()[-1]
        assert not (tmp_path / "m.phasor").exists()
        return line

    rotated = ("--inputs", "rotated", "--phasor", phasor)
    checkpoint = GOLDEN / "pytorch/separate.pt"
    for type_ in ("q8r", "q8rh"):
        line = refused(checkpoint, "--type", type_, *rotated)
        assert "no matrix has a scale for each group; give --type q8 or q4, or q8rh" in line
    (tmp_path / "m.gguf").write_bytes(
        test_gguf.file_bytes(
            test_gguf.metadata(),
            test_gguf.tensors(lambda name: "F32" if "norm" in name else "Q8_0")[0],
        )
    )
    for words in ((), ("--type", "q8")):
        line = refused(tmp_path / "m.gguf", *words, *rotated)
        assert "is q8 already, and what was rounded is not rounded again for rotated inputs" in line
        assert line.endswith("TRY: --inputs 16")
        out = tmp_path / "taken.phasor"
        words = (tmp_path / "m.gguf", *words, "--inputs", "16", "--phasor", phasor, "-o", out)
        assert convert.main([*map(str, words)]) == 0
        capsys.readouterr()
    rows, cols = 16, 32
    q = F.Quantized(*L.quantize(np.ones((rows, cols), np.float32), L.Q8))
    slots = F.PhasorFile(GOLDEN / "models/tiny-gptj-f32.phasor").slots.values()
    slot = next(s for s in slots if s.matrix and s.layout == L.PANEL16)
    slot = slot._replace(parts=(rows,), cols=cols)
    with pytest.raises(PhasorError, match="its values are q8 already, and not those of the"):
        writer._quantized(slot, L.Q8, q, None, L.INPUTS_ROTATED)
    source = GOLDEN / "models/tiny-gptj-f32.phasor"
    words = (source, tmp_path / "o", "--bytes", "1M", "--inputs", "rotated")
    done = quantize(phasor, *words, status=2)
    assert done.stderr == "phasor: --bytes: does not go with --inputs rotated\n"


def test_a_file_that_says_what_it_cannot_be(tmp_path):
    path = tmp_path / "m.phasor"
    for name, inputs in (("tiny-gptj-q8r", 2), ("tiny-gptj-f32", 2), ("tiny-gptj-q8", 3)):
        path.write_bytes((GOLDEN / f"models/{name}.phasor").read_bytes())
        file = F.PhasorFile(path)
        at = file.sections[F.DIRECTORY][0] + 8 + F.ENTRY_BYTES * (len(file.entries) - 1)
        with open(path, "r+b") as out:
            head = writer._read_head(out)
            head[at + 6] = inputs
            writer._write_head(out, head)
        with pytest.raises(PhasorError, match=f"inputs {inputs}, only panels of a quantized type"):
            F.PhasorFile(path)
