"""BERT of Megatron-LM (Shoeybi et al. 2019): norms first, none of the embedding."""

from __future__ import annotations

from phasor.families.bert_like import BERT_NAMES, SIZES, bert, bert_heads, norms_first
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.format import descriptor as D
from phasor.values import settings


def _megatron(e: Encoder) -> None:
    bert(e)
    norms_first(e, embedding_norm=False)


MEGATRON = Family(
    D.ENCODER,
    ("megatron-bert",),
    ("MegatronBert",),
    "bert.",
    {
        **BERT_NAMES,
        "attention_norm": "encoder.layer.{layer}.attention.ln.weight",
        "ffn_norm": "encoder.layer.{layer}.ln.weight",
        "final_norm": "encoder.ln.weight",
    },
    settings(
        """
        vocab_size           29056
        hidden_size          1024
        num_hidden_layers    24
        num_attention_heads  16
        intermediate_size    4096
        """,
        SIZES,
    ),
    adapt=_megatron,
    heads=bert_heads("bert.pooler.dense"),
    wordpiece=True,
)
