"""The readers of foreign bytes, found in the sources, beside the table of their proofs,
tests/entries.py: what `make check` says in its row "entries"."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/entries.py"
COMMANDS = "src/cli/commands/commands.h"
FUZZ, PYTHON_FUZZ = ROOT / "tests/fuzz", ROOT / "tests/fuzz/python/readers.py"
FAULTS = ROOT / "tests/machines/faults/rows.py"

BYTES = re.compile(r"\bconst (?:void|char)\s*\*\s*\w")
DECLARED = re.compile(r"\b(phasor_\w+)\s*\(([^;{}]*)\)(?:\s+PHASOR_NONBLOCKING)?\s*;")
STRUCT = re.compile(r"typedef struct (?:\w+)?\s*\{(.*?)\}\s*(\w+);", re.S)
# A call of the system that brings bytes in; a member of that name is none.
READS = re.compile(
    r"(?:^|[^\w.>:~])(?:::)?(?:open|openat|fopen|read|pread|fgets|fread|mmap)\s*\(", re.M
)
# Of phasor.files; and calls by which Python reads a file, or takes bytes apart.
OPENERS = set(
    "open_regular read_bytes read_start read_text map_bytes parse_json parse_object read_value "
    "read_json".split()
)
PARSERS = set(
    "open io.open os.open json.load json.loads tomllib.load tomllib.loads zipfile.ZipFile np.load "
    "np.memmap np.fromfile mmap.mmap np.frombuffer struct.unpack struct.unpack_from int.from_bytes "
    "pickle.load pickle.loads pickle.Unpickler torch.load".split()
)


def literals(path: Path) -> dict[str, Any]:
    """The tables of a file that has nothing but literals in them; others are left out."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


# ---- what the sources have


def library_functions() -> set[str]:
    """Those of phasor.h that take bytes, a text, or a struct that the caller fills with one; and
    the replay of what a file says."""
    text = (ROOT / "include/phasor.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    filled = {name for body, name in STRUCT.findall(text) if BYTES.search(body)}
    return {
        name
        for name, given in DECLARED.findall(text)
        if BYTES.search(given) or filled & set(re.findall(r"\bconst (\w+)\s*\*", given))
    }


def program_sources() -> set[str]:
    """Files of src/cli that call the system for bytes."""
    found = set()
    for path in (ROOT / "src/cli").rglob("*.cpp"):
        code = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        code = re.sub(r"\b\w+ \w+::\w+\([^;{]*\)[^;{]*\{", "{", code)  # definitions of members
        if READS.search(code):
            found.add(path.relative_to(ROOT / "src/cli").with_suffix("").as_posix())
    return found


def commands() -> list[str]:
    """The program's own table."""
    text = (ROOT / COMMANDS).read_text(encoding="utf-8")
    return re.findall(r"^  ROW\((\w+)\)", text, re.M)


def dotted(node: ast.AST) -> str:
    """ "a.b" of the expression a.b; what is no name is empty."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@functools.cache
def looked_at(text: str) -> tuple[bool, bool]:
    """Whether a module reads foreign bytes, and whether it is a front door."""
    reads = door = False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "phasor.files":
            reads = reads or bool(OPENERS & {alias.name for alias in node.names})
        elif isinstance(node, ast.Call):
            reads = reads or dotted(node.func) in PARSERS
        elif isinstance(node, ast.FunctionDef) and node.name == "main":
            marks = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
            door = door or "front_door" in map(dotted, marks)
    return reads, door


def python_modules() -> tuple[set[str], set[str]]:
    """Modules below tools/phasor that read foreign bytes, and those that are front doors."""
    reads, doors = set(), set()
    for path in sorted((ROOT / "tools/phasor").rglob("*.py")):
        name = path.relative_to(ROOT / "tools/phasor").as_posix()
        is_reader, is_door = looked_at(path.read_text(encoding="utf-8"))
        if is_reader:
            reads.add(name)
        if is_door:
            doors.add("phasor." + name.removesuffix(".py").replace("/", "."))
    return reads, doors


# ---- beside the table


def targets() -> set[str]:
    text = (FUZZ / "targets.cpp").read_text(encoding="utf-8")
    return set(re.findall(r'^ *\{"(\w+)", Shape::', text, re.M))


def target_problems(names: Iterable[str]) -> Iterator[str]:
    known = targets()
    for name in sorted(set(names)):
        if name not in known:
            yield f"fuzz target {name} is not in tests/fuzz/targets.cpp"
        if not (FUZZ / f"{name}.cpp").is_file():
            yield f"tests/fuzz/{name}.cpp is not there"
        seeds = FUZZ / "corpus" / name
        if not seeds.is_dir() or not any(seeds.iterdir()):
            yield f"tests/fuzz/corpus/{name} has no seeds"
    for name in sorted(known - set(names)):
        yield f"fuzz target {name} is nobody's in {TABLE}"


def compared(what: str, found: Iterable[str], rows: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(found) - set(rows)):
        yield f"{what} {name} has no row in {TABLE}"


def names_it(test: str, word: str) -> bool:
    path = ROOT / test
    return path.is_file() and word in re.findall(r"\w+", path.read_text(encoding="utf-8"))


def problems() -> list[str]:
    """What is wrong; nothing, if every reader has its row and every row its proof."""
    missing = [p for p in (FUZZ / "targets.cpp", PYTHON_FUZZ, FAULTS) if not p.is_file()]
    if missing:
        return [f"{path.relative_to(ROOT)} is not there" for path in missing]
    table = literals(ROOT / TABLE)
    library, program, converter = table["LIBRARY"], table["PROGRAM"], table["CONVERTER"]
    ours, no_faults = table["NOT_FOREIGN"], table["NO_FAULTS"]
    readers, faults = literals(PYTHON_FUZZ)["READERS"], literals(FAULTS)["COMMANDS"]
    modules, doors = python_modules()
    found = list(compared("function", library_functions(), library))
    sources = {f"src/cli/{name}.cpp" for name in program_sources()}
    found += compared("source", sources, {f"src/cli/{name}.cpp" for name in program} | set(ours))
    patterns = {f"tools/phasor/{name}" for row in readers.values() for name in row}
    read = {p.relative_to(ROOT).as_posix() for name in patterns for p in ROOT.glob(name)}
    found += compared("module", {f"tools/phasor/{m}" for m in modules}, read | set(ours))
    found += compared("reader", readers, converter)
    found += target_problems(
        " ".join(names for names, _ in [*library.values(), *program.values()]).split()
    )
    for name, (_, test) in library.items():
        if not names_it(test, name):
            found.append(f"{name}: {test} does not name it")
    for name, (_, test) in program.items():
        if not (ROOT / f"src/cli/{name}.cpp").is_file() or not (ROOT / test).is_file():
            found.append(f"src/cli/{name}.cpp or {test} is not there")
    for name, (test, command) in converter.items():
        if name not in readers:
            found.append(f"reader {name} is not in tests/fuzz/python/readers.py")
        if not (ROOT / test).is_file():
            found.append(f"{name}: {test} is not there")
        if command not in faults:
            found.append(f"{name}: no command {command} in tests/machines/faults/rows.py")
    run = {" ".join(row["words"].split()[:2]) for row in faults.values()}
    found += [
        f"phasor {c} has no row in tests/machines/faults"
        for c in commands()
        if f"phasor {c}" not in run
    ]
    found += [
        f"{d} has no row in tests/machines/faults"
        for d in sorted(doors - set(no_faults))
        if f"python {d}" not in run
    ]
    gone = [name for name in ours if not (ROOT / name).is_file()]
    gone += [name for name in library if name not in library_functions() | {"phasor_vector_run"}]
    found += [
        f"{name} is in {TABLE} and not there" for name in gone + sorted(set(no_faults) - doors)
    ]
    found += [
        f"{name} is foreign and not"
        for name in sorted(read & set(ours) - {"tools/phasor/files.py"})
    ]
    if not commands():
        found.append(f"{COMMANDS} has no table of commands")
    return found


def summary() -> str:
    table = literals(ROOT / TABLE)
    return (
        f"{len(table['LIBRARY'])} functions, {len(table['PROGRAM'])} sources, {len(commands())} "
        f"commands, {len(table['CONVERTER'])} readers of the converter"
    )
