"""Greedy answers to prompts beside those of another file: equal first sentences, tokens that are
equal from the start, and loops that the other file's answer does not have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple, Sequence

from bench.common import command

PROMPTS = Path(__file__).with_name("prompts.txt")
_SENTENCE = re.compile(r".*?(?:[.!?](?=\s|$)|\n|$)", re.S)
# A stretch of up to 20 tokens, three times in a row.
_LONGEST, _TIMES = 20, 3


class Answer(NamedTuple):
    text: str
    ids: tuple[int, ...]


def answers(
    program: Path, model: Path, prompts: Sequence[str], tokens: int, threads: int
) -> list[Answer]:
    """The greedy answer to each prompt, each in a conversation of its own; a model without a chat
    template continues the prompt. RuntimeError with the program's line when it fails."""
    out, name = [], "chat"
    for prompt in prompts:
        done = _run(program, name, model, prompt, tokens, threads)
        if done.returncode and name == "chat" and not out:
            name = "run"
            done = _run(program, name, model, prompt, tokens, threads)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"{program}: failed"])[-1])
        line = json.loads(done.stdout.splitlines()[0])
        out.append(Answer(line["text"], tuple(line["ids"])))
    return out


def _run(
    program: Path, name: str, model: Path, prompt: str, tokens: int, threads: int
) -> subprocess.CompletedProcess[str]:
    words = ["--greedy"] if name == "chat" else ["--lines", "--temperature", "0"]
    line = command(program, name, model, "--json", "--quiet", *words, n=tokens, threads=threads)
    return subprocess.run(
        line, input=prompt + "\n", capture_output=True, text=True, encoding="utf-8"
    )


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
