"""Tokenizer sections of the weight file from SentencePiece models (docs/format.md, TOKENIZER).

`build_sentencepiece_section` turns the bytes of a SentencePiece `.model` file into a section that
the engine reads in place. What would change the ids and is not understood is refused by name, never
ignored.
"""

from __future__ import annotations

from phasor.tokenizers.models import MODELS
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto


def build_sentencepiece_section(model_bytes: bytes) -> bytes:
    """Builds the section for a SentencePiece model.

    Returns the section's bytes: encoding with it gives the ids of the `sentencepiece` package.
    Raises TokenizerError, naming the thing, for char and word models, a denormalizer, unknown
    fields, and damage.
    """
    return build_proto_section(read_model_proto(model_bytes))


def build_proto_section(proto: dict) -> bytes:
    """The section of a ModelProto that is read already (read_model_proto says what is in it)."""
    kind = proto["model_type"]
    model = next((model for model in MODELS if model.from_proto and model.proto_type == kind), None)
    if model is None:
        name = {3: "word", 4: "char"}.get(kind, str(kind))
        raise TokenizerError(
            f"SentencePiece model type {name} is not supported (unigram and bpe are)"
        )
    if not proto["pieces"]:
        raise TokenizerError("the model has no pieces")
    return model.from_proto(proto)
