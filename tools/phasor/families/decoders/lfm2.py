"""LFM2 and LFM2.5 (Liquid AI 2025): gated short convolutions in most layers, attention in a few."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import FULL
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.format.convolution import MOST_TAPS
from phasor.values import settings, words

_CONVOLUTION = "conv"


def _types(d: Decoder) -> list[str]:
    """What mixes the positions of each layer: layer_types, or else the layers of full_attn_idxs."""
    given, places = d.config.get("layer_types"), d.config.get("full_attn_idxs")
    if given is None:  # its numbers beyond the last layer say nothing
        if places is not None and not isinstance(places, list):
            raise d.config.error("full_attn_idxs", "expected a list of layers")
        return [FULL if places is None or i in places else _CONVOLUTION for i in range(d.count)]
    if (
        not isinstance(given, list)
        or len(given) != d.count
        or any(t not in (FULL, _CONVOLUTION) for t in given)
    ):
        raise d.config.error("layer_types", f"expected {d.count} times {FULL} or {_CONVOLUTION}")
    return given


def _hidden(d: Decoder) -> int:
    """The feed-forward's width, which most configurations say in a roundabout way."""
    c, hidden = d.config, int(d.kind["hidden"])
    if not d.flag("block_auto_adjust_ff_dim"):
        c.asked |= {"block_ffn_dim_multiplier", "block_multiple_of"}
        return hidden
    hidden = int(2 * hidden / 3)
    if c.get("block_ffn_dim_multiplier") is not None:
        multiple = c.whole("block_multiple_of")
        hidden = int(c.number("block_ffn_dim_multiplier") * hidden)
        hidden = -(-hidden // multiple) * multiple
    c.asked.add("block_multiple_of")
    if not 1 <= hidden <= 1 << 20:
        raise c.error("block_ffn_dim_multiplier", f"a feed-forward of width {hidden}")
    return hidden


def _lfm2(d: Decoder) -> None:
    theta = d.config.get("theta")  # which transformers 5 does not read any more
    if theta is not None and d.config.values.get("rope_theta", theta) != theta:
        raise d.config.error("theta", f"{theta}, and rope_theta is another; leave one of them")
    if theta is not None and "rope_theta" not in d.config.values and not _newer(d):
        d.config.values["rope_theta"] = theta
    bias, width = d.flag("conv_bias"), d.stack["width"]
    d.kind["hidden"] = _hidden(d)
    attention = {"qk_norm": D.RMS_NORM, **d.rotation()}
    heads = next(n for n in range(1, width + 1) if width % n == 0 and width // n <= 4096)
    convolution = {
        "mixer": D.CONVOLUTION,
        "window": d.config.whole("conv_L_cache", 1, MOST_TAPS),
        "heads": heads,
        "kv_heads": heads,
        "head_width": width // heads,
        "scale": 1.0,
        "attention_biases": D.ATTENTION_BIASES * bias,
        "convolution_bias": bias,
    }
    for i, name in enumerate(_types(d)):
        short = name == _CONVOLUTION
        d.per_layer[i].update(convolution if short else attention)
        d.places[i]["mixer"] = _CONVOLUTION if short else "self_attn"
        d.convolutions |= {i} if short else set()


def _newer(d: Decoder) -> bool:
    return d.config.get("rope_parameters") is not None


LFM2 = llama_like(
    "lfm2",
    "Lfm2ForCausalLM",
    _lfm2,
    {
        **llama_names(
            attention_out="{mixer}.out_proj",
            attention_norm="operator_norm",
            q_norm="self_attn.q_layernorm",
            k_norm="self_attn.k_layernorm",
            ffn_gate="feed_forward.w1",
            ffn_in="feed_forward.w3",
            ffn_out="feed_forward.w2",
            ffn_norm="ffn_norm",
            gates="conv.in_proj",
            taps="conv.conv",
        ),
        "final_norm": "embedding_norm.weight",
    },
    settings("""
        vocab_size                65536
        hidden_size               2560
        intermediate_size         12288
        num_key_value_heads       8
        max_position_embeddings   128000
        norm_eps                  1e-5
        rope_theta                1000000.0
        tie_word_embeddings       true
        conv_bias                 false
        conv_L_cache              3
        block_multiple_of         256
        block_ffn_dim_multiplier  1.0
        block_auto_adjust_ff_dim  true
    """),
    fields={"rms_norm_eps": "norm_eps"},
    aliases={"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"},
    activation=D.SILU,
    # of its trainer; its class takes them for nothing
    harmless=words("""
        block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu
        block_use_xavier_init conv_dim conv_dim_out conv_use_xavier_init num_heads use_pos_enc
    """),
)
