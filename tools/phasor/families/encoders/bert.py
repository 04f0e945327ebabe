"""BERT (Devlin et al. 2019)."""

from __future__ import annotations

from phasor.families.bert_like import (
    BARE,
    BERT_NAMES,
    BERT_WORDS,
    SIZES,
    SPANS,
    TOKENS,
    bert,
    choice,
)
from phasor.families.encoder import Family
from phasor.families.heads import Head
from phasor.format import descriptor as D
from phasor.values import words

BERT = Family(
    ("bert",),
    ("Bert",),
    "bert.",
    BERT_NAMES,
    {
        "Model": BARE,
        "ForMaskedLM": BERT_WORDS,
        "ForPreTraining": BERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, "bert.pooler.dense", D.TANH, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("bert.pooler.dense"),
    },
    SIZES,
    harmless=words("""
        pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
        pooler_type
    """),
    adapt=bert,
    wordpiece=True,
)
