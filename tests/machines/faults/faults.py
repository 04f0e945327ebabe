#!/usr/bin/env python3
"""What goes wrong around the program and the converter, and what they make of it (README.md).

    faults.py TRACER PROGRAM [--share N] [--share-python N] [--only COMMAND] [--kind CLASS]

TRACER is inject.c's program. --share N: each N-th trial of a command, evenly over all of them;
--share-python N: of one in Python. The table has a line for each command and class of calls: how
often the call is made, what was tried, and after how many of these something was wrong.
"""

from __future__ import annotations

import argparse
import collections
import compileall
import concurrent.futures
import itertools
import os
import platform
import queue
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pipes  # noqa: E402

import calls  # noqa: E402
import inputs  # noqa: E402
import space  # noqa: E402
import stops  # noqa: E402
from rows import COMMANDS  # noqa: E402
from trial import Place, Result, Trial, is_python  # noqa: E402


class Campaign:
    """Places in which trials run side by side."""

    def __init__(self, tracer: Path, program: Path, jobs: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="faults-inputs-")
        made = Path(self.folder.name) / "in"
        inputs.write_all(made, program)
        compileall.compile_dir(inputs.ROOT / "tools", quiet=2)  # else the first runs differ
        self.places: queue.Queue[Place] = queue.Queue()
        for _ in range(jobs):
            self.places.put(Place(tracer, program, made))
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()
        while not self.places.empty():
            self.places.get().close()
        self.folder.cleanup()

    def at_a_place(self, work):
        place = self.places.get()
        try:
            return work(place)
        finally:
            self.places.put(place)

    def clean(self, name: str) -> tuple[Result, str]:
        """A run without a fault, and what is wrong with it."""
        row = COMMANDS[name]
        seen = []
        for _ in range(4):  # processes side by side may be in another order
            found = self.at_a_place(lambda place: place.run(row))
            if found.status != row.get("status", 0) or not found.calls or found.harmed:
                return found, f"without a fault: status {found.status}, {found.error!r}"
            made = sorted(call[:3] for call in found.calls)
            if made in seen:
                return found, ""
            seen.append(made)
        return found, "without a fault: other calls each time"

    def tried(self, trials: list[Trial]):
        """(trial, what is wrong)"""
        work = lambda trial: lambda: self.at_a_place(trial.run)
        return zip(trials, self.pool.map(lambda trial: work(trial)(), trials))


def trials_of(name: str, clean: Result) -> list[Trial]:
    every = [] if COMMANDS[name].get("calls") is False else [calls]
    return list(
        itertools.chain.from_iterable(
            part.trials(name, clean) for part in (*every, space, stops, pipes)
        )
    )


def run_command(campaign: Campaign, name: str, args: argparse.Namespace) -> tuple[int, int]:
    """(passed, failed) of a command, and its lines of the table."""
    clean, problem = campaign.clean(name)
    if problem:
        print(f"{name}: {problem}")
        return 0, 1
    share = args.share_python if is_python(COMMANDS[name]) else args.share
    share *= COMMANDS[name].get("share", 1)
    wanted = [t for t in trials_of(name, clean) if not args.kind or t.kind in args.kind]
    tried, wrong = collections.Counter(), collections.Counter()
    for trial, problem in campaign.tried(wanted[::share]):
        tried[trial.kind] += 1
        if problem:
            wrong[trial.kind] += 1
            print(f"  {name}: {trial.label}: {problem}", flush=True)
    made = collections.Counter(call.kind for call in clean.calls)
    for kind in tried:
        print(f"{name:<22} {kind:<9} {made[kind] or '':>6} {tried[kind]:>7} {wrong[kind]:>6}")
    sys.stdout.flush()
    return tried.total() - wrong.total(), wrong.total()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tracer", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--share-python", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        print("faults: skipped: the tracer knows Linux on x86-64 alone")
        return 0
    passed = failed = 0
    print(f"{'command':<22} {'call':<9} {'made':>6} {'tried':>7} {'wrong':>6}")
    with Campaign(args.tracer.absolute(), args.program.absolute(), args.jobs) as campaign:
        for name in args.only or COMMANDS:
            good, bad = run_command(campaign, name, args)
            passed, failed = passed + good, failed + bad
    print(f"faults: {passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
