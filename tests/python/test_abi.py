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
