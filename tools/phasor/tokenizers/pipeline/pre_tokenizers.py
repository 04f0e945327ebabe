"""The pre-tokenizer of a tokenizer.json as steps."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from phasor.errors import shown
from phasor.tokenizers.classes import characters
from phasor.tokenizers.json_parts import fields, member, prepend_scheme, refuse, steps
from phasor.tokenizers.patterns.scanner import ONIGURUMA
from phasor.tokenizers.patterns.table import BEHAVIORS, compiled, literal, one_of, scripts
from phasor.tokenizers.pipeline.normalizers import LONGEST_TEXT, letters, pattern_of
from phasor.tokenizers.pipeline.steps import (
    FIRST_SPLIT,
    UNLESS_THERE,
    Letters,
    Map,
    Prefix,
    Split,
    Step,
)
from phasor.tokenizers.pre_tokenizers import GPT2_REGEX, WHITESPACE_REGEX


def _behavior(step: dict[str, Any], kind: str) -> str:
    behavior = member(step, "behavior", "pre_tokenizer").lower()
    if behavior not in BEHAVIORS:
        refuse(f"pre_tokenizer {kind} with behavior {shown(behavior)}")
    result: str = behavior
    return result


def _of(step: dict[str, Any], *names: str) -> list[Any]:
    fields(step, "pre_tokenizer", names)
    return [member(step, name, "pre_tokenizer") for name in names]


def _cut_at(name: str, behavior: str) -> Split:
    return Split(one_of(characters(name)), behavior, False)


def _split(step: dict[str, Any]) -> list[Step]:
    fields(step, "pre_tokenizer", ("pattern", "behavior", "invert"))
    pattern, _ = pattern_of(member(step, "pattern", "pre_tokenizer"), "pre_tokenizer Split")
    return [Split(pattern, _behavior(step, "Split"), bool(step.get("invert", False)))]


def _punctuation(step: dict[str, Any]) -> list[Step]:
    fields(step, "pre_tokenizer", ("behavior",))
    return [_cut_at("punctuation", _behavior(step, "Punctuation"))]


def _digits(step: dict[str, Any]) -> list[Step]:
    (single,) = _of(step, "individual_digits")
    return [_cut_at("numeric", "isolated" if single else "contiguous")]


def _delimiter(step: dict[str, Any]) -> list[Step]:
    (delimiter,) = _of(step, "delimiter")
    if len(delimiter) != 1:
        refuse(f"pre_tokenizer CharDelimiterSplit at {shown(delimiter)}")
    return [Split(literal(delimiter), "removed", False)]


def _fixed_length(step: dict[str, Any]) -> list[Step]:
    (length,) = _of(step, "length")
    if not 1 <= length <= LONGEST_TEXT:
        refuse(f"pre_tokenizer FixedLength of {length} characters")
    return [Split(one_of(np.ones(0x110000, dtype=bool), length), "isolated", False)]


def _metaspace(step: dict[str, Any]) -> list[Step]:
    names = ("replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep")
    fields(step, "pre_tokenizer", names)
    sign = member(step, "replacement", "pre_tokenizer")
    scheme = prepend_scheme(step, "pre_tokenizer")
    if len(sign) != 1:
        refuse(f"pre_tokenizer Metaspace with replacement {shown(sign)}")
    out: list[Step] = [Map({} if sign == " " else {32: sign})]
    if scheme != "never":
        out.append(Prefix(sign, UNLESS_THERE | FIRST_SPLIT * (scheme == "first")))
    if step.get("split", True):
        out.append(Split(literal(sign), "mergedwithnext", False))
    return out


def _byte_level(step: dict[str, Any]) -> list[Step]:
    fields(step, "pre_tokenizer", ("add_prefix_space", "trim_offsets", "use_regex"))
    prefix = member(step, "add_prefix_space", "pre_tokenizer")
    out: list[Step] = [Prefix(" ", UNLESS_THERE)] if prefix else []
    if step.get("use_regex", True):
        out.append(Split(compiled(GPT2_REGEX, ONIGURUMA), "isolated", False))
    return [*out, Letters(letters())]


_FIXED: dict[str, Callable[[], list[Step]]] = {
    "Whitespace": lambda: [Split(compiled(WHITESPACE_REGEX, "fancy-regex"), "removed", True)],
    "WhitespaceSplit": lambda: [_cut_at("space", "removed")],
    "BertPreTokenizer": lambda: [_cut_at("space", "removed"), _cut_at("punctuation", "isolated")],
    "UnicodeScripts": lambda: [Split(scripts(), "removed", True)],
}
_TYPES: dict[str, Callable[[dict[str, Any]], list[Step]]] = {
    "Split": _split,
    "Punctuation": _punctuation,
    "Digits": _digits,
    "CharDelimiterSplit": _delimiter,
    "FixedLength": _fixed_length,
    "Metaspace": _metaspace,
    "ByteLevel": _byte_level,
}


def pre_tokenizer_steps(spec: dict[str, Any]) -> list[Step]:
    out: list[Step] = []
    for step in steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers"):
        kind = step["type"]
        if kind in _FIXED:
            fields(step, "pre_tokenizer", ())
            out += _FIXED[kind]()
        elif kind in _TYPES:
            out += _TYPES[kind](step)
        else:
            refuse(f"pre_tokenizer {kind}")
    return out
