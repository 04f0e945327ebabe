"""The one internal description that every family makes and the writer takes: a descriptor, and the
parts of each tensor."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.errors import PhasorError, printable
from phasor.families import nearest
from phasor.families.nearest import shape_text
from phasor.files import fits
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import Quantized, Weights
from phasor.format.layout import VECTOR

# Stacks in which role 1 is an embedding or the output's matrix.
_ENDS = (R.SOURCE, R.TARGET, R.OUTPUT)
assert R.OUTPUT_WEIGHT == R.EMBEDDING

# Parts of a block, as the families' tables name them, by the role of the weight.
ROLES = {
    R.ATTENTION_BEFORE: "attention_norm",
    R.ATTENTION_AFTER: "attention_norm",
    R.ATTENTION_OUT: "attention_out",
    R.TAPS: "taps",
    R.ATTENTION_INNER: "attention_inner_norm",
    R.FFN_INNER: "ffn_inner_norm",
    R.CROSS_BEFORE: "cross_norm",
    R.CROSS_AFTER: "cross_norm",
    R.CROSS_OUT: "cross_out",
    R.FFN_BEFORE: "ffn_norm",
    R.FFN_AFTER: "ffn_norm",
    R.FFN_IN: "ffn_in",
    R.FFN_OUT: "ffn_out",
    R.FINAL_NORM: "final_norm",
    R.Q_NORM: "q_norm",
    R.K_NORM: "k_norm",
    R.V_NORM: "v_norm",
    R.PER_LAYER_GATE: "per_layer_gate",
    R.PER_LAYER_OUT: "per_layer_out",
    R.PER_LAYER_AFTER: "per_layer_norm",
    R.LAYER_SCALE: "layer_scale",
}
# And of a side: (part, whether it is the bias).
INPUTS = {
    R.EMBEDDING: ("embedding", False),
    R.SEGMENTS: ("segments", False),
    R.EMBEDDING_NORM: ("embedding_norm", False),
    R.EMBEDDING_NORM + 1: ("embedding_norm", True),
    R.PROJECTION: ("projection", False),
    R.PROJECTION + 1: ("projection", True),
    R.PER_LAYER: ("per_layer", False),
    R.PER_LAYER_PROJECTION: ("per_layer_projection", False),
    R.PER_LAYER_NORM: ("per_layer_projection_norm", False),
}


# A matrix with more bits than so many times those of the source's is told.
_GROWN = 1.1


def _between(own: float, bits: float, cols: int) -> list[tuple[float, int]]:
    """(bits, −code) of the type in groups, of those that floats are rounded to, that has the fewest
    bits from `own` on, if these are fewer than `bits`; of two alike the one that came last."""
    sizes = ((L.bits_of(kind, cols), -kind) for kind in L.IN_GROUPS if kind in L.ROUNDED)
    return sorted(size for size in sizes if own <= size[0] < bits)[:1]


def _counted(count: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in count.items())


def single(value: float) -> float:
    """Rounded to float32, which is what a descriptor keeps."""
    return float(np.float32(value))


def shape_of(slot: R.Slot) -> Shape:
    """Of a slot's values, and of a tensor that is one."""
    return (sum(slot.parts),) if slot.layout == VECTOR else (sum(slot.parts), slot.cols)


def is_end(slot: R.Slot) -> bool:
    """Whether a slot is an embedding or the output's matrix, of which --output-type speaks."""
    per_layer = slot.stack == R.TARGET and slot.role == R.PER_LAYER
    return per_layer or slot.role == R.EMBEDDING and slot.stack in _ENDS


class Part(NamedTuple):
    """Some rows of a tensor of the checkpoint, or zeros."""

    name: str | None  # None: zeros (a bias that a part of a fused layer does not have)
    shape: Shape  # the whole tensor's, as it must be
    # Which of its rows, in which order; None: a vector that is one row.
    rows: slice | np.ndarray | None = slice(None)
    transposed: bool = False  # the checkpoint has (inputs, outputs)
    reversed: bool = False  # the checkpoint has its rows in the opposite order
    offset: float = 0.0  # added to every value
    flat: bool = False  # a vector that the checkpoint has in several rows
    factor: float = 1.0  # of every value, before the offset


# Why a tensor that a family knows by its name is left out.
BUFFER = "a buffer or a table that its library makes, and that says nothing of the model"
# The format has no encoder without a block: with parts of zeros this one adds zeros.
NO_BLOCK = {
    "norm": D.RMS_NORM,
    "norm_place": D.BEFORE,
    "norm_eps": 1.0,
    "heads": 1,
    "head_width": 1,
    "scale": 1.0,
    "hidden": 1,
    "activation": D.RELU,
}


@dataclass
class Model:
    """A descriptor with defaults, the checkpoint, and for each slot its parts (one below the other)
    or its values."""

    descriptor: dict[str, Any]
    checkpoint: Checkpoint
    parts: dict[int, list[Part]] = field(default_factory=dict)
    values: dict[int, np.ndarray] = field(default_factory=dict)
    # Names that were compared, made into something else, or are not needed: why.
    used: dict[str, str] = field(default_factory=dict)
    # Patterns of names that are not the model's: why.
    ignore: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chat_source: Path | None = None  # where the chat template is, if not in the source
    unproved: str = ""  # why the file needs the model's own outputs (--expect)
    inside: tuple[int, ...] = ()  # ids that the model itself puts before those that it is given
    asked: int | None = None  # the type that matrices are to have
    asked_output: int | None = None  # and the embeddings and the matrix of the logits
    asked_types: dict[int, int] | None = None  # or that of each matrix, by its key

    def fill(self, parts_of: Callable[[R.Slot], list[Part]]) -> Model:
        """Asks for the parts of each slot that has no values yet."""
        for slot in R.slots(self.descriptor):
            if slot.key not in self.values:
                self.parts[slot.key] = parts_of(slot)
        return self

    def must_be_same(
        self, double: str | None, original: str | None, why: str, part: str = ""
    ) -> None:
        """A tensor that is said to be another's double: it may be absent, it may not differ."""
        if double is not None and double in self.checkpoint and double != original:
            if not self.checkpoint.same(double, original):
                name = f"{double} ({part})" if part else double
                raise PhasorError(f"{self.checkpoint.path}: {name} differs from {original}, {why}")
            self.used[double] = f"the same values as {original}, {why}"

    def asked_for(self, slot: R.Slot) -> int | None:
        """The type that this matrix is to have, or None."""
        if self.asked_types is not None:
            return self.asked_types[slot.key]
        return self.asked_output if self.asked_output is not None and is_end(slot) else self.asked

    def type_of(self, slot: R.Slot) -> int:
        """The type of a matrix: the one asked for; else the one that has the grid of all its parts,
        where these are packed (packed.py); else f32."""
        asked = self.asked_for(slot)
        if asked is not None:
            return asked
        kept = {tensor.keeps if tensor else L.F32 for tensor in self._kept(slot)}
        return kept.pop() if len(kept) == 1 else L.Q8 if kept == {L.Q4, L.Q8} else L.F32

    def _kept(self, slot: R.Slot) -> list[Any]:
        """For each part the tensor that has a grid of its own, or None where it has none, or where
        the part is not its rows."""
        return [
            self.checkpoint.kept(part.name)
            if part.name is not None
            and not (part.transposed or part.reversed or part.offset or part.flat)
            and part.factor == 1
            else None
            for part in self.parts.get(slot.key, ())
        ]

    def keeps(self) -> bool:
        """Whether the source has matrices that are rounded already."""
        return any(any(self._kept(slot)) for slot in R.slots(self.descriptor) if slot.matrix)

    def packed(self, slot: R.Slot) -> list[tuple[str, float]]:
        """Its tensors that are packed in the source: the name of each one's type there, and the
        bits of a value."""
        packed = [tensor for tensor in self._kept(slot) if tensor]
        return [(one.type.name, 8 * one.bytes / math.prod(one.shape)) for one in packed]

    def holds(self, slot: R.Slot) -> bool:
        """Whether its type has the values of the source exactly."""
        return self.type_of(slot) == L.F32 or self.stays(slot)

    def stays(self, slot: R.Slot) -> bool:
        """Whether its type has the values of the source, rounded there, exactly."""
        to, grids = self.type_of(slot), {t and t.keeps for t in self._kept(slot)}
        return bool(grids) and grids <= ({to, L.Q4} if to == L.Q8 else {to})

    def _as_kept(self, slot: R.Slot) -> Quantized | None:
        """The slot as its parts have it, where its type holds their values."""
        to, tensors = self.type_of(slot) if slot.matrix else L.F32, self._kept(slot)
        if to not in L.QUANTIZED or not tensors or None in tensors:
            return None
        pieces = []
        for part, tensor in zip(self.parts[slot.key], tensors):
            piece = tensor.quantized(to)
            if piece is None:
                return None
            pieces.append([array[part.rows] for array in piece])
        scales, values = (np.concatenate(arrays) for arrays in zip(*pieces))
        return Quantized(scales, values, to)

    def note_types(self, changed: Callable[[R.Slot], bool] | None = None) -> None:
        """Notes what becomes of matrices that are packed in the source, and which of them grow
        though no type was asked for. changed: whether a matrix has other values than there."""
        count: Counter[str] = Counter()
        grown: Counter[str] = Counter()
        smaller: list[tuple[float, int]] = []  # types for what grows: bits, −code
        for slot in R.slots(self.descriptor):
            if not slot.matrix:
                continue
            to = self.type_of(slot)
            same = to == L.F32 or changed is None or not changed(slot)
            how = f"{L.TYPES[to]} ({'exactly' if same and self.holds(slot) else 'rounded'})"
            bits = L.bits_of(to, slot.cols)
            packed = self.packed(slot)
            for name, own in packed:
                count[f"{name} to {how}"] += 1
                if self.asked_for(slot) is None and bits > _GROWN * own:
                    grown[f"{name} as {how}, {own:.3g} to {bits:.3g} bits a value"] += 1
                    smaller += _between(max(own for _, own in packed), bits, slot.cols)
        if count:
            self.notes.append(f"matrices: {_counted(count)}")
        if grown:
            text = "no type here has all values of these matrices in as few bits"
            kinds = [L.TYPES[-code] for _, code in sorted(smaller)]
            try_ = f". TRY: --type {kinds[-1]}, a smaller file, which is rounded" if kinds else ""
            self.notes.append(f"{text}: {_counted(grown)}{try_}")

    def problems(self) -> list[str]:
        """One line for each tensor that is missing, misshapen or left over."""
        misshapen, used = [], set(self.used)
        missing: dict[str, Any] = {}
        for slot in R.slots(self.descriptor):
            for part in self.parts.get(slot.key, ()):
                if part.name is None:
                    continue
                used.add(part.name)
                if part.name not in self.checkpoint:
                    missing.setdefault(part.name, slot.name)
                elif self.checkpoint.shape(part.name) != part.shape:
                    misshapen.append(
                        f"misshapen: {printable(part.name)} ({slot.name}) has shape"
                        f" {shape_text(self.checkpoint.shape(part.name))},"
                        f" expected {shape_text(part.shape)}"
                    )
        left = [
            name
            for name in self.checkpoint
            if name not in used and not any(fits(pattern, name) for pattern in self.ignore)
        ]
        absent, unused = nearest.lines(self.checkpoint, missing, left)
        return [*absent, *dict.fromkeys(misshapen), *unused]

    def weights(self, slot: R.Slot) -> Weights:
        """The values of a slot: (N, K), or (N,) of a vector; only this tensor is in memory."""
        if slot.key in self.values:
            return self.values[slot.key]
        if (kept := self._as_kept(slot)) is not None:
            return kept
        pieces = []
        for part in self.parts[slot.key]:
            if part.name is None:
                pieces.append(np.full(part.shape, part.offset, dtype=np.float32))
                continue
            value = self.checkpoint.load(part.name)
            value = value[::-1] if part.reversed else value.ravel() if part.flat else value
            value = (value.T if part.transposed else value)[part.rows]
            if part.factor != 1:
                value = (value.astype(np.float64) * part.factor).astype(value.dtype)
            pieces.append(value + value.dtype.type(part.offset) if part.offset else value)
        out = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if out.shape != shape_of(slot):
            raise PhasorError(
                f"{slot.name}: has shape {shape_text(out.shape)},"
                f" expected {shape_text(shape_of(slot))}"
            )
        return out


def described(stack: int, texts: dict[str, str], **scopes: Any) -> dict[str, Any]:
    """A descriptor with defaults. texts: the model's name, and who made it."""
    model = {"stack": stack, **texts, "converter": "tools/convert.py"}
    return D.with_defaults({"model": model, **scopes})


def shared_kinds(
    layers: Iterable[dict[str, Any]], first: int = 0
) -> tuple[list[dict[str, Any]], list[int], dict[int, np.ndarray]]:
    """The kinds of these layers in order of their first use, `layers` of the stack (each with a set
    of its own), and the kinds' tables by the keys of their slots. `tables` of a layer are arrays by
    role; without positions it has none. first: how many kinds of another stack come before."""
    kinds: list[dict[str, Any]] = []
    order: list[int] = []
    values: dict[int, np.ndarray] = {}
    known: dict[Any, int] = {}
    for i, layer in enumerate(layers):
        tables = layer.get("tables", {}) if layer.get("position") else {}
        kind = {name: value for name, value in layer.items() if name != "tables"}
        bits = tuple((role, table.tobytes()) for role, table in sorted(tables.items()))
        place = known.setdefault((tuple(sorted(kind.items())), bits), len(kinds))
        if place == len(kinds):
            kinds.append(kind)
            values.update((R.key_of(R.KINDS, first + place, role), tables[role]) for role in tables)
        order += [first + place, i]
    return kinds, order, values


def same_sides(descriptor: dict[str, Any]) -> bool:
    """Whether source and target could share an embedding."""
    result: bool = (
        descriptor["model"]["stack"] == D.ENCODER_DECODER
        and descriptor["source"]["vocabulary"] == descriptor["target"]["vocabulary"]
        and descriptor["encoder"]["width"] == descriptor["decoder"]["width"]
    )
    return result
