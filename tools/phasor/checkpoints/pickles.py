"""The pickle of a file of torch.save, which says which tensor views which storage.

No code of a file ever runs: an allow-list of opcodes, and an unpickler that knows a handful of
names. Any other global is refused by its name.
"""

from __future__ import annotations

import collections
import pickle
import struct
from typing import Any, BinaryIO, Callable, Iterable, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import (
    MAX_DIMENSIONS,
    MAX_NUMBER,
    STORAGES,
    TORCH,
    UNTYPED,
    Stored,
    check_view,
    contiguous,
    item_bytes,
)
from phasor.errors import PhasorError, printable

# What a pickle may say: plain values and containers, globals (each checked by its name), calls of
# those, references to storages. Not: instances, the registry of extensions, references in text,
# buffers outside of the pickle.
_OPCODES = """
    PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG
    LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8
    UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE
    TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS GET BINGET LONG_BINGET PUT BINPUT
    LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID""".split()
_REFUSED = (
    "NEWOBJ NEWOBJ_EX INST OBJ PERSID EXT1 EXT2 EXT4 BYTEARRAY8 NEXT_BUFFER "
    "READONLY_BUFFER EMPTY_SET ADDITEMS FROZENSET"
).split()
_KEY_TYPES = (str, bytes, float, bool, type(None))  # and whole numbers, below


class Storage(NamedTuple):
    """Raw bytes and the type of their elements."""

    data: np.ndarray  # u8
    dtype: str


class _Type(NamedTuple):
    """A type of PyTorch (torch.float8_e4m3fn) where a tensor names it."""

    dtype: str


# (type in PyTorch, key, elements) -> the storage
Storages = Callable[[str, str, int], Storage]


class _Callable:
    """What an allowed global becomes: an object that can be called and nothing else. Made anew for
    each file."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable) -> None:
        object.__setattr__(self, "_function", function)

    def __setattr__(self, name: str, value: Any) -> None:
        raise PhasorError("the pickle tries to change one of the reader's objects")

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


class _StateDict(collections.OrderedDict):
    """An OrderedDict whose attributes (state_dict's _metadata) are dropped."""


def _check_keys(keys: Iterable[Any]) -> None:
    """Tuples could hash without end; large numbers can be chosen so that all have one hash."""
    if not all(abs(key) < 1 << 60 if type(key) is int else type(key) in _KEY_TYPES for key in keys):
        raise PhasorError("the pickle has a key that is neither text nor a number")


def _ordered(items: Any = ()) -> _StateDict:
    """collections.OrderedDict, empty or (as Python 2 wrote it) with a list of pairs."""
    if type(items) not in (list, tuple) or any(
        type(pair) not in (list, tuple) or len(pair) != 2 for pair in items
    ):
        raise PhasorError("the pickle describes a table that cannot be")
    _check_keys(key for key, _ in items)
    return _StateDict(map(tuple, items))


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Stored:
    """torch._utils._rebuild_tensor and _rebuild_tensor_v2: a view, its bounds checked."""
    if (
        not isinstance(storage, Storage)
        or type(shape) is not tuple
        or type(strides) is not tuple
        or len(shape) != len(strides)
    ):
        raise PhasorError("the pickle describes a tensor that cannot be")
    try:
        size = check_view(storage.dtype, shape, (offset, *strides))
    except PhasorError as error:
        raise PhasorError(f"the pickle describes a tensor that cannot be: it {error}") from error
    if size == 0:  # its place does not matter
        return Stored(storage.data, storage.dtype, shape, contiguous(shape), 0)
    tensor = Stored(storage.data, storage.dtype, shape, strides, offset)
    if (tensor.last + 1) * item_bytes(storage.dtype) > storage.data.size:
        raise PhasorError("a tensor reaches beyond its storage")
    if size > storage.data.size:
        raise PhasorError("a tensor that repeats its storage is not built yet")
    return tensor


def _rebuild_typed(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, kind: Any, *_: Any
) -> Stored:
    """torch._utils._rebuild_tensor_v3: a view of a storage of bytes, with the type of its
    elements."""
    if not isinstance(kind, _Type) or not isinstance(storage, Storage):
        raise PhasorError("the pickle describes a tensor that cannot be")
    return _rebuild_tensor(Storage(storage.data, kind.dtype), offset, shape, strides)


def _size(shape: Any) -> tuple:
    """torch.Size."""
    if type(shape) not in (list, tuple) or len(shape) > MAX_DIMENSIONS:
        raise PhasorError("the pickle describes a shape that cannot be")
    return tuple(shape)


def _parameter(tensor: Any = None, *_: Any) -> Any:
    """torch._utils._rebuild_parameter."""
    if not isinstance(tensor, Stored):
        raise PhasorError("the pickle describes a parameter that is no tensor")
    return tensor


_GLOBALS = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_typed,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": _size,
}


class _Unpickler(pickle._Unpickler):
    """The standard library's unpickler in Python (the one in C neither lets opcodes be chosen nor
    bounds its memo)."""

    def __init__(self, file: BinaryIO, storage: Storages) -> None:
        super().__init__(file)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" in _GLOBALS:
            return _Callable(_GLOBALS[f"{module}.{name}"])
        if (module, name) == ("torch.storage", UNTYPED):
            return name
        if module == "torch" and name in STORAGES and name != UNTYPED:
            return name
        if module == "torch" and name in TORCH:
            return _Type(TORCH[name])
        raise PhasorError(
            f"the pickle asks for {printable(f'{module}.{name}')}, which is not a tensor: refused, "
            "nothing was run"
        )

    def persistent_load(self, pid: Any) -> Storage:
        # ("storage", type, key, device, elements), and in the old format a view of that storage,
        # which nothing writes any more. Types first: a tuple of tuples of … can take for ever to
        # hash or to compare.
        if (
            type(pid) is not tuple
            or len(pid) not in (5, 6)
            or not all(type(part) is str for part in pid[:3])
            or type(pid[4]) is not int
            or pid[0] != "storage"
            or pid[1] not in STORAGES
            or not 0 <= pid[4] < MAX_NUMBER
            or any(part is not None for part in pid[5:])
        ):
            raise PhasorError("the pickle has a reference that is not a storage")
        return self._storage(pid[1], pid[2], pid[4])


def no_storage(kind: str, name: str, count: int) -> Storage:
    """Where a pickle can have none."""
    raise PhasorError("a storage where there is none")


def _refuse(opcode: str) -> Callable[[_Unpickler], None]:
    def refuse(_: _Unpickler) -> None:
        raise PhasorError(
            f"the pickle has the opcode {opcode}, which no tensor needs: refused, nothing was run"
        )

    return refuse


def _checked(
    opcode: str, keys: slice, place: int, kind: type | None
) -> Callable[[_Unpickler], None]:
    """The opcode, after the keys that it takes from the stack were seen to be text or numbers, and
    what it puts them into (at this place of the stack; 0: below the mark) to be of its kind."""
    load = pickle._Unpickler.dispatch[getattr(pickle, opcode)[0]]

    def checked(self: _Unpickler) -> None:
        _check_keys(self.stack[keys])
        target = _at(self.stack, place) if place else _at(_at(self.metastack, -1), -1)
        if kind is not None and not isinstance(target, kind):
            raise PhasorError(_MISPLACED[kind])
        load(self)

    return checked


_MISPLACED = {
    dict: "the pickle puts entries into what is no table",
    list: "the pickle appends to what is no list",
}
_NO_KEYS, _EVERY_SECOND = slice(0), slice(None, None, 2)
_CHECKED = {
    "SETITEM": (slice(-2, -1), -3, dict),
    "SETITEMS": (_EVERY_SECOND, 0, dict),
    "DICT": (_EVERY_SECOND, 0, None),
    "APPEND": (_NO_KEYS, -2, list),
    "APPENDS": (_NO_KEYS, 0, list),
}


def _at(stack: Any, place: int) -> Any:
    return stack[place] if isinstance(stack, list) and len(stack) >= -place else None


def _reduce(self: _Unpickler) -> None:
    """A call of an allowed global, and of nothing else."""
    arguments, function = _at(self.stack, -1), _at(self.stack, -2)
    if type(function) is not _Callable or type(arguments) is not tuple:
        raise PhasorError("the pickle calls what is no function")
    self.stack[-2:] = [function(*arguments)]


def _build(self: _Unpickler) -> None:
    """The attributes of a state_dict (its _metadata) are dropped; nothing else here has any."""
    if not isinstance(_at(self.stack, -2), _StateDict):
        raise PhasorError("the pickle gives attributes to what can have none")
    self.stack.pop()


def _dispatch() -> dict[int, Callable[[_Unpickler], None]]:
    known = {name: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _OPCODES}
    known.update({name: _checked(name, *how) for name, how in _CHECKED.items()})
    known.update({name: _refuse(name) for name in _REFUSED}, REDUCE=_reduce, BUILD=_build)
    return {getattr(pickle, name)[0]: load for name, load in known.items()}


_Unpickler.dispatch = _dispatch()
# What the opcodes that are kept raise where the stack, the memo or a number is not what they
# expect; no value of the file is in the text.
_DAMAGED = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    struct.error,
)


def unpickle(file: BinaryIO, storage: Storages, what: str) -> Any:
    """The value of the pickle that begins here, of plain containers, numbers, text and tensors; the
    file stands behind it."""
    try:
        return _Unpickler(file, storage).load()
    except _DAMAGED as error:
        detail = (
            "a number with too many digits"
            if "integer string" in str(error)
            else printable(f"{type(error).__name__}: {error}")
        )
        raise PhasorError(f"{what} is damaged: {detail}") from error
