"""Phi (Gunasekar et al. 2023), 1, 1.5 and 2; Phi-3 (Abdin et al. 2024): fused matrices."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings


def _phi(d: Decoder) -> None:
    d.kind.update(
        attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES, parallel=D.SHARED_INPUT
    )
    if d.flag("qk_layernorm"):
        d.kind["qk_norm"] = D.LAYER_NORM
    d.rotate(width=d.share())
    d.output["bias"] = 1


PHI = llama_like(
    "phi",
    "PhiForCausalLM",
    _phi,
    {
        **llama_names(
            attention_out="self_attn.dense",
            ffn_norm=None,
            ffn_gate=None,
            ffn_in="mlp.fc1",
            ffn_out="mlp.fc2",
            q_norm="self_attn.q_layernorm",
            k_norm="self_attn.k_layernorm",
        ),
        "final_norm": "final_layernorm.weight",
    },
    settings("""
        vocab_size             51200
        hidden_size            2048
        num_hidden_layers      24
        intermediate_size      8192
        hidden_act             "gelu_new"
        layer_norm_eps         1e-5
        partial_rotary_factor  0.5
        qk_layernorm           false
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)


def _phi3(d: Decoder) -> None:
    d.rotate(width=d.share())
    d.kind.update(d.window())


PHI3 = llama_like(
    "phi3",
    "Phi3ForCausalLM",
    _phi3,
    llama_names(
        q=None,
        k=None,
        v=None,
        qkv="self_attn.qkv_proj",
        ffn_in="mlp.gate_up_proj",
        ffn_gate="mlp.gate_up_proj",
    ),
    settings("""
        vocab_size                        32064
        hidden_size                       3072
        intermediate_size                 8192
        rms_norm_eps                      1e-5
        max_position_embeddings           4096
        original_max_position_embeddings  4096
        partial_rotary_factor             1.0
    """),
)
