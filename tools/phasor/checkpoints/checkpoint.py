"""Named tensors of a checkpoint: a file of torch.save (.pt, .pth, .bin), safetensors, or a
directory with either, in one piece or in shards.

numpy only, and no code of a file ever runs. A PyTorch file has raw storages and one pickle that
says which tensor views which storage: a zip since PyTorch 1.6, pickles followed by storages before.
The pickle is read with an allow-list of opcodes, by an unpickler that knows a handful of names; any
other global is refused by its name. Storages are mapped, not read. What a file says is checked
before it is used, and bounded by the file's size: docs/convert.md has the limits.
"""

from __future__ import annotations

import collections
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, NamedTuple

import numpy as np

from phasor.errors import named, printable, shown
from phasor.files import cannot_read, map_bytes, open_regular, parse_object, read_json
from phasor.format.layout import PhasorError

_STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bf16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "bf16",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_FLOATS = ("<f4", "<f8", "<f2", "bf16")
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LEGACY_START = _LEGACY_MAGIC.to_bytes(10, "little")
_WRAPPERS = ("state_dict", "model_state_dict", "model")
# Limits of what a file may say, far above what any model of this size does.
_MAX_PICKLE = 8 << 20  # bytes: 50,000 tensors; each may become a hundred bytes of memory
_MAX_HEADER = 100_000_000  # of safetensors, the format's own
_MAX_DIRECTORY = 32 << 20  # of a zip file
_MAX_DIMENSIONS, _MAX_NUMBER = 8, 1 << 48
_MAX_REPEATS = (
    8  # all tensors together by the size of the file: what is tied is there several times
)
# What a pickle may say: plain values and containers, globals (each checked by its name), calls of
# those, references to storages. Not: instances, the registry of extensions, references in text,
# buffers outside of the pickle.
_OPCODES = """PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
    EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS
    GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID""".split()
_REFUSED = (
    "NEWOBJ NEWOBJ_EX INST OBJ PERSID EXT1 EXT2 EXT4 BYTEARRAY8 NEXT_BUFFER "
    "READONLY_BUFFER EMPTY_SET ADDITEMS FROZENSET"
).split()
_KEY_TYPES = (str, bytes, float, bool, type(None))  # and whole numbers, below
_SINGLE_FILES = (
    "model.safetensors",
    "pytorch_model.bin",
)  # of a directory, the first that is there
_INDEX_FILES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


class Stored(NamedTuple):
    """A tensor where it lies: raw bytes, element type, shape, and the view in elements."""

    data: np.ndarray  # u8 of the storage
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOATS

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

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def load(self, name: str) -> np.ndarray:
        stored = self.tensors[name]
        if not stored.is_float:
            raise PhasorError(
                f"{name}: has elements of type {stored.dtype}, expected floating point"
            )
        return stored.load()

    def renamed(self, rules: dict[str, str]) -> "Checkpoint":
        """The same tensors; a name that begins with a rule's text has it replaced (the first rule
        that fits)."""
        out: dict[str, Stored] = {}
        for name, stored in self.tensors.items():
            new = next(
                (to + name[len(start) :] for start, to in rules.items() if name.startswith(start)),
                name,
            )
            if new in out:
                raise PhasorError(f"{self.path}: two tensors are called {new} after renaming")
            out[new] = stored
        return Checkpoint(self.path, out)


def open_checkpoint(path: os.PathLike | str, key: str | None = None) -> Checkpoint:
    """Opens a checkpoint of any kind that is known; `key` names the entry that holds the state_dict
    where it is nested.

    PhasorError names the file and what is wrong with it.
    """
    path = Path(path)
    return _open_directory(path, key) if path.is_dir() else _open_file(path, key)


def _open_file(path: Path, key: str | None = None, index: bool = True) -> Checkpoint:
    """A checkpoint that is no directory; with index=False no index of shards either."""
    try:
        start = _start(path)
        if not start:
            raise PhasorError("the file is empty")
        if start[:4] == b"PK\x03\x04":
            return Checkpoint(path, _bounded(_state_dict(_zip_content(path), key), path))
        if start[:1] == b"\x80" and _LEGACY_START in start:
            return Checkpoint(path, _bounded(_state_dict(_legacy_content(path), key), path))
        if index and path.name.endswith(_INDEX_FILES):
            return Checkpoint(path, _read_shards(path))
        if len(start) > 9 and start[8:9] == b"{":
            return Checkpoint(path, _read_safetensors(path))
        raise PhasorError("neither a file of torch.save nor safetensors")
    except PhasorError as error:
        raise named(path, error) from error
    except OSError as error:
        raise cannot_read(path, error) from error


def _start(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(64)


def read_content(path: Path) -> Any:
    """All that a file of torch.save holds, of whatever kind, as plain containers with its tensors;
    None for another file."""
    try:
        start = _start(path)
        if start[:4] == b"PK\x03\x04":
            return _zip_content(path)
        return _legacy_content(path) if start[:1] == b"\x80" and _LEGACY_START in start else None
    except PhasorError as error:
        raise named(path, error) from error
    except OSError as error:
        raise cannot_read(path, error) from error


def _check_view(dtype: str, shape: tuple[int, ...], numbers: Iterable[Any] = ()) -> int:
    """The bytes of a tensor of this type and shape; PhasorError for numbers that are none of a
    tensor's."""
    if len(shape) > _MAX_DIMENSIONS:
        raise PhasorError(f"has {len(shape)} dimensions, expected at most {_MAX_DIMENSIONS}")
    if not all(type(n) is int and 0 <= n < _MAX_NUMBER for n in (*shape, *numbers)):
        raise PhasorError(
            "has a number in its shape or place that is no whole number below "
            f"2^{_MAX_NUMBER.bit_length() - 1}"
        )
    if _product(tuple(n for n in shape if n)) >= _MAX_NUMBER:
        raise PhasorError(f"has shape {shape}, which is no tensor's")
    return _item_bytes(dtype) * _product(shape)


def _bounded(tensors: dict[str, Stored], path: Path) -> dict[str, Stored]:
    """The tensors, if together they are not many times the file: views of one storage over and over
    would make a large model of a small file."""
    total, size = (
        sum(_item_bytes(t.dtype) * _product(t.shape) for t in tensors.values()),
        path.stat().st_size,
    )
    if total > _MAX_REPEATS * size:
        raise PhasorError(
            f"the tensors have {total:,} bytes, more than {_MAX_REPEATS} times the file's "
            f"{size:,}: they are views of one storage over and over"
        )
    return tensors


# ---- A directory
# -----------------------------------------------------------------------------------------------------


def _open_directory(path: Path, key: str | None) -> Checkpoint:
    """The weights of a Hugging Face directory: one file, or shards with an index; safetensors
    before pickles."""
    for single, index in zip(_SINGLE_FILES, _INDEX_FILES):
        if (path / single).is_file():
            return open_checkpoint(path / single, key)
        if (path / index).is_file():
            return Checkpoint(path / index, _read_shards(path / index))
    raise PhasorError(f"{path}: a directory without {', '.join((*_SINGLE_FILES, *_INDEX_FILES))}")


def _read_shards(index: Path) -> dict[str, Stored]:
    """The tensors that an index places in the files beside it, in the index's order."""
    places = read_json(index, _MAX_HEADER).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise PhasorError(f"{index}: not a JSON object with a weight_map")
    for name, shard in places.items():
        if (
            not isinstance(shard, str)
            or shard in ("", ".", "..")
            or any(c in shard for c in "/\\\0")
        ):
            raise PhasorError(
                f"{index}: {printable(name)} is said to be in {shown(shard)}, which is not a file "
                "beside the index"
            )
    shards: dict[str, Checkpoint] = {}
    seen: dict[tuple[int, int], str] = {}
    for shard in dict.fromkeys(places.values()):
        shards[shard] = _open_file(index.parent / shard, index=False)
        found = (index.parent / shard).stat()
        other = seen.setdefault((found.st_dev, found.st_ino), shard)
        if other != shard:
            raise PhasorError(f"{index}: {printable(shard)} and {printable(other)} are one file")
    for name, shard in places.items():
        if name not in shards[shard]:
            raise PhasorError(f"{index}: {printable(name)} is not in {shard}")
    for shard, checkpoint in shards.items():
        for name in checkpoint:
            if places.get(name) != shard:
                raise PhasorError(
                    f"{index}: {shard} has {printable(name)}, which the index does not place there"
                )
    return {name: shards[shard].tensors[name] for name, shard in places.items()}


# ---- safetensors
# -----------------------------------------------------------------------------------------------------


def _read_safetensors(path: Path) -> dict[str, Stored]:
    data = map_bytes(path)
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    if size > data.size - 8:
        raise PhasorError(
            f"safetensors: the header is said to have {size} bytes, the file has {data.size}"
        )
    if size > _MAX_HEADER:
        raise PhasorError(
            f"safetensors: the header has {size} bytes, the format allows {_MAX_HEADER}"
        )
    try:
        header = parse_object(data[8 : 8 + size].tobytes())
    except PhasorError as error:
        raise PhasorError(
            f"safetensors: the header is {error}"
            if str(error).startswith("not ")
            else f"safetensors: the header: {error}"
        ) from error
    body = data[8 + size :]
    out = {
        name: _safetensor(name, entry, body)
        for name, entry in header.items()
        if name != "__metadata__"
    }
    end, last = 0, ""
    for name, stored in sorted(out.items(), key=lambda item: item[1].data.ctypes.data):
        begin = stored.data.ctypes.data - body.ctypes.data
        if stored.data.size and begin < end:
            raise PhasorError(
                f"safetensors: {printable(name)}: begins at {begin}, in {printable(last)}, which "
                f"ends at {end}"
            )
        end, last = max(end, begin + stored.data.size), name
    return out


def _safetensor(name: str, entry: Any, body: np.ndarray) -> Stored:
    where = f"safetensors: {printable(name)}:"
    kind, shape, place = (
        (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
        if isinstance(entry, dict)
        else (None,) * 3
    )
    if (
        not isinstance(kind, str)
        or not isinstance(shape, list)
        or not isinstance(place, list)
        or len(place) != 2
    ):
        raise PhasorError(
            f"{where} the entry is not sound: expected dtype, shape and two data_offsets"
        )
    if kind not in _SAFETENSORS:
        raise PhasorError(
            f"{where} elements of type {shown(kind)} are not built; there are "
            f"{', '.join(_SAFETENSORS)}"
        )
    try:
        size = _check_view(_SAFETENSORS[kind], tuple(shape), place)
    except PhasorError as error:
        raise PhasorError(f"{where} the entry is not sound: it {error}") from error
    begin, end = place
    if not begin <= end <= body.size or end - begin != size:
        raise PhasorError(
            f"{where} bytes {begin} to {end} do not fit its shape {tuple(shape)} or the file"
        )
    return Stored(body[begin:end], _SAFETENSORS[kind], tuple(shape), _contiguous(tuple(shape)), 0)


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


# ---- The pickle of a file of torch.save
# ------------------------------------------------------------------------------


class _Storage(NamedTuple):
    data: np.ndarray
    dtype: str


def _item_bytes(dtype: str) -> int:
    return 2 if dtype == "bf16" else np.dtype(dtype).itemsize


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
        not isinstance(storage, _Storage)
        or type(shape) is not tuple
        or type(strides) is not tuple
        or len(shape) != len(strides)
    ):
        raise PhasorError("the pickle describes a tensor that cannot be")
    try:
        size = _check_view(storage.dtype, shape, (offset, *strides))
    except PhasorError as error:
        raise PhasorError(f"the pickle describes a tensor that cannot be: it {error}") from error
    if size == 0:  # its place does not matter
        return Stored(storage.data, storage.dtype, shape, _contiguous(shape), 0)
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides))
    if (last + 1) * _item_bytes(storage.dtype) > storage.data.size:
        raise PhasorError("a tensor reaches beyond its storage")
    if size > storage.data.size:
        raise PhasorError("a tensor that repeats its storage is not built yet")
    return Stored(storage.data, storage.dtype, shape, strides, offset)


def _size(shape: Any) -> tuple:
    """torch.Size."""
    if type(shape) not in (list, tuple) or len(shape) > _MAX_DIMENSIONS:
        raise PhasorError("the pickle describes a shape that cannot be")
    return tuple(shape)


def _parameter(tensor: Any = None, *_: Any) -> Any:
    """torch._utils._rebuild_parameter."""
    if not isinstance(tensor, Stored):
        raise PhasorError("the pickle describes a parameter that is no tensor")
    return tensor


class _Unpickler(pickle._Unpickler):
    """The standard library's unpickler in Python (the one in C neither lets opcodes be chosen nor
    bounds its memo)."""

    def __init__(self, file: BinaryIO, storage: Callable[[str, str, int], _Storage]) -> None:
        super().__init__(file)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _Callable(_ordered)
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return _Callable(_rebuild_tensor)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _Callable(_parameter)
        if (module, name) == ("torch", "Size"):
            return _Callable(_size)
        if module == "torch" and name in _STORAGES:
            return name
        raise PhasorError(
            f"the pickle asks for {printable(f'{module}.{name}')}, which is not a tensor: refused, "
            "nothing was run"
        )

    def persistent_load(self, pid: Any) -> _Storage:
        # ("storage", type, key, device, elements), and in the old format a view of that storage,
        # which nothing writes any more. Types first: a tuple of tuples of … can take for ever to
        # hash or to compare.
        if (
            type(pid) is not tuple
            or len(pid) not in (5, 6)
            or not all(type(part) is str for part in pid[:3])
            or type(pid[4]) is not int
            or pid[0] != "storage"
            or pid[1] not in _STORAGES
            or not 0 <= pid[4] < _MAX_NUMBER
            or any(part is not None for part in pid[5:])
        ):
            raise PhasorError("the pickle has a reference that is not a storage")
        return self._storage(pid[1], pid[2], pid[4])


def _no_storage(kind: str, name: str, count: int) -> _Storage:
    raise PhasorError("a storage where there is none")


def _refuse(opcode: str) -> Callable[[_Unpickler], None]:
    def refuse(_: _Unpickler) -> None:
        raise PhasorError(
            f"the pickle has the opcode {opcode}, which no tensor needs: refused, nothing was run"
        )

    return refuse


def _with_plain_keys(
    load: Callable[[_Unpickler], None], target: bool = False, single: bool = False
) -> Callable[[_Unpickler], None]:
    """The opcode, after the keys that it takes from the stack were seen to be text or numbers, and
    its target to be a table."""

    def checked(self: _Unpickler) -> None:
        _check_keys(self.stack[-2:-1] if single else self.stack[::2])
        if target and not isinstance(
            _at(self.stack, -3) if single else _at(_at(self.metastack, -1), -1), dict
        ):
            raise PhasorError("the pickle puts entries into what is no table")
        load(self)

    return checked


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


def _append(load: Callable[[_Unpickler], None], single: bool) -> Callable[[_Unpickler], None]:
    def checked(self: _Unpickler) -> None:
        if type(_at(self.stack, -2) if single else _at(_at(self.metastack, -1), -1)) is not list:
            raise PhasorError("the pickle appends to what is no list")
        load(self)

    return checked


def _dispatch() -> dict[int, Callable[[_Unpickler], None]]:
    known = {name: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _OPCODES}
    known.update(
        SETITEM=_with_plain_keys(known["SETITEM"], True, True),
        SETITEMS=_with_plain_keys(known["SETITEMS"], True),
        DICT=_with_plain_keys(known["DICT"]),
        REDUCE=_reduce,
        BUILD=_build,
        APPEND=_append(known["APPEND"], True),
        APPENDS=_append(known["APPENDS"], False),
    )
    known.update({name: _refuse(name) for name in _REFUSED})
    return {getattr(pickle, name)[0]: load for name, load in known.items()}


_Unpickler.dispatch = _dispatch()


def _unpickle(file: BinaryIO, storage: Callable[[str, str, int], _Storage], what: str) -> Any:
    """The value of the pickle that begins here, of plain containers, numbers, text and tensors; the
    file stands behind it."""
    try:
        return _Unpickler(file, storage).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
        struct.error,
    ) as error:
        # What the opcodes that are kept raise where the stack, the memo or a number is not what
        # they expect; no value of the file is in the text.
        detail = (
            "a number with too many digits"
            if "integer string" in str(error)
            else printable(f"{type(error).__name__}: {error}")
        )
        raise PhasorError(f"{what} is damaged: {detail}") from error


# ---- PyTorch's zip
# ---------------------------------------------------------------------------------------------------


def _records(path: Path) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """The zip's records by their names below the archive's folder."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(_BoundedReads(file)) as archive:
            infos = archive.infolist()
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        UnicodeDecodeError,
        struct.error,
        ValueError,
        OverflowError,
    ) as error:
        raise PhasorError(f"the zip file is damaged: {printable(str(error))}") from error
    pickles = [i.filename for i in infos if i.filename.split("/", 1)[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise PhasorError("a zip file without one data.pkl: not a file of torch.save")
    folder = pickles[0][: -len("data.pkl")]
    records: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        if not info.filename.startswith(folder):
            continue
        if info.filename[len(folder) :] in records:
            raise PhasorError(f"{printable(info.filename)}: is there twice")
        records[info.filename[len(folder) :]] = info
    if "constants.pkl" in records or any(name.startswith("code/") for name in records):
        raise PhasorError("a TorchScript archive (a program, not weights); save its state_dict")
    return records, folder


class _BoundedReads(io.BufferedReader):
    """zipfile reads the directory, as long as its end says it is, in one piece."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file.raw)

    def read(self, size: int | None = -1) -> bytes:
        wanted = _MAX_DIRECTORY + 1 if size is None or size < 0 else size
        if size is not None and size > _MAX_DIRECTORY:
            raise PhasorError(
                f"the zip file's directory is said to have {size} bytes, more than any file of "
                "torch.save has"
            )
        return super().read(wanted)


def _place_of(whole: np.ndarray, info: zipfile.ZipInfo) -> tuple[int, int]:
    """Where the bytes of a record begin and end."""
    name = printable(info.filename)
    if info.compress_type != zipfile.ZIP_STORED:
        raise PhasorError(f"{name}: a compressed record is not built yet")
    if info.flag_bits & 1:
        raise PhasorError(f"{name}: an encrypted record is not built")
    header = (
        whole[info.header_offset : info.header_offset + 30].tobytes()
        if 0 <= info.header_offset < whole.size
        else b""
    )
    if len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise PhasorError(f"{name}: the zip file is damaged")
    start = info.header_offset + 30 + sum(struct.unpack_from("<HH", header, 26))
    if start + info.file_size > whole.size:
        raise PhasorError(f"{name}: the file is cut off")
    return start, start + info.file_size


def _zip_content(path: Path) -> Any:
    records, _ = _records(path)
    whole = map_bytes(path)
    if records["data.pkl"].file_size > _MAX_PICKLE:
        raise PhasorError(
            f"data.pkl has {records['data.pkl'].file_size} bytes and is larger than any "
            f"state_dict's, {_MAX_PICKLE}"
        )
    places = {name: _place_of(whole, info) for name, info in records.items()}
    end, last = 0, ""
    for name, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        if start < end and stop > start:
            raise PhasorError(
                f"{printable(name)}: begins at {start}, in {printable(last)}, which ends at {end}"
            )
        end, last = max(end, stop), name

    def content(name: str) -> np.ndarray:
        return whole[slice(*places[name])]

    if "byteorder" in places and content("byteorder")[:16].tobytes().strip() != b"little":
        raise PhasorError("a file with big-endian storages is not built yet")

    def storage(kind: str, name: str, count: int) -> _Storage:
        dtype, record = _STORAGES[kind], f"data/{name}"
        if record not in places:
            raise PhasorError(f"the storage {printable(record)} is missing")
        data = content(record)
        if count * _item_bytes(dtype) != data.size:
            raise PhasorError(
                f"the storage {printable(record)} has {data.size} bytes, not {count} elements"
            )
        return _Storage(data, dtype)

    return _unpickle(io.BytesIO(content("data.pkl").tobytes()), storage, "data.pkl")


# ---- PyTorch's old format
# ---- Five
# pickles one after the other: magic number, protocol, the writer's machine, the content, the keys
# of the storages; then each storage in the order of the keys: its number of elements (int64), its
# elements. Nothing else guards the content, so it must agree with itself: every storage is used,
# and the tensors reach over the whole of it.


class _Legacy:
    """The storages of the content, first as it says they are, then where they lie."""

    def __init__(self) -> None:
        self.storages: dict[str, _Storage] = {}
        self.lies: dict[str, np.ndarray] = {}

    def announced(self, limit: int) -> Callable[[str, str, int], _Storage]:
        """For the first reading: each storage has its size and no bytes (one that is repeated)."""

        def storage(kind: str, name: str, count: int) -> _Storage:
            dtype = _STORAGES[kind]
            size = count * _item_bytes(dtype)
            if not 0 <= size <= limit:
                raise PhasorError(
                    f"the storage {printable(name)} is said to have {count} elements, more than "
                    "the file"
                )
            out = _Storage(np.broadcast_to(np.zeros(1, np.uint8), size), dtype)
            if (
                self.storages.setdefault(name, out)[1:] != out[1:]
                or self.storages[name].data.size != size
            ):
                raise PhasorError(f"the storage {printable(name)} has two sizes or two types")
            return out

        return storage

    def place(self, whole: np.ndarray, at: int, keys: Any) -> None:
        """Finds each storage after the last pickle."""
        if (
            not isinstance(keys, list)
            or not all(isinstance(k, str) for k in keys)
            or sorted(keys) != sorted(self.storages)
        ):
            raise PhasorError(
                "the storages' keys are not those of the tensors: the file is damaged"
            )
        for key in keys:
            data = self.storages[key].data
            counted = whole[at : at + 8].tobytes()
            if (
                len(counted) == 8
                and int.from_bytes(counted, "little") * _item_bytes(self.storages[key].dtype)
                != data.size
            ):
                raise PhasorError(
                    f"the storage {printable(key)} has another size than its tensors say: the file "
                    "is damaged"
                )
            if at + 8 + data.size > whole.size:
                raise PhasorError(f"the storage {printable(key)} is cut off")
            self.lies[key] = whole[at + 8 : at + 8 + data.size]
            at += 8 + data.size
        if at != whole.size:
            raise PhasorError(
                f"{whole.size - at} bytes follow the last storage: the file is damaged"
            )

    def placed(self, kind: str, name: str, count: int) -> _Storage:
        """For the second reading."""
        return _Storage(self.lies[name], _STORAGES[kind])

    def check_cover(self, content: Any) -> None:
        """Together, the tensors of a storage must reach from its first element to its last."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for tensor in _tensors(content):
            first, last = (
                tensor.offset,
                tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides)),
            )
            if all(tensor.shape):
                spans.setdefault(tensor.data.ctypes.data, []).append((first, last))
        for key, data in self.lies.items():
            reached = 0
            for first, last in sorted(spans.get(data.ctypes.data, ())):
                reached = max(reached, last + 1) if first <= reached else reached
            if reached * _item_bytes(self.storages[key].dtype) != data.size:
                raise PhasorError(
                    f"the tensors do not cover the storage {printable(key)}: the file is damaged, "
                    "or saved from views (clone them before torch.save)"
                )


def _tensors(content: Any) -> Iterator[Stored]:
    """Every tensor in nested containers, each container once."""
    todo, seen = [content], set()
    while todo:
        value = todo.pop()
        if isinstance(value, Stored):
            yield value
        elif isinstance(value, (dict, list, tuple, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))
            todo += [*value.keys(), *value.values()] if isinstance(value, dict) else value


def _legacy_content(path: Path) -> Any:
    whole, legacy = map_bytes(path), _Legacy()
    with io.BytesIO(whole[:_MAX_PICKLE].tobytes()) as file:  # the pickles are before the storages
        magic = _unpickle(file, _no_storage, "the magic number")
        protocol = _unpickle(file, _no_storage, "the protocol")
        machine = _unpickle(file, _no_storage, "the description of the writer's machine")
        if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
            raise PhasorError(f"PyTorch's old format, but not of protocol {_LEGACY_PROTOCOL}")
        if (
            not isinstance(machine, dict)
            or machine.get("protocol_version") != _LEGACY_PROTOCOL
            or machine.get("little_endian") is not True
        ):
            raise PhasorError(
                "a file with big-endian storages is not built yet, or the file is damaged"
            )
        begin = file.tell()
        _unpickle(file, legacy.announced(whole.size), "the pickle of the tensors")
        keys = _unpickle(file, _no_storage, "the list of storages")
        legacy.place(whole, file.tell(), keys)
        file.seek(begin)
        content = _unpickle(file, legacy.placed, "the pickle of the tensors")
    legacy.check_cover(content)
    return content


# ---- The content
# -----------------------------------------------------------------------------------------------------


def _state_dict(content: Any, key: str | None) -> dict[str, Stored]:
    """The tensors of the state_dict: `content` itself, its entry `key`, or the usual entry when it
    is nested in one."""
    if key is not None:
        if not isinstance(content, dict) or key not in content:
            raise PhasorError(f"there is no entry {key!r} in the file")
        content = content[key]
    elif isinstance(content, dict) and not any(isinstance(v, Stored) for v in content.values()):
        content = next(
            (content[name] for name in _WRAPPERS if isinstance(content.get(name), dict)), content
        )
    if not isinstance(content, dict):
        raise PhasorError("the file does not hold a state_dict")
    out = {
        name: value
        for name, value in content.items()
        if isinstance(name, str) and isinstance(value, Stored)
    }
    if not out:
        raise PhasorError("the state_dict has no tensors (is it nested? then say [checkpoint] key)")
    return out
