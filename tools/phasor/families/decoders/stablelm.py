"""StableLM (Bellagente et al. 2024)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _stablelm(d: Decoder) -> None:
    d.kind["attention_biases"] = D.QKV_BIASES * d.flag("use_qkv_bias")
    if d.flag("use_parallel_residual"):
        d.kind["parallel"] = D.SHARED_INPUT
    if d.flag("qk_layernorm"):
        d.kind.update(qk_norm=D.LAYER_NORM, qk_norm_over=D.OWN_HEAD)
        d.bias_free = frozenset({"q_norm", "k_norm"})
        d.own_norms = {
            part: f"layers.{{layer}}.self_attn.{part[0]}_layernorm.norms.{{head}}.weight"
            for part in ("q_norm", "k_norm")
        }
    d.rotate(width=d.share())


STABLELM = llama_like(
    "stablelm",
    "StableLmForCausalLM",
    _stablelm,
    None,
    settings("""
        vocab_size               50304
        hidden_size              2560
        num_key_value_heads      32
        intermediate_size        6912
        max_position_embeddings  4096
        layer_norm_eps           1e-5
        partial_rotary_factor    0.25
        use_qkv_bias             false
        qk_layernorm             false
        use_parallel_residual    false
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
)
