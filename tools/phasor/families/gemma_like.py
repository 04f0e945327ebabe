"""What the generations of Gemma (Mesnard et al. 2024) have alike: the norms' weights are stored
less one."""

from __future__ import annotations

from typing import Any

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_names
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings


def gemma(d: Decoder) -> None:
    d.kind["attention_biases"] = D.ATTENTION_BIASES * d.flag("attention_bias")
    d.norm_offset = 1.0
    d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)


def gemma_both(d: Decoder) -> None:
    """What the second and the third have alike: norms before and after each sub-layer, a scale of
    their own, a cap of the logits."""
    gemma(d)
    d.kind.update(
        norm_place=D.BOTH, scale=single(d.config.positive("query_pre_attn_scalar") ** -0.5)
    )
    cap(d, "final_logit_softcapping", d.output)


def cap(d: Decoder, name: str, place: dict[str, Any]) -> None:
    if d.config.get(name) is not None:
        place["cap"] = single(d.config.positive(name))


def gemma2(d: Decoder) -> None:
    gemma_both(d)
    cap(d, "attn_logit_softcapping", d.kind)
    d.rotate()
    d.sliding(lambda i: (i + 1) % 2, d.window())


# What both generations of T5Gemma call the norms of a block.
T5GEMMA_NORMS = {
    "attention_norm": "pre_self_attn_layernorm",
    "attention_after": "post_self_attn_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_after": "post_feedforward_layernorm",
}
GEMMA_SIZES = settings("""
    vocab_size               256000
    hidden_size              3072
    num_hidden_layers        28
    num_attention_heads      16
    num_key_value_heads      16
    head_dim                 256
    intermediate_size        24576
    hidden_act               "gelu_pytorch_tanh"
    max_position_embeddings  8192
    tie_word_embeddings      true
""")
GEMMA2_SIZES = settings(
    """
    hidden_size            2304
    num_hidden_layers      26
    num_attention_heads    8
    num_key_value_heads    4
    intermediate_size      9216
    hidden_activation      "gelu_pytorch_tanh"
    query_pre_attn_scalar  256
    sliding_window         4096
    """,
    GEMMA_SIZES,
)
GEMMA3_SIZES = settings(
    """
    vocab_size               262208
    max_position_embeddings  131072
    rope_theta               1000000.0
    rope_local_base_freq     10000.0
    _sliding_window_pattern  6
    bos_token_id             2
    eos_token_id             1
    pad_token_id             0
    """,
    GEMMA2_SIZES,
)
GEMMA_NAMES = llama_names(
    attention_after="post_attention_layernorm",
    ffn_norm="pre_feedforward_layernorm",
    ffn_after="post_feedforward_layernorm",
)
GEMMA2_CAPS = {**GEMMA2_SIZES, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
ACTIVATION: dict[str, Any] = {
    "fields": {"hidden_act": "hidden_activation"},
    "harmless": ("hidden_act",),
}
