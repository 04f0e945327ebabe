"""Qwen2 (Yang et al. 2024), Qwen3 (2025)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like, used_window
from phasor.format import descriptor as D
from phasor.values import settings


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
