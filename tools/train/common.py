"""What the trainers share: files, SentencePiece models, an optimizer's step, the command line."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import io
import json
import math
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasor.errors import PhasorError, printable
from phasor.files import open_regular, replacing

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


class UserError(PhasorError):
    """A mistake in the input or in the options: reported as one line."""


# ---- files


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a neighbor of `path`, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        write(Path(file.name))


def write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: object) -> None:
    """Readable JSON that keeps Chinese as it is."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def save_weights(path: Path, value: object) -> None:
    import torch

    write_atomically(path, lambda scratch: torch.save(value, scratch))


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


def load_checkpoint(path: Path, *wanted: str) -> dict[str, Any]:
    """A checkpoint of a trainer, with the fields that every one has and those wanted."""
    state = load_weights(path)
    fields = {"recipe", "model", "optimizer", "step", "seconds", *wanted}
    if not isinstance(state, dict) or not fields <= state.keys():
        raise UserError(f"{path} is not a checkpoint of this program")
    return state


# ---- training


def train_unigram(sentences: Iterable[str], size: int, what: str, **options: object) -> bytes:
    """A SentencePiece unigram model as the bytes of its file; always the same for the same
    sentences. what: its name in an error."""
    import sentencepiece as spm

    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        last = str(error).splitlines()[-1]
        raise UserError(f"cannot train {what.format(size)}: {last}") from error
    return model.getvalue()


def warm_cosine(peak: float, step: int, warmup: int, angle: float) -> float:
    """The learning rate: linear over the first steps, then a cosine, down to zero at π."""
    warm = min(1.0, (step + 1) / max(1, warmup))
    return peak * warm * 0.5 * (1.0 + math.cos(angle))


def descend(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, clip: float
) -> None:
    """One step of the optimizer, its gradient clipped to a norm."""
    from torch import nn

    for group in optimizer.param_groups:
        group["lr"] = rate
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def keep_freed_memory() -> None:
    """glibc only: keep freed memory. Otherwise each large tensor is paged in again, which takes a
    fifth of the time."""
    mmap_threshold, trim_threshold = -3, -1
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 2**30)
        libc.mallopt(trim_threshold, 2**31 - 1)
    except (OSError, AttributeError):
        pass


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# ---- command line


def new_parser(page: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        description=page, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_recipe_options(parser: argparse.ArgumentParser, recipe: type) -> None:
    """An option for each field of the recipe."""
    group = parser.add_argument_group("recipe (defaults shown; a resumed run keeps its own)")
    for field in dataclasses.fields(recipe):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction)
        else:
            group.add_argument(flag, type=type(field.default), metavar=str(field.default))


def given_fields(options: argparse.Namespace, recipe: type) -> dict[str, Any]:
    """What the command line says of the recipe."""
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(recipe)}
    return {name: value for name, value in given.items() if value is not None}
