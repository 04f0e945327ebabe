"""The phasor program, run: for hashes, and for what the tools compare, draw and measure."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Iterable

from phasor.errors import PhasorError

ROOT = Path(__file__).resolve().parents[2]


def find_phasor(given: Path | None) -> Path | None:
    """The program: the one given, or build/phasor where it is, or the one that is installed with
    this package."""
    if given is not None:
        if not given.is_file():
            raise PhasorError(f"--phasor: {given} is not a file")
        return given.absolute()
    in_checkout = (ROOT / "Makefile").is_file()
    place = ROOT / "build" if in_checkout else Path(sysconfig.get_path("scripts"))
    return place / "phasor" if (place / "phasor").is_file() else None


def need_phasor(given: Path | None) -> Path:
    """The same, which must be there."""
    if (found := find_phasor(given)) is None:
        raise PhasorError("no phasor program: run make, or give --phasor")
    return found


class ProgramFailed(PhasorError):
    """The program ended with an error; printed: what it had given until then."""

    def __init__(self, line: str, printed: str) -> None:
        super().__init__(line)
        self.printed = printed


def run(
    program: Path,
    command: str,
    *arguments: object,
    text: str = "",
    limit: int = 600,
    folder: Path | None = None,
) -> str:
    """What a command prints for `text`, within `limit` seconds, run in `folder`. ProgramFailed with
    the last line that the program says where it fails."""
    try:
        done = subprocess.run(
            [program, command, *map(str, arguments)],
            input=text.encode("utf-8"),
            capture_output=True,
            timeout=limit,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PhasorError(f"{program}: cannot be run: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ProgramFailed(
            f"{program} {command}: exit {done.returncode}: {lines[-1]}",
            done.stdout.decode(errors="replace"),
        )
    return done.stdout.decode(errors="replace")


def ids_text(ids: Iterable[int]) -> str:
    """As --ids takes them."""
    return ",".join(map(str, ids))


def printed_ids(line: str) -> list[int]:
    """As --print-ids gives them."""
    return [int(word) for word in line.split(",") if word.strip()]
