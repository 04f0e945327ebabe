"""What `export` is asked for, checked, and what it gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from phasor.errors import PhasorError, shown
from phasor.format import layout as L
from phasor.values import is_whole

TASKS = ("values", "multi-label")
_TYPES = tuple(L.TYPES[kind] for kind in L.ROUNDED)
_MOST_ID = 1 << 24


class Said(NamedTuple):
    """What an owner says, because no call does."""

    labels: list[str] | None = None
    task: str | None = None
    start: int | None = None
    end: list[int] | None = None
    pad: int | None = None


class Exported(NamedTuple):
    """A file that `phasor.export` wrote. gap: the largest difference between the module and its
    description, of the range of a row of outputs; inputs: how many were compared; precision: of
    the module's outputs, "float64" where the module runs in it."""

    path: Path
    description: str
    gap: float
    inputs: int
    precision: str


class Asked(NamedTuple):
    example: Any
    tokenizer: Any
    type: str | None
    output_type: str | None
    said: Said
    description: Path | None
    quiet: bool

    @property
    def paths(self) -> list[Path]:
        """Of tokenizers that are files."""
        return [Path(one) for one in self._given() if isinstance(one, (str, os.PathLike))]

    def _given(self) -> list[Any]:
        one = self.tokenizer
        return [] if one is None else list(one) if isinstance(one, (list, tuple)) else [one]

    def tokenizers(self, folder: Path) -> list[Path]:
        """The files; a tokenizer of Hugging Face's packages is saved first."""
        out = []
        for i, one in enumerate(self._given()):
            if isinstance(one, (str, os.PathLike)):
                out.append(Path(one))
            elif hasattr(one, "save_pretrained"):
                one.save_pretrained(str(folder / f"{i}"))
                out.append(folder / f"{i}" / "tokenizer.json")
            elif hasattr(one, "save"):
                (folder / f"{i}").mkdir()
                out.append(folder / f"{i}" / "tokenizer.json")
                one.save(str(out[-1]))
            else:
                raise PhasorError(
                    f"tokenizer=: {type(one).__name__}: expected a file, or a tokenizer of"
                    " transformers or tokenizers"
                )
        return out


def asked(
    example: Any,
    tokenizer: Any,
    kinds: tuple[str | None, str | None],
    said: dict[str, Any],
    description: Any,
    quiet: bool,
) -> Asked:
    """PhasorError names the argument that is wrong."""
    for name, value in zip(("type", "output_type"), kinds):
        if value is not None and value not in _TYPES:
            raise PhasorError(f"{name}=: {shown(value)}: expected one of {', '.join(_TYPES)}")
    end = said["end"]
    ends = [end] if isinstance(end, int) else None if end is None else list(end)
    for name, ids in (("start", [said["start"]]), ("pad", [said["pad"]]), ("end", ends or [])):
        for id_ in ids:
            if id_ is not None and not is_whole(id_, 0, _MOST_ID):
                raise PhasorError(f"{name}=: {shown(id_)}: expected an id")
    if said["task"] is not None and said["task"] not in TASKS:
        raise PhasorError(f"task=: {shown(said['task'])}: expected one of {', '.join(TASKS)}")
    labels: Sequence[Any] | None = said["labels"]
    if labels is not None and not all(isinstance(one, str) for one in labels):
        raise PhasorError("labels=: expected a list of texts")
    own = Said(
        None if labels is None else list(labels), said["task"], said["start"], ends, said["pad"]
    )
    where = None if description is None else Path(description)
    return Asked(example, tokenizer, *kinds, said=own, description=where, quiet=quiet)
