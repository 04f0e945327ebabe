"""MarianMT (Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020)."""

from __future__ import annotations

from phasor.families.bart_like import EMBEDDINGS, HARMLESS, ORDER, SIZES, bart, bart_names
from phasor.families.encoder_decoder import EncoderDecoder, Family
from phasor.format import descriptor as D
from phasor.values import settings


def _marian(m: EncoderDecoder) -> None:
    bart(m)
    m.shared = m.config.flag("share_encoder_decoder_embeddings")
    vocabulary = m.config.get("decoder_vocab_size")
    if not m.shared and vocabulary is not None:
        m.sides["target"]["vocabulary"] = m.config.whole("decoder_vocab_size", 1, D.MAX_VOCABULARY)


MARIAN = Family(
    ("marian",),
    ("MarianMTModel", "MarianModel"),
    {
        **bart_names("sinusoid embed_positions"),
        "source.embedding": "model.encoder.embed_tokens.weight",
        "target.embedding": "model.decoder.embed_tokens.weight",
    },
    EMBEDDINGS,
    {**SIZES, "vocab_size": 58101, "share_encoder_decoder_embeddings": True},
    _marian,
    settings("""
        position    "sinusoidal-halves"
        norm_place  "after"
        final_norm  false
    """),
    harmless=HARMLESS,
    neutral=ORDER,
    tokenizer="marian",
)
