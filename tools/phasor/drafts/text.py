"""A draft as the TOML that `--describe` takes."""

from __future__ import annotations

from typing import Any

from phasor.drafts.draft import Draft, Line
from phasor.errors import printable

_GUESS = "guess: "
_COLUMN = 34  # where comments begin


def text_of(draft: Draft, name: str, more: tuple[str, ...] = (), head: tuple[str, ...] = ()) -> str:
    """name: of the checkpoint; more: lines about how it was drafted; head: in place of those about
    --explain."""
    head = head or (
        f"# Drafted by convert.py --explain from the names and shapes of {printable(name)}.",
        "# A line without a comment is certain; a comment is the evidence of a guess. A line that",
        "# begins with # lacks what no tensor says: its owner says it.",
        *(f"# {line}" for line in more),
    )
    out = [*head, *(one for line in draft.lines.values() for one in _lines(line))]
    for table, lines in draft.sides.items():
        out += ["", f"[{table}]", *(one for line in lines for one in _lines(line))]
    for stack, tables in draft.exceptions.items():
        for one in tables:
            out += ["", f"[[{stack}.except]]", *(text for line in one for text in _lines(line))]
    guessed = {part for parts in draft.ordered for part in parts}
    out += ["", "[names]"]
    for part, tensor in draft.names.items():
        why = "guess: only the order says which of the matrices it is" if part in guessed else ""
        out.append(_commented(f"{part} = {_value(tensor)}", why))
    if draft.rename:
        out += ["", "[rename]"]
        out += [f"{_quoted(old)} = {_quoted(new)}" for old, new in draft.rename.items()]
    if draft.ignore:
        out += ["", "[checkpoint]", f"ignore = {_value(draft.ignore)}"]
    out += ["", *(f"# missing: {line}" for line in draft.left)] * bool(draft.left)
    return "\n".join(out) + "\n"


def _lines(line: Line) -> list[str]:
    if line.value is None:
        return [_commented(f"# {line.key} =", f"missing: {line.why}")]
    entries = [f"{key} = {_value(value)}" for key, value in line.entries(line.value).items()]
    why = line.why if line.decided or not line.why else _GUESS + line.why
    return [*entries[:-1], _commented(entries[-1], why)]


def _commented(text: str, why: str) -> str:
    return f"{text:<{_COLUMN - 2}}  # {why}" if why else text


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A basic string of TOML, whatever a stranger's file has in its names."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if c.isprintable():
        return c
    return f"\\U{ord(c):08x}"
