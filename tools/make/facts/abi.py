"""The shared library's versions: each function under the release that first exports it."""

from __future__ import annotations

from pathlib import Path

from make.facts import File, table

MAP = "src/api/phasor.map"


def outputs(_: Path) -> list[File]:
    rows = table("abi")["functions"]
    releases = {since for since, _ in rows.values()}
    text = "/* Generated from src/facts/abi.toml by `make generate`: edit that, not this.\n"
    text += "   An experimental function, without a version, is seen all the same: what is not\n"
    text += "   of phasor.h is hidden by the compiler. */\n"
    before = ""
    for release in sorted(releases, key=lambda r: [int(part) for part in r.split(".")]):
        names = [f"    {name};\n" for name in sorted(rows) if rows[name][0] == release]
        text += f"PHASOR_{release} {{\n  global:\n{''.join(names)}}}{before};\n"
        before = f" PHASOR_{release}"
    return [File(MAP, text)]
