"""The words that a reader knows: the texts in its own modules, so that a new key is tried as soon
as there is code for it."""

from __future__ import annotations

import ast
import functools
import re
from typing import Iterable

from source import ROOT

_WORD = re.compile(r"[A-Za-z_][\w.\-]{0,40}")
_MOST = 40  # words of one text: a table of many rows counts by its first ones


@functools.cache
def _of_module(name: str) -> tuple[str, ...]:
    tree = ast.parse((ROOT / "tools" / "phasor" / name).read_text(encoding="utf-8"))
    docs = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    }
    out: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in docs or " " in node.value and "\n" not in node.value.strip(" "):
                continue  # a sentence of ours
            found = _WORD.findall(node.value)
            out.update(dict.fromkeys(found if "\n" in node.value else found[:_MOST]))
    return tuple(out)


def modules_of(patterns: Iterable[str]) -> list[str]:
    """The modules of tools/phasor with such names."""
    top = ROOT / "tools" / "phasor"
    found = (path for pattern in patterns for path in sorted(top.glob(pattern)))
    return [path.relative_to(top).as_posix() for path in found]


@functools.cache
def of(patterns: Iterable[str]) -> tuple[str, ...]:
    """All words of some modules of tools/phasor."""
    return tuple(dict.fromkeys(w for name in modules_of(patterns) for w in _of_module(name)))
