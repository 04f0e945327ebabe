"""The normalizer of a tokenizer.json as steps."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, Callable

import numpy as np

from phasor.errors import shown
from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import checked_bounds, split_charsmap
from phasor.tokenizers.classes import characters, of_ranges
from phasor.tokenizers.json_parts import fields, member, refuse, steps
from phasor.tokenizers.patterns.scanner import LONGEST, ONIGURUMA
from phasor.tokenizers.patterns.table import Pattern, compiled_with_least, literal
from phasor.tokenizers.patterns.tree import PatternError
from phasor.tokenizers.pipeline.steps import (
    LEFT,
    RIGHT,
    Canonical,
    Clusters,
    Letters,
    Map,
    Prefix,
    Replace,
    Step,
    Strip,
    removed,
)
from phasor.tokenizers.section import TokenizerError

LONGEST_TEXT = 512  # characters of a text that is looked for, or put in a place
# Of the package's Nmt, which follows SentencePiece's: what vanishes, what becomes a space.
_NMT_REMOVED = [(0x1, 0x8), (0xB, 0xB), (0xE, 0x1F), (0x7F, 0x7F), (0x8F, 0x8F), (0x9F, 0x9F)]
_NMT_SPACES = [
    (0x9, 0xA), (0xC, 0xD), (0x1680, 0x1680), (0x200B, 0x200F), (0x2028, 0x2029),
    (0x2581, 0x2581), (0xFEFF, 0xFEFF), (0xFFFD, 0xFFFD),
]  # fmt: skip


def letters() -> str:
    from phasor.tokenizers.models.byte_bpe import ALPHABET

    return "".join(sorted(ALPHABET, key=ALPHABET.__getitem__))


def short(text: str, what: str) -> str:
    if len(text) > LONGEST_TEXT:
        refuse(f"{what} of {len(text)} characters")
    return text


def pattern_of(given: dict[str, Any], what: str) -> tuple[Pattern, int]:
    """The pattern of {"String": text} or {"Regex": text}, and the fewest bytes of a match."""
    kind, text = next(iter(given.items()), ("", None))
    if len(given) != 1 or kind not in ("Regex", "String") or not isinstance(text, str):
        refuse(f"{what} at {shown(kind)}: {shown(text)}")
    if kind == "String":
        if not text:
            refuse(f"{what} at an empty text")
        return literal(short(text, f"{what} at a text")), len(text.encode())
    if len(text) > LONGEST:
        refuse(f"{what} with a regular expression of {len(text)} characters")
    try:
        return compiled_with_least(text, ONIGURUMA)
    except PatternError as error:
        raise PatternError(f"{what} with the regular expression {shown(text)}: {error}") from error


def _decomposed(compatible: bool) -> Map:
    maps = unicode.MAPS
    return Map({**maps["decomposed"], **(maps["compatible"] if compatible else {})}, hangul=True)


def _form(compatible: bool, composes: bool) -> list[Step]:
    return [_decomposed(compatible), Canonical(composes)]


def _ranges(runs: list[tuple[int, int]], to: str) -> dict[int, str]:
    return dict.fromkeys(np.flatnonzero(of_ranges(runs)).tolist(), to)


def _bert(step: dict[str, Any]) -> list[Step]:
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    fields(step, "normalizer", names)
    clean, pad, strip, lower = (step.get(name, False) for name in names)
    out: list[Step] = []
    if clean:
        spaces = np.flatnonzero(characters("space") & ~characters("removed")).tolist()
        out.append(Map({**dict.fromkeys(spaces, " "), **removed("removed").changes}))
    if pad:
        out.append(Map({c: f" {chr(c)} " for c in np.flatnonzero(characters("padded")).tolist()}))
    if lower if strip is None else strip:
        out += [*_form(False, False), removed("vanished")]
    return out + ([Map(unicode.MAPS["lower"])] if lower else [])


def _strip(step: dict[str, Any]) -> list[Step]:
    fields(step, "normalizer", ("strip_left", "strip_right"))
    left, right = (member(step, f"strip_{side}", "normalizer") for side in ("left", "right"))
    return [Strip(LEFT * left | RIGHT * right)] if left or right else []


def _replace(step: dict[str, Any]) -> list[Step]:
    fields(step, "normalizer", ("pattern", "content"))
    content = short(member(step, "content", "normalizer"), "normalizer Replace by a text")
    pattern, least = pattern_of(member(step, "pattern", "normalizer"), "normalizer Replace")
    return [Replace(pattern, least, content)]


def _prepend(step: dict[str, Any]) -> list[Step]:
    text = short(
        member(fields(step, "normalizer", ("prepend",)), "prepend", "normalizer"),
        "normalizer Prepend with a text",
    )
    return [Prefix(text)] if text else []


def _precompiled(step: dict[str, Any]) -> list[Step]:
    fields(step, "normalizer", ("precompiled_charsmap",))
    charsmap = member(step, "precompiled_charsmap", "normalizer")
    try:
        trie, strings = split_charsmap(base64.b64decode(charsmap))
    except ValueError as error:
        raise TokenizerError(f"normalizer.precompiled_charsmap: not base64: {error}") from error
    return [Clusters(trie, strings, checked_bounds(trie, strings)[1])]


def _of_nothing(step: dict[str, Any], made: Callable[[], list[Step]]) -> list[Step]:
    fields(step, "normalizer", ())
    return made()


_FORMS: dict[str, Callable[[], list[Step]]] = {
    "NFC": lambda: _form(False, True),
    "NFD": lambda: _form(False, False),
    "NFKC": lambda: _form(True, True),
    "NFKD": lambda: _form(True, False),
    "Lowercase": lambda: [Map(unicode.MAPS["lower"])],
    "StripAccents": lambda: [removed("accent")],
    "Nmt": lambda: [Map({**_ranges(_NMT_REMOVED, ""), **_ranges(_NMT_SPACES, " ")})],
    "ByteLevel": lambda: [Letters(letters())],
}
_TYPES: dict[str, Callable[[dict[str, Any]], list[Step]]] = {
    "BertNormalizer": _bert,
    "Strip": _strip,
    "Replace": _replace,
    "Prepend": _prepend,
    "Precompiled": _precompiled,
}


def normalizer_steps(spec: dict[str, Any]) -> list[Step]:
    out: list[Step] = []
    for step in steps(spec.get("normalizer"), "normalizer", "normalizers"):
        kind = step["type"]
        if kind in _FORMS:
            out += _of_nothing(step, _FORMS[kind])
        elif kind in _TYPES:
            out += _TYPES[kind](step)
        else:
            refuse(f"normalizer {kind}")
    maps = [step for step in out if isinstance(step, Clusters)]
    return [replace(step, own=True) if step in maps and step != maps[0] else step for step in out]
