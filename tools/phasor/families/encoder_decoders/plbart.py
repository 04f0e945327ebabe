"""PLBART (Ahmad et al. 2021)."""

from __future__ import annotations

from phasor.families.bart_like import LEARNED, bart_learned, bart_like, bart_names
from phasor.values import settings

PLBART = bart_like(
    "plbart",
    "PLBartForConditionalGeneration PLBartModel",
    bart_learned,
    bart_names(LEARNED),
    settings("""
        vocab_size               50005
        d_model                  768
        encoder_ffn_dim          3072
        encoder_layers           6
        encoder_attention_heads  12
        decoder_ffn_dim          3072
        decoder_layers           6
        decoder_attention_heads  12
        scale_embedding          true
    """),
    tokenizer="plbart",
)
