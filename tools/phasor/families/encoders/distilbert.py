"""DistilBERT (Sanh et al. 2019)."""

from __future__ import annotations

from phasor.families.bert_like import SIZES, SPANS, TOKENS, choice
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, table, words


def _distilbert(e: Encoder) -> None:
    e.config.must("layer_norm_eps", 1e-12)  # of the code


DISTILBERT = Family(
    D.ENCODER,
    ("distilbert",),
    ("DistilBert",),
    "distilbert.",
    tensor_names(
        "transformer.layer.{layer}",
        """
        embedding       embeddings.word_embeddings
        positions       embeddings.position_embeddings
        embedding_norm  embeddings.LayerNorm
        q               .attention.q_lin
        k               .attention.k_lin
        v               .attention.v_lin
        attention_out   .attention.out_lin
        attention_norm  .sa_layer_norm
        ffn_in          .ffn.lin1
        ffn_out         .ffn.lin2
        ffn_norm        .output_layer_norm
        """,
    ),
    settings(
        """
        n_layers    6
        n_heads     12
        dim         768
        hidden_dim  3072
        activation  "gelu"
        """,
        SIZES,
    ),
    adapt=_distilbert,
    heads={
        "Model": Head(unused=("vocab_transform.*", "vocab_layer_norm.*", "vocab_projector.*")),
        "ForMaskedLM": Head(
            D.LOGITS,
            dense="vocab_transform",
            activation="activation",
            norm="vocab_layer_norm",
            last="vocab_projector",
            biases=("vocab_projector.bias",),
        ),
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, "pre_classifier", D.RELU, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("pre_classifier", D.RELU),
    },
    fields=table("""
        hidden_size          dim
        num_hidden_layers    n_layers
        num_attention_heads  n_heads
        intermediate_size    hidden_dim
        hidden_act           activation
    """),
    # sinusoidal_pos_embds says how the table began; the table itself is among the weights.
    harmless=words("""
        sinusoidal_pos_embds dropout attention_dropout qa_dropout seq_classif_dropout
        tie_weights_
    """),
    wordpiece=True,
)
