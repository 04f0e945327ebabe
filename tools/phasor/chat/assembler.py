"""The assembler of chat programs: from the compiler's code to a section (file-format.md, CHAT)."""

from __future__ import annotations

import struct
from typing import Any, Callable, Iterable

from phasor.chat.instructions import INSTRUCTIONS, JUMPS, LIMITS, STRIP_CHARS, Refused

_LEAVES = {"END", "JUMP", "BREAK", "RAISE"}  # what follows is not reached from here


class Label:
    """A place to jump to."""


class Assembler:
    """Code as the compiler leaves it, (operation, argument) with labels; section() gives its
    bytes."""

    def __init__(self, code: list[Any], spend: Callable[[int], None]) -> None:
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

    def flat(self, code: Iterable[Any], live: set[Any] | None) -> Iterable[tuple[Any, ...]]:
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

    def reached(self, code: list[Any]) -> list[Any]:
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
                if op in JUMPS and op != "NEXT":
                    wanted.add(arg)
                if op in _LEAVES:
                    here = False
            kept, near = [], set()  # near: labels that stand right behind
            targets = {arg for op, arg in out if op in JUMPS}
            for op, arg in reversed(out):
                if op == "LABEL" and arg not in targets or op == "JUMP" and arg in near:
                    continue
                if op == "LABEL":
                    near.add(arg)
                elif op != "LINE":
                    near = set()
                kept.append((op, arg))
            kept.reverse()
            if kept == code:
                return kept
            code = kept

    def tidy(self, code: list[Any]) -> list[Any]:
        """Texts that follow each other as one; only those lines that something can fail on."""
        out: list[Any] = []
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
            row = INSTRUCTIONS[op]
            if row.operand == "text":
                arg = strings.setdefault(arg.encode("utf-8"), len(strings))
            elif row.operand == "slot":
                arg = slots.setdefault(arg, len(slots))
            elif op == "LABEL":
                depth, level = depths.setdefault(arg, (depth, level))
                arg = depth | level << 8
            depth += bool(row.puts) - len(row.takes) + (op == "STRIP" and not arg & STRIP_CHARS)
            if op in JUMPS:
                if op != "NEXT":  # where AND and OR jump, the value stays
                    there = depth + (op in ("AND", "OR")), level - (op == "BREAK")
                    depths.setdefault(arg, there)
                arg = places[arg]
                level += (op == "FOR") - (op == "NEXT")
            deepest = max(deepest, depth)
            words.append(row.number | (arg & 0xFFFFFF) << 8)
        text = b"".join(strings)
        counts = len(words), len(strings), len(text), len(slots), deepest
        for (what, most), found in zip(LIMITS.items(), counts):
            if found > most:
                raise Refused(f"chat template: {found} {what}, a program has at most {most}")
        at = 0
        for string in strings:
            words += at, len(string)
            at += len(string)
        numbers = 1, flags, *counts, 0, *words
        return struct.pack(f"<{len(numbers)}I", *numbers) + text + bytes(-len(text) % 4)
