"""Granite (IBM 2024): factors."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like
from phasor.families.model import single
from phasor.values import settings


def _granite(d: Decoder) -> None:
    biases(d)
    d.kind.update(
        scale=single(d.config.positive("attention_multiplier")),
        residual_scale=single(d.config.positive("residual_multiplier")),
    )
    d.stack["embedding_scale"] = single(d.config.positive("embedding_multiplier"))
    d.output["scale"] = single(1 / d.config.positive("logits_scaling"))
    d.rotate()


GRANITE = llama_like(
    "granite",
    "GraniteForCausalLM",
    _granite,
    defaults=settings("""
        attention_multiplier  1.0
        residual_multiplier   1.0
        embedding_multiplier  1.0
        logits_scaling        1.0
    """),
)
