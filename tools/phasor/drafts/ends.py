"""What stands before and behind the stacks of layers in a checkpoint: embeddings, positions, norms,
projections and output matrices, found by shapes, words, and their place in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from phasor import positions
from phasor.checkpoints.tensors import Checkpoint
from phasor.drafts.layers import LONGEST_NAME, Stack
from phasor.drafts.names import NORM_WEIGHTS, module, place, says
from phasor.families.names import bias_name
from phasor.format import descriptor as D
from phasor.reference.functions import sinusoid

SIDES = ("source", "target")
_MOST_VALUES = 1 << 26  # of a table that is compared with formulas
_LONGEST_MASK = 1 << 13
_ROWS = 64  # of it that are
_NEAR = 1e-4
_LAYOUTS = {"sinusoidal": D.INTERLEAVED, "sinusoidal-halves": D.HALVES}


class End(NamedTuple):
    """A tensor outside of the layers."""

    name: str
    side: str  # "source", "target", or "" where no word says it
    place: int  # in the file: -1 before all layers, 1 behind, 0 among them


@dataclass
class Ends:
    """What there is, by its kind."""

    embeddings: list[End] = field(default_factory=list)
    positions: list[End] = field(default_factory=list)
    segments: list[End] = field(default_factory=list)
    projections: list[End] = field(default_factory=list)
    outputs: list[End] = field(default_factory=list)
    heads: list[End] = field(default_factory=list)  # dense layers before the output
    class_tokens: list[End] = field(default_factory=list)
    norms: list[End] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)  # of those left


def ends_of(checkpoint: Checkpoint, stacks: list[Stack]) -> Ends:
    out, width = Ends(), stacks[-1].layer.width
    starts = tuple(stack.prefix for stack in stacks)
    at = {name: i for i, name in enumerate(checkpoint)}
    inside = [i for name, i in at.items() if name.startswith(starts)]
    names = [name for name in checkpoint if not name.startswith(starts)]
    biases = {bias_name(name) for name in names} & set(names)
    for name in names:
        stored = checkpoint.tensors[name]
        if name in biases:
            continue
        if len(name) > LONGEST_NAME:
            out.left.append(name)
            continue
        where = -1 if at[name] < inside[0] else 1 if at[name] > inside[-1] else 0
        end = End(name, _side(name), where)
        kind = _kind(name, stored.shape, bias_name(name) in biases, end, width)
        if not stored.is_float or not kind:
            out.left.append(name)
        else:
            getattr(out, kind).append(end)
    out.buffers = [name for name in out.left if is_buffer(checkpoint, name)]
    if len(out.outputs) > 1:  # the last one gives what comes out, the others are before it
        out.heads += [e for e in out.outputs[:-1] if checkpoint.shape(e.name) == (width, width)]
        out.outputs = [e for e in out.outputs if e not in out.heads]
    return out


def _side(name: str) -> str:
    found = {side: place(module(name) or name, "side", side) for side in SIDES}
    best = max(SIDES, key=lambda side: found[side])
    return best if found[best] and found["source"] != found["target"] else ""


def _kind(name: str, shape: tuple[int, ...], biased: bool, end: End, width: int) -> str:
    """The list that a tensor goes to; "": none."""
    if len(shape) == 1 and shape[0] == width:
        if says(name, "ends", "class_token") and name.rpartition(".")[2] not in NORM_WEIGHTS:
            return "class_tokens"
        return "norms" if name.rpartition(".")[2] in NORM_WEIGHTS else ""
    if len(shape) != 2 or width not in shape:
        return ""
    if shape[0] == 1 and says(name, "ends", "class_token"):
        return "class_tokens"
    if says(name, "ends", "positions") and not biased:
        return "positions"
    if says(name, "ends", "segments") and not biased:
        return "segments"
    said = {kind: place(name, "ends", kind) for kind in ("embedding", "output", "projection")}
    if biased:
        if shape == (width, width) and says(name, "ends", "dense") and end.place >= 0:
            return "heads"
        into = shape[0] == width and said["projection"] > said["output"]
        into = into or shape[0] == width and end.place < 0 and not said["output"]
        return "projections" if into else "outputs"
    if shape[1] != width:
        return ""
    if said["embedding"] or said["output"]:
        return "embeddings" if said["embedding"] >= said["output"] else "outputs"
    return "outputs" if end.place > 0 else "embeddings"


def is_buffer(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a tensor holds no weights: whole numbers, or the mask of causal attention. Never one
    whose name is a pattern, which has others ignored with it, or is refused."""
    stored = checkpoint.tensors[name]
    if not set(name).isdisjoint("*?[]"):
        return False
    shape = tuple(n for n in stored.shape if n != 1)
    if not stored.is_float or len(shape) != 2 or shape[0] != shape[1] or shape[0] > _LONGEST_MASK:
        return not stored.is_float
    return _is_mask(checkpoint.load(name).reshape(shape))


def _is_mask(table: np.ndarray) -> bool:
    """1 or 0 of what a position sees, either way around, 0 and -inf, or 1 of what it does not see;
    row by row, so that nothing of a table's size is made."""
    columns, left = np.arange(len(table)), [0, 1, 2, 3]
    for at, row in enumerate(table):
        seen = columns <= at
        masks = (seen, columns >= at, np.where(seen, 0, -np.inf), ~seen)
        left = [kind for kind in left if np.array_equal(row, masks[kind])]
        if not left:
            return False
    return True


class Formula(NamedTuple):
    position: str
    rates: str


def formula(checkpoint: Checkpoint, name: str) -> Formula | None:
    """Which formula of sines a table of positions has; None: it was learned."""
    count, width = checkpoint.shape(name)
    if width % 2 or width < 4 or count * width > _MOST_VALUES or count < 2:
        return None
    table = checkpoint.load(name)[:_ROWS].astype(np.float64)
    for rates, span in (("paper", width), ("tensor2tensor", width - 2)):
        powers = positions.powers(10000.0, -np.arange(0, width, 2, dtype=np.float64) / span)
        for said, layout in _LAYOUTS.items():
            gap = np.abs(table - sinusoid(powers, np.arange(len(table)), layout)).max()
            if gap < _NEAR:
                return Formula(said, rates)
    return None
