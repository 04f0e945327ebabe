#!/usr/bin/env python3
"""Makes marian.phasor, beside this file: a MarianMT of width 16 with 2 + 2 layers and random
weights, as the converter makes it of a directory, for the beam search on a board. Its end comes now
and then, so that outputs have different lengths.

    .venv/bin/python tests/machines/baremetal/make_marian.py
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
for folder in ("tools", "tests/support"):
    sys.path.insert(0, str(HERE.parents[2] / folder))

import translators  # noqa: E402
from phasor import convert  # noqa: E402


def main(seed: int = 31, out: Path = HERE / "marian.phasor") -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "marian"
        files = translators.marian_files()
        translators.write(folder, "marian", files, **translators.MARIAN_IDS)
        file = folder / "model.safetensors"
        tensors, rng = load_file(file), np.random.default_rng(seed)
        for name, values in tensors.items():  # larger, so that outputs differ
            if values.ndim == 2 and values.shape[0] > 1:
                tensors[name] = (rng.normal(size=values.shape) * 0.45).astype(np.float32)
        bias = rng.normal(size=tensors["final_logits_bias"].shape).astype(np.float32) * 0.5
        bias[0, :5] = [0.6, -9, -9, -9, -9]  # the end; unknown, pad and languages never
        bias[0, len(json.loads(files["vocab.json"])) :] = -9  # ids without a piece
        tensors["final_logits_bias"] = bias
        save_file(tensors, file)
        (folder / "generation_config.json").write_text(json.dumps({"no_repeat_ngram_size": 2}))
        return convert.main([str(folder), "-o", str(out), "--type", "q8", "--quiet"])


if __name__ == "__main__":
    sys.exit(main())
