"""q4m and q4k, 4 bits with a scale and a minimum for each group of 32 (file-format.md, rule 1.20):
what a row's records are, how they lie, and the quantizer. numpy only.

A record is what values share: of q4m a group's f16 scale d and minimum m, of q4k for eight groups
both, and for each of the eight a code of six bits that multiplies either, in the twelve bytes of
GGUF's Q4_K. A value n of 0 … 15 stands for n·scale + minimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.errors import PhasorError
from phasor.format.types import GROUP, LANES, RECORDS, SUPER, TYPES, round_up

_OF_ONE = np.dtype([("d", "<f2"), ("m", "<f2")])
_OF_SUPER = np.dtype([("d", "<f2"), ("m", "<f2"), ("codes", "u1", 12)])


def _is_single(kind: int) -> bool:
    """Whether each group has a record of its own."""
    return RECORDS[kind][1] == 1


def record_of(kind: int) -> np.dtype:
    return _OF_ONE if _is_single(kind) else _OF_SUPER


def groups_of(cols: int) -> int:
    return -(-cols // GROUP)


def records_of(cols: int, kind: int) -> int:
    """Records of a row."""
    return -(-groups_of(cols) // RECORDS[kind][1])


def plane_bytes(rows: int, cols: int, kind: int) -> int:
    """Bytes of the records of so many rows, in front of their values."""
    return round_up(rows * records_of(cols, kind) * record_of(kind).itemsize, 64)


def tensor_bytes(rows: int, cols: int, kind: int) -> int:
    """Of a panel (16 rows), or of a table in rows."""
    return plane_bytes(rows, cols, kind) + rows * groups_of(cols) * GROUP // 2


# ---- Codes of six bits


def unpack_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u8 (…, 12) -> those of the eight scales and of the eight minima, u8 (…, 8)."""
    low, middle, high = (codes[..., i : i + 4] for i in (0, 4, 8))
    scale = np.concatenate([low & 63, high & 15 | (low >> 6) << 4], axis=-1)
    least = np.concatenate([middle & 63, high >> 4 | (middle >> 6) << 4], axis=-1)
    return scale, least


def pack_codes(scale: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The other way."""
    low = scale[..., :4] | scale[..., 4:] >> 4 << 6
    middle = least[..., :4] | least[..., 4:] >> 4 << 6
    return np.concatenate([low, middle, scale[..., 4:] & 15 | (least[..., 4:] & 15) << 4], axis=-1)


def grids(records: np.ndarray, cols: int, kind: int, dtype: Any = np.float64) -> np.ndarray:
    """Records (N, R) -> scale and minimum of each group, (2, N, G): exact in f32 too."""
    d, m = records["d"].astype(dtype), records["m"].astype(dtype)
    if _is_single(kind):
        return np.stack([d, m])
    scale, least = unpack_codes(records["codes"])
    both = np.stack([d[..., None] * scale, m[..., None] * least])
    return both.reshape(2, len(records), -1)[:, :, : groups_of(cols)]


def dequantize(records: np.ndarray, n: np.ndarray, cols: int, kind: int, dtype: Any) -> np.ndarray:
    """(N, cols): in f32 the sum is rounded once, in f64 not at all."""
    scale, least = grids(records, cols, kind, dtype)
    values = n.reshape(*scale.shape, GROUP).astype(dtype) * scale[..., None] + least[..., None]
    result: np.ndarray = values.reshape(len(n), -1)[:, :cols]
    return result


# ---- The quantizer


def _inverse(scale: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))
    return result


def _half(x: np.ndarray) -> np.ndarray:
    """The nearest f16, never −0, in f32."""
    return x.astype(np.float16).astype(np.float32) + np.float32(0)


def _nearest(x: np.ndarray, most: int) -> np.ndarray:
    result: np.ndarray = np.rint(np.clip(x, 0, most)).astype(np.uint8)
    return result


def quantize(x: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) -> records (N, R), n (N, 32·G) with zeros as its padding.

    All in f32 and in the order of file-format.md: `phasor quantize` makes the same bytes.
    PhasorError when a scale or a minimum does not fit f16.
    """
    rows, cols = x.shape
    groups = groups_of(cols)
    padded = np.pad(x, ((0, 0), (0, groups * GROUP - cols)), mode="edge")
    padded = padded.reshape(rows, groups, GROUP)
    least, largest = padded.min(axis=2), padded.max(axis=2)
    records = np.zeros((rows, records_of(cols, kind)), record_of(kind))
    with np.errstate(over="ignore", invalid="ignore"):
        if _is_single(kind):
            minimum = _half(least)
            scale = _half((largest - minimum) / np.float32(15))
            records["d"], records["m"] = scale, minimum
        else:
            _eight_groups(records, np.minimum(least, 0), np.maximum(largest, 0))
    if not all(np.isfinite(records[name]).all() for name in "dm"):
        raise PhasorError(f"a weight is too large for {TYPES[kind]} (its scale does not fit f16)")
    scale, minimum = grids(records, cols, kind, np.float32)
    n = _nearest((padded - minimum[..., None]) * _inverse(scale)[..., None], 15)
    n = n.reshape(rows, -1)
    n[:, cols:] = 0
    return records, n.view(np.int8)


def _eight_groups(records: np.ndarray, least: np.ndarray, largest: np.ndarray) -> None:
    """Fills the records of q4k from the range of each group, which has 0 in it."""
    shape = (*records.shape, SUPER)
    steps, depths = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    count = least.shape[1]
    steps.reshape(len(records), -1)[:, :count] = (largest - least) / np.float32(15)
    depths.reshape(len(records), -1)[:, :count] = np.float32(0) - least
    scale = _half(steps.max(axis=2) / np.float32(63))
    minimum = _half(np.float32(0) - depths.max(axis=2) / np.float32(63))
    records["d"], records["m"] = scale, minimum
    records["codes"] = pack_codes(
        _nearest(steps * _inverse(scale)[..., None], 63),
        _nearest(depths * _inverse(np.float32(0) - minimum)[..., None], 63),
    )


# ---- Bytes


def _nibbles(n: np.ndarray) -> np.ndarray:
    """(N, 32·G) -> bytes (N, G, 16): value c of a group in the low, 16 + c in the high bits."""
    grouped = n.view(np.uint8).reshape(len(n), -1, 2, GROUP // 2)
    return grouped[:, :, 0] | grouped[:, :, 1] << 4


def _values(data: np.ndarray) -> np.ndarray:
    """Back, int8."""
    n = np.concatenate([data & 15, data >> 4], axis=2)
    return n.reshape(len(data), -1).view(np.int8)


def _padded(parts: list[np.ndarray], size: int) -> np.ndarray:
    """Bytes (P, …) side by side, then zeros up to `size`."""
    flat = np.concatenate([part.reshape(len(part), -1).view(np.uint8) for part in parts], axis=1)
    return np.pad(flat, ((0, 0), (0, size - flat.shape[1])))


def pack_panels(records: np.ndarray, n: np.ndarray, cols: int, kind: int) -> bytes:
    """Whole panels (16·P rows): of each its records, the 16 rows' numbers and bytes side by side,
    then [G][4][16][4]."""
    by_panel = records.reshape(-1, LANES, records.shape[1]).transpose(0, 2, 1)
    halves = np.stack([by_panel["d"], by_panel["m"]], axis=2)  # (P, R, 2, 16)
    parts = np.ascontiguousarray(halves).view(np.uint8).reshape(*halves.shape[:2], -1)
    if not _is_single(kind):
        codes = by_panel["codes"].transpose(0, 1, 3, 2)
        parts = np.concatenate([parts, codes.reshape(*codes.shape[:2], -1)], axis=2)
    body = _nibbles(n).reshape(-1, LANES, groups_of(cols), 4, 4).transpose(0, 2, 3, 1, 4)
    planes = _padded([np.ascontiguousarray(parts)], plane_bytes(LANES, cols, kind))
    return np.concatenate([planes, body.reshape(len(planes), -1)], axis=1).tobytes()


def unpack_panels(data: np.ndarray, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 of P panels -> records (16·P, R), n (16·P, 32·G)."""
    panels = data.reshape(-1, tensor_bytes(LANES, cols, kind))
    count, plane = len(panels), plane_bytes(LANES, cols, kind)
    shape = (count, records_of(cols, kind), LANES * record_of(kind).itemsize)
    planes = panels[:, : shape[1] * shape[2]].reshape(shape)
    records = np.zeros((count, LANES, shape[1]), record_of(kind))
    halves = np.ascontiguousarray(planes[:, :, : 4 * LANES]).view("<f2").reshape(*shape[:2], 2, -1)
    records["d"], records["m"] = (halves[:, :, i].transpose(0, 2, 1) for i in (0, 1))
    if not _is_single(kind):
        codes = planes[:, :, 4 * LANES :].reshape(*shape[:2], 12, LANES)
        records["codes"] = codes.transpose(0, 3, 1, 2)
    body = panels[:, plane:].reshape(count, -1, 4, LANES, 4).transpose(0, 3, 1, 2, 4)
    data = np.ascontiguousarray(body).reshape(count * LANES, -1, GROUP // 2)
    return records.reshape(count * LANES, -1), _values(data)


def pack_rows(records: np.ndarray, n: np.ndarray, cols: int, kind: int) -> bytes:
    """All records, zeros to a multiple of 64 bytes, then 16 bytes a group."""
    plane = np.ascontiguousarray(records).tobytes()
    size = plane_bytes(len(records), cols, kind)
    return plane.ljust(size, b"\0") + _nibbles(n).tobytes()


def unpack_rows(data: np.ndarray, rows: int, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 -> records (N, R), n (N, 32·G)."""
    count, size = records_of(cols, kind), record_of(kind).itemsize
    records = np.ascontiguousarray(data[: rows * count * size]).view(record_of(kind))
    values = data[plane_bytes(rows, cols, kind) :].reshape(rows, groups_of(cols), GROUP // 2)
    return records.reshape(rows, count), _values(np.ascontiguousarray(values))
