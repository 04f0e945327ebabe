"""A pipe that is closed on its other side: a reader of standard output that goes after a number of
bytes, with SIGPIPE as usual and ignored, and a writer of standard input that stops."""

from __future__ import annotations

import os
import signal
from typing import Iterator

from rows import COMMANDS
from trial import Place, Result, Trial, is_python, judge, usual_signals


def ignored() -> None:
    usual_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def without_reader(row: dict, clean: Result, prepare):
    """Nobody reads: the first byte that is written has no way to go."""

    def run(place: Place) -> str:
        read, write = os.pipe()
        os.close(read)
        try:
            got = place.start(row, traced=False, stdout=write, preexec_fn=prepare)
        finally:
            os.close(write)
        if not is_python(row) and prepare is usual_signals:
            return judge(row, clean, got, "signal=SIGPIPE", False)
        return judge(row, clean, got, "error=EPIPE", False)

    return run


def with_input(row: dict, text: str):
    """Standard input ends in the middle: an answer to what came, or a line, and no output."""

    def run(place: Place) -> str:
        got = place.start({**row, "stdin": text}, traced=False)
        if got.status not in (0, 1, 2) or b"internal" in got.error:
            return f"status {got.status}, {got.error!r}"
        wrong = [name for name in got.files if name.endswith((".part", ".tmp"))]
        return f"{wrong} left behind" if wrong else ""

    return run


def trials(name: str, clean: Result) -> Iterator[Trial]:
    row = COMMANDS[name]
    if clean.out:
        for prepare in (usual_signals, ignored):
            label = f"no reader of standard output, {prepare.__name__}"
            yield Trial(name, "pipe", label, without_reader(row, clean, prepare))
    text = row.get("stdin", "")
    for cut in range(len(text)):
        yield Trial(name, "pipe", f"{cut} bytes of standard input", with_input(row, text[:cut]))
