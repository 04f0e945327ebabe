"""The shared library: where it is, its declarations, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterable

import numpy as np

from phasor.errors import PhasorError
from phasor.runtime import _interface as c

_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE.parents[2]
# Of the header's last part, which the record of the interface does not have. The library that is
# loaded is of the same release as this package.
_EXPERIMENTAL: dict[str, tuple[Any, ...]] = {
    "phasor_request_amx": (ctypes.c_int,),
    "phasor_skipped": (
        ctypes.POINTER(ctypes.c_uint32),
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint32),
    ),
}
# Shorter than what it takes to give the GIL away and get it back.
_SHORT = {"phasor_argmax", "phasor_id_to_text", "phasor_text_flush"}


class Error(PhasorError):
    """A call that failed. `status` says of what kind the failure is."""

    def __init__(self, message: str, status: c.Status = c.Status.BAD_INPUT) -> None:
        super().__init__(message)
        self.status = status


def place() -> tuple[Path, str]:
    """The library's file, and what to do if it is missing: in a checkout it is in build/, in an
    installed package beside this module."""
    if (_ROOT / "Makefile").is_file():
        return _ROOT / "build" / "libphasor.so.0", "run make shared"
    return _PACKAGE / "libphasor.so", "install phasor-engine again"


@functools.cache
def library() -> Any:
    """The library's functions, all of them declared. Calls release the GIL, but for _SHORT.

    Raises Error if the library is missing or older than this package.
    """
    path, how = place()
    if not path.is_file():
        raise Error(f"{path}: the shared library is missing. TRY: {how}", c.Status.UNSUPPORTED)
    try:
        loaded, holding = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        functions = SimpleNamespace()
        for name, (result, *parameters) in (c.FUNCTIONS | _EXPERIMENTAL).items():
            function = getattr(holding if name in _SHORT else loaded, name)
            function.restype, function.argtypes = result, parameters
            setattr(functions, name, function)
    except (OSError, AttributeError) as error:
        why = f"{path}: not the shared library of this package ({error}). TRY: {how}"
        raise Error(why, c.Status.UNSUPPORTED) from None
    functions.phasor_request_amx()  # as the program does: the same bits, sooner
    return functions


def new(struct: type[ctypes.Structure], **fields: Any) -> Any:
    """A struct whose first field is its size, as its _INIT macro makes it."""
    return struct(struct_size=ctypes.sizeof(struct), **fields)


def callback(struct: Any, field: str) -> Any:
    """The type of a field that is a function: makes one of a function of Python."""
    return dict(struct._fields_)[field]


def check(status: int, error: Any, what: object) -> None:
    """Raises Error unless the status is OK. `error`: the call's, or None; `what`: what failed."""
    if status == c.Status.OK:
        return
    kind = c.Status(status)
    said = error.text.decode(errors="replace") if error is not None else ""
    raise Error(f"{what}: {said or kind.name.lower().replace('_', ' ')}", kind)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def block(size: int, what: str) -> np.ndarray:
    """Memory of `size` bytes with the alignment that the library asks for."""
    try:
        whole = np.empty(size + c.ALIGN, np.uint8)
    except (MemoryError, ValueError):
        raise Error(f"no memory for {what} of {size:,} bytes", c.Status.NO_MEMORY) from None
    start = -address(whole) % c.ALIGN
    return whole[start : start + size]


def text_bytes(text: str) -> bytes:
    """As the library reads it. Raises Error for what is no text and for half of a surrogate."""
    if not isinstance(text, str):
        raise Error(f"expected a text, found {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"the text has half of a surrogate at character {error.start}") from None


def texts_list(texts: Any) -> list[str]:
    """Of one text or of several. Raises Error if one is no text."""
    given = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    for one in given:
        text_bytes(one)
    return given


def ids_array(ids: Any) -> np.ndarray:
    """(n,) uint32. Raises Error for what is no list of token ids."""
    given = np.asarray(ids)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise Error(f"expected a list of token ids, found {given.ndim} axes of {given.dtype}")
    if given.size and not 0 <= int(given.min()) <= int(given.max()) < c.NONE:
        raise Error(f"token ids of {given.min()} to {given.max()}: expected 0 to {c.NONE - 1}")
    return np.ascontiguousarray(given, np.uint32)


def pointer(array: np.ndarray) -> Any:
    """To the elements of an array of uint32 or float32; the array must outlive the call."""
    kind = ctypes.c_float if array.dtype == np.float32 else ctypes.c_uint32
    return array.ctypes.data_as(ctypes.POINTER(kind))
