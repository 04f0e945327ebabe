"""Token ids to text, one by one."""

from __future__ import annotations

import ctypes
from typing import Any, Callable

from phasor.runtime import _interface as c
from phasor.runtime.library import check, new
from phasor.runtime.weights import Weights

_PIECE = 256  # bytes of a buffer for a token's text, which grows


class IdsToText:
    """The text of ids that come one after the other. What is not a whole character is held back."""

    def __init__(self, weights: Weights, side: int) -> None:
        self._weights, self._side, self._size = weights, side, ctypes.c_size_t()
        self._state, self._needed = ctypes.byref(new(c.Text)), ctypes.byref(self._size)
        self._out: Any = ctypes.create_string_buffer(_PIECE)

    def add(self, token: int) -> bytes:
        """What an id of the vocabulary adds."""
        return self._take(self._weights.library.phasor_id_to_text, token)

    def end(self) -> bytes:
        """What is still held back."""
        return self._take(self._weights.library.phasor_text_flush)

    def _take(self, call: Callable[..., int], *token: int) -> bytes:
        given = (self._weights.model, self._side, self._state, *token)
        status = call(*given, self._out, len(self._out), self._needed)
        if status:
            if status == c.Status.FULL:
                self._out = ctypes.create_string_buffer(self._size.value)
                status = call(*given, self._out, len(self._out), self._needed)
            check(status, None, self._weights.path)
        result: bytes = self._out[: self._size.value]
        return result
