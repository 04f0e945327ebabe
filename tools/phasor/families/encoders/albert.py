"""ALBERT (Lan et al. 2020): groups of layers that share their tensors."""

from __future__ import annotations

from phasor.families.bert_like import SIZES, SPANS, TOKENS, choice
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, words

_ALBERT_WORDS = Head(
    D.LOGITS,
    dense="predictions.dense",
    activation="hidden_act",
    norm="predictions.LayerNorm",
    last="predictions.decoder",
    biases=("predictions.bias", "predictions.decoder.bias"),
    unused=("pooler.*", "sop_classifier.*"),
)


def _albert(e: Encoder) -> None:
    e.segments()
    e.relative_keys(
        e.kind["head_width"] ** 0.5
    )  # its code adds the relative scores after it has divided
    e.embedding_width()
    if "embedding_width" not in e.stack:
        raise e.config.error(
            "embedding_size", "a projection from the width to itself is not supported"
        )
    groups, inner = (
        e.config.whole("num_hidden_groups"),
        e.config.whole("inner_group_num", 1, D.MAX_LAYERS // e.count),
    )
    order = [
        (int(i / (e.count / groups)), j) for i in range(e.count) for j in range(inner)
    ]  # as AlbertTransformer.forward
    sets = list(dict.fromkeys(order))
    e.per_layer, e.sets = [{} for _ in order], [sets.index(place) for place in order]
    e.places = [{"group": group, "inner": j} for group, j in sets]


ALBERT = Family(
    D.ENCODER,
    ("albert",),
    ("Albert",),
    "albert.",
    tensor_names(
        "encoder.albert_layer_groups.{group}.albert_layers.{inner}",
        """
        embedding       embeddings.word_embeddings
        positions       embeddings.position_embeddings
        segments        embeddings.token_type_embeddings
        embedding_norm  embeddings.LayerNorm
        projection      encoder.embedding_hidden_mapping_in
        q               .attention.query
        k               .attention.key
        v               .attention.value
        attention_out   .attention.dense
        attention_norm  .attention.LayerNorm
        ffn_in          .ffn
        ffn_out         .ffn_output
        ffn_norm        .full_layer_layer_norm
        relative_keys   .attention.distance_embedding
        """,
    ),
    settings(
        """
        vocab_size           30000
        embedding_size       128
        hidden_size          4096
        num_attention_heads  64
        intermediate_size    16384
        hidden_act           "gelu_new"
        num_hidden_groups    1
        inner_group_num      1
        """,
        SIZES,
    ),
    adapt=_albert,
    heads={
        "Model": Head(unused=("pooler.*", "predictions.*", "sop_classifier.*")),
        "ForMaskedLM": _ALBERT_WORDS,
        "ForPreTraining": _ALBERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, D.FIRST, "albert.pooler", D.TANH, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("albert.pooler"),
    },
    harmless=words("down_scale_factor gap_size net_structure_type num_memory_blocks"),
)
