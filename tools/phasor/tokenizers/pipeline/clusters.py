"""Clusters of characters (Unicode, annex 29), as the package's Precompiled has them: those of
regional indicators are left out, which are longer than it asks for."""

from __future__ import annotations

import functools
from typing import Iterator

from phasor.tokenizers import unicode

# What a character is in a cluster: the sets of the table, and what is not in it.
BREAKS = {
    "control": 3,
    "extend": 4,
    "extend_conjunct": 5,
    "linker": 6,
    "spacing": 8,
    "prepend": 9,
    "leading": 10,
    "vowel": 11,
    "trailing": 12,
    "pictographic": 14,
    "consonant": 15,
}
OTHER_BREAKS = ((0x0D, 0x0D, 1), (0x0A, 0x0A, 2), (0x200D, 0x200D, 7), (0xAC00, 0xD7A3, 13))
_RETURN, _FEED, _CONTROL, _CONJUNCT, _LINKER, _JOINER, _SPACING, _PREPEND = 1, 2, 3, 5, 6, 7, 8, 9
_LEADING, _VOWEL, _TRAILING, _SYLLABLE, _PICTURE, _CONSONANT = 10, 11, 12, 13, 14, 15
_EXTENDS = (4, _CONJUNCT, _LINKER)
_CONTROLS = (_RETURN, _FEED, _CONTROL)


@functools.cache
def _break(c: str) -> int:
    code = ord(c)
    for first, last, number in OTHER_BREAKS:
        if first <= code <= last:
            return number
    for name, number in BREAKS.items():
        if any(first <= code <= last for first, last in unicode.SETS[name]):
            return number
    return 0


def clusters(text: str) -> Iterator[str]:
    begin, before, picture, conjunct = 0, _CONTROL, 0, 0
    for at, c in enumerate(text):
        of = _break(c)
        joins = _joined(before, of, picture, conjunct)
        if at > 0 and not joins:
            yield text[begin:at]
            begin = at
        if not joins:
            picture = conjunct = 0
        if of == _PICTURE or (picture == 1 and of in _EXTENDS):
            picture = 1
        else:
            picture = 2 if picture == 1 and of == _JOINER else 0
        if of == _CONSONANT:
            conjunct = 1
        elif conjunct and of == _LINKER:
            conjunct = 2
        elif of not in (_CONJUNCT, _JOINER):
            conjunct = 0
        before = of
        if of == _SYLLABLE:
            before = _VOWEL if (ord(c) - 0xAC00) % 28 == 0 else _TRAILING
    if text:
        yield text[begin:]


def _joined(before: int, of: int, picture: int, conjunct: int) -> bool:
    """Whether a character goes on with the cluster; GB3 to GB11."""
    if (before, of) == (_RETURN, _FEED):
        return True
    if before in _CONTROLS or of in _CONTROLS:
        return False
    hangul = {_LEADING: (_LEADING, _VOWEL, _SYLLABLE), _VOWEL: (_VOWEL, _TRAILING)}
    if of in hangul.get(before, (_TRAILING,) if before == _TRAILING else ()):
        return True
    if of in (*_EXTENDS, _JOINER, _SPACING) or before == _PREPEND:
        return True
    return (conjunct == 2 and of == _CONSONANT) or (picture == 2 and of == _PICTURE)
