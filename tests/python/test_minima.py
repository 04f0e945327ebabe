"""Types with minima: bytes by hand, the quantizer, and the product that the reference says."""

import numpy as np
import pytest

from phasor.format import layout as L
from phasor.format import minima
from phasor.format import tensors as R
from phasor.reference.forward import Reference
from phasor.reference.functions import round_activations
from random_models import lm, write_random


def random(rows: int, cols: int) -> np.ndarray:
    return np.random.default_rng(rows * cols).normal(size=(rows, cols)).astype(np.float32)


def test_codes_by_hand_and_back():
    rng = np.random.default_rng(1)
    scale, least = rng.integers(0, 64, (2, 50, 8), dtype=np.uint8)
    packed = minima.pack_codes(scale, least)
    assert packed.shape == (50, 12)
    for row, b in enumerate(packed.astype(int)):
        for i in range(8):
            s = b[i] & 63 if i < 4 else b[i + 4] & 15 | b[i - 4] >> 6 << 4
            t = b[i + 4] & 63 if i < 4 else b[i + 4] >> 4 | b[i] >> 6 << 4
            assert (s, t) == (scale[row, i], least[row, i])
    back = minima.unpack_codes(packed)
    assert np.array_equal(back[0], scale) and np.array_equal(back[1], least)


FIVES = (L.Q5M, L.Q5K)


@pytest.mark.parametrize("rows, cols", [(1, 1), (16, 32), (37, 71), (20, 256), (17, 300)])
@pytest.mark.parametrize("kind", L.MINIMA)
def test_panels_and_rows_by_hand(rows, cols, kind):
    records, n = L.quantize(random(rows, cols), kind)
    groups, (size, together) = -(-cols // 32), L.RECORDS[kind]
    assert (size, together) == ((4, 1) if kind in (L.Q4M, L.Q5M) else (16, 8))
    count, of_row = -(-groups // together), 20 if kind in FIVES else 16
    assert records.shape == (rows, count) and n.shape == (rows, 32 * groups)
    assert n.min() >= 0 and n.max() <= (31 if kind in FIVES else 15) and not n[:, cols:].any()
    raw = records.view(np.uint8).reshape(rows, count, size)
    data = np.frombuffer(L.pack_panels(records, n, cols, kind), np.uint8)
    plane = 16 * count * size
    panel_bytes = L.panel_bytes(kind, cols)
    assert panel_bytes == plane + 16 * of_row * groups and data.size == -(-rows // 16) * panel_bytes
    for row in range(rows):
        panel, o = data[row // 16 * panel_bytes :][:panel_bytes], row % 16
        for r in range(count):
            of = panel[r * 16 * size :]
            assert np.array_equal(of[2 * o :][:2], raw[row, r, :2])
            assert np.array_equal(of[32 + 2 * o :][:2], raw[row, r, 2:4])
            assert all(of[64 + 16 * i + o] == raw[row, r, 4 + i] for i in range(size - 4))
        for k in range(cols):
            at = plane + k // 32 * 16 * of_row
            low = panel[at + k % 16 // 4 * 64 + o * 4 + k % 4] >> (0 if k % 32 < 16 else 4) & 15
            high = panel[at + 256 + o * 4 + k % 4] >> k % 32 // 4 & 1 if kind in FIVES else 0
            assert low + 16 * high == n[row, k]
    back = L.unpack_panels(data, cols, kind)
    assert np.array_equal(back[0][:rows], records) and np.array_equal(back[1][:rows], n)
    assert not back[0][rows:].view(np.uint8).any() and not back[1][rows:].any()
    packed = np.frombuffer(L.pack_rows(records, n, cols, kind), np.uint8)
    values = -(-rows * count * size // 64) * 64
    assert packed.size == values + rows * groups * of_row
    assert packed.size == L.tensor_bytes(kind, L.ROWS, rows, cols, 0)
    assert np.array_equal(packed[: raw.size], raw.ravel())
    assert packed[values] == int(n[0, 0]) & 15 | (int(n[0, 16]) & 15) << 4
    if kind in FIVES:
        assert packed[values + 16] == sum((int(n[0, 4 * i]) >> 4) << i for i in range(8))
    back = L.unpack_rows(packed, rows, cols, kind)
    assert np.array_equal(back[0], records) and np.array_equal(back[1], n)


@pytest.mark.parametrize("kind", L.MINIMA)
def test_the_nearest_value_of_the_grid_is_taken(kind):
    x = random(24, 300)
    records, n = L.quantize(x, kind)
    scale, least = minima.grids(records, 300, kind)
    padded = np.pad(x, ((0, 0), (0, 20)), mode="edge").reshape(24, 10, 32)
    most = 31 if kind in FIVES else 15
    grid = scale[..., None] * np.arange(most + 1) + least[..., None]
    nearest = np.abs(padded[..., None] - grid[:, :, None]).min(axis=3).reshape(24, -1)[:, :300]
    kept = L.dequantize(records, n, 300, kind)
    assert np.allclose(np.abs(kept - x), nearest, rtol=0, atol=1e-5)
    spread = padded.max(axis=2) - padded.min(axis=2)
    assert (np.abs(kept - x).reshape(24, -1)[:, :288].max() <= spread.max() / most).all()
    assert np.array_equal(L.dequantize(records, n, 300, kind, np.float32), kept.astype(np.float32))


def test_groups_that_fit_come_back():
    """Whole numbers; one value; nothing."""
    x = np.tile(np.arange(32, dtype=np.float32) % 16 - 5, (3, 2))
    for kind in L.MINIMA:
        records, n = L.quantize(np.zeros((2, 70), np.float32), kind)
        assert not records.view(np.uint8).any() and not n.any()
    assert np.array_equal(L.dequantize(*L.quantize(x, L.Q4M), 64, L.Q4M), x)
    x = np.tile(np.arange(32, dtype=np.float32) - 7, (3, 2))
    assert np.array_equal(L.dequantize(*L.quantize(x, L.Q5M), 64, L.Q5M), x)
    one = np.full((1, 33), 0.3, np.float32)
    assert np.abs(L.dequantize(*L.quantize(one, L.Q4M), 33, L.Q4M) - one).max() < 1e-6


@pytest.mark.parametrize("kind", L.MINIMA)
def test_what_does_not_fit(kind):
    name = L.TYPES[kind]
    for large in (1e9, -1e9):
        with pytest.raises(L.PhasorError, match=f"too large for {name}"):
            L.quantize(np.full((1, 40), large, np.float32) * np.arange(40, dtype=np.float32), kind)


@pytest.mark.parametrize("kind", L.MINIMA)
def test_the_product_is_that_of_two_sums(kind, tmp_path):
    """Σ n·x with the scale, and the minimum times Σ x, of rounded activations."""
    model = Reference(write_random(tmp_path / "m", lm(), kind))
    key = R.DECODER << 24 | R.FFN_IN
    x = np.random.default_rng(0).normal(size=(3, model.file.slots[key].cols))
    rounded = np.pad(round_activations(x), ((0, 0), (0, -x.shape[1] % 32))).reshape(3, -1, 32)
    stored = model.file.quantized(key)
    scale, least = minima.grids(stored.scales, x.shape[1], kind)
    n = stored.values.reshape(*scale.shape, 32).astype(np.float64)
    want = np.einsum("tgk,ogk,og->to", rounded, n, scale) + rounded.sum(axis=2) @ least.T
    assert np.allclose(model.linear(x, R.DECODER, 0, R.FFN_IN), want, rtol=1e-12, atol=1e-13)
