"""Blenderbot (Roller et al. 2021) and its small form: norms after; the decoder's embedding is never
scaled, and has its norm before the positions."""

from __future__ import annotations

from phasor.families.bart_like import LEARNED, bart, bart_like, bart_names
from phasor.families.encoder_decoder import EncoderDecoder
from phasor.values import settings


def _blenderbot(m: EncoderDecoder) -> None:
    bart(m)
    for s in m.stacks:
        s.learned()


def _small(m: EncoderDecoder) -> None:
    _blenderbot(m)
    m.decoder.stack.update(embedding_scale=1.0, embedding_norm_place=1)


BLENDERBOT = bart_like(
    "blenderbot",
    "BlenderbotForConditionalGeneration BlenderbotModel",
    _blenderbot,
    bart_names("positions embed_positions\nfinal_norm layer_norm"),
    settings("""
        vocab_size               8008
        max_position_embeddings  128
        d_model                  2560
        encoder_ffn_dim          10240
        encoder_layers           2
        encoder_attention_heads  32
        decoder_ffn_dim          10240
        decoder_layers           24
        decoder_attention_heads  32
    """),
    # It has no norm of the embedding that the first of them could move.
    neutral=settings("""
        do_blenderbot_90_layernorm  [true, false]
        layernorm_variant           ["prelayernorm"]
    """),
    tokenizer="blenderbot",
)
BLENDERBOT_SMALL = bart_like(
    "blenderbot-small",
    "BlenderbotSmallForConditionalGeneration BlenderbotSmallModel",
    _small,
    bart_names(LEARNED),
    settings("""
        max_position_embeddings  512
        d_model                  512
        encoder_ffn_dim          2048
        encoder_layers           8
        decoder_ffn_dim          2048
        decoder_layers           8
        decoder_start_token_id   1
    """),
    neutral=settings("""
        do_blenderbot_90_layernorm  [true]
        layernorm_variant           ["xlm"]
    """),
    tokenizer="blenderbot-small",
)
