"""Sines and cosines that are added to the embedding: those of a formula, or the table that a model
brings, which is compared with them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from phasor import positions
from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.reference.functions import sinusoid

_MOST = 1 << 26  # values of a table of sinusoids
PAPER, TENSOR2TENSOR = 0, 1  # base^(−2i/D); base^(−i/(D/2 − 1)), fairseq's too
_FEW = 16  # rows of a table that are no sinusoid by more than chance
_TOLERANCE = 1e-5  # of a value of the table, over the positions that the model may use


class Added(NamedTuple):
    """The positions of a stack: how they are made, and the values of one tensor."""

    position: int  # the descriptor's
    role: int
    values: np.ndarray
    note: str = ""


def added(
    own: np.ndarray | None,
    width: int,
    layout: int,
    base: float,
    offset: int,
    most: int,
    rates: int = PAPER,
) -> Added:
    """layout: D.INTERLEAVED or D.HALVES. own: the model's table, of the positions that it may use.
    offset: the angle's number of position 0; most: positions, where a table says them. rates: PAPER
    or TENSOR2TENSOR."""
    candidates = _inverse_frequencies(width, base, rates)
    if own is None and offset:
        rows = _later(width, layout, candidates[0], offset, most)
        return Added(D.LEARNED, R.POSITIONS, rows)
    if own is None:
        return Added(layout, R.SINUSOID, candidates[0])
    places = np.arange(len(own)) + offset
    errors = [np.abs(own - sinusoid(c, places, layout)).max(axis=1) for c in candidates]
    differences = [float(error.max()) for error in errors]
    best = int(np.argmin(differences))
    what = "the model's own table of positions"
    if differences[best] > _TOLERANCE:
        note = (
            f"{what} differs from the sinusoid by {differences[best]:.3g}: stored as it is, as"
            f" {len(own)} learned positions"
        )
        if not offset:
            note += _shorter(max(int(np.argmax(error > _TOLERANCE)) for error in errors), own)
        return Added(D.LEARNED, R.POSITIONS, own, note)
    note = f"{what} is the sinusoid within {differences[best]:.3g}"
    if offset:
        return Added(D.LEARNED, R.POSITIONS, own, f"{note}, from position {offset} on: a table")
    return Added(layout, R.SINUSOID, candidates[best], note)


def fairseq_base(width: int) -> float:
    """The base of fairseq's rates, 10000^(−i / (half − 1)) for i of half the width."""
    half = width // 2
    result: float = 10000.0 ** (half / (half - 1))
    return result


def own_rows(table: np.ndarray, width: int, offset: int, most: int) -> np.ndarray:
    """A model's table (positions, D), of the positions that it may use; most: 0 for all."""
    shape = table.shape
    table = table.reshape([n for n in shape if n != 1] or [1])
    if table.ndim == 1 and width == table.size:
        table = table[None]
    if table.ndim != 2 or table.shape[1] != width:
        raise PhasorError(f"shape {shape}, expected positions x {width}")
    table = table[offset:]
    if len(table) < max(most, 1):
        raise PhasorError(f"{len(table)} positions, max_positions is {most}")
    return table[: most or len(table)]


def _shorter(most: int, table: np.ndarray) -> str:
    """What makes a formula of a table whose first rows, `most` of them, are within the
    tolerance."""
    if most < _FEW:
        return ""
    return (
        f", {table.size * 4:,} bytes; max_positions = {most} or less makes it the sinusoid, without"
        " a table"
    )


def _later(width: int, layout: int, rates: np.ndarray, offset: int, most: int) -> np.ndarray:
    """(positions, D) of sinusoids whose positions do not begin at 0: the format has those that do,
    so they are kept as a table."""
    if not 0 < most * width <= _MOST:
        raise PhasorError(
            f"position_offset {offset} of sinusoids: they are kept as a table, max_positions of 1"
            f" to {_MOST // width} says how long"
        )
    return sinusoid(rates, np.arange(most) + offset, layout).astype(np.float32)


def _inverse_frequencies(width: int, base: float, rates: int) -> list[np.ndarray]:
    """The rates in float64; and as published code has them in float32, by exp and by pow, which
    differ in the last bits."""
    span = width - 2 if rates == TENSOR2TENSOR else width
    if span < 1:
        raise PhasorError(f"position_rates: a width of {width} has no second rate")
    even = np.arange(0, width, 2).astype(np.float32)
    exponents = (even * np.float32(-math.log(base) / span)).astype(np.float64)
    by_exp = np.exp(exponents).astype(np.float32)
    by_pow = np.float32(1) / positions.float32_powers(base, even / np.float32(span))
    exact = positions.inverse_frequencies(width, base)
    if rates == TENSOR2TENSOR:
        exact = positions.powers(base, -np.arange(0, width, 2, dtype=np.float64) / span)
    return [exact, by_exp.astype(np.float64), by_pow.astype(np.float64)]
