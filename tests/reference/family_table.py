"""The tables of families.md: each lies between a mark of its own, the test that measures it,
and an end mark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterable

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tools", "tests/support"):  # of its users, which run by themselves too
    sys.path.insert(0, str(ROOT / folder))
DOCUMENT = ROOT / "docs/reference/families.md"
END = "<!-- end -->"


class Table:
    """One table; `test` is the name of the file that writes it, `header` its two first lines."""

    def __init__(self, test: str, header: str) -> None:
        self.start, self.header = f"<!-- table: tests/reference/{test} --write -->\n", header

    def _written(self) -> tuple[str, list[str], str]:
        """What stands before the table, its rows, and what stands after it."""
        before, rest = DOCUMENT.read_text().split(self.start)
        rows, after = rest.split(END, 1)
        return before, [line for line in rows.splitlines() if line.startswith("| ")][1:], after

    def names(self) -> list[str]:
        """The first column."""
        return [row.split(" | ")[0][2:] for row in self.rows()]

    def rows(self) -> list[str]:
        return [row + "\n" for row in self._written()[1]]

    def write(self, rows: Iterable[str]) -> None:
        before, _, after = self._written()
        DOCUMENT.write_text(before + self.start + self.header + "".join(rows) + END + after)
