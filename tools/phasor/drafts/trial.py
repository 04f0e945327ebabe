"""Readings of a draft, tried until one gives what the owner's own model gave (`--explain` with
`--expect`)."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import numpy as np

from phasor import expect
from phasor import vectors as V
from phasor.checkpoints.tensors import Checkpoint
from phasor.drafts.draft import Draft, Line
from phasor.errors import PhasorError
from phasor.format import tensors as R
from phasor.format.meta import as_stored
from phasor.runs import run_all
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description

_MOST, _FEWEST = 512, 24  # readings that are tried
_MOST_WORK = 1 << 38  # products of weights and positions, of all of them
_SWEEPS = 3
_AGREES = 2e-5  # of a row's range
_EXACT = 2e-6
_BETTER = 0.9  # of a gap, that another reading must have to be nearer
_LAST = ("norm_eps",)  # which matter least
_INPUTS = 2  # of the file, that are tried


class Tried(NamedTuple):
    """The nearest reading: how far it is from the owner's outputs, how many were tried, and what
    the first of those that cannot be said."""

    draft: Draft
    gap: float
    count: int
    problem: str

    @property
    def agrees(self) -> bool:
        return self.gap <= _AGREES


class _Choice(NamedTuple):
    key: str
    readings: tuple[Any, ...]


_Reading = tuple[int, ...]  # which of each choice's


def tried(draft: Draft, checkpoint: Checkpoint, path: Path) -> Tried:
    """path: of the inputs with the owner's outputs (expect.py)."""
    trial = _Trial(draft, checkpoint, path)
    trial.sweep()
    if _AGREES < trial.best < np.inf:  # where none can be converted, no other can
        trial.search()
    return Tried(trial.made(), trial.best, len(trial.gaps), trial.problem)


class _Trial:
    def __init__(self, draft: Draft, checkpoint: Checkpoint, path: Path) -> None:
        self.draft, self.checkpoint, self.path = draft, checkpoint, path
        self.arrays = expect.opened(path, _INPUTS)
        lines = sorted(draft.lines.values(), key=lambda line: line.key in _LAST)
        self.choices = [_Choice(line.key, line.readings) for line in lines if line.others]
        for parts in draft.ordered:
            orders = tuple((*p, parts[3]) for p in permutations(parts[:3]))
            self.choices.append(_Choice(" ".join(parts), orders))
        self.gaps: dict[_Reading, float] = {}
        self.at: _Reading = (0,) * len(self.choices)
        self.work, self.problem = 0, ""

    @property
    def best(self) -> float:
        return min(self.gaps.values(), default=np.inf)

    @property
    def over(self) -> bool:
        count = len(self.gaps)
        return count >= _MOST or count >= _FEWEST and self.work > _MOST_WORK

    def sweep(self) -> None:
        """One choice after the other, each the nearest with the others as they are."""
        for _ in range(_SWEEPS):
            before = self.at
            for i, choice in enumerate(self.choices):
                if self.over or self.best <= _EXACT:
                    break
                near = [(self.gap(r), n, r) for n, r in enumerate(self._others(i, choice))]
                if min(near)[0] < _BETTER * near[0][0]:
                    self.at = min(near)[2]
            if self.at == before:
                break

    def _others(self, i: int, choice: _Choice) -> Iterator[_Reading]:
        yield self.at
        for n in range(len(choice.readings)):
            if n != self.at[i]:
                yield (*self.at[:i], n, *self.at[i + 1 :])

    def search(self) -> None:
        """All readings, those first that have the most of the likeliest."""
        start = (0,) * len(self.choices)
        queue, seen = [(0, start)], {start}
        while queue and not self.over and self.best > _AGREES:
            rank, reading = heapq.heappop(queue)
            self.gap(reading)
            for i, choice in enumerate(self.choices):
                more = (*reading[:i], reading[i] + 1, *reading[i + 1 :])
                if more[i] < len(choice.readings) and more not in seen:
                    seen.add(more)
                    heapq.heappush(queue, (rank + 1, more))

    def gap(self, reading: _Reading) -> float:
        """How far a reading is from the owner's outputs; infinite where it cannot be."""
        if reading not in self.gaps and not self.over:
            try:
                self.gaps[reading] = self._gap(self._drafted(reading).content())
            except PhasorError as error:
                self.gaps[reading] = np.inf
                self.problem = self.problem or str(error).split("\n")[0]
        return self.gaps.get(reading, np.inf)

    def _gap(self, content: dict[str, Any]) -> float:
        source = Checkpoint(self.checkpoint.path, self.checkpoint.tensors)
        model = state_dict.read(source, parse_description(content, self.path))
        if problems := model.problems():
            raise PhasorError(problems[0])
        expect.put_vectors(self.arrays, model)
        file = V.ExactWeights(as_stored(model.descriptor), model.weights)
        expected = expect.read(self.arrays, model.descriptor, model.inside)
        weights = sum(slot.rows * max(slot.cols, 1) for slot in R.slots(file.descriptor))
        ids = sum(len(one.given.source) + len(one.given.target) for one in expected)
        self.work += weights * ids
        (runs,) = run_all(file, [one.given for one in expected], (np.float64,))
        gaps = [expect.gaps(one, ran).max() for one, ran in zip(expected, runs)]
        return float(np.nan_to_num(max(gaps), nan=np.inf))

    def _drafted(self, reading: _Reading) -> Draft:
        out = replace(
            self.draft, lines=dict(self.draft.lines), names=dict(self.draft.names), ordered=[]
        )
        for choice, n in zip(self.choices, reading):
            value = choice.readings[n]
            if isinstance(value, tuple):
                parts = choice.key.split()
                out.names |= {p: self.draft.names[given] for p, given in zip(parts, value)}
            else:
                out.lines[choice.key] = self.draft.lines[choice.key]._replace(value=value)
        return out

    def made(self) -> Draft:
        """The nearest reading, whose lines say so where it agrees."""
        nearest = min(self.gaps, key=self.gaps.__getitem__)
        if self.gaps[self.at] * _BETTER <= self.gaps[nearest]:
            nearest = self.at
        out = self._drafted(nearest)
        if self.best > _AGREES:
            out.ordered = self.draft.ordered
            return out
        for i, choice in enumerate(self.choices):
            if choice.key in out.lines:
                out.lines[choice.key] = self._decided(out.lines[choice.key], i, nearest)
        return out

    def _decided(self, line: Line, i: int, nearest: _Reading) -> Line:
        """What else was tried in its place, and how far that was."""
        other = {
            r[i]: gap
            for r, gap in self.gaps.items()
            if r[i] != nearest[i] and r[:i] + r[i + 1 :] == nearest[:i] + nearest[i + 1 :]
        }
        near = min(other, key=other.__getitem__, default=None)
        why = f"agrees with {self.path.name}"
        if near is not None and np.isfinite(other[near]):
            text = self.choices[i].readings[near]
            why += f", {text} is {other[near]:.2g} of a row's range away"
        return line._replace(why=why, decided=True)
