"""A file of llama2.c as a source: an export, or a checkpoint of its trainer that no description
describes."""

from __future__ import annotations

from phasor.families.model import Model
from phasor.files import described_beside, has_file, is_file
from phasor.sources.interface import Asked, Source
from phasor.sources.llama2c import model
from phasor.sources.tokenizer_files import check_count, tokenizer_sections


def _recognizes(asked: Asked) -> bool:
    path = asked.path
    return is_file(path) and (
        model.read_config(path) is not None
        or not has_file(described_beside(path))
        and model.is_checkpoint(path)
    )


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    made = model.read(asked.path)
    check_count(1, asked.tokenizers)
    return made, tokenizer_sections(made, dict(zip(["target"], asked.tokenizers)))


SOURCE = Source("a file of llama2.c", _recognizes, _read, order=1)
