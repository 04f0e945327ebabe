"""MarianMT (Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020)."""

from __future__ import annotations

from phasor.families.bart_like import bart_like, bart_names, bart_sinusoids
from phasor.families.encoder_decoder import EncoderDecoder
from phasor.format import descriptor as D


def _marian(m: EncoderDecoder) -> None:
    bart_sinusoids(m)
    m.shared = m.config.flag("share_encoder_decoder_embeddings")
    vocabulary = m.config.get("decoder_vocab_size")
    if not m.shared and vocabulary is not None:
        m.decoder.side["vocabulary"] = m.config.whole("decoder_vocab_size", 1, D.MAX_VOCABULARY)


MARIAN = bart_like(
    "marian",
    "MarianMTModel MarianModel",
    _marian,
    bart_names("sinusoid embed_positions\nembedding embed_tokens"),
    {"vocab_size": 58101, "share_encoder_decoder_embeddings": True},
    tokenizer="marian",
)
