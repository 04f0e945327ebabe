"""q6, 6 bits with a scale for each 16 columns (file-format.md, rule 1.27): GGUF's Q6_K. numpy only.

A code n of 0 … 63 stands for (n − 32)·d·c: d is the f16 number of a record (records.py), c the
signed code of the 16 columns. Letters: N rows, K columns, R records of 256 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.errors import PhasorError
from phasor.format import records, scales
from phasor.format.types import HALF, GROUP, Q6, RECORDS, TYPES

_OF_RECORD = RECORDS[Q6][1] * GROUP // HALF  # scales
_MOST = np.float32(127)  # of a code


def grids(of: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Records (N, R) -> the scales of all 16 columns of these, (N, 16·R): exact in f32 too."""
    each: np.ndarray = of["d"].astype(dtype)[..., None] * of["codes"].astype(dtype)
    return each.reshape(len(of), -1)


def dequantize(of: np.ndarray, n: np.ndarray, cols: int, dtype: Any) -> np.ndarray:
    """(N, cols): in f32 rounded once, in f64 not at all."""
    scale = grids(of, dtype)[:, : n.shape[1] // HALF]
    values = (n.reshape(*scale.shape, HALF).astype(dtype) - dtype(32)) * scale[..., None]
    result: np.ndarray = values.reshape(len(n), -1)[:, :cols]
    return result


def coded(wanted: np.ndarray, cols: int) -> np.ndarray:
    """Scales f32 (N, ⌈K/16⌉) -> records (N, R) of the nearest ones: the largest becomes 127 times
    d."""
    count = records.records_of(cols, Q6)
    out = np.zeros((len(wanted), count), records.record_of(Q6))
    each = np.zeros((len(wanted), count, _OF_RECORD), np.float32)
    each.reshape(len(wanted), -1)[:, : wanted.shape[1]] = wanted
    with np.errstate(over="ignore", invalid="ignore"):
        d = scales.half(np.abs(each).max(axis=2) / _MOST)
        if not np.isfinite(d).all():
            raise PhasorError(f"a weight is too large for {TYPES[Q6]} (its scale does not fit f16)")
        codes = np.rint(np.clip(each * scales.inverse_of(d)[..., None], -_MOST, _MOST))
    out["d"], out["codes"] = d, codes
    return out


def quantize(x: np.ndarray, moments: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K) -> records (N, R), n (N, 32·G) with zeros as its padding, and where a scale is 0.

    Each 16 columns' scale is searched alone (scales.search), then stored as a code, and the values
    are rounded to what that stands for. All in f32 and in the order of file-format.md: `phasor
    quantize` makes the same bytes.
    """
    rows, cols = x.shape
    padded = np.zeros((rows, records.groups_of(cols) * GROUP), np.float32)
    padded[:, :cols] = x
    weight = None
    if moments is not None:
        weight = np.zeros(padded.shape[1], np.float32)
        weight[:cols] = moments
    wanted, _ = scales.search_rows(padded, weight, Q6, HALF)
    of = coded(wanted.astype(np.float32), cols)
    scale = grids(of, np.float32)[:, : padded.shape[1] // HALF, None]
    v = padded.reshape(rows, -1, HALF) * scales.inverse_of(scale)
    n = np.rint(np.clip(v, -32, 31)) + np.float32(32)
    n = np.where(scale != 0, n, np.float32(0)).reshape(rows, -1)
    n[:, cols:] = 0
    return of, n.astype(np.int8)
