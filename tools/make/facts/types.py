"""src/facts/types.toml: the types of tensors, in both languages and on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from make.facts import ROOT, WIDTH, File, Region, page_table, source, table
from make.links import slug

FROM = "src/facts/types.toml"
PAGE = "docs/reference/file-format.md"
SCALES = {"": "", "group": "f16, of {span} columns", "row": "f32, of a row"}

KINDS = ("group", "row", "minimum", "code")


def types() -> list[dict[str, Any]]:
    """In the order of their codes."""
    plain = {"word": "", "matrix": True, "pairs": False, "scales": "", "rotated": False}
    plain |= {"span": 32, "step": 1, "first": 0, "table": (), "rounds": True}
    rows = [
        {"name": name, "product": name, **plain, **_record(row), **row}
        for name, row in table("types")["types"].items()
    ]
    assert [row["code"] for row in rows] == list(range(1, len(rows) + 1)), "codes have a hole"
    return rows


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """Of scales that are codes: an f16 number of eight groups, and their codes."""
    if row.get("scales") != "code":
        return {}
    return {"record": [2 + 256 // row.get("span", 32) * row["scale_bits"] // 8, 8]}


def _has(word: str) -> str:
    return "kHas" + word.capitalize()


def _any(rows: list[dict[str, Any]]) -> str:
    return " || ".join(dict.fromkeys(_has(row["word"]) for row in rows))


def _codes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Types whose code n stands for step·n + first."""
    return [row for row in rows if row["scales"] and row["bits"] < 8 and not row["table"]]


def _predicate(name: str, rows: list[dict[str, Any]]) -> str:
    tests = [f"type == Type::{row['name']}" for row in rows]
    one = f"constexpr bool {name}(Type type) {{ return {' || '.join(tests)}; }}\n"
    if len(one) <= 101:
        return one
    lines = " ||\n         ".join(tests)
    return f"constexpr bool {name}(Type type) {{\n  return {lines};\n}}\n"


def _number(name: str, rows: list[dict[str, Any]], value: Callable[[dict], int]) -> str:
    """A function of the type, which is 0 of types that are not in `rows`."""
    of: dict[int, list[str]] = {}
    for row in rows:
        of.setdefault(value(row), []).append(f"    case Type::{row['name']}:\n")
    cases = "".join("".join(names) + f"      return {n};\n" for n, names in of.items())
    cases += "    default:\n      return 0;\n"
    return f"constexpr unsigned {name}(Type type) {{\n  switch (type) {{\n{cases}  }}\n}}\n"


def _rounded_table(rows: list[dict[str, Any]]) -> str:
    (one,) = [row["table"] for row in rows if _stored(row)]
    return ", ".join(map(str, one))


def _stored(row: dict[str, Any]) -> bool:
    """A panel begins with its table."""
    return not isinstance(row["table"], str) and bool(row["table"])


def _macro(name: str, rows: list[dict[str, Any]]) -> str:
    lines = [f"#define {name}(ROW, ...)"]
    for row in rows:
        built = _has(row["word"]) if row["word"] else "true"
        lines.append(f"  ROW({row['name']}, {row['name'].capitalize()}, {built}, __VA_ARGS__)")
    width = max(map(len, lines))
    return " \\\n".join([line.ljust(width) for line in lines[:-1]] + lines[-1:]) + "\n"


def _quoted(names: list[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return ",\n    ".join(", ".join(quoted[i : i + 12]) for i in range(0, len(quoted), 12))


def listed(names: list[str], last: str) -> str:
    return ", ".join(names[:-1]) + f" {last} " + names[-1]


def _header(rows: list[dict[str, Any]]) -> File:
    matrices = [row for row in rows if row["matrix"]]
    quantized = [row for row in rows if row["scales"]]
    of = {kind: [r for r in rows if r["scales"] == kind] for kind in KINDS}
    grouped = [row for row in rows if row["scales"] in ("group", "minimum", "code")]
    fine = [row for row in of["code"] if row["span"] < 32]
    split = [row for row in rows if row["bits"] in (3, 5, 6)]
    wide = [row for row in rows if row["span"] > 32]
    records = [row for row in rows if "record" in row]
    words = list(dict.fromkeys(row["word"] for row in rows if row["word"]))
    body = '#pragma once\n#include <stdint.h>\n\n#include "build.h"\n\nnamespace phasor {\n\n'
    body += "enum class Type : uint8_t {\n  "
    body += ",\n  ".join(f"{row['name']} = {row['code']}" for row in rows) + "\n};\n"
    body += f"constexpr unsigned kTypes = {len(rows)};\n"
    body += "constexpr const char* kTypeNames[] = {\n    "
    body += _quoted(["?", *(row["name"] for row in rows)]) + "};\n"
    names = [row["name"] for row in matrices if row["rounds"]]
    body += "// What a matrix of floats becomes.\n"
    body += "constexpr const char* kRoundedTypeNames[] = {\n    "
    body += _quoted(names) + "};\n"
    body += f'#define PHASOR_TYPE_NAMES \\\n  "{listed(names, "or")}"\n\n'
    body += "".join(f'constexpr bool {_has(word)} = built("{word}");\n' for word in words)
    body += "// How many words of PHASOR_ONLY are types.\nconstexpr unsigned kTypeWords =\n    "
    body += " +\n    ".join(f'has_word(PHASOR_ONLY, "{word}")' for word in words) + ";\n\n"
    bits = [
        f"({_has(row['word'])} ? {bit} : 0u)" if row["word"] else bit
        for row, bit in ((row, f"1u << {row['code']}") for row in matrices)
    ]
    body += "// What this build reads a matrix of, a bit by code.\n"
    body += "constexpr uint32_t kMatrixTypes =\n    " + " |\n    ".join(bits) + ";\n"
    body += "// Whether it has types with a scale for each group, and with one for each row.\n"
    body += f"constexpr bool kHasGroups =\n    {_any(grouped)};\n"
    body += f"constexpr bool kHasRows = {_any(of['row'])};\n"
    body += f"constexpr bool kHasMinima = {_any(of['minimum'])};\n"
    body += f"constexpr bool kHasCoded = {_any(of['code'])};\n"
    body += f"constexpr bool kHasSplit = {_any(split)};  // codes in two fields\n"
    body += f"constexpr bool kHasTables = {_any([row for row in rows if row['table']])};\n"
    body += f"constexpr bool kHasShared = {_any(wide)};\n\n"
    no = [row for row in rows if not row["matrix"]]
    body += _predicate("no_matrix_type", no)
    body += "// A scale for each group of 32, and a minimum too; a scale for each row, in f32.\n"
    body += _predicate("minimum_type", of["minimum"])
    body += _predicate("grouped_type", grouped)
    body += "// A scale is a signed code times an f16 number, and a group has two of them.\n"
    body += _predicate("coded_type", of["code"])
    body += _predicate("fine_type", fine)
    body += _predicate("whole_type", of["row"])
    body += _predicate("quantized_type", quantized)
    body += "// The same; false where a build has none of them.\n"
    for name, has, of_all in (
        ("has_minima", "kHasMinima", "minimum_type"),
        ("has_coded", "kHasCoded", "coded_type"),
        ("has_row_scale", "kHasRows", "whole_type"),
    ):
        body += f"constexpr bool {name}(Type type) {{ return {has} && {of_all}(type); }}\n"
    body += "// The inputs are rotated; two values lie side by side in a panel.\n"
    body += _predicate("rotated_type", [row for row in rows if row["rotated"]])
    body += _predicate("pair_type", [row for row in rows if row["pairs"]])
    body += _number("value_bits", rows, lambda row: row["bits"])
    body += "// A code is an index of a table of 16 int8; and a panel begins with that.\n"
    body += _predicate("lookup_type", [row for row in rows if row["table"]])
    body += _predicate("table_type", [row for row in rows if _stored(row)])
    body += "// The table that floats are rounded to, and that of types whose panels have none.\n"
    body += f"alignas(16) constexpr int8_t kRoundedTable[] = {{\n    {_rounded_table(rows)}}};\n"
    body += "// No float is rounded to it.\n"
    body += _predicate("given_type", [row for row in rows if not row["rounds"]])
    body += "// Groups of 32 that share a scale, where they are more than one.\n"
    body += _number("shared_groups", wide, lambda row: row["span"] // 32)
    codes = _codes(rows)
    body += "// What a code n stands for: step·n − less, and of other types 0.\n"
    body += _number("code_step", codes, lambda row: row["step"])
    body += _number("code_less", [r for r in codes if r["first"]], lambda row: -row["first"])
    body += "// Of a record of scales, and of minima: its bytes, and the groups that it is of.\n"
    body += _number("record_bytes", records, lambda row: row["record"][0])
    body += _number("record_groups", records, lambda row: row["record"][1])
    body += "// Bits of a scale that is a code.\n"
    body += _number("scale_bits", of["code"], lambda row: row["scale_bits"])
    body += "// The type whose kernels it takes.\n"
    body += "constexpr Type product_type(Type type) {\n  return "
    for row in rows:
        if row["product"] != row["name"]:
            body += f"type == Type::{row['name']} ? Type::{row['product']} : "
    body += "type;\n}\n\n"
    body += "// ROW(type, the struct of its weights in a level, whether it is built, …).\n"
    body += _macro("PHASOR_FLOAT_TYPES", [row for row in matrices if not row["scales"]])
    body += _macro("PHASOR_INT8_TYPES", [row for row in quantized if row["product"] == row["name"]])
    body += "\n}  // namespace phasor\n"
    return source("src/types.h", FROM, body, "The types of tensors and what is so of each.")


def _listing(start: str, members: list[str], end: str) -> str:
    """In one line, or a line each, as `ruff format` has them."""
    line = start + ", ".join(members) + end
    if len(line) <= WIDTH:
        return line + "\n"
    return start + "\n" + "".join(f"    {member},\n" for member in members) + end + "\n"


def _python(rows: list[dict[str, Any]]) -> File:
    def group(name: str, about: str, of: Callable[[dict], bool]) -> str:
        members = [row["name"].upper() for row in rows if of(row)]
        end = (",)" if len(members) == 1 else ")") + (f"  # {about}" if about else "")
        return _listing(f"{name} = (", members, end)

    body = '"""The types of tensors by their codes in a file (file-format.md)."""\n\n'
    body += "".join(f"{row['name'].upper()} = {row['code']}\n" for row in rows)
    body += "TYPES = {\n"
    body += "".join(f'    {row["name"].upper()}: "{row["name"]}",\n' for row in rows) + "}\n"
    body += "BITS = {\n"
    body += "".join(f"    {row['name'].upper()}: {row['bits']},\n" for row in rows) + "}\n"
    body += "# Of a record of scales, and of minima: its bytes, and the groups that it is of.\n"
    records = [f"{row['name'].upper()}: {tuple(row['record'])}" for row in rows if "record" in row]
    body += _listing("RECORDS = {", records, "}")
    codes = _codes(rows)
    body += "# What a code n stands for: step, first of step·n + first.\n"
    pairs = [f"{row['name'].upper()}: ({row['step']}, {row['first']})" for row in codes]
    body += "CODES = {\n" + "".join(f"    {pair},\n" for pair in pairs) + "}\n"
    body += "# Columns that share a scale, where they are not a group.\n"
    spans = [f"{row['name'].upper()}: {row['span']}" for row in rows if row["span"] != 32]
    body += f"SPANS = {{{', '.join(spans)}}}\n"
    body += group("LOOKUPS", "a code is an index of a table of int8", lambda r: bool(r["table"]))
    body += group("TABLES", "a panel begins with that table", _stored)
    body += f"ROUNDED_TABLE = ({_rounded_table(rows)})\n"
    body += group("HALVES", "", lambda r: r["bits"] == 16)
    body += group("PAIRS", "two columns lie side by side in a panel", lambda r: r["pairs"])
    body += group("GROUPED", "an f16 scale for each group", lambda r: r["scales"] == "group")
    body += group("WHOLE", "an f32 scale for each row", lambda r: r["scales"] == "row")
    minima = "a scale and a minimum for each group (rule 1.20)"
    body += group("MINIMA", minima, lambda r: r["scales"] == "minimum")
    body += "# Bits of a scale that is a signed code of an f16 number.\n"
    bits = [f"{r['name'].upper()}: {r['scale_bits']}" for r in rows if r["scales"] == "code"]
    body += f"SCALE_BITS = {{{', '.join(bits)}}}\n"
    body += group("CODED", "", lambda r: r["scales"] == "code")
    body += group("ROTATED", "of rotated inputs (rule 1.19)", lambda r: r["rotated"])
    body += group("QUANTIZED", "", lambda r: bool(r["scales"]))
    body += group("MATRICES", "", lambda r: r["matrix"])
    body += group("ROUNDED", "what floats become", lambda r: r["matrix"] and r["rounds"])
    return source("tools/phasor/format/codes.py", FROM, body, "")


def _page(rows: list[dict[str, Any]]) -> Region:
    def scales(row: dict[str, Any]) -> str:
        if "record" not in row:
            return SCALES[row["scales"]].format(span=row["span"])
        size, groups = row["record"]
        return f"records of {size} bytes, of {32 * groups} columns"

    cells = [
        [str(row["code"]), row["name"], str(row["bits"]), scales(row), row["page"]] for row in rows
    ]
    head = ["code", "type", "bits of a value", "scales", "a value"]
    return Region(PAGE, "types", page_table(head, cells))


def _weight_bits(row: dict[str, Any]) -> str:
    """Of a weight in a long row, its share of the scales with it."""
    size, groups = row.get("record", (2 * (row["scales"] == "group"), row["span"] // 32))
    return f"{row['bits'] + 8 * size / (32 * groups):g}"


def _rule(row: dict[str, Any]) -> str:
    """A link to it."""
    text = (ROOT / "docs/reference/numerics.md").read_text(encoding="utf-8")
    (heading,) = (
        line.removeprefix("### ")
        for line in text.splitlines()
        if line.startswith(f"### {row['rule']} ")
    )
    return f"[{row['rule']}](numerics.md#{slug(heading)})"


def _measured(row: dict[str, Any]) -> list[str]:
    decode, prompt, loss = row.get("measured", ("", "", ""))
    return [f"{x} ×" if x else "–" for x in (decode, prompt)] + [str(loss) or "–"]


def _uses(rows: list[dict[str, Any]]) -> list[Region]:
    """For who chooses: in the guides, and with all of it in the reference."""
    matrices = [row for row in rows if row["matrix"]]
    short = [[f"`{row['name']}`", _weight_bits(row), row["use"]] for row in matrices]
    long = [
        [*cells[:2], row["page"], _rule(row), row.get("exact", ""), *_measured(row), cells[2]]
        for row, cells in zip(matrices, short)
    ]
    head = ["type", "bits a weight"]
    whole = ["a value", "rule", "exact for", "decode", "prompt", "loss", "use it for"]
    guides = [
        Region(f"docs/guide/{name}.md", "uses", page_table([*head, "use it for"], short))
        for name in ("convert", "sizes")
    ]
    return [*guides, Region("docs/reference/types.md", "uses", page_table([*head, *whole], long))]


def _choices(rows: list[dict[str, Any]]) -> File:
    rounded = [row for row in rows if row["matrix"] and row["rounds"]]
    names = "|".join(row["name"] for row in rounded)
    body = f'#pragma once\n\n#define TYPE_CHOICES "{names}"\n'
    grouped = [row for row in rounded if row["scales"] not in ("", "row")]
    weighed = [row["name"] for row in grouped if row["scales"] != "minimum"]
    body += "// Those whose inputs are rounded in groups, and those that moments count in.\n"
    body += f'#define GROUP_TYPES "{listed([row["name"] for row in grouped], "and")}"\n'
    body += f'#define MOMENT_TYPES "{listed(weighed, "and")}"\n'
    body += "#define WEIGHED_TYPES "
    body += ", ".join(f'"{name}"' for name in weighed) + "\n"
    body += "// Types in groups that are smaller than q8.\n"
    body += "#define SMALL_TYPES "
    body += ", ".join(f'"{row["name"]}"' for row in grouped if row["bits"] < 8) + "\n"
    return source("src/cli/engine/types.h", FROM, body, "What --type takes.")


def outputs(_: Path) -> list[File | Region]:
    rows = types()
    return [_header(rows), _choices(rows), _python(rows), _page(rows), *_uses(rows)]
