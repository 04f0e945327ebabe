"""Names of tensors as words, and the field's words for the parts of a Transformer."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

Words = tuple[str, ...]

_TABLE = tomllib.loads((Path(__file__).with_name("words.toml")).read_text("utf-8"))
NORM_WEIGHTS = ("weight", "gamma", "a_2", "g", "scale", "gain", "alpha")


@functools.lru_cache(1 << 14)
def words_of(name: str) -> Words:
    return tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name))


@functools.cache
def _phrases(scope: str, what: str) -> tuple[Words, ...]:
    return tuple(tuple(phrase.split(".")) for phrase in _TABLE[scope][what].split())


def listed(scope: str, what: str) -> Words:
    return tuple(_TABLE[scope][what].split())


def place(name: str, scope: str, what: str) -> int:
    """Behind which word of a name a phrase ends that means this, the last one; 0: none does."""
    words, best = words_of(name), 0
    for phrase in _phrases(scope, what):
        for at in range(len(words) - len(phrase) + 1):
            if words[at : at + len(phrase)] == phrase:
                best = max(best, at + len(phrase))
    return best


def says(name: str, scope: str, what: str) -> bool:
    return place(name, scope, what) > 0


def module(name: str) -> str:
    return name.rpartition(".")[0]
