"""Source of models with every attribute of `self` called something else: what a name may have said
is gone, and what the code computes is the same."""

from __future__ import annotations

import ast
import types


def renamed(path: str, seed: int = 0) -> types.ModuleType:
    """The module of a file, its classes' attributes renamed."""
    tree = ast.parse(open(path, encoding="utf-8").read())
    names = sorted({*_assigned(tree), *_buffers(tree), *_keys(tree)})
    new = {name: f"u{(i * 7 + seed) % 1000}_" for i, name in enumerate(names)}
    assert len(set(new.values())) == len(names)
    _Renaming(new).visit(tree)
    out = types.ModuleType("renamed_modules")
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), out.__dict__)
    return out


def _of_self(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _assigned(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
    return found


def _called(tree: ast.AST, name: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == name]


def _buffers(tree: ast.AST) -> set[str]:
    return {call.args[0].value for call in _called(tree, "register_buffer")}


def _keys(tree: ast.AST) -> set[str]:
    return {key.value for call in _called(tree, "ModuleDict") for key in call.args[0].keys}


class _Renaming(ast.NodeTransformer):
    def __init__(self, new: dict[str, str]) -> None:
        self.new = new

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if _of_self(node) and node.attr in self.new:
            node.attr = self.new[node.attr]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name == "register_buffer":
            node.args[0] = ast.Constant(self.new[node.args[0].value])
        if name == "ModuleDict":
            table = node.args[0]
            table.keys = [ast.Constant(self.new[key.value]) for key in table.keys]
        return node
