"""Threads: inputs side by side, and calls that Ctrl-C ends."""

from __future__ import annotations

import ctypes
import threading
from typing import Callable, Sequence, TypeVar

from phasor.runtime import _interface as c
from phasor.runtime.library import callback

T = TypeVar("T")
R = TypeVar("R")


class Stop:
    """Whether a call should end. The library asks between layers, and C's atoi of this text
    answers: no thread waits for the interpreter there."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(b"0")

    def __bool__(self) -> bool:
        return self.text[0] == b"1"

    def set(self) -> None:
        self.text[0] = b"1"


# Its first argument is the text; those that follow, the stack and the layer, atoi does not read.
PROGRESS = ctypes.cast(ctypes.CDLL(None).atoi, callback(c.Callbacks, "progress"))


def interruptible(call: Callable[[Stop], T]) -> T:
    """What `call` returns. On the main thread Ctrl-C ends it with KeyboardInterrupt. `call` runs on
    a thread of its own there: ctypes drops an exception that comes up in a callback."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        return call(stop)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            if not stop:
                results.append(call(stop))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException:
        stop.set()
        while thread.is_alive():
            try:
                thread.join()
            except BaseException:
                pass  # it ends between two layers
        raise
    if errors:
        raise errors[0]
    return results[0]


def side_by_side(work: Callable[[T], R], given: Sequence[T], threads: int) -> list[R]:
    """The results, in order. The error of the first input that has one."""
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}
    left = iter(range(len(given)))

    def run() -> None:
        for index in left:
            if errors:
                return
            try:
                results[index] = work(given[index])
            except BaseException as error:
                errors[index] = error

    others = [
        threading.Thread(target=run, daemon=True) for _ in range(min(threads, len(given)) - 1)
    ]
    for thread in others:
        thread.start()
    run()
    for thread in others:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[index] for index in range(len(given))]
