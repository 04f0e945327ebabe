"""What tools/plot.py takes from phasor's arrays, and its pictures."""

import numpy as np
import pytest

from phasor import plot
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference.functions import sinusoid
from places import ROOT

TRANSLATOR = ROOT / "tests/golden/models/tiny-d2l-f32.phasor"


def test_what_is_added_is_the_sinusoid(phasor):
    """The program's own embedding less the token's: the sinusoid of the file."""
    file = PhasorFile(TRANSLATOR)
    got = plot.added(phasor, TRANSLATOR, 5, 12)
    want = sinusoid(
        file.weights(R.SOURCE << 24 | R.SINUSOID),
        np.arange(len(got)),
        file.descriptor["encoder"]["position"],
    )
    assert (
        got.shape == (12, file.descriptor["encoder"]["width"]) and np.abs(got - want).max() < 1e-5
    )


def test_scores_from_weights(monkeypatch, tmp_path):
    """The logarithm of the weights is the score but for a constant."""
    bias = np.array([[0.0, -1, -2, -3], [0, 2, -200, 1]])  # (heads, distance)
    scores = np.full((1, 2, 4, 4), -np.inf)
    for i in range(4):
        for j in range(i + 1):
            scores[0, :, i, j] = bias[:, i - j]
    weights = np.exp(scores) / np.exp(scores).sum(axis=3, keepdims=True)
    monkeypatch.setattr(plot, "array", lambda *arguments: (weights.astype(np.float32), ""))
    got = plot.scores_by_distance(None, ROOT / "tests/golden/models/tiny-lm-f32.phasor", 5, 4)
    assert np.isnan(got[1, 2]) and np.abs(np.where(np.isnan(got), 0, got - bias)).max() < 1e-5


@pytest.mark.parametrize(
    "command,more,suffix",
    [
        ("columns", ["--columns", "0,1"], "svg"),
        ("table", [], "png"),
        ("attention", ["source4 source5"], "png"),
    ],
)
def test_pictures_are_the_same_each_time(phasor, tmp_path, command, more, suffix):
    for name in ("a", "b"):
        assert (
            plot.main(
                [
                    command,
                    str(TRANSLATOR),
                    *more,
                    "-o",
                    str(tmp_path / f"{name}.{suffix}"),
                    "--phasor",
                    str(phasor),
                ]
            )
            == 0
        )
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["columns", str(TRANSLATOR), "--columns", "0,9999", "-o", "x.png"], "--columns: 9999"),
        (["distance", str(TRANSLATOR), "-o", "x.png"], "expected a decoder"),
        (["table", str(TRANSLATOR), "-o", "x.pdf"], "ends in .png or .svg"),
        (["table", "absent.phasor", "-o", "x.png"], "absent.phasor"),
    ],
)
def test_faults_are_one_line(phasor, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert plot.main([*arguments, "--phasor", str(phasor)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.startswith("plot: ") and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
