"""Granite (IBM 2024): factors; Granite 4 (2025) where no layer is a Mamba and none has experts."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import FULL
from phasor.families.llama_like import biases, llama_like, llama_names
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings, words


def _factors(d: Decoder) -> None:
    d.kind.update(
        scale=single(d.config.positive("attention_multiplier")),
        residual_scale=single(d.config.positive("residual_multiplier")),
    )
    d.stack["embedding_scale"] = single(d.config.positive("embedding_multiplier"))
    d.output["scale"] = single(1 / d.config.positive("logits_scaling"))


def _granite(d: Decoder) -> None:
    biases(d)
    _factors(d)
    d.rotate()


def _granite4(d: Decoder) -> None:
    """Its types of layers are others than those of windows. Without "rope" there are no
    positions."""
    c = d.config
    c.must("num_local_experts", 0)
    types = c.get("layer_types")
    names = ("attention", FULL)  # of transformers 4 and 5
    if types not in [[name] * d.count for name in names]:
        raise c.error(
            "layer_types", "a Mamba layer is not supported, expected attention in each layer"
        )
    d.kind["attention_biases"] = D.ATTENTION_BIASES * d.flag("attention_bias")
    _factors(d)
    if c.get("position_embedding_type") is not None:
        c.must("position_embedding_type", "rope")
        d.rotate()
    c.asked.update(words("rope_theta rope_scaling rope_parameters"))


_FACTORS = settings("""
    attention_multiplier  1.0
    residual_multiplier   1.0
    embedding_multiplier  1.0
    logits_scaling        1.0
""")
GRANITE = llama_like(
    "granite",
    "GraniteForCausalLM",
    _granite,
    defaults=_FACTORS,
)
GRANITE4 = llama_like(
    "granitemoehybrid",
    "GraniteMoeHybridForCausalLM",
    _granite4,
    llama_names(
        ffn_in="shared_mlp.input_linear",
        ffn_gate="shared_mlp.input_linear",
        ffn_out="shared_mlp.output_linear",
    ),
    {**_FACTORS, "shared_intermediate_size": 1024, "num_local_experts": 8},
    fields={"intermediate_size": "shared_intermediate_size"},
    harmless=words("""
        intermediate_size num_experts_per_tok output_router_logits router_aux_loss_coef
        mamba_n_heads mamba_n_groups mamba_d_state mamba_d_head mamba_d_conv mamba_expand
        mamba_chunk_size mamba_conv_bias mamba_proj_bias time_step_min time_step_max
        time_step_limit layers_block_type mlp_bias
    """),
    judges=True,
)
