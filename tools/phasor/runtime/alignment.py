"""Which words of a source and of an output belong to each other, by cross-attention."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import callback
from phasor.runtime.results import Aligned
from phasor.runtime.session import Session

_SEE = callback(c.Callbacks, "see")
_SPACES = " \t\n\v\f\r"
_WORD_BEGINS = "\u2581"  # a piece for a space at the start


class _Unit(NamedTuple):
    """The words of a token. It is of none where `first` is -1."""

    first: int = -1
    last: int = -1


class Aligner:
    """Reads an output once more, and adds up the attention weights of all heads."""

    def __init__(
        self,
        session: Session,
        pieces: Callable[[np.ndarray, int], list[str]],
        piece: Callable[[int, int], str],
    ) -> None:
        """pieces: what each token adds to the text of its side. piece: a token's own text."""
        self._session, self._weights = session, session.weights
        self._pieces, self._piece = pieces, piece

    def align(self, source: np.ndarray, output: np.ndarray, text: str) -> Aligned:
        """Of a source that is encoded in sequence 0. Each token of the output goes with the token
        of the source that it attends to most."""
        if not output.size:
            return Aligned(text, *self._words(c.SOURCE, source)[:1], (), ())
        attention = self._attention(source, output)
        names, of = self._words(c.SOURCE, source)
        made, to = self._words(c.TARGET, output)
        words = np.array([unit.first >= 0 for unit in of])
        pairs = set()
        for place, unit in enumerate(to):
            if unit.first < 0 or not words.any():
                continue
            best = of[int(np.where(words, attention[place], -np.inf).argmax())]
            pairs |= {
                (s, t)
                for s in range(best.first, best.last + 1)
                for t in range(unit.first, unit.last + 1)
            }
        return Aligned(text, names, made, tuple(sorted(pairs)))

    def _attention(self, source: np.ndarray, output: np.ndarray) -> np.ndarray:
        """(output, source) sums of weights."""
        start = self._weights.target.decoder_start
        start = self._weights.target.start if start == c.NONE else start
        read = np.concatenate([np.array([start], np.uint32), output[:-1]])
        sums = np.zeros((output.size, source.size))

        def see(_: Any, address: int) -> None:
            view = ctypes.cast(address, ctypes.POINTER(c.View)).contents
            if view.what != c.SEE_CROSS_ATTENTION:
                return
            size = (view.heads - 1) * view.head_stride + (view.rows - 1) * view.stride + view.cols
            values = np.ctypeslib.as_array(view.data, (size,))
            shape = (view.heads, view.rows, view.cols)
            strides = (view.head_stride * 4, view.stride * 4, 4)
            for head in np.lib.stride_tricks.as_strided(values, shape, strides):
                sums[view.position : view.position + view.rows] += head

        session, function = self._session, _SEE(see)
        library, handle = session.library, session.handle
        # A source stays, unless layers with a window have dropped its beginning.
        if library.phasor_sequence_truncate(handle, 0, 0) != c.Status.OK:
            session.run("phasor_encode", ctypes.byref(session.item(source)), 1)
        item = session.item(read)
        session.seen(function, lambda: session.run("phasor_step", ctypes.byref(item), 1))
        return sums

    def _is_special(self, side: int, token: int) -> bool:
        s = self._weights.side(side)
        known = {s.pad, s.start, s.decoder_start}
        for ids, count in ((s.end, s.end_count), (s.prefix, s.prefix_count)):
            known.update(ids[:count])
        known.update(s.suffix[: s.suffix_count])
        if token in known:
            return True
        text = "".join(self._pieces(np.array([token], np.uint32), side))
        return not text and self._piece(token, side) != _WORD_BEGINS

    def _words(self, side: int, ids: np.ndarray) -> tuple[tuple[str, ...], list[_Unit]]:
        """The words of a text, and those of each token."""
        words: list[str] = []
        units = [_Unit() for _ in ids]
        inside = False  # a word that may go on
        first = 0  # token since which nothing but spaces has come
        for place, more in enumerate(self._pieces(ids, side)):
            if self._is_special(side, int(ids[place])):
                inside = inside and bool(more) and more[0] not in _SPACES
                first = place + 1
                continue
            rest = more.lstrip(_SPACES)
            if rest != more:
                inside = False
            if not rest:
                continue  # nothing yet: it goes with what comes next
            if not inside:
                words.append("")
            word = len(words) - 1
            for known in range(first, place + 1):
                units[known] = _Unit(word, word)
            first, inside = place + 1, True
            for character in rest:
                if character in _SPACES:
                    inside = False
                    continue
                if not inside:
                    words.append("")
                inside = True
                words[-1] += character
            units[place] = _Unit(units[place].first, len(words) - 1)
        return tuple(words), units
