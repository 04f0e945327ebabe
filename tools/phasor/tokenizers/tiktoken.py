"""Vocabularies of tiktoken and of Mistral's tekken.json: tokens as bytes, by rank. A word is the
token that it is, else pairs are merged whose bytes together have the lowest rank; as in the
conversion of transformers every way to make a token of two others is a merge, by rank and then by
the ranks of the two.

A file of tiktoken (a line for each token: base64, rank) does not say how a text is cut into words
or what the special tokens are: that is known by the encoding's name, which the file must have.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from phasor.errors import shown
from phasor.files import parse_object
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.pieces import Pre, build_bpe_section, byte_level
from phasor.tokenizers.pre_tokenizers import FancyRegex
from phasor.tokenizers.section import CONTROL, NORMAL, TokenizerError
from phasor.values import is_whole

_MOST, _LONGEST = 1 << 20, 512  # tokens, and bytes of one
_LETTERS = {byte: letter for letter, byte in ALPHABET.items()}


class Encoding(NamedTuple):
    """How a text is cut (pieces.py's PRE_TOKENIZERS), and the special tokens by their ids."""

    pre: str
    special: dict[str, int]


def _end(id_: int, *more: tuple[str, int]) -> dict[str, int]:
    return {"<|endoftext|>": id_, **dict(more)}


_FIM = ("prefix", "middle", "suffix")


def _harmony() -> dict[str, int]:
    """gpt-oss's: names for some of the ids behind the tokens; the others are reserved. Of two names
    of one id, 200018, the last is its text."""
    named = dict(startoftext=199998, endoftext=199999, constrain=200003, channel=200005)
    named |= {"return": 200002, "start": 200006, "end": 200007, "message": 200008, "call": 200012}
    named |= {"endofprompt": 200018}
    reserved = {f"<|reserved_{id_}|>": id_ for id_ in range(200013, 201088)}
    reserved |= {f"<|reserved_{i}|>": i for i in (200000, 200001, 200004, 200009, 200010, 200011)}
    return reserved | {f"<|{name}|>": id_ for name, id_ in named.items()}


# As the package's tiktoken_ext/openai_public.py has them (0.14.0).
ENCODINGS = {
    "r50k_base": Encoding("gpt-2", _end(50256)),
    "p50k_base": Encoding("gpt-2", _end(50256)),
    "cl100k_base": Encoding(
        "cl100k_base",
        _end(
            100257,
            *((f"<|fim_{name}|>", 100258 + i) for i, name in enumerate(_FIM)),
            ("<|endofprompt|>", 100276),
        ),
    ),
    "o200k_base": Encoding("gpt-4o", _end(199999, ("<|endofprompt|>", 200018))),
    "o200k_harmony": Encoding("gpt-4o", _harmony()),
}


def _letters(token: bytes) -> str:
    return "".join(_LETTERS[byte] for byte in token)


def merges(ranks: dict[bytes, int]) -> list[tuple[str, str]]:
    """Every pair of tokens that is a token, by its rank, then by theirs."""
    found = []
    for token, rank in ranks.items():
        for at in range(1, len(token)):
            left, right = ranks.get(token[:at]), ranks.get(token[at:])
            if left is not None and right is not None:
                found.append((rank, left, right, token[:at], token[at:]))
    return [(_letters(left), _letters(right)) for *_, left, right in sorted(found)]


def _section(
    tokens: list[bytes | None], special: dict[str, int], first: int, pre: str | Pre
) -> bytes:
    """first: the id of the token of rank 0; None: a rank that no token has."""
    ranks = {token: rank for rank, token in enumerate(tokens) if token is not None}
    if len(ranks) + tokens.count(None) != len(tokens):
        raise TokenizerError("a token is there twice")
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise TokenizerError("a byte is no token")
    count = max(first + len(tokens), *(id_ + 1 for id_ in special.values()), 0)
    if count > first + len(tokens) + _MOST // 16:
        raise TokenizerError(f"a special token has the id {count - 1}")
    names = {id_: text for text, id_ in special.items()}
    pieces, types = [], []
    for id_ in range(count):
        own = first <= id_ < first + len(tokens) and tokens[id_ - first] is not None
        if own and id_ in names:
            raise TokenizerError(f"{shown(names[id_])} has the id of a token, {id_}")
        pieces.append(_letters(tokens[id_ - first]) if own else names.get(id_, f"<unused {id_}>"))
        types.append(NORMAL if own else CONTROL)
    return build_bpe_section(
        pieces, merges(ranks), pre=pre, types=types, nfc=False, whole_words=True
    )


def _decoded(text: Any, what: str) -> bytes:
    try:
        token = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise TokenizerError(f"{what}: {shown(text)}, expected base64") from error
    if not 1 <= len(token) <= _LONGEST:
        raise TokenizerError(f"{what}: {len(token)} bytes, expected 1 to {_LONGEST}")
    return token


def from_tiktoken(data: bytes, path: Path) -> bytes:
    """The section of a file of tiktoken. TokenizerError names the line."""
    if path.stem not in ENCODINGS:
        raise TokenizerError(
            "a file of tiktoken does not say how a text is cut: give it the name of its encoding,"
            f" {' or '.join(f'{name}.tiktoken' for name in ENCODINGS)}"
        )
    encoding, tokens = ENCODINGS[path.stem], list[bytes | None]()
    gaps = set(encoding.special.values())
    for number, line in enumerate(data.rstrip(b"\n").split(b"\n"), 1):
        text, _, rank = line.strip().partition(b" ")
        if len(tokens) in gaps and rank != b"%d" % len(tokens):
            tokens.append(None)  # p50k_base has a special token between
        if rank != b"%d" % len(tokens) or len(tokens) >= _MOST:
            raise TokenizerError(f"line {number}: expected a token and the rank {len(tokens)}")
        tokens.append(_decoded(text, f"line {number}"))
    return _section(tokens, encoding.special, 0, encoding.pre)


def _ranked(entries: Iterable[Any], what: str) -> list[dict[str, Any]]:
    """The entries, whose ranks are 0, 1, 2, …"""
    out = []
    for rank, entry in enumerate(entries):
        if not isinstance(entry, dict) or entry.get("rank") != rank:
            raise TokenizerError(f"{what}: expected a table with the rank {rank}")
        out.append(entry)
    return out


def from_tekken(data: bytes) -> bytes:
    """The section of a tekken.json. TokenizerError names the field."""
    tree = parse_object(data)
    config, vocab = tree.get("config"), tree.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocab, list) or len(vocab) > _MOST:
        raise TokenizerError("expected a config and a vocab")
    pattern = config.get("pattern")
    if not isinstance(pattern, str):
        raise TokenizerError(f"config.pattern: {shown(pattern)}, expected a regular expression")
    first, size = (config.get(n) for n in ("default_num_special_tokens", "default_vocab_size"))
    if not is_whole(first, 0, 1 << 16) or not is_whole(size, first + 256, _MOST):
        raise TokenizerError("config: expected default_num_special_tokens, default_vocab_size")
    if size - first > len(vocab):
        raise TokenizerError(f"vocab: {len(vocab)} tokens, default_vocab_size is {size}")
    kept = _ranked(vocab[: size - first], "vocab")
    tokens = [_decoded(entry.get("token_bytes"), f"vocab {entry['rank']}") for entry in kept]
    special = {text: id_ for id_, text in enumerate(("<unk>", "<s>", "</s>"))}
    if isinstance(entries := tree.get("special_tokens"), list):
        given = _ranked(entries, "special_tokens")
        texts = [entry.get("token_str") for entry in given]
        if not all(isinstance(text, str) and text for text in texts):
            raise TokenizerError("special_tokens: expected a text as token_str")
        special = {text: id_ for id_, text in enumerate(texts)}
        if len(special) != len(texts):
            raise TokenizerError("special_tokens: a text is there twice")
    if len(special) > first:
        raise TokenizerError(f"special_tokens: expected at most {first} texts")
    split = {"type": "Split", "pattern": {"Regex": FancyRegex(pattern)}}
    split |= {"behavior": "Removed", "invert": True}  # what no match has is no token
    pre = Pre([split, byte_level(False)], whole_words=True)
    return _section(tokens, special, first, pre)
