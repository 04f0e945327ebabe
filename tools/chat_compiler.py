"""From a chat template's syntax tree (jinja2) to the code of a chat program. Nothing of the template runs: what is known at conversion is
computed, branches that cannot be reached vanish, and what remains and has no operation is refused with its line."""

from __future__ import annotations

import datetime
import inspect
import json
import operator
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from chat_code import MAX_LOOPS, Assembler, Label, Refused
from phasor_layout import PhasorError

try:
    import jinja2
    import jinja2.ext
    from jinja2 import nodes
except ImportError:  # said where it is needed
    jinja2 = None

ROLES = ("system", "user", "assistant")

# Kinds of values, as the bits of TEST.
_BITS = {"undefined": 1, "none": 2, "bool": 4 | 8, "int": 16, "str": 32, "list": 64, "message": 128}
_ANY = frozenset(_BITS)
_TESTS = {"defined": 254, "undefined": 1, "none": 2, "boolean": 12, "false": 4, "true": 8, "integer": 16, "number": 28, "string": 32, "mapping": 128,
          "iterable": 1 | 32 | 64 | 128, "sequence": 1 | 32 | 64 | 128, "callable": 0, "float": 0}
_STRIPS = {"strip": 3, "lstrip": 1, "rstrip": 2}
_CASES = {"upper": 0, "lower": 1, "capitalize": 2, "title": 4}  # 3 is the filter title
_METHODS = {*_STRIPS, *_CASES, "startswith", "endswith", "split", "replace"}


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


_OBJECTS = (Function, Macro, Namespace, Loop, StaticLoop, Method, Split)  # what only the compiler knows


class Items(NamedTuple):
    """A list that is written out, of values that are not all known."""

    values: tuple


class Val(NamedTuple):
    """What is known of an expression: the code that computes it, its possible kinds, its value where that is certain."""

    code: tuple
    types: frozenset
    const: Any = _UNKNOWN
    pure: bool = True      # the code cannot fail
    truth_: bool | None = None
    shape: tuple | None = None  # how it is written in parts: ("cat", ((Val, strict), …)) or ("cond", test, yes, no)
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


_STR, _INT, _BOOL, _LIST, _MESSAGE = _types("str"), _types("int"), _types("bool"), _types("list"), _types("message")
_UNDEFINED, _OTHER = _types("undefined"), _types("other")
_NUMBERS = _types("int", "bool")


def _environment() -> Any:
    """jinja2 set up as transformers sets it up. Nothing of a template runs in it; filters do, on values that the template has written out."""
    if jinja2 is None:
        raise PhasorError("chat template: needs the Python package jinja2 (pip install jinja2), or --chat none")

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return environment


def _assigned(body: Iterable) -> set[str]:
    """Names that statements set in their own scope: not those of loops inside."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, nodes.Assign):
            found |= {n.name for n in ([node.target] if isinstance(node.target, nodes.Name) else node.target.find_all(nodes.Name))}
        elif isinstance(node, nodes.AssignBlock) and isinstance(node.target, nodes.Name):
            found.add(node.target.name)
        elif isinstance(node, nodes.Macro):
            found.add(node.name)
        elif isinstance(node, nodes.If):
            found |= _assigned(node.body) | _assigned(node.elif_) | _assigned(node.else_)
    return found


class Compiler:
    def __init__(self, template: str, variables: dict[str, Any], date: datetime.date | None, any_role: bool) -> None:
        self.environment = _environment()
        self.any_role, self.date = any_role, date
        try:
            self.tree = self.environment.parse(template)
        except jinja2.TemplateSyntaxError as error:
            raise Refused(f"chat template, line {error.lineno}: {error.message}") from error
        self.variables = {name: self.known(value) for name, value in {"tools": None, "documents": None, **variables}.items()}
        self.variables["messages"] = Val((("MESSAGES", 0),), _LIST)
        self.variables["add_generation_prompt"] = Val((("PROMPT", 0),), _BOOL)
        self.names = {name: {r.attr for r in self.tree.find_all(nodes.NSRef) if r.name == name} for name in {r.name for r in self.tree.find_all(nodes.NSRef)}}
        self.code: list = []
        self.state: dict | None = {}  # None: this place is not reached
        self.scopes: list = [0]
        self.loops: list[tuple[int, Label, Label, list, list]] = []  # of loops over messages and of static ones: level, next, end, their states
        self.level = 0
        self.temporaries = 0
        self.running: list = []  # macros that are being written out
        self.line = 0

    # ---- Values

    def undefined(self, name: str = "") -> Any:
        return self.environment.undefined(name=name or None)

    def known(self, value: Any) -> Val:
        if isinstance(value, jinja2.Undefined):
            return Val((("UNDEFINED", 0),), _UNDEFINED, value)
        if value is None:
            return Val((("NONE", 0),), _types("none"), None)
        if isinstance(value, bool):
            return Val((("BOOL", int(value)),), _BOOL, value)
        if isinstance(value, int):
            return Val((("INT", value) if -(1 << 23) <= value < 1 << 23 else self.refusal(f"the number {value}"),), _INT, value)
        if isinstance(value, str):
            return Val((("STRING", str(value)),), _STR, value)
        what = {list: "a list as a value", tuple: "a list as a value", dict: "a table as a value", float: "a number with a point", Split: "split() without an index"}
        return Val((self.refusal(what.get(type(value), f"{type(value).__name__} as a value")),), _OTHER, value)

    def refusal(self, what: str) -> tuple:
        return ("REFUSE", (getattr(self, "line", 0), what))

    def refuse(self, what: str) -> Val:
        return Val((self.refusal(what),), _ANY, pure=False)

    def refused(self, *values: Val) -> Val | None:
        """What comes of values that are refused themselves."""
        found = next((i for v in values for i in v.code if i[0] == "REFUSE" and v.types == _ANY), None)
        return Val((found,), _ANY, pure=False) if found else None

    def failure(self, text: str) -> Val:
        return Val((("STRING", text), ("RAISE", 0)), _UNDEFINED, pure=False)

    def fold(self, compute: Callable[[], Any]) -> Val:
        """A value that is computed here; what would fail when the template runs fails when the program does."""
        try:
            value = compute()
        except Exception as error:  # whatever a filter raises
            return self.failure(str(error) or type(error).__name__)
        if callable(value) and not isinstance(value, jinja2.Undefined):
            return self.known(_Bound(value))
        return self.known(list(value) if hasattr(value, "__next__") else value)

    def again(self, value: Val) -> tuple[tuple, Val]:
        """A value that is used more than once: (code that comes first, the value)."""
        if value.known and value.pure or len(value.code) == 1:
            return (), value
        self.temporaries += 1
        slot = ("temporary", self.temporaries)
        return (("SET", (slot, value.code, value.pure)),), value._replace(code=(("LOAD", slot),), pure=True, shape=None)

    # ---- Variables

    def lookup(self, name: str) -> Val:
        for scope in reversed(self.scopes):
            if (scope, name) in self.state:
                return self.state[scope, name]
        if name in self.variables:
            return self.variables[name]
        if name in ("raise_exception", "namespace", "range") or (name == "strftime_now" and self.date):
            return self.known(Function(name))
        return self.known(self.undefined(name))

    def store(self, key: tuple, value: Val) -> None:
        if isinstance(value.const, Split):  # its parts are kept as they are now
            value = value._replace(const=Split(*(self.kept(part) for part in value.const)))
        if isinstance(value.const, Items):
            value = self.refuse("a list as a value")
        self.code.append(("SET", (key, value.code, value.pure)))
        # Where a value is certain and cannot fail it need not be loaded again.
        code = value.code if value.known and value.pure and value.types != _OTHER else (("LOAD", key),)
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
        return {key: self.joined(key, a.get(key), b.get(key)) for key in {**a, **b}}

    def joined(self, key: tuple, a: Val | None, b: Val | None) -> Val:
        a, b = (self.known(self.undefined()) if v is None else v for v in (a, b))
        if a.known and b.known and type(a.const) is type(b.const):
            same = a.const is b.const or a.types == _UNDEFINED
            try:
                same = same or bool(a.const == b.const)
            except Exception:
                pass
            if same:
                return a
        if a.code == b.code and a.code != (("LOAD", key),) and not a.known and not b.known:
            return a
        truth = a.truth if a.truth == b.truth else None
        return Val((("LOAD", key),), (a.types | b.types) - _OTHER if (a.types | b.types) - _OTHER else _ANY, truth_=truth, role=a.role and b.role)

    # ---- Expressions

    def eval(self, node: Any) -> Val:
        self.line = node.lineno
        method = getattr(self, "x_" + type(node).__name__, None)
        value = method(node) if method else self.refuse(type(node).__name__.lower())
        self.line = node.lineno
        return value

    def x_Const(self, node):
        return self.known(node.value)

    def x_Name(self, node):
        return self.lookup(node.name)

    def x_List(self, node):
        values = tuple(self.eval(item) for item in node.items)
        if all(v.known and v.pure for v in values):
            return self.known([v.const for v in values])
        return Val((self.refusal("a list as a value"),), _OTHER, Items(values))

    def x_Tuple(self, node):
        value = self.x_List(node)
        return value if isinstance(value.const, Items) else self.known(tuple(value.const))

    def x_Dict(self, node):
        pairs = [(self.eval(pair.key), self.eval(pair.value)) for pair in node.items]
        if all(v.known and v.pure for pair in pairs for v in pair):
            return self.fold(lambda: {k.const: v.const for k, v in pairs})
        return self.refuse("a table as a value")

    def x_Getattr(self, node):
        return self.attribute(self.eval(node.node), node.attr, False)

    def x_Getitem(self, node):
        base = self.eval(node.node)
        if isinstance(node.arg, nodes.Slice):
            bounds = [self.eval(n) if n is not None else self.known(None) for n in (node.arg.start, node.arg.stop, node.arg.step)]
            self.line = node.lineno
            return self.slice(base, bounds)
        index = self.eval(node.arg)
        self.line = node.lineno
        if index.known and isinstance(index.const, str):
            return self.attribute(base, index.const, True)
        return self.element(base, index)

    def slice(self, base: Val, bounds: list[Val]) -> Val:
        if base.known and base.pure and all(b.known for b in bounds) and not isinstance(base.const, (Items, Split)):
            return self.fold(lambda: base.const[slice(*(b.const for b in bounds))])
        if "list" not in base.types:
            return self.refuse("a slice of text")
        pure = base.types == _LIST and base.pure and all(b.pure and b.types <= {"none", "int", "bool"} for b in bounds) and not bounds[2].types & {"bool"} and (
            bounds[2].known and bounds[2].const != 0)
        return Val(base.code + sum((b.code for b in bounds), ()) + (("SLICE", 0),), _LIST, pure=pure)

    def element(self, base: Val, index: Val) -> Val:
        if refused := self.refused(base, index):
            return refused
        if isinstance(base.const, Split):
            return self.split(base.const, index)
        if isinstance(base.const, _OBJECTS):
            return self.refuse("an index here")
        if isinstance(base.const, Items) and index.known and isinstance(index.const, int):
            values = base.const.values
            return values[index.const] if -len(values) <= index.const < len(values) else self.known(self.undefined())
        if base.known and base.pure and index.known:
            return self.fold(lambda: self.environment.getitem(base.const, index.const))
        if "list" not in base.types:
            return self.refuse("an index into text" if "str" in base.types else "a field that is not known")
        pure = base.types == _LIST and index.types <= _NUMBERS and base.pure and index.pure
        return Val(base.code + index.code + (("ELEMENT", 0),), _types("message", "undefined"), pure=pure)

    def attribute(self, base: Val, name: str, item: bool) -> Val:
        const = base.const
        if refused := self.refused(base):
            return refused
        if isinstance(const, Namespace):
            return self.state.get(("namespace", const.key, name), self.known(self.undefined(name)))
        if isinstance(const, Loop):
            return self.loop_attribute(const.level, name)
        if isinstance(const, StaticLoop):
            n, i = len(const.items), const.index
            table = {"index": i + 1, "index0": i, "first": i == 0, "last": i == n - 1, "length": n, "revindex": n - i, "revindex0": n - i - 1}
            return self.known(table[name]) if name in table else self.refuse(f"loop.{name}")
        if isinstance(const, (Function, Macro, Split, Items, Method)):
            return self.refuse(f".{name}")
        if base.types == _UNDEFINED and base.known:
            return Val(base.code + (("FIELD", 0),), _UNDEFINED, const, False)
        if base.known and base.pure:
            if isinstance(const, str) and not item and name in _METHODS:
                return self.known(Method(base, name))
            return self.fold(lambda: (self.environment.getitem if item else self.environment.getattr)(const, name))
        if base.types <= {"message", "undefined"}:
            return self.message_field(base, name, item)
        if not item and hasattr(str, name):
            return self.known(Method(base, name))
        if base.types == _STR and not hasattr(str, name):
            return self.known(self.undefined(name)) if base.pure else Val(base.code + (("POP", 0), ("UNDEFINED", 0)), _UNDEFINED, self.undefined(name), False)
        if "message" in base.types and name in ("role", "content"):
            return Val(base.code + ((name.upper(), 0),), _STR, pure=False)
        return self.refuse(f".{name} of a value that may be " + " or ".join(sorted(base.types)))

    def message_field(self, base: Val, name: str, item: bool) -> Val:
        sure = base.types == _MESSAGE and base.pure
        if not item and hasattr(dict, name):
            return self.known(Method(base, name))
        if name in ("role", "content"):
            return Val(base.code + ((name.upper(), 0),), _STR, pure=sure, role=name == "role")
        return self.known(self.undefined(name)) if sure else Val(base.code + (("FIELD", 0),), _UNDEFINED, self.undefined(name), False)

    def loop_attribute(self, level: int, name: str) -> Val:
        index, count, one = ("INDEX", level), ("COUNT", level), ("INT", 1)
        table = {"index0": (index,), "index": (index, one, ("ADD", 0)), "length": (count,), "revindex": (count, index, ("SUB", 0)),
                 "revindex0": (count, index, ("SUB", 0), one, ("SUB", 0))}
        if name in table:
            return Val(table[name], _INT)
        if name == "first":
            return Val((index, ("INT", 0), ("EQ", 0)), _BOOL)
        if name == "last":
            return Val((index, one, ("ADD", 0), count, ("EQ", 0)), _BOOL)
        if name in ("previtem", "nextitem"):
            return Val((("ITEM", level | (0 if name == "previtem" else 2) << 8),), _types("message", "undefined"))
        return self.refuse(f"loop.{name}")

    def binary(self, node: Any, what: str, code: str, compute: Callable) -> Val:
        a, b = self.eval(node.left), self.eval(node.right)
        self.line = node.lineno
        if a.known and b.known and a.pure and b.pure and not any(isinstance(v.const, (*_OBJECTS, Items)) for v in (a, b)):
            return self.fold(lambda: compute(a.const, b.const))
        if not code or a.types <= {"str", "list", "message", "other"} or b.types <= {"str", "list", "message", "other"}:
            return self.refuse(f"{what} of something else than whole numbers")
        pure = a.pure and b.pure and a.types <= _NUMBERS and b.types <= _NUMBERS and b.known and b.const != 0
        return Val(a.code + b.code + ((code, 0),), _INT, pure=pure)

    def x_Sub(self, node):
        return self.binary(node, "-", "SUB", operator.sub)

    def x_Mul(self, node):
        return self.binary(node, "*", "MUL", operator.mul)

    def x_Mod(self, node):
        return self.binary(node, "%", "MOD", operator.mod)

    def x_FloorDiv(self, node):
        return self.binary(node, "//", "DIV", operator.floordiv)

    def x_Div(self, node):
        return self.binary(node, "/", "", operator.truediv)

    def x_Neg(self, node):
        value = self.eval(node.node)
        if value.known and value.pure:
            return self.fold(lambda: -value.const)
        return Val(value.code + (("NEG", 0),), _INT, pure=value.pure and value.types <= _NUMBERS)

    def x_Add(self, node):
        a, b = self.eval(node.left), self.eval(node.right)
        self.line = node.lineno
        if a.known and b.known and a.pure and b.pure:
            if any(isinstance(v.const, (*_OBJECTS, Items)) for v in (a, b)):
                return self.refuse("a sum of lists")
            return self.fold(lambda: a.const + b.const)
        code = a.code + b.code + (("ADD", 0),)
        if _STR in (a.types, b.types):
            return Val(code, _STR, pure=a.types == b.types and a.pure and b.pure, shape=("cat", ((a, True), (b, True))))
        if "list" in a.types & b.types and not (a.types & b.types) - {"list"}:
            return self.refuse("a sum of lists")
        if a.types <= _NUMBERS and b.types <= _NUMBERS:
            return Val(code, _INT, pure=False)
        return Val(code, _types("int", "str"), pure=False)

    def x_Concat(self, node):
        values = [self.eval(n) for n in node.nodes]
        self.line = node.lineno
        if all(v.known and v.pure and v.types != _OTHER for v in values):
            return self.fold(lambda: "".join(str(v.const) for v in values))
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
        return Val(value.code + (("NOT", 0),), _BOOL, _UNKNOWN if truth is None else truth, value.pure, truth)

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
            return b if a.pure else b._replace(code=a.code + (("POP", 0),) + b.code, pure=False, shape=None)
        end = Label()
        truth = stops if b.truth is stops else None
        pure = a.pure and b.pure
        types = a.types | b.types
        if truth is not None and types == _BOOL and pure:
            return self.known(truth)
        return Val(a.code + (("OR" if stops else "AND", end),) + b.code + (("LABEL", end),), types, pure=pure, truth_=truth)

    def x_CondExpr(self, node):
        test = self.eval(node.test)
        chosen = {True: node.expr1, False: node.expr2}
        if test.truth is not None:
            value = self.eval(chosen[test.truth]) if chosen[test.truth] is not None else self.known(self.undefined())
            return value if test.pure else value._replace(code=test.code + (("POP", 0),) + value.code, pure=False, shape=None)
        yes = self.eval(node.expr1)
        no = self.eval(node.expr2) if node.expr2 is not None else self.known(self.undefined())
        return self.choice(test, yes, no)

    def choice(self, test: Val, yes: Val, no: Val) -> Val:
        other, end = Label(), Label()
        code = test.code + (("JUMP_FALSE", other),) + yes.code + (("JUMP", end), ("LABEL", other)) + no.code + (("LABEL", end),)
        types = yes.types | no.types
        truth = yes.truth if yes.truth == no.truth else None
        return Val(code, types, pure=test.pure and yes.pure and no.pure, truth_=truth, shape=("cond", test, yes, no))

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
        compute = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge}[op]
        code = {"eq": "EQ", "ne": "NE", "lt": "LT", "lteq": "LE", "gt": "GT", "gteq": "GE"}[op]
        if any(isinstance(v.const, (*_OBJECTS, Items)) for v in (a, b)):
            return self.refuse("a comparison of lists")
        if a.known and b.known and a.pure and b.pure:
            return self.fold(lambda: compute(a.const, b.const))
        both = a.code + b.code + ((code, 0),)
        pure = a.pure and b.pure
        if op in ("eq", "ne"):
            one, two = ({"number" if t in _NUMBERS else t for t in v.types} for v in (a, b))
            if not one & two or self.no_such_role(a, b) or self.no_such_role(b, a):
                return self.known(op == "ne") if pure else Val(both, _BOOL, op == "ne", False)
            return Val(both, _BOOL, pure=pure and "list" not in a.types & b.types and "other" not in one | two)
        return Val(both, _BOOL, pure=pure and (a.types <= _NUMBERS and b.types <= _NUMBERS or a.types == b.types == _STR))

    def no_such_role(self, a: Val, b: Val) -> bool:
        return not self.any_role and a.role and b.known and b.const not in ROLES

    def contains(self, a: Val, b: Val) -> Val:
        if b.known and type(b.const) in (list, tuple, dict, Items):
            values = b.const.values if isinstance(b.const, Items) else [self.known(v) for v in b.const]
            if a.known and a.pure and a.types != _OTHER and not isinstance(b.const, Items):
                return self.fold(lambda: a.const in b.const)
            first, a = self.again(a)
            result = self.known(False)
            for value in values:
                result = self.lazy(result, self.compare("eq", a, value), True)
            return result._replace(code=first + result.code)
        if a.known and b.known and a.pure and b.pure and _OTHER not in (a.types, b.types):
            return self.fold(lambda: a.const in b.const)
        if b.types == _MESSAGE and a.known and isinstance(a.const, str):
            return self.known(a.const in ("role", "content")) if b.pure else Val(a.code + b.code + (("IN", 0),), _BOOL, a.const in ("role", "content"), False)
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
        same = {"equalto": "eq", "==": "eq", "eq": "eq", "ne": "ne", "!=": "ne", "lt": "lt", "lessthan": "lt", "<": "lt", "le": "lteq", "<=": "lteq", "gt": "gt",
                "greaterthan": "gt", ">": "gt", "ge": "gteq", ">=": "gteq", "in": "in"}
        if node.name in same and len(arguments) == 1:
            return self.compare(same[node.name], value, arguments[0])
        if isinstance(value.const, (*_OBJECTS, Items)):
            table = {"defined": True, "undefined": False, "none": False, "string": False, "true": False, "false": False, "boolean": False, "integer": False,
                     "number": False, "mapping": False}
            if isinstance(value.const, (Split, Items)):
                table.update(iterable=True, sequence=True)
            return self.known(table[node.name]) if node.name in table and not isinstance(value.const, Method) else self.refuse(f"the test {node.name} here")
        if value.known and value.pure and all(a.known and a.pure for a in arguments) and node.name in self.environment.tests:
            return self.fold(lambda: self.environment.call_test(node.name, value.const, [a.const for a in arguments]))
        if node.name in ("odd", "even", "divisibleby"):
            by = arguments[0] if arguments else self.known(2)
            rest = Val(value.code + by.code + (("MOD", 0),), _INT, pure=False)
            return self.compare("eq", rest, self.known(int(node.name == "odd")))
        if node.name not in _TESTS or arguments:
            return self.refuse(f"the test {node.name}")
        return self.kind_is(value, _TESTS[node.name])

    def kind_is(self, value: Val, mask: int) -> Val:
        bits = sum(_BITS[t] for t in value.types)
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
        name = node.node.name if isinstance(node.node, nodes.Name) else node.node.attr if isinstance(node.node, nodes.Getattr) else "a call"
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"{name}() with * or **")
        target = function.const
        if refused := self.refused(function, *arguments, *keywords.values()):
            return refused
        constant = all(v.known and v.pure and not isinstance(v.const, (*_OBJECTS, Items)) for v in [*arguments, *keywords.values()])
        if isinstance(target, Function):
            return self.call_function(target.name, arguments, keywords, constant)
        if isinstance(target, _Bound) and constant:
            return self.fold(lambda: target.function(*(v.const for v in arguments), **{k: v.const for k, v in keywords.items()}))
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
        if any(self.state.get(k) is not v and not self.same(v, self.state.get(k, v)) for k, v in spaces.items()):
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
        if parts[-1][0] == "EMIT" and not any(op in ("TEXT", "EMIT", "EMIT_STRING", "LABEL", "SET", "RAISE") for op, _ in parts[:-1]):
            return Val((*code[:-1], ("STR", 0)), _STR, pure=False)
        out: list = [("STRING", "")]
        for op, arg in code:
            out += {"TEXT": [("STRING", arg), ("CONCAT", 0)], "EMIT": [("CONCAT", 0)], "EMIT_STRING": [("ADD", 0)]}.get(op, [(op, arg)])
        return Val(tuple(out), _STR, pure=False)

    def write_macro(self, macro: Macro, call: Any) -> None:
        """The macro's statements with the call's arguments, in the scopes where it was defined."""
        node = macro.node
        names, given = [a.name for a in node.args], [self.eval(n) for n in call.args]
        values = dict(zip(names, given))
        values.update({k.key: self.eval(k.value) for k in call.kwargs})
        self.line = call.lineno
        if call.dyn_args or call.dyn_kwargs or len(given) > len(names) or set(values) - set(names) or len(values) < len(given) + len(call.kwargs):
            return self.unsupported(f"{node.name}() with these arguments")
        if node in self.running or any(n.name in ("caller", "varargs", "kwargs") for n in node.find_all(nodes.Name)):
            return self.unsupported(f"the macro {node.name}, which calls itself" if node in self.running else f"caller, varargs and kwargs in the macro {node.name}")
        scopes, self.scopes, loops, self.loops = self.scopes, list(macro.scopes), self.loops, []
        self.running.append(node)
        scope = ("macro", id(call))
        self.enter(scope, _assigned(node.body) - set(names))
        for i, name in enumerate(names):
            default = i - len(names) + len(node.defaults)
            value = values[name] if name in values else self.eval(node.defaults[default]) if default >= 0 else self.known(self.undefined(name))
            self.store((scope, name), value)
        self.run(node.body)
        self.leave(scope)
        self.running.pop()
        self.scopes, self.loops = scopes, loops

    def call_function(self, name: str, arguments: list[Val], keywords: dict, constant: bool) -> Val:
        if name == "raise_exception" and len(arguments) == 1 and not keywords:
            text = self.string(arguments[0])
            return Val(text.code + (("RAISE", 0),), _UNDEFINED, pure=False)
        if name == "strftime_now" and constant and len(arguments) == 1:
            return self.fold(lambda: datetime.datetime.combine(self.date, datetime.time()).strftime(arguments[0].const))
        if name == "range" and constant and not keywords:
            return self.fold(lambda: list(range(*(v.const for v in arguments))[:1000]))
        return self.refuse(f"{name}() here")

    def call_get(self, target: Method, arguments: list[Val], keywords: dict) -> Val:
        if target.name != "get" or keywords or not 1 <= len(arguments) <= 2 or not (arguments[0].known and isinstance(arguments[0].const, str)):
            return self.refuse(f".{target.name}() of a message")
        value = self.message_field(target.base, arguments[0].const, True)
        if value.types != _UNDEFINED:
            return value
        default = arguments[1] if len(arguments) == 2 else self.known(None)
        return default if value.pure else default._replace(code=value.code + (("POP", 0),) + default.code, pure=False)

    def call_method(self, base: Val, name: str, arguments: list[Val], keywords: dict) -> Val:
        if base.known and base.pure and all(v.known and v.pure for v in [*arguments, *keywords.values()]):
            if name == "split":
                return self.fold(lambda: base.const.split(*(v.const for v in arguments), **{k: v.const for k, v in keywords.items()}))
            return self.fold(lambda: getattr(base.const, name)(*(v.const for v in arguments), **{k: v.const for k, v in keywords.items()}))
        sure = base.types == _STR and base.pure
        if name in _STRIPS and not keywords and len(arguments) <= 1:
            return self.strip(base, _STRIPS[name], arguments)
        if name in ("startswith", "endswith") and len(arguments) == 1 and not keywords:
            return self.edge(base, "STARTS" if name == "startswith" else "ENDS", arguments[0])
        if name == "split" and len(arguments) <= 2 and set(keywords) <= {"sep", "maxsplit"}:
            separator = keywords.get("sep", arguments[0] if arguments else self.known(None))
            most = keywords.get("maxsplit", arguments[1] if len(arguments) == 2 else self.known(-1))
            return Val((self.refusal("split() without an index"),), _OTHER, Split(base, separator, most))
        if name == "replace" and len(arguments) == 2 and not keywords:
            pure = sure and all(v.types == _STR and v.pure for v in arguments)
            return Val(base.code + arguments[0].code + arguments[1].code + (("REPLACE", 0),), _STR, pure=pure)
        if name in _CASES and not arguments and not keywords:
            return Val(base.code + (("CASE", _CASES[name]),), _STR, pure=False)
        return self.refuse(f".{name}()" + (" with these arguments" if name in _METHODS else ""))

    def strip(self, base: Val, sides: int, arguments: Sequence[Val]) -> Val:
        chars = arguments[0] if arguments and not (arguments[0].known and arguments[0].const is None) else None
        pure = base.types == _STR and base.pure and (chars is None or (chars.types == _STR and chars.pure))
        return Val(base.code + (chars.code if chars else ()) + (("STRIP", sides | (4 if chars else 0)),), _STR, pure=pure)

    def edge(self, base: Val, code: str, ends: Val) -> Val:
        if ends.known and type(ends.const) in (tuple, Items):
            values = ends.const.values if isinstance(ends.const, Items) else [self.known(v) for v in ends.const]
            first, base = self.again(base)
            result = self.known(False)
            for value in values:
                result = self.lazy(result, self.edge(base, code, value), True)
            return result._replace(code=first + result.code)
        return Val(base.code + ends.code + ((code, 0),), _BOOL, pure=base.types == ends.types == _STR and base.pure and ends.pure)

    def split(self, split: Split, index: Val | None) -> Val:
        """Part `index` of a split text, or how many parts there are."""
        code = split.text.code + split.separator.code + split.most.code + (index.code if index else self.known(None).code) + (("SPLIT", 0),)
        sure = split.text.types == _STR and split.text.pure and split.most.types == _INT and (
            split.separator.known and (split.separator.const is None or isinstance(split.separator.const, str) and split.separator.const != ""))
        if index is None:
            return Val(code, _INT, pure=sure)
        # The first part is always there when the separator is.
        always = split.separator.types == _STR and index.known and index.const in (0, -1)
        return Val(code, _STR if always else _types("str", "undefined"), pure=sure and index.types == _INT and index.pure)

    def string(self, value: Val) -> Val:
        return value if value.types == _STR else Val(value.code + (("STR", 0),), _STR, pure=value.pure and not value.types & {"list", "message", "other"})

    def x_Filter(self, node):
        if node.node is None:
            return self.refuse("a filter block")
        value = self.eval(node.node)
        arguments = [self.eval(n) for n in node.args]
        keywords = {k.key: self.eval(k.value) for k in node.kwargs}
        self.line = node.lineno
        everything = [value, *arguments, *keywords.values()]
        if refused := self.refused(*everything):
            return refused
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"the filter {node.name} with * or **")
        if all(v.known and v.pure and not isinstance(v.const, (*_OBJECTS, Items)) for v in everything) and node.name in self.environment.filters:
            return self.fold(lambda: self.environment.call_filter(node.name, value.const, [v.const for v in arguments], {k: v.const for k, v in keywords.items()},
                                                                  self.environment.from_string("").new_context(), nodes.EvalContext(self.environment)))
        method = getattr(self, "f_" + node.name, None)
        try:
            inspect.signature(method).bind(value, *arguments, **keywords)
        except TypeError:  # no such filter, or other arguments
            return self.refuse(f"the filter {node.name}" + (" with these arguments" if method else ""))
        result = method(value, *arguments, **keywords)
        return result if result is not None else self.refuse(f"the filter {node.name} here")

    def f_trim(self, value, chars=None):
        return self.strip(self.string(value), 3, [chars] if chars else [])

    def f_string(self, value):
        return self.string(value)

    def f_safe(self, value):
        return self.string(value)

    def f_list(self, value):
        return value if value.types == _LIST else None

    def f_reverse(self, value):
        return self.slice(value, [self.known(None), self.known(None), self.known(-1)]) if value.types == _LIST else None

    def f_length(self, value):
        if isinstance(value.const, Split):
            return self.split(value.const, None)
        if value.types == _OTHER:
            return None
        return Val(value.code + (("LENGTH", 0),), _INT, pure=value.pure and not value.types & {"none", "bool", "int"})

    f_count = f_length

    def case(self, value: Val, code: int) -> Val | None:
        return Val(self.string(value).code + (("CASE", code),), _STR, pure=False) if value.types != _OTHER else None

    def f_upper(self, value):
        return self.case(value, 0)

    def f_lower(self, value):
        return self.case(value, 1)

    def f_capitalize(self, value):
        return self.case(value, 2)

    def f_title(self, value):
        return self.case(value, 3)

    def f_first(self, value):
        return self.element(value, self.known(0)) if isinstance(value.const, Split) or value.types <= {"list"} else None

    def f_last(self, value):
        return self.element(value, self.known(-1)) if isinstance(value.const, Split) or value.types <= {"list"} else None

    def f_default(self, value, default_value=None, boolean=None):
        default_value = default_value or self.known("")
        if boolean is not None and not (boolean.known and boolean.pure):
            return None
        if boolean is not None and boolean.const:
            return self.lazy(value, default_value, True)
        if "undefined" not in value.types:
            return value
        if value.types == _UNDEFINED:
            return default_value if value.pure else default_value._replace(code=value.code + (("POP", 0),) + default_value.code, pure=False, shape=None)
        first, value = self.again(value)
        result = self.choice(self.kind_is(value, _TESTS["defined"]), value._replace(types=value.types - _UNDEFINED), default_value)
        return result._replace(code=first + result.code, shape=None if first else result.shape)

    f_d = f_default

    def f_replace(self, value, old=None, new=None):
        return self.call_method(self.string(value), "replace", [old, new], {}) if old is not None and new is not None else None

    def f_tojson(self, value, **options):
        """Of a single value the options for indents and separators change nothing."""
        if not all(v.known and v.pure for v in options.values()) or set(options) - {"indent", "separators", "sort_keys", "ensure_ascii"}:
            return None
        if "ensure_ascii" in options and options["ensure_ascii"].const or value.types & {"other"}:
            return None
        if value.types <= {"list", "message"}:
            return self.refuse("the filter tojson of a whole message")
        return Val(value.code + (("JSON", 0),), _STR, pure=value.pure and value.types <= {"str", "int", "bool", "none"})

    # ---- Statements

    def run(self, body: Iterable) -> None:
        for node in body:
            if self.state is None:
                return
            self.line = node.lineno
            self.code.append(("LINE", node.lineno))
            method = getattr(self, "s_" + type(node).__name__, None)
            if method:
                method(node)
            else:
                self.unsupported({"AssignBlock": "a set block", "CallBlock": "a call block", "FilterBlock": "a filter block", "ExprStmt": "do"}.get(
                    type(node).__name__, type(node).__name__.lower()))

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
                self.code.append(("TEXT", part.data))
                continue
            self.code.append(("LINE", part.lineno))
            if isinstance(part, nodes.Call) and isinstance(part.node, nodes.Name) and isinstance(self.lookup(part.node.name).const, Macro):
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
            text = [("TEXT", str(value.const))] if str(value.const) else []
            return text if value.pure else [*value.code, ("POP", 0), *text]
        if value.shape and value.shape[0] == "cat":
            return [i for part, s in value.shape[1] for i in self.written(part, s)]
        if value.shape and value.shape[0] == "cond":
            _, test, yes, no = value.shape
            other, end = Label(), Label()
            return [*test.code, ("JUMP_FALSE", other), *self.written(yes, strict), ("JUMP", end), ("LABEL", other), *self.written(no, strict), ("LABEL", end)]
        return [*value.code, ("EMIT_STRING" if strict and value.types != _STR else "EMIT", 0)]

    def s_Assign(self, node):
        target = node.target
        if isinstance(target, nodes.NSRef):
            space = self.lookup(target.name).const
            if not isinstance(space, Namespace):
                return self.unsupported(f"{target.name}.{target.attr}: {target.name} is no namespace here")
            return self.store(("namespace", space.key, target.attr), self.eval(node.node))
        if not isinstance(target, nodes.Name):
            return self.unsupported("a set of several names")
        call = node.node
        if isinstance(call, nodes.Call) and isinstance(call.node, nodes.Name) and self.lookup(call.node.name).const == Function("namespace"):
            return self.make_namespace(target.name, call)
        self.store((self.scopes[-1], target.name), self.eval(node.node))

    def make_namespace(self, name: str, call: Any) -> None:
        if call.args or call.dyn_args or call.dyn_kwargs:
            return self.unsupported("namespace() with these arguments")
        given = {k.key: self.eval(k.value) for k in call.kwargs}
        space = Namespace(id(call))
        for attr in [*given, *sorted(self.names.get(name, set()) - set(given))]:
            self.store(("namespace", space.key, attr), given.get(attr, self.known(self.undefined(attr))))
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
        outer = {name: self.lookup(name) for name in sorted(names)}
        self.scopes.append(scope)
        for name, value in outer.items():
            self.store((scope, name), value)

    def leave(self, scope: Any) -> None:
        self.scopes.pop()
        if self.state is not None:
            self.state = {k: v for k, v in self.state.items() if k[0] != scope}

    def s_Scope(self, node):
        self.enter(id(node), _assigned(node.body))
        self.run(node.body)
        self.leave(id(node))

    def s_With(self, node):
        if not all(isinstance(t, nodes.Name) for t in node.targets):
            return self.unsupported("with of several names")
        values = [self.eval(v) for v in node.values]
        self.enter(id(node), _assigned(node.body))
        for target, value in zip(node.targets, values):
            self.store((id(node), target.name), value)
        self.run(node.body)
        self.leave(id(node))

    def s_Macro(self, node):
        self.store((self.scopes[-1], node.name), self.known(Macro(node, tuple(self.scopes))))

    def s_AssignBlock(self, node):
        if not isinstance(node.target, nodes.Name) or node.filter is not None:
            return self.unsupported("a set block of this kind")
        if _assigned(node.body):
            return self.unsupported("a set block that sets others")
        value = self.captured(lambda: self.run(node.body))
        self.store((self.scopes[-1], node.target.name), value)

    def s_For(self, node):
        items = self.eval(node.iter)
        self.line = node.lineno
        if node.recursive or not isinstance(node.target, nodes.Name):
            return self.unsupported("a recursive loop" if node.recursive else "a loop with several names")
        if items.types == _UNDEFINED:
            if not items.pure:
                self.code += [*items.code, ("POP", 0)]
            return self.run(node.else_)
        if items.known and type(items.const) in (list, tuple, Items):
            values = items.const.values if isinstance(items.const, Items) else [self.known(v) for v in items.const]
            return self.unrolled(node, values)
        if "list" not in items.types:
            what = "a message's fields" if items.types == _MESSAGE else "text" if "str" in items.types else "split()" if isinstance(items.const, Split) else "this"
            return self.unsupported(f"a loop over {what}")
        if node.test is not None:
            return self.unsupported("a loop with a condition")
        if node.else_ and any(node.find_all((nodes.Break, nodes.Continue))):  # jinja2 takes `else` there too when no round came to its end
            return self.unsupported("else of a loop with break or continue")
        if self.level >= MAX_LOOPS:
            return self.unsupported(f"more than {MAX_LOOPS} loops over messages in one another")
        self.message_loop(node, items)

    def message_loop(self, node: Any, items: Val) -> None:
        start, following, empty, end = Label(), Label(), Label(), Label()
        scope, level = id(node), self.level
        names = _assigned(node.body) - {node.target.name, "loop"}
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
        self.code += [*items.code, ("FOR", empty), ("LABEL", start), *code, ("LABEL", following), ("NEXT", start), ("JUMP", end), ("LABEL", empty)]
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
        return known and a.types == b.types and a.role == b.role and a.truth == b.truth and a.code == b.code

    def unrolled(self, node: Any, values: Sequence[Val]) -> None:
        if node.test is not None or len(values) > 64 or any(node.find_all((nodes.Break, nodes.Continue))):
            return self.unsupported("this loop over a list")
        if not values:
            return self.run(node.else_)
        for i, value in enumerate(values):
            if self.state is None:
                return
            scope = (id(node), i)
            self.enter(scope, _assigned(node.body) - {node.target.name, "loop"})
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
        for name in sorted(_assigned(self.tree.body)):
            value = self.lookup(name)
            self.store((0, name), value)
        self.run(self.tree.body)
        self.code.append(("END", 0))
        return Assembler(self.code).section(0 if self.any_role else 1)


class _Bound(NamedTuple):
    """A method of a value that is known."""

    function: Callable
