"""FSMT, the translators of WMT 2019 (Ng et al. 2019): two vocabularies."""

from __future__ import annotations

from phasor.families.bart_like import bart, bart_like, bart_names
from phasor.families.encoder_decoder import EncoderDecoder
from phasor.families.hf_config import NEWER
from phasor.families.sinusoids import fairseq_base
from phasor.format import descriptor as D
from phasor.values import settings, words


def _fsmt(m: EncoderDecoder) -> None:
    """fairseq's sinusoids, whose positions begin behind the padding's id. Before transformers 5 the
    decoder's matrix is its embedding, whatever is said of the encoder's."""
    c = m.config
    for stack, side in zip(m.stacks, ("src", "tgt")):
        stack.side["vocabulary"] = c.whole(f"{side}_vocab_size", 1, D.MAX_VOCABULARY)
    m.shared = m.tied
    if m.shared and len({stack.side["vocabulary"] for stack in m.stacks}) > 1:
        raise c.error("tie_word_embeddings", "true, but src_vocab_size is not tgt_vocab_size")
    m.tied |= (c.version or 0) < NEWER
    bart(m)
    pad = c.whole("pad_token_id", 0, D.MAX_VOCABULARY)
    m.sinusoids(fairseq_base(c.whole("d_model", 4)), pad + 1)


FSMT = bart_like(
    "fsmt",
    "FSMTForConditionalGeneration FSMTModel",
    _fsmt,
    {
        **bart_names("sinusoid embed_positions\nembedding embed_tokens", output_bias=False),
        "output": "model.decoder.output_projection.weight",
    },
    settings("""
        src_vocab_size       42024
        tgt_vocab_size       42024
        activation_function  "relu"
        scale_embedding      true
        tie_word_embeddings  false
        pad_token_id         1
    """),
    embeddings=words("model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight"),
    harmless=words("langs decoder"),
    tokenizer="fsmt",
)
