"""What the trainers share."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phasor.errors import PhasorError, printable
from phasor.files import open_regular, replacing


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighbour of `path`, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        write(Path(file.name))


def load_weights(path: Path) -> Any:
    """What torch.save wrote, read without running any code from it."""
    import torch

    try:
        with open_regular(path) as file:
            return torch.load(file, weights_only=True)
    except (
        OSError,
        EOFError,
        RuntimeError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        pickle.UnpicklingError,
    ) as error:
        raise PhasorError(f"cannot read checkpoint {path}: {printable(str(error), 200)}") from error
