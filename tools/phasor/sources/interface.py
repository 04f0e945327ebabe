"""What the converter asks of a kind of source. A folder here whose module source.py has a SOURCE is
one (find.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from phasor.checkpoints.tensors import Checkpoint
from phasor.families.model import Model


class Option(NamedTuple):
    """A flag of the command line that goes with some kinds of source only."""

    flag: str
    metavar: str
    help: str
    type: Callable[[str], Any] = str
    default: Any = None
    beside: str = ""  # the flag without which it says nothing

    @property
    def name(self) -> str:
        return self.flag[2:].replace("-", "_")


class Asked(NamedTuple):
    """What a user gives."""

    path: Path
    tokenizers: Sequence[Path] = ()
    output: Path | None = None  # which may be none of the files that are read
    options: Mapping[str, Any] = {}  # by their names

    def get(self, option: Option) -> Any:
        return self.options.get(option.name, option.default)


def no_template(path: Path, checkpoint: Checkpoint) -> tuple[str | None, dict[str, Any]]:
    return None, {}


class Source(NamedTuple):
    """A kind of source."""

    what: str  # in a message
    recognizes: Callable[[Asked], bool]
    # The model, and its sections by their kinds: tokenizers. PhasorError names the file.
    read: Callable[[Asked], tuple[Model, dict[int, bytes]]]
    options: tuple[Option, ...] = ()
    # The chat template, None where there is none, and the special tokens that it may read.
    template: Callable[[Path, Checkpoint], tuple[str | None, dict[str, Any]]] = no_template
    proof: str = ""  # what the test vectors of such a source do not prove, a line at the end
    order: int = 0  # of two that recognize a path, the one with the lower number reads it
