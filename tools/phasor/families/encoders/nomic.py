"""Nomic-BERT (Nussbaum et al. 2024): as its published code has it, and as transformers 5 has it."""

from __future__ import annotations

from phasor.families.bert_like import BARE, BERT_WORDS, POOLER, SIZES, bert_heads, rotary
from phasor.families.encoder import Encoder, float32_frequencies
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.model import single
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, table, words

_NOMIC_ACTIVATIONS = {
    "swiglu": D.SILU,
    "geglu": D.GELU_ERF,
    "gelu": D.GELU_ERF,
}  # the first two are gated
_NOMIC_MULTIPLE = 256  # a gated feed-forward is made wider to a multiple of it
# Fields with the one value that is built.
_NOMIC_FIXED = settings("""
    prenorm                          [false]
    use_rms_norm                     [false]
    causal                           [false]
    parallel_block                   [false]
    rotary_emb_scale_base            [null]
    scale_attn_weights               [true]
    scale_attn_by_inverse_layer_idx  [false]
    norm_mlp                         [false]
    rotary_head_dim                  [false]
    parallel_block_tied_norm         [false]
    tie_word_embeddings              [true]
""")


def _nomic(e: Encoder) -> None:
    c, kind, width = e.config, e.kind, e.kind["head_width"]
    for name, values in _NOMIC_FIXED.items():
        c.must(name, *values)
    c.must("num_heads_kv", kind["heads"])
    gated = int(c.get("activation_function") in ("swiglu", "geglu"))
    biases = c.flag("mlp_fc1_bias") + 2 * c.flag("mlp_fc2_bias")
    kind.update(
        gated=gated,
        ffn_biases=biases,
        attention_biases=D.ATTENTION_BIASES * c.flag("qkv_proj_bias"),
    )
    if gated:
        kind["hidden"] = -(-kind["hidden"] // _NOMIC_MULTIPLE) * _NOMIC_MULTIPLE
        e.names.update(_GATED)
    else:
        e.names["ffn_in"] = "encoder.layers.{layer}.mlp.fc1.weight"
    multiple = c.whole("pad_vocab_size_multiple")
    e.side["vocabulary"] = -(-e.side["vocabulary"] // multiple) * multiple
    e.segments()
    rotated = c.number("rotary_emb_fraction") * width
    if rotated < 2 or rotated > width or rotated % 2:
        raise c.error(
            "rotary_emb_fraction", f"{rotated:g} of {width} values of a head are not supported"
        )
    e.stack["position"] = 0
    kind.update(
        position=D.ROTARY_INTERLEAVED if c.flag("rotary_emb_interleaved") else D.ROTARY_HALVES,
        rotary_width=int(rotated),
    )
    rates = float32_frequencies(int(rotated), c.number("rotary_emb_base", 1))
    kind["tables"] = {R.ROTARY: rates}
    if (
        c.get("rotary_scaling_factor") is not None
    ):  # the frequencies change with the length, from here on
        trained = c.whole("max_trained_positions")
        e.stack["max_positions"] = min(e.stack["max_positions"], trained)
        e.notes.append(
            f"rotary_scaling_factor: longer than {trained} positions the frequencies depend on the "
            f"length; max_positions is {trained}"
        )
    if e.head.dense:
        biased = c.flag("mlp_fc1_bias")
        e.head = e.head._replace(
            activation=kind["activation"], dense_bias=biased, biases=e.head.biases if biased else ()
        )


_NAMES = tensor_names(
    "encoder.layers.{layer}",
    """
    embedding       embeddings.word_embeddings
    segments        embeddings.token_type_embeddings
    embedding_norm  emb_ln
    qkv             .attn.Wqkv
    attention_out   .attn.out_proj
    attention_norm  .norm1
    ffn_out         .mlp.fc2
    ffn_norm        .norm2
    """,
)
_GATED = tensor_names("encoder.layers.{layer}", "ffn_in .mlp.fc11\nffn_gate .mlp.fc12")
NOMIC = Family(
    D.ENCODER,
    ("nomic_bert",),
    ("NomicBert",),
    "bert.",
    _NAMES,
    settings("""
        type_vocab_size          2
        layer_norm_epsilon       1e-5
        pad_vocab_size_multiple  1
        rotary_emb_fraction      0.0
        rotary_emb_base          10000.0
        rotary_emb_interleaved   false
        qkv_proj_bias            true
        mlp_fc1_bias             true
        mlp_fc2_bias             true
        max_trained_positions    2048
    """),
    adapt=_nomic,
    heads={
        "Model": BARE,
        "ForPreTraining": Head(
            D.LOGITS,
            dense="cls.predictions.transform.dense",
            activation=D.SILU,
            norm="cls.predictions.transform.layer_norm",
            last="cls.predictions.decoder",
            biases=("cls.predictions.decoder.bias",),
            unused=POOLER,
        ),
    },
    fields=table("""
        hidden_size              n_embd
        num_hidden_layers        n_layer
        num_attention_heads      n_head
        intermediate_size        n_inner
        max_position_embeddings  n_positions
        layer_norm_eps           layer_norm_epsilon
        hidden_act               activation_function
    """),
    harmless=words("""
        attn_pdrop embd_pdrop resid_pdrop fused_bias_fc fused_dropout_add_ln use_xentropy
        reorder_and_upcast_attn dense_seq_output max_trained_positions summary_activation
        summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
        last_layer_subset add_pooling_layer ffn_div expand
    """),
    unused=("encoder.layers.*.attn.rotary_emb.inv_freq",),
    activations=_NOMIC_ACTIVATIONS,
    wordpiece=True,
    custom_code=True,
    told_by="n_embd",
)


def _newer(e: Encoder) -> None:
    width = e.config.whole("head_dim", 1, 4096, default=e.kind["head_width"])
    e.kind.update(head_width=width, scale=single(width**-0.5))
    e.kind.update(gated=1, attention_biases=0, ffn_biases=0)
    rotary(e)


_HEADS = bert_heads("nomic_bert.pooler.dense")
_CLASSES = words("Model ForSequenceClassification ForTokenClassification")
NOMIC_5 = Family(
    D.ENCODER,
    ("nomic_bert",),
    ("NomicBert",),
    "nomic_bert.",
    {**_NAMES, **_GATED},
    settings(
        """
        vocab_size               30528
        max_position_embeddings  2048
        hidden_act               "silu"
        rope_theta               1000.0
        """,
        SIZES,
    ),
    adapt=_newer,
    heads={
        **{name: _HEADS[name] for name in _CLASSES},
        "ForMaskedLM": BERT_WORDS._replace(norm="cls.predictions.transform.layer_norm"),
    },
    wordpiece=True,
)
