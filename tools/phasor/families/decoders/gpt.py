"""GPT (Radford et al. 2018): norms behind the residual, none at the end; GPT-2 (2019): matrices
stored as (inputs, outputs)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import GPT2_FIELDS, GPT2_SIZES, GPT_NAMES, MASKS, SUMMARY, gpt_like
from phasor.families.model import single
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings

# Of a decoder behind an encoder.
_CROSSING = tensor_names(
    "h.{layer}",
    """
    cross_q     .crossattention.q_attn
    cross_kv    .crossattention.c_attn
    cross_out   .crossattention.c_proj
    cross_norm  .ln_cross_attn
    """,
)


def _gpt2(d: Decoder) -> None:
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES)
    d.transposed = frozenset(("qkv", "attention_out", "ffn_in", "ffn_out", *_CROSSING))
    d.learned()
    scale = d.kind["head_width"] ** -0.5 if d.flag("scale_attn_weights") else 1.0
    by_layer = d.flag("scale_attn_by_inverse_layer_idx")
    for i, own in enumerate(d.per_layer):
        own["scale"] = single(scale / (i + 1 if by_layer else 1))


GPT2 = gpt_like(
    "gpt2",
    "GPT2LMHeadModel",
    {**GPT_NAMES, **_CROSSING},
    GPT2_SIZES,
    _gpt2,
    fields=GPT2_FIELDS,
    harmless=SUMMARY + ("reorder_and_upcast_attn",),
    unused=MASKS,
)


def _gpt(d: Decoder) -> None:
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES, norm_place=D.AFTER)
    d.transposed = frozenset(("qkv", "attention_out", "ffn_in", "ffn_out"))
    d.learned()
    for name in ("final_norm", "final_norm_eps"):
        del d.stack[name]


GPT = gpt_like(
    "openai-gpt",
    "OpenAIGPTLMHeadModel",
    tensor_names(
        "h.{layer}",
        """
        embedding       tokens_embed
        positions       positions_embed
        output          lm_head
        qkv             .attn.c_attn
        attention_out   .attn.c_proj
        attention_norm  .ln_1
        ffn_norm        .ln_2
        ffn_in          .mlp.c_fc
        ffn_out         .mlp.c_proj
        """,
    ),
    settings(
        """
        vocab_size   40478
        n_positions  512
        afn          "gelu"
        """,
        GPT2_SIZES,
    ),
    _gpt,
    fields={**GPT2_FIELDS, "hidden_act": "afn", "intermediate_size": "intermediate_size"},
    harmless=SUMMARY + ("n_special", "predict_special_tokens"),
    unused=(*MASKS, "position_ids"),
    # Its names of the activations: "gelu" is the approximation by tanh.
    activations={"relu": D.RELU, "silu": D.SILU, "gelu": D.GELU_TANH, "swish": D.SILU},
)
