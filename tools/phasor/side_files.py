"""The files beside a model's weights are closed lists: each key of side_files.toml is used, or
harmless with a reason, or has values that are; any other is refused by name.

`check` is called where a file is read. Whether the value of a key that is used is sound is its
reader's business.
"""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from phasor.errors import PhasorError, printable, shown
from phasor.files import has_file, read_value

_TABLE = Path(__file__).with_suffix(".toml")
_MOST_NAMES = 8  # in a message
_ANY = "*"
GGUF = "GGUF"  # whose keys have dots, and no tables


class Rule(NamedTuple):
    """What is known of a key."""

    kind: str  # "used", "harmless" or "refused"
    why: str
    values: tuple[Any, ...] = ()  # of "refused": those that are not


class _Node:
    """A key, by the parts of its name: the rule, and the keys of the table that it is."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.own: dict[str, _Node] = {}
        self.patterns: list[tuple[str, _Node]] = []

    def add(self, parts: list[str], rule: Rule) -> None:
        if not parts:
            self.rule = rule
            return
        name, *rest = parts
        if _ANY not in name:
            self.own.setdefault(name, _Node()).add(rest, rule)
            return
        node = next((node for pattern, node in self.patterns if pattern == name), None)
        if node is None:
            node = _Node()
            self.patterns.append((name, node))
        node.add(rest, rule)

    def find(self, name: str) -> list[_Node]:
        """What a name is, the exact one first."""
        found = [self.own[name]] if name in self.own else []
        return found + [
            node for pattern, node in self.patterns if pattern == _ANY or fnmatchcase(name, pattern)
        ]


class Group(NamedTuple):
    """Keys with one rule, as the page shows them."""

    keys: tuple[str, ...]
    rule: Rule


class SideFile(NamedTuple):
    about: str
    groups: tuple[Group, ...]
    root: _Node


@cache
def table() -> dict[str, SideFile]:
    """side_files.toml, by the names of the files."""
    out = {}
    for name, entry in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items():
        root, groups = _Node(), []
        for group in entry["group"]:
            (kind,) = {"used", "harmless", "refused"} & group.keys()
            rule = Rule(kind, group[kind], tuple(group.get("values", ())))
            groups.append(Group(tuple(group["keys"].split()), rule))
            for key in groups[-1].keys:
                root.add([key] if name == GGUF else key.split("."), rule)
        out[name] = SideFile(entry["about"], tuple(groups), root)
    return out


def read(path: Path, kind: str | None = None) -> Any:
    """What a JSON file holds, of which every key is known; of none, an empty table."""
    values = read_value(path) if has_file(path) else {}
    if not isinstance(values, dict):
        raise PhasorError(f"{path}: not a JSON object")
    check(path, values, kind)
    return values


def check(path: Path, values: Any, kind: str | None = None) -> None:
    """PhasorError for a key that is not known, or that has a value which changes something. kind:
    of the file, where that is not its name."""
    root = table()[kind or path.name].root
    unknown = []
    for key, value, rule in _walk([root], values, ""):
        if rule is None:
            unknown.append((key, value))
        elif rule.kind == "refused" and not any(_same(value, one) for one in rule.values):
            raise PhasorError(
                f"{path}: {printable(key)}: {shown(value)} is not supported: {rule.why}"
                f" ({ignoring(path, key)} reads the file without it)"
            )
    if unknown:
        raise _unknown(path, unknown)


def harmless(name: str) -> frozenset[str]:
    """The keys of a file that have no effect."""
    groups = table()[name].groups
    return frozenset(key for g in groups if g.rule.kind == "harmless" for key in g.keys)


def ignoring(path: Path, key: str) -> str:
    """The flag that leaves a key out."""
    return f"--ignore-key {path.name}:{printable(key)}"


def _unknown(path: Path, keys: list[tuple[str, Any]]) -> PhasorError:
    more = len(keys) - _MOST_NAMES
    names = ", ".join(f"{printable(key)} ({shown(value)})" for key, value in keys[:_MOST_NAMES])
    names += f" and {more} more" if more > 0 else ""
    return PhasorError(
        f"{path}: {names}: not known, and might change what the model computes; if it does not,"
        f" {ignoring(path, keys[0][0])} reads the file without it"
    )


def _walk(nodes: list[_Node], value: Any, prefix: str) -> Iterator[tuple[str, Any, Rule | None]]:
    """(key, value, its rule or None) of each key that is known by itself, or not known."""
    waiting = [(nodes, value, prefix)]
    while waiting:
        nodes, value, prefix = waiting.pop()
        if isinstance(value, list):
            waiting += [(nodes, one, prefix) for one in value if isinstance(one, (dict, list))]
        if not isinstance(value, dict):
            continue
        for name, own in value.items():
            if own is None:
                continue
            found = [child for node in nodes for child in node.find(name)]
            rule = next((node.rule for node in found if node.rule), None)
            inside = any(node.own or node.patterns for node in found)
            if rule or not (inside and isinstance(own, dict)):
                yield prefix + name, own, rule
            if inside:
                waiting.append((found, own, f"{prefix}{name}."))


def _same(value: Any, wanted: Any) -> bool:
    """true is not 1, and 8 is 8.0."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


_BECOMES = {"used": "used", "harmless": "no effect", "refused": "refused"}
_HEAD = """# Side files

<!-- Generated from tools/phasor/side_files.toml by `make generate`. -->

The converter knows every key of the files beside a model's weights. A key that is not on this page
stops the conversion. A refused value also stops it:

```
convert: model/tokenizer_config.json: split_special_tokens: True is not supported: …
```

If you know that a key does not matter for your model, leave it out:

```sh
.venv/bin/python tools/convert.py model -o model.phasor \\
    --ignore-key tokenizer_config.json:split_special_tokens
```

The converter then reads `FILE` as if it did not have `KEY`, and records the flag in the weight
file: `phasor inspect` prints it as `model.converter`. `FILE` is a file's name or the end of its
path (`1_Pooling/config.json`). For a key inside a table, put a dot between the names
(`tokenizer.json:truncation.direction`). You can give the flag several times.

Hugging Face's `config.json` has no list here: each model family knows its keys. In the tables,
`a.b` is the key `b` of the table `a`, `*` is any name, and null says nothing. Keys were taken from
what transformers 4.57 and 5, sentence-transformers 5.7, PEFT 0.21, colbert-ai 0.2, CTranslate2 4.8
and llama.cpp write.
"""


def page() -> str:
    """docs/reference/side-files.md."""
    # GitHub's anchor of a heading has neither dots nor slashes.
    anchors = {name: re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in table()}
    linked = " ·\n".join(f"[{name}](#{anchor})" for name, anchor in anchors.items())
    out = [_HEAD, f"**On this page:**\n{linked}\n"]
    for name, file in table().items():
        about = file.about[0].upper() + file.about[1:]
        out.append(f"## {name}\n\n{about}.\n\n| keys | | |\n|---|---|---|")
        for group in file.groups:
            keys = ", ".join(f"`{key}`" for key in group.keys)
            why = group.rule.why
            if group.rule.values:
                values = " or ".join(f"`{json.dumps(value)}`" for value in group.rule.values)
                why = f"unless {values}: {why}"
            out.append(f"| {keys} | {_BECOMES[group.rule.kind]} | {why} |")
        out.append("")
    return "\n".join(out)
