"""What a release says of itself: one version everywhere, notes that fit, and an interface that old
programs can use."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from make import entries, sbom
from places import ROOT

HEADER = ROOT / "include/phasor.h"
OLD_HEADER = ROOT / "tests/old_caller/phasor.h"


def version(header: Path) -> str:
    return sbom.version_of(header, "phasor")


def test_the_version_is_the_same_everywhere(phasor: Path) -> None:
    said = subprocess.run([phasor, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"phasor {version(HEADER)},")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == version(HEADER)
    notes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\d\S*)$", notes, re.M)[0] == version(HEADER)
    # No source states the number a second time.
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".h", ".cpp"):
            assert f'"{version(HEADER)}"' not in path.read_text(encoding="utf-8"), path


def test_the_release_notes_are_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_bytes()) <= 8 * 1024


def declared(header: Path) -> dict[str, str]:
    """{function: prototype} of a header."""
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)
    return {name: " ".join(given.split()) for name, given in entries.DECLARED.findall(text)}


def test_functions_of_the_first_release_are_still_there() -> None:
    """The compiler and linker prove the same for the functions that old_caller.c calls."""
    assert version(OLD_HEADER) == "0.2.0"
    stable = OLD_HEADER.read_text(encoding="utf-8").split("3. Experimental")[0]
    for name, given in declared(OLD_HEADER).items():
        if re.search(rf"\b{name}\(", stable):
            assert declared(HEADER).get(name) == given, name


PARTS = ("1. First program", "2. Advanced", "3. Experimental", "Rules of the interface")


def test_the_header_is_in_one_form() -> None:
    """Three parts, the first one small. A comment above each function, with its errors; one for
    each pointer that a function takes."""
    text = HEADER.read_text(encoding="utf-8")
    heads = re.findall(r"^/\* =+ (.*?)(?: \*/)?$", text, re.M)
    assert tuple(heads) == PARTS
    first = text[: text.index(PARTS[1])]
    assert 20 <= len(re.findall(r"^[a-z][\w *]*\bphasor_\w+\(", first, re.M)) <= 32
    functions = re.findall(
        r"(?:/\*((?:[^*]|\*(?!/))*)\*/\n)?^((?:const )?\w+\*? )(phasor_\w+)\(([^;{]*?)\)"
        r"(?: PHASOR_NONBLOCKING)?;",
        text,
        re.M,
    )
    assert {name for _, _, name, _ in functions} == set(declared(HEADER))
    for comment, returns, name, _ in functions:
        assert comment.strip(), f"{name} has no comment"
        assert returns == "void " or "Returns" in comment, name


def test_every_struct_that_a_caller_fills_has_an_initializer() -> None:
    text = HEADER.read_text(encoding="utf-8")
    structs = set(re.findall(r"typedef struct (phasor_\w+) \{\n  uint32_t struct_size;", text))
    assert structs - {"phasor_view"} == {
        name.lower() for name in re.findall(r"^#define (PHASOR_\w+)_INIT\b(?! *\\?\()", text, re.M)
    } - {"phasor"}
