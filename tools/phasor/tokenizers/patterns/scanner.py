"""The characters of a pattern: escapes, properties, classes in brackets."""

from __future__ import annotations

import re
from typing import NamedTuple

from phasor.errors import shown
from phasor.tokenizers.patterns import charsets, unicode
from phasor.tokenizers.patterns.charsets import EVERY, Runs
from phasor.tokenizers.patterns.tree import PatternError, refuse

ONIGURUMA, FANCY = "Oniguruma", "fancy-regex"
LONGEST = 4096  # characters of a pattern
DEEPEST = 40  # groups in one another
_BRACED = re.compile(r"\{\s*([0-9A-Fa-f]{1,8})\s*\}")
_TWO, _ONE_OR_TWO = re.compile(r"([0-9A-Fa-f]{2})"), re.compile(r"([0-9A-Fa-f]{1,2})")
_FOUR = re.compile(r"([0-9A-Fa-f]{4})")
_HEX: Runs = ((48, 57), (65, 70), (97, 102))
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27}
_ASCII = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\0\x7f",
    "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}
_NAMED_REFUSALS = {
    "X": r"\X (a cluster of characters)",
    "K": r"\K",
    "G": r"\G",
    "Z": r"\Z (look-ahead over more than one character)",
    "k": "a reference back",
    "g": "a call of a group",
    "y": r"\y",
    "Y": r"\Y",
    "Q": r"\Q … \E",
}


class Flags(NamedTuple):
    fold: bool = False
    dot_all: bool = False
    lines: bool = False
    spaced: bool = False


class Scanner:
    def __init__(self, text: str, dialect: str):
        if len(text) > LONGEST:
            raise PatternError(f"it has {len(text)} characters, at most {LONGEST} may")
        self.text, self.at, self.depth = text, 0, 0
        self.fancy = dialect == FANCY

    def _next(self, what: str = "") -> str:
        if self.at >= len(self.text):
            raise PatternError(f"it ends in {what or 'an escape'}")
        self.at += 1
        return self.text[self.at - 1]

    def _takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _match(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        found = regex.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    # ---- Escapes

    def _class_escape(self, flags: Flags, inside: bool = False) -> Runs | None:
        """The characters of \\d, \\w, \\s, \\h, \\p{…} and their negations, at what follows the
        backslash; None: it is none."""
        c = self.text[self.at : self.at + 1]
        if c.lower() in ("d", "w", "s", "h") and c:
            self.at += 1
            name = "\\" + c.lower()
            if name == "\\w" and not inside and not self.fancy:
                name = "bare=w"
            runs = _HEX if c in "hH" else charsets.named(name, self.fancy)
            return charsets.negated(runs) if c.isupper() else runs
        if c not in ("p", "P") or not c:
            return None
        self.at += 1
        name = self._match(re.compile(r"\{([^{}]*)\}"))
        if name is None and self.fancy:
            name = self._match(re.compile(r"([A-Za-z])"))
        if name is None or not name[1].strip():
            refuse(rf"\{c} without a name in braces")
        text = name[1].strip()
        negative = c == "P"
        if text.startswith("^"):
            text, negative = text[1:], not negative
        runs = self._property(text)
        if flags.fold and self.fancy:
            runs = charsets.folded(runs, True)
        return charsets.negated(runs) if negative else runs

    def _property(self, spelled: str) -> Runs:
        plain = re.sub(r"[\s_-]", "", spelled.lower())
        if self.fancy and plain.startswith("is") and plain not in ("iso",):
            refuse(rf"\p{{{shown(spelled)}}}")
        fixed = {"any": EVERY, "ascii": ((0, 127),)}
        if plain in fixed:
            return fixed[plain]
        if plain == "assigned":
            return charsets.negated(charsets.named("gc=cn", self.fancy))
        if not self.fancy and plain in _ASCII:
            return charsets.named(f"posix={plain}", False)
        name = unicode.known(spelled) if self.fancy or not re.search("[=:]", spelled) else None
        if name is None or "posix" in name:
            refuse(rf"\p{{{shown(spelled)}}}")
        return charsets.named(name, self.fancy)

    def _code(self) -> int:
        """The character that an escape means, behind the backslash."""
        c = self._next()
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c in _NAMED_REFUSALS:
            refuse(_NAMED_REFUSALS[c])
        if c == "x":
            found = self._match(_BRACED) or self._match(_TWO if self.fancy else _ONE_OR_TWO)
        elif c == "u":
            found = self._match(_FOUR) or (self._match(_BRACED) if self.fancy else None)
        elif c == "0" and not self.fancy:
            found = self._match(re.compile(r"([0-7]{0,2})"))
            return int(found[1] or "0", 8)
        elif c.isdigit():
            return refuse("a reference back")
        elif c.isalnum() and c.isascii() or (self.fancy and c in "<>"):
            return refuse(rf"the escape \{c}")
        else:
            return ord(c)
        code = int(found[1], 16) if found else -1
        if (
            not 0 <= code <= charsets.LAST
            or 0xD800 <= code <= 0xDFFF
            or (not self.fancy and c == "x" and code > 127 and not self.text[self.at - 1] == "}")
        ):
            refuse(rf"the escape \{c} of what is no character")
        return code

    # ---- Brackets

    def _class(self, flags: Flags) -> tuple[bool, Runs]:
        """Behind its [: (whether ^ is there, the characters)."""
        self.depth += 1
        if self.depth > DEEPEST:
            refuse(f"a pattern with more than {DEEPEST} groups in one another")
        negative = self._takes("^")
        whole: Runs | None = None  # of what stands before the last operator
        operator = "&&"
        found: list[tuple[int, int]] = []
        first = True

        def joined() -> Runs:
            here = charsets.union(found)
            if whole is None:
                return here
            if operator == "&&":
                return charsets.both(whole, here)
            less = charsets.both(whole, charsets.negated(here))
            return (
                less
                if operator == "--"
                else charsets.union((*less, *charsets.both(here, charsets.negated(whole))))
            )

        while True:
            if self.at >= len(self.text):
                raise PatternError("a [ without its ]")
            if not first and self._takes("]"):
                break
            signs = ("&&", "--", "~~") if self.fancy else ("&&",)
            sign = next((s for s in signs if not first and self._takes(s)), None)
            if sign is not None:
                whole, operator, found = joined(), sign, []
                continue
            found += self._item(flags, first)
            first = False
        self.depth -= 1
        return negative, joined()

    def _item(self, flags: Flags, first: bool) -> Runs:
        """A character, a range, a class in the class."""
        posix = self._match(re.compile(r"\[:(\^?)([a-zA-Z]+):\]"))
        if posix:
            name = posix[2]
            if name not in _ASCII or (name == "ascii" and not self.fancy):
                refuse(f"[:{shown(name)}:]")
            if self.fancy:
                codes = list(map(ord, _ASCII[name]))
                runs = charsets.union(zip(codes[::2], codes[1::2]))
                runs = charsets.folded(runs, True) if flags.fold else runs
            else:
                runs = charsets.named(f"posix={name}", False)
            return charsets.negated(runs) if posix[1] else runs
        if not (first and self.text.startswith("]", self.at)) and self._takes("["):
            negative, runs = self._class(flags)
            return charsets.negated(runs) if negative else runs
        if self._takes("\\"):
            runs = self._class_escape(flags, inside=True)
            if runs is not None:
                then = self.text[self.at : self.at + 2]
                if then[:1] == "-" and then != "-]" and not (self.fancy and then == "--"):
                    refuse("a range that begins with a class")
                return runs
            low = 8 if self._takes("b") else self._code()
        else:
            low = ord(self._next("a class"))
        high = low
        rest = self.text[self.at : self.at + 2]
        if rest[:1] == "-" and rest not in ("-", "-]") and not (self.fancy and rest == "--"):
            self.at += 1
            if self.text.startswith("[", self.at) or self.text.startswith("&&", self.at):
                refuse("a range that ends with a class")
            if self._takes("\\"):
                if self.text[self.at : self.at + 1] in tuple("dDwWsShHpP"):
                    refuse("a range that ends with a class")
                high = 8 if self._takes("b") else self._code()
            else:
                high = ord(self._next("a class"))
            if high < low:
                names = shown(chr(low)), shown(chr(high))
                raise PatternError(f"the range from {names[0]} to {names[1]} is empty")
        runs: Runs = ((low, high),)
        return charsets.folded(runs, True) if flags.fold and self.fancy else runs
