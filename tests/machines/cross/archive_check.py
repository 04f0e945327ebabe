#!/usr/bin/env python3
"""The archive of weight files: what was ever written opens, and gives its bits, for ever.

    archive_check.py write DRIVER PROGRAM            adds a row for each file that has none, from
                                                     the scalar level; rows that are there stay
    archive_check.py compare NAME DRIVER [RUNNER]    every level, one thread in the plan's chunks
                                                     and, without an emulator, two in chunks of 7;
                                                     with --program each file is verified and its
                                                     text made ids too

tests/golden/archive/ARCHIVE.txt is the index, one row a file: name, format version, family, type,
SHA-256, hashes of the logits of its test vectors (those of tests/golden/models are in hashes.txt),
and the hash of the ids of a text where it has a tokenizer. DRIVER is build/hash_driver.
"""

import argparse
import hashlib
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from hash_check import report, run, vectors

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
INDEX = GOLDEN / "archive/ARCHIVE.txt"
FOLDERS = ("models", "archive")
TEXT = "Ein cat, 3 mice & 猫。\tDon't  stop — naïve ﬁn 🙂 <s>"
HEAD = """\
# Every weight file of the archive: file, format version, family, type, SHA-256, hashes of the
# logits of its vectors (-: they are in hashes.txt), hash of the ids of archive_check.py's text
# (-: it has no tokenizer). A row never changes.
"""


class Row(NamedTuple):
    file: str  # folder/name below tests/golden
    version: int
    family: str
    type: str
    sha256: str
    hashes: str
    text: str


def read_index() -> dict[str, Row]:
    rows = {}
    for line in INDEX.read_text().splitlines() if INDEX.is_file() else ():
        if line and not line.startswith("#"):
            file, version, *rest = line.split()
            rows[file] = Row(file, int(version), *rest)
    return rows


def files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (GOLDEN / folder).glob("*.phasor"))


def name_of(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def ids(command: list[str], path: Path) -> str:
    """The hash of the ids of the text; - for a file without a tokenizer."""
    rc, out = run([*command, "tokenize", "--print-ids", str(path), TEXT])
    if rc:
        return "-" if "tokenizer" in out else f"failed:{' '.join(out.split())[:60]}"
    return hashlib.sha256(out.encode()).hexdigest()[:16]


def logits(text: str, level: str = "") -> dict[str, dict[str, str]]:
    """{model: {way: its hashes}} of what the driver says."""
    found: dict[str, dict[str, str]] = {}
    for (model, way), by_vector in vectors(text).items():
        if level in way and "+" not in model:
            found.setdefault(model, {})[way] = ",".join(h for _, h in sorted(by_vector.items()))
    return found


def write(args) -> int:
    rows = read_index()
    new = [path for path in files() if name_of(path) not in rows]
    if not new:
        print("archive: every file has its row")
        return 0
    command = [args.driver, "--isa", "scalar", "--threads", "1", "--chunk", "0", *map(str, new)]
    rc, out = run(command)
    if rc:
        sys.exit(out)
    found = logits(out)
    for path in new:
        family, _, kind = re.sub(r"^(tiny|v\d+)-", "", path.stem).rpartition("-")
        (hashes,) = found[path.stem].values()
        version = int.from_bytes(path.read_bytes()[8:12], "little")
        told = "-" if path.parent.name == "models" else hashes
        text = ids([args.program], path)
        rows[name_of(path)] = Row(
            name_of(path), version, family, kind, digest(path), told, text
        )  # fmt: skip
    lines = [" ".join(map(str, rows[name])) for name in sorted(rows)]
    INDEX.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{INDEX.relative_to(ROOT)}: {len(new)} new rows of {len(rows)}")
    return 0


def compare(args) -> int:
    rows, start = read_index(), time.monotonic()
    problems = [f"{name_of(p)} has no row: make archive" for p in files() if name_of(p) not in rows]
    problems += [f"{file} is not there" for file in rows if not (GOLDEN / file).is_file()]
    ours = {Path(f).stem: row for f, row in rows.items() if (GOLDEN / f).is_file()}
    for row in ours.values():
        data = (GOLDEN / row.file).read_bytes()
        if hashlib.sha256(data).hexdigest() != row.sha256:
            problems.append(f"{row.file} is another file than that of its row")
        if int.from_bytes(data[8:12], "little") != row.version:
            problems.append(f"{row.file}: its version is not {row.version}")
    replayed = sorted(str(GOLDEN / row.file) for row in ours.values() if row.hashes != "-")
    # Emulated once: hash_check.py has the golden models there in every way.
    ways = (
        ["--threads", "1", "--chunk", "0"]
        if args.runner
        else ["--threads", "1,2", "--chunk", "0,7"]
    )
    rc, out = run([*args.runner, args.driver, "--pairs", *ways, *replayed])
    if rc:
        problems.append(f"the driver ended with {rc}: {' '.join(out.splitlines()[-3:])}")
    found = {
        (model, way): dict(enumerate(hashes.split(",")))
        for model, ways in logits(out).items()
        for way, hashes in ways.items()
    }
    problems += [
        f"{name}: no hash"
        for name, row in ours.items()
        if row.hashes != "-" and not any(model == name for model, _ in found)
    ]
    table = {name: dict(enumerate(row.hashes.split(","))) for name, row in ours.items()}
    if args.program:
        for name, row in ours.items():
            status, said = run([*args.runner, args.program, "verify", str(GOLDEN / row.file)])
            if status:
                problems.append(f"{row.file}: verify ended with {status}: {said.strip()[-200:]}")
            text = ids([*args.runner, args.program], GOLDEN / row.file)
            if text != row.text:
                problems.append(f"{row.file}: the ids of a text are {text}, the row has {row.text}")
    return report(f"{args.name} archive", found, table, problems, time.monotonic() - start)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub = parser.add_subparsers(required=True)
    p = sub.add_parser("write")
    p.set_defaults(f=write)
    p.add_argument("driver")
    p.add_argument("program")
    p = sub.add_parser("compare")
    p.set_defaults(f=compare)
    p.add_argument("name")
    p.add_argument("driver")
    p.add_argument("runner", nargs="*")
    p.add_argument("--program", help="verify each file, and make ids of a text")
    args = parser.parse_args()
    return args.f(args)


if __name__ == "__main__":
    sys.exit(main())
