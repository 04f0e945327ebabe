"""A session: sequences of tokens in an arena, and steps of the decoder."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any, Callable, Iterator, NamedTuple, Sequence, TypeVar

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, address, block, check, ids_array, new, pointer
from phasor.runtime.threads import PROGRESS, Stop, interruptible
from phasor.runtime.weights import Weights

T = TypeVar("T")
_SHORT = 16  # tokens of a step that Ctrl-C need not interrupt
_ROWS = {"none": c.LOGITS_NONE, "last": c.LOGITS_LAST, "all": c.LOGITS_ALL}


class Step(NamedTuple):
    """What a step computed."""

    logits: np.ndarray  # (rows, vocabulary) float32: a read-only view that the next call overwrites


class Session:
    """Sequences of one model and their memory, one block. One thread at a time can use it: a second
    one gets an Error. Make it with `Model.session`; `with` closes it."""

    def __init__(self, weights: Weights, limits: Any) -> None:
        self.weights, self.library, self.limits = weights, weights.library, limits
        self.error = error = new(c.Error)  # of the last call
        need = ctypes.c_size_t()
        status = self.library.phasor_session_size(
            ctypes.byref(need), weights.model, ctypes.byref(limits), ctypes.byref(error)
        )
        check(status, error, weights.path)
        self.arena = block(need.value, "the session")
        self._lock = threading.Lock()
        self._stop: Stop | None = None  # of the last call; its text is there as long
        opened = ctypes.c_void_p()
        arena = (address(self.arena), self.arena.size)
        given = (weights.model, ctypes.byref(limits), None, ctypes.byref(error))
        status = self.library.phasor_session_open(ctypes.byref(opened), *arena, *given)
        check(status, error, weights.path)
        self.handle = opened.value

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session. Logits that are still held keep their values and the memory."""
        if self.handle is None:
            return
        with self.mine():
            self.handle = None
            del self.arena

    @contextlib.contextmanager
    def mine(self) -> Iterator[None]:
        """Inside `with`: no other thread can use the session."""
        if not self._lock.acquire(blocking=False):
            raise Error("another thread is using this session", c.Status.BAD_INPUT)
        try:
            if self.handle is None:
                raise Error("this session is closed", c.Status.BAD_INPUT)
            yield
        finally:
            self._lock.release()

    def use(self, call: Callable[[], T], stop: Stop | None = None) -> T:
        """What `call` returns, while no other thread can use the session. stop: ends it."""
        with self.mine():
            if self._stop is not stop:
                self._stop = stop
                self._watch()
            return call()

    def seen(self, see: Any, call: Callable[[], T]) -> T:
        """What `call` returns, inside `use`, while `see` is called with intermediate values."""
        self._watch(see)
        try:
            return call()
        finally:
            self._watch()

    def _watch(self, see: Any = None) -> None:
        """Sets the callbacks: what ends a call, and what sees its values."""
        callbacks = new(c.Callbacks)
        if see is not None:
            callbacks.see = see
        if self._stop is not None:
            callbacks.progress, callbacks.user = PROGRESS, ctypes.addressof(self._stop.text)
        self.plain("phasor_session_callbacks", ctypes.byref(callbacks))

    def long(self, call: Callable[[], T]) -> T:
        """The same, where Ctrl-C may have to end it: `interruptible`."""
        return interruptible(lambda stop: self.use(call, stop))

    def item(self, ids: np.ndarray, sequence: int = 0, logits: int = c.LOGITS_NONE) -> Any:
        """Keep `ids` as long as the item."""
        where = pointer(ids)
        return new(c.Item, sequence=sequence, count=ids.size, logits=logits, ids=where)

    def run(self, name: str, *arguments: Any) -> None:
        """A function of the library that takes the session first and an error last."""
        status = getattr(self.library, name)(self.handle, *arguments, ctypes.byref(self.error))
        check(status, self.error, self.weights.path)

    def plain(self, name: str, *arguments: Any) -> None:
        """The same without an error."""
        status = getattr(self.library, name)(self.handle, *arguments)
        check(status, None, f"{self.weights.path}: {name} {arguments}")

    def common(self, ids: np.ndarray) -> int:
        """Inside `use`: how many of these tokens sequence 0 has, and has only then."""
        count = int(self.library.phasor_sequence_common(self.handle, 0, pointer(ids), ids.size))
        if self.library.phasor_sequence_truncate(self.handle, 0, count) == c.Status.OK:
            return count
        self.plain("phasor_sequence_clear", 0)  # layers with a window have dropped some of them
        return 0

    def step(
        self, ids: Sequence[int] | np.ndarray, sequence: int = 0, logits: str = "last"
    ) -> Step:
        """Appends tokens to a sequence and runs the decoder.

        ids: (n) token ids. logits: of which of these tokens, "last", "all" or "none". Returns
        (rows, vocabulary) logits, a read-only view of the arena: copy what you need after the next
        call. "all" needs `logit_rows` of that many in `Model.session`.

        Raises Error if an id or the sequence is wrong, or the sequence is full.
        """
        if logits not in _ROWS:
            raise Error(f"logits={logits!r}: expected one of {', '.join(_ROWS)}")
        given = ids_array(ids)
        rows = {"none": 0, "last": 1, "all": given.size}[logits]
        item = self.item(given, self._sequence(sequence), _ROWS[logits])

        def call() -> Step:
            self.run("phasor_step", ctypes.byref(item), 1)
            return Step(self.rows(rows))

        return self.use(call) if given.size <= _SHORT else self.long(call)

    def encode(self, ids: Sequence[int] | np.ndarray, sequence: int = 0) -> None:
        """Clears a sequence and runs the encoder on its source, (n) token ids.

        Raises Error if an id or the sequence is wrong, or the source is too long.
        """
        given = ids_array(ids)
        item = self.item(given, self._sequence(sequence))
        self.long(lambda: self.run("phasor_encode", ctypes.byref(item), 1))

    def _sequence(self, sequence: int) -> int:
        if not 0 <= sequence < self.limits.sequences:
            raise Error(f"sequence {sequence}: the session has {self.limits.sequences}")
        return sequence

    def rows(self, rows: int) -> np.ndarray:
        """Of the last logits, as they are in the arena."""
        width = self.weights.output.width
        if not rows:
            return np.empty((0, width), np.float32)
        at = [
            ctypes.addressof(self.library.phasor_logits(self.handle, row).contents)
            for row in range(min(rows, 2))
        ]
        strides = (at[-1] - at[0], 4) if rows > 1 else (4 * width, 4)
        start = at[0] - address(self.arena)
        view = np.ndarray((rows, width), np.float32, self.arena, start, strides)
        view.flags.writeable = False
        return view

    def length(self, sequence: int = 0) -> int:
        """The number of tokens in a sequence of the decoder."""
        number = self._sequence(sequence)
        length = self.library.phasor_sequence_length
        return self.use(lambda: int(length(self.handle, number)))

    def truncate(self, length: int, sequence: int = 0) -> None:
        """Removes the tokens behind the first `length`.

        Raises Error if the sequence is shorter, or if layers with a window have dropped what the
        next token needs.
        """
        self._change("phasor_sequence_truncate", self._sequence(sequence), length)

    def clear(self, sequence: int = 0) -> None:
        """Empties a sequence."""
        self._change("phasor_sequence_clear", self._sequence(sequence))

    def fork(self, to: int, sequence: int = 0) -> None:
        """Makes sequence `to` a copy of `sequence`. Both share the memory of what they have in
        common."""
        self._change("phasor_sequence_fork", self._sequence(to), self._sequence(sequence))

    def _change(self, name: str, *numbers: int) -> None:
        if any(not 0 <= number < c.NONE for number in numbers):
            raise Error(f"expected numbers of 0 to {c.NONE - 1}, found {numbers}")
        self.use(lambda: self.plain(name, *numbers))

    def save(self, sequence: int = 0) -> bytes:
        """A sequence as a block of bytes, which `restore` takes on any machine."""
        number = self._sequence(sequence)

        def call() -> bytes:
            need = ctypes.c_size_t()
            self.plain("phasor_state_size", number, ctypes.byref(need))
            out = np.empty(need.value, np.uint8)
            self.plain("phasor_state_save", number, address(out), out.size)
            return out.tobytes()

        return self.use(call)

    def restore(self, state: bytes, sequence: int = 0) -> None:
        """Puts a saved sequence in the place of this one. It continues with the same bits.

        Raises Error if the state is damaged, or of another file or cache type.
        """
        number, given = self._sequence(sequence), bytes(state)
        self.use(lambda: self.run("phasor_state_restore", number, given, len(given)))
