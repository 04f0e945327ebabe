"""The bytes of a pattern in a tokenizer's section (docs/reference/file-format.md, TOKENIZER)."""

from __future__ import annotations

import functools
import struct
from typing import Iterator, NamedTuple

import numpy as np

from phasor.tokenizers.patterns import charsets, dfa, memo, nfa, syntax, tree
from phasor.tokenizers.patterns.dfa import ACCEPTS, NOT_UTF8
from phasor.tokenizers.patterns.scanner import FANCY
from phasor.tokenizers.unicode import SETS

# What becomes of the matches, as Split names it, and bits beside it.
BEHAVIORS = ("removed", "isolated", "mergedwithprevious", "mergedwithnext", "contiguous")
INVERTED, BYTEWISE = 8, 16


class Pattern(NamedTuple):
    classes: np.ndarray  # (0x110000) u8
    rows: np.ndarray  # (states, classes + 1) u16: row 0 has the first states
    marks: np.ndarray  # (states) u8

    def of_one_character(self, runs: bool = False) -> np.ndarray | None:
        """(0x110000) bool: the characters that it matches, where it matches one at a time whatever
        stands around them, or with `runs` as many as there are; else None."""
        begin = {int(state) for state in self.rows[0]}
        if len(begin) != 1:
            return None
        ends = self.rows[begin.pop()]
        for step in {int(s) for s in ends[:-1]} - {0}:
            behind = self.rows[step & (ACCEPTS - 1)]
            more = np.where(ends != 0, step | ACCEPTS, ACCEPTS)
            alone = (behind == ACCEPTS).all() or (runs and (behind == more).all())
            if step & ACCEPTS or not alone:
                return None
        return ends[self.classes] != 0 if ends[-1] == 0 else None

    def slots(self) -> int:
        return int((self.marks >= memo.FIRST_SLOT).sum())

    def of_bytes(self, letters: str) -> Pattern:
        """The pattern of a text of letters, for the text of bytes that they stand for."""
        classes = np.zeros_like(self.classes)
        classes[:256] = self.classes[[ord(letter) for letter in letters]]
        classes[256:] = classes[255]
        return self._replace(classes=classes)

    def segments(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Matches and what is between them, as the package's iterator has them: by the definition
        of the table, searches without memo slots, for short texts."""
        codes = [ord(c) for c in text]
        done = at = 0
        last = None
        while at <= len(codes):
            end = self._match(codes, at)
            if end is None or (end == at and at == last):
                at += 1
                continue
            if at > done:
                yield done, at, False
            yield at, end, True
            done = at = last = end
        if done < len(codes):
            yield done, len(codes), False

    def _match(self, codes: list[int], at: int) -> int | None:
        """The end of the match that begins at a place."""
        end = self.rows.shape[1] - 1
        state = int(self.rows[0, self.classes[codes[at - 1]] if at else end])
        found = None
        while state:
            step = int(self.rows[state, self.classes[codes[at]] if at < len(codes) else end])
            if step & ACCEPTS:
                found = at
            state = step & (ACCEPTS - 1)
            at += 1
        return found

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


def compiled(text: str, dialect: str) -> Pattern:
    """PatternError names what the pattern has that no table of states can do."""
    return compiled_with_least(text, dialect)[0]


@functools.lru_cache(maxsize=64)
def compiled_with_least(text: str, dialect: str) -> tuple[Pattern, int]:
    """The pattern, and the fewest characters of a match."""
    node = syntax.parse(text, dialect)
    if dialect == FANCY and tree.nullable(node):
        tree.refuse("a pattern that may match nothing")  # an error in tiktoken
    return _of_tree(node), tree.least(node)


def literal(text: str) -> Pattern:
    """A text as it is."""
    return _of_tree(tree.Cat(tuple(tree.Set(charsets.of_text(c)) for c in text)))


@functools.lru_cache(maxsize=1)
def scripts() -> Pattern:
    """Stretches of one script, with what has none inside and behind; what has none before the first
    is in no match."""
    sets = [charsets.union(runs) for name, runs in SETS.items() if name.startswith("script ")]
    none = charsets.negated(charsets.union(run for runs in sets for run in runs))
    ways = []
    for runs in sets:
        more = tree.Repeat(tree.Set(charsets.union((*runs, *none))), 0, None, True)
        ways.append(tree.Cat((tree.Set(runs), more)))
    return _of_tree(tree.Alt(tuple(ways)))


def one_of(members: np.ndarray, most: int = 1) -> Pattern:
    """1 to `most` characters of a (0x110000) bool."""
    return _of_tree(tree.Repeat(tree.Set(charsets.of_array(members)), 1, most, True))
