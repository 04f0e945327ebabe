"""Models that nobody wrote against the float64 reference: what `phasor` gives for ids is what the papers' formulas give for the same
stored weights. tests/cpp/generator makes them; GENERATED=1000 takes so many in place of the quick run's."""

import os
import random
import subprocess

import numpy as np
import pytest

import phasor_descriptor as D
from phasor_file import PhasorFile
from phasor_layout import QUANTISED, Q4, Q8
from reference import Reference

COUNT = int(os.environ.get("GENERATED", "120"))
FIRST = int(os.environ.get("GENERATED_FIRST", "0"))
# Largest |difference| as a share of the largest |value|. Rounded activations move by a step where float32 and float64 fall on two sides of a border.
TOLERANCE = {False: 2e-4, True: 0.05}


@pytest.fixture(scope="module")
def driver(build_dir):
    path = build_dir / "generate_driver"
    if not path.exists():
        pytest.skip(f"{path}: not built, run `make tests`")
    return path
