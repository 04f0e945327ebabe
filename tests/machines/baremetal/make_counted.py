#!/usr/bin/env python3
"""Makes a small story model with random weights of a fixed seed, for counts on a board.

q2r, q8: of BitNet's form, its blocks in q2r, with the codes of BitNet's rounding of weights, or the
same weights in q8. Embedding, tied output, and all else are equal in both.
tables, plain: of Gemma's form in q8, with per-layer embeddings of 64 values, or without them.

    .venv/bin/python tests/machines/baremetal/make_counted.py OUT.phasor q2r|q8|tables|plain
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

from phasor.files import replacing  # noqa: E402
from phasor.format import descriptor as D  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import Quantized  # noqa: E402
from phasor.format.writer import write_model  # noqa: E402

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, LONGEST = 512, 256, 704, 4, 8, 4, 256
OF_A_LAYER = 64  # values of a layer's embedding
BITNET = {"activation": D.RELU2, "inner_norms": D.NORM_OF_OUT | D.NORM_OF_DOWN}
TABLES = {
    "per_layer_width": OF_A_LAYER,
    "per_layer_scale": float(OF_A_LAYER) ** 0.5,
    "per_layer_norm": D.RMS_NORM,
    "per_layer_norm_eps": 1e-6,
}
# What a block has, and what the stack has.
FORMS: dict[str, tuple[dict, dict]] = {
    "q2r": (BITNET, {}),
    "q8": (BITNET, {}),
    "tables": ({"activation": D.GELU_TANH}, TABLES),
    "plain": ({"activation": D.GELU_TANH}, {}),
}


def descriptor(name: str) -> dict:
    head = WIDTH // HEADS
    block = {
        "norm": D.RMS_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_width": head,
        "scale": float(np.float32(head**-0.5)),
        "hidden": HIDDEN,
        "gated": 1,
        "position": D.ROTARY_HALVES,
        "rotary_width": head,
        **FORMS[name][0],
    }
    layers = [n for i in range(LAYERS) for n in (0, i)]  # of each its kind and its weights
    stack = {"width": WIDTH, "layers": layers, "max_positions": LONGEST}
    return {
        "model": {"stack": D.DECODER},
        "target": {"vocabulary": VOCABULARY, "start": 1, "end": []},
        "kinds": [block],
        "decoder": {**stack, "final_norm": D.RMS_NORM, "final_norm_eps": 1e-5, **FORMS[name][1]},
        "output": {"output": D.LOGITS},
    }


def main(out: Path, name: str) -> int:
    kind = L.Q2R if name == "q2r" else L.Q8

    def weights(slot: R.Slot):
        rng = np.random.default_rng(slot.key)
        if slot.type == L.F64:
            count = sum(slot.parts)
            return 10000.0 ** (-np.arange(count) / count)
        if slot.layout == L.VECTOR:
            return np.ones(sum(slot.parts), np.float32)
        values = rng.normal(0, 0.05, (sum(slot.parts), slot.cols)).astype(np.float32)
        if kind != L.Q2R or slot.stack != R.DECODER:
            return values
        scale = np.abs(values).mean(dtype=np.float64).astype(np.float32)
        q = np.clip(np.rint(values / scale), -1, 1).astype(np.int8)
        wide = L.counts_of(slot.cols, kind)[1]
        q = np.pad(q, ((0, 0), (0, wide - slot.cols)))
        return Quantized(np.full((len(q), 1), scale), q, kind)

    def type_of(slot: R.Slot) -> int:
        return kind if slot.stack == R.DECODER else L.Q8

    with replacing(out) as file:
        write_model(file, descriptor(name), weights, type_of)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
