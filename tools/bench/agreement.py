"""Greedy answers to prompts beside those of another file: equal first sentences, tokens that are
equal from the start, and loops that the other file's answer does not have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

from phasor.errors import PhasorError

PROMPTS = Path(__file__).with_name("prompts.txt")
_SENTENCE = re.compile(r".*?(?:[.!?](?=\s|$)|\n|$)", re.S)
# A stretch of up to 20 tokens, three times in a row.
_LONGEST, _TIMES = 20, 3
_JSON = ("--json", "--quiet")


class Answer(NamedTuple):
    text: str
    ids: tuple[int, ...]


def answers(
    call: Callable[..., str],
    program: Path,
    model: Path,
    prompts: Sequence[str],
    tokens: int,
    threads: int,
) -> list[Answer]:
    """The greedy answer to each prompt, each in a conversation of its own; a model without a chat
    template continues the prompt. call: runs the program on a text (quality.call)."""

    def ask(prompt: str, *words: str) -> Answer:
        how = {"n": tokens, "threads": threads}
        said = call(program, words[0], model, *words[1:], *_JSON, text=prompt + "\n", **how)
        line = json.loads(said.splitlines()[0])
        return Answer(line["text"], tuple(line["ids"]))

    words = ("chat", "--greedy")
    try:
        ask(prompts[0], *words)
    except PhasorError:
        words = ("run", "--lines", "--temperature", "0")
    return [ask(prompt, *words) for prompt in prompts]


def first_sentence(text: str) -> str:
    """Up to the first full stop, question or exclamation mark, or line feed."""
    found = _SENTENCE.match(text.strip())
    return found[0].strip() if found else ""


def loops(ids: Sequence[int]) -> bool:
    """Whether the answer ends in a stretch that comes three times in a row."""
    for length in range(1, _LONGEST + 1):
        end = list(ids[len(ids) - length * _TIMES :])
        if len(end) == length * _TIMES and end == end[:length] * _TIMES:
            return True
    return False


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two answers have in common from the start."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class Agreement(NamedTuple):
    """Of `count` prompts: equal first sentences, equal answers, loops that the other file's answer
    does not have; and the mean share of a longest answer's tokens that are equal from the start."""

    count: int
    sentences: int
    whole: int
    loops: int
    tokens: float


def compare(other: Sequence[Answer], own: Sequence[Answer]) -> Agreement:
    pairs = list(zip(other, own, strict=True))
    shares = [common(a.ids, b.ids) / max(len(a.ids), len(b.ids), 1) for a, b in pairs]
    return Agreement(
        len(pairs),
        sum(first_sentence(a.text) == first_sentence(b.text) for a, b in pairs),
        sum(a.ids == b.ids for a, b in pairs),
        sum(loops(b.ids) and not loops(a.ids) for a, b in pairs),
        sum(shares) / len(pairs),
    )
