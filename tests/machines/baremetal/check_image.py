#!/usr/bin/env python3
"""Runs a speaking image (tests/machines/baremetal/speak.c) on an emulated board and compares it
with the host's program.

    check_image.py BOARD IMAGE --program build/phasor --model FILE --inputs FILE --header model.h
    --new N
    check_image.py BOARD IMAGE --plain …      the same text, from a program that prints nothing else
    check_image.py BOARD IMAGE --refused

The image's symbols are looked at, its texts must be those of the host with the same limits, and
with a byte of the weight file in flash changed, in its head and in its last tensor, the image must
refuse it with a status.
"""

import argparse
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/machines/cross"))

from hash_check import HEAP, OWN_STACK, QEMU  # noqa: E402


def run(command, **options):
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
        stdin=subprocess.DEVNULL,
        **options,
    )
    return done.returncode, done.stdout + done.stderr


def emulate(board, image):
    return run([*QEMU, "-M", board, "-kernel", str(image)])


def forbidden(image):
    """Names of the image that belong to an allocator, to output or to a C library."""
    rc, text = run(["arm-none-eabi-nm", str(image)])
    if rc:
        sys.exit(text)
    return sorted(
        {line.split()[-1] for line in text.splitlines() if HEAP.fullmatch(line.split()[-1])}
    )


def check_itself(folder):
    """An image that has such names is told from one that has not."""
    bad = (
        "malloc free calloc realloc _malloc_r _sbrk _Znwj _ZdlPv printf snprintf abort exit puts"
    ).split()
    source, made = Path(folder) / "planted.S", Path(folder) / "planted.o"
    source.write_text(
        "".join(
            f".global {name}\n{name}:\n"
            for name in [*bad, "memcpy", "phasor_model_open", "board_puts"]
        )
        + ".word 0\n"
    )
    rc, text = run(["arm-none-eabi-gcc", "-c", str(source), "-o", str(made)])
    if rc:
        sys.exit(text)
    return forbidden(made) == sorted(bad)


def limits_of(header):
    """What model.h says: (name, number), and the ten numbers of the limits."""
    text = Path(header).read_text()
    numbers = {
        name: int(value)
        for name, value in re.findall(r"^#define \w+?_PHASOR_(\w+) (\d+)u$", text, re.M)
    }
    limits = re.search(r"_LIMITS \{ sizeof\(phasor_limits\), (.*) \}", text)[1]
    return numbers, [int(value.rstrip("u")) for value in limits.split(", ")]


def on_the_host(args, texts):
    numbers, limits = limits_of(args.header)
    command = [
        args.program,
        "run",
        args.model,
        "--quiet",
        "-n",
        str(args.new),
        "--context",
        str(numbers["CONTEXT"]),
    ]
    command += ["--source", str(numbers["SOURCE"])] if numbers["SOURCE"] else []
    command += ["--cache", "f16"] if limits[7] else []
    command += ["--beam", str(limits[11])] if limits[11] else []
    lines = []
    for text in texts:
        rc, out = run([*command, text])
        if rc:
            sys.exit(out)
        lines.append(out.removesuffix("\n").replace("\n", " "))
    return lines


def place_in_image(image, symbol):
    """Where the bytes of a symbol lie in an ELF file of 32 bits."""
    rc, text = run(["arm-none-eabi-nm", str(image)])
    address = next(
        int(line.split()[0], 16) for line in text.splitlines() if line.split()[-1] == symbol
    )
    data = Path(image).read_bytes()
    (first,) = struct.unpack_from("<I", data, 28)
    size, count = struct.unpack_from("<HH", data, 42)
    for i in range(count):
        kind, offset, start, _, held = struct.unpack_from("<5I", data, first + i * size)
        if kind == 1 and start <= address < start + held:
            return offset + address - start
    sys.exit(f"{image}: {symbol} is in no segment")


def damaged(image, model, at, folder):
    """The image with one bit of the weight file changed."""
    data = bytearray(Path(image).read_bytes())
    weights, place = Path(model).read_bytes(), place_in_image(image, "model_phasor")
    if data[place : place + len(weights)] != weights:
        sys.exit(f"{image}: the weights in the image are not {model}")
    data[place + at] ^= 4
    path = Path(folder) / f"damaged-{at}.elf"
    path.write_bytes(data)
    return path


def check(args):
    passed, problems = [], []

    def result(good, what, detail=""):
        (passed if good else problems).append(what)
        print(f"{'ok' if good else 'FAIL'} {what}{detail}")

    with tempfile.TemporaryDirectory() as folder:
        result(
            check_itself(folder),
            "names of an allocator, of output and of a C library are found where they are",
        )
    names = forbidden(args.image)
    result(
        not names,
        "no allocator, no output, no C library in the image",
        f": {' '.join(names)}" if names else "",
    )
    texts = Path(args.inputs).read_text(encoding="utf-8").splitlines()
    rc, out = emulate(args.board, args.image)
    for line in out.splitlines():
        if line.startswith(("ok ", "FAIL ")):
            result(line.startswith("ok "), line.split(" ", 1)[1])
    said = [line[5:] for line in out.splitlines() if line.startswith("text ")]
    result(rc == 0, "the image ends well", "" if rc == 0 else f": exit code {rc}: {out[-300:]}")
    wanted = on_the_host(args, texts)
    result(
        said == wanted and len(said) == len(texts) > 0,
        "the host's text",
        f"\n  board {said}\n  host  {wanted}" if said != wanted else "",
    )
    for text, line in zip(texts, said):
        print(f"  {text} | {line}")
    if args.published:
        published = Path(args.published).read_text().replace("\n", " ").strip()
        told = (texts[0] + said[0]).strip() if said else ""
        shorter = min(len(told), len(published))
        result(shorter > 200 and told[:shorter] == published[:shorter], "the published text")
    figures = {name: int(value) for name, value in re.findall(r"^figure (\w+) (\d+)$", out, re.M)}
    print("  " + ", ".join(f"{name} {value:,}" for name, value in figures.items()))
    told = limits_of(args.header)[0]["STACK_BYTES"] + OWN_STACK
    result(
        0 < figures.get("stack_used", 0) <= min(told, figures.get("stack_size", 0)),
        f"the stack is no deeper than what is told, {told:,} with this program's own",
    )
    weights = Path(args.model).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        for at, what in ((96, "head"), (len(weights) - 5, "last tensor")):
            rc, out = emulate(args.board, damaged(args.image, args.model, at, folder))
            refusal = next((line for line in out.splitlines() if line.startswith("refused ")), "")
            result(
                rc == 2 and refusal.startswith("refused bad checksum"),
                f"a damaged {what} is refused",
                f": {refusal or out[-200:]}",
            )
    return passed, problems


def check_plain(args):
    """A program that prints its texts and nothing else."""
    rc, out = emulate(args.board, args.image)
    texts = Path(args.inputs).read_text(encoding="utf-8").splitlines()
    wanted, said = on_the_host(args, texts), out.splitlines()
    good = rc == 0 and said == wanted and len(said) == len(texts) > 0 and not forbidden(args.image)
    print(f"{'ok' if good else 'FAIL'} the host's text: board {said}, host {wanted}")
    return ["text"] if good else [], [] if good else ["text"]


def check_refusal(args):
    """An engine built without what the model needs says so."""
    rc, out = emulate(args.board, args.image)
    refusal = next((line for line in out.splitlines() if line.startswith("refused ")), "")
    good = rc == 2 and refusal.startswith("refused unsupported")
    print(
        f"{'ok' if good else 'FAIL'} a model that needs what is left out: {refusal or out[-200:]}"
    )
    return ["refused"] if good else [], [] if good else ["refused"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("board")
    parser.add_argument("image")
    for name in ("program", "model", "inputs", "header"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--new", type=int)
    parser.add_argument(
        "--plain", action="store_true", help="the image prints its texts and nothing else"
    )
    parser.add_argument(
        "--refused",
        action="store_true",
        help="the image must refuse its model: this build has not what it needs",
    )
    parser.add_argument(
        "--published", help="what the model's authors say that the first input gives"
    )
    args = parser.parse_args()
    start = time.monotonic()
    kind = check_refusal if args.refused else check_plain if args.plain else check
    passed, problems = kind(args)
    name = f"{args.board} {Path(args.image).stem}"
    print(f"{name}: {time.monotonic() - start:.0f} s")
    print(f"{name}: {len(passed)} passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
