"""An open model: its memory, and texts to ids and back."""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any, Literal, Self, Sequence, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, check, ids_array, pointer, text_bytes
from phasor.runtime.session import Session
from phasor.runtime.texts import IdsToText
from phasor.runtime.weights import KINDS, Info, Weights

_SIDES = {"source": c.SOURCE, "target": c.TARGET}
_SHORT_TEXT = 4096  # bytes that there is always room for
Texts = list[str] | tuple[str, ...]


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

    @overload
    def tokenize(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        side: str | None = None,
        offsets: Literal[False] = False,
    ) -> list[int]: ...
    @overload
    def tokenize(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        side: str | None = None,
        offsets: Literal[True],
    ) -> tuple[list[int], list[tuple[int, int]]]: ...
    def tokenize(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        side: str | None = None,
        offsets: bool = False,
    ) -> list[int] | tuple[list[int], list[tuple[int, int]]]:
        """The token ids of a text.

        add_special_tokens: with the ids that the model expects around a text. side: "source" or
        "target". Default: the one that reads. offsets: a second list says where each token lies,
        text[begin:end]; (0, 0) for an id that is added.

        Raises Error if there is no tokenizer.
        """
        number = self._side(side, self._weights.input_side)
        if not offsets:
            return [int(one) for one in self._ids(text, number, add_special_tokens)]
        ids, places = self._placed(text, number, add_special_tokens)
        starts = (byte & 0xC0 != 0x80 for byte in text_bytes(text))
        before = [0, *itertools.accumulate(map(int, starts))]
        return ids, [(before[begin], before[end]) for begin, end in places]

    def _text_session(self, longest: int, kept: str = "text", outputs: int = 0) -> Session:
        """With room for a text of `longest` bytes; kept: the name under which it is kept."""
        limits = self._weights.limits(1, 1)
        limits.text_bytes = max(limits.text_bytes, _SHORT_TEXT, 1 << longest.bit_length())
        limits.outputs |= outputs
        return self._kept(kept, limits)

    def _ids(self, text: str, side: int, template: bool = True) -> np.ndarray:
        return self._all_ids([text], side, template)[0]

    def _all_ids(self, texts: Sequence[str], side: int, template: bool = True) -> list[np.ndarray]:
        given = [text_bytes(text) for text in texts]
        longest = max(map(len, given), default=0)
        session, count = self._text_session(longest), ctypes.c_size_t()
        error, convert = session.error, session.library.phasor_text_to_ids
        needed, failed = ctypes.byref(count), ctypes.byref(error)

        def call() -> list[np.ndarray]:
            out, ids = np.empty(longest + 64, np.uint32), []
            at = pointer(out)
            for text in given:
                before = (session.handle, side, int(template))
                status = convert(*before, at, out.size, needed, text, len(text), failed)
                if status == c.Status.FULL and count.value > out.size:
                    out = np.empty(count.value, np.uint32)
                    at = pointer(out)
                    status = convert(*before, at, out.size, needed, text, len(text), failed)
                check(status, error, session.weights.path)
                ids.append(out[: count.value].copy())
            return ids

        ids = session.use(call)
        self._keep("text", session)
        return ids

    def _placed(self, text: str, side: int, template: bool) -> tuple[list[int], list[list[int]]]:
        """The ids, and the first byte and the end of each one's text."""
        given, count = text_bytes(text), ctypes.c_size_t()
        session = self._text_session(len(given), "offsets", c.WANT_OFFSETS)
        error, convert = session.error, session.library.phasor_text_to_offsets
        needed, failed = ctypes.byref(count), ctypes.byref(error)

        def call() -> tuple[list[int], list[list[int]]]:
            size = len(given) + 64
            while True:
                ids, places = np.empty(size, np.uint32), np.empty((size, 2), np.uint32)
                to = (pointer(ids), pointer(places), size, needed)
                before = (session.handle, side, int(template))
                status = convert(*before, *to, given, len(given), failed)
                if status != c.Status.FULL or count.value <= size:
                    check(status, error, session.weights.path)
                    return ids[: count.value].tolist(), places[: count.value].tolist()
                size = count.value

        found = session.use(call)
        self._keep("offsets", session)
        return found

    def _stored(self, token: int, side: int) -> bytes:
        """The text of a token as the tokenizer stores it."""
        size, weights = ctypes.c_size_t(), self._weights
        at = weights.library.phasor_piece(weights.model, side, token, ctypes.byref(size))
        return ctypes.string_at(at, size.value) if at else b""

    def _piece(self, token: int, side: int) -> str:
        """The same with bytes that are none of a character, or of one that ends a line or a column,
        as <0x0A>."""
        text = self._stored(token, side).decode(errors="surrogateescape")
        return "".join(
            one if " " <= one != "\x7f" and not "\udc80" <= one <= "\udcff" else _byte(one)
            for one in text
        )

    def detokenize(self, ids: Sequence[int] | np.ndarray, *, side: str | None = None) -> str:
        """The text of token ids. Control tokens add nothing.

        side: "source" or "target". Default: the one that writes.

        Raises Error if an id is none of the model's, or if there is no tokenizer.
        """
        number = self._side(side, self._weights.output_side)
        return self._text(ids_array(ids), number)

    def _text(self, ids: np.ndarray, side: int) -> str:
        return "".join(self._text_pieces(ids, side))

    def _text_pieces(self, ids: np.ndarray, side: int) -> list[str]:
        """What each token adds to the text, always whole characters; the last also what is held
        back until then."""
        vocabulary, text = self._weights.side(side).vocabulary, IdsToText(self._weights, side)
        if ids.size and int(ids.max()) >= vocabulary:
            raise Error(f"token id {ids.max()}: the vocabulary has {vocabulary}")
        parts = [text.add(token) for token in ids.tolist()]
        rest = text.end()
        if parts:
            parts[-1] += rest
        return [part.decode(errors="replace") for part in parts]


def _byte(character: str) -> str:
    return f"<0x{ord(character) & 0xFF:02X}>"
