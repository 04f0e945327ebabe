"""The RECORD section of a weight file, read as file-format.md says."""

from __future__ import annotations

import numpy as np

from phasor.errors import PhasorError
from phasor.format import record


def read_record(section: bytes) -> record.Record:
    """PhasorError where the section is not sound."""
    if len(section) < record.HEAD.size:
        raise PhasorError("record: the section is too short")
    head = record.HEAD.unpack_from(section)
    rows, samples, divergence, numerics, source, calibration, text = head
    method = text.rstrip(b"\0")
    width = 2 * samples + 1
    sound = (
        len(section) == record.HEAD.size + 4 * rows * width
        and (rows == 0) == (samples == 0)
        and (rows != 0 or numerics == 0)
        and 0 <= divergence < np.inf
        and method.isascii()
        and method.decode("latin-1").isprintable()
        and method != b""
    )
    if not sound:
        raise PhasorError("record: the section is not sound")
    outputs = np.frombuffer(section, "<u4", offset=record.HEAD.size)
    outputs = outputs.reshape(rows, width if rows else 0)
    return record.Record(source, method.decode("ascii"), calibration, outputs, divergence, numerics)
