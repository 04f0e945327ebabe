"""What a module computes for one input: every call of PyTorch with its values, in order, and which
of them depend on the input. No attribute's name is looked at."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from phasor.errors import PhasorError, printable

_TORCH = str(Path(torch.__file__).parent)
_OWN = str(Path(__file__).parent)
_MOST_CALLS = 200_000
# Functions of Python that are looked into; the others are calls.
_OPENED = {"multi_head_attention_forward"}
_NO = {
    name: lambda *args: False
    for name in (
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    )
}
# What takes a value out of a tensor, and lets Python branch on it.
_BRANCHES = {
    *("__bool__", "__int__", "__float__", "__index__", "__contains__", "item", "tolist"),
    *("nonzero", "argwhere", "unique", "masked_select", "allclose", "equal", "is_nonzero"),
    *("numpy", "__array__", "multinomial"),
}
# What takes only a shape from its tensors.
_SHAPES = {
    *("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones"),
    *("new_empty", "new_full", "new_tensor"),
}
_IN_PLACE = {
    *("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ior__"),
    *("__iand__",),
}


@dataclass(eq=False)
class Node:
    """A call: its function, what it was given (nodes in place of tensors), and its value."""

    index: int
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    value: Any
    depends: bool  # on the input of the module
    where: str = ""  # file:line of the owner's code
    run: Callable[..., Any] | None = None
    tensors: list["Node"] = field(default_factory=list)  # of args and kwargs

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)


class Ref(NamedTuple):
    """The part of a state_dict's tensor that a value is: rows, or columns of it turned."""

    names: tuple[str, ...]  # all that share its storage and shape
    rows: tuple[int, int]  # first and count
    of: int  # rows of the whole tensor
    turned: bool


class Traced(NamedTuple):
    nodes: list[Node]
    inputs: list[Node]
    output: Any  # as the module gave it, nodes in place of tensors
    refs: "Refs"
    pads: list[tuple[str, int]]  # where ids are compared with a number


class Refs:
    """The tensors of a state_dict by their storage."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.tensors = dict(module.state_dict(keep_vars=True))
        self.parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        self.by_storage: dict[int, list[str]] = {}
        for name, tensor in self.tensors.items():
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                self.by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)

    def of(self, value: torch.Tensor) -> Ref | None:
        """Which tensor's rows a value is; None where it was computed."""
        names = self.by_storage.get(value.untyped_storage().data_ptr())
        if not names or not value.numel():
            return None
        whole = self.tensors[names[0]]
        same = [n for n in names if self.tensors[n].shape == whole.shape]
        sizes, strides = _inner(value)
        whole_sizes, whole_strides = _inner(whole)
        first = value.storage_offset() - whole.storage_offset()
        if len(sizes) < len(whole_sizes) == 2:  # one row
            sizes, strides = [1, *sizes], [whole_strides[0], *strides]
        turned = len(sizes) == 2 and strides == whole_strides[::-1] != whole_strides
        if turned:
            sizes, strides = sizes[::-1], strides[::-1]
        if strides != whole_strides or sizes[1:] != whole_sizes[1:]:
            return None
        if not sizes:
            return Ref(tuple(same), (0, 1), 1, False)
        return Ref(tuple(same), (first // strides[0], sizes[0]), whole_sizes[0], turned)


def _inner(value: torch.Tensor) -> tuple[list[int], list[int]]:
    """Sizes and strides without those of size 1."""
    kept = [i for i, n in enumerate(value.shape) if n != 1]
    return [value.shape[i] for i in kept], [value.stride(i) for i in kept]


class _Tracer(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.known: dict[int, Node] = {}
        self.alive: list[Any] = []  # tensors whose values were kept before they changed

    def node(self, tensor: torch.Tensor) -> Node:
        """That of a tensor; one that no call gave is a constant."""
        found = self.known.get(id(tensor))
        if found is None:
            found = self.add("constant", (), {}, tensor, depends=False)
        return found

    def add(
        self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any, *, depends: bool
    ) -> Node:
        if len(self.nodes) >= _MOST_CALLS:
            raise PhasorError(f"the module makes more than {_MOST_CALLS:,} calls for the example")
        node = Node(len(self.nodes), op, args, kwargs, value, depends)
        node.tensors = [*_nodes(args), *_nodes(kwargs)]
        self.nodes.append(node)
        if isinstance(value, torch.Tensor):
            self.known[id(value)] = node
        return node

    def __torch_function__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name in _OPENED and isinstance(func, types.FunctionType):
            inside = {**func.__globals__, **_NO}
            code = types.FunctionType(
                func.__code__, inside, name, func.__defaults__, func.__closure__
            )
            code.__kwdefaults__ = func.__kwdefaults__
            with self:
                return code(*args, **kwargs)
        if name == "__iter__":
            with self:
                return iter(args[0].unbind(0))
        if name == "__get__":
            name = getattr(func.__self__, "__name__", name)
        given = [t for t in _tensors((args, kwargs))]
        depends = any(self.node(t).depends for t in given) and name not in _SHAPES
        where = ""
        if name in _BRANCHES and depends:
            where = _place()
            raise PhasorError(
                f"{where}: {name.strip('_')} of a tensor that depends on the input: control flow"
                " that depends on data has no description. TRY: a module whose calls are the same"
                " for every input"
            )
        if name in _IN_PLACE or name.endswith("_") and not name.endswith("__"):
            self._keep(args[0])
        inner = _replaced(args, self.node), _replaced(kwargs, self.node)
        out = func(*args, **kwargs)
        if name == "__setitem__":
            out_node = self.add(name, *inner, args[0], depends=depends)
            out_node.where, out_node.run = _place(), None
            return out
        made = [out] if isinstance(out, torch.Tensor) else out
        if not (isinstance(made, (tuple, list)) and any(_is_tensor(t) for t in made)):
            return out
        if isinstance(out, torch.Tensor) and out is (args[0] if args else None):
            if name in ("contiguous", "to", "float", "double", "type", "requires_grad_", "detach"):
                return out  # the tensor itself
        node = self.add(name, *inner, out, depends=depends)
        node.where, node.run = _place(), func
        if not isinstance(out, torch.Tensor):
            for i, one in enumerate(made):
                if isinstance(one, torch.Tensor):
                    item = self.add("item", (node, i), {}, one, depends=depends)
                    item.where = node.where
        return out

    def _keep(self, changed: Any) -> None:
        """The values that a call is about to change in place."""
        if not isinstance(changed, torch.Tensor):
            return
        storage = changed.untyped_storage().data_ptr()
        for node in self.nodes:
            value = node.value
            if node.depends and isinstance(value, torch.Tensor):
                if value.untyped_storage().data_ptr() == storage:
                    self.known.setdefault(id(value), node)
                    kept = value
                    node.value = value.clone()
                    self.alive.append(kept)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _nodes(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _nodes(one)


def _replaced(value: Any, of: Callable[[torch.Tensor], Any]) -> Any:
    """The same tree with `of` of each tensor in its place."""
    if isinstance(value, torch.Tensor):
        return of(value)
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replaced(one, of) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(one, of) for one in value)
    if isinstance(value, dict):
        return {key: _replaced(one, of) for key, one in value.items()}
    return value


def _place() -> str:
    """file:line of the owner's code that makes a call, or of PyTorch's where there is none."""
    frame = sys._getframe(2)
    first = ""
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_OWN, "<")):
            where = f"{printable(Path(path).name)}:{frame.f_lineno}"
            if not path.startswith(_TORCH):
                return where
            first = first or where
        frame = frame.f_back  # type: ignore[assignment]
    return first


def traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: list[torch.Tensor],
) -> Traced:
    """The calls of a module for one input. inputs: the tensors of it that are data, and no mask."""
    tracer = _Tracer()
    begins = [tracer.add("input", (), {}, one, depends=True) for one in inputs]
    refs = Refs(module)
    with torch.no_grad(), tracer:
        out = module(*args, **kwargs)
    given = dict(out) if isinstance(out, dict) else out
    if hasattr(out, "__dataclass_fields__") and not isinstance(out, dict):
        given = {name: getattr(out, name) for name in out.__dataclass_fields__}
    return Traced(
        tracer.nodes, begins, _replaced(given, tracer.node), refs, list(_pads(tracer.nodes))
    )


def _pads(nodes: list[Node]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if node.op in ("__eq__", "__ne__", "eq", "ne") and node.depends:
            number = node.args[1] if len(node.args) > 1 else None
            given = node.args[0]
            whole = isinstance(given, Node) and not given.value.is_floating_point()
            if whole and type(number) is int:
                yield node.where, number


def again(trace: Traced, first: Node, value: torch.Tensor, last: Node) -> torch.Tensor:
    """The value of a call where an earlier one had another value."""
    made: dict[int, Any] = {first.index: value}
    for node in trace.nodes[first.index + 1 : last.index + 1]:
        if not any(one.index in made for one in node.tensors):
            continue

        def of(tree: Any) -> Any:
            if isinstance(tree, Node):
                return made.get(tree.index, tree.value)
            if isinstance(tree, (tuple, list)):
                return type(tree)(of(one) for one in tree)
            if isinstance(tree, dict):
                return {key: of(one) for key, one in tree.items()}
            return tree

        if node.op == "item":
            made[node.index] = made[node.args[0].index][node.args[1]]
        elif node.run is None:
            raise PhasorError(f"{node.where}: {node.op} is not one of the calls that are read")
        else:
            made[node.index] = node.run(*of(node.args), **of(node.kwargs))
    return made[last.index]
