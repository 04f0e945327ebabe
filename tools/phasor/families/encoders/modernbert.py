"""ModernBERT (Warner et al. 2024)."""

from __future__ import annotations

from typing import Any

from phasor.families.bert_like import SPANS, choice
from phasor.families.encoder import Encoder, float32_frequencies
from phasor.families.family import Family
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
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words


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
    if not norm_biases:
        e.bias_free = frozenset(("embedding_norm", "final_norm", "head_norm"))
    e.stack.update(position=0, final_norm=D.LAYER_NORM, final_norm_eps=eps)
    kind.update(
        norm_place=D.BEFORE,
        gated=1,
        norm_biases=norm_biases,
        attention_biases=D.ATTENTION_BIASES * c.flag("attention_bias"),
        ffn_biases=D.FFN_BIASES * c.flag("mlp_bias"),
        position=D.ROTARY_HALVES,
        rotary_width=width,
    )
    theta = _modernbert_theta(c, FULL, "global_rope_theta")
    window = {"window": 2 * (c.whole("local_attention") // 2) + 1}
    one = c.get("local_rope_theta") is None and c.get("rope_parameters") is None
    local = theta if one else _modernbert_theta(c, SLIDING, "local_rope_theta")
    bases = {FULL: theta, SLIDING: local}
    rates = {name: float32_frequencies(width, base) for name, base in bases.items()}
    for own, name in zip(e.per_layer, _modernbert_types(e)):
        own.update(window if name == SLIDING else {})
        own["tables"] = {R.ROTARY: rates[name]}
    e.per_layer[0]["attention_norm"] = 0
    pooling = c.choice("classifier_pooling", {"cls": D.FIRST, "mean": D.MEAN})
    if e.head.pooling:
        e.head = e.head._replace(pooling=pooling)
    if e.head.dense:
        e.head = e.head._replace(dense_bias=c.flag("classifier_bias"))
    if e.head.output == D.LOGITS and not c.flag("decoder_bias"):
        e.head = e.head._replace(biases=())


_MODERNBERT_HEAD: dict[str, Any] = {
    "dense": "head.dense",
    "activation": "classifier_activation",
    "norm": "head.norm",
}
MODERNBERT = Family(
    D.ENCODER,
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
    adapt=_modernbert,
    heads={
        "Model": Head(unused=("head.*", "decoder.*")),
        "ForMaskedLM": Head(D.LOGITS, last="decoder", biases=("decoder.bias",), **_MODERNBERT_HEAD),
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, last="classifier", **_MODERNBERT_HEAD
        ),
        "ForTokenClassification": Head(
            D.CLASSES, last="classifier", scores=D.SOFTMAX, **_MODERNBERT_HEAD
        ),
        "ForQuestionAnswering": SPANS._replace(last="classifier", **_MODERNBERT_HEAD),
        "ForMultipleChoice": choice("")._replace(**_MODERNBERT_HEAD),
    },
    fields={"layer_norm_eps": "norm_eps", "hidden_act": "hidden_activation"},
    harmless=words("""
        initializer_cutoff_factor attention_dropout embedding_dropout mlp_dropout
        deterministic_flash_attn sparse_prediction sparse_pred_ignore_index reference_compile
        repad_logits_with_grad decoder_bias classifier_bias classifier_activation layer_norm_eps
        position_embedding_type
    """),
)
