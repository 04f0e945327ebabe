"""Byte-level byte-pair encoding of Hugging Face's `tokenizers` (5): GPT-2, Llama 3, Qwen2, …"""

from __future__ import annotations

import unicodedata
from typing import Any

from phasor.errors import shown
from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import canonical_map
from phasor.tokenizers.json_parts import member, refuse, types_of
from phasor.tokenizers.merges import is_byte_level, model_of, put_merges, put_unknown
from phasor.tokenizers.model import Model
from phasor.tokenizers.pre_tokenizers import classes_of, steps_of
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID, TokenizerError, check_alike
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary

ADD_PREFIX, WHOLE_WORDS, COMPOSE, PATTERNS = 1, 2, 4, 32768  # flags
WHOLE = 4  # mark of a piece: a word that is this piece is it


def _composed(text: str) -> str:
    if unicodedata.normalize("NFC", text) != text:
        refuse(f"the added token {text!r}, which NFC changes,")
    return text


def _alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others for letters from
    U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{chr(byte): byte for byte in plain},
        **{chr(0x100 + i): byte for i, byte in enumerate(others)},
    }


ALPHABET = _alphabet()
_LETTERS = "".join(sorted(ALPHABET, key=ALPHABET.__getitem__))


def _as_bytes(piece: str) -> bytes:
    """What the package's decoder makes of a token: bytes where every letter is of the alphabet,
    else the text itself."""
    try:
        return bytes(ALPHABET[c] for c in piece)
    except KeyError:
        return piece.encode()


def _of_alphabet(piece: str) -> bool:
    return all(c in ALPHABET for c in piece)


def _byte_ids(model: dict[str, Any], vocabulary: Vocabulary) -> list[int]:
    """The id of each byte; one that the vocabulary lacks is unknown, or dropped where there is no
    unknown token."""
    ids = {byte: vocabulary.of_model.get(letter) for letter, byte in ALPHABET.items()}
    unknown = model.get("unk_token")
    if None in ids.values() and model.get("byte_fallback"):
        refuse("model.byte_fallback with bytes that the vocabulary lacks")
    if None in ids.values() and unknown is not None:
        if model.get("fuse_unk"):
            refuse("model.fuse_unk with bytes that the vocabulary lacks")
        if unknown not in vocabulary.of_model:
            raise TokenizerError(f"model.unk_token {shown(unknown)} is not in the vocabulary")
        ids = {
            byte: vocabulary.of_model[unknown] if id_ is None else id_ for byte, id_ in ids.items()
        }
    return [NO_ID if ids[byte] is None else ids[byte] for byte in range(256)]


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int | None]:
    model = model_of(spec)
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    found, prefix = steps_of(spec, _LETTERS)
    normalizers = types_of(spec, "normalizer", "normalizers")
    if normalizers not in ([], ["NFC"]):
        named = normalizers[0] if len(normalizers) == 1 else normalizers
        refuse(f"normalizer {named} with byte-level BPE")
    composes = bool(normalizers)
    section.flags = (
        ADD_PREFIX * prefix | COMPOSE * composes | WHOLE_WORDS * bool(model.get("ignore_merges"))
    )
    put_unknown(section, model, _as_bytes)
    ids = _byte_ids(model, vocabulary)
    put_merges(section, model, ids, lambda left, right: _of_alphabet(left + right))
    section.expansion = 1
    if composes:
        section.trie, section.strings = canonical_map()
        section.expansion = max(
            -(-len(text.encode()) // len(chr(c).encode()))
            for c, text in unicode.MAPS["decomposed"].items()
        )
        section.longest_rule = 8
    codes, section.runs = classes_of(found, vocabulary.word_class())
    section.rule, section.more_steps = codes[0], codes[1:]
    if patterns := b"".join(step.pattern for step in found):
        section.flags |= PATTERNS
        section.model_data += patterns
        section.word_chars = len(patterns)
    section.added = vocabulary.rows(_composed if composes else str)

    def marks(piece: str) -> int:
        return (
            WHOLE
            if section.flags & WHOLE_WORDS and piece in vocabulary.of_model and _of_alphabet(piece)
            else 0
        )

    rows = section.pieces(_as_bytes, marks)
    check_alike(piece for piece, _, _ in rows)
    return section.bytes(rows), vocabulary, section.unknown


MODEL = Model(5, "bpe", json_type="BPE", takes=is_byte_level, from_json=from_json)
