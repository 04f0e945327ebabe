"""One hostile input through a tool's front door, in this process, watched: time of the processor,
memory, what is opened, written and started, what is printed and what is left.

The property: exit 1, one line that a person can read, no file; or exit 0 and a file that the engine
opens. `Finding` says what else happened.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from source import IN, OUT, ROOT, Source

from phasor import convert
from phasor.entry import front_door
from phasor.format.file import PhasorFile
from phasor.program import find_phasor
from phasor.reference import forward

SECONDS, WALL, BYTES = 10, 120, 1 << 30
LONGEST_LINE = 2100
# Words of the last line of defense, and of the engine when the converter has made what it refuses;
# a sum that leaves float32 inside of a layer is seen by the engine alone.
_DEFECTS = ("internal error", "Traceback", "not enough memory", "phasor verify: exit")
_ENGINES_OWN = "is not finite ("
# Sections that the reader in Python does not look into.
_ENGINES_SECTIONS = ("test vectors: ", "tokenizer (", "chat program: ")
# Faults of several tensors have a line each.
_SEVERAL = ("missing: ", "misshapen: ", "left over: ", "convert: and ")
# What is said of a template that is left out, before the result.
_NOTE = ": the model is converted without a chat program"


class Finding(Exception):
    """What must not happen."""


class Stuck(BaseException):
    """The time is over: no handler of a reader catches it."""


class Outcome(NamedTuple):
    status: int
    lines: list[str]
    seconds: float  # of the processor
    bytes: int  # above what the process had before


@front_door("check")
def check(argv: list[str]) -> int:
    """All of a weight file, as its reader in Python sees it."""
    PhasorFile(argv[0]).check()
    return 0


DOORS = {"convert": convert.main, "reference": forward.main, "check": check}


# ---- What is opened, written and started


def _folder_of(descriptor: Any) -> str:
    """Where relative names begin: the folder that is open as this descriptor, or none."""
    if type(descriptor) is int and descriptor > 2:
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{descriptor}")
    return ""


class _Audit:
    """Python's audit events while an input is read: files outside its folder, programs, sockets."""

    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink")
    CHANGES += ("os.truncate", "os.chmod", "os.chown", "os.utime", "os.mkfifo", "shutil.rmtree")
    STARTS = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "pty.spawn", "ctypes.dlopen")

    # Code of the library's own, and of the table of roles (format/tensors.py); "<unknown>" is what
    # ast.literal_eval parses (jinja2's numbers), and is never run.
    OURS = ("<frozen", "<string>", "a row of ROLES")

    def __init__(self) -> None:
        self.folder = ""
        self.seen: list[str] = []
        self.readable = (str(ROOT), sys.prefix, sys.base_prefix, "/proc/", "/dev/null", "/sys/")
        sys.addaudithook(self._hook)

    def _inside(self, path: Any, places: tuple[str, ...]) -> bool:
        if isinstance(path, int):
            return True
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        return os.path.abspath(path).startswith(places)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        own = (os.path.join(self.folder, OUT),)
        temporary = (*own, os.path.join(self.folder, "tmp"))
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(mode, str) and any(c in mode for c in "wax+")
            writes |= bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
            places = temporary if writes else (self.folder, *self.readable)
            if path is not None and not self._inside(path, places) and path != os.devnull:
                self.seen.append(f"opens {path!r} to {'write' if writes else 'read'}")
        elif event in self.CHANGES:
            at = _folder_of(arguments[-1])
            paths = [
                os.path.join(at, os.fsdecode(p)) for p in arguments if isinstance(p, (str, bytes))
            ]
            if not all(self._inside(path, temporary) for path in paths):
                self.seen.append(f"{event} of {arguments!r}")
        elif event == "subprocess.Popen":
            if str(arguments[0]) != str(find_phasor(None)):
                self.seen.append(f"starts {arguments[0]!r}")
        elif event in self.STARTS or event.startswith("socket."):
            self.seen.append(event)
        elif event in ("exec", "compile"):
            name = getattr(arguments[0], "co_filename", None) if event == "exec" else arguments[1]
            name = name.decode() if isinstance(name, bytes) else name
            if event == "compile" and name == "<unknown>":
                return
            if isinstance(name, str) and not name.startswith((*self.readable[:3], *self.OURS)):
                self.seen.append(f"{event} of {name!r}")


_audit: _Audit | None = None


@contextlib.contextmanager
def _audited(folder: Path) -> Iterator[list[str]]:
    global _audit
    _audit = _audit or _Audit()
    _audit.folder, _audit.seen = str(folder.resolve()), []
    try:
        yield _audit.seen
    finally:
        _audit.folder = ""


# ---- Time and memory


def limit_memory() -> None:
    """At most BYTES more than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES,) * 2)


def _return_memory() -> None:
    """Gives back what is free but kept, by Python in cycles and by the C library in its heap: an
    input that takes it again, or that is read while it goes, would seem to take less."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    def stop(number: int, _: Any) -> None:
        raise Stuck(signal.Signals(number).name)

    before = [signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WALL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before):
            signal.signal(number, handler)


# ---- One input


def _call(source: Source, words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = DOORS[source.door](words)
        except SystemExit as error:  # argparse's
            status = error.code if isinstance(error.code, int) else 1
    return status, said.getvalue()


def run(source: Source, folder: Path, verify: bool = True) -> Outcome:
    """Reads it in an empty folder. Finding where the property does not hold. verify: a result is
    replayed by the engine once more; the converter has let it do so before it was there."""
    clear(folder)
    words = source.write(folder)
    _return_memory()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    had = _memory("VmRSS")
    start = time.process_time()
    try:
        with _audited(folder) as seen, _timed():
            status, said = _call(source, words)
    except Stuck as error:
        raise Finding(f"does not end ({error}, {SECONDS} s of the processor)") from error
    except BaseException as error:
        raise Finding(f"{type(error).__name__} leaves the front door: {error}") from error
    seconds = time.process_time() - start
    outcome = Outcome(status, said.split("\n")[:-1], seconds, max(0, _memory("VmHWM") - had))
    if seen:
        raise Finding(f"touches what is not its own: {'; '.join(seen[:3])}")
    if outcome.bytes > BYTES // 2:
        raise Finding(f"takes {outcome.bytes >> 20} MB")
    judge(source, outcome, folder, verify)
    return outcome


def clear(folder: Path) -> None:
    for name in (IN, OUT, "tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)


def judge(source: Source, outcome: Outcome, folder: Path, verify: bool = True) -> None:
    """The property, of what was printed and of what is there."""
    status, lines = outcome.status, outcome.lines
    for line in lines:
        if any(word in line for word in _DEFECTS) and _ENGINES_OWN not in line:
            raise Finding(line)
        if not line.startswith(f"{source.door}: ") or len(line) > LONGEST_LINE:
            raise Finding(f"a line of another form: {line[:200]!r}")
        if not line.isprintable():
            raise Finding(f"a line that cannot be printed: {line[:200]!r}")
    for name, data in source.files.items():
        if (folder / IN / name).read_bytes() != data:
            raise Finding(f"{name} was written over")
    places = [path for path in (folder / IN).rglob("*") if path.is_file()]
    if len(places) != len(source.files):
        raise Finding("there are other files in the folder of the source")
    if list((folder / "tmp").iterdir()):
        raise Finding("a temporary file is left")
    left = sorted(path.name for path in (folder / OUT).iterdir())
    if status == 1:
        _refused(lines, folder, left)
    elif status == 0:
        _accepted(source, lines, folder, left, verify)
    else:
        raise Finding(f"exit {status}: {lines}")


def _refused(lines: list[str], folder: Path, left: list[str]) -> None:
    if left:
        raise Finding(f"refused, and {left} is left")
    if not lines:
        raise Finding("refused without a line")
    if len(lines) > 1 and not all(any(word in line for word in _SEVERAL) for line in lines):
        raise Finding(f"{len(lines)} lines: {lines[:3]}")
    if not any(str(folder / IN) in line or " --" in line for line in lines):
        raise Finding(f"a line that names no file: {lines[0][:200]}")


def _accepted(
    source: Source, lines: list[str], folder: Path, left: list[str], verify: bool
) -> None:
    if [line for line in lines if not line.endswith(_NOTE)]:
        raise Finding(f"a result, and lines: {lines[:3]}")
    made = source.door == "convert"
    if left != ["m.phasor"] * made:
        raise Finding(f"exit 0, and {left} is there")
    if "--explain" in source.arguments:  # what is written is a description
        tomllib.loads((folder / OUT / "m.phasor").read_text("utf-8"))
        return
    program = find_phasor(None)
    if program is None or not verify:
        return
    command = ("verify", "--quiet", folder / OUT / "m.phasor")
    if not made:  # a weight file: what the reader in Python takes, the engine's opens
        command = ("inspect", folder / IN / next(iter(source.files)))
    done = subprocess.run([program, *command], capture_output=True, text=True)
    if done.returncode and (made or not any(word in done.stderr for word in _ENGINES_SECTIONS)):
        raise Finding(f"the engine refuses it: {done.stderr.strip()[:300]}")


def run_program(source: Source, folder: Path) -> Outcome:
    """The same through the program, in a process of its own."""
    clear(folder)
    words = source.write(folder)
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / f"{source.door}.py", *words],
            capture_output=True,
            timeout=WALL,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PHASOR_TRACEBACK": "", "TMPDIR": str(folder / "tmp")},
        )
    except subprocess.TimeoutExpired as error:
        raise Finding(f"does not end (the program, {WALL} s)") from error
    said = done.stderr.decode(errors="backslashreplace").split("\n")[:-1]
    outcome = Outcome(done.returncode, said, time.perf_counter() - start, 0)
    judge(source, outcome, folder)
    return outcome
