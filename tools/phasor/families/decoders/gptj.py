"""GPT-J (Wang and Komatsuzaki 2021), CodeGen (Nijkamp et al. 2022): sub-layers share a norm."""

from __future__ import annotations

import numpy as np

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import GPT2_FIELDS, GPT2_SIZES, MASKS, SUMMARY, gpt_like
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import settings


def _gptj(d: Decoder) -> None:
    d.kind.update(ffn_biases=D.FFN_BIASES, parallel=D.SHARED_INPUT)
    width = d.config.whole("rotary_dim", 2, d.kind["head_width"])
    d.rotate(fixed=10000.0, width=width, interleaved=True)
    d.output["bias"] = 1


_CODEGEN_PARTS = 4  # of the code: q, v and k of a quarter of the heads lie together


def _codegen(d: Decoder) -> None:
    _gptj(d)
    heads, width = d.kind["heads"], d.kind["head_width"]
    if heads % _CODEGEN_PARTS:
        raise d.config.error("n_head", f"{heads} is not a multiple of {_CODEGEN_PARTS}")
    places = np.arange(3 * heads * width).reshape(_CODEGEN_PARTS, 3, -1)
    d.qkv_rows = np.concatenate([places[:, i].ravel() for i in (0, 2, 1)])


_GPTJ = settings(
    """
    vocab_size           50400
    n_positions          2048
    n_embd               4096
    n_layer              28
    n_head               16
    rotary_dim           64
    tie_word_embeddings  false
    """,
    GPT2_SIZES,
)
_GPTJ_HARMLESS = SUMMARY + ("rotary", "scale_attn_weights")
GPTJ = gpt_like(
    "gptj",
    "GPTJForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       wte
        final_norm      ln_f
        output          lm_head
        q               .attn.q_proj
        k               .attn.k_proj
        v               .attn.v_proj
        attention_out   .attn.out_proj
        attention_norm  .ln_1
        ffn_in          .mlp.fc_in
        ffn_out         .mlp.fc_out
        """,
    ),
    _GPTJ,
    _gptj,
    fields=GPT2_FIELDS,
    harmless=_GPTJ_HARMLESS,
    unused=MASKS,
)
CODEGEN = gpt_like(
    "codegen",
    "CodeGenForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       wte
        final_norm      ln_f
        output          lm_head
        qkv             .attn.qkv_proj
        attention_out   .attn.out_proj
        attention_norm  .ln_1
        ffn_in          .mlp.fc_in
        ffn_out         .mlp.fc_out
        """,
    ),
    _GPTJ,
    _codegen,
    fields=GPT2_FIELDS,
    harmless=_GPTJ_HARMLESS,
    unused=MASKS,
)
