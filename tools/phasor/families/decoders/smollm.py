"""SmolLM3 (Bakouch et al. 2025): layers without positions."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import biases, llama_like, used_window
from phasor.values import settings


def _smollm3(d: Decoder) -> None:
    biases(d)
    turned, turn, window = _turned(d), d.rotation(), used_window(d)
    d.sliding(lambda i: window and not turned[i], window)
    for own, with_positions in zip(d.per_layer, turned):
        own.update(turn if with_positions else {})


def _turned(d: Decoder) -> list[int]:
    """no_rope_layers: 1 for a layer that has rotary positions, in spite of its name."""
    given = d.config.get("no_rope_layers")
    interval = d.config.whole("no_rope_layer_interval")
    out = [int((i + 1) % interval != 0) for i in range(d.count)] if given is None else given
    if not isinstance(out, list) or len(out) != d.count or any(x not in (0, 1) for x in out):
        raise d.config.error("no_rope_layers", f"expected {d.count} times 0 or 1")
    return out


SMOLLM3 = llama_like(
    "smollm3",
    "SmolLM3ForCausalLM",
    _smollm3,
    defaults=settings("""
        vocab_size               128256
        hidden_size              2048
        num_hidden_layers        36
        num_attention_heads      16
        num_key_value_heads      4
        max_position_embeddings  32768
        rope_theta               2000000.0
        use_sliding_window       false
        no_rope_layer_interval   4
        tie_word_embeddings      true
    """),
)
