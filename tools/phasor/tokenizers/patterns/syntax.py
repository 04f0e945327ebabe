"""Parses a regular expression of a tokenizer in the dialect of its engine: Oniguruma as
tokenizer.json has it (Ruby's syntax), or fancy-regex as tiktoken and tekken.json have it. What no
table of states can do is refused by name.
"""

from __future__ import annotations

import re
from typing import Any

from phasor.tokenizers.patterns import charsets, unicode
from phasor.tokenizers.patterns.charsets import EVERY, NONE, Runs
from phasor.tokenizers.patterns.scanner import DEEPEST, Flags, Scanner
from phasor.tokenizers.patterns.tree import (
    Ahead,
    Alt,
    Behind,
    Cat,
    Letter,
    PatternError,
    Repeat,
    Set,
    look,
    of_letter,
    one_behind,
    plain,
    possessive,
    refuse,
    single,
)

_MOST_REPEATS = 100000
_NAMES = re.compile(r"<[^>=!]+>|'[^']+'"), re.compile(r"P?<[^>=!]+>")  # Oniguruma, fancy-regex
_LINE_FEED: Runs = ((10, 10),)
_BREAKS: Runs = ((10, 13), (0x85, 0x85), (0x2028, 0x2029))
_GROUP_REFUSALS = {
    "(?~": "(?~…) (what does not contain a text)",
    "(?(": "a condition",
    "(?{": "a callout",
    "(?&": "recursion",
    "(?|": "(?|…)",
    "(*": "(*…)",
}


class Parser(Scanner):
    def parse(self):
        node = self._ways(Flags())
        if self.at < len(self.text):
            raise PatternError(f"character {self.at}: a ) without its (")
        return node

    # ---- Ways, parts

    def _ways(self, flags: Flags):
        self.depth += 1
        if self.depth > DEEPEST:
            refuse(f"a pattern with more than {DEEPEST} groups in one another")
        ways = [self._way(flags)]
        while self._takes("|"):
            ways.append(self._way(flags))
        self.depth -= 1
        return ways[0] if len(ways) == 1 else Alt(tuple(ways))

    def _way(self, flags: Flags):
        parts: list[Any] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if flags.spaced and self._match(re.compile(r"[ \t\n\r\f\v]+|#[^\n]*")):
                continue
            if self._takes("(?#"):
                if self._match(re.compile(r"[^)\\]*\)")) is None:
                    raise PatternError("it ends in a comment")
                continue
            options = self._match(re.compile(r"\(\?([a-zA-Z]*(?:-[a-zA-Z]+)?)\)"))
            if options:
                flags = self._flags(flags, options[1])
                if not self.fancy:  # what follows is a group, with its own ways
                    parts.append(self._ways(flags))
                continue
            part, may_repeat = self._part(flags)
            repeated = self._repeats(part, may_repeat, flags)
            if repeated is part and isinstance(part, Cat):
                parts += part.parts
            else:
                parts.append(repeated)
        return parts[0] if len(parts) == 1 else Cat(tuple(parts))

    def _flags(self, flags: Flags, options: str) -> Flags:
        on, _, off = options.partition("-")
        names = {"i": "fold", "x": "spaced", "m": "lines" if self.fancy else "dot_all"}
        if self.fancy:
            names |= {"s": "dot_all"}
        for letter in on + off:
            if letter == "u" and self.fancy and letter in on:
                continue
            if letter not in names:
                refuse("recursion" if letter == "R" else f"the option {letter}")
        changed = {names[c]: True for c in on if c in names} | {names[c]: False for c in off}
        return flags._replace(**changed)

    def _repeats(self, part, may_repeat: bool, flags: Flags):
        count = 0
        while True:
            if flags.spaced:
                self._match(re.compile(r"[ \t\n\r\f\v]+"))
            counted = self._match(re.compile(r"\{(\d+)(,(\d*))?\}|\{(),(\d+)\}"))
            if counted:
                low, high = counted[1] or "0", counted[3] if counted[1] else counted[5]
                most = int(low) if counted[1] and not counted[2] else int(high) if high else None
                least = int(low)
            elif self.text[self.at : self.at + 1] in tuple("*+?"):
                sign = self._next()
                least, most = int(sign == "+"), 1 if sign == "?" else None
            elif self.text.startswith("{,}", self.at):
                refuse("{,}")
            else:
                return part
            count += 1
            if not may_repeat:
                refuse("a repetition of what matches no character")
            if count > 1 and self.fancy:
                refuse("a repetition of a repetition")
            if count > 3 or max(least, most or 0) > _MOST_REPEATS:
                refuse(f"a repetition of more than {_MOST_REPEATS} times")
            if most is not None and most < least:
                refuse(f"{{{least},{most}}}")
            part = self._repeated(part, least, most, bool(counted))

    def _repeated(self, part, least: int, most: int | None, counted: bool):
        """With what may stand behind the operator: ? lazy, + possessive; in Oniguruma {…}+ is a
        repetition of the repetition, and so is {n}?."""
        sign = self.text[self.at : self.at + 1]
        if sign == "?" and (self.fancy or not counted or least != most):
            self.at += 1
            if self.fancy and self.text[self.at : self.at + 1] == "+":
                refuse("a repetition that is lazy and possessive")
            return Repeat(part, least, most, False)
        if sign == "+" and (self.fancy or not counted):
            self.at += 1
            return possessive(part, least, most)
        return Repeat(part, least, most, True)

    def _part(self, flags: Flags) -> tuple[object, bool]:
        """(node, whether it may be repeated)."""
        c = self._next()
        if c == "(":
            return self._group(flags)
        if c == "[":
            return self._bracket(flags), True
        if c == ".":
            return Set(EVERY if flags.dot_all else charsets.negated(_LINE_FEED)), True
        if c == "^":
            line = Cat((Behind(_LINE_FEED, False), Ahead(EVERY, False)))
            if self.fancy:
                return Behind(_LINE_FEED if flags.lines else NONE, True), False
            return Alt((Behind(NONE, True), line)), False
        if c == "$":
            lines = flags.lines or not self.fancy
            return Ahead(_LINE_FEED if lines else NONE, True), False
        if c in "*+?":
            raise PatternError(f"character {self.at - 1}: nothing is there to repeat")
        if c == "{" and not self.fancy and self._match(re.compile(r"\d+(,\d*)?\}|,\d+\}")):
            raise PatternError("nothing is there to repeat")
        if c == "\\":
            return self._escape(flags)
        return self._literal(ord(c), flags), True

    def _literal(self, code: int, flags: Flags):
        if flags.fold and not self.fancy:
            return Letter(chr(code))
        runs: Runs = ((code, code),)
        return Set(charsets.folded(runs, True) if flags.fold else runs)

    # ---- Groups

    def _group(self, flags: Flags) -> tuple[object, bool]:
        for begin, what in _GROUP_REFUSALS.items():
            if self.text.startswith(begin, self.at - 1):
                refuse(what)
        inner, kind = flags, "("
        if self._takes("?"):
            options = self._match(re.compile(r"([a-zA-Z]*(?:-[a-zA-Z]+)?):"))
            if options:
                inner, kind = self._flags(flags, options[1]), "?:" if not options[1] else "("
            elif not self._match(_NAMES[self.fancy]):
                found = self._match(re.compile(r"=|!|<=|<!|>"))
                if not found:
                    refuse(f"the group (?{self.text[self.at : self.at + 1]}")
                kind = found[0]
        node = self._ways(inner)
        if not self._takes(")"):
            raise PatternError("a ( without its )")
        if kind in ("=", "!", "<=", "<!"):
            return self._condition(node, kind), False
        if kind == ">":
            return self._atomic(node), True
        if kind == "?:":
            return node, plain(node) or not _only_conditions(node)
        return Alt((node,)), not _only_conditions(node)

    def _condition(self, node, kind: str):
        ahead = kind in ("=", "!")
        found = look(node) if ahead else one_behind(node)
        if found is None and ahead and (behind := one_behind(node)) is not None:
            found, ahead = behind, False
        if found is None:
            way = "look-ahead" if ahead else "look-behind"
            refuse(f"{way} of anything but one character")
        runs, edge = found
        if kind in ("!", "<!"):
            runs, edge = charsets.negated(runs), not edge
        return Ahead(runs, edge) if ahead else Behind(runs, edge)

    def _atomic(self, node):
        if single(node) is not None:
            return node
        if isinstance(node, Repeat) and node.greedy and single(node.body) is not None:
            return possessive(node.body, node.least, node.most)
        if not plain(node) or not isinstance(node, (Set, Cat)):
            refuse("an atomic group of more than one character's repetition")
        parts = node.parts if isinstance(node, Cat) else (node,)
        if any(single(part) is None for part in parts):
            refuse("an atomic group of more than one character's repetition")
        return node

    # ---- Escapes

    def _escape(self, flags: Flags) -> tuple[object, bool]:
        c = self._next()
        if c in "bB":
            if self._takes("{"):
                refuse(rf"\{c}{{…}}")
            word = charsets.named("\\w" if self.fancy else "bare=w", self.fancy)
            other = charsets.negated(word)
            edge = (
                Cat((Behind(word, False), Ahead(other, True))),
                Cat((Behind(other, True), Ahead(word, False))),
            )
            inside = (
                Cat((Behind(word, False), Ahead(word, False))),
                Cat((Behind(other, True), Ahead(other, True))),
            )
            return Alt(edge if c == "b" else inside), False
        if c == "A":
            return Behind(NONE, True), False
        if c == "z":
            return Ahead(NONE, True), False
        if c == "R":
            feed = Set(_LINE_FEED)
            rest = charsets.both(_BREAKS, charsets.negated(((13, 13),)))
            ways = (feed, Ahead(charsets.negated(_LINE_FEED), True))
            return Alt((*(Cat((Set(((13, 13),)), way)) for way in ways), Set(rest))), True
        if c == "N":
            return Set(charsets.negated(_LINE_FEED)), True
        if c == "O":
            return Set(EVERY), True
        self.at -= 1
        found = self._class_escape(flags)
        if found is not None:
            return Set(found), True
        return self._literal(self._code(), flags), True

    # ---- Brackets

    def _bracket(self, flags: Flags):
        self.several: list[str] = []
        negative, runs = self._class(flags)
        if flags.fold and not self.fancy:
            runs = charsets.folded(runs, False)
            if not negative:
                several = unicode.several().items()
                texts = sorted({text for c, text in several if charsets.contains(runs, ord(c))})
                if texts:
                    more = (Cat(tuple(Set(of_letter(Letter(c))) for c in text)) for text in texts)
                    return Alt((Set(runs), *more))
        return Set(charsets.negated(runs) if negative else runs)


def _only_conditions(node) -> bool:
    if isinstance(node, (Ahead, Behind)):
        return True
    if isinstance(node, (Cat, Alt)):
        return bool(node[0]) and all(map(_only_conditions, node[0]))
    return False


def parse(text: str, dialect: str):
    """The tree of a pattern. PatternError names what it has that is not supported."""
    return Parser(text, dialect).parse()
