"""Conversations, by the chat template of the file."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Literal, Mapping, Sequence, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.generators import Generators, draws, whole
from phasor.runtime.library import Error, check, new, text_bytes, texts_list
from phasor.runtime.opened import Texts

Messages = Sequence[Mapping[str, str]]
_TEXT_OF_TOKEN, _LONGEST = 16, 1 << 26  # bytes: for a token, and of a conversation
_WHITE = " \n\t\u2581"  # of a piece: white space, or ▁ for it
_ANSWERS, _ASKS = "phasor answers", "phasor asks"
_LONGEST_END = 256  # bytes of a text that ends an answer


class Conversations(Generators):
    """What a chat model answers."""

    _end: tuple[list[int], str] | None = None

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[False] = False,
        max_new: int = 0,
        temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int | None = None,
        stop: str | Texts = (),
    ) -> str: ...
    @overload
    def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[True],
        max_new: int = 0,
        temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int | None = None,
        stop: str | Texts = (),
    ) -> Iterator[str]: ...
    def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        max_new: int = 0,
        temperature: float | None = None,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int | None = None,
        stop: str | Texts = (),
    ) -> Any:
        """The answer to a conversation, by the chat template of the file.

        messages: {"role": …, "content": …} each; the roles are "system", "user" and "assistant",
        some templates know others. stream: return an iterator of its pieces instead, as `stream`
        does. temperature, top_k, top_p, max_new: default: what the file recommends. Without a
        recommendation: greedy, until the context is full. seed, stop: as in `stream`. If the
        messages continue the last conversation, only the new ones are computed.

        Raises Error if the file has no chat template, the template refuses the conversation, or the
        conversation is too long.
        """
        weights = self._needs("chat", c.DECODER)
        if not self.info.chat:
            raise Error(f"{weights.path}: has no chat template", c.Status.UNSUPPORTED)
        side = self._side(None, c.TARGET)
        ids = self._ids(self._rendered(messages, True), side, False)
        options = new(c.GenerateOptions, reuse=1)
        weights.library.phasor_generation_defaults(weights.model, ctypes.byref(options))
        draws(options, temperature, top_k, top_p, seed)
        options.max_new = whole("max_new", max_new) or options.max_new
        ends, text = self._answer_end()
        stops = self._stops(texts_list(stop), options, ends, [text] if text else [])
        pieces = self._pieces(ids, options, stops, "chat")
        return pieces if stream else "".join(pieces)

    def _rendered(self, messages: Messages, add_generation_prompt: bool) -> str:
        weights, texts = self._weights, []
        for number, message in enumerate(messages):
            known = isinstance(message, Mapping)
            parts = [message.get(part) if known else None for part in ("role", "content")]
            if not all(isinstance(part, str) for part in parts):
                raise Error(f"message {number}: expected a role and a content, both texts")
            texts.append([text_bytes(str(part)) for part in parts])
        given = (c.ChatMessage * len(texts))()
        for message, (role, content) in zip(given, texts):
            message.struct_size = ctypes.sizeof(message)
            message.role = ctypes.cast(ctypes.c_char_p(role), ctypes.c_void_p).value
            message.role_bytes, message.content_bytes = len(role), len(content)
            message.content = ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value
        total = sum(len(content) for _, content in texts)
        limits = weights.limits(1, 1)
        most = min(weights.limits().target * _TEXT_OF_TOKEN, _LONGEST)
        limits.text_bytes = max(most, 1 << (2 * total).bit_length())
        session, size = self._kept("template", limits), ctypes.c_size_t()

        def call() -> str:
            out, status = ctypes.create_string_buffer(2 * total + 4096), c.Status.FULL
            while status == c.Status.FULL:
                where = (int(add_generation_prompt), out, len(out), ctypes.byref(size))
                what = (given, len(given), ctypes.byref(session.error))
                status = session.library.phasor_chat_to_text(session.handle, *where, *what)
                if status != c.Status.FULL or size.value <= len(out):
                    break
                out = ctypes.create_string_buffer(size.value)
            check(status, session.error, weights.path)
            return out.raw[: size.value].decode(errors="replace")

        text = session.use(call)
        self._keep("template", session)
        return text

    def _answer_end(self) -> tuple[list[int], str]:
        """What the template writes behind an answer: a token of its own, special or only added,
        ends the answer, as the model's end tokens do; else the text before the next message does,
        so that the model does not write that message itself."""
        if self._end is None:
            self._end = self._find_end()
        return self._end

    def _find_end(self) -> tuple[list[int], str]:
        said = [("user", "a"), ("assistant", _ANSWERS), ("user", _ASKS)]
        try:
            text = self._rendered([{"role": r, "content": t} for r, t in said], False)
        except Error:
            return [], ""  # it has other rules: then the model's own end
        at, end = text.rfind(_ANSWERS), text.rfind(_ASKS)
        if at < 0 or end < at:
            return [], ""
        behind = text[at + len(_ANSWERS) : end]
        before = False  # whether there is text, more than white space
        weights, library = self._weights, self._weights.library
        for token in self._ids(behind, c.TARGET, False).tolist():
            shown = self._text(np.array([token], np.uint32), c.TARGET)
            piece = self._stored(token, c.TARGET).decode(errors="replace")
            if not piece.strip(_WHITE):
                continue
            if library.phasor_piece_flags(weights.model, c.TARGET, token):
                # Its text is not the answer's; text before it ends the answer by itself.
                if before:
                    return [], _end_text(behind.partition(piece)[0])
                return [token], _end_text(shown)
            before = before or bool(shown.strip(" \n"))
        return [], _end_text(behind)


def _end_text(behind: str) -> str:
    text = behind.rstrip(" \n")
    return text if len(text.encode()) <= _LONGEST_END else ""
