"""The pickle of a file of torch.save, which says which tensor views which storage.

No code of a file ever runs: an allow-list of opcodes, and an unpickler that calls a handful of
functions of this module. Any other class or function is never imported or called. What a trainer
puts beside its weights (a Namespace, a NumPy number, a class of its own) becomes an Inert: its name
and what it would be made of. A name of Python's standard library that is not data is refused.
"""

from __future__ import annotations

import _compat_pickle
import collections
import pickle
import struct
import sys
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, NamedTuple

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
from phasor.errors import Damaged, PhasorError, printable

# What a pickle may say: plain values and containers, globals (each checked by its name), calls and
# instances of those, references to storages. Not: the oldest form of instances, the registry of
# extensions, references in text, buffers outside of the pickle, and BYTEARRAY8, which reserves as
# much memory as the file says.
_OPCODES = """
    PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG
    LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8
    UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE
    TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS GET BINGET LONG_BINGET PUT BINPUT
    LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL BINPERSID ADDITEMS""".split()
_REFUSED = "INST OBJ PERSID EXT1 EXT2 EXT4 BYTEARRAY8 NEXT_BUFFER READONLY_BUFFER".split()

# The way out of every refusal of what is not a plain tensor.
SAVE = "torch.save(model.state_dict(), FILE) writes the weights alone"
# Names of Python's standard library that are data: modules, and single names.
_DATA = frozenset(
    "argparse collections datetime decimal fractions pathlib uuid zoneinfo".split()
    + [f"builtins.{name}" for name in "bool bytearray bytes complex dict float frozenset".split()]
    + [f"builtins.{name}" for name in "int list object range set slice str tuple".split()]
    + "_codecs.encode _io.BytesIO functools.partial types.SimpleNamespace".split()
)


class Storage(NamedTuple):
    """Raw bytes and the type of their elements."""

    data: np.ndarray  # u8
    dtype: str


class _Type(NamedTuple):
    """A type of PyTorch (torch.float8_e4m3fn) where a tensor names it."""

    dtype: str


# (type in PyTorch, key, elements) -> the storage
Storages = Callable[[str, str, int], Storage]
# By the name of a class: what stands behind its attributes in the file, in place of the object.
Behind = Mapping[str, Callable[["Inert", BinaryIO], Any]]


_ARRAYS = ("._reconstruct", "._frombuffer")  # what makes an array of NumPy


class Inert:
    """A class or function of a pickle that is no tensor's, or what it would make: by its name, with
    what the pickle puts into it. Nothing is called, and nothing is hashed but the object itself."""

    __slots__ = ("name", "parts")

    def __init__(self, name: str, *parts: Any) -> None:
        self.name, self.parts = name, list(parts)

    def __repr__(self) -> str:
        return printable(self.name)

    def append(self, part: Any) -> None:
        self.parts.append(part)

    add = append

    def extend(self, parts: Iterable[Any]) -> None:
        self.parts += parts

    def __setitem__(self, key: Any, value: Any) -> None:
        self.parts += (key, value)

    def is_array(self, seen: set[int]) -> bool:
        """Whether it stands for a tensor's numbers: a tensor of another kind, an array, or what
        holds tensors. seen: as walk() has it."""
        made = self.name.startswith(("torch._utils.", "torch._tensor."))
        array = self.name.startswith("numpy.") and self.name.endswith(_ARRAYS)
        holds = (isinstance(part, (Stored, Storage)) for part in walk(self, seen))
        return made or array or any(holds)

    @property
    def is_usual(self) -> bool:
        """Whether it is of a package whose objects stand in most trainers' files."""
        root = self.name.partition(".")[0]
        return root in ("numpy", "torch", "__builtin__") or root in sys.stdlib_module_names


def walk(content: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """All values in nested containers and inert objects, each container once; with `seen`, once in
    all walks that share it, so that their time together is bounded."""
    todo, seen = [content], set() if seen is None else seen
    while todo:
        value = todo.pop()
        yield value
        if isinstance(value, (Stored, Storage, _Type)):
            continue
        if isinstance(value, (dict, list, tuple, Inert)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, dict):
                todo += [*value.keys(), *value.values()]
            else:
                todo += value.parts if isinstance(value, Inert) else value


class _Callable:
    """What an allowed global becomes: an object that can be called and nothing else. Made anew for
    each file."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __setattr__(self, name: str, value: Any) -> None:
        raise PhasorError("the pickle tries to change one of the reader's objects")

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


class _StateDict(collections.OrderedDict[str, Any]):
    """An OrderedDict whose attributes (state_dict's _metadata) are dropped."""


# And whole numbers, below; an Inert is hashed by what it is, not by what it holds.
_KEY_TYPES = (str, bytes, float, bool, type(None), Inert)


def _check_keys(keys: Iterable[Any]) -> None:
    """Tuples could hash without end; large numbers can be chosen so that all have one hash."""
    if not all(abs(key) < 1 << 60 if type(key) is int else type(key) in _KEY_TYPES for key in keys):
        raise PhasorError("the pickle has a key that is neither text nor a number")


def _ordered(items: Any = ()) -> _StateDict:
    """collections.OrderedDict, empty or (as Python 2 wrote it) with a list of pairs."""
    if type(items) not in (list, tuple) or any(
        type(pair) not in (list, tuple) or len(pair) != 2 for pair in items
    ):
        raise Damaged("the pickle describes a table that cannot be")
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
        raise Damaged("the pickle describes a tensor that cannot be")
    try:
        size = check_view(storage.dtype, shape, (offset, *strides))
    except PhasorError as error:
        raise Damaged(f"the pickle describes a tensor that cannot be: it {error}") from error
    if size == 0:  # its place does not matter
        return Stored(storage.data, storage.dtype, shape, contiguous(shape), 0)
    tensor = Stored(storage.data, storage.dtype, shape, strides, offset)
    if (tensor.last + 1) * item_bytes(storage.dtype) > storage.data.size:
        raise Damaged("a tensor reaches beyond its storage")
    return tensor


def _rebuild_typed(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, kind: Any, *_: Any
) -> Stored:
    """torch._utils._rebuild_tensor_v3: a view of a storage of bytes, with the type of its
    elements."""
    if type(kind) is Inert:
        raise PhasorError(f"the pickle asks for {kind}, a type of elements that is not supported")
    if not isinstance(kind, _Type) or not isinstance(storage, Storage):
        raise Damaged("the pickle describes a tensor that cannot be")
    return _rebuild_tensor(Storage(storage.data, kind.dtype), offset, shape, strides)


def _size(shape: Any) -> tuple[Any, ...]:
    """torch.Size."""
    if type(shape) not in (list, tuple) or len(shape) > MAX_DIMENSIONS:
        raise Damaged("the pickle describes a shape that cannot be")
    return tuple(shape)


def _parameter(tensor: Any = None, *_: Any) -> Any:
    """torch._utils._rebuild_parameter, and _with_state: with attributes, which say nothing of the
    values."""
    if not isinstance(tensor, (Stored, Inert)):
        raise Damaged("the pickle describes a parameter that is no tensor")
    return tensor


def _of_type(function: Any, kind: Any, arguments: Any, state: Any = None, *_: Any) -> Any:
    """torch._tensor._rebuild_from_type_v2: a tensor with attributes, or of a class of its own,
    whose values only that class knows."""
    plain = isinstance(kind, Inert) and kind.name in _TENSORS
    if not plain or type(function) is not _Callable or type(arguments) is not tuple:
        return Inert("torch._tensor._rebuild_from_type_v2", function, kind, arguments, state)
    return _parameter(function(*arguments))


_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_GLOBALS = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_typed,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.Size": _size,
}


class _Unpickler(pickle._Unpickler):
    """The standard library's unpickler in Python (the one in C neither lets opcodes be chosen nor
    bounds its memo)."""

    def __init__(self, file: BinaryIO, storage: Storages, behind: Behind) -> None:
        super().__init__(file)
        self._storage, self._file, self._behind = storage, file, behind

    def replaced(self, target: Inert) -> Any:
        """What stands behind it in the file, outside of the frames."""
        read = self._behind.get(target.name)
        if read is None:
            return target
        frame = self._unframer.current_frame
        if frame is not None and frame.read(1):
            raise Damaged("the pickle has numbers inside of a frame")
        return read(target, self._file)

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" in _GLOBALS:
            return _Callable(_GLOBALS[f"{module}.{name}"])
        if (module, name) == ("torch.storage", UNTYPED):
            return name
        if module == "torch" and name in STORAGES and name != UNTYPED:
            return name
        if module == "torch" and name in TORCH:
            return _Type(TORCH[name])
        library = _compat_pickle.IMPORT_MAPPING.get(module, module)  # as Python 2 calls it
        root = library.partition(".")[0]
        if root in sys.stdlib_module_names and not {root, f"{library}.{name}"} & _DATA:
            raise PhasorError(
                f"the pickle asks for {printable(f'{module}.{name}')}, which is neither a tensor"
                f" nor data: refused, nothing was run; {SAVE}"
            )
        return Inert(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        # ("storage", type, key, device, elements), and in the old format a view of that storage,
        # which nothing writes any more; there also ("module", class, source's file, source). Types
        # first: a tuple of tuples of … can take for ever to hash or to compare.
        known = type(pid) is tuple and len(pid) > 1 and type(pid[0]) is str
        if known and len(pid) == 4 and pid[0] == "module" and type(pid[1]) is Inert:
            return pid[1]
        if known and pid[0] == "storage" and type(pid[1]) is Inert:
            raise PhasorError(
                f"the pickle asks for {pid[1]}, a type of elements that is not supported"
            )
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
            raise Damaged("the pickle has a reference that is not a storage")
        return self._storage(pid[1], pid[2], pid[4])


def no_storage(kind: str, name: str, count: int) -> Storage:
    """Where a pickle can have none."""
    raise Damaged("a storage where there is none")


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
        if kind is not None and not isinstance(target, (kind, Inert)):
            raise PhasorError(_MISPLACED[kind])
        load(self)

    return checked


_MISPLACED = {
    dict: "the pickle puts entries into what is no table",
    list: "the pickle appends to what is no list",
    Inert: "the pickle adds to what is no set",
}
_NO_KEYS, _EVERY_SECOND = slice(0), slice(None, None, 2)
_CHECKED = {
    "SETITEM": (slice(-2, -1), -3, dict),
    "SETITEMS": (_EVERY_SECOND, 0, dict),
    "DICT": (_EVERY_SECOND, 0, None),
    "APPEND": (_NO_KEYS, -2, list),
    "APPENDS": (_NO_KEYS, 0, list),
    "ADDITEMS": (_NO_KEYS, 0, Inert),
}


def _at(stack: Any, place: int) -> Any:
    return stack[place] if isinstance(stack, list) and len(stack) >= -place else None


def _call(count: int, calls: bool) -> Callable[[_Unpickler], None]:
    """REDUCE, NEWOBJ and NEWOBJ_EX: a call of an allowed global with a tuple (`calls`), or what an
    Inert would make of `count` arguments, which is inert too. Nothing else is called."""

    def call(self: _Unpickler) -> None:
        function, *arguments = (_at(self.stack, place) for place in range(-1 - count, 0))
        if type(function) is Inert:
            self.stack[-1 - count :] = [Inert(function.name, *arguments)]
        elif calls and type(function) is _Callable and type(arguments[0]) is tuple:
            self.stack[-2:] = [function(*arguments[0])]
        else:
            raise PhasorError("the pickle calls what is no function")

    return call


def _build(self: _Unpickler) -> None:
    """The attributes of a state_dict (its _metadata) are dropped, those of an Inert are a part of
    it; nothing else here has any."""
    target = _at(self.stack, -2)
    if not isinstance(target, (_StateDict, Inert)):
        raise PhasorError("the pickle gives attributes to what can have none")
    state = self.stack.pop()
    if isinstance(target, Inert):
        target.append(state)
        self.stack[-1] = self.replaced(target)


def _empty_set(self: _Unpickler) -> None:
    self.append(Inert("builtins.set"))


def _frozen_set(self: _Unpickler) -> None:
    items = self.pop_mark()  # it changes what append is
    self.append(Inert("builtins.frozenset", *items))


def _dispatch() -> dict[int, Callable[[_Unpickler], None]]:
    known = {name: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _OPCODES}
    known.update({name: _checked(name, *how) for name, how in _CHECKED.items()})
    known.update({name: _refuse(name) for name in _REFUSED}, BUILD=_build)
    known.update(REDUCE=_call(1, True), NEWOBJ=_call(1, False), NEWOBJ_EX=_call(2, False))
    known.update(EMPTY_SET=_empty_set, FROZENSET=_frozen_set)
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


def unpickle(file: BinaryIO, storage: Storages, what: str, behind: Behind = {}) -> Any:
    """The value of the pickle that begins here, of plain containers, numbers, text, tensors and
    inert objects; the file stands behind it."""
    try:
        return _Unpickler(file, storage, behind).load()
    except _DAMAGED as error:
        detail = (
            "a number with too many digits"
            if "integer string" in str(error)
            else printable(f"{type(error).__name__}: {error}")
        )
        raise Damaged(f"{what} is damaged: {detail}") from error
