"""DeBERTa (He et al. 2021) and its second and third version (He et al. 2023), whose attention has
tables of its own for what a position means to a query and to a key.

The tables are a layer's projections of one embedding of distances: they depend on no token, so the
file has them multiplied out, for each distance. A sequence has at most max_position_embeddings
positions. Tested against transformers itself (docs/reference/families.md)."""

from __future__ import annotations

import math

import numpy as np

from phasor.families.bert_like import BERT_WORDS, SIZES, SPANS, choice
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import Config
from phasor.families.model import BUFFER, single
from phasor.families.names import bias_name, tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words

# The terms of a score beside q·k: of content and position, and of position and content.
_TERMS = {"c2p": R.RELATIVE_KEYS, "p2c": R.RELATIVE_QUERIES}
_WHAT = {"c2p": "relative keys", "p2c": "relative queries"}


def log_buckets(distances: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """The second version's buckets of distances (any sign), −buckets … buckets: up to buckets // 2
    each distance has its own, from there on they widen up to `longest`. In float32, as the library
    computes them: rounding decides where a bucket ends. A logarithm is the one that is nearest;
    numpy's and PyTorch's in float32 are not the same on all processors."""
    middle = buckets // 2
    away = np.where(np.abs(distances) < middle, max(middle - 1, 1), np.abs(distances))
    grows = (np.float32(away) / np.float32(middle)).astype(np.float64)
    most = math.log(np.float32((longest - 1) / middle))
    ratio = np.log(grows).astype(np.float32) / np.float32(most)
    wide = np.ceil(ratio * np.float32(middle - 1)).astype(np.int64) + middle
    return np.where(np.abs(distances) <= middle, distances, wide * np.sign(distances))


def _terms(c: Config) -> list[str]:
    """pos_att_type: a list, or its names with a bar between them."""
    value = c.get("pos_att_type", [])
    names = [n.strip() for n in value.lower().split("|")] if isinstance(value, str) else value
    known = isinstance(names, list) and all(isinstance(n, str) and n in _TERMS for n in names)
    if not known or len(set(names)) != len(names):
        raise c.expected("pos_att_type", value, "c2p, p2c or both")
    return names


def _first(e: Encoder) -> None:
    e.config.must("talking_head", False)
    for i in range(e.count):  # q, k and v of one head after the other's; k has no bias
        width, heads, w = e.stack["width"], e.kind["heads"], e.kind["head_width"]
        fused = e.load(e.name("qkv", i), "q,k,v", (3 * width, width))
        parts = fused.reshape(heads, 3, w, width).transpose(1, 0, 2, 3)
        e.values[R.key_of(R.ENCODER, i, R.QKV)] = np.ascontiguousarray(parts).reshape(fused.shape)
        q, v = (e.load(e.name(n, i), "q,k,v bias", (width,)) for n in ("q_bias", "v_bias"))
        e.values[R.key_of(R.ENCODER, i, R.QKV + 1)] = np.concatenate([q, np.zeros_like(q), v])
    _shared(e, {"c2p": ("pos_proj", False), "p2c": ("pos_q_proj", True)})


def _second(e: Encoder) -> None:
    c = e.config
    c.must("attention_head_size", e.kind["head_width"])
    c.must("conv_kernel_size", 0)
    norms = [name.strip() for name in c.text("norm_rel_ebd").lower().split("|")]
    if not set(norms) <= {"none", "layer_norm"}:
        raise c.expected("norm_rel_ebd", c.get("norm_rel_ebd"), "none or layer_norm")
    shared = c.flag("share_att_key")
    _shared(
        e,
        {"c2p": ("k" if shared else "pos_k", True), "p2c": ("q" if shared else "pos_q", True)},
        c.whole("position_buckets", -1),
        "layer_norm" in norms,
    )


def _shared(
    e: Encoder, projections: dict[str, tuple[str, bool]], buckets: int = -1, normed: bool = False
) -> None:
    """projections: by term, the part that projects the distances, and whether it has a bias."""
    c, width, positions = e.config, e.stack["width"], e.stack["max_positions"]
    e.segments()
    if not c.flag("position_biased_input"):
        e.stack["position"] = 0
        e.ignore[e.trunk + e.names["positions"]] = BUFFER
    inner = c.whole("embedding_size", high=D.MAX_WIDTH, default=width)
    if inner != width:
        if e.stack["position"] or "segments" in e.stack:
            raise c.error(
                "embedding_size", f"{inner}, with positions or token types, is not supported"
            )
        e.stack.update(embedding_width=inner, projection_place=1)
    c.must("pooler_hidden_size", width)
    if not c.flag("legacy") and e.head.output == D.LOGITS:
        e.head = _LATER_WORDS
    terms = _terms(c)
    e.kind["scale"] = single((e.kind["head_width"] * (1 + len(terms))) ** -0.5)
    relative, span = c.flag("relative_attention"), c.whole("max_relative_positions", -1)
    if not relative:
        return
    span = positions if span < 1 else span
    distances = np.arange(positions - 1, -positions, -1)  # i − j, of j − i counting up
    if buckets > 0:
        if buckets < 2 or span - 1 <= buckets // 2:
            raise c.error("position_buckets", f"{buckets} for {span} positions is not supported")
        distances, span = log_buckets(distances, buckets, span), buckets
    name = e.trunk + "encoder.rel_embeddings.weight"
    table = e.load(name, "embedding of distances", (2 * span, width)).astype(np.float64)
    if normed:
        eps, norm = e.stack["embedding_norm_eps"], e.trunk + "encoder.LayerNorm.weight"
        table = table - table.mean(axis=1, keepdims=True)
        table /= np.sqrt((table * table).mean(axis=1, keepdims=True) + eps)
        what = "norm of distances"
        table *= e.load(norm, what, (width,))
        table += e.load(bias_name(norm), what, (width,))
    entries = np.clip(distances + span, 0, 2 * span - 1)
    e.kind.update(position=D.DISENTANGLED, max_distance=positions)
    for i in range(e.count):
        for term, role in _TERMS.items():
            values = np.zeros((len(table), width))
            if term in terms:
                part, biased = projections[term]
                weight = e.name(part, i)
                values = table @ e.load(weight, _WHAT[term], (width, width)).astype(np.float64).T
                if biased:
                    values += e.load(bias_name(weight), _WHAT[term], (width,))
            e.values[R.key_of(R.ENCODER, i, role)] = np.ascontiguousarray(
                values[entries].T, dtype=np.float32
            )


_COMMON = """
    embedding       embeddings.word_embeddings
    positions       embeddings.position_embeddings
    segments        embeddings.token_type_embeddings
    embedding_norm  embeddings.LayerNorm
    projection      embeddings.embed_proj
    attention_out   .attention.output.dense
    attention_norm  .attention.output.LayerNorm
    ffn_in          .intermediate.dense
    ffn_out         .output.dense
    ffn_norm        .output.LayerNorm
"""
_WORDS = ("cls.*", "lm_predictions.*", "mask_predictions.*")
_LEGACY_WORDS = BERT_WORDS._replace(unused=("lm_predictions.*", "mask_predictions.*"))
# Of configurations with legacy false: its logits are always of the embedding.
_LATER_WORDS = Head(
    D.LOGITS,
    dense="lm_predictions.lm_head.dense",
    activation="hidden_act",
    norm="lm_predictions.lm_head.LayerNorm",
    biases=("lm_predictions.lm_head.bias",),
    unused=("cls.*", "mask_predictions.*"),
)
_HEADS = {
    "Model": Head(unused=_WORDS),
    "ForMaskedLM": _LEGACY_WORDS,
    "ForSequenceClassification": Head(
        D.CLASSES,
        D.FIRST,
        "pooler.dense",
        "pooler_hidden_act",
        last="classifier",
        unused=_WORDS,
    ),
    "ForTokenClassification": Head(D.CLASSES, last="classifier", scores=D.SOFTMAX, unused=_WORDS),
    "ForQuestionAnswering": SPANS._replace(unused=(*_WORDS, "pooler.*")),
}
_SIZES = settings(
    """
    vocab_size               50265
    type_vocab_size          0
    layer_norm_eps           1e-7
    relative_attention       false
    max_relative_positions   -1
    position_biased_input    true
    pooler_hidden_act        "gelu"
    legacy                   true
""",
    SIZES,
)
_HARMLESS = words("pooler_dropout cls_dropout padding_idx pooler_hidden_act")
DEBERTA = Family(
    D.ENCODER,
    ("deberta",),
    ("Deberta",),
    "deberta.",
    {
        **tensor_names("encoder.layer.{layer}", _COMMON),
        **tensor_names(
            "encoder.layer.{layer}.attention.self",
            """
            qkv         .in_proj
            pos_proj    .pos_proj
            pos_q_proj  .pos_q_proj
            """,
        ),
        "q_bias": "encoder.layer.{layer}.attention.self.q_bias",
        "v_bias": "encoder.layer.{layer}.attention.self.v_bias",
    },
    _SIZES,
    adapt=_first,
    heads=_HEADS,
    harmless=_HARMLESS,
)
DEBERTA_V2 = Family(
    D.ENCODER,
    ("deberta-v2",),
    ("DebertaV2",),
    "deberta.",
    {
        **tensor_names("encoder.layer.{layer}", _COMMON),
        **tensor_names(
            "encoder.layer.{layer}.attention.self",
            """
            q      .query_proj
            k      .key_proj
            v      .value_proj
            pos_q  .pos_query_proj
            pos_k  .pos_key_proj
            """,
        ),
    },
    settings(
        """
        vocab_size           128100
        hidden_size          1536
        num_hidden_layers    24
        num_attention_heads  24
        intermediate_size    6144
        position_buckets     -1
        norm_rel_ebd         "none"
        share_att_key        false
        """,
        _SIZES,
    ),
    adapt=_second,
    heads={
        **_HEADS,
        "ForMultipleChoice": choice("pooler.dense", "pooler_hidden_act")._replace(unused=_WORDS),
    },
    # Of a convolution, which is refused by its size.
    harmless=(*_HARMLESS, "conv_act", "conv_groups"),
)
