"""The code of chat programs (docs/format.md, CHAT): operations by number, and the assembler that
makes a section of them."""

from __future__ import annotations

import struct
from typing import Any, Callable, Iterable

from phasor.format.layout import PhasorError

MAX_CODE, MAX_STRINGS, MAX_TEXT, MAX_SLOTS, MAX_STACK, MAX_LOOPS = (
    1 << 16,
    1 << 14,
    1 << 20,
    64,
    32,
    2,
)

# Operations, by number (docs/format.md).
OPERATIONS = (
    "END",
    "LINE",
    "LABEL",
    "TEXT",
    "EMIT",
    "EMIT_STRING",
    "NONE",
    "UNDEFINED",
    "BOOL",
    "INT",
    "STRING",
    "LOAD",
    "STORE",
    "POP",
    "MESSAGES",
    "PROMPT",
    "ITEM",
    "INDEX",
    "COUNT",
    "ROLE",
    "CONTENT",
    "FIELD",
    "ELEMENT",
    "SLICE",
    "LENGTH",
    "NOT",
    "NEG",
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MOD",
    "CONCAT",
    "EQ",
    "NE",
    "LT",
    "LE",
    "GT",
    "GE",
    "IN",
    "TEST",
    "JUMP",
    "JUMP_FALSE",
    "AND",
    "OR",
    "FOR",
    "NEXT",
    "BREAK",
    "STRIP",
    "STARTS",
    "ENDS",
    "SPLIT",
    "REPLACE",
    "CASE",
    "JSON",
    "STR",
    "RAISE",
)
_CODE = {name: i for i, name in enumerate(OPERATIONS)}
_JUMPS = {"JUMP", "JUMP_FALSE", "AND", "OR", "FOR", "NEXT", "BREAK"}
_LEAVES = {"END", "JUMP", "BREAK", "RAISE"}  # what follows is not reached from here
# (taken from the stack, put on it); FOR, NEXT, AND and OR are told apart where they matter.
_EFFECTS = {
    "EMIT": (1, 0),
    "EMIT_STRING": (1, 0),
    "STORE": (1, 0),
    "POP": (1, 0),
    "RAISE": (1, 0),
    "JUMP_FALSE": (1, 0),
    "FOR": (1, 0),
    "SLICE": (4, 1),
    "SPLIT": (4, 1),
    "REPLACE": (3, 1),
    **{
        n: (0, 1)
        for n in (
            "NONE",
            "UNDEFINED",
            "BOOL",
            "INT",
            "STRING",
            "LOAD",
            "MESSAGES",
            "PROMPT",
            "ITEM",
            "INDEX",
            "COUNT",
        )
    },
    **{
        n: (1, 1)
        for n in ("ROLE", "CONTENT", "FIELD", "LENGTH", "NOT", "NEG", "TEST", "CASE", "JSON", "STR")
    },
    **{
        n: (2, 1)
        for n in (
            "ELEMENT",
            "ADD",
            "SUB",
            "MUL",
            "DIV",
            "MOD",
            "CONCAT",
            "EQ",
            "NE",
            "LT",
            "LE",
            "GT",
            "GE",
            "IN",
            "STARTS",
            "ENDS",
        )
    },
}


def one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:300])


class Refused(PhasorError):
    """The template needs something that a chat program does not have: one line."""

    def __init__(self, what: str, line: int | None = None) -> None:
        text = what if line is None else f"chat template, line {line}: {what} is not supported"
        super().__init__(one_line(text))


class Excess(Refused):
    """The template is too much: for its size, or for what follows from it."""


class Label:
    """A place to jump to."""


class Assembler:
    """Code as the compiler leaves it, (operation, argument) with labels; section() gives its
    bytes."""

    def __init__(self, code: list, spend: Callable[[int], None]) -> None:
        self.spend = spend
        live = None
        while True:  # a variable that nothing reads is not kept, nor what only it reads
            flat = self.reached(list(self.flat(code, live)))
            loads = {arg for op, arg in flat if op == "LOAD"}
            if loads == live:
                break
            live = loads
        self.end = Label()
        if flat[-1][0] != "END":  # it always raises: a program has an end, reached or not
            flat += [("LABEL", self.end), ("END", 0)]
        refusals = [arg for op, arg in flat if op == "REFUSE"]
        if refusals:
            line, what = min(refusals, key=lambda refusal: refusal[0])
            raise Refused(what, line)
        self.code = self.tidy(flat)

    def flat(self, code: Iterable, live: set | None) -> Iterable[tuple]:
        for op, arg in code:
            if op != "SET":
                yield op, arg
                continue
            slot, value, pure = arg
            if live is None or slot in live:
                yield from self.flat(value, live)
                yield "STORE", slot
            elif (not pure or any(o == "SET" for o, _ in value)) and not any(
                o == "REFUSE" for o, _ in value
            ):
                yield from self.flat(value, live)
                yield "POP", 0

    def reached(self, code: list) -> list:
        """Without what cannot be reached, jumps to the next place, and places that nothing jumps
        to."""
        while True:
            self.spend(len(code) >> 2)
            out, wanted, here, back = [], set(), True, {arg for op, arg in code if op == "NEXT"}
            for op, arg in code:
                if op == "LABEL" and (arg in wanted or (arg in back and here)):
                    here = True
                if not here:
                    continue
                out.append((op, arg))
                if op in _JUMPS and op != "NEXT":
                    wanted.add(arg)
                if op in _LEAVES:
                    here = False
            kept = []
            targets = {arg for op, arg in out if op in _JUMPS}
            for i, (op, arg) in enumerate(out):
                if op == "LABEL" and arg not in targets:
                    continue
                if op == "JUMP":
                    behind = i + 1
                    while (
                        behind < len(out)
                        and out[behind][0] in ("LABEL", "LINE")
                        and (out[behind][1] is not arg)
                    ):
                        behind += 1
                    if behind < len(out) and out[behind] == ("LABEL", arg):
                        continue
                kept.append((op, arg))
            if kept == code:
                return kept
            code = kept

    def tidy(self, code: list) -> list:
        """Texts that follow each other as one; only those lines that something can fail on."""
        out: list = []
        line = written = 0
        for op, arg in code:
            if op == "LINE":
                line = arg
                continue
            if op == "TEXT":
                if not arg:
                    continue
                if out and out[-1][0] == "TEXT":
                    out[-1][1].append(arg)
                    continue
                arg = [arg]
            elif op == "LABEL":
                written = 0
            elif op not in ("END", "JUMP", "BREAK", "NEXT") and line != written:
                out.append(("LINE", line))
                written = line
            out.append((op, arg))
        return [(op, "".join(arg) if op == "TEXT" else arg) for op, arg in out]

    def section(self, flags: int) -> bytes:
        strings: dict[bytes, int] = {}
        slots: dict[Any, int] = {}
        places = {arg: i for i, (op, arg) in enumerate(self.code) if op == "LABEL"}
        depths: dict[Label, tuple[int, int]] = {self.end: (0, 0)}
        words, depth, level, deepest = [], 0, 0, 0
        for op, arg in self.code:
            if op in ("TEXT", "STRING"):
                arg = strings.setdefault(arg.encode("utf-8"), len(strings))
            elif op in ("LOAD", "STORE"):
                arg = slots.setdefault(arg, len(slots))
            if op == "LABEL":
                depth, level = depths.setdefault(arg, (depth, level))
                arg = depth | level << 8
            taken, put = _EFFECTS.get(op, (0, 0))
            depth += put - taken - (op == "STRIP" and arg >> 2)
            if op in _JUMPS:
                inside = level - 1 if op == "BREAK" else level
                if op != "NEXT":
                    depths.setdefault(arg, (depth, inside))
                arg = places[arg]
                depth -= op in ("AND", "OR")
                level += (op == "FOR") - (op == "NEXT")
            deepest = max(deepest, depth)
            words.append(_CODE[op] | (arg & 0xFFFFFF) << 8)
        text = b"".join(strings)
        for what, found, most in (
            ("operations", len(words), MAX_CODE),
            ("texts", len(strings), MAX_STRINGS),
            ("bytes of text", len(text), MAX_TEXT),
            ("variables", len(slots), MAX_SLOTS),
            ("values at once", deepest, MAX_STACK),
        ):
            if found > most:
                raise Refused(f"chat template: {found} {what}, a program has at most {most}")
        places_of_text, at = [], 0
        for string in strings:
            places_of_text += [at, len(string)]
            at += len(string)
        numbers = [
            1,
            flags,
            len(words),
            len(strings),
            len(text),
            len(slots),
            deepest,
            0,
            *words,
            *places_of_text,
        ]
        return struct.pack(f"<{len(numbers)}I", *numbers) + text + bytes(-len(text) % 4)
