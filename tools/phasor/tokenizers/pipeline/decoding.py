"""What a section can say of a decoder: flags, marks of the pieces, and the texts of those that
follow neither.

What the chain of a decoder makes of one token depends on the token, and on whether it is the first
or the last; so the chain is run on each token of the vocabulary, and what a section can say of all
of them together is looked for.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from phasor.errors import shown
from phasor.tokenizers.json_parts import META, refuse, steps
from phasor.tokenizers.pipeline.decoders import PLACES, READS_AS_BYTE, Chain, Place, chain_of
from phasor.tokenizers.pipeline.steps import SPELLED, row
from phasor.tokenizers.section import TokenizerError

JOINS, BYTES, LETTERS, SPACES = 4, 32, 64, 128  # flags of the section
FIRST_DROPS, SUFFIX_IS_SPACE, REPEATS = 4096, 16384, 32768
JOINED = 2  # mark of a piece
DUE, NOTHING, LAST, SKIPPED = 1, 2, 4, 8  # flags of a piece that is spelled out
NO_TOKEN = 0xFFFFFE  # as which a piece comes
LONGEST_AFFIX = 32
STATE, MOST_FILTERS = 64, 24  # bits of a decoder's: 32 of each token that it keeps
_MOST_SKIPPED = 255
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Said(NamedTuple):
    """What a token becomes as the first, and later on; whether a space is due behind it; whether it
    is none, and whether it does not part others either; the token as which it comes again; what it
    becomes as the last one, if something else: as the first and last, and later on; the token as
    which it comes as the first one of all, if another, NO_TOKEN for none."""

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
        ran = [chain.run(token, place) for place in PLACES]
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
        given = {place: chain.run(token, place)[1] for place in PLACES}
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
        later, suffix = first, self.suffix.encode()
        if self.flags & JOINS:
            skip = _skipped(first, said.later + suffix * said.due)
            if skip is None:
                return Said(b"", b"", nothing=True), 0
            joined, count = skip
            mark = JOINED * joined | count << 8
            later = b" " * (not joined) + first[count:]
        if suffix and first.endswith(suffix):
            if not later.endswith(suffix):
                return Said(b"", b"", nothing=True), 0
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
    spec: dict[str, Any], tokens: list[tuple[int, str]], alphabet: dict[str, int], suffix: str
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


def _decoder_suffix(spec: dict[str, Any]) -> str:
    for step in steps(spec.get("decoder"), "decoder", "decoders"):
        if step["type"] == "BPEDecoder" and isinstance(step.get("suffix"), str):
            result: str = step["suffix"]
            return result
    return ""
