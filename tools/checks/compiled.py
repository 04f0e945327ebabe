"""What a compiler says of the sources: no function calls itself, the core compiles without a hosted
library, the headers compile alone."""

import collections
import concurrent.futures
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from checks.common import ROOT, Problem, problems_to
from checks.library import demangle
from checks.rooms import portable_files
from make import stack

# How the core is compiled here: the scalar level alone, which needs no other library.
CORE = "-std=c++17 -fno-exceptions -fno-rtti -DPHASOR_SCALAR_ONLY".split() + [f"-I{ROOT}/include"]
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only".split()


def compile_all(commands):
    """Runs compilers side by side, the source last in each command; what is wrong with each."""

    def ran(command):
        quiet = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        # an object from a cache has no call graph
        return subprocess.run(command, env={**os.environ, "CCACHE_DISABLE": "1"}, **quiet)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(zip(commands, pool.map(ran, commands)))

    def first(text):
        lines = text.strip().splitlines() or ["?"]
        return next((line for line in lines if "error:" in line), lines[0])

    return [f"{Path(c[-1]).name}: {first(r.stderr)}" for c, r in results if r.returncode]


def check_recursion(_):
    """No function of the core calls itself, directly or through others (gcc's call graph)."""
    if not shutil.which("g++"):
        return "skipped: needs g++"
    calls = collections.defaultdict(set)
    with tempfile.TemporaryDirectory() as d:
        commands = [
            ["g++", *CORE, "-O1", "-fcallgraph-info", "-o", f"{d}/{i}.o", "-c", str(p)]
            for i, p in enumerate(portable_files())
        ]
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
    """Each of the core's files compiles without a hosted C++ library."""
    files = portable_files()
    commands = [
        [args.cxx, *CORE, "-ffreestanding", "-fsyntax-only", str(p.relative_to(ROOT))]
        for p in files
    ]
    os.chdir(ROOT)
    return problems_to(compile_all(commands), f"{len(files)} files")


def check_c_header(args):
    """The headers compile alone: phasor.h as C99 and as C++17, phasor.hpp as C++17."""
    with tempfile.TemporaryDirectory() as d:
        c, cpp = Path(d) / "header.c", Path(d) / "header.cpp"
        c.write_text("#include <phasor.h>\n")
        cpp.write_text("#include <phasor.hpp>\n")
        strict = [*WARNINGS, f"-I{ROOT}/include"]
        commands = [
            [args.cc, "-std=c99", "-Wstrict-prototypes", *strict, str(c)],
            [args.cxx, "-x", "c++", "-std=c++17", *strict, str(c)],
            [args.cxx, "-std=c++17", *strict, str(cpp)],
        ]
        return problems_to(compile_all(commands), f"{len(commands)} compilations")
