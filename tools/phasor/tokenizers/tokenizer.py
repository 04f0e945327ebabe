"""Tokenizer sections of the weight file from SentencePiece models and word lists (docs/format.md,
TOKENIZER).

`build_sentencepiece_section` turns the bytes of a SentencePiece `.model` file into a section that
the engine reads in place. What would change the ids and is not understood is refused by name, never
ignored.

Command line: python -m phasor.tokenizers.tokenizer MODEL -o SECTION   (MODEL: a .model file, or a
    .txt list, a word a line)
"""

from __future__ import annotations

import argparse
import sys

from phasor.entry import front_door
from phasor.errors import named
from phasor.files import check_output, read_bytes, read_text, replacing
from phasor.format.layout import PhasorError
from phasor.tokenizers.models import MODELS
from phasor.tokenizers.models.word_list import build_wordlist_section
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


@front_door("phasor_tokenizer")
def main() -> int:
    parser = argparse.ArgumentParser(
        description="Builds a tokenizer section from a SentencePiece model or a word list."
    )
    parser.add_argument("model", help="a SentencePiece .model, or a .txt file with a word a line")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--unknown", type=int, help="id of the unknown word of a list")
    args = parser.parse_args()
    check_output(args.output, args.model)
    try:
        if args.model.endswith(".txt"):
            section = build_wordlist_section(read_text(args.model).splitlines(), args.unknown)
        else:
            section = build_sentencepiece_section(read_bytes(args.model))
    except PhasorError as error:
        raise named(args.model, error) from error
    with replacing(args.output) as file:
        file.write(section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
