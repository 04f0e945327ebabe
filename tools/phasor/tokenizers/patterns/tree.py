"""What a pattern becomes when it is parsed, and what a part of it says of one character."""

from __future__ import annotations

from typing import Any, NamedTuple

from phasor.tokenizers.patterns import charsets, unicode
from phasor.tokenizers.patterns.charsets import EVERY, Runs
from phasor.tokenizers.section import TokenizerError


class PatternError(TokenizerError):
    """A pattern that is none in its dialect, or that no table of states can do."""


class Set(NamedTuple):
    runs: Runs


class Letter(NamedTuple):
    """A character that stands for itself, of which the case does not matter: neighbors of these may
    be one character together."""

    char: str


class Cat(NamedTuple):
    parts: tuple[Any, ...]


class Alt(NamedTuple):
    ways: tuple[Any, ...]  # the first that leads to a match is taken


class Repeat(NamedTuple):
    body: object
    least: int
    most: int | None
    greedy: bool


class Ahead(NamedTuple):
    """The next character is one of these, or with `end` there is none."""

    runs: Runs
    end: bool


class Behind(NamedTuple):
    """The character before is one of these, or with `start` there is none."""

    runs: Runs
    start: bool


NOTHING = Cat(())


def refuse(what: str) -> None:
    raise PatternError(f"{what} is not supported")


def nullable(node) -> bool:
    """Whether it can match nothing."""
    if isinstance(node, (Set, Letter)):
        return False
    if isinstance(node, Cat):
        return all(map(nullable, node.parts))
    if isinstance(node, Alt):
        return any(map(nullable, node.ways))
    if isinstance(node, Repeat):
        return node.least == 0 or nullable(node.body)
    return True


def least(node) -> int:
    """The fewest characters of a match."""
    if isinstance(node, (Set, Letter)):
        return 1
    if isinstance(node, Cat):
        return sum(map(least, node.parts))
    if isinstance(node, Alt):
        return min(map(least, node.ways))
    if isinstance(node, Repeat):
        return node.least * least(node.body) if node.least else 0
    return 0


def look(node) -> tuple[Runs, bool] | None:
    """(characters, end): what a look-ahead says of the next character alone; None: it says more."""
    if isinstance(node, Set):
        return node.runs, False
    if isinstance(node, Letter):
        return None if node.char in unicode.several() else (of_letter(node), False)
    if isinstance(node, Ahead):
        return node.runs, node.end
    if isinstance(node, Repeat):
        if node.least == 0:
            return (EVERY, True) if plain(node.body) else None
        return look(node.body) if node.least == 1 else None
    if isinstance(node, Alt):
        ways = [look(way) for way in node.ways]
        if any(way is None for way in ways):
            return None
        return charsets.union(run for way in ways for run in way[0]), any(end for _, end in ways)
    if isinstance(node, Cat):
        if not node.parts:
            return EVERY, True
        rest = Cat(node.parts[1:])
        if plain(rest) and nullable(rest):
            return look(node.parts[0])
    return None


def plain(node) -> bool:
    """Whether no condition is in it."""
    if isinstance(node, (Set, Letter)):
        return True
    if isinstance(node, (Cat, Alt)):
        return all(map(plain, node[0]))
    return isinstance(node, Repeat) and plain(node.body)


def of_letter(letter: Letter) -> Runs:
    return charsets.folded(charsets.of_text(letter.char), False)


def one_behind(node) -> tuple[Runs, bool] | None:
    if isinstance(node, Set):
        return node.runs, False
    if isinstance(node, Letter):
        return None if node.char in unicode.several() else (of_letter(node), False)
    if isinstance(node, Behind):
        return node.runs, node.start
    if isinstance(node, Alt):
        ways = [one_behind(way) for way in node.ways]
        if all(way is not None for way in ways):
            runs = charsets.union(run for way in ways for run in way[0])
            return runs, any(start for _, start in ways)
    if isinstance(node, Cat) and len(node.parts) == 1:
        return one_behind(node.parts[0])
    return None


def possessive(body, least: int, most: int | None):
    """A repetition of one character that gives nothing back."""
    one = single(body)
    if one is None:
        refuse("a possessive repetition of more than one character")
    stop = Ahead(charsets.negated(one), True)
    if most is None:
        return Cat((Repeat(body, least, None, True), stop))
    if most - least > 64:
        refuse("a possessive repetition of more than 64 characters")
    node = NOTHING
    for _ in range(most - least):
        node = Alt((Cat((body, node)), stop))
    return Cat((Repeat(body, least, least, True), node))


def single(node) -> Runs | None:
    """The characters of what always matches exactly one."""
    if isinstance(node, Set):
        return node.runs
    if isinstance(node, Letter):
        return None if node.char in unicode.several() else of_letter(node)
    if isinstance(node, Cat) and len(node.parts) == 1:
        return single(node.parts[0])
    if isinstance(node, Alt):
        ways = [single(way) for way in node.ways]
        if all(way is not None for way in ways):
            return charsets.union(run for way in ways for run in way)
    return None
