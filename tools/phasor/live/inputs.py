"""What a module is given: the example, inputs drawn like it, and what it gives for them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from phasor.errors import PhasorError

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_FEWEST = 3  # positions of an example


@dataclass
class Given:
    """The arguments of a module, and which of them are data: ids or vectors, and the target's."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    data: list[tuple[int | str, Tensor]]  # by place or name

    def with_data(self, values: list[Tensor], dtype: torch.dtype) -> Given:
        """The same with other data, floats in this type. What has a row for each sequence, such as
        a mask of padding, has the example's rows again for those of the data."""
        args, kwargs = list(self.args), dict(self.kwargs)
        kept = _Rows([t for _, t in self.data], values)
        data = []
        for (key, _), value in zip(self.data, values):
            value = value.to(dtype) if value.is_floating_point() else value
            data.append((key, value))
            if isinstance(key, int):
                args[key] = value
            else:
                kwargs[key] = value
        given = {key for key, _ in data}

        def other(key: int | str, one: Any) -> Any:
            if not isinstance(one, Tensor):
                return one
            one = one if key in given else kept.of(one)
            return one.to(dtype) if one.is_floating_point() else one

        args = [other(key, one) for key, one in enumerate(args)]
        kwargs = {key: other(key, one) for key, one in kwargs.items()}
        return Given(tuple(args), kwargs, data)

    def stretched(self, length: int, axis: int) -> Given:
        """The same with data of this length, repeated on this axis; every axis of a tensor that is
        as long as the data becomes longer with it."""
        sizes = {t.shape[axis] for _, t in self.data}
        keys = {key: axis for key, _ in self.data}

        def longer(key: int | str, one: Any) -> Any:
            if not isinstance(one, Tensor):
                return one
            for at in [keys[key]] if key in keys else range(one.dim()):
                if one.shape[at] in sizes:
                    one = one.index_select(at, torch.arange(length) % one.shape[at])
            return one

        args = tuple(longer(key, one) for key, one in enumerate(self.args))
        kwargs = {key: longer(key, one) for key, one in self.kwargs.items()}
        made = [(key, args[key] if isinstance(key, int) else kwargs[key]) for key, _ in self.data]
        return Given(args, kwargs, made)


class _Rows:
    """How many sequences the example has, and the data in its place. Where a length is that many
    too, no tensor says which it is of: it stays."""

    def __init__(self, old: list[Tensor], new: list[Tensor]) -> None:
        axes = [i for i in (0, 1) if old and old[0].shape[i] != new[0].shape[i]]
        axis = axes[0] if len(axes) == 1 else None
        lengths = {t.shape[1 - axis] for t in old} if axis is not None else set()
        self.old = self.new = 0
        if axis is not None and old[0].shape[axis] not in lengths:
            self.old, self.new = old[0].shape[axis], new[0].shape[axis]

    def of(self, one: Tensor) -> Tensor:
        if not self.old or one.dim() < 2 or one.shape[0] != self.old:
            return one
        return one[torch.arange(self.new) % self.old]


def given(example: Any) -> Given:
    """The arguments that an example stands for: a tensor, a tuple of arguments, or a dict of those
    with names."""
    if example is None:
        raise PhasorError(
            "example=: missing: what the module is called with, such as ids of shape (B, T)"
        )
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, dict):
        kwargs = dict(example)
    elif isinstance(example, (tuple, list)):
        args = tuple(example)
    else:
        args = (example,)
    args = tuple(torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args)
    named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    tensors = [(key, t.detach().cpu()) for key, t in named if isinstance(t, Tensor)]
    whole = [(key, t) for key, t in tensors if t.dtype in (torch.int64, torch.int32)]
    data: list[tuple[int | str, Tensor]] = [(key, t.long()) for key, t in whole if t.dim() == 2]
    if not whole:
        data = [(key, t) for key, t in tensors if t.dtype in _FLOATS and t.dim() == 3][:1]
    if not data or len(data) > 2:
        shapes = ", ".join(str(tuple(t.shape)) for _, t in tensors) or "no tensor"
        raise PhasorError(
            f"example=: has {shapes}: expected ids of shape (B, T), ids of a source and of a"
            " target, or vectors of shape (B, T, E)"
        )
    for _, one in data:
        if min(one.shape[:2]) < 1 or max(one.shape[:2]) < _FEWEST:
            raise PhasorError(
                f"example=: has shape {tuple(one.shape)}: expected at least {_FEWEST} positions"
            )
    return Given(args, kwargs, data)


def apart(data: list[Tensor], axis: int) -> list[Tensor]:
    """The example with a batch, on this axis, that no length equals, so that they can be told
    apart."""
    lengths = {t.shape[1 - axis] for t in data}
    batch = next(n for n in (2, 3, 4, 5) if n not in lengths)
    rows = [t.transpose(0, axis) for t in data]
    rows = [t.repeat(batch, *[1] * (t.dim() - 1))[:batch] for t in rows]
    return [t.transpose(0, axis).contiguous() for t in rows]


def drawn(
    data: list[Tensor], sizes: list[int], rows: int, seed: int, avoided: int | None
) -> list[Tensor]:
    """Data of the same lengths: any ids but the one that pads, numbers like the example's."""
    rng = torch.Generator().manual_seed(seed)
    out = []
    for one, size in zip(data, sizes):
        shape = (rows, *one.shape[1:])
        if one.is_floating_point():
            values = torch.randn(shape, generator=rng) * one.float().std() + one.float().mean()
            out.append(values.float())
            continue
        ids = torch.randint(0, size, shape, generator=rng)
        if avoided is not None and size > 1:
            ids = torch.where(ids == avoided, (ids + 1) % size, ids)
        out.append(ids)
    return out


@dataclass
class Twin:
    """A copy of the module that is run, in evaluation mode: in float64 where that works."""

    module: nn.Module
    dtype: torch.dtype
    why: str = ""  # it is not float64


def twin(module: nn.Module, example: Given) -> Twin:
    """The owner's module stays as it is. PhasorError where it cannot be run on the example."""
    inner = opened(module)
    try:
        made = copy.deepcopy(inner).cpu().eval()
    except Exception as error:
        raise PhasorError(f"{type(inner).__name__}: cannot be copied: {line_of(error)}") from error
    for one in made.modules():  # hooks are the owner's business
        one._forward_hooks.clear()
        one._forward_pre_hooks.clear()
    values = [t.float() if t.is_floating_point() else t for _, t in example.data]
    try:
        wide = copy.deepcopy(made).double()
        call(wide, example.with_data(values, torch.float64))
        return Twin(wide, torch.float64)
    except MemoryError:
        why = "it does not fit in memory"
    except PhasorError:
        raise
    except Exception as error:
        why = line_of(error)
    made = made.float()
    try:
        call(made, example.with_data(values, torch.float32))
    except Exception as error:
        raise PhasorError(
            f"{type(inner).__name__}: fails on the example: {line_of(error)}"
        ) from error
    return Twin(made, torch.float32, why)


def computed(module: nn.Module) -> bool:
    """Whether a weight of it is made of others, such as by torch.nn.utils.parametrizations."""
    return any(parametrize.is_parametrized(one) for one in module.modules())


def hooked(module: nn.Module) -> tuple[str, ...]:
    """What a description says of hooks, which are their owner's: a twin has none."""
    if not any(one._forward_hooks or one._forward_pre_hooks for one in module.modules()):
        return ()
    return ("# Hooks are left out: the file is what the module computes without them.",)


def unwrapped(module: Any) -> Any:
    """Without what wraps it."""
    for _ in range(4):
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = module.module
        if not isinstance(inner, nn.Module):
            break
        module = inner
    return module


def opened(module: nn.Module) -> nn.Module:
    """Without what wraps it. Weights that are computed are values, in a copy."""
    if isinstance(module, torch.jit.ScriptModule):
        raise PhasorError("a ScriptModule has no calls to read. TRY: the module it was made of")
    module = unwrapped(module)
    check_whole(module)
    if not computed(module):
        return module
    module = copy.deepcopy(module).eval()
    for one in module.modules():
        if parametrize.is_parametrized(one):
            for name in list(one.parametrizations):
                parametrize.remove_parametrizations(one, name)
    return module


def check_whole(module: nn.Module) -> None:
    """PhasorError where its weights are not all that it multiplies by."""
    if any(type(one).__module__.startswith("peft.") for one in module.modules()):
        raise PhasorError(
            f"{type(module).__name__}: has an adapter of PEFT beside its weights. TRY: the model"
            " that merge_and_unload() gives, or save both and convert with --lora"
        )
    for one in module.modules():
        for hook in one._forward_pre_hooks.values():
            if type(hook).__name__ in ("WeightNorm", "SpectralNorm"):
                kind = "weight_norm" if type(hook).__name__ == "WeightNorm" else "spectral_norm"
                raise PhasorError(
                    f"{type(one).__name__}: its {hook.name} is computed by {kind} before each call."
                    f" TRY: torch.nn.utils.remove_{kind}"
                )


def line_of(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:200]


def call(module: nn.Module, what: Given) -> Any:
    with torch.no_grad():
        return module(*what.args, **what.kwargs)


def tensors(value: Any) -> Iterator[Tensor]:
    """The floating tensors of a module's output, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.dim() >= 2:
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors(one)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors(getattr(value, name))


def output_of(value: Any) -> Tensor:
    """The one output that is proved."""
    found = list(tensors(value))
    if len(found) != 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in found) or "none"
        raise PhasorError(
            f"the module gives {len(found)} floating tensors ({shapes}), expected 1. TRY: a module"
            " around it that gives the one that the file is to give"
        )
    return found[0]
