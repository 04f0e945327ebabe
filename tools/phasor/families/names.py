"""What the tensors of a state_dict are called: one table for each preset.

The parts of a model are named by dots: `encoder.q`, `decoder.cross_kv`, `source.embedding`,
`output`. A table gives the name of the weight; a bias has the same name with `bias` for the last
`weight`. `{layer}` is the layer's number from 0.
"""

from __future__ import annotations

from phasor.format import descriptor as D

PARTS = (
    "attention_norm",
    "qkv",
    "q",
    "k",
    "v",
    "attention_out",
    "cross_norm",
    "cross_qkv",
    "cross_q",
    "cross_k",
    "cross_v",
    "cross_out",
    "ffn_norm",
    "ffn_in",
    "ffn_gate",
    "ffn_out",
    "final_norm",
    "relative_keys",
    "relative_values",
    "position_bias",
    "alibi_slopes",
    "inv_freq",
    "score",
    "cross_score",
)
INPUTS = ("embedding", "positions", "sinusoid", "embedding_norm")
ALL = {
    "output",
    *(f"{s}.{p}" for s in ("encoder", "decoder") for p in PARTS),
    *(f"{s}.{p}" for s in ("source", "target") for p in INPUTS),
}


def _positions(own: str, cross: str) -> tuple[tuple[str, str], ...]:
    """What attention may have beside its matrices, by the names of its modules. None of the
    published styles has them: the names are this project's."""
    return (
        ("relative_keys", f"{own}.position.keys.weight"),
        ("relative_values", f"{own}.position.values.weight"),
        ("position_bias", f"{own}.position.bias.weight"),
        ("score", f"{own}.score.v"),
        ("cross_score", f"{cross}.score.v"),
    )


def _torch_transformer(stack: int) -> dict[str, str]:
    out = {
        "source.embedding": "src_embedding.weight",
        "target.embedding": "tgt_embedding.weight",
        "output": "output.weight",
        "source.positions": "src_positions.weight",
        "target.positions": "tgt_positions.weight",
    }
    for name in ("encoder", "decoder"):
        layer = name + ".layers.{layer}."
        crossing = name == "decoder" and stack == D.ENCODER_DECODER
        out.update(
            {
                f"{name}.{part}": layer + tail
                for part, tail in (
                    ("qkv", "self_attn.in_proj_weight"),
                    ("attention_out", "self_attn.out_proj.weight"),
                    ("attention_norm", "norm1.weight"),
                    ("ffn_in", "linear1.weight"),
                    ("ffn_out", "linear2.weight"),
                    ("ffn_norm", "norm3.weight" if crossing else "norm2.weight"),
                    ("cross_qkv", "multihead_attn.in_proj_weight"),
                    ("cross_out", "multihead_attn.out_proj.weight"),
                    ("cross_norm", "norm2.weight"),
                    *_positions("self_attn", "multihead_attn"),
                )
            }
        )
        out[f"{name}.final_norm"] = f"{name}.norm.weight"
    return out


def _separate(_: int) -> dict[str, str]:
    out = {"output": "decoder.fc_out.weight"}
    for name, side in (("encoder", "source"), ("decoder", "target")):
        layer = name + ".layers.{layer}."
        out[f"{side}.embedding"], out[f"{side}.positions"] = (
            f"{name}.tok_embedding.weight",
            f"{name}.pos_embedding.weight",
        )
        out.update(
            {
                f"{name}.{part}": layer + tail + ".weight"
                for part, tail in (
                    ("q", "self_attention.fc_q"),
                    ("k", "self_attention.fc_k"),
                    ("v", "self_attention.fc_v"),
                    ("attention_out", "self_attention.fc_o"),
                    ("attention_norm", "self_attn_layer_norm"),
                    ("cross_q", "encoder_attention.fc_q"),
                    ("cross_k", "encoder_attention.fc_k"),
                    ("cross_v", "encoder_attention.fc_v"),
                    ("cross_out", "encoder_attention.fc_o"),
                    ("cross_norm", "enc_attn_layer_norm"),
                    ("ffn_in", "positionwise_feedforward.fc_1"),
                    ("ffn_out", "positionwise_feedforward.fc_2"),
                    ("ffn_norm", "ff_layer_norm"),
                )
            }
        )
        out.update(
            {
                f"{name}.{part}": layer + tail
                for part, tail in _positions("self_attention", "encoder_attention")
            }
        )
        out[f"{name}.final_norm"] = f"{name}.norm.weight"
    return out


def _bias_free(stack: int) -> dict[str, str]:
    out = {
        "output": "decoder.dense.weight",
        "source.embedding": "encoder.embedding.weight",
        "target.embedding": "decoder.embedding.weight",
    }
    for name in ("encoder", "decoder"):
        layer = name + ".blks.block{layer}."
        crossing = name == "decoder" and stack == D.ENCODER_DECODER
        own = "attention1" if crossing else "attention"
        out.update(
            {
                f"{name}.{part}": layer + tail + ".weight"
                for part, tail in (
                    ("q", f"{own}.W_q"),
                    ("k", f"{own}.W_k"),
                    ("v", f"{own}.W_v"),
                    ("attention_out", f"{own}.W_o"),
                    ("attention_norm", "addnorm1.ln"),
                    ("cross_q", "attention2.W_q"),
                    ("cross_k", "attention2.W_k"),
                    ("cross_v", "attention2.W_v"),
                    ("cross_out", "attention2.W_o"),
                    ("cross_norm", "addnorm2.ln"),
                    ("ffn_in", "ffn.dense1"),
                    ("ffn_out", "ffn.dense2"),
                    ("ffn_norm", "addnorm3.ln" if crossing else "addnorm2.ln"),
                )
            }
        )
        out.update({f"{name}.{part}": layer + tail for part, tail in _positions(own, "attention2")})
        out[f"{name}.final_norm"] = f"{name}.norm.weight"
    return out


PRESETS = {"torch-transformer": _torch_transformer, "separate": _separate, "bias-free": _bias_free}


def bias_name(weight: str) -> str:
    """`norm1.weight` -> `norm1.bias`, `in_proj_weight` -> `in_proj_bias`."""
    at = weight.rfind("weight")
    return weight + ".bias" if at < 0 else weight[:at] + "bias" + weight[at + len("weight") :]
