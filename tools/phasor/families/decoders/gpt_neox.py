"""GPT-NeoX (Black et al. 2022), Pythia."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import NEOX_BLOCK, gpt_like
from phasor.families.hf_config import rope_table, rope_value
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings


def _gpt_neox(d: Decoder) -> None:
    d.kind.update(
        attention_biases=D.ATTENTION_BIASES * d.flag("attention_bias"),
        ffn_biases=D.FFN_BIASES,
        parallel=D.TWO_NORMS * d.flag("use_parallel_residual"),
    )
    d.fused()
    d.rotate(beside="rotary_emb_base", width=d.share("rotary_pct"))
    # The usual names of the two, which no version reads beside, may not say another thing.
    c, table = d.config, rope_table(d.config)
    for name, older in (("partial_rotary_factor", "rotary_pct"), ("rope_theta", "rotary_emb_base")):
        c.must(name, rope_value(c, table, name, older))


GPT_NEOX = gpt_like(
    "gpt_neox",
    "GPTNeoXForCausalLM",
    tensor_names(
        "layers.{layer}",
        NEOX_BLOCK
        + """
        embedding       embed_in
        final_norm      final_layer_norm
        output          embed_out
        qkv             .attention.query_key_value
        attention_out   .attention.dense
        """,
    ),
    settings("""
        vocab_size               50432
        hidden_size              6144
        num_hidden_layers        44
        num_attention_heads      64
        intermediate_size        24576
        hidden_act               "gelu"
        max_position_embeddings  2048
        rotary_pct               0.25
        rotary_emb_base          10000
        layer_norm_eps           1e-5
        use_parallel_residual    true
        attention_bias           true
        tie_word_embeddings      false
    """),
    _gpt_neox,
    fields={"rms_norm_eps": "layer_norm_eps"},
    harmless=("classifier_dropout",),
    unused=(
        "layers.*.attention.bias",
        "layers.*.attention.masked_bias",
        "layers.*.attention.rotary_emb.inv_freq",
    ),
    hidden_factor=0,
    trunk="gpt_neox.",
)
