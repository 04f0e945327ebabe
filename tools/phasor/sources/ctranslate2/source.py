"""A directory of CTranslate2 as a source."""

from __future__ import annotations

from pathlib import Path

from phasor.errors import PhasorError, named
from phasor.families.model import Model
from phasor.format.file import SOURCE_TOKENIZER
from phasor.sources.ctranslate2 import container, translator
from phasor.sources.hugging_face import side_tokenizers
from phasor.sources.hugging_face.side_tokenizers import Languages
from phasor.sources.hugging_face.source import LANGUAGES
from phasor.sources.interface import Asked, Source
from phasor.sources.tokenizer_files import NONE, OWN, check_count
from phasor.tokenizers.section import piece_texts


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    """The model with the words of its vocabularies, or with them SentencePiece models, one or two,
    or the tokenizer of the Hugging Face directory that it was made from."""
    source, given = translator.read(asked.path), asked.tokenizers
    check_count(2, given)
    languages = Languages(*map(asked.get, LANGUAGES))
    if len(given) == 1 and (given[0].is_dir() or given[0].suffix == ".json"):
        return source.model, _of_original(source, given[0], languages)
    for flag, name in zip((option.flag for option in LANGUAGES), languages):
        if name:
            raise PhasorError(
                f"{flag}: {asked.path}: its files know no languages: give --tokenizer DIRECTORY,"
                " that of the model that it was made from"
            )
    made: dict[int, bytes] = {}
    if [*given] == [NONE]:
        return source.model, made
    if given and source.of_transformers():
        raise PhasorError(
            f"--tokenizer {given[0]}: {asked.path} was made from a model of Hugging Face, whose"
            " tokenizer puts an end (and a language) around a text, which these files do not say:"
            " give --tokenizer DIRECTORY, that of this model"
        )
    paths = [*given, *given[:1]][:2] if given else [None, None]
    for (side, kind), path in zip(OWN.items(), paths):
        section = source.section(side, path)
        kind = SOURCE_TOKENIZER if section == made.get(SOURCE_TOKENIZER) else kind
        made[kind] = section
        source.model.descriptor[side]["tokenizer"] = kind
    return source.model, made


def _of_original(source: translator.Source, path: Path, languages: Languages) -> dict[int, bytes]:
    """The sections of a directory's tokenizer, or of a tokenizer.json, whose pieces must be the
    words of the vocabulary."""
    d = source.model.descriptor
    try:
        kind = side_tokenizers.kind_of(path if path.is_dir() else path.parent)
        made = side_tokenizers.given(kind, path, d, languages, side_tokenizers.SIDES)
        if made is None:
            raise PhasorError("expected a tokenizer.json, or the directory of one")
        for side in side_tokenizers.SIDES:
            source.check_pieces(side, piece_texts(made[d[side]["tokenizer"]]))
    except PhasorError as error:
        known = str(error).startswith(("--", str(path)))
        raise error if known else named(path, error) from error
    return made


def _recognizes(asked: Asked) -> bool:
    return asked.path.is_dir() and container.is_model(asked.path / "model.bin")


SOURCE = Source("a directory of CTranslate2", _recognizes, _read, LANGUAGES)
