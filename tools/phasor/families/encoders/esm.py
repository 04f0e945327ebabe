"""ESM-1b and ESM-2 (Rives et al. 2021; Lin et al. 2023): proteins, a letter a token."""

from __future__ import annotations

import numpy as np

from phasor.families.bert_like import BERT_NAMES, SIZES, norms_first, roberta_heads
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.hf_config import NEWER
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words

_KEPT = 1 - 0.15 * 0.8  # the share of letters that are not masked in training, of its code
_THETA, _RATES = 10000.0, "rotary_embeddings.inv_freq"


def _dropout(e: Encoder) -> None:
    """With token_dropout, embeddings are multiplied by (share of unmasked tokens in training) /
    (share in the text). In a text without masks this is a constant; the id of the mask is left out
    of the vocabulary."""
    c = e.config
    if e.head.output == D.LOGITS:
        what = "true scales a text by the share of its masks: not supported with masked words"
        raise c.error("token_dropout", f'{what}; for vectors set architectures to ["EsmModel"]')
    mask = c.whole("mask_token_id")
    if mask != e.side["vocabulary"] - 1:
        raise c.error("mask_token_id", f"{mask}, expected the last id, for token_dropout drops it")
    rows = e.load(e.name("embedding"), "embedding", (mask + 1, e.stack["width"]))
    e.values[R.key_of(R.SOURCE, 0, R.EMBEDDING)] = rows[:-1]
    e.side["vocabulary"] = mask
    e.stack["embedding_scale"] = single(_KEPT)
    e.notes.append(f"token_dropout: the file takes no mask (id {mask}), which changes the others")


def _rotary(e: Encoder) -> None:
    """The frequencies are the checkpoint's, where it has them: some were made in float16."""
    c = e.config
    if (c.version or 0) < NEWER:
        c.must("rope_theta", _THETA)
    e.stack["position"] = 0
    e.kind.update(e.rotation(fixed=c.checked_base("rope_theta", c.number("rope_theta"))))
    for i, own in enumerate(e.per_layer):
        # The last is what transformers 5 writes.
        places = (_RATES, *(f"encoder.layer.{n}.attention.self.{_RATES}" for n in (i, "*")))
        name = next((e.trunk + n for n in places if e.trunk + n in e.checkpoint), None)
        if name is not None:
            rates = e.load(name, "frequencies", (e.kind["head_width"] // 2,))
            own["tables"] = {R.ROTARY: rates.astype(np.float64)}


def _esm(e: Encoder) -> None:
    c = e.config
    norms_first(e, bool(c.get("emb_layer_norm_before")))
    if c.get("token_dropout"):
        _dropout(e)
    if c.choice("position_embedding_type", {"absolute": False, "rotary": True}):
        _rotary(e)
    else:
        e.skip_positions(c.whole("pad_token_id", 0) + 1)


ESM = Family(
    D.ENCODER,
    ("esm",),
    ("Esm",),
    "esm.",
    {
        **BERT_NAMES,
        "embedding_norm": "embeddings.layer_norm.weight",
        "attention_norm": "encoder.layer.{layer}.attention.LayerNorm.weight",
        "ffn_norm": "encoder.layer.{layer}.LayerNorm.weight",
        "final_norm": "encoder.emb_layer_norm_after.weight",
    },
    settings(
        """
        vocab_size               null
        pad_token_id             null
        max_position_embeddings  1026
        rope_theta               10000.0
        """,
        SIZES,
    ),
    adapt=_esm,
    heads={
        end: head._replace(unused=(*head.unused, "contact_head.*"))
        for end, head in roberta_heads("").items()
        if "Choice" not in end and "Answering" not in end
    },
    harmless=words("vocab_list esmfold_config rope_theta"),
    neutral={"is_folding_model": [False]},
    activations={"gelu": D.GELU_ERF},
    tokenizer_code="ESM looks up the letters of a protein; ids go in as they are (--ids)",
)
