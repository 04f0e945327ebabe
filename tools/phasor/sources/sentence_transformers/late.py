"""Late interaction (ColBERT: Khattab and Zaharia 2020; Santhanam et al. 2022): what its two kinds
of directories say of queries and texts. Those of Stanford's code have artifact.metadata beside the
class HF_ColBERT, those of PyLate are sentence-transformers'. Files of colbert-ai 0.2 and PyLate
1.6.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any, NamedTuple

from phasor import side_files
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, shown
from phasor.families.heads import Head
from phasor.families.hf_config import Config
from phasor.format import descriptor as D

CLASS = "HF_ColBERT"  # Stanford's
_MOST = 1 << 24  # ids
_LAST = "linear"  # Stanford's matrix


class Late(NamedTuple):
    """What a directory says; the tokenizer has the ids."""

    where: Path
    query_length: int
    document_length: int
    markers: tuple[str, str]  # of a query and of a text; empty: none
    expansion: int
    skipped: tuple[str, ...]

    def fields(
        self, ids: dict[str, int], unknown: int | None, descriptor: dict[str, Any]
    ) -> dict[str, Any]:
        """Of the descriptor's output. ids: of all pieces."""
        most = D.longest(descriptor, "encoder")
        for length in (self.query_length, self.document_length):
            if most and length > most:
                raise PhasorError(f"{self.where}: {length} ids of a text, {most} positions")
        if self.expansion and descriptor["source"]["mask"] is None:
            raise PhasorError(
                f"{self.where}: queries are expanded, and the tokenizer has no mask token"
            )
        if self.expansion == D.HIDDEN_EXPANSION:
            self._check_distances(descriptor)
        for marker in filter(None, self.markers):
            if marker not in ids:
                raise PhasorError(f"{self.where}: the tokenizer has no piece {shown(marker)}")
        found = [ids.get(word, unknown) for word in self.skipped]
        if None in found:
            word = self.skipped[found.index(None)]
            raise PhasorError(
                f"{self.where}: skiplist_words: the tokenizer has no piece {shown(word)}"
            )
        query, document = (ids[m] if m else None for m in self.markers)
        return {
            "query_length": self.query_length,
            "document_length": self.document_length,
            "query_marker": query,
            "document_marker": document,
            "expansion": self.expansion,
            "skipped": sorted(set(found)),
        }

    def _check_distances(self, descriptor: dict[str, Any]) -> None:
        """Tokens that are not seen have no place in tables of distances."""
        for kind in descriptor["kinds"]:
            if kind["position"] in (*D.RELATIVE_KEYS, D.T5_BIAS):
                raise PhasorError(
                    f"{self.where}: queries are expanded by tokens that are not attended to, which"
                    " is not supported with positions of this kind"
                )


def head(last: str, width: int, bias: bool) -> dict[str, Any]:
    """Fields of a heads.Head. last: the matrix; width: of a vector."""
    return {
        "output": D.CLASSES,
        "last": last,
        "last_bias": bias,
        "vectors": width,
        "scores": D.PLAIN,
    }


def stanford(config: Config, checkpoint: Checkpoint, bare: Head) -> tuple[Late, Head]:
    """Of a directory with artifact.metadata, or with what colbert-ai takes without it."""
    name = f"{_LAST}.weight"
    if name not in checkpoint or len(checkpoint.shape(name)) != 2:
        raise PhasorError(f"{checkpoint.path}: {CLASS} without a matrix {name}")
    where = config.path.parent / "artifact.metadata"
    given = Config(where, side_files.read(where))
    width = checkpoint.shape(name)[0]
    if given.whole("dim", 1, _MOST, default=width) != width:
        raise given.error("dim", f"{given.get('dim')}, and {name} has {width} rows")
    late = Late(
        where,
        given.whole("query_maxlen", 1, _MOST, default=32),
        given.whole("doc_maxlen", 1, _MOST, default=220),
        tuple(
            given.text(name, default)
            for name, default in (("query_token_id", "[unused0]"), ("doc_token_id", "[unused1]"))
        ),
        D.SEEN_EXPANSION
        if given.flag("attend_to_mask_tokens", default=False)
        else D.HIDDEN_EXPANSION,
        tuple(string.punctuation) if given.flag("mask_punctuation", default=True) else (),
    )
    return late, bare._replace(**head(_LAST, width, False))


def pylate(where: Path, config: Config) -> Late:
    """Of config_sentence_transformers.json, whose other fields have been asked for."""
    config.must("similarity_fn_name", "MaxSim")
    skipped = config.get("skiplist_words", list(string.punctuation))
    if not isinstance(skipped, list) or not all(isinstance(word, str) for word in skipped):
        raise config.error("skiplist_words", f"{shown(skipped)}, expected a list of texts")
    if len(skipped) > D.MAX_VALUE // 4:
        raise config.error("skiplist_words", f"{len(skipped)} of them")
    seen = config.flag("attend_to_expansion_tokens", default=False)
    expansion = D.SEEN_EXPANSION if seen else D.HIDDEN_EXPANSION
    return Late(
        where,
        config.whole("query_length", 1, _MOST, default=32),
        config.whole("document_length", 1, _MOST, default=180),
        (config.text("query_prefix", "[Q] "), config.text("document_prefix", "[D] ")),
        expansion if config.flag("do_query_expansion", default=True) else D.NO_EXPANSION,
        tuple(skipped),
    )
