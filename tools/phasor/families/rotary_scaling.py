"""Frequencies of rotary positions under every scaling in use: what `rope_scaling` of a config.json
means (docs/reference/positions.md).

Linear: Chen et al. 2023. Dynamic NTK: bloc97 and emozilla 2023. YaRN: Peng et al. 2023. LongRoPE:
Ding et al. 2024. llama3: Llama 3.1's. The frequencies are computed in float32, as the models' own
code does, and given as float64 (rule 1.10). A scaling that changes with the length
of the text is fixed for a context; a file made so takes no longer sequence.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from phasor.errors import PhasorError, printable, shown
from phasor.positions import float32_powers
from phasor.values import is_number, is_whole

_F = np.float32
# type -> the keys that it needs, and those that it may have
_KEYS = {
    "default": ("", ""),
    "linear": ("factor", ""),
    "proportional": ("", "factor partial_rotary_factor"),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": (
        "factor",
        "attention_factor beta_fast beta_slow original_max_position_embeddings mscale "
        "mscale_all_dim truncate",
    ),
    "longrope": (
        "short_factor long_factor",
        "attention_factor factor original_max_position_embeddings",
    ),
    "llama3": (
        "factor low_freq_factor high_freq_factor original_max_position_embeddings",
        "",
    ),
}
PROPORTIONAL = "proportional"  # Gemma 4's: a share of the frequencies, the others 0
_TYPE = ("rope_type", "type")
_ALIASES = {"su": "longrope"}
_LISTS = {"short_factor", "long_factor"}
# 0 is as if they were not there.
_ANY_FROM_0 = {"mscale", "mscale_all_dim", "beta_fast", "beta_slow"}


class Rotary(NamedTuple):
    """Frequencies (width/2) float64; the factor of cosines and sines; the longest sequence they
    hold for, 0 where they hold for all."""

    inv_freq: np.ndarray
    factor: float
    most: int


def rotary(
    width: int,
    base: float,
    scaling: dict[str, Any] | None = None,
    trained: int = 0,
    context: int = 0,
    extended: int = 0,
) -> Rotary:
    """The frequencies of `width` rotated values.

    trained: positions that the model was trained for (before an extension); extended: those of the
    extended model, 0 = the same. context: the longest sequence that the file is to take, for
    dynamic and longrope; 0 = `trained`. PhasorError names a key that is missing or not understood.
    """
    kind, scaling = _checked(scaling)
    try:
        with np.errstate(all="ignore"):  # what is no number is found below
            made = _computed(kind, scaling, width, base, (trained, context, extended))
    except (ArithmeticError, ValueError) as error:
        raise PhasorError(f"rope_scaling: {kind}: its numbers make no frequencies") from error
    if not np.isfinite(made.inv_freq).all() or not math.isfinite(made.factor):
        raise PhasorError(f"rope_scaling: {kind}: its numbers make frequencies that are no numbers")
    return made


def _computed(
    kind: str,
    scaling: dict[str, Any],
    width: int,
    base: float,
    lengths: tuple[int, int, int],
) -> Rotary:
    trained, context, extended = lengths
    exponents = np.arange(0, width, 2).astype(_F) / _F(width)
    plain = _F(1) / float32_powers(base, exponents)
    if kind == "default":
        return Rotary(plain.astype(np.float64), 1.0, 0)
    original = scaling.get("original_max_position_embeddings") or trained
    if kind in ("dynamic", "yarn", "longrope") and original < 1:
        raise PhasorError(
            f"rope_scaling: {kind} needs the number of positions that the model was trained for"
        )
    factor, length, most = 1.0, context or original, 0
    whole = extended or trained
    if kind == "linear":
        freq = plain / _F(scaling["factor"])
    elif kind == "proportional":
        turned = int(scaling.get("partial_rotary_factor", 1.0) * width // 2)
        if turned > width // 2:
            raise PhasorError("rope_scaling: partial_rotary_factor: expected at most 1")
        freq = np.where(np.arange(width // 2) < turned, plain, _F(0))
        freq = freq / _F(scaling.get("factor") or 1)
    elif kind == "dynamic":
        longest, stretch = max(length, whole), scaling["factor"]
        if width < 4:
            raise PhasorError(
                f"rope_scaling: dynamic needs at least 4 rotated values, there are {width}"
            )
        wider = base * ((stretch * longest / whole) - (stretch - 1)) ** (width / (width - 2))
        freq, most = _F(1) / float32_powers(wider, exponents), length
    elif kind == "yarn":
        freq, factor = _yarn(width, base, exponents, scaling, original), _yarn_factor(scaling)
    elif kind == "longrope":
        freq, factor = _longrope(base, exponents, scaling, original, length, whole)
        most = original if length <= original else length
    else:
        freq = _llama3(plain, scaling)
    return Rotary(freq.astype(np.float64), factor, most)


def scaling_type(scaling: Mapping[str, Any]) -> str:
    """Which of the scalings a table is; PhasorError when it is none of them."""
    names = [scaling[key] for key in _TYPE if scaling.get(key) is not None] or ["default"]
    kinds = [_ALIASES.get(name, name) if isinstance(name, str) else name for name in names]
    for kind in kinds:
        if not isinstance(kind, str) or kind not in _KEYS:
            raise PhasorError(
                f"rope_scaling: type {shown(kind)}, expected one of {', '.join(_KEYS)}"
            )
    if len(set(names)) > 1:
        raise PhasorError(f"rope_scaling: rope_type and type differ: {sorted(names)}")
    return kinds[0]


def _checked(scaling: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    scaling = dict(scaling or {})
    kind = scaling_type(scaling)
    scaling = {key: value for key, value in scaling.items() if key not in _TYPE}
    needed, optional = map(str.split, _KEYS[kind])
    for key in sorted(needed):
        if scaling.get(key) is None:
            raise PhasorError(f"rope_scaling: {kind} needs {key}")
    for key, value in scaling.items():
        if key in needed + optional:
            _check_value(key, value)
        elif value is not None:
            raise PhasorError(f"rope_scaling: {printable(key)} is not a key of {kind}")
    return kind, scaling


def _check_value(key: str, value: Any) -> None:
    """PhasorError for a value of another type or range; null is as if the key were not there, but
    for truncate, where published code takes it for false."""
    if value is None and key != "truncate":
        return
    if key == "truncate":
        fine, what = isinstance(value, bool), "true or false"
    elif key in _LISTS:
        fine = isinstance(value, (list, tuple)) and all(
            is_number(item) and item > 0 for item in value
        )
        what = "a list of numbers above 0"
    elif key == "original_max_position_embeddings":
        fine, what = is_whole(value, 1, 1 << 30), "a whole number from 1"
    elif key in _ANY_FROM_0:
        fine, what = is_number(value) and value >= 0, "a number from 0"
    else:
        fine, what = is_number(value) and value > 0, "a number above 0"
    if not fine:
        raise PhasorError(f"rope_scaling: {key}: {shown(value)}, expected {what}")


def _magnitude(scale: float, by: float = 1.0) -> float:
    """YaRN's 0.1·ln(s) + 1."""
    return 1.0 if scale <= 1 else 0.1 * by * math.log(scale) + 1.0


def _yarn_factor(scaling: dict[str, Any]) -> float:
    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return _magnitude(scaling["factor"], scaling["mscale"]) / _magnitude(
            scaling["factor"], scaling["mscale_all_dim"]
        )
    return _magnitude(scaling["factor"])


def _yarn(
    width: int, base: float, exponents: np.ndarray, scaling: dict[str, Any], original: int
) -> np.ndarray:
    """Section 3.2: high frequencies stay, low ones are divided, a ramp lies between."""

    def dimension(rotations: float) -> float:
        return width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension(scaling.get("beta_fast") or 32), dimension(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = high + 0.001 if low == high else high
    ramp = np.clip((np.arange(width // 2, dtype=_F) - _F(low)) / _F(high - low), _F(0), _F(1))
    powers = float32_powers(base, exponents)
    stay, divided, share = _F(1) / powers, _F(1) / (_F(scaling["factor"]) * powers), _F(1) - ramp
    result: np.ndarray = divided * (_F(1) - share) + stay * share
    return result


def _longrope(
    base: float,
    exponents: np.ndarray,
    scaling: dict[str, Any],
    original: int,
    length: int,
    extended: int,
) -> tuple[np.ndarray, float]:
    stretch = scaling.get("factor") or extended / original
    factor = scaling.get("attention_factor")
    if factor is None:
        factor = 1.0 if stretch <= 1 else math.sqrt(1 + math.log(stretch) / math.log(original))
    own: Sequence[float] = scaling["long_factor" if length > original else "short_factor"]
    if len(own) != len(exponents):
        raise PhasorError(
            f"rope_scaling: {len(own)} factors of longrope, expected {len(exponents)}"
        )
    return _F(1) / (np.asarray(own, _F) * float32_powers(base, exponents)), float(factor)


def _llama3(plain: np.ndarray, scaling: dict[str, Any]) -> np.ndarray:
    original, low, high = (
        scaling["original_max_position_embeddings"],
        scaling["low_freq_factor"],
        scaling["high_freq_factor"],
    )
    length = _F(2 * math.pi) / plain
    divided = np.where(length > original / low, plain / _F(scaling["factor"]), plain)
    share = (_F(original) / length - _F(low)) / _F(high - low)
    smooth = (_F(1) - share) * divided / _F(scaling["factor"]) + share * divided
    return np.where((length >= original / high) & (length <= original / low), smooth, divided)
