"""M2M100 (Fan et al. 2021), NLLB-200 (NLLB Team 2022)."""

from __future__ import annotations

from phasor.families.bart_like import bart, bart_like, bart_names
from phasor.families.encoder_decoder import EncoderDecoder
from phasor.families.sinusoids import fairseq_base
from phasor.format import descriptor as D


def _m2m(m: EncoderDecoder) -> None:
    """fairseq's sinusoids, whose positions begin behind the padding's id."""
    bart(m)
    width = m.encoder.stack["width"]
    if width < 4:
        raise m.config.error("d_model", f"{width}, expected at least 4")
    pad = m.config.whole("pad_token_id", 0, D.MAX_VOCABULARY)
    m.sinusoids(fairseq_base(width), pad + 1)


M2M100 = bart_like(
    "m2m_100",
    "M2M100ForConditionalGeneration M2M100Model",
    _m2m,
    bart_names("final_norm layer_norm", output_bias=False),
    {
        "vocab_size": 128112,
        "activation_function": "relu",
        "scale_embedding": True,
        "pad_token_id": 1,
    },
    unused=("model.*.embed_positions.weights",),
    tokenizer="package",
)
