"""Rounding against second moments: beside OBS one column at a time in float64, beside the other
quantizers on the error of the outputs, and as a file that the engine reads."""

from pathlib import Path

import numpy as np
import pytest

from phasor import moments
from phasor.errors import PhasorError
from phasor.files import replacing
from phasor.format import layout as L
from phasor.format import second_order as S
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.writer import write_model
from phasor.moments import Moments
from places import told

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"


def inputs(cols: int, seed: int) -> np.ndarray:
    """(600, K): correlated, some channels large."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(600, cols)) @ rng.normal(size=(cols, cols)) / np.sqrt(cols)
    out: np.ndarray = mixed * np.exp(rng.normal(0, 1, cols))
    return out


def second(x: np.ndarray) -> np.ndarray:
    return x.T @ x / len(x)


@pytest.mark.parametrize("kind", [L.Q8, L.Q4, L.Q4T])
def test_beside_obs_one_column_at_a_time(kind):
    """With the scales that were found, the integers are those of optimal brain surgeon: the column
    is rounded, all others get −error/[H⁻¹]qq times row q of H⁻¹ (Hassibi and Stork 1993, equation
    5), and H⁻¹ loses the column by a step of elimination (Frantar et al. 2022, equation 3)."""
    cols, h = 64, second(inputs(64, 3))
    x = np.random.default_rng(4).normal(size=(24, cols)).astype(np.float32)
    scales, q = S.Rounder(h, cols, kind).quantize(x, kind)
    table = np.array(L.ROUNDED_TABLE, np.float64)
    whole = h + S._DAMPING * np.diag(h).mean() * np.eye(cols)
    groups = np.argsort(-np.diag(h).reshape(2, 32).sum(axis=1), kind="stable")
    order = [g * 32 + k for g in groups for k in np.argsort(-np.diag(h)[g * 32 : g * 32 + 32])]
    differ = 0
    for row in range(len(x)):
        left, inverse = x[row].astype(np.float64), np.linalg.inv(whole)
        for k in order:
            scale = float(scales[row, k // 32])
            if kind == L.Q4T:
                code = table[np.abs(left[k] / scale - table).argmin()]
            else:
                limit = 128 if kind == L.Q8 else 8
                code = np.clip(np.rint(left[k] / scale), -limit, limit - 1)
            differ += int(code != q[row, k])
            left -= (left[k] - code * scale) / inverse[k, k] * inverse[k]
            inverse -= np.outer(inverse[:, k], inverse[k]) / inverse[k, k]
            inverse[k, k] = 1  # gone: it corrects nothing any more
    assert differ <= 0.01 * x.size  # of f32 beside f64


@pytest.mark.parametrize("cols", [256, 100, 31])
@pytest.mark.parametrize("kind", S.TYPES)
def test_the_error_of_the_outputs(kind, cols):
    """On inputs that were not measured with; scales by moments alone have nearly twice of it."""
    x = np.random.default_rng(5).normal(size=(40, cols)).astype(np.float32)
    seen = inputs(cols, 6)
    h, fresh = second(seen[:400]), seen[400:]

    def error(stored: tuple[np.ndarray, np.ndarray]) -> float:
        return float((((L.dequantize(*stored, cols, kind) - x) @ fresh.T) ** 2).sum())

    stored = S.Rounder(h, cols, kind).quantize(x, kind)
    plain = L.quantize(x, kind, np.diag(h).astype(np.float32))
    shapes = [part.shape for part in plain]
    assert [part.shape for part in stored] == shapes
    assert [part.dtype for part in stored] == [part.dtype for part in plain]
    assert not np.asarray(stored[1])[:, cols:].any()
    limit = {L.Q8: 1.15, L.Q6: 1.0, L.Q4M: 0.7, L.Q4K: 0.7, L.Q5M: 0.8}.get(kind, 0.95)
    assert error(stored) < limit * error(plain)


@pytest.mark.parametrize("kind", S.TYPES)
def test_rows_alone_dead_inputs_and_weights_of_nothing(kind):
    h = second(inputs(70, 7)[:20])  # of fewer inputs than columns: singular
    h[:, 9] = h[9] = 0
    x = np.random.default_rng(8).normal(size=(6, 70)).astype(np.float32)
    x[2] = 0
    rounder = S.Rounder(h, 70, kind)
    whole = L.dequantize(*rounder.quantize(x, kind), 70, kind)
    apart = [L.dequantize(*rounder.quantize(x[i : i + 1], kind), 70, kind) for i in range(6)]
    assert np.isfinite(whole).all() and not whole[2].any()
    assert np.mean(np.concatenate(apart) != whole) < 0.02  # of f32 in another order
    with pytest.raises(PhasorError, match="a weight is too large for q"):
        S.Rounder(np.eye(70), 70, kind).quantize(np.full((1, 70), 1e12, np.float32), kind)
    with pytest.raises(PhasorError, match="second moments of"):
        S.Rounder(np.eye(64), 70, kind)


def test_moments_in_full(phasor, tmp_path):
    """Their diagonals are the moments; the array is as long as the model asks; what is none is
    refused."""
    model, text = GOLDEN / "tiny-chat-f32.phasor", tmp_path / "text"
    text.write_text("hello world, a text\n" * 20)

    def made(name: str, *flags: str) -> np.ndarray:
        words = [str(model), str(text), "-o", str(tmp_path / name), "--phasor", str(phasor)]
        assert moments.main([*words, "--tokens", "60", *flags]) == 0
        out = moments.read_moments(tmp_path / name).values
        assert np.array_equal(out, np.load(tmp_path / name))
        return out

    one, full, d = made("one.npy"), made("full.npy", "--full"), PhasorFile(model).descriptor
    plain, whole = Moments(d, one), Moments(d, full)
    for slot in [slot for slot in R.slots(d) if slot.matrix]:
        h = whole(slot)
        assert np.allclose(np.diag(h), plain(slot), rtol=1e-4, atol=1e-6)
        assert np.allclose(h, h.T, rtol=1e-4, atol=1e-5)
        assert np.linalg.eigvalsh(h.astype(np.float64)).min() > -1e-4
    for bad in (full[1:], np.full_like(full, np.nan), -full):
        with pytest.raises(PhasorError):
            Moments(d, bad)


@pytest.mark.parametrize("kind", [*S.TYPES, L.Q8R])
@pytest.mark.parametrize("name", ["tiny-lm", "tiny-bert", "tiny-opt"])
def test_a_file_of_it(phasor, kind, name, tmp_path):
    """Parts, ragged columns, tables in rows: the file checks, and the engine computes what the
    reference does with its weights; types that are not in TYPES take the diagonal."""
    given, path = PhasorFile(GOLDEN / f"{name}-f32.phasor"), tmp_path / "m.phasor"
    rng = np.random.default_rng(9)

    def hessian(slot: R.Slot) -> np.ndarray:
        x = rng.normal(size=(50, slot.cols))
        return second(x).astype(np.float32)

    with replacing(path) as file:
        write_model(file, given.meta, lambda slot: given.weights(slot.key), kind, moments=hessian)
    made = PhasorFile(path)
    made.check()
    told(phasor, "quantize", path, tmp_path / "back", "--type", "f32", "--quiet", timeout=120)
    back = PhasorFile(tmp_path / "back")
    for slot in [slot for slot in R.slots(given.descriptor) if slot.matrix]:
        ours, engines = made.weights(slot.key), back.weights(slot.key)
        assert np.allclose(ours, engines, rtol=1e-6, atol=1e-7)
        exact = given.weights(slot.key)
        assert np.abs(ours - exact).mean() < 0.2 * np.abs(exact).mean()
