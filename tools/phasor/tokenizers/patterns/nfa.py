"""A pattern as a machine with priorities: of two ways on, the first that leads to a match counts
(leftmost-first, as engines that go back do it).
"""

from __future__ import annotations

from phasor.tokenizers.patterns import charsets, unicode
from phasor.tokenizers.patterns.charsets import Runs
from phasor.tokenizers.patterns.tree import (
    Ahead,
    Alt,
    Behind,
    Cat,
    Letter,
    Repeat,
    Set,
    nullable,
    refuse,
)

TAKES, SPLITS, AHEAD, BEHIND, MATCHES = range(5)
_MOST_NODES = 1 << 14
_LONGEST_FOLD = 3  # characters that one is the same as without case


class Machine:
    """Nodes: kind; what it takes or asks, by its number in `sets`; where it leads, by priority."""

    def __init__(self, tree):
        self.kinds: list[int] = []
        self.asked: list[int] = []
        self.edge: list[bool] = []  # AHEAD, BEHIND: also where there is no character
        self.ways: list[list[int]] = []
        self.sets: dict[Runs, int] = {}
        self.steps = 0
        self.start = self._build(tree, self._add(MATCHES))

    def _add(self, kind: int, ways: list[int] | None = None, runs: Runs = (), edge=False) -> int:
        self._tick()
        self.kinds.append(kind)
        asks = kind in (TAKES, AHEAD, BEHIND)
        self.asked.append(self.sets.setdefault(runs, len(self.sets)) if asks else 0)
        self.edge.append(edge)
        self.ways.append(ways or [])
        return len(self.kinds) - 1

    def _tick(self) -> None:
        self.steps += 1
        if self.steps > _MOST_NODES:
            refuse(f"a pattern of more than {_MOST_NODES} parts, with its repetitions written out,")

    def _build(self, tree, then: int) -> int:
        """The node where it begins; behind it comes `then`."""
        self._tick()
        if isinstance(tree, Set):
            return self._add(TAKES, [then], tree.runs)
        if isinstance(tree, Letter):
            return self._letters((tree,), then)
        if isinstance(tree, Ahead):
            return self._add(AHEAD, [then], tree.runs, tree.end)
        if isinstance(tree, Behind):
            return self._add(BEHIND, [then], tree.runs, tree.start)
        if isinstance(tree, Alt):
            return self._add(SPLITS, [self._build(way, then) for way in tree.ways])
        if isinstance(tree, Repeat):
            return self._repeat(tree, then)
        assert isinstance(tree, Cat)
        at = len(tree.parts)
        while at > 0:
            end = at
            while at > 0 and isinstance(tree.parts[at - 1], Letter):
                at -= 1
            if at < end:
                then = self._letters(tree.parts[at:end], then)
            else:
                at -= 1
                then = self._build(tree.parts[at], then)
        return then

    def _repeat(self, tree: Repeat, then: int) -> int:
        def split(on: int) -> list[int]:
            return [on, then] if tree.greedy else [then, on]

        first, at = tree.least, then
        if tree.most is None:
            loop = self._add(SPLITS)
            body = self._build(tree.body, loop)
            self.ways[loop] = split(body)
            if first == 0:  # what may match nothing is tried once: (x+)?
                return self._add(SPLITS, split(body)) if nullable(tree.body) else loop
            first, at = first - 1, body
        else:
            for _ in range(tree.most - first):
                at = self._add(SPLITS, split(self._build(tree.body, at)))
        for _ in range(first):
            at = self._build(tree.body, at)
        return at

    def _letters(self, letters, then: int) -> int:
        """Characters without case: each may be another, several may be one, or one several."""
        several = unicode.several()
        text = "".join(letter.char for letter in letters)
        folded = [charsets.folded(charsets.of_text(c), False) for c in text]
        one_of: dict[tuple[Runs, ...], list[str]] = {}
        for c, parts in several.items():
            key = tuple(charsets.folded(charsets.of_text(part), False) for part in parts)
            one_of.setdefault(key, []).append(c)
        begins = [then] * (len(text) + 1)
        for at in range(len(text) - 1, -1, -1):
            ways = [self._add(TAKES, [begins[at + 1]], folded[at])]
            for size in range(2, min(_LONGEST_FOLD, len(text) - at) + 1):
                same = one_of.get(tuple(folded[at : at + size]))
                if same:
                    runs = charsets.folded(charsets.of_text("".join(same)), False)
                    ways.append(self._add(TAKES, [begins[at + size]], runs))
            if text[at] in several:
                on = begins[at + 1]
                for part in reversed(several[text[at]]):
                    on = self._add(TAKES, [on], charsets.folded(charsets.of_text(part), False))
                ways.append(on)
            begins[at] = ways[0] if len(ways) == 1 else self._add(SPLITS, ways)
        return begins[0]
