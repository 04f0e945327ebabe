#!/usr/bin/env python3
"""The stack, painted and looked at afterwards, never goes deeper than the compiler's call graph
says, nor than `phasor inspect` says for this machine.

stack_check.py MACHINE OBJECTS DRIVER [RUNNER]      OBJECTS has the .ci files of the library that
                                                    DRIVER is linked with ('-': none, of clang);
                                                    RUNNER is an emulator
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "make")]
from stack import depths, read_graph  # noqa: E402


def main():
    machine, objects, driver, *runner = sys.argv[1:]
    told = dict(re.findall(r'\{"([\w-]+)", (\d+)\}', (ROOT / "src/cli/engine/board.h").read_text()))
    models = sorted(
        str(p.relative_to(ROOT)) for p in (ROOT / "tests/golden/models").glob("*.phasor")
    )
    r = subprocess.run(
        [*runner, driver, *models, "models/zh-en-small.phasor"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=1200,
    )
    problems = [line[5:] for line in r.stdout.splitlines() if line.startswith("FAIL ")]
    if r.returncode and not problems:
        problems = [f"the driver ended with {r.returncode}: {r.stderr[-1000:]}"]
    levels = " ".join(re.findall(r"^isa (\S+)$", r.stdout, re.M))
    seen = {name: int(size) for name, size in re.findall(r"^(phasor_\w+) (\d+)$", r.stdout, re.M)}
    own = min(
        seen.values(), default=0
    )  # what the driver itself takes, and the bytes that it cannot paint
    passed = 0
    limit = int(told.get(machine, 0))
    if not seen:
        problems.append("no function was called")
    bounds = depths(*read_graph(objects)) if objects != "-" else {}
    for name, bytes_seen in sorted(seen.items(), key=lambda item: -item[1]):
        bound = bounds.get(name, (limit, ()))[0] if bounds else limit
        if bytes_seen - own > bound:
            problems.append(
                f"{name} took {bytes_seen - own:,} bytes, the call graph says {bound:,}"
            )
        else:
            passed += 1
    deepest = max(seen, key=seen.get, default="")
    bound = max((size for size, _ in bounds.values()), default=0)
    if bound > limit or not limit:
        problems.append(f"inspect says {limit:,} bytes for {machine}, the call graph {bound:,}")
    else:
        passed += 1
    for p in problems:
        print(f"FAIL {p}")
    print(
        f"{machine}: {deepest} took {seen.get(deepest, 0) - own:,} bytes (levels {levels}), the "
        "call graph says "
        + (
            f"{bounds[deepest][0]:,}, of all functions {bound:,}, "
            if deepest in bounds
            else "nothing, "
        )
        + f"inspect {limit:,}"
    )
    print(f"{machine} stack: {passed} passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
