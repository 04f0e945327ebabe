"""Expressions of a chat template as code that computes them: operators, fields and indexes,
comparisons and tests. A method x_NAME is jinja2's node NAME."""

from __future__ import annotations

from functools import partial, partialmethod, reduce
from typing import Any, Callable

from phasor.chat import values as V
from phasor.chat.abstract import (
    BOOL,
    INT,
    LIST,
    MESSAGE,
    OBJECTS,
    OTHER,
    STR,
    UNDEFINED,
    Items,
    Loop,
    Method,
    Namespace,
    Selected,
    Split,
    Val,
    after,
    failing,
)
from phasor.chat.assembler import Label
from phasor.chat.instructions import BITS, MAX_LOOPS, NUMBERS
from phasor.chat.state import State
from phasor.chat.syntax import nodes

ROLES = ("system", "user", "assistant")
_COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "lteq": "LE", "gt": "GT", "gteq": "GE"}
# What a test says of things that only the compiler has; others are refused.
_OBJECT_TESTS = dict.fromkeys(
    "undefined none string true false boolean integer number mapping".split(), False
)


class Expressions(State):
    def eval(self, node: Any) -> Val:
        self.line = node.lineno
        self.enter_level()
        name = type(node).__name__
        method = getattr(self, f"x_{name}", None)
        value = method(node) if method else self.refuse(name.lower())
        self.depth -= 1
        self.line = node.lineno
        self.spend(1 + (len(value.code) >> 5))
        return value

    def eval_all(self, parent: Any, *parts: Any) -> list[Val]:
        """The parts of a node, none where there is none; then what is said is of the node's
        line."""
        values = [self.known(None) if part is None else self.eval(part) for part in parts]
        self.line = parent.lineno
        return values

    # ---- What is written out, and names

    def x_Const(self, node):
        return self.fold(lambda: node.value)

    def x_Name(self, node):
        return self.lookup(node.name)

    def x_List(self, node):
        values = tuple(self.eval(item) for item in node.items)
        if all(v.sure for v in values):
            return self.fold(lambda *parts: list(parts), *values)
        return failing(*values) or self.other("a list as a value", Items(values))

    def x_Tuple(self, node):
        value = self.x_List(node)
        return self.known(tuple(value.const)) if type(value.const) is list and value.pure else value

    def x_Dict(self, node):
        pairs = [(self.eval(pair.key), self.eval(pair.value)) for pair in node.items]
        if all(v.sure for pair in pairs for v in pair):
            return self.fold(V.table, *((k.const, v.const) for k, v in pairs))
        return self.refuse("a table as a value")

    # ---- Fields and indexes

    def x_Getattr(self, node):
        return self.attribute(self.eval(node.node), node.attr, False)

    def x_Getitem(self, node):
        base = self.eval(node.node)
        if isinstance(node.arg, nodes.Slice):
            bounds = self.eval_all(node, node.arg.start, node.arg.stop, node.arg.step)
            return self.slice(base, *bounds)
        (index,) = self.eval_all(node, node.arg)
        if index.known and isinstance(index.const, str):
            return self.attribute(base, index.const, True)
        return self.element(base, index)

    def slice(self, base: Val, *bounds: Val) -> Val:
        if value := self.folded(V.cut, base, *bounds):
            return value
        if "list" not in base.types:
            return self.refuse("a slice of text")
        step = bounds[2]
        sure = base.types == LIST and "bool" not in step.types and step.known and step.const != 0
        return self.op("SLICE", base, *bounds, sure=sure)

    def element(self, base: Val, index: Val) -> Val:
        if refused := self.refused(base, index):
            return refused
        if isinstance(base.const, Split):
            return self.split(base.const, index)
        if isinstance(base.const, Selected) and base.const.listed and index.constant:
            if index.const in (0, -1):
                return self.picked(base.const, index.const == 0)
        if isinstance(base.const, OBJECTS):
            return self.refuse("an index here")
        if isinstance(base.const, Items) and index.known and isinstance(index.const, int):
            values = base.const.values
            inside = -len(values) <= index.const < len(values)
            return values[index.const] if inside else self.undefined()
        if base.sure and index.known:
            return self.fold(V.element, base, index)
        if "list" not in base.types:
            text = "str" in base.types
            return self.refuse("an index into text" if text else "a field that is not known")
        return self.op("ELEMENT", base, index, sure=base.types == LIST)

    def picked(self, selected: Selected, first: bool) -> Val:
        """The first or the last of them, undefined where there is none."""
        undefined = self.undefined()
        return self.gathered(selected, undefined, lambda item, _: item, first)

    def counted(self, selected: Selected) -> Val:
        return self.gathered(selected, self.known(0), lambda _, count: self.more(count, 1), False)

    def gathered(
        self, selected: Selected, start: Val, step: Callable[..., Any], stops: bool
    ) -> Val:
        """What a loop over the items that are selected leaves in a variable: `step` makes its next
        value of the item and of its value so far."""
        if self.level >= MAX_LOOPS:
            return self.refuse(f"more than {MAX_LOOPS} loops over messages in one another")
        self.temporaries += 1
        slot = ("temporary", self.temporaries)
        item = self.op("ITEM", arg=self.level | 1 << 8, types=MESSAGE)
        now = Val((("LOAD", slot),), start.types)
        value = step(item, now)
        repeat, following, end = Label(), Label(), Label()
        code = [("SET", (slot, start.code, True)), *selected.items.code, ("FOR", end)]
        code.append(("LABEL", repeat))
        for test in selected.tests:
            code += [*test(item).code, ("JUMP_FALSE", following)]
        code.append(("SET", (slot, value.code, True)))
        code += [("BREAK", end)] if stops else []
        code += [("LABEL", following), ("NEXT", repeat), ("LABEL", end), ("LOAD", slot)]
        return Val(tuple(code), start.types | value.types, pure=selected.items.pure)

    def attribute(self, base: Val, name: str, item: bool) -> Val:
        const = base.const
        if refused := self.refused(base):
            return refused
        if name.startswith("_"):
            return self.refuse(f".{name}")
        if isinstance(const, Namespace):
            return self.state.get(("namespace", const.key, name), self.undefined(name))
        if isinstance(const, Loop):
            return self.loop_attribute(const, name)
        if isinstance(const, (*OBJECTS, Items)):
            return self.refuse(f".{name}")
        if base.types == UNDEFINED and base.known:
            return self.op("FIELD", base)._replace(const=const)
        if base.constant:
            return self.known_attribute(base, name, item)
        if base.types <= {"message", "undefined"}:
            if name not in V.NAMES[dict]:
                return self.message_field(base, name)
            return self.method(base, name, item)
        if name in V.NAMES[str]:
            if not item:
                return self.method(base, name, item)
        elif base.types == STR:
            return after(base, self.undefined(name))
        if "message" in base.types and name in ("role", "content"):
            return self.op(name.upper(), base)
        return self.refuse(f".{name} of a value that may be " + " or ".join(sorted(base.types)))

    def known_attribute(self, base: Val, name: str, item: bool) -> Val:
        """Of a known value: a dict's own keys, a method of the table, or nothing."""
        const, names = base.const, V.NAMES[type(base.const)]
        if isinstance(const, dict) and name in const and (item or name not in names):
            return self.fold(V.element, const, name)
        if name not in names:
            return self.undefined(name)
        return self.method(base, name, item)

    def method(self, base: Val, name: str, item: bool) -> Val:
        return self.refuse(f".{name}") if item else self.known(Method(base, name))

    def message_field(self, base: Val, name: str) -> Val:
        if name in ("role", "content"):
            return self.op(name.upper(), base)._replace(role=name == "role")
        return self.certain(V.Undefined(name), self.op("FIELD", base))

    def loop_attribute(self, loop: Loop, name: str) -> Val:
        following, left = self.more(loop.index, 1), self.less(loop.length, loop.index)
        table = {
            "index0": lambda: loop.index,
            "index": lambda: following,
            "length": lambda: loop.length,
            "revindex": lambda: left,
            "revindex0": lambda: self.less(left, self.known(1)),
            "first": lambda: self.compare("eq", loop.index, self.known(0)),
            "last": lambda: self.compare("eq", following, loop.length),
        }
        if name in table:
            return table[name]()
        if name in ("previtem", "nextitem") and loop.level is not None:
            return self.op("ITEM", arg=loop.level | 2 * (name == "nextitem") << 8)
        return self.refuse(f"loop.{name}")

    # ---- Operators

    def more(self, number: Val, by: int) -> Val:
        if number.known:
            return self.known(number.const + by)
        return self.op("ADD", number, self.known(by), types=INT)

    def less(self, number: Val, by: Val) -> Val:
        if number.known:
            return self.known(number.const - by.const)
        return self.op("SUB", number, by, types=INT)

    def binary(self, node: Any, what: str, code: str) -> Val:
        return self.arithmetic(*self.eval_all(node, node.left, node.right), what, code)

    def arithmetic(self, a: Val, b: Val, what: str, code: str) -> Val:
        if value := self.folded(partial(V.operate, what), a, b):
            return value
        if any(v.types <= {"str", "list", "message", "other"} for v in (a, b)):
            return self.refuse(f"{what} of something else than whole numbers")
        return self.op(code, a, b, sure=b.known and b.const != 0)

    x_Sub = partialmethod(binary, what="-", code="SUB")
    x_Mul = partialmethod(binary, what="*", code="MUL")
    x_Mod = partialmethod(binary, what="%", code="MOD")
    x_FloorDiv = partialmethod(binary, what="//", code="DIV")

    def x_Neg(self, node):
        value = self.eval(node.node)
        return self.folded(V.negative, value) or self.op("NEG", value)

    def x_Add(self, node):
        a, b = self.eval_all(node, node.left, node.right)
        if value := self.folded(partial(V.operate, "+"), a, b):
            return value
        both = a.types & b.types
        if a.sure and b.sure or both == LIST:
            return self.refuse("a sum of lists")
        if STR in (a.types, b.types):
            value = self.op("ADD", a, b, sure=a.types == b.types, types=STR)
            return value._replace(shape=("cat", ((a, True), (b, True))))
        numbers = a.types <= NUMBERS and b.types <= NUMBERS
        return self.op("ADD", a, b, sure=False, types=INT if numbers else None)

    def x_Concat(self, node):
        values = self.eval_all(node, *node.nodes)
        if all(v.sure and v.types != OTHER for v in values):
            return self.fold(V.joined, *values)
        shape = "cat", tuple((v, False) for v in values)
        return reduce(partial(self.op, "CONCAT"), values)._replace(shape=shape)

    def x_Not(self, node):
        return self.negated(self.eval(node.node))

    def negated(self, value: Val) -> Val:
        if value.truth is None:
            return self.op("NOT", value)
        return self.certain(not value.truth, self.op("NOT", value))

    def either(self, node: Any, stops: bool) -> Val:
        """`and` stops at what is false, `or` at what is true."""
        a = self.eval(node.left)
        return a if a.truth is stops else self.lazy(a, *self.eval_all(node, node.right), stops)

    x_And = partialmethod(either, stops=False)
    x_Or = partialmethod(either, stops=True)

    def lazy(self, a: Val, b: Val, stops: bool) -> Val:
        if a.truth is stops:
            return a
        if a.truth is not None:
            return after(a, b)
        end = Label()
        truth = stops if b.truth is stops else None
        pure = a.pure and b.pure
        types = a.types | b.types
        if truth is not None and types == BOOL and pure:
            return self.known(truth)
        code = a.code + (("OR" if stops else "AND", end),) + b.code + (("LABEL", end),)
        return Val(code, types, pure=pure, truth_=truth)

    def x_CondExpr(self, node):
        test = self.eval(node.test)
        if test.truth is not None:
            chosen = node.expr1 if test.truth else node.expr2
            return after(test, self.undefined() if chosen is None else self.eval(chosen))
        yes = self.eval(node.expr1)
        no = self.eval(node.expr2) if node.expr2 is not None else self.undefined()
        return self.choice(test, yes, no)

    def choice(self, test: Val, yes: Val, no: Val) -> Val:
        truth = yes.truth if yes.truth == no.truth else None
        return Val(
            self.branches(test, yes.code, no.code),
            yes.types | no.types,
            pure=test.pure and yes.pure and no.pure,
            truth_=truth,
            shape=("cond", test, yes, no),
        )

    def branches(self, test: Val, yes: tuple[Any, ...], no: tuple[Any, ...]) -> tuple:
        other, end = Label(), Label()
        yes = (("JUMP_FALSE", other), *yes, ("JUMP", end))
        return (*test.code, *yes, ("LABEL", other), *no, ("LABEL", end))

    # ---- Comparisons and tests

    def x_Compare(self, node):
        left = self.eval(node.expr)
        if len(node.ops) != 1:
            return self.refuse("a chain of comparisons")
        return self.compare(node.ops[0].op, left, *self.eval_all(node, node.ops[0].expr))

    def compare(self, op: str, a: Val, b: Val) -> Val:
        if op in ("in", "notin"):
            value = self.contains(a, b)
            return value if op == "in" else self.negated(value)
        if any(isinstance(v.const, (*OBJECTS, Items)) for v in (a, b)):
            return self.refuse("a comparison of lists")
        if value := self.folded(partial(V.operate, op), a, b):
            return value
        both = self.op(_COMPARISONS[op], a, b)
        if op in ("eq", "ne"):
            one, two = ({"number" if t in NUMBERS else t for t in v.types} for v in (a, b))
            if not one & two or self.no_such_role(a, b) or self.no_such_role(b, a):
                return self.certain(op == "ne", both)
            alike = "list" not in one & two and "other" not in one | two
        else:
            alike = a.types | b.types <= NUMBERS or a.types == b.types == STR
        return both._replace(pure=both.pure and alike)

    def no_such_role(self, a: Val, b: Val) -> bool:
        return not self.any_role and a.role and b.known and b.const not in ROLES

    def any_of(self, values: tuple[Any, ...], value: Val, test: Any) -> Val:
        """Whether one of them passes the test, of a value that is computed once."""
        pure, (first, value) = value.pure, self.again(value)
        result = self.known(False)
        for one in values:
            one = one if isinstance(one, Val) else self.known(one)
            result = self.lazy(result, test(value, one), True)
        return result._replace(code=first + result.code, pure=pure and result.pure)

    def contains(self, a: Val, b: Val) -> Val:
        if isinstance(b.const, Items):
            return self.any_of(b.const.values, a, partial(self.compare, "eq"))
        plain = a.sure and a.types != OTHER
        listed = b.known and type(b.const) in (list, tuple, dict)
        if plain and (listed or b.sure and b.types != OTHER):
            return self.fold(V.contains, a, b)
        if listed:
            return self.any_of(b.const, a, partial(self.compare, "eq"))
        found = self.op("IN", a, b, sure=a.types == STR)
        if b.types == MESSAGE and a.known and isinstance(a.const, str):
            is_field = a.const in ("role", "content")
            return self.known(is_field) if b.pure else found._replace(const=is_field)
        return self.refuse("`in` a list of messages") if b.types <= LIST else found

    def x_Test(self, node):
        value, *arguments = self.eval_all(node, node.node, *node.args)
        if node.kwargs or node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"the test {node.name} with these arguments")
        return self.passes(node.name, value, arguments)

    def passes(self, name: str, value: Val, arguments: list[Val]) -> Val:
        if name in V.COMPARISONS and len(arguments) == 1:
            return self.compare(V.COMPARISONS[name], value, arguments[0])
        if isinstance(value.const, (*OBJECTS, Items)):
            return self.object_is(value.const, name)
        if name in V.DIVISIONS and len(arguments) == int(name == "divisibleby"):
            rest = self.arithmetic(value, *(arguments or [self.known(2)]), "%", "MOD")
            remainder = self.known(V.DIVISIONS[name])
            return self.compare("eq", rest._replace(pure=rest.known), remainder)
        if name not in V.TESTS or arguments:
            how = " with these arguments" if name in V.TESTS else ""
            return self.refuse(f"the test {name}{how}")
        return self.kind_is(value, V.TESTS[name])

    def object_is(self, thing: Any, name: str) -> Val:
        table = {**_OBJECT_TESTS, "defined": True}
        if isinstance(thing, (Split, Items)):
            table |= {"iterable": True, "sequence": True}
            parts = thing.values if isinstance(thing, Items) else thing
            if not all(part.pure for part in parts):  # what fails is not left out
                table = {}
        if name not in table or isinstance(thing, Method):
            return self.refuse(f"the test {name} here")
        return self.known(table[name])

    def kind_is(self, value: Val, mask: int) -> Val:
        if value.constant:
            return self.known(V.bits(value.const) & mask != 0)
        bits = sum(BITS[t] for t in value.types - OTHER)
        test = self.op("TEST", value, arg=mask)
        certain = not value.types & OTHER and (bits & mask == 0 or bits & ~mask == 0)
        return self.certain(bits & mask != 0, test) if certain else test

    def string(self, value: Val) -> Val:
        return value if value.types == STR else self.op("STR", value)
