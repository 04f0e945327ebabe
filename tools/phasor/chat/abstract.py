"""What the compiler knows of an expression: the code that computes it, its kinds, its value where
that is certain, and the things that only the compiler has."""

from __future__ import annotations

from typing import Any, NamedTuple


class _Unknown:
    pass


UNKNOWN: Any = _Unknown()


class Function(NamedTuple):
    name: str


class Macro(NamedTuple):
    node: Any
    scopes: tuple[Any, ...]  # that it sees


class Namespace(NamedTuple):
    key: int


class Loop(NamedTuple):
    """Over messages: index and length are numbers that the machine has; over a list that is
    written out: numbers that are known, and no level."""

    index: "Val"
    length: "Val"
    level: int | None = None


class Method(NamedTuple):
    base: "Val"
    name: str


class Split(NamedTuple):
    text: "Val"
    separator: "Val"
    most: "Val"


class Reversed(NamedTuple):
    """What the filter reverse makes of a list: gone through once, without a length or indexes."""

    items: "Val"


class Selected(NamedTuple):
    """What selectattr and rejectattr leave of a list of messages: the items that pass every test,
    each a function of a message. `listed`: as a list, which has a length and indexes."""

    items: "Val"
    tests: tuple[Any, ...]
    listed: bool = False


class Items(NamedTuple):
    """A list that is written out, of values that are not all known."""

    values: tuple[Any, ...]


# What only the compiler knows.
OBJECTS = (Function, Reversed, Selected, Macro, Namespace, Loop, Method, Split)


def kinds(*names: str) -> frozenset[Any]:
    return frozenset(names)


UNDEFINED, STR, INT, BOOL = kinds("undefined"), kinds("str"), kinds("int"), kinds("bool")
LIST, MESSAGE = kinds("list"), kinds("message")
OTHER = kinds("other")  # what no value of a program is


class Val(NamedTuple):
    code: tuple[Any, ...]
    types: frozenset[Any]
    const: Any = UNKNOWN
    pure: bool = True  # the code cannot fail
    truth_: bool | None = None
    # how it is written in parts: ("cat", ((Val, strict), …)) or ("cond", test, yes, no)
    shape: tuple[Any, ...] | None = None
    role: bool = False

    @property
    def known(self) -> bool:
        return self.const is not UNKNOWN

    @property
    def sure(self) -> bool:
        return self.known and self.pure

    @property
    def constant(self) -> bool:
        """A value of the template's, certain and without a failure."""
        return self.sure and not isinstance(self.const, (*OBJECTS, Items))

    @property
    def seen(self) -> tuple[Any, ...]:
        """What must be alike for two values to be taken for one."""
        kind = type(self.const) if self.known else None
        return kind, self.types, self.role, self.truth, self.code

    @property
    def truth(self) -> bool | None:
        if self.known:
            return isinstance(self.const, OBJECTS) or bool(self.const)
        if self.types <= {"undefined", "none"}:
            return False
        return True if self.types <= MESSAGE else self.truth_


def after(first: Val, value: Val) -> Val:
    """The value, when the first one, which is not needed, has been computed: it may fail."""
    if first.pure:
        return value
    code = first.code + (("POP", 0),) + value.code
    return value._replace(code=code, pure=False, shape=None)


def failing(*values: Val) -> Val | None:
    """The one that certainly fails: then so does all that it is in."""
    return next((v for v in values if v.code[-1] == ("RAISE", 0)), None)
