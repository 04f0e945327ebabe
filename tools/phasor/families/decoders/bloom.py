"""BLOOM (Le Scao et al. 2022)."""

from __future__ import annotations

import numpy as np

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import NEOX_BLOCK, gpt_like
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import alibi_slopes
from phasor.values import settings, table, words


def _bloom(d: Decoder) -> None:
    d.config.must("apply_residual_connection_post_layernorm", False)
    d.config.must("n_inner", None)
    if d.config.whole("pretraining_tp", 0, default=1) > 1:
        d.config.must("slow_but_exact", False)  # or transformers leaves out two biases
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES, position=D.ALIBI)
    d.kind["tables"] = {R.ALIBI: alibi_slopes(d.kind["heads"]).astype(np.float32)}
    d.stack.update(embedding_norm=D.LAYER_NORM, embedding_norm_eps=d.kind["norm_eps"])
    d.fused()


BLOOM = gpt_like(
    "bloom",
    "BloomForCausalLM",
    tensor_names(
        "h.{layer}",
        NEOX_BLOCK
        + """
        embedding       word_embeddings
        embedding_norm  word_embeddings_layernorm
        final_norm      ln_f
        output          lm_head
        qkv             .self_attention.query_key_value
        attention_out   .self_attention.dense
        """,
    ),
    settings("""
        vocab_size           250880
        hidden_size          64
        n_layer              2
        n_head               8
        layer_norm_epsilon   1e-5
        tie_word_embeddings  true
    """),
    _bloom,
    fields=table("""
        num_hidden_layers    n_layer
        num_attention_heads  n_head
        rms_norm_eps         layer_norm_epsilon
        intermediate_size    n_inner
    """),
    harmless=words("""
        seq_length slow_but_exact offset_alibi bias_dropout_fusion masked_softmax_fusion
        skip_bias_add skip_bias_add_qkv unk_token_id attention_softmax_in_fp32
    """),
    unused=("h.*.self_attention.alibi",),
    activation=D.GELU_TANH,
    positions=False,
    aliases={
        "n_embed": "hidden_size",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
)
