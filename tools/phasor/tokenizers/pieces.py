"""Tokenizers as GGUF has them: lists of pieces, scores and types, and the name of a pre-tokenizer
(docs/reference/converter.md). Needs numpy only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Collection, NamedTuple

from phasor.errors import shown
from phasor.tokenizers.export import exportable
from phasor.tokenizers.json_parts import META
from phasor.tokenizers.merges import scored_merges
from phasor.tokenizers.models import byte_bpe, char_bpe
from phasor.tokenizers.pre_tokenizers import (
    BLOOM_REGEX,
    CL100K_REGEX,
    DEEPSEEK3_REGEX,
    GPT2_REGEX,
    LLAMA3_REGEX,
    O200K_REGEX,
    QWEN2_REGEX,
    QWEN35_REGEX,
    SEED_REGEX,
    TEKKEN_REGEX,
)
from phasor.tokenizers.section import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    TokenizerError,
)
from phasor.tokenizers.vocabulary import special_token


def split(regex: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex: bool, prefix: bool = False) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


DIGITS = {"type": "Digits", "individual_digits": True}


_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


# Cased letters, by their code points: some look like others, and an editor may compose them.
_CASED_LETTERS = (
    "b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c "
    "38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 "
    "10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 "
    "1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 "
    "1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb "
    "1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 "
    "210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e "
    "2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee "
    "2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 "
    "ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)


_DEEPSEEK_LETTERS = (
    r"\s?[A-Za-z"
    + "".join("-".join(chr(int(c, 16)) for c in run.split("-")) for run in _CASED_LETTERS.split())
    + "]+"
)


_DEEPSEEK_LLM = [
    split(r"[\r\n]"),
    split(_DEEPSEEK_LETTERS),
    split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
    split(r"\s+$"),
    split(_CJK),
]


class Pre(NamedTuple):
    """A pre-tokenizer as GGUF names it: the steps of the model's tokenizer.json, whether it
    composes (NFC), whether words that are pieces stay whole."""

    steps: list[dict[str, Any]]
    nfc: bool = False
    whole_words: bool = False


_LEVEL, _WORDS_LEVEL = byte_level(False), byte_level(True)


_OF_LLAMA3, _OF_QWEN2 = [split(LLAMA3_REGEX), _LEVEL], [split(QWEN2_REGEX), _LEVEL]


_NAMED = {
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat roberta-bpe jina-v1-en jais mellum "
    "modern-bert a.x-4.0": Pre([_WORDS_LEVEL]),
    "olmo mpt": Pre([_WORDS_LEVEL], nfc=True),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": Pre(
        _OF_LLAMA3, whole_words=True
    ),
    "dbrx smaug-bpe glm4 chatglm-bpe": Pre(_OF_LLAMA3),
    "qwen2 stablelm2": Pre(_OF_QWEN2, nfc=True),
    "deepseek-r1-qwen megrez hunyuan": Pre(_OF_QWEN2),
    "qwen35": Pre([split(QWEN35_REGEX), _LEVEL], nfc=True),
    "smollm starcoder refact codeshell exaone minerva-7b": Pre([DIGITS, _WORDS_LEVEL]),
    "command-r": Pre([DIGITS, _WORDS_LEVEL], nfc=True),
    "deepseek-llm": Pre([*_DEEPSEEK_LLM, DIGITS, _LEVEL]),
    "deepseek-coder": Pre(
        [
            split(r"[\r\n]"),
            split(r"\s?\p{L}+"),
            split(r"\s?\p{P}+"),
            split(_CJK),
            DIGITS,
            _LEVEL,
        ]
    ),
    "deepseek-v3 hunyuan-dense": Pre(
        [
            split(r"\p{N}{1,3}"),
            split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
            split(DEEPSEEK3_REGEX),
            _LEVEL,
        ]
    ),
    "falcon": Pre(
        [
            {"type": "Punctuation", "behavior": "Contiguous"},
            _WORDS_LEVEL,
            {"type": "Digits", "individual_digits": False},
            split("[0-9][0-9][0-9]"),
        ]
    ),
    "tekken": Pre([split(TEKKEN_REGEX), _LEVEL], whole_words=True),
    "gpt-4o llama4": Pre([split(O200K_REGEX), _LEVEL]),
    "bloom poro-chat gpt3-finnish": Pre([split(BLOOM_REGEX), _LEVEL]),
    "viking": Pre([split(BLOOM_REGEX), DIGITS, _LEVEL]),
    "seed-coder": Pre([split(SEED_REGEX), _LEVEL]),
    "cl100k_base": Pre([split(CL100K_REGEX), _LEVEL]),  # of no GGUF: tiktoken.py
    # What llama.cpp does where a file names none.
    "default": Pre(
        [
            split(r"[\p{P}\$\+<=>\^~\|]+"),
            split(GPT2_REGEX),
            split(r"\p{N}+"),
            split("[0-9][0-9][0-9]"),
            _LEVEL,
        ]
    ),
}
PRE_TOKENIZERS = {name: pre for names, pre in _NAMED.items() for name in names.split()}


def build_bpe_section(
    pieces: list[str],
    merges: list[Any],
    *,
    pre: str | Pre = "default",
    types: list[int] | None = None,
    nfc: bool | None = None,
    whole_words: bool | None = None,
    add_prefix_space: bool = False,
    unknown_id: int | None = None,
) -> bytes:
    """Builds the section for a byte-level BPE vocabulary as GGUF has it ("gpt2" models).

    pieces: texts by id, in GPT-2's letters for bytes; merges: "left right" or pairs, earliest
    first; types: GGUF's token types (1 normal, 2 unknown, 3 control, 4 user defined, 5 unused):
    control and user-defined pieces are found in the text as they are, before the model sees it, and
    control pieces decode to nothing. pre is tokenizer.ggml.pre, a key of PRE_TOKENIZERS, or what
    that has; it also says whether text is composed first (nfc) and whether a word that is a piece
    stays whole (whole_words, tokenizer.json's ignore_merges), which may be given in its place.
    Raises TokenizerError, naming the thing, for what is not known.
    """
    if isinstance(pre, str) and pre not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"the pre-tokenizer {pre!r} is not supported, expected "
            f"{', '.join(sorted(PRE_TOKENIZERS))}"
        )
    known = PRE_TOKENIZERS[pre] if isinstance(pre, str) else pre
    kinds = [NORMAL] * len(pieces) if types is None else list(types)
    if len(kinds) != len(pieces):
        raise TokenizerError(f"there are {len(pieces)} pieces and {len(kinds)} types")
    words = [dict(step) for step in known.steps]
    if add_prefix_space:
        words = [
            {**step, "add_prefix_space": True} if step["type"] == "ByteLevel" else step
            for step in words
        ]
    vocabulary: dict[str, int] = {}
    added = []
    for id_, (piece, kind) in enumerate(zip(pieces, kinds)):
        if kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED):
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) has type {kind}, which a byte-level vocabulary does "
                "not have"
            )
        if kind == UNUSED:
            continue
        if piece in vocabulary:
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) is already defined as piece {vocabulary[piece]}"
            )
        vocabulary[piece] = id_
        if kind in (CONTROL, USER_DEFINED):
            added.append(special_token(piece, id_, special=kind == CONTROL))
    spec = {
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if (known.nfc if nfc is None else nfc) else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "unk_token": None if unknown_id is None else pieces[unknown_id],
            "vocab": vocabulary,
            "merges": merges,
            "ignore_merges": known.whole_words if whole_words is None else whole_words,
        },
    }
    return _build_byte_bpe_of(spec, len(pieces))


def _build_byte_bpe_of(spec: dict[str, Any], count: int) -> bytes:
    try:
        spec = {**spec, "pieces": count}
        section, vocabulary, _ = byte_bpe.from_json(spec)
        return exportable(spec, section, vocabulary, byte_bpe.MODEL)
    except (KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"the vocabulary: a part is missing or of another kind than it should be: {error}"
        ) from error


def build_sentencepiece_like(
    pieces: list[str],
    scores: list[float],
    types: list[int],
    *,
    add_space_prefix: bool = True,
    strips: Collection[str] = (),
    merges: list[str] | None = None,
    unknown_id: int | None = None,
) -> bytes:
    """Builds the section for a vocabulary of SentencePiece's BPE as GGUF has it: "llama", or
    "gemma4", whose files have the merges, "left right", earliest first, and no unknown piece but
    that of unknown_id.

    pieces, scores, types by id, the types SentencePiece's (which are GGUF's); byte fallback where
    there are byte pieces, which have the type and a text from <0x00> to <0xFF>, or neither; strips:
    control and user-defined pieces that take the white space behind them. Plain text gets the ids
    of the `sentencepiece` package. Control pieces (`</s>`) and user-defined ones are found in the
    text first, and each stretch between them gets the prefix, as in the tokenizer.json that
    transformers makes of such a vocabulary and in llama.cpp. A user-defined piece with white space
    in it, spelled with spaces or with ▁, is found where SentencePiece finds it: behind the prefix,
    in the text whose spaces are ▁. The section is that of model 7, the merges all pairs of pieces
    that make a piece, the best score first. Raises TokenizerError, naming the thing.
    """
    if not len(pieces) == len(scores) == len(types):
        raise TokenizerError(
            f"there are {len(pieces)} pieces, {len(scores)} scores and {len(types)} types"
        )
    unknown = [piece for piece, kind in zip(pieces, types) if kind == UNKNOWN]
    unknown = unknown or ([] if unknown_id is None else [pieces[unknown_id]])
    if len(unknown) != 1:
        raise TokenizerError(f"there are {len(unknown)} unknown pieces, expected one")
    vocabulary: dict[str, int] = {}
    added = []
    for id_, (piece, kind) in enumerate(zip(pieces, types)):
        if kind == USER_DEFINED:
            piece = piece.replace(" ", META)
        if (kind == BYTE) != (piece in char_bpe.BYTE_PIECES):
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) has type {kind}; type {BYTE} has <0x00> to <0xFF>"
            )
        if piece in vocabulary:
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) is already defined as piece {vocabulary[piece]}"
            )
        if kind != UNUSED:
            vocabulary[piece] = id_
        if kind in (UNKNOWN, CONTROL, USER_DEFINED):
            user = kind == USER_DEFINED
            flags = {"normalized": user and META in piece, "rstrip": piece in strips}
            added.append(special_token(piece, id_, special=not user, **flags))
    fallback = BYTE in types
    decoders = [step for step in char_bpe.DECODERS if fallback or step["type"] != "ByteFallback"]
    normal = {piece: scores[id_] for piece, id_ in vocabulary.items() if types[id_] == NORMAL}
    spec = {
        "pieces": len(pieces),
        "added_tokens": added,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [char_bpe.PREPEND] * add_space_prefix + [char_bpe.REPLACE_SPACE],
        },
        "decoder": {"type": "Sequence", "decoders": decoders + [char_bpe.STRIP] * add_space_prefix},
        "model": {
            "type": "BPE",
            "unk_token": unknown[0],
            "fuse_unk": True,
            "byte_fallback": fallback,
            "vocab": vocabulary,
            "merges": _merges_of(normal, vocabulary) if merges is None else merges,
        },
    }
    return char_bpe.from_json(spec, added_prefix=False)[0]


def _merges_of(normal: dict[str, float], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """All pairs of pieces that make a normal one, the best score first."""
    merges = scored_merges(normal, vocabulary)
    for one, other in pairwise(left + right for left, right in merges):
        if one != other and normal[one] == normal[other]:  # then the leftmost goes first
            raise TokenizerError(
                f"the pieces {shown(one)} and {shown(other)} have the same score, and are merged"
            )
    return merges
