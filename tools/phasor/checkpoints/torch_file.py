"""Files of torch.save (.pt, .pth, .bin): raw storages and one pickle that says which tensor views
which storage. A zip since PyTorch 1.6, pickles followed by storages before. Storages are mapped,
not read."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from phasor.checkpoints.pickles import Storage, Storages, no_storage, unpickle, walk
from phasor.checkpoints.tensors import STORAGES, Stored, check_apart, item_bytes
from phasor.errors import Damaged, PhasorError, printable, shown
from phasor.files import map_bytes, open_regular

_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_LEGACY_START = _LEGACY_MAGIC.to_bytes(10, "little")
_MAX_PICKLE = 8 << 20  # bytes: 50,000 tensors; each may become a hundred bytes of memory
_MAX_DIRECTORY = 32 << 20  # of a zip file


def is_torch_file(start: bytes) -> bool:
    """By the first bytes of a file."""
    return start[:4] == b"PK\x03\x04" or start[:1] == b"\x80" and _LEGACY_START in start


def content(path: Path, start: bytes) -> Any:
    """All that a file which begins so holds, as plain containers with its tensors."""
    return _zip_content(path) if start[:1] == b"P" else _legacy_content(path)


# ---- PyTorch's zip


def zip_records(path: Path) -> list[zipfile.ZipInfo]:
    """The directory of a zip file."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(_BoundedReads(file)) as archive:
            return archive.infolist()
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        UnicodeDecodeError,
        struct.error,
        ValueError,
        OverflowError,
    ) as error:
        raise Damaged(f"the zip file is damaged: {printable(str(error))}") from error


def _records(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The zip's records by their names below the archive's folder."""
    infos = zip_records(path)
    pickles = [i.filename for i in infos if i.filename.split("/", 1)[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise PhasorError(
            "a zip file without one data.pkl: not a file of torch.save; unpack it, and give what is"
            " in it"
        )
    folder = pickles[0][: -len("data.pkl")]
    records = {}
    for info in infos:
        if not info.filename.startswith(folder):
            continue
        name = info.filename[len(folder) :]
        if name in records:
            raise Damaged(f"{printable(info.filename)}: is there twice")
        records[name] = info
    if "constants.pkl" in records or any(name.startswith("code/") for name in records):
        raise PhasorError("a TorchScript archive (a program, not weights); save its state_dict")
    return records


class _BoundedReads(io.BufferedReader):
    """zipfile reads the directory, as long as its end says it is, in one piece."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file.raw)

    def read(self, size: int | None = -1) -> bytes:
        wanted = _MAX_DIRECTORY + 1 if size is None or size < 0 else size
        if size is not None and size > _MAX_DIRECTORY:
            raise Damaged(
                f"the zip file's directory is said to have {size} bytes, more than any file of "
                "torch.save has"
            )
        return super().read(wanted)


def place_of(whole: np.ndarray, info: zipfile.ZipInfo) -> tuple[int, int]:
    """Where the bytes of a record begin and end."""
    name = printable(info.filename)
    if info.compress_type != zipfile.ZIP_STORED:
        raise PhasorError(
            f"{name}: a compressed record is not supported: save it without compression"
        )
    if info.flag_bits & 1:
        raise PhasorError(
            f"{name}: an encrypted record is not supported: save it without a password"
        )
    header = (
        whole[info.header_offset : info.header_offset + 30].tobytes()
        if 0 <= info.header_offset < whole.size
        else b""
    )
    if len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise Damaged(f"{name}: the zip file is damaged")
    start = info.header_offset + 30 + sum(struct.unpack_from("<HH", header, 26))
    if start + info.file_size > whole.size:
        raise Damaged(f"{name}: the file is cut off")
    return start, start + info.file_size


def _zip_content(path: Path) -> Any:
    records, whole = _records(path), map_bytes(path)
    pickled = records["data.pkl"].file_size
    if pickled > _MAX_PICKLE:
        raise PhasorError(
            f"data.pkl has {pickled} bytes and is larger than any state_dict's, {_MAX_PICKLE}"
        )
    places = {name: place_of(whole, info) for name, info in records.items()}
    check_apart((*place, name) for name, place in places.items())

    def record(name: str) -> np.ndarray:
        return whole[slice(*places[name])]

    order = record("byteorder")[:16].tobytes() if "byteorder" in places else b"little"
    if order == b"big":
        raise PhasorError(
            "a file with big-endian storages is not supported: save it on a little-endian machine"
        )
    if order != b"little":
        raise PhasorError(f"byteorder says {shown(order.decode('latin-1'))}, expected little")
    dtypes: dict[str, str] = {}

    def storage(kind: str, key: str, count: int) -> Storage:
        name = f"data/{key}"
        if name not in places:
            raise Damaged(f"the storage {printable(name)} is missing")
        data, dtype = record(name), STORAGES[kind]
        if dtypes.setdefault(key, dtype) != dtype:  # torch would take the first one for both
            raise Damaged(f"the storage {printable(key)} has two types")
        if count * item_bytes(dtype) != data.size:
            raise Damaged(
                f"the storage {printable(name)} has {data.size} bytes, not {count} elements"
            )
        return Storage(data, dtype)

    return unpickle(io.BytesIO(record("data.pkl").tobytes()), storage, "data.pkl")


# ---- PyTorch's old format
#
# Five pickles one after the other: magic number, protocol, the writer's machine, the content, the
# keys of the storages; then each storage in the order of the keys: its number of elements (int64),
# its elements. Nothing else guards the content, so it must agree with itself: every storage is
# used, and the tensors reach over the whole of it.


class _Legacy:
    """The storages of the content, first as it says they are, then where they lie."""

    def __init__(self) -> None:
        self.storages: dict[str, Storage] = {}
        self.lies: dict[str, np.ndarray] = {}

    def announced(self, limit: int) -> Storages:
        """For the first reading: each storage has its size and no bytes (one that is repeated)."""

        def storage(kind: str, name: str, count: int) -> Storage:
            dtype = STORAGES[kind]
            size = count * item_bytes(dtype)
            if not 0 <= size <= limit:
                raise Damaged(
                    f"the storage {printable(name)} is said to have {count} elements, more than "
                    "the file"
                )
            out = Storage(np.broadcast_to(np.zeros(1, np.uint8), size), dtype)
            if (
                self.storages.setdefault(name, out)[1:] != out[1:]
                or self.storages[name].data.size != size
            ):
                raise Damaged(f"the storage {printable(name)} has two sizes or two types")
            return out

        return storage

    def place(self, whole: np.ndarray, at: int, keys: Any) -> None:
        """Finds each storage after the last pickle."""
        if (
            not isinstance(keys, list)
            or not all(isinstance(k, str) for k in keys)
            or sorted(keys) != sorted(self.storages)
        ):
            raise Damaged("the storages' keys are not those of the tensors: the file is damaged")
        for key in keys:
            data = self.storages[key].data
            counted = whole[at : at + 8].tobytes()
            if (
                len(counted) == 8
                and int.from_bytes(counted, "little") * item_bytes(self.storages[key].dtype)
                != data.size
            ):
                raise Damaged(
                    f"the storage {printable(key)} has another size than its tensors say: the file "
                    "is damaged"
                )
            if at + 8 + data.size > whole.size:
                raise Damaged(f"the storage {printable(key)} is cut off")
            self.lies[key] = whole[at + 8 : at + 8 + data.size]
            at += 8 + data.size
        if at != whole.size:
            raise Damaged(f"{whole.size - at} bytes follow the last storage: the file is damaged")

    def placed(self, kind: str, name: str, count: int) -> Storage:
        """For the second reading."""
        return Storage(self.lies[name], STORAGES[kind])

    def check_cover(self, content: Any) -> None:
        """Together, the tensors of a storage must reach from its first element to its last."""
        spans: dict[Any, Any] = {}
        for tensor in walk(content):
            if isinstance(tensor, Stored) and all(tensor.shape):
                place = tensor.data.ctypes.data
                spans.setdefault(place, []).append((tensor.offset, tensor.last))
        for key, data in self.lies.items():
            reached = 0
            for first, last in sorted(spans.get(data.ctypes.data, ())):
                reached = max(reached, last + 1) if first <= reached else reached
            if reached * item_bytes(self.storages[key].dtype) != data.size:
                raise PhasorError(
                    f"the tensors do not cover the storage {printable(key)}: the file is damaged, "
                    "or saved from views (clone them before torch.save)"
                )


def _legacy_content(path: Path) -> Any:
    whole, legacy = map_bytes(path), _Legacy()
    with io.BytesIO(whole[:_MAX_PICKLE].tobytes()) as file:  # the pickles are before the storages
        magic = unpickle(file, no_storage, "the magic number")
        protocol = unpickle(file, no_storage, "the protocol")
        machine = unpickle(file, no_storage, "the description of the writer's machine")
        if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
            raise PhasorError(
                f"PyTorch's old format, but not of protocol {_LEGACY_PROTOCOL}: save it again"
            )
        if (
            not isinstance(machine, dict)
            or machine.get("protocol_version") != _LEGACY_PROTOCOL
            or machine.get("little_endian") is not True
        ):
            raise PhasorError(
                "a file with big-endian storages is not supported, or the file is damaged"
            )
        begin = file.tell()
        unpickle(file, legacy.announced(whole.size), "the pickle of the tensors")
        keys = unpickle(file, no_storage, "the list of storages")
        legacy.place(whole, file.tell(), keys)
        file.seek(begin)
        content = unpickle(file, legacy.placed, "the pickle of the tensors")
    legacy.check_cover(content)
    return content
