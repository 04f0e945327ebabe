"""RoBERTa (Liu et al. 2019), XLM-R, CamemBERT, and RoBERTa with norms first (Ott et al. 2019):
positions begin after the padding id."""

from __future__ import annotations

from phasor.families.bert_like import BERT_NAMES, SIZES, bert, norms_first, roberta_heads
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.format import descriptor as D


def _roberta(e: Encoder) -> None:
    bert(e)
    if e.stack["position"] == D.LEARNED:
        e.skip_positions(e.config.whole("pad_token_id", 0) + 1)


ROBERTA = Family(
    D.ENCODER,
    ("roberta", "xlm-roberta", "camembert"),
    ("Roberta", "XLMRoberta", "Camembert"),
    "roberta.",
    BERT_NAMES,
    {**SIZES, "pad_token_id": 1},
    adapt=_roberta,
    heads=roberta_heads("roberta.pooler.dense"),
)


def _first(e: Encoder) -> None:
    _roberta(e)
    norms_first(e)


ROBERTA_NORMS_FIRST = Family(
    D.ENCODER,
    ("roberta-prelayernorm",),
    ("RobertaPreLayerNorm",),
    "roberta_prelayernorm.",
    {
        **BERT_NAMES,
        "attention_norm": "encoder.layer.{layer}.attention.LayerNorm.weight",
        "ffn_norm": "encoder.layer.{layer}.intermediate.LayerNorm.weight",
        "final_norm": "LayerNorm.weight",
    },
    {**SIZES, "pad_token_id": 1},
    adapt=_first,
    heads=roberta_heads("roberta_prelayernorm.pooler.dense"),
)
