"""The statuses, which stand in include/phasor.h: their names for people."""

from __future__ import annotations

import re
from pathlib import Path

from make.facts import ROOT, File, source, wrapped

HEADER = "include/phasor.h"


def outputs(_: Path) -> list[File]:
    text = (ROOT / HEADER).read_text(encoding="utf-8")
    enum = re.search(r"typedef enum phasor_status \{(.*?)\}", text, re.S)
    rows = re.findall(r"PHASOR_(\w+) = (\d+)", enum[1] if enum else "")
    assert rows and [int(number) for _, number in rows] == list(range(len(rows)))
    names = [f'"{name.lower().replace("_", " ")}"' for name, _ in rows]
    body = wrapped("constexpr const char* kStatusNames[] = {", names, "};", 4) + "\n"
    return [source("src/api/statuses.inc", HEADER, body, "By status, for model.cpp.")]
