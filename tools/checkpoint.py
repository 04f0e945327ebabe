"""Named tensors of a checkpoint: a PyTorch zip file (.pt, .pth, .bin) or safetensors. numpy only, and no code of a file ever runs.

A PyTorch file is a zip of raw storages and one pickle that says which tensor views which storage. The pickle is read with
an unpickler that knows a handful of names; any other global is refused by its name. Storages are mapped, not read.
"""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from phasor_layout import PhasorError

_STORAGES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "bf16", "LongStorage": "<i8",
             "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?"}
_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf16", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
                "U8": "u1", "BOOL": "?"}
_FLOATS = ("<f4", "<f8", "<f2", "bf16")
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C.to_bytes(10, "little")
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_MAX_PICKLE = 256 << 20


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
            raise PhasorError("is a directory, expected a file")
        with open(path, "rb") as file:
            start = file.read(64)
        if not start:
            raise PhasorError("the file is empty")
        if start[:4] == b"PK\x03\x04":
            return Checkpoint(path, _read_torch(path, key))
        if start[:1] == b"\x80" and _LEGACY_MAGIC in start:
            raise PhasorError("PyTorch's old format (before 1.6) is not built yet; load it and save it again with torch.save")
        if len(start) > 9 and start[8:9] == b"{":
            return Checkpoint(path, _read_safetensors(path))
        raise PhasorError("neither a PyTorch zip file nor safetensors")
    except PhasorError as error:
        raise PhasorError(f"{path}: {error}") from error
    except OSError as error:
        raise PhasorError(f"{path}: cannot be read: {error.strerror}") from error


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
            item = np.dtype("<u2" if dtype == "bf16" else dtype).itemsize
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


# ---- PyTorch's zip ---------------------------------------------------------------------------------------------------


class _Storage(NamedTuple):
    data: np.ndarray
    dtype: str


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


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Stored:
    """torch._utils._rebuild_tensor_v2: a view, its bounds checked."""
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise PhasorError("the pickle describes a tensor that cannot be")
    item = np.dtype("<u2" if storage.dtype == "bf16" else storage.dtype).itemsize
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0
    if (last + 1) * item > storage.data.size and all(shape):
        raise PhasorError("a tensor reaches beyond its storage")
    if _product(tuple(shape)) * item > max(storage.data.size, 1) and all(shape):
        raise PhasorError("a tensor that repeats its storage is not built yet")
    return Stored(storage.data, storage.dtype, tuple(shape), tuple(strides), offset)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, storage: Callable[[str, str, int], _Storage]) -> None:
        super().__init__(io.BytesIO(data))
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _StateDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Callable(_rebuild_tensor)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _Callable(lambda tensor, *_: tensor)
        if (module, name) == ("torch", "Size"):
            return _Callable(lambda shape: tuple(shape))
        if module == "torch" and name in _STORAGES:
            return name
        raise PhasorError(f"the pickle asks for {module}.{name}, which is not a tensor: refused, nothing was run")

    def persistent_load(self, pid: Any) -> _Storage:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or pid[1] not in _STORAGES \
                or not isinstance(pid[2], str) or not isinstance(pid[4], int):
            raise PhasorError("the pickle has a reference that is not a storage")
        return self._storage(pid[1], pid[2], pid[4])


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


def _read_torch(path: Path, key: str | None) -> dict[str, Stored]:
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
        if count < 0 or count * np.dtype("<u2" if dtype == "bf16" else dtype).itemsize != data.size:
            raise PhasorError(f"the storage data/{name} has {data.size} bytes, not {count} elements")
        return _Storage(data, dtype)

    if records["data.pkl"].file_size > _MAX_PICKLE:
        raise PhasorError("data.pkl is larger than any state_dict's")
    text = _record_bytes(whole, records["data.pkl"]).tobytes()
    try:
        content = _Unpickler(text, storage).load()
    except PhasorError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way; none of them has run code of the file
        raise PhasorError(f"data.pkl is damaged: {type(error).__name__}: {error}") from error
    return _state_dict(content, key)


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
