#!/usr/bin/env python3
"""Makes a small story model of BitNet's form, with random weights of a fixed seed, for counts on a
board: its blocks in q2r, with the codes of BitNet's rounding of weights, or the same weights in q8.
Embedding, tied output, and all else are equal in both.

    .venv/bin/python tests/machines/baremetal/make_ternary.py OUT.phasor q2r|q8
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


def descriptor() -> dict:
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
        "activation": D.RELU2,
        "gated": 1,
        "position": D.ROTARY_HALVES,
        "rotary_width": head,
        "inner_norms": D.NORM_OF_OUT | D.NORM_OF_DOWN,
    }
    layers = [n for i in range(LAYERS) for n in (0, i)]  # of each its kind and its weights
    stack = {"width": WIDTH, "layers": layers, "max_positions": LONGEST}
    return {
        "model": {"stack": D.DECODER},
        "target": {"vocabulary": VOCABULARY, "start": 1, "end": []},
        "kinds": [block],
        "decoder": {**stack, "final_norm": D.RMS_NORM, "final_norm_eps": 1e-5},
        "output": {"output": D.LOGITS},
    }


def main(out: Path, name: str) -> int:
    kind = L.type_code(name)

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
        write_model(file, descriptor(), weights, type_of)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
