"""Named tensors of a checkpoint: a file of torch.save (.pt, .pth, .bin), safetensors, or a directory with either, in one piece or in shards.

numpy only, and no code of a file ever runs. A PyTorch file has raw storages and one pickle that says which tensor views which
storage: a zip since PyTorch 1.6, pickles followed by storages before. The pickle is read with an allow-list of opcodes, by an
unpickler that knows a handful of names; any other global is refused by its name. Storages are mapped, not read.
"""

from __future__ import annotations

import collections
import io
import json
import mmap
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Iterator, NamedTuple

import numpy as np

from phasor_layout import PhasorError

_STORAGES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "bf16", "LongStorage": "<i8",
             "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?"}
_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf16", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
                "U8": "u1", "BOOL": "?"}
_FLOATS = ("<f4", "<f8", "<f2", "bf16")
_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LEGACY_START = _LEGACY_MAGIC.to_bytes(10, "little")
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_MAX_PICKLE = 256 << 20
# What a pickle may say: plain values and containers, globals (each checked by its name), calls of those, references to storages.
# Not: instances, the registry of extensions, references in text, buffers outside of the pickle.
_OPCODES = """PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8
    EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET
    GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID""".split()
_REFUSED = "NEWOBJ NEWOBJ_EX INST OBJ PERSID EXT1 EXT2 EXT4 BYTEARRAY8 NEXT_BUFFER READONLY_BUFFER".split()
_KEY_TYPES = (str, bytes, int, float, bool, type(None))
_SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")  # of a directory, the first that is there
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
        flat = np.frombuffer(self.data, dtype=raw, count=self.data.size // item)[self.offset:]
        view = np.lib.stride_tricks.as_strided(flat, self.shape, tuple(s * item for s in self.strides), writeable=False)
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
            raise PhasorError(f"{name}: has elements of type {stored.dtype}, expected floating point")
        return stored.load()

    def renamed(self, rules: dict[str, str]) -> "Checkpoint":
        """The same tensors; a name that begins with a rule's text has it replaced (the first rule that fits)."""
        out: dict[str, Stored] = {}
        for name, stored in self.tensors.items():
            new = next((to + name[len(start):] for start, to in rules.items() if name.startswith(start)), name)
            if new in out:
                raise PhasorError(f"{self.path}: two tensors are called {new} after renaming")
            out[new] = stored
        return Checkpoint(self.path, out)


def open_checkpoint(path: os.PathLike | str, key: str | None = None) -> Checkpoint:
    """Opens a checkpoint of any kind that is known; `key` names the entry that holds the state_dict where it is nested.

    PhasorError names the file and what is wrong with it.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _open_directory(path, key)
        with open(path, "rb") as file:
            start = file.read(64)
        if not start:
            raise PhasorError("the file is empty")
        if start[:4] == b"PK\x03\x04":
            return Checkpoint(path, _state_dict(_zip_content(path), key))
        if start[:1] == b"\x80" and _LEGACY_START in start:
            return Checkpoint(path, _state_dict(_legacy_content(path), key))
        if path.name.endswith(_INDEX_FILES):
            return Checkpoint(path, _read_shards(path))
        if len(start) > 9 and start[8:9] == b"{":
            return Checkpoint(path, _read_safetensors(path))
        raise PhasorError("neither a file of torch.save nor safetensors")
    except PhasorError as error:
        if str(error).startswith(str(path)):  # a file of a directory, which is named already
            raise
        raise PhasorError(f"{path}: {error}") from error
    except OSError as error:
        raise PhasorError(f"{path}: cannot be read: {error.strerror}") from error


def read_content(path: Path) -> Any:
    """All that a file of torch.save holds, of whatever kind, as plain containers with its tensors; None for another file."""
    try:
        with open(path, "rb") as file:
            start = file.read(64)
        if start[:4] == b"PK\x03\x04":
            return _zip_content(path)
        return _legacy_content(path) if start[:1] == b"\x80" and _LEGACY_START in start else None
    except PhasorError as error:
        raise PhasorError(f"{path}: {error}") from error
    except OSError as error:
        raise PhasorError(f"{path}: cannot be read: {error.strerror}") from error


# ---- A directory -----------------------------------------------------------------------------------------------------


def _open_directory(path: Path, key: str | None) -> Checkpoint:
    """The weights of a Hugging Face directory: one file, or shards with an index; safetensors before pickles."""
    for single, index in zip(_SINGLE_FILES, _INDEX_FILES):
        if (path / single).is_file():
            return open_checkpoint(path / single, key)
        if (path / index).is_file():
            return Checkpoint(path / index, _read_shards(path / index))
    raise PhasorError(f"a directory without {', '.join((*_SINGLE_FILES, *_INDEX_FILES))}")


def _read_shards(index: Path) -> dict[str, Stored]:
    """The tensors that an index places in the files beside it, in the index's order."""
    try:
        places = json.loads(index.read_bytes())["weight_map"]
        if not isinstance(places, dict) or not places:
            raise ValueError
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise PhasorError(f"{index}: not a JSON object with a weight_map") from error
    for name, shard in places.items():
        if not isinstance(shard, str) or shard in ("", ".", "..") or "/" in shard or "\\" in shard:
            raise PhasorError(f"{index}: {name} is said to be in {shard!r}, which is not a file beside the index")
    shards = {shard: open_checkpoint(index.parent / shard) for shard in dict.fromkeys(places.values())}
    for name, shard in places.items():
        if name not in shards[shard]:
            raise PhasorError(f"{index}: {name} is not in {shard}")
    for shard, checkpoint in shards.items():
        for name in checkpoint:
            if places.get(name) != shard:
                raise PhasorError(f"{index}: {shard} has {name}, which the index does not place there")
    return {name: shards[shard].tensors[name] for name, shard in places.items()}


# ---- safetensors -----------------------------------------------------------------------------------------------------


def _read_safetensors(path: Path) -> dict[str, Stored]:
    data = np.memmap(path, dtype=np.uint8, mode="r")
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    if size > data.size - 8:
        raise PhasorError(f"safetensors: the header is said to have {size} bytes, the file has {data.size}")
    try:
        header = json.loads(data[8:8 + size].tobytes())
        if not isinstance(header, dict):
            raise ValueError
    except ValueError as error:
        raise PhasorError("safetensors: the header is not a JSON object") from error
    body, out = data[8 + size:], {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            shape, (begin, end), dtype = tuple(entry["shape"]), entry["data_offsets"], _SAFETENSORS[entry["dtype"]]
            item = _item_bytes(dtype)
            if not all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end)):
                raise ValueError
        except (KeyError, TypeError, ValueError) as error:
            raise PhasorError(f"safetensors: {name}: the entry is not sound, or its type is not built yet") from error
        if not begin <= end <= body.size or end - begin != item * _product(shape):
            raise PhasorError(f"safetensors: {name}: bytes {begin} to {end} do not fit its shape {shape} or the file")
        out[name] = Stored(body[begin:end], dtype, shape, _contiguous(shape), 0)
    return out


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


# ---- The pickle of a file of torch.save ------------------------------------------------------------------------------


class _Storage(NamedTuple):
    data: np.ndarray
    dtype: str


def _printable(text: str) -> str:
    """Text of a file for a line of ours."""
    return "".join(c if c.isprintable() else "?" for c in text[:100])


def _item_bytes(dtype: str) -> int:
    return 2 if dtype == "bf16" else np.dtype(dtype).itemsize


class _Callable:
    """What an allowed global becomes: an object that can be called and nothing else. Made anew for each file."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable) -> None:
        object.__setattr__(self, "_function", function)

    def __setattr__(self, name: str, value: Any) -> None:
        raise PhasorError("the pickle tries to change one of the reader's objects")

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


class _StateDict(collections.OrderedDict):
    """An OrderedDict whose attributes (state_dict's _metadata) are dropped."""

    def __setstate__(self, state: Any) -> None:
        pass


def _check_keys(keys: Iterable[Any]) -> None:
    if not all(type(key) in _KEY_TYPES for key in keys):
        raise PhasorError("the pickle has a key that is neither text nor a number")


def _ordered(items: Any = ()) -> _StateDict:
    """collections.OrderedDict, empty or (as Python 2 wrote it) with a list of pairs."""
    pairs = list(map(tuple, items))
    if any(len(pair) != 2 for pair in pairs):
        raise PhasorError("the pickle describes a table that cannot be")
    _check_keys(key for key, _ in pairs)
    return _StateDict(pairs)


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Stored:
    """torch._utils._rebuild_tensor and _rebuild_tensor_v2: a view, its bounds checked."""
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or not all(type(n) is int and n >= 0 for n in numbers):
        raise PhasorError("the pickle describes a tensor that cannot be")
    item = _item_bytes(storage.dtype)
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0
    if (last + 1) * item > storage.data.size and all(shape):
        raise PhasorError("a tensor reaches beyond its storage")
    if _product(tuple(shape)) * item > max(storage.data.size, 1) and all(shape):
        raise PhasorError("a tensor that repeats its storage is not built yet")
    return Stored(storage.data, storage.dtype, tuple(shape), tuple(strides), offset)


class _Unpickler(pickle._Unpickler):
    """The standard library's unpickler in Python (the one in C neither lets opcodes be chosen nor bounds its memo)."""

    def __init__(self, file: BinaryIO, storage: Callable[[str, str, int], _Storage]) -> None:
        super().__init__(file)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _Callable(_ordered)
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return _Callable(_rebuild_tensor)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _Callable(lambda tensor, *_: tensor)
        if (module, name) == ("torch", "Size"):
            return _Callable(lambda shape: tuple(shape))
        if module == "torch" and name in _STORAGES:
            return name
        raise PhasorError(f"the pickle asks for {_printable(f'{module}.{name}')}, which is not a tensor: refused, nothing was run")

    def persistent_load(self, pid: Any) -> _Storage:
        # ("storage", type, key, device, elements), and in the old format a view of that storage, which nothing writes any more.
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or pid[1] not in _STORAGES \
                or not isinstance(pid[2], str) or type(pid[4]) is not int or pid[5:] not in ((), (None,)):
            raise PhasorError("the pickle has a reference that is not a storage")
        return self._storage(pid[1], pid[2], pid[4])


def _no_storage(kind: str, name: str, count: int) -> _Storage:
    raise PhasorError("a storage where there is none")


def _refuse(opcode: str) -> Callable[[_Unpickler], None]:
    def refuse(_: _Unpickler) -> None:
        raise PhasorError(f"the pickle has the opcode {opcode}, which no tensor needs: refused, nothing was run")
    return refuse


def _with_plain_keys(load: Callable[[_Unpickler], None], pairs: bool, single: bool = False) -> Callable[[_Unpickler], None]:
    """The opcode, after the keys that it takes from the stack were seen to be text or numbers: others could hash without end."""
    def checked(self: _Unpickler) -> None:
        _check_keys(self.stack[-2:-1] if single else self.stack[::2] if pairs else self.stack)
        load(self)
    return checked


def _dispatch() -> dict[int, Callable[[_Unpickler], None]]:
    known = pickle._Unpickler.dispatch
    out = {getattr(pickle, name)[0]: known[getattr(pickle, name)[0]] for name in _OPCODES}
    for name, pairs, single in (("SETITEM", True, True), ("SETITEMS", True, False), ("DICT", True, False), ("ADDITEMS", False, False),
                                ("FROZENSET", False, False)):
        code = getattr(pickle, name)[0]
        out[code] = _with_plain_keys(known[code], pairs, single)
    return {**out, **{getattr(pickle, name)[0]: _refuse(name) for name in _REFUSED}}


_Unpickler.dispatch = _dispatch()


def _unpickle(file: BinaryIO, storage: Callable[[str, str, int], _Storage], what: str) -> Any:
    """The value of the pickle that begins here, of plain containers, numbers, text and tensors; the file stands behind it."""
    try:
        return _Unpickler(file, storage).load()
    except PhasorError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way; none of them has run code of the file
        raise PhasorError(f"{what} is damaged: {type(error).__name__}: {_printable(str(error))}") from error


# ---- PyTorch's zip ---------------------------------------------------------------------------------------------------


def _records(path: Path) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """The zip's records by their names below the archive's folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, struct.error, ValueError) as error:
        raise PhasorError(f"the zip file is damaged: {error}") from error
    pickles = [i.filename for i in infos if i.filename.split("/", 1)[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise PhasorError("a zip file without one data.pkl: not a file of torch.save")
    folder = pickles[0][:-len("data.pkl")]
    records = {i.filename[len(folder):]: i for i in infos if i.filename.startswith(folder)}
    if "constants.pkl" in records or any(name.startswith("code/") for name in records):
        raise PhasorError("a TorchScript archive (a program, not weights); save its state_dict")
    return records, folder


def _record_bytes(whole: np.ndarray, info: zipfile.ZipInfo) -> np.ndarray:
    """The bytes of a record where they lie in the mapped file."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise PhasorError(f"{info.filename}: a compressed record is not built yet")
    header = whole[info.header_offset:info.header_offset + 30].tobytes()
    if len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise PhasorError(f"{info.filename}: the zip file is damaged")
    start = info.header_offset + 30 + sum(struct.unpack_from("<HH", header, 26))
    if start + info.file_size > whole.size:
        raise PhasorError(f"{info.filename}: the file is cut off")
    return whole[start:start + info.file_size]


def _zip_content(path: Path) -> Any:
    records, _ = _records(path)
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    if "byteorder" in records and _record_bytes(whole, records["byteorder"]).tobytes().strip() != b"little":
        raise PhasorError("a file with big-endian storages is not built yet")

    def storage(kind: str, name: str, count: int) -> _Storage:
        info = records.get(f"data/{name}")
        dtype = _STORAGES[kind]
        if info is None:
            raise PhasorError(f"the storage data/{name} is missing")
        data = _record_bytes(whole, info)
        if count < 0 or count * _item_bytes(dtype) != data.size:
            raise PhasorError(f"the storage data/{name} has {data.size} bytes, not {count} elements")
        return _Storage(data, dtype)

    if records["data.pkl"].file_size > _MAX_PICKLE:
        raise PhasorError("data.pkl is larger than any state_dict's")
    return _unpickle(io.BytesIO(_record_bytes(whole, records["data.pkl"]).tobytes()), storage, "data.pkl")


# ---- PyTorch's old format --------------------------------------------------------------------------------------------
# Five pickles one after the other: magic number, protocol, the writer's machine, the content, the keys of the storages; then each
# storage in the order of the keys: its number of elements (int64), its elements. Nothing else guards the content, so it must agree
# with itself: every storage is used, and the tensors reach over the whole of it.


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
                raise PhasorError(f"the storage {name} is said to have {count} elements, more than the file")
            out = _Storage(np.broadcast_to(np.zeros(1, np.uint8), size), dtype)
            if self.storages.setdefault(name, out)[1:] != out[1:] or self.storages[name].data.size != size:
                raise PhasorError(f"the storage {name} has two sizes or two types")
            return out

        return storage

    def place(self, whole: np.ndarray, at: int, keys: Any) -> None:
        """Finds each storage after the last pickle."""
        if not isinstance(keys, list) or not all(isinstance(k, str) for k in keys) or sorted(keys) != sorted(self.storages):
            raise PhasorError("the storages' keys are not those of the tensors: the file is damaged")
        for key in keys:
            data = self.storages[key].data
            counted = whole[at:at + 8].tobytes()
            if len(counted) == 8 and int.from_bytes(counted, "little") * _item_bytes(self.storages[key].dtype) != data.size:
                raise PhasorError(f"the storage {key} has another size than its tensors say: the file is damaged")
            if at + 8 + data.size > whole.size:
                raise PhasorError(f"the storage {key} is cut off")
            self.lies[key] = whole[at + 8:at + 8 + data.size]
            at += 8 + data.size
        if at != whole.size:
            raise PhasorError(f"{whole.size - at} bytes follow the last storage: the file is damaged")

    def placed(self, kind: str, name: str, count: int) -> _Storage:
        """For the second reading."""
        return _Storage(self.lies[name], _STORAGES[kind])

    def check_cover(self, content: Any) -> None:
        """Together, the tensors of a storage must reach from its first element to its last."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for tensor in _tensors(content):
            first, last = tensor.offset, tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides))
            if all(tensor.shape):
                spans.setdefault(tensor.data.ctypes.data, []).append((first, last))
        for key, data in self.lies.items():
            reached = 0
            for first, last in sorted(spans.get(data.ctypes.data, ())):
                reached = max(reached, last + 1) if first <= reached else reached
            if reached * _item_bytes(self.storages[key].dtype) != data.size:
                raise PhasorError(f"the tensors do not cover the storage {key}: the file is damaged, or saved from views (clone them before torch.save)")


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
    whole, legacy = np.memmap(path, dtype=np.uint8, mode="r"), _Legacy()
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as file:
        magic = _unpickle(file, _no_storage, "the magic number")
        protocol = _unpickle(file, _no_storage, "the protocol")
        machine = _unpickle(file, _no_storage, "the description of the writer's machine")
        if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
            raise PhasorError(f"PyTorch's old format, but not of protocol {_LEGACY_PROTOCOL}")
        if not isinstance(machine, dict) or machine.get("protocol_version") != _LEGACY_PROTOCOL or machine.get("little_endian") is not True:
            raise PhasorError("a file with big-endian storages is not built yet, or the file is damaged")
        begin = file.tell()
        _unpickle(file, legacy.announced(whole.size), "the pickle of the tensors")
        keys = _unpickle(file, _no_storage, "the list of storages")
        legacy.place(whole, file.tell(), keys)
        file.seek(begin)
        content = _unpickle(file, legacy.placed, "the pickle of the tensors")
    legacy.check_cover(content)
    return content


# ---- The content -----------------------------------------------------------------------------------------------------


def _state_dict(content: Any, key: str | None) -> dict[str, Stored]:
    """The tensors of the state_dict: `content` itself, its entry `key`, or the usual entry when it is nested in one."""
    if key is not None:
        if not isinstance(content, dict) or key not in content:
            raise PhasorError(f"there is no entry {key!r} in the file")
        content = content[key]
    elif isinstance(content, dict) and not any(isinstance(v, Stored) for v in content.values()):
        content = next((content[name] for name in _WRAPPERS if isinstance(content.get(name), dict)), content)
    if not isinstance(content, dict):
        raise PhasorError("the file does not hold a state_dict")
    out = {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Stored)}
    if not out:
        raise PhasorError("the state_dict has no tensors (is it nested? then say [checkpoint] key)")
    return out
