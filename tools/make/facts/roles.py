"""src/facts/roles.toml: the roles of tensors, in both languages and on the page."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Callable, NamedTuple

from make.facts import File, Region, page_table, source, table, wrapped
from make.facts.descriptor import python_row

FROM = "src/facts/roles.toml"
PAGE = "docs/reference/file-format.md"
STACKS = {"kind": (0,), "input": (1, 3), "block": (2, 4), "output": (5,)}
FIRST_FINAL = 0xF0  # roles of a stack's last norm
FIRST_RARE = 0xA0  # roles of a block in RareTensors


class Row(NamedTuple):
    """One tensor; a linear layer and a norm are two."""

    stacks: tuple[int, ...]
    number: int
    name: str
    layouts: tuple[str, ...]
    rows: str
    cols: str
    when: str
    type: str  # "any": of a matrix


def expanded(section: str, role: dict[str, Any]) -> list[Row]:
    form, when, bias = role["form"], role.get("when", ""), role.get("bias", "")
    stacks = STACKS[section][-1 if role.get("decoder") else 0 :]
    pair = form in ("linear", "norm")
    name = role["name"] + " weight" * pair
    matrix = form in ("linear", "matrix")
    layout = "panel16" if matrix else "rows" if form == "table" else "vector"
    layouts = tuple(role.get("layouts", (layout,)))
    kind = "any" if matrix else role.get("type", "f32")
    rows, cols, number = role["rows"], role.get("cols", "1"), role["number"]
    out = [Row(stacks, number, name, layouts, rows, cols, when, kind)]
    if pair:
        both = f"{when} and {bias}" if when else bias
        name = role["name"] + " bias"
        out.append(Row(stacks, number + 1, name, ("vector",), rows, "1", both, "f32"))
    return out


def every(facts: dict) -> list[Row]:
    roles = [(section, role) for section in STACKS for role in facts[section].values()]
    return [row for section, role in roles for row in expanded(section, role)]


# ---- C++: an expression of the table as one of the engine

_LOCAL = {
    "entries": "entries(k)",
    "q": "q_width(k)",
    "kv": "kv_width(k)",
    "own_kv": "own_kv_width(k)",
    "cross_q": "cross_q_width(k)",
    "cross_kv": "cross_kv_width(k)",
    "inner": "input_width(s)",
    "per_layer_values": "per_layer_values(s)",
    "inputs": "output_inputs(d)",
    "rows": "output_width(d)",
}
_TRUTHS = {
    "norms_before": "(k.norm_place == kNormBefore || k.norm_place == kNormBoth)",
    "norms_after": "k.norm_place != kNormBefore",
}
_SIDE = {"vocabulary", "embedding_shared", "own_row"}
_STACK = {"width", "cross_width", "per_layer_width"}  # of what a block's expressions name


def _place(section: str, final: bool) -> Callable[[str], str]:
    """Where a name of an expression is."""

    def of(name: str) -> str:
        if name in _LOCAL and not (section == "input" and name == "rows"):
            return _LOCAL[name]
        if section == "output":
            return "d.stacks[d.last()].width" if name == "width" else f"d.output.{name}"
        if section == "input":
            return f"{'side' if name in _SIDE else 's'}.{name}"
        return f"s.{name}" if final or name in _STACK else f"k.{name}"

    return of


def number(node: ast.expr, of: Callable[[str], str]) -> str:
    match node:
        case ast.Constant(value=int(value)):
            return f"{value}u"
        case ast.Name(id=name):
            return of(name)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return f"{number(left, of)} / {number(right, of)}"
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return f"({number(left, of)} & {number(right, of)})"
        case ast.IfExp(test=test, body=body, orelse=other):
            return f"({truth(test, of)} ? {number(body, of)} : {number(other, of)})"
    raise ValueError(f"{ast.unparse(node)}: no number that the engine's table can have")


def truth(node: ast.expr, of: Callable[[str], str]) -> str:
    match node:
        case ast.Name(id=name) if name in _TRUTHS:
            return _TRUTHS[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"{number(operand, of)} == 0"
        case ast.BoolOp(op=ast.And(), values=values):
            return " && ".join(truth(value, of) for value in values)
        case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.Tuple(elts=values)]):
            bits = sum(1 << ast.literal_eval(value) for value in values)
            return f"(0x{bits:X}u >> {number(left, of)} & 1u) != 0"
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as test], comparators=[right]):
            sign = "==" if isinstance(test, ast.Eq) else "!="
            return f"{number(left, of)} {sign} {number(right, of)}"
    return f"{number(node, of)} != 0"


def parts(node: ast.expr, of: Callable[[str], str]) -> str:
    """The rows of each part, {{…}}."""

    def elements(of_node: ast.expr) -> list[ast.expr]:
        return of_node.elts if isinstance(of_node, ast.Tuple) else [of_node]

    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Tuple):
        test, first, second = truth(node.test, of), elements(node.body), elements(node.orelse)
        none: ast.expr = ast.Constant(0)
        made = []
        for i in range(max(len(first), len(second))):
            a, b = (number(p[i] if i < len(p) else none, of) for p in (first, second))
            made.append(a if a == b else f"{test} ? {a} : {b}")
    else:
        made = [number(part, of) for part in elements(node)]
    return f"{{{{{', '.join(made)}}}}}"


_FUNCTIONS = {
    "kind": ("KindTensors", ["const KindDescriptor& k"]),
    "input": ("Input", ["const SideDescriptor& side", "const StackDescriptor& s"]),
    "block": ("LayerTensors", ["const KindDescriptor& k", "const StackDescriptor& s"]),
    "final": ("", ["const StackDescriptor& s"]),
    "output": ("OutputTensors", ["const Descriptor& d"]),
}


def _call(section: str, key: str, role: dict[str, Any], struct: str) -> str:
    of = _place(section, role["number"] >= FIRST_FINAL)
    form, pair = role["form"], role["form"] in ("linear", "norm")

    def parsed(text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    if section == "block" and role["number"] >= FIRST_RARE:
        struct = "RareTensors"
    if section == "input" and role.get("decoder"):
        struct = "PerLayerInput"
    ends = (" weight", " bias") if pair else ("",)
    names = [f'"{role["name"]}{end}"' for end in ends]
    member = role.get("member", key.lower())
    there = truth(parsed(role["when"]), of) if "when" in role else "true"
    rows = parsed(role["rows"])
    shape = [number(rows, of) if form in ("table", "norm") else parts(rows, of)]
    if "cols" in role:
        shape.append(number(parsed(role["cols"]), of))
    if pair:
        shape.append(truth(parsed(role["bias"]), of))
    if "layouts" in role:
        shape.append(" | ".join(f"bit(Layout::{layout})" for layout in role["layouts"]))
    if "type" in role:
        shape.append(f"Type::{role['type']}")
    digits = f"0x{role['number']:02X}" if section == "block" else str(role["number"])
    place = f"offsetof({struct}, {member})" if member else "0"
    start = f"  r.{form}("
    return wrapped(start, [digits, *names, place, there, *shape], ");", len(start)) + "\n"


def _engine(facts: dict) -> File:
    body = ""
    for section, (struct, parameters) in _FUNCTIONS.items():
        of = "block" if section == "final" else section
        head = wrapped(f"void {section}_roles(", ["const Rows& r", *parameters], ") {", 4)
        body += ("\n" if body else "") + head + "\n"
        for key, role in facts[of].items():
            if (section == "final") == (role["number"] >= FIRST_FINAL):
                body += _call(of, key, role, struct)
        body += "}\n"
    return source("src/format/roles.inc", FROM, body, "The rows of each set, for tensors.cpp.")


_PARTS = f"""\
// Of a block: the first in RareTensors, and the first of its stack's last norm.
constexpr uint32_t kFirstRareRole = 0x{FIRST_RARE:X};
constexpr uint32_t kFirstFinalRole = 0x{FIRST_FINAL:X};
"""


def _places(facts: dict) -> str:
    return ", ".join(f'"{name}"' for name in facts["stacks"])


def _names(facts: dict, path: str, space: str, about: str, more: str = "") -> File:
    body = f"#pragma once\n#include <stdint.h>\n\nnamespace {space} {{\n\n"
    for section in STACKS:
        for key, role in facts[section].items():
            name = key.title().replace("_", "")
            value = _hex(STACKS[section], role["number"])
            body += f"constexpr uint32_t kRole{name} = {value};\n"
    body += f"{more}\n// Of a key's stack.\n"
    body += (
        f"constexpr const char* kPlaceNames[] = {{{_places(facts)}}};\n\n}}  // namespace {space}\n"
    )
    return source(path, FROM, body, f"{about}: the numbers of roles, in the stacks that have them.")


# ---- Python and the page


def _hex(section_or_stacks: tuple[int, ...], value: int) -> str:
    return f"0x{value:02X}" if section_or_stacks[-1] in STACKS["block"] else str(value)


def _converter(facts: dict) -> File:
    body = '"""The roles of tensors: numbers, and a row for each tensor."""\n\n'
    body += "from phasor.format.types import F32, F64, PANEL16, ROWS, VECTOR\n\n"
    for section in STACKS:
        for key, role in facts[section].items():
            body += f"{key} = {_hex(STACKS[section], role['number'])}\n"
    body += f"\nSTACK_NAMES = ({_places(facts)})\n"
    body += "\n# Stacks, number, name, layouts, rows, columns, when, whether a matrix, type.\n"
    body += "ROLE_ROWS = (\n"
    for row in every(facts):
        layouts = ", ".join(layout.upper() for layout in row.layouts)
        layouts += "," * (len(row.layouts) == 1)
        stacks = f"({', '.join(map(str, row.stacks))}{',' * (len(row.stacks) == 1)})"
        cells = [stacks, _hex(row.stacks, row.number), f'"{row.name}"', f"({layouts})"]
        cells += [f'"{row.rows}"', f'"{row.cols}"', f'"{row.when}"', str(row.type == "any")]
        body += python_row([*cells, "F64" if row.type == "f64" else "F32"])
    body += ")\n"
    return source("tools/phasor/format/roles.py", FROM, body, "")


def _page(facts: dict) -> Region:
    def code(text: str) -> str:
        return f"`{text}`" if text else ""

    cells = [
        [
            ", ".join(map(str, row.stacks)),
            _hex(row.stacks, row.number),
            row.name,
            row.type,
            " or ".join(row.layouts),
            code(row.rows),
            code(row.cols if row.cols != "1" else ""),
            code(row.when),
        ]
        for row in every(facts)
    ]
    head = ["stack", "role", "name", "type", "layout", "rows, of each part", "columns"]
    return Region(PAGE, "roles", page_table([*head, "there where"], cells))


def outputs(_: Path) -> list[File | Region]:
    facts = table("roles")
    names = [
        _names(facts, "src/format/roles.h", "phasor", "format", _PARTS),
        _names(facts, "src/cli/engine/roles.h", "cli", "cli"),
    ]
    return [*names, _engine(facts), _converter(facts), _page(facts)]
