"""Nemotron (Parmar et al. 2024): the norms' weights are stored less one."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import NEWER
from phasor.families.llama_like import PLAIN_NAMES, biases, llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _nemotron(d: Decoder) -> None:
    """Before transformers 5 its code reads no rope_scaling."""
    biases(d)
    d.norm_offset = 1.0
    if (d.config.version or 0) < NEWER:
        d.config.must("rope_scaling", None)
    d.rotate(width=d.share())


NEMOTRON = llama_like(
    "nemotron",
    "NemotronForCausalLM",
    _nemotron,
    PLAIN_NAMES,
    settings("""
        vocab_size               256000
        hidden_size              6144
        intermediate_size        24576
        num_attention_heads      48
        hidden_act               "relu2"
        max_position_embeddings  4096
        norm_eps                 1e-5
        partial_rotary_factor    0.5
    """),
    fields={"rms_norm_eps": "norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)
