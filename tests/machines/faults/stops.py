"""SIGTERM and SIGINT at moments of a run that is as it always is, without the tracer."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Iterator

from rows import COMMANDS, STOPS
from trial import Place, Result, Trial, is_python, judge, usual_signals


def catches(process: int, number: int) -> bool:
    """Whether the process has a handler of the signal."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return True  # it has ended
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def trials(name: str, clean: Result) -> Iterator[Trial]:
    if name not in STOPS:
        return
    row = COMMANDS[name]
    moments = random.Random(name)

    def one(number: signal.Signals, share: float):
        def run(place: Place) -> str:
            begun = time.monotonic()
            place.start(row, traced=False)
            whole = time.monotonic() - begun
            running = place.spawn(row, traced=False, preexec_fn=usual_signals)
            # before its handlers stand Python has one of its own for SIGINT
            while is_python(row) and number == signal.SIGINT:
                if catches(running.pid, signal.SIGTERM) or running.poll() is not None:
                    break
                time.sleep(0.001)
            time.sleep(share * whole)
            running.send_signal(number)
            got = place.finish(row, running, traced=False)
            return judge(row, clean, got, f"signal={number.name}", False)

        return run

    for i in range(STOPS[name]):
        number = (signal.SIGTERM, signal.SIGINT)[i % 2]
        share = moments.random() * 1.1
        yield Trial(name, "stop", f"{number.name} at {share:.3f} of the run", one(number, share))
