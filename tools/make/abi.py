#!/usr/bin/env python3
"""What a program that is compiled with include/phasor.h relies on: functions, the layout of
structs, the values of constants. src/facts/abi.toml records it; `make check` (row abi) compares.

    abi.py           what differs from the record
    abi.py --write   records what has been added: functions, constants, fields behind the last one
                     of a struct that begins with its size, structs. Refuses any other change
    abi.py --write --break   records any change: programs must be recompiled

A function has the release in which it is first exported, its version in the shared library
(src/api/phasor.map); those under "Experimental" have none and may go.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from phasor import scratch
from phasor.entry import front_door
from phasor.errors import PhasorError
from phasor.files import write_text

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/phasor.h"
RECORD = ROOT / "src/facts/abi.toml"
Record = dict[str, dict[str, Any]]
FUNCTION = re.compile(r"^([a-z][\w *]*[\s*])(phasor_\w+)\(([^;{}()]*)\)[\s\w]*;", re.M)
FIELD = re.compile(r"(.*[ *])(\w+(?:\[\w+\])?)")
PARAMETER = re.compile(r"(?<=[\s*])\w+$")


class Names(NamedTuple):
    functions: dict[str, str]  # name: types; those that are not experimental
    experimental: set[str]
    structs: dict[str, list[str]]
    constants: list[str]


def parts_of(text: str) -> tuple[str, str]:
    """The header without comments: what programs may rely on, and its experimental part."""
    parts = {True: "", False: ""}
    for part in re.split(r"^(?=/\* =+ \d\. )", text, flags=re.M):
        parts[part.split("*/")[0].strip(" /*=").endswith("Experimental")] += part
    plain = {k: re.sub(r"/\*.*?\*/", " ", part, flags=re.S) for k, part in parts.items()}
    return plain[False], plain[True]


def prototypes(text: str) -> dict[str, str]:
    """{function: its types}"""
    found: dict[str, str] = {}
    for m in FUNCTION.finditer(text):
        kinds = [PARAMETER.sub("", kind.strip()).strip() for kind in m[3].split(",")]
        if m[3] == "void":
            kinds = []
        found[m[2]] = f"{m[1].strip()} ({', '.join(kinds)})"
    return found


def fields_of(text: str) -> dict[str, list[tuple[str, str]]]:
    """{struct: (field, type)}; a callback's type is "int (*)(parameters)", an array's "char[9]"."""
    found: dict[str, list[tuple[str, str]]] = {}
    for m in re.finditer(r"typedef struct (phasor_\w+) \{(.*?)\n\} \1;", parts_of(text)[0], re.S):
        fields = found[m[1]] = []
        for declaration in (" ".join(part.split()) for part in m[2].split(";")):
            if pointer := re.fullmatch(r"(.*?) ?\(\*(\w+)\) ?\((.*)\)", declaration):
                fields.append((pointer[2], f"{pointer[1]} (*)({pointer[3]})"))
            elif declaration:
                first, *more = declaration.split(",")
                kind, name = FIELD.fullmatch(first).groups()
                for one in (name, *more):
                    field, bracket, count = one.strip().partition("[")
                    fields.append((field, kind.strip() + bracket + count))
    return found


def names_of(text: str) -> Names:
    plain, experimental = parts_of(text)
    structs = {name: [field for field, _ in fields] for name, fields in fields_of(text).items()}
    constants = re.findall(r"\b(PHASOR_\w+) = ", plain)
    constants += re.findall(r"^#define (PHASOR_\w+) (?:0x)?[0-9A-Fa-f]+u\b", plain, re.M)
    return Names(prototypes(plain), set(prototypes(experimental)), structs, constants)


def compiled(names: Names, cc: str) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """The layout of the structs and the values, by the compiler: it writes them as data, so the
    program need not run."""
    asked: list[str] = []
    for struct, fields in names.structs.items():
        asked.append(f"sizeof({struct})")
        for field in fields:
            asked += [f"offsetof({struct}, {field})", f"sizeof((({struct}*)0)->{field})"]
    asked += [f"(unsigned long)({name})" for name in names.constants]
    body = '#include <stddef.h>\n#include "phasor.h"\n'
    body += f"const unsigned long asked[] = {{{', '.join(asked)}}};\n"
    with scratch.folder() as folder:
        source = folder / "asked.c"
        write_text(source, body)
        object_file = folder / "asked.o"
        command = [*cc.split(), "-std=c11", f"-I{HEADER.parent}", "-c", source, "-o", object_file]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise PhasorError(f"{cc}: {made.stderr.strip().splitlines()[0]}")
        binary = folder / "asked.bin"
        copy = ["objcopy", "-O", "binary", "-j", ".rodata", object_file, binary]
        subprocess.run(copy, check=True)
        data = binary.read_bytes()
    values = [int.from_bytes(data[i : i + 8], sys.byteorder) for i in range(0, len(data), 8)]
    if len(values) < len(asked):
        raise PhasorError(f"{cc}: expected {len(asked)} numbers of 8 bytes, found {len(values)}")
    given = iter(values)
    layout = {
        struct: [next(given), [[field, next(given), next(given)] for field in fields]]
        for struct, fields in names.structs.items()
    }
    return layout, {name: next(given) for name in names.constants}


def release(text: str) -> str:
    return ".".join(re.findall(r"^#define PHASOR_VERSION_M\w+ (\d+)$", text, re.M))


def now(cc: str) -> Record:
    text = HEADER.read_text(encoding="utf-8")
    names = names_of(text)
    layout, values = compiled(names, cc)
    return {
        "functions": {n: [release(text), p] for n, p in sorted(names.functions.items())},
        "structs": dict(sorted(layout.items())),
        "constants": dict(sorted(values.items())),
    }


# How many records there are of a kind: a caller passes the number that it was compiled with, and
# the library fills no more.
_COUNTS = ("PHASOR_TYPES",)


def recorded() -> Record:
    if not RECORD.is_file():
        return {"functions": {}, "structs": {}, "constants": {}}
    return tomllib.loads(RECORD.read_text(encoding="utf-8"))


def changes(old: Record, new: Record) -> tuple[list[str], list[str]]:
    """What has been added, and what a program would notice."""
    added: list[str] = []
    broken: list[str] = []
    for kind in ("functions", "structs", "constants"):
        added += [f"{n} is not recorded" for n in new[kind] if n not in old[kind]]
        broken += [f"{n} is gone" for n in old[kind] if n not in new[kind]]
    for name, (_, prototype) in old["functions"].items():
        if name in new["functions"] and new["functions"][name][1] != prototype:
            broken.append(f"{name} was {prototype}, is {new['functions'][name][1]}")
    for name, value in old["constants"].items():
        found = new["constants"].get(name, value)
        if name in _COUNTS and found > value:
            added.append(f"{name} is {found}, {value} is recorded")
        elif found != value:
            broken.append(f"{name} was {value}, is {new['constants'][name]}")
    for name, (size, fields) in old["structs"].items():
        if name not in new["structs"] or new["structs"][name] == [size, fields]:
            continue
        grown = new["structs"][name][1]
        if grown[: len(fields)] == fields and len(grown) > len(fields):
            if fields[0][0] == "struct_size" and grown[len(fields)][1] >= size:
                added.append(f"{name} has {grown[len(fields)][0]}, which is not recorded")
                continue
        was = next((a for a, b in zip(fields, grown) if a != b), [f"size {size}"])
        broken.append(f"{name}: {was[0]} has another place, size or neighbor")
    return added, broken


def written(record: Record) -> str:
    def quoted(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(quoted(v) for v in value)}]"
        return f'"{value}"' if isinstance(value, str) else str(value)

    lines = [
        "# What programs that are compiled with include/phasor.h rely on; tools/make/abi.py writes"
        " it.",
        "# A function: the release that first exports it, its types. A struct: its size, and each",
        "# field's name, offset and size, on 64-bit machines.",
    ]
    for kind in ("functions", "constants"):
        lines += ["", f"[{kind}]"]
        lines += [f"{n} = {quoted(v)}" for n, v in sorted(record[kind].items())]
    lines += ["", "[structs]"]
    for name, (size, fields) in sorted(record["structs"].items()):
        lines += [f"{name} = [{size}, [", *(f"  {quoted(f)}," for f in fields), "]]"]
    return "\n".join(lines) + "\n"


def merged(old: Record, new: Record) -> Record:
    """The new one, with the release of each function that was there."""
    functions = {
        n: [old["functions"].get(n, row)[0], row[1]] for n, row in new["functions"].items()
    }
    return {**new, "functions": functions}


def check(cc: str) -> tuple[list[str], int]:
    """Problems, and the number of functions and structs."""
    new = now(cc)
    added, broken = changes(recorded(), new)
    how = "python3 tools/make/abi.py --write"
    problems = [f"{a}: {how}" for a in added] + [f"{b}: programs would break" for b in broken]
    return problems, len(new["functions"]) + len(new["structs"])


@front_door("abi")
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--break", dest="breaks", action="store_true")
    args = parser.parse_args()
    if not args.write:
        problems, count = check(args.cc)
        print("\n".join(problems) or f"{count} functions and structs are as recorded")
        return 1 if problems else 0
    new = now(args.cc)
    old = recorded()
    added, broken = changes(old, new)
    if broken and not args.breaks:
        raise PhasorError("; ".join(broken) + ": programs would break; --break records it")
    write_text(RECORD, written(merged(old, new)))
    print("\n".join(added + broken) or "nothing has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
