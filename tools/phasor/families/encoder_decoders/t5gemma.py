"""T5Gemma (Zhang et al. 2025): two stacks of Gemma 2's layers."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.family import Family
from phasor.families.gemma_like import ACTIVATION, GEMMA2_CAPS, T5GEMMA_NORMS, gemma2
from phasor.families.hf_config import NEWER
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import words


def _half(d: Decoder) -> None:
    """The encoder's windows have two sides: of fewer keys than the field says before transformers
    5, and of as many from then on."""
    gemma2(d)
    more = 1 if (d.config.version or 0) >= NEWER else -1
    for own in d.per_layer if d.role == R.ENCODER else ():
        if "window" in own:
            own["window"] = 2 * own["window"] + more


T5GEMMA = Family(
    D.ENCODER_DECODER,
    ("t5gemma",),
    ("T5GemmaForConditionalGeneration", "T5GemmaModel"),
    "model.",
    {},
    {"vocab_size": 256000},
    embeddings=("model.encoder.embed_tokens.weight",),
    half_of=llama_like(
        "t5_gemma_module",
        (),
        _half,
        llama_names(
            **T5GEMMA_NORMS,
            cross_q="cross_attn.q_proj",
            cross_k="cross_attn.k_proj",
            cross_v="cross_attn.v_proj",
            cross_out="cross_attn.o_proj",
            cross_norm="pre_cross_attn_layernorm",
            cross_after="post_cross_attn_layernorm",
        )
        | {"output": "lm_head.out_proj.weight"},
        GEMMA2_CAPS,
        fields=ACTIVATION["fields"],
        harmless=ACTIVATION["harmless"] + words("dropout_rate"),
    ),
    harmless=words("dropout_rate classifier_dropout_rate attention_dropout"),
    tokenizer="package",
)
