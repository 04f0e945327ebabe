#!/usr/bin/env python3
"""The program on another machine says what the host's says, byte for byte: texts, drawn tokens,
vectors, probabilities, and the sizes of all memory.

program_check.py NAME HOST_PROGRAM PROGRAM [RUNNER]      RUNNER is an emulator
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TINY = "tests/golden/models/tiny-"

# {out} is a file that the program writes; it is compared too.
COMMANDS = [
    ["run", "models/zh-en.phasor", "--quiet", "我有一只猫。"],
    ["run", TINY + "d2l-q8.phasor", "--quiet", "--print-ids", "source7"],
    [
        "run",
        TINY + "lm-q8.phasor",
        "--quiet",
        "--ids",
        "1,2,3",
        "-n",
        "12",
        "--print-ids",
        "--temperature",
        "0.9",
        "--top-p",
        "0.95",
        "--seed",
        "7",
    ],
    [
        "run",
        TINY + "rotary-q4.phasor",
        "--quiet",
        "--ids",
        "1,2,3",
        "-n",
        "9",
        "--print-ids",
        "--save-state",
        "{out}",
    ],
    ["embed", TINY + "bert-f16.phasor", "--quiet", "--ids", "1,2,3", "--pooling", "mean"],
    ["score", TINY + "lm-q8.phasor", "--quiet", "--ids", "1,2,3,4"],
    ["tokenize", "models/zh-en.phasor", "我有一只猫。"],
    ["inspect", TINY + "rotary-bf16.phasor", "--context", "32", "--json"],
    ["inspect", "models/zh-en.phasor", "--source", "64", "--context", "64", "--json"],
    ["inspect", TINY + "rotary-q8.phasor", "--context", "32", "--ram", "64K", "--flash", "1M"],
    ["verify", "tests/machines/cross/program_check.py"],
]


def run(command, out):
    command = [str(out) if word == "{out}" else word for word in command]
    r = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=600,
    )
    written = out.read_bytes() if out.exists() else b""
    return r.returncode, r.stdout, written, re.sub(rb"^\S*phasor\S*: ", b"phasor: ", r.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("host")
    parser.add_argument("program")
    parser.add_argument("runner", nargs="*")
    args = parser.parse_args()
    start, passed, failed = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as directory:
        for command in COMMANDS:
            want = run([args.host, *command], Path(directory) / "host")
            got = run([*args.runner, args.program, *command], Path(directory) / "target")
            parts = ("exit status", "standard output", "file", "standard error")
            wrong = [
                f"{part}: {g!r:.300}, the host's {w!r:.300}"
                for part, w, g in zip(parts, want, got)
                if w != g
            ]
            if not want[1] and command[0] != "verify":
                wrong.append(f"the host printed nothing: {want[3]!r:.300}")
            print(
                ("FAIL " if wrong else "ok   ") + " ".join(command),
                *wrong,
                sep="\n       " if wrong else " ",
            )
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{args.name}: the program says what {args.host} says, {time.monotonic() - start:.0f} s")
    print(f"{args.name} program: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
