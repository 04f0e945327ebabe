"""q6: the layout byte by byte, the quantizer beside every scale's own best, and files of Q6_K."""

import numpy as np
import pytest

from phasor.errors import PhasorError
from phasor.format import coded, records
from phasor.format import layout as L


def random(rows: int, cols: int, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(rows, cols))
    return (x * np.exp(np.random.default_rng(seed + 1).normal(size=(rows, 1)))).astype(np.float32)


@pytest.mark.parametrize("rows, cols", [(1, 1), (16, 32), (37, 71), (20, 256), (17, 300)])
def test_panels_and_rows_by_hand(rows, cols):
    of, n = L.quantize(random(rows, cols), L.Q6)
    groups, count = -(-cols // 32), -(-cols // 256)
    assert of.shape == (rows, count) and n.shape == (rows, 32 * groups)
    assert n.min() >= 0 and n.max() <= 63 and not n[:, cols:].any()
    raw = of.view(np.uint8).reshape(rows, count, 18)
    data = np.frombuffer(L.pack_panels(of, n, cols, L.Q6), np.uint8)
    plane = -(-16 * count * 18 // 64) * 64
    panel_bytes = L.panel_bytes(L.Q6, cols)
    assert panel_bytes == plane + 384 * groups and data.size == -(-rows // 16) * panel_bytes
    for row in range(rows):
        panel, o = data[row // 16 * panel_bytes :][:panel_bytes], row % 16
        for r in range(count):
            part = panel[r * 288 :]
            assert np.array_equal(part[2 * o :][:2], raw[row, r, :2])
            assert all(part[32 + 16 * i + o] == raw[row, r, 2 + i] for i in range(16))
        for k in range(cols):
            at = plane + k // 32 * 384
            low = panel[at + k % 16 // 4 * 64 + o * 4 + k % 4] >> (k % 32 // 16 * 4) & 15
            upper = panel[at + 256 + k % 8 // 4 * 64 + o * 4 + k % 4] >> (k % 32 // 8 * 2) & 3
            assert low | upper << 4 == n[row, k]
    back = L.unpack_panels(data, cols, L.Q6)
    assert np.array_equal(back[0][:rows], of) and np.array_equal(back[1][:rows], n)
    assert not back[0][rows:].view(np.uint8).any() and not back[1][rows:].any()
    packed = np.frombuffer(L.pack_rows(of, n, cols, L.Q6), np.uint8)
    values = -(-rows * count * 18 // 64) * 64
    assert packed.size == values + rows * groups * 24 == L.tensor_bytes(L.Q6, L.ROWS, rows, cols, 0)
    assert np.array_equal(packed[: raw.size], raw.ravel())
    first = n[0].astype(int)
    assert packed[values] == first[0] & 15 | (first[16] & 15) << 4
    assert packed[values + 16] == sum((first[k] >> 4) << k // 4 for k in (0, 8, 16, 24))
    back = L.unpack_rows(packed, rows, cols, L.Q6)
    assert np.array_equal(back[0], of) and np.array_equal(back[1], n)


@pytest.mark.parametrize("cols", [256, 300, 31])
def test_values_are_the_nearest_and_scales_near_the_best(cols):
    x = random(24, cols)
    of, n = L.quantize(x, L.Q6)
    padded = np.pad(x, ((0, 0), (0, -cols % 32))).reshape(24, -1, 16).astype(np.float64)
    scale = coded.grids(of, L.Q6)[:, : padded.shape[1]]
    grid = scale[..., None, None] * np.arange(-32, 32)
    nearest = np.abs(padded[..., None] - grid).min(axis=3)
    kept = L.dequantize(of, n, cols, L.Q6)
    assert np.allclose(np.abs(kept - x), nearest.reshape(24, -1)[:, :cols], rtol=0, atol=1e-6)
    assert np.array_equal(L.dequantize(of, n, cols, L.Q6, np.float32), kept.astype(np.float32))
    # 2000 scales of any size for each 16 columns, not only those that a record can hold
    most = np.abs(padded).max(axis=2, keepdims=True)
    best = np.full(padded.shape[:2], np.inf)
    for divisor in np.concatenate([sign * np.linspace(26, 42, 1000) for sign in (-1, 1)]):
        s = np.where(most > 0, most, 1) / divisor
        error = ((padded - np.clip(np.rint(padded / s), -32, 31) * s) ** 2).sum(axis=2)
        best = np.minimum(best, error)
    assert (nearest**2).sum() < 1.12 * best.sum()


def test_moments_move_the_error_to_inputs_that_are_small():
    x, moments = random(16, 256), np.ones(256, np.float32)
    moments[::3] = 100

    def harm(weights: np.ndarray | None) -> float:
        kept = L.dequantize(*L.quantize(x, L.Q6, weights), 256, L.Q6)
        return float(((kept - x) ** 2 @ moments).sum())

    assert harm(moments) < 0.97 * harm(None)


def test_nothing_one_value_and_what_does_not_fit():
    of, n = L.quantize(np.zeros((2, 70), np.float32), L.Q6)
    assert not of.view(np.uint8).any() and not n.any()
    assert not L.dequantize(of, n, 70, L.Q6).any()
    one = np.full((1, 33), -0.3, np.float32)
    assert np.abs(L.dequantize(*L.quantize(one, L.Q6), 33, L.Q6) - one).max() < 1e-3
    for large in (1e9, -1e9):
        with pytest.raises(PhasorError, match="too large for q6"):
            L.quantize(np.full((1, 40), large, np.float32), L.Q6)


def test_a_code_of_every_size_and_a_number_of_every_sign():
    rng = np.random.default_rng(3)
    of = np.zeros((5, 2), records.record_of(L.Q6))
    of["d"] = np.array([[1, -1], [0, 6e-8], [-0.5, 3e-5], [2, 0], [1e-3, -6e-8]], np.float16)
    codes = rng.integers(-128, 128, (5, 2, 16)).astype(np.int8)
    of["codes"] = records.packed_codes(codes, L.Q6)
    n = rng.integers(0, 64, (5, 512)).astype(np.int8)
    want = [
        float(of["d"][o, k // 256]) * int(codes[o, k // 256, k % 256 // 16]) * (n[o, k] - 32)
        for o in range(5)
        for k in range(512)
    ]
    assert np.array_equal(L.dequantize(of, n, 512, L.Q6).ravel(), np.array(want))
