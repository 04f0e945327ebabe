"""M2M100 (Fan et al. 2021), NLLB-200 (NLLB Team 2022)."""

from __future__ import annotations

from phasor.families.bart_like import bart, bart_like, bart_names
from phasor.families.encoder_decoder import EncoderDecoder
from phasor.format import descriptor as D


def _m2m(m: EncoderDecoder) -> None:
    """fairseq's sinusoids: rates 10000^(−i / (half − 1)) for i of half the width; and positions
    begin behind the padding's id."""
    bart(m)
    half = m.encoder.stack["width"] // 2
    if half < 2:
        raise m.config.error("d_model", f"{2 * half}, expected at least 4")
    m.sinusoids(
        10000.0 ** (half / (half - 1)),
        m.config.whole("pad_token_id", 0, D.MAX_VOCABULARY) + 1,
    )


M2M100 = bart_like(
    "m2m_100",
    "M2M100ForConditionalGeneration M2M100Model",
    _m2m,
    {k: v for k, v in bart_names("final_norm layer_norm").items() if k != "output_bias"},
    {
        "vocab_size": 128112,
        "activation_function": "relu",
        "scale_embedding": True,
        "pad_token_id": 1,
    },
    unused=("model.*.embed_positions.weights",),
    tokenizer="package",
)
