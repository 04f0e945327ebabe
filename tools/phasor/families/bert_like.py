"""What BERT (Devlin et al. 2019) and the encoders that keep its names have alike."""

from __future__ import annotations

from phasor.families.encoder import Encoder
from phasor.families.heads import Head
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings

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
    cross_q         .crossattention.self.query
    cross_k         .crossattention.self.key
    cross_v         .crossattention.self.value
    cross_out       .crossattention.output.dense
    cross_norm      .crossattention.output.LayerNorm
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
ROBERTA_WORDS = Head(
    D.LOGITS,
    dense="lm_head.dense",
    activation=D.GELU_ERF,
    norm="lm_head.layer_norm",
    last="lm_head.decoder",
    biases=("lm_head.bias", "lm_head.decoder.bias"),
    unused=POOLER,
)
ROBERTA_CLASSES = Head(
    D.CLASSES, D.FIRST, "classifier.dense", D.TANH, last="classifier.out_proj", unused=POOLER
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


def choice(pooler: str, activation: int | str = D.TANH) -> Head:
    """Of a text and one of several choices, how well they go together (phasor rank)."""
    return Head(
        D.CLASSES,
        D.FIRST,
        pooler,
        activation,
        last="classifier",
        fixed_classes=("choice",),
        scores=D.PLAIN,
    )


def bert_heads(pooler: str) -> dict[str, Head]:
    """The classes of BERT; pooler: the module that makes one vector of the first token's."""
    one = Head(D.CLASSES, D.FIRST, pooler, D.TANH)
    follows = one._replace(
        last="cls.seq_relationship",
        fixed_classes=("is_next", "not_next"),
        scores=D.SOFTMAX,
        unused=("cls.predictions.*",),
    )
    return {
        "Model": BARE,
        "ForMaskedLM": BERT_WORDS,
        "ForPreTraining": BERT_WORDS,
        "ForNextSentencePrediction": follows,
        "ForSequenceClassification": one._replace(last="classifier"),
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice(pooler),
    }


def roberta_heads(pooler: str) -> dict[str, Head]:
    """The classes of RoBERTa."""
    return {
        "Model": BARE,
        "ForMaskedLM": ROBERTA_WORDS,
        "ForSequenceClassification": ROBERTA_CLASSES,
        "ForTokenClassification": TOKENS,
        "ForQuestionAnswering": SPANS,
        "ForMultipleChoice": choice(pooler),
    }


def norms_first(e: Encoder, embedding_norm: bool = True) -> None:
    """Norms before each sub-layer, and one behind the last block."""
    eps = e.kind["norm_eps"]
    e.kind["norm_place"] = D.BEFORE
    e.stack.update(final_norm=D.LAYER_NORM, final_norm_eps=eps)
    if not embedding_norm:
        del e.stack["embedding_norm"], e.stack["embedding_norm_eps"]


def rotary(e: Encoder) -> None:
    """Rotary positions in place of the learned ones."""
    e.segments()
    e.stack["position"] = 0
    e.kind.update(e.rotation())


def bert(e: Encoder) -> None:
    e.segments()
    e.relative_keys()
