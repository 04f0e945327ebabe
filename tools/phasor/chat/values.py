"""The values of a chat template that are known at conversion, and what may be done with them.

Values are undefined, none, false and true, whole numbers, texts, and lists, tuples and dicts of
these; the functions are those of the tables here. No attribute of a value is looked up and nothing
is called by a name of the template's: what is not in a table is refused. chat-templates.md has the
list and the limits."""

from __future__ import annotations

import datetime
import json
import operator
import re
from typing import Any, Callable

from phasor.chat.instructions import BITS

MAX_TEXT = 1 << 18  # characters of a text
MAX_PARTS = 1 << 12  # values in a list or dict, and in those that it has
MAX_INSIDE = 16  # lists and dicts in one another
MAX_RANGE = 1000
MAX_INDENT = 16  # of tojson
MAX_NUMBER = (1 << 31) - 1


class Undefined:
    """What jinja2 makes of a name that is not there."""

    def __init__(self, name: str = "") -> None:
        self.text = f"{name!r} is undefined" if name else "a value is undefined"

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return type(other) is Undefined

    def __hash__(self) -> int:
        return hash(Undefined)


class Failure(Exception):
    """What jinja2 raises where the template runs."""


class Unsupported(Exception):
    """What a template may not ask for; the text names it."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {
    Undefined: "undefined",
    type(None): "none",
    bool: "bool",
    int: "int",
    str: "str",
    list: "list",
    tuple: "list",
    dict: "message",
}
# What jinja2 would find on these by a name: refused, but for the methods below.
NAMES = {kind: frozenset(dir(kind)) for kind in (type(None), bool, int, str, list, tuple, dict)}


def kind(value: Any) -> str:
    return _KINDS.get(type(value), "")


def cost(value: Any) -> int:
    """How much there is of a value: refused where it is too much, or none of ours."""
    total, waiting = 0, [(value, 0)]
    while waiting:
        value, depth = waiting.pop()
        total += 1
        if type(value) is str:
            if len(value) > MAX_TEXT:
                raise Unsupported(f"a text of more than {MAX_TEXT:,} characters")
            if _SURROGATE.search(value):
                raise Unsupported("half a character (a surrogate)")
            total += len(value) >> 6
        elif type(value) is int:
            if abs(value) > MAX_NUMBER:
                raise Unsupported(f"a number beyond ±{MAX_NUMBER:,}")
        elif type(value) in (list, tuple, dict):
            inside = [*value, *value.values()] if type(value) is dict else value
            if depth == MAX_INSIDE:
                raise Unsupported(f"more than {MAX_INSIDE} lists in one another")
            if len(inside) + len(waiting) > MAX_PARTS:
                raise Unsupported(f"a list of more than {MAX_PARTS:,} values")
            waiting += [(part, depth + 1) for part in inside]
        elif not kind(value):
            raise Unsupported(
                "a number with a point"
                if type(value) is float
                else f"{type(value).__name__} as a value"
            )
        if total > MAX_PARTS + (MAX_TEXT >> 6):
            raise Unsupported(f"a list of more than {MAX_PARTS:,} values")
    return total


def _defined(*values: Any) -> None:
    for value in values:
        if type(value) is Undefined:
            raise Failure(value.text)


def _try(compute: Callable[..., Any], *values: Any) -> Any:
    """Of values of ours Python's own operators, and what they raise."""
    _defined(*values)
    try:
        return compute(*values)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise Failure(str(error)) from error


def text(value: Any) -> str:
    """As jinja2 writes it."""
    if type(value) in (list, tuple, dict):
        raise Unsupported("a list as a value" if type(value) is not dict else "a table as a value")
    return "" if type(value) is Undefined else str(value)


# ---- Operators -----------------------------------------------------------------------------------

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


def operate(name: str, left: Any, right: Any) -> Any:
    if name == "%" and type(left) is str:
        raise Unsupported("% of text")
    if name == "*":
        lengths = [len(v) for v in (left, right) if type(v) in (str, list, tuple)]
        counts = [v for v in (left, right) if type(v) in (int, bool)]
        if lengths and counts and lengths[0] * counts[0] > MAX_TEXT:
            raise Unsupported(f"a text of more than {MAX_TEXT:,} characters")
    if name in ("eq", "ne"):
        return OPERATORS[name](left, right)
    return _try(OPERATORS[name], left, right)


def negative(value: Any) -> Any:
    return _try(operator.neg, value)


def contains(item: Any, inside: Any) -> bool:
    if type(inside) is Undefined:
        return False
    if type(inside) in (list, tuple):
        return item in inside
    return _try(operator.contains, inside, item)


def joined(*values: Any) -> str:
    """The operator ~."""
    return "".join(text(value) for value in values)


def table(*pairs: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return dict(pairs)
    except TypeError as error:
        raise Failure(str(error)) from error


def element(value: Any, index: Any) -> Any:
    _defined(value)
    if type(value) in (str, list, tuple, dict):
        try:
            return value[index]
        except (TypeError, LookupError):
            pass
    return Undefined(str(index) if type(index) in (int, str) else "")


def cut(value: Any, *bounds: Any) -> Any:
    return _try(lambda value, *bounds: value[slice(*bounds)], value, *bounds)


# ---- Methods -------------------------------------------------------------------------------------


def _replace(value: str, old: str, new: str) -> str:
    if len(value) + value.count(old) * (len(new) - len(old)) > MAX_TEXT:
        raise Unsupported(f"a text of more than {MAX_TEXT:,} characters")
    return value.replace(old, new)


def _get(value: dict[str, Any], key: Any, default: Any = None) -> Any:
    try:
        return value.get(key, default)
    except TypeError as error:
        raise Failure(str(error)) from error


def _items(value: dict[str, Any]) -> list[Any]:
    return list(value.items())


METHODS = {
    str: {
        "replace": _replace,
        **{
            name: getattr(str, name)
            for name in (
                "strip lstrip rstrip startswith endswith split upper lower capitalize title"
            ).split()
        },
    },
    dict: {
        "get": _get,
        "items": _items,
        "keys": list,
        "values": lambda value: list(value.values()),
    },
}
VIEWS = ("items", "keys", "values")  # gone through, without an index


def method(name: str, value: Any, *arguments: Any) -> Any:
    function = METHODS.get(type(value), {}).get(name)
    if function is None:
        raise Unsupported(f".{name}()")
    return function(value, *arguments) if function is _get else _try(function, value, *arguments)


# ---- Filters -------------------------------------------------------------------------------------


def _list(value: Any) -> list[Any]:
    if type(value) is Undefined:
        return []
    if type(value) not in (str, list, tuple, dict):
        raise Failure(f"{type(value).__name__!r} object is not iterable")
    return list(value)


def _length(value: Any) -> int:
    return 0 if type(value) is Undefined else _try(len, value)


def _title(value: Any) -> str:
    words = re.split(r"([-\s({\[<]+)", text(value))
    return "".join(word[0].upper() + word[1:].lower() for word in words if word)


def _join(value: Any, d: Any = "") -> str:
    parts, between = [text(part) for part in _list(value)], text(d)
    if sum(map(len, parts)) + len(between) * len(parts) > MAX_TEXT:
        raise Unsupported(f"a text of more than {MAX_TEXT:,} characters")
    return between.join(parts)


def _tojson(
    value: Any,
    *,
    ensure_ascii: Any = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: Any = False,
) -> str:
    """As transformers has it."""
    indents = indent is None or type(indent) in (int, bool) and 0 <= indent <= MAX_INDENT
    parted = (
        separators is None
        or type(separators) in (list, tuple)
        and len(separators) == 2
        and all(type(part) is str and len(part) <= MAX_INDENT for part in separators)
    )
    if not indents or not parted or type(ensure_ascii) is not bool or type(sort_keys) is not bool:
        raise Unsupported("the filter tojson with these arguments")
    return _try(
        lambda *_: json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        ),
        value,
    )


def _pairs(value: Any) -> list[Any]:
    if type(value) is Undefined:
        return []
    if type(value) is not dict:
        raise Unsupported("the filter items of what is no table")
    return _items(value)


def _folded_case(value: Any) -> Any:
    return value.lower() if type(value) is str else value


def _dictsort(
    value: Any, case_sensitive: Any = False, by: Any = "key", reverse: Any = False
) -> list[Any]:
    place = {"key": 0, "value": 1}.get(by) if type(by) is str else None
    if place is None:
        raise Failure('You can only sort by either "key" or "value"')
    if type(value) is not dict:
        raise Failure(f"{type(value).__name__!r} object has no attribute 'items'")
    same = (lambda part: part) if case_sensitive else _folded_case
    order = lambda pairs, last: sorted(pairs, key=lambda pair: same(pair[place]), reverse=last)
    return _try(order, _items(value), bool(reverse))


FILTERS = {
    "dictsort": _dictsort,
    "items": _pairs,
    "trim": lambda value, chars=None: _try(str.strip, text(value), chars),
    "string": text,
    "list": _list,
    "length": _length,
    "count": _length,
    "first": lambda value: next(iter(_list(value)), Undefined()),
    "last": lambda value: next(iter(_list(value)[::-1]), Undefined()),
    "replace": lambda s, old, new: _replace(text(s), text(old), text(new)),
    "upper": lambda s: text(s).upper(),
    "lower": lambda s: text(s).lower(),
    "capitalize": lambda s: text(s).capitalize(),
    "title": _title,
    "join": _join,
    "tojson": _tojson,
}

# ---- Tests and functions -------------------------------------------------------------------------

TESTS = {
    "defined": 254,
    "undefined": 1,
    "none": 2,
    "boolean": 12,
    "false": 4,
    "true": 8,
    "integer": 16,
    "number": 28,
    "float": 0,
    "string": 32,
    "mapping": 128,
    "iterable": 1 | 32 | 64 | 128,
    "sequence": 1 | 32 | 64 | 128,
    "callable": 1,
}
COMPARISONS = {
    "equalto": "eq",
    "==": "eq",
    "eq": "eq",
    "ne": "ne",
    "!=": "ne",
    "lt": "lt",
    "lessthan": "lt",
    "<": "lt",
    "le": "lteq",
    "<=": "lteq",
    "gt": "gt",
    "greaterthan": "gt",
    ">": "gt",
    "ge": "gteq",
    ">=": "gteq",
    "in": "in",
}
DIVISIONS = {"odd": 1, "even": 0, "divisibleby": 0}  # what remains

FUNCTIONS = ("raise_exception", "namespace", "range", "strftime_now")
ABSENT = ("dict", "lipsum", "cycler", "joiner", "self")  # jinja2 has these, a template here has not
DIRECTIVES = "aAbBdjmyYHIMSp%"


def bits(value: Any) -> int:
    if type(value) is bool:
        return 8 if value else 4
    return BITS[kind(value)]


def numbers(*bounds: Any) -> list[Any]:
    """range()."""
    found = _try(range, *bounds)
    if len(found) > MAX_RANGE:
        raise Unsupported(f"a range() of more than {MAX_RANGE:,} numbers")
    return list(found)


def written_day(day: datetime.date, form: Any) -> str:
    """strftime_now(), its directives one by one."""
    if type(form) is not str:
        raise Failure("strftime_now() takes a text")
    out, letters = [], iter(form)
    for letter in letters:
        if letter == "%":
            directive = next(letters, "")
            if not directive or directive not in DIRECTIVES:
                raise Unsupported(f"strftime_now() with %{directive}")
            letter = datetime.datetime.combine(day, datetime.time()).strftime("%" + directive)
        out.append(letter)
    return "".join(out)
