"""The decoder of ModernBERT (Ettin; Weller et al. 2025): a head before the matrix of the logits."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import FULL, NEWER, SLIDING
from phasor.families.llama_like import biases
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, words


def _modernbert(d: Decoder) -> None:
    """The first block has no norm before attention; all have one theta before transformers 5."""
    c, eps = d.config, d.kind["norm_eps"]
    biases(d)
    d.kind["norm_biases"] = d.flag("norm_bias")
    if not d.kind["norm_biases"]:
        d.bias_free = frozenset(("embedding_norm", "final_norm", "output_norm"))
    d.stack.update(embedding_norm=D.LAYER_NORM, embedding_norm_eps=eps)
    far = d.rotation("global_rope_theta", layer_type=FULL)
    newer, local = (c.version or 0) >= NEWER, c.get("local_rope_theta")
    near = d.rotation("local_rope_theta", layer_type=SLIDING) if newer else far
    if c.version is None and local != c.get("global_rope_theta"):
        raise c.error("local_rope_theta", "read from transformers 5 on; say transformers_version")
    every, window = c.whole("global_attn_every_n_layers"), c.whole("local_attention", 2) // 2
    given = c.get("sliding_window")
    if given not in (None, window):  # transformers 4 writes it, and does not read it
        what = f"half of local_attention, which is {c.get('local_attention')}"
        raise c.expected("sliding_window", given, what)
    d.sliding(lambda i: i % every, {**near, "window": window}, far)
    d.per_layer[0]["attention_norm"] = 0
    head = {"head_bias": d.flag("classifier_bias"), "head_norm": D.LAYER_NORM}
    d.output.update(
        bias=d.flag("decoder_bias"),
        head_width=d.stack["width"],
        head_activation=c.activation("classifier_activation"),
        head_norm_eps=eps,
        **head,
    )
    d.heads["ForSequenceClassification"] = Head(
        D.CLASSES,
        D.LAST,
        "head.dense",
        "classifier_activation",
        dense_bias=bool(head["head_bias"]),
        norm="head.norm",
        last="classifier",
        last_bias=bool(head["head_bias"]),
    )


MODERNBERT = Family(
    D.DECODER,
    ("modernbert-decoder",),
    ("ModernBertDecoderForCausalLM",),
    "model.",
    {
        "output": "decoder.weight",
        "output_head": "lm_head.dense.weight",
        "output_norm": "lm_head.norm.weight",
        **tensor_names(
            "layers.{layer}",
            """
            embedding       embeddings.tok_embeddings
            embedding_norm  embeddings.norm
            final_norm      final_norm
            q               .attn.q_proj
            k               .attn.k_proj
            v               .attn.v_proj
            attention_out   .attn.Wo
            attention_norm  .attn_norm
            ffn_in          .mlp.Wi
            ffn_gate        .mlp.Wi
            ffn_out         .mlp.Wo
            ffn_norm        .mlp_norm
            """,
        ),
    },
    settings("""
        vocab_size                  50368
        hidden_size                 768
        intermediate_size           1152
        num_hidden_layers           22
        num_attention_heads         12
        hidden_activation           "gelu"
        max_position_embeddings     8192
        norm_eps                    1e-5
        norm_bias                   false
        global_rope_theta           160000.0
        local_rope_theta            160000.0
        attention_bias              false
        mlp_bias                    false
        decoder_bias                true
        classifier_bias             false
        classifier_activation       "gelu"
        global_attn_every_n_layers  3
        local_attention             128
    """),
    adapt=_modernbert,
    fields={"rms_norm_eps": "norm_eps", "hidden_act": "hidden_activation"},
    harmless=words("""
        initializer_cutoff_factor attention_dropout embedding_dropout mlp_dropout
        reference_compile layer_norm_eps position_embedding_type
    """),
    newer={"local_rope_theta": 10000.0},
    norm=D.LAYER_NORM,
    gated=True,
    grouped=False,
)
