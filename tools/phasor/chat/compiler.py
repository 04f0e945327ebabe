"""From a chat template's syntax tree (jinja2) to the code of a chat program. Nothing of the
template runs: what is known at conversion is computed, branches that cannot be reached vanish, and
what remains and has no operation is refused with its line."""

from __future__ import annotations

import datetime
import inspect
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from phasor.chat import values as V
from phasor.chat.code import MAX_LOOPS, Assembler, Excess, Label, Refused
from phasor.chat.syntax import assigned, nodes

ROLES = ("system", "user", "assistant")

MAX_WORK = 40_000  # steps of the compiler
MAX_LEVELS = 100  # expressions, blocks and macros in one another
MAX_UNROLLED = 64  # rounds of a loop over a list

_ANY = frozenset(V.BITS)
_STRIPS = {"strip": 3, "lstrip": 1, "rstrip": 2}
_CASES = {"upper": 0, "lower": 1, "capitalize": 2, "title": 4}  # 3 is the filter title
_ARGUMENTS = {
    **dict.fromkeys(_STRIPS, (0, 1)),
    **dict.fromkeys(_CASES, (0,)),
    "startswith": (1,),
    "endswith": (1,),
    "replace": (2,),
    "split": (2,),
    "get": (1, 2),
}  # how many


class _Unknown:
    pass


_UNKNOWN: Any = _Unknown()


class Function(NamedTuple):
    name: str


class Macro(NamedTuple):
    node: Any
    scopes: tuple  # that it sees


class Namespace(NamedTuple):
    key: int


class Loop(NamedTuple):
    level: int


class StaticLoop(NamedTuple):
    index: int
    items: tuple


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


# What only the compiler knows.
_OBJECTS = (Function, Reversed, Macro, Namespace, Loop, StaticLoop, Method, Split)


class Items(NamedTuple):
    """A list that is written out, of values that are not all known."""

    values: tuple


class Val(NamedTuple):
    """What is known of an expression: the code that computes it, its possible kinds, its value
    where that is certain."""

    code: tuple
    types: frozenset
    const: Any = _UNKNOWN
    pure: bool = True  # the code cannot fail
    truth_: bool | None = None
    shape: tuple | None = (
        None  # how it is written in parts: ("cat", ((Val, strict), …)) or ("cond", test, yes, no)
    )
    role: bool = False

    @property
    def known(self) -> bool:
        return self.const is not _UNKNOWN

    @property
    def truth(self) -> bool | None:
        if self.known:
            return bool(self.const) if not isinstance(self.const, _OBJECTS) else True
        if self.types <= {"undefined", "none"}:
            return False
        return True if self.types <= {"message"} else self.truth_


def _types(*names: str) -> frozenset:
    return frozenset(names)


_STR, _INT, _BOOL, _LIST, _MESSAGE = (
    _types("str"),
    _types("int"),
    _types("bool"),
    _types("list"),
    _types("message"),
)
_UNDEFINED, _OTHER = _types("undefined"), _types("other")
_NUMBERS = _types("int", "bool")


def constant(*values: Val) -> bool:
    return all(v.known and v.pure and not isinstance(v.const, (*_OBJECTS, Items)) for v in values)


def failing(*values: Val) -> Val | None:
    """The one that certainly fails: then so does all that it is in."""
    return next((v for v in values if v.code[-1] == ("RAISE", 0)), None)


def _leaves(loop: Any) -> bool:
    return any(True for _ in loop.find_all((nodes.Break, nodes.Continue)))


def _uses_caller(macro: Any) -> bool:
    return any(name.name in ("caller", "varargs", "kwargs") for name in macro.find_all(nodes.Name))


class Work:
    """What the compiler may still do for a template."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, steps: int, line: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Excess(f"a template that takes more than {MAX_WORK:,} steps to compile", line)


class Compiler:
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
        self.variables["messages"] = Val((("MESSAGES", 0),), _LIST)
        self.variables["add_generation_prompt"] = Val((("PROMPT", 0),), _BOOL)
        self.names: dict[str, set[str]] = {}  # of each namespace the attributes that are set
        for node in self.tree.find_all(nodes.NSRef):
            self.names.setdefault(node.name, set()).add(node.attr)
        self.facts: dict[tuple, Any] = {}
        self.code: list = []
        self.state: dict | None = {}  # None: this place is not reached
        self.scopes: list = [0]
        self.loops: list[
            tuple[int, Label, Label, list, list]
        ] = []  # of loops over messages and of static ones: level, next, end, their states
        self.level = 0
        self.temporaries = 0
        self.running: list = []  # macros that are being written out

    def spend(self, steps: int) -> None:
        self.work.spend(steps, self.line)

    def fact(self, find: Callable[[Any], Any], node: Any) -> Any:
        """What holds of a node is found once."""
        key = (find, id(node))
        if key not in self.facts:
            self.facts[key] = find(node)
        return self.facts[key]

    # ---- Values

    def undefined(self, name: str = "") -> Val:
        return self.known(V.Undefined(name))

    def known(self, value: Any) -> Val:
        if isinstance(value, V.Undefined):
            return Val((("UNDEFINED", 0),), _UNDEFINED, value)
        if value is None:
            return Val((("NONE", 0),), _types("none"), None)
        if isinstance(value, bool):
            return Val((("BOOL", int(value)),), _BOOL, value)
        if isinstance(value, int):
            return Val(
                (
                    ("INT", value)
                    if -(1 << 23) <= value < 1 << 23
                    else self.refusal(f"the number {value}"),
                ),
                _INT,
                value,
            )
        if isinstance(value, str):
            return Val((("STRING", value),), _STR, value)
        what = {
            list: "a list as a value",
            tuple: "a list as a value",
            dict: "a table as a value",
            Split: "split() without an index",
        }.get(type(value))
        if what is None:
            kind = type(value).__name__
            what = f".{value.name}" if isinstance(value, Method) else f"{kind} as a value"
        return Val((self.refusal(what),), _OTHER, value)

    def refusal(self, what: str) -> tuple:
        return ("REFUSE", (self.line, what))

    def refuse(self, what: str) -> Val:
        return Val((self.refusal(what),), _ANY, pure=False)

    def refused(self, *values: Val) -> Val | None:
        """What comes of values that are refused themselves."""
        found = next(
            (i for v in values for i in v.code if i[0] == "REFUSE" and v.types == _ANY), None
        )
        return Val((found,), _ANY, pure=False) if found else None

    def failure(self, text: str) -> Val:
        return Val((("STRING", text), ("RAISE", 0)), _UNDEFINED, pure=False)

    def fold(self, function: Callable, *values: Any, **named: Any) -> Val:
        """A value that is computed here; what would fail when the template runs fails when the
        program does."""
        try:
            self.spend(sum(V.cost(value) for value in (*values, *named.values())))
            value = function(*values, **named)
            self.spend(V.cost(value))
        except V.Failure as error:
            return self.failure(str(error))
        except V.Unsupported as error:
            return self.refuse(str(error))
        return self.known(value)

    def again(self, value: Val) -> tuple[tuple, Val]:
        """A value that is used more than once: (code that comes first, the value)."""
        if value.known and value.pure or len(value.code) == 1:
            return (), value
        self.temporaries += 1
        slot = ("temporary", self.temporaries)
        return (("SET", (slot, value.code, value.pure)),), value._replace(
            code=(("LOAD", slot),), pure=True, shape=None
        )

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

    def store(self, key: tuple, value: Val) -> None:
        if isinstance(value.const, Split):  # its parts are kept as they are now
            value = value._replace(const=Split(*(self.kept(part) for part in value.const)))
        if isinstance(value.const, Items):
            value = self.refuse("a list as a value")
        if isinstance(value.const, Reversed):
            value = self.refuse("the filter reverse in a variable, without the filter list,")
        self.spend(1)
        self.code.append(("SET", (key, value.code, value.pure)))
        # Where a value is certain and cannot fail it need not be loaded again.
        code = (
            value.code if value.known and value.pure and value.types != _OTHER else (("LOAD", key),)
        )
        self.state[key] = Val(code, value.types, value.const, True, value.truth_, None, value.role)

    def kept(self, value: Val) -> Val:
        """The value in a variable of its own, where another one could change."""
        if value.known and value.pure:
            return value
        self.temporaries += 1
        slot = ("temporary", self.temporaries)
        self.code.append(("SET", (slot, value.code, value.pure)))
        return value._replace(code=(("LOAD", slot),), pure=True, shape=None)

    def join(self, a: dict | None, b: dict | None) -> dict | None:
        if a is None or b is None:
            return b if a is None else a
        self.spend(len(a))
        return {key: self.joined(key, a.get(key), b.get(key)) for key in {**a, **b}}

    def joined(self, key: tuple, a: Val | None, b: Val | None) -> Val:
        if a is b:
            return a
        a, b = (self.undefined() if v is None else v for v in (a, b))
        if a.known and b.known and type(a.const) is type(b.const) and self.alike(a.const, b.const):
            return a
        if a.code == b.code and a.code != (("LOAD", key),) and not a.known and not b.known:
            return a
        truth = a.truth if a.truth == b.truth else None
        return Val(
            (("LOAD", key),),
            (a.types | b.types) - _OTHER if (a.types | b.types) - _OTHER else _ANY,
            truth_=truth,
            role=a.role and b.role,
        )

    def alike(self, a: Any, b: Any) -> bool:
        if isinstance(a, Macro):
            return a.node is b.node and a.scopes == b.scopes
        return bool(a == b)

    # ---- Expressions

    def enter_level(self) -> None:
        self.depth += 1
        if self.depth > MAX_LEVELS:
            what = "expressions, blocks and macros in one another"
            raise Excess(f"a template of more than {MAX_LEVELS} {what}", self.line)

    def eval(self, node: Any) -> Val:
        self.line = node.lineno
        self.enter_level()
        method = EXPRESSIONS.get(type(node).__name__)
        value = method(self, node) if method else self.refuse(type(node).__name__.lower())
        self.depth -= 1
        self.line = node.lineno
        self.spend(1 + (len(value.code) >> 5))
        return value

    def x_Const(self, node):
        return self.fold(lambda: node.value)

    def x_Name(self, node):
        return self.lookup(node.name)

    def x_List(self, node):
        values = tuple(self.eval(item) for item in node.items)
        if all(v.known and v.pure for v in values):
            return self.fold(lambda *parts: list(parts), *(v.const for v in values))
        return failing(*values) or Val((self.refusal("a list as a value"),), _OTHER, Items(values))

    def x_Tuple(self, node):
        value = self.x_List(node)
        return self.known(tuple(value.const)) if type(value.const) is list and value.pure else value

    def x_Dict(self, node):
        pairs = [(self.eval(pair.key), self.eval(pair.value)) for pair in node.items]
        if all(v.known and v.pure for pair in pairs for v in pair):
            return self.fold(V.table, *((k.const, v.const) for k, v in pairs))
        return self.refuse("a table as a value")

    def x_Getattr(self, node):
        return self.attribute(self.eval(node.node), node.attr, False)

    def x_Getitem(self, node):
        base = self.eval(node.node)
        if isinstance(node.arg, nodes.Slice):
            bounds = [
                self.eval(n) if n is not None else self.known(None)
                for n in (node.arg.start, node.arg.stop, node.arg.step)
            ]
            self.line = node.lineno
            return self.slice(base, bounds)
        index = self.eval(node.arg)
        self.line = node.lineno
        if index.known and isinstance(index.const, str):
            return self.attribute(base, index.const, True)
        return self.element(base, index)

    def slice(self, base: Val, bounds: list[Val]) -> Val:
        if constant(base, *bounds):
            return self.fold(V.cut, base.const, *(b.const for b in bounds))
        if "list" not in base.types:
            return self.refuse("a slice of text")
        pure = (
            base.types == _LIST
            and base.pure
            and all(b.pure and b.types <= {"none", "int", "bool"} for b in bounds)
            and not bounds[2].types & {"bool"}
            and (bounds[2].known and bounds[2].const != 0)
        )
        return Val(
            base.code + sum((b.code for b in bounds), ()) + (("SLICE", 0),), _LIST, pure=pure
        )

    def element(self, base: Val, index: Val) -> Val:
        if refused := self.refused(base, index):
            return refused
        if isinstance(base.const, Split):
            return self.split(base.const, index)
        if isinstance(base.const, _OBJECTS):
            return self.refuse("an index here")
        if isinstance(base.const, Items) and index.known and isinstance(index.const, int):
            values = base.const.values
            inside = -len(values) <= index.const < len(values)
            return values[index.const] if inside else self.undefined()
        if base.known and base.pure and index.known:
            return self.fold(V.element, base.const, index.const)
        if "list" not in base.types:
            return self.refuse(
                "an index into text" if "str" in base.types else "a field that is not known"
            )
        pure = base.types == _LIST and index.types <= _NUMBERS and base.pure and index.pure
        return Val(
            base.code + index.code + (("ELEMENT", 0),), _types("message", "undefined"), pure=pure
        )

    def attribute(self, base: Val, name: str, item: bool) -> Val:
        const = base.const
        if refused := self.refused(base):
            return refused
        if name.startswith("_"):
            return self.refuse(f".{name}")
        if isinstance(const, Namespace):
            return self.state.get(("namespace", const.key, name), self.undefined(name))
        if isinstance(const, Loop):
            return self.loop_attribute(const.level, name)
        if isinstance(const, StaticLoop):
            n, i = len(const.items), const.index
            table = {
                "index": i + 1,
                "index0": i,
                "first": i == 0,
                "last": i == n - 1,
                "length": n,
                "revindex": n - i,
                "revindex0": n - i - 1,
            }
            return self.known(table[name]) if name in table else self.refuse(f"loop.{name}")
        if isinstance(const, (Function, Macro, Split, Items, Method)):
            return self.refuse(f".{name}")
        if base.types == _UNDEFINED and base.known:
            return Val(base.code + (("FIELD", 0),), _UNDEFINED, const, False)
        if base.known and base.pure:
            return self.known_attribute(base, name, item)
        if base.types <= {"message", "undefined"}:
            if name in V.NAMES[dict]:
                return self.known(Method(base, name)) if not item else self.refuse(f".{name}")
            return self.message_field(base, name)
        if not item and name in V.NAMES[str]:
            return self.known(Method(base, name))
        if base.types == _STR and name not in V.NAMES[str]:
            code = base.code + (("POP", 0), ("UNDEFINED", 0))
            absent = V.Undefined(name)
            return self.known(absent) if base.pure else Val(code, _UNDEFINED, absent, False)
        if "message" in base.types and name in ("role", "content"):
            return Val(base.code + ((name.upper(), 0),), _STR, pure=False)
        return self.refuse(f".{name} of a value that may be " + " or ".join(sorted(base.types)))

    def known_attribute(self, base: Val, name: str, item: bool) -> Val:
        """Of a known value: a dict's own keys, a method of the table, or nothing."""
        const, names = base.const, V.NAMES[type(base.const)]
        if isinstance(const, dict) and name in const and (item or name not in names):
            return self.fold(V.element, const, name)
        if name not in names:
            return self.undefined(name)
        return self.known(Method(base, name)) if not item else self.refuse(f".{name}")

    def message_field(self, base: Val, name: str) -> Val:
        sure = base.types == _MESSAGE and base.pure
        if name in ("role", "content"):
            return Val(base.code + ((name.upper(), 0),), _STR, pure=sure, role=name == "role")
        code = base.code + (("FIELD", 0),)
        return self.undefined(name) if sure else Val(code, _UNDEFINED, V.Undefined(name), False)

    def loop_attribute(self, level: int, name: str) -> Val:
        index, count, one = ("INDEX", level), ("COUNT", level), ("INT", 1)
        table = {
            "index0": (index,),
            "index": (index, one, ("ADD", 0)),
            "length": (count,),
            "revindex": (count, index, ("SUB", 0)),
            "revindex0": (count, index, ("SUB", 0), one, ("SUB", 0)),
        }
        if name in table:
            return Val(table[name], _INT)
        if name == "first":
            return Val((index, ("INT", 0), ("EQ", 0)), _BOOL)
        if name == "last":
            return Val((index, one, ("ADD", 0), count, ("EQ", 0)), _BOOL)
        if name in ("previtem", "nextitem"):
            return Val(
                (("ITEM", level | (0 if name == "previtem" else 2) << 8),),
                _types("message", "undefined"),
            )
        return self.refuse(f"loop.{name}")

    def binary(self, node: Any, what: str, code: str) -> Val:
        a, b = self.eval(node.left), self.eval(node.right)
        self.line = node.lineno
        return self.arithmetic(a, b, what, code)

    def arithmetic(self, a: Val, b: Val, what: str, code: str) -> Val:
        if constant(a, b):
            return self.fold(V.operate, what, a.const, b.const)
        if any(v.types <= {"str", "list", "message", "other"} for v in (a, b)):
            return self.refuse(f"{what} of something else than whole numbers")
        pure = (
            a.pure
            and b.pure
            and a.types <= _NUMBERS
            and b.types <= _NUMBERS
            and b.known
            and b.const != 0
        )
        return Val(a.code + b.code + ((code, 0),), _INT, pure=pure)

    def x_Sub(self, node):
        return self.binary(node, "-", "SUB")

    def x_Mul(self, node):
        return self.binary(node, "*", "MUL")

    def x_Mod(self, node):
        return self.binary(node, "%", "MOD")

    def x_FloorDiv(self, node):
        return self.binary(node, "//", "DIV")

    def x_Neg(self, node):
        value = self.eval(node.node)
        if constant(value):
            return self.fold(V.negative, value.const)
        return Val(value.code + (("NEG", 0),), _INT, pure=value.pure and value.types <= _NUMBERS)

    def x_Add(self, node):
        a, b = self.eval(node.left), self.eval(node.right)
        self.line = node.lineno
        if a.known and b.known and a.pure and b.pure:
            if any(isinstance(v.const, (*_OBJECTS, Items)) for v in (a, b)):
                return self.refuse("a sum of lists")
            return self.fold(V.operate, "+", a.const, b.const)
        code = a.code + b.code + (("ADD", 0),)
        if _STR in (a.types, b.types):
            return Val(
                code,
                _STR,
                pure=a.types == b.types and a.pure and b.pure,
                shape=("cat", ((a, True), (b, True))),
            )
        if "list" in a.types & b.types and not (a.types & b.types) - {"list"}:
            return self.refuse("a sum of lists")
        if a.types <= _NUMBERS and b.types <= _NUMBERS:
            return Val(code, _INT, pure=False)
        return Val(code, _types("int", "str"), pure=False)

    def x_Concat(self, node):
        values = [self.eval(n) for n in node.nodes]
        self.line = node.lineno
        if all(v.known and v.pure and v.types != _OTHER for v in values):
            return self.fold(V.joined, *(v.const for v in values))
        code = values[0].code + sum((v.code + (("CONCAT", 0),) for v in values[1:]), ())
        pure = all(v.pure and not v.types & {"list", "message", "other"} for v in values)
        return Val(code, _STR, pure=pure, shape=("cat", tuple((v, False) for v in values)))

    def x_Not(self, node):
        value = self.eval(node.node)
        return self.negated(value)

    def negated(self, value: Val) -> Val:
        if value.truth is not None and value.pure:
            return self.known(not value.truth)
        truth = None if value.truth is None else not value.truth
        return Val(
            value.code + (("NOT", 0),),
            _BOOL,
            _UNKNOWN if truth is None else truth,
            value.pure,
            truth,
        )

    def x_And(self, node):
        return self.either(node, False)

    def x_Or(self, node):
        return self.either(node, True)

    def either(self, node: Any, stops: bool) -> Val:
        """`and` stops at what is false, `or` at what is true."""
        a = self.eval(node.left)
        if a.truth is stops:
            return a
        b = self.eval(node.right)
        self.line = node.lineno
        return self.lazy(a, b, stops)

    def lazy(self, a: Val, b: Val, stops: bool) -> Val:
        if a.truth is stops:
            return a
        if a.truth is not None:
            return (
                b
                if a.pure
                else b._replace(code=a.code + (("POP", 0),) + b.code, pure=False, shape=None)
            )
        end = Label()
        truth = stops if b.truth is stops else None
        pure = a.pure and b.pure
        types = a.types | b.types
        if truth is not None and types == _BOOL and pure:
            return self.known(truth)
        return Val(
            a.code + (("OR" if stops else "AND", end),) + b.code + (("LABEL", end),),
            types,
            pure=pure,
            truth_=truth,
        )

    def x_CondExpr(self, node):
        test = self.eval(node.test)
        chosen = {True: node.expr1, False: node.expr2}
        if test.truth is not None:
            known = chosen[test.truth]
            value = self.eval(known) if known is not None else self.undefined()
            return (
                value
                if test.pure
                else value._replace(
                    code=test.code + (("POP", 0),) + value.code, pure=False, shape=None
                )
            )
        yes = self.eval(node.expr1)
        no = self.eval(node.expr2) if node.expr2 is not None else self.undefined()
        return self.choice(test, yes, no)

    def choice(self, test: Val, yes: Val, no: Val) -> Val:
        other, end = Label(), Label()
        code = (
            test.code
            + (("JUMP_FALSE", other),)
            + yes.code
            + (("JUMP", end), ("LABEL", other))
            + no.code
            + (("LABEL", end),)
        )
        types = yes.types | no.types
        truth = yes.truth if yes.truth == no.truth else None
        return Val(
            code,
            types,
            pure=test.pure and yes.pure and no.pure,
            truth_=truth,
            shape=("cond", test, yes, no),
        )

    # ---- Comparisons and tests

    def x_Compare(self, node):
        left = self.eval(node.expr)
        if len(node.ops) != 1:
            return self.refuse("a chain of comparisons")
        right = self.eval(node.ops[0].expr)
        self.line = node.lineno
        return self.compare(node.ops[0].op, left, right)

    def compare(self, op: str, a: Val, b: Val) -> Val:
        if op in ("in", "notin"):
            value = self.contains(a, b)
            return value if op == "in" else self.negated(value)
        code = {"eq": "EQ", "ne": "NE", "lt": "LT", "lteq": "LE", "gt": "GT", "gteq": "GE"}[op]
        if any(isinstance(v.const, (*_OBJECTS, Items)) for v in (a, b)):
            return self.refuse("a comparison of lists")
        if a.known and b.known and a.pure and b.pure:
            return self.fold(V.operate, op, a.const, b.const)
        both = a.code + b.code + ((code, 0),)
        pure = a.pure and b.pure
        if op in ("eq", "ne"):
            one, two = ({"number" if t in _NUMBERS else t for t in v.types} for v in (a, b))
            if not one & two or self.no_such_role(a, b) or self.no_such_role(b, a):
                return self.known(op == "ne") if pure else Val(both, _BOOL, op == "ne", False)
            return Val(
                both,
                _BOOL,
                pure=pure and "list" not in a.types & b.types and "other" not in one | two,
            )
        return Val(
            both,
            _BOOL,
            pure=pure
            and (a.types <= _NUMBERS and b.types <= _NUMBERS or a.types == b.types == _STR),
        )

    def no_such_role(self, a: Val, b: Val) -> bool:
        return not self.any_role and a.role and b.known and b.const not in ROLES

    def contains(self, a: Val, b: Val) -> Val:
        if b.known and type(b.const) in (list, tuple, dict, Items):
            values = (
                b.const.values if isinstance(b.const, Items) else [self.known(v) for v in b.const]
            )
            if a.known and a.pure and a.types != _OTHER and not isinstance(b.const, Items):
                return self.fold(V.contains, a.const, b.const)
            pure, (first, a) = a.pure, self.again(a)
            result = self.known(False)
            for value in values:
                result = self.lazy(result, self.compare("eq", a, value), True)
            return result._replace(code=first + result.code, pure=pure and result.pure)
        if a.known and b.known and a.pure and b.pure and _OTHER not in (a.types, b.types):
            return self.fold(V.contains, a.const, b.const)
        if b.types == _MESSAGE and a.known and isinstance(a.const, str):
            return (
                self.known(a.const in ("role", "content"))
                if b.pure
                else Val(
                    a.code + b.code + (("IN", 0),), _BOOL, a.const in ("role", "content"), False
                )
            )
        if b.types <= {"list"}:
            return self.refuse("`in` a list of messages")
        pure = a.pure and b.pure and a.types == _STR and b.types <= {"str", "undefined", "message"}
        return Val(a.code + b.code + (("IN", 0),), _BOOL, pure=pure)

    def x_Test(self, node):
        value = self.eval(node.node)
        arguments = [self.eval(n) for n in node.args]
        self.line = node.lineno
        if node.kwargs or node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"the test {node.name} with these arguments")
        if node.name in V.COMPARISONS and len(arguments) == 1:
            return self.compare(V.COMPARISONS[node.name], value, arguments[0])
        if isinstance(value.const, (*_OBJECTS, Items)):
            table = {
                "defined": True,
                "undefined": False,
                "none": False,
                "string": False,
                "true": False,
                "false": False,
                "boolean": False,
                "integer": False,
                "number": False,
                "mapping": False,
            }
            if isinstance(value.const, (Split, Items)):
                table.update(iterable=True, sequence=True)
                parts = value.const.values if isinstance(value.const, Items) else value.const
                if not all(part.pure for part in parts):  # what fails is not left out
                    return self.refuse(f"the test {node.name} here")
            return (
                self.known(table[node.name])
                if node.name in table and not isinstance(value.const, Method)
                else self.refuse(f"the test {node.name} here")
            )
        if node.name in V.DIVISIONS and len(arguments) == int(node.name == "divisibleby"):
            rest = self.arithmetic(value, arguments[0] if arguments else self.known(2), "%", "MOD")
            remainder = self.known(V.DIVISIONS[node.name])
            return self.compare("eq", rest._replace(pure=rest.known), remainder)
        if node.name not in V.TESTS or arguments:
            how = " with these arguments" if node.name in V.TESTS else ""
            return self.refuse(f"the test {node.name}{how}")
        return self.kind_is(value, V.TESTS[node.name])

    def kind_is(self, value: Val, mask: int) -> Val:
        if constant(value):
            return self.known(V.bits(value.const) & mask != 0)
        bits = sum(V.BITS[t] for t in value.types)
        code = value.code + (("TEST", mask),)
        if bits & mask == 0 or bits & ~mask == 0:
            truth = bits & mask != 0
            return self.known(truth) if value.pure else Val(code, _BOOL, truth, False)
        return Val(code, _BOOL, pure=value.pure)

    # ---- Calls and filters

    def x_Call(self, node):
        function = self.eval(node.node)
        if isinstance(function.const, Macro):
            return self.call_macro(function.const, node)
        arguments = [self.eval(n) for n in node.args]
        keywords = {k.key: self.eval(k.value) for k in node.kwargs}
        self.line = node.lineno
        name = (
            node.node.name
            if isinstance(node.node, nodes.Name)
            else node.node.attr
            if isinstance(node.node, nodes.Getattr)
            else "a call"
        )
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"{name}() with * or **")
        target = function.const
        if refused := self.refused(function, *arguments, *keywords.values()):
            return refused
        if isinstance(target, Function):
            return self.call_function(target.name, arguments, keywords)
        if isinstance(target, Method):
            if target.base.types <= {"message", "undefined"}:
                return self.call_get(target, arguments, keywords)
            return self.call_method(target.base, target.name, arguments, keywords)
        return self.refuse(f"{name}()" if isinstance(node.node, nodes.Name) else f".{name}()")

    def call_macro(self, macro: Macro, call: Any) -> Val:
        """A call among values: the macro's body is written out here, its output as one text."""
        spaces = {k: v for k, v in self.state.items() if k[0] == "namespace"}
        before = dict(self.state)
        value = self.captured(lambda: self.write_macro(macro, call))
        if any(
            self.state.get(k) is not v and not self.same(v, self.state.get(k, v))
            for k, v in spaces.items()
        ):
            self.state = before
            return self.refuse("a macro that sets a namespace's attribute, among other values,")
        return value

    def captured(self, work: Callable[[], None]) -> Val:
        """What statements write, as a text."""
        before = dict(self.state)
        code = self.capture(work)
        if self.state is None:  # it always ends the program
            self.state = before
        parts = [i for i in code if i[0] != "LINE"]
        if all(op == "TEXT" for op, _ in parts):
            return self.known("".join(text for _, text in parts))
        if parts[-1][0] == "EMIT" and not any(
            op in ("TEXT", "EMIT", "EMIT_STRING", "LABEL", "SET", "RAISE") for op, _ in parts[:-1]
        ):
            return Val((*code[:-1], ("STR", 0)), _STR, pure=False)
        out: list = [("STRING", "")]
        for op, arg in code:
            out += {
                "TEXT": [("STRING", arg), ("CONCAT", 0)],
                "EMIT": [("CONCAT", 0)],
                "EMIT_STRING": [("ADD", 0)],
            }.get(op, [(op, arg)])
        return Val(tuple(out), _STR, pure=False)

    def write_macro(self, macro: Macro, call: Any) -> None:
        """The macro's statements with the call's arguments, in the scopes where it was defined."""
        node = macro.node
        names, given = [a.name for a in node.args], [self.eval(n) for n in call.args]
        values = dict(zip(names, given))
        values.update({k.key: self.eval(k.value) for k in call.kwargs})
        self.line = call.lineno
        if (
            call.dyn_args
            or call.dyn_kwargs
            or len(given) > len(names)
            or set(values) - set(names)
            or len(values) < len(given) + len(call.kwargs)
        ):
            return self.unsupported(f"{node.name}() with these arguments")
        if node in self.running or self.fact(_uses_caller, node):
            return self.unsupported(
                f"the macro {node.name}, which calls itself"
                if node in self.running
                else f"caller, varargs and kwargs in the macro {node.name}"
            )
        scopes, self.scopes, loops, self.loops = self.scopes, list(macro.scopes), self.loops, []
        self.running.append(node)
        scope = ("macro", id(call))
        self.enter(scope, self.fact(assigned, node) - set(names))
        for i, name in enumerate(names):
            default = i - len(names) + len(node.defaults)
            value = values.get(name)
            if value is None:
                value = self.eval(node.defaults[default]) if default >= 0 else self.undefined(name)
            self.store((scope, name), value)
        self.run(node.body)
        self.leave(scope)
        self.running.pop()
        self.scopes, self.loops = scopes, loops

    def call_function(self, name: str, arguments: list[Val], keywords: dict) -> Val:
        if name == "raise_exception" and len(arguments) == 1 and not keywords:
            text = self.string(arguments[0])
            return Val(text.code + (("RAISE", 0),), _UNDEFINED, pure=False)
        if name == "strftime_now" and constant(*arguments) and len(arguments) == 1 and not keywords:
            return self.fold(lambda form: V.written_day(self.date, form), arguments[0].const)
        if name == "range" and constant(*arguments) and not keywords:
            return self.fold(V.numbers, *(v.const for v in arguments))
        return self.refuse(f"{name}() here")

    def call_get(self, target: Method, arguments: list[Val], keywords: dict) -> Val:
        if (
            target.name != "get"
            or keywords
            or not 1 <= len(arguments) <= 2
            or not (arguments[0].known and isinstance(arguments[0].const, str))
        ):
            return self.refuse(f".{target.name}() of a message")
        value = self.message_field(target.base, arguments[0].const)
        if value.types != _UNDEFINED:
            return value
        default = arguments[1] if len(arguments) == 2 else self.known(None)
        return (
            default
            if value.pure
            else default._replace(code=value.code + (("POP", 0),) + default.code, pure=False)
        )

    def call_method(self, base: Val, name: str, arguments: list[Val], keywords: dict) -> Val:
        if name == "split" and len(arguments) <= 2 and set(keywords) <= {"sep", "maxsplit"}:
            separator = keywords.get("sep", arguments[0] if arguments else self.known(None))
            most = keywords.get("maxsplit", arguments[1] if len(arguments) == 2 else self.known(-1))
            arguments, keywords = [separator, most], {}
        if name not in _ARGUMENTS or name == "get" and type(base.const) is not dict:
            return self.refuse(f".{name}()")
        if keywords or len(arguments) not in _ARGUMENTS[name]:
            return self.refuse(f".{name}() with these arguments")
        if constant(base, *arguments):
            return self.fold(V.method, name, base.const, *(v.const for v in arguments))
        if name == "get":
            return self.refuse(".get() with these arguments")
        sure = base.types == _STR and base.pure
        if name in _STRIPS:
            return self.strip(base, _STRIPS[name], arguments)
        if name in ("startswith", "endswith"):
            return self.edge(base, "STARTS" if name == "startswith" else "ENDS", arguments[0])
        if name == "split":
            return Val((self.refusal("split() without an index"),), _OTHER, Split(base, *arguments))
        if name == "replace":
            pure = sure and all(v.types == _STR and v.pure for v in arguments)
            return Val(
                base.code + arguments[0].code + arguments[1].code + (("REPLACE", 0),),
                _STR,
                pure=pure,
            )
        return Val(base.code + (("CASE", _CASES[name]),), _STR, pure=False)

    def strip(self, base: Val, sides: int, arguments: Sequence[Val]) -> Val:
        chars = (
            arguments[0]
            if arguments and not (arguments[0].known and arguments[0].const is None)
            else None
        )
        pure = (
            base.types == _STR
            and base.pure
            and (chars is None or (chars.types == _STR and chars.pure))
        )
        return Val(
            base.code + (chars.code if chars else ()) + (("STRIP", sides | (4 if chars else 0)),),
            _STR,
            pure=pure,
        )

    def edge(self, base: Val, code: str, ends: Val) -> Val:
        if ends.known and type(ends.const) in (tuple, Items):
            values = (
                ends.const.values
                if isinstance(ends.const, Items)
                else [self.known(v) for v in ends.const]
            )
            pure, (first, base) = base.pure, self.again(base)
            result = self.known(False)
            for value in values:
                result = self.lazy(result, self.edge(base, code, value), True)
            return result._replace(code=first + result.code, pure=pure and result.pure)
        return Val(
            base.code + ends.code + ((code, 0),),
            _BOOL,
            pure=base.types == ends.types == _STR and base.pure and ends.pure,
        )

    def split(self, split: Split, index: Val | None) -> Val:
        """Part `index` of a split text, or how many parts there are."""
        code = (
            split.text.code
            + split.separator.code
            + split.most.code
            + (index.code if index else self.known(None).code)
            + (("SPLIT", 0),)
        )
        sure = (
            split.text.types == _STR
            and split.text.pure
            and split.most.types == _INT
            and (
                split.separator.known
                and (
                    split.separator.const is None
                    or isinstance(split.separator.const, str)
                    and split.separator.const != ""
                )
            )
        )
        if index is None:
            return Val(code, _INT, pure=sure)
        # The first part is always there when the separator is.
        always = split.separator.types == _STR and index.known and index.const in (0, -1)
        return Val(
            code,
            _STR if always else _types("str", "undefined"),
            pure=sure and index.types == _INT and index.pure,
        )

    def string(self, value: Val) -> Val:
        return (
            value
            if value.types == _STR
            else Val(
                value.code + (("STR", 0),),
                _STR,
                pure=value.pure and not value.types & {"list", "message", "other"},
            )
        )

    def x_Filter(self, node):
        if node.node is None:
            return self.refuse("a filter block")
        value = self.eval(node.node)
        arguments = [self.eval(n) for n in node.args]
        keywords = {k.key: self.eval(k.value) for k in node.kwargs}
        self.line = node.lineno
        everything = [value, *arguments, *keywords.values()]
        if refused := self.refused(*everything) or failing(*everything):
            return refused
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"the filter {node.name} with * or **")
        filters = V.FILTERS if constant(*everything) and node.name in V.FILTERS else FILTERS
        first = () if filters is V.FILTERS else (self,)
        method = filters.get(node.name)
        if method is None:
            how = " here" if node.name in V.FILTERS or node.name == "safe" else ""
            return self.refuse(f"the filter {node.name}{how}")
        try:
            inspect.signature(method).bind(*first, value, *arguments, **keywords)
        except TypeError:
            return self.refuse(f"the filter {node.name} with these arguments")
        if not first:
            named = {name: v.const for name, v in keywords.items()}
            return self.fold(method, value.const, *(v.const for v in arguments), **named)
        result = method(self, value, *arguments, **keywords)
        return result if result is not None else self.refuse(f"the filter {node.name} here")

    def f_trim(self, value, chars=None):
        return self.strip(self.string(value), 3, [chars] if chars else [])

    def f_string(self, value):
        return self.string(value)

    def f_list(self, value):
        if isinstance(value.const, Reversed):
            return value.const.items
        return value if value.types == _LIST else None

    def f_reverse(self, value):
        known = type(value.const) if constant(value) else None
        if value.types != _LIST and known not in (str, list, tuple):
            return None
        items = self.slice(value, [self.known(None), self.known(None), self.known(-1)])
        if known is str:
            return items
        return Val((self.refusal("the filter reverse here"),), _OTHER, Reversed(items))

    def f_length(self, value):
        if isinstance(value.const, Split):
            return self.split(value.const, None)
        if value.types == _OTHER:
            return None
        return Val(
            value.code + (("LENGTH", 0),),
            _INT,
            pure=value.pure and not value.types & {"none", "bool", "int"},
        )

    f_count = f_length

    def case(self, value: Val, code: int) -> Val | None:
        return (
            Val(self.string(value).code + (("CASE", code),), _STR, pure=False)
            if value.types != _OTHER
            else None
        )

    def f_upper(self, value):
        return self.case(value, 0)

    def f_lower(self, value):
        return self.case(value, 1)

    def f_capitalize(self, value):
        return self.case(value, 2)

    def f_title(self, value):
        return self.case(value, 3)

    def f_first(self, value):
        value = value.const.items if isinstance(value.const, Reversed) else value
        if constant(value):
            return self.fold(V.FILTERS["first"], value.const)
        return (
            self.element(value, self.known(0))
            if isinstance(value.const, Split) or value.types <= {"list"}
            else None
        )

    def f_last(self, value):
        return (
            self.element(value, self.known(-1))
            if isinstance(value.const, Split) or value.types <= {"list"}
            else None
        )

    def f_default(self, value, default_value=None, boolean=None):
        default_value = default_value or self.known("")
        if boolean is not None and not (boolean.known and boolean.pure):
            return None
        if boolean is not None and boolean.const:
            return self.lazy(value, default_value, True)
        if "undefined" not in value.types:
            return value
        if value.types == _UNDEFINED:
            return (
                default_value
                if value.pure
                else default_value._replace(
                    code=value.code + (("POP", 0),) + default_value.code, pure=False, shape=None
                )
            )
        pure, (first, value) = value.pure, self.again(value)
        defined = value._replace(types=value.types - _UNDEFINED)
        result = self.choice(self.kind_is(value, V.TESTS["defined"]), defined, default_value)
        shape = None if first else result.shape
        return result._replace(code=first + result.code, shape=shape, pure=pure and result.pure)

    f_d = f_default

    def f_replace(self, value, old, new):
        return self.call_method(self.string(value), "replace", [old, new], {})

    def f_tojson(self, value, **options):
        """Of a single value the options for indents and separators change nothing."""
        if not all(v.known and v.pure for v in options.values()) or set(options) - {
            "indent",
            "separators",
            "sort_keys",
            "ensure_ascii",
        }:
            return None
        if "ensure_ascii" in options and options["ensure_ascii"].const or value.types & {"other"}:
            return None
        if value.types <= {"list", "message"}:
            return self.refuse("the filter tojson of a whole message")
        return Val(
            value.code + (("JSON", 0),),
            _STR,
            pure=value.pure and value.types <= {"str", "int", "bool", "none"},
        )

    # ---- Statements

    def run(self, body: Iterable) -> None:
        for node in body:
            if self.state is None:
                return
            self.line = node.lineno
            self.enter_level()
            self.spend(1)
            self.code.append(("LINE", node.lineno))
            method = STATEMENTS.get(type(node).__name__)
            if method:
                method(self, node)
            else:
                self.unsupported(
                    {
                        "AssignBlock": "a set block",
                        "CallBlock": "a call block",
                        "FilterBlock": "a filter block",
                        "ExprStmt": "do",
                    }.get(type(node).__name__, type(node).__name__.lower())
                )
            self.depth -= 1

    def unsupported(self, what: str) -> None:
        self.code += [self.refusal(what), ("POP", 0)]

    def capture(self, work: Callable[[], None]) -> list:
        before, self.code = self.code, []
        work()
        done, self.code = self.code, before
        return done

    def s_Output(self, node):
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self.spend(1 + (len(part.data) >> 6))
                self.code.append(("TEXT", part.data))
                continue
            self.code.append(("LINE", part.lineno))
            while (
                isinstance(part, nodes.Filter)
                and part.name == "safe"
                and not (part.args or part.kwargs or part.dyn_args or part.dyn_kwargs)
            ):
                part = part.node  # it counts for what is done with the text here, and nothing is
            if (
                isinstance(part, nodes.Call)
                and isinstance(part.node, nodes.Name)
                and isinstance(self.lookup(part.node.name).const, Macro)
            ):
                self.write_macro(self.lookup(part.node.name).const, part)
                if self.state is None:
                    return
                continue
            value = self.eval(part)
            self.code += self.written(value, False)
            if value.code and value.code[-1] == ("RAISE", 0):
                self.state = None
                return

    def written(self, value: Val, strict: bool) -> list:
        """Code that puts a value into the output; strict: it must be a text."""
        if value.known and value.types != _OTHER and not (strict and value.types != _STR):
            text = V.text(value.const)
            self.spend(1 + (len(text) >> 6))
            text = [("TEXT", text)] if text else []
            return text if value.pure else [*value.code, ("POP", 0), *text]
        if value.shape and value.shape[0] == "cat":
            return [i for part, s in value.shape[1] for i in self.written(part, s)]
        if value.shape and value.shape[0] == "cond":
            _, test, yes, no = value.shape
            other, end = Label(), Label()
            return [
                *test.code,
                ("JUMP_FALSE", other),
                *self.written(yes, strict),
                ("JUMP", end),
                ("LABEL", other),
                *self.written(no, strict),
                ("LABEL", end),
            ]
        return [*value.code, ("EMIT_STRING" if strict and value.types != _STR else "EMIT", 0)]

    def s_Assign(self, node):
        target = node.target
        if isinstance(target, nodes.NSRef):
            space = self.lookup(target.name).const
            if not isinstance(space, Namespace):
                return self.unsupported(
                    f"{target.name}.{target.attr}: {target.name} is no namespace here"
                )
            return self.store(("namespace", space.key, target.attr), self.eval(node.node))
        if not isinstance(target, nodes.Name):
            return self.unsupported("a set of several names")
        call = node.node
        if (
            isinstance(call, nodes.Call)
            and isinstance(call.node, nodes.Name)
            and self.lookup(call.node.name).const == Function("namespace")
        ):
            return self.make_namespace(target.name, call)
        self.store((self.scopes[-1], target.name), self.eval(node.node))

    def make_namespace(self, name: str, call: Any) -> None:
        if call.args or call.dyn_args or call.dyn_kwargs:
            return self.unsupported("namespace() with these arguments")
        given = {k.key: self.eval(k.value) for k in call.kwargs}
        space = Namespace(id(call))
        for attr in [*given, *sorted(self.names.get(name, set()) - set(given))]:
            self.store(("namespace", space.key, attr), given.get(attr, self.undefined(attr)))
        self.store((self.scopes[-1], name), self.known(space))

    def s_If(self, node):
        branches = [(node.test, node.body)] + [(e.test, e.body) for e in node.elif_]
        end, after = Label(), None
        for test, body in branches:
            value = self.eval(test)
            if value.truth is False:
                if not value.pure:
                    self.code += [*value.code, ("POP", 0)]
                continue
            if value.truth is True:
                if not value.pure:
                    self.code += [*value.code, ("POP", 0)]
                self.run(body)
                self.code.append(("LABEL", end))
                self.state = self.join(after, self.state)
                return
            other = Label()
            self.code += [*value.code, ("JUMP_FALSE", other)]
            before = dict(self.state)
            self.run(body)
            self.code += [("JUMP", end), ("LABEL", other)]
            after, self.state = self.join(after, self.state), before
        self.run(node.else_)
        self.code.append(("LABEL", end))
        self.state = self.join(after, self.state)

    def enter(self, scope: Any, names: Iterable[str]) -> None:
        """Names that are set inside begin with what they are outside."""
        self.spend(len(self.state))
        outer = {name: self.lookup(name) for name in sorted(names)}
        self.scopes.append(scope)
        for name, value in outer.items():
            self.store((scope, name), value)

    def leave(self, scope: Any) -> None:
        self.scopes.pop()
        if self.state is not None:
            self.state = {k: v for k, v in self.state.items() if k[0] != scope}

    def s_Scope(self, node):
        self.enter(id(node), self.fact(assigned, node))
        self.run(node.body)
        self.leave(id(node))

    def s_With(self, node):
        if not all(isinstance(t, nodes.Name) for t in node.targets):
            return self.unsupported("with of several names")
        values = [self.eval(v) for v in node.values]
        self.enter(id(node), self.fact(assigned, node))
        for target, value in zip(node.targets, values):
            self.store((id(node), target.name), value)
        self.run(node.body)
        self.leave(id(node))

    def s_Macro(self, node):
        self.store((self.scopes[-1], node.name), self.known(Macro(node, tuple(self.scopes))))

    def s_AssignBlock(self, node):
        if not isinstance(node.target, nodes.Name) or node.filter is not None:
            return self.unsupported("a set block of this kind")
        if self.fact(assigned, node):
            return self.unsupported("a set block that sets others")
        value = self.captured(lambda: self.run(node.body))
        self.store((self.scopes[-1], node.target.name), value)

    def s_For(self, node):
        items = self.eval(node.iter)
        if isinstance(items.const, Reversed):
            items = items.const.items
        self.line = node.lineno
        if node.recursive or not isinstance(node.target, nodes.Name):
            return self.unsupported(
                "a recursive loop" if node.recursive else "a loop with several names"
            )
        if items.types == _UNDEFINED:
            if not items.pure:
                self.code += [*items.code, ("POP", 0)]
            return self.run(node.else_)
        if items.known and type(items.const) in (list, tuple, Items):
            values = (
                items.const.values
                if isinstance(items.const, Items)
                else [self.known(v) for v in items.const]
            )
            return self.unrolled(node, values)
        if "list" not in items.types:
            what = (
                "a message's fields"
                if items.types == _MESSAGE
                else "text"
                if "str" in items.types
                else "split()"
                if isinstance(items.const, Split)
                else "this"
            )
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
        start, following, empty, end = Label(), Label(), Label(), Label()
        scope, level = id(node), self.level
        names = self.fact(assigned, node) - {node.target.name, "loop"}
        entry = dict(self.state)
        for _ in range(64):  # until what is known at the start of a round holds for every round
            self.state = dict(entry)
            nexts, breaks = [], []
            self.loops.append((level, following, end, nexts, breaks))
            self.level += 1
            code = self.capture(lambda: self.round(node, scope, names, level))
            self.level -= 1
            self.loops.pop()
            after = entry
            for state in [self.state, *nexts]:
                after = self.join(after, state)
            if all(self.same(entry.get(k), after[k]) for k in after):
                break
            entry = after
        else:
            return self.unsupported("a loop whose values do not settle")
        self.code += [
            *items.code,
            ("FOR", empty),
            ("LABEL", start),
            *code,
            ("LABEL", following),
            ("NEXT", start),
            ("JUMP", end),
            ("LABEL", empty),
        ]
        self.state = dict(entry)
        self.run(node.else_)
        self.code.append(("LABEL", end))
        self.state = self.join(self.state, entry)
        for state in breaks:
            self.state = self.join(self.state, state)

    def round(self, node: Any, scope: int, names: set, level: int) -> None:
        self.enter(scope, names)
        item = Val((("ITEM", level | 1 << 8),), _MESSAGE)
        self.store((scope, node.target.name), item)
        self.state[scope, node.target.name] = item
        self.state[scope, "loop"] = self.known(Loop(level))
        self.run(node.body)
        self.leave(scope)

    def same(self, a: Val | None, b: Val) -> bool:
        if a is None:
            return False
        known = a.known == b.known and (not a.known or type(a.const) is type(b.const))
        return (
            known
            and a.types == b.types
            and a.role == b.role
            and a.truth == b.truth
            and a.code == b.code
        )

    def unrolled(self, node: Any, values: Sequence[Val]) -> None:
        if node.test is not None or len(values) > MAX_UNROLLED or self.fact(_leaves, node):
            return self.unsupported("this loop over a list")
        if not values:
            return self.run(node.else_)
        for i, value in enumerate(values):
            if self.state is None:
                return
            scope = (id(node), i)
            self.enter(scope, self.fact(assigned, node) - {node.target.name, "loop"})
            self.state[scope, node.target.name] = value
            self.state[scope, "loop"] = self.known(StaticLoop(i, tuple(values)))
            self.run(node.body)
            self.leave(scope)

    def s_Continue(self, node):
        if not self.loops:
            return self.unsupported("continue here")
        self.loops[-1][3].append(dict(self.state))
        self.code.append(("JUMP", self.loops[-1][1]))
        self.state = None

    def s_Break(self, node):
        if not self.loops:
            return self.unsupported("break here")
        self.loops[-1][4].append(dict(self.state))
        self.code.append(("BREAK", self.loops[-1][2]))
        self.state = None

    # ---- The whole

    def compile(self) -> bytes:
        for name in sorted(assigned(self.tree)):
            value = self.lookup(name)
            self.store((0, name), value)
        self.run(self.tree.body)
        self.code.append(("END", 0))
        return Assembler(self.code, self.spend).section(0 if self.any_role else 1)


# What there is of expressions, statements and filters, by jinja2's names.
EXPRESSIONS = {name[2:]: method for name, method in vars(Compiler).items() if name.startswith("x_")}
STATEMENTS = {name[2:]: method for name, method in vars(Compiler).items() if name.startswith("s_")}
FILTERS = {name[2:]: method for name, method in vars(Compiler).items() if name.startswith("f_")}
