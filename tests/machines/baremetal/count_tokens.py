#!/usr/bin/env python3
"""What a model costs on an emulated board: flash, RAM, and instructions a token.

    count_tokens.py BOARD PLUGIN NAME=IMAGE:MODEL …

IMAGE is built of tokens.c. A token's instructions are those of the longer continuation less those
of the shorter one, divided by the tokens that it has more. The ids are compared with the host's
where --program is given.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/machines/cross"))

from hash_check import QEMU  # noqa: E402


def told(*words):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode or "FAIL" in done.stdout:
        sys.exit(f"{words[0]} … {words[-1]}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout + done.stderr


def measure(board, plugin, image, model):
    said = told(
        QEMU[0],
        "-plugin",
        f"{Path(plugin).resolve()},bare-metal=on",
        *QEMU[1:],
        "-M",
        board,
        "-kernel",
        image,
    )
    marks = [int(n) for n in re.findall(r"^mark \d+ (\d+)$", said, re.M)]
    made = [int(n) for n in re.findall(r"^made (\d+)$", said, re.M)]
    if len(marks) != 4 or len(made) != 2 or made[0] >= made[1]:
        sys.exit(f"{image}: expected two continuations between marks: {said[-300:]}")
    figures = {name: int(value) for name, value in re.findall(r"figure (\w+) (\d+)", said)}
    sizes = told("arm-none-eabi-size", "-A", image)
    section = {name: int(n) for name, n in re.findall(r"^(\.\w+) +(\d+)", sizes, re.M)}
    weights = Path(model).stat().st_size
    code = sum(section.get(name, 0) for name in (".vectors", ".text", ".rodata", ".data"))
    each = ((marks[3] - marks[2]) - (marks[1] - marks[0])) // (made[1] - made[0])
    ids = re.search(r"^ids ([\d ]+)$", said, re.M)[1]
    return weights, code, sum(figures.values()), each, ids.replace(" ", ",")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program")
    for name in ("board", "plugin"):
        parser.add_argument(name)
    parser.add_argument("images", nargs="+")
    args = parser.parse_args()
    print(f"{args.board}: bytes of weights, of code and constants, of RAM; instructions a token")
    for given in args.images:
        name, _, rest = given.partition("=")
        image, _, model = rest.partition(":")
        weights, code, ram, each, ids = measure(args.board, args.plugin, image, model)
        print(f"{name:10} {weights:12,} {code:10,} {ram:10,} {each:14,}")
        if args.program:
            prompt = ",".join(str(3 + 5 * i) for i in range(8))
            words = (args.program, "run", model, "--ids", prompt, "-n", len(ids.split(",")))
            host = told(*words, "--print-ids", "--quiet", "--context", 64, "--cache", "f16").strip()
            if host != ids:
                sys.exit(f"{name}: the board's ids are not the host's:\n{ids}\n{host}")


if __name__ == "__main__":
    main()
