"""A tensor of a checkpoint where it lies, and the tensors of one file by name: what every reader of
this room gives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

import numpy as np

from phasor.errors import PhasorError, printable
from phasor.values import words

# Types of elements: numpy's name, PyTorch's storage, safetensors' name. numpy has no bf16.
_TYPES = [
    line.split()
    for line in """
        <f8   DoubleStorage     F64
        <f4   FloatStorage      F32
        <f2   HalfStorage       F16
        bf16  BFloat16Storage   BF16
        <i8   LongStorage       I64
        <i4   IntStorage        I32
        <i2   ShortStorage      I16
        i1    CharStorage       I8
        u1    ByteStorage       U8
        ?     BoolStorage       BOOL
    """.strip().split("\n")
]
STORAGES = {storage: dtype for dtype, storage, _ in _TYPES}
SAFETENSORS = {name: dtype for dtype, _, name in _TYPES}
_FLOATS = words("<f4 <f8 <f2 bf16")
# Limits of what a file may say, far above what any model of this size does.
MAX_DIMENSIONS, MAX_NUMBER = 8, 1 << 48


Shape = tuple[int, ...]


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
    def last(self) -> int:
        """The place of its last element in the storage."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def load(self) -> np.ndarray:
        """The values: f32, or f64 where the file has f64; integers as they are."""
        raw = "<u2" if self.dtype == "bf16" else self.dtype
        item = np.dtype(raw).itemsize
        flat = np.frombuffer(self.data, dtype=raw, count=self.data.size // item)[self.offset :]
        view = np.lib.stride_tricks.as_strided(
            flat, self.shape, tuple(s * item for s in self.strides), writeable=False
        )
        if self.dtype == "bf16":
            return (view.astype("<u4") << 16).view("<f4")
        return view.astype("<f4") if self.dtype == "<f2" else np.asarray(view, order="C")


class Checkpoint:
    """The tensors of one file by name, in the file's order."""

    def __init__(self, path: Path, tensors: dict[str, Stored]) -> None:
        self.path, self.tensors = path, tensors

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def load(self, name: str) -> np.ndarray:
        stored = self.tensors[name]
        if not stored.is_float:
            raise PhasorError(
                f"{name}: has elements of type {stored.dtype}, expected floating point"
            )
        return stored.load()

    def same(self, a: str | None, b: str | None) -> bool:
        """Whether both are there and have the same values."""
        return (
            a in self
            and b in self
            and (a == b or self.shape(a) == self.shape(b))
            and np.array_equal(self.load(a), self.load(b))
        )

    def renamed(self, rules: dict[str, str]) -> "Checkpoint":
        """The same tensors; a name that begins with a rule's text has it replaced (the first rule
        that fits)."""
        out = {}
        for name, stored in self.tensors.items():
            new = next(
                (to + name[len(start) :] for start, to in rules.items() if name.startswith(start)),
                name,
            )
            if new in out:
                raise PhasorError(f"{self.path}: two tensors are called {new} after renaming")
            out[new] = stored
        return Checkpoint(self.path, out)


def item_bytes(dtype: str) -> int:
    """Of one element."""
    return 2 if dtype == "bf16" else np.dtype(dtype).itemsize


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
            raise PhasorError(
                f"{where}{printable(name)}: begins at {begin}, in {printable(last)}, which ends at "
                f"{reached}"
            )
        reached, last = max(reached, end), name
