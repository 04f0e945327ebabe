"""T5 (Raffel et al. 2020) and v1.1 (Shazeer 2020), mT5 (Xue et al. 2021), UMT5 (Chung et al. 2023),
ByT5 (Xue et al. 2022)."""

from __future__ import annotations

from typing import Any

from phasor.families.encoder_decoder import EncoderDecoder
from phasor.families.family import Family
from phasor.families.hf_config import NEWER
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
from phasor.values import words


def _t5(m: EncoderDecoder) -> None:
    c = m.config
    width, heads = c.whole("d_model", high=D.MAX_WIDTH), c.whole("num_heads", high=4096)
    layers = c.whole("num_layers", high=D.MAX_LAYERS)
    act, gated = m.gated("feed_forward_proj")
    c.must("is_gated_act", gated)
    if c.get("num_decoder_layers") is None:
        depths = (layers, layers)
    else:
        depths = (layers, c.whole("num_decoder_layers", high=D.MAX_LAYERS))
    for s, depth in zip(m.stacks, depths):
        s.blocks(depth)
        s.stack["width"] = width
        s.kind.update(
            heads=heads,
            kv_heads=heads,
            head_width=c.whole("d_kv", high=4096),
            hidden=c.whole("d_ff"),
            activation=act,
        )
        t5_blocks(s, gated, c.number("layer_norm_epsilon"))
        t5_biases(s, s is m.encoder)
    # transformers 5 ties what a checkpoint does not have twice, and says the scale by itself.
    newer = (c.version or 0) >= NEWER
    scaled = m.family.scaled[newer]
    if newer and c.get("scale_decoder_outputs") is not None:
        scaled = c.flag("scale_decoder_outputs")
    elif not newer:
        scaled = m.tied
    if scaled:
        m.output["scale"] = width**-0.5
    m.tied = m.tied or newer
    m.untied_where_twice = newer


_EMBEDDINGS = words("shared.weight encoder.embed_tokens.weight decoder.embed_tokens.weight")
# That T5's first checkpoints have, and no line reads.
_UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


def _family(kind: str, bias_layer: str, sizes: dict[str, Any], scaled: tuple[bool, bool]) -> Family:
    name = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind]
    return Family(
        D.ENCODER_DECODER,
        (kind,),
        (f"{name}ForConditionalGeneration", f"{name}WithLMHeadModel", f"{name}Model"),
        "",
        t5_names(bias_layer),
        sizes,
        adapt=_t5,
        embeddings=_EMBEDDINGS,
        harmless=T5_HARMLESS,
        neutral=T5_NEUTRAL[kind],
        unused=_UNUSED,
        scaled=scaled,
        tokenizer="t5",
    )


T5 = _family("t5", "0", T5_SIZES, (True, True))
MT5 = _family("mt5", "0", {**MT5_SIZES, "tie_word_embeddings": False}, (False, False))
UMT5 = _family("umt5", "{layer}", MT5_SIZES, (True, True))
