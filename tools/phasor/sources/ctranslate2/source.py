"""A directory of CTranslate2 as a source."""

from __future__ import annotations

from phasor.families.model import Model
from phasor.format.file import SOURCE_TOKENIZER
from phasor.sources.ctranslate2 import container, translator
from phasor.sources.interface import Asked, Source
from phasor.sources.tokenizer_files import NONE, OWN, check_count


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    """The model with the words of its vocabularies, or with them SentencePiece models, one or
    two."""
    source, given = translator.read(asked.path), asked.tokenizers
    check_count(2, given)
    made: dict[int, bytes] = {}
    if [*given] == [NONE]:
        return source.model, made
    paths = [*given, *given[:1]][:2] if given else [None, None]
    for (side, kind), path in zip(OWN.items(), paths):
        section = source.section(side, path)
        kind = SOURCE_TOKENIZER if section == made.get(SOURCE_TOKENIZER) else kind
        made[kind] = section
        source.model.descriptor[side]["tokenizer"] = kind
    return source.model, made


def _recognizes(asked: Asked) -> bool:
    return asked.path.is_dir() and container.is_model(asked.path / "model.bin")


SOURCE = Source("a directory of CTranslate2", _recognizes, _read)
