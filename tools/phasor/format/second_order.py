"""Rounding against the second moments of a matrix's inputs: each column's rounding error is made up
for by the columns that are still to be rounded (GPTQ, Frantar et al. 2022, from OBS, Hassibi and
Stork 1993). numpy only; the types, layouts and sizes are those of every other quantizer.

Letters: N rows, K columns, G groups of W columns (32; of q6 and q3 16), H (K, K) the mean of x·xᵀ
over the inputs x of the matrix. What is made small is the error of the outputs, Σ over rows of
eᵀ·H·e.

Columns are rounded a group at a time, the groups with the largest moments first and in a group the
columns with the largest first. When a group's turn comes, its weights hold the corrections of those
before it. Its scale is then searched: each candidate rounds the whole group with its corrections
inside, and the one whose Σ (error / U[i, i])² is smallest is kept, U the upper Cholesky factor of
H⁻¹ in the order of the columns. That sum is the error of the outputs that columns further on cannot
make up for. The scale that fits the codes of the best one by least squares is tried after it,
twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasor.errors import PhasorError
from phasor.format import coded, minima, records
from phasor.format import layout as L
from phasor.format.scales import half, inverse_of, rounded

Floats = NDArray[np.float32]
# Of the mean moment, added to each: H of few inputs has no inverse, and inputs that the text did
# not have may lie in any direction. With 0.01, rare inputs lose what the others gain.
_DAMPING = 0.1
_REFINEMENTS = 2
_WEIGHTS = 1 << 20  # of a block of rows
TYPES = (L.Q8, L.Q4, L.Q4T, *L.MINIMA, L.Q6, L.Q4X, L.Q3)
# The extreme weight of a group over each of these is a scale that is tried.
_DIVISORS = {
    L.Q8: (128.0, 126.0, 124.0, 122.0, 120.0),
    L.Q4: tuple(sign * d / 4 for sign in (-1, 1) for d in range(25, 40, 2)),
    L.Q4T: tuple(float(sign * d) for sign in (-1, 1) for d in range(100, 157, 8)),
    L.Q6: tuple(float(sign * d) for sign in (-1, 1) for d in range(30, 35)),
    L.Q3: tuple(float(sign * d / 8) for sign in (-1, 1) for d in range(25, 40, 2)),
}
_DIVISORS[L.Q4X] = _DIVISORS[L.Q4T]
_MOST_CODE = 63  # of those that scales and minima of a record of eight groups are stored as
# How much of the range below and above its middle a grid with a minimum is tried to span.
_SPANS = tuple((a, b) for a in (1.0, 0.9, 0.8) for b in (1.0, 0.9, 0.8)) + (
    (0.95, 0.95),
    (0.85, 0.85),
    (0.75, 0.75),
)


class Grids(NamedTuple):
    """Candidates for a group: a value is code·scale + least, of q4t and q4x table[code]·scale."""

    scale: Floats  # (C, N)
    least: Floats  # (C, N), 0 in types without minima


class Plan(NamedTuple):
    """The order of columns, and what they correct."""

    order: NDArray[np.intp]  # (W·G): the padded columns, groups whole
    factor: Floats  # (W·G, W·G): U
    width: int  # W
    together: int  # groups that share a record


def plan(hessian: NDArray[np.floating], cols: int, kind: int) -> Plan:
    """H (K, K) of a matrix with so many columns. The groups that share a record stay together."""
    if hessian.shape != (cols, cols):
        raise PhasorError(f"second moments of {hessian.shape}, expected {(cols, cols)}")
    width = coded.width_of(kind) if kind in L.CODED else L.GROUP
    together = L.RECORDS.get(kind, (0, 1))[1] * (L.GROUP // width)
    whole = np.zeros((L.round_up(cols, L.GROUP),) * 2)
    groups = len(whole) // width
    whole[:cols, :cols] = hessian
    moments = np.diag(whole).copy()
    mean = float(moments[:cols].mean()) or 1.0
    places = np.arange(len(whole))
    whole[places, places] += _DAMPING * mean + np.where(moments > 0, 0.0, mean)
    by_group = moments.reshape(groups, width)
    inner = np.argsort(-by_group, axis=1, kind="stable") + width * np.arange(groups)[:, None]
    sums, record = by_group.sum(axis=1), np.arange(groups) // together
    of_record = np.bincount(record, weights=sums)
    outer = np.lexsort((-sums, -of_record[record]))
    order = inner[outer].reshape(-1)
    inverse = np.linalg.inv(whole[np.ix_(order, order)])
    factor = np.linalg.cholesky((inverse + inverse.T) / 2).T
    return Plan(order, np.ascontiguousarray(factor, np.float32), width, together)


def _rounded(w: Floats, grids: Grids, inverse: Floats, kind: int) -> Floats:
    """w (…, N) as codes, of types without minima as their integers."""
    if kind in L.MINIMA:
        most = minima.most_of(kind)
        codes: Floats = np.rint(np.clip((w - grids.least) * inverse, 0, most))
        return codes
    return rounded(w * inverse, kind)


class Group(NamedTuple):
    """W columns rounded."""

    scale: Floats  # (N,)
    least: Floats
    codes: Floats  # (W, N)
    errors: Floats  # (W, N), each over U[i, i]


def _round_group(w: Floats, factor: Floats, grids: Grids, kind: int) -> Group:
    """w (W, N) in the order of rounding, factor (W, W): the part of U; the best candidate of
    each row."""
    count, rows = grids.scale.shape
    fits = np.isfinite(grids.scale) & np.isfinite(grids.least)
    grids = Grids(*(np.where(fits, part, np.float32(0)) for part in grids))
    inverse = inverse_of(grids.scale)
    left = np.repeat(w[:, None], count, axis=1)
    codes, errors = np.empty_like(left), np.empty_like(left)
    for i in range(len(w)):
        codes[i] = _rounded(left[i], grids, inverse, kind)
        errors[i] = (left[i] - (codes[i] * grids.scale + grids.least)) / factor[i, i]
        left[i + 1 :] -= factor[i, i + 1 :, None, None] * errors[i]
    loss = np.einsum("icn,icn->cn", errors, errors)
    loss[~fits] = np.inf
    best = loss.argmin(axis=0)
    if not np.isfinite(loss.min(axis=0)).all():
        raise PhasorError(f"a weight is too large for {L.TYPES[kind]} (its scale does not fit f16)")
    each = np.arange(rows)
    scale, least = grids.scale[best, each], grids.least[best, each]
    return Group(scale, least, codes[:, best, each], errors[:, best, each])


def _spans_tried(w: Floats, kind: int) -> Grids:
    """Of types with minima, in f32. Where eight groups share a record, the range has 0 in it."""
    least, most = w.min(axis=0), w.max(axis=0)
    if L.RECORDS[kind][1] > 1:
        least, most = np.minimum(least, 0), np.maximum(most, 0)
    middle = (least + most) / np.float32(2)
    shares = np.array(_SPANS, np.float32)
    low = middle + (least - middle) * shares[:, :1]
    high = middle + (most - middle) * shares[:, 1:]
    return Grids((high - low) / np.float32(minima.most_of(kind)), low)


def _tried(w: Floats, kind: int) -> Grids:
    if kind in L.MINIMA:
        return _spans_tried(w, kind)
    extreme = np.take_along_axis(w, np.abs(w).argmax(axis=0)[None], axis=0)
    extreme = np.abs(extreme) if kind == L.Q8 else extreme
    scale = extreme / np.array(_DIVISORS[kind], np.float32)[:, None]
    return Grids(scale, np.zeros_like(scale))


class _Record(NamedTuple):
    """What the groups of a record share, (N,) each; of coded types the second is 0."""

    scale: Floats
    least: Floats


def _record_of(w: Floats, plan_: Plan, first: int, groups: int, kind: int) -> _Record:
    """d and m for `groups` groups of w (W·G, N) that are next, by what each would take alone."""
    steps, depths = [], []
    for at in range(first, first + groups * plan_.width, plan_.width):
        part = slice(at, at + plan_.width)
        factor = plan_.factor[part, part]
        alone = _search(w[part], factor, _tried(w[part], kind), kind, None)
        steps.append(alone.scale)
        depths.append(np.maximum(-alone.least, 0))
    if kind in L.CODED:
        number = coded.number_of(np.stack(steps, axis=-1), kind)
        return _Record(number, np.zeros_like(number))
    most = np.float32(_MOST_CODE)
    return _Record(half(np.max(steps, axis=0) / most), half(-np.max(depths, axis=0) / most))


def _codes_of(x: Floats, unit: Floats, kind: int) -> Floats:
    """The nearest number of units that the type has."""
    if kind in L.CODED:
        codes: Floats = coded.nearest_codes(x[..., None], unit, kind)[..., 0]
        return codes
    out: Floats = np.rint(np.clip(x * inverse_of(unit), 0, _MOST_CODE))
    return out


def _stored(tried: Grids, kind: int, record: _Record | None) -> Grids:
    """The candidates as the type has them: in f16, or in units of the record."""
    if record is None:
        return Grids(half(tried.scale), half(tried.least))
    s, t = (_codes_of(*pair, kind) for pair in zip(tried, record))
    with np.errstate(invalid="ignore"):  # a unit that does not fit f16 is refused with its group
        return Grids(s * record.scale, t * record.least)


def _fitted(w: Floats, factor: Floats, made: Group, kind: int) -> Grids:
    """The scale, and the minimum, with which the codes of a group have the smallest error, columns
    further on corrected: |F⁻ᵀ·(w − scale·codes − least)|² is a least-squares problem."""
    back = np.linalg.inv(factor.T.astype(np.float64))
    target, codes = back @ w, back @ made.codes
    squares, products = (codes * codes).sum(axis=0), (codes * target).sum(axis=0)
    if kind in L.MINIMA:
        ones = back.sum(axis=1)
        mixed, alone = ones @ codes, float(ones @ ones)
        below = squares * alone - mixed * mixed
        top, low = ones @ target, made.least.astype(np.float64)
        scale = np.divide(
            products * alone - mixed * top, below, where=below > 0, out=made.scale.astype(float)
        )
        low = (top - scale * mixed) / alone
        return Grids(scale[None].astype(np.float32), low[None].astype(np.float32))
    scale = np.divide(products, squares, where=squares > 0, out=made.scale.astype(float))
    return Grids(scale[None].astype(np.float32), made.least[None])


def _search(w: Floats, factor: Floats, tried: Grids, kind: int, record: _Record | None) -> Group:
    """The best of the candidates, refined by least squares."""
    best = _round_group(w, factor, _stored(tried, kind, record), kind)
    for _ in range(_REFINEMENTS):
        fitted = _stored(_fitted(w, factor, best, kind), kind, record)
        fits = np.isfinite(fitted.scale) & np.isfinite(fitted.least)
        fitted = Grids(*(np.where(fits, a, b) for a, b in zip(fitted, best[:2])))
        other = _round_group(w, factor, fitted, kind)
        losses = [(one.errors * one.errors).sum(axis=0) for one in (other, best)]
        better = losses[0] < losses[1]
        best = Group(*(np.where(better, a, b) for a, b in zip(other, best)))
    return best


def _round_rows(w: Floats, plan_: Plan, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """w (W·G, N), in the order of the plan, is overwritten. As L.quantize gives them."""
    rows, width, together = w.shape[1], plan_.width, plan_.together
    groups = len(w) // width
    scales, least = np.zeros((2, groups, rows), np.float32)
    codes = np.zeros((groups * width, rows), np.int8)
    shared: dict[int, _Record] = {}
    for turn in range(groups):
        part = slice(turn * width, (turn + 1) * width)
        group = int(plan_.order[part.start]) // width
        now, factor, record = w[part], plan_.factor[part, part], None
        if together > 1:
            number = group // together
            if number not in shared:
                count = min(together, groups - number * together)
                shared[number] = _record_of(w, plan_, part.start, count, kind)
            record = shared[number]
        made = _search(now, factor, _tried(now, kind), kind, record)
        scales[group], least[group] = made.scale, made.least
        codes[plan_.order[part]] = made.codes
        w[part.stop :] -= plan_.factor[part, part.stop :].T @ made.errors
    codes[cols:] = 0
    values = np.ascontiguousarray(codes.T)
    if kind not in L.RECORDS:
        return np.ascontiguousarray(scales.T).astype(np.float16), values
    of = np.zeros((rows, records.records_of(cols, kind)), records.record_of(kind))
    if together == 1:
        of["d"], of["m"] = scales.T, least.T
        return of, values
    whole = np.zeros((2, of.shape[1], together, rows), np.int8)
    for number, unit in shared.items():
        own = slice(number * together, (number + 1) * together)
        for field, to, all_, one in zip("dm", whole, (scales, least), unit):
            if field in (of.dtype.names or ()):
                of[field][:, number] = one
            to[number, : len(all_[own])] = _codes_of(all_[own], one, kind)
    by_record = whole.transpose(0, 3, 1, 2)
    if kind in L.CODED:
        coded.store(of, by_record[0], of["d"].copy(), cols, kind)
        used = coded.grids(of, kind)[:, :groups].repeat(width, axis=1) != 0
        used[:, cols:] = False
        return of, coded.codes_of(values, used, kind)
    of["codes"] = minima.pack_codes(*by_record.view(np.uint8))
    return of, values


class Rounder:
    """For one matrix: as L.quantize, a block of rows at a time."""

    def __init__(self, hessian: NDArray[np.floating], cols: int, kind: int) -> None:
        """hessian: H (K, K)."""
        self._plan, self._cols = plan(hessian, cols, kind), cols
        self.rows = max(1, _WEIGHTS // len(self._plan.order))  # at once

    def quantize(
        self, x: NDArray[np.floating], kind: int, moments: object = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """f32 (N, K) as L.quantize gives it; H takes the moments' place. PhasorError when a scale
        does not fit f16."""
        padded = np.zeros((len(self._plan.order), len(x)), np.float32)
        padded[: self._cols] = x.T
        if kind in L.MINIMA and self._plan.together == 1:  # whose range need not have 0 in it
            padded[self._cols :] = x[:, -1]
        return _round_rows(padded[self._plan.order], self._plan, self._cols, kind)
