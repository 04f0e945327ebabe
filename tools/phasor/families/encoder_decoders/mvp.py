"""MVP (Tang et al. 2022): BART, without the prompts of its layers."""

from __future__ import annotations

from phasor.families.bart_like import LEARNED, bart_learned, bart_like, bart_names
from phasor.values import settings, words

MVP = bart_like(
    "mvp",
    "MvpForConditionalGeneration MvpModel",
    bart_learned,
    bart_names(LEARNED),
    settings("vocab_size 50267"),
    harmless=words("prompt_length prompt_mid_dim"),
    neutral={"use_prompt": [False]},
    tokenizer="package",
)
