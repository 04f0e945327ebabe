"""GTE (Zhang et al. 2024) and Jina Embeddings 3 (Sturua et al. 2024) as transformers 5 has them:
BERT with rotary positions."""

from __future__ import annotations

from phasor.families.bert_like import ROBERTA_WORDS, SIZES, bert_heads, roberta_heads, rotary
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings

_INPUT = """
    embedding  embeddings.word_embeddings
    segments   embeddings.token_type_embeddings
"""
_GTE_NAMES = tensor_names(
    "encoder.layer.{layer}",
    f"""
    {_INPUT}
    embedding_norm  embeddings.LayerNorm
    qkv             .attention.qkv_proj
    attention_out   .attention.o_proj
    attention_norm  .attn_ln
    ffn_in          .mlp.up_gate_proj
    ffn_gate        .mlp.up_gate_proj
    ffn_out         .mlp.down_proj
    ffn_norm        .mlp_ln
    """,
)
_JINA_NAMES = tensor_names(
    "encoder.layers.{layer}",
    f"""
    {_INPUT}
    embedding_norm  emb_ln
    qkv             .mixer.Wqkv
    attention_out   .mixer.out_proj
    attention_norm  .norm1
    ffn_in          .mlp.fc1
    ffn_out         .mlp.fc2
    ffn_norm        .norm2
    """,
)


def _gte(e: Encoder) -> None:
    rotary(e)
    e.gate_last = True
    e.kind.update(gated=1, ffn_biases=D.BIAS_FFN_OUT)


GTE = Family(
    D.ENCODER,
    ("gte",),
    ("Gte",),
    "gte.",
    _GTE_NAMES,
    settings(
        """
        vocab_size               250048
        max_position_embeddings  8192
        type_vocab_size          1
        pad_token_id             1
        rope_theta               160000.0
        """,
        SIZES,
    ),
    adapt=_gte,
    heads={
        **bert_heads("gte.pooler.dense"),
        "ForMaskedLM": ROBERTA_WORDS._replace(
            norm="lm_head.norm", biases=("lm_head.decoder.bias",)
        ),
    },
)
JINA3 = Family(
    D.ENCODER,
    ("jina_embeddings_v3",),
    ("JinaEmbeddingsV3",),
    "roberta.",
    _JINA_NAMES,
    settings(
        """
        vocab_size               250002
        hidden_size              1024
        num_hidden_layers        24
        num_attention_heads      16
        intermediate_size        4096
        max_position_embeddings  8194
        type_vocab_size          1
        layer_norm_eps           1e-5
        pad_token_id             1
        rope_theta               20000.0
        """,
        SIZES,
    ),
    adapt=rotary,
    heads=roberta_heads("roberta.pooler.dense"),
)
