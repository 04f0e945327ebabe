"""T5Gemma 2 (Zhang et al. 2025): two stacks of Gemma 3's layers. Its decoder sees the encoder's
output by its self-attention, in one softmax (rule 1.25). Pictures are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phasor.checkpoints.tensors import Checkpoint
from phasor.families.decoder import Decoder
from phasor.families.family import Family
from phasor.families.gemma_like import ACTIVATION, GEMMA3_SIZES, T5GEMMA_NORMS, gemma_both
from phasor.families.hf_config import FULL, SLIDING, Config
from phasor.families.llama_like import llama_like, llama_names, sliding_pattern
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import table, words

_ENCODER, _TEXT, _END = "encoder", "text_config", "eoi_token_index"
_TEXTS = table("""
    model.encoder.text_model.  model.encoder.
    encoder.text_model.        encoder.
""")
_OF_PICTURES = words("encoder.vision_tower.* encoder.multi_modal_projector.*")
_WHY = "of pictures, which are left out"


def _texts_of(config: Config, checkpoint: Checkpoint) -> Checkpoint:
    """The encoder of texts in the place of that of texts and pictures."""
    inside = config.values.get(_ENCODER)
    if isinstance(inside, dict):
        encoder = Config(config.path, inside, {_END: 256000}, prefix=f"{_ENCODER}.")
        encoder.must("model_type", "t5gemma2_encoder")
        encoder.must("tie_word_embeddings", True, False)  # the whole model's alone counts
        text = encoder.table(_TEXT)
        if text is None:
            raise encoder.error(_TEXT, "missing, the configuration of the encoder of texts")
        text.finished = True  # what it has is asked for as the half's
        config.values[_END] = encoder.get(_END)  # the whole model's does not count
        encoder.finish(
            words("""
            vision_config mm_tokens_per_image boi_token_index image_token_index initializer_range
        """)
        )
        config.values[_ENCODER] = text.values
    return checkpoint.renamed(_TEXTS)


def _pair(pair: Any, config: Config) -> None:
    """One embedding for both sides and the logits, unless the configuration says otherwise. The id
    that ends a picture has a vector of its own in place of its row, but for the logits."""
    encoder, decoder = pair.stacks
    start, output = encoder.trunk.removesuffix("encoder."), decoder.names["output"]
    pair.ignore |= {start + pattern: _WHY for pattern in _OF_PICTURES}
    first, tied = encoder.name("embedding"), config.flag("tie_word_embeddings", default=True)
    own = [f"{stack.trunk}embed_tokens.eoi_embedding" for stack in pair.stacks]
    row, rows = config.get(_END), encoder.side["vocabulary"]
    config.asked.add(_END)
    if tied:
        pair.doubles = [(output, first), (decoder.trunk + decoder.names["embedding"], first)]
        pair.doubles.append((own[1], own[0]))
        decoder.alone = decoder.names["output"] = first
        decoder.side["embedding_shared"] = 1
        pair.output["tied"] = D.TIED_SOURCE
    if type(row) is not int or not 0 <= row < rows:
        pair.ignore |= dict.fromkeys(own, "of the end of a picture, which is no id here")
    else:
        for stack, name in zip(pair.stacks, own[:1] * 2 if tied else own):
            stack.own_row, stack.side["own_row"] = name, row + 1
    pair.notes.append("the file has the encoder of texts; pictures are left out")


def _half(d: Decoder) -> None:
    """Gemma 3's layers; the encoder's windows have two sides."""
    gemma_both(d)
    d.config.must("attn_logit_softcapping", None)  # which transformers has and does not compute
    d.kind["qk_norm"] = D.RMS_NORM
    d.merged = d.role == R.DECODER
    pattern = sliding_pattern(d)
    near = d.rotation("rope_local_base_freq", scaled=False, layer_type=SLIDING)
    d.sliding(lambda i: (i + 1) % pattern, {**d.window(), **near}, d.rotation(layer_type=FULL))


T5GEMMA2 = Family(
    D.ENCODER_DECODER,
    ("t5gemma2",),
    ("T5Gemma2ForConditionalGeneration", "T5Gemma2Model"),
    "model.",
    {},
    {"vocab_size": 262208},
    embeddings=("model.encoder.embed_tokens.weight",),
    half_of=replace(
        llama_like(
            "t5gemma2_text",
            (),
            _half,
            llama_names(**T5GEMMA_NORMS) | {"output": "lm_head.out_proj.weight"},
            GEMMA3_SIZES,
            fields=ACTIVATION["fields"],
            harmless=ACTIVATION["harmless"] + words("dropout_rate"),
        ),
        types=("t5gemma2_text", "t5gemma2_decoder"),
    ),
    texts_of=_texts_of,
    pair=_pair,
    harmless=words("""
        dropout_rate classifier_dropout_rate attention_dropout initializer_range image_token_index
    """),
    tokenizer="package",
)
