"""The classes of characters that a section has (file-format.md, TOKENIZER), from the package's own
tables of Unicode. Needs numpy only.
"""

from __future__ import annotations

from typing import Iterable

import numpy as np

from phasor.tokenizers import unicode

SPACE, LETTER, NUMBER, WORD, PUNCTUATION, REMOVED, PADDED, HANGUL = (1 << bit for bit in range(8))


def characters(*names: str) -> np.ndarray:
    """(0x110000) bool: the characters of some sets of the package's table."""
    return of_ranges(run for name in names for run in unicode.SETS[name])


def of_ranges(ranges: Iterable[tuple[int, int]]) -> np.ndarray:
    out = np.zeros(0x110000, dtype=bool)
    for first, last in ranges:
        out[first : last + 1] = True
    return out


def class_runs(bits: dict[str, int], more: Iterable[tuple[int, np.ndarray]] = ()) -> bytes:
    """The runs of characters of the same classes; bits: set of the package's table → class, more:
    (class, its characters)."""
    classes = np.zeros(0x110000, dtype=np.uint32)
    for bit, members in (*((bit, characters(name)) for name, bit in bits.items()), *more):
        classes[members] |= np.uint32(bit)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(classes)) + 1])
    result: bytes = (starts.astype(np.uint32) | classes[starts] << 21).astype("<u4").tobytes()
    return result
