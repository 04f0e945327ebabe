"""A plain list of words (3), the id of a word being its place: text is split at white space, or its
characters are the words."""

from __future__ import annotations

from typing import Iterable

from phasor.tokenizers.model import Model
from phasor.tokenizers.section import (
    CONTROL,
    LONGEST_PIECE,
    NORMAL,
    UNKNOWN,
    Section,
    TokenizerError,
    check_alike,
    read_section,
)

CHARACTERS = 128  # flag


def build_wordlist_section(
    pieces: list[str],
    unknown_id: int | None,
    control_ids: Iterable[int] = (),
    characters: bool = False,
) -> bytes:
    """Builds the section for a plain list of words, the id of a word being its place.

    unknown_id is the id for a word that is not in the list; None makes such a word an error.
    control_ids name words that text never gives and that decode to nothing (padding, start, end).
    characters: the text is not split at white space, its characters are looked up.
    """
    control = set(control_ids)
    if not pieces:
        raise TokenizerError("the word list is empty")
    for name, id_ in [("unknown", unknown_id), *(("control", id_) for id_ in sorted(control))]:
        if id_ is not None and not 0 <= id_ < len(pieces):
            raise TokenizerError(f"the {name} id {id_} is not in the list of {len(pieces)} words")
    if unknown_id in control:
        raise TokenizerError(f"id {unknown_id} is both the unknown and a control word")
    rows = []
    for id_, word in enumerate(pieces):
        text = word.encode("utf-8")
        if not text:
            raise TokenizerError(f"word {id_} is empty")
        if len(text) > LONGEST_PIECE:
            raise TokenizerError(f"word {id_} is longer than {LONGEST_PIECE} bytes")
        rows.append(
            (text, 0.0, UNKNOWN if id_ == unknown_id else CONTROL if id_ in control else NORMAL)
        )
    check_alike(text for text, _, kind in rows if kind != NORMAL)
    section = Section(MODEL.number)
    section.flags = CHARACTERS * characters
    section.unknown = unknown_id
    section.surface = b"" if unknown_id is None else rows[unknown_id][0]
    made = section.bytes(rows)
    read_section(made)
    return made


MODEL = Model(3, "word list")
