"""WordPiece of Hugging Face's `tokenizers` (4): a word is its longest pieces, from the left."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import numpy as np

from phasor.errors import shown
from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import build_map, put_map
from phasor.tokenizers.classes import (
    HANGUL,
    PADDED,
    PUNCTUATION,
    REMOVED,
    SPACE,
    characters,
    class_runs,
    of_ranges,
)
from phasor.tokenizers.json_parts import fields, member, refuse, steps, types_of
from phasor.tokenizers.model import Model
from phasor.tokenizers.pipeline.decoders import clean_up
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.vocabulary import LONGEST_ADDED, PackageSection, Vocabulary

JOINED = 2  # mark of a piece


class BertNormalizer:
    """The package's BertNormalizer as one step a character: removed, replaced, padded with
    spaces."""

    def __init__(self, options: dict[str, Any] | None):
        names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        options = {} if options is None else fields(options, "normalizer", names)
        self.clean, self.pad, strip, self.lower = (options.get(name, False) for name in names)
        self.strip = self.lower if strip is None else strip
        self.removed = characters("removed") * self.clean | characters("vanished") * self.strip
        self.padded = characters("padded") * self.pad
        self.replaced = self._replaced()

    def _replaced(self) -> dict[int, str]:
        stripped = unicode.MAPS["stripped"] if self.strip else {}
        lower = unicode.MAPS["lower"] if self.lower else {}
        spaces = np.flatnonzero(characters("space") & self.clean).tolist()
        out = {}
        for c in sorted({*stripped, *lower, *spaces}):
            text = (
                " "
                if c in spaces
                else "".join(lower.get(ord(x), x) for x in stripped.get(c, chr(c)))
            )
            if not self.removed[c] and text != chr(c):
                out[c] = text
        return out

    def char(self, c: str) -> str:
        code = ord(c)
        if self.removed[code]:
            return ""
        text = self.replaced.get(code, c)
        if self.strip and 0xAC00 <= code <= 0xD7A3:
            index = code - 0xAC00
            parts = (0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28)
            text = "".join(chr(part) for part in parts if part != 0x11A7)
        return f" {text} " if self.padded[code] else text

    def __call__(self, text: str) -> str:
        return "".join(map(self.char, text))

    def check_order(self, texts: Iterable[str]) -> None:
        """Marks that stay may change places with each other; it does not matter as long as the
        pieces know one of them at most."""
        marks = characters("reordered")
        if self.strip and len({c for text in texts for c in text if marks[ord(c)]}) > 1:
            refuse("a vocabulary with several combining characters that strip_accents reorders")


def normalizer_of(spec: dict[str, Any]) -> BertNormalizer:
    """The normalizer of a tokenizer.json whose words are BERT's."""
    normalizers = steps(spec.get("normalizer"), "normalizer", "normalizers")
    for step in normalizers:
        if step.get("type") != "BertNormalizer" or len(normalizers) > 1:
            refuse(f"normalizer {step.get('type')} with {spec['model'].get('type')}")
    return BertNormalizer(normalizers[0] if normalizers else None)


def _marks(decoder: dict[str, Any] | None) -> Callable[[str], int]:
    """Bits of a piece that say how it decodes: without a space before it, without its first
    bytes."""
    if decoder is None:
        return lambda piece: 0
    if decoder.get("type") != "WordPiece":
        refuse(f"decoder {decoder.get('type')} with WordPiece")
    fields(decoder, "decoder", ("prefix", "cleanup"))
    prefix, clean = (
        member(decoder, "prefix", "decoder"),
        clean_up if member(decoder, "cleanup", "decoder") else str,
    )
    if len(prefix) > LONGEST_ADDED:
        raise TokenizerError(f"decoder.prefix: {shown(prefix)} is too long")

    def marks(piece: str) -> int:
        joined = piece.startswith(prefix)
        skip = len(prefix.encode()) if joined else 0
        rest = piece[len(prefix) :] if joined else piece
        text = clean(rest if joined else " " + piece)
        if clean(piece) != piece or text not in (rest, " " + rest):
            refuse(f"decoder.cleanup of the token {piece!r}")
        return (0 if text == " " + rest and not joined else JOINED) | skip << 8

    return marks


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int]:
    model = fields(
        spec["model"],
        "model",
        ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"),
    )
    pre_tokenizers = types_of(spec, "pre_tokenizer", "pretokenizers")
    if pre_tokenizers != ["BertPreTokenizer"]:
        refuse(f"pre_tokenizer {pre_tokenizers} with WordPiece")
    normalizer = normalizer_of(spec)
    vocabulary = Vocabulary(member(model, "vocab", "model"), spec["added_tokens"])
    normalizer.check_order(vocabulary.texts.values())

    section = PackageSection(MODEL.number, vocabulary)
    for name in ("unk_token", "continuing_subword_prefix"):
        if not isinstance(member(model, name, "model"), str):
            raise TokenizerError(f"model.{name}: null, expected text")
    if model["unk_token"] not in vocabulary.of_model:
        raise TokenizerError(f"model.unk_token {model['unk_token']!r} is not in the vocabulary")
    section.put_unknown(vocabulary.of_model[model["unk_token"]], model["unk_token"], str.encode)
    section.prefix = model["continuing_subword_prefix"].encode()
    section.word_chars = member(model, "max_input_chars_per_word", "model")
    put_normalizer(section, normalizer)
    rows = section.pieces(str.encode, _marks(spec.get("decoder")))
    return section.bytes(rows), vocabulary, section.unknown


def put_normalizer(section: PackageSection, normalizer: BertNormalizer) -> None:
    """The map of characters, the classes of words and of the normalizer, the added tokens."""
    vocabulary = section.vocabulary
    put_map(section, *build_map(normalizer.replaced))
    bits = {"space": SPACE, "punctuation": PUNCTUATION, **vocabulary.word_class()}
    for wanted, name, bit in (
        (normalizer.clean, "removed", REMOVED),
        (normalizer.strip, "vanished", REMOVED),
        (normalizer.pad, "padded", PADDED),
    ):
        bits.update({name: bit} if wanted else {})
    hangul = [(HANGUL, of_ranges([(0xAC00, 0xD7A3)]))]
    section.runs = class_runs(bits, hangul if normalizer.strip else [])
    section.added = vocabulary.rows(normalizer)


MODEL = Model(4, "wordpiece", json_type="WordPiece", from_json=from_json)
