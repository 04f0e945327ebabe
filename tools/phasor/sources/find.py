"""The kinds of source that there are, and which of them a path is."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Sequence

from phasor import mistaken, sources
from phasor.checkpoints.checkpoint import is_weights, open_checkpoint
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.files import described_beside, instead_of, open_regular, read_start
from phasor.sources.interface import Asked, Option, Source


def _found() -> list[Source]:
    names = (
        f"{sources.__name__}.{one.name}"
        for one in pkgutil.iter_modules(sources.__path__)
        if one.ispkg
    )
    modules = (f"{name}.source" for name in names if find_spec(f"{name}.source"))
    return sorted((importlib.import_module(name).SOURCE for name in modules), key=lambda s: s.order)


SOURCES = _found()
OPTIONS: tuple[Option, ...] = tuple(
    sorted({option for source in SOURCES for option in source.options}, key=lambda o: o.flag)
)


def source_of(asked: Asked) -> Source:
    """The kind of source that a path is, of those that the given options go with."""
    _check(asked.path)
    given = [option for option in OPTIONS if asked.get(option) != option.default]
    for source in SOURCES:
        if set(given) <= set(source.options) and source.recognizes(asked):
            return source
    for option in given:
        theirs = " or ".join(source.what for source in SOURCES if option in source.options)
        raise PhasorError(f"{option.flag}: goes with {theirs}; {asked.path} is none")
    raise _unknown(asked.path)


def read_source(
    path: Path, tokenizers: Sequence[Path] = (), **options: Any
) -> tuple[Model, dict[int, bytes]]:
    """The model of a source and its sections. options: by the names of their flags."""
    asked = Asked(path, tokenizers, options=options)
    return source_of(asked).read(asked)


def _check(path: Path) -> None:
    if not path.exists():
        link = "is a link to what is not there" if path.is_symlink() else "there is no such file"
        raise PhasorError(f"{path}: {link}")
    if not path.is_dir():
        with open_regular(path):
            pass


def _unknown(path: Path) -> PhasorError:
    """What to do with a path of which nothing says what model it is."""
    described = described_beside(path)
    if path.is_dir():
        instead = instead_of(path) or (
            "a directory without config.json, and without a description beside it,"
            f" {described}: give the model's directory, or --describe"
        )
        return PhasorError(f"{path}: {instead}")
    start = read_start(path)
    if instead := mistaken.of_file(start, path.name):
        return PhasorError(f"{path}: {instead}")
    if start.startswith(b"PK") or not is_weights(start):
        open_checkpoint(path)  # says so where nothing of ours wrote it
    if any(source.recognizes(Asked(path.parent)) for source in SOURCES):
        return PhasorError(
            f"{path}: weights alone do not say what model they are: give their directory,"
            f" {path.parent}"
        )
    return PhasorError(
        f"{described}: there is no description; write one"
        " (docs/reference/description-keys.md has the keys) or give --describe"
    )
