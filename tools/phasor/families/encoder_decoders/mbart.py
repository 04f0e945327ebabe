"""mBART (Liu et al. 2020), mBART-50 (Tang et al. 2020): norms before, and one after each stack."""

from __future__ import annotations

from phasor.families.bart_like import (
    BEFORE,
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

MBART = Family(
    ("mbart",),
    ("MBartForConditionalGeneration", "MBartModel"),
    bart_names(LEARNED + "final_norm layer_norm"),
    EMBEDDINGS,
    SIZES,
    bart,
    {**LEARNED_KEYS, **BEFORE},
    harmless=HARMLESS,
    neutral=ORDER,
    tokenizer="mbart",
)
