"""Marian's vocabulary, a .yml of a piece and its id in each line, beside a SentencePiece model: the
ids of the model's pieces are the vocabulary's. Needs numpy only.

The form is what yaml-cpp writes: `piece: id`, the piece plain or in double quotes, in single ones
as PyYAML writes it, or `? piece` and `: id` in two lines. Other forms of YAML are refused by line.
"""

from __future__ import annotations

import re
from pathlib import Path

from phasor.errors import PhasorError, named, printable, shown
from phasor.files import has_file, read_bytes
from phasor.tokenizers.listed import Listed, listed_section
from phasor.tokenizers.section import TokenizerError

END, UNKNOWN = 0, 1  # of every vocabulary of Marian
_MOST = 1 << 20
_NAMES = {END: "</s>", UNKNOWN: "<unk>"}
_SIDES = {"source": ("src", "source"), "target": ("trg", "tgt", "target")}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.?)", re.DOTALL)
_LETTERS = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f"}
_LETTERS |= {"r": "\r", "e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_LETTERS |= {c: c for c in ' "/\\'}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'')
_BEGINS = frozenset("[]{},#&*!|>%@`\"'")  # what no plain text begins with


def _escaped(found: re.Match[str]) -> str:
    what = found[1]
    if len(what) == 1 and what in _LETTERS:
        return _LETTERS[what]
    if len(what) < 2 or int(what[1:], 16) > 0x10FFFF or 0xD800 <= int(what[1:], 16) < 0xE000:
        raise TokenizerError(f"{shown(found[0])} is no escape")
    return chr(int(what[1:], 16))


def _piece(text: str) -> str:
    """The piece that a scalar is."""
    if _QUOTED.fullmatch(text):
        inner = text[1:-1]
        return _ESCAPE.sub(_escaped, inner) if text[0] == '"' else inner.replace("''", "'")
    plain = text.strip(" \t") == text and text[:1] not in _BEGINS
    plain &= not text.startswith(("- ", "? ", ": ")) and text not in ("", "-", "?", ":", "~")
    if not plain or ": " in text or " #" in text or text.endswith(":"):
        raise TokenizerError(f"{shown(text)}, expected a piece of plain or quoted text")
    return text


def read_vocabulary(path: Path) -> Listed:
    """The pieces and their ids, which are 0, 1, 2, … PhasorError names the file and the line."""
    try:
        return _vocabulary(read_bytes(path))
    except PhasorError as error:
        raise named(path, error) from error


def _vocabulary(data: bytes) -> Listed:
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"is not UTF-8: byte {error.start}") from error
    ids: dict[str, int] = {}
    above: str | None = None
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if above is None and line in ("", "---"):
            continue
        if above is None and line.startswith("? "):
            above = line[2:]
            continue
        text, colon, id_ = line.rpartition(":")
        try:
            if above is not None and text:
                raise TokenizerError(f"{shown(line)}, expected a colon and an id")
            text, above = text if above is None else above, None
            if not (colon and re.fullmatch(r" [0-9]{1,7}", id_)) or int(id_) >= _MOST:
                raise TokenizerError(f"{shown(line)}, expected a piece and its id")
            piece = _piece(text)
            if piece in ids:
                raise TokenizerError(f"{shown(piece)} is there twice")
        except PhasorError as error:
            raise TokenizerError(f"line {number}: {error}") from error
        ids[piece] = int(id_)
    if above is not None:
        raise TokenizerError(f"{shown(above)} has no id")
    texts = {id_: piece for piece, id_ in ids.items()}
    if sorted(texts) != list(range(len(ids))):
        raise TokenizerError(f"the ids of the {len(ids)} pieces are not 0, 1, 2, …")
    for id_, text in _NAMES.items():
        if texts.get(id_) != text:
            found = "no piece" if id_ not in texts else shown(texts[id_])
            raise TokenizerError(f"id {id_} is {found}, expected {text}")
    special = {text: ids[text] for text in (*_NAMES.values(), "<pad>") if text in ids}
    return Listed(texts, ids, special, UNKNOWN)


def vocabulary_beside(path: Path, side: str) -> Path | None:
    """The file that numbers the pieces of a .spm: the one that ends in vocab.yml in its folder; of
    two, the side's by its name (src, source; trg, tgt, target). None: there is none."""
    found = sorted(p for p in path.parent.glob("*vocab.yml") if has_file(p))
    if len(found) < 2:
        return found[0] if found else None
    own = [p for p in found if set(_SIDES[side]) & set(re.split(r"[^a-z]+", p.name.lower()))]
    if len(found) > 2 or len(own) != 1:
        there = ", ".join(printable(p.name) for p in found[:4])
        raise PhasorError(
            f"{path}: {there} are beside it, expected one, or one "
            f"with {' or '.join(_SIDES[side])} in its name"
        )
    return own[0]


def section(path: Path, vocabulary: Path) -> bytes:
    """The section of a .spm with a vocabulary's ids. A text may begin with a language's code,
    >>xxx<<, as OPUS-MT's models have it."""
    try:
        return listed_section(path, read_vocabulary(vocabulary), codes=True)
    except PhasorError as error:
        raise named(path, error) from error
