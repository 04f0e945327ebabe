"""Attention in the calls of a module: its q, k and v, which rows of which matrix they are, how they
turn with positions, what the scores are multiplied by, and who sees whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from phasor.errors import PhasorError
from phasor.live.pieces import ADD, PRODUCT, SHAPE, SUB, Linear, Norm, Pieces, near
from phasor.live.trace import Node, again

_SCORED = ("softmax", "_softmax")
_ATTENDS = "scaled_dot_product_attention"
_BY_HAND = "describe the module by hand (docs/guide/own-model.md)"
_HIDDEN = -1e4  # a score that is added to is hidden below
_EXACT = 1e-4


class Operand(NamedTuple):
    """q, k or v where heads meet: (batch, head, position, value)."""

    node: Node
    turned: bool = False  # (…, value, position)
    labels: tuple[str, str, str] = ("", "", "")  # of an einsum: its own, the place, the value


class Third(NamedTuple):
    """q, k or v: a product, and which of its rows each head has."""

    linear: Linear
    rows: tuple[tuple[int, ...], ...]
    scale: float
    angles: tuple[float, ...]  # by which position 1 turns the pairs of a head
    halves: bool
    norm: Norm | None = None  # of each head, or of all at once


@dataclass
class Attention:
    q: Third
    k: Third
    v: Third
    heads: int
    kv_heads: int
    factor: float  # of the scores
    mask: str  # "", "causal", "window N"
    bias: Tensor | None  # (heads, queries, keys), added to the scores
    out: Node
    where: str
    length: tuple[int, int] = (0, 0)
    own: list["Attention"] = field(default_factory=list)  # of each head, a module each
    cap: float = 0.0  # the scores become cap·tanh(score/cap)
    added: tuple[Node, ...] = ()  # to the scores: what `bias` is the sum of


class Finder:
    def __init__(self, pieces: Pieces, batch: int) -> None:
        self.pieces, self.trace, self.batch = pieces, pieces.trace, batch

    def all(self) -> dict[int, Attention]:
        """By the call that gives what its heads have read."""
        out = {}
        for node in self.trace.nodes:
            if not node.depends:
                continue
            made: Attention | None
            if node.op == _ATTENDS:
                made = self._fused(node)
            elif node.op in _SCORED and len(node.shape) >= 3:
                made = self._written(node)
            else:
                continue
            if made is not None:
                out[made.out.index] = made
        return out

    # ---- the two ways to write it

    def _fused(self, node: Node) -> Attention:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
        given = {**dict(zip(names, node.args)), **node.kwargs}
        q, k, v = (Operand(given[name]) for name in names[:3])
        scale = given.get("scale")
        factor = float(scale) if scale is not None else given["query"].shape[-1] ** -0.5
        size = given["query"].shape[-2], given["key"].shape[-2]
        seen, bias = torch.ones(size, dtype=torch.bool), None
        mask = given.get("attn_mask")
        if given.get("is_causal"):
            seen = seen.tril()
        elif mask is not None:
            seen, bias = self._seen(mask.value, node)
        made = self._made(q, k, v, node, factor, (seen, bias))
        made.added = (mask,) if isinstance(mask, Node) else ()
        return made

    def _written(self, node: Node) -> Attention | None:
        after = self._reader(node)
        scored = self._scores(node.args[0], 1.0, [])
        if after is None or scored is None:
            return None
        q, k, factor, biases, cap = scored
        out, at = after
        v = self._of_values(out, 1 - at) if out.op == "einsum" else Operand(out.args[1])
        seen = self._one((node.value.abs() > 0).reshape(-1, *node.shape[-2:]), node)
        bias = None
        for one, sign in biases:
            value = sign * one.value if one.value.dtype != torch.bool else one.value
            if value.dtype != torch.bool:
                finite = torch.where(value > _HIDDEN, value, torch.zeros_like(value))
                if finite.abs().max() > 0:
                    bias = finite if bias is None else bias + finite
        if bias is not None:
            bias = bias.reshape(-1, *bias.shape[-2:])
        made = self._made(q, k, v, out, factor, (seen, bias))
        made.cap, made.added = cap, tuple(one for one, _ in biases)
        return made

    def _reader(self, node: Node) -> tuple[Node, int] | None:
        """The product that reads values by these weights."""
        todo = [node]
        while todo:
            at = todo.pop(0)
            for user in self.pieces.users.get(at.index, []):
                if user.op in PRODUCT and user.args[0] is at:
                    return user, 0
                if user.op == "einsum":
                    operands = _operands(user)
                    return (user, operands.index(at)) if at in operands else None
                if user.op in SHAPE | {"nan_to_num", "masked_fill", "where"}:
                    todo.append(user)
        return None

    def _scores(
        self, node: Node, factor: float, biases: list[tuple[Node, float]]
    ) -> tuple[Operand, Operand, float, list[tuple[Node, float]], float] | None:
        """Back from the softmax to the product of q and k. biases: what is added to it, and by
        what it is multiplied. The last result is the cap, 0 where there is none."""
        for _ in range(16):
            node, more = self.pieces.factored(node)
            factor *= more
            if node.op in ("masked_fill", "masked_fill_"):
                node = node.args[0]
            elif node.op == "where":
                node = next(n for n in node.args[1:] if isinstance(n, Node) and n.depends)
            elif node.op in ADD | SUB:
                sides = [one for one in node.args[:2] if isinstance(one, Node)]
                minus = factor * (-1.0 if node.op in SUB else 1.0)
                found = None
                if len(sides) == 2 and sides[0].depends:
                    found = self._scores(sides[0], factor, [*biases, (sides[1], minus)])
                if len(sides) == 2 and not found and node.op in ADD:
                    found = self._scores(sides[1], factor, [*biases, (sides[0], factor)])
                return found
            elif node.op in ("tanh", "tanh_"):
                inner = self._scores(node.args[0], 1.0, [])
                if inner is None or inner[3] or inner[4]:
                    return None
                return inner[0], inner[1], inner[2] * factor, biases, factor
            elif node.op == "baddbmm":
                beta, alpha = node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1)
                more_bias = [(node.args[0], beta * factor)] if beta else []
                q, k = node.args[1:3]
                return Operand(q), Operand(k, True), factor * alpha, [*biases, *more_bias], 0.0
            elif node.op in PRODUCT and all(n.depends for n in node.tensors):
                return Operand(node.args[0]), Operand(node.args[1], True), factor, biases, 0.0
            elif node.op == "einsum":
                return self._of_scores(node, 0), self._of_scores(node, 1), factor, biases, 0.0
            else:
                return None
        return None

    def _of_scores(self, node: Node, at: int) -> Operand:
        """q or k of an einsum that gives scores."""
        own, other, out = _labels(node, at)
        place = "".join(c for c in own if c in out and c not in other)
        value = "".join(c for c in own if c in other and c not in out)
        return _labelled(node, at, own, place, value)

    def _of_values(self, node: Node, at: int) -> Operand:
        """v of an einsum that reads values by weights."""
        own, other, out = _labels(node, at)
        place = "".join(c for c in own if c in other and c not in out)
        value = "".join(c for c in own if c in out and c not in other)
        return _labelled(node, at, own, place, value)

    def _one(self, seen: Tensor, node: Node) -> Tensor:
        """Who sees whom, where sequences differ in nothing but ids that pad. PhasorError where they
        do by a mask that is given."""
        if not self.trace.pads and bool((seen != seen[0]).any()):
            raise _other_mask(node)
        return seen.any(0)

    def _seen(self, mask: Tensor, node: Node) -> tuple[Tensor, Tensor | None]:
        square = mask.reshape(-1, *mask.shape[-2:])
        if mask.dtype == torch.bool:
            return self._one(square, node), None
        finite = torch.where(square > _HIDDEN, square, torch.zeros_like(square))
        seen = self._one(square > _HIDDEN, node)
        return seen, (finite if finite.abs().max() > 0 else None)

    # ---- what is the same for both

    def _made(
        self,
        q: Operand,
        k: Operand,
        v: Operand,
        out: Node,
        factor: float,
        seen: tuple[Tensor, Tensor | None],
    ) -> Attention:
        thirds = [self._third(one, out) for one in (q, k, v)]
        grid = self.grid(q.node.value, q)
        kv = len({rows for rows in thirds[1].rows})
        allowed, bias = seen
        size = grid.shape[2], self.grid(k.node.value, k).shape[2]
        allowed = allowed.expand(size) if allowed.shape != size else allowed
        scale = factor * thirds[0].scale * thirds[1].scale
        return Attention(
            q=thirds[0],
            k=thirds[1],
            v=thirds[2],
            heads=grid.shape[1],
            kv_heads=kv,
            factor=scale,
            mask=_mask(allowed, out),
            bias=bias,
            out=out,
            where=out.where,
            length=size,
        )

    def grid(self, value: Tensor, operand: Operand) -> Tensor:
        """(batch, head, position, value)."""
        own, place, inner = operand.labels
        if own:
            rest = [c for c in own if c not in (place, inner)]
            value = value.permute([own.index(c) for c in (*rest, place, inner)])
        if operand.turned:
            value = value.transpose(-1, -2)
        lead = value.shape[:-2]
        if len(lead) == 1 and lead[0] % self.batch == 0:
            return value.reshape(self.batch, lead[0] // self.batch, *value.shape[-2:])
        if not lead:
            return value[None, None]
        return value.reshape(lead[0], -1, *value.shape[-2:])

    def _third(self, operand: Operand, out: Node) -> Third:
        linear, norm = self._source(operand.node, out)
        grid = self.grid(operand.node.value, operand)
        rows: list[tuple[int, ...]] = []
        scale, halves = 1.0, False
        angles: tuple[float, ...] = ()
        start, count = linear.node, linear.outputs
        if norm is not None:  # behind it a head's values are turned at most
            start, count = norm.node, norm.node.shape[-1]
            if count not in (grid.shape[3], linear.outputs):
                raise PhasorError(
                    f"{norm.node.where}: a norm of {count} values on q or k, expected one of a head"
                    f" ({grid.shape[3]}) or of all heads ({linear.outputs}): {_BY_HAND}"
                )
        twice = again(self.trace, start, 2 * start.value, operand.node)
        if not near(twice, 2 * operand.node.value):
            raise PhasorError(
                f"{out.where}: q, k or v is no multiple of its product: a vector that is added, an"
                f" activation, or a norm without weights is not read there: {_BY_HAND}"
            )
        for head in range(grid.shape[1]):
            matrix = self._jacobian(start, count, operand, head)
            if norm is not None and count != linear.outputs:
                reached, inner = self._jacobian(linear.node, linear.outputs, operand, head), matrix
            else:
                reached, inner = matrix, None
            used = (reached.abs() > 1e-9 * reached.abs().max()).any(0).nonzero().reshape(-1)
            rows.append(tuple(used.tolist()))
            inner = matrix[:, used] if inner is None else inner
            if inner.shape[0] != inner.shape[1]:
                raise PhasorError(
                    f"{out.where}: a head of {inner.shape[0]} values is made of"
                    f" {inner.shape[1]}: not read as q, k or v"
                )
            if not head:
                scale = float(inner.norm()) / inner.shape[0] ** 0.5
                scale *= float(torch.sign(inner.diagonal().sum()))
                angles, halves = _turns(inner / scale, out)
        return Third(linear, tuple(rows), scale, angles, halves, norm)

    def _source(self, node: Node, out: Node) -> tuple[Linear, Norm | None]:
        """The one product that a value of attention comes from, and a norm on the way."""
        found: dict[int, Linear] = {}
        norms: dict[int, Norm] = {}
        todo, seen = [node], set()
        while todo:
            at = todo.pop(0)
            if at.index in seen or not at.depends:
                continue
            seen.add(at.index)
            linear = self.pieces.linear(at)
            if linear is not None:
                found[at.index] = linear
                continue
            if at.op == "input":
                raise PhasorError(
                    f"{out.where}: q, k or v comes from the input (the example), expected a product"
                    f" with weights: {_BY_HAND}"
                )
            norm = self.pieces.norm(at)
            if norm is not None:
                norms[norm.node.index] = norm
                at = norm.x
                todo.append(at)
                continue
            todo += at.tensors
        if len(found) != 1:
            raise PhasorError(
                f"{out.where}: q, k or v of attention comes from {len(found)} products, expected 1"
            )
        if len(norms) > 1:
            raise PhasorError(f"{out.where}: q, k or v has {len(norms)} norms: {_BY_HAND}")
        return next(iter(found.values())), next(iter(norms.values()), None)

    def _jacobian(self, begin: Node, outputs: int, operand: Operand, head: int) -> Tensor:
        """(values, rows): how the values of a head at position 1 change with those of an earlier
        call."""
        start = begin.value.detach().clone().requires_grad_()
        with torch.enable_grad():
            value = again(self.trace, begin, start * 1, operand.node)
            row = self.grid(value, operand)[0, head, 1]
            grads = [torch.autograd.grad(one, start, retain_graph=True)[0] for one in row]
        conv = begin.op == "conv1d"
        kept = [g.transpose(1, 2) if conv else g for g in grads]
        return torch.stack([g.reshape(-1, outputs).sum(0) for g in kept])


def _operands(node: Node) -> list[Node]:
    given = node.args[1:]
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = tuple(given[0])
    return list(given)


def _labels(node: Node, at: int) -> tuple[str, str, str]:
    """(the operand's, the other's, the result's) of an einsum of two."""
    inside, _, out = node.args[0].replace(" ", "").partition("->")
    terms = inside.split(",")
    if len(terms) != 2 or not out or "." in inside:
        raise PhasorError(f"{node.where}: einsum {node.args[0]}: is not read as attention")
    return terms[at], terms[1 - at], out


def _labelled(node: Node, at: int, own: str, place: str, value: str) -> Operand:
    if len(place) != 1 or len(value) != 1:
        raise PhasorError(f"{node.where}: einsum {node.args[0]}: is not read as attention")
    return Operand(_operands(node)[at], False, (own, place, value))


def _turns(matrix: Tensor, out: Node) -> tuple[tuple[float, ...], bool]:
    """(angles of the pairs, whether a pair is one of each half) of the map of position 1."""
    width = matrix.shape[0]
    eye = torch.eye(width, dtype=matrix.dtype)
    if float((matrix - eye).abs().max()) < _EXACT:
        return (), False
    other = [i for i in range(1, width) if abs(float(matrix[0, i])) > _EXACT]
    if len(other) == 1:
        halves = other[0] != 1 or width == 2
        span = other[0] if halves and width > 2 else width // 2
        angles = []
        for i in range(span):
            a, b = (i, i + span) if halves and width > 2 else (2 * i, 2 * i + 1)
            angles.append(float(torch.atan2(matrix[b, a], matrix[a, a])))
        return tuple(angles), halves and width > 2
    raise PhasorError(
        f"{out.where}: q or k changes with the position in a way that is no rotation of pairs:"
        " describe the module by hand (docs/reference/positions.md)"
    )


def _mask(seen: Tensor, out: Node) -> str:
    """Who sees whom, of (queries, keys)."""
    rows, cols = seen.shape
    if bool(seen.all()):
        return "causal" if rows == cols == 1 else ""
    i, j = torch.arange(rows)[:, None], torch.arange(cols)[None]
    if bool((seen == (j <= i)).all()):
        return "causal"
    for window in range(1, rows):
        if bool((seen == ((j <= i) & (j > i - window))).all()):
            return f"causal window {window}"
        if bool((seen == ((j - i).abs() <= window // 2)).all()) and window % 2:
            return f"window {window}"
    raise _other_mask(out)


def _other_mask(node: Node) -> PhasorError:
    return PhasorError(
        f"{node.where}: the mask of attention is neither causal nor a window, nor empty: give an"
        " example without padding; other masks are not supported"
    )
