"""BART (Lewis et al. 2020)."""

from __future__ import annotations

from dataclasses import replace

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

BART = Family(
    ("bart",),
    ("BartForConditionalGeneration", "BartModel"),
    bart_names(LEARNED),
    EMBEDDINGS,
    SIZES,
    bart,
    LEARNED_KEYS,
    harmless=HARMLESS,
    neutral=ORDER,
    tokenizer="package",
)
# Its classes are those of the text's last end token, behind the decoder (Yin et al. 2019 ask them
# whether a text entails a sentence with a label).
BART_CLASSES = replace(
    BART,
    classes=("BartForSequenceClassification",),
    defaults={**SIZES, "num_labels": 3},
    without=("output_bias",),
    unused=("final_logits_bias",),
    classifier="classification_head",
)
