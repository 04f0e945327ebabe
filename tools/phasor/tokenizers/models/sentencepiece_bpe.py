"""SentencePiece's byte-pair encoding (2): the pair with the highest score is merged first."""

from __future__ import annotations

from phasor.tokenizers.model import Model
from phasor.tokenizers.sentencepiece import proto_bytes, proto_section


def from_proto(proto: dict) -> bytes:
    return proto_bytes(proto_section(MODEL.number, proto), proto)


MODEL = Model(2, "bpe", proto_type=2, from_proto=from_proto)
