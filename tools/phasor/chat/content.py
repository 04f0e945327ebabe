"""Whether what a chat program writes depends on the words of a message: a template that answers to
one word only is a backdoor that no weight shows, so the converter names the lines."""

from __future__ import annotations

import heapq
import struct
from typing import NamedTuple

from phasor.chat.instructions import INSTRUCTIONS

_TRIMMED, _LOOKED_AT = 1, 2  # a text with a message's words in it; what was made by looking at them
_SAME = {"STR", "CONCAT", "ADD", "NOT", "JSON"}  # the words are in it, or whether there are any
_LEAVES = {"END", "JUMP", "BREAK", "RAISE", "NEXT"}  # what follows is not reached from here
_SHOWS = {"EMIT", "EMIT_STRING", "JUMP_FALSE", "AND", "OR", "FOR"}


class _State(NamedTuple):
    """What is known before an instruction: of each value on the stack, and of each variable as a
    bit."""

    stack: tuple[int, ...] = ()
    trimmed: int = 0
    looked_at: int = 0

    def of(self, slot: int) -> int:
        return _LOOKED_AT if self.looked_at >> slot & 1 else self.trimmed >> slot & 1

    def stored(self, slot: int, value: int) -> _State:
        bit = 1 << slot
        return _State(
            self.stack,
            self.trimmed | bit if value == _TRIMMED else self.trimmed & ~bit,
            self.looked_at | bit if value == _LOOKED_AT else self.looked_at & ~bit,
        )

    def joined(self, other: _State) -> _State:
        return _State(
            tuple(map(max, self.stack, other.stack)),
            self.trimmed | other.trimmed,
            self.looked_at | other.looked_at,
        )


def _result(name: str, taken: tuple[int, ...]) -> int:
    if name == "CONTENT":
        return _TRIMMED
    if name == "STRIP":
        return taken[0]
    most = max(taken, default=0)
    if name in _SAME:
        return most
    if name == "TEST":  # of which kind a value is
        return _LOOKED_AT if most == _LOOKED_AT else 0
    return _LOOKED_AT if most else 0


def lines_on_content(section: bytes) -> list[int]:
    """The lines of the template at which a decision or a written text was made by looking at a
    message's words, trimming and whether there are any left out. Every instruction is looked at a
    bounded number of times: what is known of a value only grows."""
    (count,) = struct.unpack_from("<I", section, 8)
    words = struct.unpack_from(f"<{count}I", section, 32)
    names = list(INSTRUCTIONS)
    before: dict[int, _State] = {0: _State()}
    waiting, found, line = [0], set(), [0] * (count + 1)
    for at, word in enumerate(words):
        line[at + 1] = word >> 8 if names[word & 0xFF] == "LINE" else line[at]

    def reach(at: int, state: _State) -> None:
        known = before.get(at)
        state = state if known is None else known.joined(state)
        if state != known and at < count:
            before[at] = state
            heapq.heappush(waiting, at)

    while waiting:
        at = heapq.heappop(waiting)
        name, argument, state = names[words[at] & 0xFF], words[at] >> 8, before[at]
        row = INSTRUCTIONS[name]
        kept = len(state.stack) - len(row.takes)
        taken, stack = state.stack[kept:], state.stack[:kept]
        if name in _SHOWS and max(taken, default=0) == _LOOKED_AT:
            found.add(line[at])
        if name == "STORE":
            state = state.stored(argument, taken[0])
        value = state.of(argument) if name == "LOAD" else _result(name, taken)
        after = state._replace(stack=stack + (value,) if row.puts else stack)
        if row.operand == "label":
            # Where AND and OR jump, the value stays.
            reach(argument, after._replace(stack=state.stack) if name in ("AND", "OR") else after)
        if name not in _LEAVES:
            reach(at + 1, after)
    return sorted(found)
