"""From a chat template's syntax tree (jinja2) to a chat program. Nothing of the template runs: what
is known at conversion is computed, branches that cannot be reached vanish, and what remains and has
no instruction is refused with its line.

A compiler is made in layers, each a class in a file of its own: State, Expressions, Calls,
Statements, and here the loops and the whole."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from phasor.chat.abstract import (
    MESSAGE,
    UNDEFINED,
    Items,
    Loop,
    Reversed,
    Split,
    Val,
)
from phasor.chat.assembler import Assembler, Label
from phasor.chat.instructions import MAX_LOOPS
from phasor.chat.statements import Statements
from phasor.chat.syntax import assigned, nodes

MAX_UNROLLED = 64  # rounds of a loop over a list
_MAX_ROUNDS = 64  # of the search for what holds in every round of a loop


class Round(NamedTuple):
    """Of a loop over messages that is being compiled: where `continue` and `break` lead, and what
    is known where they stand."""

    following: Label
    end: Label
    nexts: list
    breaks: list


def _leaves(loop: Any) -> bool:
    return any(True for _ in loop.find_all((nodes.Break, nodes.Continue)))


class Compiler(Statements):
    def s_For(self, node):
        items = self.eval(node.iter)
        if isinstance(items.const, Reversed):
            items = items.const.items
        self.line = node.lineno
        if node.recursive:
            return self.unsupported("a recursive loop")
        if not isinstance(node.target, nodes.Name):
            return self.unsupported("a loop with several names")
        if items.types == UNDEFINED:
            self.discard(items)
            return self.run(node.else_)
        if isinstance(items.const, Items):
            return self.unrolled(node, items.const.values)
        if items.known and type(items.const) in (list, tuple):
            return self.unrolled(node, [self.known(v) for v in items.const])
        if "list" not in items.types:
            what = "split()" if isinstance(items.const, Split) else "this"
            if "str" in items.types:
                what = "text"
            if items.types == MESSAGE:
                what = "a message's fields"
            return self.unsupported(f"a loop over {what}")
        if node.test is not None:
            return self.unsupported("a loop with a condition")
        # jinja2 takes `else` there too when no round came to its end.
        if node.else_ and self.fact(_leaves, node):
            return self.unsupported("else of a loop with break or continue")
        if self.level >= MAX_LOOPS:
            return self.unsupported(f"more than {MAX_LOOPS} loops over messages in one another")
        self.message_loop(node, items)

    def message_loop(self, node: Any, items: Val) -> None:
        start, empty = Label(), Label()
        entry = dict(self.state)
        item = self.op("ITEM", arg=self.level | 1 << 8, types=MESSAGE)
        loop = Loop(self.op("INDEX", arg=self.level), self.op("COUNT", arg=self.level), self.level)
        current = Round(Label(), Label(), [], [])
        for _ in range(_MAX_ROUNDS):  # until what is known at its start holds for every round
            self.state = dict(entry)
            current.nexts.clear()
            current.breaks.clear()
            self.loops.append(current)
            self.level += 1
            code = self.capture(self.round, node, id(node), item, loop)
            self.level -= 1
            self.loops.pop()
            after = entry
            for state in [self.state, *current.nexts]:
                after = self.join(after, state)
            if all(self.same(entry.get(k), after[k]) for k in after):
                break
            entry = after
        else:
            return self.unsupported("a loop whose values do not settle")
        self.code += [*items.code, ("FOR", empty), ("LABEL", start), *code]
        self.code += [("LABEL", current.following), ("NEXT", start)]
        self.code += [("JUMP", current.end), ("LABEL", empty)]
        self.state = dict(entry)
        self.run(node.else_)
        self.code.append(("LABEL", current.end))
        for state in [entry, *current.breaks]:
            self.state = self.join(self.state, state)

    def unrolled(self, node: Any, values: Sequence[Val]) -> None:
        if node.test is not None or len(values) > MAX_UNROLLED or self.fact(_leaves, node):
            return self.unsupported("this loop over a list")
        if not values:
            return self.run(node.else_)
        chosen = [any(op == "LABEL" for op, _ in value.code) for value in values]
        values = [self.kept(v) if jumps else v for v, jumps in zip(values, chosen)]
        for i, value in enumerate(values):
            if self.state is None:
                return
            self.round(node, (id(node), i), value, Loop(self.known(i), self.known(len(values))))

    def round(self, node: Any, scope: Any, item: Val, loop: Loop) -> None:
        self.enter(scope, self.fact(assigned, node) - {node.target.name, "loop"})
        key = scope, node.target.name
        if node.target.name in self.fact(assigned, node):  # and elsewhere it is the item still
            self.store(key, item)
        if item.pure or key not in self.state:
            self.state[key] = item
        self.state[scope, "loop"] = self.known(loop)
        self.run(node.body)
        self.leave(scope)

    def s_Continue(self, node):
        if not self.loops:
            return self.unsupported("continue here")
        self.loops[-1].nexts.append(dict(self.state))
        self.code.append(("JUMP", self.loops[-1].following))
        self.state = None

    def s_Break(self, node):
        if not self.loops:
            return self.unsupported("break here")
        self.loops[-1].breaks.append(dict(self.state))
        self.code.append(("BREAK", self.loops[-1].end))
        self.state = None

    def compile(self) -> bytes:
        for name in sorted(assigned(self.tree)):
            self.store((0, name), self.lookup(name))
        self.run(self.tree.body)
        self.code.append(("END", 0))
        return Assembler(self.code, self.spend).section(0 if self.any_role else 1)
