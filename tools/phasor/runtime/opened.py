"""An open model: its memory, and texts to ids and back."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Self, Sequence

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, check, ids_array, new, pointer, text_bytes
from phasor.runtime.session import Session
from phasor.runtime.weights import KINDS, Info, Weights

_SIDES = {"source": c.SOURCE, "target": c.TARGET}


class Opened:
    """What all of a model's methods share: the file, memory that is used again, texts and ids."""

    def __init__(self, weights: Weights, threads: int) -> None:
        self._opened: Weights | None = weights
        self._threads, self._lock = threads, threading.Lock()
        self._idle: dict[str, list[Session]] = {}
        self.info: Info = weights.info()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<phasor.Model {self.info.kind} {self.info.path!r}>"

    def close(self) -> None:
        """Closes the file and frees its memory. Raises Error in calls that begin afterwards."""
        with self._lock:
            self._opened, self._idle = None, {}

    @property
    def _weights(self) -> Weights:
        if self._opened is None:
            raise Error(f"{self.info.path}: this model is closed")
        return self._opened

    def _needs(self, what: str, *stacks: int) -> Weights:
        weights = self._weights
        if weights.stack not in stacks:
            wanted = " or ".join(KINDS[stack] for stack in stacks)
            raise Error(
                f"{weights.path}: {what} needs a model of kind {wanted}, this is a model of kind"
                f" {self.info.kind}",
                c.Status.UNSUPPORTED,
            )
        return weights

    # ---- memory

    def session(
        self, context: int = 0, sequences: int = 1, source: int = 0, logit_rows: int = 1
    ) -> Session:
        """A session of your own, for a decoder or an encoder-decoder.

        context: decoder tokens of each sequence. Default: as many as the model has, at most 2048.
        source: the same for the encoder. logit_rows: rows of logits that one step can return.

        Raises Error if the model has no decoder, or the lengths are beyond the model's.
        """
        weights = self._needs("a session", c.DECODER, c.ENCODER_DECODER)
        for value in (context, sequences, source, logit_rows):
            if not 0 <= value < 1 << 31:
                raise Error(f"{value}: expected a number of 0 to 2^31 - 1", c.Status.BAD_LIMITS)
        limits = weights.limits(source, context)
        limits.sequences, limits.logit_rows = sequences, logit_rows
        return Session(weights, limits)

    def _kept(self, name: str, limits: Any) -> Session:
        """A session of these limits, for one call."""
        weights = self._weights
        with self._lock:
            idle = self._idle.get(name, [])
            for place, session in enumerate(idle):
                if bytes(session.limits) == bytes(limits):
                    return idle.pop(place)
            idle.clear()
        return Session(weights, limits)

    def _keep(self, name: str, session: Session) -> None:
        with self._lock:
            idle = self._idle.setdefault(name, [])
            if self._opened is session.weights and len(idle) < self._threads:
                idle.append(session)

    # ---- text

    def _side(self, side: str | None, default: int) -> int:
        weights = self._weights
        if side is not None and side not in _SIDES:
            raise Error(f"side={side!r}: expected 'source' or 'target'")
        number = _SIDES[side] if side is not None else default
        has = weights.side(number)
        if has is None or not has.has_tokenizer:
            raise Error(f"{weights.path}: no tokenizer for this side", c.Status.UNSUPPORTED)
        return number

    def tokenize(
        self, text: str, *, add_special_tokens: bool = True, side: str | None = None
    ) -> list[int]:
        """The token ids of a text.

        add_special_tokens: with the ids that the model expects around a text. side: "source" or
        "target". Default: the one that reads.

        Raises Error if there is no tokenizer.
        """
        number = self._side(side, self._weights.input_side)
        return [int(one) for one in self._ids(text, number, add_special_tokens)]

    def _ids(self, text: str, side: int, template: bool = True) -> np.ndarray:
        weights, given = self._weights, text_bytes(text)
        limits = weights.limits(1, 1)
        limits.text_bytes = max(limits.text_bytes, 1 << len(given).bit_length())
        session = self._kept("text", limits)
        count = ctypes.c_size_t()

        def call() -> np.ndarray:
            out = np.empty(len(given) + 64, np.uint32)
            while True:
                error = new(c.Error)
                where = (pointer(out), out.size, ctypes.byref(count), given, len(given))
                status = weights.library.phasor_text_to_ids(
                    session.handle, side, int(template), *where, ctypes.byref(error)
                )
                if status != c.Status.FULL or count.value <= out.size:
                    check(status, error, weights.path)
                    return out[: count.value].copy()
                out = np.empty(count.value, np.uint32)

        ids = session.use(call)
        self._keep("text", session)
        return ids

    def detokenize(self, ids: Sequence[int] | np.ndarray, *, side: str | None = None) -> str:
        """The text of token ids. Control tokens add nothing.

        side: "source" or "target". Default: the one that writes.

        Raises Error if an id is none of the model's, or if there is no tokenizer.
        """
        number = self._side(side, self._weights.output_side)
        return self._text(ids_array(ids), number)

    def _text(self, ids: np.ndarray, side: int) -> str:
        weights, state = self._weights, new(c.Text)
        out, size, parts = ctypes.create_string_buffer(4096), ctypes.c_size_t(), []
        vocabulary = weights.side(side).vocabulary
        if ids.size and int(ids.max()) >= vocabulary:
            raise Error(f"token id {ids.max()}: the vocabulary has {vocabulary}")

        def take(call: Callable[..., int], *arguments: Any) -> bytes:
            nonlocal out
            given = (weights.model, side, ctypes.byref(state), *arguments)
            status = call(*given, out, len(out), ctypes.byref(size))
            if status == c.Status.FULL:
                out = ctypes.create_string_buffer(size.value)
                status = call(*given, out, len(out), ctypes.byref(size))
            check(status, None, weights.path)
            return out.raw[: size.value] if size.value else b""

        for token in ids.tolist():
            parts.append(take(weights.library.phasor_id_to_text, token))
        parts.append(take(weights.library.phasor_text_flush))
        return b"".join(parts).decode(errors="replace")
