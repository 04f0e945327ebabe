"""What the pages say about the code is so."""

from __future__ import annotations

import re

from phasor.sources.hugging_face.directory import FAMILIES
from places import ROOT


def test_the_readme_shows_lines_of_the_c_example_that_is_tested() -> None:
    example = (ROOT / "examples/c/translate.c").read_text()
    shown = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    for line in shown[1].splitlines():
        wanted = re.split(r"\s{2,}/\*", line.strip())[0]
        assert wanted and wanted in example, line


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "models/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"


def test_every_file_that_a_page_names_is_there() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for name in re.findall(
            r"`((?:src|tests|tools|include|docs|models)/[A-Za-z0-9_./-]+)`", page.read_text()
        ):
            assert (ROOT / name).exists(), f"{page.relative_to(ROOT)}: {name}"


def test_no_family_that_is_built_is_said_not_to_be() -> None:
    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.lower())

    page = (ROOT / "docs/reference/families.md").read_text()
    (said,) = re.findall(r"^Not built, and refused by name: (.*?)\.\n\n", page, re.S | re.M)
    names = re.split(r",|\band\b", re.sub(r"\(.*?\)", "", said, flags=re.S))
    wanting = {plain(name) for name in names}
    assert {"gemma3n", "gptoss"} <= wanting
    assert not wanting & {plain(kind) for family in FAMILIES for kind in family.types}
