"""Test vectors that a right run does not meet: what rounding can do to the model decides."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from phasor import replay
from phasor import vectors as V
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from places import program

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
MODELS = ("tiny-rotary-f32", "tiny-classes-f32", "tiny-rotary-q4", "tiny-bert-q8")


@pytest.fixture(params=MODELS)
def made(request, tmp_path):
    """(a copy of the model, its inputs, vectors with a tolerance that no run can meet)."""
    path = tmp_path / "m.phasor"
    shutil.copy(GOLDEN / f"{request.param}.phasor", path)
    file = PhasorFile(path)
    inputs = V.choose_inputs(file.descriptor)
    exact = not V.quantized(file)
    stored = V.build(file, inputs) if exact else V.build_stored(file, inputs, V.AUTHOR)[0]
    return path, inputs, V.with_tolerance(stored, 1e-9), V.read(stored, file.descriptor).tolerance


def test_a_right_run_is_told_by_what_rounding_can_do(made):
    path, inputs, impossible, usual = made
    with open(path, "r+b") as stream:
        section, found = replay._agreed(stream, impossible, inputs, program())
    descriptor = PhasorFile(path).descriptor
    tolerance = V.read(section, descriptor).tolerance
    worst = max(found.worst("worst_logit"), found.worst("worst_residual"))
    assert worst <= tolerance <= 64 * usual  # it allows rounding, and not much more


def test_a_wrong_run_is_refused_all_the_same(made):
    """One value of the last row, a share of its range away: a thousandth of it where nothing but
    float32 rounds."""
    path, inputs, impossible, _ = made
    vector = V.read(impossible, PhasorFile(path).descriptor).vectors[-1]
    # The last row's samples lie before the residuals of the stacks.
    residuals = (vector.source_residuals, vector.target_residuals)
    at = len(impossible) - 4 * V.SAMPLES * (1 + sum(1 + len(r) for r in residuals if len(r)))
    wrong = bytearray(impossible)
    (value,) = struct.unpack_from("<f", wrong, at)
    assert value == vector.logits[-1][0]
    share = 0.8 if V.quantized(PhasorFile(path)) else 1e-3
    struct.pack_into("<f", wrong, at, value + share * float(vector.range[-1]))
    with open(path, "r+b") as stream, pytest.raises(PhasorError, match="differs by"):
        replay._agreed(stream, bytes(wrong), inputs, program())
