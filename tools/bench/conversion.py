"""What a conversion costs: a Hugging Face directory to int8, beside CTranslate2's converter, in
turns. A row of tools/bench.

CPU seconds are of the user and the system, of the converter and the programs that it starts, one
thread; `without imports` leaves out those of a Python that only imports what the converter needs.
Ours makes its test vectors (--proof short) and replays them with the program.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.common import OURS, ROOT, Cost, Results, cost

_THEIRS = "CTranslate2"
_IMPORTS = {
    OURS: "import numpy, phasor.convert",
    _THEIRS: "import ctranslate2.converters.transformers, transformers, torch\n"
    "from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM",
}


def _commands(args: Any, source: Path, folder: Path) -> dict[str, tuple[object, ...]]:
    theirs = Path(sys.executable).with_name("ct2-transformers-converter")
    ours = (sys.executable, ROOT / "tools" / "convert.py", source, "--type", "q8r", "--quiet")
    program = Path(args.build) / "phasor"
    return {
        OURS: (*ours, "--proof", "short", "--phasor", program, "-o", folder / "m.phasor"),
        _THEIRS: (theirs, "--model", source, "--output_dir", folder / "m", "--force")
        + ("--quantization", "int8"),
    }


def row_conversion(args: Any, results: Results) -> None:
    if not args.checkpoints:
        sys.exit("bench: conversion: name directories with --checkpoints DIRECTORY...")
    imports = {
        name: statistics.median(cost(sys.executable, "-c", code).seconds for _ in range(args.runs))
        for name, code in _IMPORTS.items()
    }
    for source in args.checkpoints:
        costs: dict[str, list[Cost]] = {name: [] for name in _IMPORTS}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(args.runs):
                for name, words in _commands(args, source, Path(folder)).items():
                    costs[name].append(cost(*words))
        for name, found in costs.items():
            where = {"type": "int8", "threads": 1, "at": source.name}
            seconds = [one.seconds for one in found]
            results.add("CPU time", name, seconds, "s", **where)
            less = [one - imports[name] for one in seconds]
            results.add("CPU time without imports", name, less, "s", **where)
            results.add("peak memory", name, [one.peak / 1e6 for one in found], "MB", **where)


ROWS = {"conversion": row_conversion}
