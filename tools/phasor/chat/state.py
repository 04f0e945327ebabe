"""What the compiler carries from one node of a template to the next: the steps that it may still
take, the code so far, and what the variables hold here."""

from __future__ import annotations

import datetime
from typing import Any, Callable

from phasor.chat import values as V
from phasor.chat.abstract import (
    OTHER,
    UNDEFINED,
    Function,
    Items,
    Macro,
    Method,
    Reversed,
    Selected,
    Split,
    Val,
    kinds,
)
from phasor.chat.assembler import Label
from phasor.chat.instructions import ANY, INSTRUCTIONS, Excess, Refused
from phasor.chat.syntax import nodes

MAX_WORK = 40_000  # steps of the compiler
MAX_LEVELS = 100  # expressions, blocks and macros in one another

_CONSTANTS = {
    "undefined": "UNDEFINED",
    "none": "NONE",
    "bool": "BOOL",
    "int": "INT",
    "str": "STRING",
}


class Work:
    """What the compiler may still do for a template."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, steps: int, line: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Excess(f"a template that takes more than {MAX_WORK:,} steps to compile", line)


class State:
    def __init__(
        self,
        tree: Any,
        variables: dict[str, Any],
        date: datetime.date | None,
        any_role: bool,
        work: Work,
    ) -> None:
        self.tree, self.any_role, self.date, self.work = tree, any_role, date, work
        self.line = self.depth = 0
        self.variables = {}
        for name, value in {"tools": None, "documents": None, **variables}.items():
            try:
                self.spend(V.cost(value))
            except V.Unsupported as error:
                what = f"chat template: the variable {name}: {error} is not supported"
                raise Refused(what) from error
            self.variables[name] = self.known(value)
        self.variables["messages"] = self.op("MESSAGES")
        self.variables["add_generation_prompt"] = self.op("PROMPT")
        self.names: dict[str, set[str]] = {}  # of each namespace the attributes that are set
        for node in self.tree.find_all(nodes.NSRef):
            self.names.setdefault(node.name, set()).add(node.attr)
        self.facts: dict[tuple[Any, ...], Any] = {}
        self.code: list[Any] = []
        self.state: dict[str, Any] | None = {}  # None: this place is not reached
        self.scopes: list[Any] = [0]
        # of loops over messages and of static ones: level, next, end, their states
        self.loops: list[tuple[int, Label, Label, list[Any], list[Any]]] = []
        self.level = 0
        self.temporaries = 0
        self.running: list[Any] = []  # macros that are being written out

    def spend(self, steps: int) -> None:
        self.work.spend(steps, self.line)

    def fact(self, find: Callable[[Any], Any], node: Any) -> Any:
        """What holds of a node is found once."""
        key = (find, id(node))
        if key not in self.facts:
            self.facts[key] = find(node)
        return self.facts[key]

    def enter_level(self) -> None:
        self.depth += 1
        if self.depth > MAX_LEVELS:
            what = "expressions, blocks and macros in one another"
            raise Excess(f"a template of more than {MAX_LEVELS} {what}", self.line)

    # ---- Values

    def op(self, name: str, *values: Val, arg: Any = 0, sure: bool = True, types=None) -> Val:
        """An instruction of values. It cannot fail where they have the kinds that it takes, and
        where that is not enough, what else it needs is `sure`."""
        row = INSTRUCTIONS[name]
        pure = sure and all(
            v.pure and (takes == ANY or v.types <= takes) for v, takes in zip(values, row.takes)
        )
        code = sum((v.code for v in values), ()) + ((name, arg),)
        return Val(code, types or row.puts, pure=pure)

    def certain(self, value: Any, computed: Val) -> Val:
        """A value that is known; what computes it is kept where it may fail."""
        known = self.known(value)
        return known if computed.pure else computed._replace(types=known.types, const=value)

    def undefined(self, name: str = "") -> Val:
        return self.known(V.Undefined(name))

    def known(self, value: Any) -> Val:
        kind = V.kind(value)
        if kind == "int" and not -(1 << 23) <= value < 1 << 23:
            return Val((self.refusal(f"the number {value}"),), kinds(kind), value)
        if kind in _CONSTANTS:
            argument = value if kind in ("int", "str") else int(bool(value))
            return Val(((_CONSTANTS[kind], argument),), kinds(kind), value)
        if kind:
            what = "a list as a value" if kind == "list" else "a table as a value"
        elif isinstance(value, Split):
            what = "split() without an index"
        else:
            method = isinstance(value, Method)
            what = f".{value.name}" if method else f"{type(value).__name__} as a value"
        return self.other(what, value)

    def refusal(self, what: str) -> tuple[Any, ...]:
        return ("REFUSE", (self.line, what))

    def other(self, what: str, value: Any) -> Val:
        """What only the compiler has: refused where it is used as a value."""
        return Val((self.refusal(what),), OTHER, value)

    def refuse(self, what: str) -> Val:
        return Val((self.refusal(what),), ANY, pure=False)

    def refused(self, *values: Val) -> Val | None:
        """What comes of values that are refused themselves."""
        for value in values:
            for code in value.code:
                if code[0] == "REFUSE" and value.types == ANY:
                    return Val((code,), ANY, pure=False)
        return None

    def failure(self, text: str) -> Val:
        return Val((("STRING", text), ("RAISE", 0)), UNDEFINED, pure=False)

    def fold(self, function: Callable[..., Any], *values: Any, **named: Any) -> Val:
        """A value that is computed here, of values that are known; what would fail when the
        template runs fails when the program does."""
        values = [v.const if isinstance(v, Val) else v for v in values]
        named = {name: v.const for name, v in named.items()}
        try:
            self.spend(sum(V.cost(value) for value in (*values, *named.values())))
            value = function(*values, **named)
            self.spend(V.cost(value))
        except V.Failure as error:
            return self.failure(str(error))
        except V.Unsupported as error:
            return self.refuse(str(error))
        return self.known(value)

    def folded(self, function: Callable[..., Any], *values: Val) -> Val | None:
        """The same where all of them are known, else None."""
        return self.fold(function, *values) if all(v.constant for v in values) else None

    def again(self, value: Val, copy: bool = False) -> tuple[tuple[Any, ...], Val]:
        """A value that is used more than once: (code that comes first, the value). `copy`: in a
        variable of its own, where another one could change."""
        if value.sure or not copy and len(value.code) == 1:
            return (), value
        self.temporaries += 1
        slot = ("temporary", self.temporaries)
        loaded = value._replace(code=(("LOAD", slot),), pure=True, shape=None)
        return (("SET", (slot, value.code, value.pure)),), loaded

    def kept(self, value: Val, copy: bool = False) -> Val:
        """The same, computed here."""
        first, value = self.again(value, copy)
        self.code += first
        return value

    def discard(self, value: Val) -> None:
        """Statements go on without the value."""
        if not value.pure:
            self.code += [*value.code, ("POP", 0)]

    # ---- Variables

    def lookup(self, name: str) -> Val:
        for scope in reversed(self.scopes):
            if (scope, name) in self.state:
                return self.state[scope, name]
        if name in self.variables:
            return self.variables[name]
        if name in V.FUNCTIONS and (name != "strftime_now" or self.date):
            return self.known(Function(name))
        return self.refuse(name) if name in V.ABSENT else self.undefined(name)

    def store(self, key: tuple[Any, ...], value: Val) -> None:
        if isinstance(value.const, Split):  # its parts are kept as they are now
            parts = Split(*(self.kept(part, True) for part in value.const))
            value = value._replace(const=parts)
        if isinstance(value.const, Items):
            value = self.refuse("a list as a value")
        if isinstance(value.const, Reversed) or (
            isinstance(value.const, Selected) and not value.const.listed
        ):
            value = self.refuse("a list that is no list yet (put | list behind it) in a variable")
        if isinstance(value.const, Selected):  # of the messages as they are now
            items = self.kept(value.const.items, True)
            value = value._replace(const=value.const._replace(items=items))
        self.spend(1)
        self.code.append(("SET", (key, value.code, value.pure)))
        # Where a value is certain and cannot fail it need not be loaded again.
        certain = value.sure and value.types != OTHER
        code = value.code if certain else (("LOAD", key),)
        self.state[key] = value._replace(code=code, pure=True, shape=None)

    def join(self, a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict | None:
        if a is None or b is None:
            return b if a is None else a
        self.spend(len(a))
        return {key: self.joined(key, a.get(key), b.get(key)) for key in {**a, **b}}

    def joined(self, key: tuple[Any, ...], a: Val | None, b: Val | None) -> Val:
        if a is b:
            return a
        a, b = (self.undefined() if v is None else v for v in (a, b))
        if a.known and b.known and type(a.const) is type(b.const) and self.alike(a.const, b.const):
            return a
        if a.code == b.code and a.code != (("LOAD", key),) and not a.known and not b.known:
            return a
        truth = a.truth if a.truth == b.truth else None
        types = (a.types | b.types) - OTHER or ANY
        return Val((("LOAD", key),), types, truth_=truth, role=a.role and b.role)

    def alike(self, a: Any, b: Any) -> bool:
        if isinstance(a, Macro):
            return a.node is b.node and a.scopes == b.scopes
        return bool(a == b)

    def same(self, a: Val | None, b: Val) -> bool:
        return a is not None and a.seen == b.seen
