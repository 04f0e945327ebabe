"""The tables behind position encodings, by hand."""

import numpy as np
import pytest

from phasor import positions


def test_t5_buckets_by_hand():
    """32 buckets, 128: single distances to 15 (one-sided) or 7 (two-sided), then by the logarithm,
    then all alike."""
    one = positions.t5_buckets(np.arange(-200, 5), 32, 128, False)[
        ::-1
    ]  # distance back −4, −3, …, 200
    assert one[:4].tolist() == [0, 0, 0, 0] and one[4 : 4 + 16].tolist() == list(range(16))
    assert np.all(np.diff(one[4:]) >= 0) and set(one[4 + 113 :]) == {31} and one[4 + 112] == 30
    two = positions.t5_buckets(np.arange(-200, 201), 32, 128, True)
    assert two[200:208].tolist() == [0, *range(17, 24)] and two[193:201].tolist() == list(
        range(7, -1, -1)
    )
    assert two[0] == 15 and two[400] == 31
    assert np.array_equal(two[201:] - 16, two[:200][::-1])


@pytest.mark.parametrize(
    "heads,expected",
    [
        (1, [-8]),
        (2, [-4, -8]),
        (4, [-2, -4, -6, -8]),
        (3, [-4, -8, -2]),
        (6, [-2, -4, -6, -8, -1, -3]),
        (12, [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5]),
    ],
)
def test_alibi_slopes_by_hand(heads, expected):
    assert np.log2(positions.alibi_slopes(heads)) == pytest.approx(expected)


def test_frequencies():
    assert positions.inverse_frequencies(4, 100.0) == pytest.approx([1, 0.1])
