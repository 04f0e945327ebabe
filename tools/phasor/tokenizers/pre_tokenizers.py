"""The pre-tokenizer of byte-level BPE: steps that cut a text into words. Regular expressions of
published tokenizers are known letter by letter, and the engine has code for them; any other becomes
a table of states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.classes import LETTER, NUMBER, SPACE, characters, class_runs, of_ranges
from phasor.tokenizers.json_parts import fields, member, refuse, steps
from phasor.tokenizers.patterns.scanner import FANCY, LONGEST, ONIGURUMA
from phasor.tokenizers.patterns.table import (
    BEHAVIORS,
    BYTEWISE,
    INVERTED,
    Pattern,
    compiled,
    literal,
    one_of,
)
from phasor.tokenizers.patterns.tree import PatternError

(
    GPT2,
    NOTHING,
    LLAMA3,
    QWEN2,
    O200K,
    TEKKEN,
    DEEPSEEK3,
    LINE_END,
    QWEN35,
    BYTE_DIGITS,
    BYTE_DIGIT,
    LLAMA3_PLAIN,
    QWEN2_PLAIN,
    SEED,
    CL100K,
) = range(1, 16)
MOST_STEPS = 9
LONGEST_STRING = 512  # characters of a text that a Split looks for
UPPER_BIT, LOWER_BIT, MARK_BIT, SIGN_BIT = (
    4,
    5,
    6,
    7,
)  # classes of O200K and TEKKEN, QWEN35 and DEEPSEEK3, DEEPSEEK3
CLASS_BITS = 11
RUN, ONE, UP_TO_THREE, THREE, SPACE_RUN, BLANK_RUN = (
    0x80 | form << 4 for form in range(6)
)  # X+, X, X{1,3}, XXX, \s?X+, ' '?X+

GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_FOLDED, _PLAIN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
)
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s|"
_CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_REGEX = _FOLDED + _WORDS + r"\p{N}{1,3}" + _REST
QWEN2_REGEX = _FOLDED + _WORDS + r"\p{N}" + _REST
QWEN35_REGEX = (
    _FOLDED
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K_REGEX = _CASED.replace("%s", _FOLDED + "?") + r"\p{N}{1,3}" + _CASED_REST
TEKKEN_REGEX = _CASED.replace("%s", "") + r"\p{N}" + _CASED_REST
DEEPSEEK3_REGEX = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED_REGEX = _FOLDED + _WORDS + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
# cl100k_base, in the spelling of tokenizer.json (\s++$ there is tiktoken's, whose $ is the end).
CL100K_REGEX = (
    r"'(?i:[sdmt]|ll|ve|re)" + _WORDS + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+\z|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# tiktoken's spellings: a possessive quantifier changes nothing where what follows can match none of
# what it took.
_TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|%s| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)

# Every character is in a match of these but of LINE_END and DEEPSEEK3.
NAMED = {
    GPT2_REGEX: GPT2,
    LLAMA3_REGEX: LLAMA3,
    QWEN2_REGEX: QWEN2,
    QWEN35_REGEX: QWEN35,
    O200K_REGEX: O200K,
    TEKKEN_REGEX: TEKKEN,
    DEEPSEEK3_REGEX: DEEPSEEK3,
    r"\s+$": LINE_END,
    SEED_REGEX: SEED,
    CL100K_REGEX: CL100K,
    _PLAIN + _WORDS + r"\p{N}{1,3}" + _REST: LLAMA3_PLAIN,
    _PLAIN + _WORDS + r"\p{N}" + _REST: QWEN2_PLAIN,
    _TIKTOKEN % r"\p{N}{1,3}": LLAMA3,
    _TIKTOKEN % r"\p{N}": QWEN2,
}
BLOOM_REGEX = r" ?[^(\s|.,!?…。，、।۔،)]+"
_OTHER_SPELLINGS = {r" ?[^(\s|[.,!?…。，、।۔،])]+": BLOOM_REGEX, "[0-9][0-9][0-9]": "[0-9]{3}"}


PATTERN = 0xE0  # a step whose pattern the section has


class Step(NamedTuple):
    code: int
    members: np.ndarray | None = None  # (0x110000) bool: the class of a run
    pattern: bytes = b""


class FancyRegex(str):
    """The regular expression of a Split, as tiktoken and tekken.json write them."""


_CATEGORIES = {
    r"\p{L}": "letter",
    r"\p{N}": "number",
    r"\p{M}": "mark",
    r"\p{P}": "sign",
    r"\p{S}": "symbol",
    r"\s": "space",
}


def _class_at(regex: str, at: int) -> tuple[np.ndarray, int] | None:
    """The set of characters that a category or a plain [class] means, and where it ends; None for
    another expression."""
    for name, members in _CATEGORIES.items():
        if regex.startswith(name, at):
            return characters(members), at + len(name)
    if regex[at : at + 1] != "[":
        return None
    at += 1
    negated = regex[at : at + 1] == "^"
    at += negated
    out = np.zeros(0x110000, dtype=bool)
    empty = True
    while at < len(regex) and regex[at] != "]":
        empty = False
        category = next((name for name in _CATEGORIES if regex.startswith(name, at)), None)
        if category is not None:
            out |= characters(_CATEGORIES[category])
            at += len(category)
            continue
        first, at = _char_at(regex, at)
        last = first
        if regex[at : at + 1] == "-" and regex[at + 1 : at + 2] not in ("", "]"):
            last, at = _char_at(regex, at + 1)
        if first is None or last is None or last < first:
            return None
        out[first : last + 1] = True
    if at >= len(regex) or empty:
        return None
    return (~out if negated else out), at + 1


def _char_at(regex: str, at: int) -> tuple[int | None, int]:
    """A character of a class, itself or escaped; None for what may mean more than one."""
    c = regex[at]
    if c != "\\":
        return (None if c in "[&" else ord(c)), at + 1
    escaped = regex[at + 1 : at + 2]
    if escaped in ("r", "n", "t"):
        return {"r": 13, "n": 10, "t": 9}[escaped], at + 2
    return (ord(escaped) if escaped and not escaped.isalnum() else None), at + 2


def _run(regex: str) -> Step | None:
    """A run of a class: X+, X, X{1,3}, X{3}, \\s?X+, ' '?X+."""
    lead = next((lead for lead in ("\\s?", " ?") if regex.startswith(lead)), "")
    found = _class_at(regex, len(lead))
    if found is None:
        return None
    members, at = found
    form = {
        ("", "+"): RUN,
        ("", ""): ONE,
        ("", "{1}"): ONE,
        ("", "{1,3}"): UP_TO_THREE,
        ("", "{3}"): THREE,
        ("\\s?", "+"): SPACE_RUN,
        (" ?", "+"): BLANK_RUN,
    }.get((lead, regex[at:]))
    return None if form is None else Step(form, members)


def _pattern(pattern: Pattern, behavior: str, inverted: bool, letters: str) -> Step:
    """letters: the letters of bytes, behind ByteLevel."""
    how = BEHAVIORS.index(behavior) | INVERTED * inverted | BYTEWISE * bool(letters)
    return Step(PATTERN, None, (pattern.of_bytes(letters) if letters else pattern).bytes(how))


def _split(step: dict[str, Any], before: list[Step], letters: str) -> Step:
    fields(step, "pre_tokenizer", ("pattern", "behavior", "invert"))
    pattern, behavior = (member(step, field, "pre_tokenizer") for field in ("pattern", "behavior"))
    kind, text = next(iter(pattern.items()), ("", None))
    if len(pattern) != 1 or kind not in ("Regex", "String") or not isinstance(text, str):
        refuse(f"pre_tokenizer Split at {shown(pattern)}")
    inverted = bool(step.get("invert", False))
    if behavior.lower() not in BEHAVIORS:
        refuse(f"pre_tokenizer Split with behavior {behavior}")
    if kind == "String":
        if not text or len(text) > LONGEST_STRING:
            refuse(f"pre_tokenizer Split at a text of {len(text)} characters")
        return _pattern(literal(text), behavior.lower(), inverted, letters)
    if len(text) > LONGEST:
        refuse(f"pre_tokenizer Split with a regular expression of {len(text)} characters")
    known = _known(text, (behavior.lower(), inverted), before, bool(letters))
    if known is not None:
        return known
    fancy = isinstance(text, FancyRegex)
    try:
        found = compiled(text, FANCY if fancy else ONIGURUMA)
    except PatternError as error:
        where = "config.pattern" if fancy else "pre_tokenizer Split with the regular expression"
        raise PatternError(f"{where} {shown(text)}: {error}") from error
    return _pattern(found, behavior.lower(), inverted, letters)


def _known(
    regex: str, matches: tuple[Any, ...], before: list[Step], of_letters: bool
) -> Step | None:
    """The step that the engine has for a regular expression; None: it has none."""
    spelled = regex.replace("\r", "\\r").replace("\n", "\\n")
    spelled = _OTHER_SPELLINGS.get(spelled, spelled)
    code = NAMED.get(spelled)
    found = Step(code) if code is not None else _run(spelled)
    everything = code is not None and code not in (DEEPSEEK3, LINE_END)
    if found is None or (
        matches not in {("isolated", False), ("isolated", True)}
        and not (everything and matches == ("removed", True))
    ):
        return None
    lines = Step(ONE, of_ranges([(10, 10), (13, 13)]))
    if code == LINE_END and not any(
        s.code == lines.code and np.array_equal(s.members, lines.members) for s in before
    ):
        return None  # $ is also before a line's end
    if of_letters and (found.members is None or found.members[128:].any()):
        return None
    return found


WHITESPACE_REGEX = r"\w+|[^\w\s]+"


def _of_type(step: dict[str, Any], letters: str) -> list[Step]:
    """The steps of a pre-tokenizer beside ByteLevel, Digits and Split."""
    kind = step["type"]
    given = {"Punctuation": ("behavior",), "CharDelimiterSplit": ("delimiter",)}
    given["FixedLength"] = ("length",)
    fields(step, "pre_tokenizer", given.get(kind, ()))
    signs, spaces = characters("punctuation"), characters("space")
    if kind == "Punctuation":
        behavior = member(step, "behavior", "pre_tokenizer").lower()
        if behavior not in BEHAVIORS:
            refuse(f"pre_tokenizer Punctuation with behavior {behavior}")
        if behavior in ("isolated", "contiguous") and not letters:
            return [Step(ONE if behavior == "isolated" else RUN, signs)]
        return [_pattern(one_of(signs), behavior, False, letters)]
    if kind == "Whitespace":
        return [_pattern(compiled(WHITESPACE_REGEX, FANCY), "removed", True, letters)]
    if kind == "WhitespaceSplit":
        return [_pattern(one_of(spaces), "removed", False, letters)]
    if kind == "BertPreTokenizer":
        first = _pattern(one_of(spaces), "removed", False, letters)
        return [first, _pattern(one_of(signs), "isolated", False, letters)]
    if kind == "CharDelimiterSplit":
        delimiter = member(step, "delimiter", "pre_tokenizer")
        if len(delimiter) != 1:
            refuse(f"pre_tokenizer CharDelimiterSplit at {shown(delimiter)}")
        return [_pattern(literal(delimiter), "removed", False, letters)]
    if kind == "FixedLength":
        length = member(step, "length", "pre_tokenizer")
        if not 1 <= length <= LONGEST_STRING:
            refuse(f"pre_tokenizer FixedLength of {length} characters")
        every = np.ones(0x110000, dtype=bool)
        return [_pattern(one_of(every, length), "isolated", False, letters)]
    return refuse(f"pre_tokenizer {kind} with BPE")


def steps_of(spec: dict[str, Any], letters: str) -> tuple[list[Step], bool]:
    """(steps, whether a space goes before the text) of the pre-tokenizer: what comes before
    ByteLevel sees the text, what comes behind it GPT-2's letters for bytes."""
    found: list[Step] = []
    level = None
    for step in steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers"):
        kind = step.get("type")
        if kind == "ByteLevel" and level is None:
            level = fields(step, "pre_tokenizer", ("add_prefix_space", "trim_offsets", "use_regex"))
            if member(level, "add_prefix_space", "pre_tokenizer") and found:
                refuse("pre_tokenizer ByteLevel with add_prefix_space behind another")
            found += [Step(GPT2)] if level.get("use_regex", True) else []
        elif kind == "Digits":
            single = member(
                fields(step, "pre_tokenizer", ("individual_digits",)),
                "individual_digits",
                "pre_tokenizer",
            )
            found.append(
                Step(ONE if single else RUN, characters("numeric"))
                if level is None
                else Step(BYTE_DIGIT if single else BYTE_DIGITS)
            )
        elif kind == "Split":
            found.append(_split(step, found, "" if level is None else letters))
        else:
            found += _of_type(step, "" if level is None else letters)
    if level is None:
        refuse("byte-level BPE without the pre_tokenizer ByteLevel")
    if len(found) > MOST_STEPS:
        refuse(f"a pre_tokenizer of {len(found)} steps")
    return found or [Step(NOTHING)], level["add_prefix_space"]


def classes_of(found: list[Step], word_class: dict[str, int]) -> tuple[list[int], bytes]:
    """The steps' bytes, and the runs of the classes that they ask for."""
    bits = {
        "space": SPACE,
        "letter": LETTER,
        "number": NUMBER,
        **word_class,
    }
    codes = {step.code for step in found}
    taken = set(range(4))
    more: list[tuple[int, np.ndarray]] = []
    if codes & {O200K, TEKKEN}:
        more += [
            (
                UPPER_BIT,
                characters("upper", "mark") | (characters("letter") & ~characters("small")),
            ),
            (LOWER_BIT, characters("mark") | (characters("letter") & ~characters("upper"))),
        ]
    if codes & {QWEN35, DEEPSEEK3}:
        more.append((MARK_BIT, characters("mark")))
    if DEEPSEEK3 in codes:
        more.append((SIGN_BIT, characters("sign", "symbol")))
    taken |= {bit for bit, _ in more}
    known = [(0, characters("space")), (1, characters("letter")), (2, characters("number")), *more]
    out = []
    for step in found:
        if step.members is None:
            out.append(step.code)
            continue
        bit = next((bit for bit, members in known if np.array_equal(members, step.members)), None)
        if bit is None:
            bit = next((bit for bit in range(CLASS_BITS) if bit not in taken), None)
            if bit is None:
                refuse("a pre_tokenizer with so many classes of characters")
            taken.add(bit)
            known.append((bit, step.members))
            more.append((bit, step.members))
        out.append(step.code | bit)
    return out, class_runs(bits, [(1 << bit, members) for bit, members in more])
