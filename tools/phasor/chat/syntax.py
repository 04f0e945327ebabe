"""The syntax of chat templates: jinja2's lexer and parser, set up as transformers sets them up.

Nothing else of jinja2 is used, and a text is measured before it is parsed, so that the parser's
recursion and what follows from the tree are bounded."""

from __future__ import annotations

from typing import Any, Iterable

from phasor.chat.instructions import Excess, Refused
from phasor.errors import PhasorError

try:
    import jinja2
    import jinja2.ext
    import jinja2.parser
    from jinja2 import nodes as nodes
except ImportError:  # said where it is needed
    jinja2 = nodes = None  # type: ignore[assignment]

MAX_SOURCE = 1 << 18  # characters of a template
MAX_TOKENS = 1 << 14
MAX_BLOCKS = 20  # statements in one another
MAX_BRACKETS = 20  # in one another
MAX_CHAIN = 80  # operators, filters and brackets of one expression that stand in one another
MAX_DIGITS = 20  # of a number

_OPENS = set("for if block macro call filter set with autoescape generation".split())
_CHAINS = set("+ - * / // % ** | . and or not is if else".split())


def parse(source: str) -> Any:
    """The tree of a template, or Refused."""
    if jinja2 is None:
        raise PhasorError(
            "chat template: needs the Python package jinja2 (pip install jinja2), or --chat none"
        )
    if type(source) is not str:
        raise Refused(f"chat template: expected a text, got {type(source).__name__}")
    if len(source) > MAX_SOURCE:
        raise Excess(f"chat template: {len(source):,} characters, at most {MAX_SOURCE:,}")
    try:
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(
            "half a character (a surrogate)", 1 + source.count("\n", 0, error.start)
        ) from error

    class Generation(jinja2.ext.Extension):
        """The block that transformers adds: what is inside of it."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    try:
        _measure(environment.lexer.tokeniter(source, None))
        return jinja2.parser.Parser(environment, source).parse()
    except jinja2.TemplateSyntaxError as error:
        raise Refused(f"chat template, line {error.lineno}: {error.message}") from error


def _measure(tokens: Iterable[tuple[int, str, str]]) -> None:
    """Refuses what is too large, or would nest too deeply. Of each bracket that is open: the
    operators that may stand in one another, the most that do inside of its brackets, the most of
    both before a comma."""
    count = blocks = 0
    tag: str | None = ""
    levels = [[0, 0, 0]]
    for line, kind, text in tokens:
        count += kind != "whitespace"
        if kind in ("block_begin", "variable_begin"):
            tag, levels = None if kind == "block_begin" else "", [[0, 0, 0]]
        elif kind in ("integer", "float") and (len(text) > MAX_DIGITS or not text.isascii()):
            raise Excess(f"a number of more than {MAX_DIGITS} digits", line)
        elif kind == "name" and tag is None:
            tag = text
            blocks += (text in _OPENS) - text.startswith("end")
        elif kind == "operator" and text == "=" and tag == "set" and len(levels) == 1:
            tag, blocks = "", blocks - 1
        elif kind == "operator" and text in ("(", "[", "{"):
            levels[-1][0] += 1
            levels.append([0, 0, 0])
        elif kind == "operator" and text in (",", ":", ")", "]", "}"):
            operators, inside, most = levels[-1]
            levels[-1] = [0, 0, max(most, operators + inside)]
            if text not in (",", ":") and len(levels) > 1:
                most = levels.pop()[2]
                levels[-1][1] = max(levels[-1][1], most)
        elif kind in ("operator", "name") and text in _CHAINS:
            levels[-1][0] += 1
        for what, found, most in (
            ("tokens", count, MAX_TOKENS),
            ("brackets in one another", len(levels) - 1, MAX_BRACKETS),
            ("blocks in one another", blocks - (tag == "set"), MAX_BLOCKS),
            ("operators in one another", levels[-1][0] + levels[-1][1], MAX_CHAIN),
        ):
            if found > most:
                raise Excess(f"a template of more than {most:,} {what}", line)


def assigned(node: Any) -> set[str]:
    """Names that the statements of a body set in their own scope: not those of loops inside."""
    found: set[str] = set()
    waiting = list(node.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (nodes.Assign, nodes.AssignBlock)):
            names = node.target, *node.target.find_all(nodes.Name)
            found |= {name.name for name in names if isinstance(name, nodes.Name)}
        elif isinstance(node, nodes.Macro):
            found.add(node.name)
        elif isinstance(node, nodes.If):
            waiting += [*node.body, *node.elif_, *node.else_]
    return found
