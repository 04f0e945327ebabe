"""Hostile inputs for every reader of the converter: `make fuzz-python COUNT=1000 FIRST=0`.

    campaign.py [--count N] [--first F] [--readers a,b] [--jobs J] [--coverage]
    campaign.py --show READER NUMBER [--keep FOLDER]      one of them again, with its trace

COUNT inputs of each reader, by their numbers: the same on every machine. Each goes through the
tool's front door in this process, one in 200 through the program too. A table says how many were
refused and how many gave a result; a finding prints the command that repeats it. Exit 1 with a
finding.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
for _folder in (ROOT / "tools", ROOT / "tests" / "support", ROOT / "tests"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

PER_PROCESS = 1000
EVERY = 200  # one in so many goes through the program
AGAIN = 10  # one in so many results is verified once more


class Chunk(NamedTuple):
    reader: str
    first: int
    count: int


class Result(NamedTuple):
    """Of one input; finding is empty where the property holds."""

    number: int
    status: int
    milliseconds: float
    megabytes: float
    finding: str


def scratch() -> Path:
    """Where inputs are written: memory, where the machine has a folder of it."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def results(chunk: Chunk, folder: Path, every: int = EVERY) -> Iterator[Result]:
    """Reads the inputs of a chunk one after the other."""
    import readers
    import watch

    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    for number in range(chunk.first, chunk.first + chunk.count):
        source = readers.source(chunk.reader, number)
        try:
            again = number % AGAIN == 0 or source.door != "convert"
            found = watch.run(source, folder, again)
            if number % every == every - 1 and source.door == "convert":
                program = watch.run_program(source, folder)
                if program.status != found.status:
                    raise watch.Finding(f"the program gives {program.status}, not {found.status}")
        except watch.Finding as finding:
            yield Result(number, -1, 0.0, 0.0, str(finding))
            continue
        yield Result(number, found.status, 1e3 * found.seconds, found.bytes / 1e6, "")


def worker(chunk: Chunk) -> None:
    """Prints the results of a chunk, a line each."""
    os.environ["PHASOR_TRACEBACK"] = ""
    import watch

    watch.limit_memory()
    gc.freeze()
    with tempfile.TemporaryDirectory(dir=scratch(), prefix="phasor-fuzz-") as folder:
        for result in results(chunk, Path(folder)):
            print(json.dumps(result), flush=True)


def run_chunk(chunk: Chunk, coverage: Path | None) -> list[Result]:
    """In a process of its own, whose end in the middle is a finding too."""
    measured = ["-m", "coverage", "run", "--branch", "--parallel-mode"] if coverage else []
    source = [f"--source={ROOT / 'tools' / 'phasor'}"] if coverage else []
    words = [sys.executable, *measured, *source, __file__, "--worker", *map(str, chunk)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, cwd=coverage, env=environment)
    out = [Result(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    if len(out) < chunk.count:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        finding = f"the process ends with {done.returncode}: {said[:200]}"
        out.append(Result(chunk.first + len(out), -1, 0.0, 0.0, finding))
    return out


def run_here(chunk: Chunk) -> list[Result]:
    """In this process."""
    with tempfile.TemporaryDirectory(dir=scratch(), prefix="phasor-fuzz-") as folder:
        return list(results(chunk, Path(folder)))


def row(reader: str, found: Sequence[Result]) -> str:
    counts = [sum(r.status == status for r in found) for status in (1, 0, -1)]
    slowest = max((r.milliseconds for r in found), default=0.0)
    largest = max((r.megabytes for r in found), default=0.0)
    words = (len(found), *counts[:2], round(slowest), round(largest), counts[2])
    return f"{reader:18}" + "".join(f"{word:>12,}" for word in words)


HEAD = f"{'reader':18}" + "".join(
    f"{word:>12}"
    for word in ("inputs", "refused", "accepted", "slowest ms", "memory MB", "findings")
)


def campaign(args: argparse.Namespace) -> int:
    import readers

    names = args.readers.split(",") if args.readers else list(readers.READERS)
    chunks = [
        Chunk(name, first, min(PER_PROCESS, args.first + args.count - first))
        for first in range(args.first, args.first + args.count, PER_PROCESS)
        for name in names
    ]
    found: dict[str, list[Result]] = {name: [] for name in names}
    coverage = Path(tempfile.mkdtemp(prefix="phasor-coverage-")) if args.coverage else None
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        run = (lambda chunk: run_chunk(chunk, coverage)) if args.jobs else run_here
        for chunk, some in zip(chunks, pool.map(run, chunks) if args.jobs else map(run, chunks)):
            found[chunk.reader] += some
            for result in some:
                if result.finding:
                    print(f"{chunk.reader} {result.number}: {result.finding[:400]}")
                    print(f"  make fuzz-python SHOW='{chunk.reader} {result.number}'", flush=True)
    print(HEAD)
    for name, some in found.items():
        print(row(name, some))
    everything = [result for some in found.values() for result in some]
    print(row("all", everything))
    if coverage:
        report_coverage(coverage)
    return int(any(result.finding for result in everything))


def report_coverage(folder: Path) -> None:
    """Lines and branches of the readers' modules that these inputs alone reach."""
    import readers
    import words

    command = [sys.executable, "-m", "coverage"]
    subprocess.run([*command, "combine", "--quiet"], cwd=folder, check=True)
    subprocess.run([*command, "json", "--quiet"], cwd=folder, check=True)
    files = json.loads((folder / "coverage.json").read_text())["files"]
    by_name = {name.partition("tools/phasor/")[2]: part["summary"] for name, part in files.items()}
    print(f"\n{'module':44}{'lines':>10}{'branches':>10}")
    patterns = [p for row in readers.READERS.values() for p in row]
    for name in dict.fromkeys(words.modules_of(patterns)):
        s = by_name[name]
        lines = 100 * s["covered_lines"] / max(1, s["num_statements"])
        branches = 100 * s["covered_branches"] / max(1, s["num_branches"])
        print(f"{name:44}{lines:>9.1f}%{branches:>9.1f}%")
    print(f"the figures are in {folder}")


def show(reader: str, number: int, keep: Path | None) -> int:
    """One input again: its files, what is printed, the finding."""
    import readers
    import watch

    os.environ["PHASOR_TRACEBACK"] = "1"
    source = readers.source(reader, number)
    with tempfile.TemporaryDirectory(dir=scratch(), prefix="phasor-fuzz-") as folder:
        place = keep or Path(folder)
        watch.clear(place)
        print(" ".join([source.door, *source.write(place)]))
        for name, data in source.files.items():
            print(f"  {name}: {len(data):,} bytes: {data[:160]!r}")
        watch.clear(place)
        os.environ["TMPDIR"] = tempfile.tempdir = str(place / "tmp")
        status, said = watch._call(source, source.write(place))
        print(f"exit {status}\n{said}", end="")
        os.environ["PHASOR_TRACEBACK"] = ""
        try:
            print(watch.run(source, place))
        except watch.Finding as finding:
            print(f"finding: {finding}")
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile inputs for the converter's readers.")
    parser.add_argument("--count", type=int, default=250, help="inputs of each reader (250)")
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--readers", default="", metavar="A,B", help="these only")
    jobs = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=jobs, help="processes (0: only this one)")
    parser.add_argument("--coverage", action="store_true", help="what of the readers is reached")
    parser.add_argument("--show", nargs=2, metavar=("READER", "NUMBER"))
    parser.add_argument("--keep", type=Path, help="with --show: where the files are left")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(Chunk(args.worker[0], int(args.worker[1]), int(args.worker[2])))
        return 0
    if args.show:
        return show(args.show[0], int(args.show[1]), args.keep)
    return campaign(args)


if __name__ == "__main__":
    sys.exit(main())
