"""What goes with merged attention, in a kind of the descriptor and its stack."""

from __future__ import annotations

from typing import Any

from phasor.format.fields import CONVOLUTION, MERGED, SCALE_QKV

_ALIKE = ("heads", "kv_heads", "head_width", "scale")


def merged_rules(kind: dict[str, Any], relative: bool) -> tuple[tuple[Any, str], ...]:
    """(whether it is broken, the refusal) of each rule; relative: it has relative keys."""
    merged = kind["cross"] == MERGED
    differs = kind["cross_biases"] or any(kind["cross_" + n] != kind[n] for n in _ALIKE)
    other = relative or kind["score"] or kind["cross_score"] or kind["mixer"] == CONVOLUTION
    return (
        (
            merged and differs,
            "cross: merged attention has the heads, scale and biases of self-attention",
        ),
        (
            merged and (other or kind["input_scales"] & SCALE_QKV),
            "cross: merged attention is of dot products, without relative keys or input scales",
        ),
    )
