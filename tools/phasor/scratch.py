"""Files and folders that are there only while a program works. Standard library only.

Whatever ends the program, they are removed: at the end of the block that uses them, and, where an
error or a signal comes in between, by the front door (entry.py). Their names are known before they
are made, so that none is forgotten.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import Iterator

_there: list[str] = []


def add(path: os.PathLike[str] | str) -> None:
    """Before it is made."""
    _there.append(str(path))


def remove(path: os.PathLike[str] | str) -> None:
    """A file, or a folder with what is in it, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        if not os.path.isdir(path):
            raise
        try:
            os.rmdir(path)  # which takes no descriptor
        except OSError:
            shutil.rmtree(path)
    _there.remove(str(path))


def remove_all() -> None:
    """What a signal, or an error on the way, has left."""
    for path in list(_there):
        with contextlib.suppress(OSError):
            remove(path)


def _place() -> Path:
    """A new name in the system's place for such; not tempfile's, which makes a file to try it."""
    place = next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")
    return Path(place) / f"phasor-{secrets.token_hex(8)}"


@contextlib.contextmanager
def file() -> Iterator[Path]:
    """The name of a file that is not there yet."""
    path = _place()
    add(path)
    try:
        yield path
    finally:
        remove(path)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder."""
    path = _place()
    add(path)
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        remove(path)
