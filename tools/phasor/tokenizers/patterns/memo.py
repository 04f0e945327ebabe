"""Which states of a table get a memo slot, so that all searches of a text together take time linear
in it, and the depth of the others (docs/reference/file-format.md, TOKENIZER).

A search looks past the last end it has accepted. Where it stops for nothing at a state with a slot,
the place is remembered, and no later search goes on from there. Between two of these states, steps
that accept nothing go down in depth, so there are at most 247 of them.
"""

from __future__ import annotations

import numpy as np

from phasor.tokenizers.patterns.dfa import ACCEPTS
from phasor.tokenizers.patterns.tree import refuse

MOST_SLOTS = 8
FIRST_SLOT = 248  # marks from here on are slots, those below are depths
_MOST_TRIED = 20000


def _graph(rows: np.ndarray) -> list[list[int]]:
    """Of each state those that a step leads to which accepts nothing."""
    out = []
    for row in rows:
        ways = row[(row & ACCEPTS) == 0]
        out.append([int(way) for way in np.unique(ways) if way != 0])
    out[0] = []
    return out


def _components(graph: list[list[int]], left: set[int]) -> list[list[int]]:
    """The strongly connected components that have a cycle (Tarjan's, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on: set[int] = set()
    stack: list[int] = []
    out = []
    for root in sorted(left):
        if root in index:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on.add(node)
            ways = graph[node]
            while at < len(ways):
                to = ways[at]
                at += 1
                if to not in left:
                    continue
                if to not in index:
                    work += [(node, at), (to, 0)]
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                if low[node] == index[node]:
                    found = []
                    while True:
                        one = stack.pop()
                        on.discard(one)
                        found.append(one)
                        if one == node:
                            break
                    if len(found) > 1 or node in ways:
                        out.append(found)
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return out


def _fewest(graph: list[list[int]], left: set[int], most: int, tries: list[int]) -> set[int] | None:
    """The fewest states without which no cycle is left, at most so many; None: there are none."""
    parts = _components(graph, left)
    if not parts:
        return set()
    must = {node for part in parts for node in part if node in graph[node]}
    if must:
        if len(must) > most:
            return None
        rest = _fewest(graph, left - must, most - len(must), tries)
        return None if rest is None else must | rest
    out: set[int] = set()
    for part in parts:  # each by itself
        best = None
        members = set(part)
        order = sorted(part, key=lambda node: (-sum(to in members for to in graph[node]), node))
        for size in range(1, most - len(out) + 1):
            for node in order:
                tries[0] += 1
                if tries[0] > _MOST_TRIED:
                    return None
                rest = _fewest(graph, members - {node}, size - 1, tries)
                if rest is not None:
                    best = rest | {node}
                    break
            if best is not None:
                break
        if best is None:
            return None
        out |= best
    return out


def _depths(graph: list[list[int]], slots: set[int]) -> list[int]:
    """The most steps from each state to one with a slot, or to the end."""
    depth = [-1] * len(graph)
    for root in range(len(graph)):
        work = [root]
        while work:
            node = work[-1]
            ways = [to for to in graph[node] if to not in slots]
            waiting = [to for to in ways if depth[to] < 0]
            if node not in slots and waiting:
                work += waiting
                continue
            work.pop()
            depth[node] = 0 if node in slots else max((depth[to] + 1 for to in ways), default=0)
    return depth


def marks(rows: np.ndarray) -> np.ndarray:
    """(states) u8: a depth, or 248 + a slot."""
    graph = _graph(rows)
    slots = _fewest(graph, set(range(1, len(graph))), MOST_SLOTS, [0])
    if slots is None:
        refuse(f"a pattern that looks ahead in more than {MOST_SLOTS} ways without end")
    while True:
        depth = _depths(graph, slots)
        deep = [node for node, d in enumerate(depth) if d == FIRST_SLOT]
        if not deep:
            break
        slots |= set(deep)
        if len(slots) > MOST_SLOTS:
            refuse("a pattern that looks too far ahead")
    out = np.array(depth, dtype=np.uint8)
    for slot, node in enumerate(sorted(slots)):
        out[node] = FIRST_SLOT + slot
    return out
