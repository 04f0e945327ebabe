"""What the tests and the tools take from the converter's modules is there, and is called with
arguments that it has. tests/reference needs packages that not every run has, so it is read, not
run."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imported(module: str, name: str) -> Any:
    """What `from module import name` binds; a module that needs a package is passed over."""
    try:
        found = importlib.import_module(module)
        if hasattr(found, name):
            return getattr(found, name)
        return importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "phasor":
            raise
        return None


def names(tree: ast.AST) -> dict[str, Any]:
    """What a file takes from the converter, but for names that it binds otherwise too."""
    found, own = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "phasor":
            for one in node.names:
                if one.name != "*":
                    found[one.asname or one.name] = imported(str(node.module), one.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return {name: value for name, value in found.items() if name not in own}


def value(node: ast.AST, known: dict[str, Any]) -> Any:
    """What an expression names; None where that is not known. AttributeError if it is not there."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(of := value(node.value, known), ModuleType):
        return getattr(of, node.attr)
    return None


def signature_of(called: Any) -> inspect.Signature | None:
    """None of what is not known, and of subclasses of built-in types that say nothing."""
    try:
        return inspect.signature(called) if callable(called) else None
    except ValueError:
        return None


def faults(tree: ast.AST) -> Iterator[str]:
    known = names(tree)
    for node in ast.walk(tree):
        try:
            if isinstance(node, ast.Attribute):
                value(node, known)
            if isinstance(node, ast.Call):
                signature = signature_of(value(node.func, known))
                given = [one for one in node.args if not isinstance(one, ast.Starred)]
                named = {one.arg: one for one in node.keywords if one.arg}
                whole = len(given) + len(named) == len(node.args) + len(node.keywords)
                if signature is not None:
                    (signature.bind if whole else signature.bind_partial)(*given, **named)
        except (AttributeError, TypeError) as error:
            yield f"line {node.lineno}: {ast.unparse(node)[:60]}: {error}"


def test_names_and_arguments() -> None:
    files = [path for room in ("tests", "tools") for path in sorted((ROOT / room).rglob("*.py"))]
    found = {
        str(path.relative_to(ROOT)): list(faults(ast.parse(path.read_text(encoding="utf-8"))))
        for path in files
    }
    assert len(found) > 300 and not {name: given for name, given in found.items() if given}


@pytest.mark.parametrize(
    "text, what",
    [
        ("convert.convert(1, 2, 3, 4, 5, 6)", "too many positional arguments"),
        ("convert.convert(1, 2, 3, 4)", "missing a required argument: 'phasor'"),
        ("convert.convert(1, 2, 3, 4, 5, loud=True)", "unexpected keyword argument 'loud'"),
        ("convert.no_such_name", "has no attribute 'no_such_name'"),
    ],
)
def test_a_fault_is_found(text: str, what: str) -> None:
    (fault,) = faults(ast.parse(f"from phasor import convert\n{text}"))
    assert what in fault


def test_a_module_that_went_is_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        names(ast.parse("from phasor.families import gguf"))
