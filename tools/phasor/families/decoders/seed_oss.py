"""Seed-OSS (ByteDance 2025)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _seed_oss(d: Decoder) -> None:
    biases(d, D.QKV_BIASES)
    d.kind["attention_biases"] |= D.BIAS_OUT * d.flag("attention_out_bias")
    d.rotate()


SEED_OSS = llama_like(
    "seed_oss",
    "SeedOssForCausalLM",
    _seed_oss,
    defaults=settings("""
        vocab_size               155136
        intermediate_size        27648
        num_hidden_layers        64
        num_attention_heads      80
        num_key_value_heads      8
        head_dim                 128
        max_position_embeddings  524288
        attention_bias           true
        attention_out_bias       false
    """),
)
