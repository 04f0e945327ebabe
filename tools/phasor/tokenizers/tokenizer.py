"""Tokenizer sections of the weight file from SentencePiece models (file-format.md, TOKENIZER).

`build_sentencepiece_section` turns the bytes of a SentencePiece `.model` file into a section that
the engine reads in place. What would change the ids and is not understood is refused by name, never
ignored.
"""

from __future__ import annotations

from typing import Any

from phasor.tokenizers.export import exportable
from phasor.tokenizers.json_parts import refuse, steps
from phasor.tokenizers.model import Model
from phasor.tokenizers.models import MODELS, pipeline
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto


def build_sentencepiece_section(model_bytes: bytes) -> bytes:
    """Builds the section for a SentencePiece model.

    Returns the section's bytes: encoding with it gives the ids of the `sentencepiece` package.
    Raises TokenizerError, naming the thing, for a denormalizer, unknown fields, and damage.
    """
    return build_proto_section(read_model_proto(model_bytes))


def build_proto_section(proto: dict[str, Any]) -> bytes:
    """The section of a ModelProto that is read already (read_model_proto says what is in it)."""
    kind = proto["model_type"]
    model = next((model for model in MODELS if kind in model.proto_types), None)
    if model is None:
        raise TokenizerError(
            f"SentencePiece model type {kind} is not supported (unigram, bpe, word and char are)"
        )
    if not proto["pieces"]:
        raise TokenizerError("the model has no pieces")
    assert model.from_proto is not None
    result: bytes = model.from_proto(proto)
    return result


def json_section(spec: dict[str, Any]) -> tuple[bytes, Any, int | None]:
    """The section of a tokenizer.json, its vocabulary, its unknown id: a model that is made for its
    kind, where one takes all of it, else the pipeline of its own parts."""
    model = spec["model"]
    try:
        kind = model.get("type")
        made = (model for model in MODELS if model.from_json and model.json_type == kind)
        known = next((model for model in made if model.takes(spec)), None)
        if known is not None:
            return _whole(spec, known)
    except TokenizerError:
        if type(model) is not dict:  # a reader's own kind of vocabulary, which no other has
            raise
    return _whole(spec, pipeline.MODEL)


def _whole(spec: dict[str, Any], model: Model) -> tuple[bytes, Any, int | None]:
    assert model.from_json is not None
    section, vocabulary, unknown = model.from_json(spec)
    return exportable(spec, _trimmed(spec, section), vocabulary, model), vocabulary, unknown


_TRIM_AT, _MOST_TRIMS = 16, 7


def _trimmed(spec: dict[str, Any], section: bytes) -> bytes:
    """The section with flags for what the post-processors take from the offsets of tokens."""
    trims = [
        1 | 2 * bool(step.get("add_prefix_space", True))
        for step in steps(spec.get("post_processor"), "post_processor", "processors")
        if step["type"] in ("ByteLevel", "RobertaProcessing") and step.get("trim_offsets", True)
    ]
    if len(trims) > _MOST_TRIMS:
        refuse(f"post_processor with {len(trims)} steps of trim_offsets")
    flags = int.from_bytes(section[4:8], "little")
    flags |= sum(trim << _TRIM_AT + 2 * i for i, trim in enumerate(trims))
    return section[:4] + flags.to_bytes(4, "little") + section[8:]
