"""The TOML that describes a state_dict: what its weights cannot say. Read, checked, and with its
defaults filled in.

    name = "zh-en"                     # also author, license, credit, origin: text for people
    preset = "torch-transformer"       # how the tensors are called
    stack = "encoder-decoder"          # or "encoder", "decoder"
    heads = 4
    norm_place = "before"              # or "after" (the residual)
    position = "sinusoidal"            # added to the embedding

A key that is not known is an error. src/facts/description.toml says what there is, with the
defaults; [encoder] and [decoder] may have the keys of a stack once more, for that one only, and
[[encoder.except]] for some of its layers. [source] and [target] have the ids and the tokenizer,
[generation] what decoding is recommended; [names] maps a part of the model to the name of its
tensor, `{layer}` standing for the layer's number; [rename] replaces names; [checkpoint] has `key`
(the entry of a nested file), `beside` (further entries) and `ignore` (patterns of tensors that are
not part of the model). [arguments], [options] and [tensors] are those of presets.py.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from phasor.errors import PhasorError, named, printable, shown
from phasor.families import nearest
from phasor.families.names import PRESETS
from phasor.files import is_below, read_text
from phasor.format import descriptor as D
from phasor.sources.state_dict import keys as K
from phasor.sources.state_dict import presets as P
from phasor.values import is_number, is_whole, settings

_MOST_BYTES = 64 << 10  # of a description
_MOST_NUMBER = 1 << 24  # sizes and positions; ids are compared with the vocabulary later
_MOST_RULES = 256  # of [rename] and of [checkpoint] ignore: each is tried on every tensor
_MOST_TENSORS = 4096  # of a part
_MOST_EXCEPTIONS = 64
# Divided by the deviation of N − 1 values, and eps added to that: the Annotated Transformer's.
UNBIASED = "layer-unbiased"
KEYS = {**K.MODEL, **K.STACK}
CHOICES = {key: row.values for key, row in KEYS.items() if row.values}
STACKS = CHOICES["stack"]
# What a description must say, or its preset.
_NEEDED = ("heads", "position", "norm_place", "embedding_scale", "score_scale", "final_norm")
# Keys of a stack that are one for all of its blocks.
ONE_FOR_ALL = frozenset(
    """
    final_norm final_norm_eps embedding_norm embedding_norm_eps embedding_norm_place position
    position_base position_rates position_offset max_positions embedding_scale projection_place
    layers sets width norm qkv_order qkv_by_head transposed rotary_context
""".split()
)
# Where an exception is: at these layers, or at every N-th from the first on.
_WHERE = {"layers": K.Key((list,), items="ids"), "every": K.Key((int,)), "first": K.Key((int,), 0)}
# nn.Transformer has a norm after each stack wherever the blocks' norms are; attention divides by
# √(head width). Published code of the style "separate" divides scores by √(head width) or by
# √heads: the description must say which.
_PRESET_DEFAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "torch-transformer": settings("""
        final_norm   true
        score_scale  "sqrt_head_width"
        norm_place   "after"
    """),
    "separate": settings("""
        final_norm       false
        norm_place       "after"
        position         "learned"
        embedding_scale  "sqrt_width"
    """),
    "bias-free": settings("""
        final_norm       false
        score_scale      "sqrt_head_width"
        norm_place       "after"
        position         "sinusoidal"
        embedding_scale  "sqrt_width"
    """),
}


class Named(NamedTuple):
    """What [names] says of a part: its tensors, one below the other, and how they are stored."""

    tensors: tuple[str, ...]
    transposed: bool | None = None  # None: as the stack's matrices
    factor: float | str = 1.0  # or the name of one that hangs on a width
    offset: float = 0.0
    half: str = ""  # of its rows: the first or the second


@dataclass
class Description:
    """What a TOML says. `stacks` has the keys of K.STACK for each stack there is, `sides` those of
    K.SIDE."""

    path: Path
    model: dict[str, Any]
    stacks: dict[str, dict[str, Any]]
    sides: dict[str, dict[str, Any]]
    exceptions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    generation: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Named] = field(default_factory=dict)
    implied: dict[str, Named] = field(default_factory=dict)  # of the preset's file
    # What stands in it, and not in its preset: keys of all stacks ("") and of each.
    given: dict[str, set[str]] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    beside: tuple[str, ...] = ()  # further entries of the file, for tensors called ENTRY.NAME
    ignore: list[str] = field(default_factory=list)

    @property
    def stack(self) -> int:
        result: int = STACKS[self.model["stack"]]
        return result

    @property
    def preset(self) -> str:
        result: str = self.model["preset"]
        return result

    @property
    def unproved(self) -> str:
        """Why there is no file without the model's own outputs; empty: there is."""
        what = self.model["unseen"]
        where = f"{self.path}: unseen: {what}: may change the outputs and leave no tensor"
        return what and f"{where}; give --expect FILE.npz, what your model gives for some inputs"


def _typed(where: str, key: str, value: Any, row: K.Key) -> Any:
    if float in row.types and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, row.types) or (isinstance(value, bool) and bool not in row.types):
        raise PhasorError(
            f"{where}{key}: {shown(value)}, expected {' or '.join(k.__name__ for k in row.types)}"
        )
    if type(value) is int and abs(value) > _MOST_NUMBER:
        raise PhasorError(f"{where}{key}: {shown(value)}, expected at most {_MOST_NUMBER}")
    if key in ("layers", "sets") and type(value) is int and value > D.MAX_LAYERS:
        raise PhasorError(f"{where}{key}: {value}, expected at most {D.MAX_LAYERS}")
    if isinstance(value, float) and not math.isfinite(value):
        raise PhasorError(f"{where}{key}: {value!r}, expected a finite number")
    if isinstance(value, list) and not all(map(_ITEMS[row.items].test, value)):
        raise PhasorError(f"{where}{key}: expected a list of {_ITEMS[row.items].what}")
    if isinstance(value, str) and row.values and value not in row.values:
        other = {"position": "attention_position", "attention_position": "position"}.get(key)
        hint = f'; did you mean {other} = "{value}"?' if other and value in CHOICES[other] else ""
        raise PhasorError(f"{where}{key}: {shown(value)}, expected {' or '.join(row.values)}{hint}")
    return value


class _Items(NamedTuple):
    """What a list may hold."""

    what: str
    test: Any


_ITEMS = {
    "ids": _Items("ids", lambda v: is_whole(v, 0, _MOST_NUMBER)),
    "numbers": _Items("finite numbers", is_number),
    "texts": _Items("texts", lambda v: isinstance(v, str) and v.isprintable()),
}


def _unknown(where: str, key: str, known: Any) -> PhasorError:
    near = nearest.meant(key, known) if "." not in key else ""
    near = near or "; docs/reference/description-keys.md has them"
    return PhasorError(f"{where}{printable(key)}: no key is called so here{near}")


def _keys(where: str, content: dict[str, Any], known: dict[str, K.Key]) -> dict[str, Any]:
    for key in content:
        if key not in known:
            raise _unknown(where, key, known)
    return {key: _typed(where, key, value, known[key]) for key, value in content.items()}


def _named(name: str, value: Any) -> Named:
    """Of one part: a tensor's name, a list of them, or a table with `tensor`."""
    table = dict(value) if isinstance(value, dict) else {"tensor": value}
    tensors = table.pop("tensor")
    tensors = [tensors] if isinstance(tensors, str) else tensors
    if not isinstance(tensors, list) or not all(isinstance(t, str) for t in tensors) or not tensors:
        raise PhasorError(f"{name}: {shown(value)}, expected text, or a list of texts")
    if len(tensors) > _MOST_TENSORS:
        raise PhasorError(f"{name}: {len(tensors)} tensors, expected at most {_MOST_TENSORS}")
    return Named(tuple(tensors), **_keys(f"{name}.", table, _OF_NAME))


_OF_NAME = {
    "transposed": K.Key((bool,)),
    "factor": K.Key((float, str), values=dict.fromkeys(("inverse_sqrt_width", "sqrt_head_width"))),
    "offset": K.Key((float,)),
    "half": K.Key((str,), values={"first": 0, "second": 1}),
}


def _names(name: str, table: dict[str, Any]) -> dict[str, Named]:
    """[names]; nested tables (encoder.q = …) become dotted names."""
    out = {}
    for key, value in table.items():
        where = f"{name}.{printable(key)}"
        if isinstance(value, dict) and "tensor" not in value:
            inner = _names(where, value)
            out.update({f"{key}.{part}": said for part, said in inner.items()})
        else:
            out[key] = _named(where, value)
    return out


def _texts(name: str, table: dict[str, Any]) -> dict[str, str]:
    """A table of texts; nested tables (encoder.q = …) become dotted names."""
    out = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out.update(
                {f"{key}.{inner}": text for inner, text in _texts(f"{name}.{key}", value).items()}
            )
        elif isinstance(value, str):
            out[key] = value
        else:
            raise PhasorError(f"{name}.{printable(key)}: {shown(value)}, expected text")
    return out


def _stack(
    name: str, shared: dict[str, Any], own: dict[str, Any], preset: str, also: str
) -> dict[str, Any]:
    """The keys of one stack: its own, else the model's, else the preset's, else the default. also:
    what else a description lacks, said with the keys that are missing here."""
    given, preset_values = {**shared, **own}, _PRESET_DEFAULTS[preset]
    out = {key: row.default for key, row in K.STACK.items()}
    out.update(preset_values)
    out.update(given)
    _scales(out, given, preset_values.get("score_scale"))
    absent = [key for key in _NEEDED if out[key] is None]
    if absent:
        more = ' (the scores are divided by "sqrt_head_width", "sqrt_heads" or a number)'
        raise PhasorError(
            f"{', '.join(absent)}: missing for the {name}; the preset {preset!r} does not imply"
            f" {'them' if len(absent) > 1 else 'it'}{more if 'score_scale' in absent else ''}{also}"
        )
    for key, value in {"two_sided": name == "encoder", **_EPSILONS}.items():
        if out[key] is None:
            out[key] = out[value] if isinstance(value, str) else value
    _check_sizes(name, out)
    return out


# Epsilons that are the norms' unless they are said.
_EPSILONS = {"final_norm_eps": "norm_eps", "embedding_norm_eps": "norm_eps"}


def _check_sizes(name: str, keys: dict[str, Any]) -> None:
    for key, value in keys.items():
        if type(value) is int and value < (key == "heads"):
            raise PhasorError(f"{name}: {key}: {value} is too small")
        if key.endswith("_eps") and value is not None and value < 0:
            raise PhasorError(f"{name}: {key}: {value} is negative")
    if sorted(keys.get("qkv_order", "qkv")) != sorted("qkv"):
        order = shown(keys["qkv_order"])
        raise PhasorError(f"{name}: qkv_order: {order}, expected q, k and v once")


def _exceptions(name: str, tables: Any) -> list[dict[str, Any]]:
    """[[encoder.except]]: where it is, and the keys of these layers."""
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise PhasorError(f"{name}.except: expected [[{name}.except]], a table for some layers")
    if len(tables) > _MOST_EXCEPTIONS:
        raise PhasorError(f"{name}.except: {len(tables)}, expected at most {_MOST_EXCEPTIONS}")
    known = {key: row for key, row in K.STACK.items() if key not in ONE_FOR_ALL}
    out = []
    for table in tables:
        one = _keys(f"{name}.except.", table, {**known, **_WHERE})
        if ("layers" in one) == ("every" in one) or one.get("every", 1) < 1:
            raise PhasorError(f"{name}.except: expected either layers or every, from 1 on")
        _check_sizes(f"{name}.except", one)
        out.append(one)
    return out


def is_at(exception: dict[str, Any], layer: int) -> bool:
    """Whether an exception is of this layer."""
    first = exception.get("first", 0)
    if "layers" in exception:
        return layer in exception["layers"]
    result: bool = layer >= first and (layer - first) % exception["every"] == 0
    return result


def _scales(out: dict[str, Any], given: dict[str, Any], preset: float | str | None) -> None:
    """What the scores are divided by where it is not said: an additive score by 1; cross-attention
    as self-attention, where the scores are of one kind."""
    for key in ("", "cross_"):
        additive, scale = out[f"{key}score"] == "additive", given.get(f"{key}score_scale")
        if scale is None and key and out["score"] == out["cross_score"]:
            scale = out["score_scale"]
        out[f"{key}score_scale"] = scale if scale is not None else 1.0 if additive else preset


def fields_of(scope: str, rows: dict[str, K.Key], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scope of the descriptor that are keys of the description as they are; a
    default is left out."""
    out = {}
    for key, row in rows.items():
        start, _, name = row.field.rpartition(".")
        value = given.get(key)
        if name and start == scope and value is not None and value != row.default:
            value = row.values[value] if row.values else value
            out[name] = int(value) if isinstance(value, bool) else value
    return out


def scale_of(where: str, value: float | str, names: dict[str, float]) -> float:
    """A number, or one of the names."""
    if isinstance(value, str):
        if value not in names:
            raise PhasorError(f"{where}: {value!r}, expected a number or {' or '.join(names)}")
        return names[value]
    return value


def read_description(path: os.PathLike[str] | str, opened: P.Opener | None = None) -> Description:
    """Reads and checks a description; PhasorError names the file and the key. opened: opens the
    checkpoint, where a preset asks what is in it."""
    path = Path(path)
    text = read_text(path, _MOST_BYTES)
    try:
        return parse_description(P.parse(text), path, opened)
    except PhasorError as error:
        raise named(path, error) from error


_TABLES = ("encoder", "decoder", "source", "target", "generation", "names", "rename", "checkpoint")


def parse_description(
    content: dict[str, Any], path: Path = Path("description"), opened: P.Opener | None = None
) -> Description:
    """The same from a dictionary, as a TOML reader gives it."""
    said, (content, names) = content, P.with_preset(content, opened)
    tables = {name: P.table(content, name) for name in _TABLES}
    given = _keys("", content, KEYS)
    model = {key: given.get(key, row.default) for key, row in K.MODEL.items()}
    for key, known in (("preset", {**PRESETS, **P.FILES}), ("stack", STACKS)):
        if model[key] not in known:
            found = "missing" if model[key] is None else shown(model[key])
            raise PhasorError(f"{key}: {found}, expected one of {', '.join(known)}")
    out = Description(path, model, {}, {}, rename=_texts("rename", tables["rename"]))
    own = {name: said.get(name, {}) for name in ("encoder", "decoder")}
    out.given = {name: table.keys() & K.STACK.keys() for name, table in own.items()}
    out.given[""] = said.keys() & KEYS.keys()
    _read_stacks(out, {k: v for k, v in given.items() if k in K.STACK}, tables)
    if tables["generation"] and out.stack == D.ENCODER:
        raise PhasorError("generation: an encoder generates nothing")
    out.generation = _keys("generation.", tables["generation"], K.GENERATION)
    out.names, out.implied = _names("names", tables["names"]), _names("names", names)
    _read_checkpoint(out, tables["checkpoint"])
    return out


def _read_stacks(
    out: Description, shared: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    """The stacks that there are, with their sides."""
    begins = out.stack != D.ENCODER_DECODER or {"start", "decoder_start"} & tables["target"].keys()
    also = "" if begins else "; target.start: missing too, the id that an output begins with"
    for name, side, absent in (("encoder", "source", D.DECODER), ("decoder", "target", D.ENCODER)):
        if out.stack == absent:
            for table in (name, side):
                if tables[table]:
                    raise PhasorError(f"{table}: a model of stack {out.model['stack']!r} has none")
            continue
        out.exceptions[name] = _exceptions(name, tables[name].pop("except", []))
        own = _keys(f"{name}.", tables[name], K.STACK)
        out.stacks[name] = _stack(name, shared, own, out.preset, also)
        places = {one.get("norm_place", "") for one in out.exceptions[name]} - {""}
        if places and "both" in {*places, out.stacks[name]["norm_place"]}:
            raise PhasorError(
                f"{name}.except.norm_place: both has norms of its own, in all layers or in none"
            )
        given = _keys(f"{side}.", tables[side], K.SIDE)
        for key, value in given.items():
            if type(value) is int and value < 0:
                raise PhasorError(f"{side}.{key}: {value} is not an id")
        if not is_below(given.get("tokenizer", "")):
            raise PhasorError(
                f"{side}.tokenizer: {shown(given['tokenizer'])} is not beside the description "
                "or in a folder there (--tokenizer takes any file)"
            )
        out.sides[side] = {**{key: row.default for key, row in K.SIDE.items()}, **given}


def _read_checkpoint(out: Description, checkpoint: dict[str, Any]) -> None:
    known = ("key", "beside", "ignore")
    for key in checkpoint.keys() - {*known}:
        raise _unknown("checkpoint.", key, known)
    out.key, out.beside = P.entries({"checkpoint": checkpoint})
    out.ignore = checkpoint.get("ignore", [])
    if not isinstance(out.ignore, list) or not all(isinstance(p, str) for p in out.ignore):
        raise PhasorError("checkpoint.ignore: expected a list of patterns")
    if any(c in pattern for pattern in out.ignore for c in "[]"):
        raise PhasorError(
            "checkpoint.ignore: in a pattern * is any text and ? any character; [ and ] are not "
            "supported"
        )
    for old, new in out.rename.items():
        if old.count("*") != new.count("*"):
            raise PhasorError(
                f"rename: {printable(old)} = {printable(new)}: expected as many * in both"
            )
    for where, rules in (("checkpoint.ignore", out.ignore), ("rename", out.rename)):
        if len(rules) > _MOST_RULES:
            raise PhasorError(f"{where}: {len(rules)} entries, expected at most {_MOST_RULES}")
