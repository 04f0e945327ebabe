"""examples/python/own_module.ipynb runs from top to bottom, and says what its text promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from places import ROOT, program, there

NOTEBOOK = ROOT / "examples/python/own_module.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.fixture(scope="module")
def said() -> str:
    """What its cells print, one after another in one Python."""
    there(ROOT / "build/libphasor.so.0", "run make shared")
    code = "\n".join("".join(one["source"]) for one in CELLS if one["cell_type"] == "code")
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=600,
        cwd=NOTEBOOK.parent, env={"PATH": "/usr/bin:/bin", "PHASOR": str(program())},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return done.stdout


def test_it_is_a_notebook_without_outputs():
    whole = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert len({one["id"] for one in CELLS}) == len(CELLS) and NOTEBOOK.stat().st_size < 20_000
    for one in CELLS:
        code = one["cell_type"] == "code"
        assert not code or (one["outputs"], one["execution_count"]) == ([], None)
        assert all(len(line) <= 101 for line in one["source"])


def test_it_runs_from_top_to_bottom(said):
    assert float(re.findall(r"largest difference: (\S+) of", said)[0]) <= 1e-5
    stack = re.findall(r'^stack = "(\w+)"', said, re.M)
    assert stack == ["encoder"] and 'pooling = "mean"' in said
    found = re.findall(r"(f32|q8): ([\d,]+) bytes, (\d+) vectors, least cosine (\S+)", said)
    (_, large, many, exact), (_, small, few, near) = found
    assert int(many) == int(few) >= 7 and float(exact) > 0.999999 and float(near) > 0.999
    assert int(small.replace(",", "")) < 0.5 * int(large.replace(",", ""))
    errors = [float(one) for one in re.findall(r"error of q8 .*: (\S+)", said)]
    assert len(errors) == 4 and 0 < min(errors) <= max(errors) < 0.05
    assert "attention (2, 4, 9, 9)" in said
    right, asked = map(int, re.findall(r"10,000 sentences, (\d+) of (\d+) queries", said)[0])
    assert asked == 200 and right >= 180


def test_a_board_has_the_same_bits(said):
    there(ROOT / "build/aarch64/phasor", "run make cross TARGET=aarch64")
    assert "8 vectors on aarch64: the same bits" in said
