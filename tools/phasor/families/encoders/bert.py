"""BERT (Devlin et al. 2019)."""

from __future__ import annotations

from phasor.families.bert_like import BERT_NAMES, SIZES, bert, bert_heads
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.format import descriptor as D
from phasor.values import settings, words

BERT = Family(
    D.ENCODER,
    ("bert",),
    ("Bert",),
    "bert.",
    BERT_NAMES,
    SIZES,
    adapt=bert,
    heads=bert_heads("bert.pooler.dense"),
    harmless=words("""
        pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
        pooler_type
    """),
    wordpiece=True,
)


def _bert_generation(e: Encoder) -> None:
    """Its code adds the table of positions beside relative ones, too."""
    e.config.must("position_embedding_type", "absolute")


# Half of a model only: BERT without token types, and with RoBERTa's names of an output's bias.
BERT_GENERATION = Family(
    D.ENCODER,
    ("bert-generation",),
    ("BertGeneration",),
    "bert.",
    {part: name for part, name in BERT_NAMES.items() if part != "segments"},
    settings(
        """
        vocab_size           50358
        hidden_size          1024
        num_hidden_layers    24
        num_attention_heads  16
        intermediate_size    4096
        bos_token_id         2
        eos_token_id         1
        pad_token_id         0
        """,
        {name: value for name, value in SIZES.items() if name != "type_vocab_size"},
    ),
    adapt=_bert_generation,
    heads={
        "Model": Head(unused=("lm_head.*",)),
        "ForMaskedLM": Head(
            D.LOGITS, last="lm_head.decoder", biases=("lm_head.bias", "lm_head.decoder.bias")
        ),
    },
    harmless=("type_vocab_size",),
    half=True,
)
