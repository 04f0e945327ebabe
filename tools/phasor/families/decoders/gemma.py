"""Gemma (Mesnard et al. 2024), 2 and 3."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gemma_like import (
    ACTIVATION,
    GEMMA2_CAPS,
    GEMMA3_SIZES,
    GEMMA_NAMES,
    GEMMA_SIZES,
    gemma,
    gemma2,
    gemma_both,
)
from phasor.families.hf_config import FULL, SLIDING
from phasor.families.llama_like import llama_like, llama_names, sliding_pattern
from phasor.format import descriptor as D


def _gemma1(d: Decoder) -> None:
    gemma(d)
    newer, older = d.config.get("hidden_activation"), d.config.get("hidden_act")
    if newer is not None and newer != older:
        d.notes.append(
            f"hidden_activation is {newer!r}, and hidden_act {older!r}: the second is taken, as "
            "transformers does"
        )
    d.rotate()


def _vaultgemma(d: Decoder) -> None:
    gemma2(d)
    d.kind["norm_place"] = D.BEFORE


def _window(d: Decoder) -> dict[str, int]:
    """Of EmbeddingGemma the half of it on either side."""
    d.both_ways = d.config.flag("use_bidirectional_attention", default=False)
    window = d.window()
    return {"window": 2 * (window["window"] // 2) + 1} if d.both_ways and window else window


def _gemma3(d: Decoder) -> None:
    gemma_both(d)
    d.config.must("attn_logit_softcapping", None)  # which transformers has and does not compute
    d.kind["qk_norm"] = D.RMS_NORM
    pattern = sliding_pattern(d)
    local = d.rotation("rope_local_base_freq", scaled=False, layer_type=SLIDING)
    near, far = {**_window(d), **local}, d.rotation(layer_type=FULL)
    d.sliding(lambda i: (i + 1) % pattern, near, far)


GEMMA = llama_like("gemma", "GemmaForCausalLM", _gemma1, defaults=GEMMA_SIZES)
GEMMA2 = llama_like(
    "gemma2",
    "Gemma2ForCausalLM",
    gemma2,
    GEMMA_NAMES,
    GEMMA2_CAPS,
    **ACTIVATION,
)
VAULTGEMMA = llama_like(
    "vaultgemma",
    "VaultGemmaForCausalLM",
    _vaultgemma,
    llama_names(ffn_norm="pre_feedforward_layernorm"),
    GEMMA2_CAPS,
    **ACTIVATION,
)
GEMMA3 = llama_like(
    "gemma3_text",
    ("Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"),
    _gemma3,
    GEMMA_NAMES,
    GEMMA3_SIZES,
    **ACTIVATION,
)
