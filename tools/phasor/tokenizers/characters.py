"""Tables of characters and of bytes: each character of a text, or each byte of its UTF-8, is an id.

A table of characters becomes a word list whose words are characters (model 3, flag bit 7): JSON, a
text file with a character in a line, or what nanoGPT's prepare.py leaves as meta.pkl. Its ids are
0, 1, 2, …; a name in <> or [] is an id that no text gives. A table of bytes has no file; it becomes
byte-level BPE without merges. Needs numpy only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Sequence

from phasor.errors import shown
from phasor.tokenizers.models import byte_bpe
from phasor.tokenizers.models.word_list import build_wordlist_section
from phasor.tokenizers.section import TokenizerError

_MOST = 0x110000 + 4096  # of Unicode, and names
_NAME = re.compile(r"<[^<>\s]{1,62}>|\[[^][\s]{1,62}\]")
_UNKNOWN = ("<unk>", "<UNK>", "[UNK]", "[unk]")
_BYTES = re.compile(r"bytes(?:\+(\d{1,4}))?")


def is_table(path: Path, words: Sequence[str]) -> bool:
    """Whether a list is one of characters: by the file's name, chars…, or because all its entries
    are, and one is white space, which no list of words can have."""
    alone = all(len(word) <= 1 or _NAME.fullmatch(word) for word in words)
    spaces = any(word in (" ", "\n", "\t") for word in words)
    return path.name.startswith("chars") or (alone and spaces)


def lines_of(text: str) -> list[str]:
    """The characters of a text file, each with a line end behind it, the line feed too: it leaves
    two empty lines. TokenizerError names the line."""
    found, at = [], 0
    while at < len(text):
        end = at + 1 if text[at] == "\n" else text.find("\n", at)
        if end == len(text) or text[end : end + 1] not in ("\n", ""):
            number = text.count("\n", 0, at) + 1
            raise TokenizerError(f"line {number} is empty: a line feed leaves two empty lines")
        end = len(text) if end < 0 else end
        found.append(text[at:end])
        at = end + 1
    return found


def of_meta(value: Any) -> list[str]:
    """The characters of nanoGPT's meta.pkl: stoi, a table from character to id."""
    table = value.get("stoi") if isinstance(value, dict) else None
    if not isinstance(table, dict) or not all(type(text) is str for text in table):
        raise TokenizerError("expected stoi, a table from character to id, as nanoGPT has it")
    ids = list(table.values())
    if not all(type(id_) is int for id_ in ids) or sorted(ids) != list(range(len(ids))):
        raise TokenizerError("stoi: the ids are not 0, 1, 2, …")
    found = sorted(table, key=table.__getitem__)
    back, size = value.get("itos", dict(enumerate(found))), value.get("vocab_size", len(found))
    if isinstance(back, list):
        back = dict(enumerate(back))
    if back != dict(enumerate(found)) or size != len(found):
        raise TokenizerError("itos and vocab_size: not those of stoi")
    return found


def build_characters_section(entries: Sequence[str], unknown: int | None) -> bytes:
    """The section of a table, the id of an entry being its place. unknown: the id for a character
    that is not in it; None: that of <unk> or [UNK], and without one such a text is refused."""
    if not 0 < len(entries) <= _MOST:
        raise TokenizerError(f"a table of {len(entries)} characters, expected 1 to {_MOST}")
    names, seen = [], set()
    for id_, entry in enumerate(entries):
        if len(entry) != 1 and not _NAME.fullmatch(entry):
            raise TokenizerError(
                f"entry {id_}: {shown(entry)}, expected one character, or a name in <> or []"
            )
        if not entry.isascii() and any("\ud800" <= c <= "\udfff" for c in entry):
            raise TokenizerError(f"entry {id_}: {shown(entry)} is half of a surrogate pair")
        if entry in seen:
            raise TokenizerError(f"entry {id_}: {shown(entry)} is there before")
        seen.add(entry)
        if len(entry) > 1:
            names.append(id_)
    if unknown is None:
        unknown = next((id_ for id_ in names if entries[id_] in _UNKNOWN), None)
    control = [id_ for id_ in names if id_ != unknown]
    return build_wordlist_section(list(entries), unknown, control, characters=True)


def byte_table(path: Path) -> int | None:
    """The id of byte 0 that `bytes` or `bytes+6` says in a file's place; None for another name."""
    said = _BYTES.fullmatch(str(path.name))
    return None if said is None or path.exists() else int(said[1] or 0)


def build_bytes_section(first: int) -> bytes:
    """The section in which the bytes have the ids from `first` on; no text gives those below."""
    vocabulary = {letter: first + byte for letter, byte in byte_bpe.ALPHABET.items()}
    spec = {
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    return byte_bpe.from_json(spec)[0]
