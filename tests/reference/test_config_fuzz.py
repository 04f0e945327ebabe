"""A few random configurations of each family and version (config_fuzz.py): equal, or refused."""

from __future__ import annotations

import config_fuzz
import pytest

from places import need_newer
from sample import parameters

SEEDS = 5  # of each family and version; `make config-fuzz` has hundreds
BASES = config_fuzz.bases(config_fuzz.VERSIONS[-1])


@pytest.fixture(scope="module", params=config_fuzz.VERSIONS)
def results(request):
    if request.param == "5.x":
        need_newer()
    out: dict[str, list] = {}
    wanted = parameters(request, "family")
    found = config_fuzz.bases(request.param)  # the older version has not all
    families = {name: base for name, base in found.items() if name in wanted}
    out.update({name: None for name in BASES if name not in found})
    for result in config_fuzz.results(request.param, families, 0, SEEDS):
        out.setdefault(result.draw["family"], []).append(result)
    return out


@pytest.mark.parametrize("family", BASES)
def test_what_is_converted_is_equal(results, family):
    if results[family] is None:
        pytest.skip("transformers 4.57 does not have it")
    assert len(results[family]) == SEEDS
    assert [str(result) for result in results[family] if result.what == "wrong"] == []


def test_most_are_compared(results):
    """A harness that makes or compares nothing would find nothing."""
    whats = [result.what for of in results.values() for result in of or ()]
    assert whats.count("equal") > len(whats) / 4 and whats.count("refused") > len(whats) / 50
