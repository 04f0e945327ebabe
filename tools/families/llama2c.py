"""llama2.c's first `.bin` format: seven int32, then f32 weights in a fixed order (karpathy/llama2.c, `export.py`, version 0).

There is no magic number: a file is one when its size is exactly what its header implies.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

import phasor_descriptor as D
import phasor_tensors as R
from checkpoint import Checkpoint
from phasor_layout import PhasorError

from .model import Model

HEADER = struct.Struct("<7i")
BEGIN, STOP = 1, 2  # <s> also ends a story: the training data have it between stories


class Config(NamedTuple):
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int  # negative in the file when the output has a matrix of its own
    positions: int
    own_output: bool

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays in the order of the file."""
        n, d, h, kv = self.layers, self.width, self.hidden, self.kv_heads * self.head_width
        out = {"embedding": (self.vocabulary, d), "attention_norm": (n, d), "q": (n, d, d), "k": (n, kv, d), "v": (n, kv, d), "out": (n, d, d),
               "ffn_norm": (n, d), "gate": (n, h, d), "down": (n, d, h), "up": (n, h, d), "final_norm": (d,),
               "cosines": (self.positions, self.head_width // 2), "sines": (self.positions, self.head_width // 2)}
        return {**out, "output": (self.vocabulary, d)} if self.own_output else out


def read_config(path: Path) -> Config | None:
    """The header, or None when the file is not of this format."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    width, hidden, layers, heads, kv_heads, vocabulary, positions = HEADER.unpack(head)
    if min(width, hidden, layers, heads, kv_heads, positions) < 1 or vocabulary == 0 or width % heads or heads % kv_heads:
        return None
    config = Config(width, hidden, layers, heads, kv_heads, abs(vocabulary), positions, vocabulary < 0)
    return config if size == HEADER.size + 4 * sum(int(np.prod(s, dtype=object)) for s in config.shapes().values()) else None


def read(path: Path) -> Model:
    """The model of a file for which read_config gives a configuration."""
    config = read_config(path)
    if config is None:
        raise PhasorError(f"{path}: not a llama2.c file of version 0: its size is not what its first seven numbers imply")
    arrays, at = {}, HEADER.size
    for name, shape in config.shapes().items():
        arrays[name] = np.memmap(path, dtype="<f4", mode="r", offset=at, shape=shape)
        at += 4 * int(np.prod(shape))
    model = Model(D.with_defaults(_descriptor(config, path.stem)), Checkpoint(path, {}))
    put = model.values
    w = config.head_width
    # Exactly what run.c computes: 1 / 10000^(2i / head width).
    put[_key(R.KINDS, 0, R.ROTARY)] = 10000.0 ** (-np.arange(0, w, 2, dtype=np.float64) / w)
    put[_key(R.TARGET, 0, R.EMBEDDING)] = arrays["embedding"]
    for i in range(config.layers):
        put[_key(R.DECODER, i, R.ATTENTION_BEFORE)] = arrays["attention_norm"][i]
        put[_key(R.DECODER, i, R.QKV)] = np.concatenate([arrays[name][i] for name in ("q", "k", "v")])
        put[_key(R.DECODER, i, R.ATTENTION_OUT)] = arrays["out"][i]
        put[_key(R.DECODER, i, R.FFN_BEFORE)] = arrays["ffn_norm"][i]
        put[_key(R.DECODER, i, R.FFN_IN)] = np.concatenate([arrays["gate"][i], arrays["up"][i]])
        put[_key(R.DECODER, i, R.FFN_OUT)] = arrays["down"][i]
    put[_key(R.DECODER, R.FINAL, R.FINAL_NORM)] = arrays["final_norm"]
    if config.own_output:
        put[_key(R.OUTPUT, 0, R.OUTPUT_WEIGHT)] = arrays["output"]
    return model


def _key(stack: int, weights: int, role: int) -> int:
    return stack << 24 | weights << 8 | role


def _descriptor(c: Config, name: str) -> dict:
    kind = {"norm": D.RMS_NORM, "norm_place": D.BEFORE, "norm_eps": 1e-5, "heads": c.heads, "kv_heads": c.kv_heads, "head_width": c.head_width,
            "scale": float(np.float32(c.head_width ** -0.5)), "position": D.ROTARY_INTERLEAVED, "rotary_width": c.head_width, "hidden": c.hidden,
            "activation": D.SILU, "gated": 1}
    return {"model": {"stack": D.DECODER, "name": name, "converter": "tools/convert.py"},
            "target": {"vocabulary": c.vocabulary, "start": BEGIN, "end": [BEGIN, STOP], "prefix": [BEGIN]},
            "decoder": {"width": c.width, "layers": [x for i in range(c.layers) for x in (0, i)], "max_positions": c.positions,
                        "final_norm": D.RMS_NORM, "final_norm_eps": 1e-5},
            "kinds": [kind], "output": {"output": D.LOGITS, "tied": D.TIED_OWN if c.own_output else D.TIED_TARGET}}
