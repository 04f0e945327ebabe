"""Arrays of NumPy in a pickle: as joblib writes them, their bytes behind the object, or as NumPy's
own pickle has them. Nothing of joblib, NumPy's pickle or scikit-learn is called."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, BinaryIO, Sequence

import numpy as np

from phasor.checkpoints.pickles import Inert, no_storage, unpickle
from phasor.checkpoints.tensors import MAX_DIMENSIONS
from phasor.errors import Damaged, PhasorError, named, printable
from phasor.files import read_bytes
from phasor.values import is_whole

_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"
_OWN = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
_MOST_BYTES = 1 << 28  # of a file
_MOST_LETTERS = 1 << 12  # of a text of an array
# How the compressed files of joblib begin.
_COMPRESSED = (b"\x1f\x8b", b"\x78", b"BZh", b"\xfd7zXZ", b"\x5d\x00", b"ZF", b"\x04\x22M\x18")


def read(path: Path) -> Any:
    """The value of a file of joblib.dump or pickle.dump, of containers, numbers, texts, arrays and
    inert objects."""
    data = read_bytes(path, _MOST_BYTES)
    if data.startswith(_COMPRESSED):
        raise PhasorError(f"{path}: is compressed: joblib.dump(value, FILE) writes it plainly")
    try:
        return unpickle(io.BytesIO(data), no_storage, "the pickle", {_WRAPPER: _behind})
    except PhasorError as error:
        raise named(path, error) from error


def array(value: Any) -> np.ndarray | None:
    """The array that a value of the file is, or None."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Inert) or value.name not in _OWN:
        return None
    state = value.parts[-1]
    if type(state) is not tuple or len(state) != 5:
        raise Damaged("the pickle describes an array that cannot be")
    _, shape, kind, columns, data = state
    if type(data) is list and _letter(kind) == "O":
        return _objects(data, shape)
    if isinstance(data, Inert) and data.name == "_codecs.encode":  # bytes of older pickles
        texts = data.parts[0] if data.parts else None
        text = texts[0] if type(texts) is tuple and texts else None
        data = text.encode("latin-1") if isinstance(text, str) else None
    if type(data) is not bytes:
        raise Damaged("the pickle describes an array that cannot be")
    return _filled(io.BytesIO(data), _size(shape), _dtype(kind), columns is True)


def _behind(wrapper: Inert, file: BinaryIO) -> np.ndarray:
    """The array whose bytes stand behind joblib's object."""
    said = wrapper.parts[-1]
    if type(said) is not dict:
        raise Damaged("the pickle describes an array that cannot be")
    shape, kind = _size(said.get("shape")), said.get("dtype")
    if _letter(kind) == "O":
        found = array(unpickle(file, no_storage, "the pickle of an array"))
        if found is None:
            raise Damaged("the pickle describes an array that cannot be")
        return found
    if said.get("numpy_array_alignment_bytes") is not None:
        file.read(int.from_bytes(file.read(1), "little"))
    return _filled(file, shape, _dtype(kind), said.get("order") == "F")


def _size(shape: Any) -> tuple[int, ...]:
    known = type(shape) is tuple and len(shape) <= MAX_DIMENSIONS
    if not known or not all(is_whole(n, 0, _MOST_BYTES) for n in shape):
        raise Damaged("the pickle describes an array that cannot be")
    result: tuple[int, ...] = shape
    return result


def _letter(kind: Any) -> str:
    """The letter of an array's type."""
    name = kind.parts[0][0] if _is_dtype(kind) else None
    if type(name) is not str or not name:
        raise Damaged("the pickle describes an array that cannot be")
    return name[0]


def _is_dtype(kind: Any) -> bool:
    return (
        isinstance(kind, Inert)
        and kind.name == "numpy.dtype"
        and bool(kind.parts)
        and type(kind.parts[0]) is tuple
        and bool(kind.parts[0])
    )


def _dtype(kind: Any) -> np.dtype:
    """Of floats, whole numbers, truth values and texts."""
    letter, digits = _letter(kind), kind.parts[0][0][1:]
    sizes: dict[str, Sequence[int]] = {
        "f": (2, 4, 8),
        "i": (1, 2, 4, 8),
        "u": (1, 2, 4, 8),
        "b": (1,),
    }
    sizes |= {"U": range(1, _MOST_LETTERS)}
    size = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 0
    if size not in sizes.get(letter, ()):
        raise PhasorError(f"an array of {printable(kind.parts[0][0])}: expected numbers or texts")
    state = kind.parts[-1]
    big = len(kind.parts) > 1 and type(state) is tuple and len(state) > 1 and state[1] == ">"
    return np.dtype(f"{'>' if big else '<'}{letter}{size}")


def _filled(file: BinaryIO, shape: tuple[int, ...], kind: np.dtype, columns: bool) -> np.ndarray:
    """columns: they follow each other, not the rows."""
    count = math.prod(shape)
    if count > _MOST_BYTES:
        raise Damaged("the pickle describes an array that cannot be")
    data = file.read(count * kind.itemsize)
    if len(data) != count * kind.itemsize:
        raise Damaged("an array reaches beyond the end of the file")
    if kind.kind == "U" and np.frombuffer(data, kind.str[0] + "u4").max(initial=0) > 0x10FFFF:
        raise Damaged("an array has a letter that is none")
    return np.frombuffer(data, kind).reshape(shape, order="F" if columns else "C")


def _objects(data: list[Any], shape: Any) -> np.ndarray:
    """Texts and numbers, one after the other."""
    if _size(shape) != (len(data),):
        raise Damaged("the pickle describes an array that cannot be")
    if not all(type(value) in (str, int, float, bool) for value in data):
        raise PhasorError("an array of objects: expected numbers or texts")
    out = np.empty(len(data), object)
    out[:] = data
    return out
