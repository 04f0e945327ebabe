"""What programs compiled with phasor.h rely on: the record, and a program of today with the shared
library of a later release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from make import abi
from places import ROOT

HEADER = (ROOT / "include/phasor.h").read_text(encoding="utf-8")
RECORD: abi.Record = {
    "functions": {"phasor_a": ["0.2", "int (void)"]},
    "structs": {
        "phasor_s": [8, [["struct_size", 0, 4], ["b", 4, 4]]],
        "phasor_t": [4, [["a", 0, 4]]],
    },
    "constants": {"PHASOR_X": 1},
}


def test_the_order_of_the_header_says_nothing():
    marks = re.findall(r"^/\* =+ (\d\. \w+) =*.*\*/$", HEADER, re.M)
    parts = re.split(r"^(?=/\* =+ \d\. )", HEADER, flags=re.M)
    assert len(parts) == len(marks) + 1 == 4
    names, turned = abi.names_of(HEADER), abi.names_of("".join(parts[i] for i in (0, 2, 1, 3)))
    assert turned._replace(constants=names.constants) == names
    assert sorted(turned.constants) == sorted(names.constants)
    assert len(names.functions) + len(names.experimental) == len(
        set(re.findall(r"\b(phasor_\w+)\((?!\*)[^;{}]*\)(?:\s+PHASOR_NONBLOCKING)?;", HEADER))
    )
    assert "phasor_request_amx" in names.experimental


@pytest.mark.parametrize(
    "kind, name, value, added, broken",
    [
        ("functions", "phasor_b", ["0.3", "int (int)"], "phasor_b is not recorded", None),
        ("functions", "phasor_a", ["0.2", "int (int)"], None, "phasor_a was int (void)"),
        ("functions", "phasor_a", None, None, "phasor_a is gone"),
        ("constants", "PHASOR_X", 2, None, "PHASOR_X was 1, is 2"),
        ("structs", "phasor_u", [4, [["a", 0, 4]]], "phasor_u is not recorded", None),
        (
            "structs",
            "phasor_s",
            [16, [["struct_size", 0, 4], ["b", 4, 4], ["c", 8, 8]]],
            "phasor_s has c",
            None,
        ),
        # In front of another field, in what was padding, and in a struct that cannot grow.
        ("structs", "phasor_s", [12, [["struct_size", 0, 4], ["c", 4, 4], ["b", 8, 4]]], None, "b"),
        ("structs", "phasor_t", [8, [["a", 0, 4], ["c", 4, 4]]], None, "phasor_t"),
        ("structs", "phasor_s", [8, [["struct_size", 0, 4], ["b", 4, 2]]], None, "phasor_s: b"),
    ],
)
def test_what_may_be_added_and_what_breaks_programs(kind, name, value, added, broken):
    new = {k: dict(v) for k, v in RECORD.items()}
    new[kind][name] = value
    if value is None:
        del new[kind][name]
    found = abi.changes(RECORD, new)
    assert [len(f) for f in found] == [int(added is not None), int(broken is not None)]
    assert (added or broken) in " ".join(found[0] + found[1])


def test_a_function_keeps_the_release_in_which_it_came():
    new = {k: dict(v) for k, v in RECORD.items()}
    new["functions"] = {"phasor_a": ["0.3", "int (void)"], "phasor_b": ["0.3", "int (void)"]}
    assert [row[0] for row in abi.merged(RECORD, new)["functions"].values()] == ["0.2", "0.3"]


# ---- the layer for C++

LAYER = re.sub(r"//[^\n]*", "", (ROOT / "include/phasor.hpp").read_text(encoding="utf-8"))
# The functions of the C interface that C++ has otherwise: none.
OTHERWISE: dict[str, str] = {}
CALLED = (ROOT / "tests/cpp/test_cpp_header.cpp").read_text(encoding="utf-8")


def test_the_layer_for_cpp_has_every_function_and_struct():
    names = abi.names_of(HEADER)
    wanted = {*names.functions, *names.experimental} - set(OTHERWISE)
    assert len(wanted) > 60
    assert {name for name in wanted if not re.search(rf"\b{name}\(", LAYER)} == set()
    macros = set(re.findall(r"#define (PHASOR_\w+_INIT) ", HEADER))
    assert len(macros) > 20
    # What C++ has to call is in the layer too: a struct that Phasor fills itself has no macro.
    assert {name for name in macros if not re.search(rf"\b{name}\b", LAYER)} == set()


def test_every_function_of_the_layer_is_called_by_a_test():
    """The tests of tests/cpp/test_cpp_header.cpp are an example of each."""
    found = re.findall(
        r"^  (?:static |inline )?[\w:<>* ]+?[ *](\w+)\([^;]*?\)(?: const)? \{", LAYER, re.M
    )
    found += re.findall(r"^inline [\w:<>* ]+?[ *](\w+)\(", LAYER, re.M)
    plain = {name for name in found if re.fullmatch("[a-z][a-z_]*[a-z]", name)}
    methods = plain - {
        "what",
        "begin",
        "end",
        "data",
        "size",
        "handle",
        "done",
        "result",
        "error",
        "bool",
    }
    assert len(methods) > 60
    missing = {name for name in methods if not re.search(rf"(?:\.|->|::){name}\(", CALLED)}
    assert missing == set()


GUIDE = (ROOT / "docs/guide/c-and-cpp.md").read_text(encoding="utf-8")
BEGIN = """
#include <phasor.%s>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "file.h"

int main(void) {
"""
FILE = """
static void* aligned(size_t bytes) {
  char* p = (char*)malloc(bytes + PHASOR_ALIGN);
  return p + PHASOR_ALIGN - (uintptr_t)p % PHASOR_ALIGN;
}
static size_t file_bytes;
static void* read_file(void) {
  FILE* f = fopen("MODEL", "rb");
  fseek(f, 0, SEEK_END);
  file_bytes = (size_t)ftell(f);
  rewind(f);
  void* out = aligned(file_bytes);
  return fread(out, 1, file_bytes, f) == file_bytes ? (fclose(f), out) : NULL;
}
static void report(const char* text) { puts(text); }
"""


@pytest.mark.parametrize(
    "language, flags",
    [
        ("c", ["cc", "-xc", "-std=c99"]),
        ("cpp", ["c++", "-xc++", "-std=c++17"]),
    ],
)
def test_the_blocks_of_the_guide_are_one_program(tmp_path, language, flags):
    """All of a language, one after the other, behind variables that a reader has too."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)
    assert len(blocks) >= 3
    model = str(ROOT / "tests/golden/models/tiny-d2l-f32.phasor")
    (tmp_path / "file.h").write_text(FILE.replace("MODEL", model), encoding="utf-8")
    given = BEGIN % {"c": "h", "cpp": "hpp"}[language]
    given += "  void* file = read_file();\n"
    source = given + "".join(blocks) + '  puts("done");\n  return 0;\n}\n'
    (tmp_path / "guide.c").write_text(source, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror", f"-I{ROOT}/include"]
    program = tmp_path / "guide"
    library = ["-xnone", ROOT / "build/libphasor.a"]
    run(*flags, *strict, tmp_path / "guide.c", *library, "-o", program)
    expected = run(ROOT / "build/phasor", "run", model, "source7", "-n", 1, "--quiet").strip()
    assert expected and run(program).splitlines() == [expected, "done"]


def test_the_commands_of_the_guide(tmp_path):
    """Those that build are what built the tree; test_cmake.py runs those of CMake."""
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", GUIDE, re.M | re.S))
    commands, cmake = re.sub(r"^(?:cmake .*|build/cmake/.*)\n", "", commands, flags=re.M), commands
    assert "cmake -B build/cmake -S examples/cmake && cmake --build build/cmake" in cmake
    shutil.copy(ROOT / "examples/c/translate.c", tmp_path / "yours.c")
    for old, new in {
        "make  ": "make -o build/flags -o build/flags.cli ",
        "make install": "make -o build/flags -o build/flags.cli install",
        "/opt/phasor": f"{tmp_path}/installed",
        "cc -std=c99 yours.c": f"cc -std=c99 {tmp_path}/yours.c -o {tmp_path}/yours",
        "build/translate": f"{tmp_path}/translate",
    }.items():
        assert old in commands
        commands = commands.replace(old, new)
    said = run("bash", "-ec", commands)
    assert "I have a cat." in said
    model = ROOT / "models/zh-en.phasor"
    assert run(tmp_path / "yours", model, "我有一只猫。") == "I have a cat.\n"


@pytest.mark.parametrize("more", [[], ["-fno-exceptions", "-fno-rtti"]])
def test_the_example_for_cpp(tmp_path, more):
    program, library = tmp_path / "translate", ROOT / "build/libphasor.a"
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", *more]
    run("c++", *strict, ROOT / "examples/cpp/translate.cpp", library, "-o", program)
    model = ROOT / "tests/golden/models/tiny-d2l-f32.phasor"
    expected = run(ROOT / "build/c-translate", model, "source7 source11")
    assert run(program, model, "source7 source11") == expected != "\n"
    assert "cannot be read" in run(program, ROOT / "absent", "a", good=False)
    assert "not a .phasor file" in run(program, ROOT / "README.md", "a", good=False)


def run(*command, good: bool = True, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    made = subprocess.run(
        [str(c) for c in command],
        cwd=ROOT,
        env=clean | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )
    assert (made.returncode == 0) == good, f"{command}\n{made.stdout[-4000:]}"
    return made.stdout


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def later(tree: Path) -> Path:
    """The library of a later release: one function and one field of a result more."""
    for name in ("include", "src", "cmake", "tools"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Makefile", tree)
    header = tree / "include/phasor.h"
    minor = re.search(r"#define PHASOR_VERSION_MINOR (\d+)", HEADER)
    replaced(header, minor[0], f"#define PHASOR_VERSION_MINOR {int(minor[1]) + 1}")
    replaced(header, "} phasor_generation;", "  uint64_t later;\n} phasor_generation;")
    version = "uint32_t phasor_version(void);"
    replaced(header, version, f"{version}\nint phasor_later(void);")
    with (tree / "src/api/model.cpp").open("a", encoding="utf-8") as f:
        f.write("int phasor_later(void) { return 1; }\n")
    with (tree / "src/structs.h").open("a", encoding="utf-8") as f:
        f.write("namespace phasor {\ntemplate <>\n")
        f.write("constexpr size_t kFirstSize<phasor_generation> = ")
        f.write("offsetof(phasor_generation, later);\n}\n")
    python = f"import sys\nsys.path.insert(0, '{tree}/tools')\nfrom make import abi\n"
    python += "sys.argv = ['abi', '--write']\nabi.main()\nfrom make.facts import abi as made\n"
    python += f"for f in made.outputs(None): open('{tree}/' + f.path, 'w').write(f.text)\n"
    run("python3", "-c", python)
    run("make", "-C", tree, f"-j{os.cpu_count()}", "config=scalar", "EXTRA_CXXFLAGS=-O1", "shared")
    return tree / "build/scalar"


@pytest.mark.long
def test_a_program_of_today_runs_with_a_later_library(tmp_path):
    run("make", "-o", "build/flags", "shared")  # with the flags that the tree was built with
    program = tmp_path / "old-caller"
    flags = [f"-I{ROOT}/tests/old_caller", f"-L{ROOT}/build", "-lphasor"]
    run("cc", "-std=c99", ROOT / "tests/old_caller/old_caller.c", "-o", program, *flags)
    models = [ROOT / f"tests/golden/models/tiny-{n}-f32.phasor" for n in ("d2l", "bert", "chat")]
    said = run(program, *models, LD_LIBRARY_PATH=str(ROOT / "build"))

    folder = later(tmp_path / "later")
    names = run("nm", "-D", "--defined-only", folder / "libphasor.so.0")
    assert re.search(r"phasor_later@@PHASOR_0\.\d+\n", names)
    assert re.search(r"phasor_version@@PHASOR_0\.2\n", names)
    assert re.search(r"phasor_request_amx\n", names)
    assert run(program, *models, LD_LIBRARY_PATH=str(folder)) == said

    # A library of an earlier release does not run it.
    (tmp_path / "x.c").write_text("int phasor_x;\n", encoding="utf-8")
    (tmp_path / "x.map").write_text("PHASOR_0.1 { global: phasor_x; };\n", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    made = ["-shared", "-Wl,-soname,libphasor.so.0", f"-Wl,--version-script={tmp_path}/x.map"]
    run("cc", *made, "-o", other / "libphasor.so.0", tmp_path / "x.c")
    refused = run(program, *models, good=False, LD_LIBRARY_PATH=str(other))
    assert "version `PHASOR_0.2' not found" in refused
