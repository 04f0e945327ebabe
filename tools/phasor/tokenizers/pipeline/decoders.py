"""The decoder of a tokenizer.json, as a chain of changes that each token goes through, and of
filters of the text that all of them make.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.json_parts import fields, member, prepend_scheme, refuse, steps
from phasor.tokenizers.patterns.table import Pattern
from phasor.tokenizers.pipeline.normalizers import pattern_of
from phasor.tokenizers.pipeline.steps import FILTER_BYTE, FILTER_ENDS, FILTER_TEXT, row

# What the package's ByteFallback reads as a byte: lower case too, and a sign.
READS_AS_BYTE = re.compile(r"<0x(?:[0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def clean_up(text: str) -> str:
    """The package's clean-up of what a tokenizer has put apart."""
    for before, after in _CLEANED:
        text = text.replace(before, after)
    return text


class Place(NamedTuple):
    first: bool
    last: bool


PLACES = [Place(first, last) for first in (True, False) for last in (True, False)]

Change = Callable[[str, Place], str]


@dataclass
class Chain:
    """What becomes of one token, step by step; and what is done to the text that all make."""

    changes: list[Change] = field(default_factory=list)
    behind: list[Change] = field(default_factory=list)  # what the tokens' bytes have become
    joins: bool = False  # with spaces between
    as_bytes: bool = False  # ByteFallback
    as_letters: bool = False  # ByteLevel
    merged: bool = False  # all tokens are one text from here on
    filters: list[bytes] = field(default_factory=list)  # rows of what is done to that text
    bits: int = 0  # of the filters' states
    # of the changes, those in which a token that comes again is none, and what becomes nothing
    repeats: list[int] = field(default_factory=list)
    placed: int = -1  # the last change that depends on a token's place
    alphabet: dict[str, int] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    def add(self, change: Change, placed: bool = False) -> None:
        (self.behind if self.as_letters else self.changes).append(change)
        if placed:
            self.placed = len(self.changes) - 1

    def filter(self, kind: int, part: bytes, states: int) -> None:
        self.filters.append(row(kind, part))
        self.bits += (states - 1).bit_length()

    def run(self, token: str, place: Place) -> tuple[str, list[str], bool]:
        """What the changes make of a token, what each CTC among them is given, and whether the last
        one of these leaves nothing."""
        given: list[str] = []
        for at, change in enumerate(self.changes):
            if at in self.repeats:
                given.append(token)
            token = change(token, place)
            if at in self.repeats and not token:
                return "", given, True
        return token, given, False

    def of(self, token: str, place: Place) -> bytes:
        token, _, gone = self.run(token, place)
        if gone:
            return b""
        letters = [self.alphabet.get(c) for c in token] if self.as_letters else [None]
        data = token.encode() if None in letters else bytes(letters)
        if not self.behind:
            return data
        text = data.decode("latin-1")  # they change ASCII's characters alone
        for change in self.behind:
            text = change(text, place)
        return text.encode("latin-1")


_BYTE_STATES = 1 << 13


def _filter(chain: Chain, text: str, to: str) -> None:
    """In the text of all tokens a text becomes another, the leftmost first."""
    data, put = text.encode(), to.encode()
    if len(data) > 255 or len(put) > 255:
        refuse(f"a decoder's step of {shown(text)} behind another that joins the tokens")
    borders = [0]
    for byte in data[1:]:
        at = borders[-1]
        while at and data[at] != byte:
            at = borders[at - 1]
        borders.append(at + (data[at] == byte))
    part = struct.pack("<II", len(data), len(put)) + data + bytes(borders) + put
    chain.filter(FILTER_TEXT, part, len(data))


def _replace(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ("pattern", "content"))
    given, content = member(step, "pattern", "decoder"), member(step, "content", "decoder")
    pattern, _ = pattern_of(given, "decoder Replace")
    if (chain.merged or chain.as_bytes) and "String" in given:
        return _filter(chain, given["String"], content)
    if chain.as_bytes:  # of which a character may be made
        signs = _of_ascii(pattern, content)
        if not signs:
            what = shown(given["Regex"])
            refuse(f"decoder Replace of {what} behind another that joins the tokens")
        for sign in signs:
            _filter(chain, sign, content)
        return
    if chain.merged:
        characters = pattern.of_one_character(runs=not content)  # each of which goes
        _of_one_character(chain, shown(given["Regex"]), characters)

    @functools.lru_cache(maxsize=64)  # a token is asked for in every place
    def replaced(token: str) -> str:
        parts = pattern.segments(token)
        return "".join(content if match else token[a:b] for a, b, match in parts)

    chain.add(lambda token, place: replaced(token))


def _of_ascii(pattern: Pattern, content: str) -> list[str]:
    """The characters of a pattern that matches each of them alone, where it makes no difference
    which is replaced first; else none."""
    characters = pattern.of_one_character(runs=not content)
    if characters is None or characters[128:].any():
        return []
    signs = [chr(code) for code in np.flatnonzero(characters)]
    return [] if len(signs) > 1 and set(signs) & set(content) else signs


def _of_one_character(chain: Chain, what: str, characters: np.ndarray | None) -> None:
    """Behind what makes one text, only a character's change is the same token by token; where
    tokens are bytes, a character of ASCII's."""
    in_parts = chain.as_bytes or chain.as_letters
    if chain.filters or characters is None or (in_parts and characters[128:].any()):
        refuse(f"decoder Replace of {what} behind another that joins the tokens")


def _strip(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ("content", "start", "stop"))
    sign, start, stop = (member(step, name, "decoder") for name in ("content", "start", "stop"))
    if len(sign) != 1:
        refuse(f"decoder Strip of {shown(sign)}")
    if start == stop == 0:
        return
    if chain.merged:
        if not sign.isascii() or max(start, stop) > 127:
            refuse(f"decoder Strip of {shown(sign)}, {start} and {stop}, from a whole text")
        part = struct.pack("<III", start, stop, ord(sign)) + sign.encode() * stop
        return chain.filter(FILTER_ENDS, part, start + stop + 2)

    def change(token: str, place: Place) -> str:
        begin = 0
        while begin < min(start, len(token)) and token[begin] == sign:
            begin += 1
        end = len(token)
        while len(token) - end < stop and end > 0 and token[end - 1] == sign:
            end -= 1
        return token[begin:end]

    chain.add(change)


def _metaspace(chain: Chain, step: dict[str, Any]) -> None:
    names = ("replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep")
    fields(step, "decoder", names)
    sign, drops = member(step, "replacement", "decoder"), prepend_scheme(step, "decoder") != "never"
    if len(sign) != 1:
        refuse(f"decoder Metaspace with replacement {shown(sign)}")
    if chain.merged or chain.as_bytes:  # then all of it is the first token, if there is a first one
        return _filter(chain, sign, "" if drops else " ")

    def change(token: str, place: Place) -> str:
        return token.replace(sign, "" if drops and place.first else " ")

    chain.add(change, drops)


def _wordpiece(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ("prefix", "cleanup"))
    prefix, cleans = (member(step, name, "decoder") for name in ("prefix", "cleanup"))
    if chain.merged:  # then all of it is the first token
        return _clean_text(chain) if cleans else None

    def change(token: str, place: Place) -> str:
        if not place.first:
            token = token[len(prefix) :] if token.startswith(prefix) else " " + token
        return clean_up(token) if cleans else token

    chain.add(change, True)


def _clean_text(chain: Chain) -> None:
    for before, after in _CLEANED:
        _filter(chain, before, after)


def _suffix(chain: Chain, step: dict[str, Any]) -> None:
    (suffix,) = (member(fields(step, "decoder", ("suffix",)), "suffix", "decoder"),)
    if not suffix:
        refuse("decoder BPEDecoder without a suffix")
    if chain.merged:  # then all of it is the last token
        return _filter(chain, suffix, "")

    def change(token: str, place: Place) -> str:
        return token.replace(suffix, "" if place.last else " ")

    chain.add(change, True)


def _ctc(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ("pad_token", "word_delimiter_token", "cleanup"))
    pad, delimiter, cleans = (
        member(step, name, "decoder") for name in ("pad_token", "word_delimiter_token", "cleanup")
    )
    if not pad or (cleans and not delimiter):
        refuse("decoder CTC without a pad token or a word delimiter")
    if chain.merged:
        _filter(chain, pad, "")
        if cleans:
            _clean_text(chain)
            _filter(chain, delimiter, " ")
        return

    def change(token: str, place: Place) -> str:
        token = token.replace(pad, "")
        return clean_up(token).replace(delimiter, " ") if cleans else token

    chain.add(change)
    chain.repeats.append(len(chain.changes) - 1)


def _byte_fallback(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ())
    if not chain.merged:
        chain.as_bytes = True
    elif row(FILTER_BYTE) in chain.filters:
        refuse("decoder ByteFallback twice behind another that joins the tokens")
    else:  # then all of it is one token
        chain.filter(FILTER_BYTE, b"", _BYTE_STATES)


def _byte_level(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ("add_prefix_space", "trim_offsets", "use_regex"))
    letters = chain.merged and not (chain.as_letters or chain.filters or chain.as_bytes)
    if (chain.merged or chain.as_bytes) and not (letters and _all_letters(chain)):
        refuse("decoder ByteLevel behind another that joins the tokens")
    chain.as_letters = chain.merged = True


def _all_letters(chain: Chain) -> bool:
    """Whether any tokens together are letters alone."""
    texts = (chain.of(token, place).decode() for token in chain.tokens for place in PLACES)
    return all(c in chain.alphabet for text in texts for c in text)


def _fuse(chain: Chain, step: dict[str, Any]) -> None:
    fields(step, "decoder", ())
    chain.merged = True


_TYPES = {
    "Replace": _replace,
    "Strip": _strip,
    "Metaspace": _metaspace,
    "WordPiece": _wordpiece,
    "BPEDecoder": _suffix,
    "CTC": _ctc,
    "ByteFallback": _byte_fallback,
    "ByteLevel": _byte_level,
    "Fuse": _fuse,
}


def _takes_parts(step: dict[str, Any]) -> bool:
    """Whether a step right behind ByteFallback, for which a run of bytes is one token, does the
    same to the text that all tokens make: it does nothing, or changes a character."""
    if step["type"] == "Replace":
        pattern = step.get("pattern")
        text = pattern.get("String") if isinstance(pattern, dict) else None
        # or characters of ASCII, of which _replace makes sure
        return (
            isinstance(text, str)
            and len(text) == 1
            or isinstance(pattern, dict)
            and (isinstance(pattern.get("Regex"), str))
        )
    if step["type"] == "Metaspace":
        return prepend_scheme(step, "decoder") == "never"
    nothing = step["type"] == "Strip" and step.get("start") == step.get("stop") == 0
    return nothing or step["type"] in ("Fuse", "ByteFallback")


def chain_of(
    spec: dict[str, Any], alphabet: dict[str, int], tokens: list[tuple[int, str]]
) -> Chain:
    chain = Chain(joins=spec.get("decoder") is None, alphabet=alphabet)
    chain.tokens = [token for _, token in tokens]
    for step in steps(spec.get("decoder"), "decoder", "decoders"):
        kind = step["type"]
        if (
            kind == "ByteFallback"
            and not chain.merged
            and not any(
                READS_AS_BYTE.fullmatch(chain.of(token, Place(first, False)).decode())
                for _, token in tokens
                for first in (True, False)
            )
        ):
            fields(step, "decoder", ())
            continue  # no token is a byte
        if kind not in _TYPES:
            refuse(f"decoder {kind}")
        if chain.as_bytes and not chain.merged and not _takes_parts(step):
            refuse(f"decoder {kind} right behind ByteFallback")
        _TYPES[kind](chain, step)
    return chain
