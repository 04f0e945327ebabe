"""The normalizer's map of a section (file-format.md, TOKENIZER): a Darts double array of u32 units
whose values are places of zero-terminated strings. Needs numpy only.
"""

from __future__ import annotations

import functools
import struct
from collections import Counter
from fractions import Fraction
from typing import Any, Iterator, NamedTuple

import numpy as np

from phasor.tokenizers import unicode
from phasor.tokenizers.section import Section, TokenizerError

LONGEST_RULE = 1024
# bytes of all rules and of their beginnings: keys share their ends, so a trie can have far more
_MOST_RULE_BYTES = 1 << 24


# ---- Reading one that is there


def _trie_values(trie: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (length, values) for the keys of a Darts double array, by their length in bytes."""
    units = trie.astype(np.int64)
    distance = (units >> 10) << ((units & 0x200) >> 6)
    bytes_ = np.arange(256, dtype=np.int64)
    nodes = np.zeros(1, dtype=np.int64)
    left = (
        2 * len(units) + 1024
    )  # nodes to visit: each is at one place, but in a trie that is made to keep a reader busy
    for length in range(LONGEST_RULE + 1):
        left -= len(nodes)
        if left < 0:
            raise TokenizerError("precompiled_charsmap: the trie has more paths than nodes")
        if np.any(((nodes ^ distance[nodes]) | 0xFF) >= len(units)):
            raise TokenizerError("precompiled_charsmap: the trie points outside itself")
        base = nodes ^ distance[nodes]
        yield length, np.unique(units[base[units[nodes] & 0x100 != 0]] & 0x7FFFFFFF)
        found = []
        for some in np.split(base, range(4096, len(base), 4096)):
            children = some[:, None] ^ bytes_
            found.append(children[(units[children] & 0x800000FF == bytes_) & (bytes_ != 0)])
        nodes = np.unique(np.concatenate(found))  # keys share their ends
        if not len(nodes):
            return
    raise TokenizerError("precompiled_charsmap: a rule is too long, or the trie has a loop")


def _check_units(trie: np.ndarray, string_bytes: int) -> None:
    """What the engine asks of every unit, whether a text leads there or not: its children lie in
    the trie, its value in the strings."""
    units = trie.astype(np.int64)
    is_value = units >> 31 != 0
    if is_value[0] or np.any(units[is_value] & 0x7FFFFFFF >= string_bytes):
        raise TokenizerError("precompiled_charsmap: a value points outside the strings")
    base = np.arange(len(units)) ^ (units >> 10 << ((units & 0x200) >> 6))
    if np.any((base[~is_value] | 0xFF) >= len(units)):
        raise TokenizerError("precompiled_charsmap: the trie points outside itself")
    if not is_value[base[~is_value & (units & 0x100 != 0)]].all():
        raise TokenizerError("precompiled_charsmap: a rule without a value")


def split_charsmap(charsmap: bytes) -> tuple[bytes, bytes]:
    """A charsmap is u32 bytes of the trie, the trie, then zero-terminated replacements."""
    if not charsmap:
        return b"", b""
    if len(charsmap) <= 4:
        raise TokenizerError("precompiled_charsmap is cut off")
    trie_bytes = struct.unpack_from("<I", charsmap)[0]
    if trie_bytes % 4 or trie_bytes == 0 or trie_bytes >= len(charsmap) - 4:
        raise TokenizerError("precompiled_charsmap: the size of its trie is wrong")
    strings = charsmap[4 + trie_bytes :]
    if strings[-1] != 0:
        raise TokenizerError("precompiled_charsmap: its strings are not terminated")
    return charsmap[4 : 4 + trie_bytes], strings


def map_bounds(trie: bytes, strings: bytes, escape: bool) -> tuple[int, int]:
    """(most normalized bytes for one byte of text, longest key); an invalid byte becomes the 3
    bytes of U+FFFD."""
    expansion, longest = 3, 0
    if trie:
        text = np.frombuffer(strings, dtype=np.uint8)
        _check_units(np.frombuffer(trie, dtype="<u4"), len(strings))
        ends, spaces = np.flatnonzero(text == 0), np.concatenate([[0], np.cumsum(text == 32)])
        for length, values in _trie_values(np.frombuffer(trie, dtype="<u4")):
            if not len(values):
                continue
            stops = ends[np.searchsorted(ends, values)]
            sizes = stops - values + (2 * (spaces[stops] - spaces[values]) if escape else 0)
            expansion = max(expansion, -(-int(sizes.max()) // max(1, length)))
            longest = length
    return expansion, longest


class Rules(NamedTuple):
    """What a map says of each text that it has: of one character, of more."""

    characters: dict[str, str]
    longer: dict[str, str]
    growth: Fraction  # most bytes that a byte of a longer text becomes, 1 at least


@functools.lru_cache(maxsize=8)
def map_rules(trie: bytes, strings: bytes) -> Rules:
    """The rules of a map whose bounds are known to be sound (map_bounds)."""
    units = np.frombuffer(trie, dtype="<u4").astype(np.int64)
    distance = (units >> 10) << ((units & 0x200) >> 6)
    bytes_ = np.arange(256, dtype=np.int64)
    nodes, keys = np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.uint8)
    left, out = _MOST_RULE_BYTES - 1, Rules({}, {}, Fraction(1))
    growth = 1, 1

    def take(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise TokenizerError("precompiled_charsmap: there are too many rules")

    while len(nodes):
        base = nodes ^ distance[nodes]
        ends = units[nodes] & 0x100 != 0
        for key, at in zip(keys[ends], (units[base[ends]] & 0x7FFFFFFF).tolist()):
            text, to = key.tobytes(), strings[at : strings.index(0, at)]
            take(len(to))
            chars = text.decode("utf-8", "replace")
            (out.characters if len(chars) == 1 else out.longer)[chars] = to.decode(
                "utf-8", "replace"
            )
            if len(chars) > 1 and len(to) * growth[1] > growth[0] * len(text):
                growth = len(to), len(text)
        found = []
        for first in range(0, len(base), 4096):
            children = base[first : first + 4096, None] ^ bytes_
            rows, labels = np.nonzero((units[children] & 0x800000FF == bytes_) & (bytes_ != 0))
            take(len(rows) * (keys.shape[1] + 2))
            found.append((rows + first, labels, children[rows, labels]))
        rows, labels, nodes = map(np.concatenate, zip(*found))
        keys = np.concatenate([keys[rows], labels[:, None].astype(np.uint8)], axis=1)
    return out._replace(growth=Fraction(*growth))


def checked_bounds(trie: bytes, strings: bytes, escape: bool = False) -> tuple[int, int]:
    """map_bounds of a map that a section may have."""
    expansion, longest = map_bounds(trie, strings, escape)
    if expansion > 255:
        raise TokenizerError("the normalizer's map: a rule expands too much")
    return expansion, longest


def put_map(section: Section, trie: bytes, strings: bytes, escape: bool = False) -> None:
    section.trie, section.strings = trie, strings
    section.expansion, section.longest_rule = checked_bounds(trie, strings, escape)


# ---- Making one


def build_trie(keys: dict[bytes, int], before: bytes = b"") -> bytes:
    """The double array that finds the keys (without zero bytes) and gives their values (< 2³¹), in
    whole blocks of 256 units. before: another one, of such blocks, which stays as it is; the root
    is then the first unit behind it.

    The children of a node lie at base ^ byte, its value at base; no two nodes have the same base,
    and a free unit has a label by which only an unused base could reach it, so no walk goes astray.
    """
    root: dict[str, Any] = {}
    for key, value in keys.items():
        assert 0 not in key
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[-1] = value
    start = len(before) // 4
    units: list[int] = [*np.frombuffer(before, dtype="<u4").tolist(), *([0] * 256)]
    # 1 for a unit that a node or a value has
    used = bytearray(b"\1" * (start + 1) + bytes(255))
    bases = {start}  # or the root would be its own child of byte 0
    taken = Counter({start >> 8: 1})  # bases by block: one stays free

    def free(at: int) -> int:
        """The first free unit from `at` on."""
        if (found := used.find(0, at)) >= 0:
            return found
        units.extend([0] * 256)
        used.extend(bytes(256))
        return free(at)

    def place(labels: list[int]) -> int:
        # The older blocks have few places left, and looking takes time.
        at = free(max(start, len(units) - 16 * 256))
        while True:
            base = at ^ labels[0]
            if (
                base not in bases
                and taken[base >> 8] < 255
                and not any(used[base ^ x] for x in labels)
            ):
                bases.add(base)
                taken[base >> 8] += 1
                return base
            at = free(at + 1)

    waiting = [(start, root)]  # (unit, node): the unit gets its base
    for at, node in waiting:
        base = place([max(label, 0) for label in node])
        distance = at ^ base
        assert distance < 1 << 21
        units[at] |= distance << 10 | (0x100 if -1 in node else 0)
        for label, child in node.items():
            place_of = base ^ max(label, 0)
            used[place_of] = 1
            units[place_of] = child | 0x80000000 if label < 0 else label
            if label >= 0:
                waiting.append((place_of, child))
    for block in range(start, len(units), 256):
        nobody = next(base for base in range(block, block + 256) if base not in bases)
        for at in range(block, block + 256):
            if not used[at]:
                units[at] = (at ^ nobody) & 0xFF
    return np.array(units, dtype="<u4").tobytes()


def build_map(replacements: dict[int, str]) -> tuple[bytes, bytes]:
    """The normalizer's trie and strings that replace characters."""
    if not replacements:
        return b"", b""
    return _from_texts({chr(c).encode(): text.encode() for c, text in replacements.items()})


def texts_and_places(texts: dict[bytes, bytes], start: int = 0) -> tuple[dict[bytes, int], bytes]:
    """The places of the keys' texts in the strings, which begin at `start`; the strings."""
    strings = bytearray()
    places: dict[bytes, int] = {}
    for text in texts.values():
        if text not in places:
            places[text] = start + len(strings)
            strings += text + b"\0"
    return {key: places[text] for key, text in texts.items()}, bytes(strings)


def _from_texts(texts: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    places, strings = texts_and_places(texts)
    return build_trie(places), strings


def canonical_map() -> tuple[bytes, bytes]:
    """Trie and strings of NFC: of a character a byte, 1 + its combining class, and its full
    decomposition if it has one; of two characters the one that they become."""
    decomposed, order = unicode.MAPS["decomposed"], unicode.MAPS["order"]
    texts = {
        chr(c).encode(): bytes([1 + ord(order.get(c, "\0"))]) + decomposed.get(c, "").encode()
        for c in sorted({*decomposed, *order})
    }
    texts.update({pair.encode(): chr(c).encode() for c, pair in unicode.MAPS["composed"].items()})
    return _from_texts(texts)
