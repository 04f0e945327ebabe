"""MPNet (Song et al. 2020): a relative bias in the buckets of T5."""

from __future__ import annotations

import numpy as np

from phasor.families.bert_like import SIZES, roberta_heads
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import t5_buckets

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
    e.kind["tables"] = {R.T5_BIAS: np.ascontiguousarray(table[buckets].T)}


MPNET = Family(
    D.ENCODER,
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
    {**SIZES, "vocab_size": 30527, "pad_token_id": 1},
    adapt=_mpnet,
    heads=roberta_heads("mpnet.pooler.dense"),
    wordpiece=True,
)
