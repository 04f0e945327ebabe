#!/usr/bin/env python3
"""Every system call of every command fails in turn, in every way of rows.py.

    faults.py TRACER PROGRAM [--share N] [--only NAME] [--jobs N]

TRACER is inject.c's program. --share N: each N-th of the faults of a command, evenly over all of
them. The table has a line for each command and class of calls: how often the call is made, the
faults that were tried, and those after which something was wrong.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import queue
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import inputs  # noqa: E402
from rows import COMMANDS, FAULTS, GOES_ON, NO_FAULTS, SIGNALS  # noqa: E402
from trial import Place, Result, judge, number_of  # noqa: E402


class Fault(NamedTuple):
    command: str
    kind: str
    number: int
    what: str


def faults_of(name: str, clean: Result) -> Iterator[Fault]:
    """Every call that a clean run makes, in every way."""
    python = COMMANDS[name]["words"].startswith("python")
    for call in clean.calls:
        if python and call.kind in NO_FAULTS["python"]:
            continue
        where = call.subject.strip("<>") if call.subject.startswith("<") else "file"
        for what in (*FAULTS[call.kind], *SIGNALS):
            if call.kind == "read" and what in NO_FAULTS.get(where, ()):
                continue
            yield Fault(name, call.kind, call.number, what)


class Campaign:
    def __init__(self, tracer: Path, program: Path, jobs: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="faults-inputs-")
        made = Path(self.folder.name) / "in"
        inputs.write_all(made, program)
        self.places: queue.Queue[Place] = queue.Queue()
        for _ in range(jobs):
            self.places.put(Place(tracer, program, made))
        self.jobs = jobs
        self.clean: dict[str, Result] = {}

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        while not self.places.empty():
            self.places.get().close()
        self.folder.cleanup()

    def run(self, name: str, *flags: str) -> Result:
        place = self.places.get()
        try:
            return place.run(COMMANDS[name], *flags)
        finally:
            self.places.put(place)

    def begin(self, name: str) -> str:
        """The clean run; what is wrong with it."""
        self.clean[name] = clean = self.run(name)
        wanted = COMMANDS[name].get("status", 0)
        if clean.status != wanted or not clean.calls:
            return f"without a fault: status {clean.status}, {clean.error!r}"
        again = self.run(name)
        same = [c[:3] for c in map(_parts, again.calls)] == [
            c[:3] for c in map(_parts, clean.calls)
        ]
        return "" if same else "without a fault: other calls the second time"

    def try_one(self, fault: Fault) -> str:
        goes_on = fault.what in GOES_ON.get(fault.kind, ())
        got = self.run(fault.command, "-f", f"{fault.kind}:{fault.number}:{number_of(fault.what)}")
        row, clean = COMMANDS[fault.command], self.clean[fault.command]
        return judge(row, clean, got, fault.what, goes_on)


def _parts(call) -> tuple:
    return call.kind, call.number, call.name


def report(name: str, clean: Result, tried: dict[str, int], wrong: dict[str, int]) -> None:
    for kind in FAULTS:
        count = sum(call.kind == kind for call in clean.calls)
        if count:
            print(f"{name:<20} {kind:<9} {count:>6} {tried[kind]:>7} {wrong[kind]:>6}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tracer", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    passed = failed = 0
    print(f"{'command':<20} {'call':<9} {'made':>6} {'faults':>7} {'wrong':>6}")
    with Campaign(args.tracer.absolute(), args.program.absolute(), args.jobs) as campaign:
        for name in COMMANDS:
            if args.only and name not in args.only:
                continue
            problem = campaign.begin(name)
            if problem:
                print(f"{name}: {problem}", file=sys.stderr)
                failed += 1
                continue
            clean = campaign.clean[name]
            todo = [f for f in faults_of(name, clean) if not args.kind or f.kind in args.kind]
            todo = todo[:: args.share]
            tried, wrong = dict.fromkeys(FAULTS, 0), dict.fromkeys(FAULTS, 0)
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                for fault, problem in zip(todo, pool.map(campaign.try_one, todo)):
                    tried[fault.kind] += 1
                    if problem:
                        wrong[fault.kind] += 1
                        where = clean_subject(clean, fault)
                        print(
                            f"  {name}: {fault.kind} {fault.number} ({where}) {fault.what}: "
                            f"{problem}",
                            file=sys.stderr,
                            flush=True,
                        )
            report(name, clean, tried, wrong)
            sys.stdout.flush()
            failed += sum(wrong.values())
            passed += sum(tried.values()) - sum(wrong.values())
    print(f"faults: {passed} passed, {failed} failed")
    return failed != 0


def clean_subject(clean: Result, fault: Fault) -> str:
    call = next(c for c in clean.calls if (c.kind, c.number) == (fault.kind, fault.number))
    return f"{call.name} {call.subject}"


if __name__ == "__main__":
    sys.exit(main())
