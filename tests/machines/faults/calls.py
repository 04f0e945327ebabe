"""Every system call that a command makes, in every way of rows.py."""

from __future__ import annotations

from typing import Iterator

from rows import COMMANDS, FAULTS, GOES_ON, NO_FAULTS, SIGNALS
from trial import Place, Result, Trial, is_python, judge, number_of


def ways(name: str, clean: Result) -> Iterator[tuple]:
    """(call, fault) of all calls of a clean run."""
    python = is_python(COMMANDS[name])
    for call in clean.calls:
        if python and call.kind in NO_FAULTS["python"]:
            continue
        where = call.subject.strip("<>") if call.subject.startswith("<") else "file"
        for fault in (*FAULTS[call.kind], *SIGNALS):
            if call.kind != "read" or fault not in NO_FAULTS.get(where, ()):
                yield call, fault


def one(name: str, clean: Result, kind: str, number: int, fault: str):
    """The trial of one call."""
    row, flag = COMMANDS[name], f"{kind}:{number}:{number_of(fault)}"

    def run(place: Place) -> str:
        got = place.run(row, "-f", flag)
        if not got.hit:  # two processes, in another order than before
            got = place.run(row, "-f", flag)
        if not got.hit:
            return "the fault never came"
        return judge(row, clean, got, fault, fault in GOES_ON.get(kind, ()))

    return run


def trials(name: str, clean: Result) -> Iterator[Trial]:
    for call, fault in ways(name, clean):
        label = f"{call.kind} {call.number} ({call.name} {call.subject}) {fault}"
        yield Trial(name, call.kind, label, one(name, clean, call.kind, call.number, fault))
