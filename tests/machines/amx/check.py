#!/usr/bin/env python3
"""What the emulated machine of run.sh has printed: check.py SERIAL [--refused]

The levels that its Linux gave, the tests of the kernels, and every hash beside
tests/golden/hashes.txt.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VECTOR = re.compile(r"^vector (\S+) (\d+) ([0-9a-f]{16}) isa=(\w+) threads=\d+ chunk=\d+$")


def main() -> int:
    text = Path(sys.argv[1]).read_text(errors="replace").replace("\r", "")
    refused = "--refused" in sys.argv
    begin = re.search(r"^begin (.*)$", text, re.M)
    levels = re.search(r"^phasor .*, levels (.*)$", text, re.M)
    if begin is None or levels is None:
        print(f"amx: {sys.argv[1]}: the machine did not come up", file=sys.stderr)
        return 1
    print(f"amx: Linux {begin[1].strip()}; levels {levels[1]}")
    failed = [] if ("amx" in levels[1].split()) != refused else [f"levels {levels[1]}"]
    if not refused and "amx_int8" not in begin[1]:
        failed.append("the processor has no tiles")
    kernels = re.search(r"^kernels (\d+)$", text, re.M)
    if kernels is None or kernels[1] != "0":
        failed.append("the tests of the kernels")
    table = {}
    for line in (ROOT / "tests/golden/hashes.txt").read_text().splitlines():
        words = line.split()
        if len(words) == 3 and not line.startswith("#"):
            table[words[0], int(words[1])] = words[2]
    seen, rows = set(), 0
    for name, index, value, isa in (m.groups() for m in map(VECTOR.match, text.split("\n")) if m):
        rows += 1
        seen.add((name, int(index)))
        if table.get((name, int(index))) != value or (isa == "amx") == refused:
            failed.append(f"{name} {index}: {value} at level {isa}")
    if "\nend\n" not in text:
        failed.append("the run did not end")
    elif table.keys() - seen:
        failed.append(f"{len(table.keys() - seen)} hashes are not there")
    for what in failed[:20]:
        print(f"  {what}")
    print(f"amx: {rows} rows of {len(seen)} of {len(table)} hashes")
    print(f"amx: {rows} passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
