"""The tables behind position encodings, and what tools/plot.py takes from phasor's arrays (its pictures only where matplotlib is)."""

from pathlib import Path

import numpy as np
import pytest

from families import positions
from phasor_layout import PhasorError
from reference import sinusoid

ROOT = Path(__file__).resolve().parents[2]


def test_t5_buckets_by_hand():
    """32 buckets, 128: single distances to 15 (one-sided) or 7 (two-sided), then by the logarithm, then all alike."""
    one = positions.t5_buckets(np.arange(-200, 5), 32, 128, False)[::-1]  # distance back −4, −3, …, 200
    assert one[:4].tolist() == [0, 0, 0, 0] and one[4:4 + 16].tolist() == list(range(16))
    assert np.all(np.diff(one[4:]) >= 0) and set(one[4 + 113:]) == {31} and one[4 + 112] == 30
    two = positions.t5_buckets(np.arange(-200, 201), 32, 128, True)
    assert two[200:208].tolist() == [0, *range(17, 24)] and two[193:201].tolist() == list(range(7, -1, -1))
    assert two[0] == 15 and two[400] == 31
    assert np.array_equal(two[201:] - 16, two[:200][::-1])


@pytest.mark.parametrize("heads,expected", [(1, [-8]), (2, [-4, -8]), (4, [-2, -4, -6, -8]), (3, [-4, -8, -2]), (6, [-2, -4, -6, -8, -1, -3]),
                                            (12, [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5])])
def test_alibi_slopes_by_hand(heads, expected):
    assert np.log2(positions.alibi_slopes(heads)) == pytest.approx(expected)


def test_frequencies():
    assert positions.inverse_frequencies(4, 100.0) == pytest.approx([1, 0.1])


# ---- tools/plot.py


@pytest.fixture()
def plot():
    pytest.importorskip("matplotlib", reason="tools/requirements-plot.txt is not installed")
    import plot
    return plot


TRANSLATOR = ROOT / "tests/golden/models/tiny-d2l-f32.phasor"


def test_what_is_added_is_the_sinusoid(plot, phasor):
    """The program's own embedding less the token's: the sinusoid of the file."""
    from phasor_file import PhasorFile
    import phasor_tensors as R
    file = PhasorFile(TRANSLATOR)
    got = plot.added(phasor, TRANSLATOR, 5, 12)
    want = sinusoid(file.weights(R.SOURCE << 24 | R.SINUSOID), np.arange(len(got)), file.descriptor["encoder"]["position"])
    assert got.shape == (12, file.descriptor["encoder"]["width"]) and np.abs(got - want).max() < 1e-5


def test_scores_from_weights(plot, monkeypatch, tmp_path):
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


@pytest.mark.parametrize("command,more,suffix", [("columns", ["--columns", "0,1"], "svg"), ("table", [], "png"), ("attention", ["source4 source5"], "png")])
def test_pictures_are_the_same_each_time(plot, phasor, tmp_path, command, more, suffix):
    for name in ("a", "b"):
        assert plot.main([command, str(TRANSLATOR), *more, "-o", str(tmp_path / f"{name}.{suffix}"), "--phasor", str(phasor)]) == 0
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize("arguments,message", [
    (["columns", str(TRANSLATOR), "--columns", "0,9999", "-o", "x.png"], "--columns: 9999"),
    (["distance", str(TRANSLATOR), "-o", "x.png"], "expected a decoder"),
    (["table", str(TRANSLATOR), "-o", "x.pdf"], "ends in .png or .svg"),
    (["table", "absent.phasor", "-o", "x.png"], "absent.phasor"),
])
def test_faults_are_one_line(plot, phasor, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert plot.main([*arguments, "--phasor", str(phasor)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.startswith("plot: ") and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
