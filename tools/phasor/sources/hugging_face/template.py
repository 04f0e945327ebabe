"""The chat template of a Hugging Face directory, and the special tokens that it may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import PhasorError, printable
from phasor.files import has_file, read_json, read_text
from phasor.values import words

_TOKENS = words("""
    bos_token eos_token unk_token sep_token pad_token cls_token mask_token
""")


def _read(path: Path) -> dict[str, Any]:
    """A JSON file's table; of none, an empty one."""
    return read_json(path) if has_file(path) else {}


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


def find_template(folder: Path) -> tuple[str | None, dict[str, Any]]:
    """A Hugging Face directory's template, None where it has none, and its special tokens, as
    transformers reads them."""
    config, variables = special_tokens(folder)
    template, path = config.get("chat_template"), folder / "tokenizer_config.json"
    if has_file(folder / "chat_template.jinja"):
        template = read_text(folder / "chat_template.jinja")
    elif template is None:
        path = folder / "chat_template.json"
        template = side_files.read(path).get("chat_template")
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
    return template, variables
