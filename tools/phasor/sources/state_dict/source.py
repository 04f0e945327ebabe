"""A checkpoint with a description as a source."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, named
from phasor.families.model import Model
from phasor.files import check_output, described_beside, has_file
from phasor.sources.hugging_face.template import find_template
from phasor.sources.interface import Asked, Option, Source, no_template
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import (
    Description,
    parse_description,
    read_description,
)
from phasor.sources.state_dict.presets import Opener
from phasor.sources.tokenizer_files import check_count, tokenizer_sections

DESCRIBE = Option(
    "--describe",
    "FILE",
    "Description of the model. Default: the name of the checkpoint with .toml.",
    Path,
)
PRESET = Option("--preset", "NAME", "a description that is this preset and nothing more")


def _description(asked: Asked) -> Path:
    return asked.get(DESCRIBE) or described_beside(asked.path)


def _recognizes(asked: Asked) -> bool:
    given = asked.get(DESCRIBE) is not None or asked.get(PRESET) is not None
    return given or has_file(_description(asked))


def _described(asked: Asked, opened: Opener) -> Description:
    """The description, or that of a preset alone."""
    preset = asked.get(PRESET)
    if preset is None:
        return read_description(_description(asked), opened)
    if asked.get(DESCRIBE) is not None:
        raise PhasorError("--preset: goes without --describe, whose file may say preset")
    flag = Path(f"--preset {preset}")
    try:
        return parse_description({"preset": preset}, flag, opened)
    except PhasorError as error:
        raise named(flag, error) from error


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    """The model with the tokenizers given, else those of the description. One file for two sides is
    stored once."""
    opened = cache(partial(open_checkpoint, asked.path))  # read once
    description, given = _described(asked, opened), asked.tokenizers
    model = state_dict.read(opened(description.key, description.beside), description)
    sides = list(description.sides)
    check_count(len(sides), given)
    paths = {
        side: description.path.parent / values["tokenizer"]
        for side, values in description.sides.items()
        if values["tokenizer"]
    }
    if given:
        paths = dict(zip(sides, [*given, *given[:1]]))
    if asked.output is not None:
        check_output(asked.output, *paths.values())
    return model, tokenizer_sections(model, paths)


def _template(path: Path, checkpoint: Checkpoint) -> tuple[str | None, dict[str, Any]]:
    """Of a directory that has the files of a Hugging Face one."""
    return find_template(path) if path.is_dir() else no_template(path, checkpoint)


SOURCE = Source(
    "a checkpoint with a description",
    _recognizes,
    _read,
    (DESCRIBE, PRESET),
    _template,
    "The test vectors check this file against its description. --expect FILE checks it against your"
    " model.",
    order=2,
)
