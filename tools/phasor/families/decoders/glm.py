"""GLM-4 (2024) and GLM-4-0414: pairs of neighbors turn, in half of each head."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings


def _glm(d: Decoder) -> None:
    d.kind["attention_biases"] = D.QKV_BIASES * d.flag("attention_bias")
    d.rotate(width=d.share(), interleaved=True)


def _glm4(d: Decoder) -> None:
    _glm(d)
    d.kind["norm_place"] = D.BOTH


_GLM_NAMES = dict(ffn_in="mlp.gate_up_proj", ffn_gate="mlp.gate_up_proj")
_GLM = settings("""
    vocab_size               151552
    num_hidden_layers        40
    num_key_value_heads      2
    head_dim                 128
    intermediate_size        13696
    rms_norm_eps             1.5625e-07
    max_position_embeddings  131072
    attention_bias           true
    partial_rotary_factor    0.5
""")
GLM = llama_like("glm", "GlmForCausalLM", _glm, llama_names(**_GLM_NAMES), _GLM)
GLM4 = llama_like(
    "glm4",
    "Glm4ForCausalLM",
    _glm4,
    llama_names(
        **_GLM_NAMES, attention_after="post_self_attn_layernorm", ffn_after="post_mlp_layernorm"
    ),
    _GLM,
)
