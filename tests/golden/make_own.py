"""Writes tests/golden/own/NAME.npz, what the ten models of tests/support/own_modules.py are given
and what they give, as `convert.py --expect` takes it. They are not written again: a model that
gives something else is another model. From the repository's root:

    .venv-reference/bin/python tests/golden/make_own.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from own_modules import NAMES, make

OWN = ROOT / "tests" / "golden" / "own"

if __name__ == "__main__":
    OWN.mkdir(exist_ok=True)
    for name in NAMES:
        own = make(name)
        np.savez(OWN / f"{name}.npz", **own.given, output=own.output)
