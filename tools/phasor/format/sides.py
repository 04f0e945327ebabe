"""What a side of a model says of its ids and of the stack that reads them."""

from __future__ import annotations

from typing import Any

from phasor.errors import PhasorError

MOST_BESIDE = 64  # values of an embedding's row beside those of a vector that the model reads


def check(name: str, side: dict[str, Any], stack: dict[str, Any], encoder: bool) -> None:
    """PhasorError where a side called `name` and its stack do not fit."""
    own, vectors, segment = side["own_row"], side["vectors"], side["pair_segment"]
    if own > side["vocabulary"]:
        raise PhasorError(f"{name}.own_row: {own}, the vocabulary has {side['vocabulary']} ids")
    row = stack["embedding_width"]
    if vectors and not (encoder and row - MOST_BESIDE <= vectors <= row):
        raise PhasorError(
            f"{name}.vectors: expected the width of the source's embedding, or up to 64 less"
        )
    if segment and segment >= stack["segments"]:
        raise PhasorError(f"{name}.pair_segment: {segment}, there are {stack['segments']} segments")
