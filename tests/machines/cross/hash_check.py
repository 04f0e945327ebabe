#!/usr/bin/env python3
"""The same bits everywhere: every way of running the golden models gives the hashes of
tests/golden/hashes.txt.

    hash_check.py write DRIVER                  make the table, on the host, from the scalar level
                                                with one thread
    hash_check.py compare NAME DRIVER [RUNNER]  every level, 1, 2, 3 and 7 threads, chunks of 1, 7
    and the plan's own; RUNNER is an
                                                emulator. The levels that must be there are given
                                                with --levels
    hash_check.py bits [WORD…]                  the table on every processor that QEMU and node give
                                                here (make test-bits); those whose name has a WORD
    hash_check.py board BOARD IMAGE MODEL…      run a bare-metal image under qemu-system-arm, look
                                                at its symbols, compare

DRIVER is build/hash_driver. One row for each model and way of running it; all its vectors must
agree.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "tests/golden/hashes.txt"
MODELS = ROOT / "tests/golden/models"
PROGRAM_MODELS = ("tiny-rotary-", "tiny-bert-", "tiny-d2l-")

HEAP = re.compile(
    r"\b(_?malloc\w*|_?free(_r)?|calloc|realloc|_?sbrk\w*|_malloc_r|_free_r|_Znw\w*|_Zna\w*"
    r"|_Zd[al]P\w*|__cxa_\w+|\w*printf\w*|abort|exit"
    r"|_exit|_write|_read|puts|memalign)\b"
)

OWN_STACK = 1024  # of an image's main and of the start-up code
QEMU = [
    "qemu-system-arm",
    "-nographic",
    "-monitor",
    "none",
    "-serial",
    "none",
    "-semihosting-config",
    "enable=on,target=native",
]


def read_table():
    """{model: {vector: hash}} and the number of the arithmetic."""
    if not TABLE.is_file():
        sys.exit(f"{TABLE.relative_to(ROOT)} is not there: make hashes")
    table, numerics = collections.defaultdict(dict), None
    for line in TABLE.read_text().splitlines():
        word = line.split()
        if not word or word[0] == "#":
            continue
        if word[0] == "numerics":
            numerics = word[1]
        else:
            table[word[0]][int(word[1])] = word[2]
    return table, numerics


def models():
    found = sorted(MODELS.glob("*.phasor"))
    if not found:
        sys.exit(f"no models in {MODELS.relative_to(ROOT)}")
    return [str(p.relative_to(ROOT)) for p in found]


def run(command):
    """Exit status and output, what went to standard error at the end: emulators' warnings come in
    the middle of lines."""
    r = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=1200,
        stdin=subprocess.DEVNULL,
    )
    return r.returncode, r.stdout + r.stderr


def vectors(text):
    """{(model, rest of the line): {vector: hash}}"""
    rows = collections.defaultdict(dict)
    for line in text.splitlines():
        word = line.split()
        if word[:1] == ["vector"]:
            rows[word[1], " ".join(word[4:])][int(word[2])] = word[3]
    return rows


def difference(model, got, table):
    """What is wrong with a row, or None."""
    if model not in table:
        return "not in the table: make hashes"
    for i in sorted(set(got) | set(table[model])):
        if got.get(i) != table[model].get(i):
            return (
                f"vector {i}: {got.get(i, 'missing')}, the table has "
                f"{table[model].get(i, 'nothing')}"
            )
    return None


def report(name, rows, table, problems, seconds, detail=""):
    passed = 0
    for (model, way), got in sorted(rows.items()):
        wrong = difference(model, got, table)
        if wrong:
            problems.append(f"{model} {way}: {wrong}")
        else:
            passed += 1
    for p in problems:
        print(f"FAIL {p}")
    print(f"{name}: {passed} rows equal to the table{detail}, {seconds:.0f} s")
    print(f"{name} hashes: {passed} passed, {len(problems)} failed")
    return 1 if problems else 0


def write(args):
    rc, text = run([args.driver, "--isa", "scalar", "--threads", "1", "--chunk", "0", *models()])
    if rc:
        sys.exit(text)
    numerics = re.search(r"^numerics (\d+)$", text, re.M)[1]
    lines = [
        "# FNV-1a-64 of the logits of every test vector of every golden model: model, vector, "
        "hash. The same on every machine;",
        "# written by `make hashes`, compared by `make test`. Hashes compare only at equal "
        "numbers of the arithmetic's rules.",
        f"numerics {numerics}",
    ]
    for (model, _), got in sorted(vectors(text).items()):
        lines += [f"{model} {i} {h}" for i, h in sorted(got.items())]
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"{TABLE.relative_to(ROOT)}: {len(lines) - 3} hashes")
    return 0


def compare(args):
    table, numerics = read_table()
    start = time.monotonic()
    rc, text = run(
        [
            *args.runner,
            args.driver,
            "--threads",
            args.threads,
            "--chunk",
            args.chunk,
            *(["--pairs"] if args.pairs else []),
            *models(),
        ]
    )
    rows = vectors(text)
    problems = [line[5:] for line in text.splitlines() if line.startswith("FAIL ")]
    here = re.findall(r"^isa (\S+)$", text, re.M)
    if rc and not problems:
        problems.append(f"the driver ended with {rc}: {' '.join(text.splitlines()[-3:])}")
    if f"numerics {numerics}\n" not in text:
        problems.append(f"the table is of arithmetic {numerics}, the driver of another")
    for level in args.levels.split(","):
        if level and level not in here:
            problems.append(f"level {level} did not run")
    if args.program:  # and once as a user would; under emulation one model of each type
        threads = max(args.threads.split(","), key=int) if args.runner else "2"
        for m in models():
            if args.runner and not Path(m).stem.startswith(PROGRAM_MODELS):
                continue
            rc, out = run([*args.runner, args.program, "verify", "--json", "--threads", threads, m])
            try:
                found = json.loads(out[out.index("{") :])
                rows[Path(m).stem, f"{args.program} verify, isa={found['isa']}"] = {
                    i: v["hash"] for i, v in enumerate(found["vectors"])
                }
                if rc or not found["ok"]:
                    problems.append(f"{m}: verify ended with {rc}: {out.strip()[-200:]}")
            except (ValueError, KeyError):
                problems.append(f"{m}: verify ended with {rc}: {out.strip()[-200:]}")
    wanted = {Path(m).stem for m in models()}
    for model in sorted(
        (wanted | set(table)) - {m for m, _ in rows}
    ):  # NAME+f16: another cache of the model NAME
        problems.append(
            f"{model}: no hash"
            if model.split("+")[0] in wanted
            else f"{model} is in the table but not among the models"
        )
    return report(
        args.name,
        rows,
        table,
        problems,
        time.monotonic() - start,
        f" (levels {' '.join(here)}; threads {args.threads}; chunks {args.chunk})",
    )


NODE, RELAXED = "node --no-experimental-fetch", "--experimental-wasm-relaxed-simd"

# Processor, driver's directory, runner, the levels that it must choose among and no others, and
# ways (threads, chunks; in pairs).
PROCESSORS = [
    (
        "x86-64 without AVX (Nehalem)",
        "build",
        "qemu-x86_64-static -cpu Nehalem",
        "sse2 scalar",
        "1,2",
        "0,7",
    ),
    (
        "x86-64 with AVX2 (Haswell)",
        "build",
        "qemu-x86_64-static -cpu Haswell-v1",
        "avx2 sse2 scalar",
        "1,2",
        "0,7",
    ),
    (
        "aarch64 with SMMLA (ARMv8.6 and newer)",
        "build/aarch64",
        "qemu-aarch64-static -cpu max",
        "i8mm dotprod neon scalar",
        "1,2",
        "0,7",
    ),
    (
        "aarch64 with SDOT (Neoverse N1)",
        "build/aarch64",
        "qemu-aarch64-static -cpu neoverse-n1",
        "dotprod neon scalar",
        "1,2",
        "0,7",
    ),
    (
        "aarch64 without SDOT (Cortex-A53)",
        "build/aarch64",
        "qemu-aarch64-static -cpu cortex-a53",
        "neon scalar",
        "1,2",
        "0,7",
    ),
    (
        "armhf with NEON and VFPv4 (Cortex-A15)",
        "build/armhf",
        "qemu-arm-static -cpu cortex-a15",
        "neon scalar",
        "1,2",
        "0,7",
    ),
    (
        "armhf without fused multiply-add (Cortex-A9)",
        "build/armhf",
        "qemu-arm-static -cpu cortex-a9",
        "scalar",
        "1,2",
        "0,7",
    ),
    ("riscv64", "build/riscv64", "qemu-riscv64-static", "scalar", "1,2", "0,7"),
    ("WebAssembly", "build/wasm", NODE, "simd128 scalar", "1,1", "0,7"),
    (
        "WebAssembly with relaxed SIMD",
        "build/wasm/relaxed",
        f"{NODE} {RELAXED}",
        "relaxed simd128 scalar",
        "1,1",
        "0,7",
    ),
    (
        "WebAssembly with relaxed SIMD that is not fused",
        "build/wasm/relaxed",
        f"{NODE} {RELAXED} --no-enable-fma3",
        "simd128 scalar",
        "1,1",
        "0,7",
    ),
]


def bits(args):
    table, _ = read_table()
    problems, rows, start = [], 0, time.monotonic()
    wanted = [p for p in PROCESSORS if not args.word or any(w in p[0] for w in args.word)]

    def emulate(processor):
        _, directory, runner, _, threads, chunks = processor
        begun = time.monotonic()
        rc, text = run(
            [
                *runner.split(),
                f"{directory}/hash_driver",
                "--pairs",
                "--threads",
                threads,
                "--chunk",
                chunks,
                *models(),
            ]
        )
        return rc, text, time.monotonic() - begun

    print("| processor | levels | rows | s |\n|---|---|---:|---:|")
    # Each emulates one or two threads; as many as there are processors run beside each other.
    with concurrent.futures.ThreadPoolExecutor(
        int(os.environ.get("JOBS") or os.cpu_count() or 1)
    ) as several:
        for (name, _, _, levels, _, _), (rc, text, seconds) in zip(
            wanted, several.map(emulate, wanted)
        ):
            found = vectors(text)
            here = " ".join(re.findall(r"^isa (\S+)$", text, re.M))
            wrong = [
                f"{model} {way}: {d}"
                for (model, way), got in sorted(found.items())
                if (d := difference(model, got, table))
            ]
            wrong += [f"{model}: no hash" for model in sorted(set(table) - {m for m, _ in found})]
            if here != levels:
                wrong.append(f"the levels are {here or 'none'}, expected {levels}")
            if rc:
                wrong.append(f"the driver ended with {rc}: {' '.join(text.splitlines()[-2:])}")
            problems += [f"{name}: {w}" for w in wrong]
            rows += len(found)
            print(
                f"| {name} | {here.replace(' ', ', ')} | {len(found)} | {seconds:.0f} |", flush=True
            )
    for p in problems[:40]:
        print(f"FAIL {p}")
    print(f"{rows} rows in {time.monotonic() - start:.0f} s")
    print(f"bits hashes: {max(rows - len(problems), 0)} passed, {len(problems)} failed")
    return 1 if problems or not rows else 0


def board(args):
    table, _ = read_table()
    start = time.monotonic()
    passed, problems = 0, []
    rc, names = run(["arm-none-eabi-nm", args.image])
    if rc:
        sys.exit(names)
    heap = sorted(
        {line.split()[-1] for line in names.splitlines() if HEAP.fullmatch(line.split()[-1])}
    )
    if heap:
        problems.append(f"the image links {' '.join(heap)}")
    else:
        passed += 1
        print("ok the image links no allocator, no output, no C library")
    rc, text = run([*QEMU, "-M", args.name, "-kernel", args.image])
    for line in text.splitlines():
        if not line.startswith(("vector ", "FAIL ")):
            print(line)
        passed += line.startswith("ok ")
    problems += [line[5:] for line in text.splitlines() if line.startswith("FAIL ")]
    if rc and not problems:
        problems.append(f"the image ended with {rc}: {' '.join(text.splitlines()[-3:])}")
    rows = vectors(text)
    here = re.findall(r"^level (\S+)$", text, re.M)
    if here != args.levels.split(","):
        problems.append(f"the levels are {' '.join(here) or 'none'}, expected {args.levels}")
    left_out = collections.defaultdict(set)  # vectors that need more than the board has
    for model, i, need in re.findall(r"^large (\S+) (\d+) (\d+)$", text, re.M):
        if int(need) <= args.arena_kib * 1024:
            problems.append(f"{model}: vector {i} was left out, and needs {need} bytes only")
        left_out[model].add(int(i))
    table = {
        model: {i: h for i, h in hashes.items() if i not in left_out.get(model, ())}
        for model, hashes in table.items()
    }
    problems += [
        f"{model} {level}: no hash"
        for level in here
        for model in args.models
        if (model, f"level={level}") not in rows
    ]
    used = re.search(r"^stack (\d+) of (\d+) bytes$", text, re.M)
    told = int(re.search(r"kStackBytes = (\d+);", Path(args.stack).read_text())[1]) + OWN_STACK
    if used and 0 < int(used[1]) <= min(told, int(used[2])):
        passed += 1
    else:
        problems.append(
            f"the stack is {used[0] if used else 'not said'}, told are {told} with the image's own"
        )
    print(f"{args.name} image: {passed} passed, 0 failed")
    return report(
        args.name,
        rows,
        table,
        problems,
        time.monotonic() - start,
        f" (levels {' '.join(here)}"
        + (
            f"; {sum(map(len, left_out.values()))} vectors need a larger arena than this board has"
            if left_out
            else ""
        )
        + ")",
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub = parser.add_subparsers(required=True)
    p = sub.add_parser("write")
    p.set_defaults(f=write)
    p.add_argument("driver")
    p = sub.add_parser("compare")
    p.set_defaults(f=compare)
    p.add_argument("name")
    p.add_argument("driver")
    p.add_argument("runner", nargs="*")
    p.add_argument("--levels", default="")
    p.add_argument("--program", help="compare what `PROGRAM verify --json` says, too")
    p.add_argument("--threads", default="1,2,3,7")
    p.add_argument("--chunk", default="0,1,7")
    p.add_argument(
        "--pairs",
        action="store_true",
        help="the first of --threads with the first of --chunk, the second with the second, …",
    )
    p = sub.add_parser("bits")
    p.set_defaults(f=bits)
    p.add_argument("word", nargs="*")
    p = sub.add_parser("board")
    p.set_defaults(f=board)
    p.add_argument("name")
    p.add_argument("image")
    p.add_argument("models", nargs="+", help="the names of the models in the image")
    p.add_argument(
        "--levels", default="scalar", help="the levels that it must choose among, best first"
    )
    p.add_argument(
        "--arena-kib",
        type=int,
        default=1536,
        help="the image's arena; what needs more may be left out",
    )
    p.add_argument(
        "--stack",
        required=True,
        help="the header that says how deep the library's stack goes (kStackBytes)",
    )
    args = parser.parse_args()
    return args.f(args)


if __name__ == "__main__":
    sys.exit(main())
