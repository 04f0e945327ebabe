"""Calls and filters of a chat template: functions, methods of texts and messages, and what stands
behind a bar. A method f_NAME is the filter NAME of a value that is not known at conversion."""

from __future__ import annotations

import inspect
from functools import partial

from phasor.chat import values as V
from phasor.chat.abstract import (
    INT,
    LIST,
    MESSAGE,
    OTHER,
    STR,
    UNDEFINED,
    Function,
    Items,
    Macro,
    Method,
    Reversed,
    Split,
    Val,
    after,
    failing,
    kinds,
)
from phasor.chat.expressions import Expressions
from phasor.chat.instructions import STRIP_CHARS, STRIP_LEFT, STRIP_RIGHT
from phasor.chat.syntax import nodes

_BOTH = STRIP_LEFT | STRIP_RIGHT
_STRIPS = {"strip": _BOTH, "lstrip": STRIP_LEFT, "rstrip": STRIP_RIGHT}
_CASES = {"upper": 0, "lower": 1, "capitalize": 2, "title": 4}  # 3 is the filter title
_EDGES = {"startswith": "STARTS", "endswith": "ENDS"}
_ARGUMENTS = {  # how many
    **dict.fromkeys(_STRIPS, (0, 1)),
    **dict.fromkeys(_CASES, (0,)),
    **dict.fromkeys(_EDGES, (1,)),
    "replace": (2,),
    "split": (2,),
    "get": (1, 2),
}


def _case(how: int):
    return lambda self, value: (
        None if value.types == OTHER else self.op("CASE", self.string(value), arg=how, sure=False)
    )


class Calls(Expressions):
    def given(self, node) -> tuple[list[Val], dict[str, Val]]:
        """The arguments of a call or a filter."""
        arguments = [self.eval(n) for n in node.args]
        keywords = {k.key: self.eval(k.value) for k in node.kwargs}
        self.line = node.lineno
        return arguments, keywords

    # ---- Calls

    def x_Call(self, node):
        function = self.eval(node.node)
        target = function.const
        if isinstance(target, Macro):
            return self.call_macro(target, node)
        arguments, keywords = self.given(node)
        named = isinstance(node.node, nodes.Name)
        name = node.node.name if named else getattr(node.node, "attr", "a call")
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"{name}() with * or **")
        if refused := self.refused(function, *arguments, *keywords.values()):
            return refused
        if isinstance(target, Function):
            return self.call_function(target.name, arguments, keywords)
        if isinstance(target, Method):
            if target.base.types <= {"message", "undefined"}:
                return self.call_get(target, arguments, keywords)
            return self.call_method(target.base, target.name, arguments, keywords)
        return self.refuse(f"{name}()" if named else f".{name}()")

    def call_function(self, name: str, arguments: list[Val], keywords: dict) -> Val:
        value = None
        if not keywords and name == "raise_exception" and len(arguments) == 1:
            return self.op("RAISE", self.string(arguments[0]), sure=False, types=UNDEFINED)
        if not keywords and name == "strftime_now" and len(arguments) == 1:
            value = self.folded(partial(V.written_day, self.date), *arguments)
        if not keywords and name == "range":
            value = self.folded(V.numbers, *arguments)
        return value or self.refuse(f"{name}() here")

    def call_get(self, target: Method, arguments: list[Val], keywords: dict) -> Val:
        key = arguments[0].const if arguments else None
        if target.name != "get" or keywords or len(arguments) > 2 or not isinstance(key, str):
            return self.refuse(f".{target.name}() of a message")
        value = self.message_field(target.base, key)
        if value.types != UNDEFINED:
            return value
        return after(value, arguments[1] if len(arguments) == 2 else self.known(None))

    def call_method(self, base: Val, name: str, arguments: list[Val], keywords: dict) -> Val:
        if name == "split" and len(arguments) <= 2 and set(keywords) <= {"sep", "maxsplit"}:
            given = dict(zip(("sep", "maxsplit"), arguments)) | keywords
            arguments = [
                given.get("sep", self.known(None)),
                given.get("maxsplit", self.known(-1)),
            ]
            keywords = {}
        if name not in _ARGUMENTS or name == "get" and type(base.const) is not dict:
            return self.refuse(f".{name}()")
        if keywords or len(arguments) not in _ARGUMENTS[name]:
            return self.refuse(f".{name}() with these arguments")
        if value := self.folded(partial(V.method, name), base, *arguments):
            return value
        if name == "get":
            return self.refuse(".get() with these arguments")
        if name in _STRIPS:
            return self.strip(base, _STRIPS[name], *arguments)
        if name in _EDGES:
            return self.edge(_EDGES[name], base, *arguments)
        if name == "split":
            return self.other("split() without an index", Split(base, *arguments))
        if name == "replace":
            return self.op("REPLACE", base, *arguments)
        return self.op("CASE", base, arg=_CASES[name], sure=False)

    def strip(self, base: Val, sides: int, chars: Val | None = None) -> Val:
        if chars is None or chars.known and chars.const is None:
            return self.op("STRIP", base, arg=sides)
        return self.op("STRIP", base, chars, arg=sides | STRIP_CHARS)

    def edge(self, code: str, base: Val, ends: Val) -> Val:
        if isinstance(ends.const, Items) or type(ends.const) is tuple:
            ends = ends.const.values if isinstance(ends.const, Items) else ends.const
            return self.any_of(ends, base, partial(self.edge, code))
        return self.op(code, base, ends)

    def split(self, split: Split, index: Val | None) -> Val:
        """Part `index` of a split text, or how many parts there are."""
        by = split.separator
        sure = split.most.types == INT and by.known and by.const != ""
        value = self.op("SPLIT", *split, index or self.known(None), sure=sure)
        if index is None:
            return value._replace(types=INT)
        # The first part is always there when the separator is.
        always = by.types == STR and index.known and index.const in (0, -1)
        types = STR if always else kinds("str", "undefined")
        return value._replace(types=types, pure=value.pure and index.types == INT)

    # ---- Filters

    def x_Filter(self, node):
        if node.node is None:
            return self.refuse("a filter block")
        name, value = node.name, self.eval(node.node)
        arguments, keywords = self.given(node)
        everything = [value, *arguments, *keywords.values()]
        if refused := self.refused(*everything) or failing(*everything):
            return refused
        if node.dyn_args or node.dyn_kwargs:
            return self.refuse(f"the filter {name} with * or **")
        known = all(v.constant for v in everything) and name in V.FILTERS
        method = V.FILTERS[name] if known else FILTERS.get(name)
        if method is None:
            how = " here" if name in V.FILTERS or name == "safe" else ""
            return self.refuse(f"the filter {name}{how}")
        given = value, *arguments
        try:
            inspect.signature(method).bind(*(() if known else (self,)), *given, **keywords)
        except TypeError:
            return self.refuse(f"the filter {name} with these arguments")
        if known:
            return self.fold(method, *given, **keywords)
        return method(self, *given, **keywords) or self.refuse(f"the filter {name} here")

    def f_trim(self, value, chars=None):
        return self.strip(self.string(value), _BOTH, chars)

    def f_string(self, value):
        return self.string(value)

    def f_list(self, value):
        if isinstance(value.const, Reversed):
            return value.const.items
        return value if value.types == LIST else None

    def f_reverse(self, value):
        known = type(value.const) if value.constant else None
        if value.types != LIST and known not in (str, list, tuple):
            return None
        items = self.slice(value, self.known(None), self.known(None), self.known(-1))
        return items if known is str else self.other("the filter reverse here", Reversed(items))

    def f_length(self, value):
        if isinstance(value.const, Split):
            return self.split(value.const, None)
        return None if value.types == OTHER else self.op("LENGTH", value)

    f_count = f_length
    f_upper, f_lower, f_capitalize, f_title = map(_case, range(4))

    def f_first(self, value):
        value = value.const.items if isinstance(value.const, Reversed) else value
        return self.folded(V.FILTERS["first"], value) or self.at(value, 0)

    def f_last(self, value):
        return self.at(value, -1)

    def at(self, value, index):
        listed = isinstance(value.const, Split) or value.types <= LIST
        return self.element(value, self.known(index)) if listed else None

    def f_default(self, value, default_value=None, boolean=None):
        default_value = default_value or self.known("")
        if boolean is not None and not boolean.sure:
            return None
        if boolean is not None and boolean.const:
            return self.lazy(value, default_value, True)
        if "undefined" not in value.types:
            return value
        if value.types == UNDEFINED:
            return after(value, default_value)
        pure, (first, value) = value.pure, self.again(value)
        defined = value._replace(types=value.types - UNDEFINED)
        result = self.choice(self.kind_is(value, V.TESTS["defined"]), defined, default_value)
        shape = None if first else result.shape
        return result._replace(code=first + result.code, shape=shape, pure=pure and result.pure)

    f_d = f_default

    def f_replace(self, value, old, new):
        return self.call_method(self.string(value), "replace", [old, new], {})

    def f_tojson(self, value, *, indent=None, separators=None, sort_keys=None, ensure_ascii=None):
        """Of a single value the options for indents and separators change nothing."""
        options = [v for v in (indent, separators, sort_keys, ensure_ascii) if v is not None]
        if not all(v.sure for v in options) or "other" in value.types:
            return None
        if ensure_ascii is not None and ensure_ascii.const:
            return None
        if value.types <= LIST | MESSAGE:
            return self.refuse("the filter tojson of a whole message")
        return self.op("JSON", value)


FILTERS = {name[2:]: method for name, method in vars(Calls).items() if name.startswith("f_")}
