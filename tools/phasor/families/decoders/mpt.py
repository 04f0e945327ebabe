"""MPT (MosaicML 2023)."""

from __future__ import annotations

import numpy as np

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import gpt_like
from phasor.families.llama_like import NORM_BIASES
from phasor.families.model import single
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import float32_powers
from phasor.values import settings, table, words

_MPT_ATTENTION = settings("""
    alibi           true
    alibi_bias_max  8
    attn_type       "multihead_attention"
    qk_ln           false
    prefix_lm       false
""")
_MPT_HARMLESS = frozenset(
    words("""
        attn_pdrop attn_impl attn_uses_sequence_id model_type rope rope_impl rope_theta
        sliding_window_size
    """)
)


def _mpt(d: Decoder) -> None:
    """What transformers does not compute (it goes on as if it were not there) is refused, but for
    the fields that say nothing beside ALiBi."""
    inner = d.config.table("attn_config", _MPT_ATTENTION)
    for name, wanted in _MPT_ATTENTION.items():
        inner.must(name, wanted)
    inner.must("rope", False)
    for name, wanted in (
        ("expansion_ratio", (4,)),
        ("no_bias", (True,)),
        ("logit_scale", (None,)),
        ("norm_type", ("low_precision_layernorm", "layernorm")),
    ):
        d.config.must(name, *wanted)
    for name, key in (("clip_qkv", "qkv_clip"), ("softmax_scale", "scale")):
        if inner.get(name) is not None and inner.number(name):
            d.kind[key] = single(inner.number(name))
    without_rope = (name for name in inner.values if name.startswith("rope_"))  # they say nothing
    inner.finish((*_MPT_HARMLESS, *without_rope))
    d.kind.update(position=D.ALIBI, **NORM_BIASES)
    d.bias_free = frozenset({"final_norm"})
    d.kind["tables"] = {R.ALIBI: _mpt_slopes(d.kind["heads"])}


def _mpt_slopes(heads: int) -> np.ndarray:
    """2^(−8·i/H) for H a power of two; for another number those of the power above, the second, the
    fourth, … first (its code, in float32)."""
    above = 1 << (heads - 1).bit_length()
    exponents = np.arange(1, above + 1).astype(np.float32) * np.float32(8 / above)
    slopes = np.float32(1) / float32_powers(2.0, exponents)
    return slopes if above == heads else np.concatenate([slopes[1::2], slopes[::2]])[:heads]


MPT = gpt_like(
    "mpt",
    "MptForCausalLM",
    tensor_names(
        "blocks.{layer}",
        """
        embedding       wte
        final_norm      norm_f
        output          lm_head
        qkv             .attn.Wqkv
        attention_out   .attn.out_proj
        attention_norm  .norm_1
        ffn_norm        .norm_2
        ffn_in          .ffn.up_proj
        ffn_out         .ffn.down_proj
        """,
    ),
    settings("""
        d_model              2048
        n_heads              16
        n_layers             24
        expansion_ratio      4
        max_seq_len          2048
        vocab_size           50368
        layer_norm_epsilon   1e-5
        no_bias              true
        tie_word_embeddings  true
    """),
    _mpt,
    fields=table("""
        hidden_size              d_model
        num_attention_heads      n_heads
        num_hidden_layers        n_layers
        max_position_embeddings  max_seq_len
        rms_norm_eps             layer_norm_epsilon
        intermediate_size        intermediate_size
    """),
    harmless=words("""
        emb_pdrop learned_pos_emb init_device init_config verbose embedding_fraction fc_type
        ffn_config use_pad_tok_in_ffn
    """),
    activation=D.GELU_ERF,
)
