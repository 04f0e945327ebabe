"""The guides of docs/guide are short, say what is on the page, and begin with an example; examples
with an output print it; what a new reader looks for is two clicks from the README."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from make.links import FENCE, LINK, slug
from places import ROOT, program, there

GUIDES = sorted((ROOT / "docs/guide").glob("*.md"))
# Pages of three sections and more; performance.md is the benchmarks' own.
LONG = [
    page
    for folder in ("reference", "design")
    for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    if page.name != "performance.md" and page.read_text(encoding="utf-8").count("\n## ") >= 3
]
TASKS = "run convert own-model chat embeddings translate"
TASKS += " c-and-cpp python server arm-boards microcontrollers sizes trust"
WORDS, FIRST_SCREEN, CLICKS = 1500, 40, 2
# `$ ` begins a command; what it prints follows, and … stands for anything.
EXAMPLE = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
HEADER = (ROOT / "include/phasor.h").read_text(encoding="utf-8")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    return FENCE.sub("", text(page))


def examples(page: Path) -> list[tuple[str, str]]:
    """(command, output) of the blocks that show both."""
    blocks = [match[4] for match in FENCE.finditer(text(page)) if match[3] == ""]
    return [example for block in blocks for example in EXAMPLE.findall(block)]


EXAMPLES = [(page, *example) for page in GUIDES for example in examples(page)]


def test_every_task_has_its_guide():
    assert {page.stem for page in GUIDES} == set(TASKS.split())


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_is_short_and_begins_with_an_example(page):
    assert len(text(page).split()) <= WORDS
    head = "\n".join(text(page).splitlines()[:FIRST_SCREEN])
    assert FENCE.search(head) or "\n```" in head


@pytest.mark.parametrize("page", [*GUIDES, *LONG], ids=lambda page: page.stem)
def test_a_page_says_what_is_on_it(page):
    whole = prose(page)
    before = whole[: whole.index("\n## ")]
    _, found, contents = before.partition("**On this page:**")
    assert found
    sections = [slug(name) for name in re.findall(r"^## (.*)", whole, re.M)]
    linked = [name[1:] for name in LINK.findall(contents) if name[0] == "#"]
    assert linked[: len(sections)] == sections


def test_there_are_examples_with_an_output():
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize(
    ("page", "command", "output"),
    EXAMPLES,
    ids=[f"{example[0].stem}-{i}" for i, example in enumerate(EXAMPLES)],
)
def test_an_example_prints_what_the_page_says(page, command, output):
    command = command.replace("build/phasor", str(program()))
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert re.fullmatch(re.escape(output).replace("…", ".*"), done.stdout), said


def test_a_session_of_python_prints_what_the_page_says(monkeypatch):
    """The blocks of a page are one session."""
    there(ROOT / "build/libphasor.so.0", "run make shared")
    monkeypatch.chdir(ROOT)
    pages = 0
    for page in GUIDES:
        blocks = [match[4] for match in FENCE.finditer(text(page)) if match[3] == "pycon"]
        if not blocks:
            continue
        pages += 1
        session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.stem, None, 0)
        said: list[str] = []
        failed, tried = doctest.DocTestRunner().run(session, out=said.append)
        assert not failed and tried > 5, "".join(said)
    assert pages


def reached(start: Path, clicks: int) -> set[str]:
    """The pages that links lead to, with so many clicks or fewer."""
    pages, seen = {start}, {start}
    for _ in range(clicks):
        links = [(page, link) for page in pages for link in LINK.findall(prose(page))]
        pages = {
            Path(os.path.normpath(page.parent / link.partition("#")[0]))
            for page, link in links
            if "://" not in link and link[0] != "#"
        }
        pages = {page for page in pages - seen if page.suffix == ".md" and page.is_file()}
        seen |= pages
    return {page.relative_to(ROOT).as_posix() for page in seen}


def test_first_steps_are_two_clicks_from_the_readme():
    near = reached(ROOT / "README.md", CLICKS)
    for page, said in {
        "run": "build/phasor run",
        "c-and-cpp": "examples/c/translate.c build/libphasor.a",
        "convert": "tools/convert.py",
        "arm-boards": "make cross TARGET=",
    }.items():
        assert f"docs/guide/{page}.md" in near
        assert said in text(ROOT / f"docs/guide/{page}.md")


def test_every_page_is_reached_from_the_readme():
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert not pages - reached(ROOT / "README.md", 4)


def test_the_page_of_the_converter_has_its_options():
    helped = subprocess.run(
        [sys.executable, ROOT / "tools/convert.py", "--help"], capture_output=True, text=True
    ).stdout
    lines = re.findall(r"^  (-.*?)(?:   .*)?$", helped, re.M)
    options = {name for line in lines for name in re.findall(r"(?<!\S)--?[a-z][\w-]*", line)}
    page = text(ROOT / "docs/reference/converter.md")
    part = page[page.index("## Options") : page.index("## Sources")]
    named = set(re.findall(r"`(-[\w-]+)", part))
    assert named == options - {"-h", "--help", "--output"}
    assert len(options) > 20


def test_the_page_of_the_c_interface_names_every_function():
    functions = set(re.findall(r"^(?:\w+ )*\w+[ *]+(phasor_\w+)\(", HEADER, re.M))
    named = set(re.findall(r"`(phasor_\w+)`", text(ROOT / "docs/reference/c-interface.md")))
    assert len(functions) > 50
    assert functions - named == set()
