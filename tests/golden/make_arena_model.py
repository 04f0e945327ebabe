#!/usr/bin/env python3
"""Writes the model of tests/cpp/test_arena.cpp: make_arena_model.py FILE. Always the same bytes.

A pooled encoder without a dense layer whose heads, side by side, are far narrower than its width:
a row of `width` values does not fit where the planner has counted a row of the heads.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

import random_models as M  # noqa: E402
from phasor.format import descriptor as D  # noqa: E402


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_arena_model.py FILE", file=sys.stderr)
        return 2
    output = {"output": D.POOLED, "pooling": D.MEAN, "normalize": 1}
    descriptor = M.encoder(
        {"width": 100, "layers": [0, 0]},
        output,
        {"vocabulary": 13},
        heads=1,
        head_width=2,
        hidden=3,
    )
    M.write_with_vectors(Path(sys.argv[1]), descriptor, [(5,), (7, 9)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
