"""What the user's own model gives for some inputs, in an .npz: `--expect`. It becomes the file's
test vectors, so that they prove the model, and not its description alone.

    ids      (T) or (B, T) whole numbers, without padding; of an encoder-decoder the source
    vectors  (B, T, E) in place of ids, for a model that reads vectors
    target   the same for an encoder-decoder's other side
    output   (B, T, W), or (B, W) of a pooled vector or classes: what the model gives, also called
             logits, last_hidden_state or pooled
    hidden   optional, (layers + 1, B, T, D): the hidden states, the embedding first

All in float32 or better: outputs of half precision differ by more than rounding explains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor import vectors as V
from phasor.checkpoints import npz
from phasor.checkpoints.tensors import Checkpoint, Stored
from phasor.errors import PhasorError, named, printable
from phasor.families.model import Model
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.runs import Input, Ran, run_all

AUTHOR = "the model's own outputs"
_OUTPUTS = ("output", "logits", "last_hidden_state", "pooled")
_IDS = ("ids", "target")
_MOST = 64  # vectors of a file
_MOST_VALUES = 1 << 27  # of one array


class Expected(NamedTuple):
    """One input and what the model gives for it."""

    given: Input
    output: np.ndarray  # (rows, W) float64
    hidden: np.ndarray | None  # (layers + 1, T, D)


def opened(path: Path, most: int = 0) -> Checkpoint:
    """The arrays of a file, of its first `most` inputs; 0: of all."""
    arrays = npz.read(path)
    rows = [arrays.shape(name) for name in ("ids", "vectors") if name in arrays]
    count = rows[0][0] if rows and len(rows[0]) == (2 if "ids" in arrays else 3) else 0
    if not 0 < most < count:
        return arrays
    tensors = arrays.tensors.items()
    return arrays.holding({n: _first(one, n == "hidden", count, most) for n, one in tensors})


def _first(stored: Stored, axis: int, count: int, most: int) -> Stored:
    """The first inputs of an array that has all of them; another one as it is."""
    shape = stored.shape
    if len(shape) <= axis or shape[axis] != count:
        return stored
    return stored._replace(shape=(*shape[:axis], most, *shape[axis + 1 :]))


def put_vectors(arrays: Checkpoint, model: Model) -> None:
    """The vectors of a file become rows of the embedding of a model that reads vectors, in place of
    those that were there for tests."""
    side = model.descriptor.get("source", {})
    if not side.get("vectors"):
        return
    try:
        vectors = _vectors(arrays, side["vectors"])
    except PhasorError as error:
        raise named(arrays.path, error) from error
    key, around = R.key_of(R.SOURCE, 0, R.EMBEDDING), _around(side)
    kept = model.values[key][:around]
    rows = np.zeros((vectors.shape[0] * vectors.shape[1], kept.shape[1]), np.float32)
    rows[:, : vectors.shape[2]] = vectors.reshape(len(rows), -1)
    model.values[key] = np.concatenate([kept, rows])
    side["vocabulary"] = around + len(rows)


def _around(side: dict[str, Any]) -> int:
    """Rows of the embedding that are no vectors of tests."""
    return len(side["prefix"]) + len(side["suffix"])


def _vectors(arrays: Checkpoint, width: int) -> np.ndarray:
    if "vectors" not in arrays:
        raise PhasorError("vectors: is missing: this model reads vectors")
    values = _floats(arrays, "vectors")
    values = values[None] if values.ndim == 2 else values
    shape = values.shape
    if values.ndim != 3 or shape[2] != width or not 0 < shape[0] <= _MOST or not 0 < shape[1]:
        raise PhasorError(f"vectors: has shape {shape}, expected (1 to {_MOST} rows, T, {width})")
    return values


def read(
    arrays: Checkpoint, descriptor: dict[str, Any], inside: tuple[int, ...] = ()
) -> list[Expected]:
    """The inputs of a file for this model. inside: ids that the model itself puts before them.
    PhasorError names the file and the array."""
    try:
        return _expected(arrays, descriptor, inside)
    except PhasorError as error:
        raise named(arrays.path, error) from error


def _expected(arrays: Checkpoint, d: dict[str, Any], inside: tuple[int, ...]) -> list[Expected]:
    vectors = bool(d.get("source", {}).get("vectors"))
    known = ("vectors" if vectors else "ids", "target", *_OUTPUTS, "hidden")
    for name in arrays:
        if name not in known:
            raise PhasorError(
                f"{printable(name)}: no array is called so; there are {', '.join(known)}"
            )
    both = d["model"]["stack"] == D.ENCODER_DECODER
    sides = ("encoder", "decoder") if both else ("encoder" if "encoder" in d else "decoder",)
    ids = [
        _ids_of_vectors(arrays, d)
        if name == "ids" and vectors
        else _ids(arrays, name, side, d, inside if name == "ids" else ())
        for name, side in zip(_IDS, sides)
    ]
    if not both and "target" in arrays:
        raise PhasorError("target: this model has one side. TRY: the array ids alone")
    if len({len(rows) for rows in ids}) != 1 or not 0 < len(ids[0]) <= _MOST:
        raise PhasorError(f"ids: expected 1 to {_MOST} rows, and as many of target")
    named_so = [name for name in _OUTPUTS if name in arrays]
    if len(named_so) != 1:
        raise PhasorError(f"expected one of {', '.join(_OUTPUTS)}, there are {len(named_so)}")
    count, length = len(ids[0]), len(ids[-1][0])
    rows = length if sides[-1] == "decoder" else D.output_rows(d, length)
    wanted = (count, rows, D.output_width(d))
    output = _floats(arrays, named_so[0])
    if output.size != np.prod(wanted) or output.shape[-1] != wanted[-1]:
        raise PhasorError(
            f"{named_so[0]}: has shape {output.shape}, expected {wanted} for {count} rows of ids"
        )
    output, hidden = output.reshape(wanted), _hidden(arrays, d, sides[-1], (count, length))
    return [
        Expected(
            Input(*((), tuple(ids[0][i])))
            if sides == ("decoder",)
            else Input(tuple(ids[0][i]), tuple(ids[1][i]) if both else ()),
            output[i],
            None if hidden is None else hidden[:, i],
        )
        for i in range(count)
    ]


def _ids_of_vectors(arrays: Checkpoint, d: dict[str, Any]) -> list[list[int]]:
    """The rows that put_vectors has made, with what stands around a sequence."""
    side, (count, length, _) = d["source"], _vectors(arrays, d["source"]["vectors"]).shape
    rows = np.arange(_around(side), _around(side) + count * length).reshape(count, length)
    ids = [[*side["prefix"], *row, *side["suffix"]] for row in rows.tolist()]
    most = D.longest(d, "encoder")
    if most and len(ids[0]) > most:
        raise PhasorError(f"vectors: {len(ids[0])} positions, the model takes {most}")
    return ids


def _ids(
    arrays: Checkpoint, name: str, stack: str, d: dict[str, Any], inside: tuple[int, ...]
) -> list[list[int]]:
    if name not in arrays:
        raise PhasorError(f"{name}: is missing")
    stored, side = arrays.tensors[name], d["source" if stack == "encoder" else "target"]
    shape = stored.shape
    if stored.dtype not in ("<i8", "<i4") or len(shape) not in (1, 2) or 0 in shape:
        raise PhasorError(f"{name}: has {stored.dtype} of shape {shape}, expected rows of int64")
    most = D.longest(d, stack)
    if most and shape[-1] + len(inside) > most or shape[-1] > 1 << 16:
        raise PhasorError(f"{name}: {shape[-1]} ids, the model takes {most or 1 << 16}")
    values = stored.load().reshape(-1, shape[-1])
    bad = values[(values < 0) | (values >= side["vocabulary"])]
    if bad.size:
        raise PhasorError(f"{name}: id {bad[0]}, the vocabulary has {side['vocabulary']}")
    return [[*inside, *row] for row in values.tolist()]


def _floats(arrays: Checkpoint, name: str) -> np.ndarray:
    if np.prod(arrays.shape(name), dtype=float) > _MOST_VALUES:
        raise PhasorError(f"{name}: has more than {_MOST_VALUES:,} values")
    values = arrays.load(name).astype(np.float64)
    if values.ndim < 1 or not np.isfinite(values).all():
        raise PhasorError(f"{name}: a value is not finite")
    return values


def _hidden(
    arrays: Checkpoint, d: dict[str, Any], stack: str, sizes: tuple[int, int]
) -> np.ndarray | None:
    if "hidden" not in arrays:
        return None
    layers, width = len(d[stack]["layers"]) // 2, d[stack]["width"]
    values = _floats(arrays, "hidden")
    if values.shape != (layers + 1, *sizes, width):
        raise PhasorError(
            f"hidden: has shape {values.shape}, expected {(layers + 1, *sizes, width)}"
        )
    return values


def gaps(one: Expected, ran: Ran) -> np.ndarray:
    """How far each row is from the model's own, by the range of that."""
    whole = np.maximum(np.ptp(one.output, axis=1), 1e-30)
    result: np.ndarray = np.abs(ran.output - one.output).max(axis=1) / whole
    return result


def check(file: V.Weights, expected: list[Expected], tolerance: float) -> None:
    """PhasorError where the description gives something else: the first row, and with hidden
    states the first layer."""
    (runs,) = run_all(file, [one.given for one in expected], (np.float64,))
    for number, (one, ran) in enumerate(zip(expected, runs)):
        away = gaps(one, ran)
        if not (away <= tolerance).all():
            row = int(np.argmax(~(away <= tolerance)))
            raise PhasorError(
                f"input {number}, row {row}: the model that was described gives something else: a"
                f" difference of {away[row]:.3g} of the row's range, tolerance {tolerance:.2g}"
                f"{_first_layer(ran, one, tolerance)}"
            )


def _first_layer(ran: Ran, one: Expected, tolerance: float) -> str:
    """Where the hidden states begin to differ. The last ones may have the norm behind them."""
    trace = ran.source if ran.target is None else ran.target
    if one.hidden is None or trace is None:
        return ""
    for layer, (ours, theirs) in enumerate(
        zip((trace.embedding, *trace.residuals[:-1]), one.hidden)
    ):
        if np.abs(ours - theirs).max() > tolerance * max(np.abs(theirs).max(), 1e-30):
            where = f"layer {layer - 1}" if layer else "the embedding"
            return f"; the hidden states differ from {where} on"
    return "; the hidden states differ in the last layer or behind it"
