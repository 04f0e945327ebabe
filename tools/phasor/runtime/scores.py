"""Softmax and logarithms in float64, with the operations and the order of the program's: a score
has the same bits on every machine, which those of NumPy do not promise."""

from __future__ import annotations

import functools
import math
from decimal import Decimal

import numpy as np

from phasor.runtime import _interface as c

_STEPS = float.fromhex("0x1.71547652b82fep+5")  # 32/ln 2
# ln 2/32; the first times a whole number below 2^21 is exact
_HIGH, _LOW = float.fromhex("0x1.62e42feep-6"), float.fromhex("0x1.a39ef35793c76p-38")
_HALF = float.fromhex("0x1.6a09e667f3bcdp+0")  # √2


@functools.cache
def _powers() -> np.ndarray:
    """2^(k/32)."""
    return np.array([float(Decimal(2) ** (Decimal(k) / 32)) for k in range(32)])


def exponential(values: np.ndarray) -> np.ndarray:
    """e^x in float64, of the same shape: 0 below -708, +inf above 709."""
    x = np.clip(values, -708, 709)
    t = x * _STEPS
    n = np.trunc(t + np.where(t < 0, -0.5, 0.5))
    r = x - n * _HIGH - n * _LOW
    rest = r + r * r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720)))))
    whole = n.astype(np.int64)
    power = _powers()[whole & 31]
    out: np.ndarray = np.ldexp(power + power * rest, whole >> 5)
    out[values < -708] = 0
    out[values > 709] = np.inf
    return out


def logarithm(x: float) -> float:
    """ln x, for finite x above 0."""
    m, n = math.frexp(x)
    m, n = m * 2, n - 1
    if m > _HALF:
        m, n = m * 0.5, n + 1
    s = (m - 1) / (m + 1)
    z, total, k = s * s, 0.0, 32.0 * n
    for i in range(25, 1, -2):
        total = (total + 1 / i) * z
    return k * _HIGH + (2 * s + (2 * s * total + k * _LOW))


def added(values: np.ndarray) -> np.ndarray:
    """The sums of the last axis, from the first value to the last one."""
    sums: np.ndarray = np.add.accumulate(values, axis=-1)[..., -1] + 0.0
    return sums


def softmax(row: np.ndarray) -> np.ndarray:
    """(n) float64, of (n) logits."""
    values = exponential(row.astype(np.float64) - float(row.max()))
    values /= added(values)
    return values


def log_normalizer(row: np.ndarray) -> tuple[float, float]:
    """The two numbers that a logit less both of them is a log-probability."""
    largest = float(row.max())
    return largest, logarithm(float(added(exponential(row.astype(np.float64) - largest))))


def class_scores(scores: int, row: np.ndarray) -> np.ndarray:
    """(n) float64: what a row of classes says, as the file wants it said."""
    if scores == c.SCORES_SOFTMAX:
        return softmax(row)
    values = row.astype(np.float64)
    return 1 / (1 + exponential(-values)) if scores == c.SCORES_SIGMOID else values


def best(scores: np.ndarray, most: int | None) -> list[int]:
    """The places of the `most` largest scores, best first; of equal ones the first place first."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:most]]
