"""What goes with per-layer embeddings, with keys and values of an earlier layer, and with what else
is a decoder's alone."""

from __future__ import annotations

from typing import Any, Sequence

from phasor.format.fields import BIAS_K, BIAS_V, CONVOLUTION, MERGED

Rules = tuple[tuple[Any, str], ...]  # whether a rule is broken, and the refusal


def stack_rules(name: str, stack: dict[str, Any]) -> Rules:
    there = stack["per_layer_width"]
    return (
        (
            there and name == "encoder",
            "per_layer_width: per-layer embeddings are a decoder's",
        ),
        (
            stack["per_layer_norm"] and not there,
            "per_layer_norm: there are no per-layer embeddings",
        ),
        (stack["per_layer_norm_eps"] < 0, "per_layer_norm_eps: is negative"),
    )


def kind_rules(kind: dict[str, Any]) -> Rules:
    borrows = kind["keys_of"]
    return (
        (
            kind["value_norm"] and (not kind["qk_norm"] or borrows),
            "value_norm: goes with a norm of q and k, and keys of the layer's own",
        ),
        (
            borrows and (kind["mixer"] == CONVOLUTION or kind["separate_v"]),
            "keys_of: goes with attention, and without a matrix of v",
        ),
        (
            borrows and kind["attention_biases"] & (BIAS_K | BIAS_V),
            "attention_biases: there is no matrix of k and v here",
        ),
        (
            kind["cross"] == MERGED and (borrows or kind["value_norm"]),
            "cross: merged attention has keys of its own, and no norm of v",
        ),
    )


def layer_rules(
    name: str, kinds: Sequence[dict[str, Any]], layers: Sequence[tuple[int, int]], i: int
) -> Rules:
    """Of layer `i` of a stack."""
    index = layers[i][0]
    kind, of, encoder = kinds[index], kinds[index]["keys_of"] - 1, name == "encoder"
    other = kinds[layers[min(max(of, 0), i)][0]]  # of a layer whose kind has been looked at
    alike = all(kind[n] == other[n] for n in ("mixer", "kv_heads", "head_width", "window"))
    return (
        (
            encoder and kind["mixer"] == CONVOLUTION,
            f"kind{index}.mixer: short convolution is a decoder's",
        ),
        (encoder and kind["keys_of"], f"kind{index}.keys_of: is a decoder's"),
        (encoder and kind["layer_scale"], f"kind{index}.layer_scale: is a decoder's"),
        (
            kind["keys_of"] and (of >= i or other["keys_of"] or not alike),
            f"kind{index}.keys_of: {kind['keys_of']}, expected 1 more than a layer before {i} with "
            "keys of its own, and as many, as wide and as far",
        ),
    )
