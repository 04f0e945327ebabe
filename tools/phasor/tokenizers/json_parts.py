"""The parts of a tokenizer.json: each field is known and of its kind, or refused by name, so that
no reader meets one that might change the ids.
"""

from __future__ import annotations

from typing import Any, Iterable

from phasor.errors import shown
from phasor.tokenizers.section import TokenizerError

META = "\u2581"
MOST_STEPS_WRITTEN = 64
# Fields of tokenizer.json, whatever part they are in, and what they hold.
_NULL = type(None)
_KINDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    name: (wanted, kinds)
    for wanted, kinds, names in (
        (
            "text",
            (str,),
            "behavior content replacement prepend_scheme str_rep precompiled_charsmap prefix "
            "prepend suffix delimiter pad_token word_delimiter_token",
        ),
        (
            "true or false",
            (bool,),
            "invert add_prefix_space trim_offsets use_regex individual_digits split clean_text "
            "handle_chinese_chars lowercase cleanup single_word lstrip rstrip normalized special "
            "strip_left strip_right",
        ),
        ("text or null", (str, _NULL), "unk_token continuing_subword_prefix end_of_word_suffix"),
        (
            "true, false or null",
            (bool, _NULL),
            "strip_accents byte_fallback fuse_unk ignore_merges",
        ),
        (
            "a list",
            (list,),
            "merges normalizers pretokenizers processors decoders single pair sep cls added_tokens",
        ),
        ("a table", (dict,), "pattern special_tokens model"),
        ("a table or a list", (dict, list), "vocab"),
        (
            "a table or null",
            (dict, _NULL),
            "normalizer pre_tokenizer post_processor decoder truncation",
        ),
        ("a whole number from 0", (int,), "id max_input_chars_per_word start stop length"),
        ("a whole number or null", (int, _NULL), "unk_id"),
    )
    for name in names.split()
}


_MOST_DIGITS = 19  # of a whole number that is surely below 2^64


def package_float(text: str) -> float:
    """The number of a JSON text as the package's parser reads it: it takes the digits that fit 64
    bits, rounds them, and divides or multiplies by a power of ten, which rounds again. Of scores
    whose sums are equal the last bit decides."""
    mantissa, _, power = text.lower().partition("e")
    whole, _, part = mantissa.lstrip("-").partition(".")
    kept = whole + part
    if len(kept) > _MOST_DIGITS:
        kept = kept.lstrip("0")
        more = int(kept[: _MOST_DIGITS + 1] or 0) < 1 << 64
        kept = kept[: _MOST_DIGITS + more]
        dropped = len((whole + part).lstrip("0")) - len(kept)
    else:
        dropped = 0
    exponent = int(power or 0) - len(part) + dropped
    value = float(int(kept or 0))
    while exponent < -308 and value:
        value /= 1e308
        exponent += 308
    if value and exponent > 308:
        value = float("inf")
    elif value:
        value = value * float(f"1e{exponent}") if exponent >= 0 else value / float(f"1e{-exponent}")
    return -value if text.startswith("-") else value


def refuse(what: str) -> None:
    raise TokenizerError(f"{what} is not supported")


def fields(part: dict[str, Any], name: str, known: Iterable[str]) -> dict[str, Any]:
    """The part of tokenizer.json; a field that is not known might change ids, and one of another
    kind is refused here, so that no reader meets it."""
    if not isinstance(part, dict):
        raise TokenizerError(f"{name} is not an object")
    for key, value in part.items():
        if key != "type" and key not in known:
            refuse(f"{name}.{key}")
        wanted, kinds = _KINDS.get(key, ("", (object,)))
        if (
            not isinstance(value, kinds)
            or (type(value) is bool and int in kinds)
            or (type(value) is int and not 0 <= value < 1 << 31 and key != "id")
        ):
            raise TokenizerError(f"{name}.{key}: {shown(value)}, expected {wanted}")
    return part


def steps(part: dict[str, Any] | None, name: str, inside: str) -> list[dict[str, Any]]:
    """A normalizer, pre-tokenizer or other part as a list: a Sequence is its members, null is
    none."""
    waiting, out = [] if part is None else [part], []
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            raise TokenizerError(f"{name}: {shown(step)}, expected a part with a type")
        if step["type"] == "Sequence":
            waiting += reversed(member(fields(step, name, [inside]), inside, name))
        else:
            fields(step, name, _KINDS)  # which of them it has is its reader's business
            out.append(step)
        if len(out) + len(waiting) > MOST_STEPS_WRITTEN:
            refuse(f"{name} of more than {MOST_STEPS_WRITTEN} steps")
    return out


def member(part: dict[str, Any], field: str, name: str) -> Any:
    """A field that must be there."""
    if field not in part:
        raise TokenizerError(f"{name}.{field} is missing")
    return part[field]


def prepend_scheme(step: dict[str, Any], name: str) -> str:
    """Of a Metaspace, in the older spelling too."""
    scheme = step.get("prepend_scheme", "always")
    if not step.get("add_prefix_space", True):
        if step.get("prepend_scheme", "never") != "never":
            refuse(f"{name}.add_prefix_space with prepend_scheme {scheme}")
        scheme = "never"
    if scheme not in ("always", "first", "never"):
        refuse(f"{name}.prepend_scheme {shown(scheme)}")
    result: str = scheme
    return result


def metaspace(step: dict[str, Any], name: str) -> tuple[str, bool]:
    """(prepend scheme, split) of a Metaspace, in the older spelling too."""
    fields(step, name, ("replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"))
    if member(step, "replacement", name) != META:
        refuse(f"{name}.replacement {step['replacement']!r}")
    return prepend_scheme(step, name), step.get("split", True)


def types_of(spec: dict[str, Any], part: str, inside: str) -> list[str]:
    """The types of the steps of a part."""
    return [step["type"] for step in steps(spec.get(part), part, inside)]
