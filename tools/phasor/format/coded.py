"""Types whose scales are signed codes of a record's number (file-format.md, rules 1.27, 1.28 and
1.30): q6, q4x and q3, GGUF's Q6_K, IQ4_XS and Q3_K. numpy only.

A value is w·d·c: w the integer of its code n, d the f16 number of a record (records.py), c the
signed code of its W columns. Letters: N rows, K columns, R records of 256 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.errors import PhasorError
from phasor.format import records, scales
from phasor.format.types import *

_TABLE = np.array(ROUNDED_TABLE, np.int8)


def width_of(kind: int) -> int:
    """W, the columns of a scale."""
    return SPANS.get(kind, GROUP)


def integers(n: np.ndarray, kind: int) -> np.ndarray:
    """Codes n -> the int8 that they stand for."""
    step, first = CODES.get(kind, (0, 0))
    linear = n.astype(np.int8) * np.int8(step) + np.int8(first)
    result: np.ndarray = _TABLE[n] if kind in LOOKUPS else linear
    return result


def codes_of(w: np.ndarray, used: np.ndarray, kind: int) -> np.ndarray:
    """Integers (N, K) that the type has -> codes, int8; 0 where they are not used."""
    if kind in LOOKUPS:
        places = np.searchsorted(_TABLE, w.astype(np.int8))
        return np.where(used, places, 0).astype(np.int8)
    return np.where(used, w.astype(np.int16) - CODES[kind][1], 0).astype(np.int8)


def grids(of: np.ndarray, kind: int, dtype: Any = np.float64) -> np.ndarray:
    """Records (N, R) -> the scales of all columns of these, (N, R·256/W): exact in f32 too."""
    codes = records.scale_codes(of["codes"], kind)
    each: np.ndarray = of["d"].astype(dtype)[..., None] * codes.astype(dtype)
    return each.reshape(len(of), -1)


def dequantize(of: np.ndarray, n: np.ndarray, cols: int, kind: int, dtype: Any) -> np.ndarray:
    """(N, cols): in f32 rounded once, in f64 not at all."""
    width = width_of(kind)
    scale = grids(of, kind, dtype)[:, : n.shape[1] // width]
    values = integers(n, kind).reshape(*scale.shape, width).astype(dtype) * scale[..., None]
    result: np.ndarray = values.reshape(len(n), -1)[:, :cols]
    return result


def number_of(wanted: np.ndarray, kind: int) -> np.ndarray:
    """Scales f32 (…, S) that share a record -> its number, f32 as f16 has it: with codes of eight
    bits the largest becomes 127 times it, with codes of six the one of largest magnitude −32
    times."""
    place = np.abs(wanted).argmax(axis=-1)[..., None]
    extreme = np.take_along_axis(wanted, place, axis=-1)[..., 0]
    if SCALE_BITS[kind] == 8:
        return scales.half(np.abs(extreme) / np.float32(127))
    return scales.half(extreme / np.float32(-32))


def nearest_codes(wanted: np.ndarray, number: np.ndarray, kind: int) -> np.ndarray:
    """Scales (…, S) as codes of a record's number (…)."""
    low, high = (-127, 127) if SCALE_BITS[kind] == 8 else (-32, 31)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = wanted * scales.inverse_of(number)[..., None]
        result: np.ndarray = np.rint(np.clip(ratio, np.float32(low), np.float32(high)))
    return result


def coded(wanted: np.ndarray, cols: int, kind: int) -> np.ndarray:
    """Scales f32 (N, ⌈K/W⌉) -> records (N, R) of the nearest ones."""
    count, of_record = records.records_of(cols, kind), RECORDS[kind][1] * GROUP // width_of(kind)
    out = np.zeros((len(wanted), count), records.record_of(kind))
    flat = np.zeros((len(wanted), count * of_record), np.float32)
    flat[:, : wanted.shape[1]] = wanted
    each = flat.reshape(len(wanted), count, of_record)
    d = number_of(each, kind)
    if not np.isfinite(d).all():
        raise PhasorError(f"a weight is too large for {TYPES[kind]} (its scale does not fit f16)")
    store(out, nearest_codes(each, d, kind), d, cols, kind)
    return out


def store(of: np.ndarray, codes: np.ndarray, d: np.ndarray, cols: int, kind: int) -> None:
    """Numbers (N, R) and codes (N, R, S) into records; those of columns that there are not have no
    bits, nor has any where the number is 0."""
    width, none = width_of(kind), 0 if SCALE_BITS[kind] == 8 else -32
    flat = np.where(d[..., None] == 0, none, codes).astype(np.int8).reshape(len(of), -1)
    flat[:, -(-cols // width) :] = none
    of["d"], of["codes"] = d, records.packed_codes(flat.reshape(codes.shape), kind)


def quantize(x: np.ndarray, kind: int, moments: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) -> records (N, R), n (N, 32·G) with zeros as its padding, and where a scale is 0.

    Each W columns' scale is searched alone (scales.search), then stored as a code, and the values
    are rounded to what that stands for. All in f32 and in the order of file-format.md: `phasor
    quantize` makes the same bytes.
    """
    rows, cols = x.shape
    width = width_of(kind)
    padded = np.zeros((rows, records.groups_of(cols) * GROUP), np.float32)
    padded[:, :cols] = x
    if moments is None and kind in LOOKUPS:  # padding is rounded to no 0, and does not count
        moments = np.ones(cols, np.float32)
    weight = None
    if moments is not None:
        weight = np.zeros(padded.shape[1], np.float32)
        weight[:cols] = moments
    wanted, _ = scales.search_rows(padded, weight, kind, width)
    of = coded(wanted.astype(np.float32)[:, : -(-cols // width)], cols, kind)
    scale = grids(of, kind, np.float32)[:, : padded.shape[1] // width, None]
    v = padded.reshape(rows, -1, width) * scales.inverse_of(scale)
    used = np.broadcast_to(scale != 0, v.shape).reshape(rows, -1).copy()
    used[:, cols:] = False
    return of, codes_of(scales.rounded(v, kind).reshape(rows, -1), used, kind)
