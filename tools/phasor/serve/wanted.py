"""What a request asks for: fields of its JSON as outputs of the engine. A field that the server has
no use for is refused, unless it says what is so anyway."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

import numpy as np

from phasor.errors import PhasorError, shown
from phasor.files import parse_object
from phasor.runtime import _interface as c
from phasor.runtime.library import new
from phasor.runtime.model import Model
from phasor.serve.engine import Wanted
from phasor.values import is_number, is_whole

_MOST_OUTPUTS, _MOST_TEXTS = 16, 2048  # of one request

# Fields that change nothing of an answer, whatever they say.
_NOTES = set(
    "user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention"
    " parallel_tool_calls".split()
)
# Fields of which the server knows only what is so anyway. None is always so.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
}
_COMMON = set("model stream stream_options n".split())


class Refused(PhasorError):
    """A request that cannot be answered, with the status of HTTP and a code of the common API."""

    def __init__(self, line: str, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(line)
        self.status, self.code = status, code


class Number(NamedTuple):
    """Of an option: its range, and whether it is whole."""

    low: float
    high: float
    whole: bool = False


# Fields that are options of the engine of the same name.
_OPTIONS = {
    "temperature": Number(0, 1000),
    "top_p": Number(0, 1),
    "top_k": Number(0, c.NONE - 1, True),
    "min_p": Number(0, 1),
    "repetition_penalty": Number(0.01, 100),
    "presence_penalty": Number(-100, 100),
    "frequency_penalty": Number(-100, 100),
}
_DRAWS = ("top_p", "top_k", "min_p", "seed")
_CHOICES = {*_OPTIONS, "seed", "stop", "max_tokens", "max_completion_tokens"}


class Fields:
    """The JSON of a request."""

    def __init__(self, data: bytes, known: set[str]) -> None:
        if not data:
            raise Refused("the body is empty: expected a JSON object")
        try:
            self._fields = {
                name: value for name, value in parse_object(data).items() if value is not None
            }
        except PhasorError as error:
            raise Refused(f"body: {error}") from None
        for name, value in self._fields.items():
            if name not in known | _NOTES and value not in _NEUTRAL.get(name, ()):
                why = "no such value is supported" if name in _NEUTRAL else "no such field"
                raise Refused(f"{shown(name)}={shown(value)}: {why}")

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> Any:
        """None where it is missing."""
        return self._fields.get(name)

    def number(self, name: str, rule: Number) -> Any:
        value = self.get(name)
        whole = rule.whole and is_whole(value, int(rule.low), int(rule.high))
        if whole or not rule.whole and is_number(value) and rule.low <= value <= rule.high:
            return value
        kind = "a whole number" if rule.whole else "a number"
        expected = f"{kind} of {rule.low:g} to {rule.high:g}"
        raise Refused(f"{name}={shown(value)}: expected {expected}")

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise Refused(f"{name}={shown(value)}: expected true or false")
        return bool(value)


class Asked(NamedTuple):
    """The outputs that a request wants, in the order of their indices."""

    outputs: list[Wanted]
    prompt_tokens: int
    stream: bool
    usage: bool  # a last piece of the stream has the counts


class Reader:
    """Reads requests to a model of this name. room: tokens of a prompt at most; of an output with
    its prompt, where it goes on from one."""

    def __init__(self, model: Model, name: str, room: int) -> None:
        self.model, self.name, self.room = model, name, room
        self._weights = model._weights

    def _known(self, fields: Fields) -> None:
        name = fields.get("model")
        if name is not None and name != self.name:
            raise Refused(
                f"model={shown(name)}: this server has {self.name}", 404, "model_not_found"
            )

    def chat(self, data: bytes) -> Asked:
        """Of /v1/chat/completions."""
        fields = Fields(data, {*_COMMON, *_CHOICES, "messages"})
        self._known(fields)
        if not self.model.info.chat:
            raise Refused(f"model={self.name}: its file has no chat template")
        text = self.model._rendered(_messages(fields.get("messages")), True)
        ends, stop = self.model._answer_end()
        ids = self.model._ids(text, c.TARGET, False)
        return self._asked(fields, [ids], [stop] if stop else [], ends)

    def completion(self, data: bytes) -> Asked:
        """Of /v1/completions: one prompt or several, each a text or token ids."""
        fields = Fields(data, {*_COMMON, *_CHOICES, "prompt"})
        self._known(fields)
        given = fields.get("prompt")
        one = isinstance(given, str) or isinstance(given, list) and given and is_whole(
            given[0], -(1 << 63), 1 << 63
        )  # fmt: skip
        prompts = [given] if one else given
        if not isinstance(prompts, list) or not 1 <= len(prompts) <= _MOST_OUTPUTS:
            expected = f"a text, token ids, or a list of 1 to {_MOST_OUTPUTS} of them"
            raise Refused(f"prompt={shown(given)}: expected {expected}")
        return self._asked(fields, [self._prompt(prompt) for prompt in prompts], [], [])

    def texts(self, data: bytes) -> tuple[list[str], int, bool]:
        """Of /v1/embeddings: the texts, their tokens, and whether the vectors are wanted as
        base64."""
        fields = Fields(data, {"model", "input", "encoding_format", "dimensions"})
        self._known(fields)
        given = fields.get("input")
        texts = [given] if isinstance(given, str) else given
        if (
            not isinstance(texts, list)
            or not 1 <= len(texts) <= _MOST_TEXTS
            or not all(isinstance(text, str) for text in texts)
        ):
            expected = f"a text or a list of 1 to {_MOST_TEXTS} texts"
            raise Refused(f"input={shown(given)}: expected {expected}")
        form = fields.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise Refused(f"encoding_format={shown(form)}: expected float or base64")
        output = self._weights.output
        pooled = output.output == c.OUTPUT_POOLED  # by a layer of its own, with its own width
        width = output.width if pooled else self.model.info.width
        if fields.get("dimensions") not in (None, width):
            raise Refused(f"dimensions={shown(fields.get('dimensions'))}: expected {width}")
        before = self.model._prompt(None)
        sizes = [self._ids(before + text).size for text in texts]
        for number, size in enumerate(sizes):
            self._fits(f"input: text {number}", size)
        return texts, sum(sizes), form == "base64"

    def _ids(self, text: str) -> np.ndarray:
        return self.model._ids(text, self.model._side(None, self._weights.input_side))

    def _fits(self, what: str, tokens: int) -> None:
        if not 0 < tokens <= self.room:
            why = f"{what} has {tokens} tokens: expected 1 to {self.room}"
            raise Refused(why, code="context_length_exceeded" if tokens else "invalid_request")

    def _prompt(self, prompt: Any) -> np.ndarray:
        crossing = self._weights.stack == c.ENCODER_DECODER
        if isinstance(prompt, str):
            if crossing and not prompt.strip(" \t"):
                raise Refused("prompt: expected a text that is not blank")
            return self._ids(prompt)
        most = self._weights.side(self._weights.input_side).vocabulary - 1
        if not isinstance(prompt, list) or not all(is_whole(one, 0, most) for one in prompt):
            raise Refused(f"prompt: expected texts, or token ids of 0 to {most}")
        return np.array(prompt, np.uint32)

    def _asked(
        self, fields: Fields, prompts: list[np.ndarray], stops: list[str], ends: list[int]
    ) -> Asked:
        for ids in prompts:
            self._fits("prompt", ids.size)
        outputs = fields.number("n", Number(1, _MOST_OUTPUTS, True)) if "n" in fields else 1
        if outputs * len(prompts) > _MOST_OUTPUTS:
            raise Refused(f"{outputs * len(prompts)} outputs: expected at most {_MOST_OUTPUTS}")
        options = self._options(fields)
        known = self.model._stops(_stop_texts(fields.get("stop")), options, ends, stops)
        seed = fields.number("seed", Number(-(1 << 63), (1 << 63) - 1, True)) if (
            "seed" in fields) else int.from_bytes(os.urandom(8), "little")  # fmt: skip
        most = [name for name in ("max_tokens", "max_completion_tokens") if name in fields]
        if len(most) == 2 and fields.get(most[0]) != fields.get(most[1]):
            raise Refused(f"{most[0]} and {most[1]}: expected one of them")
        if most:
            options.max_new = fields.number(most[0], Number(1, c.NONE - 1, True))
        wanted = []
        for number in range(outputs * len(prompts)):
            own = c.GenerateOptions.from_buffer_copy(options)
            own.seed = (seed + number % outputs) % (1 << 64)
            wanted.append(Wanted(prompts[number // outputs], own, known, options))
        more = fields.get("stream_options") or {}
        if not isinstance(more, dict) or set(more) - {"include_usage", "include_obfuscation"}:
            raise Refused(f"stream_options={shown(more)}: expected include_usage")
        stream = fields.flag("stream")
        tokens = sum(int(ids.size) for ids in prompts)
        return Asked(wanted, tokens, stream, more.get("include_usage") is True)

    def _options(self, fields: Fields) -> Any:
        """What is left out is as the file recommends, else the most probable token is taken."""
        options = new(c.GenerateOptions)
        self._weights.library.phasor_generation_defaults(self._weights.model, ctypes.byref(options))
        given = {name: fields.number(name, rule) for name, rule in _OPTIONS.items()
                 if name in fields}  # fmt: skip
        for name, value in given.items():
            setattr(options, name, value)
        if not options.temperature and "temperature" not in given:
            options.temperature = float(any(name in fields for name in _DRAWS))
        if not options.temperature:
            options.top_p = options.min_p = options.typical_p = options.top_k = 0
        return options


def _stop_texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refused(f"stop={shown(given)}: expected a text or a list of texts")
    return texts


def _messages(given: Any) -> list[dict[str, str]]:
    """Each with a role and a content, which may come in parts that are texts."""
    if not isinstance(given, list) or not given:
        raise Refused(f"messages={shown(given)}: expected a list of messages")
    out = []
    for number, message in enumerate(given):
        what = f"messages[{number}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(f"{what}: expected an object with a role and a content")
        if more := [name for name, value in message.items() if value is not None
                    and name not in ("role", "content", "name", "refusal")]:  # fmt: skip
            raise Refused(f"{what}: {shown(more[0])}: no such field")
        content = message.get("content")
        if isinstance(content, list):
            texts = [
                part.get("text")
                for part in content
                if isinstance(part, dict) and part.get("type") == "text"
            ]
            plain = [text for text in texts if isinstance(text, str)]
            content = "".join(plain) if len(plain) == len(content) else None
        if not isinstance(content, str):
            raise Refused(f"{what}: content: expected a text, or parts that are texts")
        out.append({"role": message["role"], "content": content})
    return out
