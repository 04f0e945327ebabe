"""OPT (Zhang et al. 2022)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import gpt_like
from phasor.families.llama_like import all_biases
from phasor.families.names import FAIRSEQ_BLOCK, tensor_names
from phasor.families.stack import NORMS
from phasor.format import descriptor as D
from phasor.values import settings


def _opt(d: Decoder) -> None:
    width, inner = d.stack["width"], d.size("word_embed_proj_dim", high=D.MAX_WIDTH)
    all_biases(d, "enable_bias")
    d.learned(before=2)
    if not d.flag("do_layer_norm_before"):
        d.kind["norm_place"] = D.AFTER
    if d.flag("_remove_final_layer_norm") or not d.flag("do_layer_norm_before"):
        for name in ("final_norm", "final_norm_eps"):
            del d.stack[name]
    if not d.flag("layer_norm_elementwise_affine"):
        d.bare_norms = NORMS
    if inner != width:
        d.stack.update(embedding_width=inner, projection_place=1)
        d.output["head_width"] = inner


OPT = gpt_like(
    "opt",
    "OPTForCausalLM",
    tensor_names(
        "layers.{layer}",
        FAIRSEQ_BLOCK
        + """
        embedding       embed_tokens
        positions       embed_positions
        projection      project_in
        head            project_out
        final_norm      final_layer_norm
        output          lm_head
        """,
    ),
    settings("""
        vocab_size                     50272
        hidden_size                    768
        num_hidden_layers              12
        ffn_dim                        3072
        max_position_embeddings        2048
        do_layer_norm_before           true
        _remove_final_layer_norm       false
        word_embed_proj_dim            768
        num_attention_heads            12
        activation_function            "relu"
        enable_bias                    true
        layer_norm_elementwise_affine  true
        layer_norm_eps                 1e-5
        tie_word_embeddings            true
    """),
    _opt,
    fields={
        "intermediate_size": "ffn_dim",
        "hidden_act": "activation_function",
        "rms_norm_eps": "layer_norm_eps",
    },
    harmless=("activation_dropout",),
    hidden_factor=0,
    trunk="model.decoder.",
)
