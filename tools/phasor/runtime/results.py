"""What the methods of a model return."""

from __future__ import annotations

from typing import NamedTuple


class Label(NamedTuple):
    """A class of a text."""

    label: str
    score: float


class TokenLabels(NamedTuple):
    """A token and its classes."""

    token: int  # its id
    token_str: str  # its text as the tokenizer has it; bytes that are no text as <0x0A>
    labels: tuple[Label, ...]  # best first


class Entity(NamedTuple):
    """Tokens of a text that follow each other and have the same label."""

    entity_group: str  # the label, without B- or I-
    score: float  # the mean of its tokens
    word: str  # its text, text[start:end]
    start: int
    end: int


class Answer(NamedTuple):
    """A stretch of a text that answers a question."""

    answer: str  # its text, context[start:end]; empty: no answer
    score: float
    start: int
    end: int


class Filled(NamedTuple):
    """A token for a mask."""

    token: int  # its id
    token_str: str  # its text as the tokenizer has it; bytes that are no text as <0x0A>
    score: float  # its probability


class Ranked(NamedTuple):
    """A text and how well it answers a query."""

    corpus_id: int  # its place in the list of texts
    score: float
    text: str


class TokenScore(NamedTuple):
    """A token of a scored text."""

    token: int  # its id
    logprob: float  # natural logarithm of its probability
    top_logprobs: tuple[tuple[int, float], ...]  # the most probable tokens at its place


class Score(NamedTuple):
    """The probability of a text."""

    log_probability: float  # natural logarithm, the sum of all tokens
    perplexity: float
    tokens: tuple[TokenScore, ...]  # those that have a score


class Aligned(NamedTuple):
    """An output and the words that belong to each other."""

    text: str
    source: tuple[str, ...]  # words of the source
    target: tuple[str, ...]  # words of the output
    pairs: tuple[tuple[int, int], ...]  # places of a source word and of an output word
