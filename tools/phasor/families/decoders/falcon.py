"""Falcon (Almazrouei et al. 2023)."""

from __future__ import annotations

import numpy as np

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import NEOX_BLOCK, gpt_like
from phasor.families.llama_like import all_biases
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import alibi_slopes
from phasor.values import settings


def _falcon(d: Decoder) -> None:
    c, heads = d.config, d.kind["heads"]
    newer, parallel = d.flag("new_decoder_architecture"), d.flag("parallel_attn")
    all_biases(d, "bias")
    if newer:
        d.kind["kv_heads"] = c.whole("num_kv_heads", 1, heads, default=heads)
        if heads % d.kind["kv_heads"]:
            raise c.error("num_kv_heads", f"{d.kind['kv_heads']} does not divide the {heads} heads")
    elif d.flag("multi_query"):
        d.kind["kv_heads"] = 1
    d.fused()
    norms = c.whole("num_ln_in_parallel_attn", 1, 2, default=1 + newer)
    if newer and not parallel:
        raise c.error("parallel_attn", "False is not supported in the new architecture")
    if parallel and norms == 2:
        if not newer:
            raise c.error("num_ln_in_parallel_attn", "2 is not supported in the old architecture")
        d.names.update(
            attention_norm="h.{layer}.ln_attn.weight", ffn_norm="h.{layer}.ln_mlp.weight"
        )
    d.kind["parallel"] = 0 if not parallel else D.TWO_NORMS if norms == 2 else D.SHARED_INPUT
    if d.flag("alibi"):
        c.must("output_attentions", False)  # or transformers rounds in other places
        d.kind["position"] = D.ALIBI
        d.kind["tables"] = {R.ALIBI: _falcon_slopes(d)}
        for name in ("rope_theta", "rope_scaling", "rope_parameters"):  # which then say nothing
            c.get(name)
    else:
        d.rotate()


def _falcon_slopes(d: Decoder) -> np.ndarray:
    """The slopes are rounded to bfloat16, and what they add is divided as the scores are. Its code
    rounds slope · distance too, which is not repeated here."""
    slopes = alibi_slopes(d.kind["heads"]).astype(np.float32)
    d.notes.append(
        "alibi: transformers rounds the product of slope and position to bfloat16, here it is exact"
    )
    bits = slopes.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return rounded * np.float32(d.kind["head_width"] ** -0.5)


FALCON = gpt_like(
    "falcon",
    "FalconForCausalLM",
    tensor_names(
        "h.{layer}",
        NEOX_BLOCK
        + """
        embedding       word_embeddings
        final_norm      ln_f
        output          lm_head
        qkv             .self_attention.query_key_value
        attention_out   .self_attention.dense
        """,
    ),
    settings("""
        vocab_size                65024
        hidden_size               4544
        num_hidden_layers         32
        num_attention_heads       71
        layer_norm_epsilon        1e-5
        alibi                     false
        new_decoder_architecture  false
        multi_query               true
        parallel_attn             true
        bias                      false
        max_position_embeddings   2048
        rope_theta                10000.0
        activation                "gelu"
        tie_word_embeddings       true
    """),
    _falcon,
    fields={
        "rms_norm_eps": "layer_norm_epsilon",
        "hidden_act": "activation",
        "intermediate_size": "ffn_hidden_size",
    },
    harmless=("num_kv_heads", "multi_query"),
)
