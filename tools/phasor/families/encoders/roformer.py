"""RoFormer (Su et al. 2021)."""

from __future__ import annotations

import numpy as np

from phasor.errors import PhasorError
from phasor.families.bert_like import BARE, BERT_NAMES, BERT_WORDS, SIZES, SPANS, TOKENS, choice
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import inverse_frequencies

_ROFORMER_TOLERANCE = 1e-6  # of a sine that was rounded to float32


def _roformer(e: Encoder) -> None:
    e.segments()
    e.embedding_width()
    e.config.must("rotary_value", False)
    width = e.kind["head_width"]
    if width % 2:
        raise e.config.error(
            "num_attention_heads", f"a head of {width} values cannot be rotated in pairs"
        )
    e.stack["position"] = 0
    e.kind.update(position=D.ROTARY_INTERLEAVED, rotary_width=width)
    rates = inverse_frequencies(width, 10000.0)
    e.kind["tables"] = {R.ROTARY: rates}
    name = e.trunk + "encoder.embed_positions.weight"
    if name in e.checkpoint:
        table = e.load(name, "sines and cosines", (e.stack["max_positions"], width))
        angle = np.arange(len(table))[:, None] * rates
        if (
            np.abs(table - np.concatenate([np.sin(angle), np.cos(angle)], axis=1)).max()
            > _ROFORMER_TOLERANCE
        ):
            raise PhasorError(
                f"{e.checkpoint.path}: {name} is not the table of sines and cosines of a RoFormer"
            )


ROFORMER = Family(
    D.ENCODER,
    ("roformer",),
    ("RoFormer",),
    "roformer.",
    {**BERT_NAMES, "projection": "embeddings_project.weight"},
    {**SIZES, "vocab_size": 50000, "max_position_embeddings": 1536, "rotary_value": False},
    adapt=_roformer,
    heads={
        "Model": BARE,
        "ForMaskedLM": BERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, "classifier.dense", "hidden_act", last="classifier.out_proj"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        # Its code looks at the last position, whatever its comment says.
        "ForMultipleChoice": choice("")._replace(pooling=D.LAST, activation=0),
    },
    harmless=("embedding_size",),
    tokenizer_code="RoFormer splits Chinese into words with a dictionary first",
)
