"""Bytes of tensors: types, layouts, quantisation and CRC-32C, as docs/format.md has them. numpy only.

Letters: N rows (outputs), K columns (inputs), P panels of 16 rows, G groups of 32 columns. Everything is little-endian.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np

F32, F16, BF16, Q8, Q4, F64 = 1, 2, 3, 4, 5, 6
PANEL16, ROWS, VECTOR = 1, 2, 3
TYPES = {F32: "f32", F16: "f16", BF16: "bf16", Q8: "q8", Q4: "q4", F64: "f64"}
LAYOUTS = {PANEL16: "panel16", ROWS: "rows", VECTOR: "vector"}
LANES = 16  # rows of a panel
GROUP = 32  # columns that share a scale
_ALLOWED = {PANEL16: (F32, Q8), ROWS: (F32, Q8), VECTOR: (F32, F64)}  # what this version writes and reads
_BLOCK_BYTES = 4 << 20


class PhasorError(Exception):
    """The model, the data or the file is bad: one line that names the thing and what was expected."""


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def type_code(name: str) -> int:
    """The code of a type's name; PhasorError for a name that does not exist."""
    for code, text in TYPES.items():
        if text == name:
            return code
    raise PhasorError(f"no type is called {name!r}; there are {', '.join(TYPES.values())}")


def require_built(kind: int, layout: int) -> None:
    """PhasorError, by name, for a type that this version does not write or read in this layout."""
    if layout not in LAYOUTS:
        raise PhasorError(f"layout {layout} is not known")
    if kind not in TYPES:
        raise PhasorError(f"type {kind} is not known")
    if kind not in _ALLOWED[layout]:
        raise PhasorError(f"type {TYPES[kind]} in layout {LAYOUTS[layout]} is not built yet")


def panels_of(parts: Sequence[int]) -> int:
    """Panels of a tensor whose parts have these many rows; each part starts a panel."""
    return sum(-(-rows // LANES) for rows in parts)


def panel_bytes(kind: int, cols: int) -> int:
    """Bytes of one panel of 16 rows by `cols`."""
    if kind == F32:
        return cols * LANES * 4
    groups = -(-cols // GROUP)
    if kind == Q8:
        return round_up(groups * LANES * 2, 64) + groups * LANES * GROUP
    raise PhasorError(f"type {TYPES.get(kind, kind)} in panels is not built yet")


def tensor_bytes(kind: int, layout: int, rows: int, cols: int, panels: int) -> int:
    """Bytes of a tensor, exactly what type, layout and shape ask for."""
    require_built(kind, layout)
    if layout == VECTOR:
        return rows * (8 if kind == F64 else 4)
    if layout == PANEL16:
        return panels * panel_bytes(kind, cols)
    if kind == F32:
        return rows * cols * 4
    groups = -(-cols // GROUP)
    return round_up(rows * groups * 2, 64) + rows * groups * GROUP


# ---- CRC-32C -------------------------------------------------------------------------------------------------------
# A checksum is linear over GF(2): the data is cut into equal lanes, all lanes go through the table side by side, and
# the lanes' values are joined in pairs with the operator "append m zero bytes".

_CRC_LANE = 512  # bytes of a lane


def _crc_table8() -> np.ndarray:
    """What one byte does to a register of zeros: u32[256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(0x82F63B78), np.uint32(0))
    return table


def _crc_table16() -> np.ndarray:
    """What two bytes do to a register of zeros: u32[65536]."""
    table = _crc_table8()
    value = np.arange(65536, dtype=np.uint32)
    once = table[value & 255] ^ (value >> 8)
    return table[once & 255] ^ (once >> 8)


_TABLE16 = _crc_table16()
_TABLE8 = [int(v) for v in _crc_table8()]
_shifts: dict[int, np.ndarray] = {}  # bytes appended -> u32[4][256], one table for each byte of the register


def _apply(tables: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The operator given by u32[4][256] on registers u32[n]."""
    return (tables[0][value & 255] ^ tables[1][value >> 8 & 255] ^ tables[2][value >> 16 & 255] ^ tables[3][value >> 24])


def _shift(count: int) -> np.ndarray:
    """The operator "append `count` zero bytes", by squaring."""
    if count in _shifts:
        return _shifts[count]
    single = np.arange(256, dtype=np.uint32)
    basis = np.stack([single << np.uint32(8 * i) for i in range(4)])
    if count == 0:
        tables = basis
    elif count == 1:
        table = np.array(_TABLE8, dtype=np.uint32)
        tables = table[basis & 255] ^ (basis >> 8)
    else:
        half = _shift(count // 2)
        tables = _apply(half, half.reshape(-1)).reshape(4, 256)
        if count % 2:
            tables = _apply(_shift(1), tables.reshape(-1)).reshape(4, 256)
    if len(_shifts) < 256:
        _shifts[count] = tables
    return tables


def _crc_of_block(data: np.ndarray) -> int:
    """The register after u8[n], from a register of zeros. Zeros put in front change nothing."""
    lanes = max(1, -(-data.size // _CRC_LANE))
    padded = np.zeros(lanes * _CRC_LANE, dtype=np.uint8)
    padded[padded.size - data.size:] = data
    words = np.ascontiguousarray(padded.view("<u2").reshape(lanes, _CRC_LANE // 2).T)
    register = np.zeros(lanes, dtype=np.uint32)
    for word in words:
        register = _TABLE16[(register & 0xFFFF) ^ word] ^ (register >> 16)
    length = _CRC_LANE
    while register.size > 1:
        if register.size % 2:
            register = np.concatenate([np.zeros(1, np.uint32), register])
        register = _apply(_shift(length), register[0::2]) ^ register[1::2]
        length *= 2
    return int(register[0])


def crc32c(data, crc: int = 0) -> int:
    """The checksum of what `crc` covers followed by `data` (anything with a buffer); start with 0."""
    view = np.frombuffer(data, dtype=np.uint8) if not isinstance(data, np.ndarray) else data.reshape(-1).view(np.uint8)
    register = crc ^ 0xFFFFFFFF
    if view.size <= 64:
        for byte in view.tolist():
            register = register >> 8 ^ _TABLE8[(register ^ byte) & 255]
        return register ^ 0xFFFFFFFF
    for at in range(0, view.size, _BLOCK_BYTES):
        block = view[at:at + _BLOCK_BYTES]
        carried = _apply(_shift(block.size), np.array([register], dtype=np.uint32))
        register = int(carried[0]) ^ _crc_of_block(block)
    return register ^ 0xFFFFFFFF


def crc32c_join(first: int, second: int, length: int) -> int:
    """The checksum of A followed by B, from that of A, that of B, and the bytes of B."""
    return int(_apply(_shift(length), np.array([first], dtype=np.uint32))[0]) ^ second


# ---- Values ----------------------------------------------------------------------------------------------------------


def flush_subnormals(values: np.ndarray) -> np.ndarray:
    """f32, with subnormals as +0 (rule 1.12 of the contract)."""
    out = np.ascontiguousarray(values, dtype="<f4")
    tiny = np.abs(out) < np.finfo(np.float32).tiny
    if tiny.any():
        out = np.where(tiny, np.float32(0), out).astype("<f4")
    return out


def quantize_q8(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) as q8: f16 scales (N, G) and int8 (N, 32·G), the tail of a row padded with zeros.

    In f32 throughout: scale = f16(amax / 127), q = round-half-even(x / scale) clamped to ±127; a scale that rounds
    to zero gives zeros. PhasorError when a scale does not fit f16.
    """
    rows, cols = x.shape
    groups = -(-cols // GROUP)
    padded = np.zeros((rows, groups * GROUP), dtype=np.float32)
    padded[:, :cols] = x
    grouped = padded.reshape(rows, groups, GROUP)
    with np.errstate(over="ignore"):
        scales = (np.abs(grouped).max(axis=2) / np.float32(127)).astype(np.float16)
    if not np.isfinite(scales).all():
        raise PhasorError("a weight is too large for q8 (its scale does not fit f16)")
    divisor = scales.astype(np.float32)[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(divisor > 0, np.rint(grouped / divisor), np.float32(0))
    return scales, np.clip(q, -127, 127).astype(np.int8).reshape(rows, groups * GROUP)


def dequantize_q8(scales: np.ndarray, q: np.ndarray, cols: int, dtype=np.float64) -> np.ndarray:
    """(N, cols): scale · q, exact in float64 and in float32."""
    rows, groups = scales.shape
    values = q.reshape(rows, groups, GROUP).astype(dtype) * scales.astype(dtype)[:, :, None]
    return values.reshape(rows, groups * GROUP)[:, :cols]


# ---- Panels ----------------------------------------------------------------------------------------------------------


def _whole_panels(x: np.ndarray) -> np.ndarray:
    rows = round_up(x.shape[0], LANES)
    if rows == x.shape[0]:
        return x
    return np.concatenate([x, np.zeros((rows - x.shape[0],) + x.shape[1:], dtype=x.dtype)])


def pack_panels_f32(x: np.ndarray) -> bytes:
    """f32 (N, K) of one part as panels [P][K][16]."""
    full = _whole_panels(flush_subnormals(x))
    return full.reshape(-1, LANES, full.shape[1]).transpose(0, 2, 1).astype("<f4", order="C").tobytes()


def pack_panels_q8(scales: np.ndarray, q: np.ndarray) -> bytes:
    """f16 (N, G) and int8 (N, 32·G) of one part as panels: the plane of scales, padded to 64 bytes, then [G][8][16][4]."""
    scales, q = _whole_panels(scales), _whole_panels(q)
    groups = scales.shape[1]
    count = scales.shape[0] // LANES
    plane = round_up(groups * LANES * 2, 64)
    out = np.zeros((count, plane + groups * LANES * GROUP), dtype=np.uint8)
    by_group = scales.reshape(count, LANES, groups).transpose(0, 2, 1).astype("<f2", order="C")
    out[:, :groups * LANES * 2] = by_group.reshape(count, -1).view(np.uint8)
    body = q.reshape(count, LANES, groups, GROUP // 4, 4).transpose(0, 2, 3, 1, 4)
    out[:, plane:] = np.ascontiguousarray(body).reshape(count, -1).view(np.uint8)
    return out.tobytes()


def unpack_panels_f32(data: np.ndarray, cols: int) -> np.ndarray:
    """u8 of P panels -> f32 (16·P, K)."""
    return data.view("<f4").reshape(-1, cols, LANES).transpose(0, 2, 1).reshape(-1, cols)


def unpack_panels_q8(data: np.ndarray, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 of P panels -> f16 (16·P, G), int8 (16·P, 32·G)."""
    groups = -(-cols // GROUP)
    plane = round_up(groups * LANES * 2, 64)
    panels = data.reshape(-1, plane + groups * LANES * GROUP)
    scales = np.ascontiguousarray(panels[:, :groups * LANES * 2]).view("<f2").reshape(-1, groups, LANES)
    body = np.ascontiguousarray(panels[:, plane:]).view(np.int8).reshape(-1, groups, GROUP // 4, LANES, 4)
    return scales.transpose(0, 2, 1).reshape(-1, groups), body.transpose(0, 3, 1, 2, 4).reshape(-1, groups * GROUP)


def pack_rows_q8(scales: np.ndarray, q: np.ndarray) -> bytes:
    """f16 (N, G) and int8 (N, 32·G) as rows: the plane of scales padded to 64 bytes, then the values."""
    plane = scales.astype("<f2").tobytes()
    return plane + bytes(round_up(len(plane), 64) - len(plane)) + q.tobytes()


def unpack_rows_q8(data: np.ndarray, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 -> f16 (N, G), int8 (N, 32·G)."""
    groups = -(-cols // GROUP)
    size = rows * groups * 2
    scales = np.ascontiguousarray(data[:size]).view("<f2").reshape(rows, groups)
    return scales, np.ascontiguousarray(data[round_up(size, 64):]).view(np.int8).reshape(rows, groups * GROUP)


def part_rows(parts: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """For each part: its true rows, and the same rows in the padded (16·panels) numbering."""
    true = padded = 0
    for rows in parts:
        yield slice(true, true + rows), slice(padded, padded + rows)
        true += rows
        padded += round_up(rows, LANES)
