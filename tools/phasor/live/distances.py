"""Tables of distances that are added to the scores: T5's, by the ids that are looked up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from phasor import positions
from phasor.errors import PhasorError
from phasor.live.attention import Attention
from phasor.live.stream import BY_HAND, Read
from phasor.live.trace import Node, Ref, Refs, Traced

_LOOKS = ("embedding", "__getitem__", "index_select")
_LONGEST = 4096  # positions of an example that is made to see the farthest distance
_FARTHEST = 8192  # max_distance that is tried
_SAME = 2e-5


class Buckets(NamedTuple):
    """T5's keys, and the table (buckets, heads) with what it is multiplied by."""

    table: Ref
    factor: float
    most: int
    two_sided: bool
    why: str


class _Look(NamedTuple):
    node: Node
    table: Node
    ref: Ref
    ids: np.ndarray  # (queries, keys)


def _look(node: Node, refs: Refs) -> _Look | None:
    """A look-up of rows of a matrix of the state_dict by numbers that no input changes."""
    if node.op not in _LOOKS or node.depends:
        return None
    for table in node.tensors:
        value = table.value
        ref = refs.of(value) if value.is_floating_point() and value.dim() == 2 else None
        for ids in node.tensors:
            whole = ids is not table and not ids.value.is_floating_point()
            squares = [n for n in ids.shape if n != 1] if whole and ids.value.dim() > 1 else []
            if ref is not None and len(squares) == 2 and node.shape[-1] == value.shape[-1]:
                return _Look(node, table, ref, ids.value.reshape(squares).numpy())
    return None


def _looks(trace: Traced) -> list[_Look]:
    return [one for one in (_look(node, trace.refs) for node in trace.nodes) if one is not None]


def _behind(nodes: tuple[Node, ...]) -> set[int]:
    """The calls that these come from."""
    todo, seen = list(nodes), set()
    while todo:
        at = todo.pop()
        if at.index not in seen:
            seen.add(at.index)
            todo += at.tensors
    return seen


def of_distances(ids: np.ndarray) -> dict[int, int] | None:
    """The bucket of each distance, key − query; None where it is not of the distance alone."""
    rows, cols = np.indices(ids.shape)
    out: dict[int, int] = {}
    for distance, bucket in zip((cols - rows).ravel().tolist(), ids.ravel().tolist()):
        if out.setdefault(distance, bucket) != bucket:
            return None
    return out


@lru_cache(maxsize=8)
def readings(buckets: tuple[tuple[int, int], ...], count: int) -> list[tuple[bool, int]]:
    """(two_sided, max_distance) that give these buckets: (distance, bucket)."""
    distances, wanted = np.array(buckets).T
    out = []
    for two_sided in (False, True):
        least = 4 if two_sided else 2
        if count < least or count % least:
            continue
        # The farthest distance's bucket falls as max_distance grows: what has it is a range.
        far = int(np.abs(distances).argmax())

        def bucket(most: int, side: bool = two_sided) -> int:
            return -int(positions.t5_buckets(distances[far : far + 1], count, most, side)[0])

        tried = range(count // least + 1, _FARTHEST)
        first = bisect_left(tried, -wanted[far], key=bucket)
        last = bisect_right(tried, -wanted[far], key=bucket)
        for most in tried[first:last]:
            made = positions.t5_buckets(distances, count, most, two_sided)
            if np.array_equal(made, wanted):
                out.append((two_sided, most))
    return out


def _roundest(values: list[int]) -> int:
    return max(values, key=lambda n: (n & -n, -n))


def buckets_of(found: Attention, read: Read) -> Buckets | None:
    """Those of an attention; None where nothing that is added to its scores is looked up."""
    trace, behind = read.pieces.trace, _behind(found.added)
    looks = _looks(trace)
    own = [i for i, one in enumerate(looks) if one.node.index in behind]
    if not own or found.bias is None:
        return None
    if len(own) != 1:
        raise PhasorError(
            f"{found.where}: {len(own)} tables are added to the scores, expected one: {BY_HAND}"
        )
    look = looks[own[0]]
    factor = _factor(found, look)
    count, causal = look.ref.of, found.mask.startswith("causal")
    name = look.ref.names[0]
    if look.ref.turned or look.ref.rows != (0, count):
        raise PhasorError(f"{look.node.where}: a part of {name} is looked up: {BY_HAND}")
    ids, length = look.ids, max(look.ids.shape)
    while True:
        distances = of_distances(ids) or {}
        seen = sorted((d, b) for d, b in distances.items() if d <= 0 or not causal)
        known = readings(tuple(seen), count) if seen else []
        if not known:
            raise PhasorError(
                f"{look.node.where}: {name} has {count} rows for distances, by another formula than"
                f" T5's: {BY_HAND}"
            )
        last = [count - 1, count // 2 - 1]
        sides = {side for side, _ in known}
        if len(sides) == 1:
            two_sided = sides.pop()
            if last[two_sided] in set(ids[-1].tolist()):
                break
        length *= 2
        longer = read.longer(length) if length <= _LONGEST else None
        again = _looks(longer) if longer is not None else []
        if len(again) != len(looks) or again[own[0]].ref.names != look.ref.names:
            raise PhasorError(
                f"example=: has {max(look.ids.shape)} positions, too few to see how far the"
                f" {count} distances of {name} reach: give a longer one"
            )
        ids = again[own[0]].ids
    most = _roundest([one for _, one in known])
    why = f"{name} has a row for each of {count} buckets: {look.node.where}"
    return Buckets(look.ref, factor, most, two_sided, why)


def _factor(found: Attention, look: _Look) -> float:
    """What the rows are multiplied by. PhasorError where they are not all that is added."""
    assert found.bias is not None
    bias = found.bias.detach().double().numpy()
    bias = np.broadcast_to(bias[: found.heads], (found.heads, *found.length))
    rows = look.table.value.detach().double().numpy()[look.ids]
    if rows.shape != (*found.length, found.heads):
        raise PhasorError(
            f"{look.node.where}: {look.ref.names[0]} has rows of {rows.shape[-1]} values for"
            f" {found.heads} heads: {BY_HAND}"
        )
    made = rows.transpose(2, 0, 1)
    seen = bias != 0 if found.mask else np.ones_like(bias, bool)
    factor = float((bias * made)[seen].sum() / max((made * made)[seen].sum(), 1e-30))
    gap = np.abs(bias - factor * made)[seen].max(initial=0)
    if gap > _SAME * max(np.abs(bias).max(), 1e-30):
        raise PhasorError(
            f"{found.where}: more than the rows of {look.ref.names[0]} is added to the scores:"
            f" {BY_HAND}"
        )
    return 1.0 if abs(factor - 1) < 1e-6 else factor
