"""XGLM (Lin et al. 2021): fairseq's sinusoids, of which position 0 has the third."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import gpt_like
from phasor.families.model import single
from phasor.families.names import FAIRSEQ_BLOCK, tensor_names
from phasor.families.sinusoids import added, fairseq_base
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, table

_BEFORE = 2  # rows of the table that come before position 0


def _xglm(d: Decoder) -> None:
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES)
    width = d.stack["width"]
    if width % 2 or width < 4:
        raise d.config.expected("d_model", width, "an even number from 4, for sine and cosine")
    made = added(None, width, D.HALVES, fairseq_base(width), _BEFORE, d.positions)
    pad = d.config.whole("pad_token_id", -1, D.MAX_VOCABULARY, -1)  # its class clears this row
    made.values[max(pad - _BEFORE, 0) : max(pad - _BEFORE + 1, 0)] = 0
    d.stack["position"] = made.position
    d.values[R.key_of(R.TARGET, 0, made.role)] = made.values
    if d.flag("scale_embedding"):
        d.stack["embedding_scale"] = single(width**0.5)


XGLM = gpt_like(
    "xglm",
    "XGLMForCausalLM",
    tensor_names(
        "layers.{layer}",
        FAIRSEQ_BLOCK
        + """
        embedding       embed_tokens
        final_norm      layer_norm
        output          lm_head
        """,
    ),
    settings("""
        vocab_size               256008
        d_model                  1024
        num_layers               24
        attention_heads          16
        ffn_dim                  4096
        activation_function      "gelu"
        max_position_embeddings  2048
        layer_norm_eps           1e-5
        scale_embedding          true
        tie_word_embeddings      true
    """),
    _xglm,
    fields=table("""
        hidden_size          d_model
        num_hidden_layers    num_layers
        num_attention_heads  attention_heads
        intermediate_size    ffn_dim
        hidden_act           activation_function
        rms_norm_eps         layer_norm_eps
    """),
    harmless=("activation_dropout",),
    unused=("embed_positions.weights",),
    hidden_factor=0,
    trunk="model.",
)
