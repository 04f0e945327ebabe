#!/usr/bin/env python3
"""What the emulated machine of tests/machines/amx/run.sh has printed: amx_check.py SERIAL
[--refused]

The levels that its Linux gave, the tests of the kernels, and every hash beside
tests/golden/hashes.txt.
"""

import re
import sys
from pathlib import Path

from hash_check import difference, read_table, vectors

# A line that the kernel's messages have not cut.
WHOLE = re.compile(r"^vector \S+ \d+ [0-9a-f]{16} isa=\w+ threads=\d+ chunk=\d+$", re.M)


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
    table, _ = read_table()
    rows, passed = vectors("\n".join(WHOLE.findall(text))), 0
    for (model, way), got in sorted(rows.items()):
        wrong = difference(model, got, table)
        if ("isa=amx" in way.split()) == refused:
            wrong = "another level"
        if wrong:
            failed.append(f"{model} {way}: {wrong}")
        else:
            passed += 1
    if "\nend\n" not in text:
        failed.append("the run did not end")
    failed += [f"{model}: no hashes" for model in sorted(table.keys() - {m for m, _ in rows})]
    for what in failed[:20]:
        print(f"  {what}")
    print(f"amx: {passed} passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
