"""M2M100 (Fan et al. 2021), NLLB-200 (NLLB Team 2022)."""

from __future__ import annotations

from phasor.families.bart_like import BEFORE, EMBEDDINGS, HARMLESS, ORDER, SIZES, bart, bart_names
from phasor.families.encoder_decoder import EncoderDecoder, Family
from phasor.format import descriptor as D
from phasor.values import settings


def _m2m(m: EncoderDecoder) -> None:
    """fairseq's sinusoids: rates 10000^(−i / (half − 1)) for i of half the width; and positions
    begin behind the padding's id."""
    bart(m)
    half = m.model["width"] // 2
    if half < 2:
        raise m.config.error("d_model", f"{2 * half}, expected at least 4")
    m.model.update(
        position_base=10000.0 ** (half / (half - 1)),
        position_offset=m.config.whole("pad_token_id", 0, D.MAX_VOCABULARY) + 1,
    )


M2M100 = Family(
    ("m2m_100",),
    ("M2M100ForConditionalGeneration", "M2M100Model"),
    bart_names("final_norm layer_norm"),
    EMBEDDINGS,
    settings(
        """
        vocab_size           128112
        activation_function  "relu"
        scale_embedding      true
        pad_token_id         1
        """,
        SIZES,
    ),
    _m2m,
    {"position": "sinusoidal-halves", **BEFORE},
    without=("output_bias",),
    harmless=HARMLESS,
    neutral=ORDER,
    unused=("model.*.embed_positions.weights",),
    tokenizer="package",
)
