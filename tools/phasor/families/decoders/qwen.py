"""Qwen2 (Yang et al. 2024), Qwen3 (2025), and the language models of Qwen2-VL, 2.5-VL and 3-VL."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import rope_table
from phasor.families.llama_like import biases, llama_like, used_window
from phasor.format import descriptor as D
from phasor.values import is_whole, settings


def _windows(d: Decoder) -> None:
    window, first = used_window(d), d.config.whole("max_window_layers", 0)
    d.sliding(lambda i: window and i >= first, window)


def _qwen2(d: Decoder) -> None:
    d.kind["attention_biases"] = D.QKV_BIASES
    d.rotate()
    _windows(d)


def _qwen3(d: Decoder) -> None:
    biases(d)
    d.kind["qk_norm"] = D.RMS_NORM
    d.rotate()
    _windows(d)


_QWEN = settings("""
    vocab_size               151936
    intermediate_size        22016
    num_key_value_heads      32
    max_position_embeddings  32768
    use_sliding_window       false
    sliding_window           4096
    max_window_layers        28
""")
QWEN2 = llama_like("qwen2", "Qwen2ForCausalLM", _qwen2, defaults=_QWEN)
QWEN3 = llama_like("qwen3", "Qwen3ForCausalLM", _qwen3, defaults={**_QWEN, "head_dim": 128})


def _mrope(d: Decoder) -> None:
    """Positions of time, height and width, each of which turns a part of a head: of texts they are
    one, so that the parts make no difference."""
    found, name = rope_table(d.config), "mrope_section"
    parts = found.get(name, [1, 1, 1])
    whole = isinstance(parts, list) and all(is_whole(n, 0, 4096) for n in parts)
    if not whole or len(parts) != 3:
        raise found.expected(name, parts, "three whole numbers")
    d.beside_scaling = frozenset((name, "mrope_interleaved"))
    found.asked.update(d.beside_scaling)
    for kind in ("type", "rope_type"):
        if found.values.get(kind) == "mrope":
            found.values[kind] = "default"


def _qwen2_vl(d: Decoder) -> None:
    _mrope(d)
    _qwen2(d)


def _qwen3_vl(d: Decoder) -> None:
    _mrope(d)
    biases(d)
    d.kind["qk_norm"] = D.RMS_NORM
    d.rotate()


_QWEN2_VL = settings(
    """
    vocab_size           152064
    hidden_size          8192
    intermediate_size    29568
    num_hidden_layers    80
    num_attention_heads  64
    num_key_value_heads  8
    rms_norm_eps         1e-5
    rope_theta           1000000.0
    max_window_layers    80
    """,
    _QWEN,
)
QWEN2_VL = llama_like(
    "qwen2_vl_text", "Qwen2VLForConditionalGeneration", _qwen2_vl, defaults=_QWEN2_VL
)
QWEN2_5_VL = llama_like(
    "qwen2_5_vl_text", "Qwen2_5_VLForConditionalGeneration", _qwen2_vl, defaults=_QWEN2_VL
)
QWEN3_VL = llama_like(
    "qwen3_vl_text",
    "Qwen3VLForConditionalGeneration",
    _qwen3_vl,
    defaults=settings("""
        vocab_size               151936
        intermediate_size        22016
        max_position_embeddings  128000
        head_dim                 128
        rope_theta               5000000.0
    """),
    newer={"rope_theta": 500000.0},
)
