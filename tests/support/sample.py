"""A sample of the tests, for `make test-reference`: of each list of parameters one in TEST_SHARE
(1: all), drawn by TEST_SEED; `part` does the same within a test. What has no list, or a short one,
runs always. tests/conftest.py has these hooks.
"""

from __future__ import annotations

import os
import random
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SHARE = int(os.environ.get("TEST_SHARE", "1"))
SEED = int(os.environ.get("TEST_SEED", "0"))
LEAST = 2  # of a list that is not cut


def pytest_report_header() -> str:
    return f"one in {SHARE} of each list: TEST_SHARE={SHARE} TEST_SEED={SEED}"


def _rank(item) -> int:
    """The same for all tests of a file with one parameter: what they share is made once."""
    return zlib.crc32(f"{SEED} {item.path.name} {item.callspec.id}".encode())


def pytest_collection_modifyitems(config, items: list) -> None:
    lists = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            lists[item.nodeid.split("[")[0]].append(item)
    left = set()
    for of in lists.values():
        keep = len(of) if len(of) <= LEAST else max(LEAST, -(-len(of) // SHARE))
        left.update(id(item) for item in sorted(of, key=_rank)[keep:])
    if left:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
        items[:] = [item for item in items if id(item) not in left]


def part(values: Sequence[T]) -> list[T]:
    """One in TEST_SHARE of a long list that a test goes through by itself, in its order."""
    few = random.Random(SEED).sample(range(len(values)), -(-len(values) // SHARE))
    return [values[i] for i in sorted(few)]


def parameters(request, name: str) -> list:
    """What the tests of this module that run have as the parameter NAME: no more need be made."""
    specs = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    return [params[name] for params in specs if name in params]
