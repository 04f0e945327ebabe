"""Bytes of tensors: types, layouts, quantization, as file-format.md has them. numpy only.

Letters: N rows (outputs), K columns (inputs), P panels of 16 rows, G groups of 32 columns.
Everything is little-endian.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np

from phasor.errors import PhasorError
from phasor.format import coded, minima, records
from phasor.format.scales import search_rows
from phasor.format.types import *

_ALLOWED = {PANEL16: MATRICES, ROWS: MATRICES, VECTOR: (F32, F64)}
ROW_STEP = 64  # columns of q8r and q2r are padded to a multiple of it
MOST_IN_ROW = 132104  # columns of q8r: the sums of a row fit 32 bits (rule 1.18)
CACHED = 1 << 16  # values of a large tensor that are worked on together
SMALLEST_ROW_SCALE = np.float32(2.0**-38)


def type_code(name: str) -> int:
    """The code of a type's name; PhasorError for a name that does not exist."""
    codes = [code for code, text in TYPES.items() if text == name]
    if codes:
        return codes[0]
    raise PhasorError(f"no type is called {name!r}; there are {', '.join(TYPES.values())}")


def require_built(kind: int, layout: int) -> None:
    """PhasorError, by name, for a type that this layout does not have."""
    if layout not in LAYOUTS:
        raise PhasorError(f"layout {layout} is not known")
    if kind not in TYPES:
        raise PhasorError(f"type {kind} is not known")
    if kind not in _ALLOWED[layout]:
        raise PhasorError(f"type {TYPES[kind]} in layout {LAYOUTS[layout]} does not exist")


def panels_of(parts: Sequence[int]) -> int:
    """Panels of a tensor whose parts have these many rows; each part starts a panel."""
    return sum(-(-rows // LANES) for rows in parts)


def table_bytes(kind: int) -> int:
    """Of the table of values that a panel or a matrix in rows begins with."""
    return TABLE if kind in TABLES else 0


def scale_plane_bytes(count: int, kind: int = Q8) -> int:
    """Bytes of the table and of `count` scales at the head of a quantized panel or table."""
    return round_up(table_bytes(kind) + count * (4 if kind in WHOLE else 2), 64)


def counts_of(cols: int, kind: int) -> tuple[int, int]:
    """Of a row in memory: scales (of some types records), and values."""
    if kind in RECORDS:
        return records.records_of(cols, kind), records.groups_of(cols) * GROUP
    if kind in WHOLE:
        if cols > MOST_IN_ROW:
            raise PhasorError(f"{cols} inputs, {TYPES[kind]} has at most {MOST_IN_ROW}")
        return 1, round_up(cols, ROW_STEP)
    return -(-cols // SPANS.get(kind, GROUP)), round_up(cols, GROUP)


def row_bytes(cols: int, kind: int) -> int:
    """Of a row's values."""
    return counts_of(cols, kind)[1] * BITS[kind] // 8


def panel_bytes(kind: int, cols: int) -> int:
    """Bytes of one panel of 16 rows by `cols`."""
    if kind in RECORDS:
        return records.tensor_bytes(LANES, cols, kind)
    if kind in QUANTIZED:
        scales, _ = counts_of(cols, kind)
        return scale_plane_bytes(scales * LANES, kind) + LANES * row_bytes(cols, kind)
    return round_up(cols, _pair(kind)) * LANES * BITS[kind] // 8


def bits_of(kind: int, cols: int) -> float:
    """Of a value in panels, with its share of the scales of groups."""
    return BITS[kind] if kind in WHOLE else 8 * panel_bytes(kind, cols) / (LANES * cols)


def tensor_bytes(kind: int, layout: int, rows: int, cols: int, panels: int) -> int:
    """Bytes of a tensor, exactly what type, layout and shape ask for."""
    require_built(kind, layout)
    if layout == VECTOR:
        return rows * BITS[kind] // 8
    if layout == PANEL16:
        return panels * panel_bytes(kind, cols)
    if kind in RECORDS:
        return records.tensor_bytes(rows, cols, kind)
    if kind not in QUANTIZED:
        return rows * cols * BITS[kind] // 8
    scales, _ = counts_of(cols, kind)
    return scale_plane_bytes(rows * scales, kind) + rows * row_bytes(cols, kind)


# ---- Values


def flush_subnormals(values: np.ndarray) -> np.ndarray:
    """f32, with subnormals as +0 (rule 1.12)."""
    out, changed = np.ascontiguousarray(values, dtype="<f4"), False
    flat = out.reshape(-1)
    for first in range(0, flat.size, CACHED):
        part = slice(first, first + CACHED)
        tiny = np.abs(flat[part]) < np.finfo(np.float32).tiny
        if flat[part].view("<u4")[tiny].any():  # another zero than +0
            if not changed:
                out, changed = out.copy(), True
                flat = out.reshape(-1)
            flat[part][tiny] = 0
    return out


def rotation_block(cols: int) -> int:
    """The inputs that are rotated together: the largest power of two that divides K, at most 64."""
    return min(cols & -cols, ROW_STEP)


def rotation_scale(block: int) -> int:
    """What inputs are multiplied by after their rotation; weights by block/rotation_scale."""
    return 1 << (block.bit_length() - 1) // 2


def rotate(x: np.ndarray, scale: int) -> np.ndarray:
    """x (N, K) in blocks times Sylvester's matrix of ±1, times scale/block, in the order of rule
    1.19: one rounding an addition, in the type of x."""
    rows, cols = x.shape
    block = rotation_block(cols)
    y = x.reshape(rows, -1, block) / x.dtype.type(block)
    distance = 1
    while distance < block:
        pairs = y.reshape(rows, -1, 2, distance)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        y = np.stack([low + high, low - high], axis=2)
        distance *= 2
    result: np.ndarray = y.reshape(rows, cols) * x.dtype.type(scale)
    return result


def rotate_inputs(x: np.ndarray) -> np.ndarray:
    """Activations; and rotated weights back."""
    return rotate(x, rotation_scale(rotation_block(x.shape[1])))


def rotate_weights(x: np.ndarray) -> np.ndarray:
    """Weights; and rotated activations back."""
    block = rotation_block(x.shape[1])
    return rotate(x, block // rotation_scale(block))


def _quantize_whole(x: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) as q8r: f32 scales (N, 1) and int8 (N, 64·⌈K/64⌉)."""
    rows, cols = x.shape
    with np.errstate(over="ignore", invalid="ignore"):
        x = rotate_weights(x) if kind in ROTATED else x
        scales = np.abs(x).max(axis=1, initial=0, keepdims=True) / np.float32(127)
    scales = np.where(scales < SMALLEST_ROW_SCALE, np.float32(0), scales).astype(np.float32)
    if not np.isfinite(scales).all():
        raise PhasorError(f"a weight is too large for {TYPES[kind]}")
    inverse = np.divide(np.float32(1), scales, where=scales != 0, out=np.zeros_like(scales))
    q = np.zeros((rows, round_up(cols, ROW_STEP)), np.int8)
    q[:, :cols] = np.rint(np.clip(x * inverse, -127, 127))
    return scales, q


def quantize(
    x: np.ndarray, kind: int, moments: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) as a quantized type: of q8, q4 and q4t f16 scales (N, G), of the last two also
    negative ones, and int8 (N, 32·G), the tail of a row padded with zeros; of q8r what
    _quantize_whole says, of types with minima what minima.quantize does.

    Of the scales that are tried the one whose Σ moment·(x − scale·q)² is smallest; moments (K) are
    those of the inputs, all 1 without. All in f32 and in the order of file-format.md: `phasor
    quantize` makes the same bytes. PhasorError when a scale does not fit f16.
    """
    if kind not in ROUNDED:
        raise PhasorError(f"no float is rounded to {TYPES[kind]}, which has values of files")
    if kind in WHOLE:
        return _quantize_whole(np.asarray(x, np.float32), kind)
    if kind in MINIMA:
        return minima.quantize(np.asarray(x, np.float32), kind)
    if kind in CODED:
        return coded.quantize(np.asarray(x, np.float32), kind, moments)
    rows, cols = x.shape
    padded = np.zeros((rows, round_up(cols, GROUP)), dtype=np.float32)
    padded[:, :cols] = x
    weight = None
    if moments is None and kind in TABLES:  # padding is rounded to no 0, and does not count
        moments = np.ones(cols, np.float32)
    if moments is not None:
        weight = np.zeros(padded.shape[1], dtype=np.float32)
        weight[:cols] = moments
    return search_rows(padded, weight, kind)


def _of_groups(scales: np.ndarray, q: np.ndarray, kind: int) -> np.ndarray:
    """(N, G): the scale of each group of the values, of a whole row's one."""
    if kind in WHOLE:
        return scales
    return np.repeat(scales, SPANS.get(kind, GROUP) // GROUP, axis=1)[:, : q.shape[1] // GROUP]


def dequantize_q8(
    scales: np.ndarray, q: np.ndarray, cols: int, dtype: Any = np.float64, kind: int | None = None
) -> np.ndarray:
    """(N, cols): scale · q of types without minima, exact in float64, of types in groups in float32
    too; of q8rh as it is rotated. kind: of a type whose scale has several groups."""
    scales = scales if kind is None else _of_groups(scales, q, kind)
    rows, groups = scales.shape
    values = q.reshape(rows, groups, -1).astype(dtype) * scales.astype(dtype)[:, :, None]
    result: np.ndarray = values.reshape(rows, -1)[:, :cols]
    return result


def dequantize(
    scales: np.ndarray, q: np.ndarray, cols: int, kind: int, dtype: Any = np.float64
) -> np.ndarray:
    """The same of every quantized type, rotated back."""
    if kind in CODED:
        return coded.dequantize(scales, q, cols, kind, dtype)
    if kind in MINIMA:
        return minima.dequantize(scales, q, cols, kind, dtype)
    values = dequantize_q8(scales, q, cols, dtype, kind)
    return rotate_inputs(values) if kind in ROTATED else values


# ---- Panels


def _whole_panels(x: np.ndarray) -> np.ndarray:
    missing = -x.shape[0] % LANES
    return np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)]) if missing else x


def _pair(kind: int) -> int:
    """Columns of a number that lie side by side in a panel."""
    return 2 if kind in PAIRS else 1


def pack_numbers(values: np.ndarray, kind: int) -> bytes:
    """f32 (N, K), or the bits of f16 or bf16, of one part as panels: [P][K][16], bf16
    [P][⌈K/2⌉][16][2]."""
    full, pair = _whole_panels(values), _pair(kind)
    even = np.zeros((len(full), round_up(full.shape[1], pair)), dtype=full.dtype)
    even[:, : full.shape[1]] = full
    return even.reshape(-1, LANES, even.shape[1] // pair, pair).transpose(0, 2, 1, 3).tobytes()


def unpack_numbers(data: np.ndarray, kind: int, cols: int) -> np.ndarray:
    """u8 of P panels -> f32 (16·P, K), or the bits of f16 or bf16."""
    pair = _pair(kind)
    even = round_up(cols, pair)
    panels = data.view("<f4" if kind == F32 else "<u2").reshape(-1, even // pair, LANES, pair)
    return panels.transpose(0, 2, 1, 3).reshape(-1, even)[:, :cols]


def table_of(scales: np.ndarray, q: np.ndarray, cols: int, kind: int) -> np.ndarray | None:
    """The table of a matrix with these values, int8 (16): that of rounded values if it has them
    all; else each that is in it, ascending, then the last one again. None for a type that has
    none."""
    if kind not in TABLES:
        return None
    used = (_of_groups(scales, q, kind) != 0).repeat(GROUP, axis=1)
    used[:, cols:] = False
    values = np.unique(q[used])
    if np.isin(values, ROUNDED_TABLE).all():
        return np.array(ROUNDED_TABLE, np.int8)
    if len(values) > TABLE:
        raise PhasorError(f"{len(values)} values, {TYPES[kind]} has at most {TABLE}")
    return np.pad(values, (0, TABLE - len(values)), mode="edge")


def _codes(q: np.ndarray, kind: int, table: np.ndarray | None) -> np.ndarray:
    """u8, of what the type has no code for any."""
    if table is not None:
        return np.minimum(np.searchsorted(table, q), TABLE - 1).astype(np.uint8)
    step, first = CODES[kind]
    n = (q.astype(np.int16) - first) // step
    return (n & (1 << BITS[kind]) - 1).astype(np.uint8)


def _row_data(
    scales: np.ndarray, q: np.ndarray, cols: int, kind: int, table: np.ndarray | None
) -> np.ndarray:
    """int8 values (N, 32·G) as bytes (N, row_bytes). Of codes 8/bits of a group share a byte, the
    first in the lowest bits; padding columns, and groups whose scale is 0, are 0."""
    bits = BITS[kind]
    if bits == 8:
        return q.view(np.uint8)
    n = _codes(q, kind, table)
    n[:, cols:] = 0
    fields = n.reshape(len(n), -1, 8 // bits, GROUP * bits // 8)
    fields[np.broadcast_to(_of_groups(scales, q, kind) == 0, fields.shape[:2])] = 0
    data = fields[:, :, 0].copy()
    for i in range(1, 8 // bits):
        data |= fields[:, :, i] << i * bits
    return data.reshape(len(n), -1)


def _row_values(data: np.ndarray, kind: int, tables: np.ndarray | None) -> np.ndarray:
    """bytes (N, row_bytes) -> int8 (N, 32·G). tables: int8 (N, 16) of a type that has one."""
    bits = BITS[kind]
    if bits == 8:
        return data.view(np.int8)
    grouped = data.reshape(len(data), -1, GROUP * bits // 8)
    n = np.stack([grouped >> i & (1 << bits) - 1 for i in range(0, 8, bits)], axis=2)
    n = n.reshape(len(data), -1)
    if tables is not None:
        return np.take_along_axis(tables, n.astype(np.intp), axis=1)
    step, first = CODES[kind]
    return (n.astype(np.int8) * step + first).astype(np.int8)


def _scale_type(kind: int) -> str:
    return "<f4" if kind in WHOLE else "<f2"


def _fours(data: np.ndarray) -> np.ndarray:
    """The four bytes that stay side by side in a panel as one number, which NumPy moves faster."""
    return np.ascontiguousarray(data).view("<u4")


def pack_panels(scales: np.ndarray, q: np.ndarray, cols: int, kind: int) -> bytes:
    """Scales (N, S) and int8 (N, K) of one part as panels: the plane of the table and the scales,
    padded to 64 bytes, then [K/4][16][4], or of codes [G][bits][16][4]."""
    if kind in RECORDS:
        return records.pack_panels(_whole_panels(scales), _whole_panels(q), cols, kind)
    table = table_of(scales, q, cols, kind)
    data = _whole_panels(_row_data(scales, q, cols, kind, table))
    scales = _whole_panels(scales)
    groups, count, at = scales.shape[1], len(scales) // LANES, table_bytes(kind)
    planes = np.zeros((count, scale_plane_bytes(groups * LANES, kind)), dtype=np.uint8)
    by_group = scales.reshape(count, LANES, groups).transpose(0, 2, 1)
    stored = by_group.astype(_scale_type(kind), order="C").reshape(count, -1).view(np.uint8)
    planes[:, at : at + stored.shape[1]] = stored
    if table is not None:
        planes[:, :at] = table.view(np.uint8)
    body = _fours(data.reshape(count, LANES, -1)).transpose(0, 2, 1).reshape(count, -1)
    return np.concatenate([planes, body.view(np.uint8)], axis=1).tobytes()


def unpack_panels(data: np.ndarray, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 of P panels -> scales (16·P, G), int8 (16·P, K)."""
    if kind in RECORDS:
        return records.unpack_panels(data, cols, kind)
    groups, size, at = counts_of(cols, kind)[0], row_bytes(cols, kind), table_bytes(kind)
    panels, wide = data.reshape(-1, panel_bytes(kind, cols)), _scale_type(kind)
    end = at + groups * LANES * np.dtype(wide).itemsize
    planes = np.ascontiguousarray(panels[:, at:end]).view(wide)
    scales = planes.reshape(-1, groups, LANES).transpose(0, 2, 1).reshape(-1, groups)
    body = panels[:, scale_plane_bytes(groups * LANES, kind) :]
    body = _fours(body).reshape(-1, size // 4, LANES).transpose(0, 2, 1)
    values = np.ascontiguousarray(body).view(np.uint8).reshape(-1, size)
    tables = np.ascontiguousarray(panels[:, :at]).view(np.int8).repeat(LANES, axis=0)
    return scales, _row_values(values, kind, tables if at else None)


def halves_of(values: np.ndarray, kind: int) -> np.ndarray:
    """f32 (N, K) as the bits of f16 or bf16, rounded to nearest even, u16. PhasorError when a value
    does not fit f16."""
    if kind == F16:
        with np.errstate(over="ignore"):
            halves = flush_subnormals(values).astype("<f2")
        if not np.isfinite(halves).all():
            raise PhasorError("a weight is too large for f16")
        return halves.view("<u2")
    bits = np.ascontiguousarray(flush_subnormals(values)).view("<u4")
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    if ((rounded & 0x7F80) == 0x7F80).any():
        raise PhasorError("a weight is too large for bf16")
    result: np.ndarray = rounded
    return result


def widen(halves: np.ndarray, kind: int) -> np.ndarray:
    """The bits of f16 or bf16, u16, as f32: exact."""
    if kind == F16:
        return np.ascontiguousarray(halves).view("<f2").astype(np.float32)
    return (halves.astype("<u4") << 16).view("<f4")


def pack_rows(scales: np.ndarray, q: np.ndarray, cols: int, kind: int) -> bytes:
    """Scales (N, S) and int8 (N, K) as rows: the plane of the table and the scales padded to 64
    bytes, then 4·bits bytes a group; of q8r a row's."""
    if kind in RECORDS:
        return records.pack_rows(scales, q, cols, kind)
    table = table_of(scales, q, cols, kind)
    plane = b"" if table is None else table.tobytes()
    plane += scales.astype(_scale_type(kind)).tobytes()
    padding = bytes(scale_plane_bytes(scales.size, kind) - len(plane))
    return plane + padding + _row_data(scales, q, cols, kind, table).tobytes()


def unpack_rows(data: np.ndarray, rows: int, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 -> scales (N, S), int8 (N, K)."""
    if kind in RECORDS:
        return records.unpack_rows(data, rows, cols, kind)
    groups, at, wide = counts_of(cols, kind)[0], table_bytes(kind), np.dtype(_scale_type(kind))
    scales = np.ascontiguousarray(data[at : at + rows * groups * wide.itemsize]).view(wide)
    scales = scales.reshape(rows, groups)
    values = np.ascontiguousarray(data[scale_plane_bytes(rows * groups, kind) :])
    tables = np.broadcast_to(data[:at].view(np.int8), (rows, at)) if at else None
    return scales, _row_values(values.reshape(rows, -1), kind, tables)


def part_rows(parts: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """For each part: its true rows, and the same rows in the padded (16·panels) numbering."""
    true = padded = 0
    for rows in parts:
        yield slice(true, true + rows), slice(padded, padded + rows)
        true += rows
        padded += round_up(rows, LANES)
