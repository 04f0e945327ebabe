"""A Hugging Face directory as a source."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from phasor.checkpoints.tensors import Checkpoint
from phasor.families.model import Model
from phasor.files import has_file
from phasor.sources.ctranslate2 import container as ctranslate2
from phasor.sources.hugging_face import tokenizers
from phasor.sources.hugging_face.directory import Changes, read
from phasor.sources.hugging_face.side_tokenizers import Languages
from phasor.sources.hugging_face.template import find_template
from phasor.sources.interface import Asked, Option, Source
from phasor.sources.sentence_transformers.embedder import Judge

_MOST_POSITIONS = 1 << 24


def _positions(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_POSITIONS):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of positions")
    return int(text)


CONTEXT = Option(
    "--rope-context",
    "N",
    "Decoder with rotary positions: longest sequence. Frequencies that depend on the length are"
    " fixed for this length.",
    _positions,
    0,
)
LORA = Option("--lora", "DIR", "PEFT adapter to add to the weights.", Path)
LANGUAGES = tuple(
    Option(
        f"--{side}-lang",
        "NAME",
        f"Translator: {side} language, as named by its tokenizer.",
        default="",
    )
    for side in ("source", "target")
)
TEMPLATE = Option(
    "--rank-template",
    "TEXT",
    "Reranker that is a language model (phasor rank): its prompt, with {query} and {document}.",
    beside="--rank-tokens",
)
TOKENS = Option(
    "--rank-tokens",
    "YES[,NO]",
    "Reranker: tokens (or #ID) whose logits after the prompt give the score.",
    beside="--rank-template",
)


def _recognizes(asked: Asked) -> bool:
    path = asked.path
    own = any(has_file(path / name) for name in ("config.json", "modules.json"))
    return own and not ctranslate2.is_model(path / "model.bin")


def _read(asked: Asked) -> tuple[Model, dict[int, bytes]]:
    judge = None
    if asked.get(TEMPLATE) is not None:
        judge = Judge(asked.get(TEMPLATE), asked.get(TOKENS))
    directory = read(asked.path, Changes(asked.get(CONTEXT), asked.get(LORA), judge))
    if asked.get(LORA) is not None:
        directory = tokenizers.with_adapters_files(directory, asked.get(LORA), asked.tokenizers)
    languages = Languages(*map(asked.get, LANGUAGES))
    return directory.model, tokenizers.sections(directory, asked.tokenizers, languages)


def _template(path: Path, checkpoint: Checkpoint) -> tuple[str | None, dict[str, Any]]:
    return find_template(path)


SOURCE = Source(
    "a Hugging Face directory",
    _recognizes,
    _read,
    (CONTEXT, LORA, *LANGUAGES, TEMPLATE, TOKENS),
    _template,
)
