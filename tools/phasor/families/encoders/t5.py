"""The encoders of T5, mT5 and UMT5 alone (T5EncoderModel and its kin), as sentence-T5 and GTR have
them (Ni et al. 2021)."""

from __future__ import annotations

from phasor.errors import PhasorError
from phasor.families.encoder import Encoder, Family
from phasor.families.heads import Head
from phasor.families.hf_config import ACTIVATIONS
from phasor.families.names import tensor_names
from phasor.families.t5_like import MT5_SIZES, T5_HARMLESS, T5_NEUTRAL, T5_SIZES
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import check_t5_size, t5_table
from phasor.values import table, words

_ENDS = {name: number for name, number in ACTIVATIONS.items() if "-" not in name}
# feed_forward_proj; gated-gelu is the approximation by tanh.
_ACTIVATIONS = {
    **_ENDS,
    **{f"gated-{name}": number for name, number in _ENDS.items()},
    "gated-gelu": D.GELU_TANH,
}
_BLOCK = "encoder.block.{layer}"


def _t5(e: Encoder) -> None:
    c, heads = e.config, e.kind["heads"]
    c.must("is_encoder_decoder", True, False)
    kind = c.text("feed_forward_proj")
    gated = kind.startswith("gated-")
    for name, wanted in T5_NEUTRAL[c.get("model_type")].items():
        c.must(name, *wanted)
    c.must("is_gated_act", gated)
    c.must("dense_act_fn", "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-"))
    if gated:
        wide = e.names["ffn_in"]
        e.names["ffn_gate"] = wide.replace("wi.", "wi_0.")
        e.names["ffn_in"] = wide.replace("wi.", "wi_1.")
    eps = e.kind["norm_eps"]
    e.stack = {"width": e.stack["width"], "position": 0}
    e.stack.update(final_norm=D.RMS_NORM, final_norm_eps=eps)
    e.kind.update(
        norm=D.RMS_NORM,
        norm_place=D.BEFORE,
        norm_biases=0,
        attention_biases=0,
        ffn_biases=0,
        scale=1.0,
        gated=int(gated),
    )
    double = "encoder.embed_tokens.weight"
    if e.names["embedding"] in e.checkpoint:
        e.doubles.append((double, e.names["embedding"]))
    else:
        e.names["embedding"] = double
    _biases(e, c.whole("relative_attention_num_buckets", 2, 1 << 16), heads)


def _biases(e: Encoder, buckets: int, heads: int) -> None:
    """The bias by distance: of the first layer for all, or (UMT5) each layer's own, which makes
    it a kind of block."""
    most = e.config.whole("relative_attention_max_distance")
    e.kind.update(position=D.T5_BIAS, max_distance=most)
    each = range(e.count if "{layer}" in e.names["t5_bias"] else 1)
    try:
        check_t5_size(most, heads, len(each))
        for i in each:
            bias = e.load(e.name("t5_bias", i), "relative bias", (buckets, heads))
            e.values[R.KINDS << 24 | i << 8 | R.T5_BIAS] = t5_table(bias, most, True)
    except PhasorError as error:
        raise e.config.error("relative_attention_num_buckets", str(error)) from error
    if len(each) > 1:
        e.kinds = [dict(e.kind) for _ in each]
        e.layers = [(i, i) for i in each]


def _family(kind: str, bias_layer: str, sizes: dict) -> Family:
    name = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind]
    attention = ".layer.0.SelfAttention"
    names = tensor_names(
        _BLOCK,
        f"""
        embedding       shared
        final_norm      encoder.final_layer_norm
        q               {attention}.q
        k               {attention}.k
        v               {attention}.v
        attention_out   {attention}.o
        attention_norm  .layer.0.layer_norm
        ffn_in          .layer.1.DenseReluDense.wi
        ffn_out         .layer.1.DenseReluDense.wo
        ffn_norm        .layer.1.layer_norm
        """,
    )
    bias = f"encoder.block.{bias_layer}{attention}.relative_attention_bias.weight"
    return Family(
        (kind,),
        (f"{name}Encoder",),
        "",
        {**names, "t5_bias": bias},
        {"Model": Head(unused=("decoder.*", "lm_head.*"))},
        {**sizes, "n_positions": 512},
        fields=table("""
            hidden_size              d_model
            num_hidden_layers        num_layers
            num_attention_heads      num_heads
            intermediate_size        d_ff
            head_width               d_kv
            hidden_act               feed_forward_proj
            max_position_embeddings  n_positions
            layer_norm_eps           layer_norm_epsilon
        """),
        # Of the whole model's decoder.
        harmless=(*T5_HARMLESS, *words("num_decoder_layers scale_decoder_outputs")),
        adapt=_t5,
        activations=_ACTIVATIONS,
    )


T5_ENCODER = _family("t5", "0", T5_SIZES)
MT5_ENCODER = _family("mt5", "0", MT5_SIZES)
UMT5_ENCODER = _family("umt5", "{layer}", MT5_SIZES)
