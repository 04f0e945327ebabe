"""EuroBERT (Boizard et al. 2025): the blocks of Llama, each position of which sees all."""

from __future__ import annotations

from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.llama_like import BUFFERS, DROPPED, SIZES, llama_names
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings, words


def _eurobert(e: Encoder) -> None:
    c, kind, eps = e.config, e.kind, e.kind["norm_eps"]
    width = c.whole("head_dim", high=4096, default=kind["head_width"])
    e.stack = {
        **{"width": e.stack["width"], "max_positions": e.positions},
        **{"final_norm": D.RMS_NORM, "final_norm_eps": eps},
    }
    kind.update(
        norm=D.RMS_NORM,
        norm_place=D.BEFORE,
        head_width=width,
        scale=single(width**-0.5),
        kv_heads=c.whole("num_key_value_heads", 1, kind["heads"], default=kind["heads"]),
        gated=1,
        attention_biases=D.ATTENTION_BIASES * e.flag("attention_bias"),
        ffn_biases=D.FFN_BIASES * e.flag("mlp_bias"),
    )
    kind.update(e.rotation())
    if e.head.output == D.LOGITS and e.flag("mlp_bias"):
        e.head = e.head._replace(biases=("lm_head.bias",))
    if e.head.pooling:
        e.head = e.head._replace(
            pooling=c.choice("classifier_pooling", {"bos": D.FIRST, "mean": D.MEAN})
        )


_CLASSES = Head(D.CLASSES, D.FIRST, "dense", D.GELU_ERF, last="classifier")
EUROBERT = Family(
    D.ENCODER,
    ("eurobert",),
    ("EuroBert",),
    "model.",
    llama_names(),
    settings(
        """
        vocab_size               128256
        hidden_size              768
        num_hidden_layers        12
        num_attention_heads      12
        intermediate_size        3072
        max_position_embeddings  8192
        rms_norm_eps             1e-5
        pad_token_id             128001
        classifier_pooling       "late"
        """,
        SIZES,
    ),
    adapt=_eurobert,
    heads={
        "Model": Head(unused=("lm_head.*",)),
        "ForMaskedLM": Head(D.LOGITS, last="lm_head"),
        "ForSequenceClassification": _CLASSES,
        "ForTokenClassification": Head(D.CLASSES, last="classifier", scores=D.SOFTMAX),
    },
    fields={"layer_norm_eps": "rms_norm_eps"},
    harmless=(
        *DROPPED,
        *words("classifier_pooling clf_pooling bos_token eos_token pad_token mask_token"),
    ),
    unused=BUFFERS,
    custom_code=True,
)
