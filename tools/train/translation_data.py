"""Sentence pairs for train_translation.py: segmentation and batches of what split.py deals out.

Everything here is a function of its arguments and of the recipe's seed.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import sentencepiece as spm
import torch
from torch import Tensor

from train.common import train_unigram
from train.split import Pair

PAD, UNK, BOS, EOS = 0, 1, 2, 3
REPO = Path(__file__).resolve().parents[2]
DEFAULT_DATA = REPO / "../shared/data/cmn-eng/cmn.attrib.txt"


# ---- options


@dataclasses.dataclass
class Recipe:
    """Everything that decides the result. Stored in each checkpoint."""

    seed: int = 20170612
    valid_pairs: int = 500
    test_pairs: int = 1000
    max_component: int = 10
    source_vocab: int = 6000
    target_vocab: int = 4000
    source_coverage: float = 0.9995
    normalization: str = "nmt_nfkc"
    d_model: int = 256
    heads: int = 4
    ffn: int = 1024
    encoder_layers: int = 3
    decoder_layers: int = 3
    norm_first: bool = True
    max_length: int = 128
    dropout: float = 0.3
    activation_dropout: float = 0.1
    label_smoothing: float = 0.1
    sample_alpha_source: float = 0.2
    sample_alpha_target: float = 0.2
    sample_share: float = 0.5
    batch_tokens: int = 2500
    epochs: int = 44
    warmup_steps: int = 800
    peak_lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    adam_eps: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    average: int = 8
    bf16: bool = True

    def model_fields(self) -> dict[str, object]:
        """The part that fixes the shapes and the arithmetic of the model."""
        names = (
            "d_model",
            "heads",
            "ffn",
            "encoder_layers",
            "decoder_layers",
            "norm_first",
            "max_length",
        )
        return {name: getattr(self, name) for name in names}


# ---- segmentation


def train_segmenter(
    sentences: Iterable[str], vocab: int, coverage: float, normalization: str = "nmt_nfkc"
) -> bytes:
    """A unigram SentencePiece model with the project's special ids, as the bytes of its file."""
    return train_unigram(
        sentences,
        vocab,
        "a segmenter of {} pieces",
        character_coverage=coverage,
        normalization_rule_name=normalization,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        byte_fallback=False,
        hard_vocab_limit=False,
    )


def load_segmenter(model: bytes) -> spm.SentencePieceProcessor:
    """A processor for the bytes of a SentencePiece file."""
    return spm.SentencePieceProcessor(model_proto=model)


@dataclasses.dataclass
class Segmenters:
    """The two SentencePiece models."""

    source_bytes: bytes
    target_bytes: bytes

    def __post_init__(self) -> None:
        self.source = load_segmenter(self.source_bytes)
        self.target = load_segmenter(self.target_bytes)


def sample_segments(
    model: bytes, sentences: Sequence[str], alpha: float, share: float, seed: int
) -> list[list[int]]:
    """Segment each sentence: a `share` of them by sampling with `alpha`, the others the best way.

    SentencePiece keeps one generator for each thread and seeds it at its first use, so the work is
    done in a new thread: the result then depends on the arguments alone.
    """
    result: list[list[int]] = []

    def work() -> None:
        spm.set_random_generator_seed(seed)
        processor = load_segmenter(model)
        chosen = np.random.default_rng(seed).random(len(sentences)) < share
        for sentence, sampled in zip(sentences, chosen, strict=True):
            if sampled and alpha > 0:
                result.append(
                    processor.encode(sentence, enable_sampling=True, alpha=alpha, nbest_size=-1)
                )
            else:
                result.append(processor.encode(sentence))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result


# ---- batches


@dataclasses.dataclass
class Batch:
    """Padded ids. `target_in` begins with <s>; `target_out` is the same moved one to the left."""

    source: Tensor
    target_in: Tensor
    target_out: Tensor


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids as a matrix, filled with PAD on the right."""
    matrix = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return torch.from_numpy(matrix)


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Teacher forcing: the decoder reads <s> y1 .. yn and is asked for y1 .. yn </s>."""
    return Batch(
        pad([[*row, EOS] for row in sources]),
        pad([[BOS, *row] for row in targets]),
        pad([[*row, EOS] for row in targets]),
    )


def plan_batches(
    lengths: Sequence[tuple[int, int]], batch_tokens: int, rng: np.random.Generator
) -> list[list[int]]:
    """Indices grouped by similar length, each group of at most `batch_tokens` padded tokens on each
    side."""
    noise = rng.random(len(lengths))
    order = sorted(
        range(len(lengths)),
        key=lambda i: (max(lengths[i]) + 2 * noise[i], sum(lengths[i]), noise[i]),
    )
    plans: list[list[int]] = []
    current: list[int] = []
    longest = 0
    for i in order:
        longest = max(longest, *lengths[i])
        if current and (len(current) + 1) * longest > batch_tokens:
            plans.append(current)
            current, longest = [], max(lengths[i])
        current.append(i)
    if current:
        plans.append(current)
    return [plans[i] for i in rng.permutation(len(plans))]


def epoch_batches(
    pairs: Sequence[Pair], segmenters: Segmenters, recipe: Recipe, epoch: int
) -> list[Batch]:
    """The batches of one epoch, a function of (seed, epoch) alone."""
    rng = np.random.default_rng((recipe.seed, epoch))
    seeds = rng.integers(1, 2**31 - 1, size=2)
    sources = sample_segments(
        segmenters.source_bytes,
        [p.source for p in pairs],
        recipe.sample_alpha_source,
        recipe.sample_share,
        int(seeds[0]),
    )
    targets = sample_segments(
        segmenters.target_bytes,
        [p.target for p in pairs],
        recipe.sample_alpha_target,
        recipe.sample_share,
        int(seeds[1]),
    )
    limit = recipe.max_length - 1
    kept = [i for i in range(len(pairs)) if len(sources[i]) <= limit and len(targets[i]) <= limit]
    lengths = [(len(sources[i]) + 1, len(targets[i]) + 1) for i in kept]
    return [
        make_batch([sources[kept[j]] for j in plan], [targets[kept[j]] for j in plan])
        for plan in plan_batches(lengths, recipe.batch_tokens, rng)
    ]
