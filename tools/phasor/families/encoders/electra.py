"""ELECTRA (Clark et al. 2020)."""

from __future__ import annotations

from phasor.families.bert_like import BERT_NAMES, SIZES, SPANS, TOKENS, bert, choice
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.format import descriptor as D
from phasor.values import settings, words


def _electra(e: Encoder) -> None:
    bert(e)
    e.embedding_width()
    if e.head.dense == _SUMMARY:
        e.config.must("summary_type", "first")
        e.config.must("summary_use_proj", True)


_SUMMARY = "sequence_summary.summary"
ELECTRA = Family(
    D.ENCODER,
    ("electra",),
    ("Electra",),
    "electra.",
    {**BERT_NAMES, "projection": "embeddings_project.weight"},
    settings(
        """
        hidden_size          256
        embedding_size       128
        num_attention_heads  4
        intermediate_size    1024
        summary_activation   "gelu"
        """,
        SIZES,
    ),
    adapt=_electra,
    heads={
        "Model": Head(
            unused=("generator_predictions.*", "generator_lm_head.*", "discriminator_predictions.*")
        ),
        "ForMaskedLM": Head(
            D.LOGITS,
            dense="generator_predictions.dense",
            activation=D.GELU_ERF,
            norm="generator_predictions.LayerNorm",
            last="generator_lm_head",
            biases=("generator_lm_head.bias",),
        ),
        "ForPreTraining": Head(
            D.CLASSES,
            dense="discriminator_predictions.dense",
            activation="hidden_act",
            last="discriminator_predictions.dense_prediction",
            fixed_classes=("replaced",),
            scores=D.SIGMOID,
        ),
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, "classifier.dense", D.GELU_ERF, last="classifier.out_proj"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice(_SUMMARY, "summary_activation"),
    },
    harmless=words("summary_type summary_use_proj summary_activation summary_last_dropout"),
    wordpiece=True,
)
