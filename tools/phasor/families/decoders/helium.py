"""Helium (Kyutai 2025): pairs of neighbors turn."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _helium(d: Decoder) -> None:
    biases(d, D.QKV_BIASES)
    d.rotate(interleaved=True)


HELIUM = llama_like(
    "helium",
    "HeliumForCausalLM",
    _helium,
    defaults=settings("""
        vocab_size               48000
        hidden_size              2560
        intermediate_size        7040
        num_hidden_layers        24
        num_attention_heads      20
        num_key_value_heads      20
        head_dim                 128
        max_position_embeddings  4096
        rms_norm_eps             1e-8
        rope_theta               100000.0
    """),
)
