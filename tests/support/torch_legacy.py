"""Writes the format of torch.save before PyTorch 1.6 without PyTorch, so that tests can also write
what torch never would."""

from __future__ import annotations

import functools
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


tensor = functools.partial(torch_zip.tensor, view=b"N")  # no storage is a view of another


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
