"""Blenderbot (Roller et al. 2021) and its small form: norms after; the decoder's embedding is never
scaled, and has its norm before the positions."""

from __future__ import annotations

from phasor.families.bart_like import (
    BEFORE,
    EMBEDDINGS,
    HARMLESS,
    LEARNED,
    ORDER,
    SIZES,
    bart,
    bart_names,
)
from phasor.families.encoder_decoder import EncoderDecoder, Family
from phasor.values import settings

# Blenderbot has no norm of the embedding that the first of them could move.
_BLENDERBOT_ORDER = {
    **ORDER,
    **settings("""
        do_blenderbot_90_layernorm  [true, false]
        layernorm_variant           ["prelayernorm"]
    """),
}
_SMALL_ORDER = {
    **ORDER,
    **settings("""
        do_blenderbot_90_layernorm  [true]
        layernorm_variant           ["xlm"]
    """),
}
# Blenderbot (Roller et al. 2021)
BLENDERBOT = Family(
    ("blenderbot",),
    ("BlenderbotForConditionalGeneration", "BlenderbotModel"),
    bart_names("positions embed_positions\nfinal_norm layer_norm"),
    EMBEDDINGS,
    settings(
        """
        vocab_size               8008
        max_position_embeddings  128
        d_model                  2560
        encoder_ffn_dim          10240
        encoder_layers           2
        encoder_attention_heads  32
        decoder_ffn_dim          10240
        decoder_layers           24
        decoder_attention_heads  32
        """,
        SIZES,
    ),
    bart,
    {"position": "learned", **BEFORE},
    harmless=HARMLESS,
    neutral=_BLENDERBOT_ORDER,
    tokenizer="blenderbot",
)


# and its small form: norms after; the decoder's embedding is never scaled, and has its norm before
# the positions
def _blenderbot_small(m: EncoderDecoder) -> None:
    bart(m)
    m.stacks["decoder"].update(
        embedding_scale="one",
        embedding_norm_place="before-positions",
    )


BLENDERBOT_SMALL = Family(
    ("blenderbot-small",),
    ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel"),
    bart_names(LEARNED),
    EMBEDDINGS,
    settings(
        """
        max_position_embeddings  512
        d_model                  512
        encoder_ffn_dim          2048
        encoder_layers           8
        decoder_ffn_dim          2048
        decoder_layers           8
        decoder_start_token_id   1
        """,
        SIZES,
    ),
    _blenderbot_small,
    settings("""
        position    "learned"
        norm_place  "after"
        final_norm  false
    """),
    harmless=HARMLESS,
    neutral=_SMALL_ORDER,
    tokenizer="blenderbot-small",
)
