"""One output, token by token: the tokens and the text of phasor_generate, by single steps."""

from __future__ import annotations

import ctypes
from typing import Any, Sequence

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import check, new, pointer
from phasor.runtime.session import Session
from phasor.runtime.texts import IdsToText
from phasor.runtime.weights import Weights


class Output:
    """An output while it grows.

    ids: (n) the prompt of a decoder, or the source of an encoder-decoder. options: how many tokens
    and how they are chosen. stops: texts that end the output and are not in it. room: tokens that a
    sequence holds. best: steps give only the most probable token.
    """

    def __init__(
        self,
        weights: Weights,
        ids: np.ndarray,
        options: Any,
        stops: Sequence[str],
        room: int,
        best: bool = False,
    ) -> None:
        side, crossing = weights.target, weights.stack == c.ENCODER_DECODER
        self._weights, self._room, self._stops, self._best = weights, room, stops, best
        self._begins = crossing or not ids.size
        start = side.decoder_start if side.decoder_start != c.NONE else side.start
        first = np.array([start], np.uint32) if self._begins else ids
        self.most = min(options.max_new or room, room + 1 - first.size)
        self.ids = np.empty(first.size + self.most, np.uint32)
        self.ids[: first.size] = first
        self.known, self.fed, self.made = first.size, 0, 0
        self._random, self._given = c.Random(), options  # which keep what they point to
        self._options = c.GenerateOptions.from_buffer_copy(options)
        weights.library.phasor_random_seed(ctypes.byref(self._random), options.seed)
        self._options.random = ctypes.pointer(self._random)
        if crossing:
            self._options.source, self._options.source_count = pointer(ids), ids.size
        ends = options.end[: options.end_count] if options.end_count else []
        self._ends = frozenset([*side.end[: side.end_count], *ends])
        self.token, self._error = ctypes.c_uint32(), new(c.Error)  # the last one that was chosen
        self._where, self._argmax = pointer(self.ids), weights.library.phasor_argmax
        self._to = ctypes.byref(self.token)
        self._top = ctypes.byref(ctypes.c_float())
        self._text, self._held = IdsToText(weights, c.TARGET), ""
        if not crossing:  # the text continues the prompt
            for token in first.tolist():
                self._text.add(token)

    @property
    def want(self) -> int:
        """What the last token of a step is asked for."""
        return c.BEST_LAST if self._best else c.LOGITS_LAST

    def choose(self, session: Session, row: int = 0) -> None:
        """The next token, by this row of the last step, which has read all tokens before it."""
        options, forced = self._options, c.NONE
        if self._begins and not self.made:
            forced = self._weights.target.forced_first
        if options.forced_last and (self.made + 1 == self.most or self.fed == self._room):
            forced = options.forced_last[0]
        if self._best or forced != c.NONE:
            status = self._argmax(session.handle, row, self._to, self._top)
            if status:
                check(status, None, f"{self._weights.path}: the logits of token {self.known}")
            if forced != c.NONE:
                self.token.value = forced
            return
        given = (self._where, self.known, self.made, ctypes.byref(options))
        choose = self._weights.library.phasor_choose
        status = choose(session.handle, self._to, None, row, *given, ctypes.byref(self._error))
        check(status, self._error, self._weights.path)

    def take(self) -> tuple[str, str]:
        """Appends the chosen token. The text that is certain with it, and why the output ends:
        "stop", "length", or "" where it does not."""
        token = self.token.value
        self.made += 1
        ended = token in self._ends
        last = ended or self.made == self.most or self.fed == self._room
        raw = self._text.add(token)
        if last:
            raw += self._text.end()
        text, stopped = raw.decode("utf-8", "replace"), False
        if self._stops:
            text, stopped = self._certain(text, last)
        if not last and not stopped:
            self.ids[self.known] = token
            self.known += 1
            return text, ""
        return text, "stop" if ended or stopped else "length"

    def _certain(self, piece: str, last: bool) -> tuple[str, bool]:
        """The text that cannot become a stop string any more, and whether one has ended it: of
        several, the one that is whole first."""
        text = self._held + piece
        found = [(at + len(one), at) for one in self._stops if (at := text.find(one)) >= 0]
        if found:
            return text[: min(found)[1]], True
        keep = 0 if last else max(_overlap(text, one) for one in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the start of a stop string."""
    longest = min(len(stop) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
