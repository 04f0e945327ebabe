"""Frequencies of rotary positions under every scaling in use: what `rope_scaling` of a config.json means (docs/positions.md).

Linear: Chen et al. 2023. Dynamic NTK: bloc97 and emozilla 2023. YaRN: Peng et al. 2023. LongRoPE: Ding et al. 2024. llama3: Llama 3.1's.
The frequencies are computed in float32, as the models' own code does, and given as float64 (rule 1.10 of the contract). A scaling that
changes with the length of the text is fixed for a context; a file made so takes no longer sequence.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from phasor_layout import PhasorError

_F = np.float32
_KEYS: dict[str, tuple[set[str], set[str]]] = {  # type -> (needed, optional)
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "dynamic": ({"factor"}, {"original_max_position_embeddings"}),
    "yarn": ({"factor"}, {"attention_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "mscale", "mscale_all_dim", "truncate"}),
    "longrope": ({"short_factor", "long_factor"}, {"attention_factor", "factor", "original_max_position_embeddings"}),
    "llama3": ({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}, set()),
}


class Rotary(NamedTuple):
    """Frequencies (width/2) float64; the factor of cosines and sines; the longest sequence they hold for, 0 where they hold for all."""

    inv_freq: np.ndarray
    factor: float
    most: int


def rotary(width: int, base: float, scaling: dict[str, Any] | None = None, trained: int = 0, context: int = 0, extended: int = 0) -> Rotary:
    """The frequencies of `width` rotated values.

    trained: positions that the model was trained for (before an extension); extended: those of the extended model, 0 = the same. context: the longest
    sequence that the file is to take, for dynamic and longrope; 0 = `trained`. PhasorError names a key that is missing or not understood.
    """
    kind, scaling = _checked(scaling)
    exponents = np.arange(0, width, 2).astype(_F) / _F(width)
    plain = _F(1) / np.power(_F(base), exponents)
    if kind == "default":
        return Rotary(plain.astype(np.float64), 1.0, 0)
    original = int(scaling.get("original_max_position_embeddings") or trained)
    if kind in ("dynamic", "yarn", "longrope") and original < 1:
        raise PhasorError(f"rope_scaling: {kind} needs the number of positions that the model was trained for")
    factor, length, most = 1.0, context or original, 0
    if kind == "linear":
        freq = plain / _F(scaling["factor"])
    elif kind == "dynamic":
        longest, stretch = max(length, trained), scaling["factor"]
        wider = base * ((stretch * longest / trained) - (stretch - 1)) ** (width / (width - 2))
        freq, most = _F(1) / np.power(_F(wider), exponents), length
    elif kind == "yarn":
        freq, factor = _yarn(width, base, exponents, scaling, original), _yarn_factor(scaling)
    elif kind == "longrope":
        freq, factor = _longrope(base, exponents, scaling, original, length, extended or trained)
        most = original if length <= original else length
    else:
        freq = _llama3(plain, scaling)
    return Rotary(freq.astype(np.float64), factor, most)


def _checked(scaling: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    scaling = dict(scaling or {})
    names = {scaling.pop(key) for key in ("rope_type", "type") if key in scaling}
    if len(names) > 1:
        raise PhasorError(f"rope_scaling: rope_type and type differ: {sorted(names)}")
    kind = names.pop() if names else "default"
    kind = {"su": "longrope"}.get(kind, kind)
    if kind not in _KEYS:
        raise PhasorError(f"rope_scaling: type {kind!r}, expected one of {', '.join(_KEYS)}")
    needed, optional = _KEYS[kind]
    for key in sorted(needed - set(scaling)):
        raise PhasorError(f"rope_scaling: {kind} needs {key}")
    for key in sorted(set(scaling) - needed - optional):
        raise PhasorError(f"rope_scaling: {key} is not a key of {kind}")
    return kind, scaling


def _magnitude(scale: float, by: float = 1.0) -> float:
    """YaRN's 0.1·ln(s) + 1."""
    return 1.0 if scale <= 1 else 0.1 * by * math.log(scale) + 1.0


def _yarn_factor(scaling: dict[str, Any]) -> float:
    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return _magnitude(scaling["factor"], scaling["mscale"]) / _magnitude(scaling["factor"], scaling["mscale_all_dim"])
    return _magnitude(scaling["factor"])


def _yarn(width: int, base: float, exponents: np.ndarray, scaling: dict[str, Any], original: int) -> np.ndarray:
    """Section 3.2: high frequencies stay, low ones are divided, a ramp lies between."""

    def dimension(rotations: float) -> float:
        return width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(scaling.get("beta_fast") or 32), dimension(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = high + 0.001 if low == high else high
    ramp = np.clip((np.arange(width // 2, dtype=_F) - _F(low)) / _F(high - low), _F(0), _F(1))
    powers = np.power(_F(base), exponents)
    stay, divided, share = _F(1) / powers, _F(1) / (_F(scaling["factor"]) * powers), _F(1) - ramp
    return divided * (_F(1) - share) + stay * share


def _longrope(base: float, exponents: np.ndarray, scaling: dict[str, Any], original: int, length: int, extended: int) -> tuple[np.ndarray, float]:
    stretch = scaling.get("factor") or extended / original
    factor = scaling.get("attention_factor")
    if factor is None:
        factor = 1.0 if stretch <= 1 else math.sqrt(1 + math.log(stretch) / math.log(original))
    own: Sequence[float] = scaling["long_factor" if length > original else "short_factor"]
    if len(own) != len(exponents):
        raise PhasorError(f"rope_scaling: {len(own)} factors of longrope, expected {len(exponents)}")
    return _F(1) / (np.asarray(own, _F) * np.power(_F(base), exponents)), float(factor)


def _llama3(plain: np.ndarray, scaling: dict[str, Any]) -> np.ndarray:
    original, low, high = scaling["original_max_position_embeddings"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    length = _F(2 * math.pi) / plain
    divided = np.where(length > original / low, plain / _F(scaling["factor"]), plain)
    share = (_F(original) / length - _F(low)) / _F(high - low)
    smooth = (_F(1) - share) * divided / _F(scaling["factor"]) + share * divided
    return np.where((length >= original / high) & (length <= original / low), smooth, divided)
