"""Generators: a module for each table of facts, whose outputs(build) generate.py writes."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 100  # of a line of source


class File(NamedTuple):
    path: str
    text: str


class Region(NamedTuple):
    path: str
    name: str
    text: str  # whole lines


def table(name: str) -> dict[str, Any]:
    """src/facts/NAME.toml."""
    return tomllib.loads((ROOT / f"src/facts/{name}.toml").read_text(encoding="utf-8"))


def source(path: str, made_from: str, body: str, about: str) -> File:
    """A file of C++ or Python. `about`: what is in it, behind the line that it is generated."""
    first = f"Generated from {made_from} by `make generate`: edit that, not this."
    if path.endswith(".py"):
        return File(path, f"# {first}\n{body}")
    return File(path, f"// {first}\n// {about}\n{body}")


def wrapped(start: str, parts: list[str], end: str = "", indent: int = 4) -> str:
    """`start`, the parts with commas between them, and `end`, in lines of at most WIDTH."""
    lines, line = [], start
    for i, part in enumerate(parts):
        text = part + (end if i == len(parts) - 1 else ",")
        glue = "" if line.endswith(("{", "(", "[")) or not line.strip() else " "
        if len(line) + len(glue) + len(text) > WIDTH:
            lines.append(line)
            line, glue = " " * indent, ""
        line += glue + text
    return "\n".join([*lines, line])


def literal(text: str, width: int = WIDTH - 4) -> list[str]:
    """A C++ string literal, as lines."""
    pieces = [text[i : i + width - 2] for i in range(0, len(text), width - 2)] or [""]
    return [f'"{piece}"' for piece in pieces]


def constant(name: str) -> str:
    """kMaxWidth of MAX_WIDTH."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


_OPERATORS = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Pow: "__pow__"}


def value_of(value: int | str, names: dict[str, int]) -> int:
    """Of a number, or of an expression with ^ for powers and the names of limits."""

    def of(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return names[name]
            case ast.BinOp(left=left, op=operator, right=right):
                return getattr(of(left), _OPERATORS[type(operator)])(of(right))
        raise ValueError(f"{value}: expected numbers, limits and + - * ^")

    return of(ast.parse(str(value).replace("^", "**"), mode="eval").body)


def shown(n: int) -> str:
    """As pages have it: 65,536 and 2²⁴ − 1."""
    for less in (0, 1):
        power = (n + less).bit_length() - 1
        if power >= 20 and n + less == 1 << power:
            exponent = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(d)] for d in str(power))
            return f"2{exponent}" + " − 1" * less
    return f"{n:,}"


def page_table(head: list[str], rows: list[list[str]]) -> str:
    """A table of a page."""
    first = ("| " + " | ".join(head) + " |").replace("|  |", "| |")
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([first, "|" + "---|" * len(head), *lines, ""])
