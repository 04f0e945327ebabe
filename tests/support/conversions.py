"""The converter, called as its users call it."""

from __future__ import annotations

from pathlib import Path

from phasor import convert
from phasor.format.file import RECORD, SECTIONS, PhasorFile


def convert_to(source: object, out: Path, *flags: object) -> Path:
    """Converts; gives `out`."""
    words = (source, "-o", out, "--quiet", *flags)
    assert convert.main([str(word) for word in words]) == 0
    return out


def problems(source: object, out: Path, capsys, *flags: object) -> str:
    """The lines of a conversion that stops, and leaves nothing: one for each tensor too few or too
    many."""
    words = (source, "-o", out, "--quiet", *flags)
    assert convert.main([str(word) for word in words]) == 1 and not out.exists()
    said = capsys.readouterr().err
    assert said and all(line.startswith("convert: ") for line in said.splitlines()), said
    return said


def refused(source: object, out: Path, capsys, *flags: object) -> str:
    """The one line of such a conversion."""
    said = problems(source, out, capsys, *flags)
    assert said.count("\n") == 1, said
    return said.rstrip("\n")


def contents(given: Path | PhasorFile) -> dict[int, bytes]:
    """The sections of a weight file but for its record, which says what it was made from."""
    file = given if isinstance(given, PhasorFile) else PhasorFile(given)
    return {kind: file.section(kind) for kind in SECTIONS if kind != RECORD and file.section(kind)}
