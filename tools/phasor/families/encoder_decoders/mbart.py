"""mBART (Liu et al. 2020), mBART-50 (Tang et al. 2020): norms before, and one after each stack."""

from __future__ import annotations

from phasor.families.bart_like import LEARNED, bart_learned, bart_like, bart_names

MBART = bart_like(
    "mbart",
    "MBartForConditionalGeneration MBartModel",
    bart_learned,
    bart_names(LEARNED + "final_norm layer_norm"),
    tokenizer="mbart",
)
