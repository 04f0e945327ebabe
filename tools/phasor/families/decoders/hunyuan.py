"""HunYuan (Tencent 2025): q and k are normed behind their rotation, whose base is stretched."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import rope_table, rope_value
from phasor.families.llama_like import llama_like, llama_names
from phasor.families.rotary_scaling import scaling_type
from phasor.format import descriptor as D
from phasor.values import settings, words


def _hunyuan(d: Decoder) -> None:
    c, width = d.config, d.kind["head_width"]
    d.kind.update(
        attention_biases=D.ATTENTION_BIASES * d.flag("attention_bias"),
        qk_norm=D.RMS_NORM,
        qk_norm_place=D.NORM_LAST,
    )
    c.must("use_qk_norm", True)
    c.must("attention_head_dim", width)
    found = rope_table(c)
    if scaling_type(found.values) != "dynamic" or found.get("alpha") is None:
        d.rotate()
        return
    if width < 4:
        raise c.error("head_dim", f"{width}, dynamic needs at least 4 rotated values")
    theta = c.checked_base("rope_theta", rope_value(c, found, "rope_theta", "rope_theta"))
    found.must("partial_rotary_factor", 1)
    # Its code looks at no other key.
    found.asked.update(words("type rope_type factor beta_fast beta_slow mscale mscale_all_dim"))
    d.rotate(fixed=theta * found.positive("alpha") ** (width / (width - 2)))


HUNYUAN = llama_like(
    "hunyuan_v1_dense",
    "HunYuanDenseV1ForCausalLM",
    _hunyuan,
    llama_names(q_norm="self_attn.query_layernorm", k_norm="self_attn.key_layernorm"),
    settings("""
        vocab_size    290943
        rms_norm_eps  1e-5
    """),
    harmless=words("""
        eod_token_id add_classification_head class_num dense_list enable_lm_head_fp32 im_end_id
        im_newline_id im_start_id mask_init_id org_vocab_size pad_id pool_type text_end_id
        text_start_id cla_share_factor
    """),
)
