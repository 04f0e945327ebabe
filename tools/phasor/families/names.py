"""What the tensors of a state_dict are called: one table for each preset; and how the tables of the
other families are written.

The parts of a model are named by dots: `encoder.q`, `decoder.cross_kv`, `source.embedding`,
`output`. A table gives the name of the weight; a bias has the same name with `bias` for the last
`weight`. `{layer}` is the layer's number from 0. A fused tensor and its parts may both have names:
the one that is there counts.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from phasor.format import descriptor as D
from phasor.values import table

# What attention may have beside its matrices. None of the published styles has it: the names are
# this project's.
_BESIDE = """
    relative_keys    {own}.position.keys.weight
    relative_values  {own}.position.values.weight
    position_bias    {own}.position.bias.weight
    score            {own}.score.v
    cross_score      {cross}.score.v
"""

# A block of fairseq's modules, as BART's and others of its models have it.
FAIRSEQ_BLOCK = """
    q               .self_attn.q_proj
    k               .self_attn.k_proj
    v               .self_attn.v_proj
    attention_out   .self_attn.out_proj
    attention_norm  .self_attn_layer_norm
    ffn_in          .fc1
    ffn_out         .fc2
    ffn_norm        .final_layer_norm
"""


class Preset(NamedTuple):
    """A published style: `{own}` and `{cross}` stand for its modules of attention, `{last}` for the
    number of a block's last norm, `{stack}` for encoder or decoder."""

    layers: str
    own: str
    own_beside_cross: str  # the same in a block that has cross-attention too
    cross: str
    block: str
    ends: str

    def __call__(self, stack: int) -> dict[str, str]:
        """The tensors of a model of this stack, by part."""
        out = table(self.ends)
        for side in ("encoder", "decoder"):
            crossing = side == "decoder" and stack == D.ENCODER_DECODER
            for part, text in table(self.block + _BESIDE).items():
                out[f"{side}.{part}"] = (self.layers + text).format(
                    stack=side,
                    layer="{layer}",
                    own=self.own_beside_cross if crossing else self.own,
                    cross=self.cross,
                    last=3 if crossing else 2,
                )
            out[f"{side}.final_norm"] = f"{side}.norm.weight"
        return out


PRESETS: dict[str, Callable[[int], dict[str, str]]] = {
    "none": lambda stack: {},
    "torch-transformer": Preset(
        "{stack}.layers.{layer}.",
        "self_attn",
        "self_attn",
        "multihead_attn",
        """
        qkv             {own}.in_proj_weight
        attention_out   {own}.out_proj.weight
        attention_norm  norm1.weight
        cross_qkv       {cross}.in_proj_weight
        cross_q         {cross}.q_proj_weight
        cross_k         {cross}.k_proj_weight
        cross_v         {cross}.v_proj_weight
        cross_qkv_bias  {cross}.in_proj_bias
        cross_out       {cross}.out_proj.weight
        cross_norm      norm2.weight
        ffn_in          linear1.weight
        ffn_out         linear2.weight
        ffn_norm        norm{last}.weight
        """,
        """
        source.embedding  src_embedding.weight
        target.embedding  tgt_embedding.weight
        source.positions  src_positions.weight
        target.positions  tgt_positions.weight
        output            output.weight
        """,
    ),
    "separate": Preset(
        "{stack}.layers.{layer}.",
        "self_attention",
        "self_attention",
        "encoder_attention",
        """
        q               {own}.fc_q.weight
        k               {own}.fc_k.weight
        v               {own}.fc_v.weight
        attention_out   {own}.fc_o.weight
        attention_norm  self_attn_layer_norm.weight
        cross_q         {cross}.fc_q.weight
        cross_k         {cross}.fc_k.weight
        cross_v         {cross}.fc_v.weight
        cross_out       {cross}.fc_o.weight
        cross_norm      enc_attn_layer_norm.weight
        ffn_in          positionwise_feedforward.fc_1.weight
        ffn_out         positionwise_feedforward.fc_2.weight
        ffn_norm        ff_layer_norm.weight
        """,
        """
        source.embedding  encoder.tok_embedding.weight
        target.embedding  decoder.tok_embedding.weight
        source.positions  encoder.pos_embedding.weight
        target.positions  decoder.pos_embedding.weight
        output            decoder.fc_out.weight
        """,
    ),
    "bias-free": Preset(
        "{stack}.blks.block{layer}.",
        "attention",
        "attention1",
        "attention2",
        """
        q               {own}.W_q.weight
        k               {own}.W_k.weight
        v               {own}.W_v.weight
        attention_out   {own}.W_o.weight
        attention_norm  addnorm1.ln.weight
        cross_q         {cross}.W_q.weight
        cross_k         {cross}.W_k.weight
        cross_v         {cross}.W_v.weight
        cross_out       {cross}.W_o.weight
        cross_norm      addnorm2.ln.weight
        ffn_in          ffn.dense1.weight
        ffn_out         ffn.dense2.weight
        ffn_norm        addnorm{last}.ln.weight
        """,
        """
        source.embedding  encoder.embedding.weight
        target.embedding  decoder.embedding.weight
        output            decoder.dense.weight
        """,
    ),
}


def tensor_names(layers: str, text: str) -> dict[str, str]:
    """The table of a family from lines of a part and its module; one that begins with a dot lies in
    a block, whose name is `layers`."""
    return {
        part: (layers if module.startswith(".") else "") + module + ".weight"
        for part, module in table(text).items()
    }


# The bias beside a weight that is called so: PyTorch's, BERT's first, the Annotated Transformer's.
_BIASES = {"weight": "bias", "gamma": "beta", "a_2": "b_2", "g": "b"}


def bias_name(weight: str) -> str:
    """`norm1.weight` -> `norm1.bias`, `in_proj_weight` -> `in_proj_bias`, `norm.a_2` ->
    `norm.b_2`."""
    start, _, last = weight.rpartition(".")
    if last in _BIASES:
        return f"{start}.{_BIASES[last]}" if start else _BIASES[last]
    at = weight.rfind("weight")
    return weight + ".bias" if at < 0 else weight[:at] + "bias" + weight[at + len("weight") :]
