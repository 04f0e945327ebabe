"""What goes with a short convolution in place of attention, in a kind of the descriptor."""

from __future__ import annotations

from typing import Any

from phasor.format.fields import CONVOLUTION

MOST_TAPS = 64


def convolution_rules(kind: dict[str, Any]) -> tuple[tuple[Any, str], ...]:
    """(whether it is broken, the refusal) of each rule."""
    short, taps = kind["mixer"] == CONVOLUTION, kind["window"]
    scored = kind["position"] or kind["score"] or kind["qk_norm"] or kind["cap"]
    return (
        (
            short and not 1 <= taps <= MOST_TAPS,
            f"window: {taps}, expected the taps of the short convolution, 1 to {MOST_TAPS}",
        ),
        (
            short and scored,
            "mixer: a short convolution has no positions, scores, or norms of q and k",
        ),
        (
            short and kind["kv_heads"] != kind["heads"],
            "kv_heads: a short convolution has as many as heads",
        ),
        (
            kind["convolution_bias"] and not short,
            "convolution_bias: nothing is a short convolution here",
        ),
    )
