#!/usr/bin/env python3
"""The rules of the source that a compiler does not enforce, each a named check with one line of
result.

    python3 tools/check.py [--build build] [NAME…]

rooms         include directions between the folders of src/ (docs/design/architecture.md)
python-rooms  import directions between the packages of tools/, and no circle among their modules
families      a lineage of models is one module, found by being there: nothing imports it by name,
              and its name says whose it is
lines         no line of C++ or Python is longer than 100 characters
functions     no function of src/ is longer than 80 lines without a comment that says why
files         no module of tools/phasor has more than 500 lines, but tables of data; convert.py 250
arguments     no call in tools/phasor passes more than six arguments by their places
headers       the core includes nothing that allocates, prints or throws; only instruction-set
              levels see xsimd
arena         nobody goes to a part of the arena but through a view, from the session
interface     every function of include/phasor.h is in libphasor.a, and libphasor.a exports nothing
              else with C linkage
symbols       every other symbol of libphasor.a is in namespace phasor
imports       the core's objects import memcpy, memmove, memset, memcmp, each other, and nothing
              else
constructors  no static constructors in the core's objects
globals       no writable data in the core's objects, but the byte that phasor_request_amx sets
levels        no inline function is compiled for an instruction set and left where the linker may
              take it for all
recursion     no function of the core calls itself, directly or through others (gcc's call graph)
freestanding  each of the core's files compiles without a hosted C++ library
c-header      include/phasor.h compiles alone, as C99 and as C++17; phasor.hpp as C++17
rules         every rule that a comment or a page cites by number has its page
entries       every reader of foreign bytes has its fuzz target, hostile examples and faults
generated     every file and region that is made from a table is what the table says
types         mypy --strict finds nothing in tools/phasor but in modules that pyproject.toml lists
locks         every list of Python packages has its lock, with a hash for every file
paths         no path of somebody's machine in a tracked file or in the library
links         every file, heading, target, command, flag, function and promise that a page or a
              comment names is there
top-level     nothing lies at the top of the repository but what is meant to
"""

import argparse
import ast
import collections
import concurrent.futures
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from make import abi, entries, generate, links, lock, stack, strict
from phasor.entry import front_door
from phasor.errors import PhasorError

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
TOOLS = ROOT / "tools"

# A room may include itself, the leaf headers that lie in src/ itself, and these.
ROOMS = {
    "": set(),
    "format": set(),
    "kernels": set(),
    "text": set(),
    "text/chat": {"text"},
    "quantize": {"format", "kernels"},
    "model": {"format", "kernels", "text"},
    "runtime": {"format", "kernels", "text", "model"},
    "decode": {"format", "kernels", "text", "model", "runtime"},
    "api": {"format", "kernels", "text", "text/chat", "quantize", "model", "runtime", "decode"},
    "cli/host": set(),
    "cli/io": {"cli/host"},
    "cli/options": {"cli/host", "cli/io"},
    "cli/engine": {"cli/host", "cli/io", "cli/options"},
    "cli/generation": {"cli/host", "cli/io", "cli/options", "cli/engine"},
    "cli/encoding": {"cli/host", "cli/io", "cli/options", "cli/engine"},
    "cli/budget": {"cli/host", "cli/io", "cli/options", "cli/engine"},
}
PROGRAM_ROOMS = {room for room in ROOMS if room.startswith("cli/")}
ROOMS |= {"cli/commands": PROGRAM_ROOMS, "cli": {"cli/commands"} | PROGRAM_ROOMS}
TOP_LEVEL = set(
    "src include tools models tests docs examples cmake Makefile CMakeLists.txt CMakePresets.json"
    " pyproject.toml README.md LICENSE CHANGELOG.md SECURITY.md CONTRIBUTING.md .ci .github"
    " .clang-format .clang-tidy .editorconfig .pre-commit-config.yaml .gitignore".split()
)
NO_PUBLIC = {"kernels", "text", "text/chat"}  # arrays, bytes and sizes only, no status
# What the core may use: types, limits and memory; nothing that allocates, prints, throws or starts
# up.
STANDARD = {
    "array",
    "atomic",
    "cassert",
    "assert.h",
    "cfloat",
    "cfenv",
    "cinttypes",
    "climits",
    "cmath",
    "cstdarg",
    "cstddef",
    "cstdint",
    "cstring",
    "float.h",
    "limits",
    "limits.h",
    "new",
    "stddef.h",
    "stdint.h",
    "string.h",
    "type_traits",
    "utility",
}
INTRINSICS = {
    "immintrin.h",
    "arm_neon.h",
    "arm_acle.h",
    "arm_mve.h",
    "emmintrin.h",
    "xmmintrin.h",
    "wasm_simd128.h",
    "cpuid.h",
}
# Besides memcpy and friends: what a compiler puts in by itself.
IMPORTS = {"memcpy", "memmove", "memset", "memcmp"}
WEAK = {"getauxval"}  # what the processor has, where a system says it; the core links without
# What the operating system gave this process, which nothing else can be asked for without a system
# call.
REMEMBERED = ("kernels.o", ".bss._ZN6phasor12_GLOBAL__N_111tiles_givenE", 1)
COMPILER = re.compile(
    r"_GLOBAL_OFFSET_TABLE_|__stack_chk_(fail|guard)|__mem(cpy|move|set)_chk|__aeabi_\w+"
    r"|__gnu_[fd]2[hf]\w*"
    r"|__(u?div|u?mod|mul|ash|lsh)\w*[dt]i[34]"
    r"|__(float|fix)\w*|__cpu_model|__cpu_indicator_init|__tls_get_addr"
    r"|__(ubsan|asan|sanitizer)\w*|_GLOBAL_.*"
)


class Problem(Exception):
    pass


def core_files():
    return sorted(
        p
        for p in SRC.rglob("*")
        if p.suffix in (".h", ".hpp", ".cpp", ".inc") and not in_program(room_of(p))
    )


def in_program(room):
    return room.split("/")[0] == "cli"


def room_of(path):
    folders = path.relative_to(SRC).parts[:-1]
    nested = "/".join(folders[:2])
    return nested if nested in ROOMS else "".join(folders[:1])


INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def resolve(path, name):
    """The project's file behind an include, or None."""
    for base in (path.parent, SRC, ROOT / "include"):
        p = base / name
        if p.is_file():
            return p.resolve()
    return None


def problems_to(problems, what):
    if problems:
        raise Problem(
            "; ".join(problems[:8])
            + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
        )
    return what


def run(*command, **kw):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if r.returncode:
        raise Problem(
            f"{' '.join(map(str, command[:3]))} …: "
            f"{(r.stderr or r.stdout).strip().splitlines()[:3]}"
        )
    return r.stdout


def tracked_files():
    return [n for n in run("git", "-C", str(ROOT), "ls-files", "-z").split("\0") if n]


# ---- source


def check_rooms(_):
    problems, count = [], 0
    for path in sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".hpp", ".cpp", ".inc")):
        room = room_of(path)
        if room not in ROOMS:
            problems.append(f"{path.relative_to(ROOT)}: there is no room {room}")
            continue
        count += 1
        for kind, name in includes(path):
            target = resolve(path, name)
            where = path.relative_to(ROOT)
            if target is None:
                if kind == '"':
                    problems.append(f'{where} includes "{name}", which is not there')
                continue
            if target.parent == ROOT / "include":
                if room in NO_PUBLIC:
                    problems.append(f"{where} includes {name}: {room} may not know it")
                continue
            other = room_of(target)
            if in_program(room) and not in_program(other):
                problems.append(f"{where} includes {name}: the program uses only the public header")
            elif other != "" and other != room and other not in ROOMS[room]:
                problems.append(f"{where} includes {name}: {room or 'src/'} may not know {other}")
    return problems_to(problems, f"{count} files")


def check_headers(_):
    problems = []
    wraps = set()  # headers that bring xsimd in
    for path in core_files():
        for kind, name in includes(path):
            where = path.relative_to(ROOT)
            if resolve(path, name) is not None:
                continue
            if name.startswith("xsimd/"):
                if room_of(path) != "kernels":
                    problems.append(f"{where} includes {name}: only kernels may")
                wraps.add(path.resolve())
            elif name in INTRINSICS:
                if room_of(path) != "kernels":
                    problems.append(f"{where} includes <{name}>: only kernels may")
            elif name not in STANDARD:
                problems.append(
                    f"{where} includes <{name}>: not one of the headers that the core uses"
                )
    files = core_files()
    grew = True
    while grew:
        grew = False
        for path in files:
            if path.resolve() in wraps:
                continue
            for _, name in includes(path):
                if resolve(path, name) in wraps:
                    wraps.add(path.resolve())
                    grew = True
    for path in sorted(wraps):
        if path.suffix == ".cpp" and not path.name.startswith("level_"):
            problems.append(f"{path.relative_to(ROOT)} sees xsimd: only level_*.cpp may")
        if path.name == "level_scalar.cpp":
            problems.append("level_scalar.cpp sees xsimd: it is the twin without it")
    return problems_to(
        problems, f"{len(files)} files, xsimd in {sum(p.suffix == '.cpp' for p in wraps)} levels"
    )


# Of tools/: a package may import itself and these. The longest prefix of a module's name counts.
SHARED = (
    "phasor.errors phasor.mistaken phasor.scratch".split()
    + "phasor.files phasor.values phasor.start phasor.entry phasor.arguments".split()
    + "phasor.positions phasor.ignored phasor.side_files".split()
)
PYTHON_ROOMS = {
    **{module: set(SHARED) for module in SHARED},
    "phasor.format": {*SHARED},
    "phasor.tokenizers": {*SHARED, "phasor.format"},
    "phasor.chat": {*SHARED, "phasor.format"},
    "phasor.reference": {*SHARED, "phasor.format"},
    "phasor.checkpoints": {*SHARED, "phasor.format"},
    "phasor.runtime": {*SHARED},
    "phasor.serve": {*SHARED, "phasor.runtime"},
    "phasor.families": {
        *SHARED,
        "phasor.format",
        "phasor.tokenizers",
        "phasor.reference",
        "phasor.checkpoints",
    },
    "phasor.sources": {
        *SHARED,
        "phasor.format",
        "phasor.tokenizers",
        "phasor.chat",
        "phasor.reference",
        "phasor.checkpoints",
        "phasor.families",
    },
    "phasor": {"phasor"},
    "train": {"phasor"},
    "bench": {"phasor"},
    "make": {"phasor"},
    "": {"phasor", "train", "bench", "make"},
}


def prefix_of(module, names):
    """The longest of `names` that `module` is, or is in."""
    return max((n for n in names if not n or f"{module}.".startswith(f"{n}.")), key=len)


def imports_of(path, modules):
    """The modules of tools/ that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(TOOLS).parent.parts
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            names = [
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                for alias in node.names
            ]
        else:
            continue
        found.update(name for name in names if name in modules)
    return found


def check_python_rooms(_):
    files = {}
    for path in sorted(TOOLS.rglob("*.py")):
        parts = path.relative_to(TOOLS).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    edges = {module: imports_of(path, files) - {module} for module, path in files.items()}
    problems = []
    for module, others in edges.items():
        room = prefix_of(module, PYTHON_ROOMS)
        for other in sorted(others):
            allowed = {room} | PYTHON_ROOMS[room] if room else PYTHON_ROOMS[room]
            if not any(f"{other}.".startswith(f"{name}.") for name in allowed if name):
                problems.append(f"{module} imports {other}: {room or 'tools'} may not know it")
    done = set()
    while True:  # takes away what imports nothing that is left; a circle stays
        free = {m for m in edges if m not in done and edges[m] <= done}
        if not free:
            break
        done |= free
    if circle := sorted(set(edges) - done):
        problems.append(f"a circle among or above {', '.join(circle[:6])}")
    return problems_to(problems, f"{len(files)} modules")


# Packages of families, with a module for each lineage. A name says whose it is, and not when it was
# written.
LINEAGES = ("decoders", "encoders", "encoder_decoders")
NO_LINEAGE = re.compile(r"(^|_)(more|newer|older|others?|misc|rest)(_|$)")


def check_families(_):
    modules = {}
    for path in sorted((TOOLS / "phasor").rglob("*.py")):
        parts = path.relative_to(TOOLS).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    packages = [f"phasor.families.{name}" for name in LINEAGES]
    lineages = {name for name in modules if name.rpartition(".")[0] in packages}
    problems = [f"no module of {p}" for p in packages if not any(n.startswith(p) for n in lineages)]
    for name, path in modules.items():
        named = sorted(imports_of(path, modules) & lineages - {name})
        problems += [f"{name} imports {other}: a lineage is found, not named" for other in named]
        if name.startswith("phasor.families.") and NO_LINEAGE.search(name.rpartition(".")[2]):
            problems.append(f"{name}: a name that says when it was written, not what is in it")
    finds = re.compile(r"^FAMILIES = found\(__name__, __path__\)$", re.M)
    for name in packages:
        if not finds.search(modules[name].read_text(encoding="utf-8")):
            problems.append(f"{name} does not find its modules")
    return problems_to(problems, f"{len(lineages)} lineages")


LONGEST_LINE = 100
SOURCES = (".c", ".h", ".cpp", ".hpp", ".inc", ".py")


def check_lines(_):
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if path.suffix not in SOURCES or not path.is_file():
            continue
        count += 1
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LONGEST_LINE:
                problems.append(f"{name}:{i} has {len(line)} characters")
    return problems_to(problems, f"{count} files")


LONGEST_FUNCTION = 80
CPP_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ ]*\#(?:\\\n|[^\n])*"""
    r"""|\w+|[^\s\w]|\n""",
    re.S | re.M,
)
NO_FUNCTION = {"namespace", "struct", "class", "enum", "union", "extern", "="}
NO_FUNCTION |= {"if", "for", "while", "switch", "do", "else"}


def functions(text):
    """(first line, lines) of each function's definition: a block behind a list of parameters."""
    line, head, head_line, blocks = 1, [], 1, []
    for match in CPP_TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            outside = all(kind == "scope" for kind, _ in blocks)
            opens = {"namespace", "struct", "class", "union", "extern"} & set(head)
            is_function = ")" in head and not NO_FUNCTION & set(head)
            kind = "scope" if opens and "(" not in head else "function" if is_function else "block"
            blocks.append((kind if outside else "block", head_line))
            head = []
        elif token == "}":
            if blocks:
                kind, first = blocks.pop()
                if kind == "function":
                    yield first, line - first + 1
            head = []
        elif token == ";":
            head = []
        elif not token.isspace() and not token.startswith(("//", "/*", "#")):
            if not head:
                head_line = line
            head.append(token)
        line += token.count("\n")


def check_functions(_):
    problems, count = [], 0
    for path in sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".hpp", ".cpp")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for first, length in functions(text):
            count += 1
            above = itertools.takewhile(
                lambda s: s.lstrip().startswith("//"), reversed(lines[: first - 1])
            )
            if length > LONGEST_FUNCTION and not any("in one piece" in s.lower() for s in above):
                problems.append(f"{path.relative_to(ROOT)}:{first} has {length} lines")
    return problems_to(problems, f"{count} functions")


MOST_LINES, MOST_ARGUMENTS = 500, 6
FRONT_DOOR = {"convert.py": 250}  # what it knows of a source goes to the source
# Tables of data, whose rows may be calls.
TABLES = {"format/roles.py", "tokenizers/unicode.py", "tokenizers/patterns/unicode.py"}
TABLES |= {"runtime/_interface.py"}


def converter_modules():
    """(name, text) of each module of tools/phasor that is no table."""
    for path in sorted((TOOLS / "phasor").rglob("*.py")):
        name = path.relative_to(TOOLS / "phasor").as_posix()
        if name not in TABLES:
            yield name, path.read_text(encoding="utf-8")


def check_files(_):
    found = {name: text.count("\n") for name, text in converter_modules()}
    problems = [
        f"{name} has {n} lines" for name, n in found.items() if n > FRONT_DOOR.get(name, MOST_LINES)
    ]
    return problems_to(problems, f"{len(found)} modules")


def check_arguments(_):
    trees = {name: ast.parse(text) for name, text in converter_modules()}
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    # These take any number of arguments.
    functions = [node for _, node in nodes if isinstance(node, ast.FunctionDef)]
    many = {function.name for function in functions if function.args.vararg}
    many |= {"struct.pack", "struct.pack_into"}
    calls = [(name, node) for name, node in nodes if isinstance(node, ast.Call)]
    problems = [
        f"{name}:{node.lineno} passes {len(node.args)}: name those behind the sixth"
        for name, node in calls
        if len(node.args) > MOST_ARGUMENTS
        and ast.unparse(node.func) not in many
        and not any(isinstance(given, ast.Starred) for given in node.args)
    ]
    return problems_to(problems, f"{len(calls)} calls")


# Whose business the places of an arena's parts are.
PLACES = {"runtime/session.h", "runtime/plan.h", "runtime/plan.cpp", "runtime/zones.cpp"}


def check_arena(_):
    place = re.compile(r"\bplan\s*(\.|->)\s*offset\b|\bp_?\.offset\b|\.offset\s*\[|\bpart\s*<")
    problems = []
    files = [
        p
        for p in core_files()
        if p.relative_to(SRC).as_posix() not in PLACES
        and room_of(p) in ("runtime", "decode", "api")
    ]
    for path in files:
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if place.search(line):
                problems.append(f"{path.relative_to(ROOT)}:{i} goes to a part without a view")
    return problems_to(problems, f"{len(files)} files")


# ---- objects


def library(args):
    path = ROOT / args.build / "libphasor.a"
    if not path.is_file():
        raise Problem(f"{path.relative_to(ROOT)} is not there: make")
    return path


def symbols(args):
    """(member, kind, name) of every symbol in the library."""
    out, member = [], ""
    for line in run(args.nm, library(args)).splitlines():
        if line.endswith(":") and " " not in line:
            member = line[:-1]
        elif line.strip():
            kind, name = line.split()[-2:]
            out.append((member, kind, name))
    if not out:
        raise Problem("the library has no symbols")
    return out


def demangle(names):
    names = list(names)
    out = run("c++filt", input="\n".join(names)).splitlines() if names else []
    return dict(zip(names, out))


def check_interface(args):
    text = (ROOT / "include/phasor.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    declared = {
        m for m in re.findall(r"\b(phasor_\w+)\s*\([^;{]*\)(?:\s+PHASOR_NONBLOCKING)?\s*;", text)
    }
    defined = {n for _, k, n in symbols(args) if k in "TDBRVWu" and not n.startswith("_Z")}
    problems = [f"{n} is declared but not in the library" for n in sorted(declared - defined)]
    problems += [f"{n} is exported but not in phasor.h" for n in sorted(defined - declared)]
    return problems_to(problems, f"{len(declared)} functions")


def check_abi(args):
    problems, count = abi.check(args.cc)
    return problems_to(problems, f"{count} functions and structs as recorded")


def check_symbols(args):
    names = {n for _, k, n in symbols(args) if k in "TDBRVWuG" and n.startswith("_Z")}
    plain = demangle(names)
    ok = re.compile(
        r"^((vtable|typeinfo|typeinfo name|guard variable|VTT) for )?(?:[\w:<>*& ]+ )?phasor::"
    )
    problems = [plain[n] for n in sorted(names) if not ok.match(plain[n])]
    return problems_to(problems, f"{len(names)} symbols in namespace phasor")


def check_imports(args):
    all_symbols = symbols(args)
    defined = {n for _, k, n in all_symbols if k not in "Uwv"}
    wanted = sorted({(m, n) for m, k, n in all_symbols if k in "Uwv" and n not in defined})
    weak = {n for _, k, n in all_symbols if k in "wv"}
    problems = [
        f"{m} imports {n}"
        for m, n in wanted
        if n not in IMPORTS and not (n in WEAK and n in weak) and not COMPILER.fullmatch(n)
    ]
    return problems_to(problems, ", ".join(sorted({n for _, n in wanted})) or "none")


def sections(args):
    member = ""
    for line in run("readelf", "-SW", library(args)).splitlines():
        if line.startswith("File: "):
            member = line.rsplit("(", 1)[-1].rstrip(")")
        m = re.match(
            r"\s*\[ *\d+\] (\S+)\s+(\S+)\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) \S+\s+(\S*)", line
        )
        if m:
            yield member, m[1], int(m[3], 16), m[4]


def check_constructors(args):
    problems = [
        f"{m} has {s}"
        for m, s, size, _ in sections(args)
        if size and re.match(r"\.(init_array|ctors|preinit_array|fini_array|dtors)", s)
    ]
    return problems_to(problems, "none")


def check_globals(args):
    problems = [
        f"{m} has {size} bytes of {s}"
        for m, s, size, flags in sections(args)
        if size
        and re.match(r"\.(data|bss|tdata|tbss)(\.|$)", s)
        and not s.startswith(".data.rel.ro")
        and (m, s, size) != REMEMBERED
    ]
    kept = any((m, s, size) == REMEMBERED for m, s, size, _ in sections(args))
    return problems_to(problems, "one byte of kernels.o" if kept else "none")


def check_levels(args):
    found = [(m, n) for m, k, n in symbols(args) if m.startswith("level_") and k in "WVu"]
    plain = demangle({n for _, n in found})
    members = {m for m, _, _ in symbols(args) if m.startswith("level_")}
    return problems_to([f"{m} has {plain[n]}" for m, n in found], f"{len(members)} levels")


def compile_all(commands):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = pool.map(
            lambda c: (
                c,
                subprocess.run(
                    c,
                    stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    env={**os.environ, "CCACHE_DISABLE": "1"},  # a cached object has no call graph
                ),
            ),
            commands,
        )

    def first(text):
        lines = text.strip().splitlines() or ["?"]
        return next((line for line in lines if "error:" in line), lines[0])

    return [f"{Path(c[-1]).name}: {first(r.stderr)}" for c, r in results if r.returncode]


def portable_files():
    return [
        p
        for p in core_files()
        if p.suffix == ".cpp" and (not p.name.startswith("level_") or p.name == "level_scalar.cpp")
    ]


def check_recursion(_):
    if not shutil.which("g++"):
        return "skipped: needs g++"
    calls = collections.defaultdict(set)
    with tempfile.TemporaryDirectory() as d:
        commands = []
        for i, p in enumerate(portable_files()):
            commands.append(
                [
                    "g++",
                    "-std=c++17",
                    "-O1",
                    "-fno-exceptions",
                    "-fno-rtti",
                    "-DPHASOR_SCALAR_ONLY",
                    "-fcallgraph-info",
                    f"-I{ROOT}/include",
                    "-o",
                    f"{d}/{i}.o",
                    "-c",
                    str(p),
                ]
            )
        problems_to(compile_all(commands), "")
        graphs = list(Path(d).glob("*.ci"))
        if len(graphs) != len(commands):
            raise Problem(f"{len(graphs)} call graphs of {len(commands)} files")
        for ci in graphs:
            for a, b in stack.EDGE.findall(ci.read_text()):
                calls[a].add(b)
    # Functions with internal linkage are "file:name": unique. A cycle is a function that reaches
    # itself.
    problems = [
        demangle([start.rsplit(":", 1)[-1]]).popitem()[1]
        for start in sorted(calls)
        if start in stack.reachable(start, calls)
    ]
    return problems_to(problems, f"{len(calls)} callers; calls through pointers are not seen")


def check_freestanding(args):
    files = portable_files()
    commands = [
        [
            args.cxx,
            "-std=c++17",
            "-ffreestanding",
            "-fno-exceptions",
            "-fno-rtti",
            "-fsyntax-only",
            "-DPHASOR_SCALAR_ONLY",
            f"-I{ROOT}/include",
            str(p.relative_to(ROOT)),
        ]
        for p in files
    ]
    os.chdir(ROOT)
    return problems_to(compile_all(commands), f"{len(files)} files")


def check_c_header(args):
    with tempfile.TemporaryDirectory() as d:
        c = Path(d) / "header.c"
        c.write_text("#include <phasor.h>\n")
        strict = [
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Wconversion",
            "-Wshadow",
            "-Werror",
            "-fsyntax-only",
            f"-I{ROOT}/include",
        ]
        commands = [
            [args.cc, "-std=c99", "-Wstrict-prototypes", *strict, str(c)],
            [args.cxx, "-x", "c++", "-std=c++17", *strict, str(c)],
        ]
        if (ROOT / "include/phasor.hpp").is_file():
            h = Path(d) / "header.cpp"
            h.write_text("#include <phasor.hpp>\n")
            commands.append([args.cxx, "-std=c++17", *strict, str(h)])
        return problems_to(compile_all(commands), f"{len(commands)} compilations")


# "rule 1.6", "rules 1.1, 1.6 and 1.9"; in the kernels the numbers alone, in brackets.
CITATION = re.compile(r"\brules?\s+((?:\d\.\d+)(?:(?:, | and | to |, and )\d\.\d+)*)", re.I)
BRACKETS = re.compile(r"\((1\.\d+(?:, 1\.\d+)*)\)")


def check_rules(_):
    known = set()
    for page in ("docs/reference/numerics.md", "docs/reference/file-format.md", "include/phasor.h"):
        text = (ROOT / page).read_text(encoding="utf-8")
        known |= set(re.findall(r"^(?:### | \* *|- \*\*)(\d\.\d+)[\s*]", text, re.M))
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if (
            path.suffix not in (".h", ".hpp", ".cpp", ".c", ".py", ".md", ".mk", ".inc", "")
            or not path.is_file()
        ):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        cited = CITATION.findall(text) + (
            BRACKETS.findall(text) if name.startswith("src/kernels/") else []
        )
        for number in re.findall(r"\d\.\d+", " ".join(cited)):
            count += 1
            if number not in known:
                problems.append(f"{name} cites rule {number}, which no page has")
    return problems_to(problems, f"{count} citations of {len(known)} rules")


def check_entries(_):
    return problems_to(entries.problems(), entries.summary())


def check_generated(args):
    problems, count = generate.stale(ROOT / args.build)
    return problems_to(problems, f"{count} files")


def check_locks(_):
    return problems_to(lock.check(), f"{len(lock.lists())} lists")


def check_types(args):
    try:
        found, loose = strict.problems(ROOT / args.build)
    except PhasorError as error:
        raise Problem(str(error)) from error
    count = sum(1 for _ in (TOOLS / "phasor").rglob("*.py"))
    return problems_to(found, f"{count} modules, {loose} not strict yet")


def check_paths(args):
    somewhere = re.compile(
        ("/(?:ho" + "me|ro" + "ot|wo" + "rk|Us" + "ers|mnt|build" + "s)/[A-Za-z0-9_.-]").encode()
    )
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if not path.is_file() or path.suffix == ".phasor":
            continue
        count += 1
        data = path.read_bytes()
        if b"\0" in data[:8000]:
            continue
        for i, line in enumerate(data.split(b"\n"), 1):
            if somewhere.search(line):
                problems.append(f"{name}:{i}")
    if str(ROOT).encode() in library(args).read_bytes():
        problems.append("libphasor.a holds the path of its source")
    return problems_to(problems, f"{count} files")


def check_links(args):
    program = ROOT / args.build / "phasor"
    if not program.is_file():
        raise Problem(f"{program.relative_to(ROOT)} is not there: make")
    found, count = links.problems(ROOT, tracked_files(), links.helps(program))
    return problems_to(found, f"{count} names")


def check_top_level(_):
    found = {name.split("/")[0] for name in tracked_files()}
    return problems_to(sorted(found - TOP_LEVEL), f"{len(found)} of {len(TOP_LEVEL)} names")


CHECKS = {
    name[6:].replace("_", "-"): f
    for name, f in list(globals().items())
    if name.startswith("check_")
}


@front_door("check")
def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default="build")
    parser.add_argument("--nm", default=os.environ.get("NM", "nm"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    for name in args.names:
        if name not in CHECKS:
            parser.error(f"no check {name}: {' '.join(CHECKS)}")
    passed = failed = 0
    for name in args.names or CHECKS:
        try:
            line = f"ok    {CHECKS[name](args)}"
            passed += 1
        except Problem as problem:
            line = f"FAIL  {problem}"
            failed += 1
        print(f"{name:13} {line}", flush=True)
    print(f"check: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
