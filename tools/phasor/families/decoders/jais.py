"""Jais 2 (Inception 2025)."""

from __future__ import annotations

from phasor.families.llama_like import PLAIN_NAMES, llama, llama_like
from phasor.format import descriptor as D
from phasor.values import settings

JAIS2 = llama_like(
    "jais2",
    "Jais2ForCausalLM",
    llama,
    PLAIN_NAMES,
    settings("""
        vocab_size               150272
        hidden_size              3328
        intermediate_size        26624
        num_attention_heads      26
        hidden_act               "relu2"
        max_position_embeddings  8192
        layer_norm_eps           1e-5
        attention_bias           true
        mlp_bias                 true
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)
