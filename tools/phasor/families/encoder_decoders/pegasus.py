"""Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

from phasor.families.bart_like import BEFORE, EMBEDDINGS, HARMLESS, ORDER, SIZES, bart, bart_names
from phasor.families.encoder_decoder import Family

# Pegasus (Zhang et al. 2020)
PEGASUS = Family(
    ("pegasus",),
    ("PegasusForConditionalGeneration", "PegasusModel"),
    bart_names("sinusoid embed_positions\nfinal_norm layer_norm"),
    EMBEDDINGS,
    SIZES,
    bart,
    {"position": "sinusoidal-halves", **BEFORE},
    harmless=HARMLESS,
    neutral=ORDER,
    tokenizer="pegasus",
)
