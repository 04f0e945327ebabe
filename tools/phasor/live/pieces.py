"""The pieces of a Transformer in the calls of a module: products with weights, norms, activations.
Each is told by what it is given and by its values, on the example and on numbers drawn for it."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, NamedTuple

import torch
from torch import Tensor

from phasor.live.trace import Node, Ref, Traced, again

SHAPE = set(
    "view reshape transpose permute unflatten flatten unsqueeze squeeze contiguous expand"
    " expand_as T mT t swapaxes swapdims movedim moveaxis clone detach to float double type"
    " type_as dropout dropout1d dropout2d alpha_dropout view_as reshape_as ravel data real".split()
)
PICK = set(
    "chunk split tensor_split unbind item select narrow __getitem__ repeat_interleave repeat"
    " index_select".split()
)
ADD = {"add", "__add__", "__radd__", "add_", "__iadd__"}
SUB = {"sub", "__sub__", "__rsub__", "rsub", "sub_", "__isub__"}
MUL = {"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply"}
DIV = {"div", "__truediv__", "true_divide", "div_", "__itruediv__", "__div__", "divide"}
PRODUCT = {"matmul", "__matmul__", "mm", "bmm"}
_POINTWISE = (
    ADD
    | SUB
    | MUL
    | DIV
    | set(
        "pow __pow__ neg __neg__ tanh erf sigmoid relu relu_ gelu silu exp clamp clamp_min maximum"
        " sqrt square softplus mish hardswish abs where logsigmoid elu leaky_relu glu".split()
    )
)
_REDUCES = ("mean", "var", "std", "var_mean", "norm", "sum", "square", "pow", "__pow__")
_OF_NORM = ADD | SUB | MUL | DIV | {*_REDUCES, "sqrt", "rsqrt", "item"}
_FAR = 24  # calls of a norm that is written out
_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 0.0)
_NEAR = 2e-5  # of the largest value


def near(a: Tensor, b: Tensor) -> bool:
    """Whether values are the same but for rounding."""
    whole = max(float(b.detach().abs().max()), 1e-30)
    gap = (a.detach().double() - b.detach().double()).abs() if a.shape == b.shape else None
    return gap is not None and float(gap.max()) <= _NEAR * whole


class Linear(NamedTuple):
    node: Node
    x: Node
    weight: Node
    bias: Node | None
    turned: bool  # stored as (inputs, outputs), as the call has it

    @property
    def outputs(self) -> int:
        return self.weight.shape[1 if self.turned else 0]


class Norm(NamedTuple):
    node: Node
    x: Node
    kind: str
    eps: float
    weight: Node
    bias: Node | None


class Active(NamedTuple):
    """An activation behind a product, or times another one."""

    name: str
    inner: Linear
    gate: Linear | None
    half: str = ""  # of one product's rows: where the gate is
    tried: str = ""


def _layer(x: Tensor, eps: float) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt()


def _rms(x: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _unbiased(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


_NORMS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "layer": _layer,
    "rms": _rms,
    "layer-unbiased": _unbiased,
}
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu-tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "relu2": lambda x: torch.relu(x).square(),
    "tanh": torch.tanh,
}


class Pieces:
    def __init__(self, trace: Traced) -> None:
        self.trace, self.refs = trace, trace.refs
        self._linears: dict[int, Linear | None] = {}
        self._norms: dict[int, Norm | None] = {}
        self.users: dict[int, list[Node]] = {}
        for node in trace.nodes:
            for one in node.tensors:
                self.users.setdefault(one.index, []).append(node)

    def ref(self, node: Node) -> Ref | None:
        """The tensor of the state_dict that a constant is a part of."""
        return self.refs.of(node.value) if isinstance(node.value, Tensor) else None

    def bare(self, node: Node) -> Node:
        """What a value is a view of, or an unchanged copy."""
        while node.op in SHAPE or node.op == "__getitem__" and self._whole(node):
            if not node.args or not isinstance(node.args[0], Node):
                break
            node = node.args[0]
        return node

    def _whole(self, node: Node) -> bool:
        """Whether a part of a tensor is all of it."""
        given = node.args[0]
        return isinstance(given, Node) and given.value.numel() == node.value.numel()

    def factored(self, node: Node) -> tuple[Node, float]:
        """(value, factor): a value times a number is told apart."""
        factor = 1.0
        while True:
            node = self.bare(node)
            if node.op not in MUL | DIV or len(node.args) < 2:
                return node, factor
            a, b = node.args[:2]
            if node.op in MUL and not (isinstance(a, Node) and a.depends):
                a, b = b, a
            number = self.number(b)
            if number is None or not isinstance(a, Node) or not a.depends:
                return node, factor
            factor = factor * number if node.op in MUL else factor / number
            node = a

    def number(self, value: Any) -> float | None:
        """A number, or a constant that has one value."""
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, Node) and not value.depends and isinstance(value.value, Tensor):
            flat = value.value.reshape(-1)
            if flat.numel() and bool((flat == flat[0]).all()) and self.ref(value) is None:
                return float(flat[0])
            if flat.numel() == 1:
                return float(flat[0])
        return None

    # ---- products

    def linear(self, node: Node) -> Linear | None:
        if node.index not in self._linears:
            self._linears[node.index] = self._linear(node)
        return self._linears[node.index]

    def _linear(self, node: Node) -> Linear | None:
        args = [a for a in node.args if isinstance(a, Node)]
        if not node.depends or not args:
            return None
        if node.op == "linear":
            bias = node.args[2] if len(node.args) > 2 else node.kwargs.get("bias")
            weight = node.args[1] if len(node.args) > 1 else node.kwargs["weight"]
            return Linear(node, args[0], weight, bias, False)
        if node.op in PRODUCT and len(args) == 2 and args[0].depends and not args[1].depends:
            return Linear(node, args[0], args[1], None, True) if self._matrix(args[1]) else None
        if node.op == "addmm" and len(args) == 3 and args[1].depends and not args[2].depends:
            return Linear(node, args[1], args[2], args[0], True)
        if node.op == "conv1d" and len(args) > 1 and args[1].shape[2] == 1:
            bias = args[2] if len(args) > 2 else None
            return Linear(node, args[0], args[1], bias, False)
        if node.op in ADD and len(args) == 2:
            sides = (args[0], args[1]), (args[1], args[0])
            for product, bias in sides:
                if product.depends and not bias.depends:
                    made = self.linear(self.bare(product))
                    flat = len([n for n in bias.shape if n != 1]) == 1 and self.ref(bias)
                    if made and made.bias is None and flat and bias.shape[-1] == made.outputs:
                        return made._replace(node=node, bias=bias)
        return None

    @staticmethod
    def _matrix(node: Node) -> bool:
        return len(node.shape) == 2

    # ---- norms

    def norm(self, node: Node) -> Norm | None:
        node = self.bare(node)
        if node.index not in self._norms:
            self._norms[node.index] = self._norm(node)
        return self._norms[node.index]

    def _norm(self, node: Node) -> Norm | None:
        if node.op in ("layer_norm", "rms_norm"):
            names = ["input", "normalized_shape", "weight", "bias", "eps"]
            if node.op == "rms_norm":
                names.remove("bias")
            given = {**dict(zip(names, node.args)), **node.kwargs}
            eps, weight = given.get("eps"), given.get("weight")
            if weight is None:
                return None
            if eps is None:
                eps = torch.finfo(given["input"].value.dtype).eps
            kind = "rms" if node.op == "rms_norm" else "layer"
            return Norm(node, given["input"], kind, float(eps), weight, given.get("bias"))
        if node.depends and node.op in ADD | MUL | DIV:
            return self._written_out(node)
        return None

    def _written_out(self, node: Node) -> Norm | None:
        """A norm in single calls: what it reduces is its input, and the numbers in it are its
        epsilon; which formula it is, its values say."""
        vectors: list[Node] = []
        numbers: list[float] = []
        inputs: list[Node] = []
        todo, seen = [node], {node.index}
        while todo and len(seen) < _FAR:
            at = todo.pop(0)
            if at.op in _REDUCES and at.args and isinstance(at.args[0], Node):
                inputs += [self.bare(at.args[0]), at.args[0]]
            for one in (*at.args, *at.kwargs.values()):
                if isinstance(one, float) and one > 0:
                    numbers.append(one)
                if not isinstance(one, Node):
                    continue
                bare = self.bare(one)
                if not one.depends:
                    flat = [n for n in one.shape if n != 1]
                    if flat == [node.shape[-1]] and self.ref(one):
                        vectors.append(one)
                    elif one.value.numel() == 1:
                        numbers.append(float(one.value))
                elif bare.op in _OF_NORM and bare.index not in seen:
                    seen.add(bare.index)
                    todo.append(bare)
        if not inputs or not 1 <= len(vectors) <= 2:
            return None
        return self._fitted(node, inputs, vectors, numbers)

    def _fitted(
        self, node: Node, inputs: list[Node], vectors: list[Node], numbers: list[float]
    ) -> Norm | None:
        pairs = (
            [(vectors[0], None)]
            if len(vectors) == 1
            else [(vectors[0], vectors[1]), (vectors[1], vectors[0])]
        )
        for x in dict.fromkeys(inputs):
            if x.value.shape != node.value.shape:
                continue
            drawn = torch.randn(x.shape, dtype=x.value.dtype, generator=_drawing()) * 0.01
            try:
                small = again(self.trace, x, drawn, node)  # in which an epsilon is seen
            except Exception:  # a call that another value does not go through
                continue
            for kind, formula in _NORMS.items():
                for eps in dict.fromkeys((*numbers, *_EPSILONS)):
                    if eps >= 1:
                        continue
                    for weight, bias in pairs:

                        def made(values: Tensor) -> Tensor:
                            out = formula(values, eps) * weight.value
                            return out if bias is None else out + bias.value

                        if near(made(x.value), node.value) and near(made(drawn), small):
                            return Norm(node, x, kind, eps, weight, bias)
        return None

    # ---- activations

    def _leaves(self, node: Node) -> list[Node]:
        """The values that a chain of calls on single values begins with."""
        out: dict[int, Node] = {}
        todo, seen = [node], set()
        while todo:
            at = todo.pop(0)
            if at.index in seen:
                continue
            seen.add(at.index)
            inside = at.op in _POINTWISE | SHAPE | PICK and self.linear(at) is None
            if not inside or len(seen) > 4 * _FAR:
                out[at.index] = at
                continue
            todo += [one for one in at.tensors if one.depends]
        return list(out.values())

    def active(self, node: Node) -> Active | None:
        """An activation behind one product, or a gate of two."""
        leaves = self._leaves(node)
        made = [self.linear(leaf) for leaf in leaves]
        if not made or len(made) > 2 or any(one is None for one in made):
            return None
        first = made[0]
        assert first is not None
        drawn = 2 * torch.randn(
            first.node.shape, dtype=first.node.value.dtype, generator=_drawing()
        )
        got = again(self.trace, first.node, drawn, node)
        for name, act in _ACTIVATIONS.items():
            if len(made) == 1:
                for half, value in _readings(act, drawn):
                    if near(value.reshape(-1), got.reshape(-1)):
                        return Active(name, first, first if half else None, half, _tried(got))
                continue
            second = made[1]
            assert second is not None
            for gate, inner, value in (
                (first, second, act(drawn) * second.node.value),
                (second, first, act(second.node.value) * drawn),
            ):
                if near(value.reshape(-1), got.reshape(-1)):
                    return Active(name, inner, gate, "", _tried(got))
        return None


def _readings(act: Callable[[Tensor], Tensor], drawn: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield "", act(drawn)
    if drawn.shape[-1] % 2 == 0:
        a, b = drawn.chunk(2, -1)
        yield "first", act(a) * b
        yield "second", a * act(b)


def _tried(values: Tensor) -> str:
    return f"the one of {len(_ACTIVATIONS)} that gives its {values.numel()} values for drawn ones"


def _drawing() -> torch.Generator:
    return torch.Generator().manual_seed(1)
