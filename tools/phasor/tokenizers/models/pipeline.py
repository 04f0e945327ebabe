"""Any tokenizer.json (9): its normalizer, pre-tokenizer, model and decoder as the parts that they
are."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.classes import SPACE, class_runs, of_ranges
from phasor.tokenizers.json_parts import fields, member, refuse
from phasor.tokenizers.merges import put_merges
from phasor.tokenizers.model import Model
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.models.metaspace import BREAK_BIT, vocabulary_of
from phasor.tokenizers.pipeline.clusters import BREAKS, OTHER_BREAKS
from phasor.tokenizers.pipeline.decoding import LONGEST_AFFIX, decoding_of
from phasor.tokenizers.pipeline.normalizers import normalizer_steps
from phasor.tokenizers.pipeline.pre_tokenizers import pre_tokenizer_steps
from phasor.tokenizers.pipeline.steps import (
    FIRST_SPLIT,
    WORDS,
    Canonical,
    Clusters,
    Growth,
    Prefix,
    Split,
    Step,
    Strip,
    row,
)
from phasor.tokenizers.section import LONGEST_PIECE, LONGEST_SEARCHED, NO_ID, TokenizerError
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary

BPE, WORDPIECE, WORD_LEVEL, UNIGRAM = 1, 2, 3, 4  # the header's rule
FALLBACK, WHOLE_WORDS, FUSES_UNKNOWN, ENDS_WORDS = 1, 2, 16, 8192  # flags
_MOST_EXPANSION = 255


def _affix(model: dict[str, Any], name: str) -> str:
    text = model.get(name) or ""
    if len(text.encode()) > LONGEST_AFFIX:
        refuse(f"model.{name} of {len(text.encode())} bytes")
    return text


def _byte_ids(vocabulary: Vocabulary) -> list[int]:
    return [vocabulary.of_model.get(f"<0x{byte:02X}>", NO_ID) for byte in range(256)]


def _put_unknown(section: PackageSection, text: str | None) -> None:
    if text is not None and text in section.vocabulary.of_model:
        section.put_unknown(section.vocabulary.of_model[text], text, str.encode)


def _bpe(spec: dict[str, Any]) -> PackageSection:
    names = """dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback
        ignore_merges vocab merges"""
    model = fields(spec["model"], "model", names.split())
    if model.get("dropout"):
        refuse(f"model.dropout {shown(model['dropout'])}")
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.rule = BPE
    section.flags = (
        FALLBACK * bool(model.get("byte_fallback"))
        | WHOLE_WORDS * bool(model.get("ignore_merges"))
        | FUSES_UNKNOWN * bool(model.get("fuse_unk"))
    )
    prefix = _affix(model, "continuing_subword_prefix")
    section.prefix, section.suffix = prefix.encode(), _affix(model, "end_of_word_suffix").encode()
    section.flags |= ENDS_WORDS * bool(section.suffix)
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in vocabulary.of_model:
        raise TokenizerError(f"model.unk_token {shown(unknown)} is not in the vocabulary")
    _put_unknown(section, unknown)
    put_merges(section, model, _byte_ids(vocabulary), lambda left, right: True, len(prefix))
    return section


def _wordpiece(spec: dict[str, Any]) -> PackageSection:
    names = ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab")
    model = fields(spec["model"], "model", names)
    section = _words(spec, model, WORDPIECE)
    section.prefix = (_affix(model, "continuing_subword_prefix")).encode()
    section.word_chars = member(model, "max_input_chars_per_word", "model")
    return section


def _word_level(spec: dict[str, Any]) -> PackageSection:
    return _words(spec, fields(spec["model"], "model", ("unk_token", "vocab")), WORD_LEVEL)


def _words(spec: dict[str, Any], model: dict[str, Any], rule: int) -> PackageSection:
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    searched = rule == WORDPIECE  # at every character
    section = PackageSection(
        MODEL.number, vocabulary, LONGEST_SEARCHED if searched else LONGEST_PIECE
    )
    section.rule = rule
    unknown = member(model, "unk_token", "model")
    if not isinstance(unknown, str):
        raise TokenizerError("model.unk_token: null, expected text")
    _put_unknown(section, unknown)
    return section


def _unigram(spec: dict[str, Any]) -> PackageSection:
    model = fields(spec["model"], "model", ("unk_id", "vocab", "byte_fallback"))
    ids, scores = vocabulary_of(model)
    if not ids:
        raise TokenizerError("model.vocab: is empty")
    vocabulary = Vocabulary(ids, spec["added_tokens"], len(scores))
    section = PackageSection(MODEL.number, vocabulary)
    section.rule = UNIGRAM
    section.flags = FALLBACK * bool(model.get("byte_fallback"))
    unknown = model.get("unk_id")
    if unknown is not None:
        if not 0 <= unknown < len(scores):
            raise TokenizerError(f"model.unk_id: {unknown}, there are {len(scores)} pieces")
        text = model["vocab"][unknown][0]
        if ids[text] != unknown:
            refuse(f"model.unk_id of a piece {shown(text)} that is there twice")
        _put_unknown(section, text)
    rest = np.zeros(vocabulary.count() - len(scores))
    section.model_data = (
        np.concatenate([scores, rest, [scores.min() - 10.0]]).astype("<f8").tobytes()
        + np.array(_byte_ids(vocabulary), dtype="<u4").tobytes()
    )
    return section


_MODELS: dict[str, Callable[[dict[str, Any]], PackageSection]] = {
    "BPE": _bpe,
    "WordPiece": _wordpiece,
    "WordLevel": _word_level,
    "Unigram": _unigram,
}


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int | None]:
    kind = member(spec["model"], "type", "model")
    if not isinstance(kind, str) or kind not in _MODELS:
        refuse(f"model {shown(kind)}")
    normalizer, words = normalizer_steps(spec), pre_tokenizer_steps(spec)
    _check_beginning(normalizer, words)
    section = _MODELS[kind](spec)
    vocabulary = section.vocabulary
    decoding = decoding_of(
        spec,
        [(i, text) for i, text in vocabulary.texts.items() if text not in vocabulary.special],
        ALPHABET,
        section.suffix.decode(),
    )
    section.flags |= decoding.flags
    section.suffix = decoding.suffix.encode()
    _put_classes(section, normalizer)
    section.expansion = _expansion(normalizer, words)
    section.added = vocabulary.rows(lambda text: _normalized(text, normalizer), True)
    section.steps = b"".join(
        [*(step.row() for step in normalizer), row(WORDS), *(step.row() for step in words)]
    )
    section.steps += decoding.rows()
    rows = section.pieces(str.encode, lambda piece: decoding.marks.get(piece, 0))
    return section.bytes(rows), vocabulary, section.unknown


def _check_beginning(normalizer: list[Step], words: list[Step]) -> None:
    """Whether a split begins where the text does: Precompiled keeps that of one character, which
    another step may have made several of."""
    clusters = max((i for i, s in enumerate(normalizer) if isinstance(s, Clusters)), default=0)
    several = any(not isinstance(s, (Strip, Canonical)) for s in normalizer[:clusters])
    split = False
    for step in words:
        if split and several and isinstance(step, Prefix) and step.flags & FIRST_SPLIT:
            refuse("pre_tokenizer Metaspace, first, behind a split and steps before Precompiled,")
        split = split or isinstance(step, Split)


def _normalized(text: str, normalizer: list[Step]) -> str:
    for step in normalizer:
        text = step.apply(text)
    return text


def _expansion(normalizer: list[Step], words: list[Step]) -> int:
    growth, splits = Growth(), False
    for step in (*normalizer, *words):
        step.grow(growth, splits)
        if growth.most > _MOST_EXPANSION:  # here already: the texts that it is measured by grow too
            most = math.ceil(growth.most)
            refuse(f"a normalizer and a pre_tokenizer that make {most} bytes of one")
        splits = splits or isinstance(step, Split)
    return math.ceil(growth.most)


def _put_classes(section: PackageSection, normalizer: list[Step]) -> None:
    bits, clusters = {"space": SPACE, **section.vocabulary.word_class()}, []
    precompiled = next((step for step in normalizer if isinstance(step, Clusters)), None)
    if precompiled is not None:
        section.trie, section.strings = precompiled.trie, precompiled.strings
        section.longest_rule = precompiled.longest
        bits.update({name: number << BREAK_BIT for name, number in BREAKS.items()})
        clusters = [
            (number << BREAK_BIT, of_ranges([(first, last)]))
            for first, last, number in OTHER_BREAKS
        ]
    section.runs = class_runs(bits, clusters)


MODEL = Model(9, "pipeline", from_json=from_json)
