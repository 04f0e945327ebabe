"""A SentencePiece tokenizer.model without a tokenizer.json, as the tokenizer.json that transformers
4.57 makes of it for the classes of Llama and of Gemma. Needs numpy only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping

from phasor.errors import shown
from phasor.files import read_bytes
from phasor.sources.hugging_face.added import added_tokens, listed
from phasor.tokenizers.json_parts import META, refuse
from phasor.tokenizers.merges import scored_merges
from phasor.tokenizers.models import char_bpe
from phasor.tokenizers.section import BYTE, CONTROL, UNKNOWN, USER_DEFINED, TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto
from phasor.tokenizers.vocabulary import special_token

# The special tokens of a class, where the configuration names none.
CLASSES = {
    "Llama": {"unk": "<unk>", "bos": "<s>", "eos": "</s>"},
    "Gemma": {"unk": "<unk>", "bos": "<bos>", "eos": "<eos>", "pad": "<pad>"},
}
_TURNS = ("<start_of_turn>", "<end_of_turn>")  # of Gemma, special whatever the model says
_RENAMED = 3  # the first pieces have the texts of special tokens
_TAB, _TAB_BYTE = "\t", "<0x09>"


def read(
    path: Path,
    config: Mapping[str, Any],
    kind: str,
    names: Mapping[str, str],
    named: Callable[[dict[str, int]], list[dict[str, Any]]],
) -> dict[str, Any]:
    """kind: of CLASSES; names: the texts of its special tokens by their names; named: these as
    added tokens, with the ids of a vocabulary."""
    proto = read_model_proto(read_bytes(path))
    gemma, legacy = kind == "Gemma", config.get("legacy") in (None, True)
    prefix = not gemma and bool(config.get("add_prefix_space", True))
    _check_plain(proto, None if gemma or not legacy else prefix)
    try:
        texts = [text.decode() for text, _, _ in proto["pieces"]]
    except UnicodeDecodeError as error:
        raise TokenizerError("a piece is not UTF-8") from error
    scores = [score for _, score, _ in proto["pieces"]]
    types = [type_ for _, _, type_ in proto["pieces"]]
    if len(set(texts)) != len(texts):
        raise TokenizerError("two pieces have the same text")
    if types.count(UNKNOWN) != 1:
        raise TokenizerError(f"there are {types.count(UNKNOWN)} unknown pieces, expected one")
    ids = {text: id_ for id_, text in enumerate(texts)}
    tab = gemma and _TAB not in ids and _TAB_BYTE in ids
    if tab:
        ids[_TAB] = ids[_TAB_BYTE]
    known = dict(zip(texts, scores))
    if tab:
        known[_TAB] = 0.0
    merges = scored_merges(known, ids)
    first = _first(path.parent, config, names, texts, gemma)
    own = [*first, *texts[_RENAMED:]]
    if tab:
        own[ids[_TAB_BYTE]] = _TAB
    vocabulary = {text: id_ for id_, text in enumerate(own)}
    if len(vocabulary) != len(own):
        raise TokenizerError(f"the special tokens {shown(first)} are other pieces too")
    turns = _TURNS if gemma else ()
    pieces = [
        special_token(text, vocabulary[text], special=type_ == CONTROL or text in turns)
        for text, type_ in zip(own, types)
        if type_ in (CONTROL, USER_DEFINED)
    ]
    metaspace = {"type": "Metaspace", "replacement": META, "split": False}
    metaspace["prepend_scheme"] = "first" if prefix else "never"
    fallback = BYTE in types
    decoders = [step for step in char_bpe.DECODERS if fallback or step["type"] != "ByteFallback"]
    pieces += named(vocabulary)
    return {
        "added_tokens": added_tokens(path.parent, config, vocabulary, pieces),
        "normalizer": {
            "type": "Sequence",
            "normalizers": [char_bpe.PREPEND] * prefix + [char_bpe.REPLACE_SPACE],
        }
        if gemma or legacy
        else None,
        "pre_tokenizer": None if gemma or legacy else metaspace,
        "decoder": {"type": "Sequence", "decoders": decoders + [char_bpe.STRIP] * prefix},
        "model": {
            "type": "BPE",
            "unk_token": own[types.index(UNKNOWN)],
            "fuse_unk": True,
            "byte_fallback": fallback,
            "vocab": vocabulary,
            "merges": merges,
        },
    }


def _check_plain(proto: Mapping[str, Any], prefix: bool | None) -> None:
    """Refuses what the slow class does and its conversion leaves out. prefix: what the conversion
    puts before a text, where the slow class asks the model."""
    if proto["model_type"] != 2:
        refuse("a model that is not bpe")
    odd = [
        name
        for name, wrong in (
            ("precompiled_charsmap", bool(proto["charsmap"])),
            ("remove_extra_whitespaces", proto["remove_extra"]),
            ("escape_whitespaces off", not proto["escape"]),
            ("treat_whitespace_as_suffix", proto["suffix"]),
            ("another add_dummy_prefix", prefix not in (None, proto["dummy_prefix"])),
        )
        if wrong
    ]
    if odd:
        raise TokenizerError(
            f"{', '.join(odd)}: the slow class of transformers and the fast one have other ids"
            " then; save the one that is meant as tokenizer.json"
            " (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
        )


def _first(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, str], texts: list[str], gemma: bool
) -> list[str]:
    """The texts of the first pieces, which the conversion takes from the class."""
    if gemma:
        return [names["pad"], names["eos"], names["bos"]]
    table = listed(folder, config)
    given = (table.get(i, texts[i]) for i in range(min(_RENAMED, len(texts))))
    first = [token.get("content") if isinstance(token, dict) else token for token in given]
    if not all(isinstance(text, str) and text for text in first):
        raise TokenizerError(f"added_tokens_decoder: {shown(first)}, expected texts")
    return first
