"""What the benchmarks share: engines as processes that answer requests in turns, medians, and
results as JSON, a file for each machine and day.

An engine under test is a program that reads a request a line and answers with a JSON object a line.
All engines of a comparison are there at the same time, a model a process, and are asked in turns,
so that what else happens on the machine meets them alike; one process is awake at a time, and the
first answers are thrown away. A peer's figure at T threads is that of its best settings at no more
than T threads (`Candidates`).
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

from phasor.files import read_json, write_text

ROOT = Path(__file__).resolve().parents[2]
OURS = "Phasor"
Answer = dict[str, Any]  # a JSON object
Answers = dict[str, list[Answer]]  # of each engine, in the order of the rounds


# ---- the machine


def status(field: str) -> int:
    """A line of this process's /proc/self/status in bytes; 0 where there is none."""
    path = Path("/proc/self/status")
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def memory() -> dict[str, int]:
    """What this process holds, in bytes, under the names that the programs in C++ give."""
    return {"rss": status("VmRSS"), "peak": status("VmHWM")}


def machine() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    model = fields.get("model name") or platform.processor() or platform.machine()
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    known = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
    seen = [f for f in known if f in flags]
    return f"{model}, {os.cpu_count()} cores, {' '.join(seen)}"


def first_line(*words: str) -> str | None:
    """Of what a program prints; None when it prints nothing."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return next(iter(done.stdout.splitlines()), None)


def compiler() -> str:
    return first_line(os.environ.get("CXX", "g++"), "--version") or "compiler unknown"


def commit() -> str:
    return first_line("git", "-C", str(ROOT), "describe", "--always", "--dirty") or "no commit"


def types_of(args: Any, measured: Sequence[str], usual: Sequence[str] = ()) -> tuple[str, ...]:
    """The types that a row measures: those of --types, else the usual ones, or all."""
    wanted = args.types or usual or measured
    found = tuple(kind for kind in measured if kind in wanted)
    if not found:
        sys.exit(f"bench: --types {' '.join(wanted)}: expected some of {', '.join(measured)}")
    return found


def at_threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


# ---- programs


def _check_current(program: Path) -> None:
    """Ends where the library beside a program is newer: the program measures what was before."""
    library = program.parent / "libphasor.a"
    if not (program.is_file() and library.is_file()):
        return
    if program.stat().st_mtime < library.stat().st_mtime:
        sys.exit(f"{program}: is older than {library.name}. TRY: make {program}")


def command(*words: object, **options: object) -> list[str]:
    """A command line: the words, then the options. threads=2 is `--threads 2`, n=2 is `-n 2`, True
    is the option alone, None is nothing, and a list gives the option once for each value."""
    out = [str(word) for word in words]
    _check_current(Path(out[0]))
    for name, given in options.items():
        option = ("-" if len(name) == 1 else "--") + name.replace("_", "-")
        for value in given if isinstance(given, list) else [given]:
            if value is not None:
                out += [option] if value is True else [option, str(value)]
    return out


def run_json(*words: object, **options: object) -> Answer:
    """The JSON object that a program prints."""
    line = command(*words, **options)
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{' '.join(line)}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout)


class Cost(NamedTuple):
    seconds: float  # of the processor
    peak: int  # bytes resident
    wall: float  # seconds of the clock


def cost(*words: object, given: Path | None = None) -> Cost:
    """Of a command with one thread, and of what it starts. given: its standard input."""
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    one_thread["TOKENIZERS_PARALLELISM"] = "false"
    begin = time.perf_counter()
    with open(given or os.devnull, "rb") as source:
        process = subprocess.Popen(
            list(map(str, words)),
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **one_thread, "PYTHONPATH": str(ROOT / "tools")},
        )
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: {' '.join(map(str, words))}: stopped with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, wall)


def convert(source: object, output: Path, kind: str | None, tokenizer: str | None = "none") -> None:
    """tools/convert.py; None leaves the option out."""
    line = command(sys.executable, ROOT / "tools" / "convert.py", source, o=output, type=kind)
    subprocess.run([*line, *command(tokenizer=tokenizer), "--quiet"], check=True)


class Worker:
    """An engine that answers requests, with one model in its process. `hello` is what it says of
    itself before the first. The process is awake from a request to its answer and stopped between:
    threads that spin in one engine's process take no time from another's."""

    def __init__(
        self, *words: object, environment: dict[str, str] | None = None, **options: object
    ) -> None:
        self.command = command(*words, **options)
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), **(environment or {})},
            start_new_session=True,
        )
        self.hello = self._answer()

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def _answer(self) -> Answer:
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            self.process.wait()
            code = self.process.returncode
            sys.exit(f"{' '.join(self.command)}: stopped with {code} {line.strip()}")
        self._signal(signal.SIGSTOP)
        said = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if said.si_code == os.CLD_STOPPED:  # it is, now; an end is left to Popen
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        return json.loads(line)

    def ask(self, request: str) -> Answer:
        self._signal(signal.SIGCONT)
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._signal(signal.SIGCONT)
        self.process.communicate()


class Candidates:
    """An engine as its users may set it up: a worker for each choice. What is asked is answered by
    the choice that was fastest when it was tried, under whose name the answer says so."""

    def __init__(self, workers: dict[str, Worker]) -> None:
        self.workers, self.chosen = workers, dict[str, str]()
        self.last = next(iter(workers))
        self.hello = workers[self.last].hello

    def choose(self, request: str) -> None:
        """Tries the request with every choice, in three rounds; requests of the same method go to
        the one with the fastest answer from now on."""
        times = dict.fromkeys(self.workers, float("inf"))
        for _ in range(3):
            for name, worker in self.workers.items():
                times[name] = min(times[name], worker.ask(request)["seconds"])
        self.chosen[request.split()[0]] = min(times, key=times.__getitem__)

    def ask(self, request: str) -> Answer:
        self.last = self.chosen.get(request.split()[0], self.last)
        return self.workers[self.last].ask(request) | {"settings": self.last}

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


# What a peer's documentation lets its user set for speed, a choice each: environment variables.
# CTranslate2: "Environment variables" and "Performance tips" of its documentation (packed weights
# need MKL; OMP_WAIT_POLICY is libgomp's, with which its wheels come). ONNX Runtime: "Thread
# management". PyTorch: "Grokking PyTorch CPU performance" (KMP_BLOCKTIME is of another OpenMP
# library than that of its wheels).
SETTINGS: dict[str, tuple[dict[str, str], ...]] = {
    "ct2": (
        {},
        {"OMP_WAIT_POLICY": "PASSIVE"},
        {"OMP_WAIT_POLICY": "ACTIVE"},
        {"CT2_USE_MKL": "1"},
        {"CT2_USE_MKL": "1", "CT2_USE_EXPERIMENTAL_PACKED_GEMM": "1"},
    ),
    "onnx": ({}, {"BENCH_ONNX_SPIN": "0"}),  # its session.intra_op.allow_spinning
    "llama": ({}, {"OMP_WAIT_POLICY": "ACTIVE"}),
    "sentence-transformers": ({}, {"OMP_WAIT_POLICY": "ACTIVE"}),
}


# Those that say how idle threads wait: nothing at one thread.
_WAITING = {"OMP_WAIT_POLICY", "BENCH_ONNX_SPIN"}


def peer(
    name: str,
    *words: object,
    threads: int = 1,
    environment: dict[str, str] | None = None,
    **options: object,
) -> Candidates:
    """One of peers.PEERS at no more than so many threads and in each of its settings, each in a
    Python of its own; environment: beside the settings."""
    own = SETTINGS.get(name.split("-")[0]) or SETTINGS.get(name, ({},))
    workers = {}
    for count in range(1, threads + 1):
        counts = {name: str(count) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        for settings in own:
            if count == 1 and _WAITING & settings.keys():
                continue
            said = [at_threads(count), *(f"{k}={v}" for k, v in settings.items())]
            workers[", ".join(said)] = Worker(
                *(sys.executable, "-m", "bench.peers", name, *words),
                environment=counts | settings | (environment or {}),
                threads=count,
                **options,
            )
    return Candidates(workers)


class Engines(dict[str, Any]):
    """The engines of a comparison by name; they end with the block."""

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self.values():
            worker.close()

    def versions(self) -> dict[str, str]:
        """What each says of itself: a peer its version, ours its instruction-set level."""
        said = {name: worker.hello for name, worker in self.items()}
        out = {name: hello["version"] for name, hello in said.items() if "version" in hello}
        return out | ({OURS: said[OURS]["isa"]} if OURS in said else {})

    def take_turns(
        self, request: str, runs: int, pause: float = 0.02, choose: str | None = None
    ) -> Answers:
        """The answers of `runs` rounds, after one that is not counted. The order changes from round
        to round. choose: the request by which a peer's settings are chosen, if not this one."""
        for worker in self.values():
            if isinstance(worker, Candidates):
                worker.choose(choose or request)
        out: Answers = {name: [] for name in self}
        for run in range(runs + 1):
            turn = list(self.items())
            for name, worker in turn if run % 2 == 0 else turn[::-1]:
                time.sleep(pause)  # until the other's threads sleep
                answer = worker.ask(request)
                if run != 0:
                    out[name].append(answer)
        return out


def kernel_rates(kernels: Worker, kind: str) -> tuple[list[float], list[float]]:
    """GB/s of one row and GOP/s of 64, five times, of a matrix that is never read from memory: 512
    outputs of 256 inputs are half a MiB in f32. `kernels` is bench_linear; the best is the ceiling
    of what is made of these products."""
    one, many = (
        [kernels.ask(f"linear {kind} {rows} 512 256") for _ in range(5)] for rows in (1, 64)
    )
    operations = 2 * 64 * 512 * 256
    return (
        [1e-9 * a["bytes"] / a["seconds"] for a in one],
        [1e-9 * operations / a["seconds"] for a in many],
    )


# ---- results


def spread(values: Sequence[float]) -> float:
    """(largest − smallest) / median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def settings_of(answers: Sequence[Answer]) -> str:
    return answers[0].get("settings", "") if answers else ""


class Results:
    """The figures of one part of the benchmark, kept as soon as they are there: in the file of this
    machine and day, a part of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        day, words = time.strftime("%Y-%m-%d", time.gmtime()), machine().lower()
        slug = "-".join("".join(c if c.isalnum() else " " for c in words).split())
        self.path = folder / f"{day}-{slug}.json"
        self.began, self.load = time.time(), os.getloadavg()[0]
        self.cases: list[Answer] = []
        self.facts: dict[str, str] = {}
        self.aims: list[Answer] = []

    def add(
        self,
        what: str,
        engine: str,
        values: Iterable[float],
        unit: str,
        settings: str = "",
        **where: Any,
    ) -> None:
        """`where`: type, threads, and whatever else says which case this is; settings: those of a
        peer that were fastest. A peer that was faster with fewer threads has that figure here
        too: a shared machine may slow the trial of the best settings."""
        values = [float(v) for v in values]
        middle = statistics.median(values)
        case = {"what": what, "engine": engine, "unit": unit, "median": middle}
        case |= {"spread": round(spread(values), 3), "runs": len(values)}
        case |= ({"settings": settings} if settings else {}) | where
        self.cases.append(case if engine.startswith(OURS) else self._best_below(case))
        middle = self.cases[-1]["median"]
        print(
            f"  {what:<12} {' '.join(map(str, where.values())):<24} {engine:<14} "
            f"{middle:>12,.4g} {unit}  spread {spread(values) * 100:.0f} %",
            file=sys.stderr,
            flush=True,
        )

    def _best_below(self, case: Answer) -> Answer:
        """A peer's rate, or a better one that it has in the same case with fewer threads."""
        same = ("what", "engine", "unit", "at", "type")
        below = (
            c
            for c in self.cases
            if case["unit"].endswith("/s")
            and all(c.get(word) == case.get(word) for word in same)
            and c.get("threads", 0) < case.get("threads", 0)
        )
        best = max([case, *below], key=lambda c: c["median"])
        words = ("median", "spread", "runs", "settings")
        return case | {word: best[word] for word in words if word in best}

    def add_rates(
        self,
        what: str,
        answers: Answers,
        amount: float,
        unit: str = "tokens/s",
        **where: Any,
    ) -> None:
        """`amount` over the seconds of every answer, engine by engine."""
        for engine, runs in answers.items():
            values = [amount / r["seconds"] for r in runs]
            self.add(what, engine, values, unit, settings_of(runs), **where)

    def median(self, what: str, engine: str, **where: Any) -> float | None:
        """Of the case, None when it was not measured."""
        wanted = {"what": what, "engine": engine, **where}.items()
        return next((c["median"] for c in reversed(self.cases) if wanted <= c.items()), None)

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

    def aim_beside(
        self, claim: str, what: str, peer: str, least: float, against: str = "", **where: Any
    ) -> None:
        """At least `least` times the peer's median of the same case."""
        self.aim_between(claim, what, OURS, peer, least, against or peer, **where)

    def aim_between(
        self,
        claim: str,
        what: str,
        ours: str,
        theirs: str,
        least: float,
        against: str,
        **where: Any,
    ) -> None:
        """At least `least` times the median of another engine, of two that were measured."""
        medians = (self.median(what, engine, **where) for engine in (ours, theirs))
        self.aim(claim, against, *medians, least)

    def as_dict(self) -> Answer:
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
        parts = read_json(self.path) if self.path.exists() else {}
        parts[self.name] = self.as_dict()
        write_text(self.path, json.dumps(parts, indent=1, ensure_ascii=False) + "\n")
