"""`convert --report`: every tensor of the source, what becomes of it, and what its values are like.

A line a tensor, columns between tabs. Tensors are read one after the other, so that one of them is
in memory at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import SAFETENSORS, Shape
from phasor.errors import printable
from phasor.families.model import Model
from phasor.families.nearest import shape_text
from phasor.files import fits, replacing
from phasor.format import tensors as R

PRINTED = Path("-")  # standard output
COLUMNS = ("tensor", "type", "shape", "mean", "least", "most", "zero rows", "NaN", "inf", "use")
_TYPES = {stored: name for name, stored in SAFETENSORS.items()}
_MOST_USES = 3  # slots that one line names
_AT_ONCE = 1 << 20  # values that are looked at together


class Statistics(NamedTuple):
    """Of one tensor. mean, least and most are those of the values that are finite, NaN where there
    are none; zero_rows of a tensor with two dimensions or more, rows being the first."""

    mean: float
    least: float
    most: float
    zero_rows: int | None
    nan: int
    infinite: int


def statistics(values: np.ndarray) -> Statistics:
    rows = values.reshape(len(values) if values.ndim else 1, -1)
    total, count, nan, infinite, zero_rows = 0.0, 0, 0, 0, 0
    least, most = np.inf, -np.inf
    step = max(1, _AT_ONCE // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        if part.dtype.kind != "f":
            part = part.astype(np.float64)
        good = np.isfinite(part)
        nan += int(np.isnan(part).sum())
        infinite += int(np.isinf(part).sum())
        count += int(good.sum())
        total += float(np.sum(part, where=good, dtype=np.float64))
        least = min(least, float(np.min(part, where=good, initial=np.inf)))
        most = max(most, float(np.max(part, where=good, initial=-np.inf)))
        zero_rows += int((~part.any(axis=1)).sum())
    if not count:
        total = least = most = np.nan
    return Statistics(
        total / max(count, 1),
        least,
        most,
        zero_rows if values.ndim > 1 else None,
        nan,
        infinite,
    )


def lines(model: Model) -> Iterator[str]:
    """The report: the tensors of the source in its order, then what the converter puts beside
    them."""
    checkpoint = model.checkpoint
    uses = _uses(model)
    yield f"{printable(str(checkpoint.path), 1000)}: {len(checkpoint.tensors)} tensors"
    yield "\t".join(COLUMNS)
    for name, stored in checkpoint.tensors.items():
        values = None if getattr(stored, "repeats", False) else stored.load()
        kind = _TYPES.get(getattr(stored, "dtype", ""))
        kind = kind or str(getattr(getattr(stored, "type", None), "name", "F32"))
        use = uses.get(name) or _left_out(model, name)
        yield _line(name, kind, stored.shape, values, use)
    for slot in R.slots(model.descriptor):
        if slot.key in model.values:
            yield _line(
                "",
                "",
                model.values[slot.key].shape,
                model.values[slot.key],
                f"{slot.name}: computed, or taken out of a whole file",
            )
    for name in uses:
        if name not in checkpoint and name not in model.used:
            yield "\t".join((printable(name, 1000), *"-" * 8, f"MISSING for {uses[name]}"))


def _uses(model: Model) -> dict[str, str]:
    """What the tensors become, by their names."""
    slots: dict[str, list[str]] = {}
    for slot in R.slots(model.descriptor):
        for part in model.parts.get(slot.key, ()):
            if part.name is not None and slot.name not in slots.setdefault(part.name, []):
                slots[part.name].append(slot.name)
    out = {}
    for name, places in slots.items():
        more = len(places) - _MOST_USES
        out[name] = ", ".join(places[:_MOST_USES]) + (f" and {more} more" if more > 0 else "")
    for name, why in model.used.items():
        out[name] = f"{out[name]}; {why}" if name in out else f"left out: {why}"
    return out


def _left_out(model: Model, name: str) -> str:
    """Why a tensor is no part of the model; an error of the conversion where no reason is known."""
    why = next((why for pattern, why in model.ignore.items() if fits(pattern, name)), None)
    return "NO USE in this model" if why is None else f"left out: {why}"


def _line(name: str, kind: str, shape: Shape, values: np.ndarray | None, use: str) -> str:
    """values: None of an expanded tensor, which is not read; of complex numbers both parts."""
    numbers: Iterable[str] = "-" * 3
    counts: Iterable[str] = "-" * 3
    if values is not None:
        parts = np.ascontiguousarray(values)
        s = statistics(parts.view(parts.real.dtype) if parts.dtype.kind == "c" else values)
        numbers = (f"{x:.6g}" for x in (s.mean, s.least, s.most))
        counts = ("-" if n is None else str(n) for n in (s.zero_rows, s.nan, s.infinite))
    return "\t".join(
        (
            printable(name, 1000) or "-",
            kind or "-",
            shape_text(shape).replace(" ", ""),
            *numbers,
            *counts,
            printable(use, 1000),
        )
    )


def write(model: Model, path: Path | None) -> None:
    """The lines, on standard output or into a file."""
    if path is None:
        return
    if path == PRINTED:
        for line in lines(model):
            print(line)
        return
    with replacing(path) as file:
        for line in lines(model):
            file.write(f"{line}\n".encode("utf-8"))
