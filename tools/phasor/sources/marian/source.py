"""A checkpoint of Marian as a source."""

from __future__ import annotations

from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.files import check_output, is_file
from phasor.format.file import SOURCE_TOKENIZER
from phasor.sources.interface import Asked, Source
from phasor.sources.marian import translator, vocabulary
from phasor.sources.tokenizer_files import NONE, OWN, check_count, place, tokenizer_sections
from phasor.tokenizers.section import id_count


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    """The model with the tokenizers that are given, one or two. Pieces of a .spm have the ids of
    the vocabulary beside it, a .yml; without one their own. They are as many as the model's
    rows."""
    model, given = translator.read(asked.path), asked.tokenizers
    check_count(2, given)
    paths = {side: path for side, path in zip(OWN, [*given, *given[:1]]) if path != NONE}
    lists = {}
    for side, path in paths.items():
        if path.suffix == ".spm" and (found := vocabulary.vocabulary_beside(path, side)):
            lists[side] = found
    if asked.output is not None:
        check_output(asked.output, *lists.values())
    plain = {side: path for side, path in paths.items() if side not in lists}
    sections = tokenizer_sections(model, plain)
    for side, numbers in lists.items():
        path = paths[side]
        shared = (path, numbers) == (paths.get("source"), lists.get("source"))
        kind = SOURCE_TOKENIZER if shared else OWN[side]
        if kind not in sections:
            sections[kind] = vocabulary.section(path, numbers)
        place(model, side, kind, sections[kind], f"{path}")
    for side, path in paths.items():
        pieces = id_count(sections[model.descriptor[side]["tokenizer"]])
        if pieces != (rows := translator.rows(model.descriptor, side)):
            raise PhasorError(
                f"{lists.get(side, path)}: has {pieces} pieces, the {side} embedding of {rows} rows"
                " is of another vocabulary"
            )
        if side in lists:
            model.notes.append(f"{path}: its pieces have the ids of {lists[side].name}")
    return model, sections


def _recognizes(asked: Asked) -> bool:
    return is_file(asked.path) and translator.is_source(asked.path)


SOURCE = Source("a .npz of Marian", _recognizes, _read)
