"""A chat template (Jinja, as Hugging Face's tokenizers have it) as a chat program: data that the
engine runs (docs/reference/file-format.md, CHAT).

`compile_template` parses a template with jinja2, never runs it, and keeps what can happen in a
conversation without tools: messages with a role and a text. What is known at conversion (special
tokens, `tools` and `documents` that are none) is computed here, and branches that cannot be reached
vanish. A construct that remains and is not in the subset is refused with its line. A template that
needs only the roles system, user and assistant to be in the subset gets a program that refuses
other roles.
"""

from __future__ import annotations

import datetime
from typing import Any

from phasor.chat import syntax as chat_syntax
from phasor.chat.compiler import Compiler
from phasor.chat.content import lines_on_content
from phasor.chat.instructions import Excess
from phasor.chat.instructions import Refused as Refused
from phasor.chat.state import Work
from phasor.errors import PhasorError


def compile_template(
    template: str, variables: dict[str, Any], date: datetime.date | None = None
) -> bytes:
    """The section of a template. `variables` has the special tokens (bos_token, …) and what else
    the template may read; with a date strftime_now is that day, without one it is not defined.
    Refused, with the line, where the template needs what a program does not have."""
    try:
        tree, work = chat_syntax.parse(template), Work()
        try:
            return Compiler(tree, variables, date, True, work).compile()
        except Excess:
            raise
        except Refused:
            return Compiler(tree, variables, date, False, work).compile()
    except RecursionError as error:
        raise Excess("chat template: nested too deeply") from error


def _compiles(template: str, variables: dict[str, Any]) -> bool:
    """Whether a day is all that the template lacks."""
    try:
        return bool(compile_template(template, variables, datetime.date(2000, 1, 1)))
    except Refused:
        return False


def section_of(
    template: str, variables: dict[str, Any], date: str | None, notes: list[str]
) -> bytes:
    """The chat program of a template. notes gets what a person should know."""
    try:
        day = datetime.date.fromisoformat(date) if date else None
    except ValueError as error:
        raise PhasorError(f"--chat-date {date}: expected a day such as 2025-01-31") from error
    try:
        section = compile_template(template, variables, day)
    except Refused as error:
        if day is None and "strftime_now" in template and _compiles(template, variables):
            raise Refused(f"{error} (--chat-date YYYY-MM-DD says which day it is)") from error
        raise
    if section[4] & 1:
        notes.append(
            "chat template: the roles are system, user and assistant; what it does for others is "
            "not kept"
        )
    if day is None and "strftime_now" in template:
        notes.append("chat template: it would tell the model the day; --chat-date gives it one")
    if lines := lines_on_content(section):
        where = ", ".join(map(str, lines[:8])) + (" and more" if len(lines) > 8 else "")
        notes.append(
            f"chat template: the prompt depends on the words of a message (line {where}), not on "
            "who speaks alone: read these lines before you trust the template"
        )
    return section
