"""model.bin of CTranslate2, binary versions 2 to 6: named variables, each with its shape, type and
bytes, then names that stand for others. Every count and size is compared with the file's bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import Shape, Stored, check_view, contiguous
from phasor.errors import Damaged, PhasorError, named, printable
from phasor.files import has_file, map_bytes, open_regular

VERSIONS = range(2, 7)
SPECS = (
    *("TransformerBase", "TransformerBig", "TransformerSpec", "TransformerDecoderSpec"),
    *("TransformerEncoderSpec", "WhisperSpec", "Wav2Vec2Spec", "Wav2Vec2BertSpec"),
)
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "bf16")  # from version 4 on
_BY_SIZE = {4: "<f4", 2: "<i2", 1: "i1"}  # before, by the bytes of an element
_MOST, _LONGEST, _START = 1 << 16, 1024, 8 + 64


class Variables(NamedTuple):
    """A file, read. tensors by name, those of no dimension too, and those of aliases, of which it
    also has the names that they stand for."""

    spec: str
    version: int
    tensors: dict[str, Stored]
    aliases: dict[str, str]


def is_model(path: Path) -> bool:
    """Whether a file begins as one: a version, and the length and name of a known model."""
    if not has_file(path):
        return False
    with open_regular(path) as file:
        start = file.read(_START)
    if len(start) < 7 or struct.unpack_from("<I", start)[0] not in VERSIONS:
        return False
    size = struct.unpack_from("<H", start, 4)[0]
    return start[6 : 6 + size].rstrip(b"\0").decode("ascii", "replace") in SPECS


class _Reader:
    """A position in the file's bytes that never passes their end."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.at = data, 0

    def take(self, size: int, what: str) -> np.ndarray:
        if size > self.data.size - self.at:
            raise Damaged(f"{what}: the file ends in it: it is cut off")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str, what: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code), what).tobytes())[0]

    def count(self, what: str) -> int:
        count = self.number("<I", f"the number of {what}")
        if count > _MOST:
            raise PhasorError(f"{count} {what}, expected at most {_MOST}")
        result: int = count
        return result

    def text(self, what: str) -> str:
        size = self.number("<H", what)
        if not 1 <= size <= _LONGEST:
            raise PhasorError(f"{what}: a name of {size} bytes, expected 1 to {_LONGEST}")
        raw = self.take(size, what).tobytes()
        if raw[-1] != 0 or not (name := raw[:-1].decode("ascii", "replace")).isprintable():
            raise Damaged(f"{what}: is no name: {printable(raw[:40].decode('latin-1'))}")
        return name


def _shape(reader: _Reader, name: str) -> Shape:
    rank = reader.number("<B", name)
    if rank > 8:
        raise PhasorError(f"{name}: {rank} dimensions, expected at most 8")
    return tuple(reader.number("<I", name) for _ in range(rank))


def _variable(reader: _Reader, name: str, version: int) -> Stored:
    shape = _shape(reader, name)
    kind = reader.number("<B", name)
    if version >= 4:
        if kind >= len(_TYPES):
            raise PhasorError(f"{name}: elements of type {kind}, expected 0 to {len(_TYPES) - 1}")
        dtype, size = _TYPES[kind], reader.number("<I", name)
    else:
        if kind not in _BY_SIZE:
            raise PhasorError(f"{name}: elements of {kind} bytes, expected 1, 2 or 4")
        dtype, size = _BY_SIZE[kind], kind * reader.number("<I", name)
    try:
        wanted = check_view(dtype, shape)
    except PhasorError as error:
        raise PhasorError(f"{name}: {error}") from error
    if size != wanted:
        raise Damaged(f"{name}: has {size} bytes, shape {shape} of {dtype} has {wanted}")
    return Stored(reader.take(size, name), dtype, shape, contiguous(shape), 0)


def read(path: Path) -> Variables:
    """The variables of a file. PhasorError names the file and the variable."""
    try:
        return _read(_Reader(map_bytes(path)))
    except PhasorError as error:
        raise named(path, error) from error


def _read(reader: _Reader) -> Variables:
    version = reader.number("<I", "the version")
    if version not in VERSIONS:
        raise PhasorError(
            f"binary version {version} of CTranslate2 is not supported, expected {VERSIONS[0]} to"
            f" {VERSIONS[-1]}"
        )
    spec = reader.text("the name of the model")
    reader.number("<I", "the revision")
    tensors: dict[str, Stored] = {}
    aliases: dict[str, str] = {}
    for i in range(reader.count("variables")):
        name = reader.text(f"the name of variable {i}")
        if name in tensors:
            raise Damaged(f"{name}: is there twice")
        tensors[name] = _variable(reader, name, version)
    if version >= 3:
        for i in range(reader.count("names of others")):
            name, other = (reader.text(f"the alias {i}") for _ in range(2))
            if name in tensors or other not in tensors:
                raise PhasorError(f"{name}: stands for {other}, which cannot be")
            tensors[name], aliases[name] = tensors[other], other
    if reader.at != reader.data.size:
        raise Damaged(f"{reader.data.size - reader.at} bytes follow the last variable")
    return Variables(spec, version, tensors, aliases)


def scalar(stored: Stored) -> float:
    """The one value of a variable."""
    if math.prod(stored.shape) != 1:
        raise PhasorError(f"has shape {stored.shape}, expected one number")
    return float(stored.load().reshape(-1)[0])
