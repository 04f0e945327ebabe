"""A live module as a proved weight file: read, described, compared, written."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Sequence

import numpy as np
from torch import Tensor, nn

from phasor import scratch
from phasor.checkpoints.tensors import Checkpoint
from phasor.conversion import convert
from phasor.drafts.draft import Draft
from phasor.drafts.text import text_of
from phasor.errors import PhasorError
from phasor.files import check_output, write_text
from phasor.format import layout as L
from phasor.live.asked import Asked, Exported
from phasor.live.describe import Describing
from phasor.live.inputs import Given, Twin, apart, computed, given, hooked, line_of, opened, twin
from phasor.live.pieces import Pieces
from phasor.live.proof import (
    AGREES,
    Layout,
    Proof,
    agrees_far,
    arrays_of,
    checkpoint_of,
    gap_of,
    model_of,
    parted,
)
from phasor.live.stream import BY_HAND, Read, Reader
from phasor.live.trace import Node, Traced, traced
from phasor.program import find_phasor
from phasor.sources.tokenizer_files import check_count, tokenizer_sections

_SEED = 7
_COMPUTED = ("# Computed weights are taken as their values: convert a state_dict without"
             " parametrizations.",)  # fmt: skip


def exported(module: nn.Module, output: Path, asked: Asked) -> Exported:
    check_output(output, *asked.paths)
    if asked.description is not None:
        check_output(asked.description, output, *asked.paths)
    what = given(asked.example)
    head = (*(_COMPUTED if computed(module) else ()), *hooked(module))
    module = opened(module)
    own = twin(module, what)
    read, first, data = _read(own, what, asked)
    draft = Describing(read, asked.said).made()
    layout = _layout(read, first, len(data))
    inner = checkpoint_of(_state(module), output)
    proof = Proof(own, what, layout, asked.said.pad)
    batches = proof.batches(_SEED)
    names = ["ids" if size else "vectors" for size in layout.sizes]
    names = [names[0], *["target"] * (len(names) - 1)]
    worst = _check(
        inner,
        draft,
        [arrays_of(one, names) for one in batches],
        output,
        read=read,
        data=data,
        names=names,
        layout=layout,
    )
    length = agrees_far(proof, model_of(inner, draft, output), names, output, _SEED)
    text = text_of(draft, "", head=(*_head(module, own, length), *head))
    if not asked.quiet:
        print(text, end="")
    model = model_of(inner, draft, output)
    with scratch.folder() as folder:
        expected = folder / "outputs.npz"
        np.savez(expected, **arrays_of(batches[0], names))  # type: ignore[arg-type]
        sections = _tokenizers(model, asked.tokenizers(folder))
        convert(
            model,
            output,
            L.type_code(asked.type) if asked.type else None,
            sections,
            find_phasor(None),
            quiet=asked.quiet,
            output_kind=L.type_code(asked.output_type) if asked.output_type else None,
            expect=expected,
        )
    if asked.description is not None:
        write_text(asked.description, text)
    count = sum(len(one.output) for one in batches)
    return Exported(output, text, worst, count, str(own.dtype).removeprefix("torch."))


def _state(module: nn.Module) -> dict[str, Any]:
    return dict(module.state_dict())


def _head(module: nn.Module, own: Twin, length: int) -> tuple[str, ...]:
    name = type(module).__name__
    kind = str(own.dtype).removeprefix("torch.")
    why = f" ({own.why})" if own.why else ""
    return (
        f"# Read from the calls of {name} by phasor.export; a comment is the evidence of a line.",
        f"# Proved against its outputs in {kind}{why}, for up to {length} positions.",
    )


def _read(own: Twin, what: Given, asked: Asked) -> tuple[Read, bool, list[Tensor]]:
    """What the calls of the module are, its layout, and the input that they were read with."""
    values = [t.float() if t.is_floating_point() else t for _, t in what.data]
    error: Exception | None = None
    for data in (apart(values, 0), apart(values, 1), values):
        run = what.with_data(data, own.dtype)
        try:
            trace = traced(own.module, run.args, run.kwargs, [t for _, t in run.data])
            break
        except PhasorError:
            raise
        except Exception as failed:  # another batch, or another axis of it, is not for this module
            error = failed
    else:
        raise PhasorError(f"the module fails while its calls are read: {line_of(error)}") from error
    nodes = [n for n in _outputs(trace.output) if n.depends]
    if len(nodes) != 1:
        shapes = ", ".join(str(n.shape) for n in nodes) or "none"
        raise PhasorError(
            f"the module gives {len(nodes)} floating tensors ({shapes}), expected 1. TRY: a module"
            " around it that gives the one that the file is to give"
        )
    pieces = Pieces(trace)
    if trace.pads and asked.said.pad is None:
        where, value = trace.pads[0]
        raise PhasorError(
            f"pad=: missing: the module compares ids with {value} ({where}): say which id pads"
        )
    first = False
    reader = Reader(pieces, data[0].shape[0])
    length = next(iter(reader.attentions.values())).length[0]
    if length == data[0].shape[0] != data[0].shape[1]:
        first = True
        reader = Reader(pieces, data[0].shape[1])
    read = reader.read(nodes[0])

    @lru_cache(maxsize=2)
    def longer(length: int) -> Traced | None:
        whole = run.stretched(length, int(not first))
        try:
            return traced(own.module, whole.args, whole.kwargs, [t for _, t in whole.data])
        except Exception:  # a length that the module does not take
            return None

    read.longer = longer
    return read, first, data


def _layout(read: Read, first: bool, count: int) -> Layout:
    tables = [stack.embedded.table for stack in read.stacks.values()]
    sizes = [0 if table is None else table.shape[0] for table in tables]
    if len(sizes) != count:
        raise PhasorError(
            f"example=: has {count} tensors of ids or vectors, the module's stacks read"
            f" {len(sizes)}"
        )
    return Layout(first, read.last_only, sizes)


def _outputs(value: Any) -> list[Node]:
    if isinstance(value, Node):
        floats = isinstance(value.value, Tensor) and value.value.is_floating_point()
        return [value] if floats and value.value.dim() >= 2 else []
    if isinstance(value, dict):
        return [n for one in value.values() for n in _outputs(one)]
    if isinstance(value, (tuple, list)):
        return [n for one in value for n in _outputs(one)]
    return []


def _check(
    inner: Checkpoint,
    draft: Draft,
    arrays: Sequence[dict[str, np.ndarray]],
    path: Path,
    *,
    read: Read,
    data: list[Tensor],
    names: list[str],
    layout: Layout,
) -> float:
    """The largest gap; PhasorError names the first sub-layer at which module and reference part."""
    model = model_of(inner, draft, path)
    worst = max(gap_of(model, one, path) for one in arrays)
    if worst <= AGREES:
        return worst
    rows = [t.transpose(0, 1) if layout.first else t for t in data]
    sizes = [(t.shape[1], t.shape[0]) for t in rows]
    shown = {name: t.numpy()[:1] for name, t in zip(names, rows)}
    shown["output"] = arrays[0]["output"][:1]
    at = parted(model, read, shown, path, sizes)
    line = f"what was read of the module gives something else, {worst:.3g} of a row's range"
    if at is None:
        line += ": all sub-layers agree, and what is behind them differs"
    else:
        line += (
            f": they part at {at.where}, where the module has {at.theirs:.7g} and the reference"
            f" {at.ours:.7g}"
        )
    raise PhasorError(f"{line}; nothing is written: {BY_HAND}")


def _tokenizers(model: Any, paths: Sequence[Path]) -> dict[int, bytes]:
    sides = [side for side in ("source", "target") if side in model.descriptor]
    check_count(len(sides), paths)
    return tokenizer_sections(model, dict(zip(sides, [*paths, *paths[:1]])) if paths else {})
