"""safetensors: a header in JSON, then the tensors. numpy only."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from phasor.checkpoints.tensors import SAFETENSORS, Stored, check_apart, check_view, contiguous
from phasor.errors import Damaged, PhasorError, printable, shown
from phasor.files import map_bytes, parse_object

MAX_HEADER = 100_000_000  # bytes, the format's own


def read(path: Path) -> dict[str, Stored]:
    """The tensors, in the header's order."""
    data = map_bytes(path)
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    if size > data.size - 8:
        raise Damaged(
            f"safetensors: the header is said to have {size} bytes, the file has {data.size}"
        )
    if size > MAX_HEADER:
        raise PhasorError(
            f"safetensors: the header has {size} bytes, the format allows {MAX_HEADER}"
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
    check_apart(
        ((*header[name]["data_offsets"], name) for name in out),
        "safetensors: ",
    )
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
    if kind not in SAFETENSORS:
        raise PhasorError(
            f"{where} elements of type {shown(kind)} are not supported, expected "
            f"{', '.join(SAFETENSORS)}"
        )
    try:
        size = check_view(SAFETENSORS[kind], tuple(shape), place)
    except PhasorError as error:
        raise Damaged(f"{where} the entry is not sound: it {error}") from error
    begin, end = place
    if begin <= body.size < end:
        raise Damaged(
            f"{where} ends at byte {end}, and the file has {body.size} of them: it is cut off"
        )
    if not begin <= end <= body.size or end - begin != size:
        raise Damaged(
            f"{where} bytes {begin} to {end} do not fit its shape {tuple(shape)} or the file"
        )
    return Stored(body[begin:end], SAFETENSORS[kind], tuple(shape), contiguous(tuple(shape)), 0)
