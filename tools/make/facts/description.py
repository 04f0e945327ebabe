"""src/facts/description.toml: the keys of a description and the parts of its [names], in Python and
on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from make.facts import WIDTH, File, Region, page_table, source, table

FROM = "src/facts/description.toml"
PAGE = "docs/reference/description-keys.md"
SCOPES = ("model", "stack", "side", "generation")
TYPES = {"texts": "list", "ids": "list", "numbers": "list", "table": "dict"}


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def _call(start: str, arguments: list[str], indent: int = 4) -> str:
    """A line, or one for each argument where it would be too long."""
    one = f"{' ' * indent}{start}({', '.join(arguments)}),"
    if len(one) <= WIDTH:
        return one + "\n"
    inner = "".join(f"{' ' * (indent + 4)}{argument},\n" for argument in arguments)
    return f"{' ' * indent}{start}(\n{inner}{' ' * indent}),\n"


def _words(values: dict[str, Any]) -> str:
    names = {w: f"D.{v}" if isinstance(v, str) else repr(v) for w, v in values.items()}
    of = [f"{_literal(word)}: {name}" for word, name in names.items()]
    one = f"values={{{', '.join(of)}}}"
    if len(one) <= WIDTH - 9:
        return one
    return "values={\n" + "".join(f"            {word},\n" for word in of) + "        }"


def _tuple(values: list[str]) -> str:
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def _key(name: str, row: dict[str, Any]) -> str:
    kinds = [TYPES.get(word, word) for word in row["type"].split("|")]
    arguments = [_tuple(kinds)]
    if row.get("default") is not None:
        arguments.append(_literal(row["default"]))
    if "values" in row:
        arguments.append(_words(row["values"]))
    if "field" in row:
        arguments.append(f"field={_literal(row['field'])}")
    if "when" in row:
        when = row["when"]
        arguments.append(f"of={_literal(when.get('key') or when['part'])}")
        if "values" in when:
            arguments.append(f"among={_tuple([_literal(value) for value in when['values']])}")
    if row["type"] in ("texts", "ids", "numbers"):
        arguments.append(f"items={_literal(row['type'])}")
    return _call(f"{_literal(name)}: Key", arguments)


def _part(name: str, row: dict[str, Any]) -> str:
    arguments = [repr(row.get("bias", False))]
    if "when" in row:
        arguments.append(f"key={_literal(row['when']['key'])}")
        values = _tuple([_literal(value) for value in row["when"]["values"]])
        one = f"values={values}"
        arguments.append(one)
    if row.get("may"):
        arguments.append("may=True")
    return _call(f"{_literal(name)}: Known", arguments)


_HEAD = '''"""What a description can say: its keys by scope, and the parts of its [names]."""

from __future__ import annotations

from typing import Any, NamedTuple

from phasor.format import descriptor as D


class Key(NamedTuple):
    """One key."""

    types: tuple[type, ...]
    default: Any = None  # None: the description or its preset says it, or the weights do
    values: dict[str, Any] = {}  # what a text may be, and what it is in the descriptor
    field: str = ""  # of the descriptor, that has the value as it is
    items: str = ""  # of a list: texts, ids, numbers
    # What it speaks of: the key that has one of these values then, or without values a part.
    of: str = ""
    among: tuple[Any, ...] = ()


class Known(NamedTuple):
    """One part of [names]."""

    bias: bool
    key: str = ""  # the model has it where this key has one of these values; "": where it is named
    values: tuple[Any, ...] = ()
    may: bool = False  # and may leave it out


'''


def _python(facts: dict[str, Any]) -> File:
    body = _HEAD
    for scope in SCOPES:
        rows = "".join(_key(name, row) for name, row in facts[scope].items())
        body += f"{scope.upper()}: dict[str, Key] = {{\n{rows}}}\n"
    for scope, rows in facts["parts"].items():
        lines = "".join(_part(name, row) for name, row in rows.items())
        body += f"{scope.upper()}_PARTS: dict[str, Known] = {{\n{lines}}}\n"
    return source("tools/phasor/sources/state_dict/keys.py", FROM, body, "")


def _said(row: dict[str, Any]) -> str:
    """The values of a row's key on the page, then its text."""
    default, words = row.get("default"), list(row.get("values", {}))
    if words and row["type"] == "str":
        words = [f"`{w}`" + (" (default)" if w == default else "") for w in words]
        return "; ".join(text for text in (", ".join(words), row["page"]) if text)
    plain = default not in (None, "", 0, -1, False, [], {}) or default is True
    word = str(default).lower() if isinstance(default, bool) else f"{default}"
    return row["page"] + (f" ({word})" if plain and row["page"] else word if plain else "")


def _start(scope: str, part: str) -> str:
    if scope == "stack":
        return "decoder." if part.startswith("cross_") else "encoder."
    return {"side": "source.", "end": ""}[scope]


def _pages(facts: dict[str, Any]) -> Iterator[Region]:
    for scope in SCOPES:
        rows = [[f"`{name}`", _said(row)] for name, row in facts[scope].items()]
        page = page_table(["key", "values (default)"], rows)
        yield Region(PAGE, f"keys of {scope}", page)
    rows = [
        [f"`{_start(scope, name)}{name}`", "yes" if row.get("bias") else "", row["page"]]
        for scope, parts in facts["parts"].items()
        for name, row in parts.items()
    ]
    yield Region(PAGE, "parts", page_table(["part", "bias", "tensor"], rows))


def outputs(_: Path) -> list[File | Region]:
    facts = table("description")
    return [_python(facts), *_pages(facts)]
