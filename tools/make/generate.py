#!/usr/bin/env python3
"""Writes what is made from tables of facts: whole files, and marked regions of pages.

    generate.py [--build build]        `make generate`

Each module of tools/make/facts has outputs(build), a list of what it makes: a `File`, whose first
line says that it is generated, or a `Region` of a file, the lines between

    <!-- generated: NAME -->
    <!-- end -->

`make check` (row generated) compares them with what is there.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

from make import facts
from phasor.entry import front_door
from phasor.errors import PhasorError

ROOT = Path(__file__).resolve().parents[2]


def _with_region(path: str, text: str, region: facts.Region) -> str:
    start, end = f"<!-- generated: {region.name} -->\n", "<!-- end -->\n"
    before, found, behind = text.partition(start)
    _, closed, after = behind.partition(end)
    if not found or not closed or start in after:
        raise PhasorError(f"{path}: expected one region between {start.strip()} and {end.strip()}")
    return before + start + region.text + end + after


def made(build: Path) -> dict[str, str]:
    """The text of every file that is generated, or has a region that is."""
    out: dict[str, str] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(facts.__path__)):
        for part in importlib.import_module(f"make.facts.{module}").outputs(build):
            if isinstance(part, facts.File):
                out[part.path] = part.text
                continue
            before = out.get(part.path) or (ROOT / part.path).read_text(encoding="utf-8")
            out[part.path] = _with_region(part.path, before, part)
    return out


def stale(build: Path) -> tuple[list[str], int]:
    """The files that are not what their tables say; and how many were looked at."""
    files = made(build)
    return [
        f"{path} is not what its table says: make generate"
        for path, text in files.items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text(encoding="utf-8") != text
    ], len(files)


@front_door("generate")
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=Path("build"))
    args = parser.parse_args()
    for path, text in made(args.build).items():
        target = ROOT / path
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
            print(f"generate: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
