"""SentencePiece's byte-pair encoding (2): the pair with the highest score is merged first. Its
model of characters is one without pairs; that of words looks up what begins with a space."""

from __future__ import annotations

from typing import Any

from phasor.errors import shown
from phasor.tokenizers.model import Model
from phasor.tokenizers.section import CONTROL, NORMAL, UNKNOWN, UNUSED, TokenizerError
from phasor.tokenizers.sentencepiece import proto_bytes, proto_section

_BPE, _WORDS, _CHARACTERS = 2, 3, 4  # trainer_spec.model_type
OF_WORDS = 128  # flag


def from_proto(proto: dict[str, Any]) -> bytes:
    section = proto_section(MODEL.number, proto)
    kind = proto["model_type"]
    section.flags |= OF_WORDS * (kind == _WORDS)
    for id_, (text, _, of) in enumerate(proto["pieces"] if kind == _CHARACTERS else []):
        one = len(text.decode("utf-8", "replace")) == 1
        if one != (of == NORMAL) and of in (NORMAL, UNUSED, CONTROL, UNKNOWN):
            piece = shown(text.decode("utf-8", "replace"))
            raise TokenizerError(
                f"piece {id_} ({piece}) of a model of characters is "
                + ("special" if one else "none")
            )
    return proto_bytes(section, proto)


MODEL = Model(2, "bpe", proto_types=(_BPE, _WORDS, _CHARACTERS), from_proto=from_proto)
