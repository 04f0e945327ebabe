"""What the trainers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from files import replacing


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighbour of `path`, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        write(Path(file.name))
