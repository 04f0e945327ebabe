"""Byte-pair encoding of BERT's words (7, with the flags for it), whose last piece ends in `</w>`:
the tokenizer.json of the first GPT."""

from __future__ import annotations

from typing import Any

from phasor.errors import shown
from phasor.tokenizers.json_parts import member, refuse, steps, types_of
from phasor.tokenizers.merges import model_of, put_merges, put_unknown
from phasor.tokenizers.model import Model
from phasor.tokenizers.models.word_bpe import ENDS, WORD_ENDS
from phasor.tokenizers.models.wordpiece import normalizer_of, put_normalizer
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID, TokenizerError
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary

BERT_WORDS = 4096  # flag


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int | None]:
    model = model_of(spec, ENDS)
    for name in ("ignore_merges", "byte_fallback", "fuse_unk"):
        if model.get(name):
            refuse(f"model.{name} with end_of_word_suffix")
    found = steps(spec.get("decoder"), "decoder", "decoders")
    if found != [{"type": "BPEDecoder", "suffix": ENDS}]:
        refuse(f"decoder {[step.get('type') for step in found]} with end_of_word_suffix")
    normalizer = normalizer_of(spec)
    vocabulary = Vocabulary(member(model, "vocab", "model"), spec["added_tokens"])
    normalizer.check_order(vocabulary.texts.values())
    for text in vocabulary.texts.values():
        if text.endswith(" "):
            raise TokenizerError(f"the token {shown(text)} ends in a space, as the end of a word")
    for text in vocabulary.ids:
        if ENDS in text:
            raise TokenizerError(f"the added token {shown(text)} has {ENDS}, the end of a word")

    def as_bytes(piece: str) -> bytes:
        """A piece that ends a word has a space at its end."""
        return (piece.removesuffix(ENDS) + " " if piece.endswith(ENDS) else piece).encode()

    def reachable(left: str, right: str) -> bool:
        """Not what goes on behind the end of a word, nor what spells that end."""
        return as_bytes(left + right) == as_bytes(left) + as_bytes(right)

    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.flags = WORD_ENDS | BERT_WORDS
    put_unknown(section, model, as_bytes)
    put_merges(section, model, [NO_ID] * 256, reachable)
    put_normalizer(section, normalizer)
    made = section.pieces(as_bytes, lambda piece: 0)
    return section.bytes(made), vocabulary, section.unknown


def takes(spec: dict[str, Any]) -> bool:
    """Whether words are BERT's, and their last pieces marked."""
    words = types_of(spec, "pre_tokenizer", "pretokenizers") == ["BertPreTokenizer"]
    return words and spec["model"].get("end_of_word_suffix") == ENDS


MODEL = Model(7, "bpe", json_type="BPE", takes=takes, from_json=from_json)
