"""BioGPT (Luo et al. 2022)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import gpt_like
from phasor.families.model import single
from phasor.families.names import FAIRSEQ_BLOCK, tensor_names
from phasor.format import descriptor as D
from phasor.values import settings


def _biogpt(d: Decoder) -> None:
    """Its norms have PyTorch's epsilon, whatever layer_norm_eps says."""
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES, norm_eps=1e-5)
    d.stack["final_norm_eps"] = 1e-5
    d.learned(before=2)
    if d.flag("scale_embedding"):
        d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)


BIOGPT = gpt_like(
    "biogpt",
    "BioGptForCausalLM",
    tensor_names(
        "layers.{layer}",
        FAIRSEQ_BLOCK
        + """
        embedding       embed_tokens
        positions       embed_positions
        final_norm      layer_norm
        output          output_projection
        """,
    ),
    settings("""
        vocab_size               42384
        hidden_size              1024
        num_hidden_layers        24
        num_attention_heads      16
        intermediate_size        4096
        hidden_act               "gelu"
        max_position_embeddings  1024
        layer_norm_eps           1e-12
        scale_embedding          true
        tie_word_embeddings      true
    """),
    _biogpt,
    fields={"rms_norm_eps": "layer_norm_eps"},
    harmless=("activation_dropout",),
    hidden_factor=0,
    trunk="biogpt.",
)
