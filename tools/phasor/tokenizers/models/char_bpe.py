"""Byte-pair encoding of characters of Hugging Face's `tokenizers` (7): Llama 2, Mistral, Gemma."""

from __future__ import annotations

from typing import Any

from phasor.tokenizers.classes import SPACE, class_runs
from phasor.tokenizers.json_parts import META, member, metaspace, refuse, steps
from phasor.tokenizers.merges import (
    is_byte_level,
    is_metaspace,
    merge_pairs,
    model_of,
    put_merges,
    put_unknown,
)
from phasor.tokenizers.model import Model
from phasor.tokenizers.models import bert_bpe
from phasor.tokenizers.pipeline.decoders import READS_AS_BYTE
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary

# flags
ADD_PREFIX, BYTE_FALLBACK, FUSE_UNKNOWN, PREFIX_FIRST = 1, 8, 16, 32
ESCAPE_FIRST, CUT_AT_SPACES, DROP_FIRST_SPACE, CUT_AT_EACH = 64, 128, 256, 512
BYTE_PIECES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
REPLACE_SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": META}
PREPEND = {"type": "Prepend", "prepend": META}
DECODERS: list[dict[str, Any]] = [
    {"type": "Replace", "pattern": {"String": META}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def _escaping(spec: dict[str, Any]) -> int:
    """The flags of what makes ▁ of spaces and begins words: the normalizer, or Metaspace behind
    it."""
    normalizers = steps(spec.get("normalizer"), "normalizer", "normalizers")
    words = steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    for step in normalizers:
        if step not in (REPLACE_SPACE, PREPEND):
            refuse(
                f"normalizer {step.get('type')} {step.get('pattern', '')} with BPE of characters"
            )
    if normalizers:
        if normalizers.count(REPLACE_SPACE) != 1 or normalizers.count(PREPEND) > 1:
            refuse(
                f"normalizer {[step.get('type') for step in normalizers]} with BPE of characters"
            )
        for step in words:  # no space is left at which it could cut
            if (
                step.get("type") != "Split"
                or step.get("pattern") != {"String": " "}
                or step.get("invert")
            ):
                refuse(f"pre_tokenizer {step.get('type')} behind a normalizer that replaces spaces")
        return ESCAPE_FIRST | ADD_PREFIX * (PREPEND in normalizers)
    if [step.get("type") for step in words] != ["Metaspace"]:
        refuse(f"pre_tokenizer {[step.get('type') for step in words]} with BPE of characters")
    scheme, cut = metaspace(words[0], "pre_tokenizer")
    return {"always": ADD_PREFIX, "first": ADD_PREFIX | PREFIX_FIRST, "never": 0}[
        scheme
    ] | CUT_AT_EACH * bool(cut)


def _char_decoder(spec: dict[str, Any], byte_fallback: bool) -> int:
    found = steps(spec.get("decoder"), "decoder", "decoders")
    known = (
        DECODERS if byte_fallback else [step for step in DECODERS if step["type"] != "ByteFallback"]
    )
    if found not in (known, [*known, STRIP]):
        refuse(f"decoder {[step.get('type') for step in found]} with BPE of characters")
    return DROP_FIRST_SPACE * (STRIP in found)


def _byte_ids(vocabulary: Vocabulary) -> list[int]:
    """The pieces of the bytes; a byte that is a character with a piece needs none (Gemma's tab)."""
    ids = vocabulary.of_model
    found = [
        ids.get(f"<0x{byte:02X}>", ids.get(chr(byte)) if byte < 128 else None)
        for byte in range(256)
    ]
    if None in found:
        refuse("model.byte_fallback with bytes that the vocabulary lacks")
    return found


def _check_bytes(vocabulary: Vocabulary) -> None:
    """Refuses a token that ByteFallback reads as a byte and a section cannot have as one. A special
    token adds nothing to a text, whatever it is called."""
    for text in {*vocabulary.texts.values()} - vocabulary.special:
        a_byte = text in BYTE_PIECES and text in vocabulary.of_model
        if READS_AS_BYTE.fullmatch(text) and not a_byte:
            refuse(f"the token {text!r}, which the decoder ByteFallback reads as a byte,")


def from_json(
    spec: dict[str, Any], added_prefix: bool = True
) -> tuple[bytes, Vocabulary, int | None]:
    """added_prefix: an added token that is looked for in the normalized text gets the prefix of
    that text too, as in the package."""
    model = model_of(spec)
    if model.get("ignore_merges"):
        refuse("model.ignore_merges with BPE of characters")
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    fallback = bool(model.get("byte_fallback"))
    ids = _byte_ids(vocabulary) if fallback else [NO_ID] * 256
    if fallback:
        _check_bytes(vocabulary)
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.flags = (
        _escaping(spec)
        | _char_decoder(spec, fallback)
        | BYTE_FALLBACK * fallback
        | FUSE_UNKNOWN * bool(model.get("fuse_unk"))
    )
    section.byte_pieces = BYTE_PIECES if fallback else frozenset()
    put_unknown(section, model, str.encode)
    # Where no merge goes over the beginning of a word, words can be merged one by one.
    if META in vocabulary.of_model and not any(
        META in (left + right).lstrip(META)
        for left, right in merge_pairs(member(model, "merges", "model"))
    ):
        section.flags |= CUT_AT_SPACES
    put_merges(section, model, ids, lambda left, right: True)
    escapes = bool(section.flags & ESCAPE_FIRST)
    section.expansion = 3 if escapes else 1
    section.runs = class_runs({"space": SPACE, **vocabulary.word_class()})
    prefix = META if section.flags & ADD_PREFIX and added_prefix else ""
    section.added = vocabulary.rows(
        (lambda text: prefix + text.replace(" ", META)) if escapes else str
    )
    return section.bytes(section.pieces(str.encode, lambda piece: 0)), vocabulary, section.unknown


def takes(spec: dict[str, Any]) -> bool:
    return not (bert_bpe.takes(spec) or is_byte_level(spec) or is_metaspace(spec))


MODEL = Model(7, "bpe", json_type="BPE", takes=takes, from_json=from_json)
