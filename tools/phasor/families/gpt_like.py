"""What the decoders with layer norms that descend from GPT-2 have alike."""

from __future__ import annotations

from typing import Any, Callable

from phasor.families.decoder import Decoder
from phasor.families.family import Family
from phasor.families.llama_like import DROPPED
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, table, words

_TRUNK = "transformer."


def gpt_like(
    kind: str,
    name: str,
    names: dict[str, Any],
    defaults: dict[str, Any],
    adapt: Callable[[Decoder], None],
    **more: Any,
) -> Family:
    """A family with layer norms; as GPT-2's are, but for its own, its trunk, its heads (each with
    keys and values) and its feed-forward (four times as wide)."""
    own = {"trunk": _TRUNK, "grouped": False, "hidden_factor": 4, **more}
    own["harmless"] = DROPPED + own.get("harmless", ())
    return Family(
        D.DECODER,
        (kind,),
        (name,),
        names=names,
        defaults=defaults,
        adapt=adapt,
        norm=D.LAYER_NORM,
        **own,
    )


SUMMARY = words("""
    summary_type summary_use_proj summary_activation summary_first_dropout
    summary_proj_to_labels summary_hidden_size resid_dropout embed_dropout classifier_dropout
    scale_attn_by_inverse_layer_idx n_ctx
""")
GPT2_FIELDS = table("""
    hidden_size              n_embd
    num_hidden_layers        n_layer
    num_attention_heads      n_head
    intermediate_size        n_inner
    max_position_embeddings  n_positions
    rms_norm_eps             layer_norm_epsilon
    hidden_act               activation_function
""")
GPT2_SIZES = settings("""
    vocab_size                       50257
    n_positions                      1024
    n_embd                           768
    n_layer                          12
    n_head                           12
    activation_function              "gelu_new"
    layer_norm_epsilon               1e-5
    scale_attn_weights               true
    scale_attn_by_inverse_layer_idx  false
    tie_word_embeddings              true
""")
MASKS = words("""
    h.*.attn.bias h.*.attn.masked_bias h.*.attn.attention.bias h.*.attn.attention.masked_bias
    h.*.attn.causal_mask h.*.attn.embed_positions
""")
NEOX_BLOCK = """
    attention_norm  .input_layernorm
    ffn_norm        .post_attention_layernorm
    ffn_in          .mlp.dense_h_to_4h
    ffn_out         .mlp.dense_4h_to_h
"""
GPT_NAMES = tensor_names(
    "h.{layer}",
    """
    embedding       wte
    positions       wpe
    final_norm      ln_f
    output          lm_head
    qkv             .attn.c_attn
    attention_out   .attn.c_proj
    attention_norm  .ln_1
    ffn_norm        .ln_2
    ffn_in          .mlp.c_fc
    ffn_out         .mlp.c_proj
    """,
)
