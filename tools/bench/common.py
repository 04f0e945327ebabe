"""What the benchmarks share: engines as processes that answer requests in turns, medians, and
results as JSON in build/bench.

An engine under test is a program that reads a request a line and answers with a JSON object a line.
All engines of a comparison are there at the same time and are asked in turns, so that what else
happens on the machine meets them alike; the first answers are thrown away.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from phasor.files import write_text

ROOT = Path(__file__).resolve().parents[2]
OURS = "Phasor"


def resident(field: str, pid: int | str = "self") -> int:
    """A line of /proc/PID/status in bytes: VmRSS, VmHWM, RssFile, RssAnon; 0 where there is
    none."""
    try:
        for line in (
            Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        ):
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def machine() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in text.splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    flags = next(
        (set(line.split()) for line in text.splitlines() if line.startswith(("flags", "Features"))),
        set(),
    )
    seen = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimddp") if f in flags]
    return f"{model}, {os.cpu_count()} cores, {' '.join(seen)}"


def compiler() -> str:
    r = subprocess.run(
        [os.environ.get("CXX", "g++"), "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return r.stdout.splitlines()[0] if r.stdout else "compiler unknown"


def commit() -> str:
    r = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return r.stdout.strip() or "no commit"


def run_json(command: Sequence[str]) -> dict[str, Any]:
    r = subprocess.run(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    if r.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {r.stderr.strip()[-600:]}")
    return json.loads(r.stdout)


class Worker:
    """An engine that answers requests. `hello` is what it says of itself before the first."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = [str(c) for c in command]
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        )
        self.hello = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            self.process.wait()
            sys.exit(
                f"{' '.join(self.command)}: stopped with {self.process.returncode} {line.strip()}"
            )
        return json.loads(line)

    def ask(self, request: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.process.communicate()


def serve(answer: Callable[[list[str]], dict[str, Any]], hello: dict[str, Any]) -> None:
    """The other end, in Python."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    print(json.dumps(hello), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.split())), file=out, flush=True)


def kernel_rates(kernels: Worker, kind: str) -> tuple[list[float], list[float]]:
    """GB/s of one row and GOP/s of 64, five times, of a matrix that is never read from memory: 512
    outputs of 256 inputs are half a MiB in f32. `kernels` is bench_linear; the best is the ceiling
    of what is made of these products."""
    one, many = (
        [kernels.ask(f"linear {kind} 1 512 256") for _ in range(5)],
        [kernels.ask(f"linear {kind} 64 512 256") for _ in range(5)],
    )
    return [1e-9 * a["bytes"] / a["seconds"] for a in one], [
        2e-9 * 64 * 512 * 256 / a["seconds"] for a in many
    ]


def take_turns(
    workers: dict[str, Worker], request: str, runs: int, pause: float = 0.02
) -> dict[str, list[dict[str, Any]]]:
    """The answers of `runs` rounds, after one that is not counted. The order changes from round to
    round."""
    out: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
    for run in range(runs + 1):
        turn = list(workers.items())
        for name, worker in turn if run % 2 == 0 else turn[::-1]:
            time.sleep(pause)  # until the other's threads sleep
            answer = worker.ask(request)
            if run != 0:
                out[name].append(answer)
    return out


def spread(values: Sequence[float]) -> float:
    """(largest − smallest) / median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


class Results:
    """The figures of one part of the benchmark: kept in build/bench/NAME.json as soon as they are
    there."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.path = name, folder / f"{name}.json"
        self.began, self.load = time.time(), os.getloadavg()[0]
        self.cases: list[dict[str, Any]] = []
        self.facts: dict[str, str] = {}
        self.aims: list[dict[str, Any]] = []

    def add(self, what: str, engine: str, values: Iterable[float], unit: str, **where: Any) -> None:
        """`where`: type, threads, and whatever else says which case this is."""
        values = [float(v) for v in values]
        self.cases.append(
            {
                "what": what,
                "engine": engine,
                "unit": unit,
                "values": values,
                "median": statistics.median(values),
                **where,
            }
        )
        case = " ".join(f"{v}" for v in where.values())
        print(
            f"  {what:<12} {case:<24} {engine:<14} {statistics.median(values):>12,.4g} {unit}  "
            f"spread {spread(values) * 100:.0f} %",
            file=sys.stderr,
            flush=True,
        )

    def median(self, what: str, engine: str, **where: Any) -> float | None:
        """Of the case, None when it was not measured."""
        found = [
            c
            for c in self.cases
            if c["what"] == what
            and c["engine"] == engine
            and all(c.get(k) == v for k, v in where.items())
        ]
        return found[-1]["median"] if found else None

    def aim(
        self,
        claim: str,
        against: str,
        ours: float | None,
        theirs: float | None,
        least: float,
        kind: str = "more",
    ) -> None:
        """What is aimed at. kind "more": ours at least `least` times theirs; "faster": theirs (a
        time) at least `least` times ours; "most": ours at most `least` times theirs. Nothing where
        one of the two was not measured."""
        if ours and theirs:
            self.aims.append(
                {
                    "claim": claim,
                    "against": against,
                    "ours": ours,
                    "theirs": theirs,
                    "ratio": theirs / ours if kind == "faster" else ours / theirs,
                    "least": least,
                    "kind": kind,
                }
            )

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "load": [self.load, os.getloadavg()[0]],
            "machine": machine(),
            "compiler": compiler(),
            "commit": commit(),
            "python": platform.python_version(),
            "facts": self.facts,
            "aims": self.aims,
            "cases": self.cases,
        }

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(self.as_dict(), indent=1))


def engine_versions(workers: dict[str, Worker]) -> dict[str, str]:
    return {
        name: worker.hello["version"]
        for name, worker in workers.items()
        if "version" in worker.hello
    }
