"""PLBART (Ahmad et al. 2021)."""

from __future__ import annotations

from phasor.families.bart_like import (
    EMBEDDINGS,
    HARMLESS,
    LEARNED,
    LEARNED_KEYS,
    ORDER,
    SIZES,
    bart,
    bart_names,
)
from phasor.families.encoder_decoder import Family
from phasor.values import settings

# PLBART (Ahmad et al. 2021)
PLBART = Family(
    ("plbart",),
    ("PLBartForConditionalGeneration", "PLBartModel"),
    bart_names(LEARNED),
    EMBEDDINGS,
    settings(
        """
        vocab_size               50005
        d_model                  768
        encoder_ffn_dim          3072
        encoder_layers           6
        encoder_attention_heads  12
        decoder_ffn_dim          3072
        decoder_layers           6
        decoder_attention_heads  12
        scale_embedding          true
        """,
        SIZES,
    ),
    bart,
    LEARNED_KEYS,
    harmless=HARMLESS,
    neutral=ORDER,
    tokenizer="plbart",
)
