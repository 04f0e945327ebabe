"""Calls and filters of a chat template: functions, methods of texts and messages, and what stands
behind a bar. A method f_NAME is the filter NAME of a value that is not known at conversion."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

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
    Selected,
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
    **dict.fromkeys(V.VIEWS, (0,)),
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

    def call_function(self, name: str, arguments: list[Val], keywords: dict[str, Any]) -> Val:
        value = None
        if not keywords and name == "raise_exception" and len(arguments) == 1:
            return self.op("RAISE", self.string(arguments[0]), sure=False, types=UNDEFINED)
        if not keywords and name == "strftime_now" and len(arguments) == 1:
            value = self.folded(partial(V.written_day, self.date), *arguments)
        if not keywords and name == "range":
            value = self.folded(V.numbers, *arguments)
        return value or self.refuse(f"{name}() here")

    def call_get(self, target: Method, arguments: list[Val], keywords: dict[str, Any]) -> Val:
        key = arguments[0].const if arguments else None
        if target.name != "get" or keywords or len(arguments) > 2 or not isinstance(key, str):
            return self.refuse(f".{target.name}() of a message")
        value = self.message_field(target.base, key)
        if value.types != UNDEFINED:
            return value
        return after(value, arguments[1] if len(arguments) == 2 else self.known(None))

    def call_method(
        self, base: Val, name: str, arguments: list[Val], keywords: dict[str, Any]
    ) -> Val:
        if name == "split" and len(arguments) <= 2 and set(keywords) <= {"sep", "maxsplit"}:
            given = dict(zip(("sep", "maxsplit"), arguments)) | keywords
            arguments = [
                given.get("sep", self.known(None)),
                given.get("maxsplit", self.known(-1)),
            ]
            keywords = {}
        if name not in _ARGUMENTS or name in V.METHODS[dict] and type(base.const) is not dict:
            return self.refuse(f".{name}()")
        if keywords or len(arguments) not in _ARGUMENTS[name]:
            return self.refuse(f".{name}() with these arguments")
        if value := self.folded(partial(V.method, name), base, *arguments):
            return self.passed_once(f".{name}()", value) if name in V.VIEWS else value
        if name in V.METHODS[dict]:
            return self.refuse(f".{name}() with these arguments")
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
            value = self.fold(method, *given, **keywords)
            return self.passed_once("the filter items", value) if name == "items" else value
        return method(self, *given, **keywords) or self.refuse(f"the filter {name} here")

    def passed_once(self, what: str, items: Val) -> Val:
        """A list that jinja2 makes no list of: it has neither a length nor indexes."""
        sure = items.sure and type(items.const) is list
        return self.other(f"{what} here", Reversed(items)) if sure else items

    def selected(self, keep: bool, value: Val, attribute: Val, name: Val | None, *rest: Val) -> Any:
        """selectattr and rejectattr of messages."""
        source = value.const if isinstance(value.const, Selected) else Selected(value, ())
        if isinstance(value.const, Reversed):
            source = Selected(value.const.items, ())
        given = [v for v in (attribute, name) if v is not None]
        if source.items.types != LIST or not all(v.constant for v in (*given, *rest)):
            return None
        if not all(type(v.const) is str and v.const.isidentifier() or v is name for v in given):
            return None

        def test(item: Val) -> Val:
            found = self.attribute(item, attribute.const, True)
            passes = found if name is None else self.passes(name.const, found, [*rest])
            return passes if keep else self.negated(passes)

        of_one = test(self.op("ITEM", arg=0, types=MESSAGE))
        if refused := self.refused(of_one):
            return refused
        if not of_one.pure:
            return None
        if of_one.truth is False:
            return self.passed_once("an empty list", self.fold(list))
        tests = source.tests if of_one.truth else (*source.tests, test)
        if not tests:
            return self.other("selectattr here", Reversed(source.items))
        return self.other("selectattr here", Selected(source.items, tests))

    def f_selectattr(self, value, attribute, name=None, *rest):
        return self.selected(True, value, attribute, name, *rest)

    def f_rejectattr(self, value, attribute, name=None, *rest):
        return self.selected(False, value, attribute, name, *rest)

    def f_trim(self, value, chars=None):
        return self.strip(self.string(value), _BOTH, chars)

    def f_string(self, value):
        return self.string(value)

    def f_list(self, value):
        if isinstance(value.const, Reversed):
            return value.const.items
        if isinstance(value.const, Selected):
            return self.other("selectattr here", value.const._replace(listed=True))
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
        if isinstance(value.const, Selected) and value.const.listed:
            return self.counted(value.const)
        return None if value.types == OTHER else self.op("LENGTH", value)

    f_count = f_length
    f_upper, f_lower, f_capitalize, f_title = map(_case, range(4))

    def f_first(self, value):
        if isinstance(value.const, (Reversed, Selected)):
            value = self.f_list(value)
        return self.folded(V.FILTERS["first"], value) or self.at(value, 0)

    def f_last(self, value):
        return self.at(value, -1)

    def at(self, value, index):
        listed = isinstance(value.const, Split) or value.types <= LIST
        if isinstance(value.const, Selected):
            listed = value.const.listed
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
