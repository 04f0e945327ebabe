"""Dictionaries of fairseq (dict.txt) with the merges of fastBPE or subword-nmt beside them, and the
same files as PhoBERT has them (vocab.txt, bpe.codes).

A dictionary has a token and its count in a line; the ids begin behind <s>, <pad>, </s> and <unk>.
A token with @@ at its end goes on. The text is cut at white space only: what cut it into words
before (Moses, VnCoreNLP) is not in the files, so a text is given as it was cut. Without a token
that goes on, a dictionary is a list of words. Needs numpy only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, NamedTuple, TypeVar

from phasor.errors import PhasorError, named, shown
from phasor.files import has_file, read_bytes, read_text
from phasor.tokenizers.models.word_bpe import ENDS, GOES_ON, from_dictionary
from phasor.tokenizers.models.word_list import build_wordlist_section
from phasor.tokenizers.section import TokenizerError

FIRST = ("<s>", "<pad>", "</s>", "<unk>")
CODES = ("bpe.codes", "bpecodes", "codes", "code")
_MOST, _LONGEST = 1 << 20, 512  # lines of a file, and bytes of a token or of one side of a merge
_VERSION = "#version: 0.2"
T = TypeVar("T")


class Dictionary(NamedTuple):
    tokens: list[str]  # from id 4 on
    merges: list[tuple[str, str]]  # earliest first; the last part of a word has ENDS behind it


def _lines(text: str, what: str) -> list[str]:
    lines = text.split("\n")
    lines = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if not lines or len(lines) > _MOST:
        raise TokenizerError(f"{what}: {len(lines)} lines, expected 1 to {_MOST}")
    return lines


def _short(text: str) -> bool:
    return 0 < len(text.encode()) <= _LONGEST


def read_tokens(text: str) -> list[str]:
    """The tokens of a dictionary. TokenizerError names the line."""
    seen = dict.fromkeys(FIRST, 0)
    for number, line in enumerate(_lines(text, "the dictionary"), 1):
        token, _, count = line.strip().rpartition(" ")
        digits = count.isascii() and count.isdigit()
        if not digits or not _short(token) or token != token.strip():
            raise TokenizerError(f"line {number}: {shown(line)}, expected a token and its count")
        if token in seen:
            raise TokenizerError(f"line {number}: {shown(token)} is there before")
        seen[token] = number
    return [*seen][len(FIRST) :]


def read_merges(text: str) -> list[tuple[str, str]]:
    """The merges of fastBPE (two parts and a count in a line) or of subword-nmt 0.2 (a first line
    that says so, then two parts in a line). TokenizerError names the line."""
    lines = _lines(text, "the codes")
    headed = lines[0].startswith("#version:")
    if headed and lines[0].strip() != _VERSION:
        raise TokenizerError(f"line 1: {shown(lines[0])} is not supported, expected {_VERSION}")
    fields = 2 if headed else 3
    found: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines[headed:], 1 + headed):
        parts = line.split()
        if len(parts) != fields:
            raise TokenizerError(
                f"line {number}: {shown(line)}, expected two parts"
                + (" and a count, or subword-nmt's #version: 0.2 above" if not headed else "")
            )
        left, right = parts[:2]
        bare = right.removesuffix(ENDS)
        if ENDS in left or ENDS in bare or not (_short(left) and _short(bare)):
            raise TokenizerError(
                f"line {number}: {shown(line)}, expected {ENDS} at the end of the right part only"
            )
        if (left, right) in found:
            raise TokenizerError(f"line {number}: {shown(line)} is there before")
        found[left, right] = number
    return [*found]


def read_dictionary(path: Path, codes: Path | None = None) -> Dictionary:
    """The files, read. codes: the merges, if not one of CODES beside the dictionary. PhasorError
    names the file."""
    beside = [path.parent / name for name in CODES if has_file(path.parent / name)]
    if codes is None and len(beside) > 1:
        raise TokenizerError(f"{path.parent}: has {' and '.join(p.name for p in beside)}: one goes")
    codes = codes or (beside[0] if beside else None)
    tokens = _read(path, read_tokens)
    goes_on = next((token for token in tokens if token.endswith(GOES_ON)), None)
    if codes is None and goes_on is not None:
        raise TokenizerError(
            f"{path}: {shown(goes_on)} is not a whole word: its merges are missing beside it, as"
            f" {', '.join(CODES)}"
        )
    return Dictionary(tokens, [] if codes is None else _read(codes, read_merges))


def _read(path: Path, reader: Callable[[str], T]) -> T:
    try:
        return reader(read_text(path))
    except PhasorError as error:
        raise named(path, error) from error


def read_versioned(path: Path) -> list[tuple[str, str]]:
    """The merges of a file of subword-nmt 0.2, as the classes of transformers read one: without
    what is behind the last line feed. PhasorError names the file."""

    def reader(text: str) -> list[tuple[str, str]]:
        first = text.split("\n")[0]
        if first.strip() != _VERSION:
            raise TokenizerError(f"line 1: {shown(first)}, expected {_VERSION}")
        return read_merges(text[: text.rfind("\n") + 1])

    result: list[tuple[str, str]] = _read(path, reader)
    return result


def dictionary_section(path: Path) -> bytes:
    """The section of a dict.txt with its codes, or of a list of words. PhasorError names the
    file."""
    found = read_dictionary(path)
    if not found.merges:
        return build_wordlist_section([*FIRST, *found.tokens], 3, (0, 1, 2))
    names = {text: id_ for id_, text in enumerate(FIRST)}
    return from_dictionary(found.tokens, found.merges, names)[0]


def is_dictionary(path: Path) -> bool:
    """Whether every line of a text file is a token and a count, as no list of words has them."""
    lines = read_bytes(path).split(b"\n")
    rows = [line.split(b" ") for line in lines if line.strip()]
    return bool(rows) and all(len(row) == 2 and row[1].strip().isdigit() for row in rows)
