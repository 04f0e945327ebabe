"""A tokenizer's section of the weight file (file-format.md, TOKENIZER): what the sections of all
models have, how it is laid out and read. Knows no model. Needs numpy only.
"""

from __future__ import annotations

import collections
import struct
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from phasor.errors import PhasorError, shown

HEADER_BYTES = 128
_HEADER = "<IIIIfIII QQQQ QQ IIII IIIIII 8s"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE, LISTED = 1, 2, 3, 4, 5, 6, 7
NO_ID = 0xFFFFFFFF
LONGEST_PIECE = 32767
# What bounds the time of a search (file-format.md, "Time"): bytes of pieces and added tokens that
# are looked for at every character, and pieces of one text that a search passes over.
LONGEST_SEARCHED, MOST_ALIKE = 512, 4
# flags of a SentencePiece model: its ids are those of a list; a text may begin with >>xxx<<
LIST, LANGUAGE_CODES = 32, 64
NORMALIZED = 8  # flag of an added token that is looked for in the normalized text


class TokenizerError(PhasorError):
    """The model or the section is damaged, or has something that this version does not
    understand."""


class Exportable(bytes):
    """A section, and the text beside it of which a tokenizer.json is made again (export.py); empty:
    there is none."""

    text = b""


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def sorted_ids(pieces: list[tuple[Any, ...]]) -> list[int]:
    return sorted(range(len(pieces)), key=lambda i: (pieces[i][0], i))


class Section:
    """What a section says, filled in by its model; `bytes` lays it out."""

    def __init__(self, model: int):
        self.model = model
        self.flags = self.expansion = self.longest_rule = 0
        self.lowest = 0.0
        self.unknown: int | None = None
        self.trie = self.strings = self.surface = b""
        self.extra = 0  # of a list of ids beside a SentencePiece model: pieces that have none
        # of the models of Hugging Face's package
        self.rule = self.word_chars = self.merges = 0
        self.more_steps: list[int] = []  # of the pre-tokenizer, behind the rule
        self.runs = self.model_data = self.prefix = b""
        self.steps = self.suffix = b""  # of a pipeline
        self.added: list[tuple[bytes, int, int]] = []  # (text, id, flags)

    def _last_bytes(self) -> bytes:
        if not self.steps:
            return bytes(self.more_steps)
        return struct.pack("<II", len(self.steps), len(self.suffix))

    def bytes(self, pieces: Sequence[tuple[bytes, float, int]]) -> bytes:
        """The section with these pieces: (text, a score or the bits of the marks, type) by id."""
        table, text = bytearray(), bytearray()
        for piece, value, kind in pieces:
            form = "<IIfI" if isinstance(value, float) else "<IIII"
            table += struct.pack(form, len(text), len(piece), value, kind)
            text += piece
        surface_at = len(text)
        text += self.surface + self.prefix + self.suffix
        added = bytearray()
        starts = np.zeros(16, dtype="<u4")
        for content, id_, flags in self.added:
            if len(content) > LONGEST_SEARCHED:
                raise TokenizerError(
                    f"the added token with id {id_} is longer than {LONGEST_SEARCHED} bytes"
                )
            added += struct.pack("<IIII", len(text), len(content), id_, flags)
            text += content
            if content:
                starts[(8 if flags & NORMALIZED else 0) + (content[0] >> 5)] |= np.uint32(
                    1 << (content[0] & 31)
                )
        if len(text) >= 1 << 32:
            raise TokenizerError("the pieces' text is larger than 4 GiB")
        body, offsets = b"", list[int]()
        for part in (
            bytes(table),
            np.array(sorted_ids(pieces), dtype="<u4").tobytes(),
            bytes(text),
            self.trie,
            self.strings,
            self.runs,
            self.model_data + self.steps,
            (starts.tobytes() + added) if added else b"",
        ):
            offsets.append(HEADER_BYTES + len(body) if part or len(offsets) < 3 else 0)
            body += _pad(part)
        header = struct.pack(
            _HEADER,
            self.model,
            self.flags,
            len(pieces),
            NO_ID if self.unknown is None else self.unknown,
            self.lowest,
            max(len(piece) for piece, _, _ in pieces),
            len(self.trie),
            len(self.strings),
            *offsets[:3],
            len(text),
            *offsets[3:5],
            surface_at,
            len(self.surface),
            self.expansion,
            self.longest_rule,
            self.rule,
            self.extra or len(self.runs) // 4,
            self.merges,
            len(self.added),
            self.word_chars,
            len(self.prefix),
            self._last_bytes(),
        )
        assert len(header) == HEADER_BYTES
        return header + body


def check_alike(texts: Iterable[bytes]) -> None:
    """Refuses more pieces of one text than a search may pass over."""
    counts = collections.Counter(texts).items()
    text, count = max(counts, key=lambda item: item[1], default=(b"", 0))
    if count > MOST_ALIKE:
        shown = text[:40].decode("utf-8", "backslashreplace")
        raise TokenizerError(f"{count} pieces have the text {shown!r}, at most {MOST_ALIKE} may")


def id_count(section: bytes) -> int:
    """How many ids a section has: its pieces, but for those that a list of ids does not have."""
    model, flags, pieces = struct.unpack_from("<3I", section)
    behind = 100 if model in (1, 2) and flags & LIST else 112 if model == 7 else None
    result: int = pieces - (0 if behind is None else struct.unpack_from("<I", section, behind)[0])
    return result


def piece_texts(section: bytes) -> list[bytes]:
    """The texts of a section's ids."""
    table, _, text = struct.unpack_from("<3Q", section, 32)
    rows = struct.iter_unpack("<4I", section[table : table + 16 * id_count(section)])
    return [section[text + at : text + at + size] for at, size, *_ in rows]


_MODELS_SPM, _MODEL_WORDS = (1, 2), 3
_ALONE = {"unknown": (b"<unk>", b"<UNK>", b"[UNK]", b"[unk]"), "end": (b"</s>",)}


def contradiction(section: bytes, side: Mapping[str, Any]) -> str:
    """What a section says of ids that a side of the descriptor says otherwise, for a line; empty:
    nothing. Of a SentencePiece model a text's piece, or the unknown one, where the side begins or
    ends; of a list of words `<unk>` and `</s>` by their names."""
    model, _, _, unknown = struct.unpack_from("<4I", section)
    count = id_count(section)
    table, _, text = struct.unpack_from("<3Q", section, 32)

    def piece(id_: int) -> tuple[bytes, int]:
        at, size, _, kind = struct.unpack_from("<4I", section, table + 16 * id_)
        return section[text + at : text + at + size], kind

    def shown_piece(id_: int) -> str:
        return shown(piece(id_)[0].decode("utf-8", "replace"))

    if unknown != NO_ID and side["unknown"] not in (None, unknown):
        return f"its unknown piece is id {unknown}, the model's is {side['unknown']}"
    begins = [id_ for name in ("start", "decoder_start") if (id_ := side[name]) is not None]
    if model in _MODELS_SPM:
        for what, ids in (("ends", side["end"]), ("begins", begins)):
            for id_ in ids:
                if id_ < count and piece(id_)[1] in (UNKNOWN, NORMAL):
                    return f"the model {what} with id {id_}, which is the piece {shown_piece(id_)}"
    if model == _MODEL_WORDS:
        said = {"unknown": [] if side["unknown"] is None else [side["unknown"]], "end": side["end"]}
        rows = list(struct.iter_unpack("<4I", section[table : table + 16 * count]))
        sizes = {len(text) for names in _ALONE.values() for text in names}
        short = [id_ for id_, (_, size, *_) in enumerate(rows) if size in sizes]
        for name, names in _ALONE.items():
            found = [id_ for id_ in short if piece(id_)[0] in names]
            if found and said[name] and not set(found) & set(said[name]):
                return f"{shown_piece(found[0])} is id {found[0]}, the model's is {said[name][0]}"
    return ""


def read_section(section: bytes) -> dict[str, Any]:
    """Checks the structure of a section of models 1 to 3 and returns its parts (for tests and for
    people who write readers)."""
    if len(section) < HEADER_BYTES:
        raise TokenizerError("the section is shorter than its header")
    names = """model flags count unknown lowest longest trie_bytes string_bytes table_at order_at
        text_at text_bytes trie_at strings_at surface_at surface_bytes expansion longest_rule"""
    head = dict(zip(names.split(), struct.unpack_from(_HEADER, section)))
    listed = head["model"] != 3 and head["flags"] & LIST
    if any(section[96:100] + section[104:108] + section[112:HEADER_BYTES]) or (
        not listed and any(section[100:112])
    ):
        raise TokenizerError("a reserved byte of the header is not zero")

    def part(name: str, field: str, size: int) -> bytes:
        at = head[f"{field}_at"]
        if at % 4 or at + size > len(section):
            raise TokenizerError(f"the {name} lies outside the section")
        return section[at : at + size]

    count = head["count"]
    table = part("table of pieces", "table", 16 * count)
    order = np.frombuffer(part("permutation", "order", 4 * count), dtype="<u4")
    text = part("pieces' text", "text", head["text_bytes"])
    pieces = []
    at = 0
    for id_, (offset, size, score, kind) in enumerate(struct.iter_unpack("<IIfI", table)):
        if offset < at or offset + size > len(text):
            raise TokenizerError(f"piece {id_} lies outside the text")
        at = offset + size
        pieces.append((text[offset:at], score, kind))
    if [*order] != sorted_ids(pieces):
        raise TokenizerError("the permutation is not sorted")
    surface = head["surface_at"]
    return {
        **{name: head[name] for name in "model flags unknown lowest longest expansion".split()},
        "pieces": pieces,
        "extra": struct.unpack_from("<I", section, 100)[0],
        "trie": part("trie", "trie", head["trie_bytes"]),
        "strings": part("strings", "strings", head["string_bytes"]),
        "unknown_surface": text[surface : surface + head["surface_bytes"]],
        "longest_rule": head["longest_rule"],
    }
