#!/usr/bin/env python3
"""Instructions of each kernel under QEMU: the same number in every run, so that a change of one per
cent is seen.

    instructions.py TARGET COMPILER PLUGIN PROGRAM RUNNER…            compare with
        tests/golden/instructions.txt; worse by more than 1 % fails
    instructions.py --write TARGET COMPILER PLUGIN PROGRAM RUNNER…    record

PROGRAM is build/TARGET/count_kernels, or a board's build/BOARD/hosted/count_kernels.elf. Prints
work (multiply-adds, or elements) per instruction. The figures are those of one compiler: with
another one there is nothing to compare, and the program says so.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BASELINE = ROOT / "tests/golden/instructions.txt"
HEAD = (
    "# Instructions of one call of each kernel under QEMU, written by `make bench-cross-write`, "
    "compared by `make bench-cross`:\n"
    "# target, level, kernel, work (multiply-adds, or elements), instructions. "
    "Sizes: tests/cpp/count_kernels.cpp.\n"
)


def read():
    """{target: (compiler, {(level, kernel): (work, instructions)})}"""
    out = {}
    for line in BASELINE.read_text().splitlines() if BASELINE.is_file() else []:
        word = line.split()
        if not word or word[0] == "#":
            continue
        if word[0] == "compiler":
            out[word[1]] = (" ".join(word[2:]), {})
        else:
            out[word[0]][1][word[1], word[2]] = int(word[3]), int(word[4])
    return out


def measure(args):
    command = [
        args.runner[0],
        "-plugin",
        str(Path(args.plugin).resolve()),
        *args.runner[1:],
        args.program,
    ]
    r = subprocess.run(
        command,
        cwd=ROOT,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    if r.returncode or "FAIL" in r.stdout:
        sys.exit(
            f"{' '.join(command)} ended with {r.returncode}: {(r.stdout + r.stderr).strip()[-300:]}"
        )
    said = r.stdout + r.stderr  # a board's output is the emulator's
    marks = {int(n): int(count) for n, count in re.findall(r"^mark (\d+) (\d+)$", said, re.M)}
    spent, names = {}, {}
    for number, level, kernel, work in re.findall(r"^case (\d+) (\S+) (\S+) (\d+)$", said, re.M):
        spent[int(number)] = marks[2 * int(number) + 1] - marks[2 * int(number)]
        names[int(number)] = level, kernel, int(work)
    if len(names) < 2:
        sys.exit(f"{args.program} counted nothing: {r.stderr.strip()[-300:]}")
    return {names[i][:2]: (names[i][2], spent[i] - spent[0]) for i in names if i != 0}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    for name in ("target", "compiler", "plugin", "program"):
        parser.add_argument(name)
    parser.add_argument("runner", nargs="+")
    args = parser.parse_args()
    found, recorded = measure(args), read()
    if args.write:
        recorded[args.target] = args.compiler, found
        lines = []
        for target, (compiler, rows) in sorted(recorded.items()):
            lines.append(f"compiler {target} {compiler}")
            lines += [
                f"{target} {level} {kernel} {work} {count}"
                for (level, kernel), (work, count) in rows.items()
            ]
        BASELINE.write_text(HEAD + "\n".join(lines) + "\n")
    compiler, before = recorded.get(args.target, ("", {}))
    comparable = compiler == args.compiler
    problems, kernels, levels = [], [], []
    for level, kernel in found:
        kernels += [kernel] if kernel not in kernels else []
        levels += [level] if level not in levels else []
    print(
        f"{args.target}, {args.compiler}: work per instruction\n{'':22}"
        + "".join(f"{level:>12}" for level in levels)
    )
    for kernel in kernels:
        row = ""
        for level in levels:
            work, count = found.get((level, kernel), (0, 1))
            row += f"{work / count:12.3f}"
            if not comparable:
                continue
            old = before.get((level, kernel))
            if old is None or old[0] != work:
                problems.append(f"{level} {kernel}: not in the baseline: make bench-cross-write")
            elif count > old[1] * 1.01:
                problems.append(
                    f"{level} {kernel}: {count} instructions, the baseline has {old[1]}"
                )
            elif count < old[1] * 0.99:
                print(
                    f"better: {level} {kernel}: {count} instructions, the baseline has {old[1]}; "
                    "record it"
                )
        print(f"{kernel.replace('_', ' '):22}{row}")
    if comparable:
        problems += [
            f"{level} {kernel}: in the baseline, not measured"
            for level, kernel in before
            if (level, kernel) not in found
        ]
    else:
        print(f"the baseline is of {compiler or 'nothing'}: nothing to compare")
    for p in problems:
        print(f"FAIL {p}")
    print(
        f"{args.target} instructions: {len(found) - len(problems) if comparable else 0} passed, "
        f"{len(problems)} failed"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
