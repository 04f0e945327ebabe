"""Trees of JSON, changed at random: every other type, numbers at the edges, names that are there
twice, depth."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any, Sequence


class Raw(str):
    """A text that stands in the file as it is."""


class Pairs(list):
    """An object as a list of (name, value): a name may be there twice."""


WHOLE = (
    *(0, 1, 2, 3, 7, 8, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536, (1 << 24) - 1, 1 << 24),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 48) - 1, 1 << 48, (1 << 53) + 1),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**30, 10**400),
)
NUMBERS = (
    *WHOLE,
    *(-n for n in WHOLE),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 1e-45, 1e-320, 1e-9, 1e9, 1e30, 1e31, 3.5e38, 1e39, 1.7e308),
)
TEXTS = (
    *(
        "",
        " ",
        "\n",
        "a",
        "é",
        "漢",
        "\x00",
        "\x1b[31m",
        "\x1e",
        "\x1f",
        "\u2028",
        "\ufeff",
        "\ud800",
    ),
    *(
        "\udfff\ud800",
        "e\u0301",
        "▁",
        "Ġ",
        "##",
        "<0x41>",
        "<0xZZ>",
        "a b",
        "a b c",
        "0",
        "-1",
        "1e9",
    ),
    *("none", "null", "true", "../outside", "/etc/hostname", "..", ".", "a/b", "a\\b", "~", "NUL"),
    *("x" * 300, "x" * 70000, "a." * 3000, "é" * 5000, "(a+)+$" * 20, "[" * 999, "{{ x }}", "%s%n"),
)
RAW = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999", "0x10", "01", "+1", ".5", "nul"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\x"', "'a'", "", "9" * 4000, "9" * 5000),
    *("[" * 90 + "]" * 90, '{"a":' * 70 + "1" + "}" * 70, "[" * 100000, '{"a":' * 100000, "//"),
    *("[" + "0," * 20000 + "0]", '{"a":1,"a":2}', '"\xff"', "1." + "0" * 5000, "1e5000", "-"),
)


def hostile(rng: random.Random, words: Sequence[str] = ()) -> Any:
    """A value of any kind, most of them small."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(NUMBERS)
    if kind < 0.35:
        return rng.choice(TEXTS)
    if kind < 0.5 and words:
        return rng.choice(words)
    if kind < 0.6:
        return rng.choice((None, True, False))
    if kind < 0.7:
        return Raw(rng.choice(RAW))
    if kind < 0.8:
        return [hostile(rng, words) for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 17)))]
    if kind < 0.9:
        names = [rng.choice(words) if words else "a" for _ in range(rng.choice((0, 1, 1, 2)))]
        return {name: hostile(rng, words) for name in names}
    return rng.choice((0, 1, -1, 2, 0.5, "", [], {}, [[]], [{}], {"": ""}, [None], ["a", "a"]))


def near(rng: random.Random, value: Any, words: Sequence[str] = ()) -> Any:
    """A value of the same kind, not far away."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        steps = (value + 1, value - 1, 2 * value, value // 2, -value, 3 * value + 1)
        return rng.choice((*steps, rng.randrange(40), value + 0.5 if abs(value) < 1 << 60 else 0.5))
    if isinstance(value, float):
        return rng.choice((value * 2, value / 3, -value, value * 1e20, value * 1e-30, 1, 0))
    if isinstance(value, str):
        other = rng.choice(words) if words else rng.choice(TEXTS)
        at = rng.randrange(len(value) + 1)
        changed = (
            value + other,
            other + value,
            value[:at],
            value[at:],
            value[:at] + value[at + 1 :],
        )
        return rng.choice((*changed, other, other, value.upper(), value * 2, value.swapcase()))
    if isinstance(value, list):
        at = rng.randrange(len(value) + 1)
        many = value * rng.choice((2, 3, 300)) if len(value) < 100 else value * 2
        return rng.choice(
            (value[:at], value[at:], value[::-1], many, [*value, *value[:1]], [value])
        )
    return value


def _slots(value: Any, most: int = 4000) -> list[tuple[Any, Any]]:
    """(container, key) of the values inside, the outermost first."""
    out, todo = [], [value]
    for inside in todo:
        keys = inside if isinstance(inside, dict) else range(len(inside))
        for key in list(keys)[:most]:
            if isinstance(inside, Pairs):
                continue
            out.append((inside, key))
            if isinstance(inside[key], (dict, list)) and not isinstance(inside[key], Pairs):
                todo.append(inside[key])
    return out


def _pick(rng: random.Random, value: Any) -> tuple[Any, Any] | None:
    """A place in the tree, by steps from the root: a long list takes no more than its share."""
    place = None
    while isinstance(value, (dict, list)) and value and not isinstance(value, Pairs):
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        place, value = (value, key), value[key]
        if rng.random() < 0.25:
            break
    return place


def _change(rng: random.Random, tree: Any, words: Sequence[str]) -> None:
    place = _pick(rng, tree)
    if place is None:
        return
    inside, key = place
    kind = rng.random()
    if kind < 0.3:
        inside[key] = hostile(rng, words)
    elif kind < 0.6:
        inside[key] = near(rng, inside[key], words)
    elif kind < 0.68:
        other, name = rng.choice(_slots(tree, 60))
        inside[key] = copy.deepcopy(other[name])
    elif kind < 0.78:
        del inside[key]
    elif isinstance(inside, list):
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
    elif kind < 0.9 or len(inside) > 5000:
        inside[rng.choice(words) if words else "x"] = hostile(rng, words)
    elif kind < 0.95:
        inside[rng.choice(words) if words else "x"] = inside.pop(key)
    else:
        inside[key] = Pairs([(key, inside[key]), (key, near(rng, inside[key], words))])


def changed(rng: random.Random, tree: Any, words: Sequence[str] = (), most: int = 4) -> Any:
    """A copy with a few changes, most often one."""
    tree = {"": pickle.loads(pickle.dumps(tree))}  # sooner done than a deep copy
    for _ in range(min(most, 1 + int(rng.expovariate(0.9)))):
        inside = tree.get("")
        whole = rng.random() < 0.01 or not isinstance(inside, (dict, list))
        _change(rng, tree if whole else inside, words)
    return tree.get("")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (Raw, Pairs)):
        return False
    if isinstance(value, (dict, list)):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return True


def dumps(value: Any) -> str:
    """JSON, and what is none where the tree says so."""
    if isinstance(value, Raw):
        return str(value)
    if _is_plain(value):
        return json.dumps(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(name)}:{dumps(part)}" for name, part in value) + "}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(n)}:{dumps(part)}" for n, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    raise AssertionError(f"a tree with {type(value)}")


def encoded(value: Any) -> bytes:
    return dumps(value).encode("utf-8", errors="surrogatepass")
