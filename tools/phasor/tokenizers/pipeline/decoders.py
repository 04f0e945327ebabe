"""The decoder of a tokenizer.json, as flags of the section, marks of its pieces and the texts of
those that follow neither.

A decoder is a chain over the tokens of a text. What it makes of one token depends on the token, and
on whether it is the first or the last; so the chain is run on each token of the vocabulary, and
what a section can say of all of them together is looked for.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.json_parts import META, fields, member, prepend_scheme, refuse, steps
from phasor.tokenizers.pipeline.normalizers import pattern_of
from phasor.tokenizers.pipeline.steps import FILTER_BYTE, FILTER_ENDS, FILTER_TEXT, SPELLED, row
from phasor.tokenizers.section import TokenizerError

JOINS, BYTES, LETTERS, SPACES = 4, 32, 64, 128  # flags of the section
FIRST_DROPS, SUFFIX_IS_SPACE, REPEATS = 4096, 16384, 32768
JOINED = 2  # mark of a piece
DUE, NOTHING, LAST, SKIPPED = 1, 2, 4, 8  # flags of a piece that is spelled out
NO_TOKEN = 0xFFFFFE  # as which a piece comes
LONGEST_AFFIX = 32
_MOST_SKIPPED = 255
# What the package's ByteFallback reads as a byte: lower case too, and a sign.
READS_AS_BYTE = re.compile(r"<0x(?:[0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
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


_PLACES = [Place(first, last) for first in (True, False) for last in (True, False)]

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


STATE, MOST_FILTERS = 64, 24  # bits of a decoder's: 32 of each token that it keeps
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


def _replace(chain: Chain, step: dict) -> None:
    fields(step, "decoder", ("pattern", "content"))
    given, content = member(step, "pattern", "decoder"), member(step, "content", "decoder")
    pattern, _ = pattern_of(given, "decoder Replace")
    if (chain.merged or chain.as_bytes) and "String" in given:
        return _filter(chain, given["String"], content)
    if chain.merged:
        _of_one_character(chain, shown(given["Regex"]), pattern.of_one_character())

    @functools.lru_cache(maxsize=64)  # a token is asked for in every place
    def replaced(token: str) -> str:
        parts = pattern.segments(token)
        return "".join(content if match else token[a:b] for a, b, match in parts)

    chain.add(lambda token, place: replaced(token))


def _of_one_character(chain: Chain, what: str, characters: np.ndarray | None) -> None:
    """Behind what makes one text, only a character's change is the same token by token; where
    tokens are bytes, a character of ASCII's."""
    in_parts = chain.as_bytes or chain.as_letters
    if chain.filters or characters is None or (in_parts and characters[128:].any()):
        refuse(f"decoder Replace of {what} behind another that joins the tokens")


def _strip(chain: Chain, step: dict) -> None:
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


def _metaspace(chain: Chain, step: dict) -> None:
    names = ("replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep")
    fields(step, "decoder", names)
    sign, drops = member(step, "replacement", "decoder"), prepend_scheme(step, "decoder") != "never"
    if len(sign) != 1:
        refuse(f"decoder Metaspace with replacement {shown(sign)}")
    if chain.merged:  # then all of it is the first token
        return _filter(chain, sign, "" if drops else " ")

    def change(token: str, place: Place) -> str:
        return token.replace(sign, "" if drops and place.first else " ")

    chain.add(change, drops)


def _wordpiece(chain: Chain, step: dict) -> None:
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


def _suffix(chain: Chain, step: dict) -> None:
    (suffix,) = (member(fields(step, "decoder", ("suffix",)), "suffix", "decoder"),)
    if not suffix:
        refuse("decoder BPEDecoder without a suffix")
    if chain.merged:  # then all of it is the last token
        return _filter(chain, suffix, "")

    def change(token: str, place: Place) -> str:
        return token.replace(suffix, "" if place.last else " ")

    chain.add(change, True)


def _ctc(chain: Chain, step: dict) -> None:
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


def _byte_fallback(chain: Chain, step: dict) -> None:
    fields(step, "decoder", ())
    if not chain.merged:
        chain.as_bytes = True
    elif row(FILTER_BYTE) in chain.filters:
        refuse("decoder ByteFallback twice behind another that joins the tokens")
    else:  # then all of it is one token
        chain.filter(FILTER_BYTE, b"", _BYTE_STATES)


def _byte_level(chain: Chain, step: dict) -> None:
    fields(step, "decoder", ("add_prefix_space", "trim_offsets", "use_regex"))
    letters = chain.merged and not (chain.as_letters or chain.filters or chain.as_bytes)
    if (chain.merged or chain.as_bytes) and not (letters and _all_letters(chain)):
        refuse("decoder ByteLevel behind another that joins the tokens")
    chain.as_letters = chain.merged = True


def _all_letters(chain: Chain) -> bool:
    """Whether any tokens together are letters alone."""
    texts = (chain.of(token, place).decode() for token in chain.tokens for place in _PLACES)
    return all(c in chain.alphabet for text in texts for c in text)


def _fuse(chain: Chain, step: dict) -> None:
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


def _takes_parts(step: dict) -> bool:
    """Whether a step right behind ByteFallback, for which a run of bytes is one token, does the
    same to the text that all tokens make: it does nothing, or changes a character."""
    if step["type"] == "Replace":
        pattern = step.get("pattern")
        text = pattern.get("String") if isinstance(pattern, dict) else None
        return isinstance(text, str) and len(text) == 1
    nothing = step["type"] == "Strip" and step.get("start") == step.get("stop") == 0
    return nothing or step["type"] in ("Fuse", "ByteFallback")


def chain_of(spec: dict, alphabet: dict[str, int], tokens: list[tuple[int, str]]) -> Chain:
    chain = Chain(joins=spec.get("decoder") is None, alphabet=alphabet)
    chain.tokens = [token for _, token in tokens]
    for step in steps(spec.get("decoder"), "decoder", "decoders"):
        kind = step["type"]
        if kind == "ByteFallback" and not chain.merged and not any(
            READS_AS_BYTE.fullmatch(chain.of(token, Place(first, False)).decode())
            for _, token in tokens
            for first in (True, False)
        ):
            fields(step, "decoder", ())
            continue  # no token is a byte
        if kind not in _TYPES:
            refuse(f"decoder {kind}")
        if chain.as_bytes and not chain.merged and not _takes_parts(step):
            refuse(f"decoder {kind} right behind ByteFallback")
        _TYPES[kind](chain, step)
    return chain


# ---- What a section can say of all tokens


class Said(NamedTuple):
    """What a token becomes as the first, and later on; whether a space is due behind it; whether it
    is none, and whether it does not part others either; the token as which it comes again; what it
    becomes as the last one, if something else: as the first and last, and later on; the token as which it comes as the first one of all, if
    another, NO_TOKEN for none."""

    first: bytes
    later: bytes
    due: bool = False
    nothing: bool = False
    skipped: bool = False
    same: int | None = None
    last: tuple[bytes, bytes] | None = None
    same_first: int | None = None

    def rows(self) -> list[tuple[bytes, bytes, int]]:
        """(as the first, later on, flags)."""
        flags = DUE * self.due | NOTHING * self.nothing | SKIPPED * self.skipped
        flags |= _same(self.same)
        rows = [(self.first, self.later, flags)]
        if self.last is not None or self.same_first is not None:
            end = b" " * self.due
            last = self.last or (self.first, self.later)
            rows = [(self.first + end, self.later + end, flags & ~DUE)]
            rows.append((*last, LAST | _same(self.same_first)))
        return rows


def _same(id_: int | None) -> int:
    return 0 if id_ is None else id_ + 1 << 8


@dataclass
class Decoding:
    flags: int = 0
    suffix: str = ""
    marks: dict[str, int] = field(default_factory=dict)
    spelled: list[tuple[int, Said]] = field(default_factory=list)
    filters: list[bytes] = field(default_factory=list)

    def rows(self) -> bytes:
        table, texts = bytearray(), bytearray()
        all_rows = [(id_, row) for id_, said in sorted(self.spelled) for row in said.rows()]
        for id_, (first, later, flags) in all_rows:
            if max(len(first), len(later)) > 0xFFFF:
                raise TokenizerError(f"decoder: the token with id {id_} becomes too long a text")
            table += struct.pack("<IIHHI", id_, len(texts), len(first), len(later), flags)
            texts += first + later
        head = struct.pack("<II", len(all_rows), len(texts))
        return row(SPELLED, head + table + texts) + b"".join(self.filters)


def _said(chain: Chain, token: str) -> Said:
    if not chain.changes and not chain.behind:  # the same in every place
        text = chain.of(token, Place(True, True))
        return Said(text, b" " + text if chain.joins else text)
    if chain.repeats:
        ran = [chain.run(token, place) for place in _PLACES]
        if all(gone for _, _, gone in ran):
            return Said(b"", b"", nothing=True, skipped=len(ran[0][1]) < len(chain.repeats))
    inner, ends = (
        {first: chain.of(token, Place(first, last)) for first in (True, False)}
        for last in (False, True)
    )
    if chain.joins:
        return Said(ends[True], b" " + ends[False])
    due = inner != ends
    if due and any(inner[first] != ends[first] + b" " for first in inner):
        return Said(inner[True], inner[False], last=(ends[True], ends[False]))
    return Said(ends[True], ends[False], due)


def _groups(chain: Chain, said: list[tuple[int, str, Said]]) -> list[tuple[int, str, Said]]:
    """With tokens that are the same where a token that comes again is left out. Of several CTC it
    is the last one that counts: what equals another before is equal there too, and what became
    nothing on the way parts no tokens there."""
    alike: dict[str, int] = {}
    firsts, out = {}, []
    for id_, token, of in said:
        given = {place: chain.run(token, place)[1] for place in _PLACES}
        later, first = given[Place(False, False)], given[Place(True, False)]
        if later != given[Place(False, True)] or first != given[Place(True, True)]:
            refuse(f"decoder CTC behind what the end of a text makes of the token {shown(token)}")
        if first != later:
            if len(chain.repeats) > 1:
                refuse("decoder CTC twice behind what a text's beginning makes of a token")
            firsts[id_] = first[0]
        same = id_ if of.skipped else alike.setdefault(later[-1], id_)
        out.append((id_, token, of if same == id_ else of._replace(same=same)))
    if firsts and chain.placed > chain.repeats[0]:
        if not all(of.first and not of.nothing for _, _, of in out):
            what = "a text's beginning makes of a token, one being nothing,"
            refuse(f"decoder CTC behind what {what}")
    elif firsts:  # what becomes nothing is the first token all the same
        out = [(id_, token, of._replace(nothing=False)) for id_, token, of in out]
    as_first = {id_: alike.get(text, NO_TOKEN) for id_, text in firsts.items()}
    return [(id_, token, of._replace(same_first=as_first.get(id_))) for id_, token, of in out]


class _Rule(NamedTuple):
    """A way in which a section says what pieces decode to."""

    flags: int
    suffix: str = ""

    def of(self, token: str, said: Said) -> tuple[Said, int]:
        """What the piece becomes by the rule, and its mark."""
        first, mark, due = token.encode(), 0, False
        later = first
        if self.flags & JOINS:
            skip = _skipped(first, said.later)
            if skip is None:
                return Said(b"", b"", nothing=True), 0
            joined, count = skip
            mark = JOINED * joined | count << 8
            later = b" " * (not joined) + first[count:]
        suffix = self.suffix.encode()
        if suffix and first.endswith(suffix):
            first, later, due = first[: -len(suffix)], later[: -len(suffix)], True
        if self.flags & SPACES:
            sign = META.encode()
            drop = b"" if self.flags & FIRST_DROPS else b" "
            first, later = first.replace(sign, drop), later.replace(sign, b" ")
        return Said(first, later, due), mark


def _skipped(token: bytes, later: bytes) -> tuple[bool, int] | None:
    """(no space before it, bytes that it loses)."""
    for joined in (False, True):
        rest = later if joined else later[1:]
        if (joined or later[:1] == b" ") and token.endswith(rest):
            if len(token) - len(rest) <= _MOST_SKIPPED:
                return joined, len(token) - len(rest)
    return None


def decoding_of(
    spec: dict, tokens: list[tuple[int, str]], alphabet: dict[str, int], suffix: str
) -> Decoding:
    """tokens: (id, text) of all that a text can have; suffix: of the model's words, else the
    decoder's own is taken."""
    chain = chain_of(spec, alphabet, tokens)
    found = Decoding(
        BYTES * chain.as_bytes | REPEATS * bool(chain.repeats),
        suffix,
        filters=chain.filters,
    )
    said = []
    for id_, token in tokens:
        if chain.as_bytes:
            changed = chain.of(token, Place(False, False)).decode()
            if READS_AS_BYTE.fullmatch(changed) or READS_AS_BYTE.fullmatch(token):
                if not _BYTE.fullmatch(token) or changed != token:
                    what = "which the decoder ByteFallback reads as a byte,"
                    refuse(f"the token {shown(token)}, {what}")
                continue
        said.append((id_, token, _said(chain, token)))
    if chain.repeats:
        said = _groups(chain, said)
    held = any(len(of.rows()) > 1 for _, _, of in said)
    most = STATE - 32 * bool(chain.repeats) - 32 * held
    if chain.bits > most or len(chain.filters) > MOST_FILTERS:
        refuse(
            f"a decoder of {len(chain.filters)} steps with {chain.bits} bits of state behind what "
            f"joins the tokens, expected at most {MOST_FILTERS} and {most},"
        )
    if chain.as_letters:
        found.flags |= LETTERS
        letters = Chain(as_letters=True, alphabet=alphabet)
        for id_, token, of in said:
            plain = letters.of(token, Place(False, False))
            if of != Said(plain, plain):
                found.spelled.append((id_, of))
        return found
    own = _decoder_suffix(spec)
    ends = suffix or (own if len(own.encode()) <= LONGEST_AFFIX else "")
    rules = [
        _Rule(flags | (SUFFIX_IS_SPACE if word_ends else 0), word_ends)
        for flags in (0, SPACES, SPACES | FIRST_DROPS, JOINS)
        for word_ends in dict.fromkeys(("", ends))
    ]
    best: tuple[int, _Rule] | None = None
    for rule in rules:
        wrong = sum(rule.of(token, of)[0] != of for _, token, of in said)
        if best is None or wrong < best[0]:
            best = wrong, rule
    assert best is not None
    rule = best[1]
    found.flags |= rule.flags
    found.suffix = suffix or rule.suffix
    for id_, token, of in said:
        by_rule, mark = rule.of(token, of)
        if by_rule == of:
            found.marks[token] = mark
        else:
            found.spelled.append((id_, of))
    return found


def _decoder_suffix(spec: dict) -> str:
    for step in steps(spec.get("decoder"), "decoder", "decoders"):
        if step["type"] == "BPEDecoder" and isinstance(step.get("suffix"), str):
            return step["suffix"]
    return ""
