"""q6, q4x and q3: the layout byte by byte, the quantizer beside every scale's own best, and records
of any codes."""

import numpy as np
import pytest

from phasor.errors import PhasorError
from phasor.format import coded, records
from phasor.format import layout as L

KINDS = pytest.mark.parametrize("kind", L.CODED, ids=L.TYPES.get)
# By hand: columns of a scale, bytes of a record, and the fields of a code.
WIDTH = {L.Q6: 16, L.Q4X: 32, L.Q3: 16}
RECORD = {L.Q6: 18, L.Q4X: 8, L.Q3: 14}
FIELDS = {L.Q6: (4, 2), L.Q4X: (4,), L.Q3: (2, 1)}
VALUES = {
    L.Q6: np.arange(-32, 32),
    L.Q4X: np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]),
    L.Q3: np.arange(-4, 4),
}


def random(rows: int, cols: int, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(rows, cols))
    return (x * np.exp(np.random.default_rng(seed + 1).normal(size=(rows, 1)))).astype(np.float32)


def code_by_hand(record: np.ndarray, kind: int, i: int) -> int:
    """Of a record's bytes scale i's code."""
    codes = record[2:].astype(int)
    if kind == L.Q6:
        return int(np.uint8(codes[i]).view(np.int8))
    count = 256 // WIDTH[kind]
    low = codes[i % (count // 2)] >> 4 * (i // (count // 2)) & 15
    upper = codes[count // 2 + i % (count // 4)] >> 2 * (i // (count // 4)) & 3
    return int(low | upper << 4) - 32


@KINDS
@pytest.mark.parametrize("rows, cols", [(1, 1), (16, 32), (37, 71), (20, 256), (17, 300)])
def test_panels_and_rows_by_hand(kind, rows, cols):
    of, n = L.quantize(random(rows, cols), kind)
    groups, count, size = -(-cols // 32), -(-cols // 256), RECORD[kind]
    bits = sum(FIELDS[kind])
    assert of.shape == (rows, count) and n.shape == (rows, 32 * groups)
    assert n.min() >= 0 and n.max() < 1 << bits and not n[:, cols:].any()
    raw = of.view(np.uint8).reshape(rows, count, size)
    data = np.frombuffer(L.pack_panels(of, n, cols, kind), np.uint8)
    plane = -(-16 * count * size // 64) * 64
    panel_bytes = L.panel_bytes(kind, cols)
    assert panel_bytes == plane + 64 * bits * groups
    assert data.size == -(-rows // 16) * panel_bytes
    for row in range(rows):
        panel, o = data[row // 16 * panel_bytes :][:panel_bytes], row % 16
        for r in range(count):
            part = panel[r * 16 * size :]
            assert np.array_equal(part[2 * o :][:2], raw[row, r, :2])
            assert all(part[32 + 16 * i + o] == raw[row, r, 2 + i] for i in range(size - 2))
        for k in range(cols):
            at, code, below = plane + k // 32 * 64 * bits, 0, 0
            for field in FIELDS[kind]:
                apart = 4 * field  # values that share a byte
                byte = panel[at + k % apart // 4 * 64 + o * 4 + k % 4]
                code |= (int(byte) >> k % 32 // apart * field & (1 << field) - 1) << below
                at, below = at + 64 * field, below + field
            assert code == n[row, k]
    back = L.unpack_panels(data, cols, kind)
    assert np.array_equal(back[0][:rows], of) and np.array_equal(back[1][:rows], n)
    assert not back[0][rows:].view(np.uint8).any() and not back[1][rows:].any()
    packed = np.frombuffer(L.pack_rows(of, n, cols, kind), np.uint8)
    values = -(-rows * count * size // 64) * 64
    assert packed.size == values + rows * groups * 4 * bits
    assert packed.size == L.tensor_bytes(kind, L.ROWS, rows, cols, 0)
    assert np.array_equal(packed[: raw.size], raw.ravel())
    at, below = values, 0
    for field in FIELDS[kind]:
        places = range(0, 32, 4 * field)
        mask = (1 << field) - 1
        want = sum((int(n[0, k]) >> below & mask) << k // (4 * field) * field for k in places)
        assert packed[at] == want
        at, below = at + 4 * field, below + field
    back = L.unpack_rows(packed, rows, cols, kind)
    assert np.array_equal(back[0], of) and np.array_equal(back[1], n)


@KINDS
@pytest.mark.parametrize("cols", [256, 300, 31])
def test_values_are_the_nearest_and_scales_near_the_best(kind, cols):
    x, width, values = random(24, cols), WIDTH[kind], VALUES[kind]
    of, n = L.quantize(x, kind)
    padded = np.pad(x, ((0, 0), (0, -cols % 32))).reshape(24, -1, width).astype(np.float64)
    real = np.pad(np.ones((24, cols)), ((0, 0), (0, -cols % 32))).reshape(padded.shape)
    scale = coded.grids(of, kind)[:, : padded.shape[1]]
    nearest = np.abs(padded[..., None] - scale[..., None, None] * values).min(axis=3) * real
    kept = L.dequantize(of, n, cols, kind)
    assert np.allclose(np.abs(kept - x), nearest.reshape(24, -1)[:, :cols], rtol=0, atol=1e-6)
    assert np.array_equal(L.dequantize(of, n, cols, kind, np.float32), kept.astype(np.float32))
    # 2000 scales of any size for each few columns, not only those that a record can hold
    most = np.abs(padded).max(axis=2, keepdims=True)
    best = np.full(padded.shape[:2], np.inf)
    middle = values[-1] + 1
    for share in np.concatenate([sign * np.linspace(0.7, 1.4, 1000) for sign in (-1, 1)]):
        s = np.where(most > 0, most, 1) / (share * middle)
        place = np.abs((padded / s)[..., None] - values).argmin(axis=3)
        error = ((padded - values[place] * s) ** 2 * real).sum(axis=2)
        best = np.minimum(best, error)
    assert (nearest**2).sum() < 1.12 * best.sum()


@KINDS
def test_moments_move_the_error_to_inputs_that_are_small(kind):
    x, moments = random(16, 256), np.ones(256, np.float32)
    moments[::3] = 100

    def harm(weights: np.ndarray | None) -> float:
        kept = L.dequantize(*L.quantize(x, kind, weights), 256, kind)
        return float(((kept - x) ** 2 @ moments).sum())

    assert harm(moments) < 0.97 * harm(None)


@KINDS
def test_nothing_one_value_and_what_does_not_fit(kind):
    of, n = L.quantize(np.zeros((2, 70), np.float32), kind)
    assert not of["d"].view(np.uint16).any() and not n.any()
    assert not L.dequantize(of, n, 70, kind).any()
    one = np.full((1, 33), -0.3, np.float32)
    assert np.abs(L.dequantize(*L.quantize(one, kind), 33, kind) - one).max() < 1e-3
    for large in (1e9, -1e9):
        with pytest.raises(PhasorError, match=f"too large for {L.TYPES[kind]}"):
            L.quantize(np.full((1, 40), large, np.float32), kind)


@KINDS
def test_codes_of_columns_that_there_are_not_have_no_bits(kind):
    of, _ = L.quantize(random(3, 70), kind)
    raw = of.view(np.uint8).reshape(3, RECORD[kind])
    nothing = 0 if kind == L.Q6 else -32
    for i in range(256 // WIDTH[kind]):
        codes = [code_by_hand(row, kind, i) for row in raw]
        assert i * WIDTH[kind] < 70 or codes == [nothing] * 3


@KINDS
def test_a_code_of_every_size_and_a_number_of_every_sign(kind):
    rng, width = np.random.default_rng(3), WIDTH[kind]
    of = np.zeros((5, 2), records.record_of(kind))
    of["d"] = np.array([[1, -1], [0, 6e-8], [-0.5, 3e-5], [2, 0], [1e-3, -6e-8]], np.float16)
    of["codes"] = rng.integers(0, 256, of["codes"].shape)
    n = rng.integers(0, len(VALUES[kind]), (5, 512)).astype(np.int8)
    raw = of.view(np.uint8).reshape(5, 2, RECORD[kind])
    want = [
        float(of["d"][o, k // 256])
        * code_by_hand(raw[o, k // 256], kind, k % 256 // width)
        * VALUES[kind][n[o, k]]
        for o in range(5)
        for k in range(512)
    ]
    assert np.array_equal(L.dequantize(of, n, 512, kind).ravel(), np.array(want))
    codes = records.scale_codes(of["codes"], kind)
    assert np.array_equal(records.packed_codes(codes, kind), of["codes"])
