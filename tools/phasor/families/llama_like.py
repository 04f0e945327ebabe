"""What the decoders that descend from Llama (Touvron et al. 2023) have alike: names, sizes, and
what their configurations say."""

from __future__ import annotations

from typing import Any, Callable

from phasor.families.decoder import Decoder
from phasor.families.family import Family
from phasor.format import descriptor as D
from phasor.values import settings, table, words

NORM_BIASES = {"norm_biases": 0}  # a layer norm without
BLOCK = table("""
    q               self_attn.q_proj
    k               self_attn.k_proj
    v               self_attn.v_proj
    attention_out   self_attn.o_proj
    attention_norm  input_layernorm
    ffn_norm        post_attention_layernorm
    ffn_in          mlp.up_proj
    ffn_gate        mlp.gate_proj
    ffn_out         mlp.down_proj
    q_norm          self_attn.q_norm
    k_norm          self_attn.k_norm
""")


def llama_names(**changes: str | None) -> dict[str, str]:
    """Llama's names, some of a block's otherwise; None drops a part."""
    block = {part: module for part, module in {**BLOCK, **changes}.items() if module}
    return {
        "embedding": "embed_tokens.weight",
        "final_norm": "norm.weight",
        "output": "lm_head.weight",
        **{part: f"layers.{{layer}}.{module}.weight" for part, module in block.items()},
    }


PLAIN_NAMES = llama_names(ffn_gate=None)  # a feed-forward without a gate
SUBLAYER_NAMES = llama_names(
    attention_norm=None,
    ffn_norm=None,
    attention_after="post_attention_layernorm",
    ffn_after="post_feedforward_layernorm",
)
SIZES = settings("""
    vocab_size               32000
    hidden_size              4096
    num_hidden_layers        32
    num_attention_heads      32
    intermediate_size        11008
    hidden_act               "silu"
    max_position_embeddings  2048
    rms_norm_eps             1e-6
    rope_theta               10000.0
    tie_word_embeddings      false
    attention_bias           false
    mlp_bias                 false
""")
DROPPED = words("""
    attention_dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout residual_dropout
    embedding_dropout dropout layerdrop init_std pretraining_tp
""")
BUFFERS = ("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq")


def biases(d: Decoder, attention: int = D.ATTENTION_BIASES) -> None:
    """attention_bias and mlp_bias: of all four matrices of attention (or of those in the mask), of
    all three of the feed-forward."""
    d.kind.update(
        attention_biases=attention * d.flag("attention_bias"),
        ffn_biases=D.FFN_BIASES * d.flag("mlp_bias"),
    )


def all_biases(d: Decoder, name: str) -> None:
    """One flag for all matrices of a block."""
    bias = d.flag(name)
    d.kind.update(attention_biases=D.ATTENTION_BIASES * bias, ffn_biases=D.FFN_BIASES * bias)


def llama(d: Decoder) -> None:
    biases(d)
    d.rotate()


def llama_like(
    kind: str,
    name: str | tuple[str, ...],
    adapt: Callable[[Decoder], None],
    names: Any = None,
    defaults: Any = None,
    **more: Any,
) -> Family:
    """A family of this model_type and class (or several) with Llama's names and sizes, but for its
    own."""
    own = {"gated": True, "unused": BUFFERS, **more, "harmless": DROPPED + more.get("harmless", ())}
    return Family(
        D.DECODER,
        (kind,),
        (name,) if isinstance(name, str) else name,
        "model.",
        names or llama_names(),
        {**SIZES, **(defaults or {})},
        adapt=adapt,
        **own,
    )


def used_window(d: Decoder) -> dict[str, int]:
    """What a layer has that sees a window; nothing where use_sliding_window says so."""
    window = d.window()
    return window if d.flag("use_sliding_window") else {}


def sliding_pattern(d: Decoder) -> int:
    """Every so many layers one sees everything."""
    newer, older = "_sliding_window_pattern", "sliding_window_pattern"
    d.config.get(newer)
    return d.config.whole(newer if d.config.get(older) is None else older)
