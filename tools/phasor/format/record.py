"""The RECORD section: which source a file was made from, how, and how far its outputs are from
those of the source's float weights (file-format.md). numpy only."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np

from phasor.files import open_regular
from phasor.format import descriptor as D

# What was done to the weights, in the order in which the words stand in a record: matrices that the
# source had rounded are kept as they were; inputs are scaled by channel; matrices are rounded to
# their types, weighted by moments of their inputs, or so that later columns make up for earlier
# ones (moments.py --full); types were chosen by what was measured. Or none of it.
EXACT = "exact"
KEPT, SMOOTHED, ROUNDED, MOMENTS, SECOND, MEASURED = METHODS = (
    "kept",
    "smoothed",
    "rounded",
    "moments",
    "second-moments",
    "measured",
)
DIGEST_BYTES, METHOD_BYTES = 32, 64
NO_DIGEST = bytes(DIGEST_BYTES)
HEAD = struct.Struct(f"<IIfI{DIGEST_BYTES}s{DIGEST_BYTES}s{METHOD_BYTES}s")
# Stored places of a row: the likeliest tokens, or places of a vector; of an output of one row more.
_PLACES, _OF_ONE_ROW = 16, 1024
_NOTHING = -1e4  # the logarithm of no probability
_BLOCK = 1 << 20


class Record(NamedTuple):
    """The section. outputs: (rows, 2·samples + 1) u4: places, ascending, then f32 values."""

    source: bytes
    method: str
    calibration: bytes
    outputs: np.ndarray
    divergence: float = 0.0
    numerics: int = 0  # 0: not measured

    def section(self) -> bytes:
        rows, width = self.outputs.shape
        samples = width // 2 if rows else 0
        measured = (rows, samples, self.divergence, self.numerics)
        texts = (self.source, self.calibration, self.method.encode("ascii"))
        return HEAD.pack(*measured, *texts) + self.outputs.astype("<u4").tobytes()


def method_of(done: Iterable[str]) -> str:
    """The words of METHODS that apply, in their order."""
    given = set(done)
    return " ".join(word for word in METHODS if word in given) or EXACT


def digest_of(paths: Sequence[Path]) -> bytes:
    """SHA-256 of a file, as sha256sum prints it; of several files, of their digests in the order of
    their names. Without a file NO_DIGEST."""
    digests = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: (path.name, str(path))):
        found = hashlib.sha256()
        with open_regular(path) as file:
            while block := file.read(_BLOCK):
                found.update(block)
        digests.append(found.digest())
    if len(digests) < 2:
        return digests[0] if digests else NO_DIGEST
    return hashlib.sha256(b"".join(digests)).digest()


def outputs_of(descriptor: dict[str, Any], outputs: Sequence[np.ndarray]) -> np.ndarray:
    """What is stored of the source's output rows (R, W) of each input."""
    kind, width = descriptor["output"]["output"], outputs[0].shape[1]
    one = all(len(rows) == 1 for rows in outputs)
    count = min(width, _OF_ONE_ROW if one and kind != D.LOGITS else _PLACES)
    made = _logarithms if kind == D.LOGITS else _values
    return np.concatenate([made(row, count) for rows in outputs for row in rows])


def _row(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.concatenate([places.astype("<u4"), values.astype("<f4").view("<u4")])[None]


def _logarithms(row: np.ndarray, count: int) -> np.ndarray:
    """The likeliest places; logarithms of their probabilities, and of the others' together."""
    x = row.astype(np.float64)
    x = x - x.max()
    x -= np.log(np.exp(x).sum())
    places = np.sort(np.argsort(-x, kind="stable")[:count])
    rest = np.exp(np.delete(x, places)).sum()
    last = np.log(rest) if rest > 0 else _NOTHING
    return _row(places, np.maximum(np.append(x[places], last), _NOTHING))


def _values(row: np.ndarray, count: int) -> np.ndarray:
    """Places as far apart as the row is long, and their values."""
    places = np.arange(count) * len(row) // count
    return _row(places, np.append(row[places], 0.0))
