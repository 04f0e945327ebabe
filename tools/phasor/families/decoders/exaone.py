"""EXAONE 4 (LG 2025)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import SUBLAYER_NAMES, llama_like
from phasor.format import descriptor as D
from phasor.values import settings


def _exaone4(d: Decoder) -> None:
    """Layers that see everything have no positions, where others see a window."""
    d.kind.update(norm_place=D.SUBLAYER, qk_norm=D.RMS_NORM)
    window = d.window()
    pattern, turn = d.config.get("sliding_window_pattern"), d.rotation()
    if d.config.get("layer_types") is None:  # beside which the pattern may be anything
        pattern = d.config.whole("sliding_window_pattern")
    d.sliding(lambda i: window and (i + 1) % pattern, {**window, **turn}, {} if window else turn)


EXAONE4 = llama_like(
    "exaone4",
    "Exaone4ForCausalLM",
    _exaone4,
    SUBLAYER_NAMES,
    settings("""
        vocab_size              102400
        num_key_value_heads     32
        intermediate_size       16384
        rms_norm_eps            1e-5
        sliding_window          4096
        sliding_window_pattern  4
    """),
)
