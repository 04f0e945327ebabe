"""RoBERTa (Liu et al. 2019), XLM-R, CamemBERT: positions begin after the padding id."""

from __future__ import annotations

from phasor.families.bert_like import (
    BARE,
    BERT_NAMES,
    ROBERTA_CLASSES,
    ROBERTA_WORDS,
    SIZES,
    SPANS,
    TOKENS,
    bert,
    choice,
)
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
    heads={
        "Model": BARE,
        "ForMaskedLM": ROBERTA_WORDS,
        "ForSequenceClassification": ROBERTA_CLASSES,
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("roberta.pooler.dense"),
    },
)
