"""What follows a stack in one class: pooling, a dense layer, a norm, and what comes of them; the
same for encoders and for decoders that give vectors or classes."""

from __future__ import annotations

import fnmatch
from typing import Any, NamedTuple

from phasor.checkpoints.tensors import Checkpoint
from phasor.families.hf_config import Config
from phasor.families.model import Part, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R

_MOST_LABELS = 1 << 16


class Head(NamedTuple):
    """What follows the stack in one class of a family. Names without `.weight`."""

    output: int = D.HIDDEN
    pooling: int = 0
    dense: str = ""
    activation: int | str = 0  # a head_activation, or the field of config.json that names it
    dense_bias: bool = True
    dense_width: int = 0  # 0: the embedding's for words, otherwise the stack's
    norm: str = ""
    norm_eps: float | None = None  # None: the stack's
    unit: bool = False  # the norm is one by the root of the mean square, without an epsilon
    last: str = ""  # the matrix: of the vocabulary (none: always the embedding), or the classifier
    last_bias: bool = True  # of the classifier
    # Names of the vocabulary's bias; more than one are one tensor twice.
    biases: tuple[str, ...] = ()
    fixed_classes: tuple[str, ...] = ()  # labels that are not in config.json
    vectors: int = 0  # values of a vector at each position: classes without labels
    scores: int | None = None  # None: from config.json
    ranks: bool = False  # of a CrossEncoder's own directory, whose library gives the scores
    normalize: bool = False
    prompts: str = ""
    longest_text: int = 0  # ids that a text is cut to
    unused: tuple[str, ...] = ()  # patterns of tensors that this output has no use for: noted


def fields(head: Head, config: Config, width: int, norm_eps: float) -> dict[str, Any]:
    """The output of a descriptor, but for the matrix of a vocabulary. width: of a dense layer of
    which the head says nothing; norm_eps: the same of a norm."""
    out: dict[str, Any] = {"output": head.output}
    if head.pooling:
        out["pooling"] = head.pooling
    if head.normalize:
        out["normalize"] = 1
    if head.prompts:
        out["prompts"] = head.prompts
    if head.dense:
        out["head_width"] = head.dense_width or width
        out["head_bias"] = int(head.dense_bias)
        out["head_activation"] = (
            config.activation(head.activation)
            if isinstance(head.activation, str)
            else head.activation
        )
    if head.norm:
        eps = norm_eps if head.norm_eps is None else head.norm_eps
        out.update(head_norm=D.LAYER_NORM, head_norm_eps=eps)
        if head.unit:
            out.update(head_norm=D.RMS_NORM, head_norm_eps=0.0)
    if head.vectors:
        out.update(classes=head.vectors, bias=int(head.last_bias), scores=head.scores)
    elif head.output == D.CLASSES:
        labels = list(head.fixed_classes) or labels_of(config)
        out.update(
            classes=len(labels),
            labels="".join(label + D.RECORD_END for label in labels),
            bias=int(head.last_bias),
            scores=scores_of(config, len(labels), head.ranks)
            if head.scores is None
            else head.scores,
        )
    return out


def parts(head: Head, slot: R.Slot, checkpoint: Checkpoint) -> list[Part]:
    """Where the values of an output's slot come from."""
    if slot.role == R.OUTPUT_WEIGHT + 1:
        name = next((n for n in head.biases if n in checkpoint), head.biases[0])
        return [Part(name, shape_of(slot))]
    bias = slot.role in (R.HEAD + 1, R.HEAD_NORM + 1, R.CLASSIFIER + 1)
    base = {
        R.OUTPUT_WEIGHT: head.last,
        R.HEAD: head.dense,
        R.HEAD_NORM: head.norm,
        R.CLASSIFIER: head.last,
    }[slot.role - bias]
    return [Part(base + (".bias" if bias else ".weight"), shape_of(slot))]


def unused(head: Head, checkpoint: Checkpoint, trunk: str) -> dict[str, str]:
    """The tensors that this output has no use for, and that it says."""
    patterns = [begin + pattern for pattern in head.unused for begin in {trunk, ""}]
    names = (n for n in checkpoint if any(fnmatch.fnmatchcase(n, p) for p in patterns))
    return dict.fromkeys(names, "this output has no use for it")


def labels_of(config: Config) -> list[str]:
    """id2label in the order of its ids; LABEL_0, … where the configuration has none."""
    table = config.get("id2label")
    config.get("num_labels")
    if table is None:
        count = config.whole("num_labels", 1, _MOST_LABELS, default=2)
        return [f"LABEL_{i}" for i in range(count)]
    if (
        not isinstance(table, dict)
        or not 1 <= len(table) <= _MOST_LABELS
        or sorted(table, key=str) != sorted(map(str, range(len(table))))
    ):
        raise config.error("id2label", "its keys are not 0, 1, 2, …")
    labels = [table[str(i)] for i in range(len(table))]
    if not all(isinstance(label, str) for label in labels):
        raise config.error("id2label", "a label that is not a text")
    if not all(label.isprintable() for label in labels):
        raise config.error("id2label", "a label with a character that cannot be printed")
    return labels


# What a CrossEncoder does with the classes, by the last part of the function's name.
FUNCTIONS = {"Identity": D.PLAIN, "Sigmoid": D.SIGMOID, "Softmax": D.SOFTMAX}


def scores_of(config: Config, classes: int, ranks: bool = False) -> int:
    """What sentence-transformers' CrossEncoder or transformers' pipeline does with the classes:
    softmax, a sigmoid each, or nothing. ranks: a CrossEncoder's own directory."""
    newer, older = config.table("sentence_transformers"), "sbert_ce_default_activation_function"
    if newer is not None:
        newer.get("version")
    if newer is not None and "activation_fn" in newer.values:  # counts more than the older one
        if newer.get("activation_fn") is not None:
            result: int = newer.class_name("activation_fn", FUNCTIONS)
            return result
    elif config.get(older) is not None:
        result = config.class_name(older, FUNCTIONS)
        return result
    if ranks:
        return D.SIGMOID if classes == 1 else D.PLAIN
    many = D.SIGMOID if classes == 1 else D.SOFTMAX
    kinds = {"single_label_classification": many, "multi_label_classification": D.SIGMOID}
    given = config.get("problem_type")
    kinds["regression"] = D.PLAIN
    return many if given is None else config.choice("problem_type", kinds)
