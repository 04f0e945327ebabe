"""Sets of characters as sorted runs of code points: ((first, last), …), none of which touch."""

from __future__ import annotations

import functools
from typing import Iterable

import numpy as np

from phasor.tokenizers.patterns import unicode

Runs = tuple[tuple[int, int], ...]
LAST = 0x10FFFF
EVERY: Runs = ((0, LAST),)
NONE: Runs = ()


def union(runs: Iterable[tuple[int, int]]) -> Runs:
    out: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return tuple(out)


def negated(runs: Runs) -> Runs:
    out, at = [], 0
    for first, last in runs:
        if first > at:
            out.append((at, first - 1))
        at = last + 1
    if at <= LAST:
        out.append((at, LAST))
    return tuple(out)


def both(a: Runs, b: Runs) -> Runs:
    return negated(union((*negated(a), *negated(b))))


def of_text(text: str) -> Runs:
    return union((ord(c), ord(c)) for c in text)


def contains(runs: Runs, code: int) -> bool:
    return any(first <= code <= last for first, last in runs)


def of_array(members: np.ndarray) -> Runs:
    """Of a (0x110000) bool."""
    edges = np.flatnonzero(np.diff(members.astype(np.int8), prepend=0, append=0))
    return tuple((int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2]))


@functools.lru_cache(maxsize=None)
def named(name: str, fancy: bool) -> Runs:
    return of_array(unicode.members(name, fancy))


@functools.lru_cache(maxsize=None)
def _groups(fancy: bool) -> tuple[Runs, ...]:
    return tuple({of_text(group) for group in unicode.folds(fancy).values()})


@functools.lru_cache(maxsize=256)
def folded(runs: Runs, fancy: bool) -> Runs:
    """With every character that is the same as one of them without case."""
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        c = chr(runs[0][0])
        return of_text(unicode.folds(fancy).get(c, c))
    members = np.zeros(LAST + 2, dtype=bool)
    for first, last in runs:
        members[first : last + 1] = True
    more = [
        group
        for group in _groups(fancy)
        if any(members[first : last + 1].any() for first, last in group)
    ]
    return union((*runs, *(run for group in more for run in group)))
