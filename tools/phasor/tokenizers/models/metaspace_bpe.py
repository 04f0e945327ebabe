"""Byte-pair encoding of Hugging Face's `tokenizers` with Metaspace (8): NLLB and others."""

from __future__ import annotations

from typing import Any

from phasor.tokenizers.json_parts import member, refuse
from phasor.tokenizers.merges import is_metaspace, model_of, put_merges, put_unknown
from phasor.tokenizers.model import Model
from phasor.tokenizers.models.metaspace import put_words
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary

FUSE_UNKNOWN = 16  # flag


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int | None]:
    model = model_of(spec)
    for name in ("byte_fallback", "ignore_merges"):
        if model.get(name):
            refuse(f"model.{name} with BPE and Metaspace")
    if model.get("unk_token") is None:
        refuse("model.unk_token null with BPE and Metaspace")
    vocabulary = Vocabulary(member(model, "vocab", "model"), spec["added_tokens"])
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.flags = FUSE_UNKNOWN * bool(model.get("fuse_unk"))
    put_unknown(section, model, str.encode)
    put_merges(section, model, [NO_ID] * 256, lambda left, right: True)
    put_words(section, spec)
    return section.bytes(section.pieces(str.encode, lambda piece: 0)), vocabulary, section.unknown


MODEL = Model(8, "bpe", json_type="BPE", takes=is_metaspace, from_json=from_json)
