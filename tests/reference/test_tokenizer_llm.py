"""Tokenizers of language models against Hugging Face's tokenizers package: the same ids, the same
text back.

Each family's normalizer, pre-tokenizer and decoder are those of its published tokenizer.json; the
vocabularies are trained here, on WikiText-2 where it is at hand and on the committed sentences. A
second vocabulary, in which any two bytes merge, shows where words end. Texts: every code point
doubled between letters and beside signs, hostile ones, and 100,000 random ones for each of the
rules in MAIN; a part of them for the others, unless PHASOR_TOKENIZER_FULL is set, which asks for
everything of every rule (about ten minutes).
"""

from __future__ import annotations

import functools
import json
import os
import random
from pathlib import Path

import pytest
from test_tokenizer import DATA, Driver, driver  # noqa: F401
from test_tokenizer_hf import (
    UNICODE,
    compare,
    compare_decoding,
    golden,
    long_texts,
    random_sequences,
    random_texts,
    refused_or_equal,
)

from phasor.sources.hugging_face import tokenizer_json as hf
from phasor.tokenizers import pieces as gguf
from phasor.tokenizers import section as pt
from phasor.tokenizers import unicode
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.pre_tokenizers import GPT2_REGEX, SEED_REGEX
from phasor.tokenizers.sentencepiece import read_model_proto
from texts import write_json

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

# ---- The families


def split(regex: str, behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(*steps: dict) -> dict:
    return {"type": "Sequence", "pretokenizers": list(steps)}


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = {**LEVEL, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
NFC = {"type": "NFC"}
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
    "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
LLAMA_DEFAULT = r"[\p{P}\$\+<=>\^~\|]+"
TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
    r"\s*[\r\n]|\s+(?!\S)|\s+"
)
PLAIN = LLAMA3.replace(
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
)

# (normalizer, pre-tokenizer, options of the model)
BYTE_LEVEL = {
    "gpt-2": (None, GPT2, {}),
    "gpt-neox, olmo": (NFC, GPT2, {}),
    "roberta with a prefix": (None, {**GPT2, "add_prefix_space": True}, {}),
    "llama 3": (None, sequence(split(LLAMA3), LEVEL), {"ignore_merges": True}),
    "phi-4 (removed, inverted)": (None, sequence(split(LLAMA3, "Removed", True), LEVEL), {}),
    "dbrx": (None, sequence(split(PLAIN), LEVEL), {}),
    "bailing": (None, sequence(split(TIKTOKEN), LEVEL), {}),
    "qwen2": (NFC, sequence(split(QWEN2), LEVEL), {}),
    "qwen3.5": (NFC, sequence(split(QWEN35), LEVEL), {}),
    "smollm, starcoder": (None, sequence(DIGITS, GPT2), {}),
    "command-r": (NFC, sequence(DIGITS, GPT2), {}),
    "deepseek llm": (
        {"type": "Sequence", "normalizers": []},
        sequence(
            split("[\r\n]"),
            split(gguf._DEEPSEEK_LETTERS),
            split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
            split(r"\s+$"),
            split(CJK),
            DIGITS,
            LEVEL,
        ),
        {},
    ),
    "deepseek coder": (
        None,
        sequence(
            split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), DIGITS, LEVEL
        ),
        {},
    ),
    "deepseek v3": (
        None,
        sequence(
            split(r"\p{N}{1,3}"),
            split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
            split(DEEPSEEK3),
            LEVEL,
        ),
        {},
    ),
    "falcon": (
        None,
        sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            GPT2,
            {"type": "Digits", "individual_digits": False},
            split("[0-9][0-9][0-9]"),
        ),
        {},
    ),
    "o200k": (None, sequence(split(O200K), LEVEL), {"ignore_merges": True}),
    "tekken": (None, sequence(split(TEKKEN), LEVEL), {"ignore_merges": True}),
    "bloom": (None, sequence(split(BLOOM), LEVEL), {}),
    "viking": (None, sequence(split(BLOOM), DIGITS, LEVEL), {}),
    "gguf default": (
        None,
        sequence(split(LLAMA_DEFAULT), GPT2 | {"use_regex": False})
        | {
            "pretokenizers": [
                split(LLAMA_DEFAULT),
                split(GPT2_REGEX),
                split(r"\p{N}+"),
                split("[0-9][0-9][0-9]"),
                LEVEL,
            ]
        },
        {},
    ),
    "seed": (None, sequence(split(SEED_REGEX), LEVEL), {}),
}
MAIN = ("llama 3", "qwen2", "smollm, starcoder", "deepseek v3", "o200k")
FULL = "PHASOR_TOKENIZER_FULL" in os.environ

MARKS = [
    "'S",
    "'re",
    "'LL",
    "'\u017f",
    "'",
    " ",
    "  ",
    "\r\n",
    "\n\n",
    "\r",
    "\t",
    "/",
    "//",
    "123",
    "4567",
    "\u00b2",
    "\u0660\u0661",
    "\u2167",
    "\u3000",
    "\u00a0",
    "\u0301",
    "\u0308\u0301",
    "e\u0301",
    "\u00e9",
    "A",
    "AB",
    "Ab",
    "\u01c5",
    "\u02b0",
    "\u4e00",
    "\u3042",
    "\uac00",
    "\u1100",
    "\u1161",
    "\u11a8",
    "$",
    "+",
    "_",
    "(",
    "\u2026",
    "\u3002",
    "\u0964",
    "\U0001f468\u200d\U0001f469",
    "\u200d",
    "\u0915\u093c",
    "\u1d165",
    "\U0001d15e",
    "\u09c7\u09be",
    "\u212b",
    "\uff01",
    "\u2018",
    "x",
    "\u00b5",
    "\u0345",
    "\u0334",
]


@functools.lru_cache
def all_texts() -> list[str]:
    return random_texts(MARKS, 100000)


def texts_of(name: str) -> list[str]:
    """All of them, or a part of its own for each rule."""
    return all_texts() if FULL or name in MAIN else all_texts()[sum(name.encode()) % 25 :: 25]


# All but the private and the unassigned ones in long rows, of which some are there.
CHARACTERS = [
    c
    for c in UNICODE
    if not 0x2FB00 < ord(c) < 0xE0000
    and not 0xE0200 < ord(c) < 0x10FF00
    and not 0x18D00 < ord(c) < 0x1AFF0
]


def together(texts: list[str], count: int = 40) -> list[str]:
    """Many texts as one, with a character between that is a word of its own or of none."""
    return ["\u0001".join(texts[i : i + count]) for i in range(0, len(texts), count)]


def spec_of(name: str, vocabulary: dict, merges: list) -> dict:
    normalizer, words, options = BYTE_LEVEL[name]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": words,
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            **options,
            "vocab": vocabulary,
            "merges": merges,
        },
    }


def built(driver: Driver, folder: Path, spec: dict) -> tuple[Tokenizer, Path]:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return Tokenizer.from_file(str(path)), driver.section(hf.build_hf_section(path)[0])


def pairs_of_bytes() -> tuple[dict, list]:
    letters = sorted(ALPHABET, key=ALPHABET.get)
    merges = [(a, b) for a in letters for b in letters]
    return {text: i for i, text in enumerate([*letters, *(a + b for a, b in merges)])}, merges


@functools.lru_cache
def sentences() -> list[str]:
    folder = DATA / "wikitext2"
    lines = (
        [
            line
            for path in sorted(folder.glob("wiki.valid*"))
            for line in path.read_text(encoding="utf-8").split("\n")
        ]
        if folder.exists()
        else []
    )
    return [*golden.sentences(), *lines[:: 1 if FULL else 4]]


def trained(spec: dict, size: int) -> Tokenizer:
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", normalized=False)])
    tokenizer.add_tokens(
        [AddedToken("<think>", normalized=False), AddedToken("    ", normalized=False)]
    )
    return tokenizer


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_where_words_end(driver, tmp_path, name):
    """Any two bytes of a word merge, so that each boundary shows."""
    tokenizer, section = built(driver, tmp_path, spec_of(name, *pairs_of_bytes()))
    compare(driver, tokenizer, section, texts_of(name), decode=False)
    everything = FULL or name in MAIN
    for pattern in ["{0}", "a{0}b", " {0}{0}\u0301", "1{0}!A{0}\n"] if FULL else ["a{0}{0}1 {0}!"]:
        compare(
            driver,
            tokenizer,
            section,
            together([pattern.format(c) for c in CHARACTERS[:: 1 if everything else 11]]),
            decode=False,
        )
    compare(
        driver,
        tokenizer,
        section,
        long_texts() if everything else [text[:3000] for text in long_texts()],
        decode=False,
    )


@pytest.mark.parametrize("name", BYTE_LEVEL if FULL else ("llama 3", "qwen2", "falcon"))
def test_trained_vocabularies(driver, tmp_path, name):
    tokenizer = trained(spec_of(name, {}, []), 3000)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    section = driver.section(hf.build_hf_section(tmp_path)[0])
    marks = ["<|im_start|>", "<think>", "    ", "<|end|>", *MARKS]
    compare(
        driver,
        tokenizer,
        section,
        [*sentences()[:6000], *random_texts(marks, 8000 if FULL else 2000)],
    )
    compare_decoding(driver, tokenizer, section, random_sequences(tokenizer.get_vocab_size()))


def test_words_that_are_pieces_stay_whole(driver, tmp_path):
    """Pieces that no merge makes: with ignore_merges they are found all the same, without it they
    are not."""
    vocabulary, merges = pairs_of_bytes()
    whole = [
        "\u0120the",
        "cats",
        "\u0120cats",
        "123",
        "\u00c3\u00a9t\u00c3\u00a9",
        "a b",
        "\u0120\u0120\u0120",
    ]
    vocabulary.update({text: len(vocabulary) + i for i, text in enumerate(whole)})
    texts = [
        "the cats",
        " the cats",
        "cats cats 1234",
        "\u00e9t\u00e9",
        "a b",
        "   ",
        "    x",
        "catss",
        *random_texts(["cats", " the", "123", "\u00e9t\u00e9"], 3000),
    ]
    for on in (True, False):
        spec = spec_of("llama 3", vocabulary, merges)
        spec["model"]["ignore_merges"] = on
        tokenizer, section = built(driver, tmp_path, spec)
        compare(driver, tokenizer, section, texts)


def test_composition_on_random_marks(driver, tmp_path):
    """Characters that compose, in any order, with marks of every class between them."""
    tokenizer, section = built(driver, tmp_path, spec_of("qwen2", *pairs_of_bytes()))
    decomposed, order = unicode.MAPS["decomposed"], unicode.MAPS["order"]
    rng = random.Random(21)
    pools = [
        [chr(c) for c in decomposed],
        [c for text in decomposed.values() for c in text],
        [chr(c) for c in order],
        ["a", "e", " ", "\u1100", "\u1161", "\u11a8", "\uac00"],
        [chr(c) for c in range(0x0300, 0x0370)],
    ]
    texts = [
        "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 12)))
        for _ in range(100000 if FULL else 30000)
    ]
    texts += [
        "e" + "".join(rng.choices(pools[2], k=20000)),
        "\u0301\u0323" * 30000,
        "\u0344" * 20000,
        "\u1100\u1161\u11a8" * 20000,
    ]
    compare(driver, tokenizer, section, texts, decode=False)


def test_a_megabyte_is_never_quadratic(driver, tmp_path):
    """Measured times are in file-format.md; an encoder that is quadratic would take hours."""
    _, section = built(driver, tmp_path, spec_of("llama 3", *pairs_of_bytes()))
    texts = [
        "a" * 1000000,
        " " * 1000000,
        "\n" * 1000000,
        "A\u0301" * 300000,
        "1" * 1000000,
        "\u4e00" * 300000,
        "a \n" * 300000,
    ]
    assert max(driver.seconds(section, [text.encode() for text in texts])) < 20


# ---- BPE of characters

REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
AT_SPACES = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def metaspace(scheme: str, cut: bool) -> dict:
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}


def both(*steps: dict) -> dict:
    return {"type": "Sequence", "normalizers": list(steps)}


# (normalizer, pre-tokenizer, decoder strips a space, byte fallback, fuse_unk)
CHARACTER = {
    "llama 2, mistral, phi-3": (both(PREPEND, REPLACE), None, True, True, True),
    "mistral 0.3": (None, metaspace("first", False), True, True, True),
    "gemma": (REPLACE, AT_SPACES, False, True, True),
    "yi": (both(REPLACE), None, False, True, False),
    "always": (None, metaspace("always", True), True, True, True),
    "never": (None, metaspace("never", False), False, True, True),
    "unknown": (both(PREPEND, REPLACE), None, True, False, True),
    "unknown, each": (None, metaspace("first", True), True, False, False),
    "unknown, dropped": (REPLACE, None, False, False, None),
}


@functools.lru_cache
def character_vocabulary(cut: bool, fallback: bool) -> tuple[dict, list]:
    """Trained with words that begin at \u2581, or over whole lines, so that merges go over
    spaces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=cut)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256) if fallback)]
    trainer = trainers.BpeTrainer(
        vocab_size=3000, show_progress=False, special_tokens=special, limit_alphabet=400
    )
    lines = sentences() if cut else [line[:60] for line in sentences()[:4000]]
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def character_spec(name: str, cut: bool) -> dict:
    normalizer, words, strips, fallback, fuse = CHARACTER[name]
    vocabulary, merges = character_vocabulary(cut, fallback)
    decoder = [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        *([{"type": "ByteFallback"}] if fallback else []),
        {"type": "Fuse"},
    ]
    added = [
        {
            "id": i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, text in enumerate(("<unk>", "<s>", "</s>"))
    ]
    more = [
        ("<|user|>", dict(rstrip=True)),
        ("<tool>", dict(normalized=True)),
        ("<mask>", dict(lstrip=True, special=True)),
        ("a b", dict(normalized=True)),
    ]
    added += [
        {**added[0], "special": False, "id": len(vocabulary) + i, "content": text, **options}
        for i, (text, options) in enumerate(more)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": words,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoder + [STRIP] * strips},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None if fuse is None else "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": bool(fuse),
            "byte_fallback": fallback,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": merges,
        },
    }


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", CHARACTER)
def test_bpe_of_characters(driver, tmp_path, name, cut):
    spec = character_spec(name, cut)
    tokenizer, section = built(driver, tmp_path, spec)
    marks = [
        "<s>",
        "</s>",
        "<|user|>",
        "<tool>",
        "<mask>",
        " <mask> ",
        "a b",
        "\u2581",
        "\u2581\u2581",
        "<0x41>",
        "the ",
        " and",
        *MARKS,
    ]
    everything = FULL or (name.startswith("llama 2") and cut)
    compare(
        driver,
        tokenizer,
        section,
        [
            *sentences()[: 3000 if everything else 500],
            *random_texts(marks, 3000),
            *(all_texts() if everything else []),
        ],
    )
    if everything:
        compare(
            driver, tokenizer, section, together([f"a{c}{c} {c}" for c in CHARACTERS]), decode=False
        )
    compare(
        driver,
        tokenizer,
        section,
        long_texts() if everything else [text[:3000] for text in long_texts()],
        decode=False,
    )
    of_bytes = {i for text, i in spec["model"]["vocab"].items() if text.startswith("<0x")}
    sequences = [
        [i for i in ids if i not in of_bytes]
        for ids in random_sequences(tokenizer.get_vocab_size())
    ]
    compare_decoding(driver, tokenizer, section, sequences)


def test_bytes_that_are_no_text_decode_one_by_one(driver, tmp_path):
    """The package makes U+FFFD of every byte of a run that is not all text; here, as in
    SentencePiece, what is text stays."""
    spec = character_spec("llama 2, mistral, phi-3", True)
    tokenizer, section = built(driver, tmp_path, spec)
    ids = [spec["model"]["vocab"][f"<0x{byte:02X}>"] for byte in b"\xe6\x88\x91\xff"]
    assert tokenizer.decode(ids) == "\ufffd" * 4
    assert driver.decode(section, [ids, ids[:3], ids[:2], [ids[3], *ids[:3]]]) == [
        b.encode() for b in ("我\ufffd", "我", "\ufffd\ufffd", "\ufffd我")
    ]


# ---- What stands around a text


def test_llama_3s_template(tmp_path):
    spec = spec_of("llama 3", {letter: i for i, letter in enumerate(ALPHABET)}, [])
    spec["added_tokens"] = [
        {
            "id": 256,
            "content": "<|begin_of_text|>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ]
    begin = [
        {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    second = [
        {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 1}},
        {"Sequence": {"id": "B", "type_id": 1}},
    ]
    template = {
        "type": "TemplateProcessing",
        "single": begin,
        "pair": begin + second,
        "special_tokens": {
            "<|begin_of_text|>": {
                "id": "<|begin_of_text|>",
                "ids": [256],
                "tokens": ["<|begin_of_text|>"],
            }
        },
    }
    spec["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {
                "type": "ByteLevel",
                "add_prefix_space": True,
                "trim_offsets": False,
                "use_regex": True,
            },
            template,
        ],
    }
    path = tmp_path / "tokenizer.json"
    write_json(path, spec)
    info = hf.build_hf_section(path)[1]
    a, b = (spec["model"]["vocab"][letter] for letter in "ab")
    assert Tokenizer.from_file(str(path)).encode("a", "b").ids == [
        *info["prefix"],
        a,
        *info["pair"],
        b,
        *info["suffix"],
    ]
    assert (info["prefix"], info["suffix"], info["pair"]) == ([256], [], [256])


@pytest.mark.parametrize("bos, eos", [(None, None), (True, True), (False, False), (False, True)])
def test_llamas_class_makes_the_template(driver, tmp_path, bos, eos):
    transformers = pytest.importorskip("transformers")
    write_json(tmp_path / "tokenizer.json", character_spec("llama 2, mistral, phi-3", True))
    flags = {
        name: value
        for name, value in (("add_bos_token", bos), ("add_eos_token", eos))
        if value is not None
    }
    config = {
        "tokenizer_class": "LlamaTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        **flags,
    }
    write_json(tmp_path / "tokenizer_config.json", config)
    tokenizer = transformers.LlamaTokenizerFast.from_pretrained(str(tmp_path))
    section, info = hf.build_hf_section(tmp_path)
    (ids,) = driver.encode(driver.section(section), [b"the cat"])
    assert tokenizer("the cat")["input_ids"] == [*info["prefix"], *ids, *info["suffix"]]
    assert (info["bos"], info["eos"], info["unknown"]) == (1, 2, 0)


@pytest.mark.parametrize(
    "named, others, left_out",
    [
        ({"pad_token": "[PAD]"}, [], ["[PAD]"]),
        ({"pad_token": "[PAD]", "mask_token": "[MASK]"}, [], ["[PAD]", "[MASK]"]),
        ({"pad_token": "[PAD]"}, ["<|turn|>"], None),
        ({}, ["<|turn|>"], None),
        ({"pad_token": "<unk>"}, [], []),
    ],
)
def test_a_token_without_a_row(driver, tmp_path, named, others, left_out):
    """A padding token that was added to the tokenizer and never to the model: transformers runs
    such a directory. Any other token without a row is named."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "tokenizer.json"
    write_json(path, character_spec("llama 2, mistral, phi-3", True))
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    own = transformers.LlamaTokenizerFast(tokenizer_file=str(path), legacy=False, **special)
    rows = len(own)
    own.add_special_tokens(named)
    own.add_special_tokens({"additional_special_tokens": others})
    own.save_pretrained(tmp_path)
    section, info = hf.build_hf_section(tmp_path, rows=rows)
    if left_out is None:
        assert info["pieces"] == len(own) > rows and info["left_out"] == []
        return
    assert info["pieces"] == rows and sorted(info["left_out"]) == sorted(left_out)
    texts = ["the cat", "cat", " a  b"]
    found = driver.encode(driver.section(section), [text.encode() for text in texts])
    for text, ids in zip(texts, found):
        assert own(text)["input_ids"] == [*info["prefix"], *ids, *info["suffix"]]


def test_opt_has_a_start_token_and_no_tokenizer_json(driver, tmp_path):
    transformers = pytest.importorskip("transformers")
    spec = spec_of("gpt-2", {}, [])
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.train_from_iterator(
        golden.sentences(),
        trainers.BpeTrainer(
            vocab_size=900,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer.model.save(str(tmp_path))
    config = {
        "tokenizer_class": "GPT2Tokenizer",
        "add_bos_token": True,
        **{f"{name}_token": "</s>" for name in ("bos", "eos", "unk")},
        "pad_token": "<pad>",
    }
    write_json(tmp_path / "tokenizer_config.json", config)
    (tmp_path / "config.json").write_text('{"model_type": "opt"}')
    theirs = transformers.GPT2TokenizerFast.from_pretrained(str(tmp_path))
    section, info = hf.build_hf_section(tmp_path)
    (ids,) = driver.encode(driver.section(section), [b"a cat </s> sat"])
    assert theirs("a cat </s> sat")["input_ids"] == [*info["prefix"], *ids, *info["suffix"]]
    assert info["prefix"] == [2]


# ---- What is refused


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(pre_tokenizer=sequence(split(LLAMA3 + "|x(?=yz)"), LEVEL)),
            r"Split with the regular expression .*: look-ahead of anything but one character",
        ),
        (dict(pre_tokenizer=sequence(split("a", "Merged"), LEVEL)), "Split with behavior 'merged'"),
        (
            dict(pre_tokenizer=sequence(DIGITS, {**GPT2, "add_prefix_space": True})),
            "add_prefix_space behind another",
        ),
        (dict(pre_tokenizer=sequence(DIGITS)), "without the pre_tokenizer ByteLevel"),
        (dict(pre_tokenizer=sequence(*[DIGITS] * 9, GPT2)), "a pre_tokenizer of 10 steps"),
        (dict(normalizer=dict(type="Lowercase")), "normalizer Lowercase"),
        (
            dict(pre_tokenizer=sequence(*[split(f"[a-{c}]+") for c in "bcdefghi"], LEVEL)),
            "so many classes",
        ),
        (
            dict(
                decoder=dict(type="Sequence", decoders=[dict(type="ByteLevel"), dict(type="Fuse")])
            ),
            "decoder",
        ),
    ],
)
def test_other_byte_level_pre_tokenizers(driver, tmp_path, change, message):
    spec = spec_of("gpt-2", {letter: i for i, letter in enumerate(ALPHABET)}, [])
    refused_or_equal(driver, tmp_path, {**spec, **change}, message)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(normalizer=dict(type="Lowercase")), "normalizer Lowercase"),
        (dict(normalizer=both(PREPEND)), "normalizer"),
        (dict(normalizer=both(REPLACE, REPLACE)), "normalizer"),
        (dict(normalizer={**REPLACE, "content": "_"}), "normalizer Replace"),
        (dict(normalizer=None), "pre_tokenizer"),
        (dict(pre_tokenizer=dict(type="Whitespace")), "pre_tokenizer Whitespace behind"),
        (dict(decoder=None), "decoder"),
        (dict(decoder=dict(type="Metaspace")), "decoder.replacement is missing"),
        (dict(decoder=dict(type="Sequence", decoders=[dict(type="ByteFallback")])), "decoder"),
    ],
)
def test_other_bpe_of_characters(driver, tmp_path, change, message):
    spec = character_spec("llama 2, mistral, phi-3", True)
    refused_or_equal(driver, tmp_path, {**spec, **change}, message)


def test_bytes_that_the_vocabulary_lacks(driver, tmp_path):
    spec = character_spec("llama 2, mistral, phi-3", True)
    vocabulary = {text: i for text, i in spec["model"]["vocab"].items() if text != "<0xC3>"}
    changed = {**spec, "added_tokens": [], "model": {**spec["model"], "vocab": vocabulary}}
    refused_or_equal(driver, tmp_path, changed, "is not in the vocabulary")


# ---- GGUF's vocabularies


def test_a_vocabulary_of_gguf(driver):
    """The interface for other sources gives what a tokenizer.json of the same vocabulary gives."""
    spec = spec_of("smollm, starcoder", {}, [])
    tokenizer = trained(spec, 2000)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    types = [
        3 if piece in ("<|end|>", "<|im_start|>") else 4 if piece in ("<think>", "    ") else 1
        for piece in pieces
    ]
    section = driver.section(
        gguf.build_bpe_section(
            pieces, [" ".join(pair) for pair in model["merges"]], types=types, pre="smollm"
        )
    )
    compare(
        driver,
        tokenizer,
        section,
        [*sentences()[:500], *random_texts(["<|im_start|>", "<think>", "    ", *MARKS], 5000)],
    )
    with pytest.raises(
        pt.TokenizerError,
        match="the pre-tokenizer 'new' is not supported, expected a.x-4.0, bloom",
    ):
        gguf.build_bpe_section(pieces, [], pre="new")
    for name in gguf.PRE_TOKENIZERS:
        gguf.build_bpe_section(pieces, [], pre=name)


def test_control_pieces_of_a_sentencepiece_vocabulary_are_found_in_text(driver, tmp_path):
    """As the tokenizer.json that transformers makes of the model; on plain text the ids of
    sentencepiece."""
    transformers = pytest.importorskip("transformers")
    sentencepiece = pytest.importorskip("sentencepiece")
    path = DATA / "llama2c" / "tok512.model"
    if not path.exists():
        pytest.skip(f"{path} is not at hand")
    (tmp_path / "tokenizer.model").write_bytes(path.read_bytes())
    proto = read_model_proto(path.read_bytes())
    texts, scores, types = zip(*proto["pieces"])
    pieces = [text.decode() for text in texts]
    section = driver.section(gguf.build_sentencepiece_like(pieces, scores, types))
    theirs = transformers.LlamaTokenizerFast(
        vocab_file=str(tmp_path / "tokenizer.model"), legacy=True, add_prefix_space=True
    ).backend_tokenizer
    marks = ["<s>", "</s>", " </s> ", "<unk>", "the ", " was", *MARKS]
    plain = [line for line in sentences()[:2000] if line == line.strip()]
    compare(driver, theirs, section, [*plain, *random_texts(marks, 8000)])
    package = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    for text, got in zip(plain, driver.encode(section, [text.encode() for text in plain])):
        assert got == package.encode(text), f"{text!r}"
