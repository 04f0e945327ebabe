"""src/facts/descriptor.toml: the keys of META and the activations, in both languages and on the
page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from make.facts import (
    WIDTH,
    File,
    Region,
    constant,
    literal,
    page_table,
    shown,
    source,
    table,
    value_of,
    wrapped,
)

FROM = "src/facts/descriptor.toml"
PAGE = "docs/reference/file-format.md"
TYPES = {  # in C++, in Python, on the page
    "u32": ("kMetaU32", "U32", "u32"),
    "f32": ("kMetaF32", "FLOAT", "f32"),
    "string": ("kMetaString", "STRING", "string"),
    "ids": ("kMetaU32Array", "IDS", "u32[]"),
}
ABSENT = "absent"
LARGEST = 0xFFFFFFFE


class Field(NamedTuple):
    name: str
    number: int
    type: str  # a key of TYPES
    low: int
    high: int
    choice: str  # or ""
    needed: bool
    default: Any  # 0, 1.0, ABSENT
    origin: str  # of the default, "" or a field's name
    shown: str  # the default on the page
    page: str


def limits(facts: dict) -> dict[str, int]:
    return {name: value_of(value, {}) for name, value in facts["limits"].items()}


def activations(facts: dict) -> list[dict[str, Any]]:
    plain = {"word": "", "head": True}
    rows = [{"key": key, **plain, **row} for key, row in facts["activations"].items()]
    for row in rows:
        words = row["key"].split("_")
        row["cpp"] = row.get("cpp", "k" + "".join(word.capitalize() for word in words))
        row["built"] = "kHas" + row["cpp"].removeprefix("k").replace("Erf", "")
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    return rows


def choices(facts: dict) -> dict[str, list[dict[str, Any]]]:
    """The values of each choice, those of activations too."""
    out = {name: list(choice["values"]) for name, choice in facts["choice"].items()}
    rows = [{k: row[k] for k in ("number", "name", "cpp")} for row in activations(facts)]
    of = list(zip(rows, activations(facts)))
    last = max(row["number"] for row in activations(facts) if row["word"])
    out["FfnActivation"] = [
        row if full["word"] else {**row, "page": ""} for row, full in of if row["number"] <= last
    ]
    out["HeadActivation"] = [{"number": 0, "name": "none"}] + [
        row if full["head"] else {**row, "page": ""} for row, full in of
    ]
    return out


def listed(values: list[dict[str, Any]], low: int) -> str:
    """The values as a page lists them."""
    texts = [(v["number"], v.get("page", v["name"])) for v in values if v["number"] >= low]
    return ", ".join(f"{number} {text}" for number, text in texts if text)


def field(name: str, row: dict[str, Any], facts: dict) -> Field:
    names, values = limits(facts), choices(facts).get(row.get("choice", ""), [])
    kind = "u32" if values else row["type"]
    low, high = row.get("low", 0), row.get("high", LARGEST)
    default = row.get("default", ABSENT if kind == "id" else 0)
    if values:
        low, high = row.get("low", values[0]["number"]), values[-1]["number"]
    elif kind == "flag":
        kind, high = "u32", 1
    elif kind == "id":
        kind, high = "u32", "MAX_VOCABULARY - 1"
    page = row.get("page", "{values}" if values else "")
    number = f"{default:g}" if default != ABSENT else ""
    plain = {"string": "none", "ids": "empty"}.get(kind, number)
    return Field(
        name,
        row["number"],
        kind,
        low,
        value_of(high, names),
        row.get("choice", ""),
        row.get("needed", False),
        default,
        row.get("from", ""),
        "—" if row.get("needed") else row.get("shown", row.get("from", plain or ABSENT)),
        page.replace("{values}", listed(values, low)),
    )


def scopes(facts: dict) -> dict[str, list[Field]]:
    """In the order of their numbers."""
    return {
        scope: sorted(
            (field(name, row, facts) for name, row in facts[scope].items()),
            key=lambda f: f.number,
        )
        for scope in facts["scopes"]
    }


# ---- C++


def _enum(name: str, rows: list[dict[str, Any]]) -> str:
    parts = [f"{row['cpp']} = {row['number']}" for row in rows if "cpp" in row]
    line = f"enum {name} : uint32_t {{ {', '.join(parts)} }};\n"
    if len(line) > WIDTH + 1:
        line = f"enum {name} : uint32_t {{\n  " + ",\n  ".join(parts) + "\n};\n"
    return line if parts else ""


def _scope(name: str) -> str:
    return f"kScope{name.capitalize().removesuffix('s')}"


def _member(f: Field) -> str:
    if f.type in ("ids", "string"):
        return f"  Array {f.name}{{}};\n"
    if f.default == ABSENT:
        return f"  uint32_t {f.name} = PHASOR_NONE;\n"
    return f"  {'float' if f.type == 'f32' else 'uint32_t'} {f.name} = {f.default:g};\n"


def _struct(name: str, fields: list[Field], present: bool) -> str:
    arrays = [f for f in fields if f.type in ("ids", "string")]
    text = f"struct {name} {{\n" + "".join(_member(f) for f in fields if f not in arrays)
    if present:
        text += "  uint32_t present = 0;  // the file has this scope\n"
    return text + "".join(map(_member, arrays)) + "};\n"


def _resolve(name: str, fields: list[Field], own: set[str]) -> str:
    """Defaults that are another field of the same scope."""
    lines = [
        f"  if (d->{f.name} == 0) d->{f.name} = d->{f.origin};\n"
        for f in fields
        if f.origin in own and f.default != ABSENT
    ]
    return f"inline void resolve({name}* d) {{\n{''.join(lines)}}}\n" if lines else ""


def _header(facts: dict) -> File:
    body = '#pragma once\n#include "../activations.h"\n#include "file.h"\n\nnamespace phasor {\n\n'
    for name, value in limits(facts).items():
        body += f"constexpr uint32_t {constant(name)} = {value};\n"
    body += "\n"
    for name, choice in facts["choice"].items():
        body += _enum(name, choice["values"])
    scope_names = [name for about in facts["scopes"].values() for name in about["names"]]
    scope_rows = [{"number": i, "cpp": _scope(name)} for i, name in enumerate(scope_names)]
    body += "\n" + _enum("Scope", scope_rows)
    names = ", ".join(f'"{name.removesuffix("s")}"' for name in scope_names)
    body += f"constexpr uint32_t kLastScope = {scope_rows[-1]['cpp']};\n"
    body += f"constexpr const char* kScopeNames[] = {{\n    {names}}};\n"
    body += "\n// Bits.\n"
    for name, bits in facts["bits"].items():
        body += _enum(name, bits["values"])
    for scope, about in facts["scopes"].items():
        if "struct" in about:
            fields = scopes(facts)[scope]
            body += "\n" + _struct(about["struct"], fields, about.get("present", False))
            body += _resolve(about["struct"], fields, {f.name for f in fields})
    body += "\n}  // namespace phasor\n"
    about = "The values of the descriptor's fields by name, and a struct for each scope."
    return source("src/format/fields.h", FROM, body, about)


def _built(name: str, values: list[dict[str, Any]]) -> list[str]:
    """The bits of the values that a build has, as operands; none: it has all."""
    if name.endswith("Activation"):
        return [f"k{name}s"]
    by_word: dict[str, int] = {}
    for v in values:
        word = v.get("built", "")
        by_word[word] = by_word.get(word, 0) | 1 << v["number"]
    always = by_word.pop("", 0)
    words = [f"bits({word}, 0x{mask:X})" for word, mask in by_word.items()]
    return [str(always)] * (always != 0) + words if words else []


def _constant(kind: str, name: str, lines: list[str]) -> str:
    start = f"constexpr {kind} {name} ="
    one = f"{start} {' '.join(lines)};\n"
    if len(one) <= WIDTH + 1:
        return one
    return f"{start}\n    " + "\n    ".join(lines) + ";\n"


def _rows(facts: dict) -> File:
    body, every = "", choices(facts)
    for name, values in every.items():
        names = literal("|".join(v["name"] for v in values))
        if built := _built(name, values):
            body += _constant("uint32_t", f"kBuilt{name}", _joined(built, " |"))
        body += _constant("const char*", f"kNames{name}", names)
    body += "\nconstexpr Field kFields[] = {\n"
    for scope, about in facts["scopes"].items():
        for f in scopes(facts)[scope]:
            place, number = "kNowhere", _scope(about["names"][0])
            if scope != "model":
                place = f"offsetof({about['struct']}, {f.name})"
            elif f.type == "u32":
                place = "offsetof(Descriptor, halves)"
            built, names = "kAll", "nullptr"
            if f.choice:
                skipped = [v["name"] for v in every[f.choice] if v["number"] < f.low]
                names = f"kNames{f.choice}"
                if _built(f.choice, every[f.choice]):
                    built = f"kBuilt{f.choice}"
                names += f" + {len('|'.join(skipped)) + 1}" if skipped else ""
            ranged = f.type in ("u32", "ids")
            low, high = (f.low, f.high) if ranged else (0, 0)
            parts = [number, TYPES[f.type][0], str(f.number), str(int(f.needed)), place]
            parts += [str(low), str(high), built, f'"{f.name}"', names]
            body += wrapped("    {", parts, "},", 5) + "\n"
    body += "};\n"
    return source("src/format/fields.inc", FROM, body, "The table of keys, for descriptor.cpp.")


def _activations(facts: dict) -> File:
    rows = activations(facts)
    ffn = [row for row in rows if row["word"]]
    body = '#pragma once\n#include <stdint.h>\n\n#include "build.h"\n\nnamespace phasor {\n\n'
    body += _enum("Activation", [{"number": 0, "cpp": "kHeadNone"}, *rows]) + "\n"
    for row in ffn:
        body += f'constexpr bool {row["built"]} = built("{row["word"]}");\n'
    words = [f'has_word(PHASOR_ONLY, "{row["word"]}")' for row in ffn]
    body += "\n// How many words of PHASOR_ONLY are activations.\n"
    body += _constant("unsigned", "kActivationWords", _joined(words, " +"))
    body += "\n// What a build has of a feed-forward's and of a head's, a bit by number.\n"
    bits = [f"({row['built']} ? 1u << {row['cpp']} : 0u)" for row in ffn]
    body += _constant("uint32_t", "kFfnActivations", _joined(bits, " |"))
    not_of_heads = [f"1u << {row['cpp']}" for row in rows if not row["head"]]
    of_heads = ["1u << kHeadNone", *(f"1u << {row['cpp']}" for row in rows if not row["word"])]
    masked = f"(kFfnActivations & ~({' | '.join(not_of_heads)}))"
    body += _constant("uint32_t", "kHeadActivations", _joined([masked, *of_heads], " |"))
    body += f"constexpr uint32_t kActivationCodes = {len(rows) + 1};  // with 0\n"
    body += "\n// ROW(constant, built) of each that a feed-forward may have.\n"
    lines = ["#define PHASOR_ACTIVATIONS(ROW)"]
    lines += [f"  ROW({row['cpp']}, {row['built']})" for row in ffn]
    width = max(map(len, lines))
    body += " \\\n".join([line.ljust(width) for line in lines[:-1]] + lines[-1:]) + "\n"
    body += "\n}  // namespace phasor\n"
    return source("src/activations.h", FROM, body, "The activations; formulas are in src/kernels.")


def _joined(parts: list[str], operator: str) -> list[str]:
    """One operand a line."""
    return [part + operator for part in parts[:-1]] + parts[-1:]


# ---- Python


def _python_value(f: Field) -> str:
    if f.needed:
        return "NEEDED"
    if f.origin or f.default == ABSENT:
        return "None"
    if f.type in ("string", "ids"):
        return '""' if f.type == "string" else "()"
    return f"{float(f.default)!r}" if f.type == "f32" else str(f.default)


def _python(facts: dict) -> File:
    body = '"""The descriptor: its fields, the values that have names, and the activations."""\n\n'
    body += "U32, FLOAT, STRING, IDS, FLOATS = 1, 2, 3, 4, 5  # types of a key\n"
    body += "NEEDED = object()  # a field that the file must have\n\n"
    for name, value in limits(facts).items():
        body += f"{name} = {value}\n"
    for group in ("choice", "bits"):
        for name, choice in facts[group].items():
            named = [v for v in choice["values"] if "python" in v]
            if named:
                body += f"\n# {name}\n"
                body += "".join(f"{v['python']} = {v['number']}\n" for v in named)
    body += "\n# Activations: number, name, word, names in a config.json, the class in torch.nn.\n"
    rows = activations(facts)
    body += "".join(f"{row['key']} = {row['number']}\n" for row in rows)
    body += "ACTIVATION_ROWS = (\n"
    for row in rows:
        configs = ", ".join(f'"{word}"' for word in row.get("configs", ()))
        configs += "," * (len(row.get("configs", ())) == 1)
        parts = [row["key"], f'"{row["name"]}"', f'"{row["word"]}"', f"({configs})"]
        body += python_row(parts + [f'"{row.get("module", "")}"'])
    body += ")\n\n# By scope: number, type, name, default, low, high, the default's field.\n"
    body += "FIELD_ROWS = {\n"
    for scope, about in facts["scopes"].items():
        body += f'    "{scope}": (\n'
        for f in scopes(facts)[scope]:
            ranged = f.type in ("u32", "ids")
            low, high = (f.low, f.high) if ranged else (0, LARGEST)
            parts = [str(f.number), TYPES[f.type][1], f'"{f.name}"', _python_value(f)]
            parts += [str(low), str(high), f'"{f.origin}"']
            body += python_row(parts, 8)
        body += "    ),\n"
    body += "}\nSCOPE_NAMES = {\n"
    body += "".join(
        f'    "{name}": "{scope}",\n'
        for scope, about in facts["scopes"].items()
        for name in about["names"]
    )
    body += "}\n"
    return source("tools/phasor/format/fields.py", FROM, body, "")


def python_row(parts: list[str], indent: int = 4) -> str:
    """A tuple, as `ruff format` lays it out."""
    line = f"{' ' * indent}({', '.join(parts)}),\n"
    if len(line) <= 101:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{' ' * indent}(\n{inner}{' ' * indent}),\n"


# ---- the page


def _pages(facts: dict) -> list[Region]:
    out = []
    for scope in facts["scopes"]:
        rows = []
        for f in scopes(facts)[scope]:
            values = f"{shown(f.low)} … {shown(f.high)}" if f.type in ("u32", "ids") else ""
            values += " of them" * (f.type == "ids")
            rows.append([str(f.number), TYPES[f.type][2], f.name, values, f.shown, f.page])
        head = ["field", "type", "name", "values", "default", ""]
        out.append(Region(PAGE, f"fields of {scope}", page_table(head, rows)))
    return out


def outputs(_: Path) -> list[File | Region]:
    facts = table("descriptor")
    return [_header(facts), _rows(facts), _activations(facts), _python(facts), *_pages(facts)]
