"""Tokenizer sections of the weight file: SentencePiece models and word lists (docs/format.md,
TOKENIZER).

`build_sentencepiece_section` turns the bytes of a SentencePiece `.model` file (a serialised
ModelProto) into a section that the engine reads in place; `build_wordlist_section` does it for a
plain list of words; `read_section` checks a section and gives its parts back. Needs numpy only: the
ModelProto is read with the few lines of the protobuf wire format that it uses. What would change
the ids and is not understood is refused by name, never ignored.

Command line: python -m phasor.tokenizers.tokenizer MODEL -o SECTION   (MODEL: a .model file, or a
    .txt list, a word a line)
"""

from __future__ import annotations

import argparse
import collections
import struct
import sys
from typing import Iterable, Iterator

import numpy as np

from phasor.entry import front_door
from phasor.errors import named
from phasor.files import check_output, read_bytes, read_text, replacing
from phasor.format.layout import PhasorError

HEADER_BYTES = 128
MODEL_UNIGRAM, MODEL_BPE, MODEL_WORDS = 1, 2, 3
ADD_DUMMY_PREFIX, REMOVE_EXTRA_WHITESPACES, ESCAPE_WHITESPACES, BYTE_FALLBACK, WHITESPACE_SUFFIX = (
    1,
    2,
    4,
    8,
    16,
)
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
NO_ID = 0xFFFFFFFF
LONGEST_PIECE = 32767
# What bounds the time of a search (docs/format.md, "Time"): bytes of pieces and added tokens that
# are looked for at every character, and pieces of one text that a search passes over.
LONGEST_SEARCHED, MOST_ALIKE = 512, 4
LONGEST_RULE = 1024

_FLOAT_MAX = float(np.finfo(np.float32).max)
_DEFAULT_UNKNOWN_SURFACE = " \u2047 ".encode()
_BYTE_TEXTS = {b"<0x%02X>" % value: value for value in range(256)}


class TokenizerError(PhasorError):
    """The model or the section is damaged, or has something that this version does not
    understand."""


# ---- The protobuf wire format
# -------------------------------------------------------------------------------------


def _varint(data: bytes, at: int, what: str) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise TokenizerError(f"{what}: a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes, what: str) -> Iterator[tuple[int, object]]:
    """Yields (field number, value) of one message: int for a varint, bytes for everything else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at, what)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise TokenizerError(f"{what}: not a protobuf message")
        if wire == 0:
            value, at = _varint(data, at, what)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _varint(data, at, what)
            value, at = data[at : at + size], at + size
        else:
            raise TokenizerError(
                f"{what}: field {number} has wire type {wire}, which is not understood"
            )
        if at > len(data):
            raise TokenizerError(f"{what}: field {number} is cut off")
        yield number, value


def _as_bytes(value: object, what: str) -> bytes:
    if not isinstance(value, bytes):
        raise TokenizerError(f"{what} has the wrong type")
    return value


def _as_int(value: object, what: str) -> int:
    if not isinstance(value, int):
        raise TokenizerError(f"{what} has the wrong type")
    return value


def _as_float(value: object, what: str) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise TokenizerError(f"{what} has the wrong type")
    return struct.unpack("<f", value)[0]


def _read_model_proto(data: bytes) -> dict:
    """The parts of a ModelProto that decide ids and text; a sub-message that comes twice is merged,
    as protobuf does."""
    pieces: list[tuple[bytes, float, int]] = []
    specs: dict[int, list[bytes]] = {2: [], 3: [], 5: []}  # of trainer, normaliser and denormaliser
    for number, value in _fields(data, "ModelProto"):
        if number == 1:
            text, score, kind = b"", 0.0, NORMAL
            for field, item in _fields(_as_bytes(value, "ModelProto.pieces"), "SentencePiece"):
                if field == 1:
                    text = _as_bytes(item, "SentencePiece.piece")
                elif field == 2:
                    score = _as_float(item, "SentencePiece.score")
                elif field == 3:
                    kind = _as_int(item, "SentencePiece.type")
                else:
                    raise TokenizerError(
                        f"piece {len(pieces)} has field {field}, which is not understood"
                    )
            pieces.append((text, score, kind))
        elif number in specs:
            specs[number].append(_as_bytes(value, f"ModelProto's field {number}"))
        elif number != 4:  # self_test_data: samples for the package's own check
            raise TokenizerError(f"ModelProto has field {number}, which is not understood")
    trainer, normalizer, denormalizer = (b"".join(parts) for parts in specs.values())

    proto = {
        "pieces": pieces,
        "model_type": 1,
        "byte_fallback": False,
        "suffix": False,
        "unknown_surface": _DEFAULT_UNKNOWN_SURFACE,
        "charsmap": b"",
        "dummy_prefix": True,
        "remove_extra": True,
        "escape": True,
    }
    # The rest of the TrainerSpec (there is much) is about training only.
    for number, value in _fields(trainer, "TrainerSpec"):
        if number == 3:
            proto["model_type"] = _as_int(value, "trainer_spec.model_type")
        elif number == 24:
            proto["suffix"] = bool(_as_int(value, "trainer_spec.treat_whitespace_as_suffix"))
        elif number == 35:
            proto["byte_fallback"] = bool(_as_int(value, "trainer_spec.byte_fallback"))
        elif number == 44:
            proto["unknown_surface"] = _as_bytes(value, "trainer_spec.unk_surface").split(b"\0")[0]
    for number, value in _fields(normalizer, "NormalizerSpec"):
        if number == 2:
            proto["charsmap"] = _as_bytes(value, "normalizer_spec.precompiled_charsmap")
        elif number == 3:
            proto["dummy_prefix"] = bool(_as_int(value, "normalizer_spec.add_dummy_prefix"))
        elif number == 4:
            proto["remove_extra"] = bool(_as_int(value, "normalizer_spec.remove_extra_whitespaces"))
        elif number == 5:
            proto["escape"] = bool(_as_int(value, "normalizer_spec.escape_whitespaces"))
        elif number not in (1, 6):  # its name and the file that it was compiled from
            raise TokenizerError(f"normalizer_spec has field {number}, which is not understood")
    for number, value in _fields(denormalizer, "denormalizer_spec"):
        if number == 2 and value:
            raise TokenizerError(
                "denormalizer_spec.precompiled_charsmap (a map applied to decoded text) is not "
                "supported"
            )
    return proto


# ---- The normaliser's map
# -----------------------------------------------------------------------------------------


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


def _split_charsmap(charsmap: bytes) -> tuple[bytes, bytes]:
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


def _map_bounds(trie: bytes, strings: bytes, escape: bool) -> tuple[int, int]:
    """(most normalised bytes for one byte of text, longest key); an invalid byte becomes the 3
    bytes of U+FFFD."""
    expansion, longest = 3, 0
    if trie:
        text = np.frombuffer(strings, dtype=np.uint8)
        ends, spaces = np.flatnonzero(text == 0), np.concatenate([[0], np.cumsum(text == 32)])
        for length, values in _trie_values(np.frombuffer(trie, dtype="<u4")):
            if not len(values):
                continue
            if values[-1] >= len(strings):
                raise TokenizerError("precompiled_charsmap: a value points outside the strings")
            stops = ends[np.searchsorted(ends, values)]
            sizes = stops - values + (2 * (spaces[stops] - spaces[values]) if escape else 0)
            expansion = max(expansion, -(-int(sizes.max()) // max(1, length)))
            longest = length
    return expansion, longest


# ---- The section
# --------------------------------------------------------------------------------------------------


def _pad(data: bytes, multiple: int = 4) -> bytes:
    return data + bytes(-len(data) % multiple)


def _assemble(
    model: int,
    flags: int,
    pieces: list[tuple[bytes, float, int]],
    unknown: int,
    lowest: float,
    surface: bytes,
    trie: bytes = b"",
    strings: bytes = b"",
    expansion: int = 0,
    rule: int = 0,
) -> bytes:
    table = bytearray()
    text = bytearray()
    for piece, score, kind in pieces:
        table += struct.pack("<IIfI", len(text), len(piece), score, kind)
        text += piece
    surface_at = len(text)
    text += surface
    if len(text) >= 1 << 32:
        raise TokenizerError("the pieces' text is larger than 4 GiB")
    order = sorted(range(len(pieces)), key=lambda i: (pieces[i][0], i))
    permutation = np.array(order, dtype="<u4").tobytes()

    at = HEADER_BYTES
    offsets = []
    body = b""
    for part in (bytes(table), permutation, bytes(text), trie, strings):
        offsets.append(at if part or len(offsets) < 3 else 0)
        body += _pad(part)
        at = HEADER_BYTES + len(body)
    header = struct.pack(
        "<IIIIfIII QQQQ QQ IIII 32x",
        model,
        flags,
        len(pieces),
        unknown,
        lowest,
        max(len(piece) for piece, _, _ in pieces),
        len(trie),
        len(strings),
        offsets[0],
        offsets[1],
        offsets[2],
        len(text),
        offsets[3],
        offsets[4],
        surface_at,
        len(surface),
        expansion,
        rule,
    )
    assert len(header) == HEADER_BYTES
    return header + body


def build_sentencepiece_section(model_bytes: bytes) -> bytes:
    """Builds the section for a SentencePiece model.

    Returns the section's bytes: encoding with it gives the ids of the `sentencepiece` package.
    Raises TokenizerError, naming the thing, for char and word models, a denormaliser, unknown
    fields, and damage.
    """
    return build_proto_section(_read_model_proto(model_bytes))


def build_proto_section(proto: dict) -> bytes:
    """The section of a ModelProto that is read already (_read_model_proto says what is in it)."""
    names = {3: "word", 4: "char"}
    if proto["model_type"] not in (1, 2):
        kind = names.get(proto["model_type"], str(proto["model_type"]))
        raise TokenizerError(
            f"SentencePiece model type {kind} is not supported (unigram and bpe are)"
        )
    model = proto["model_type"]
    pieces = proto["pieces"]
    if not pieces:
        raise TokenizerError("the model has no pieces")

    unknown = NO_ID
    seen: dict[tuple[bytes, bool], int] = {}
    byte_values = set()
    for id_, (text, score, kind) in enumerate(pieces):
        label = f"piece {id_} ({text[:40].decode('utf-8', 'backslashreplace')!r})"
        if not text:
            raise TokenizerError(f"piece {id_} is empty")
        if b"\0" in text:
            raise TokenizerError(f"{label} contains a zero byte")
        if len(text) > LONGEST_SEARCHED:
            raise TokenizerError(f"{label} is longer than {LONGEST_SEARCHED} bytes")
        if kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE):
            raise TokenizerError(f"{label} has type {kind}, which is not understood")
        if not np.isfinite(score):
            raise TokenizerError(f"{label} has a score that is not finite")
        reserved = model == MODEL_UNIGRAM and kind in (UNKNOWN, CONTROL, BYTE)
        if (text, reserved) in seen:
            raise TokenizerError(f"{label} is already defined as piece {seen[text, reserved]}")
        seen[text, reserved] = id_
        if kind == UNKNOWN:
            if unknown != NO_ID:
                raise TokenizerError(f"{label}: the unknown piece is already defined")
            unknown = id_
        if kind == BYTE:
            if not proto["byte_fallback"]:
                raise TokenizerError(f"{label} is a byte piece but byte_fallback is off")
            if text not in _BYTE_TEXTS:
                raise TokenizerError(f"{label} is not a byte piece")
            byte_values.add(text)
    if unknown == NO_ID:
        raise TokenizerError("the model has no unknown piece")
    if proto["byte_fallback"] and len(byte_values) != 256:
        raise TokenizerError(
            f"byte_fallback is on but there are {len(byte_values)} of 256 byte pieces"
        )

    flags = (
        proto["dummy_prefix"] * ADD_DUMMY_PREFIX
        | proto["remove_extra"] * REMOVE_EXTRA_WHITESPACES
        | proto["escape"] * ESCAPE_WHITESPACES
        | proto["byte_fallback"] * BYTE_FALLBACK
        | proto["suffix"] * WHITESPACE_SUFFIX
    )
    lowest = 0.0
    if model == MODEL_UNIGRAM:
        lowest = min((score for _, score, kind in pieces if kind == NORMAL), default=_FLOAT_MAX)
        if lowest == _FLOAT_MAX:
            raise TokenizerError("the unigram model has no normal piece")
    trie, strings = _split_charsmap(proto["charsmap"])
    expansion, rule = _map_bounds(trie, strings, proto["escape"])
    if expansion > 255:
        raise TokenizerError("precompiled_charsmap: a rule expands too much")
    section = _assemble(
        model,
        flags,
        pieces,
        unknown,
        lowest,
        proto["unknown_surface"],
        trie,
        strings,
        expansion,
        rule,
    )
    read_section(section)
    return section


def check_alike(texts: Iterable[bytes]) -> None:
    """Refuses more pieces of one text than a search may pass over."""
    counts = collections.Counter(texts).items()
    text, count = max(counts, key=lambda item: item[1], default=(b"", 0))
    if count > MOST_ALIKE:
        shown = text[:40].decode("utf-8", "backslashreplace")
        raise TokenizerError(f"{count} pieces have the text {shown!r}, at most {MOST_ALIKE} may")


def build_wordlist_section(
    pieces: list[str], unknown_id: int | None, control_ids: Iterable[int] = ()
) -> bytes:
    """Builds the section for a plain list of words, the id of a word being its place.

    unknown_id is the id for a word that is not in the list; None makes such a word an error.
    control_ids name words that text never gives and that decode to nothing (padding, start, end).
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
    surface = b"" if unknown_id is None else rows[unknown_id][0]
    section = _assemble(
        MODEL_WORDS, 0, rows, NO_ID if unknown_id is None else unknown_id, 0.0, surface
    )
    read_section(section)
    return section


def build_hf_section(path, options: dict | None = None) -> tuple[bytes, dict]:
    """Builds the section for a tokenizer of Hugging Face's packages:
    tokenizer_json.build_hf_section."""
    from phasor.tokenizers import tokenizer_json

    return tokenizer_json.build_hf_section(path, options)


def read_section(section: bytes) -> dict:
    """Checks a section's structure and returns its parts (for tests and for people who write
    readers)."""
    if len(section) < HEADER_BYTES:
        raise TokenizerError("the section is shorter than its header")
    values = struct.unpack_from("<IIIIfIII QQQQ QQ IIII", section)
    (
        model,
        flags,
        count,
        unknown,
        lowest,
        longest,
        trie_bytes,
        string_bytes,
        table_at,
        order_at,
        text_at,
        text_bytes,
        trie_at,
        strings_at,
        surface_at,
        surface_bytes,
        expansion,
        rule,
    ) = values
    if any(section[96:HEADER_BYTES]):
        raise TokenizerError("a reserved byte of the header is not zero")

    def part(name: str, at: int, size: int) -> bytes:
        if at % 4 or at + size > len(section):
            raise TokenizerError(f"the {name} lies outside the section")
        return section[at : at + size]

    table = np.frombuffer(part("table of pieces", table_at, 16 * count), dtype="<u4").reshape(
        count, 4
    )
    scores = np.frombuffer(part("table of pieces", table_at, 16 * count), dtype="<f4").reshape(
        count, 4
    )[:, 2]
    order = np.frombuffer(part("permutation", order_at, 4 * count), dtype="<u4")
    text = part("pieces' text", text_at, text_bytes)
    pieces = []
    at = 0
    for id_ in range(count):
        offset, size, _, kind = (int(v) for v in table[id_])
        if offset < at or offset + size > text_bytes:
            raise TokenizerError(f"piece {id_} lies outside the text")
        at = offset + size
        pieces.append((text[offset:at], float(scores[id_]), kind))
    if [*order] != sorted(range(count), key=lambda i: (pieces[i][0], i)):
        raise TokenizerError("the permutation is not sorted")
    return {
        "model": model,
        "flags": flags,
        "pieces": pieces,
        "unknown": unknown,
        "lowest": lowest,
        "longest": longest,
        "trie": part("trie", trie_at, trie_bytes),
        "strings": part("strings", strings_at, string_bytes),
        "unknown_surface": text[surface_at : surface_at + surface_bytes],
        "expansion": expansion,
        "longest_rule": rule,
    }


@front_door("phasor_tokenizer")
def main() -> int:
    parser = argparse.ArgumentParser(
        description="Builds a tokenizer section from a SentencePiece model or a word list."
    )
    parser.add_argument("model", help="a SentencePiece .model, or a .txt file with a word a line")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--unknown", type=int, help="id of the unknown word of a list")
    args = parser.parse_args()
    check_output(args.output, args.model)
    try:
        if args.model.endswith(".txt"):
            section = build_wordlist_section(read_text(args.model).splitlines(), args.unknown)
        else:
            section = build_sentencepiece_section(read_bytes(args.model))
    except PhasorError as error:
        raise named(args.model, error) from error
    with replacing(args.output) as file:
        file.write(section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
