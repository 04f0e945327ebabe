"""The formulas of the forward pass, each from its paper: rounding, norms, softmax, activations and
positions, on arrays alone. numpy only.

Letters: S source positions, T positions of the rows at hand, D width, H heads, KV heads of keys,
w head width.
"""

from __future__ import annotations

import math
from typing import Callable

import numpy as np

from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format.layout import GROUP

Array = np.ndarray
_erf = np.frompyfunc(math.erf, 1, 1)
# By the form of the inputs: the largest of the whole numbers, and the amax below which all are 0.
_FORMS = {0: (127, 2.0**-80), L.INPUTS16: (32512, 2.0**-72)}


def round_activations(x: Array, kind: int = L.Q8, inputs: int = 0) -> Array:
    """x (T, K) as the products of a type see it: groups of 32 along K, or of q8r whole rows, q·s
    with s = amax/127 and q rounded half to even, of inputs of 16 bits amax/32512. Of q8rh the
    rotated rows are rounded, and rotated back here; so are rotated inputs of types in groups."""
    if inputs == L.INPUTS_ROTATED:
        return L.rotate_weights(round_activations(L.rotate_inputs(x), kind))
    if kind in L.ROTATED:
        return L.rotate_weights(round_activations(L.rotate_inputs(x), L.Q8R, inputs))
    most, smallest = _FORMS[inputs]
    rows, cols = x.shape
    size = cols if kind in L.WHOLE else GROUP
    groups = -(-cols // size)
    padded = np.zeros((rows, groups * size), dtype=x.dtype)
    padded[:, :cols] = x
    grouped = padded.reshape(rows, groups, size)
    amax = np.abs(grouped).max(axis=2, keepdims=True)
    live = amax >= smallest
    inverse = np.divide(x.dtype.type(most), amax, where=live, out=np.zeros_like(amax))
    q = np.clip(np.rint(grouped * inverse), -most, most)
    part = np.float32(1) / np.float32(most)
    scale = np.where(live, amax * x.dtype.type(part), 0)
    result: Array = (q * scale).reshape(rows, groups * size)[:, :cols]
    return result


def _cache_q8(x: Array) -> Array:
    """x (S, KV, w) in a cache of q8: groups of 32 along the head's width, within a position and a
    head."""
    return round_activations(x.reshape(-1, x.shape[-1])).reshape(x.shape)


CACHES: dict[str, Callable[[Array], Array]] = {
    "f32": lambda x: x,
    "f16": lambda x: x.astype(np.float16).astype(x.dtype),
    "q8": _cache_q8,
}


def layer_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> Array:
    """Ba et al. 2016, over the last axis."""
    centered = x - x.mean(axis=-1, keepdims=True)
    return rms_norm(centered, weight, bias, eps)


def rms_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> Array:
    """Zhang and Sennrich 2019, over the last axis."""
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(eps)) * weight
    result: Array = y if bias is None else y + bias
    return result


NORMS = {D.LAYER_NORM: layer_norm, D.RMS_NORM: rms_norm}


def softmax(scores: Array) -> Array:
    """Over the last axis; −inf is an absent key, and a row without keys gives zeros."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = e.sum(axis=-1, keepdims=True)
    result: Array = np.divide(e, total, where=total > 0, out=np.zeros_like(e))
    return result


def _gelu_erf(x: Array) -> Array:
    result: Array = x * (1 + np.asarray(_erf(x / math.sqrt(2)), x.dtype)) / 2
    return result


def _gelu_tanh(x: Array) -> Array:
    result: Array = x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    return result


def _silu(x: Array) -> Array:
    result: Array = x / (1 + np.exp(-np.clip(x, -700 if x.dtype == np.float64 else -80, None)))
    return result


def xielu(x: Array, above: float, below: float, beta: float, eps: float) -> Array:
    """Huang and Schlag 2024."""
    bent = np.expm1(np.minimum(x, eps)) - x
    result: Array = np.where(x > 0, above * x * x, below * bent) + beta * x
    return result


ACTIVATIONS: dict[int, Callable[[Array], Array]] = {
    D.RELU: lambda x: np.maximum(x, 0),
    D.GELU_ERF: _gelu_erf,
    D.GELU_TANH: _gelu_tanh,
    D.SILU: _silu,
    D.TANH: np.tanh,
    D.RELU2: lambda x: np.maximum(x, 0) ** 2,
}


def check_positions(positions: Array, rows: int = 0) -> Array:
    """positions (T) as they are, or PhasorError in one line. They count the tokens one by one, from
    0 for a whole sequence; token ids do not.

    rows: of a table that the positions are looked up in; 0 = no table.
    """
    positions = np.asarray(positions)
    if positions.ndim != 1 or (positions.size and positions.dtype.kind not in "iu"):
        raise PhasorError(
            f"positions: expected whole numbers in one row, got {positions.dtype} of shape "
            f"{positions.shape}"
        )
    wrong = np.flatnonzero(positions[1:] != positions[:-1] + 1)
    if wrong.size:
        before, after = positions[wrong[0] : wrong[0] + 2]
        raise PhasorError(
            f"positions: {after} follows {before}; positions count the tokens one by one, they are "
            "not token ids"
        )
    if positions.size and positions[0] < 0:
        raise PhasorError(f"positions: {positions[0]} is negative")
    if positions.size and 0 < rows <= positions[-1]:
        raise PhasorError(f"positions: {positions[-1]} is past the table of {rows} positions")
    return positions


def sinusoid(inv_freq: Array, positions: Array, layout: int) -> Array:
    """(T, D) for inv_freq (D/2) and positions (T): sin at even and cos at odd places, or sin in the
    first half and cos in the second."""
    angle = check_positions(positions)[:, None].astype(np.float64) * inv_freq
    if layout == D.HALVES:
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(positions), -1)


def learned(table: Array, positions: Array) -> Array:
    """(T, D): the rows of table (P, D) at positions (T)."""
    result: Array = table[check_positions(positions, len(table))]
    return result


def rotate(x: Array, inv_freq: Array, positions: Array, halves: bool, factor: float = 1.0) -> Array:
    """Su et al. 2021: x (T, H, w); the first 2·len(inv_freq) values of each head turn by
    position·inv_freq, as pairs or as halves."""
    width = 2 * len(inv_freq)
    angle = (check_positions(positions)[:, None].astype(np.float64) * inv_freq)[:, None, :]
    c, s = (np.cos(angle) * factor).astype(x.dtype), (np.sin(angle) * factor).astype(x.dtype)
    turned = x.copy()
    first, second = (
        (slice(0, width // 2), slice(width // 2, width))
        if halves
        else (slice(0, width, 2), slice(1, width, 2))
    )
    turned[..., first] = x[..., first] * c - x[..., second] * s
    turned[..., second] = x[..., second] * c + x[..., first] * s
    return turned
