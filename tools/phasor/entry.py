"""The front door of every tool: whatever happens, the user gets one line, an exit status and no
half-written file.

    @front_door("convert")
    def main(argv=None) -> int: …

A PhasorError is bad input: its line, exit 1. SIGINT, SIGTERM and SIGHUP become an exception, so
that what was begun is removed, and then end the program as they would have. A reader of standard
output that goes away ends it quietly. What nobody foresaw is a defect of the tool and says so;
PHASOR_TRACEBACK=1 shows where.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from typing import Any, Callable, Iterator

from phasor import scratch
from phasor.errors import PhasorError, printable
from phasor.start import missing

_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_LONGEST_LINE = 2000


class Stopped(KeyboardInterrupt):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _empty(stream: Any) -> None:
    """What a stream would not take is not tried again at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)
        stream.flush()


def say(name: str, text: str) -> None:
    """A line on standard error, whatever a stranger's file has put into it."""
    try:
        print(f"{name}: {printable(text, _LONGEST_LINE)}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        _empty(sys.stderr)


def count(name: str, done: int, of: int, what: str) -> None:
    """On a terminal's standard error "convert: 3 of 30 layers …": one line for all that is counted,
    empty again at its end."""
    if sys.stderr.isatty():
        line = f"{name}: {done} of {of} {what}" if done < of else ""
        print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)


def keep_descriptors() -> None:
    """Where a standard stream was closed before the start, its descriptor is taken: the next file
    to be opened would get it, and every line meant for a person would go into that file. What is
    written to a closed standard output is an error, as for any other program."""
    for number, (name, mode) in enumerate(
        (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    ):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            if number and getattr(sys, name) is None:
                setattr(
                    sys,
                    name,
                    open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False),
                )


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """No library's warning is a line beside ours (numpy's of a value that is not finite, zipfile's
    of a name that is there twice): what matters is checked and said. Python's -W counts more."""
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """The signals that end a program raise Stopped, once: what is removed then is not disturbed by
    the next one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def stop(number: int, _: Any) -> None:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    for number in caught:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


class OutputError(OSError):
    """Standard output does not take what is printed."""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


class _Output:
    """Standard output whose errors are told from those of other files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _told():
            result: int = self._stream.write(text)
            return result

    def flush(self) -> None:
        with _told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _output() -> Iterator[None]:
    stream = sys.stdout
    sys.stdout = _Output(stream)
    try:
        yield
        sys.stdout.flush()
    except OutputError:
        _empty(stream)
        raise
    finally:
        sys.stdout = stream


def _unforeseen(name: str, error: BaseException) -> int:
    what = printable(str(error).split("\n")[0], 300)
    if isinstance(error, MemoryError):
        say(name, "there is not enough memory for this input" + (f": {what}" if what else ""))
    else:
        say(
            name,
            f"internal error: {type(error).__name__}: {what}; this is a defect of the tool "
            "(PHASOR_TRACEBACK=1 shows where)",
        )
    if os.environ.get("PHASOR_TRACEBACK") == "1":
        traceback.print_exception(error)
    return 1


def _run(name: str, stopped: str, main: Callable[[], int | None]) -> int:
    try:
        with _output(), _unwarned():
            return main() or 0
    except PhasorError as error:
        for line in getattr(error, "lines", None) or [str(error)]:
            say(name, line)
    except Stopped:
        raise
    except KeyboardInterrupt:
        say(name, f"stopped{stopped}")
        return 130
    except OutputError as error:
        if error.errno != errno.EPIPE:
            say(name, f"standard output: cannot be written: {error.strerror}")
    except OSError as error:
        say(
            name,
            f"{error.filename}: {error.strerror}"
            if error.filename is not None
            else error.strerror or str(error),
        )
    except ImportError as error:
        say(name, missing(error))
    except Exception as error:  # the last line of defense; readers name what they refuse
        return _unforeseen(name, error)
    return 1


def front_door(
    name: str, stopped: str = ""
) -> Callable[[Callable[..., int | None]], Callable[..., int]]:
    """Makes a main function a front door. stopped: what the user can do after a signal."""

    def wrap(main: Callable[..., int | None]) -> Callable[..., int]:
        @functools.wraps(main)
        def door(*args: Any, **more: Any) -> int:
            keep_descriptors()
            try:
                with signals():
                    try:
                        try:
                            return _run(name, stopped, lambda: main(*args, **more))
                        finally:
                            scratch.remove_all()
                    except Stopped as stop:
                        scratch.remove_all()  # what the signal came in between
                        number = stop.number
                        say(name, f"stopped by {signal.Signals(number).name}{stopped}")
            except Stopped as stop:  # while the handlers were put in, or taken out
                number = stop.number
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return 128 + number

        return door

    return wrap
