"""A GGUF file as a source."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from phasor.chat.instructions import Refused
from phasor.families.model import Model
from phasor.files import is_file
from phasor.format.file import TARGET_TOKENIZER
from phasor.sources.gguf import architectures
from phasor.sources.gguf.container import GGUF, is_gguf
from phasor.sources.gguf.tokenizer import PREFIX, usual_id
from phasor.sources.interface import Asked, Option, Source
from phasor.sources.tokenizer_files import NONE, check_count, tokenizer_sections

# Special tokens, as templates call them and as the metadata does.
_TOKENS = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}


def _blocks(text: str) -> int:
    if text not in ("128", "64"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected 128 or 64")
    return int(text)


I2S_BLOCKS = Option(
    "--i2s-blocks",
    "128|64",
    "GGUF with I2_S, which needs it: values of a block, 128 if it was written on x86, 64 on ARM.",
    _blocks,
)


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    """The model with the tokenizer that is in the file, or the one given; `none` is none."""
    model, given = architectures.read(asked.path, asked.get(I2S_BLOCKS)), asked.tokenizers
    check_count(1, given)
    if given and given[0] != NONE:
        return model, tokenizer_sections(model, {"target": given[0]})
    section = None if given else model.vocabulary.section()
    if section is None:
        return model, {}
    model.descriptor["target"]["tokenizer"] = TARGET_TOKENIZER
    return model, {TARGET_TOKENIZER: section}


def find_template(metadata: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The template of a file's metadata, or None, and its special tokens."""
    own = {key.removeprefix(PREFIX): value for key, value in metadata.items()}
    tokens, variables = own.get("tokens"), {}
    for name, key in _TOKENS.items():
        id_ = f"{key}_token_id"
        place = usual_id(own, id_) if own.get(id_) is None else own[id_]
        if isinstance(tokens, list) and isinstance(place, int) and 0 <= place < len(tokens):
            if isinstance(tokens[place], str):
                variables[name] = tokens[place]
    template = metadata.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise Refused(f"tokenizer.chat_template: expected a text, got {type(template).__name__}")
    return template, variables


def _template(path: Path, checkpoint: GGUF) -> tuple[str | None, dict[str, Any]]:
    return find_template(checkpoint.metadata)


SOURCE = Source(
    "a GGUF file",
    lambda asked: is_file(asked.path) and is_gguf(asked.path),
    _read,
    (I2S_BLOCKS,),
    _template,
)
