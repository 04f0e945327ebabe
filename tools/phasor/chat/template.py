"""A chat template (Jinja, as Hugging Face's tokenizers have it) as a chat program: data that the
engine runs (docs/format.md, CHAT).

`compile_template` parses a template with jinja2, never runs it, and keeps what can happen in a
conversation without tools: messages with a role and a text. What is known at conversion (special
tokens, `tools` and `documents` that are none) is computed here, and branches that cannot be reached
vanish. A construct that remains and is not in the subset is refused with its line. A template that
needs only the roles system, user and assistant to be in the subset gets a program that refuses
other roles.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from phasor.chat import syntax as chat_syntax
from phasor.chat.compiler import Compiler
from phasor.chat.instructions import Excess, Refused
from phasor.chat.state import Work
from phasor.errors import PhasorError, printable
from phasor.files import read_json, read_text


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


# ---- Where templates are

_TOKENS = {  # and how a GGUF calls them
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}


def _read(path: Path) -> dict[str, Any]:
    """A JSON file's table; of none, an empty one."""
    return read_json(path) if path.is_file() else {}


def _token(path: Path, name: str, value: Any) -> str:
    """A special token: a text, or a table with its text as content."""
    value = value.get("content") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise PhasorError(f"{path}: {name}: expected a text, or a table with a text as content")
    return value


def special_tokens(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tokenizer_config.json, the special tokens as templates see them) of a Hugging Face
    directory."""
    config = _read(folder / "tokenizer_config.json")
    table = config.get("added_tokens_decoder") is not None  # then transformers reads no other file
    tokens = {} if table else _read(folder / "special_tokens_map.json")
    of = dict.fromkeys(tokens, folder / "special_tokens_map.json")
    for name in (*_TOKENS, "additional_special_tokens"):
        if name in config and tokens.get(name) is None:
            tokens[name], of[name] = config[name], folder / "tokenizer_config.json"
    variables: dict[str, Any] = {}
    for name in tokens:
        if name in _TOKENS and tokens[name]:
            variables[name] = _token(of[name], name, tokens[name])
    more = tokens.get("additional_special_tokens")
    if more:
        name = "additional_special_tokens"
        if not isinstance(more, list):
            raise PhasorError(f"{of[name]}: {name}: expected a list")
        variables[name] = [_token(of[name], name, value) for value in more]
    return config, variables


def find_template(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """A Hugging Face directory's template and special tokens, as transformers reads them; None when
    it has no template."""
    config, variables = special_tokens(folder)
    template, path = config.get("chat_template"), folder / "tokenizer_config.json"
    if (folder / "chat_template.jinja").is_file():
        template = read_text(folder / "chat_template.jinja")
    elif template is None:
        path = folder / "chat_template.json"
        template = _read(path).get("chat_template")
    if isinstance(template, list):
        if not all(isinstance(t, dict) and isinstance(t.get("name"), str) for t in template):
            raise PhasorError(
                f"{path}: chat_template: expected a text, or a list of tables with a "
                "name and a template"
            )
        named = {t["name"]: t.get("template") for t in template}
        if "default" not in named:
            raise PhasorError(
                f"{folder}: the chat templates are {printable(', '.join(named))}; "
                "there is none called default"
            )
        template = named["default"]
    if template is not None and not isinstance(template, str):
        raise PhasorError(f"{path}: chat_template: expected a text, got {type(template).__name__}")
    return None if template is None else (template, variables)


def find_gguf(metadata: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The template of a GGUF's metadata, or None, and its special tokens."""
    tokens, variables = metadata.get("tokenizer.ggml.tokens"), {}
    for name, key in _TOKENS.items():
        place = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(tokens, list) and isinstance(place, int) and 0 <= place < len(tokens):
            if isinstance(tokens[place], str):
                variables[name] = tokens[place]
    template = metadata.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise Refused(f"tokenizer.chat_template: expected a text, got {type(template).__name__}")
    return template, variables


def section_of(
    source: Path,
    metadata: dict[str, Any] | None = None,
    file: Path | None = None,
    date: str | None = None,
    notes: list[str] | None = None,
) -> bytes | None:
    """The chat program of a template file, of a GGUF (its metadata), or of a Hugging Face
    directory; None when there is no template. notes gets what a person should know."""
    if metadata is not None:
        template, variables = find_gguf(metadata)
    elif source.is_dir():
        template, variables = find_template(source) or (None, special_tokens(source)[1])
    else:
        template, variables = None, {}
    if file is not None:
        template = read_text(file)
    if template is None:
        return None
    try:
        day = datetime.date.fromisoformat(date) if date else None
    except ValueError as error:
        raise PhasorError(f"--chat-date {date}: expected a day such as 2025-01-31") from error
    section = compile_template(template, variables, day)
    if notes is not None and section[4] & 1:
        notes.append(
            "chat template: the roles are system, user and assistant; what it does for others is "
            "not kept"
        )
    if notes is not None and day is None and "strftime_now" in template:
        notes.append("chat template: it would tell the model the day; --chat-date gives it one")
    return section
