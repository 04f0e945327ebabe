"""What goes into a stack in a description: embedding, projection, norm, and positions by comparing
their table with every formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from phasor import positions
from phasor.drafts.draft import Line
from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.live.layers import Layers, same
from phasor.live.stream import BY_HAND, Stack
from phasor.live.trace import Node, Ref
from phasor.reference.functions import sinusoid

SIDES = {"encoder": "source", "decoder": "target"}
_CUTS = ("__getitem__", "unsqueeze", "expand", "to", "narrow", "view")
_TABLE = 2e-5  # between a table of sinusoids and its formula


class Inputs(Layers):
    def _input(self, name: str, stack: Stack) -> None:
        given, side, parts = stack.embedded, SIDES[name], {}
        width = stack.layers[0][0].node.shape[-1]
        if given.table is not None:
            ref = self._ref(given.table, "the embedding")
            but = self.draft.names.get("source.embedding", "") if side == "target" else ""
            parts["embedding"] = self._name(ref, but)
            if parts["embedding"] == but:
                self.draft.sides.setdefault(side, []).append(
                    Line("embedding_shared", True, "both sides look up in one tensor", (), True)
                )
                del parts["embedding"]
        else:
            self.draft.decide("input", "vectors", "the example has vectors, and no table is read")
        if given.projection is not None:
            self._linear("projection", given.projection, parts)
            if given.table is not None and not given.projected_last:
                self._say(name, "projection_place", "before-positions", given.projection.node.where)
        if given.norm is not None:
            self._norm("embedding_norm", given.norm, parts)
            self._say(name, "embedding_norm", given.norm.kind, given.norm.node.where)
            self._say(name, "embedding_norm_eps", given.norm.eps, given.norm.node.where)
        if given.class_token is not None:
            row = self.pieces.ref(self._root(given.class_token))
            if row is None:
                raise PhasorError(f"{given.class_token.where}: a computed row is put in front")
            parts["class_token"] = self._name(row)
        scale: Any = given.scale
        named_so = {1.0: "one"} if scale == 1 else {scale: "sqrt_width"}
        if scale == 1 or same(scale, math.sqrt(width)):
            scale = named_so[scale]
        self._say(name, "embedding_scale", scale, f"times {given.scale:.6g}: {given.node.where}")
        self._positions(name, stack, parts)
        self.draft.names |= {f"{side}.{part}": said for part, said in parts.items()}

    def _root(self, node: Node) -> Node:
        """The tensor that a constant is cut from, however it is repeated."""
        at = node
        while self.pieces.ref(at) is None and at.op in (
            "expand",
            "repeat",
            "expand_as",
            "view",
            "__getitem__",
            "unsqueeze",
            "reshape",
        ):
            at = at.args[0]
        return at

    def _positions(self, name: str, stack: Stack, parts: dict[str, Any]) -> None:
        constants = list(stack.embedded.constants)
        length = stack.layers[0][0].attention
        assert length is not None
        if not constants:
            self._say(name, "position", "none", "nothing is added to the embedding")
            return
        for one in [c for c in constants if len(constants) > 1 and _one_row(c.value)]:
            root = one.args[0] if one.op == "embedding" else None
            if isinstance(root, Node) and self.pieces.ref(root):
                parts["segments"] = self._name(self._ref(root, "segments"))
                constants.remove(one)
        if len(constants) != 1:
            raise PhasorError(
                f"{constants[0].where}: {len(constants)} tables are added to the embedding:"
                f" {BY_HAND}"
            )
        at = constants[0]
        table = _table_of(at.value, length.length[0])
        if table is None:
            raise PhasorError(
                f"{at.where}: what is added to the embedding, {tuple(at.shape)}, is no row for each"
                f" of {length.length[0]} positions: {BY_HAND}"
            )
        self._table(name, at, table, parts)

    def _table(self, name: str, node: Node, table: np.ndarray, parts: dict[str, Any]) -> None:
        ref, first = self._rows(node)
        tensor = ref.names[0] if ref else "it"
        for kind, rates, base in _formulas(table):
            made = _sines(len(table), table.shape[1], kind, rates, base)
            gap = float(np.abs(table - made).max())
            if gap <= _TABLE:
                why = f"{tensor} is within {gap:.2g} of the formula: {node.where}"
                self._say(name, "position", kind, why)
                if rates != "paper":
                    self._say(name, "position_rates", rates, why)
                if base != 10000.0:
                    self._say(name, "position_base", base, why)
                if ref is not None:
                    parts["sinusoid"] = self._name(ref)
                elif root := self._longest(node):
                    self._say(name, "max_positions", root, f"rows of its table: {node.where}")
                return
        if ref is None:
            raise PhasorError(
                f"{node.where}: positions that are computed, and by no formula that is known"
                f" (docs/reference/positions.md): {BY_HAND}"
            )
        self._say(name, "position", "learned", f"rows of {tensor}: {node.where}")
        if first:
            self._say(name, "position_offset", first, f"position 0 is row {first} of {tensor}")
        parts["positions"] = self._name(ref)

    def _rows(self, node: Node) -> tuple[Ref | None, int]:
        """(the tensor of a table, which of its rows is position 0)."""
        at = node
        for _ in range(8):
            ref = self.pieces.ref(at)
            if ref is not None:
                return ref, ref.rows[0]
            if at.op in ("embedding", "__getitem__", "index_select") and len(at.tensors) == 2:
                table, ids = at.tensors[:2]
                if at.op == "embedding" and not table.value.is_floating_point():
                    table, ids = ids, table
                found, flat = self.pieces.ref(table), ids.value.reshape(-1)
                if found is not None and not ids.value.is_floating_point():
                    return found, int(flat[0])
            if not at.tensors:
                break
            at = at.tensors[0]
        return None, 0

    def _longest(self, node: Node) -> int:
        """Rows of the table that a computed one is cut from; 0: it has no end."""
        at = node
        while at.tensors and at.op in _CUTS:
            at = at.tensors[0]
        sizes = [n for n in at.shape if n != 1]
        return sizes[0] if at.op == "constant" and len(sizes) == 2 else 0


def _one_row(value: Tensor) -> bool:
    flat = value.reshape(-1, value.shape[-1])
    return bool((flat == flat[0]).all())


def _table_of(value: Tensor, length: int) -> np.ndarray | None:
    """(positions, values) of a table that is repeated for each sequence."""
    sizes = value.shape
    at = [i for i, n in enumerate(sizes[:-1]) if n == length]
    if not at:
        return None
    rows = value.movedim(at[-1] if len(at) > 1 else at[0], 0).reshape(length, -1, sizes[-1])
    if not bool((rows == rows[:, :1]).all()):
        return None
    out: np.ndarray = rows[:, 0].detach().double().numpy()
    return out


def _formulas(table: np.ndarray) -> list[tuple[str, str, float]]:
    """(layout, rates, base) that a table may have, the base from its second rate."""
    width = table.shape[1]
    if width < 4 or width % 2 or len(table) < 2:
        return []
    out = []
    for kind, column in (("sinusoidal", 2), ("sinusoidal-halves", 1)):
        for rates, span in (("paper", width), ("tensor2tensor", width - 2)):
            rate = math.asin(min(1.0, max(-1.0, float(table[1, column]))))
            base = rate ** (-span / 2) if rate > 0 else 10000.0
            whole = float(round(base))
            out.append((kind, rates, whole if abs(base - whole) < 1e-5 * base else base))
    out.sort(key=lambda one: one[2] != round(one[2]))  # both rates fit, with a base of their own
    return out


def _sines(count: int, width: int, kind: str, rates: str, base: float) -> np.ndarray:
    span = width if rates == "paper" else width - 2
    powers = positions.powers(base, -np.arange(0, width, 2, dtype=np.float64) / span)
    layout = D.HALVES if kind.endswith("halves") else D.INTERLEAVED
    return np.asarray(sinusoid(powers, np.arange(count), layout))
