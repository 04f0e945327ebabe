"""What SentencePiece's models share: the bytes of a `.model` file (a serialized ModelProto), and
the section of its pieces. The ModelProto is read with the few lines of the protobuf wire format
that it uses. What would change the ids and is not understood is refused by name, never ignored."""

from __future__ import annotations

import struct
from typing import Any, Iterator

import numpy as np

from phasor.tokenizers.charsmap import put_map, split_charsmap
from phasor.tokenizers.section import (
    BYTE,
    CONTROL,
    LANGUAGE_CODES,
    LIST,
    LISTED,
    LONGEST_SEARCHED,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Section,
    TokenizerError,
    read_section,
)

ADD_DUMMY_PREFIX, REMOVE_EXTRA_WHITESPACES, ESCAPE_WHITESPACES, BYTE_FALLBACK, WHITESPACE_SUFFIX = (
    1,
    2,
    4,
    8,
    16,
)
_DEFAULT_UNKNOWN_SURFACE = " \u2047 ".encode()
_BYTE_TEXTS = {b"<0x%02X>" % value for value in range(256)}


# ---- The protobuf wire format


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
        value: object
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
    result: float = struct.unpack("<f", value)[0]
    return result


def read_model_proto(data: bytes) -> dict[str, Any]:
    """The parts of a ModelProto that decide ids and text; a sub-message that comes twice is merged,
    as protobuf does."""
    pieces: list[tuple[bytes, float, int]] = []
    specs: dict[int, list[bytes]] = {2: [], 3: [], 5: []}  # of trainer, normalizer and denormalizer
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


# ---- The section


def proto_section(number: int, proto: dict[str, Any], twice: bool = False) -> Section:
    """The section of a ModelProto that was read, but for its map. twice: two pieces may have one
    text when one of them is reserved (unknown, control, byte) and the other is not."""
    pieces = proto["pieces"]
    section = Section(number)
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
        if kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE) and (
            kind != LISTED or "listed" not in proto
        ):
            raise TokenizerError(f"{label} has type {kind}, which is not understood")
        if not np.isfinite(score):
            raise TokenizerError(f"{label} has a score that is not finite")
        reserved = twice and kind in (UNKNOWN, CONTROL, BYTE)
        if (text, reserved) in seen:
            raise TokenizerError(f"{label} is already defined as piece {seen[text, reserved]}")
        seen[text, reserved] = id_
        if kind == UNKNOWN:
            if section.unknown is not None:
                raise TokenizerError(f"{label}: the unknown piece is already defined")
            section.unknown = id_
        if kind == BYTE:
            if not proto["byte_fallback"]:
                raise TokenizerError(f"{label} is a byte piece but byte_fallback is off")
            if text not in _BYTE_TEXTS:
                raise TokenizerError(f"{label} is not a byte piece")
            byte_values.add(text)
    if section.unknown is None:
        raise TokenizerError("the model has no unknown piece")
    if proto["byte_fallback"] and len(byte_values) != 256:
        raise TokenizerError(
            f"byte_fallback is on but there are {len(byte_values)} of 256 byte pieces"
        )

    section.flags = (
        proto["dummy_prefix"] * ADD_DUMMY_PREFIX
        | proto["remove_extra"] * REMOVE_EXTRA_WHITESPACES
        | proto["escape"] * ESCAPE_WHITESPACES
        | proto["byte_fallback"] * BYTE_FALLBACK
        | proto["suffix"] * WHITESPACE_SUFFIX
    )
    if "listed" in proto:  # listed.py
        section.flags |= LIST | LANGUAGE_CODES * proto["listed"]["codes"]
        section.extra, section.added = proto["listed"]["extra"], proto["listed"]["added"]
    section.surface = proto["unknown_surface"]
    return section


def proto_bytes(section: Section, proto: dict[str, Any]) -> bytes:
    put_map(section, *split_charsmap(proto["charsmap"]), proto["escape"])
    made = section.bytes(proto["pieces"])
    read_section(made)
    return made
