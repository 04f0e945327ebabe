"""The steps that a pipeline's section has: what each does to a text, its row, and how much longer a
text it makes.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Callable, Mapping

import numpy as np

from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import Rules, map_rules
from phasor.tokenizers.classes import characters
from phasor.tokenizers.json_parts import refuse
from phasor.tokenizers.patterns.table import BEHAVIORS, INVERTED, Pattern
from phasor.tokenizers.pipeline.clusters import clusters

(MAP, CANONICAL, CLUSTERS, STRIP, REPLACE, PREFIX, LETTERS, SPLIT, WORDS, SPELLED) = range(1, 11)
FILTER_TEXT, FILTER_ENDS, FILTER_BYTE = 11, 12, 13
LEFT, RIGHT = 1, 2
FIRST_SPLIT, UNLESS_THERE = 1, 2
_KEEP, _REMOVE, _ADD, _ADD_ON_EVEN, _TEXT, _HANGUL = (change << 29 for change in range(6))
_NO_DELTA = 1 << 21
_SYLLABLES = range(0xAC00, 0xD7A4)
_ONE_SYLLABLE = re.compile("([\uac00-\ud7a3])")
_MOST_FOLLOWED = 2_000_000  # characters, in every step that changes some
_MOST_MADE = 2_000_000  # bytes of their texts before a step, because a step may make 255 of each
_LAST = 0x10FFFF
_REPLACEMENT = "\ufffd"
_BETWEEN = "\ufdd0"  # of many texts at once: a noncharacter
_CLUSTER = 6  # bytes of a cluster that Precompiled takes one by one


def row(kind: int, part: bytes = b"") -> bytes:
    part += bytes(-len(part) % 4)
    return struct.pack("<II", kind, 8 + len(part)) + part


def _text(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text + bytes(-len(text) % 4)


class Growth:
    """The most bytes that a byte of a text becomes, and the most characters, of which each may be a
    split: what each character becomes in the steps that change characters, how often what they make
    is replaced by something longer, and the texts that steps add. What a composing step makes of a
    character is followed beside what it leaves apart where something stands between."""

    def __init__(self) -> None:
        self.maps: list[Map | Letters | Clusters | Canonical] = []
        self.factor = Fraction(1)
        self._followed = 0
        # a byte that is no character becomes U+FFFD
        self.most = self._bytes = Fraction(3)
        self._characters = Fraction(1)
        # by (maps before it, character): what has become of each character that a step changes, in
        # the text or made by a step, and of others; by (-1, letter) of each byte; the same again
        # with what is composed
        self._texts: dict[tuple[int, str, bool], str] = {}
        self._sizes: list[int] = []  # bytes of each of these characters, in the same order
        for c in ("a", "\u00e9", _REPLACEMENT):
            self._follow(0, c, c)
        self._added: list[tuple[str, Fraction]] = []  # and how often for a byte of text

    def map(self, step: Map | Letters | Clusters) -> None:
        # behind Letters a character is its bytes' letters, each of which is followed already
        new = not any(isinstance(of, Letters) for of in self.maps)
        for c in map(chr, step.domain()):
            if not new:
                self._follow(len(self.maps), c, c)
                continue
            if (0, c, False) not in self._texts:
                apart = [of for of in self.maps if not isinstance(of, Canonical)]
                text, composed = (
                    functools.reduce(lambda text, of: of.map(text), maps, c)
                    for maps in (apart, self.maps)
                )
                self._follow(0, c, text)
                if composed != text:
                    self._follow(0, c, composed, True)
            if self._texts[0, c, False] != c:
                self._follow(len(self.maps), c, c)
        texts = [*self._texts.values()]
        self._followed += len(texts)
        if self._followed > _MOST_FOLLOWED:
            refuse(f"a normalizer whose steps change more than {_MOST_FOLLOWED:,} characters")
        if len("".join(texts).encode()) > _MOST_MADE:
            refuse(f"a normalizer whose steps make more than {_MOST_MADE:,} bytes of text in all")
        self._texts = dict(zip(self._texts, step.map_all(texts)))
        self._added = [(step.map(text), times) for text, times in self._added]
        self.maps.append(step)
        if new and isinstance(step, Letters):
            for letter in step.alphabet:
                self._follow(-1, letter, letter)
        self._bytes = self._largest(lambda text: len(text.encode()))
        self._characters = self._largest(len)
        self._seen()

    def compose(self, step: Canonical) -> None:
        self.maps.append(step)
        for (maps, c, composed), text in list(self._texts.items()):
            made = step.map(text)
            if composed:
                self._texts[maps, c, True] = made
            elif made != text:
                self._follow(maps, c, made, True)

    def _follow(self, maps: int, c: str, text: str, composed: bool = False) -> None:
        if (maps, c, composed) in self._texts:
            return
        self._texts[maps, c, composed] = text
        self._sizes.append(1 if maps < 0 or c == _REPLACEMENT else len(c.encode()))

    def times(self, factor: Fraction) -> None:
        self.factor *= factor
        self._added = [(text, times * factor) for text, times in self._added]
        self._seen()

    def plus(self, text: str, each: bool) -> None:
        """each: before every split, else once."""
        each_split = self._with_added(self._characters, len)
        self._added.append((text, each_split if each else Fraction(1)))
        self._seen()

    def _seen(self) -> None:
        now = self._with_added(self._bytes, lambda text: len(text.encode()))
        self.most = max(self.most, now)

    def _with_added(self, own: Fraction, size: Callable[[str], int]) -> Fraction:
        return own * self.factor + sum(size(text) * times for text, times in self._added)

    def _largest(self, size: Callable[[str], int]) -> Fraction:
        """Of the characters that a step changes, and of a byte that is none."""
        most = [0] * 5  # by the bytes of the character
        for of, made in zip(self._sizes, map(size, self._texts.values())):
            if made > most[of]:
                most[of] = made
        return max(Fraction(made, of) for of, made in enumerate(most) if of)


def _parts_of_hangul(c: str) -> str:
    index = ord(c) - 0xAC00
    parts = (0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28)
    return "".join(chr(part) for part in parts if part != 0x11A7)


class Step:
    def row(self) -> bytes:
        raise NotImplementedError

    def apply(self, text: str) -> str:
        """What becomes of a whole text."""
        raise NotImplementedError

    def map(self, text: str) -> str:
        """What becomes of each character of a text, for a step that growth follows."""
        raise NotImplementedError

    def map_all(self, texts: list[str]) -> list[str]:
        return [self.map(text) for text in texts]

    def grow(self, growth: Growth, splits: bool) -> None:
        """splits: the text may be in many parts already."""


@dataclass(frozen=True)
class Map(Step):
    """Characters that become texts; syllables of Hangul their parts where `hangul`."""

    changes: Mapping[int, str]
    hangul: bool = False

    def apply(self, text: str) -> str:
        if not self.hangul:
            return text.translate(self.changes)
        pieces = _ONE_SYLLABLE.split(text)
        pieces[::2] = [piece.translate(self.changes) for piece in pieces[::2]]
        pieces[1::2] = map(_parts_of_hangul, pieces[1::2])
        return "".join(pieces)

    map = apply

    def map_all(self, texts: list[str]) -> list[str]:
        """As one text, unless it or the step has the sign between them."""
        ends = len(texts) - 1
        whole = _BETWEEN.join(texts)
        if ord(_BETWEEN) not in self.changes and whole.count(_BETWEEN) == ends:
            whole = self.apply(whole)
            if whole.count(_BETWEEN) == ends:
                return whole.split(_BETWEEN)
        return [self.map(text) for text in texts]

    def grow(self, growth: Growth, splits: bool) -> None:
        growth.map(self)

    def domain(self) -> set[int]:
        return {*self.changes, *((_SYLLABLES[1],) if self.hangul else ())}

    def _runs(self) -> tuple[list[tuple[int, int]], bytes]:
        """(first, change) of the runs, and the texts."""
        texts: dict[bytes, int] = {}
        size = 0
        single: list[tuple[int, int]] = []  # (code, change)
        for code, to in sorted(self.changes.items()):
            if to == "":
                change = _REMOVE
            elif len(to) == 1:
                change = _ADD | (ord(to) - code + _NO_DELTA)
            else:
                data = to.encode()
                assert len(data) <= 255, "no form of Unicode's is so long"
                if data not in texts:
                    texts[data] = size
                    size += 1 + len(data)
                change = _TEXT | texts[data]
            single.append((code, change))
        runs: list[tuple[int, int]] = [(0, _KEEP)]
        at = 0
        while at < len(single):
            code, change = single[at]
            end = at + 1
            while end < len(single) and single[end] == (code + end - at, change):
                end += 1
            step = end
            while change >> 29 == 2 and step < len(single):  # every other one, as of A a B b
                if single[step] != (code + 2 * (step - at), change):
                    break
                step += 1
            if end == at + 1 and step > end:
                change = _ADD_ON_EVEN | (change & ~(7 << 29))
                last, end = code + 2 * (step - 1 - at), step
            else:
                last = code + end - 1 - at
            if runs[-1][0] == code:
                runs[-1] = (code, change)
            else:
                runs.append((code, change))
            runs.append((last + 1, _KEEP))
            at = end
        if self.hangul:
            runs = [r for r in runs if r[0] not in (0xAC00, 0xD7A4)]
            runs += [(0xAC00, _HANGUL), (0xD7A4, _KEEP)]
            runs.sort()
        changes = [-1, *(change for _, change in runs)]
        kept = [r for r, before in zip(runs, changes) if r[1] != before or r[1] >> 29 == 3]
        return [r for r in kept if r[0] <= _LAST], b"".join(bytes([len(t)]) + t for t in texts)

    def row(self) -> bytes:
        runs, texts = self._runs()
        firsts = np.array([first for first, _ in runs])
        ascii_runs = np.searchsorted(firsts, np.arange(128), side="right") - 1
        part = struct.pack("<II", len(runs), len(texts)) + ascii_runs.astype(np.uint8).tobytes()
        part += np.array(runs, dtype="<u4").tobytes() + texts
        return row(MAP, part)


@dataclass(frozen=True)
class Canonical(Step):
    """Marks in their order; composed."""

    composes: bool

    def apply(self, text: str) -> str:
        order = _orders()
        out: list[str] = []
        for c in text:
            at = len(out)
            while order.get(c) and at and order.get(out[at - 1], 0) > order[c]:
                at -= 1
            out.insert(at, c)
        return _compose(out) if self.composes else "".join(out)

    map = apply

    def grow(self, growth: Growth, splits: bool) -> None:
        if self.composes:
            growth.compose(self)

    def row(self) -> bytes:
        of = np.zeros(_LAST + 2, dtype=np.int64)
        for code, order in unicode.MAPS["order"].items():
            of[code] = ord(order)
        edges = np.flatnonzero(np.diff(of)) + 1
        runs = [int(edge) << 8 | int(of[edge]) for edge in edges]
        composed = _pairs() if self.composes else {}
        pairs = sorted((*map(ord, pair), c) for pair, c in composed.items())
        part = struct.pack("<III", len(runs), len(pairs), self.composes)
        part += np.array(runs, dtype="<u4").tobytes()
        return row(CANONICAL, part + np.array(pairs, dtype="<u4").tobytes())


@functools.cache
def _orders() -> dict[str, int]:
    return {chr(code): ord(order) for code, order in unicode.MAPS["order"].items()}


@functools.cache
def _pairs() -> dict[str, int]:
    return {pair: code for code, pair in unicode.MAPS["composed"].items()}


def _compose(text: list[str]) -> str:
    order, pairs = _orders(), _pairs()
    out: list[str] = []
    base, last = None, 0
    for c in text:
        of = order.get(c, 0)
        if base is not None and (last == 0 or last < of):
            both = _syllable(out[base], c) or pairs.get(out[base] + c)
            if both:
                out[base] = chr(both)
                continue
        if of == 0:
            base = len(out)
        last = of
        out.append(c)
    return "".join(out)


def _syllable(a: str, b: str) -> int | None:
    lead, vowel, tail = ord(a) - 0x1100, ord(b) - 0x1161, ord(b) - 0x11A7
    if 0 <= lead < 19 and 0 <= vowel < 21:
        return 0xAC00 + (lead * 21 + vowel) * 28
    if ord(a) in _SYLLABLES and (ord(a) - 0xAC00) % 28 == 0 and 0 < tail < 28:
        return ord(a) + tail
    return None


@dataclass(frozen=True)
class Clusters(Step):
    """SentencePiece's map: the section's, or one of the row's own."""

    trie: bytes
    strings: bytes
    longest: int  # bytes of a rule's text
    own: bool = False

    def apply(self, text: str) -> str:
        """Clusters of less than 6 bytes as a whole, others a character at a time."""
        out = []
        for cluster in clusters(text):
            whole = self._shortest(cluster) if len(cluster.encode()) < _CLUSTER else None
            out.append(self.map(cluster) if whole is None else whole)
        return "".join(out)

    def map(self, text: str) -> str:
        """A character at a time."""
        rules = self._rules.characters
        return "".join(rules.get(c, c) for c in text)

    def _shortest(self, text: str) -> str | None:
        """What the shortest rule for the beginning of a text says."""
        one, longer = self._rules.characters, self._rules.longer
        starts = (text[:end] for end in range(2, len(text) + 1))
        return one.get(text[:1], next((longer[s] for s in starts if s in longer), None))

    @property
    def _rules(self) -> Rules:
        return map_rules(self.trie, self.strings)

    def domain(self) -> set[int]:
        return {ord(c) for c in self._rules.characters}

    def grow(self, growth: Growth, splits: bool) -> None:
        growth.map(self)
        growth.times(self._rules.growth)

    def row(self) -> bytes:
        if not self.own:
            return row(CLUSTERS)
        part = struct.pack("<III", len(self.trie), len(self.strings), self.longest)
        return row(CLUSTERS, part + self.trie + self.strings)


@dataclass(frozen=True)
class Strip(Step):
    sides: int

    def apply(self, text: str) -> str:
        blank = characters("space")
        begin, end = 0, len(text)
        while self.sides & LEFT and begin < end and blank[ord(text[begin])]:
            begin += 1
        while self.sides & RIGHT and end > begin and blank[ord(text[end - 1])]:
            end -= 1
        return text[begin:end]

    def row(self) -> bytes:
        return row(STRIP, struct.pack("<I", self.sides))


@dataclass(frozen=True)
class Replace(Step):
    """What a pattern matches, of at least `least` bytes, becomes a text;
    a match may be empty."""

    pattern: Pattern
    least: int
    content: str

    def apply(self, text: str) -> str:
        parts = self.pattern.segments(text)
        return "".join(self.content if match else text[a:b] for a, b, match in parts)

    def grow(self, growth: Growth, splits: bool) -> None:
        if self.least == 0:
            growth.plus(self.content, True)
            growth.plus(self.content, False)
        else:
            growth.times(max(Fraction(1), Fraction(len(self.content.encode()), self.least)))

    def row(self) -> bytes:
        how = BEHAVIORS.index("removed")
        return row(REPLACE, _text(self.content.encode()) + self.pattern.bytes(how))


@dataclass(frozen=True)
class Prefix(Step):
    text: str
    flags: int = 0

    def apply(self, text: str) -> str:
        there = self.flags & UNLESS_THERE and text.startswith(self.text)
        return text if there or not text else self.text + text

    def grow(self, growth: Growth, splits: bool) -> None:
        growth.plus(self.text, splits)  # what a first character becomes may be many splits

    def row(self) -> bytes:
        return row(PREFIX, struct.pack("<I", self.flags) + _text(self.text.encode()))


@dataclass(frozen=True)
class Letters(Step):
    """Each byte becomes its letter."""

    alphabet: str  # the letters of bytes 0 … 255

    def apply(self, text: str) -> str:
        return "".join(self.alphabet[byte] for byte in text.encode())

    map = apply

    def grow(self, growth: Growth, splits: bool) -> None:
        growth.map(self)

    def domain(self) -> set[int]:
        return set()

    def row(self) -> bytes:
        return row(LETTERS)


@dataclass(frozen=True)
class Split(Step):
    pattern: Pattern
    behavior: str
    inverted: bool

    def row(self) -> bytes:
        how = BEHAVIORS.index(self.behavior) | INVERTED * self.inverted
        return row(SPLIT, self.pattern.bytes(how))


def removed(*names: str) -> Map:
    return Map(dict.fromkeys(np.flatnonzero(characters(*names)).tolist(), ""))
