#!/usr/bin/env python3
"""Writes what PyTorch says of three small random models: make_goldens.py [DIRECTORY]. Needs torch;
the tests that read it do not.

For each preset: NAME.pt (the state_dict, as torch.save writes it), NAME.toml (its description),
NAME.npz: source, target, greedy (ids), and in float64 logits (T, V), encoder and decoder (layers,
positions, D), the residuals after each block.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

from presets import Config, write_checkpoint  # noqa: E402

CONFIGS = {
    "torch-transformer": Config(
        "torch-transformer",
        width=20,
        heads=2,
        hidden=21,
        layers=(1, 2),
        place="before",
        vocabularies=(31, 37),
        output="target-embedding",
    ),
    "separate": Config(
        "separate",
        width=20,
        heads=2,
        hidden=18,
        layers=(2, 1),
        position="learned",
        score="sqrt_heads",
        vocabularies=(29, 33),
    ),
    "bias-free": Config(
        "bias-free", width=20, heads=1, hidden=19, layers=(1, 1), vocabularies=(23, 27)
    ),
}


def write(name: str, config: Config, folder: Path) -> None:
    module, path = write_checkpoint(config, folder)
    path.rename(folder / f"{name}.pt")
    path.with_suffix(".toml").rename(folder / f"{name}.toml")
    module = module.double()
    rng = np.random.default_rng(7)
    source, target = (rng.integers(0, v, n) for v, n in zip(config.vocabularies, (9, 7)))
    with torch.no_grad():
        logits = module(torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
        seen = {stack: torch.cat(values).numpy() for stack, values in module.seen.items()}
    greedy = np.array(module.greedy(source.tolist(), 12))
    np.savez_compressed(
        folder / f"{name}.npz", source=source, target=target, greedy=greedy, logits=logits, **seen
    )


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "pytorch"
    folder.mkdir(parents=True, exist_ok=True)
    for name, config in CONFIGS.items():
        write(name, config, folder)
        print(name, sum(p.stat().st_size for p in folder.glob(f"{name}.*")), "bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
