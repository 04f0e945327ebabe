"""BART (Lewis et al. 2020)."""

from __future__ import annotations

from dataclasses import replace

from phasor.families.bart_like import LEARNED, bart_learned, bart_like, bart_names

BART = bart_like(
    "bart",
    "BartForConditionalGeneration BartModel",
    bart_learned,
    bart_names(LEARNED),
    tokenizer="package",
)
# Its classes are those of the text's last end token, behind the decoder (Yin et al. 2019 ask them
# whether a text entails a sentence with a label).
BART_CLASSES = replace(
    BART,
    classes=("BartForSequenceClassification",),
    defaults={**BART.defaults, "num_labels": 3},
    unused=("final_logits_bias",),
    classifier="classification_head",
)
