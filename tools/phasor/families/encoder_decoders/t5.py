"""T5 (Raffel et al. 2020) and v1.1 (Shazeer 2020), mT5 (Xue et al. 2021), UMT5 (Chung et al. 2023),
ByT5 (Xue et al. 2022)."""

from __future__ import annotations

from phasor.families.encoder_decoder import STACKS, EncoderDecoder, Family
from phasor.families.hf_config import NEWER
from phasor.families.t5_like import MT5_SIZES, T5_HARMLESS, T5_NEUTRAL, T5_SIZES
from phasor.format import descriptor as D
from phasor.values import settings, table, words


def _t5_names(bias_layer: str) -> dict[str, str]:
    """The tensors of T5's modules; bias_layer: whose bias of positions a layer has."""
    out = {"output": "lm_head.weight"}
    for stack in STACKS:
        own, last = f"{stack}.block.{{layer}}.layer.", "1" if stack == "encoder" else "2"
        out[f"{stack}.final_norm"] = f"{stack}.final_layer_norm.weight"
        out[f"{stack}.position_bias"] = (
            f"{stack}.block.{bias_layer}.layer.0.SelfAttention.relative_attention_bias.weight"
        )
        parts = table(f"""
            q               0.SelfAttention.q
            k               0.SelfAttention.k
            v               0.SelfAttention.v
            attention_out   0.SelfAttention.o
            attention_norm  0.layer_norm
            ffn_in          {last}.DenseReluDense.wi
            ffn_out         {last}.DenseReluDense.wo
            ffn_norm        {last}.layer_norm
        """)
        if stack == "decoder":
            parts |= table("""
                cross_q     1.EncDecAttention.q
                cross_k     1.EncDecAttention.k
                cross_v     1.EncDecAttention.v
                cross_out   1.EncDecAttention.o
                cross_norm  1.layer_norm
            """)
        out |= {f"{stack}.{part}": f"{own}{module}.weight" for part, module in parts.items()}
    return out


def _t5(m: EncoderDecoder) -> None:
    c = m.config
    heads, layers = c.whole("num_heads", high=4096), c.whole("num_layers", high=D.MAX_LAYERS)
    act, gated = m.gated("feed_forward_proj")
    c.must("is_gated_act", gated)
    if gated:
        for stack in STACKS:
            wide = m.names[f"{stack}.ffn_in"]
            m.names[f"{stack}.ffn_gate"] = wide.replace("wi.", "wi_0.")
            m.names[f"{stack}.ffn_in"] = wide.replace("wi.", "wi_1.")
    m.model.update(
        width=c.whole("d_model", high=D.MAX_WIDTH),
        hidden=c.whole("d_ff"),
        head_width=c.whole("d_kv", high=4096),
        heads=heads,
        norm_eps=c.number("layer_norm_epsilon"),
        activation=act,
        num_buckets=c.whole("relative_attention_num_buckets", 2, 1 << 16),
        max_distance=c.whole("relative_attention_max_distance"),
    )
    if m.model["num_buckets"] % 2 or m.model["num_buckets"] < 4:
        raise c.expected(
            "relative_attention_num_buckets", m.model["num_buckets"], "an even number from 4"
        )
    if 2 * m.model["max_distance"] <= m.model["num_buckets"]:
        raise c.error(
            "relative_attention_max_distance",
            f"{m.model['max_distance']} is not above the half of {m.model['num_buckets']} buckets,"
            " which are single distances",
        )
    decoder = c.get("num_decoder_layers")
    m.stacks["encoder"]["layers"] = layers
    m.stacks["decoder"]["layers"] = (
        layers if decoder is None else c.whole("num_decoder_layers", high=D.MAX_LAYERS)
    )
    # transformers 5 ties what a checkpoint does not have twice, and says the scale by itself.
    newer = (c.version or 0) >= NEWER
    scaled = m.family.scaled[newer]
    if newer and c.get("scale_decoder_outputs") is not None:
        scaled = c.flag("scale_decoder_outputs")
    elif not newer:
        scaled = m.tied
    if scaled:
        m.model["output_scale"] = "inverse_sqrt_width"
    m.tied = m.tied or newer
    m.untied_where_twice = newer


_T5_KEYS = settings("""
    norm                "rms"
    norm_place          "before"
    final_norm          true
    position            "none"
    attention_position  "t5"
    embedding_scale     "one"
    score_scale         1.0
""")
_T5_EMBEDDINGS = words("shared.weight encoder.embed_tokens.weight decoder.embed_tokens.weight")
# That T5's first checkpoints have, and no line reads.
_T5_UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


def _t5_family(kind: str, bias_layer: str, sizes: dict, scaled: tuple[bool, bool]) -> Family:
    name = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind]
    return Family(
        (kind,),
        (f"{name}ForConditionalGeneration", f"{name}WithLMHeadModel", f"{name}Model"),
        _t5_names(bias_layer),
        _T5_EMBEDDINGS,
        sizes,
        _t5,
        _T5_KEYS,
        harmless=T5_HARMLESS,
        neutral=T5_NEUTRAL[kind],
        unused=_T5_UNUSED,
        biased=False,
        scaled=scaled,
        tokenizer="t5",
    )


T5 = _t5_family("t5", "0", T5_SIZES, (True, True))
MT5 = _t5_family("mt5", "0", {**MT5_SIZES, "tie_word_embeddings": False}, (False, False))
UMT5 = _t5_family("umt5", "{layer}", MT5_SIZES, (True, True))
