"""messages.md: the lines that wrong inputs get, as the page has them. As a program with
--write it makes the page's table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

from advice import FOLLOWED, beside  # noqa: E402
from phasor import convert  # noqa: E402
from phasor.files import described_beside  # noqa: E402
from wrong_inputs import WRONG, Wrong  # noqa: E402

PAGE = ROOT / "docs/reference/messages.md"
START, END = "<!-- table: tests/python/test_messages.py --write -->\n", "<!-- end -->"
A_PHASOR_FILE = "a .phasor file"  # whose advice is a command of the program
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


# What a line says to do, where it says something: a verb behind what is wrong, or a flag.
ADVICE = re.compile(
    r"[:;(,] (?:and )?(?:give|take|save|download|unpack|call|remove|merge|say|git lfs pull"
    r"|phasor quantize)\b|torch\.save\(|--\S+ (?:\S+ )?(?:adds|converts|reads)"
)


def advice(wrong: Wrong) -> bool:
    return ADVICE.search(rows()[wrong.what].split(" | ")[2]) is not None


def test_what_a_line_advises_is_followed_here():
    assert {wrong.what for wrong in WRONG if advice(wrong)} == {*FOLLOWED, A_PHASOR_FILE}


@pytest.mark.parametrize(("what", "follow"), [(w, f) for w, of in FOLLOWED.items() for f in of])
def test_the_advice_works(tmp_path, monkeypatch, what, follow):
    monkeypatch.chdir(tmp_path)
    (wrong,) = (wrong for wrong in WRONG if wrong.what == what)
    wrong.make(tmp_path)
    for command in follow(tmp_path):
        output = tmp_path / "out.phasor"
        assert convert.main([*command.split(), "-o", str(output)]) == 0, command
        output.unlink()


@pytest.mark.parametrize("inside", ["", "below"])
def test_a_directory_without_a_name(tmp_path, monkeypatch, inside):
    """The working directory, or the one above it; its description is beside it all the same."""
    beside(tmp_path)
    (tmp_path / "model" / inside).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "model" / inside)
    given, output = (".." if inside else "."), tmp_path / "out.phasor"
    assert convert.main([given, "-o", str(output)]) == 0
    (tmp_path / "model/config.json").unlink()
    assert convert.main([given, "-o", str(output)]) == 1
    assert described_beside(Path(given)) == tmp_path / "model.toml"


def test_the_advice_for_a_phasor_file_works(phasor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beside(tmp_path)
    assert convert.main(["model", "-o", "m.phasor"]) == 0
    subprocess.run([phasor, "quantize", "m.phasor", "q8.phasor", "--type", "q8"], check=True)
    assert (tmp_path / "q8.phasor").exists()


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
