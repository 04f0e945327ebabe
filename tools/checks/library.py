"""What is in libphasor.a: its symbols, and the sections of its objects."""

import re

from checks.common import ROOT, Problem, problems_to, run
from make import abi

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
    """Every function of include/phasor.h is in libphasor.a, and libphasor.a exports nothing else
    with C linkage.
    """
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
    """The functions and structs of include/phasor.h are as src/facts/abi.toml recorded them."""
    problems, count = abi.check(args.cc)
    return problems_to(problems, f"{count} functions and structs as recorded")


def check_symbols(args):
    """Every other symbol of libphasor.a is in namespace phasor."""
    names = {n for _, k, n in symbols(args) if k in "TDBRVWuG" and n.startswith("_Z")}
    plain = demangle(names)
    ok = re.compile(
        r"^((vtable|typeinfo|typeinfo name|guard variable|VTT) for )?(?:[\w:<>*& ]+ )?phasor::"
    )
    problems = [plain[n] for n in sorted(names) if not ok.match(plain[n])]
    return problems_to(problems, f"{len(names)} symbols in namespace phasor")


def check_imports(args):
    """The core's objects import memcpy, memmove, memset, memcmp, each other, and nothing else."""
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
    """No static constructors in the core's objects."""
    problems = [
        f"{m} has {s}"
        for m, s, size, _ in sections(args)
        if size and re.match(r"\.(init_array|ctors|preinit_array|fini_array|dtors)", s)
    ]
    return problems_to(problems, "none")


def check_globals(args):
    """No writable data in the core's objects, but the byte that phasor_request_amx sets."""
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
    """No inline function is compiled for an instruction set and left where the linker may take it
    for all.
    """
    found = [(m, n) for m, k, n in symbols(args) if m.startswith("level_") and k in "WVu"]
    plain = demangle({n for _, n in found})
    members = {m for m, _, _ in symbols(args) if m.startswith("level_")}
    return problems_to([f"{m} has {plain[n]}" for m, n in found], f"{len(members)} levels")
