"""What `tokenizers` does to a text before Precompiled, as one map that a section has beside it
(file-format.md, unigram with Metaspace): texts that become others, then characters that do.

Replace, NFD, NFKD, StripAccents and Lowercase, as ALBERT, XLNet, RemBERT and FNet have them. What
cannot be said character by character is refused by name: marks that stay and that a decomposition
would put in order, texts to replace that may meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.errors import shown
from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import build_trie, texts_and_places
from phasor.tokenizers.classes import characters
from phasor.tokenizers.json_parts import fields, member, refuse
from phasor.tokenizers.section import Section

FORMS = ("NFD", "NFKD", "StripAccents", "Lowercase")
SPACES = {"Regex": " {2,}"}
_LONGEST = 64  # bytes of a text that is replaced, or that another becomes
_NO_KEYS = bytes(4 * 256)  # a trie that finds nothing


class FirstMap:
    """The steps so far; `add` takes the next one."""

    def __init__(self) -> None:
        self.replaced: dict[str, str] = {}
        self.forms: list[str] = []
        self.merges_spaces = False  # two spaces and more become one
        self._tables: list[dict[int, str]] = []

    def add(self, step: dict[str, Any]) -> None:
        if step["type"] in FORMS:
            fields(step, "normalizer", ())
            self.forms.append(step["type"])
            self._tables.append(_table(step["type"]))
            return
        pattern, content = (
            member(fields(step, "normalizer", ("pattern", "content")), field, "normalizer")
            for field in ("pattern", "content")
        )
        text = pattern.get("String") if len(pattern) == 1 else None
        named = pattern if text is None else text
        what = f"normalizer Replace of {shown(named)} by {shown(content)}"
        if self.forms:
            refuse(f"{what} behind {self.forms[-1]}")
        if pattern == SPACES and content == " ":
            self.merges_spaces = True
            return
        if not isinstance(text, str) or not text:
            refuse(what)
        for part in (text, content):
            if "\0" in part or len(part.encode(errors="replace")) > _LONGEST:
                refuse(f"normalizer Replace with {shown(part)}")
        if text in self.replaced:
            refuse(f"{what}, which is replaced before,")
        self.replaced[text] = content

    def check(self) -> None:
        """That texts to replace do not meet, and that no mark changes places and stays."""
        taken: set[str] = {" "} if self.merges_spaces else set()
        for text in self.replaced:
            if taken & set(text):
                refuse(f"normalizer Replace of {shown(text)}, which contains another,")
            taken |= set(text)
        for content in self.replaced.values():
            if taken & set(content):
                refuse(f"normalizer Replace by {shown(content)}, which is replaced again,")
        order = unicode.MAPS["order"]
        decomposes = next((form for form in self.forms if form in ("NFD", "NFKD")), None)
        if decomposes and any(
            ord(c) in order for code in self._domain() | set(order) for c in self.char(chr(code))
        ):
            refuse(f"normalizer {decomposes} without StripAccents")

    def __bool__(self) -> bool:
        return bool(self.replaced or self.forms or self.merges_spaces)

    @property
    def decomposes(self) -> bool:
        """Whether a Hangul syllable becomes its jamo."""
        return "NFD" in self.forms or "NFKD" in self.forms

    def _domain(self) -> set[int]:
        """The characters that may become others, without the syllables."""
        return {code for table in self._tables for code in table}

    def char(self, text: str) -> str:
        """What characters become, without what is replaced first and without syllables."""
        for table in self._tables:
            text = "".join(table.get(ord(c), c) for c in text)
        return text

    def ascii(self, text: str) -> str:
        """What becomes of a text of ASCII without spaces."""
        for before, after in self.replaced.items():
            text = text.replace(before, after)
        return self.char(text)

    def keys(self) -> dict[bytes, bytes]:
        out = {}
        for code in sorted(self._domain()):
            text = self.char(chr(code))
            if text != chr(code):
                out[chr(code).encode()] = text.encode()
        for text, content in self.replaced.items():
            out[text.encode()] = self.char(content).encode()
        return out


def _table(form: str) -> dict[int, str]:
    maps = unicode.MAPS
    if form == "StripAccents":
        return dict.fromkeys(np.flatnonzero(characters("accent")).tolist(), "")
    if form == "Lowercase":
        return maps["lower"]
    return {**maps["decomposed"], **(maps["compatible"] if form == "NFKD" else {})}


def put_first_map(section: Section, first: FirstMap) -> None:
    """Puts the map into the section's trie, behind what Precompiled has there."""
    keys = first.keys()
    if not keys:
        return
    before = section.trie + bytes(-len(section.trie) % len(_NO_KEYS)) or _NO_KEYS
    most = _Most(section)
    for key, value in keys.items():
        bytes_ = sum(most.of(c) for c in value.decode())
        section.expansion = max(section.expansion, -(-bytes_ // len(key)))
    section.longest_rule = max(section.longest_rule, *map(len, keys))
    places, strings = texts_and_places(keys, len(section.strings))
    section.trie = build_trie(places, before)
    section.strings += strings
    section.word_chars = len(before) // 4  # where its walks begin


class _Most:
    """How many bytes Precompiled makes at most of a character, or of what begins with it."""

    def __init__(self, section: Section) -> None:
        self.units = np.frombuffer(section.trie, dtype="<u4").astype(np.int64)
        text = np.frombuffer(section.strings, dtype=np.uint8)
        self.ends = np.flatnonzero(text == 0)
        self.below: dict[int, int] = {}
        self.known: dict[str, int] = {}

    def _base(self, node: int) -> int:
        unit = int(self.units[node])
        return node ^ (unit >> 10) << ((unit & 0x200) >> 6)

    def _children(self, node: int) -> list[int]:
        places = self._base(node) ^ np.arange(1, 256)
        result: list[int] = places[self.units[places] & 0x800000FF == np.arange(1, 256)].tolist()
        return result

    def _value(self, node: int) -> int:
        if not self.units[node] & 0x100:
            return 0
        at = int(self.units[self._base(node)]) & 0x7FFFFFFF
        return int(self.ends[np.searchsorted(self.ends, at)]) - at

    def _longest_below(self, node: int) -> int:
        """The longest string of the keys that go through a node; map_bounds found no loop."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            children = self._children(at)
            more = [child for child in children if child not in self.below]
            waiting += more
            if not more:
                values = (self.below[child] for child in children)
                self.below[at] = max(self._value(at), *values, 0)
                waiting.pop()
        return self.below[node]

    def of(self, c: str) -> int:
        if c not in self.known:
            node, data = 0, c.encode()
            for byte in data if len(self.units) else b"":
                node = self._base(node) ^ byte
                if self.units[node] & 0x800000FF != byte:
                    node = -1
                    break
            found = self._longest_below(node) if len(self.units) and node >= 0 else 0
            self.known[c] = max(len(data), found)
        return self.known[c]
