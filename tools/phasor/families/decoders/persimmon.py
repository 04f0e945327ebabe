"""Persimmon (Elsen et al. 2023)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings


def _persimmon(d: Decoder) -> None:
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES)
    if d.flag("qk_layernorm"):
        d.kind["qk_norm"] = D.LAYER_NORM
    d.fused()
    d.rotate(width=d.share())


PERSIMMON = llama_like(
    "persimmon",
    "PersimmonForCausalLM",
    _persimmon,
    {
        **llama_names(
            q=None,
            k=None,
            v=None,
            qkv="self_attn.query_key_value",
            attention_out="self_attn.dense",
            q_norm="self_attn.q_layernorm",
            k_norm="self_attn.k_layernorm",
            ffn_gate=None,
            ffn_in="mlp.dense_h_to_4h",
            ffn_out="mlp.dense_4h_to_h",
        ),
        "final_norm": "final_layernorm.weight",
    },
    settings("""
        vocab_size               262144
        intermediate_size        16384
        num_hidden_layers        36
        num_attention_heads      64
        hidden_act               "relu2"
        max_position_embeddings  16384
        layer_norm_eps           1e-5
        rope_theta               25000.0
        partial_rotary_factor    0.5
        qk_layernorm             true
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
    grouped=False,
    newer={"rope_theta": 10000.0},
)
