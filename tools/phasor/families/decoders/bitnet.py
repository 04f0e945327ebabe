"""BitNet b1.58 (Ma et al. 2024): norms before the last matrix of each sub-layer. Packed weights and
the rounding of their inputs are checkpoints/packed.py's; of float weights no input is rounded."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama, llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings


def _bitnet(d: Decoder) -> None:
    heads, width = d.kind["heads"], d.kind["head_width"]
    if heads * width != d.stack["width"]:  # its norm has the width of the stack
        raise d.config.error(
            "head_dim", f"{width} in {heads} heads, expected the width {d.stack['width']} in all"
        )
    llama(d)
    d.kind["inner_norms"] = D.NORM_OF_OUT | D.NORM_OF_DOWN


BITNET = llama_like(
    "bitnet",
    "BitNetForCausalLM",
    _bitnet,
    llama_names(attention_inner_norm="self_attn.attn_sub_norm", ffn_inner_norm="mlp.ffn_sub_norm"),
    settings("""
        vocab_size           128256
        hidden_size          2560
        intermediate_size    6912
        num_hidden_layers    30
        num_attention_heads  20
        num_key_value_heads  5
        hidden_act           "relu2"
        rms_norm_eps         1e-5
        rope_theta           500000.0
    """),
)
