"""Files of strangers, read within bounds; and files of ours, written whole or not at all.

Whatever a tool reads that it did not write goes through `open_regular` (no device, no pipe, no
directory), through a limit in bytes, and, where it is text or JSON, through a check of everything
that Python would stumble over later: the encoding, the depth, names that are there twice, numbers
that are none. Whatever a tool writes goes through `replacing`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator

import numpy as np

from phasor import mistaken, scratch
from phasor.errors import PhasorError, named, printable, shown
from phasor.ignored import without

TEXT_BYTES = 256 << 20  # a vocabulary, a text to measure with
CONFIG_BYTES = 16 << 20  # a configuration
JSON_DEPTH = 64  # of a tokenizer.json, the deepest of the files, it is about ten

_FILE, _FOLDER = "a file", "a directory"
_KINDS = (
    (stat.S_ISREG, _FILE),
    (stat.S_ISDIR, _FOLDER),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


# ---- Reading


def cannot_read(path: os.PathLike[str] | str, error: OSError) -> PhasorError:
    return PhasorError(f"{path}: cannot be read: {error.strerror or error}")


def _kind_of(mode: int) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "not a regular file")


def _check_kind(path: os.PathLike[str] | str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise PhasorError(f"{path}: is {_kind_of(mode)}, expected a file")


@contextlib.contextmanager
def open_regular(path: os.PathLike[str] | str) -> Iterator[BinaryIO]:
    """The file, open for reading in the block, whose errors name it. PhasorError for what is no
    regular file: a pipe would wait, a device never ends."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:  # a zero byte in the name
        raise PhasorError(f"{printable(str(path))}: not a file's name") from error
    try:
        _check_kind(path, mode)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            _check_kind(path, os.fstat(file.fileno()).st_mode)
            yield file
    except OSError as error:
        raise cannot_read(path, error) from error


def _kind(path: os.PathLike[str] | str) -> str | None:
    """What a name leads to; None: it is no name of anything."""
    try:
        return _kind_of(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.islink(path):
            raise PhasorError(
                f"{path}: is a link to what is not there: download it again"
            ) from error
    except OSError as error:
        raise cannot_read(path, error) from error
    return None


def is_file(path: os.PathLike[str] | str) -> bool:
    """Whether a path that was given is a file's. PhasorError where it leads to neither a file nor
    a directory: a link to what is not there or to itself, a pipe, a device."""
    return _kind(path) != _FOLDER and has_file(path)


def has_file(path: os.PathLike[str] | str) -> bool:
    """Whether there is a file of a name that a reader looks for. PhasorError where something else
    has the name: what cannot be read is not what is not there."""
    kind = _kind(path)
    if kind not in (None, _FILE):
        raise PhasorError(f"{path}: is {kind}, expected a file")
    return kind is not None


def read_start(path: os.PathLike[str] | str) -> bytes:
    """The first bytes of a file, which tell what it is (mistaken.py)."""
    with open_regular(path) as file:
        return file.read(mistaken.START_BYTES)


def instead_of(folder: Path) -> str:
    """What a directory seems to be in place of a model's (mistaken.py), and of an adapter's the
    model that it belongs to."""
    what, config = mistaken.of_directory(folder), folder / "adapter_config.json"
    base = mistaken.base_of(read_start(config)) if "--lora" in what and is_file(config) else ""
    return what + f" (its base is {base})" * bool(base)


def described_beside(path: Path) -> Path:
    """Where the description of a checkpoint is, unless --describe says otherwise."""
    if path.name in ("", ".."):  # the working directory, and what is above it
        path = path.resolve()
    return path.with_suffix(".toml") if path.name else path / "model.toml"


def read_bytes(path: os.PathLike[str] | str, limit: int = TEXT_BYTES) -> bytes:
    """The whole file, of at most so many bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise PhasorError(
                f"{path}: is longer than {limit:,} bytes, the most that such a file may have"
            )
        data = file.read(size + 1)
    if len(data) != size:  # or the system makes it up as it is read (/proc)
        shorter = len(data) < size
        raise PhasorError(f"{path}: became {'shorter' if shorter else 'longer'} while it was read")
    return data


def read_text(path: os.PathLike[str] | str, limit: int = TEXT_BYTES) -> str:
    """The whole file as text; as in Python's text files every line end becomes a line feed."""
    try:
        text = read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise PhasorError(f"{path}: is not UTF-8: byte {error.start}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_below(name: str) -> bool:
    """Whether a path that a file names is one of its own folder or of a folder in it."""
    path = Path(name)
    return name.isprintable() and ".." not in path.parts and not path.is_absolute()


_mapped: list[Path] | None = None  # of noting_maps


@contextlib.contextmanager
def noting_maps() -> Iterator[list[Path]]:
    """The files that are mapped in the block, which is how weights are read."""
    global _mapped
    before, _mapped = _mapped, []
    try:
        yield _mapped
    finally:
        _mapped = before


def map_bytes(path: os.PathLike[str] | str) -> np.ndarray:
    """The file's bytes, mapped and not read: u8."""
    if _mapped is not None:
        _mapped.append(Path(path))
    with open_regular(path) as file:
        try:
            if os.fstat(file.fileno()).st_size == 0:
                return np.zeros(0, np.uint8)
            return np.memmap(file, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:  # ValueError: it was cut in between
            raise PhasorError(f"{path}: cannot be mapped: {printable(str(error))}") from error


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(items)
    if len(out) != len(items):
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                raise PhasorError(f"{shown(key)} is there twice")
            seen.add(key)
    return out


_PLAIN = {str, int, bool, type(None)}


def _check_values(value: Any, texts: bool) -> None:
    """Depth and numbers, and where `texts` the halves of surrogate pairs, which no encoding has."""
    todo: list[tuple[Any, str, int]] = [({"": value}, "", -1)]
    while todo:
        inside, name, depth = todo.pop()
        if depth > JSON_DEPTH:
            raise PhasorError(f"is nested deeper than {JSON_DEPTH} levels")
        of_object = type(inside) is dict
        if not texts and not of_object and set(map(type, inside)) <= _PLAIN:
            continue
        for key, child in inside.items() if of_object else ((name, child) for child in inside):
            kind = type(child)
            if kind is dict or kind is list:
                todo.append((child, key, depth + 1))
            elif kind is float and not math.isfinite(child):
                raise PhasorError(f"{printable(key)}: {child!r} is no number of JSON")
            if texts:
                for text in (key, child) if kind is str else (key,):
                    if any("\ud800" <= c <= "\udfff" for c in text):
                        raise PhasorError(
                            f"{shown(key)}: has half of a surrogate pair, which is no character"
                        )


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # of ours, and without a choice: linear


def parse_json(
    data: bytes, what: str = "JSON", as_float: Callable[[str], float] | None = None
) -> Any:
    """The value of a JSON text; PhasorError for one that is not `what` (its caller names the file),
    that is nested deeper than JSON_DEPTH, has a name twice in an object, a number that is none or
    has thousands of digits, or half of a surrogate pair. as_float: of numbers that are not whole;
    the nearest without it."""
    if not data:
        raise PhasorError(f"not {what}: the file is empty: download it again")
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_pairs, parse_float=as_float)
        _check_values(value, _SURROGATE.search(data) is not None)
        return value
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        if instead := mistaken.of_bytes(data[: mistaken.START_BYTES]):
            raise PhasorError(f"not {what}: {instead}") from error
        if isinstance(error, json.JSONDecodeError):
            raise PhasorError(
                f"not {what}: {error.msg} (line {error.lineno}, column {error.colno})"
            ) from error
        raise PhasorError(f"not {what}: byte {error.start} is not UTF-8") from error
    except ValueError as error:
        raise PhasorError(f"not {what}: a number has too many digits") from error
    except RecursionError as error:
        raise PhasorError(f"not {what}: is nested deeper than {JSON_DEPTH} levels") from error


def parse_object(data: bytes, as_float: Callable[[str], float] | None = None) -> dict[str, Any]:
    value = parse_json(data, "a JSON object", as_float)
    if not isinstance(value, dict):
        raise PhasorError("not a JSON object")
    return value


def read_value(path: os.PathLike[str] | str, limit: int = CONFIG_BYTES) -> Any:
    """What a JSON file holds; PhasorError names the file."""
    try:
        return without(path, parse_json(read_bytes(path, limit)))
    except PhasorError as error:
        raise named(path, error) from error


def read_json(
    path: os.PathLike[str] | str,
    limit: int = CONFIG_BYTES,
    as_float: Callable[[str], float] | None = None,
) -> dict[str, Any]:
    """A file with a JSON object; PhasorError names the file."""
    try:
        result: dict[str, Any] = without(path, parse_object(read_bytes(path, limit), as_float))
        return result
    except PhasorError as error:
        raise named(path, error) from error


# ---- Patterns


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern of * (any text) and ? (any character) fits a whole name: at most
    len(pattern)·len(name) steps."""
    at = star = -1
    where = here = 0
    while here < len(name):
        if where < len(pattern) and pattern[where] == "*":
            star, at, where = where, here, where + 1
        elif where < len(pattern) and pattern[where] in ("?", name[here]):
            where, here = where + 1, here + 1
        elif star >= 0:
            at += 1
            where, here = star + 1, at
        else:
            return False
    return all(c == "*" for c in pattern[where:])


# ---- Writing


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _stat(path: os.PathLike[str] | str) -> os.stat_result | None:
    """None where there is nothing; what cannot be known is an error."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_folder(path: os.PathLike[str] | str) -> bool:
    found = _stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _is_ours(path: str) -> bool:
    """Whether a file is a .phasor file, or empty."""
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size == 0 or file.read(8) == b"\x89PHASOR\n"


def check_output(output: os.PathLike[str] | str, *inputs: os.PathLike[str] | str | None) -> None:
    """PhasorError where `output` cannot become a file, or where it is one of the inputs, under
    whatever name: the file itself, a link to it, or what a directory of inputs has in it (a .phasor
    file there is a result, and may be replaced). Nothing is read and nothing is written."""
    real = os.path.realpath(output)
    try:
        found = _stat(real)
    except (OSError, ValueError) as error:
        raise PhasorError(
            f"{printable(str(output))}: cannot be written: "
            f"{getattr(error, 'strerror', None) or 'not a file name'}"
        ) from error
    if found is None:
        if not _is_folder(os.path.dirname(real)):
            raise PhasorError(
                f"{output}: cannot be written: there is no directory {os.path.dirname(output)}"
            )
        return
    if not stat.S_ISREG(found.st_mode):
        raise PhasorError(f"{output}: is {_kind_of(found.st_mode)}, expected the name of a file")
    for given in inputs:
        if not given or (is_there := _stat(given)) is None:
            continue
        if os.path.samestat(is_there, found):
            raise PhasorError(
                f"{output}: is the input {given} itself: give the output another name"
            )
        if (
            stat.S_ISDIR(is_there.st_mode)
            and not _is_ours(real)
            and (_is_inside(real, os.path.realpath(given)) or _is_linked(found, given))
        ):
            raise PhasorError(
                f"{output}: is a file of the input {given}: give the output another name"
            )


def _is_linked(found: os.stat_result, folder: os.PathLike[str] | str) -> bool:
    """Whether a file has another name in a directory."""

    def refuse(error: OSError) -> None:
        raise error

    places = os.walk(folder, onerror=refuse) if found.st_nlink > 1 else ()
    names = (os.path.join(place, name) for place, _, files in places for name in files)
    return any(os.path.samestat(one, found) for name in names if (one := _stat(name)) is not None)


@contextlib.contextmanager
def writing(path: os.PathLike[str] | str) -> Iterator[BinaryIO]:
    """A file of `scratch.file()`, new, open for reading and writing. An error of the system that
    names no file is of this one: who reads something else in the block names it."""
    try:
        with open(path, "x+b") as stream:
            yield stream
    except OSError as error:
        if error.filename is not None:
            raise
        raise PhasorError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: os.PathLike[str] | str) -> Iterator[BinaryIO]:
    """A temporary file beside `path` that no other process has, open for reading and writing; it
    becomes `path` when the block ends without an error. A link is followed. After any error, and
    after a signal that entry.py turns into one, the temporary file is gone and `path` is what it
    was."""
    check_output(path)
    target = Path(os.path.realpath(path))
    start = target.name.encode(errors="surrogateescape")[:200].decode(errors="ignore")
    part = target.parent / f".{start}.{secrets.token_hex(8)}.tmp"
    scratch.add(part)
    try:
        with open(part, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise PhasorError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            scratch.remove(part)
    with contextlib.suppress(
        OSError
    ):  # the file is there; that its name outlasts a power cut is more than some file systems offer
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def write_text(path: os.PathLike[str] | str, text: str) -> None:
    """A UTF-8 text file, whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
