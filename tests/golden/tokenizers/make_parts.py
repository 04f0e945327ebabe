"""Makes parts.json, needs the tokenizers package (0.22.2 was used): what each normalizer,
pre-tokenizer, model and decoder of the package does to a few texts. From the repository's root:

    python tests/golden/tokenizers/make_parts.py

tests/python/test_pipeline.py compares the engine, without the package.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))

from tokenizers import Tokenizer  # noqa: E402

from phasor.tokenizers.sentencepiece import read_model_proto  # noqa: E402

TEXTS = [
    "",
    " ",
    "Hello there, world!",
    "  two  spaces and\ta tab \n",
    "It's 2024-05-06; isn't it? ``Yes''",
    "e\u0301\u0323 \u00e9\u1e69 \u212b o\u0323\u0302 a\u0334\u0301 \u0958",
    "\ufb01 \u33a5 \u00bd \uff76\uff9e \u2460\u3000\uff21",
    "\uac00\uac01 \u1100\u1161\u11a8 \ud7a3",
    "\u0130I\u0307 \u00df \u01c4 \u03a3\u03b1\u03a3 \u1e9e",
    "\u6211\u6709 a\u732b b \u3042\u30a2\u30fc\u4e2d",
    "a\u0001b\u200bc\u00a0d\ufeffe\u2028f\x7fg\u00adh\u2581i",
    "\U0001f468\u200d\U0001f469 \U0001f600\ufe0f \U0001f1e9\U0001f1ea",
    "aabab  aaab---b a-b",
    "x\u0301\u0489 \u0915\u094d\u0937 \u0e01\u0e33",
    "<0x41> _a_ ##b </w> [UNK]",
    "\u0660\u0661\u00b2\u2167 12three45",
    "\r\n\r \x0b\x0c \u0085\u1680\u180e",
]
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def charsmap() -> str:
    proto = read_model_proto((HERE / "unigram.model").read_bytes())
    return base64.b64encode(proto["charsmap"]).decode()


def sequence(inside: str, *steps: dict) -> dict:
    return {"type": "Sequence", inside: list(steps)}


def replace(content: str, **pattern: str) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": content}


def bert(clean: bool, pad: bool, strip: bool | None, lower: bool) -> dict:
    return {
        "type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": pad,
        "strip_accents": strip, "lowercase": lower,
    }  # fmt: skip


def strip(left: bool, right: bool) -> dict:
    return {"type": "Strip", "strip_left": left, "strip_right": right}


def normalizers() -> list[dict]:
    named = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")
    return [
        *({"type": name} for name in named),
        bert(True, False, False, False), bert(False, True, False, False),
        bert(False, False, True, False), bert(False, False, None, True),
        bert(False, False, False, True), bert(True, True, None, True),
        strip(True, False), strip(False, True), strip(True, True), strip(False, False),
        replace("X", String="a"), replace("", String="  "), replace("-", String="\u00e9"),
        replace(" ", Regex=r"\s+"), replace("<>", Regex="a+b|a"), replace("", Regex="[^\\w\\s]"),
        replace('"', Regex="``|''"),
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Prepend", "prepend": ""},
        {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        sequence("normalizers"),
        sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "NFC"}),
        sequence("normalizers", strip(True, True), {"type": "Prepend", "prepend": "_"},
                 sequence("normalizers", replace("__", String=" "), {"type": "Lowercase"})),
        sequence("normalizers", {"type": "Lowercase"}, {"type": "Prepend", "prepend": "\u00c9"},
                 {"type": "NFKD"}, {"type": "ByteLevel"}),
    ]  # fmt: skip


def split(behavior: str, invert: bool, **pattern: str) -> dict:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(scheme: str, cuts: bool, sign: str = "\u2581") -> dict:
    return {"type": "Metaspace", "replacement": sign, "prepend_scheme": scheme, "split": cuts}


def byte_level(prefix: bool, words: bool) -> dict:
    return {
        "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": words,
    }  # fmt: skip


def pre_tokenizers() -> list[dict]:
    named = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")
    return [
        *({"type": name} for name in named),
        *({"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS),
        *({"type": "Digits", "individual_digits": each} for each in (True, False)),
        {"type": "CharDelimiterSplit", "delimiter": "-"},
        {"type": "FixedLength", "length": 1}, {"type": "FixedLength", "length": 5},
        *(split(b, invert, Regex=r"\w+") for b in BEHAVIORS for invert in (False, True)),
        *(split(b, False, String=" ") for b in BEHAVIORS),
        split("Isolated", False, Regex="a*b|a"), split("Removed", False, Regex="a+b"),
        split("Isolated", False, Regex=r"\s+(?!\S)|\s+"), split("Isolated", False, Regex="x*"),
        *(metaspace(scheme, cuts) for scheme in ("always", "first", "never")
          for cuts in (True, False)),
        metaspace("always", True, "_"), metaspace("always", True, " "),
        *(byte_level(prefix, words) for prefix in (True, False) for words in (True, False)),
        sequence("pretokenizers"),
        sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True)),
        sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first", True),
                 {"type": "Digits", "individual_digits": True}),
        sequence("pretokenizers", {"type": "Whitespace"}, byte_level(True, False)),
        sequence("pretokenizers", {"type": "Punctuation", "behavior": "Isolated"},
                 {"type": "CharDelimiterSplit", "delimiter": " "},
                 {"type": "FixedLength", "length": 3}),
    ]  # fmt: skip


PIECES = [
    "[UNK]", "a", "b", "##a", "##b", "ab", "##ab", "a</w>", "##b</w>", "ab</w>", "<0x41>", "<0x78>",
    "<0xC3>", "<0xA9>", "\u2581", "\u2581a", "aa", "##aa", "\u0120", "\u00e9", "1", "don", "'t",
    "##</w>", "x</w>",
]  # fmt: skip
VOCABULARY = {piece: i for i, piece in enumerate(PIECES)}
WORDS = [
    "", "a", "ab", "aab", "abab a b", "x", "axb xx a", "xA\u00e9 A", "\u00e9a \u2581a aa",
    "aaaaaaaaaaaa ab", "bax", "\U0001f600", "\u0120 1",
]  # fmt: skip


def bpe(**more: object) -> dict:
    return {"type": "BPE", "vocab": VOCABULARY, "merges": [["a", "b"], ["a", "a"]], **more}


def models() -> list[dict]:
    both = {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}
    ends = [["a", "##b</w>"], ["a", "##a"]]
    scores = [[piece, -1.0 - len(piece) / 7 - i / 100] for i, piece in enumerate(PIECES)]
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": scores}
    return [
        bpe(), bpe(unk_token="[UNK]"), bpe(unk_token="[UNK]", fuse_unk=True),
        bpe(unk_token="[UNK]", byte_fallback=True), bpe(byte_fallback=True),
        bpe(unk_token="[UNK]", fuse_unk=True, byte_fallback=True), bpe(ignore_merges=True),
        bpe(unk_token="[UNK]", continuing_subword_prefix="##", merges=[["a", "##b"], ["a", "##a"]]),
        bpe(unk_token="[UNK]", end_of_word_suffix="</w>", merges=[]),
        bpe(unk_token="[UNK]", merges=ends, **both),
        bpe(unk_token="[UNK]", merges=ends, byte_fallback=True, fuse_unk=True, **both),
        {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 9, "vocab": VOCABULARY},
        {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "",
         "max_input_chars_per_word": 100, "vocab": VOCABULARY},
        {"type": "WordLevel", "unk_token": "[UNK]", "vocab": VOCABULARY},
        unigram, {**unigram, "byte_fallback": True},
    ]  # fmt: skip


SPOKEN = [
    "a", "b", "\u2581a", "\u2581", "##b", "ab</w>", "b</w>", "<0x41>", "<0xC3>", "<0xA9>",
    "\u0120a",
    "\u00c3", "\u00a9", ".", "n't", "do", "not", " c", "  d ", "'s", "|", "<pad>", "\u4e2d", "x x",
]  # fmt: skip
IDS = [
    [], [0], [2, 0, 3, 1], [3, 2, 2, 0], [0, 4, 4, 1], [4, 0], [5, 6, 5], [6, 0], [7, 8, 9, 0],
    [8], [8, 0, 9], [10, 0, 10], [11, 12, 10, 11], [0, 13, 0, 14, 1, 19], [15, 16, 0, 13],
    [17, 18, 0, 18], [0, 0, 21, 0, 20, 1, 1], [21, 21, 20, 20, 0], [22, 23, 22], [18], [17],
    [23, 7, 2, 13], [7], [7, 7], [0, 21, 0, 0], [20, 0, 3, 0, 21, 21, 0],
]  # fmt: skip


def decoders() -> list[dict | None]:
    fuse, fallback = {"type": "Fuse"}, {"type": "ByteFallback"}

    def cut(content: str, start: int, stop: int) -> dict:
        return {"type": "Strip", "content": content, "start": start, "stop": stop}

    ctc = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
    word = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    return [
        None, fuse, fallback, byte_level(True, True), word, {**word, "cleanup": False}, ctc,
        {**ctc, "cleanup": False}, {"type": "BPEDecoder", "suffix": "</w>"},
        *(metaspace(scheme, True) for scheme in ("always", "first", "never")),
        replace("-", String="a"), replace(" ", Regex="[\u2581|]"), cut(" ", 1, 0), cut(" ", 2, 2),
        cut("a", 0, 1),
        sequence("decoders", replace(" ", String="\u2581"), fallback, fuse, cut(" ", 1, 0)),
        sequence("decoders", replace("", String="##"), {"type": "BPEDecoder", "suffix": "</w>"}),
        sequence("decoders", fallback, fuse, replace(" ", String="|")),
        sequence("decoders", byte_level(True, True), replace(" ", String="a")),
        sequence("decoders", word, fuse, cut(" ", 1, 0)), sequence("decoders", ctc, word),
        sequence("decoders", replace("", String="a"), ctc, word),
        sequence("decoders", fuse, word), sequence("decoders", fuse, ctc),
        sequence("decoders", fuse, fallback), sequence("decoders", fuse, fallback, cut("A", 1, 0)),
        sequence("decoders", ctc, ctc), sequence("decoders", ctc, replace("", String="a"), ctc),
        sequence("decoders", metaspace("always", True), ctc),
        sequence("decoders", ctc, ctc, word, fuse, cut(" ", 1, 0)),
    ]  # fmt: skip


def tokenizer(**parts: object) -> dict:
    spec = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
    }  # fmt: skip
    return {**spec, **parts}


def made(**parts: object) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(tokenizer(**parts)))


def main() -> None:
    plain = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}
    out: dict[str, list] = {"texts": TEXTS, "words": WORDS, "tokens": SPOKEN, "ids": IDS}
    out["normalizers"] = [
        [step, [made(model=plain, normalizer=step).normalizer.normalize_str(t) for t in TEXTS]]
        for step in normalizers()
    ]
    out["pre_tokenizers"] = []
    for step in pre_tokenizers():
        of = made(model=plain, pre_tokenizer=step).pre_tokenizer
        words = [[word for word, _ in of.pre_tokenize_str(text)] for text in TEXTS]
        out["pre_tokenizers"].append([step, words])
    out["models"] = []
    for model in models():
        of = made(model=model, pre_tokenizer={"type": "WhitespaceSplit"})
        rows = [of.encode(text, add_special_tokens=False).ids for text in WORDS]
        out["models"].append([model, rows])
    spoken = {"type": "WordLevel", "unk_token": "a", "vocab": {t: i for i, t in enumerate(SPOKEN)}}
    out["decoders"] = [
        [step, [made(model=spoken, decoder=step).decode(ids) for ids in IDS]] for step in decoders()
    ]
    lines = []
    for name, value in out.items():
        rows = ",\n".join("  " + json.dumps(row) for row in value)
        lines.append(f'"{name}": [\n{rows}\n]')
    (HERE / "parts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")


if __name__ == "__main__":
    main()
