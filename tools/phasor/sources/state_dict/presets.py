"""The preset of a description, which is a file of data: what it says, and what it makes of the
arguments that a training kept beside the weights and of the tensors that there are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from phasor.checkpoints.pickles import Inert
from phasor.checkpoints.tensors import Checkpoint
from phasor.checkpoints.wrappers import LIGHTNING, unwrapped
from phasor.errors import PhasorError, printable, shown
from phasor.families import nearest
from phasor.files import JSON_DEPTH, fits
from phasor.sources.state_dict import keys as K

_MOST_DOTS = 4096  # of a line
_MOST_RULES = 256  # of [options] and of [tensors]
_MOST_VALUES = 8  # in a message
_FOLDER = Path(__file__).resolve().parents[2] / "presets"
FILES = {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}
ABSENT = {"encoder": ("decoder", "target"), "decoder": ("encoder", "source")}
_ASKS = ("arguments", "options", "tensors")  # tables that need the checkpoint
_KEYS = {**K.MODEL, **K.STACK}
_EACH = {"block": ("encoder", "decoder"), "side": ("source", "target")}

# Opens the checkpoint, by its entry and those beside it.
Opener = Callable[[str | None, tuple[str, ...]], Checkpoint]


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text. PhasorError for one that is none, or that is nested deeper than
    any description."""
    dots = max(line.partition("=")[0].count(".") for line in text.split("\n"))
    if dots > _MOST_DOTS:  # tomllib takes the square of them
        raise PhasorError(f"not TOML that is supported: a key with {dots} dots")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PhasorError(f"not TOML: {printable(str(error), 200)}") from error
    except RecursionError as error:
        raise PhasorError("not TOML that is supported: it is nested too deep") from error
    except ValueError as error:  # of int() and of datetime
        raise PhasorError(
            f"not TOML: a number or a date that cannot be: {printable(str(error))}"
        ) from error
    todo: list[tuple[Any, int]] = [(content, 0)]
    while todo:
        inside, depth = todo.pop()
        if depth > JSON_DEPTH:
            raise PhasorError("not TOML that is supported: it is nested too deep")
        todo += [
            (child, depth + 1)
            for child in (inside.values() if isinstance(inside, dict) else inside)
            if isinstance(child, (dict, list))
        ]
    return content


def table(content: dict[str, Any], name: str) -> dict[str, Any]:
    """A table of it, taken out."""
    value = content.pop(name, {})
    if not isinstance(value, dict):
        raise PhasorError(f"{name}: expected a table")
    return dict(value)


def with_preset(
    said: dict[str, Any], opened: Opener | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content over that of its preset's file, of which only what is of its stack counts; and
    the names of that file. opened: where there is a checkpoint."""
    base = _of_file(said.get("preset"))
    known = bool(base)
    own, checkpoint = dict(said), None
    if opened is not None and any(tree.get(name) for tree in (base, own) for name in _ASKS):
        checkpoint = opened(*entries(merged(base, own)))
    for name in ("options", "tensors"):  # the description's own count more
        again = said.get(name) if isinstance(said.get(name), dict) else {}
        if name in base:
            base[name] = {key: rule for key, rule in base[name].items() if key not in again}
    base, own = _ruled(base, checkpoint), _ruled(own, checkpoint)
    stack = str(own.get("stack", base.get("stack", "encoder-decoder")))
    absent = ABSENT.get(stack, ())
    for name in ABSENT:  # a key that is said of both stacks counts more than the preset's of one
        if isinstance(base.get(name), dict):
            base[name] = {key: v for key, v in base[name].items() if key not in own}
    base = {key: value for key, value in base.items() if key not in absent}
    base, own = _of_stacks(base, stack), _of_stacks(own, stack)
    names = {key: v for key, v in table(base, "names").items() if key not in absent}
    out = {**merged(base, own), "preset": base["preset"]} if known else own
    _fill(out, table(out, "arguments"), checkpoint.arguments if checkpoint else {})
    return out, names


def _of_file(preset: Any) -> dict[str, Any]:
    """What the file of a preset says, over that of its own preset; nothing without a file."""
    if not isinstance(preset, str) or preset not in FILES:
        return {}
    own = parse(FILES[preset].read_text("utf-8"))
    below = _of_file(own["preset"])
    return {**merged(below, own), "preset": below.get("preset", own["preset"])}


def entries(content: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The entry of a file that holds the weights, and those beside it."""
    said = content.get("checkpoint")
    said = said if isinstance(said, dict) else {}
    key, beside = said.get("key"), said.get("beside", [])
    if not (key is None or isinstance(key, str)):
        raise PhasorError("checkpoint.key: expected text")
    if not isinstance(beside, list) or not all(isinstance(one, str) for one in beside):
        raise PhasorError("checkpoint.beside: expected a list of entries")
    if beside and key is None:
        raise PhasorError("checkpoint.beside: needs checkpoint.key, the entry of the weights")
    return key, tuple(dict.fromkeys(beside))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Of two trees of tables, the second counting more."""
    out = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            out[key] = merged(base[key], over[key])
    return out


def _ruled(tree: dict[str, Any], checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The tree with what its [options] and its [tensors] say of this checkpoint."""
    tree = dict(tree)
    rules = {name: table(tree, name) for name in ("options", "tensors")}
    for name, own in rules.items():
        if len(own) > _MOST_RULES:
            raise PhasorError(f"{name}: {len(own)} entries, expected at most {_MOST_RULES}")
    if checkpoint is None:
        return tree
    todo = list(rules["options"].items())
    while todo:
        option, values = todo.pop(0)
        if option in checkpoint.arguments:
            more = dict(_of_value(option, values, checkpoint.arguments[option]))
            todo += table(more, "options").items()  # which count with this value alone
            tree = merged(tree, more)
    present = list(unwrapped(checkpoint.holding(checkpoint.tensors), LIGHTNING))
    for pattern, more in rules["tensors"].items():
        if any(fits(pattern, tensor) for tensor in present):
            tree = merged(tree, _checked(f"tensors.{printable(pattern)}", more))
    return tree


def _of_value(option: str, values: Any, value: Any) -> dict[str, Any]:
    """What an option's value adds."""
    where, text = f"options.{printable(option)}", _text(value)
    own = _checked(where, values)
    found = next((key for key in own if key == text or "*" in key and fits(key, text)), None)
    if found is None:
        listed = ", ".join(map(printable, list(own)[:_MOST_VALUES]))
        raise PhasorError(
            f"the model was trained with {printable(option)} = {shown(text)}, which has no"
            f" counterpart here: expected {listed}"
        )
    return _checked(f"{where}.{printable(found)}", own[found])


def _checked(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PhasorError(f"{where}: expected a table")
    return value


def _text(value: Any) -> str:
    """As a key of TOML has it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value) if _plain(value) else "an object"


def _plain(value: Any) -> bool:
    return isinstance(value, (int, float, Inert))


def _of_stacks(tree: dict[str, Any], stack: str) -> dict[str, Any]:
    """The tree with {stack} in its names and renamings as the stack is called; a part of `block`
    or `side` is one of each stack that there is, unless it has one of its own."""
    stacks = [name for name in ABSENT if stack in (name, "encoder-decoder")]
    names, rename = tree.get("names"), tree.get("rename")
    out = dict(tree)
    if isinstance(names, dict):
        own = {key: v for key, v in names.items() if key not in _EACH}
        out["names"] = {key: _said(v, stacks[-1]) for key, v in own.items()} if stacks else own
        for key, sides in _EACH.items():
            shared = _checked(f"names.{key}", names.get(key, {}))
            for name in stacks if shared else ():
                own = out["names"].get(side := sides[list(ABSENT).index(name)], {})
                parts = {part: _said(value, name) for part, value in shared.items()}
                out["names"][side] = merged(parts, _checked(f"names.{side}", own))
    if isinstance(rename, dict) and len(stacks) == 1:
        out["rename"] = {old: _said(new, stacks[0]) for old, new in rename.items()}
    return out


def _said(value: Any, stack: str) -> Any:
    """What [names] or [rename] says, of this stack."""
    if isinstance(value, str):
        return value.replace("{stack}", stack)
    if isinstance(value, list):
        return [_said(one, stack) for one in value]
    if isinstance(value, dict) and "tensor" in value:
        return {**value, "tensor": _said(value["tensor"], stack)}
    return value


def _fill(content: dict[str, Any], named_so: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Keys that the content lacks become what a training kept under these names."""
    for where, key, name, default in _listed(named_so):
        value = default if arguments.get(name) is None else arguments[name]
        if value is None or key in content:
            continue
        inside = content.setdefault(where, {}) if where else content
        if isinstance(inside, dict):
            inside.setdefault(key, value)


def _listed(named_so: dict[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """(table or nothing, key, argument, its default or None) of [arguments]."""
    for key, name in named_so.items():
        inner = name if isinstance(name, dict) else {key: name}
        for one, text in inner.items():
            where = key if isinstance(name, dict) else ""
            if where not in ("", *ABSENT):
                raise PhasorError(f"arguments.{printable(where)}: expected encoder or decoder")
            if one not in _KEYS:
                near = nearest.meant(one, _KEYS)
                raise PhasorError(f"arguments.{printable(one)}: no key is called so here{near}")
            text, default = text if isinstance(text, list) and len(text) == 2 else (text, None)
            if not isinstance(text, str):
                raise PhasorError(
                    f"arguments.{printable(one)}: {shown(text)}, expected the name of an argument,"
                    " or a list of it and of a default"
                )
            yield where, one, text, default
