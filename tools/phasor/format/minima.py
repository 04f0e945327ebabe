"""q4m, q4k, q5m and q5k, 4 or 5 bits with a scale and a minimum for each group of 32
(file-format.md, rule 1.20): what a row's records are, how they lie, and the quantizer. numpy only.

A record is what values share: of q4m and q5m a group's f16 scale d and minimum m, of q4k and q5k
for eight groups both, and for each of the eight a code of six bits that multiplies either, in the
twelve bytes of GGUF's Q4_K and Q5_K. A code n of 0 … 15 or 31 stands for n·scale + minimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.errors import PhasorError
from phasor.format.records import groups_of, record_of, records_of
from phasor.format.scales import half, inverse_of
from phasor.format.types import BITS, GROUP, RECORDS, SUPER, TYPES


def _is_single(kind: int) -> bool:
    """Whether each group has a record of its own."""
    return RECORDS[kind][1] == 1


def most_of(kind: int) -> int:
    """The largest code of a value."""
    return (1 << BITS[kind]) - 1


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
    records, most = np.zeros((rows, records_of(cols, kind)), record_of(kind)), most_of(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        if _is_single(kind):
            minimum = half(least)
            scale = half((largest - minimum) / np.float32(most))
            records["d"], records["m"] = scale, minimum
        else:
            _eight_groups(records, np.minimum(least, 0), np.maximum(largest, 0), most)
    if not all(np.isfinite(records[name]).all() for name in "dm"):
        raise PhasorError(f"a weight is too large for {TYPES[kind]} (its scale does not fit f16)")
    scale, minimum = grids(records, cols, kind, np.float32)
    n = _nearest((padded - minimum[..., None]) * inverse_of(scale)[..., None], most)
    n = n.reshape(rows, -1)
    n[:, cols:] = 0
    return records, n.view(np.int8)


def _eight_groups(records: np.ndarray, least: np.ndarray, largest: np.ndarray, most: int) -> None:
    """Fills records from the range of each group, which has 0 in it."""
    shape = (*records.shape, SUPER)
    steps, depths = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    count = least.shape[1]
    steps.reshape(len(records), -1)[:, :count] = (largest - least) / np.float32(most)
    depths.reshape(len(records), -1)[:, :count] = np.float32(0) - least
    scale = half(steps.max(axis=2) / np.float32(63))
    minimum = half(np.float32(0) - depths.max(axis=2) / np.float32(63))
    records["d"], records["m"] = scale, minimum
    records["codes"] = pack_codes(
        _nearest(steps * inverse_of(scale)[..., None], 63),
        _nearest(depths * inverse_of(np.float32(0) - minimum)[..., None], 63),
    )
