"""What a tokenizer's model says of itself: its row of the table (models/)."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple


class Model(NamedTuple):
    """A module of models/ has one as MODEL; nothing else lists them."""

    number: int  # in the section's header
    name: str
    # trainer_spec.model_type of SentencePiece models, and the section of one (sentencepiece.py)
    proto_types: tuple[int, ...] = ()
    from_proto: Callable[[dict[str, Any]], bytes] | None = None
    # model.type of a tokenizer.json, whether one of that type is this model's, and what it becomes:
    # the section, the vocabulary, the unknown id (tokenizer_json.py)
    json_type: str | None = None
    takes: Callable[[dict[str, Any]], bool] = bool
    from_json: Callable[[dict[str, Any]], tuple[bytes, Any, int | None]] | None = None
