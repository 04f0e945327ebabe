"""Arcee's AFM (2025)."""

from __future__ import annotations

from phasor.families.llama_like import PLAIN_NAMES, llama, llama_like
from phasor.values import settings

ARCEE = llama_like(
    "arcee",
    "ArceeForCausalLM",
    llama,
    PLAIN_NAMES,
    settings("""
        hidden_size              2560
        intermediate_size        18432
        num_attention_heads      32
        hidden_act               "relu2"
        max_position_embeddings  4096
        rms_norm_eps             1e-5
    """),
    gated=False,
)
