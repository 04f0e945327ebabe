"""Keys that the user vouches for (--ignore-key FILE:KEY): their file is read as if it did not have
them. The weight file records them. Standard library only."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, Iterator, Sequence

from phasor.errors import PhasorError, printable

_FLAG = "--ignore-key"
_MOST, _LONGEST = 64, 1024


class Ignored:
    """One FILE:KEY. FILE is a file's name, or the end of its path. KEY has a dot in front of each
    name inside a table; in a list it is a key of every entry."""

    def __init__(self, text: str) -> None:
        self.text, self.met = text, False
        file, colon, self.key = text.rpartition(":")
        self.file = PurePath(file)
        if not file or not self.key or len(text) > _LONGEST or not text.isprintable():
            raise PhasorError(f"{_FLAG} {printable(text)}: expected FILE:KEY")

    def is_of(self, path: PurePath) -> bool:
        return path.parts[-len(self.file.parts) :] == self.file.parts

    def drop(self, value: Any, key: str | None = None) -> None:
        """Takes the key out of a file's value."""
        key = self.key if key is None else key
        if isinstance(value, list):
            for entry in value:
                self.drop(entry, key)
        if not isinstance(value, dict):
            return
        if key in value:
            del value[key]
            self.met = True
            return
        at = key.find(".")
        while at >= 0:  # a name may have dots of its own
            if key[:at] in value:
                self.drop(value[key[:at]], key[at + 1 :])
            at = key.find(".", at + 1)


_now: list[Ignored] = []  # of the conversion that is running


@contextmanager
def ignoring(texts: Sequence[str]) -> Iterator[list[Ignored]]:
    """What is read inside has these keys no more."""
    if len(texts) > _MOST:
        raise PhasorError(f"{_FLAG}: given {len(texts)} times, expected at most {_MOST}")
    _now[:] = [Ignored(text) for text in dict.fromkeys(texts)]
    try:
        yield [*_now]
    finally:
        _now.clear()


def without(path: os.PathLike[str] | str, value: Any) -> Any:
    """A file's value, without the keys that are ignored in it."""
    for one in _now:
        if one.is_of(PurePath(path)):
            one.drop(value)
    return value


def recorded(ignored: Sequence[Ignored]) -> str:
    """For the weight file: the flags, with a blank before each. PhasorError for one that no file
    had."""
    for one in ignored:
        if not one.met:
            raise PhasorError(
                f"{_FLAG} {one.text}: no file that was read has this key; expected FILE:KEY as the"
                " message about it writes them"
            )
    return "".join(f" {_FLAG} {one.text}" for one in ignored)
