"""messages.md: the lines that wrong inputs get, as the page has them. As a program with
--write it makes the page's table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

from wrong_inputs import WRONG, Wrong  # noqa: E402

from phasor import convert  # noqa: E402

PAGE = ROOT / "docs/reference/messages.md"
START, END = "<!-- table: tests/python/test_messages.py --write -->\n", "<!-- end -->"
HEADER = "| given | `convert.py` … `-o out.phasor` | the line |\n|---|---|---|\n"


def row_of(wrong: Wrong, line: str) -> str:
    """A row of the page; a line that has none of Markdown's own letters in it."""
    words = " ".join(wrong.words[: wrong.words.index("-o")])
    return f"| {wrong.what} | `{words}` | `{line.replace('|', '∣')}` |\n"


def rows() -> dict[str, str]:
    """The page's rows by what is given."""
    table = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    lines = table.removeprefix(HEADER).splitlines(keepends=True)
    return {line.split(" | ")[0][2:]: line for line in lines}


@pytest.fixture(autouse=True)
def no_program(monkeypatch, tmp_path):
    """A phasor program that happens to be built has no part in this."""
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.what for wrong in WRONG])
def test_the_line_is_the_pages(tmp_path, monkeypatch, capsys, wrong):
    folder = tmp_path / "in"
    folder.mkdir()
    monkeypatch.chdir(folder)
    wrong.make(folder)
    assert convert.main(list(wrong.words)) == 1
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert not told.out and line.startswith("convert: ") and not (folder / "out.phasor").exists()
    assert row_of(wrong, line) == rows()[wrong.what]


def test_the_page_has_no_other_rows():
    assert list(rows()) == [wrong.what for wrong in WRONG] and len(WRONG) >= 30


def write() -> None:
    """The page's table, of what the converter says now."""
    import contextlib
    import io
    import os
    import tempfile

    table = []
    for wrong in WRONG:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            wrong.make(Path(folder))
            told = io.StringIO()
            with contextlib.redirect_stderr(told):
                if convert.main(list(wrong.words)) != 1:
                    raise SystemExit(f"{wrong.what}: was not refused")
            (line,) = told.getvalue().splitlines()
            table.append(row_of(wrong, line))
            os.chdir(ROOT)
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest.split(END, 1)[1]
    PAGE.write_text(before + START + HEADER + "".join(table) + END + after, encoding="utf-8")


if __name__ == "__main__":
    write()
