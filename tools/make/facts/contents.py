"""The contents of each page of docs that has a region for them: its sections, linked."""

from __future__ import annotations

import re
from pathlib import Path

from make.facts import ROOT, WIDTH, Region
from make.links import FENCE, slug

NAME = "contents"


def contents(page: str) -> str:
    heads = re.findall(r"^## (.*)", FENCE.sub("", page), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in heads]
    items = [f"[{text}](#{slug(head)})" for text, head in zip(plain, heads)]
    items = [item + " ·" for item in items[:-1]] + items[-1:]
    lines = ["**On this page:**"]
    for item in items:
        if len(lines[-1]) + 1 + len(item) > WIDTH:
            lines.append(item)
        else:
            lines[-1] += " " + item
    return "\n".join([*lines, ""])


def outputs(build: Path) -> list[Region]:
    pages = [
        (path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs").rglob("*.md"))
    ]
    return [
        Region(path.relative_to(ROOT).as_posix(), NAME, contents(page))
        for path, page in pages
        if f"<!-- generated: {NAME} -->\n" in page
    ]
