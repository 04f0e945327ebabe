"""What the kinds of byte-pair encoding share in Hugging Face's `tokenizers`: the merges, the fields
of the model, which of the kinds a tokenizer.json has.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.json_parts import fields, member, refuse, types_of
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.vocabulary import PackageSection

MERGE_INDEX = 2048  # flag of the section
INDEX_FROM = 4096  # merges: a small model's are found as fast without
_LONGEST_SCORED = 512  # characters of a piece that is cut everywhere


def merge_pairs(merges: list[Any]) -> dict[tuple[str, str], int]:
    """The rank of each merge; of one that is there twice the package takes the last."""
    ranks = {}
    for rank, merge in enumerate(merges):
        pair = tuple(
            merge.split(" ")
            if isinstance(merge, str)
            else merge
            if isinstance(merge, (list, tuple))
            else ()
        )
        if len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise TokenizerError(f"model.merges: {shown(merge)} is not a pair")
        ranks[pair] = rank
    return ranks


def scored_merges(scores: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of a vocabulary of SentencePiece: all pairs of pieces that make a piece, the best
    score first; of equal scores in the order of transformers' conversion."""
    found = []
    for piece, score in scores.items():
        if not np.isfinite(score):
            raise TokenizerError(f"piece {ids[piece]} has a score that is not finite")
        if len(piece) > _LONGEST_SCORED:  # as many pairs as characters are tried
            raise TokenizerError(
                f"piece {ids[piece]} has {len(piece)} characters, expected at most"
                f" {_LONGEST_SCORED}"
            )
        cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        pairs = [(left, right) for left, right in cuts if left in scores and right in scores]
        pairs.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        found += [(score, len(left), len(right), left, right) for left, right in pairs]
    found.sort(key=lambda merge: merge[:3], reverse=True)
    return [(left, right) for *_, left, right in found]


def put_merges(
    section: PackageSection,
    model: dict[str, Any],
    ids: list[int],
    reachable: Callable[[str, str], bool],
    lost: int = 0,
) -> None:
    """The ids of bytes; the merges by (left, right) with their ranks, then the results by rank,
    those that no text can reach left out; of many merges, where those of each left part begin.
    lost: characters that a right part loses."""
    vocabulary = section.vocabulary
    rows: list[Any] = []
    results: list[Any] = []
    for (left, right), _ in sorted(
        merge_pairs(member(model, "merges", "model")).items(), key=lambda item: item[1]
    ):
        for piece in (left, right, left + right[lost:]):
            if piece not in vocabulary.of_model:
                raise TokenizerError(f"model.merges: {piece!r} is not in the vocabulary")
        if reachable(left, right):
            rows.append((vocabulary.of_model[left], vocabulary.of_model[right], len(rows)))
            results.append(vocabulary.of_model[left + right[lost:]])
    section.merges = len(rows)
    rows.sort()
    section.model_data = b"".join(
        np.array(part, dtype="<u4").tobytes() for part in (ids, rows, results)
    )
    if len(rows) >= INDEX_FROM:
        section.flags |= MERGE_INDEX
        section.model_data += (
            np.searchsorted(np.array(rows)[:, 0], np.arange(vocabulary.count() + 1))
            .astype("<u4")
            .tobytes()
        )


def put_unknown(
    section: PackageSection, model: dict[str, Any], as_bytes: Callable[[str], bytes]
) -> None:
    unknown = model.get("unk_token")
    if unknown is None:
        return
    if unknown not in section.vocabulary.of_model:
        raise TokenizerError(f"model.unk_token {unknown!r} is not in the vocabulary")
    section.put_unknown(section.vocabulary.of_model[unknown], unknown, as_bytes)


def model_of(spec: dict[str, Any], suffix: str = "") -> dict[str, Any]:
    """The model's fields. suffix: what ends a word's last piece, where that is built."""
    model = fields(
        spec["model"],
        "model",
        (
            "dropout",
            "unk_token",
            "continuing_subword_prefix",
            "end_of_word_suffix",
            "fuse_unk",
            "byte_fallback",
            "ignore_merges",
            "vocab",
            "merges",
        ),
    )
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name) and (name != "end_of_word_suffix" or model[name] != suffix):
            refuse(f"model.{name} {model[name]!r}")
    return model


def is_metaspace(spec: dict[str, Any]) -> bool:
    return types_of(spec, "decoder", "decoders") == ["Metaspace"]


def is_byte_level(spec: dict[str, Any]) -> bool:
    decoders = types_of(spec, "decoder", "decoders")
    if "ByteLevel" in decoders and len(decoders) > 1:
        refuse(f"decoder {decoders}")
    if "ByteLevel" in types_of(spec, "pre_tokenizer", "pretokenizers") and decoders != [
        "ByteLevel"
    ]:
        refuse(f"decoder {decoders[0] if len(decoders) == 1 else decoders} with byte-level BPE")
    return decoders == ["ByteLevel"]
