"""CRC-32C, quantizer, packing: what the bytes of a tensor are."""

import numpy as np
import pytest

from phasor.format import checksum, scales
from phasor.format import layout as L


def slow_crc(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_crc_check_value():
    assert checksum.crc32c(b"123456789") == 0xE3069283
    assert checksum.crc32c(b"") == 0
    assert checksum.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert checksum.crc32c(b"\xff" * 32) == 0x62A8AB43


@pytest.mark.parametrize("size", [1, 31, 64, 65, 511, 512, 513, 1024, 5000])
def test_crc_of_every_length(size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    assert checksum.crc32c(data) == slow_crc(data)


def test_crc_in_pieces():
    data = np.random.default_rng(1).integers(0, 256, 9_000_001, dtype=np.uint8)
    whole = checksum.crc32c(data)
    for at in (1, 100, 4 << 20, 8_999_999):
        assert checksum.crc32c(data[at:], checksum.crc32c(data[:at])) == whole
        assert (
            checksum.crc32c_join(
                checksum.crc32c(data[:at]), checksum.crc32c(data[at:]), data.size - at
            )
            == whole
        )


def test_quantizer_by_hand():
    x = np.zeros((1, 34), np.float32)
    x[0, :4] = [127, -127, 1, 2]  # scale 1 is exact
    x[0, 32:] = [-2.0, 1.0]  # and -128, 64 of a power of two
    scales, q = L.quantize(x, L.Q8)
    assert scales.tolist() == [[1.0, 2.0**-6]]
    assert q[0, :4].tolist() == [127, -127, 1, 2] and q[0, 32:34].tolist() == [-128, 64]
    assert not q[0, 34:].any()


def test_quantizer_of_nothing_and_too_much():
    for kind in (L.Q8, L.Q4):
        scales, q = L.quantize(np.full((2, 32), 1e-9, np.float32), kind)
        assert not scales.view(np.uint16).any() and not q.any()
        assert (
            not L.quantize(np.full((2, 32), -1e-9, np.float32), kind)[0].view(np.uint16).any()
        )  # no −0
        for large in (1e8, -1e8, 1e30, 3e38):
            with pytest.raises(L.PhasorError, match=f"too large for {L.TYPES[kind]}"):
                L.quantize(np.full((1, 32), large, np.float32), kind)


def test_subnormals_are_zero():
    tiny = np.finfo(np.float32).tiny
    given = np.array([tiny, tiny / 2, -tiny / 2, -tiny, 0, 1], np.float32)
    assert L.flush_subnormals(given).tolist() == [tiny, 0, 0, -tiny, 0, 1]


@pytest.mark.parametrize("rows,cols", [(1, 1), (16, 32), (17, 33), (40, 52), (5, 100)])
def test_panels_by_the_page(rows, cols):
    """Element by element, by the index formulas of docs/reference/file-format.md."""
    x = np.random.default_rng(rows).normal(size=(rows, cols)).astype(np.float32)
    data = np.frombuffer(L.pack_numbers(x, L.F32), "<f4")
    size = cols * 16
    for o in range(rows):
        for k in range(cols):
            assert data[o // 16 * size + k * 16 + o % 16] == x[o, k]
    assert np.array_equal(L.unpack_numbers(data.view(np.uint8), L.F32, cols)[:rows], x)
    scales, q = L.quantize(x, L.Q8)
    data = np.frombuffer(L.pack_panels(scales, q, cols, L.Q8), np.uint8)
    groups = -(-cols // 32)
    size = L.panel_bytes(L.Q8, cols)
    assert data.size == size * -(-rows // 16)
    plane = -(-groups * 32 // 64) * 64
    for o in range(rows):
        panel = data[o // 16 * size :][:size]
        plane_values = panel[: groups * 32].view("<f2").reshape(groups, 16)
        body = panel[plane:].view(np.int8).reshape(groups, 8, 16, 4)
        for k in range(cols):
            g, j, c = k // 32, k % 32 // 4, k % 4
            assert body[g, j, o % 16, c] == q[o, k] and plane_values[g, o % 16] == scales[o, g]
    back = L.unpack_panels(data, cols, L.Q8)
    assert np.array_equal(back[0][:rows], scales) and np.array_equal(back[1][:rows], q)
    assert not back[0][rows:].any() and not back[1][rows:].any()


def test_rows_q8():
    x = np.random.default_rng(3).normal(size=(5, 40)).astype(np.float32)
    scales, q = L.quantize(x, L.Q8)
    data = np.frombuffer(L.pack_rows(scales, q, 40, L.Q8), np.uint8)
    assert data.size == L.tensor_bytes(L.Q8, L.ROWS, 5, 40, 0) == 64 + 5 * 64
    back = L.unpack_rows(data, 5, 40, L.Q8)
    assert np.array_equal(back[0], scales) and np.array_equal(back[1], q)


@pytest.mark.parametrize("rows,cols", [(1, 1), (16, 32), (17, 33), (40, 51)])
def test_halves_and_nibbles_by_the_page(rows, cols):
    """Element by element, by the index formulas of docs/reference/file-format.md."""
    x = np.random.default_rng(rows).normal(size=(rows, cols)).astype(np.float32)
    for kind in L.HALVES:
        halves = L.halves_of(x, kind)
        data = np.frombuffer(L.pack_numbers(halves, kind), "<u2")
        size = L.panel_bytes(kind, cols) // 2
        assert data.size == size * -(-rows // 16)
        for o in range(rows):
            for k in range(cols):
                at = k * 16 + o % 16 if kind == L.F16 else k // 2 * 32 + o % 16 * 2 + k % 2
                assert data[o // 16 * size + at] == halves[o, k]
        assert np.array_equal(L.unpack_numbers(data.view(np.uint8), kind, cols)[:rows], halves)
    scales, q = L.quantize(x, L.Q4)
    data = np.frombuffer(L.pack_panels(scales, q, cols, L.Q4), np.uint8)
    groups, size = -(-cols // 32), L.panel_bytes(L.Q4, cols)
    plane = -(-groups * 32 // 64) * 64
    assert data.size == size * -(-rows // 16)
    for o in range(rows):
        panel = data[o // 16 * size :][:size]
        body = panel[plane:].reshape(groups, 4, 16, 4)
        for k in range(groups * 32):
            byte = body[k // 32, k % 16 // 4, o % 16, k % 4]
            nibble = byte & 15 if k % 32 < 16 else byte >> 4
            assert nibble == (q[o, k] + 8 if k < cols else 0)
    back = L.unpack_panels(data, cols, L.Q4)
    assert np.array_equal(back[0][:rows], scales) and np.array_equal(
        back[1][:rows, :cols], q[:, :cols]
    )
    packed = np.frombuffer(L.pack_rows(scales, q, cols, L.Q4), np.uint8)
    assert packed.size == L.tensor_bytes(L.Q4, L.ROWS, rows, cols, 0)
    back = L.unpack_rows(packed, rows, cols, L.Q4)
    assert np.array_equal(back[0], scales) and np.array_equal(back[1][:, :cols], q[:, :cols])


def test_bf16_rounds_to_even_and_f16_is_numpys():
    given = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-7], np.float32)
    assert L.widen(L.halves_of(given, L.BF16), L.BF16).tolist() == [
        1,
        1,
        1 + 2**-6,
        1 + 2**-7,
        -1 - 2**-7,
    ]
    x = np.random.default_rng(4).normal(size=(4, 70)).astype(np.float32)
    assert np.array_equal(
        L.widen(L.halves_of(x, L.F16), L.F16), x.astype(np.float16).astype(np.float32)
    )
    assert np.array_equal(
        L.widen(L.halves_of(np.float32([2**-24]), L.F16), L.F16), np.float32([2**-24])
    )  # an f16 subnormal is kept
    for kind, large in ((L.F16, 1e5), (L.BF16, 3.4e38)):
        with pytest.raises(L.PhasorError, match=f"too large for {L.TYPES[kind]}"):
            L.halves_of(np.float32([large]), kind)


def test_q4_is_no_worse_than_the_plain_scale():
    """Of squared error, beside the scale m/−8 that GGUF's Q4_0 takes; values that are q4 already
    come back."""
    x = np.random.default_rng(5).normal(size=(60, 96)).astype(np.float32)
    scales, q = L.quantize(x, L.Q4)
    grouped = x.reshape(60, 3, 32).astype(np.float64)
    extreme = np.take_along_axis(grouped, np.abs(grouped).argmax(axis=2)[..., None], axis=2)
    plain = (extreme / -8).astype(np.float16).astype(np.float64)
    theirs = (np.clip(np.rint(grouped / plain), -8, 7) * plain - grouped) ** 2
    ours = (L.dequantize_q8(scales, q, 96).reshape(60, 3, 32) - grouped) ** 2
    assert (
        ours.sum(axis=2) <= theirs.sum(axis=2) * (1 + 1e-6)
    ).all() and ours.sum() < 0.95 * theirs.sum()
    again = L.quantize(L.dequantize_q8(scales, q, 96).astype(np.float32), L.Q4)
    assert np.array_equal(L.dequantize_q8(*again, 96), L.dequantize_q8(scales, q, 96))


def groups_of(seed: int) -> np.ndarray:
    """(M, 32) f32 of many kinds: normal, with outliers, sparse, of two values, tiny, large, on the
    lattice of q4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(7, 40, 32))
    x[1] *= np.where(rng.random(x[1].shape) < 0.05, 20, 1)
    x[2] *= rng.random(x[2].shape) < 0.1
    x[3] = np.sign(x[3])
    x[4] *= 1e-6
    x[5] *= 1e4
    x[6] = rng.integers(-8, 8, x[6].shape) * np.float16(0.37)
    return x.reshape(-1, 32).astype(np.float32)


def squared_error(x: np.ndarray, scale: np.ndarray, kind: int, weight: np.ndarray) -> np.ndarray:
    """float64: of each group with these f16 scales and the best integers."""
    wide, limits = scale.astype(np.float64)[:, None], (-128, 127) if kind == L.Q8 else (-8, 7)
    q = np.clip(np.rint(np.divide(x, wide, where=wide != 0, out=np.zeros(x.shape))), *limits)
    return (weight * (x - q * wide) ** 2).sum(axis=1)


@pytest.mark.parametrize("kind", (L.Q8, L.Q4))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_search_beside_plain_float64(kind, seed, weighted):
    """Each group against 2,000 scales in float64, and against the rule of llama.cpp's type."""
    x = groups_of(seed)
    moments = (
        np.random.default_rng(seed).gamma(0.7, size=32).astype(np.float32) if weighted else None
    )
    weight = np.ones(32) if moments is None else moments.astype(np.float64)
    scales, q = L.quantize(x, kind, moments)
    error = (weight * (L.dequantize_q8(scales, q, 32) - x) ** 2).sum(axis=1)
    wide = x.astype(np.float64)
    extreme = np.take_along_axis(wide, np.abs(wide).argmax(axis=1)[:, None], axis=1)[:, 0]
    theirs = squared_error(
        wide, (extreme / (127 if kind == L.Q8 else -8)).astype(np.float16), kind, weight
    )
    assert (error <= theirs * (1 + 1e-5) + 1e-30).all()
    spread = (
        np.linspace(100, 140, 2000)
        if kind == L.Q8
        else np.concatenate([np.linspace(-16, -4, 1000), np.linspace(4, 16, 1000)])
    )
    best = np.min(
        [squared_error(wide, (extreme / d).astype(np.float16), kind, weight) for d in spread],
        axis=0,
    )
    normal = slice(0, 40)
    assert (
        error[normal].sum()
        <= (1.1 if kind == L.Q8 else 1.01 if not weighted else 1.06) * best[normal].sum()
    )
    assert error[normal].sum() < (0.85 if kind == L.Q8 else 0.92) * theirs[normal].sum()
    ours = L.dequantize_q8(scales, q, 32)[240:]
    assert kind == L.Q8 or np.array_equal(ours, wide[240:])  # what is q4 already comes back


@pytest.mark.parametrize("weighted", [False, True])
def test_q4t_beside_every_scale_in_plain_float64(weighted):
    """Each group against 1,600 scales, each value against all 16 of the table, in float64; and
    against q4, whose values are as many and evenly spaced."""
    x = groups_of(4)
    wide, table = x.astype(np.float64), np.array(L.ROUNDED_TABLE, np.float64)
    moments = np.random.default_rng(4).gamma(0.7, size=32).astype(np.float32) if weighted else None
    weight = np.ones(32) if moments is None else moments.astype(np.float64)

    def best_with(scale: np.ndarray) -> np.ndarray:
        values = scale.astype(np.float64)[:, None] * table  # (M, 16)
        return (weight * np.min((wide[:, :, None] - values[:, None]) ** 2, axis=2)).sum(axis=1)

    scales, q = L.quantize(x, L.Q4T, moments)
    assert np.isin(q, L.ROUNDED_TABLE).all()
    error = (weight * (L.dequantize_q8(scales, q, 32) - x) ** 2).sum(axis=1)
    assert np.allclose(error, best_with(scales[:, 0]), rtol=1e-5, atol=1e-12)  # the nearest of 16
    extreme = np.take_along_axis(wide, np.abs(wide).argmax(axis=1)[:, None], axis=1)[:, 0]
    spread = np.concatenate([np.linspace(-200, -70, 800), np.linspace(70, 200, 800)])
    best = np.min([best_with((extreme / d).astype(np.float16)) for d in spread], axis=0)
    normal = slice(0, 40)
    assert error[normal].sum() <= (1.05 if weighted else 1.01) * best[normal].sum()
    even = weight * (L.dequantize_q8(*L.quantize(x, L.Q4, moments), 32) - x) ** 2
    assert error[normal].sum() < 0.9 * even[normal].sum()


@pytest.mark.parametrize("kind", (L.Q8, L.Q4, L.Q4T))
def test_moments_of_one_change_nothing_and_blocks_do_not_matter(kind, monkeypatch):
    x = np.random.default_rng(9).normal(size=(37, 100)).astype(np.float32)
    want = L.quantize(x, kind)
    for got in (
        L.quantize(x, kind, np.ones(100, np.float32)),
        (monkeypatch.setattr(scales, "_AT_ONCE", 3), L.quantize(x, kind))[1],
    ):
        assert np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1])


def test_types_that_a_layout_does_not_have_are_refused_by_name():
    with pytest.raises(L.PhasorError, match="type f16 in layout vector does not exist"):
        L.require_built(L.F16, L.VECTOR)


def test_unknown_names():
    with pytest.raises(L.PhasorError, match="no type is called"):
        L.type_code("f31")
    with pytest.raises(L.PhasorError, match="layout 9 is not known"):
        L.require_built(L.F32, 9)


@pytest.mark.parametrize("cols", [1, 6, 30, 64, 96, 100, 192])
def test_rotation_is_hadamards_and_undone(cols):
    x = np.random.default_rng(cols).normal(size=(3, cols))
    block = L.rotation_block(cols)
    assert cols % block == 0 and (block == 64 or cols // block % 2)
    hadamard = np.array(
        [[1 - 2 * (bin(i & j).count("1") % 2) for j in range(block)] for i in range(block)]
    )
    wanted = (x.reshape(3, -1, block) @ hadamard).reshape(3, cols) * L.rotation_scale(block) / block
    assert np.allclose(L.rotate_inputs(x), wanted, rtol=1e-12, atol=1e-14)
    assert np.allclose(L.rotate_weights(L.rotate_inputs(x)), x, rtol=1e-12, atol=1e-14)
    product = L.rotate_inputs(x) @ L.rotate_weights(x).T  # what the engine sums
    assert np.allclose(product, x @ x.T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rows, cols", [(1, 1), (16, 64), (37, 71), (35, 96), (20, 192)])
@pytest.mark.parametrize("kind", (L.Q8R, L.Q8RH))
def test_rows_with_one_scale(rows, cols, kind):
    """Panels and rows by hand, and back; each row's largest value is ±127."""
    x = np.random.default_rng(rows * cols).normal(size=(rows, cols)).astype(np.float32)
    scales, q = L.quantize(x, kind)
    padded = -(-cols // 64) * 64
    assert scales.shape == (rows, 1) and scales.dtype == np.float32 and q.shape == (rows, padded)
    assert (np.abs(q).max(axis=1) == 127).all() and not q[:, cols:].any()
    kept = L.dequantize(scales, q, cols, kind)
    assert np.abs(kept - x).max() <= scales.max() * (0.501 if kind == L.Q8R else 8)
    data = np.frombuffer(L.pack_panels(scales, q, cols, kind), np.uint8)
    size = L.panel_bytes(kind, cols)
    assert size == 64 + padded * 16 and data.size == -(-rows // 16) * size
    for row in range(rows):
        panel = data[row // 16 * size :][:size]
        assert panel[row % 16 * 4 :][:4].view("<f4")[0] == scales[row, 0]
        for k in range(cols):
            at = 64 + k // 4 * 64 + row % 16 * 4 + k % 4
            assert panel[at].view(np.int8) == q[row, k]
    back = L.unpack_panels(data, cols, kind)
    assert np.array_equal(back[0][:rows], scales) and np.array_equal(back[1][:rows], q)
    assert not back[0][rows:].any() and not back[1][rows:].any()
    packed = np.frombuffer(L.pack_rows(scales, q, cols, kind), np.uint8)
    assert packed.size == L.tensor_bytes(kind, L.ROWS, rows, cols, 0)
    assert packed.size == -(-rows * 4 // 64) * 64 + rows * padded
    back = L.unpack_rows(packed, rows, cols, kind)
    assert np.array_equal(back[0], scales) and np.array_equal(back[1], q)


def test_rows_of_nothing_and_too_much():
    for kind in (L.Q8R, L.Q8RH):
        for size in (0.0, 1e-12, -1e-12, 1e-40):
            scales, q = L.quantize(np.full((2, 32), size, np.float32), kind)
            assert not scales.view(np.uint32).any() and not q.any()
        tensor_bytes = L.tensor_bytes(kind, L.PANEL16, 16, L.MOST_IN_ROW, 1)
        assert tensor_bytes == 64 + 16 * 132160
        with pytest.raises(L.PhasorError, match="132105 inputs, q8rh? has at most 132104"):
            L.tensor_bytes(kind, L.PANEL16, 16, L.MOST_IN_ROW + 1, 1)
    with pytest.raises(L.PhasorError, match="too large for q8rh"):
        L.quantize(np.full((1, 64), 3e38, np.float32), L.Q8RH)


@pytest.mark.parametrize("rows,cols", [(1, 1), (16, 32), (17, 33), (40, 160), (5, 600)])
@pytest.mark.parametrize("kind", (L.Q4T, L.Q2, L.Q2W, L.Q1, L.Q2R))
def test_codes_by_the_page(kind, rows, cols):
    """Element by element, by the index formulas of docs/reference/file-format.md, in panels and in
    rows."""
    rng = np.random.default_rng(rows * 1000 + cols)
    groups = L.round_up(cols, 64) // 32 if kind == L.Q2R else -(-cols // 32)
    span = {L.Q4T: 32, L.Q2R: 1 << 20, L.Q2W: 256}.get(kind, 128)
    number = np.dtype("<f4" if kind == L.Q2R else "<f2")
    scales = rng.normal(size=(rows, -(-cols // span))).astype(number)
    scales[rng.random(scales.shape) < 0.1] = 0
    choice = {L.Q4T: rng.integers(-128, 128, 16), L.Q1: [-1, 1]}.get(kind, [-1, 0, 1, 2])
    q = rng.choice(np.array(choice), (rows, groups * 32)).astype(np.int8)
    used = q[:, :cols] * (np.repeat(scales, span, axis=1)[:, :cols] != 0)
    bits, base = L.BITS[kind], 16 if kind == L.Q4T else 0
    apart = 4 * bits

    def value(table, n):
        return table[n] if kind == L.Q4T else 2 * n - 1 if kind == L.Q1 else n - 1

    panels = L.pack_panels(scales, q, cols, kind)
    assert len(panels) == -(-rows // 16) * L.panel_bytes(kind, cols)
    flat = L.pack_rows(scales, q, cols, kind)
    assert len(flat) == L.tensor_bytes(kind, L.ROWS, rows, cols, 0)
    in_row, plane = scales.shape[1], L.scale_plane_bytes(rows * scales.shape[1], kind)
    for row in range(rows):
        panel = panels[row // 16 * L.panel_bytes(kind, cols) :]
        values = panel[L.scale_plane_bytes(16 * in_row, kind) :]
        o = row % 16
        for k in range(cols):
            at = base + number.itemsize * (k // span * 16 + o)
            scale = np.frombuffer(panel[at : at + number.itemsize], number)[0]
            at = base + number.itemsize * (row * in_row + k // span)
            stored = np.frombuffer(flat[at : at + number.itemsize], number)[0]
            assert scale == scales[row, k // span] == stored
            group, i = divmod(k, 32)
            shift = i // apart * bits
            byte = values[group * 16 * apart + i % apart // 4 * 64 + o * 4 + k % 4]
            flat_byte = flat[plane + (row * groups + group) * apart + i % apart]
            for data, table in ((byte, panel), (flat_byte, flat)):
                got = value(np.frombuffer(table[:16], np.int8), data >> shift & (1 << bits) - 1)
                assert scale == 0 or got == q[row, k]
    for back in (
        L.unpack_panels(np.frombuffer(panels, np.uint8), cols, kind),
        L.unpack_rows(np.frombuffer(flat, np.uint8), rows, cols, kind),
    ):
        assert np.array_equal(back[0][:rows], scales)
        exact = L.dequantize(back[0][:rows], back[1][:rows], cols, kind)
        assert np.array_equal(exact, used * np.repeat(scales, span, axis=1)[:, :cols].astype(float))
