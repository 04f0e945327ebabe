"""Gemma (Mesnard et al. 2024), 2 and 3: the norms' weights are stored less one."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import FULL, SLIDING
from phasor.families.llama_like import llama_like, llama_names, sliding_pattern
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings


def _gemma(d: Decoder) -> None:
    d.kind["attention_biases"] = D.ATTENTION_BIASES * d.flag("attention_bias")
    d.norm_offset = 1.0
    d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)


def _gemma1(d: Decoder) -> None:
    _gemma(d)
    newer, older = d.config.get("hidden_activation"), d.config.get("hidden_act")
    if newer is not None and newer != older:
        d.notes.append(
            f"hidden_activation is {newer!r}, and hidden_act {older!r}: the second is taken, as "
            "transformers does"
        )
    d.rotate()


def _gemma_both(d: Decoder) -> None:
    """What the second and the third have alike: norms before and after each sub-layer, a scale of
    their own, a cap of the logits."""
    _gemma(d)
    d.kind.update(
        norm_place=D.BOTH, scale=single(d.config.positive("query_pre_attn_scalar") ** -0.5)
    )
    _cap(d, "final_logit_softcapping", d.output)


def _cap(d: Decoder, name: str, place: dict) -> None:
    if d.config.get(name) is not None:
        place["cap"] = single(d.config.positive(name))


def _gemma2(d: Decoder) -> None:
    _gemma_both(d)
    _cap(d, "attn_logit_softcapping", d.kind)
    d.rotate()
    d.sliding(lambda i: (i + 1) % 2, d.window())


def _vaultgemma(d: Decoder) -> None:
    _gemma2(d)
    d.kind["norm_place"] = D.BEFORE


def _window(d: Decoder) -> dict[str, int]:
    """Of EmbeddingGemma the half of it on either side."""
    d.both_ways = d.config.flag("use_bidirectional_attention", default=False)
    window = d.window()
    return {"window": 2 * (window["window"] // 2) + 1} if d.both_ways and window else window


def _gemma3(d: Decoder) -> None:
    _gemma_both(d)
    d.config.must("attn_logit_softcapping", None)  # which transformers has and does not compute
    d.kind["qk_norm"] = D.RMS_NORM
    pattern = sliding_pattern(d)
    local = d.rotation("rope_local_base_freq", scaled=False, layer_type=SLIDING)
    near, far = {**_window(d), **local}, d.rotation(layer_type=FULL)
    d.sliding(lambda i: (i + 1) % pattern, near, far)


_GEMMA = settings("""
    vocab_size               256000
    hidden_size              3072
    num_hidden_layers        28
    num_attention_heads      16
    num_key_value_heads      16
    head_dim                 256
    intermediate_size        24576
    hidden_act               "gelu_pytorch_tanh"
    max_position_embeddings  8192
    tie_word_embeddings      true
""")
_GEMMA2 = settings(
    """
    hidden_size            2304
    num_hidden_layers      26
    num_attention_heads    8
    num_key_value_heads    4
    intermediate_size      9216
    hidden_activation      "gelu_pytorch_tanh"
    query_pre_attn_scalar  256
    sliding_window         4096
    """,
    _GEMMA,
)
_GEMMA_NAMES = llama_names(
    attention_after="post_attention_layernorm",
    ffn_norm="pre_feedforward_layernorm",
    ffn_after="post_feedforward_layernorm",
)
_GEMMA2_CAPS = {**_GEMMA2, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
_ACTIVATION = {"fields": {"hidden_act": "hidden_activation"}, "harmless": ("hidden_act",)}
GEMMA = llama_like("gemma", "GemmaForCausalLM", _gemma1, defaults=_GEMMA)
GEMMA2 = llama_like(
    "gemma2",
    "Gemma2ForCausalLM",
    _gemma2,
    _GEMMA_NAMES,
    _GEMMA2_CAPS,
    **_ACTIVATION,
)
VAULTGEMMA = llama_like(
    "vaultgemma",
    "VaultGemmaForCausalLM",
    _vaultgemma,
    llama_names(ffn_norm="pre_feedforward_layernorm"),
    _GEMMA2_CAPS,
    **_ACTIVATION,
)
GEMMA3 = llama_like(
    "gemma3_text",
    ("Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"),
    _gemma3,
    _GEMMA_NAMES,
    settings(
        """
        vocab_size               262208
        max_position_embeddings  131072
        rope_theta               1000000.0
        rope_local_base_freq     10000.0
        _sliding_window_pattern  6
        bos_token_id             2
        eos_token_id             1
        pad_token_id             0
        """,
        _GEMMA2,
    ),
    **_ACTIVATION,
)
