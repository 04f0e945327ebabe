"""Weights that a checkpoint keeps as factors. Those of weight_norm (Salimans and Kingma 2016) and
of pruning (torch.nn.utils) are computed where the weight is asked for; of any other parametrization
the weight is refused by name: one factor is not the weight. numpy only."""

from __future__ import annotations

from functools import partial
from typing import Callable, NamedTuple

import numpy as np

from phasor.checkpoints.packed import Packed
from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.errors import PhasorError, printable

_PARAMETRIZED, _WEIGHT = ".parametrizations.", "weight"
_REMOVE = {
    "spectral_norm": "torch.nn.utils.remove_spectral_norm(module)",
    "a parametrization": "torch.nn.utils.parametrize.remove_parametrizations(module, name)",
}


class _Kind(NamedTuple):
    """How factors make a weight: what it is called, the factors, whether their shapes fit, and the
    product."""

    name: str
    ends: tuple[str, ...]
    fit: Callable[[Shape, Shape], bool]
    product: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _normed(g: np.ndarray, v: np.ndarray) -> np.ndarray:
    """g · v / |v|, equation 2; the lengths are those over all axes that g does not have."""
    v = v.astype(np.float64)
    axes = tuple(i for i in range(v.ndim) if not g.ndim or g.shape[i] == 1)
    result: np.ndarray = (v * (g / np.sqrt((v * v).sum(axis=axes, keepdims=True)))).astype(
        np.float32
    )
    return result


def _is_norm(g: Shape, v: Shape) -> bool:
    """Whether g has at most one of v's axes."""
    return not g or (
        len(g) == len(v) and all(a in (1, b) for a, b in zip(g, v)) and sum(a != 1 for a in g) <= 1
    )


_SAME = (lambda a, b: a == b, lambda a, b: (a * b).astype(np.float32))
_KINDS = (
    _Kind("weight_norm", ("_g", "_v"), _is_norm, _normed),
    _Kind("weight_norm", ("original0", "original1"), _is_norm, _normed),
    _Kind("pruning", ("_orig", "_mask"), *_SAME),
)
_ENDS = ("_g", "_v", "_orig", "_mask", "_u")


def multiplied(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with each weight in place of its factors."""
    groups: dict[str, dict[str, str]] = {}
    for name in checkpoint:
        module, parametrized, rest = name.rpartition(_PARAMETRIZED)
        own, _, part = rest.partition(".")
        if parametrized and part:
            groups.setdefault(f"{module}.{own}", {})[part] = name
        for end in _ENDS:
            if name.endswith(_WEIGHT + end):
                groups.setdefault(name[: -len(end)], {})[end] = name
    out = dict(checkpoint.tensors)
    for weight, factors in groups.items():
        made = None if weight in checkpoint else _weight(checkpoint, weight, factors)
        if made is not None:
            for name in factors.values():
                del out[name]
            out[weight] = made
    return checkpoint.holding(out)


def _weight(checkpoint: Checkpoint, weight: str, factors: dict[str, str]) -> Packed | None:
    """The weight of these factors by their ends; None of names that are like theirs by chance."""
    names = list(factors.values())
    size = sum(checkpoint.tensors[name].bytes for name in names)
    for kind in _KINDS:
        if set(factors) != set(kind.ends):
            continue
        first, second = (factors[end] for end in kind.ends)
        shape = checkpoint.shape(second)
        if kind.fit(checkpoint.shape(first), shape):
            return Packed(
                kind.name,
                shape,
                size,
                lambda: kind.product(checkpoint.load(first), checkpoint.load(second)),
            )
        break
    spectral = {"_orig", "_u"} <= set(factors)
    if not spectral and set(factors) & set(_ENDS):
        return None
    what = "spectral_norm" if spectral else "a parametrization"
    return Packed(what, checkpoint.shape(names[0]), size, partial(_refuse, weight, what, names))


def _refuse(weight: str, what: str, names: list[str]) -> np.ndarray:
    raise PhasorError(
        f"{printable(weight)}: is made by {what} from {printable(', '.join(names))}, which is not"
        f" supported: call {_REMOVE[what]} before you save the state_dict"
    )
