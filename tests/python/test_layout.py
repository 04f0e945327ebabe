"""CRC-32C, quantiser, packing: what the bytes of a tensor are."""

import numpy as np
import pytest

import phasor_layout as L


def slow_crc(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_crc_check_value():
    assert L.crc32c(b"123456789") == 0xE3069283
    assert L.crc32c(b"") == 0
    assert L.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert L.crc32c(b"\xff" * 32) == 0x62A8AB43


@pytest.mark.parametrize("size", [1, 31, 64, 65, 511, 512, 513, 1024, 5000])
def test_crc_of_every_length(size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    assert L.crc32c(data) == slow_crc(data)


def test_crc_in_pieces():
    data = np.random.default_rng(1).integers(0, 256, 9_000_001, dtype=np.uint8)
    whole = L.crc32c(data)
    for at in (1, 100, 4 << 20, 8_999_999):
        assert L.crc32c(data[at:], L.crc32c(data[:at])) == whole
        assert L.crc32c_join(L.crc32c(data[:at]), L.crc32c(data[at:]), data.size - at) == whole


def test_quantiser_by_hand():
    x = np.zeros((1, 34), np.float32)
    x[0, :4] = [127, -127, 0.5, 1.5]  # scale 1: half to even
    x[0, 32:] = [-2.0, 1.0]
    scales, q = L.quantize_q8(x)
    assert scales.tolist() == [[1.0, np.float16(2 / 127)]]
    assert q[0, :4].tolist() == [127, -127, 0, 2]
    assert q[0, 32:34].tolist() == [-127, 64 if np.rint(np.float32(1) / np.float32(scales[0, 1])) == 64 else 63]
    assert not q[0, 34:].any()


def test_quantiser_is_within_half_a_step():
    x = np.random.default_rng(2).normal(size=(50, 70)).astype(np.float32)
    scales, q = L.quantize_q8(x)
    error = np.abs(L.dequantize_q8(scales, q, 70) - x)
    step = np.repeat(scales.astype(np.float64), 32, axis=1)[:, :70]
    assert q.min() >= -127
    assert (error <= step * 0.5625).all()  # half a step, and the rounding of the scale at the ends


def test_quantiser_of_nothing_and_too_much():
    scales, q = L.quantize_q8(np.full((2, 32), 1e-9, np.float32))
    assert not scales.any() and not q.any()
    with pytest.raises(L.PhasorError, match="too large for q8"):
        L.quantize_q8(np.full((1, 32), 1e8, np.float32))


def test_subnormals_are_zero():
    tiny = np.finfo(np.float32).tiny
    given = np.array([tiny, tiny / 2, -tiny / 2, -tiny, 0, 1], np.float32)
    assert L.flush_subnormals(given).tolist() == [tiny, 0, 0, -tiny, 0, 1]


@pytest.mark.parametrize("rows,cols", [(1, 1), (16, 32), (17, 33), (40, 52), (5, 100)])
def test_panels_by_the_page(rows, cols):
    """Element by element, by the index formulas of docs/format.md."""
    x = np.random.default_rng(rows).normal(size=(rows, cols)).astype(np.float32)
    data = np.frombuffer(L.pack_panels_f32(x), "<f4")
    size = cols * 16
    for o in range(rows):
        for k in range(cols):
            assert data[o // 16 * size + k * 16 + o % 16] == x[o, k]
    assert np.array_equal(L.unpack_panels_f32(data.view(np.uint8), cols)[:rows], x)
    scales, q = L.quantize_q8(x)
    data = np.frombuffer(L.pack_panels_q8(scales, q), np.uint8)
    groups = -(-cols // 32)
    size = L.panel_bytes(L.Q8, cols)
    assert data.size == size * -(-rows // 16)
    plane = -(-groups * 32 // 64) * 64
    for o in range(rows):
        panel = data[o // 16 * size:][:size]
        plane_values = panel[:groups * 32].view("<f2").reshape(groups, 16)
        body = panel[plane:].view(np.int8).reshape(groups, 8, 16, 4)
        for k in range(cols):
            g, j, c = k // 32, k % 32 // 4, k % 4
            assert body[g, j, o % 16, c] == q[o, k] and plane_values[g, o % 16] == scales[o, g]
    back = L.unpack_panels_q8(data, cols)
    assert np.array_equal(back[0][:rows], scales) and np.array_equal(back[1][:rows], q)
    assert not back[0][rows:].any() and not back[1][rows:].any()


def test_rows_q8():
    x = np.random.default_rng(3).normal(size=(5, 40)).astype(np.float32)
    scales, q = L.quantize_q8(x)
    data = np.frombuffer(L.pack_rows_q8(scales, q), np.uint8)
    assert data.size == L.tensor_bytes(L.Q8, L.ROWS, 5, 40, 0) == 64 + 5 * 64
    back = L.unpack_rows_q8(data, 5, 40)
    assert np.array_equal(back[0], scales) and np.array_equal(back[1], q)


@pytest.mark.parametrize("rows,cols", [(1, 1), (16, 32), (17, 33), (40, 51)])
def test_halves_and_nibbles_by_the_page(rows, cols):
    """Element by element, by the index formulas of docs/format.md."""
    x = np.random.default_rng(rows).normal(size=(rows, cols)).astype(np.float32)
    for kind in L.HALVES:
        halves = L.halves_of(x, kind)
        data = np.frombuffer(L.pack_panels_halves(halves, kind), "<u2")
        size = L.panel_bytes(kind, cols) // 2
        assert data.size == size * -(-rows // 16)
        for o in range(rows):
            for k in range(cols):
                at = k * 16 + o % 16 if kind == L.F16 else k // 2 * 32 + o % 16 * 2 + k % 2
                assert data[o // 16 * size + at] == halves[o, k]
        assert np.array_equal(L.unpack_panels_halves(data.view(np.uint8), kind, cols)[:rows], halves)
    scales, q = L.quantize_q4(x)
    data = np.frombuffer(L.pack_panels_q4(scales, q, cols), np.uint8)
    groups, size = -(-cols // 32), L.panel_bytes(L.Q4, cols)
    plane = -(-groups * 32 // 64) * 64
    assert data.size == size * -(-rows // 16)
    for o in range(rows):
        panel = data[o // 16 * size:][:size]
        body = panel[plane:].reshape(groups, 4, 16, 4)
        for k in range(groups * 32):
            byte = body[k // 32, k % 16 // 4, o % 16, k % 4]
            nibble = byte & 15 if k % 32 < 16 else byte >> 4
            assert nibble == (q[o, k] + 8 if k < cols else 0)
    back = L.unpack_panels_q4(data, cols)
    assert np.array_equal(back[0][:rows], scales) and np.array_equal(back[1][:rows, :cols], q[:, :cols])
    packed = np.frombuffer(L.pack_rows_q4(scales, q, cols), np.uint8)
    assert packed.size == L.tensor_bytes(L.Q4, L.ROWS, rows, cols, 0)
    back = L.unpack_rows_q4(packed, rows, cols)
    assert np.array_equal(back[0], scales) and np.array_equal(back[1][:, :cols], q[:, :cols])


def test_bf16_rounds_to_even_and_f16_is_numpys():
    given = np.array([1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -1 - 2 ** -7], np.float32)
    assert L.widen(L.halves_of(given, L.BF16), L.BF16).tolist() == [1, 1, 1 + 2 ** -6, 1 + 2 ** -7, -1 - 2 ** -7]
    x = np.random.default_rng(4).normal(size=(4, 70)).astype(np.float32)
    assert np.array_equal(L.widen(L.halves_of(x, L.F16), L.F16), x.astype(np.float16).astype(np.float32))
    assert np.array_equal(L.widen(L.halves_of(np.float32([2 ** -24]), L.F16), L.F16), np.float32([2 ** -24]))  # an f16 subnormal is kept
    for kind, large in ((L.F16, 1e5), (L.BF16, 3.4e38)):
        with pytest.raises(L.PhasorError, match=f"too large for {L.TYPES[kind]}"):
            L.halves_of(np.float32([large]), kind)


def test_q4_is_no_worse_than_the_plain_scale():
    """Of squared error, beside the scale m/−8 that GGUF's Q4_0 takes; values that are q4 already come back."""
    x = np.random.default_rng(5).normal(size=(60, 96)).astype(np.float32)
    scales, q = L.quantize_q4(x)
    grouped = x.reshape(60, 3, 32).astype(np.float64)
    extreme = np.take_along_axis(grouped, np.abs(grouped).argmax(axis=2)[..., None], axis=2)
    plain = (extreme / -8).astype(np.float16).astype(np.float64)
    theirs = (np.clip(np.rint(grouped / plain), -8, 7) * plain - grouped) ** 2
    ours = (L.dequantize_q8(scales, q, 96).reshape(60, 3, 32) - grouped) ** 2
    assert (ours.sum(axis=2) <= theirs.sum(axis=2) * (1 + 1e-6)).all() and ours.sum() < 0.95 * theirs.sum()
    again = L.quantize_q4(L.dequantize_q8(scales, q, 96).astype(np.float32))
    assert np.array_equal(L.dequantize_q8(*again, 96), L.dequantize_q8(scales, q, 96))
    with pytest.raises(L.PhasorError, match="too large for q4"):
        L.quantize_q4(np.full((1, 32), 1e8, np.float32))
    assert not L.quantize_q4(np.zeros((1, 32), np.float32))[1].any()


def test_types_that_a_layout_does_not_have_are_refused_by_name():
    with pytest.raises(L.PhasorError, match="type f16 in layout vector does not exist"):
        L.require_built(L.F16, L.VECTOR)


def test_unknown_names():
    with pytest.raises(L.PhasorError, match="no type is called"):
        L.type_code("f31")
    with pytest.raises(L.PhasorError, match="layout 9 is not known"):
        L.require_built(L.F32, 9)
