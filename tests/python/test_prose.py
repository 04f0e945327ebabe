"""What a person reads is plain English: the public headers, the README, the release notes, the
guides, every help text and every error line."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from make import entries
from make.links import FENCE
from places import ROOT
from turns import ROWS, turns

WIDEST = 25  # words of a table's cell
REFERENCE = (
    *("c-interface", "converter", "description-keys", "families", "messages", "numerics"),
    *("positions", "tokenizers", "types"),
)
DESIGN = ("architecture", "porting", "reliability", "same-bits")
PAGES = [
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *sorted((ROOT / "docs/guide").glob("*.md")),
    *(ROOT / f"docs/reference/{name}.md" for name in REFERENCE),
    *(ROOT / f"docs/design/{name}.md" for name in DESIGN),
    *sorted((ROOT / "docs/design/decisions").glob("*.md")),
]
# Of these only the words: their tables are made from facts, or have grammars in them.
IN_WORDS = [
    ROOT / f"docs/reference/{name}.md"
    for name in ("chat-templates", "command-line", "file-format", "side-files")
]
HEADERS = [ROOT / "include/phasor.h", ROOT / "include/phasor.hpp"]


@pytest.mark.parametrize(("pattern", "found", "left"), ROWS, ids=[row[1] for row in ROWS])
def test_each_turn_is_found_and_its_like_is_not(pattern: str, found: str, left: str) -> None:
    assert turns(found) and not turns(left)
    assert re.search(pattern, found)


def comments(header: Path) -> str:
    """A header's comments without its rules, which are for contributors."""
    text = header.read_text(encoding="utf-8").split("Rules of the interface")[0]
    found = re.findall(r"/\*(.*?)\*/|//([^\n]*)", text, re.S)
    return "\n".join(re.sub(r"^ \*", "", a or b, flags=re.M) for a, b in found)


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_a_header_is_in_plain_words(header: Path) -> None:
    assert len(comments(header)) > 1000
    assert turns(comments(header)) == []


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def test_every_page_is_checked() -> None:
    """But for what is measured and tried: a log, and the pages that the benchmarks write."""
    pages = {page for page in (ROOT / "docs").rglob("*.md") if "performance" not in page.name}
    assert pages <= {*PAGES, *IN_WORDS}


@pytest.mark.parametrize("page", [*PAGES, *IN_WORDS], ids=lambda path: path.name)
def test_a_page_is_in_plain_words(page: Path) -> None:
    assert turns(prose(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_cell_is_one_fact(page: Path) -> None:
    for row in re.findall(r"^\|(.*)\|$", prose(page), re.M):
        for cell in re.split(r"(?<!\\)\|", row):
            if re.fullmatch(r" `[^`]*` ", cell):  # what a program prints
                continue
            words = re.sub(r"\]\([^)]*\)", "]", cell).split()
            assert len(words) <= WIDEST, f"{page.name}: {cell.strip()}"


@pytest.mark.parametrize("name", ["performance.md", "performance-log.md"])
def test_figures_have_a_day_a_commit_and_a_processor(name: str) -> None:
    """Each part with a table: in words, or in the line that the benchmarks write under it."""
    page = (ROOT / "docs/design" / name).read_text(encoding="utf-8")
    first, *parts = re.split(r"^## ", page, flags=re.M)
    measured = re.compile(
        r"^(?:Measured: (?:from |at the latest )?|- )\d{4}-\d\d-\d\d\b[^;]*\bcommit\s"
        r"[0-9a-f]{7,}\b.*?(?:, on |; )\w",
        re.M | re.S,
    )
    summary = "What was aimed at\n"  # of the parts below it
    with_tables = [p for p in parts if re.search(r"^\|", p, re.M) and not p.startswith(summary)]
    assert len(with_tables) >= 6
    assert [part[:60] for part in with_tables if not measured.search(part)] == []


def test_the_help_of_the_program_is_in_plain_words(phasor: Path) -> None:
    for command in [[], *([name] for name in entries.commands())]:
        said = subprocess.run(
            [phasor, "help", *command], capture_output=True, text=True, check=True
        ).stdout
        assert turns(said) == [], command
        for line in re.sub(r"\n {10,}", " ", said).splitlines():
            flag = re.fullmatch(r"  -\S*(?: \S+)?  +(.*)", line) if command else None
            if flag:  # a sentence, so that defaults and conditions have a place of their own
                assert re.match(r"[A-Z]|q8|c, asm", flag[1]) and flag[1].endswith((".", '"')), line


# String literals side by side, as C++ joins them.
LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')


def said(path: Path) -> list[tuple[int, str]]:
    """(line, text) of every text that a source can say: no comment, no docstring."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        code = re.sub(r"(?m)^\s*//.*|\s//[^\"\n]*$", "", source)
        found = LITERALS.finditer(code)
        parts = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
        return [(code.count("\n", 0, m.start()) + 1, "".join(parts.findall(m[0]))) for m in found]
    tree = ast.parse(source)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_help_and_error_lines_are_in_plain_words() -> None:
    """Of the engine, the program and every tool; the tools of training and benchmarks apart."""
    sources = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".h", ".cpp", ".hpp")]
    sources += (ROOT / "tools/phasor").rglob("*.py")
    sources += [*(ROOT / "tools").glob("*.py")]
    texts = [(path, *one) for path in sources for one in said(path)]
    assert len(texts) > 8000
    assert [f"{path}:{line}: {text}" for path, line, text in texts if turns(text)] == []
