"""A small tekken.json, and tiktoken's algorithm as its authors publish it: the pair whose bytes
have the lowest rank is merged, the first of equals."""

from __future__ import annotations

import base64
from typing import Any

from phasor.tokenizers.pre_tokenizers import TEKKEN_REGEX

SPECIAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")
MORE = b"th the he in ing an and  a  t  the aa aaa aaaa ab aab er er.".split(b" ")


def tokens(count: int) -> list[bytes]:
    """Bytes, then frequent texts, each of two that are there."""
    out = [bytes([byte]) for byte in range(256)]
    for text in MORE:
        if text and text not in out:
            out.append(text)
    return out[:count]


def tree(rows: int, special: int = 5) -> dict[str, Any]:
    """For a model of so many rows."""
    given = tokens(rows - special)
    return {
        "config": {
            "pattern": TEKKEN_REGEX,
            "num_vocab_tokens": len(given),
            "default_vocab_size": special + len(given),
            "default_num_special_tokens": special,
            "version": "v3",
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None}
            for i, t in enumerate(given)
        ],
        "special_tokens": [
            {"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(SPECIAL)
        ],
    }


def encode(word: bytes, ranks: dict[bytes, int]) -> list[int]:
    parts = [bytes([byte]) for byte in word]
    if word in ranks:
        return [ranks[word]]
    while len(parts) > 1:
        found = [ranks.get(a + b) for a, b in zip(parts, parts[1:])]
        least = min((rank for rank in found if rank is not None), default=None)
        if least is None:
            break
        at = found.index(least)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ranks[part] for part in parts]
