"""Regular expressions compiled to tables of states: what is refused, by name and in bounded time;
that a table is what file-format.md says; that two spellings of one pattern are one table.
tests/reference/test_patterns.py has the engines of both dialects."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

import regex_tables
from phasor.tokenizers.models import byte_bpe
from phasor.tokenizers.patterns import charsets, memo, table, unicode
from phasor.tokenizers.patterns.dfa import ACCEPTS
from phasor.tokenizers.patterns.scanner import FANCY, LONGEST, ONIGURUMA
from phasor.tokenizers.patterns.tree import PatternError
from phasor.tokenizers.pre_tokenizers import FancyRegex, steps_of
from phasor.tokenizers.section import TokenizerError

SECONDS = 60  # of processor time that a hostile pattern may take on a busy machine

REFUSED = [
    (r"\d{1,3}(?=(\d{3})*\b)", "look-ahead of anything but one character"),
    (r"a(?=bc)", "look-ahead of anything but one character"),
    (r"a(?!bc)", "look-ahead of anything but one character"),
    (r"(?<=ab)c", "look-behind of anything but one character"),
    (r"(?<!a+)c", "look-behind of anything but one character"), (r"(a)\1", "a reference back"),
    (r"(?<n>a)\k<n>", "a reference back"), (r"\g<0>", "a call of a group"), (r"a\Kb", r"\K"),
    (r"\Ga", r"\G"), (r"\X", r"\X"), (r"a\Z", r"\Z"), (r"(?~ab)", "(?~…)"),
    (r"(?(1)a|b)", "a condition"), (r"(?R)", "recursion"),
    (r"(?:ab)++", "a possessive repetition of more than one character"),
    (r"(?>ab|a)c", "an atomic group"), (r"\y", r"\y"), (r"\Qa\E", r"\Q"),
    (r"(?s:.)", "the option s"), (r"(?W:\w)", "the option W"), (r"\p{Nothing}", r"\p{'Nothing'}"),
    (r"\p{Script=Han}", r"\p{'Script=Han'}"), (r"[[:nothing:]]", "[:'nothing':]"),
    (r"a{2,1}", "{2,1}"), (r"^*", "a repetition of what matches no character"),
    (r"(?=a)*", "a repetition of what matches no character"),
    (r"a{100001}", "a repetition of more than 100000 times"),
    (r"[a-\d]", "a range that ends with a class"), (r"[\d-z]", "a range that begins with a class"),
    (r"[z-a]", "the range from 'z' to 'a' is empty"), (r"\x{110000}", "what is no character"),
    (r"\ud800", "what is no character"), (r"\j", r"the escape \j"), ("(", "a ( without its )"),
    (")", "a ) without its ("), ("[a", "a [ without its ]"), ("a\\", "it ends in an escape"),
    ("*a", "nothing is there to repeat"), ("a|*", "nothing is there to repeat"),
    ("a" *(LONGEST + 1), "characters, at most"), ("(" * 200 + ")" * 200, "groups in one another"),
    ("[" * 200 + "a" + "]" * 200, "groups in one another"),
]  # fmt: skip
REFUSED_FANCY = [
    (r"x*", "a pattern that may match nothing"),
    (r"(?:a{1,3}){2}{3}", "a repetition of a repetition"),
    (r"(?:ab){1,3}+", "a possessive repetition of more than one character"),
    (r"(?U:a+)", "the option U"),
    (r"(?-u:\w)", "the option u"),
    (r"\<a", r"the escape \<"),
    (r"a+?+", "lazy and possessive"),
]
HOSTILE = [
    "(?:a{1000}){1000}", "((a{99}){99}){99}", "a{100000}", "(?:){100000}" * 20,
    "(?:(?:){9999}){9999}", r"\w*a.{12}", r"(?:a|b)*a(?:a|b){14}", r"(?:.*a){30}",
    r"(?:\w+\s?)*x\d{40}", "(?:a?){200}a{200}", "|".join(f"{i:x}.*{i:x}" for i in range(300)),
    r"(?i:" + "s" * 4000 + ")", "(?i:[ß-ſ]{90})", r"[\p{L}\p{N}]{4000}", "(?:a|aa)+" * 300,
    r"\p{L}" * 800, "[" + "".join(map(chr, range(256, 3000, 2))) + "]+x", "(?=a|$)" * 500,
    r"\b\w" * 600, "(?:" * 39 + "a" + ")*" * 39, "".join(f"[{chr(c)}]?" for c in range(300, 900)),
]  # fmt: skip


@pytest.mark.parametrize("pattern,why", REFUSED)
def test_what_is_refused_by_name(pattern, why):
    with pytest.raises(PatternError) as error:
        table.compiled(pattern, ONIGURUMA)
    assert why in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("pattern,why", REFUSED_FANCY)
def test_what_is_refused_of_fancy_regex(pattern, why):
    with pytest.raises(PatternError) as error:
        table.compiled(pattern, FANCY)
    assert why in str(error.value)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("dialect", [ONIGURUMA, FANCY])
def test_hostile_patterns_take_bounded_time(number, dialect):
    began = time.process_time()
    try:
        found = table.compiled(HOSTILE[number], dialect)
        assert len(found.rows) <= 4096
    except PatternError as error:
        assert len(str(error)) < 200
    assert time.process_time() - began < SECONDS


def _read(data: bytes) -> tuple:
    """(header, classes of ASCII, runs, steps, marks) by the page, and that nothing is left over."""
    states, classes, slots, runs, behavior, bad, reserved = struct.unpack_from("<HBBIBBH", data)
    ascii_ = np.frombuffer(data, "u1", 128, 12)
    run = np.frombuffer(data, "<u4", runs, 140)
    at = 140 + 4 * runs
    steps = np.frombuffer(data, "<u2", states * (classes + 1), at).reshape(states, classes + 1)
    at += 2 * steps.size
    marks = np.frombuffer(data, "u1", states, at)
    assert not any(data[at + states :]) and len(data) == -(-(at + states) // 4) * 4
    assert reserved == 0
    return (states, classes, slots, behavior, bad), ascii_, run, steps, marks


def _bounded(steps: np.ndarray, marks: np.ndarray) -> bool:
    for state, row in enumerate(steps):
        for step in row.tolist():
            to = step & (ACCEPTS - 1)
            if state and step == to and to and marks[state] < 248 and marks[to] < 248:
                if marks[to] >= marks[state]:
                    return False
    return True


def _usable() -> list[str]:
    out = []
    for pattern in regex_tables.PATTERNS:
        try:
            table.compiled(pattern, ONIGURUMA)
            out.append(pattern)
        except PatternError:
            pass
    return out


def test_a_table_is_what_the_page_says():
    usable = _usable()
    assert len(usable) == len(regex_tables.PATTERNS)
    for pattern in usable:
        found = table.compiled(pattern, ONIGURUMA)
        data = found.bytes(table.INVERTED | 2)
        (states, classes, slots, behavior, bad), ascii_, runs, steps, marks = _read(data)
        assert behavior == 10 and bad == found.classes[0xFFFD]
        assert (ascii_ == found.classes[:128]).all()
        firsts = runs >> 8
        assert firsts[0] == 128 and (np.diff(firsts.astype(int)) > 0).all()
        every = np.repeat(runs & 255, np.diff([*firsts.astype(int), 0x110000]))
        assert (every == found.classes[128:]).all()
        assert (steps & (ACCEPTS - 1)).max() < states and not (steps[1:, -1] & (ACCEPTS - 1)).any()
        assert not (steps[0] & ACCEPTS).any()
        assert sorted(marks[marks >= 248]) == list(range(248, 248 + slots))
        assert _bounded(steps, marks)


SLOTS = {r"\w+|[^\w\s]+": 0, r"[^\s]+|\s": 0, "a+b": 1, "ab|a": 0, r"\s*[\r\n]+|\s+": 1, '".*?"': 1}


@pytest.mark.parametrize("pattern", SLOTS)
def test_as_few_slots_as_there_are_ways_to_look_ahead(pattern):
    assert table.compiled(pattern, ONIGURUMA).slots() == SLOTS[pattern]


@pytest.mark.parametrize("size", [247, 248, 249, 500, 1900])
def test_a_long_text_has_slots_where_its_depth_ends(size):
    found = table.compiled("a" * size, ONIGURUMA)
    assert len(found.rows) == size + 2
    assert _bounded(found.rows, found.marks) and found.slots() == size // 248


def test_more_than_eight_slots_are_refused():
    with pytest.raises(PatternError, match="looks"):
        table.compiled("|".join(f"{c}{c.upper()}*!" for c in "abcdefghi"), ONIGURUMA)
    eight = table.compiled("|".join(f"{c}{c.upper()}*!" for c in "abcdefgh"), ONIGURUMA)
    assert eight.slots() == 1 or eight.slots() == 8


SAME = [
    (r"(?:a|b)+", "[ab]+"),
    (r"a{2,3}", "aaa?"),
    (r"(?i:abc)", "[aA][bB][cC]"),
    (r"a*+b", "a*b"),
    (r"\d", r"\p{Nd}"),
    (r"[^\p{L}]", r"\P{L}"),
    (r"a(?:b|b)", "ab"),
    (r"(?:a?)*", "a*"),
    (r"(?=[ab])[ac]", "a"),
    (r"(?x: a b )", "ab"),
]


@pytest.mark.parametrize("one,other", SAME)
def test_two_spellings_are_one_table(one, other):
    a, b = (table.compiled(text, ONIGURUMA) for text in (one, other))
    assert a.bytes(1) == b.bytes(1)


def test_the_dialects_differ():
    text = "12345\nab"
    cut = regex_tables.cut
    rows = {
        (r"\d{1,3}+", ONIGURUMA): [(0, 5), (5, 8)],
        (r"\d{1,3}+", FANCY): [(0, 3), (3, 5), (5, 8)],
        ("^.", ONIGURUMA): [(0, 1), (1, 6), (6, 7), (7, 8)],
        ("^.", FANCY): [(0, 1), (1, 8)],
        (r"\d$", ONIGURUMA): [(0, 4), (4, 5), (5, 8)],
        (r"\d$", FANCY): [(0, 8)],
    }
    for (pattern, dialect), wanted in rows.items():
        found = table.compiled(pattern, dialect)
        assert cut(found, text, "isolated", False) == wanted, (pattern, dialect)


def test_unicode_has_the_names_of_both_engines():
    for name in ("L", "letter", "Lu", "Han", "Script_Extensions"):
        assert (unicode.known(name) is None) == (name == "Script_Extensions")
    assert unicode.known("Script=Greek") == unicode.known("sc=grek") == "sc=grek"
    for names in ("gc=l", "gc=n", "sc=han", "alphabetic", "\\w"):
        assert charsets.named(names, False)
    assert unicode.folds()["k"] == "Kk\u212a" and unicode.folds(True)["s"] == "Ss\u017f"
    assert unicode.several()["ß"] == "ss"


def _steps(*steps: dict) -> list:
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    spec = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, level]}}
    return steps_of(spec, byte_bpe._LETTERS)[0]


def _split(regex: str, behavior: str = "Isolated", **more) -> dict:
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": False}
    return {**split, **more}


def test_known_patterns_stay_steps_of_the_engine():
    for regex in (r"\p{N}{1,3}", r"\s?\p{L}+", "[0-9]+"):
        assert _steps(_split(regex))[0].pattern == b""
    for behavior in ("Removed", "MergedWithNext", "MergedWithPrevious", "Contiguous"):
        assert _steps(_split("[0-9]+", behavior))[0].pattern != b""
    assert _steps(_split(FancyRegex(r"\s+$")))[0].pattern != b""


def test_every_pre_tokenizer_that_is_a_split():
    for step, count in (
        ({"type": "Whitespace"}, 1),
        ({"type": "WhitespaceSplit"}, 1),
        ({"type": "BertPreTokenizer"}, 2),
        ({"type": "CharDelimiterSplit", "delimiter": "_"}, 1),
        ({"type": "FixedLength", "length": 7}, 1),
        ({"type": "Punctuation", "behavior": "MergedWithNext"}, 1),
        ({"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Removed"}, 1),
    ):
        found = _steps(step)
        assert len(found) == count and all(one.pattern for one in found)
    for step in (
        {"type": "CharDelimiterSplit", "delimiter": "__"},
        {"type": "FixedLength", "length": 0},
        {"type": "UnicodeScripts"},
        {"type": "Split", "pattern": {"String": ""}, "behavior": "Removed", "invert": False},
        {"type": "Split", "pattern": {"Regex": "a", "String": "a"}, "behavior": "Removed"},
        _split("a", "Merged"),
    ):
        with pytest.raises(TokenizerError):
            _steps(step)


def test_the_line_of_a_refused_pattern_names_it():
    with pytest.raises(TokenizerError) as error:
        _steps(_split(r"a(?=bc)"))
    assert str(error.value) == (
        "pre_tokenizer Split with the regular expression 'a(?=bc)': look-ahead of anything but one"
        " character is not supported"
    )


def test_behind_bytes_a_pattern_sees_their_letters():
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    spec = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [level, _split("Ġ|Ã+")]}}
    (step,) = steps_of(spec, byte_bpe._LETTERS)[0]
    (_, _, _, behavior, _), ascii_, runs, _, _ = _read(step.pattern)
    assert behavior == table.BYTEWISE | 1
    assert ascii_[ord(" ")] != ascii_[ord("a")]  # Ġ is a space
    of_c3 = [int(run) & 255 for run in runs if int(run) >> 8 <= 0xC3][-1]
    assert of_c3 not in (ascii_[ord(" ")], ascii_[ord("a")])


def test_slots_are_the_fewest():
    rows = np.array([[1, 1], [2, 3], [1, 0], [1, ACCEPTS]], dtype=np.uint16)  # two rings through 1
    assert (memo.marks(rows) >= 248).tolist() == [False, True, False, False]
