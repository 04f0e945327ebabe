"""Unigram of Hugging Face's `tokenizers` with Metaspace (6): XLM-RoBERTa and others; and what BPE
with Metaspace has of it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.charsmap import put_map, split_charsmap
from phasor.tokenizers.classes import SPACE, class_runs, of_ranges
from phasor.tokenizers.first_map import FORMS, SPACES, FirstMap, put_first_map
from phasor.tokenizers.json_parts import META, fields, member, metaspace, refuse, steps
from phasor.tokenizers.model import Model
from phasor.tokenizers.pipeline.clusters import BREAKS, OTHER_BREAKS
from phasor.tokenizers.pipeline.steps import Clusters
from phasor.tokenizers.section import Section, TokenizerError
from phasor.tokenizers.vocabulary import PackageSection, Text, Vocabulary

(
    ADD_PREFIX,
    PREFIX_FIRST,
    SPLIT_AT_SPACE,
    STRIP_END,
    MERGE_SPACES,
    MERGE_TO_SPACE,
    DROP_FIRST_PREFIX,
    STRIP_FIRST,
    MERGE_FIRST,
) = 1, 32, 64, 128, 256, 512, 1024, 4096, 8192  # flags
BREAK_BIT = 4  # of Metaspace's classes: above it the number of what the character is in a cluster
SYLLABLE = 1 << 9  # the class of what the first map makes jamo of
HANGUL = (0xAC00, 0xD7A3)


def _words(spec: dict[str, Any]) -> int:
    """The flags of the pre-tokenizer: Metaspace, or WhitespaceSplit and then Metaspace."""
    found = steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    kinds = [step.get("type") for step in found]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        refuse(f"pre_tokenizer {kinds} with {spec['model']['type']}")
    scheme, split = metaspace(found[-1], "pre_tokenizer")
    if not split:
        refuse(f"pre_tokenizer.split False with {spec['model']['type']}")
    if scheme == "first" and len(found) > 1:
        refuse("pre_tokenizer.prepend_scheme first behind WhitespaceSplit")
    return (
        SPLIT_AT_SPACE * (len(found) > 1)
        | {"always": ADD_PREFIX, "first": ADD_PREFIX | PREFIX_FIRST, "never": 0}[scheme]
    )


def _decoder(spec: dict[str, Any]) -> int:
    decoder = spec.get("decoder") or {}
    if decoder.get("type") != "Metaspace":
        refuse(f"decoder {decoder.get('type')} with {spec['model']['type']}")
    return 0 if metaspace(decoder, "decoder")[0] == "never" else DROP_FIRST_PREFIX


def _first_map(found: list[dict[str, Any]]) -> tuple[FirstMap, list[dict[str, Any]]]:
    """What comes before Precompiled, and the steps behind it. Runs of spaces that become one are
    of it where such a step follows."""
    first = FirstMap()
    kinds = [step["type"] for step in found]
    last = max((i for i, kind in enumerate(kinds) if kind in (*FORMS, "Precompiled")), default=-1)
    at = 0
    while at < len(found) and (
        kinds[at] in FORMS
        or (kinds[at] == "Replace" and (at < last or found[at].get("pattern") != SPACES))
    ):
        first.add(found[at])
        at += 1
    first.check()
    return first, found[at:]


def _normalizer(spec: dict[str, Any], split_at_space: bool) -> tuple[bytes, bytes, int, FirstMap]:
    """(trie, strings, flags, first map) of a strip on both sides, the first map, Precompiled, a
    strip on the right, runs of spaces that become one ▁ or space: in this order."""
    trie = strings = b""
    flags, place = 0, 0
    found = steps(spec.get("normalizer"), "normalizer", "normalizers")
    while found and found[0]["type"] == "Strip":
        sides = [member(found[0], f"strip_{at}", "normalizer") for at in ("left", "right")]
        if sides != [True, True]:
            break
        flags |= STRIP_FIRST
        found = found[1:]
    first, found = _first_map(found)
    flags |= MERGE_FIRST * first.merges_spaces
    for step in found:
        kind = step.get("type")
        if kind == "Precompiled" and place < 1:
            charsmap = member(
                fields(step, "normalizer", ("precompiled_charsmap",)),
                "precompiled_charsmap",
                "normalizer",
            )
            try:
                trie, strings = split_charsmap(base64.b64decode(charsmap))
            except ValueError as error:
                raise TokenizerError(
                    f"normalizer.precompiled_charsmap: not base64: {error}"
                ) from error
            place = 1
        elif kind == "Strip" and place < 2:
            left, right = (member(step, f"strip_{at}", "normalizer") for at in ("left", "right"))
            if left or not right:
                refuse("normalizer Strip on the left")
            flags |= STRIP_END
            place = 2
        elif kind == "Replace" and place < 3:
            pattern, content = (
                member(fields(step, "normalizer", ("pattern", "content")), field, "normalizer")
                for field in ("pattern", "content")
            )
            if pattern != SPACES or content not in (META, " "):
                refuse(f"normalizer Replace of {shown(pattern)} by {shown(content)}")
            # A single space would end a word at WhitespaceSplit, as many do; else it begins one, as
            # ▁ does.
            if step["content"] == META:
                flags |= MERGE_SPACES
            elif not split_at_space:
                flags |= MERGE_SPACES | MERGE_TO_SPACE
            place = 3
        else:
            refuse(f"normalizer {kind} with {spec['model']['type']} in this place")
    return trie, strings, flags, first


def vocabulary_of(model: dict[str, Any]) -> tuple[dict[str, int], np.ndarray]:
    """Ids by text (of pieces that are there twice the package takes the last), and the scores with
    the unknown's behind them."""
    given = member(model, "vocab", "model")
    for entry in given:
        if (
            type(entry) not in (list, tuple)
            or len(entry) != 2
            or type(entry[0]) is not str
            or type(entry[1]) not in (int, float)
            or not abs(entry[1]) < 1e100
        ):
            raise TokenizerError(
                f"model.vocab: {shown(entry)}, expected a text and a finite score, not very large"
            )
    texts = [text for text, _ in given]
    scores = np.array([score for _, score in given], dtype=np.float64)
    return {text: id_ for id_, text in enumerate(texts)}, scores


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int]:
    model = fields(spec["model"], "model", ("unk_id", "vocab", "byte_fallback"))
    if model.get("byte_fallback"):
        refuse("model.byte_fallback with Unigram")
    if model.get("unk_id") is None:
        refuse("model.unk_id null")
    ids, scores = vocabulary_of(model)
    if not 0 <= model["unk_id"] < len(scores):
        raise TokenizerError(f"model.unk_id: {model['unk_id']}, there are {len(scores)} pieces")
    vocabulary = Vocabulary(ids, spec["added_tokens"], len(scores))
    unknown = model["vocab"][model["unk_id"]][0]

    section = PackageSection(MODEL.number, vocabulary)
    if ids[unknown] != model["unk_id"]:
        refuse(f"model.unk_id of a piece {unknown!r} that is there twice")
    section.put_unknown(model["unk_id"], unknown, str.encode)
    put_words(section, spec)
    rest = np.zeros(vocabulary.count() - len(scores))
    section.model_data = (
        np.concatenate([scores, rest, [scores.min() - 10.0]]).astype("<f8").tobytes()
    )
    return section.bytes(section.pieces(str.encode, lambda piece: 0)), vocabulary, section.unknown


def put_words(section: PackageSection, spec: dict[str, Any]) -> None:
    """What comes before the model and behind it: the normalizer, the pre-tokenizer, the decoder,
    and the added tokens."""
    section.flags |= _words(spec) | _decoder(spec)
    trie, strings, more, first = _normalizer(spec, bool(section.flags & SPLIT_AT_SPACE))
    section.flags |= more
    put_map(section, trie, strings)
    put_first_map(section, first)
    if section.expansion > 255:
        raise TokenizerError("the normalizer's map: a rule expands too much")
    bits, clusters = {"space": SPACE, **section.vocabulary.word_class()}, []
    if trie:
        bits.update({name: number << BREAK_BIT for name, number in BREAKS.items()})
        clusters = [
            (number << BREAK_BIT, of_ranges([(first, last)]))
            for first, last, number in OTHER_BREAKS
        ]
    if first.decomposes:
        clusters.append((SYLLABLE, of_ranges([HANGUL])))
    section.runs = class_runs(bits, clusters)
    section.added = section.vocabulary.rows(_normalized(section, first))


def _normalized(section: Section, first: FirstMap) -> Text:
    """What the normalizer makes of an added token's text: only of plain ASCII, where each character
    is a cluster of its own."""
    clusters = Clusters(section.trie, section.strings, section.expansion, section.longest_rule)

    def normalize(text: str) -> str:
        changes = section.trie or section.flags & (STRIP_FIRST | STRIP_END | MERGE_SPACES)
        mapped = first.ascii(text)
        if (changes or first) and not all("!" <= c <= "~" for c in text + mapped):
            refuse(
                f"the added token {text!r}, which is looked for in the normalized text, with such "
                "a normalizer,"
            )
        return clusters.apply(mapped) if section.trie else mapped

    return normalize


MODEL = Model(6, "unigram", json_type="Unigram", from_json=from_json)
