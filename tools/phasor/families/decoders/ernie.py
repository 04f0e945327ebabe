"""ERNIE 4.5 (Baidu 2025): pairs of neighbors turn."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import all_biases, llama_like
from phasor.values import settings


def _ernie(d: Decoder) -> None:
    all_biases(d, "use_bias")
    d.rotate(interleaved=True)


ERNIE = llama_like(
    "ernie4_5",
    "Ernie4_5ForCausalLM",
    _ernie,
    defaults=settings("""
        vocab_size               103424
        hidden_size              1024
        intermediate_size        3072
        num_hidden_layers        18
        num_attention_heads      16
        num_key_value_heads      2
        head_dim                 128
        max_position_embeddings  131072
        rms_norm_eps             1e-5
        rope_theta               500000.0
        use_bias                 false
        tie_word_embeddings      true
    """),
)
