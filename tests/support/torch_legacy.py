"""Writes the format of torch.save before PyTorch 1.6 without PyTorch, so that tests can also write
what torch never would."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np

import torch_zip

MAGIC = 0x1950A86A20F9469CFC6C
MACHINE = {
    "protocol_version": 1001,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


def reference(kind: str, storage: str, count: int) -> bytes:
    """The opcodes of a persistent id, whose last part (a view of the storage) is None."""
    return (
        b"("
        + torch_zip.text("storage")
        + b"ctorch\n"
        + kind.encode()
        + b"\n"
        + torch_zip.text(storage)
        + torch_zip.text("cpu")
        + torch_zip.number(count)
        + b"NtQ"
    )


def tensor(
    array: np.ndarray,
    storage: str,
    kind: str | None = None,
    offset: int = 0,
    shape=None,
    strides=None,
    count: int | None = None,
) -> bytes:
    strides = [s // array.itemsize for s in array.strides] if strides is None else strides
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + reference(
            kind or torch_zip.STORAGES[array.dtype], storage, array.size if count is None else count
        )
        + torch_zip.number(offset)
        + torch_zip.numbers(array.shape if shape is None else shape)
        + torch_zip.numbers(strides)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def write(
    path: Path,
    program: bytes,
    storages: dict[str, np.ndarray],
    magic: int = MAGIC,
    protocol: int = 1001,
    machine=None,
    keys=None,
    more: bytes = b"",
) -> Path:
    out = b"".join(
        pickle.dumps(value, protocol=2)
        for value in (magic, protocol, MACHINE if machine is None else machine)
    )
    out += program + pickle.dumps(list(storages) if keys is None else keys, protocol=2)
    for array in storages.values():
        out += struct.pack("<q", array.size) + array.tobytes()
    path.write_bytes(out + more)
    return path


def save(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """What torch.save(state_dict, _use_new_zipfile_serialization=False) says for these arrays."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    program = torch_zip.state_dict(
        {name: tensor(array, str(i)) for i, (name, array) in enumerate(arrays.items())}
    )
    return write(path, program, {str(i): array for i, array in enumerate(arrays.values())})
