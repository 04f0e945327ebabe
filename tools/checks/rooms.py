"""Who may know whom: the rooms of src/, the packages of tools/, and the headers, parts of the arena
and lineages that only some may name."""

import ast
import re

from checks.common import ROOT, SRC, TOOLS, cpp_files, modules_of, problems_to

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


def in_program(room):
    return room.split("/")[0] == "cli"


def room_of(path):
    folders = path.relative_to(SRC).parts[:-1]
    nested = "/".join(folders[:2])
    return nested if nested in ROOMS else "".join(folders[:1])


def core_files():
    """The C++ files of all rooms but the program's."""
    return [p for p in cpp_files() if not in_program(room_of(p))]


def portable_files():
    """The core's units without the levels, but with the scalar one."""
    return [
        p
        for p in core_files()
        if p.suffix == ".cpp" and (not p.name.startswith("level_") or p.name == "level_scalar.cpp")
    ]


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


def check_rooms(_):
    """Include directions between the folders of src/ (docs/design/architecture.md)."""
    problems, count = [], 0
    for path in cpp_files():
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
    """The core includes nothing that allocates, prints or throws; only instruction-set levels see
    xsimd.
    """
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
    "checks": {"phasor", "make"},
    "": {"phasor", "train", "bench", "make", "checks"},
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
    """Import directions between the packages of tools/, and no circle among their modules."""
    files = modules_of(TOOLS)
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
    """A lineage of models is one module, found by being there: nothing imports it by name, and its
    name says whose it is.
    """
    modules = modules_of(TOOLS / "phasor")
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


# Whose business the places of an arena's parts are.
PLACES = {"runtime/session.h", "runtime/plan.h", "runtime/plan.cpp", "runtime/zones.cpp"}


def check_arena(_):
    """Nobody goes to a part of the arena but through a view, from the session."""
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
