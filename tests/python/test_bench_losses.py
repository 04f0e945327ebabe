"""The picture of losses over sizes: its names do not cover each other."""

import sys

import numpy as np
import pytest

from places import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from bench.losses import apart  # noqa: E402


@pytest.mark.parametrize("seed", range(4))
def test_labels_cover_neither_each_other_nor_a_mark(seed):
    """Points in a few heaps, as files of nearly one size are."""
    rng = np.random.default_rng(seed)
    heaps = rng.uniform((150, 150), (650, 450), (6, 2))
    points = (heaps[:, None] + rng.normal(0, 12, (6, 5, 2))).reshape(-1, 2)
    sizes = np.stack([rng.uniform(15, 70, 30), np.full(30, 8.0)], axis=1)
    marks, inside = np.tile(points, 2) + (-4, -4, 4, 4), np.array([0, 0, 800, 600])
    places = apart(points, sizes, marks, inside)
    assert np.array_equal(places, apart(points, sizes, marks, inside))
    low, high = places - sizes / 2, places + sizes / 2
    assert (low >= inside[:2]).all() and (high <= inside[2:]).all()
    others = np.concatenate([marks, np.concatenate([low, high], axis=1)])
    for i in range(30):
        apart_ = (others[:, :2] >= high[i] - 1e-9) | (others[:, 2:] <= low[i] + 1e-9)
        assert apart_.any(axis=1).sum() == len(others) - 1  # all but itself
    assert (np.abs(places - points) < sizes / 2 + 60).all()


def test_a_label_without_room_takes_the_place_that_is_covered_least():
    taken = np.array([[0, 0, 100, 100], [0, 0, 100, 48]])
    places = apart(np.array([[50.0, 50]]), np.array([[20.0, 8]]), taken, taken[0])
    assert places[0, 1] - 4 >= 48
