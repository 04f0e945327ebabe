"""A disk with room for a number of bytes, from nothing to what the outputs take."""

from __future__ import annotations

from typing import Iterator

from rows import COMMANDS, ROOM
from trial import Place, Result, Trial, judge


def trials(name: str, clean: Result) -> Iterator[Trial]:
    if name not in ROOM:
        return
    row, written = COMMANDS[name], clean.written

    def one(room: int):
        def run(place: Place) -> str:
            got = place.run(row, "-r", str(room))
            if room >= written and (got.hit or got.status != 0):
                return f"status {got.status}, {got.error!r}, though there is room"
            problem = judge(row, clean, got, "room", False)
            if not problem and got.hit and got.status == 0:
                return "status 0, and not all was written"
            return problem

        return run

    for room in (*range(0, written, ROOM[name]), written):
        yield Trial(name, "room", f"room for {room} bytes", one(room))
