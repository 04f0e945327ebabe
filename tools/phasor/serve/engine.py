"""The two engines: one thread steps all sequences of a generator together, or encodes the texts of
all who wait. A request can be given up at any time, and its place is free with the next step.

`phasor_jobs_step` gives all jobs the same options, and here each request has its own: so the thread
makes the steps itself, `phasor_step` for all and `phasor_choose` for each. What is computed beside
an output does not change its bits."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections import deque
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, check, new
from phasor.runtime.model import Model
from phasor.runtime.outputs import Output
from phasor.runtime.session import Session

_PROMPT_TOKENS = 256  # of prompts in one step: the others wait no longer than it takes
_TEXTS = 32  # that are encoded together
Tell = Callable[["Piece"], None]  # called in the engine's thread


class Busy(Exception):
    """The queue is full."""


class Piece(NamedTuple):
    """What there is of an output since the last one."""

    text: str = ""
    tokens: int = 0  # of the output so far
    finish: str = ""  # "stop" or "length": this is the last one
    failed: str = ""  # one line: this is the last one
    late: bool = False  # it failed because its time is over
    vectors: np.ndarray | None = None


class Wanted(NamedTuple):
    """One output of a generator."""

    ids: np.ndarray  # prompt of a decoder, or source
    options: Any  # how tokens are chosen, max_new and seed among it
    stops: tuple[str, ...] = ()
    held: Any = None  # the options that have what these point to


class Request:
    """Who waits for an answer. tell: gets its pieces. until: when it is late, time.monotonic()."""

    def __init__(self, tell: Tell, until: float) -> None:
        self.tell, self.until, self.gone = tell, until, False


class Job(Request):
    """A request for one output."""

    output: Output  # as soon as it runs

    def __init__(self, wanted: Wanted, tell: Tell, until: float) -> None:
        super().__init__(tell, until)
        self.wanted = wanted


class Texts(Request):
    """A request for the vectors of texts."""

    def __init__(self, texts: list[str], tell: Tell, until: float) -> None:
        super().__init__(tell, until)
        self.texts, self.done = texts, list[np.ndarray]()


class Worker:
    """A thread and its bounded queue. A subclass has `_places`, free places for those who wait, and
    `_step`, which gives those who run a piece each."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[Any] = deque()
        self._running: dict[int, Any] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Gives up what runs and waits. Returns when the thread has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def submit(self, requests: list[Any]) -> None:
        """All of them, or none: Busy."""
        with self._changed:
            free = len(self._places()) + self.most_waiting
            if self._closed or len(self._waiting) + len(requests) > free:
                raise Busy
            self._waiting.extend(requests)
            self._changed.notify()

    def give_up(self, requests: list[Any]) -> None:
        """Nobody waits for them any more."""
        with self._changed:
            for request in requests:
                request.gone = True
                with contextlib.suppress(ValueError):
                    self._waiting.remove(request)
            self._changed.notify()

    def counts(self) -> tuple[int, int]:
        """Of those that run, and of those that wait."""
        with self._changed:
            return len(self._running), len(self._waiting)

    def _places(self) -> list[int]:
        raise NotImplementedError

    def _enter(self, place: int, request: Any) -> None:
        raise NotImplementedError

    def _leave(self, place: int) -> None:
        self._running.pop(place)

    def _step(self) -> None:
        raise NotImplementedError

    def _take(self) -> bool:
        """Who is gone or late leaves, who waits enters. False: it is over."""
        with self._changed:
            while not (self._closed or self._waiting or self._running):
                self._changed.wait()
            now, late = time.monotonic(), []
            for place, request in list(self._running.items()):
                if request.gone or request.until < now or self._closed:
                    self._leave(place)
                    late.append(request)
            late += [one for one in self._waiting if one.until < now or self._closed]
            for one in late:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(one)
            entering = []
            for place in self._places():
                if not self._waiting:
                    break
                entering.append((place, self._waiting.popleft()))
                self._running[place] = entering[-1][1]
        for one in late:
            _tell(one, Piece(failed="the time for a request is over", late=True))
        for place, request in entering:
            try:
                self._enter(place, request)
            except Error as error:
                self._end(place, Piece(failed=str(error)))
        return not self._closed

    def _end(self, place: int, piece: Piece) -> None:
        request = self._running[place]
        with self._changed:
            self._leave(place)
        _tell(request, piece)

    def _work(self) -> None:
        while self._take():
            try:
                if self._running:
                    self._step()
            except Exception as error:  # the others must not wait for ever
                line = str(error).split("\n")[0]
                for place in list(self._running):
                    self._end(place, Piece(failed=line or type(error).__name__))


def _tell(request: Request, piece: Piece) -> None:
    if not request.gone:
        request.tell(piece)


class Generator(Worker):
    """The engine of a decoder or an encoder-decoder: `sequences` outputs at the same time, of at
    most `context` tokens each."""

    def __init__(self, model: Model, context: int, sequences: int, most_waiting: int) -> None:
        super().__init__(most_waiting)
        self.weights = weights = model._weights
        limits = weights.limits(context if weights.source is not None else 0, context)
        limits.sequences = limits.logit_rows = sequences
        limits.chunk = min(max(limits.chunk, sequences), _PROMPT_TOKENS)
        limits.outputs |= c.WANT_SAMPLING
        self._session, self.sequences = Session(weights, limits), sequences
        self.room = limits.target
        self.source_room = limits.source or limits.target

    def _places(self) -> list[int]:
        return [place for place in range(self.sequences) if place not in self._running]

    def _enter(self, place: int, job: Job) -> None:
        job.output = Output(self.weights, *job.wanted[:3], self.room)
        self._session.clear(place)
        if self.weights.stack == c.ENCODER_DECODER:
            self._session.encode(job.wanted.ids, place)

    def _step(self) -> None:
        self._session.use(self._step_all)

    def _step_all(self) -> None:
        items, asked, left = [], [], _PROMPT_TOKENS
        for place, job in self._running.items():
            output = job.output
            todo = output.known - output.fed
            count = todo if output.made else min(todo, left)
            if not count:
                continue
            left -= 0 if output.made else count
            want = output.want if count == todo else c.LOGITS_NONE
            ids = output.ids[output.fed : output.fed + count]
            items.append(self._session.item(ids, place, want))
            output.fed += count
            if count == todo:
                asked.append((place, job))
        error, library, handle = new(c.Error), self.weights.library, self._session.handle
        status = library.phasor_step(
            handle, (c.Item * len(items))(*items), len(items), ctypes.byref(error)
        )
        if status != c.Status.NOT_FINITE:
            check(status, error, self.weights.path)
        for row, (place, job) in enumerate(asked):
            if library.phasor_sequence_status(handle, place) != c.Status.OK:
                self._end(place, Piece(failed=f"{self.weights.path}: a value is not a number"))
                continue
            try:
                piece = self._token(row, job.output)
            except Error as failed:
                piece = Piece(failed=str(failed))
            if piece.finish or piece.failed:
                self._end(place, piece)
            elif piece.text:
                _tell(job, piece)

    def _token(self, row: int, output: Output) -> Piece:
        output.choose(self._session, row)
        text, finish = output.take()
        return Piece(text, output.made, finish)


class Embedder(Worker):
    """The engine of an encoder."""

    def __init__(self, model: Model, most_waiting: int) -> None:
        super().__init__(most_waiting)
        self._model = model
        self.room = model._weights.limits().source

    def _places(self) -> list[int]:
        return [place for place in range(_TEXTS) if place not in self._running]

    def _enter(self, place: int, request: Texts) -> None:
        pass

    def _step(self) -> None:
        """A text or more of each that runs: many short requests do not wait for a long one."""
        share = max(_TEXTS // len(self._running), 1)
        parts = [
            (place, request, request.texts[len(request.done) :][:share])
            for place, request in self._running.items()
        ]
        vectors = self._model.encode([text for _, _, part in parts for text in part])
        for place, request, part in parts:
            request.done.extend(vectors[: len(part)])
            vectors = vectors[len(part) :]
            if len(request.done) == len(request.texts):
                self._end(place, Piece(finish="stop", vectors=np.stack(request.done)))
