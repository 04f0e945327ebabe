"""Writes PyTorch's zip format without PyTorch, opcode by opcode, so that tests can also write what
torch never would."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np

STORAGES = {
    np.dtype("<f4"): "FloatStorage",
    np.dtype("<f8"): "DoubleStorage",
    np.dtype("<f2"): "HalfStorage",
    np.dtype("<i8"): "LongStorage",
}


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")  # as pickle does
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def numbers(values) -> bytes:
    return b"(" + b"".join(number(v) for v in values) + b"t"


def tensor(
    array: np.ndarray,
    storage: str,
    kind: str | None = None,
    offset: int = 0,
    shape=None,
    strides=None,
    count: int | None = None,
    view: bytes = b"",
) -> bytes:
    """The opcodes of torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, False,
    OrderedDict()). view: the opcodes of a storage's last part, which the older format has."""
    strides = [s // array.itemsize for s in array.strides] if strides is None else strides
    reference = (
        b"("
        + text("storage")
        + b"ctorch\n"
        + (kind or STORAGES[array.dtype]).encode()
        + b"\n"
        + text(storage)
        + text("cpu")
        + number(array.size if count is None else count)
        + view
        + b"tQ"
    )
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + reference
        + number(offset)
        + numbers(array.shape if shape is None else shape)
        + numbers(strides)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def state_dict(entries: dict[str, bytes]) -> bytes:
    """An OrderedDict of names to opcodes, with the _metadata that modules put on it."""
    body = b"".join(text(name) + value for name, value in entries.items())
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + body + b"u}" + text("_metadata") + b"}sb."


def write_zip(
    path: Path,
    program: bytes,
    storages: dict[str, bytes],
    compression: int = zipfile.ZIP_STORED,
    extra: dict[str, bytes] | None = None,
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", b"little")
        archive.writestr("archive/version", b"3\n")
        for name, data in storages.items():
            archive.writestr(f"archive/data/{name}", data)
        for name, data in (extra or {}).items():
            archive.writestr(f"archive/{name}", data)
    return path


def save(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """What torch.save(state_dict) writes for these arrays."""
    entries, storages = {}, {}
    for i, (name, array) in enumerate(arrays.items()):
        array = np.asarray(array, order="C")
        entries[name], storages[str(i)] = tensor(array, str(i)), array.tobytes()
    return write_zip(path, state_dict(entries), storages)


def save_nested(path: Path, content: dict) -> Path:
    """What torch.save writes for dictionaries in each other, of arrays, numbers, text and None."""
    storages: dict[str, bytes] = {}

    def opcodes(value: object) -> bytes:
        if isinstance(value, dict):
            return (
                b"}("
                + b"".join(opcodes(key) + opcodes(entry) for key, entry in value.items())
                + b"u"
            )
        if isinstance(value, np.ndarray):
            storages[str(len(storages))] = value.tobytes()
            return tensor(np.ascontiguousarray(value), str(len(storages) - 1))
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        return b"N" if value is None else text(value) if isinstance(value, str) else number(value)

    return write_zip(path, b"\x80\x02" + opcodes(content) + b".", storages)


class Evil:
    """An object whose pickle calls os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        import os

        return os.system, (self.command,)


def evil_program(command: str) -> bytes:
    out = io.BytesIO()
    pickle.Pickler(out, protocol=2).dump({"weight": Evil(command)})
    return out.getvalue()
