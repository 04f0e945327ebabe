"""The C interface for Python's ctypes: the names, values and layouts of src/facts/abi.toml, and the
types of fields of include/phasor.h."""

from __future__ import annotations

import re
from pathlib import Path

from make import abi
from make.facts import WIDTH, File, source, table

MODULE = "tools/phasor/runtime/_interface.py"
FROM = "include/phasor.h and src/facts/abi.toml"
# A type that is not here is an address: of text, of a block, of a struct that has no fields.
PLAIN = {
    "int": "c_int",
    "phasor_status": "c_int",
    "uint32_t": "c_uint32",
    "int32_t": "c_int32",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "float": "c_float",
    "char": "c_char",
    "phasor_task": "Task",
}
TASK = "CFUNCTYPE(None, c_void_p, c_uint32)"


def _ctype(kind: str, structs: set[str]) -> str:
    kind = kind.replace("const", "").replace(" ", "")
    if array := re.fullmatch(r"(\w+)\[(\d+)\]", kind):
        return f"{PLAIN[array[1]]} * {array[2]}"
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in structs:
        return _class(kind)
    base, stars = kind.rstrip("*"), len(kind) - len(kind.rstrip("*"))
    if stars == 2:
        return "POINTER(c_void_p)"
    if not stars:
        raise ValueError(f"{kind}: expected a type of {sorted(PLAIN)}, a struct or a pointer")
    if base in structs:
        return f"POINTER({_class(base)})"
    return "c_void_p" if base not in PLAIN or base == "char" else f"POINTER({PLAIN[base]})"


def _class(struct: str) -> str:
    """GenerateOptions of phasor_generate_options."""
    return "".join(word.capitalize() for word in struct.split("_")[1:])


def _field(kind: str, structs: set[str]) -> str:
    callback = re.fullmatch(r"(\w+) \(\*\)\((.*)\)", kind)
    if not callback:
        return _ctype(kind, structs)
    kinds = [abi.PARAMETER.sub("", part.strip()) for part in callback[2].split(",")]
    result = "None" if callback[1] == "void" else _ctype(callback[1], structs)
    # A text has no terminator and a view is read by its address: no conversion on the way in.
    parts = ["c_void_p" if "*" in part else _ctype(part, structs) for part in kinds]
    return f"CFUNCTYPE({', '.join([result, *parts])})"


def _function(name: str, types: str, structs: set[str]) -> str:
    result, _, parameters = types[:-1].partition(" (")
    kinds = [_ctype(kind, structs) for kind in re.split(", ", parameters) if kind]
    gives = "None" if result == "void" else _ctype(result, structs)
    line = f'    "{name}": ({", ".join([gives, *kinds])}{"" if kinds else ","}),'
    if len(line) <= WIDTH:
        return line
    return "\n".join([f'    "{name}": (', *(f"        {k}," for k in [gives, *kinds]), "    ),"])


def outputs(_: Path) -> list[File]:
    rows = table("abi")
    header = abi.HEADER.read_text(encoding="utf-8")
    fields = abi.fields_of(header)
    structs = set(rows["structs"])
    body = "from __future__ import annotations\n\nfrom ctypes import (\n"
    names = sorted({kind for kind in PLAIN.values() if kind != "Task"} | {"c_void_p"})
    body += "".join(f"    {n},\n" for n in ["CFUNCTYPE", "POINTER", "Structure", *names])
    body += ")\nfrom enum import IntEnum\nfrom typing import Any\n\n\nclass Status(IntEnum):\n"
    body += '    """What a function of the library returns."""\n\n'
    listed = header[header.index("typedef enum phasor_status {") :].partition("}")[0]
    status = re.findall(r"(PHASOR_\w+) =", listed)
    constants = rows["constants"]
    body += "".join(f"    {n.removeprefix('PHASOR_')} = {constants[n]}\n" for n in status)
    body += "\n\n"
    for name in sorted(set(constants) - set(status)):
        body += f"{name.removeprefix('PHASOR_')} = {constants[name]}\n"
    body += f"\nTask = {TASK}\n"
    left = dict(fields)
    while left:  # a struct behind those that it has a field of
        known = {
            name
            for name, row in left.items()
            if not {other for _, kind in row for other in re.findall(r"\w+", kind)}
            & (set(left) - {name})
        }
        for name in sorted(known):
            body += f"\n\nclass {_class(name)}(Structure):\n    _fields_ = [\n"
            for field, kind in left.pop(name):
                body += f'        ("{field}", {_field(kind, structs)}),\n'
            body += "    ]\n"
    body += "\n\nFUNCTIONS: dict[str, tuple[Any, ...]] = {\n"
    for name, (_, types) in rows["functions"].items():
        body += _function(name, types, structs) + "\n"
    return [source(MODULE, FROM, body + "}\n", "")]
