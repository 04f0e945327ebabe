"""What models write: translations and texts that go on."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Iterator, Literal, Sequence, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.alignment import Aligner
from phasor.runtime.library import (
    Error,
    check,
    new,
    pointer,
    text_bytes,
    texts_list,
)
from phasor.runtime.opened import Opened, Texts
from phasor.runtime.outputs import Output
from phasor.runtime.results import Aligned
from phasor.runtime.session import Session
from phasor.runtime.threads import Stop, interruptible, side_by_side

_MOST_STOPS, _MOST_STOP_BYTES = 64, 256
# What both ways to choose tokens take from the file.
_SHARED = (
    "max_new repetition_penalty no_repeat_ngram min_new suppressed suppressed_count bad_words"
    " bad_words_count source source_count source_no_repeat_ngram forced_last"
).split()
# Of these, what edits logits, which needs memory.
_EDITS = (
    "suppressed_count no_repeat_ngram min_new repetition_penalty bad_words_count"
    " source_no_repeat_ngram"
).split()


class Generators(Opened):
    """What a model writes."""

    def _recommended(self) -> Any:
        """What the file recommends for an encoder-decoder, but draws."""
        options = new(c.GenerateOptions)
        if self._weights.stack == c.ENCODER_DECODER:
            self._weights.library.phasor_generation_defaults(
                self._weights.model, ctypes.byref(options)
            )
            options.temperature = options.top_p = options.min_p = options.typical_p = 0
            options.top_k = 0
        return options

    def _room(self, ids: np.ndarray, options: Any, beam: int) -> Any:
        """Limits for one input, and the outputs that the options make."""
        weights = self._weights
        limits = weights.limits()
        decoder = weights.stack == c.DECODER
        side, name = (weights.target, "target") if decoder else (weights.source, "source")
        wanted, most = ids.size + int(decoder), side.max_positions
        if wanted > getattr(limits, name) and (not most or getattr(limits, name) < most):
            grown = 1 << (wanted - 1).bit_length()
            limits = weights.limits(**{name: min(grown, most) if most else grown})
        if ids.size > (room := getattr(limits, name)):
            raise Error(f"{weights.path}: {ids.size} tokens, the model has {room}", c.Status.FULL)
        limits.beams = beam
        if not beam and (options.temperature > 0 or any(getattr(options, n) for n in _EDITS)):
            limits.outputs |= c.WANT_SAMPLING
        limits.logit_rows = 1
        if not beam and not limits.outputs & c.WANT_SAMPLING:
            limits.best_rows, limits.logit_rows = 1, 0
        return limits

    def _encode(self, session: Session, ids: np.ndarray) -> None:
        session.run("phasor_encode", ctypes.byref(session.item(ids)), 1)

    @overload
    def translate(
        self,
        text: str,
        *,
        beam: int = 0,
        n_best: None = None,
        max_new: int = 0,
        align: Literal[False] = False,
    ) -> str: ...
    @overload
    def translate(
        self,
        text: str,
        *,
        beam: int = 0,
        n_best: int,
        max_new: int = 0,
        align: Literal[False] = False,
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        text: Texts,
        *,
        beam: int = 0,
        n_best: None = None,
        max_new: int = 0,
        align: Literal[False] = False,
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        text: Texts,
        *,
        beam: int = 0,
        n_best: int,
        max_new: int = 0,
        align: Literal[False] = False,
    ) -> list[list[str]]: ...
    @overload
    def translate(
        self,
        text: str,
        *,
        beam: int = 0,
        n_best: None = None,
        max_new: int = 0,
        align: Literal[True],
    ) -> Aligned: ...
    @overload
    def translate(
        self, text: str, *, beam: int = 0, n_best: int, max_new: int = 0, align: Literal[True]
    ) -> list[Aligned]: ...
    @overload
    def translate(
        self,
        text: Texts,
        *,
        beam: int = 0,
        n_best: None = None,
        max_new: int = 0,
        align: Literal[True],
    ) -> list[Aligned]: ...
    @overload
    def translate(
        self, text: Texts, *, beam: int = 0, n_best: int, max_new: int = 0, align: Literal[True]
    ) -> list[list[Aligned]]: ...
    def translate(
        self,
        text: str | Texts,
        *,
        beam: int = 0,
        n_best: int | None = None,
        max_new: int = 0,
        align: bool = False,
    ) -> Any:
        """The output of an encoder-decoder for a text, or a list of outputs for a list of texts.

        beam: beam width. Default: 0, greedy. n_best: the best outputs of the beam, a list for each
        text, best first. max_new: new tokens at most. Default: 0, as the file recommends, else as
        many as fit. align: return each output as an Aligned, with the words of source and output
        that belong to each other, by the attention weights of all heads. The output of a blank text
        is empty.

        Raises Error if the model is not an encoder-decoder, or a text is too long.
        """
        weights = self._needs("translate", c.ENCODER_DECODER)
        if not 0 <= beam <= 256:
            raise Error(f"beam={beam}: expected 0 to 256")
        if n_best is not None and not 1 <= n_best <= beam:
            raise Error(f"n_best={n_best}: expected 1 to beam, which is {beam}")
        self._side(None, weights.output_side)
        texts = texts_list(text)
        written = [place for place, one in enumerate(texts) if one.strip(" \t")]
        ids = self._all_ids([texts[place] for place in written], self._side(None, c.SOURCE))
        options = self._recommended()
        options.max_new = whole("max_new", max_new) or options.max_new

        def work(stop: Stop) -> list[list[Any]]:
            def one(ids: np.ndarray) -> list[Any]:
                return self._translate(ids, options, beam, n_best or 1, align, stop)

            return side_by_side(one, ids, self._threads)

        outputs: list[Any] = [[Aligned("", (), (), ()) if align else ""] for _ in texts]
        for place, made in zip(written, interruptible(work)):
            outputs[place] = made
        chosen = [one if n_best is not None else one[0] for one in outputs]
        return chosen[0] if isinstance(text, str) else chosen

    def _translate(
        self, ids: np.ndarray, given: Any, beam: int, n_best: int, align: bool, stop: Stop
    ) -> list[Any]:
        options = type(given).from_buffer_copy(given)
        limits = self._room(ids, options, beam)
        if align:
            limits.outputs |= c.WANT_ATTENTION
        session = self._kept("run", limits)

        options.source, options.source_count = pointer(ids), ids.size

        def greedy() -> list[np.ndarray]:
            self._encode(session, ids)
            return [_generate(session, options)]

        def search() -> list[np.ndarray]:
            self._encode(session, ids)
            result = new(c.BeamResult)
            beams = new(c.BeamOptions, length_penalty=1)
            weights = self._weights
            weights.library.phasor_beam_defaults(weights.model, ctypes.byref(beams))
            beams.beams = 0
            for name in _SHARED:
                setattr(beams, name, getattr(options, name))
            session.run("phasor_beam_search", 0, None, 0, ctypes.byref(beams), ctypes.byref(result))
            found = []
            for index in range(min(n_best, result.count)):
                one = new(c.Hypothesis)
                weights.library.phasor_hypothesis_get(session.handle, index, ctypes.byref(one))
                found.append(np.ctypeslib.as_array(one.ids, (one.count,)).copy())
            return found

        def call() -> list[Any]:
            outputs = search() if beam else greedy()
            texts = [self._text(one, c.TARGET) for one in outputs]
            if not align:
                return texts
            aligner = Aligner(session, self._text_pieces, self._piece)
            return [aligner.align(ids, one, text) for one, text in zip(outputs, texts)]

        outputs = session.use(call, stop)
        self._keep("run", session)
        return outputs

    def stream(
        self,
        prompt: str,
        *,
        max_new: int = 0,
        temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int | None = None,
        stop: str | Texts = (),
    ) -> Iterator[str]:
        """The text that continues a prompt, or the output of an encoder-decoder, piece by piece:
        whole characters, as soon as they are certain.

        temperature: 0 takes the most probable token. Default: 0, or 1 if top_k, top_p or seed is
        given. seed: the same seed gives the same text. Default: a new one each time. stop: strings
        that end the text and are not in it. Other defaults: off. Closing the iterator ends the
        computation.

        Raises Error if the model is an encoder, an option is wrong, or the prompt is too long.
        """
        weights = self._needs("stream", c.DECODER, c.ENCODER_DECODER)
        if weights.output.output != c.OUTPUT_LOGITS:
            raise Error(f"{weights.path}: stream needs a model that gives logits")
        self._side(None, weights.output_side)
        ids = self._ids(prompt, self._side(None, weights.input_side))
        options = self._recommended()
        draws(options, temperature, top_k, top_p, seed)
        options.max_new = whole("max_new", max_new) or options.max_new
        return self._pieces(ids, options, self._stops(texts_list(stop), options), "run")

    def _stops(
        self, stops: list[str], options: Any, end: Sequence[int] = (), end_texts: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The texts that end an output, those of `end_texts` among them. Special tokens are no
        text: their ids end an output, as those of `end` do, and are set in the options."""
        weights, side, ends, texts = self._weights, self._weights.output_side, list(end), []
        if len(stops) > _MOST_STOPS:
            raise Error(f"{len(stops)} stop strings: expected at most {_MOST_STOPS}")
        for stop in stops:
            given = text_bytes(stop)
            if not 0 < len(given) <= _MOST_STOP_BYTES or b"\0" in given:
                raise Error(f"a stop string of {len(given)} bytes: expected 1 to"
                            f" {_MOST_STOP_BYTES}, none of them 0")  # fmt: skip
            ids = self._ids(stop, side, False).tolist()
            special = [
                token
                for token in ids
                if weights.library.phasor_piece_flags(weights.model, side, token) & c.PIECE_SPECIAL
            ]
            if special and len(ids) > 1:
                raise Error(f"the stop string {stop!r} has more than a special token")
            ends += special
            texts += [] if special else [stop]
        options.end_count, options.end = len(ends), pointer(np.array(ends, np.uint32))
        return (*texts, *end_texts)

    def _pieces(
        self, ids: np.ndarray, options: Any, stops: tuple[str, ...], kept: str
    ) -> Iterator[str]:
        """The text, in a session that is kept under the name `kept`."""
        session = self._kept(kept, self._room(ids, options, 0))
        best, room = bool(session.limits.best_rows), session.limits.target
        output = Output(self._weights, ids, options, stops, room, best)
        return self._steps(session, output, ids, bool(options.reuse), kept)

    def _steps(
        self, session: Session, output: Output, ids: np.ndarray, reuse: bool, kept: str
    ) -> Iterator[str]:
        """Each token is computed on the caller's own thread: between two threads a piece would wait
        for the second one to wake."""

        def begin() -> None:
            if session.weights.stack == c.ENCODER_DECODER:
                self._encode(session, ids)
            elif reuse:
                output.fed = session.common(output.ids[: output.known - 1])
            else:
                session.plain("phasor_sequence_clear", 0)
            item = session.item(output.ids[output.fed : output.known], 0, output.want)
            session.run("phasor_step", ctypes.byref(item), 1)
            output.fed = output.known
            output.choose(session)

        session.long(begin)
        item = new(c.Item, count=1, logits=output.want, ids=ctypes.pointer(output.token))
        given = (session.handle, ctypes.byref(item), 1, ctypes.byref(session.error))
        step = session.library.phasor_step
        with session.mine():  # the loop does little: a step leaves nothing of it in the caches
            while True:
                text, finish = output.take()
                if text:
                    yield text
                if finish:
                    break
                if status := step(*given):
                    check(status, session.error, session.weights.path)
                output.fed = output.known
                output.choose(session)
        self._keep(kept, session)


def draws(
    options: Any, temperature: float | None, top_k: int, top_p: float, seed: int | None
) -> None:
    """Sets how tokens are drawn. What is not given stays as it is."""
    asked = bool(top_k or top_p or seed is not None)
    if temperature is None:
        if asked and not options.temperature > 0:
            options.temperature = 1.0
    elif not temperature > 0 and asked:
        raise Error("top_k, top_p and seed have no effect with temperature 0")
    else:
        options.temperature = _real("temperature", temperature, 1000)
    options.top_k = whole("top_k", top_k) or options.top_k
    options.top_p = _real("top_p", top_p, 1) or options.top_p
    options.seed = (
        ctypes.c_uint64.from_buffer_copy(os.urandom(8)).value
        if seed is None
        else whole("seed", seed, 64)
    )


def whole(name: str, value: int, bits: int = 32) -> int:
    if not 0 <= value < 1 << bits or value != int(value):
        raise Error(f"{name}={value}: expected a whole number of 0 to 2^{bits} - 1")
    return int(value)


def _real(name: str, value: float, most: float) -> float:
    if not 0 <= value <= most:
        raise Error(f"{name}={value}: expected 0 to {most}")
    return value


def _generate(session: Session, options: Any) -> np.ndarray:
    """The new ids of an encoder-decoder, which has read its source."""
    room, result = session.limits.target, new(c.Generation)
    capacity = min(options.max_new, room) or room
    out = np.empty(capacity, np.uint32)
    made = (pointer(out), capacity, ctypes.byref(options), ctypes.byref(result))
    session.run("phasor_generate", 0, None, 0, *made)
    return out[: result.count]
