"""Scale search: tries several scales for each group of columns and keeps the one with the smallest
error. Computes in f32, in the order that file-format.md gives. numpy only.

Letters: N rows, K columns, W columns that share a scale, M scales at once.
"""

from __future__ import annotations

import numpy as np

from phasor.errors import PhasorError
from phasor.format.types import *

# What a scale is tried as: the value of largest magnitude (of q8 the magnitude) divided by each of
# these.
DIVISORS = {
    Q8: tuple(range(128, 115, -1)),
    Q4: tuple(sign * i / 4 for sign in (-1, 1) for i in range(24, 41)),
    Q4T: tuple(sign * i for sign in (-1, 1) for i in range(96, 161, 4)),
    Q6: tuple(sign * i for sign in (-1, 1) for i in range(28, 37)),
    Q3: tuple(sign * i / 8 for sign in (-1, 1) for i in range(24, 41)),
}
DIVISORS[Q4X] = DIVISORS[Q4T]
# The value of the table that is nearest to v, of two the larger, is that at ⌊2v⌋ + 256.
_STANDARD = np.array(ROUNDED_TABLE, np.float32)
_PLACES = np.searchsorted(_STANDARD[:-1] + _STANDARD[1:], np.arange(-256, 256), side="right")
_NEAREST = _STANDARD[_PLACES]
_REFINEMENTS = 2
_AT_ONCE = 2048  # scales


def half(x: np.ndarray) -> np.ndarray:
    """The nearest f16, never −0, in f32; infinite where there is none."""
    with np.errstate(over="ignore"):
        out: np.ndarray = x.astype(np.float16).astype(np.float32) + np.float32(0)
    return out


def inverse_of(scale: np.ndarray) -> np.ndarray:
    """f32; of 0 it is 0."""
    result: np.ndarray = np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))
    return result


def nearest_of_table(v: np.ndarray) -> np.ndarray:
    """The value of the standard table that is nearest to each of v (f32, −128 … 127)."""
    result: np.ndarray = np.take(_NEAREST, np.floor(v + v).astype(np.intp) + 256)
    return result


def rounded(v: np.ndarray, kind: int) -> np.ndarray:
    """v, weights over their scale, as the nearest integers that the type has. In place."""
    most = 128 if kind in LOOKUPS else 1 << BITS[kind] - 1  # −most … most − 1
    np.minimum(np.maximum(v, -most, out=v), most - 1, out=v)
    if kind in LOOKUPS:
        v[:] = nearest_of_table(v)
    else:
        np.rint(v, out=v)
    return v


def _tree(terms: np.ndarray) -> np.ndarray:
    """(W, M) -> (M): term i and i + W/2, then i and i + W/4, … The terms are overwritten."""
    middle = len(terms) // 2
    while middle:
        terms[:middle] += terms[middle : 2 * middle]
        middle //= 2
    result: np.ndarray = terms[0]
    return result


def _search(x: np.ndarray, moments: np.ndarray | None, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """(W, M) f32 -> f16 (M,), int8 (M, W)."""
    count = x.shape[1]
    extreme = np.take_along_axis(x, np.abs(x).argmax(axis=0)[None], axis=0)[0]
    if kind == Q8:
        extreme = np.abs(extreme)
    best_error, best_scale = np.full(count, np.inf, np.float32), np.full(count, np.inf, np.float32)
    best, q, work = np.zeros_like(x), np.empty_like(x), np.empty_like(x)

    def weighted() -> np.ndarray:
        return _tree(work if moments is None else np.multiply(work, moments, out=work))

    def attempt(scale: np.ndarray) -> None:
        scale = half(scale)
        rounded(np.multiply(x, inverse_of(scale), out=q), kind)
        np.subtract(x, np.multiply(q, scale, out=work), out=work)
        np.multiply(work, work, out=work)
        error = weighted()
        better = error < best_error
        np.copyto(best_error, error, where=better)
        np.copyto(best_scale, scale, where=better)
        np.copyto(best, q, where=better)

    with np.errstate(over="ignore", invalid="ignore"):
        for divisor in DIVISORS[kind]:
            attempt(extreme / np.float32(divisor))
        for _ in range(_REFINEMENTS):  # the scale that is best for these integers
            np.multiply(x, best, out=work)
            products = weighted().copy()
            np.multiply(best, best, out=work)
            squares = weighted()
            attempt(np.divide(products, squares, where=squares > 0, out=best_scale.copy()))
    if not np.isfinite(best_error).all():
        raise PhasorError(f"a weight is too large for {TYPES[kind]} (its scale does not fit f16)")
    return best_scale.astype(np.float16), best.T.astype(np.int8)


def search_rows(
    padded: np.ndarray, moments: np.ndarray | None, kind: int, width: int = GROUP
) -> tuple[np.ndarray, np.ndarray]:
    """f32 (N, K), K a multiple of W = width -> f16 scales (N, K/W) and int8 (N, K).

    Of the scales that are tried the one whose Σ moment·(x − scale·q)² is smallest; moments (K): all
    1 without. PhasorError when a scale does not fit f16."""
    rows, cols = padded.shape
    weight = None if moments is None else moments.reshape(-1, width)
    flat = padded.reshape(-1, width)
    scales, q = np.empty(len(flat), np.float16), np.empty(flat.shape, np.int8)
    for first in range(0, len(flat), _AT_ONCE):
        part = slice(first, min(first + _AT_ONCE, len(flat)))
        given = (
            None
            if weight is None
            else np.ascontiguousarray(weight[np.arange(part.start, part.stop) % len(weight)].T)
        )
        scales[part], q[part] = _search(np.ascontiguousarray(flat[part].T), given, kind)
    return scales.reshape(rows, -1), q.reshape(rows, cols)
