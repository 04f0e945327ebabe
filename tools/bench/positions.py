"""What each position encoding costs a forward pass: random encoders that differ in it alone, in
turns, as a share of the one without positions.

    PYTHONPATH=tools python3 -m bench.positions [--lengths 64 256 512] [--runs 5] [--threads 1]

6 layers, width 384, 12 heads of 32, feed-forward 1,536, f32, one sentence at a time
(tests/cpp/bench_encoder.cpp). numpy only. Prints a table.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile

import numpy as np

from bench.common import at_threads, machine, parser, run_json
from phasor.entry import front_door
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import write_model

LONGEST = 512
ENCODINGS: dict[str, dict] = {
    "none": {},
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
        "attention_biases": 15,
        "ffn_biases": 3,
        **more,
    }
    return {
        "model": {"stack": D.ENCODER},
        "source": {"vocabulary": 1000},
        "kinds": [kind],
        "output": {"output": D.POOLED, "pooling": D.MEAN, "normalise": 1},
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


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


@front_door("bench.positions")
def main() -> int:
    options = parser(__doc__)
    options.add_argument("--lengths", type=int, nargs="+", default=[64, 256, LONGEST])
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args()
    seconds: dict[tuple[str, int], list[float]] = {}
    load, program = os.getloadavg()[0], f"{args.build}/bench_encoder"
    with tempfile.TemporaryDirectory() as folder:
        for i, more in enumerate(ENCODINGS.values()):
            with open(f"{folder}/{i}.phasor", "wb+") as file:
                write_model(file, descriptor(more), weights)
        for run in range(args.runs):
            for length in args.lengths:
                turns = list(enumerate(ENCODINGS))
                for i, name in turns if run % 2 == 0 else turns[::-1]:
                    path = f"{folder}/{i}.phasor"
                    how = {"length": length, "threads": args.threads, "seconds": 0.3}
                    answer = run_json(program, path, **how)
                    seconds.setdefault((name, length), []).append(answer["seconds"])
    print(row("encoding", *(f"{n} tokens" for n in args.lengths)))
    print("|---|" + "---:|" * len(args.lengths))
    for name in ENCODINGS:
        pairs = [
            [statistics.median(seconds[n, length]) for n in (name, "none")]
            for length in args.lengths
        ]
        is_base = name == "none"
        cells = [
            f"{own * 1e3:.1f} ms" if is_base else f"{(own / base - 1) * 100:+.0f} %"
            for own, base in pairs
        ]
        print(row(name, *cells))
    print(
        f"- medians of {args.runs} runs in turns, {at_threads(args.threads)}; {machine()}; load "
        f"before the runs {load:.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
