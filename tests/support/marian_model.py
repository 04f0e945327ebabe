"""A small transformer as Marian saves it: a .npz with its options inside."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

WIDTH, HIDDEN, LAYERS, ROWS = 16, 24, 2, 23
OPTIONS: dict[str, Any] = {
    "dec-depth": LAYERS,
    "enc-depth": LAYERS,
    "dim-emb": WIDTH,
    "dim-rnn": 1024,
    "dim-vocabs": [ROWS, ROWS],
    "input-types": [],
    "tied-embeddings-all": "true",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-activation": "swish",
    "transformer-ffn-depth": 2,
    "transformer-guided-alignment-layer": "last",
    "transformer-heads": 4,
    "transformer-no-projection": "false",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": '""',
    "transformer-preprocess": '""',
    "transformer-train-position-embeddings": "false",
    "type": "transformer",
    "version": "v1.12.0",
}
BEFORE = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}


def yaml(options: dict[str, Any]) -> bytes:
    lines = []
    for name, value in sorted(options.items()):
        if isinstance(value, list) and value:
            lines += [f"{name}:", *(f"  - {one}" for one in value)]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines).encode() + b"\n\0"


class Model:
    """Arrays and options that a test may change."""

    def __init__(self, before: bool = False, tied: bool = True, scale: float = 0.4) -> None:
        rng = np.random.default_rng(6)
        self.options = {**OPTIONS, **(BEFORE if before else {})}
        self.arrays: dict[str, np.ndarray] = {}
        end = "_pre" if before else ""

        def draw(*shape: int) -> np.ndarray:
            return rng.normal(0, scale, shape).astype(np.float32)

        def norm(place: str, end: str) -> None:
            self.arrays[f"{place}_ln_scale{end}"] = 1 + draw(1, WIDTH)
            self.arrays[f"{place}_ln_bias{end}"] = draw(1, WIDTH)

        for stack in ("encoder", "decoder"):
            for i in range(1, LAYERS + 1):
                layer = f"{stack}_l{i}"
                for place in ("self", "context")[: 1 + (stack == "decoder")]:
                    for letter in "qkvo":
                        self.arrays[f"{layer}_{place}_W{letter}"] = draw(WIDTH, WIDTH)
                        self.arrays[f"{layer}_{place}_b{letter}"] = draw(1, WIDTH)
                    norm(f"{layer}_{place}_Wo", end)
                for letter, shape in (("1", (WIDTH, HIDDEN)), ("2", (HIDDEN, WIDTH))):
                    self.arrays[f"{layer}_ffn_W{letter}"] = draw(*shape)
                    self.arrays[f"{layer}_ffn_b{letter}"] = draw(1, shape[1])
                norm(f"{layer}_ffn_ffn", end)
            if before:
                norm(f"{stack}_top", "")
        if tied:
            self.arrays["Wemb"] = draw(ROWS, WIDTH)
        else:
            self.options["tied-embeddings-all"] = "false"
            self.arrays |= {f"{stack}_Wemb": draw(ROWS, WIDTH) for stack in ("encoder", "decoder")}
            self.arrays["decoder_ff_logit_out_W"] = draw(WIDTH, ROWS)
        self.arrays["decoder_ff_logit_out_b"] = draw(1, ROWS)

    def bytes(self) -> bytes:
        file = io.BytesIO()
        text = np.frombuffer(yaml(self.options), np.int8)
        np.savez(file, **{"special:model.yml": text, **self.arrays})
        return file.getvalue()
