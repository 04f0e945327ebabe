"""The bytes of a pattern in a tokenizer's section (docs/format.md, TOKENIZER)."""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple

import numpy as np

from phasor.tokenizers.patterns import charsets, dfa, memo, nfa, syntax, tree
from phasor.tokenizers.patterns.dfa import NOT_UTF8
from phasor.tokenizers.patterns.scanner import FANCY

# What becomes of the matches, as Split names it, and bits beside it.
BEHAVIORS = ("removed", "isolated", "mergedwithprevious", "mergedwithnext", "contiguous")
INVERTED, BYTEWISE = 8, 16


class Pattern(NamedTuple):
    classes: np.ndarray  # (0x110000) u8
    rows: np.ndarray  # (states, classes + 1) u16: row 0 has the first states
    marks: np.ndarray  # (states) u8

    def slots(self) -> int:
        return int((self.marks >= memo.FIRST_SLOT).sum())

    def of_bytes(self, letters: str) -> Pattern:
        """The pattern of a text of letters, for the text of bytes that they stand for."""
        classes = np.zeros_like(self.classes)
        classes[:256] = self.classes[[ord(letter) for letter in letters]]
        classes[256:] = classes[255]
        return self._replace(classes=classes)

    def bytes(self, behavior: int) -> bytes:
        """behavior: a place in BEHAVIORS, with bits beside it."""
        of = self.classes
        edges = [128, *(np.flatnonzero(np.diff(of[128:])) + 129).tolist()]
        runs = np.array([edge << 8 | int(of[edge]) for edge in edges], dtype="<u4")
        states, columns = self.rows.shape
        parts = (
            struct.pack("<HBBI", states, columns - 1, self.slots(), len(runs)),
            struct.pack("<BBH", behavior, int(of[NOT_UTF8]), 0),
            of[:128].tobytes(),
            runs.tobytes(),
            self.rows.astype("<u2").tobytes(),
            self.marks.tobytes(),
        )
        data = b"".join(parts)
        return data + bytes(-len(data) % 4)


def _of_tree(node) -> Pattern:
    table = dfa.build(nfa.Machine(node))
    return Pattern(table.classes, table.rows, memo.marks(table.rows))


@functools.lru_cache(maxsize=64)
def compiled(text: str, dialect: str) -> Pattern:
    """PatternError names what the pattern has that no table of states can do."""
    node = syntax.parse(text, dialect)
    if dialect == FANCY and tree.nullable(node):
        tree.refuse("a pattern that may match nothing")  # an error in tiktoken
    return _of_tree(node)


def literal(text: str) -> Pattern:
    """A text as it is."""
    return _of_tree(tree.Cat(tuple(tree.Set(charsets.of_text(c)) for c in text)))


def one_of(members: np.ndarray, most: int = 1) -> Pattern:
    """1 to `most` characters of a (0x110000) bool."""
    return _of_tree(tree.Repeat(tree.Set(charsets.of_array(members)), 1, most, True))
