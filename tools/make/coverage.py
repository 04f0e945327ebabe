#!/usr/bin/env python3
"""The branches of what steers by foreign bytes, from llvm-cov's reports (tools/make/coverage.mk).

    python3 tools/make/coverage.py build/coverage

Prints a row a file: directions of branches (each condition has two), those taken by the tests,
those explained, the share of both. A condition of a template or of an inline function is one
condition, wherever it is compiled; what the compiler folds is none. A direction that no test takes
needs a reason at its line, or on lines above that hold nothing else:

    // never: why nothing comes this way         (one direction)
    // never 2: why …                            (two directions of one line)

Exit status 1 where a direction of a gated file has neither test nor reason, and where a reason
stands at a line whose directions are taken, in any file.
"""

import collections
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from phasor.entry import front_door

ROOT = Path(__file__).resolve().parent.parent.parent
# What a stranger's bytes steer before they are trusted: all of it is taken or explained.
GATED = """
src/format/* src/model/* src/runtime/plan.* src/runtime/state.cpp
src/text/section.* src/text/package.* src/text/pieces.* src/text/normalizer.* src/text/canonical.cpp
src/text/unigram.cpp src/text/word_list.cpp src/text/wordpiece.cpp src/text/byte_bpe.cpp
src/text/metaspace.cpp src/text/char_bpe.cpp src/text/merges.* src/text/sentencepiece*.cpp
src/text/added.* src/text/chat/check.cpp src/text/chat/instructions.h
src/decode/replay.cpp src/quantize/quantize.cpp
""".split()
# Beside it, for whoever looks for the next gap.
SHOWN = "src/text/*.* src/text/chat/*.* src/quantize/*.* src/api/*.* src/decode/*.*".split()
REASON = re.compile(r"// never(?: (\d+))?: \S")


def folded(report):
    """(file, line, column) of the conditions that the compiler has decided."""
    found, name = set(), None
    for line in report.read_text().splitlines():
        if line.startswith("/") and line.endswith(":"):
            name = line[:-1]
        elif match := re.search(r"Branch \((\d+):(\d+)\): \[Folded", line):
            found.add((name, int(match[1]), int(match[2])))
    return found


def branches(folder):
    """Of each file {(line, column, end): [times true, times false]}."""
    decided = folded(folder / "tests.txt")
    files = collections.defaultdict(dict)
    for file in json.loads((folder / "tests.json").read_text())["data"][0]["files"]:
        name = file["filename"]
        for line, column, end_line, end_column, true, false, *_ in file["branches"]:
            if (name, line, column) in decided:
                continue
            place = (line, column, end_line, end_column)
            counts = files[Path(name).relative_to(ROOT)].setdefault(place, [0, 0])
            counts[0] += true
            counts[1] += false
    return files


def reasons(lines):
    """{line: directions that its reason is for}; a reason alone is for the next line of code."""
    found, pending = collections.Counter(), 0
    for number, text in enumerate(lines, 1):
        match = REASON.search(text)
        count = int(match[1] or 1) if match else 0
        if text.lstrip().startswith("//"):
            pending += count
        else:
            found[number] += count + pending
            pending = 0
    return {number: count for number, count in found.items() if count}


def look(name, places):
    """(directions, taken, explained, complaints) of one file."""
    lines = (ROOT / name).read_text().splitlines()
    given = reasons(lines)
    missed = collections.defaultdict(list)
    for (line, column, *end), counts in sorted(places.items()):
        for direction, count in zip(("true", "false"), counts):
            if count == 0:
                text = lines[line - 1][column - 1 : end[1] - 1 if end[0] == line else None]
                missed[line].append(f"{name}:{line}:{column}: never {direction}: {text}")
    total, open_ones = 2 * len(places), [m for line in missed.values() for m in line]
    explained, bare, stale = 0, [], []
    for line in sorted(missed.keys() | given.keys()):
        count, reason = len(missed[line]), given.get(line, 0)
        if reason > count:
            stale.append(f"{name}:{line}: a reason for {reason}, and {count} that no test takes")
        elif reason == count:
            explained += count
        else:
            bare += missed[line]
    return total, total - len(open_ones), explained, bare, stale


@front_door("coverage")
def main():
    folder = sys.argv[1]
    files = branches(Path(folder))
    names = [name for name in sorted(files) if files[name]]
    gated = [name for name in names if any(name.match(p) for p in GATED)]
    shown = [name for name in names if name not in gated and any(name.match(p) for p in SHOWN)]
    print(f"{'file':36}{'branches':>9}{'taken':>8}{'explained':>10}{'percent':>9}")
    failures = []
    for group, title in ((gated, "gated"), (shown, "beside them")):
        sums = [0, 0, 0]
        for name in group:
            total, taken, explained, bare, stale = look(name, files[name])
            failures += stale + (bare if group is gated else [])
            sums = [a + b for a, b in zip(sums, (total, taken, explained))]
            print(row(str(name), total, taken, explained))
        print(row(title, *sums))
    for failure in failures:
        print(failure)
    print(f"coverage: {len(gated)} files, {len(failures)} failures")
    return 1 if failures else 0


def row(name, total, taken, explained):
    percent = f"{100 * (taken + explained) / total:.1f}" if total else "-"
    return f"{name:36}{total:9}{taken:8}{explained:10}{percent:>9}"


if __name__ == "__main__":
    sys.exit(main())
