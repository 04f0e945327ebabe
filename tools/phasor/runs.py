"""The reference run over several inputs at once: their rows go through the layers together, in one
type or several, so that each tensor of a large model is read once. numpy only."""

from __future__ import annotations

from typing import Any, Callable, Generator, NamedTuple, Sequence

import numpy as np

from phasor.format import descriptor as D
from phasor.format.file import Narrow
from phasor.reference.forward import Reference, Trace

Step = Callable[[], None]


class Input(NamedTuple):
    """What one vector feeds: source ids (empty for a decoder) and the decoder's input (empty for an
    encoder)."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def rows_of(descriptor: dict[str, Any], source: Sequence[int], target: Sequence[int]) -> int:
    """Output rows of a vector: one a target token; of an encoder as its output says."""
    return len(target) or D.output_rows(descriptor, len(source))


class Ran(NamedTuple):
    """What a model computed for an input: the traces of its stacks, and the output rows (R, W)."""

    source: Trace | None
    target: Trace | None
    output: np.ndarray

    @property
    def traces(self) -> tuple[Trace | None, Trace | None]:
        return self.source, self.target


class _Once:
    """A file whose tensors are read once for several runs that go through its layers together."""

    def __init__(self, file: Any) -> None:
        self.descriptor, self.entries, self._file = file.descriptor, file.entries, file
        self._read: dict[int, Narrow] = {}

    def narrow(self, key: int) -> Narrow:
        if key not in self._read:
            self._read[key] = self._file.narrow(key)
        return self._read[key]

    def weights(self, key: int) -> np.ndarray:
        return self.narrow(key).widened()

    def forget(self) -> None:
        self._read.clear()


def passes(model: Reference, inputs: Sequence[Input]) -> Generator[None, None, list[Ran]]:
    """All inputs in one run: each product has the rows of all of them."""
    (sources, source_spans), (targets, target_spans) = (
        _joined([given[side] for given in inputs]) for side in (0, 1)
    )
    source = target = None
    if sources:
        source = yield from model.encoding(sources, spans=source_spans)
    if targets:
        memory = source.output if source else None
        target = yield from model.decoding(targets, memory, spans=target_spans)
    last = source if target is None else target
    assert last is not None  # an input has ids of one side at least
    output = model.output(last)
    rows = [rows_of(model.d, *given) for given in inputs]
    ends = np.cumsum([0, *rows])
    return [
        Ran(
            source and _part(source, source_spans[i]),
            target and _part(target, target_spans[i]),
            output[ends[i] : ends[i + 1]],
        )
        for i in range(len(inputs))
    ]


def _joined(sequences: Sequence[Sequence[int]]) -> tuple[list[int], list[slice]]:
    """The ids one after the other, and where those of each sequence are."""
    ends = np.cumsum([0, *map(len, sequences)]).tolist()
    return [id_ for ids in sequences for id_ in ids], list(map(slice, ends, ends[1:]))


def _part(trace: Trace, span: slice) -> Trace:
    """The rows of one sequence."""
    logits = None if trace.logits is None else trace.logits[span]
    return Trace(
        trace.embedding[span], [x[span] for x in trace.residuals], trace.output[span], logits
    )


def run_all(
    file: Any,
    inputs: Sequence[Input],
    dtypes: Sequence[type],
    step: Step = lambda: None,
    kind: type[Reference] = Reference,
) -> list[list[Ran]]:
    """What the model computes for each input in each type. All types go through the layers
    together, so that each tensor is read, and is in memory, once. step: called after each layer.
    kind: of the model in the last type."""
    once = _Once(file)
    kinds: list[Any] = [*[Reference] * (len(dtypes) - 1), kind]
    models = [made(once, dtype=dtype, shared=True) for made, dtype in zip(kinds, dtypes)]
    runs = [passes(model, inputs) for model in models]
    done: dict[int, list[Ran]] = {}
    while len(done) < len(runs):
        for at, run in enumerate(runs):
            if at not in done:
                try:
                    next(run)
                except StopIteration as end:
                    done[at] = end.value
        for model in models:
            model.forget()
        once.forget()
        step()
    return [done[at] for at in range(len(runs))]


def steps_of(descriptor: dict[str, Any]) -> int:
    """How often run_all calls `step`."""
    stacks = [name for name in ("encoder", "decoder") if name in descriptor]
    return sum(len(descriptor[name]["layers"]) // 2 + 1 for name in stacks) + 1
