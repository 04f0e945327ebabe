"""The machine of a pattern as a table of states: a state is an ordered list of the machine's nodes,
cut behind the first that has matched, and what must be known of the character before.

A state's row has an entry for each class of characters and one for the end of the text: the state
behind that character, and whether a match ends before it. So a condition on the next character
costs nothing. Row 0 has the states in which a match begins, by the class of the character before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phasor.tokenizers.patterns import charsets
from phasor.tokenizers.patterns.nfa import AHEAD, BEHIND, MATCHES, TAKES, Machine
from phasor.tokenizers.patterns.tree import refuse

MOST_STATES, MOST_CLASSES = 4096, 255
ACCEPTS = 0x8000
_MOST_RAW = 3 * MOST_STATES  # before equal states are one
_MOST_STEPS = 6_000_000
NOT_UTF8 = 0xFFFD  # a byte that is in no character is as this character
_SURROGATES = (0xD800, 0xDFFF)


class Table(NamedTuple):
    classes: np.ndarray  # (0x110000) u8: of each code point
    rows: np.ndarray  # (states, classes + 1) u16


class _Classes:
    """The characters in classes that no set of the machine divides."""

    def __init__(self, machine: Machine):
        sets = list(machine.sets)
        cuts = {0, _SURROGATES[0], _SURROGATES[1] + 1}
        for runs in sets:
            for first, last in runs:
                cuts |= {first, last + 1}
        self.begins = np.array(sorted(cuts - {charsets.LAST + 1}), dtype=np.int64)
        member = np.zeros((len(self.begins), len(sets)), dtype=np.uint8)
        for number, runs in enumerate(sets):
            for first, last in runs:
                low, high = np.searchsorted(self.begins, (first, last + 1))
                member[low:high, number] = 1
        at = int(np.searchsorted(self.begins, _SURROGATES[0]))  # of no text: as what is before
        member[at : int(np.searchsorted(self.begins, _SURROGATES[1] + 1))] = member[at - 1]
        packed = np.packbits(member, axis=1) if len(sets) else np.zeros((len(member), 1), np.uint8)
        found, self.of_begin = np.unique(packed, axis=0, return_inverse=True)
        self.of_begin = self.of_begin.reshape(-1)
        self.count = len(found)
        if self.count > 1024:
            refuse(f"a pattern with {self.count} classes of characters")
        some = [int(np.flatnonzero(self.of_begin == c)[0]) for c in range(self.count)]
        self.members = [[bool(member[i, s]) for i in some] for s in range(len(sets))]


class _Builder:
    def __init__(self, machine: Machine):
        self.machine, self.classes = machine, _Classes(machine)
        kinds = machine.kinds
        self.count = self.classes.count
        self.masks = [
            sum(1 << c for c in range(self.count) if self.classes.members[asked][c])
            if kind in (TAKES, AHEAD, BEHIND)
            else 0
            for kind, asked in zip(kinds, machine.asked)
        ]
        end = 1 << self.count  # the bit of the text's end, or of its start
        for node, kind in enumerate(kinds):
            if kind in (AHEAD, BEHIND) and machine.edge[node]:
                self.masks[node] |= end
        self.ahead = self._groups(AHEAD)
        self.behind = self._groups(BEHIND)
        self.steps = 0

    def _groups(self, kind: int) -> list[int]:
        """A number for each class, and for the edge: equal where the conditions are the same."""
        masks = {m for m, k in zip(self.masks, self.machine.kinds) if k == kind}
        found: dict[tuple[Any, ...], int] = {}
        return [
            found.setdefault(tuple(m >> c & 1 for m in masks), len(found))
            for c in range(self.count + 1)
        ]

    def closure(self, nodes: tuple[int, ...], before: int, after: int) -> tuple[list[int], bool]:
        """The nodes that take a character, in their order up to a match; whether there is one.
        before, after: a class, or the edge."""
        m = self.machine
        seen: set[int] = set()
        out = []
        waiting = list(reversed(nodes))
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            self.steps += 1
            kind = m.kinds[node]
            if kind == TAKES:
                out.append(node)
            elif kind == MATCHES:
                return out, True
            elif kind == AHEAD:
                if self.masks[node] >> after & 1:
                    waiting.append(m.ways[node][0])
            elif kind == BEHIND:
                if self.masks[node] >> before & 1:
                    waiting.append(m.ways[node][0])
            else:
                waiting += reversed(m.ways[node])
        return out, False

    def build(self) -> np.ndarray:
        start, count = (self.machine.start,), self.count
        numbers: dict[tuple[Any, ...], int] = {}
        states: list[tuple[tuple[int, ...], int]] = []

        def number(nodes: tuple[int, ...], before: int) -> int:
            if not nodes:
                return 0
            key = nodes, self.behind[before]
            if key not in numbers:
                numbers[key] = len(states) + 1
                states.append((nodes, before))
                if len(states) > _MOST_RAW:
                    refuse(f"a pattern of more than {MOST_STATES} states")
            return numbers[key]

        rows = [[number(start, c) for c in range(count + 1)]]
        groups: dict[int, list[int]] = {}
        for c, group in enumerate(self.ahead):
            groups.setdefault(group, []).append(c)
        for nodes, before in states:  # grows
            row = [0] * (count + 1)
            for members in groups.values():
                found, accepts = self.closure(nodes, before, members[0])
                bit = ACCEPTS << 1 if accepts else 0
                ways: dict[tuple[int, ...], tuple[int, ...]] = {}
                for c in members:
                    if c == count:
                        row[c] = bit
                        continue
                    taken = tuple([n for n in found if self.masks[n] >> c & 1])
                    if taken not in ways:
                        ways[taken] = tuple(dict.fromkeys(self.machine.ways[n][0] for n in taken))
                    row[c] = number(ways[taken], c) | bit
                    self.steps += 1 + len(found) // 8
            if self.steps > _MOST_STEPS:
                refuse(f"a pattern of more than {MOST_STATES} states")
            rows.append(row)
        return np.array(rows, dtype=np.uint32)


def _without_dead(rows: np.ndarray) -> np.ndarray:
    """Nothing leads to states from which nothing is accepted."""
    bit = ACCEPTS << 1
    accepts, ways = (rows & bit) != 0, rows & (bit - 1)
    alive = accepts.any(axis=1)
    alive[0] = False
    while True:
        more = alive | alive[ways].any(axis=1)
        more[0] = False
        if (more == alive).all():
            break
        alive = more
    return np.where(alive[ways], ways, 0).astype(np.uint32) | (rows & bit)


def _merged(rows: np.ndarray) -> np.ndarray:
    """Equal states made one, in the order in which they are reached."""
    bit = ACCEPTS << 1
    accepts, ways = (rows & bit) != 0, (rows & (bit - 1)).astype(np.int64)
    width = rows.shape[1]
    rng = np.random.default_rng(1)
    mix = rng.integers(1, 1 << 63, size=(2, width), dtype=np.uint64) | np.uint64(1)
    of = np.ones(len(rows), dtype=np.int64)
    of[0] = 0
    count, steps = 2, 0
    names = rng.integers(0, 1 << 63, size=len(rows) + 2, dtype=np.uint64)
    flags = (accepts * mix[1]).sum(axis=1, dtype=np.uint64)
    while True:
        hashes = (names[of][ways] * mix[0]).sum(axis=1, dtype=np.uint64) + flags
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + names[of]
        hashes[0] = 0
        _, found = np.unique(hashes, return_inverse=True)
        found = found.reshape(-1)
        steps += rows.size
        if found.max() + 1 == count:
            break
        if steps > 1_500_000_000:
            refuse(f"a pattern of more than {MOST_STATES} states")
        of, count = found, int(found.max()) + 1
    first: dict[int, int] = {0: 0}
    order, at = [0], 0
    renamed = {int(of[0]): 0}
    while at < len(order):
        for to in dict.fromkeys(ways[order[at]].tolist()):
            block = int(of[to])
            if to != 0 and block not in renamed:
                renamed[block] = len(order)
                order.append(to)
        at += 1
    del first
    new = np.zeros(int(of.max()) + 1, dtype=np.uint32)
    for block, name in renamed.items():
        new[block] = name
    target = np.where(ways == 0, 0, new[of][ways])
    out = (target | np.where(accepts, ACCEPTS, 0)).astype(np.uint32)
    blocks = np.array([renamed.get(int(b), -1) for b in of])
    for name, state in enumerate(order):
        same = out[blocks == name]
        assert name == 0 or (same == out[state]).all()
    return out[order]


def build(machine: Machine) -> Table:
    builder = _Builder(machine)
    rows = _merged(_without_dead(builder.build()))
    if len(rows) > MOST_STATES:
        refuse(f"a pattern of {len(rows)} states, more than {MOST_STATES},")
    columns, of = np.unique(rows[:, :-1], axis=1, return_inverse=True)
    of = of.reshape(-1)
    if columns.shape[1] > MOST_CLASSES:
        refuse(f"a pattern with {columns.shape[1]} classes of characters")
    classes = of[builder.classes.of_begin]
    seen: dict[int, int] = {}
    renamed = np.array([seen.setdefault(int(c), len(seen)) for c in classes])  # as they come
    order = sorted(seen, key=seen.__getitem__)
    table = np.concatenate([columns[:, order], rows[:, -1:]], axis=1).astype(np.uint16)
    ends = np.append(builder.classes.begins[1:], charsets.LAST + 1)
    every = np.repeat(renamed, ends - builder.classes.begins).astype(np.uint8)
    return Table(every, table)
