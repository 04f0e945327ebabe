"""A Python that has imported the tools once, and runs one of them, under the tracer, in a process
of its own for each line that it reads: the hundred milliseconds of a start are saved.

    warm.py LIBRARY READ WRITE

A line of descriptor READ is JSON: the tracer's flags, the module and its arguments, the files of
the three standard streams. The wait status goes to WRITE.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys

MODULES = ("convert", "moments", "reference.forward", "reference.beam")
ADDR_NO_RANDOMIZE = 0x0040000


def same_addresses() -> None:
    """Starts this program again, with the same addresses each time: the same calls each time. And
    with the usual signals: a shell ignores some for what it runs in the background."""
    libc = ctypes.CDLL(None)
    if not libc.personality(0xFFFFFFFF) & ADDR_NO_RANDOMIZE:
        libc.personality(ADDR_NO_RANDOMIZE)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def become_tool(library: ctypes.CDLL, asked: dict) -> int:
    """In the child: the module's main function, traced; its exit is the program's."""
    flags = [b"inject", *map(os.fsencode, asked["flags"])]
    for number, path in enumerate(asked["streams"]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600)
        os.dup2(opened, number)
        os.close(opened)
    library.inject(len(flags), (ctypes.c_char_p * (len(flags) + 1))(*flags, None))
    sys.argv = asked["words"]
    return importlib.import_module(asked["words"][0]).main()


def main() -> None:
    same_addresses()
    library = ctypes.CDLL(sys.argv[1])
    lines, answers = os.fdopen(int(sys.argv[2])), int(sys.argv[3])
    for name in MODULES:
        importlib.import_module(f"phasor.{name}")
    for line in lines:
        child = os.fork()
        if child == 0:
            sys.exit(become_tool(library, json.loads(line)))
        os.write(answers, b"%d\n" % os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
