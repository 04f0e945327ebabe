"""The text encoders of CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023)."""

from __future__ import annotations

from phasor.families.bert_like import norms_first
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import ACTIVATIONS
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, words

_QUICK = 1.702  # x·σ(1.702·x) is SiLU(1.702·x) / 1.702
_NAMES = tensor_names(
    "encoder.layers.{layer}",
    """
    embedding       embeddings.token_embedding
    positions       embeddings.position_embedding
    final_norm      final_layer_norm
    q               .self_attn.q_proj
    k               .self_attn.k_proj
    v               .self_attn.v_proj
    attention_out   .self_attn.out_proj
    attention_norm  .layer_norm1
    ffn_norm        .layer_norm2
    ffn_in          .mlp.fc1
    ffn_out         .mlp.fc2
    """,
)
_SIZES = settings("""
    vocab_size               49408
    hidden_size              512
    intermediate_size        2048
    projection_dim           512
    num_hidden_layers        12
    num_attention_heads      8
    max_position_embeddings  77
    hidden_act               "quick_gelu"
    layer_norm_eps           1e-5
    pad_token_id             1
    bos_token_id             49406
    eos_token_id             49407
""")
_HARMLESS = words("attention_dropout initializer_factor projection_dim projection_size dropout")


def _clip(e: Encoder) -> None:
    """Norms first, each position sees those before it; the vector is that of the end token, which
    is a text's last."""
    norms_first(e, embedding_norm=False)
    e.kind["causal"] = 1
    if e.config.get("hidden_act") == "quick_gelu":
        e.ffn_factor = _QUICK
    if e.head.pooling:
        e.head = e.head._replace(dense_width=e.config.whole("projection_dim"))
        e.notes.append("the vector is that of a text's last token, which is its only end token")


CLIP = Family(
    D.ENCODER,
    ("clip_text_model",),
    ("CLIPText",),
    "text_model.",
    _NAMES,
    _SIZES,
    adapt=_clip,
    heads={
        "Model": Head(unused=("text_projection.*",)),
        "ModelWithProjection": Head(D.POOLED, D.LAST, "text_projection", dense_bias=False),
    },
    harmless=_HARMLESS,
    activations={**ACTIVATIONS, "quick_gelu": D.SILU},
)


def _siglip(e: Encoder) -> None:
    """Each position sees all; the vector is that of the last position, mostly of padding."""
    norms_first(e, embedding_norm=False)
    width = e.config.whole("projection_size", default=e.stack["width"])
    e.head = e.head._replace(dense=f"{e.trunk}head", dense_width=width)


SIGLIP = Family(
    D.ENCODER,
    ("siglip_text_model",),
    ("SiglipText",),
    "text_model.",
    _NAMES,
    settings(
        """
        vocab_size               32000
        hidden_size              768
        intermediate_size        3072
        num_attention_heads      12
        max_position_embeddings  64
        hidden_act               "gelu_pytorch_tanh"
        layer_norm_eps           1e-6
        """,
        _SIZES,
    ),
    adapt=_siglip,
    heads={"Model": Head(D.POOLED, D.LAST)},
    harmless=_HARMLESS,
    tokenizer_code="SigLIP pads each text to max_position_embeddings ids (--ids)",
)
