"""Ten models as people write them: each gives what tests/golden/own holds of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from own_modules import NAMES, make

OWN = Path(__file__).resolve().parents[1] / "golden" / "own"


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_what_it_gave(name):
    """Its numbers do not hang on a version of PyTorch, and every parameter counts."""
    own, stored = make(name), np.load(OWN / f"{name}.npz")
    assert stored.files == [*own.given, "output"]
    for key, value in own.given.items():
        assert np.array_equal(stored[key], value)
    assert np.abs(stored["output"] - own.output).max() < 1e-5 * np.ptp(own.output)
    given = [torch.from_numpy(value) for value in own.given.values()]
    own.net.train()  # no dropout anywhere, and no fast path that has no gradients
    own.net(*given).square().sum().backward()
    idle = [key for key, p in own.net.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle
