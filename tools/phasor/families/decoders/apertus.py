"""Apertus (Swiss AI 2025): an activation with trained numbers."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import ACTIVATIONS
from phasor.families.llama_like import llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings

_APERTUS_SCALING = settings("""
    rope_type                         "llama3"
    factor                            8.0
    original_max_position_embeddings  8192
    low_freq_factor                   1.0
    high_freq_factor                  4.0
""")


def _apertus(d: Decoder) -> None:
    d.kind.update(
        attention_biases=D.ATTENTION_BIASES * d.flag("attention_bias"), qk_norm=D.RMS_NORM
    )
    if d.kind["activation"] == D.XIELU:
        d.names["xielu"] = "layers.{layer}.mlp.act_fn."
    values = d.config.values
    if "rope_scaling" not in values and "rope_parameters" not in values:  # null would be none
        values["rope_scaling"] = dict(_APERTUS_SCALING)
    d.rotate()


APERTUS = llama_like(
    "apertus",
    "ApertusForCausalLM",
    _apertus,
    llama_names(
        attention_norm="attention_layernorm", ffn_norm="feedforward_layernorm", ffn_gate=None
    ),
    settings("""
        vocab_size               131072
        intermediate_size        14336
        hidden_act               "xielu"
        max_position_embeddings  65536
        rms_norm_eps             1e-5
        rope_theta               12000000.0
    """),
    gated=False,
    activations={**ACTIVATIONS, "xielu": D.XIELU},
)
