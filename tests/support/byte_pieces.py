"""Texts that nearly are pieces of bytes (<0x00> to <0xFF>), and vocabularies with one of them."""

from __future__ import annotations

from typing import Any

BYTES = [f"<0x{value:02X}>" for value in range(256)]
# What Hugging Face's ByteFallback reads as a byte all the same (tests/reference/
# test_byte_pieces.py asks the package), and what it takes for text.
READ = ("<0xff>", "<0xaB>", "<0xFf>", "<0x+1>", "<0x+f>")
TEXT = (
    *("<0x-1>", "<0xG0>", "<0x100>", "<0x>", "<0xFFF>", "<0x 1>", "<0x1 >", "<0X41>", "<0x4>"),
    *("<0x41", "0x41>", "<0x41>>", "<0x++>", "<0x.1>", "<0x\u00e9>", "<0x\uff11>", "<0x\u0661>"),
)
ODD = READ + TEXT


def tokenizer_json(pieces: list[str], added: list[dict] = []) -> dict[str, Any]:
    """BPE of characters with the bytes and these pieces, as Llama 2 has it."""
    texts = ["<unk>", *BYTES, *pieces]
    return {
        "added_tokens": [
            {
                "id": texts.index(token["content"]) if token["content"] in texts else len(texts),
                **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
                "special": False,
                **token,
            }
            for token in added
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {text: id_ for id_, text in enumerate(texts)},
            "merges": [],
        },
    }
