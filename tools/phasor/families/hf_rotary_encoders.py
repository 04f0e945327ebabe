"""Encoders of transformers with rotary positions, as tables, beside those of hf_encoders.py."""

from __future__ import annotations

import numpy as np

from phasor.families.encoder import Encoder, Family, float32_frequencies
from phasor.families.heads import Head
from phasor.families.hf_config import (
    FULL,
    NEWER,
    SLIDING,
    Config,
    layer_types,
    rope_table,
    rope_value,
)
from phasor.families.hf_encoders import (
    BARE,
    BERT_NAMES,
    BERT_WORDS,
    FIRST,
    POOLER,
    SIZES,
    SPANS,
    TOKENS,
    choice,
)
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.positions import inverse_frequencies
from phasor.values import settings, table, words

# ---- RoFormer (Su et al. 2021)

_ROFORMER_TOLERANCE = 1e-6  # of a sine that was rounded to float32


def _roformer(e: Encoder) -> None:
    e.segments()
    e.embedding_width()
    e.config.must("rotary_value", False)
    width = e.kind["head_width"]
    if width % 2:
        raise e.config.error(
            "num_attention_heads", f"a head of {width} values cannot be rotated in pairs"
        )
    e.stack["position"] = 0
    e.kind.update(position=D.ROTARY_INTERLEAVED, rotary_width=width)
    rates = inverse_frequencies(width, 10000.0)
    e.values[R.KINDS << 24 | R.ROTARY] = rates
    name = e.trunk + "encoder.embed_positions.weight"
    if name in e.checkpoint:
        table = e.load(name, "sines and cosines", (e.stack["max_positions"], width))
        angle = np.arange(len(table))[:, None] * rates
        if (
            np.abs(table - np.concatenate([np.sin(angle), np.cos(angle)], axis=1)).max()
            > _ROFORMER_TOLERANCE
        ):
            raise PhasorError(
                f"{e.checkpoint.path}: {name} is not the table of sines and cosines of a RoFormer"
            )


ROFORMER = Family(
    ("roformer",),
    ("RoFormer",),
    "roformer.",
    {**BERT_NAMES, "projection": "embeddings_project.weight"},
    {
        "Model": BARE,
        "ForMaskedLM": BERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, FIRST, "classifier.dense", "hidden_act", last="classifier.out_proj"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        # Its code looks at the last position, whatever its comment says.
        "ForMultipleChoice": choice("")._replace(pooling=D.LAST, activation=0),
    },
    {**SIZES, "vocab_size": 50000, "max_position_embeddings": 1536, "rotary_value": False},
    harmless=("embedding_size",),
    adapt=_roformer,
    tokenizer_code="RoFormer splits Chinese into words with a dictionary first",
)


# ---- ModernBERT (Warner et al. 2024)


def _modernbert_types(e: Encoder) -> list[str]:
    """What each layer's attention sees: every so many all, or layer_types of transformers 5."""
    c, every = e.config, e.config.whole("global_attn_every_n_layers")
    types = [SLIDING if i % every else FULL for i in range(e.count)]
    given = layer_types(c, e.count, types)
    if given != types and (c.version or 0) < NEWER:
        raise c.error(
            "layer_types",
            f"not what global_attn_every_n_layers says, which transformers before {NEWER} reads",
        )
    return given


def _modernbert_theta(c: Config, layer_type: str, beside: str) -> float:
    table = rope_table(c, layer_type)
    table.must("rope_type", "default")
    table.must("type", "default")
    table.must("partial_rotary_factor", 1)
    return c.checked_base(beside, rope_value(c, table, "rope_theta", beside))


def _modernbert(e: Encoder) -> None:
    """Norms before, no learned positions; the first block has no norm before attention, and most
    blocks see a window."""
    c, kind = e.config, e.kind
    eps, width = e.stack["embedding_norm_eps"], kind["head_width"]
    if width % 2:
        raise c.error(
            "num_attention_heads", f"a head of {width} values cannot be rotated in halves"
        )
    norm_biases = int(c.flag("norm_bias"))
    e.stack.update(position=0, final_norm=D.LAYER_NORM, final_norm_eps=eps)
    kind.update(
        norm_place=D.BEFORE,
        gated=1,
        norm_biases=norm_biases,
        attention_biases=15 * c.flag("attention_bias"),
        ffn_biases=3 * c.flag("mlp_bias"),
        position=D.ROTARY_HALVES,
        rotary_width=width,
    )
    theta = _modernbert_theta(c, FULL, "global_rope_theta")
    window = {"window": 2 * (c.whole("local_attention") // 2) + 1}
    one = c.get("local_rope_theta") is None and c.get("rope_parameters") is None
    local = theta if one else _modernbert_theta(c, SLIDING, "local_rope_theta")
    thetas = {FULL: theta, SLIDING: local}
    order = [(i == 0, name) for i, name in enumerate(_modernbert_types(e))]
    kinds = list(dict.fromkeys(order))
    e.kinds = [
        {**kind, **({"attention_norm": 0} if first else {}), **(window if name == SLIDING else {})}
        for first, name in kinds
    ]
    e.layers = [(kinds.index(name), i) for i, name in enumerate(order)]
    for i, (_, name) in enumerate(kinds):
        e.values[R.KINDS << 24 | i << 8 | R.ROTARY] = float32_frequencies(width, thetas[name])
    pooling = c.choice("classifier_pooling", {"cls": FIRST, "mean": D.MEAN})
    if e.head.pooling:
        e.head = e.head._replace(pooling=pooling)
    if e.head.dense:
        e.head = e.head._replace(dense_bias=c.flag("classifier_bias"))
    if e.head.output == D.LOGITS and not c.flag("decoder_bias"):
        e.head = e.head._replace(biases=())


_MODERNBERT_HEAD = {
    "dense": "head.dense",
    "activation": "classifier_activation",
    "norm": "head.norm",
}
MODERNBERT = Family(
    ("modernbert",),
    ("ModernBert",),
    "model.",
    tensor_names(
        "layers.{layer}",
        """
        embedding       embeddings.tok_embeddings
        embedding_norm  embeddings.norm
        final_norm      final_norm
        qkv             .attn.Wqkv
        attention_out   .attn.Wo
        attention_norm  .attn_norm
        ffn_in          .mlp.Wi
        ffn_gate        .mlp.Wi
        ffn_out         .mlp.Wo
        ffn_norm        .mlp_norm
        """,
    ),
    {
        "Model": Head(unused=("head.*", "decoder.*")),
        "ForMaskedLM": Head(D.LOGITS, last="decoder", biases=("decoder.bias",), **_MODERNBERT_HEAD),
        "ForSequenceClassification": Head(D.CLASSES, FIRST, last="classifier", **_MODERNBERT_HEAD),
        "ForTokenClassification": Head(
            D.CLASSES, last="classifier", scores=D.SOFTMAX, **_MODERNBERT_HEAD
        ),
        "ForQuestionAnswering": SPANS._replace(last="classifier", **_MODERNBERT_HEAD),
        "ForMultipleChoice": choice("")._replace(**_MODERNBERT_HEAD),
    },
    settings("""
        vocab_size                  50368
        pad_token_id                50283
        hidden_size                 768
        intermediate_size           1152
        num_hidden_layers           22
        num_attention_heads         12
        hidden_activation           "gelu"
        max_position_embeddings     8192
        norm_eps                    1e-5
        norm_bias                   false
        global_rope_theta           160000.0
        local_rope_theta            10000.0
        attention_bias              false
        global_attn_every_n_layers  3
        local_attention             128
        mlp_bias                    false
        decoder_bias                true
        classifier_pooling          "cls"
        classifier_bias             false
        classifier_activation       "gelu"
    """),
    fields={"layer_norm_eps": "norm_eps", "hidden_act": "hidden_activation"},
    harmless=words("""
        initializer_cutoff_factor attention_dropout embedding_dropout mlp_dropout
        deterministic_flash_attn sparse_prediction sparse_pred_ignore_index reference_compile
        repad_logits_with_grad decoder_bias classifier_bias classifier_activation layer_norm_eps
        position_embedding_type
    """),
    adapt=_modernbert,
)


# ---- Nomic-BERT (Nussbaum et al. 2024), whose code is published with its weights

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
    kind.update(gated=gated, ffn_biases=biases, attention_biases=15 * c.flag("qkv_proj_bias"))
    block = "encoder.layers.{layer}.mlp."
    if gated:
        kind["hidden"] = -(-kind["hidden"] // _NOMIC_MULTIPLE) * _NOMIC_MULTIPLE
        e.names.update(ffn_in=block + "fc11.weight", ffn_gate=block + "fc12.weight")
    else:
        e.names["ffn_in"] = block + "fc1.weight"
    multiple = c.whole("pad_vocab_size_multiple")
    e.side["vocabulary"] = -(-e.side["vocabulary"] // multiple) * multiple
    e.segments()
    rotated = c.number("rotary_emb_fraction") * width
    if rotated < 2 or rotated > width or rotated % 2:
        raise c.error(
            "rotary_emb_fraction", f"{rotated:g} of {width} values of a head are not built"
        )
    e.stack["position"] = 0
    kind.update(
        position=D.ROTARY_INTERLEAVED if c.flag("rotary_emb_interleaved") else D.ROTARY_HALVES,
        rotary_width=int(rotated),
    )
    e.values[R.KINDS << 24 | R.ROTARY] = float32_frequencies(
        int(rotated), c.number("rotary_emb_base", 1)
    )
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


NOMIC = Family(
    ("nomic_bert",),
    ("NomicBert",),
    "bert.",
    tensor_names(
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
    ),
    {
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
    adapt=_nomic,
    activations=_NOMIC_ACTIVATIONS,
    wordpiece=True,
    custom_code=True,
)


FAMILIES = (ROFORMER, MODERNBERT, NOMIC)
