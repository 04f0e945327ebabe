"""The encoders that transformers has, as tables. Each is tested against transformers itself
(docs/families.md)."""

from __future__ import annotations

import numpy as np

from phasor.families.encoder import Encoder, Family
from phasor.families.heads import Head
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import t5_buckets
from phasor.values import settings, table, words

FIRST, TANH = D.FIRST, D.TANH
SIZES = settings("""
    vocab_size               30522
    hidden_size              768
    num_hidden_layers        12
    num_attention_heads      12
    intermediate_size        3072
    hidden_act               "gelu"
    max_position_embeddings  512
    type_vocab_size          2
    layer_norm_eps           1e-12
    position_embedding_type  "absolute"
    pad_token_id             0
""")
POOLER = ("pooler.*",)


# ---- BERT (Devlin et al. 2019) and those that keep its names

BERT_NAMES = tensor_names(
    "encoder.layer.{layer}",
    """
    embedding       embeddings.word_embeddings
    positions       embeddings.position_embeddings
    segments        embeddings.token_type_embeddings
    embedding_norm  embeddings.LayerNorm
    relative_keys   .attention.self.distance_embedding
    q               .attention.self.query
    k               .attention.self.key
    v               .attention.self.value
    attention_out   .attention.output.dense
    attention_norm  .attention.output.LayerNorm
    ffn_in          .intermediate.dense
    ffn_out         .output.dense
    ffn_norm        .output.LayerNorm
    """,
)
BERT_WORDS = Head(
    D.LOGITS,
    dense="cls.predictions.transform.dense",
    activation="hidden_act",
    norm="cls.predictions.transform.LayerNorm",
    last="cls.predictions.decoder",
    biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
    unused=("pooler.*", "cls.seq_relationship.*"),
)
BARE = Head(unused=("pooler.*", "cls.*", "lm_head.*"))
TOKENS = Head(D.CLASSES, last="classifier", unused=POOLER, scores=D.SOFTMAX)
# Of each token, how well an answer begins and how well it ends there (phasor answer).
SPANS = Head(
    D.CLASSES,
    last="qa_outputs",
    unused=POOLER,
    fixed_classes=("start", "end"),
    scores=D.PLAIN,
)


def choice(pooler: str, activation: int | str = TANH) -> Head:
    """Of a text and one of several choices, how well they go together (phasor rank)."""
    return Head(
        D.CLASSES,
        FIRST,
        pooler,
        activation,
        last="classifier",
        fixed_classes=("choice",),
        scores=D.PLAIN,
    )


def _bert(e: Encoder) -> None:
    e.segments()
    e.relative_keys()


BERT = Family(
    ("bert",),
    ("Bert",),
    "bert.",
    BERT_NAMES,
    {
        "Model": BARE,
        "ForMaskedLM": BERT_WORDS,
        "ForPreTraining": BERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, FIRST, "bert.pooler.dense", TANH, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("bert.pooler.dense"),
    },
    SIZES,
    harmless=words("""
        pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
        pooler_type
    """),
    adapt=_bert,
    wordpiece=True,
)


# ---- RoBERTa (Liu et al. 2019), XLM-R, CamemBERT: positions begin after the padding id

_ROBERTA_WORDS = Head(
    D.LOGITS,
    dense="lm_head.dense",
    activation=D.GELU_ERF,
    norm="lm_head.layer_norm",
    last="lm_head.decoder",
    biases=("lm_head.bias", "lm_head.decoder.bias"),
    unused=POOLER,
)
_ROBERTA_CLASSES = Head(
    D.CLASSES, FIRST, "classifier.dense", TANH, last="classifier.out_proj", unused=POOLER
)


def _roberta(e: Encoder) -> None:
    _bert(e)
    if e.stack["position"] == D.LEARNED:
        e.skip_positions(e.config.whole("pad_token_id", 0) + 1)


ROBERTA = Family(
    ("roberta", "xlm-roberta", "camembert"),
    ("Roberta", "XLMRoberta", "Camembert"),
    "roberta.",
    BERT_NAMES,
    {
        "Model": BARE,
        "ForMaskedLM": _ROBERTA_WORDS,
        "ForSequenceClassification": _ROBERTA_CLASSES,
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("roberta.pooler.dense"),
    },
    {**SIZES, "pad_token_id": 1},
    adapt=_roberta,
)


# ---- DistilBERT (Sanh et al. 2019)


def _distilbert(e: Encoder) -> None:
    e.config.must("layer_norm_eps", 1e-12)  # of the code


DISTILBERT = Family(
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
    {
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
            D.CLASSES, FIRST, "pre_classifier", D.RELU, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("pre_classifier", D.RELU),
    },
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
    adapt=_distilbert,
    wordpiece=True,
)


# ---- MPNet (Song et al. 2020): a relative bias in the buckets of T5

_MPNET_BUCKETS, _MPNET_DISTANCE = 32, 128  # of the code; config.json may only repeat the first


def _mpnet(e: Encoder) -> None:
    e.config.must("relative_attention_num_buckets", _MPNET_BUCKETS)
    e.skip_positions(2)  # padding_idx is 1 in the code
    heads = e.kind["heads"]
    table = e.load(
        e.trunk + "encoder.relative_attention_bias.weight", "relative bias", (_MPNET_BUCKETS, heads)
    )
    e.kind.update(position=D.T5_BIAS, max_distance=_MPNET_DISTANCE)
    buckets = t5_buckets(
        np.arange(-_MPNET_DISTANCE, _MPNET_DISTANCE + 1),
        _MPNET_BUCKETS,
        _MPNET_DISTANCE,
        two_sided=True,
    )
    e.values[R.KINDS << 24 | R.T5_BIAS] = np.ascontiguousarray(table[buckets].T)


MPNET = Family(
    ("mpnet",),
    ("MPNet",),
    "mpnet.",
    tensor_names(
        "encoder.layer.{layer}",
        """
        embedding       embeddings.word_embeddings
        positions       embeddings.position_embeddings
        embedding_norm  embeddings.LayerNorm
        q               .attention.attn.q
        k               .attention.attn.k
        v               .attention.attn.v
        attention_out   .attention.attn.o
        attention_norm  .attention.LayerNorm
        ffn_in          .intermediate.dense
        ffn_out         .output.dense
        ffn_norm        .output.LayerNorm
        """,
    ),
    {
        "Model": BARE,
        "ForMaskedLM": _ROBERTA_WORDS,
        "ForSequenceClassification": _ROBERTA_CLASSES,
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("mpnet.pooler.dense"),
    },
    {**SIZES, "vocab_size": 30527, "pad_token_id": 1},
    adapt=_mpnet,
    wordpiece=True,
)


# ---- ALBERT (Lan et al. 2020): groups of layers that share their tensors

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
        raise e.config.error("embedding_size", "a projection from the width to itself is not built")
    groups, inner = (
        e.config.whole("num_hidden_groups"),
        e.config.whole("inner_group_num", 1, D.MAX_LAYERS // e.count),
    )
    order = [
        (int(i / (e.count / groups)), j) for i in range(e.count) for j in range(inner)
    ]  # as AlbertTransformer.forward
    sets = list(dict.fromkeys(order))
    e.layers = [(0, sets.index(place)) for place in order]
    e.places = [{"group": group, "inner": j} for group, j in sets]


ALBERT = Family(
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
    {
        "Model": Head(unused=("pooler.*", "predictions.*", "sop_classifier.*")),
        "ForMaskedLM": _ALBERT_WORDS,
        "ForPreTraining": _ALBERT_WORDS,
        "ForSequenceClassification": Head(
            D.CLASSES, FIRST, "albert.pooler", TANH, last="classifier"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice("albert.pooler"),
    },
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
    harmless=words("down_scale_factor gap_size net_structure_type num_memory_blocks"),
    adapt=_albert,
)


# ---- ELECTRA (Clark et al. 2020)


def _electra(e: Encoder) -> None:
    _bert(e)
    e.embedding_width()
    if e.head.dense == _SUMMARY:
        e.config.must("summary_type", "first")
        e.config.must("summary_use_proj", True)


_SUMMARY = "sequence_summary.summary"
ELECTRA = Family(
    ("electra",),
    ("Electra",),
    "electra.",
    {**BERT_NAMES, "projection": "embeddings_project.weight"},
    {
        "Model": Head(
            unused=("generator_predictions.*", "generator_lm_head.*", "discriminator_predictions.*")
        ),
        "ForMaskedLM": Head(
            D.LOGITS,
            dense="generator_predictions.dense",
            activation=D.GELU_ERF,
            norm="generator_predictions.LayerNorm",
            last="generator_lm_head",
            biases=("generator_lm_head.bias",),
        ),
        "ForPreTraining": Head(
            D.CLASSES,
            dense="discriminator_predictions.dense",
            activation="hidden_act",
            last="discriminator_predictions.dense_prediction",
            fixed_classes=("replaced",),
            scores=D.SIGMOID,
        ),
        "ForSequenceClassification": Head(
            D.CLASSES, FIRST, "classifier.dense", D.GELU_ERF, last="classifier.out_proj"
        ),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice(_SUMMARY, "summary_activation"),
    },
    settings(
        """
        hidden_size          256
        embedding_size       128
        num_attention_heads  4
        intermediate_size    1024
        summary_activation   "gelu"
        """,
        SIZES,
    ),
    harmless=words("summary_type summary_use_proj summary_activation summary_last_dropout"),
    adapt=_electra,
    wordpiece=True,
)


FAMILIES = (BERT, ROBERTA, DISTILBERT, MPNET, ALBERT, ELECTRA)
