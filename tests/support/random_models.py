"""Descriptors of small models of each stack, and references of them with random weights. numpy
only."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np

from phasor import vectors as V
from phasor.files import replacing
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import writer
from phasor.format.meta import as_stored
from phasor.format.tensors import Slot
from phasor.reference.forward import Reference
from phasor.tokenizers.models.word_list import build_wordlist_section


def random_weights(slot: Slot) -> np.ndarray:
    rng = np.random.default_rng(slot.key)
    if slot.type == L.F64:
        return 10000.0 ** (-np.arange(sum(slot.parts)) / sum(slot.parts))
    shape = (sum(slot.parts),) if slot.layout == L.VECTOR else (sum(slot.parts), slot.cols)
    return rng.normal(size=shape) * 0.3 + (slot.layout == L.VECTOR)


def write_random(
    path: Path,
    descriptor: dict,
    kind: int = L.F32,
    extra: dict | None = None,
    weights: Callable[[Slot], np.ndarray] | None = None,
) -> F.PhasorFile:
    """A file with these weights; without them random ones, vectors near one."""
    with replacing(path) as file:
        writer.write_model(file, descriptor, weights or random_weights, kind, extra)
    return F.PhasorFile(path)


def write_with_vectors(
    path: Path, descriptor: dict, sources: list[tuple[int, ...]]
) -> F.PhasorFile:
    """An encoder's file with random weights and the reference's vectors of these sources."""
    full = as_stored(descriptor)
    section = V.build(V.ExactWeights(full, random_weights), [V.Input(ids, ()) for ids in sources])
    return write_random(path, descriptor, extra={F.VECTORS: section})


def model_of(tmp_path: Path, descriptor: dict, kind: int = L.F32, **options) -> Reference:
    return Reference(write_random(tmp_path / "m.phasor", descriptor, kind), **options)


def block(**kind) -> dict:
    return {
        "norm": D.LAYER_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": 4,
        "head_width": 6,
        "scale": 0.4,
        "hidden": 20,
        "activation": D.RELU,
        **kind,
    }


def lm(stack: dict | None = None, output: dict | None = None, **kind) -> dict:
    """A decoder of two layers."""
    return {
        "model": {"stack": D.DECODER},
        "target": {"vocabulary": 23, "start": 1, "end": [2]},
        "decoder": {"width": 24, "layers": [0, 0, 0, 1], **(stack or {})},
        "kinds": [block(**kind)],
        "output": {"output": D.LOGITS, **(output or {})},
    }


def encoder(
    stack: dict | None = None, output: dict | None = None, side: dict | None = None, **kind
) -> dict:
    """An encoder of two layers; hidden states unless told otherwise."""
    return {
        "model": {"stack": D.ENCODER},
        "source": {"vocabulary": 29, **(side or {})},
        "encoder": {"width": 24, "layers": [0, 0, 0, 1], **(stack or {})},
        "kinds": [block(**kind)],
        "output": {"output": D.HIDDEN, **(output or {})},
    }


def write_ranker(path: Path, **output) -> F.PhasorFile:
    """A classifier of pairs with one class, and words for them."""
    words = ["<unk>", "<s>", "</s>", *(f"word{i}" for i in range(20))]
    side = {"vocabulary": len(words), "tokenizer": F.SOURCE_TOKENIZER}
    side |= {"prefix": [1], "pair": [2], "suffix": [2], "mask": 22}
    given = {"output": D.CLASSES, "classes": 1, "pooling": D.MEAN, "scores": D.SIGMOID, **output}
    tokenizer = {F.SOURCE_TOKENIZER: build_wordlist_section(words, 0, (1, 2))}
    return write_random(path, encoder(side=side, output=given), extra=tokenizer)


def write_spans(path: Path) -> F.PhasorFile:
    """The same with classes of each token: where an answer begins and ends."""
    labels = f"start{D.RECORD_END}end{D.RECORD_END}"
    return write_ranker(path, classes=2, pooling=0, scores=D.PLAIN, labels=labels)


def write_late(path: Path, **output) -> F.PhasorFile:
    """The same with a vector of each token, for late interaction."""
    given = {"query_length": 9, "document_length": 12, "expansion": D.HIDDEN_EXPANSION, **output}
    return write_ranker(path, classes=7, pooling=0, scores=D.PLAIN, **given)


def translator(
    stack: dict | None = None, output: dict | None = None, cross: dict | None = None, **kind
) -> dict:
    """An encoder of one layer and a decoder of one; `stack` is for both, `cross` for the decoder's
    kind."""
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": {"vocabulary": 29},
        "target": {"vocabulary": 23, "decoder_start": 1, "end": [2]},
        "encoder": {"width": 24, "layers": [0, 0], **(stack or {})},
        "decoder": {"width": 24, "layers": [1, 0], **(stack or {})},
        "kinds": [block(**kind), block(**kind, cross=1, **(cross or {}))],
        "output": {"output": D.LOGITS, **(output or {})},
    }
