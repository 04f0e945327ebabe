"""A tensor of a checkpoint where it lies, and the tensors of one file by name: what every reader of
this room gives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from phasor.errors import Damaged, PhasorError, printable
from phasor.values import words

# Types of elements: numpy's name, PyTorch's storage and type, safetensors' name. numpy has no bf16
# and no float of 8 bits; PyTorch keeps its newer types in storages of bytes.
_TYPES = [
    line.split()
    for line in """
        <f8    DoubleStorage     float64          F64
        <f4    FloatStorage      float32          F32
        <f2    HalfStorage       float16          F16
        bf16   BFloat16Storage   bfloat16         BF16
        <i8    LongStorage       int64            I64
        <i4    IntStorage        int32            I32
        <i2    ShortStorage      int16            I16
        i1     CharStorage       int8             I8
        u1     ByteStorage       uint8            U8
        ?      BoolStorage       bool             BOOL
        <c8    ComplexFloatStorage    complex64   C64
        <c16   ComplexDoubleStorage   complex128  C128
        <u8    -                 uint64           U64
        <u4    -                 uint32           U32
        <u2    -                 uint16           U16
        e4m3   -                 float8_e4m3fn    F8_E4M3
        e5m2   -                 float8_e5m2      F8_E5M2
        e4m3z  -                 float8_e4m3fnuz  F8_E4M3FNUZ
        e5m2z  -                 float8_e5m2fnuz  F8_E5M2FNUZ
    """.strip().split("\n")
]
UNTYPED = "UntypedStorage"  # PyTorch's storage of bytes
STORAGES = {storage: dtype for dtype, storage, _, _ in _TYPES if storage != "-"} | {UNTYPED: "u1"}
TORCH = {name: dtype for dtype, _, name, _ in _TYPES}
SAFETENSORS = {name: dtype for dtype, _, _, name in _TYPES}
_NAMES = {dtype: name for dtype, _, name, _ in _TYPES}
_FLOATS = words("<f4 <f8 <f2 bf16 e4m3 e5m2 e4m3z e5m2z")
# Limits of what a file may say, far above what any model of this size does.
MAX_DIMENSIONS, MAX_NUMBER = 8, 1 << 48


Shape = tuple[int, ...]


def _of_bytes(fraction: int, bias: int, last: str) -> np.ndarray:
    """The 256 values of a float of 8 bits: sign, exponent with its bias, `fraction` bits. last:
    what the largest exponent is, "values" but for all ones, "infinite", or values with the negative
    zero for NaN ("FNUZ"). Micikevicius et al. 2022, FP8 formats for deep learning, table 1."""
    codes = np.arange(256)
    exponent, part = codes >> fraction & (127 >> fraction), codes & ((1 << fraction) - 1)
    out = np.where(
        exponent == 0,
        np.ldexp(part.astype(np.float64), 1 - bias - fraction),
        np.ldexp((part + (1 << fraction)).astype(np.float64), exponent - bias - fraction),
    )
    if last == "infinite":
        highest = exponent == 127 >> fraction
        out[highest] = np.where(part[highest] == 0, np.inf, np.nan)
    elif last == "values":
        out[codes & 127 == 127] = np.nan
    out[codes > 127] *= -1
    if last == "FNUZ":
        out[128] = np.nan
    return out.astype(np.float32)


_BYTES = {
    "e4m3": _of_bytes(3, 7, "values"),
    "e5m2": _of_bytes(2, 15, "infinite"),
    "e4m3z": _of_bytes(3, 8, "FNUZ"),
    "e5m2z": _of_bytes(2, 16, "FNUZ"),
}


def _raw(dtype: str) -> np.dtype:
    """What holds an element: numpy's own type, or a number of its size."""
    return np.dtype("<u2" if dtype == "bf16" else "u1" if dtype in _BYTES else dtype)


class Stored(NamedTuple):
    """A tensor where it lies: raw bytes, element type, shape, and the view in elements."""

    data: np.ndarray  # u8 of the storage
    dtype: str
    shape: Shape
    strides: Shape
    offset: int

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOATS

    @property
    def bytes(self) -> int:
        """Of its values, wherever they lie."""
        return item_bytes(self.dtype) * math.prod(self.shape)

    @property
    def repeats(self) -> bool:
        """Whether it shows parts of its storage several times (an expanded tensor): never loaded,
        because a small file would become a large model."""
        return self.bytes > self.data.size

    @property
    def last(self) -> int:
        """The place of its last element in the storage."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def load(self) -> np.ndarray:
        """The values: f32, or f64 where the file has f64; integers as they are."""
        raw = _raw(self.dtype)
        item = raw.itemsize
        flat = np.frombuffer(self.data, dtype=raw, count=self.data.size // item)[self.offset :]
        view = np.lib.stride_tricks.as_strided(
            flat, self.shape, tuple(s * item for s in self.strides), writeable=False
        )
        if self.dtype == "bf16":
            return (view.astype("<u4") << 16).view("<f4")
        if self.dtype in _BYTES:
            result: np.ndarray = _BYTES[self.dtype][view]
            return result
        return view.astype("<f4") if self.dtype == "<f2" else np.asarray(view, order="C")


def stored(values: np.ndarray) -> Stored:
    """Values that were computed, as a tensor of f32."""
    data = np.ascontiguousarray(values, dtype="<f4")
    return Stored(data.reshape(-1).view("u1"), "<f4", data.shape, contiguous(data.shape), 0)


class Checkpoint:
    """The tensors of one file by name, in the file's order. notes: what of the file was passed
    over. arguments: what it says of its model beside them."""

    def __init__(
        self,
        path: Path,
        tensors: dict[str, Stored],
        notes: Iterable[str] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self.tensors, self.notes = path, tensors, list(notes)
        self.arguments = dict(arguments or {})

    def holding(self, tensors: dict[str, Stored]) -> "Checkpoint":
        """The same file with these tensors."""
        return Checkpoint(self.path, tensors, self.notes, self.arguments)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def load(self, name: str) -> np.ndarray:
        stored = self.tensors[name]
        if not stored.is_float:
            kind = _NAMES.get(stored.dtype, stored.dtype)
            raise PhasorError(f"{name}: has elements of type {kind}, expected floating point")
        if getattr(stored, "repeats", False):
            raise PhasorError(
                f"{name}: is expanded, its storage has fewer values than its shape: save"
                " tensor.contiguous() in its place"
            )
        return stored.load()

    def kept(self, name: str) -> Any:
        """What says which type has this tensor's own grid, and gives it so; None of other
        tensors."""
        stored = self.tensors.get(name)
        return stored if hasattr(stored, "keeps") else None

    def alone(self, *names: str) -> bool:
        """Whether one of these is an adapter's, for one place of the model alone."""
        return any(getattr(self.tensors.get(name), "alone", False) for name in names)

    def parts_tied(self, *names: str) -> PhasorError:
        """The error for an adapter that changes one of these and not the others, which are one."""
        changed = next(name for name in names if self.alone(name))
        others = " and ".join(dict.fromkeys(name for name in names if name != changed))
        also = f", which is {others} too" if others else ", which the output shares"
        return PhasorError(
            f"{self.path}: the adapter changes {changed} in one place{also}: not supported for this"
            " class, and merge_and_unload of PEFT makes another model of it, which changes both."
            f" TRY: an adapter whose target_modules leave {changed} out"
        )

    def same(self, a: str | None, b: str | None) -> bool:
        """Whether both are there and have the same values."""
        return (
            a is not None
            and b is not None
            and a in self
            and b in self
            and (a == b or self.shape(a) == self.shape(b))
            and np.array_equal(self.load(a), self.load(b))
        )

    def renamed(self, rules: dict[str, str]) -> "Checkpoint":
        """The same tensors; a name that begins with a rule's text has it replaced, of a rule with *
        in it the whole name that it fits (the first rule that fits)."""
        out = {}
        for name, stored in self.tensors.items():
            made = (_renamed(name, old, new) for old, new in rules.items())
            new = next((one for one in made if one is not None), name)
            if new in out:
                raise PhasorError(f"{self.path}: two tensors are called {new} after renaming")
            out[new] = stored
        return self.holding(out)

    def as_matrices(self) -> "Checkpoint":
        """The same tensors; one of three dimensions of which one is 1 is the matrix that it is: the
        weight of a convolution over one position, (N, K, 1), and learned positions of a batch, (1,
        N, D) or (N, 1, D)."""
        return self.holding({name: _as_matrix(stored) for name, stored in self.tensors.items()})


def _renamed(name: str, old: str, new: str) -> str | None:
    """A name under a rule; None where the rule does not fit. What each * stands for, the shortest
    text from the left, takes the place of a * of the new name."""
    first, *others = old.split("*")
    if not name.startswith(first):
        return None
    if not others:
        return new + name[len(first) :]
    at, found = len(first), []
    for i, text in enumerate(others):
        last = i == len(others) - 1
        place = len(name) - len(text) if last else name.find(text, at)
        if place < at or not name.startswith(text, place):
            return None
        found.append(name[at:place])
        at = place + len(text)
    texts = new.split("*")
    return "".join(text + one for text, one in zip(texts, [*found, ""]))


def _as_matrix(stored: Stored) -> Stored:
    if type(stored) is not Stored or len(stored.shape) != 3 or 1 not in stored.shape:
        return stored
    at = 2 if stored.shape[2] == 1 else stored.shape.index(1)
    keep = [i for i in range(3) if i != at]
    shape, strides = (tuple(v[i] for i in keep) for v in (stored.shape, stored.strides))
    return stored._replace(shape=shape, strides=strides)


def item_bytes(dtype: str) -> int:
    """Of one element."""
    return _raw(dtype).itemsize


def check_view(dtype: str, shape: Shape, numbers: Iterable[Any] = ()) -> int:
    """The bytes of a tensor of this type and shape; PhasorError for numbers that are none of a
    tensor's."""
    if len(shape) > MAX_DIMENSIONS:
        raise PhasorError(f"has {len(shape)} dimensions, expected at most {MAX_DIMENSIONS}")
    if not all(type(n) is int and 0 <= n < MAX_NUMBER for n in (*shape, *numbers)):
        raise PhasorError(
            "has a number in its shape or place that is no whole number below "
            f"2^{MAX_NUMBER.bit_length() - 1}"
        )
    if math.prod(n for n in shape if n) >= MAX_NUMBER:
        raise PhasorError(f"has shape {shape}, which is no tensor's")
    return item_bytes(dtype) * math.prod(shape)


def contiguous(shape: Shape) -> Shape:
    """The strides, in elements, of a tensor without gaps."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def check_apart(places: Iterable[tuple[int, int, str]], where: str = "") -> None:
    """PhasorError where two of (begin, end, name) overlap."""
    reached, last = 0, ""
    for begin, end, name in sorted(places):
        if begin < min(reached, end):
            raise Damaged(
                f"{where}{printable(name)}: begins at {begin}, in {printable(last)}, which ends at "
                f"{reached}"
            )
        reached, last = max(reached, end), name
