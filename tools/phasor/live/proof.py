"""What was read of a module against the module: its outputs for the example and for drawn inputs
are what the description must give, and become the file's test vectors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from phasor import expect
from phasor import vectors as V
from phasor.checkpoints.tensors import TORCH, Checkpoint, Stored, contiguous
from phasor.drafts.draft import Draft
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.format import descriptor as D
from phasor.format.meta import as_stored
from phasor.live.inputs import Given, Twin, call, drawn, line_of, output_of
from phasor.live.stream import Read
from phasor.live.trace import Node
from phasor.reference.forward import Reference
from phasor.runs import run_all
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description

AGREES = 1e-5  # of a row's range
_AGREES_FAR = 1e-4  # the same far behind the example, where a module may turn by float32 angles
_FAR, _SCORES, _WORK = 2048, 1 << 23, 1 << 36  # positions; scores, and products of weights, at most
_EXAMPLES, _DRAWN = 4, 4  # rows of the file's test vectors
_FEWEST = 2  # positions of a drawn input


class Layout(NamedTuple):
    """How a module has its rows: positions before the batch, and only the last position's output
    for a sequence."""

    first: bool
    last_only: bool
    sizes: list[int]  # ids of each side's vocabulary; 0: vectors


class Batch(NamedTuple):
    data: list[Tensor]  # (B, T) or (B, T, E)
    output: np.ndarray  # (B, T, W) or (B, W)


def stored(values: np.ndarray) -> Stored:
    data = np.ascontiguousarray(values)
    kind = "<i8" if data.dtype.kind == "i" else "<f8"
    data = data.astype(kind)
    return Stored(data.reshape(-1).view("u1"), kind, data.shape, contiguous(data.shape), 0)


def checkpoint_of(tensors: dict[str, Any], path: Path) -> Checkpoint:
    """The tensors of a state_dict as those of a file."""
    out = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            continue
        kind = TORCH.get(str(tensor.dtype).removeprefix("torch."))
        if kind is None:
            raise PhasorError(f"{name}: elements of type {tensor.dtype} are not supported")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
        shape = tuple(tensor.shape)
        out[name] = Stored(data, kind, shape, contiguous(shape), 0)
    return Checkpoint(path, out)


class Proof:
    def __init__(self, own: Twin, what: Given, layout: Layout, avoided: int | None) -> None:
        self.own, self.what, self.layout, self.avoided = own, what, layout, avoided

    def batches(self, seed: int) -> list[Batch]:
        """The first is the file's: the example's rows and drawn ones; the others are of other
        lengths, where the module takes them."""
        data = [t.float() if t.is_floating_point() else t for _, t in self.what.data]
        rows = [t.transpose(0, 1) if self.layout.first else t for t in data]
        rows = [t[:_EXAMPLES] for t in rows]
        more = drawn(rows, self.layout.sizes, _DRAWN, seed, self.avoided)
        joined = [torch.cat(pair) for pair in zip(rows, more)]
        try:
            out = [self._batch(joined)]
        except PhasorError:
            raise
        except Exception as error:
            raise PhasorError(
                f"the module fails on {len(joined[0])} sequences, the example's and drawn ones:"
                f" {line_of(error)}"
            ) from error
        others = len(self.what.args) + len(self.what.kwargs) > len(self.what.data)
        for divisor in () if others else (2, 3):
            short = [t[:, : max(_FEWEST, t.shape[1] // divisor)] for t in rows]
            given = drawn(short, self.layout.sizes, 2, seed + divisor, self.avoided)
            try:
                out.append(self._batch(given))
            except PhasorError:
                raise
            except Exception:  # of one length only
                break
        return out

    def far(self, seed: int, most: int) -> Batch | None:
        """A drawn sequence of many more positions than the example's, at most this many: as many as
        the module takes, and None where it takes no more. The output may have the last row only."""
        if len(self.what.args) + len(self.what.kwargs) > len(self.what.data):
            return None  # such as a mask that is given, which no length says
        rows = [t.float().transpose(0, 1) if self.layout.first else t for _, t in self.what.data]
        longest = max(t.shape[1] for t in rows)
        while most > longest:
            long = [t[:, torch.arange(most) % t.shape[1]] for t in rows]
            given = drawn(long, self.layout.sizes, 1, seed, self.avoided)
            try:
                return Batch(given, self._run(given))
            except PhasorError:
                raise
            except Exception:  # a length that the module does not take
                most //= 2
        return None

    def _batch(self, data: list[Tensor]) -> Batch:
        if not self.layout.last_only:
            return Batch(data, self._run(data))
        length = data[-1].shape[1]
        outs = [self._run([*data[:-1], data[-1][:, : t + 1]]) for t in range(length)]
        return Batch(data, np.stack([one.reshape(len(one), -1) for one in outs], 1))

    def _run(self, data: list[Tensor]) -> np.ndarray:
        turned = [t.transpose(0, 1) if self.layout.first else t for t in data]
        out = output_of(call(self.own.module, self.what.with_data(turned, self.own.dtype)))
        values: np.ndarray = out.detach().double().numpy()
        if self.layout.first and values.ndim == 3:
            values = values.swapaxes(0, 1)
        if not np.isfinite(values).all():
            raise PhasorError("the module's output has values that are not finite")
        return values


def arrays_of(batch: Batch, names: list[str]) -> dict[str, np.ndarray]:
    arrays = {name: t.numpy() for name, t in zip(names, batch.data)}
    return {**arrays, "output": batch.output}


def model_of(checkpoint: Checkpoint, draft: Draft, path: Path) -> Model:
    source = Checkpoint(checkpoint.path, checkpoint.tensors)
    model = state_dict.read(source, parse_description(draft.content(), path))
    if problems := model.problems():
        raise PhasorError(problems[0])
    return model


def agrees_far(proof: Proof, model: Model, names: list[str], path: Path, seed: int) -> int:
    """The positions up to which the module gives what was read of it. PhasorError where it gives
    something else behind the example: by a window that is longer, or angles that change with the
    length."""
    layout, d = proof.layout, model.descriptor
    example = max(int(t.shape[1 - layout.first]) for _, t in proof.what.data)
    side, stacks = d.get("source", {}), [name for name in ("encoder", "decoder") if name in d]
    around = side["prefix"] + side["suffix"] if side.get("vectors") else model.inside
    longest = [D.longest(d, name) for name in stacks]
    limits = [n - len(around) for n in longest if n]
    heads = max(kind["heads"] for kind in d["kinds"])
    layers = sum(len(d[name]["layers"]) // 2 for name in stacks)
    weights = sum(one.numel() for one in proof.own.module.parameters())
    most: int = min(
        *limits, _FAR, math.isqrt(_SCORES // (heads * layers)), _WORK // max(weights, 1)
    )
    batch = proof.far(seed, most)
    if batch is None:
        return example
    length, output, rows = int(batch.data[-1].shape[1]), batch.output, slice(None)
    if layout.last_only:
        output, rows = np.zeros((1, length, output.size)), slice(-1, None)
        output[0, -1] = batch.output.reshape(-1)
    gap = gap_of(model, arrays_of(batch._replace(output=output), names), path, rows)
    if gap > _AGREES_FAR:
        raise PhasorError(
            f"example=: has {example} positions; for {length} the module gives something else than"
            f" what was read of it, {gap:.3g} of a row's range: a window, or positions that change"
            " with the length. TRY: a longer example, in which it shows"
        )
    return length


def gap_of(
    model: Model, arrays: dict[str, np.ndarray], path: Path, rows: slice = slice(None)
) -> float:
    """How far the description is from the module, of a row's range."""
    given = Checkpoint(path, {name: stored(one) for name, one in arrays.items()})
    expect.put_vectors(given, model)
    file = V.ExactWeights(as_stored(model.descriptor), model.weights)
    expected = expect.read(given, model.descriptor, model.inside)
    (runs,) = run_all(file, [one.given for one in expected], (np.float64,))
    gaps = [expect.gaps(one, ran)[rows].max() for one, ran in zip(expected, runs)]
    return float(np.nan_to_num(max(gaps), nan=np.inf))


class Parted(NamedTuple):
    where: str
    theirs: float
    ours: float


def parted(
    model: Model,
    read: Read,
    arrays: dict[str, np.ndarray],
    path: Path,
    sizes: list[tuple[int, int]],
) -> Parted | None:
    """The first sub-layer at which the module and the reference part, for the traced input."""
    given = Checkpoint(path, {name: stored(one) for name, one in arrays.items()})
    expect.put_vectors(given, model)
    file = V.ExactWeights(as_stored(model.descriptor), model.weights)
    expected = expect.read(given, model.descriptor, model.inside)
    seen: list[tuple[str, np.ndarray]] = []

    class Watching(Reference):
        def self_attention(self, *args: Any, **more: Any) -> Any:
            return self._saw("self-attention", super().self_attention(*args, **more))

        def cross_attention(self, *args: Any, **more: Any) -> Any:
            return self._saw("cross-attention", super().cross_attention(*args, **more))

        def feed_forward(self, *args: Any, **more: Any) -> Any:
            return self._saw("feed-forward", super().feed_forward(*args, **more))

        def embed(self, *args: Any, **more: Any) -> Any:
            return self._saw("embedding", super().embed(*args, **more))

        def _saw(self, what: str, value: Any) -> Any:
            seen.append((what, value))
            return value

    run_all(file, [expected[0].given], (np.float64,), kind=Watching)
    at = 0
    for name, stack in read.stacks.items():
        length, batch = sizes[min(len(sizes) - 1, list(read.stacks).index(name))]
        theirs = [("the embedding", stack.embedded.node)]
        for i, layer in enumerate(stack.layers):
            theirs += [(f"layer {i}", sub.out.node) for sub in layer]
        for where, node in theirs:
            if at >= len(seen):
                return None
            what, ours = seen[at]
            at += 1
            found = _parts(node, ours, batch)
            if found is not None:
                text = f"{name}, {where}" + f", {what}" * (what != "embedding")
                place = f" ({node.where})" if node.where else ""
                return Parted(text + place, *found)
    return None


def _parts(node: Node, ours: np.ndarray, batch: int) -> tuple[float, float] | None:
    """(the module's value, ours) where they differ most; None where they do not."""
    value = node.value.detach().double().numpy()
    length, width = ours.shape
    forms = []
    if value.size == batch * length * width:
        forms = [
            value.reshape(batch, length, width)[0],
            value.reshape(length, batch, width)[:, 0],
        ]
    if not forms:
        return float("nan"), float(ours.flat[0])
    theirs = min(forms, key=lambda one: float(np.abs(one - ours).max()))
    gap = np.abs(theirs - ours)
    if gap.max() <= 1e-4 * max(float(np.abs(theirs).max()), 1e-30):
        return None
    i = int(gap.argmax())
    return float(theirs.flat[i]), float(ours.flat[i])
