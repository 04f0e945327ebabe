"""From a chat template's syntax tree (jinja2) to a chat program. Nothing of the template runs: what
is known at conversion is computed, branches that cannot be reached vanish, and what remains and has
no instruction is refused with its line.

A compiler is made in layers, each a class in a file of its own: State, Expressions, Calls,
Statements, and here the loops and the whole."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from phasor.chat.abstract import (
    INT,
    MESSAGE,
    UNDEFINED,
    Items,
    Loop,
    Reversed,
    Selected,
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
    is known where they stand; of one with conditions the tests of selectattr, and the variable that
    counts its rounds."""

    following: Label
    end: Label
    nexts: list[Any]
    breaks: list[Any]
    tests: tuple[Any, ...]
    counter: tuple[Any, ...] | None


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
        if items.types == UNDEFINED:
            self.discard(items)
            return self.run(node.else_)
        if isinstance(items.const, Items):
            return self.unrolled(node, items.const.values)
        if items.known and type(items.const) in (list, tuple, dict):
            return self.unrolled(node, [self.known(v) for v in items.const])
        tests: tuple[Any, ...] = ()
        if isinstance(items.const, Selected):
            items, tests = items.const.items, items.const.tests
        if "list" not in items.types:
            what = "split()" if isinstance(items.const, Split) else "this"
            if "str" in items.types:
                what = "text"
            if items.types == MESSAGE:
                what = "a message's fields"
            return self.unsupported(f"a loop over {what}")
        if not isinstance(node.target, nodes.Name):
            return self.unsupported("a loop over messages with several names")
        if (tests or node.test is not None) and node.else_:
            return self.unsupported("else of a loop with a condition")
        # jinja2 takes `else` there too when no round came to its end.
        if node.else_ and self.fact(_leaves, node):
            return self.unsupported("else of a loop with break or continue")
        if self.level >= MAX_LOOPS:
            return self.unsupported(f"more than {MAX_LOOPS} loops over messages in one another")
        self.message_loop(node, items, tests)

    def message_loop(self, node: Any, items: Val, tests: tuple[Any, ...]) -> None:
        start, empty = Label(), Label()
        counter = ("counter", id(node)) if tests or node.test is not None else None
        if counter:
            self.store(counter, self.known(-1))
        entry = dict(self.state)
        item = self.op("ITEM", arg=self.level | 1 << 8, types=MESSAGE)
        loop = Loop(self.op("INDEX", arg=self.level), self.op("COUNT", arg=self.level), self.level)
        if counter:
            what = "loop.length, loop.last or loop.revindex of a loop with a condition"
            loop = Loop(Val((("LOAD", counter),), INT), self.refuse(what))
        current = Round(Label(), Label(), [], [], tests, counter)
        for _ in range(_MAX_ROUNDS):  # until what is known at its start holds for every round
            self.state = dict(entry)
            current.nexts.clear()
            current.breaks.clear()
            self.loops.append(current)
            self.level += 1
            code = self.capture(self.round, node, id(node), item, loop, current)
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
        if len(values) > MAX_UNROLLED or self.fact(_leaves, node):
            return self.unsupported("this loop over a list")
        if node.test is not None:
            values = self.passing(node, values)
            if values is None:
                return self.unsupported("a condition of this loop over a list")
        if not values:
            return self.run(node.else_)
        chosen = [any(op == "LABEL" for op, _ in value.code) for value in values]
        values = [self.kept(v) if jumps else v for v, jumps in zip(values, chosen)]
        for i, value in enumerate(values):
            if self.state is None:
                return
            self.round(node, (id(node), i), value, Loop(self.known(i), self.known(len(values))))

    def passing(self, node: Any, values: Sequence[Val]) -> list[Val] | None:
        """Those of a list that is written out for which the loop's condition holds; none where that
        is not known here."""
        found = []
        for i, value in enumerate(values):
            scope = id(node), "condition", i
            self.enter(scope, set())
            self.bind(node.target, scope, value, set())
            holds = self.eval(node.test)
            self.leave(scope)
            if holds.truth is None or not holds.pure:
                return None
            found += [value] if holds.truth else []
        return found

    def bind(self, target: Any, scope: Any, item: Val, kept: set[str]) -> None:
        """The names of a round are its item, or the item's parts."""
        pairs = [(target, item)]
        if isinstance(target, nodes.Tuple):
            parts = item.const if item.sure and type(item.const) in (list, tuple) else ()
            if len(parts) != len(target.items):
                return self.unsupported("a loop with several names over this")
            pairs = [(name, self.known(part)) for name, part in zip(target.items, parts)]
        for name, value in pairs:
            if not isinstance(name, nodes.Name):
                return self.unsupported("a loop with names in brackets")
            key = scope, name.name
            if name.name in kept:  # and elsewhere it is the item still
                self.store(key, value)
            if value.pure or key not in self.state:
                self.state[key] = value

    def round(
        self,
        node: Any,
        scope: Any,
        item: Val,
        loop: Loop,
        current: Round | None = None,
    ) -> None:
        targets = node.target, *node.target.find_all(nodes.Name)
        names = {name.name for name in targets if isinstance(name, nodes.Name)}
        self.enter(scope, self.fact(assigned, node) - {*names, "loop"})
        self.bind(node.target, scope, item, self.fact(assigned, node))
        if current and current.counter:
            self.state[scope, "loop"] = self.refuse("loop in the condition of a loop")
            conditions = [test(item) for test in current.tests]
            conditions += [] if node.test is None else [self.eval(node.test)]
            for condition in conditions:
                self.code += [*condition.code, ("JUMP_FALSE", current.following)]
                current.nexts.append(dict(self.state))
            self.store(current.counter, self.more(self.state[current.counter], 1))
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
