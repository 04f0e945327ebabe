"""Runs the converter over many hostile inputs in one child process, each within 10 s of a processor
and 1 GB: `run(cases, folder)`.

The child has a limit of memory; the parent has one of time, and a case that the child did not come
back from has no result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SECONDS, BYTES = 10.0, 1 << 30


class Result(NamedTuple):
    status: int
    lines: list[str]  # of standard error
    seconds: float
    wrote: list[str]  # what is in the output's folder


def run(cases: dict[str, list[str]], folder: Path, timeout: float = 1200) -> dict[str, Result]:
    """What convert.py says to each list of arguments. An output is FOLDER/out/NAME.phasor."""
    (folder / "out").mkdir()
    todo = folder / "cases.json"
    todo.write_text(json.dumps(cases))
    found: dict[str, Result] = {}
    with open(folder / "results", "w+b") as file:
        try:
            subprocess.run(
                [sys.executable, __file__, str(todo), str(folder / "out")],
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}", "PHASOR_TRACEBACK": ""},
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            pass
        file.seek(0)
        for line in file.read().decode(errors="replace").splitlines():
            if line.startswith('["'):
                name, *rest = json.loads(line)
                found[name] = Result(*rest)
    return found


def check(name: str, results: dict[str, Result], source: Path, says: str = "") -> None:
    """One line that names the file, or one for each tensor that is missing or left over; exit 1, no
    output, in time, and not by the last line of defense."""
    assert name in results, f"{name}: the converter did not come back"
    found = results[name]
    assert found.status == 1 and found.lines, found
    if len(found.lines) > 1:
        assert len(found.lines) <= 21, found  # and how many more
        tensors = tuple(f"convert: {source}: {what}: " for what in ("missing", "left over"))
        assert all(line.startswith((*tensors, "convert: and ")) for line in found.lines), found
    for line in found.lines:
        assert len(line) < 2100 and line.isprintable(), found
        assert not any(
            word in line for word in ("internal error", "Traceback", "not enough memory")
        ), found
    assert found.lines[0].startswith(f"convert: {source}") and says in found.lines[0], found
    assert found.wrote == [] and found.seconds < SECONDS, found


def _child(todo: str, out: str) -> None:
    import contextlib
    import io
    import resource

    from phasor import convert

    pages = (
        int(Path("/proc/self/statm").read_text().split()[0])
        if Path("/proc/self/statm").exists()
        else 0
    )
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES,) * 2)
    for name, arguments in json.loads(Path(todo).read_text()).items():
        said, start = io.StringIO(), sum(os.times()[:4])
        with contextlib.redirect_stderr(said):
            status = convert.main([*arguments, "-o", str(Path(out) / f"{name}.phasor"), "--quiet"])
        seconds = sum(os.times()[:4]) - start
        wrote = sorted(path.name for path in Path(out).iterdir())
        for path in Path(out).iterdir():
            path.unlink()
        print(json.dumps([name, status, said.getvalue().splitlines(), seconds, wrote]), flush=True)


if __name__ == "__main__":
    _child(*sys.argv[1:])
