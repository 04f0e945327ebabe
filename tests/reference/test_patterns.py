"""Regular expressions of Split as tables of states, against the engines of their dialects:
Oniguruma in the tokenizers package, fancy-regex in tiktoken. The same pieces of every text by the
package, by a runner in Python that follows file-format.md, and by the engine, as ids of a
byte-level BPE whose vocabulary has every part of every text.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import random
import re
import statistics
import struct
import time
from typing import NamedTuple

import make_patterns
import pytest
from test_tokenizer import Driver, driver  # noqa: F401
from test_tokenizer_hf import build, compare, golden
from tokenizer_table import texts

import regex_tables
from phasor.sources.hugging_face import tokenizer_json as hf
from phasor.tokenizers import pre_tokenizers as known
from phasor.tokenizers.models import byte_bpe
from phasor.tokenizers.patterns import table, unicode
from phasor.tokenizers.patterns.scanner import FANCY, ONIGURUMA
from phasor.tokenizers.patterns.tree import PatternError
from phasor.tokenizers.section import TokenizerError, piece_texts
from sample import SHARE

os.environ["RUST_BACKTRACE"] = "0"  # tiktoken panics where a match is empty

tokenizers = pytest.importorskip("tokenizers")
tiktoken = pytest.importorskip("tiktoken")
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from tokenizers import decoders as package_decoders  # noqa: E402

# `make pattern-fuzz` sets these three.
GENERATED = int(os.environ.get("PATTERN_COUNT", max(60, 500 // SHARE)))
FIRST = int(os.environ.get("PATTERN_SEED", 11))
TEXTS = regex_tables.texts(int(os.environ.get("PATTERN_TEXTS", 220)))
HOWS = list(itertools.product(table.BEHAVIORS, (False, True)))
_SPELLED = dict(
    zip(
        table.BEHAVIORS,
        "removed isolated merged_with_previous merged_with_next contiguous".split(),
        strict=True,
    )
)


class Base(NamedTuple):
    """A section without steps, whose vocabulary has every part of every text."""

    section: bytes
    pieces: list[bytes]
    ranks: dict[bytes, int]


@functools.lru_cache
def base() -> Base:
    parts = {
        text[i:j] for text in TEXTS for i in range(len(text)) for j in range(i + 1, len(text) + 1)
    }
    words = {bytes([byte]) for byte in range(256)} | {part.encode() for part in parts}
    letters = {byte: letter for letter, byte in byte_bpe.ALPHABET.items()}
    ordered = sorted(words, key=lambda word: (len(word), word))
    vocabulary = {"".join(letters[b] for b in word): id_ for id_, word in enumerate(ordered)}
    spec = {
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "ignore_merges": True},
    }
    section = byte_bpe.from_json(spec)[0]
    return Base(section, piece_texts(section), {word: id_ for id_, word in enumerate(ordered)})


def with_patterns(*patterns: bytes) -> bytes:
    """The base's section with steps of patterns."""
    section = bytearray(base().section)
    (flags,) = struct.unpack_from("<I", section, 4)
    steps = [0xE0] * len(patterns)
    struct.pack_into("<I", section, 4, flags | byte_bpe.PATTERNS)
    struct.pack_into("<I", section, 96, steps[0])
    struct.pack_into("<I", section, 112, sum(map(len, patterns)))
    section[120 : 119 + len(steps)] = bytes(steps[1:])
    return bytes(section) + b"".join(patterns)


def engine(driver: Driver, section: bytes) -> list[list[bytes]]:
    path = driver.section(section)
    found = driver.encode(path, [text.encode() for text in TEXTS])
    path.unlink()
    return [[base().pieces[id_] for id_ in ids] for ids in found]


def of_oniguruma(pattern: str, behavior: str, inverted: bool) -> list[list | None]:
    """None: the engine gives a text up."""
    split = pre_tokenizers.Split(Regex(pattern), _SPELLED[behavior], invert=inverted)

    def cut(text: str) -> list[tuple[int, int]] | None:
        try:
            return [offsets for _, offsets in split.pre_tokenize_str(text)]
        except BaseException as error:  # a PanicException is no Exception
            if "retry-limit-in-match over" not in str(error):
                raise
            return None

    return [cut(text) for text in TEXTS]


def of_fancy(pattern: str) -> list[list[bytes]]:
    encoding = tiktoken.Encoding(
        "test", pat_str=pattern, mergeable_ranks=base().ranks, special_tokens={}
    )
    words = list(base().ranks)
    return [[words[id_] for id_ in encoding.encode_ordinary(text)] for text in TEXTS]


def strings(cuts: list[list | None]) -> list[list[bytes] | None]:
    return [
        None if cut is None else [text[i:j].encode() for i, j in cut]
        for text, cut in zip(TEXTS, cuts)
    ]


def differ(driver: Driver, pattern: str, fancy: bool, hows) -> None:
    """Asserts that nothing differs."""
    found = table.compiled(pattern, FANCY if fancy else ONIGURUMA)
    for behavior, inverted in hows:
        ours = [regex_tables.cut(found, text, behavior, inverted) for text in TEXTS]
        theirs = None if fancy else of_oniguruma(pattern, behavior, inverted)
        wanted = of_fancy(pattern) if fancy else strings(theirs)
        got = strings(ours) if fancy else ours
        for text, a, b in zip(TEXTS, got, wanted if fancy else theirs):
            assert b is None or a == b, f"{pattern!r} {behavior} {inverted} on {text!r}: the runner"
        how = table.BEHAVIORS.index(behavior) | table.INVERTED * inverted
        for text, a, b in zip(TEXTS, engine(driver, with_patterns(found.bytes(how))), wanted):
            assert b is None or a == b, f"{pattern!r} {behavior} {inverted} on {text!r}: the engine"


def hows(number: int, fancy: bool) -> list[tuple[str, bool]]:
    return [("removed", True)] if fancy else [HOWS[number % len(HOWS)], ("isolated", False)]


@pytest.mark.parametrize("number", range(len(regex_tables.PATTERNS)))
def test_patterns_by_hand(driver, number):
    differ(driver, regex_tables.PATTERNS[number], False, hows(number, False))


@pytest.mark.parametrize("number", range(len(regex_tables.FANCY_PATTERNS)))
def test_fancy_patterns_by_hand(driver, number):
    differ(driver, regex_tables.FANCY_PATTERNS[number], True, hows(number, True))


def test_every_behavior(driver):
    for pattern in (r"\w+", r"\s", r"a|\b", r"x*", r"[^\s]+|\s", r"(?=b)"):
        differ(driver, pattern, False, HOWS)


def test_published_patterns(driver, capsys):
    for number, (name, (pattern, fancy)) in enumerate(regex_tables.published().items()):
        began = time.perf_counter()
        found = table.compiled_with_least.__wrapped__(pattern, FANCY if fancy else ONIGURUMA)[0]
        seconds = time.perf_counter() - began
        with capsys.disabled():
            print(
                f"\n{name}: {len(found.rows) - 1} states, {found.rows.shape[1] - 1} classes,"
                f" {found.slots()} slots, {len(found.bytes(1))} bytes, {seconds:.2f} s",
                end="",
            )
        differ(driver, pattern, fancy, hows(number, fancy))
    print()


@pytest.mark.parametrize("fancy", [False, True])
def test_patterns_at_random(driver, fancy, capsys):
    rng, refused, count = random.Random(FIRST + fancy), collections.Counter(), 0
    sizes: list[tuple[float, int, int]] = []  # seconds, states, bytes
    while count < GENERATED:
        pattern = regex_tables.at_random(rng, fancy)
        try:
            if fancy:
                tiktoken.Encoding(
                    "t", pat_str=pattern, mergeable_ranks=bytes_alone(), special_tokens={}
                )
            else:
                Regex(pattern)
        except Exception:
            continue  # no pattern of this engine
        count += 1
        began = time.perf_counter()
        try:
            found = table.compiled(pattern, FANCY if fancy else ONIGURUMA)
        except PatternError as error:
            refused[re.sub(r"\d+", "N", str(error))] += 1
            continue
        size = len(found.rows) - 1, len(found.bytes(1))
        sizes.append((time.perf_counter() - began, *size))
        differ(driver, pattern, fancy, hows(count, fancy))
    with capsys.disabled():
        print(
            f"\n{count} patterns at random on {len(TEXTS)} texts each: {len(sizes)} equal,"
            f" {refused.total()} refused: {dict(refused)}"
        )
        for what, of in zip(("seconds", "states", "bytes"), zip(*sizes)):
            print(f"{what}: median {statistics.median(of):.4g}, most {max(of):.4g}")
    assert refused.total() < GENERATED // (2 if fancy else 8)


@functools.lru_cache
def bytes_alone() -> dict[bytes, int]:
    return {bytes([byte]): byte for byte in range(256)}


# ---- Whole tokenizers, trained by the package


def _split(pattern, behavior: str = "isolated", invert: bool = False):
    return pre_tokenizers.Split(pattern, behavior, invert=invert)


TRAINED = {
    "words and signs": lambda: [_split(Regex(r"\w+|[^\w\s]+"))],
    "words and single spaces": lambda: [_split(Regex(r"[^\s]+|\s"))],
    "words alone": lambda: [_split(Regex(r"\w+|[^\w\s]+"), "removed", True)],
    "without case": lambda: [_split(Regex(r"(?i:the|and|of|straße|office)|\p{L}+|\p{N}{1,3}|."))],
    "spaces with the word": lambda: [_split(Regex(r"\s"), "merged_with_next")],
    "spaces behind the word": lambda: [_split(Regex(r"\s"), "merged_with_previous")],
    "runs": lambda: [_split(Regex(r"\p{Lu}|\p{Ll}"), "contiguous")],
    "empty matches": lambda: [_split(Regex(r"(?=\p{Lu})|\b"))],
    "a text": lambda: [_split(" the "), _split("e", "removed")],
    "digits from the left": lambda: [_split(Regex(r"\d{1,3}")), pre_tokenizers.Punctuation()],
    "Whitespace": lambda: [pre_tokenizers.Whitespace()],
    "WhitespaceSplit, Digits": lambda: [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Digits(individual_digits=True),
    ],
    "BertPreTokenizer": lambda: [pre_tokenizers.BertPreTokenizer()],
    "CharDelimiterSplit": lambda: [pre_tokenizers.CharDelimiterSplit("e")],
    "Punctuation, merged": lambda: [pre_tokenizers.Punctuation("merged_with_next")],
    "Punctuation, removed": lambda: [pre_tokenizers.Punctuation("removed")],
    "Llama 3's and another way": lambda: [_split(Regex(known.LLAMA3_REGEX + "|x"))],
    "Llama 3's, merged": lambda: [_split(Regex(known.LLAMA3_REGEX), "merged_with_next")],
    "DeepSeek's, removed": lambda: [_split(Regex(known.DEEPSEEK3_REGEX), "removed", True)],
    "the ends of lines": lambda: [_split(Regex(r"\s+$"))],
    "two, of which one has an end": lambda: [
        _split(Regex(r" ?[^\s]+|\s+(?=\s)|\s")),
        _split(Regex("[aeiou]+$")),
    ],
}  # fmt: skip
BEHIND = {
    "a pattern of letters behind ByteLevel": lambda: [_split(Regex("Ġ|Ã.|[0-9]{2}"))],
    "GPT-2's letters that are numbers": lambda: [_split(Regex(r"\p{N}"))],
    "Whitespace behind ByteLevel": lambda: [pre_tokenizers.Whitespace()],
    "Punctuation behind ByteLevel": lambda: [pre_tokenizers.Punctuation("contiguous")],
}


@pytest.mark.parametrize("name", [*TRAINED, *BEHIND])
def test_a_tokenizer_that_the_package_has_trained(driver, tmp_path, name):
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    steps = [*TRAINED[name](), level] if name in TRAINED else [level, *BEHIND[name]()]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = package_decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    compare(driver, tokenizer, build(tokenizer, tmp_path, driver), [*texts(), *TEXTS])


def test_a_pattern_that_no_table_can_do(tmp_path):
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = _split(Regex(r"\d{1,3}(?=(\d{3})*\b)"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = package_decoders.ByteLevel()
    tokenizer.train_from_iterator(golden.sentences()[:20], trainers.BpeTrainer(show_progress=False))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match="look-ahead of anything but one character"):
        hf.build_hf_section(tmp_path / "tokenizer.json")


# ---- Unicode


def test_the_sets_are_those_of_both_engines():
    """Each category, script and property on its own, outside of brackets too; a part of them,
    unless PHASOR_TOKENIZER_FULL asks for all."""
    names = sorted(name for name in unicode._lines() if re.fullmatch(r"((gc|sc)=)?[a-z]+", name))
    names = [name for name in names if name not in ("names", "fold", "several")]
    if "PHASOR_TOKENIZER_FULL" not in os.environ:
        names = random.Random(3).sample(names, 24)
    every = make_patterns.CODE_POINTS
    for name in names:
        plain = name.split("=")[-1]
        found = {c for c in every if unicode.members(name)[c]}
        between = make_patterns.oniguruma(rf"\p{{{plain}}}+")
        if between is not None:
            assert {ord(c) for stretch in between for c in stretch} == {*every} - found, name
        theirs = make_patterns.fancy(rf"\p{{{plain}}}+")
        if theirs is not None:
            assert {*map(ord, theirs)} == {c for c in every if unicode.members(name, True)[c]}, name
