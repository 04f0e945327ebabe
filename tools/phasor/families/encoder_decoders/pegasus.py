"""Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

from phasor.families.bart_like import bart_like, bart_names, bart_sinusoids

PEGASUS = bart_like(
    "pegasus",
    "PegasusForConditionalGeneration PegasusModel",
    bart_sinusoids,
    bart_names("sinusoid embed_positions\nfinal_norm layer_norm"),
    tokenizer="pegasus",
)
