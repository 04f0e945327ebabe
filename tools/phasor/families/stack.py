"""One stack of blocks, an encoder's or a decoder's: its fields of the descriptor, and where the
values of its tensors lie. Every family's model is made of one or of two."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.errors import PhasorError
from phasor.families.hf_config import Config
from phasor.families.model import (
    INPUTS,
    ROLES,
    Model,
    Part,
    described,
    shape_of,
    shared_kinds,
)
from phasor.families.names import bias_name
from phasor.format import descriptor as D
from phasor.format import tensors as R

STACKS, SIDES = ("encoder", "decoder"), ("source", "target")
_ATTENTION = {
    R.QKV: ("", "qkv", "attention_biases"),
    R.CROSS_Q: ("cross_", "q", "cross_biases"),
    R.CROSS_KV: ("cross_", "kv", "cross_biases"),
}
# Norms behind what a sub-layer gives; a family without a name for them has one norm.
_AFTER = {
    R.ATTENTION_AFTER: "attention_after",
    R.CROSS_AFTER: "cross_after",
    R.FFN_AFTER: "ffn_after",
}
NORMS = frozenset(
    words for words in (*_AFTER.values(), *ROLES.values()) if words.endswith(("_norm", "_after"))
)


class Stack:
    """A stack's fields and tensors. role: R.ENCODER or R.DECODER, which the file has it as."""

    checkpoint: Checkpoint

    def __init__(
        self,
        role: int,
        config: Config,
        names: Mapping[str, str],
        checkpoint: Checkpoint | None = None,
        trunk: str = "",
    ) -> None:
        self.role, self.config, self.names = role, config, dict(names)
        if checkpoint is not None:  # or else who opens the stack gives it
            self.checkpoint = checkpoint
        self.input = {R.ENCODER: R.SOURCE, R.DECODER: R.TARGET}[role]
        self.place = R.STACK_NAMES[role]
        self.trunk = trunk if checkpoint is None else trunk_of(trunk, checkpoint)
        self.side: dict[str, Any] = {}
        self.stack: dict[str, Any] = {}
        self.kind: dict[str, Any] = {}  # of every block
        self.values: dict[int, np.ndarray] = {}
        self.used: dict[str, str] = {}
        self.notes: list[str] = []
        self.kinds: list[dict[str, Any]] = []
        self.output: dict[str, Any] = {}
        self.generation: dict[str, Any] = {}
        self.ignore: dict[str, str] = {}
        # Tensors that are said to be others'.
        self.doubles: list[tuple[str, str]] = []
        self.alone = ""  # the output's name, where a tied matrix has no other
        self.crossing = False  # whether blocks look at the encoder's output
        self.merged = False  # by their self-attention, if they do
        self.cross_cols = 0  # inputs of its keys and values in the checkpoint; 0: the encoder's
        # Parts whose matrices are stored as (inputs, outputs).
        self.transposed: frozenset[str] = frozenset()
        self.norm_offset = 0.0  # added to the weights of a block's norms
        # Of what goes into a feed-forward's activation; what comes out of it is divided by it.
        self.ffn_factor = 1.0
        self.gate_last = False  # of the fused tensor of a feed-forward: the gate's rows are last
        self.bare_norms: frozenset[str] = frozenset()  # norms without weights
        # Norms of the layer kind that are stored without their bias.
        self.bias_free: frozenset[str] = frozenset()
        self.own_norms: dict[str, str] = {}  # q_norm, k_norm: a tensor for each {head}
        # Of norms whose weights are not stored as a vector.
        self.norm_shapes: dict[str, Shape] = {}
        # Sets of layers whose short convolutions have q, k and v in one tensor `gates`, k first.
        self.convolutions: frozenset[int] = frozenset()
        self.qkv_rows: np.ndarray | None = None  # of the fused tensor: the rows of q, of k, of v
        self.position_rows = 0  # of the learned table, before position 0
        # An id whose row of the embedding is a vector of its own, which is not scaled: its name.
        self.own_row = ""
        self.per_layer_rows = 0  # of the table of per-layer embeddings, 0: those of the vocabulary
        self.factors: dict[str, float] = {}  # of every value of a part of the input
        # Sets of layers with one matrix for keys and values.
        self.keys_are_values: frozenset[int] = frozenset()

    def blocks(self, count: int) -> None:
        self.count = count
        self.per_layer: list[dict[str, Any]] = [{} for _ in range(count)]  # what each has otherwise
        self.sets = list(range(count))  # of each block: which tensors are its
        # Of each set, what stands in its names.
        self.places: list[dict[str, Any]] = [{"layer": i} for i in range(count)]

    # ---- for adapt

    @property
    def positions(self) -> int:
        result: int = self.stack.get("max_positions", 0)
        return result

    def learned(self, before: int = 0) -> None:
        """A table of positions, of whose rows `before` come before position 0."""
        self.stack["position"] = D.LEARNED
        self.position_rows = before

    def fused(self) -> None:
        """q, k and v in one tensor, for each key/value head: its heads' q, then its k, then its
        v."""
        heads, kv_heads, width = (self.kind[name] for name in ("heads", "kv_heads", "head_width"))
        group = heads // kv_heads
        places = np.arange(kv_heads * (group + 2) * width).reshape(kv_heads, group + 2, width)
        self.qkv_rows = np.concatenate(
            [places[:, :group].ravel(), places[:, group].ravel(), places[:, group + 1].ravel()]
        )

    def load(self, name: str, part: str, shape: Shape) -> np.ndarray:
        """A tensor that is not stored as it is; it counts as used."""
        where = f"{self.checkpoint.path}: "
        if name not in self.checkpoint:
            raise PhasorError(f"{where}missing: {name} ({part})")
        if self.checkpoint.shape(name) != shape:
            raise PhasorError(
                f"{where}misshapen: {name} ({part}) has shape {self.checkpoint.shape(name)}, "
                f"expected {shape}"
            )
        self.used[name] = f"read and made into the {part}, or compared with it"
        return self.checkpoint.load(name)

    # ---- the descriptor

    def finish(self, first: int = 0) -> None:
        """The kinds of the blocks; first: so many are another stack's."""
        layers = [self._layer(own) for own in self.per_layer]
        self.kinds, order, values = shared_kinds(layers, first)
        self.values = {key: v for key, v in self.values.items() if key >> 24 != R.KINDS}
        pairs = zip(order[::2], order[1::2])
        self.stack["layers"] = [n for kind, i in pairs for n in (kind, self.sets[i])]
        self.values.update(values)

    def _layer(self, own: dict[str, Any]) -> dict[str, Any]:
        """One block's kind; cross-attention is like its self-attention."""
        kind = {**self.kind, **own}
        if not self.crossing:
            return kind
        if self.merged:
            return {**kind, "cross": D.MERGED}
        heads = kind["heads"]
        return {
            **kind,
            "cross": D.OWN_CROSS,
            "cross_heads": heads,
            "cross_kv_heads": kind.get("kv_heads", heads),
            "cross_head_width": kind["head_width"],
            "cross_scale": kind["scale"],
            "cross_biases": kind.get("attention_biases", 0),
        }

    def scopes(self) -> dict[str, dict[str, Any]]:
        return {R.STACK_NAMES[self.input]: self.side, self.place: self.stack}

    def descriptor(self, name: str) -> dict[str, Any]:
        """Of the stack alone, with defaults, and checked."""
        alone = D.ENCODER if self.role == R.ENCODER else D.DECODER
        more = {"generation": self.generation} if self.generation else {}
        d = described(
            alone, {"name": name}, **self.scopes(), kinds=self.kinds, output=self.output, **more
        )
        D.check(d)
        return d

    def model(self, name: str) -> Model:
        """The stack alone."""
        model = Model(
            self.descriptor(name),
            self.checkpoint,
            values=self.values,
            used=self.used,
            ignore=self.ignore,
            notes=self.notes,
        )
        for double, original in self.doubles:
            model.must_be_same(double, original, "with which it is tied")
        return model.fill(self.parts)

    # ---- tensors

    def name(self, part: str, weights: int = 0) -> str:
        if part == "embedding" and self.alone:
            return self.alone
        place = self.places[weights]
        return self.trunk + self.names[part].format(**place, stack=self.place, head="{head}")

    def part(
        self, part: str, bias: bool, shape: Shape, weights: int = 0, rows: Any = slice(None)
    ) -> Part:
        name, turned = self.name(part, weights), part in self.transposed and not bias
        return Part(
            bias_name(name) if bias else name, shape[::-1] if turned else shape, rows, turned
        )

    def parts(self, slot: R.Slot) -> list[Part]:
        """Where the values of a slot of the stack, or of what comes into it, come from."""
        if slot.stack == self.input:
            return self._input(slot)
        bias, role, shape = bool(slot.role & 1), slot.role & ~1, shape_of(slot)
        weights = 0 if slot.set == R.FINAL else slot.set
        if role in _ATTENTION:
            return self._attention(slot, role, bias)
        part = _AFTER.get(role, "")
        part = part if part in self.names else ROLES[role]
        if part in NORMS:
            return self._norm(part, bias, shape, weights)
        if role == R.FFN_IN and self.names.get("ffn_gate") not in (None, self.names["ffn_in"]):
            rows = (slot.parts[0], *shape[1:])
            return [self.part(p, bias, rows, weights) for p in ("ffn_gate", "ffn_in")]
        found = self.part(part, bias, shape, weights)  # of a fused tensor too: gate first
        if role == R.FFN_IN and self.gate_last:
            found = found._replace(rows=np.roll(np.arange(shape[0]), shape[0] // 2))
        if role == R.FFN_IN and self.ffn_factor != 1:
            found = found._replace(factor=self.ffn_factor)
        elif role == R.FFN_OUT and not bias and self.ffn_factor != 1:
            found = found._replace(factor=1 / self.ffn_factor)
        return [found]

    def _input(self, slot: R.Slot) -> list[Part]:
        if slot.role == R.POSITIONS:
            before = self.position_rows
            shape = (before + slot.rows, slot.cols)
            return [self.part("positions", False, shape, rows=slice(before, None))]
        if slot.role == R.OWN_ROW:
            return [Part(self.own_row, slot.parts, factor=1 / self.stack["embedding_scale"])]
        part, bias = INPUTS[slot.role]
        if part == "embedding_norm" and (part in self.bare_norms or part in self.bias_free):
            return self._norm(part, bias, shape_of(slot))
        if part == "per_layer" and self.per_layer_rows:
            shape = (self.per_layer_rows, slot.cols)
            return [self.part(part, False, shape, rows=slice(0, slot.rows))]
        return [self.part(part, bias, shape_of(slot))._replace(factor=self.factors.get(part, 1.0))]

    def _norm(self, part: str, bias: bool, shape: Shape, weights: int = 0) -> list[Part]:
        if part in self.bare_norms or bias and part in self.bias_free:
            return [Part(None, shape, offset=float(not bias))]
        if part in self.own_norms:
            width = self.kind["head_width"]
            name = self.trunk + self.own_norms[part].format(**self.places[weights], head="{head}")
            return [Part(name.format(head=h), (width,)) for h in range(shape[0] // width)]
        found = self.part(part, bias, shape, weights)
        stored = self.norm_shapes.get(part)
        if stored is not None:
            found = found._replace(shape=stored, flat=True)
        return [found if bias else found._replace(offset=self.norm_offset)]

    def _attention(self, slot: R.Slot, role: int, bias: bool) -> list[Part]:
        prefix, letters, mask = _ATTENTION[role]
        inputs = slot.cols if role != R.CROSS_KV else self.cross_cols or slot.cols
        cols = () if bias else (inputs,)
        if slot.set in self.convolutions:
            q, k, v = np.split(np.arange(sum(slot.parts)), 3)
            order = np.concatenate([k, q, v])
            return [self.part("gates", bias, (sum(slot.parts), *cols), slot.set, order)]
        if prefix + letters in self.names:
            rows = slice(None) if self.qkv_rows is None or prefix else self.qkv_rows
            shape: Shape = (sum(slot.parts), *cols)
            return [self.part(prefix + letters, bias, shape, slot.set, rows)]
        biases, out = self._layer({}).get(mask, 0), []
        for letter, count in zip(letters, slot.parts):
            absent = bias and not biases >> "qkv".index(letter) & 1
            shape = (count, *cols)
            same = letter == "v" and slot.set in self.keys_are_values
            part = prefix + ("k" if same else letter)
            out.append(Part(None, shape) if absent else self.part(part, bias, shape, slot.set))
        return out


def trunk_of(trunk: str, names: Iterable[str]) -> str:
    """ "model.decoder." with less and less before it: a checkpoint may be of a part of the
    class."""
    parts = trunk.split(".")
    shorter = (".".join(parts[i:]) for i in range(len(parts)))
    return next(start for start in shorter if not start or any(n.startswith(start) for n in names))
