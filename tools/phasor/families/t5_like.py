"""What T5 (Raffel et al. 2020) and its kin have alike, with their decoders and without."""

from __future__ import annotations

from typing import Any

from phasor.errors import PhasorError
from phasor.families.names import tensor_names
from phasor.families.stack import Stack
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import check_t5_size, t5_table
from phasor.values import settings, words


def t5_names(bias_layer: str) -> dict[str, str]:
    """The tensors of T5's modules; bias_layer: whose bias of positions a layer has. {last}: the
    number of a block's last module."""
    first = f"{{stack}}.block.{bias_layer}.layer.0"
    return tensor_names(
        "{stack}.block.{layer}.layer",
        f"""
        output          lm_head
        final_norm      {{stack}}.final_layer_norm
        t5_bias         {first}.SelfAttention.relative_attention_bias
        q               .0.SelfAttention.q
        k               .0.SelfAttention.k
        v               .0.SelfAttention.v
        attention_out   .0.SelfAttention.o
        attention_norm  .0.layer_norm
        ffn_in          .{{last}}.DenseReluDense.wi
        ffn_out         .{{last}}.DenseReluDense.wo
        ffn_norm        .{{last}}.layer_norm
        cross_q         .1.EncDecAttention.q
        cross_k         .1.EncDecAttention.k
        cross_v         .1.EncDecAttention.v
        cross_out       .1.EncDecAttention.o
        cross_norm      .1.layer_norm
        """,
    )


T5_SIZES = settings("""
    vocab_size                       32128
    d_model                          512
    d_kv                             64
    d_ff                             2048
    num_layers                       6
    num_heads                        8
    relative_attention_num_buckets   32
    relative_attention_max_distance  128
    layer_norm_epsilon               1e-6
    feed_forward_proj                "relu"
""")
MT5_SIZES = settings(
    """
    vocab_size             250112
    d_ff                   1024
    num_layers             8
    num_heads              6
    feed_forward_proj      "gated-gelu"
    decoder_start_token_id 0
    """,
    T5_SIZES,
)
T5_HARMLESS = words("""
    dropout_rate initializer_factor classifier_dropout n_positions num_hidden_layers
    output_past dense_act_fn
""")
# UMT5's tables of each layer.
T5_NEUTRAL: dict[str, dict[str, list[Any]]] = {
    **dict.fromkeys(("t5", "mt5"), {}),
    "umt5": {"scalable_attention": [True]},
}


def t5_blocks(s: Stack, gated: bool, eps: float) -> None:
    """Norms before, without biases; scores that are not divided."""
    for place in s.places:
        place["last"] = 1 if s.role == R.ENCODER else 2
    if gated:
        wide = s.names["ffn_in"]
        s.names["ffn_gate"] = wide.replace("wi.", "wi_0.")
        s.names["ffn_in"] = wide.replace("wi.", "wi_1.")
    s.stack = {"width": s.stack["width"], "final_norm": D.RMS_NORM, "final_norm_eps": eps}
    s.kind.update(
        norm=D.RMS_NORM,
        norm_place=D.BEFORE,
        norm_eps=eps,
        norm_biases=0,
        attention_biases=0,
        ffn_biases=0,
        scale=1.0,
        gated=int(gated),
    )


def t5_biases(s: Stack, two_sided: bool) -> None:
    """The bias by distance: of the first layer for all, or (UMT5) each layer's own, which makes
    it a kind of block."""
    c, heads = s.config, s.kind["heads"]
    buckets = c.whole("relative_attention_num_buckets", 2, 1 << 16)
    most = c.whole("relative_attention_max_distance")
    s.kind.update(position=D.T5_BIAS, max_distance=most)
    each = s.count if "{layer}" in s.names["t5_bias"] else 1
    try:
        check_t5_size(most, heads, each)
        for i, place in enumerate(s.per_layer if each > 1 else [s.kind]):
            bias = s.load(s.name("t5_bias", i), "relative bias", (buckets, heads))
            place["tables"] = {R.T5_BIAS: t5_table(bias, most, two_sided)}
    except PhasorError as error:
        raise c.error("relative_attention_num_buckets", str(error)) from error
