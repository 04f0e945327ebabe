"""Arrays of NumPy: .npy files of version 1, and the .npz of numpy.savez, a zip of them. Their heads
are compared with the only form that there is, and not evaluated; values are mapped, not read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from phasor.checkpoints.tensors import (
    SAFETENSORS,
    Checkpoint,
    Stored,
    check_apart,
    check_view,
    contiguous,
)
from phasor.checkpoints.torch_file import place_of, zip_records
from phasor.errors import Damaged, PhasorError, named, printable
from phasor.files import map_bytes

_HEAD = re.compile(
    rb"\{'descr': '([<>|=]?[a-z]\d{1,3})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,60})\), \} *\n?"
)
_MOST_ARRAYS = 4096


def array(data: np.ndarray) -> Stored:
    """The array of a .npy file's bytes. PhasorError for another file, and for other elements than
    a checkpoint's."""
    start = data[:10].tobytes()
    if start[:7] != b"\x93NUMPY\x01":
        raise PhasorError("cannot be read as a NumPy array: not a .npy file of version 1")
    begin = 10 + int.from_bytes(start[8:10], "little")
    head = _HEAD.fullmatch(data[10:begin].tobytes())
    if head is None:
        raise Damaged("cannot be read as a NumPy array: its head is not one")
    kind = head[1].decode().replace("|", "")
    shape = tuple(int(part) for part in head[3].decode().replace(" ", "").split(",") if part)
    if kind not in SAFETENSORS.values():
        raise PhasorError(f"has elements of type {kind}, expected numbers of up to 64 bits")
    if data.size - begin != check_view(kind, shape):
        raise Damaged(f"has {data.size - begin:,} bytes, shape {shape} of {kind} has others")
    strides = contiguous(shape[::-1])[::-1] if head[2] == b"True" else contiguous(shape)
    # From its storage's beginning, whatever the head's length is.
    return Stored(data[begin:], kind, shape, strides, 0)


def is_npz(path: Path, start: bytes) -> bool:
    """Whether a file that begins so is a zip of .npy files, and none of torch.save."""
    if not start.startswith(b"PK\x03\x04"):
        return False
    names = [info.filename for info in zip_records(path)]
    return bool(names) and all(name.endswith(".npy") for name in names)


def read(path: Path) -> Checkpoint:
    """The arrays of a .npz by name. PhasorError names the file and the array."""
    try:
        infos = zip_records(path)
        whole, tensors, places = map_bytes(path), {}, []
        if len(infos) > _MOST_ARRAYS:
            raise PhasorError(f"{len(infos)} arrays, expected at most {_MOST_ARRAYS}")
        for info in infos:
            name = info.filename.removesuffix(".npy")
            if name in tensors:
                raise Damaged(f"{printable(info.filename)}: is there twice")
            begin, end = place_of(whole, info)
            places.append((begin, end, name))
            try:
                tensors[name] = array(whole[begin:end])
            except PhasorError as error:
                raise PhasorError(f"{printable(name)}: {error}") from error
        check_apart(places)
    except PhasorError as error:
        raise named(path, error) from error
    return Checkpoint(path, tensors)
