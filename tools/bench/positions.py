"""What each position encoding costs a forward pass: random encoders that differ in it alone, in
turns, beside the one without positions. A row of tools/bench.

6 layers, width 384, 12 heads of 32, feed-forward 1,536, f32, one sentence at a time
(tests/cpp/bench_encoder.cpp). In the table `Phasor` is the encoder without positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.common import OURS, Engines, Results
from bench.encoder import Ours
from phasor.files import replacing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.writer import write_model

LONGEST = 512
ENCODINGS: dict[str, dict] = {
    OURS: {},  # without positions
    "relative_key": {"position": D.RELATIVE_KEY, "max_distance": LONGEST},
    "relative_key_query": {"position": D.RELATIVE_KEY_QUERY, "max_distance": LONGEST},
    "three-way": {"position": D.THREE_WAY, "max_distance": LONGEST},
    "clipped keys and values, M = 16": {"position": D.CLIPPED, "max_distance": 16},
    "T5 bias": {"position": D.T5_BIAS, "max_distance": 128},
    "ALiBi": {"position": D.ALIBI},
    "rotary": {"position": D.ROTARY_HALVES, "rotary_width": 32},
    "additive score, no positions": {"score": D.ADDITIVE},
}


def descriptor(more: dict) -> dict:
    kind = {
        "norm": D.LAYER_NORM,
        "norm_place": D.AFTER,
        "norm_eps": 1e-12,
        "heads": 12,
        "head_width": 32,
        "scale": 32**-0.5,
        "hidden": 1536,
        "activation": D.GELU_ERF,
        "attention_biases": D.ATTENTION_BIASES,
        "ffn_biases": D.FFN_BIASES,
        **more,
    }
    return {
        "model": {"stack": D.ENCODER},
        "source": {"vocabulary": 1000},
        "kinds": [kind],
        "output": {"output": D.POOLED, "pooling": D.MEAN, "normalize": 1},
        "encoder": {
            "width": 384,
            "layers": [n for i in range(6) for n in (0, i)],
            "embedding_norm": D.LAYER_NORM,
            "embedding_norm_eps": 1e-12,
        },
    }


def weights(slot: R.Slot) -> np.ndarray:
    rows = sum(slot.parts)
    if slot.stack == R.KINDS and slot.role == R.ROTARY:
        return 10000.0 ** (-np.arange(rows) / rows)
    if slot.layout == L.VECTOR:
        return np.full(rows, 0.1 if slot.role in (R.SCORE, R.ALIBI) else 1.0, np.float32)
    made = np.random.default_rng(slot.key).standard_normal((rows, slot.cols)) * 0.05
    return made.astype(np.float32)


def row_positions(args: Any, results: Results) -> None:
    folder = args.folder / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for threads in args.threads:
        engines = Engines()
        for i, (name, more) in enumerate(ENCODINGS.items()):
            path = folder / f"positions-{i}.phasor"
            with replacing(path) as file:
                write_model(file, descriptor(more), weights)
            engines[name] = Ours(args, path, threads)
        results.facts |= engines.versions()
        for length in (64, 256, LONGEST):
            for name, runs in engines.take_turns(f"run 1 {length} 300", args.runs).items():
                where = {"type": "f32", "threads": threads, "at": f"{length} tokens"}
                results.add("a sentence", name, [1e3 * r["seconds"] for r in runs], "ms", **where)


ROWS = {"positions": row_positions}
