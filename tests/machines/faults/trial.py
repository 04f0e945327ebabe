"""One command in a folder of its own, with or without a fault, and what it must be like after it.

Good is: the result is whole, and what it is without the fault, with exit status 0; or one line
that names the thing on standard error, exit status 1 (or what a signal makes of it), standard
output a beginning of what it is without the fault, every output as it was or new and whole, and
nothing else in the folder.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple

from rows import LIKE_KILLED

ROOT = Path(__file__).resolve().parents[3]
OLD = b"as it was\n" * 20
SECONDS = 120  # no command takes more than one; the machine may be busy
# Numbers that are another's each time.
_TIMES = re.compile(
    rb'("seconds"|"tokens_per_second"):[-+.e0-9]+|in [0-9.]+ s \([0-9,]+ tokens/s\)'
)
_PARTS = re.compile(r".*\.part|\..*\.tmp")  # what SIGKILL may leave beside an output


class Call(NamedTuple):
    """A counted call: the number of its class, its name, what it is about; whether it failed."""

    kind: str
    number: int
    name: str
    subject: str
    hit: bool


class Result(NamedTuple):
    status: int  # -SIGALRM: it did not end in time
    out: bytes
    error: bytes
    calls: list[Call]
    files: dict[str, bytes]  # of the folders of outputs and of temporary files
    harmed: bool  # an input is not what it was
    written: int  # bytes of standard output and of the outputs

    @property
    def hit(self) -> list[Call]:
        return [call for call in self.calls if call.hit]


class Trial(NamedTuple):
    """One thing that is tried: of which command, under which heading, in words; what is wrong with
    it, "" where nothing is."""

    command: str
    kind: str
    label: str
    run: Callable[["Place"], str]


def is_python(row: dict) -> bool:
    return row["words"].startswith("python")


def usual_signals() -> None:
    """In a child: a caller may ignore some."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def number_of(fault: str) -> str:
    """error=EIO as the tracer takes it: error=5."""
    kind, _, value = fault.partition("=")
    plus = "+" * value.endswith("+")
    value = value.rstrip("+")
    if kind == "signal":
        value = str(int(getattr(signal, value)))
    elif not value.isdigit():
        value = str(getattr(errno, value))
    return f"{kind}={value}{plus}"


class Warm:
    """A process of warm.py."""

    def __init__(self, library: Path, environment: dict[str, str]) -> None:
        asked, self._to = os.pipe()
        answers, given = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                ROOT / "tests/machines/faults/warm.py",
                library,
                str(asked),
                str(given),
            ],
            pass_fds=(asked, given),
            env=environment,
            cwd="/",
        )
        os.close(asked)
        os.close(given)
        self._from = os.fdopen(answers)

    def ask(self, what: dict) -> int:
        os.write(self._to, json.dumps(what).encode() + b"\n")
        return int(self._from.readline())

    def close(self) -> None:
        os.close(self._to)
        self._process.wait()
        self._from.close()


class Place:
    """A folder with inputs and outputs, in memory where the system has that."""

    def __init__(self, tracer: Path, program: Path, inputs: Path) -> None:
        memory = Path("/dev/shm")
        base = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        self.path = Path(tempfile.mkdtemp(prefix="faults-", dir=base))
        self.log = Path(f"{self.path}.log")
        self.tracer, self.program = tracer, program
        self.source = inputs
        self.copy_inputs()
        self.warm = Warm(tracer.with_suffix(".so"), self.environment())

    def copy_inputs(self) -> None:
        shutil.rmtree(self.path / "in", ignore_errors=True)
        subprocess.run(["cp", "-a", self.source, self.path / "in"], check=True)  # hard links stay
        self.inputs = self._stamps()

    def close(self) -> None:
        self.warm.close()
        shutil.rmtree(self.path)
        for path in self.path.parent.glob(f"{self.path.name}.*"):
            path.unlink()

    def _stamps(self) -> list:
        found = sorted(p for p in (self.path / "in").rglob("*") if p.is_file())
        return [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in found]

    def words(self, row: dict) -> list[str]:
        folders = {"in": self.path / "in", "out": self.path / "out", "bin": self.program.parent}
        words = [word.format(**folders) for word in shlex.split(row["words"])]
        first = [str(self.program)] if words[0] == "phasor" else [sys.executable, "-m"]
        return first + words[1:]

    def prepare(self, row: dict) -> None:
        for name in ("out", "tmp"):
            shutil.rmtree(self.path / name, ignore_errors=True)
            (self.path / name).mkdir()
        for name in row.get("outputs", ()):
            (self.path / "out" / name).write_bytes(OLD)

    def flags(self, row: dict, flags: tuple[str, ...]) -> list[str]:
        """The tracer's."""
        more = ["-a"] * (row["words"].startswith("phasor") and not row.get("processes"))
        more += ["-s"] * bool(row.get("streams"))
        return ["-d", str(self.path), "-o", str(self.log), "-t", str(SECONDS), *more, *flags]

    def run(self, row: dict, *flags: str) -> Result:
        """With these flags of the tracer. A tool in Python runs in one that is warm."""
        self.prepare(row)
        if row["words"].startswith("phasor"):
            return self.start(row, *flags)
        streams = [os.devnull, f"{self.path}.out", f"{self.path}.err"]
        asked = {
            "flags": self.flags(row, flags),
            "words": self.words(row)[2:],
            "streams": streams,
        }
        status = os.waitstatus_to_exitcode(self.warm.ask(asked))
        out, error = (Path(path).read_bytes() for path in streams[1:])
        return self.result(status, out, error)

    def start(self, row: dict, *flags: str, traced: bool = True, **more) -> Result:
        """Runs the program itself; what is written to standard input waits in a pipe."""
        return self.finish(row, self.spawn(row, *flags, traced=traced, **more), traced)

    def spawn(self, row: dict, *flags: str, traced: bool = True, **more) -> subprocess.Popen:
        self.prepare(row)
        tracer = [str(self.tracer), *self.flags(row, flags)] if traced else []
        return subprocess.Popen(
            [*tracer, *self.words(row)],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **more},
            stderr=subprocess.PIPE,
            env=self.environment(),
            cwd="/",
        )

    def finish(self, row: dict, process: subprocess.Popen, traced: bool = True) -> Result:
        given = row.get("stdin", "").encode()
        try:
            out, error = process.communicate(given, timeout=None if traced else SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, error = process.communicate()
            return self.result(-signal.SIGALRM, out or b"", error)
        if not traced:
            self.log.write_text("")
        return self.result(process.returncode, out or b"", error)

    def result(self, status: int, out: bytes, error: bytes) -> Result:
        calls = []
        for line in self.log.read_text(errors="replace").splitlines():
            kind, number, name, subject = line.split(" ", 3)
            calls.append(Call(kind.lstrip("!"), int(number), name, subject, kind.startswith("!")))
        files = {
            f"{name}/{p.relative_to(self.path / name)}": p.read_bytes() if p.is_file() else b""
            for name in ("out", "tmp")
            for p in sorted((self.path / name).rglob("*"))
        }
        harmed = self._stamps() != self.inputs
        if harmed:
            self.copy_inputs()
        written = len(out) + sum(map(len, files.values()))
        own = str(self.path).encode()  # a report names its inputs
        files = {name: data.replace(own, b"PLACE") for name, data in files.items()}
        return Result(status, self.same(out), self.same(error), calls, files, harmed, written)

    def same(self, text: bytes) -> bytes:
        """Printed text without what differs from run to run and from folder to folder."""
        path = str(self.path).encode()
        cut = next((n for n in range(len(path) - 1, 0, -1) if text.endswith(path[:n])), 0)
        text = text[: len(text) - cut].replace(path, b"PLACE")
        return _TIMES.sub(rb"\1:0", text)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "tools"),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(self.path / "tmp"),
        }


# ---- judging


def is_whole(row: dict, clean: Result, got: Result) -> str:
    """Why the result is not the clean one's; "" where it is."""
    if got.status != clean.status:
        return f"status {got.status}"
    if got.out != clean.out and not row.get("measured"):
        return "status 0, and another standard output"
    if got.files != clean.files:
        return "status 0, and other files"
    return ""


def is_one_line(error: bytes) -> bool:
    """One line of the tool's own that names a file or a thing."""
    text = error.decode(errors="replace")
    return (
        text.count("\n") == 1
        and text.endswith("\n")
        and re.match(r"[a-z_]+: .", text) is not None
        and re.search(r"PLACE|/|--|standard (in|out)put|memory|threads|stopped by", text)
        is not None
        and not any(word in text for word in ("internal error", "Traceback", "Error:", "None"))
    )


def left_behind(row: dict, clean: Result, got: Result, killed: bool) -> list[str]:
    """What is wrong with the files of a run that failed."""
    wrong = []
    for name, data in got.files.items():
        if name in (f"out/{output}" for output in row.get("outputs", ())):
            if data not in (OLD, clean.files.get(name)):
                wrong.append(f"{name} is neither as it was nor new")
        elif data != clean.files.get(name) and not (killed and _may_stay(name)):
            wrong.append(f"{name} is left behind")
    gone = [name for name in row.get("outputs", ()) if f"out/{name}" not in got.files]
    return wrong + [f"{name} is gone" for name in gone]


def _may_stay(name: str) -> bool:
    return name.startswith("tmp/") or _PARTS.fullmatch(name.removeprefix("out/")) is not None


def judge(row: dict, clean: Result, got: Result, fault: str, goes_on: bool) -> str:
    """What is wrong with a run, in a few words; "" where all is as it should be."""
    if got.status == -signal.SIGALRM:
        return "did not end"
    if got.harmed:
        return "an input was changed"
    whole = is_whole(row, clean, got)
    if not whole and (clean.status == 0 or got.error == clean.error):
        return ""
    if goes_on:
        return f"does not go on: {whole or got.error}"
    return failed_badly(row, clean, got, fault)


def failed_badly(row: dict, clean: Result, got: Result, fault: str) -> str:
    stopped = fault.partition("=")[2] if fault.startswith("signal=") else ""
    killed = is_python(row) and fault in LIKE_KILLED["python"]
    unheard = any(call.subject == "<stderr>" for call in got.hit)
    # a reader that has gone is told nothing by the tools in Python
    gone = fault == "error=EPIPE" and all(call.subject == "<stdout>" for call in got.hit)
    unheard |= gone and is_python(row)
    unlinked = all(call.kind == "unlink" for call in got.hit)
    wrong = left_behind(row, clean, got, killed or stopped == "SIGKILL")
    if wrong and not unlinked:
        return "; ".join(wrong)
    begun = clean.out.startswith(got.out) or row.get("measured") or b'"error"' in got.out
    if not begun:
        return f"standard output {got.out[-80:]!r}"
    known = clean.error.splitlines(True)  # what it says without a fault too
    said = b"".join(line for line in got.error.splitlines(True) if line not in known)
    if stopped:
        ended = -int(getattr(signal, stopped))
        if got.status == ended and said.count(b"\n") <= 1 and b"Traceback" not in said:
            return ""  # else a child of the program got it
    if killed and got.status < 0:
        return ""
    if got.status not in (1, clean.status) or got.status == 0:
        return f"status {got.status}: {got.error!r}"
    same = clean.status != 0 and got.error == clean.error  # but for what could not be removed
    if not (unheard or same or is_one_line(said)):
        return f"says {got.error!r}"
    return ""
