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
_TOLERANCE = 1e-5  # of a value of the table, over the positions that the model may use


class Added(NamedTuple):
    """The positions of a stack: how they are made, and the values of one tensor."""

    position: int  # the descriptor's
    role: int
    values: np.ndarray
    note: str = ""


def added(
    own: np.ndarray | None, width: int, layout: int, base: float, offset: int, most: int
) -> Added:
    """layout: D.INTERLEAVED or D.HALVES. own: the model's table, of the positions that it may use.
    offset: the angle's number of position 0; most: positions, where a table says them."""
    if own is None and offset:
        rows = _later(width, layout, base, offset, most)
        return Added(D.LEARNED, R.POSITIONS, rows)
    candidates = _inverse_frequencies(width, base)
    if own is None:
        return Added(layout, R.SINUSOID, candidates[0])
    places = np.arange(len(own))
    differences = [float(np.abs(own - sinusoid(c, places, layout)).max()) for c in candidates]
    best = int(np.argmin(differences))
    what = "the model's own table of positions"
    if differences[best] > _TOLERANCE:
        note = (
            f"{what} differs from the sinusoid by {differences[best]:.3g}: stored as it is, as"
            f" {len(own)} learned positions"
        )
        return Added(D.LEARNED, R.POSITIONS, own, note)
    note = f"{what} is the sinusoid within {differences[best]:.3g}"
    return Added(layout, R.SINUSOID, candidates[best], note)


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


def _later(width: int, layout: int, base: float, offset: int, most: int) -> np.ndarray:
    """(positions, D) of sinusoids whose positions do not begin at 0: the format has those that do,
    so they are kept as a table."""
    if not 0 < most * width <= _MOST:
        raise PhasorError(
            f"position_offset {offset} of sinusoids: they are kept as a table, max_positions of 1"
            f" to {_MOST // width} says how long"
        )
    rates = positions.inverse_frequencies(width, base)
    return sinusoid(rates, np.arange(most) + offset, layout).astype(np.float32)


def _inverse_frequencies(width: int, base: float) -> list[np.ndarray]:
    """base^(−2i/D) in float64; and as published code has it in float32, by exp and by pow, which
    differ in the last bits."""
    even = np.arange(0, width, 2).astype(np.float32)
    exponents = (even * np.float32(-math.log(base) / width)).astype(np.float64)
    by_exp = np.exp(exponents).astype(np.float32)
    by_pow = np.float32(1) / positions.float32_powers(base, even / np.float32(width))
    return [
        positions.inverse_frequencies(width, base),
        by_exp.astype(np.float64),
        by_pow.astype(np.float64),
    ]
