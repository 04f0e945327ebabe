"""The encoders of T5, mT5 and UMT5 alone (T5EncoderModel and its kin), as sentence-T5 and GTR have
them (Ni et al. 2021)."""

from __future__ import annotations

from typing import Any

from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import ACTIVATIONS
from phasor.families.t5_like import (
    MT5_SIZES,
    T5_HARMLESS,
    T5_NEUTRAL,
    T5_SIZES,
    t5_biases,
    t5_blocks,
    t5_names,
)
from phasor.format import descriptor as D
from phasor.values import table, words

_ENDS = {name: number for name, number in ACTIVATIONS.items() if "-" not in name}
# feed_forward_proj; gated-gelu is the approximation by tanh.
_ACTIVATIONS = {
    **_ENDS,
    **{f"gated-{name}": number for name, number in _ENDS.items()},
    "gated-gelu": D.GELU_TANH,
}


def _t5(e: Encoder) -> None:
    c = e.config
    c.must("is_encoder_decoder", True, False)
    kind = c.text("feed_forward_proj")
    gated = kind.startswith("gated-")
    for name, wanted in T5_NEUTRAL[c.get("model_type")].items():
        c.must(name, *wanted)
    c.must("is_gated_act", gated)
    c.must("dense_act_fn", "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-"))
    t5_blocks(e, gated, e.kind["norm_eps"])
    double = "encoder.embed_tokens.weight"
    if e.names["embedding"] in e.checkpoint:
        e.doubles.append((double, e.names["embedding"]))
    else:
        e.names["embedding"] = double
    t5_biases(e, True)


def _family(kind: str, bias_layer: str, sizes: dict[str, Any]) -> Family:
    name = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind]
    return Family(
        D.ENCODER,
        (kind,),
        (f"{name}Encoder",),
        "",
        {"embedding": "shared.weight", **t5_names(bias_layer)},
        {**sizes, "n_positions": 512},
        adapt=_t5,
        heads={"Model": Head(unused=("decoder.*", "lm_head.*"))},
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
        activations=_ACTIVATIONS,
    )


T5_ENCODER = _family("t5", "0", T5_SIZES)
MT5_ENCODER = _family("mt5", "0", MT5_SIZES)
UMT5_ENCODER = _family("umt5", "{layer}", MT5_SIZES)
