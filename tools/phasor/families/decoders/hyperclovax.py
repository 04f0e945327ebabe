"""HyperCLOVA X SEED (NAVER 2025): Granite's factors, and norms of what the sub-layers give."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like, llama_names
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings


def _hyperclovax(d: Decoder) -> None:
    biases(d)
    c = d.config
    if c.get("attention_multiplier") is not None:
        d.kind["scale"] = single(c.positive("attention_multiplier"))
    d.stack["embedding_scale"] = single(c.positive("embedding_multiplier"))
    d.output["scale"] = single(c.positive("logits_scaling"))
    if d.flag("use_post_norm"):
        c.must("residual_multiplier", 1)  # here it would come before the norm, there it is behind
        d.kind["norm_place"] = D.BOTH
    else:
        d.kind["residual_scale"] = single(c.positive("residual_multiplier"))
    d.rotate()


HYPERCLOVAX = llama_like(
    "hyperclovax",
    "HyperCLOVAXForCausalLM",
    _hyperclovax,
    llama_names(attention_after="post_norm1", ffn_after="post_norm2"),
    settings("""
        embedding_multiplier  1.0
        logits_scaling        1.0
        residual_multiplier   1.0
        use_post_norm         true
    """),
)
