"""Code World Model (Meta 2025)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _cwm(d: Decoder) -> None:
    d.kind["ffn_biases"] = D.FFN_BIASES * d.flag("mlp_bias")
    d.rotate()
    d.sliding(lambda i: i % 4, d.window())


CWM = llama_like(
    "cwm",
    "CwmForCausalLM",
    _cwm,
    defaults=settings("""
        vocab_size               128256
        hidden_size              6144
        intermediate_size        21504
        num_hidden_layers        64
        num_attention_heads      48
        num_key_value_heads      8
        head_dim                 128
        max_position_embeddings  131072
        rms_norm_eps             1e-5
        sliding_window           8192
    """)
    | {
        "rope_parameters": {
            **{"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0},
            **{"high_freq_factor": 4.0, "low_freq_factor": 1.0},
            "original_max_position_embeddings": 8192,
        }
    },
)
