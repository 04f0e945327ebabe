"""The stacks of a module, from its output back to its inputs: the sub-layers of each with their
norms, what is put in, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from torch import Tensor

from phasor.errors import PhasorError
from phasor.live.attention import Attention, Finder
from phasor.live.pieces import ADD, Active, Linear, Norm, Pieces
from phasor.live.trace import Node, Traced

BY_HAND = "describe the module by hand (docs/guide/own-model.md)"
_MOST = 4096  # sub-layers


Branch = tuple[Linear, "Attention | Active", float, "Norm | None"]


@dataclass
class SubLayer:
    """One of a stack. before: the norm of its input; after: of its output, inside of the residual;
    behind: of the sum."""

    what: str  # attention, cross, ffn
    node: Node  # the sum, or the norm behind it
    input: Node  # what the norm before, or the product, is given
    residual: Node
    out: Linear
    scale: float
    before: Norm | None
    after: Norm | None
    behind: Norm | None
    attention: Attention | None = None
    active: Active | None = None


class Embedded(NamedTuple):
    """What goes into a stack."""

    node: Node
    input: Node  # of the trace
    table: Node | None  # the embedding; None: vectors
    scale: float
    projection: Linear | None
    projected_last: bool
    norm: Norm | None
    class_token: Node | None
    constants: tuple[Node, ...]  # added: positions


@dataclass
class Stack:
    layers: list[list[SubLayer]]
    embedded: Embedded
    final: Norm | None
    node: Node  # its output
    memory: Node | None = None  # what its cross-attention reads


class Output(NamedTuple):
    linear: Linear | None
    pooling: str
    head: Active | None
    head_norm: Norm | None
    stream: Node  # that of the last stack
    scale: float = 1.0
    cap: float = 0.0


@dataclass
class Read:
    """All that was read of a module."""

    pieces: Pieces
    output: Output
    stacks: dict[str, Stack] = field(default_factory=dict)  # encoder, decoder
    last_only: bool = False  # a decoder that gives the last position's logits alone
    # The calls for an example of this length; None where the module takes none.
    longer: Callable[[int], Traced | None] = lambda length: None


class Reader:
    def __init__(self, pieces: Pieces, batch: int) -> None:
        self.pieces, self.batch = pieces, batch
        self.branches: dict[int, Branch | None] = {}
        self.attentions = Finder(pieces, batch).all()
        if not self.attentions:
            raise PhasorError(
                f"the module has no attention that is read (a softmax, or PyTorch's own"
                f" scaled_dot_product_attention, of q, k and v): {BY_HAND}"
            )

    def read(self, output: Node) -> Read:
        out = self._output(output)
        last = self.stack(out.stream)
        stacks = {"": last}
        if last.memory is not None:
            stacks = {"encoder": self.stack(last.memory), "decoder": last}
        return Read(self.pieces, out, stacks)

    # ---- the output

    def _output(self, node: Node) -> Output:
        p = self.pieces
        at, scale = p.factored(node)
        if at.op in ("softmax", "log_softmax", "_softmax", "_log_softmax"):
            raise PhasorError(
                f"{at.where}: the module ends in {at.op.strip('_')}: a weight file keeps what is"
                " before it. TRY: a module that gives its logits"
            )
        cap = 0.0
        if at.op in ("tanh", "tanh_"):
            inside, more = p.factored(at.args[0])
            if p.linear(inside) is not None:
                at, scale, cap = inside, scale * more, scale
        linear, pooling, head, norm = p.linear(at), "", None, None
        if linear is not None:
            at, more = p.factored(p.bare(linear.x))
            if more != 1 and linear.bias is not None:
                raise PhasorError(
                    f"{at.where}: what the output's matrix reads is multiplied by {more:g}, and it"
                    f" has a bias: {BY_HAND}"
                )
            scale *= more
        at, pooling = self._pooled(at)
        if linear is not None and not pooling:
            outer = p.norm(at)
            inner = p.active(p.bare(outer.x)) if outer is not None else None
            active = inner or (None if outer is not None else p.active(at))
            if active is not None and self._behind(active) is not None:
                norm, head = (outer if inner else None), active
                at, pooling = self._pooled(p.bare(active.inner.x))
        return Output(linear, pooling, head, norm, stream=at, scale=scale, cap=cap)

    def _behind(self, active: Active) -> Node | None:
        """The stream that a head reads; None where the product is one of a sub-layer's."""
        at, pooling = self._pooled(self.pieces.bare(active.inner.x))
        whole = self._sum_of(at) is not None
        return at if pooling or whole else None

    def _pooled(self, node: Node) -> tuple[Node, str]:
        if node.op == "mean" and isinstance(node.args[0], Node):
            dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
            dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
            rank = len(node.args[0].shape)
            if isinstance(dim, int) and dim % rank != rank - 1:
                return self.pieces.bare(node.args[0]), "mean"
        if node.op in ("__getitem__", "select") and isinstance(node.args[0], Node):
            index = node.args[1] if node.op == "__getitem__" else node.args[2]
            inner = self.pieces.bare(node.args[0])
            for one in index if isinstance(index, tuple) else (index,):
                if isinstance(one, list) and len(one) == 1:
                    one = one[0]
                if isinstance(one, int) and one in (0, -1):
                    return inner, "last" if one else "first"
        return node, ""

    # ---- a stack

    def _add(self, node: Node) -> tuple[Node, Node] | None:
        """(residual, branch) of a sum that ends a sub-layer."""
        node = self.pieces.bare(node)
        if node.op not in ADD or len(node.args) < 2 or self.pieces.linear(node) is not None:
            return None
        a, b = node.args[:2]
        if not (isinstance(a, Node) and isinstance(b, Node) and a.depends and b.depends):
            return None
        if self._branch(b) is not None:
            return a, b
        return (b, a) if self._branch(a) is not None else None

    def _sum_of(self, node: Node) -> Node | None:
        """The sum that a stream is, behind its norms."""
        for _ in range(3):
            node = self.pieces.bare(node)
            if self._add(node) is not None:
                return node
            norm = self.pieces.norm(node)
            if norm is None:
                return None
            node = norm.x
        return None

    def _branch(self, node: Node) -> Branch | None:
        """What a sub-layer adds: the product that ends it and what is inside."""
        if node.index not in self.branches:
            self.branches[node.index] = self._ended(node)
        return self.branches[node.index]

    def _ended(self, node: Node) -> Branch | None:
        p = self.pieces
        node, scale = p.factored(node)
        after = p.norm(node)
        if after is not None:
            node, more = p.factored(after.x)
            scale = scale if more == 1 else float("nan")
        linear = p.linear(node)
        if linear is None:
            return None
        attention = self._attention(p.bare(linear.x))
        if attention is not None:
            return linear, attention, scale, after
        active = p.active(p.bare(linear.x)) if p.linear(p.bare(linear.x)) is None else None
        return (linear, active, scale, after) if active is not None else None

    def _attention(self, node: Node) -> Attention | None:
        """That of a node, or of one module for each head."""
        if node.index in self.attentions:
            return self.attentions[node.index]
        if node.op in ("cat", "concat", "concatenate") and isinstance(node.args[0], (list, tuple)):
            parts = [self.pieces.bare(one) for one in node.args[0] if isinstance(one, Node)]
            own = [self.attentions.get(one.index) for one in parts]
            if own and all(one is not None and one.heads == 1 for one in own):
                heads = [one for one in own if one is not None]
                first = heads[0]
                return Attention(
                    first.q,
                    first.k,
                    first.v,
                    len(heads),
                    len(heads),
                    factor=first.factor,
                    mask=first.mask,
                    bias=first.bias,
                    out=node,
                    where=first.where,
                    length=first.length,
                    added=first.added,
                    own=heads,
                )
        return None

    def stack(self, node: Node) -> Stack:
        """The sub-layers behind each other, the last first."""
        p = self.pieces
        found: list[SubLayer] = []
        final: Norm | None = None
        at = stream = p.bare(node)
        while len(found) < _MOST:
            summed, norms = at, []
            while self._add(summed) is None and (norm := p.norm(summed)) is not None:
                norms.append(norm)
                summed = p.bare(norm.x)
            if self._add(summed) is None:
                break
            sub = self._sub_layer(summed)
            if norms and sub.before is None and sub.after is None:
                sub.behind = norms.pop()
                sub.node = sub.behind.node
            if norms and not found:
                final = norms.pop()
            if norms:
                raise PhasorError(f"{norms[0].node.where}: two norms follow each other here")
            found.append(sub)
            at = p.bare(sub.residual)
        if not found:
            where = f"{stream.where}: " if stream.where else ""
            raise PhasorError(
                f"{where}{stream.op}: is not read as the end of a Transformer's stack (a residual"
                f" around attention or a feed-forward, with norms): {BY_HAND}"
            )
        found.reverse()
        layers = _layers(found)
        memory = self._memory(layers)
        return Stack(layers, self._embedded(at), final, stream, memory)

    def _sub_layer(self, node: Node) -> SubLayer:
        p, sides = self.pieces, self._add(node)
        assert sides is not None
        residual, branch = sides
        made = self._branch(branch)
        assert made is not None
        linear, inside, scale, after = made
        if isinstance(inside, Attention):
            given, read = p.bare(inside.q.linear.x), p.bare(inside.k.linear.x)
            what = "attention" if given is read else "cross"
            more: dict[str, Any] = {"attention": inside}
        else:
            given, what, more = p.bare(inside.inner.x), "ffn", {"active": inside}
        before = p.norm(given)
        source = p.bare(residual)
        if before is not None and given is not source:
            given = p.bare(before.x)
        else:
            before = None
        return SubLayer(
            what,
            node,
            given,
            source,
            linear,
            scale,
            before=before,
            after=after,
            behind=None,
            **more,
        )

    def _memory(self, layers: list[list[SubLayer]]) -> Node | None:
        read = {
            self.pieces.bare(sub.attention.k.linear.x).index: sub.attention
            for layer in layers
            for sub in layer
            if sub.what == "cross" and sub.attention
        }
        if len(read) > 1:
            raise PhasorError("the layers' cross-attention reads more than one sequence")
        for attention in read.values():
            return self.pieces.bare(attention.k.linear.x)
        return None

    # ---- what goes in

    def _embedded(self, node: Node) -> Embedded:
        p, node = self.pieces, self.pieces.bare(node)
        constants: list[Node] = []
        token = norm = projection = None
        scale, last, at = 1.0, True, node
        for _ in range(12):
            at, factor = p.factored(at)
            scale *= factor
            sides = [one for one in at.args[:2] if isinstance(one, Node)]
            added = at.op in ADD and len(sides) == 2 and sides[0].depends != sides[1].depends
            put = at.op in ("cat", "concat") and len(at.args[0]) == 2
            if scale != 1 and (added and self.pieces.linear(at) is None or put):
                raise PhasorError(
                    f"{at.where}: the sum of embedding and positions is multiplied by {scale:g},"
                    f" which has no key: {BY_HAND}"
                )
            if at.op in ("embedding", "__getitem__") and _table(at) is not None:
                table, ids = _table(at)  # type: ignore[misc]
                return Embedded(
                    node,
                    self._input(ids),
                    table,
                    scale,
                    projection,
                    last,
                    norm=norm,
                    class_token=token,
                    constants=tuple(constants),
                )
            if (found := p.norm(at)) is not None and norm is None and scale == 1:
                norm, at = found, p.bare(found.x)
                if constants:
                    raise PhasorError(
                        f"{found.node.where}: positions behind the embedding's norm: {BY_HAND}"
                    )
            elif (linear := p.linear(at)) is not None and projection is None:
                projection, last = linear, not constants
                inner = p.bare(linear.x)
                if inner.op == "input":
                    return Embedded(
                        node,
                        inner,
                        None,
                        scale,
                        linear,
                        last,
                        norm=norm,
                        class_token=token,
                        constants=tuple(constants),
                    )
                at = inner
            elif added:
                constants.append(sides[0] if sides[1].depends else sides[1])
                at = sides[0] if sides[0].depends else sides[1]
            elif put and not at.args[0][0].depends:
                token, at = at.args[0]
            elif at.op == "input" and at.value.is_floating_point():
                return Embedded(
                    node,
                    at,
                    None,
                    scale,
                    None,
                    last,
                    norm=norm,
                    class_token=token,
                    constants=tuple(constants),
                )
            else:
                break
        raise PhasorError(
            f"{at.where or 'the example'}: {at.op}: is not read as part of what goes into a stack"
            f" (an embedding or a product of vectors, a scale, positions, a norm): {BY_HAND}"
        )

    def _input(self, ids: Node) -> Node:
        at = self.pieces.bare(ids)
        if at.op != "input":
            raise PhasorError(
                f"{at.where}: {at.op}: ids of an embedding that are not the example's: {BY_HAND}"
            )
        return at


def _table(node: Node) -> tuple[Node, Node] | None:
    """(table, ids) of a look-up."""
    given = [one for one in node.args[:2] if isinstance(one, Node)]
    if len(given) != 2:
        return None
    a, b = given
    if node.op == "embedding":
        a, b = (a, b) if b.depends and not a.depends else (b, a)
    return (a, b) if b.depends and not a.depends and isinstance(a.value, Tensor) else None


def _layers(found: list[SubLayer]) -> list[list[SubLayer]]:
    """The sub-layers of each layer, which are as many in all."""
    kinds = [sub.what for sub in found]
    for period in (["attention", "ffn"], ["attention", "cross", "ffn"]):
        count, over = divmod(len(kinds), len(period))
        if not over and kinds == period * count:
            return [found[i : i + len(period)] for i in range(0, len(found), len(period))]
    odd = next(
        (s for i, s in enumerate(found) if s.what not in (kinds[i % 2], kinds[i % 3])), found[0]
    )
    raise PhasorError(
        f"{odd.node.where}: sub-layers in the order {', '.join(kinds[:6])}: expected attention and"
        " feed-forward, or attention, cross-attention and feed-forward, in each layer"
    )
