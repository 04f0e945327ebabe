"""What the tables of position encodings are made of: T5's buckets, ALiBi's slopes, frequencies.
numpy only.

A file has the same bytes on every machine. numpy's power, exp and log have another last bit on
another processor: powers are rounded from 60 digits, and what published code computes in float32 is
computed in float64 here, and then rounded.
"""

from __future__ import annotations

import decimal
import math

import numpy as np

from phasor.errors import PhasorError

_DIGITS = decimal.Context(prec=60)
_MOST_BIASES = 1 << 24  # of all T5 tables of a stack: they are as long as a configuration says


def powers(base: float, exponents: np.ndarray) -> np.ndarray:
    """base^e for each of `exponents`, rounded once from 60 digits."""
    exact = decimal.Decimal(base)
    return np.array([float(_DIGITS.power(exact, decimal.Decimal(float(e)))) for e in exponents])


def float32_powers(base: float, exponents: np.ndarray) -> np.ndarray:
    """The same in float32, of which base and exponents are."""
    return powers(float(np.float32(base)), exponents.astype(np.float32)).astype(np.float32)


def inverse_frequencies(width: int, base: float = 10000.0) -> np.ndarray:
    """(width / 2): base^(−2i/width), of sinusoids (Vaswani et al. 2017, section 3.5) and of rotary
    positions."""
    if width <= 0 or width % 2:
        raise PhasorError(
            f"width {width}: sine and cosine need an even width, a pair of values for each "
            "frequency"
        )
    return powers(base, -np.arange(0, width, 2, dtype=np.float64) / width)


def t5_buckets(distance: np.ndarray, buckets: int, most: int, two_sided: bool) -> np.ndarray:
    """The bucket of each distance, key − query, as published code computes it in float32 (Raffel et
    al. 2020, section 2.1).

    Half of the buckets are single distances, the others grow as the logarithm up to `most`; all
    beyond it share the last. Two-sided: one half for keys before the query and one for those after
    it. One-sided: keys after the query have distance 0.
    """
    distance = np.asarray(distance)
    first = np.zeros_like(distance)
    if two_sided:
        buckets //= 2
        first = np.where(distance > 0, buckets, 0)
        away = np.abs(distance)
    else:
        away = np.maximum(-distance, 0)
    exact = buckets // 2
    grows = np.maximum(away, 1).astype(np.float32) / np.float32(exact)
    ratio = np.log(grows.astype(np.float64)).astype(np.float32) / np.float32(math.log(most / exact))
    steps = (ratio * np.float32(buckets - exact)).astype(distance.dtype)
    grown = np.minimum(exact + steps, buckets - 1)
    result: np.ndarray = first + np.where(away < exact, away, grown)
    return result


def t5_table(bias: np.ndarray, most: int, two_sided: bool) -> np.ndarray:
    """(heads, 2·M + 1) by clipped distance from T5's (buckets, heads). PhasorError for buckets
    that cannot be; most: M, the first distance that lies in the last bucket for sure."""
    buckets, least = len(bias), 4 if two_sided else 2
    if buckets < least or buckets % 2 or most <= buckets // least:
        raise PhasorError(
            f"{buckets} buckets up to max_distance {most}: expected an even number of "
            "buckets, and more distance than the half of them that are single distances"
        )
    distances = np.arange(-most, most + 1)
    return np.ascontiguousarray(bias[t5_buckets(distances, buckets, most, two_sided)].T)


def check_t5_size(most: int, heads: int, layers: int) -> None:
    """PhasorError for tables that would fill the memory."""
    if heads * (2 * most + 1) * layers > _MOST_BIASES:
        raise PhasorError(
            f"max_distance {most} of {heads} heads in {layers} layers: the tables would have more "
            f"than {_MOST_BIASES:,} values"
        )


def alibi_slopes(heads: int) -> np.ndarray:
    """(H) in float64: 2^(−8/H), its square, its cube, …; where H is no power of two those of the
    power below, then every second of the one above (Press et al. 2022, section 3 and its code)."""

    def geometric(count: int) -> np.ndarray:
        return powers(2.0, -8.0 / count * np.arange(1, count + 1))

    below = 1 << heads.bit_length() - 1
    return np.concatenate([geometric(below), geometric(2 * below)[::2][: heads - below]])
