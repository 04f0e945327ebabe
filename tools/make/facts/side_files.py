"""docs/reference/side-files.md, from the converter's table of keys."""

from __future__ import annotations

from pathlib import Path

from make.facts import File
from phasor import side_files


def outputs(build: Path) -> list[File]:
    return [File("docs/reference/side-files.md", side_files.page())]
