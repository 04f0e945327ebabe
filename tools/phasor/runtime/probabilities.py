"""How probable a model finds a text."""

from __future__ import annotations

import ctypes
from typing import Any, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, text_bytes, texts_list
from phasor.runtime.opened import Opened, Texts
from phasor.runtime.results import Score, TokenScore
from phasor.runtime.scores import best, exponential, log_normalizer
from phasor.runtime.session import Session
from phasor.runtime.threads import Stop, interruptible, side_by_side

_Input = tuple[np.ndarray | None, np.ndarray, int]  # source, ids, the first that is scored


class Probabilities(Opened):
    """The log-probability of texts."""

    @overload
    def score(self, texts: str, *, target: str | None = None, top_logprobs: int = 0) -> Score: ...
    @overload
    def score(
        self, texts: Texts, *, target: Texts | None = None, top_logprobs: int = 0
    ) -> list[Score]: ...
    def score(
        self,
        texts: str | Texts,
        *,
        target: str | Texts | None = None,
        top_logprobs: int = 0,
    ) -> Any:
        """The log-probability of a text and of its tokens, or a list of them for a list of texts.
        The first token of a decoder's text has no score.

        target: for an encoder-decoder, the text that is scored, given the first one; its end token
        is added. top_logprobs: with each token, that many of the most probable ones at its place.

        Raises Error if the model gives no logits of tokens, a text has nothing to score or is too
        long.
        """
        weights = self._needs("score", c.DECODER, c.ENCODER_DECODER)
        if weights.output.output != c.OUTPUT_LOGITS:
            raise Error(f"{weights.path}: score needs logits of tokens", c.Status.UNSUPPORTED)
        if not 0 <= top_logprobs <= weights.target.vocabulary or top_logprobs != int(top_logprobs):
            most = weights.target.vocabulary
            raise Error(f"top_logprobs={top_logprobs}: expected a whole number of 0 to {most}")
        decoder = weights.stack == c.DECODER
        if decoder != (target is None):
            what = "a decoder has none" if decoder else "an encoder-decoder needs one"
            raise Error(f"{weights.path}: target: {what}")
        given = texts_list(texts)
        read = self._all_ids(given, self._side(None, weights.input_side))
        if target is None:
            inputs: list[_Input] = [(None, ids, 1) for ids in read]
        else:
            targets = texts_list(target)
            if len(targets) != len(given):
                raise Error(f"target: {len(targets)} texts, expected {len(given)}")
            inputs = [(ids, *self._target(one)) for ids, one in zip(read, targets)]
        for number, (_, ids, first) in enumerate(inputs):
            if ids.size <= first:
                why = "nothing to score: expected at least two tokens (the first has no score)"
                raise Error(f"{weights.path}: text {number}: {why}")

        def work(stop: Stop) -> list[Score]:
            def one(number: int) -> Score:
                return self._score(*inputs[number], top_logprobs, stop)

            return side_by_side(one, range(len(inputs)), self._threads)

        scores = interruptible(work)
        return scores[0] if isinstance(texts, str) else scores

    def _target(self, text: str) -> tuple[np.ndarray, int]:
        """The decoder's ids, and the place of the first one that is scored: behind the token that
        an output begins with, such as a language."""
        text_bytes(text)
        target = self._weights.target
        ids = self._ids(text, self._side(None, c.TARGET), False).tolist()
        ids += target.end[: min(target.end_count, 1)]
        forced = [target.forced_first] if target.forced_first != c.NONE else []
        start = target.decoder_start if target.decoder_start != c.NONE else target.start
        return np.array([start, *forced, *ids], np.uint32), 1 + len(forced)

    def _score(
        self, source: np.ndarray | None, ids: np.ndarray, first: int, top: int, stop: Stop
    ) -> Score:
        weights = self._weights
        limits = weights.limits()
        lengths = {"target": (ids.size - 1, weights.target)}
        if source is not None:
            lengths["source"] = (source.size, weights.source)
        for name, (wanted, side) in lengths.items():
            most = side.max_positions
            if wanted > getattr(limits, name):
                grown = 1 << (wanted - 1).bit_length()
                setattr(limits, name, min(grown, most) if most else grown)
            if wanted > (room := getattr(limits, name)):
                raise Error(f"{weights.path}: {wanted} tokens, the model has {room}", c.Status.FULL)
        limits.logit_rows = limits.chunk
        session = self._kept("score", limits)
        scored = session.use(lambda: self._scored(session, source, ids, first, top), stop)
        self._keep("score", session)
        total = 0.0
        for one in scored:
            total += one.logprob
        perplexity = float(exponential(np.array([-total / len(scored)]))[0])
        return Score(total, perplexity, tuple(scored))

    def _scored(
        self, session: Session, source: np.ndarray | None, ids: np.ndarray, first: int, top: int
    ) -> list[TokenScore]:
        session.plain("phasor_sequence_clear", 0)
        if source is not None:
            session.run("phasor_encode", ctypes.byref(session.item(source)), 1)
        done, scored = 0, list[TokenScore]()
        while done + 1 < ids.size:
            silent = done + 1 < first  # these logits are of tokens that are only read
            left = (first if silent else ids.size) - 1 - done
            count = left if silent else min(left, session.limits.logit_rows)
            wanted = c.LOGITS_NONE if silent else c.LOGITS_ALL
            item = session.item(ids[done : done + count], 0, wanted)
            session.run("phasor_step", ctypes.byref(item), 1)
            for place, row in enumerate(session.rows(0 if silent else count), done + 1):
                if not np.isfinite(row).all():
                    raise Error(f"{self._weights.path}: a logit is not a number",
                                c.Status.NOT_FINITE)  # fmt: skip
                largest, total = log_normalizer(row)

                def logprob(token: int, row: np.ndarray = row) -> float:
                    return float(row[token]) - largest - total

                tops = best(row, top) if top else []
                pairs = tuple((token, logprob(token)) for token in tops)
                scored.append(TokenScore(int(ids[place]), logprob(int(ids[place])), pairs))
            done += count
        return scored
