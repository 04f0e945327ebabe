"""The sizes of engines on docs/design/porting.md, from the record of `make size`."""

from __future__ import annotations

from pathlib import Path

from make.facts import ROOT, Region, page_table
from make.size import read_record

PAGE = "docs/design/porting.md"
RECORD = "tools/make/size.txt"
ENGINES = {
    "whole": "everything",
    "translator": "a translator's: f32 and q8, greedy, unigram",
    "story": "a small Llama's: f32 and q8, greedy, SentencePiece BPE",
    "translator-m55": "the translator's for a Cortex-M55: levels scalar and helium",
}


def outputs(build: Path) -> list[Region]:
    record = read_record(ROOT / RECORD)
    rows = [
        [ENGINES[name], f"{sizes['text']:,}", f"{sizes['rodata']:,}"]
        for name, sizes in record.items()
    ]
    return [Region(PAGE, "sizes", page_table(["engine", ".text", ".rodata"], rows))]
