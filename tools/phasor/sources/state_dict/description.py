"""The TOML that describes a state_dict: what its weights cannot say. Read, checked, and with its
defaults filled in.

    name = "zh-en"                     # also author, license, credit, origin: text for people
    preset = "torch-transformer"       # or "separate", "bias-free": how the tensors are called
    stack = "encoder-decoder"          # or "encoder", "decoder"
    heads = 4
    norm_place = "before"              # or "after" (the residual)
    position = "sinusoidal"            # added to the embedding; or "sinusoidal-halves", "learned",
                                       "none"
    attention_position = "alibi"       # inside self-attention; or "relative_key", "t5", "rotary", …
                                       ("none")

A key that is not known is an error. `KEYS` says what there is, with the defaults; [encoder] and
[decoder] may have most of the keys of the model once more, for that stack only. [source] and
[target] have the ids and the tokenizer; [names] maps a part of the model to the name of its tensor,
`{layer}` standing for the layer's number; [rename] replaces the start of names; [checkpoint] has
`key` (the entry of a nested file) and `ignore` (patterns of tensors that are not part of the
model).
"""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasor.errors import named, printable, shown
from phasor.families import sinusoids
from phasor.families.names import PRESETS
from phasor.files import JSON_DEPTH, is_below, read_text
from phasor.format import descriptor as D
from phasor.format.layout import PhasorError
from phasor.values import is_number, is_whole, settings, words

_MOST_BYTES = 64 << 10  # of a description
_MOST_NUMBER = 1 << 24  # sizes and positions; ids are compared with the vocabulary later
_MOST_DOTS = 4096  # of a line
_MOST_RULES = 256  # of [rename] and of [checkpoint] ignore: each is tried on every tensor
STACKS = {"encoder": D.ENCODER, "decoder": D.DECODER, "encoder-decoder": D.ENCODER_DECODER}
_ACTIVATIONS = {row.word: row.number for row in D.ACTIVATIONS if row.word and row.configs}
# Divided by the deviation of N − 1 values, and eps added to that: the Annotated Transformer's.
UNBIASED = "layer-unbiased"
CHOICES = {
    "norm": {"layer": D.LAYER_NORM, "rms": D.RMS_NORM, UNBIASED: D.LAYER_NORM},
    "norm_place": {"before": D.BEFORE, "after": D.AFTER},
    "activation": _ACTIVATIONS,
    "position": {
        "none": 0,
        "learned": D.LEARNED,
        "sinusoidal": D.INTERLEAVED,
        "sinusoidal-halves": D.HALVES,
    },
    "position_rates": {"paper": sinusoids.PAPER, "tensor2tensor": sinusoids.TENSOR2TENSOR},
    "embedding_norm_place": {"after-positions": 0, "before-positions": 1},
    "attention_position": {
        "none": 0,
        "relative_key": D.RELATIVE_KEY,
        "relative_key_query": D.RELATIVE_KEY_QUERY,
        "three-way": D.THREE_WAY,
        "clipped": D.CLIPPED,
        "t5": D.T5_BIAS,
        "alibi": D.ALIBI,
        "rotary": D.ROTARY_INTERLEAVED,
        "rotary-halves": D.ROTARY_HALVES,
    },
    "relative_order": {"key-query": False, "query-key": True},
    "score": {"dot": 0, "additive": 1},
    "cross_score": {"dot": 0, "additive": 1},
    "head_activation": {"none": 0, **_ACTIVATIONS, "tanh": D.TANH},
    "output": {
        "own": D.TIED_OWN,
        "target-embedding": D.TIED_TARGET,
        "source-embedding": D.TIED_SOURCE,
    },
}
_TYPES = {kind.__name__: kind for kind in (int, float, str, bool, list, dict)}


def _keys_of(text: str) -> dict[str, tuple[tuple[type, ...], Any]]:
    """name -> types, default: from lines of a name, its types, and the default in JSON (without
    one: it must be there, or is found in the weights)."""
    rows = [line.split(maxsplit=2) for line in text.splitlines() if line.strip()]
    lines = (f"{name} {''.join(default) or 'null'}" for name, _, *default in rows)
    defaults = settings("\n".join(lines))
    return {
        name: (tuple(_TYPES[kind] for kind in kinds.split("|")), defaults[name])
        for name, kinds, *_ in rows
    }


_STACK_KEYS = _keys_of("""
    heads               int
    kv_heads            int         0
    norm                str         "layer"
    norm_place          str
    norm_eps            float       1e-05
    final_norm          bool
    activation          str         "relu"
    position            str
    position_base       float       10000.0
    position_rates      str         "paper"
    position_offset     int         0
    embedding_norm_place  str       "after-positions"
    max_positions       int         0
    embedding_scale     float|str
    score_scale         float|str
    layers              int         0
    hidden              int         0
    width               int         0
    head_width          int         0
    attention_position  str         "none"
    max_distance        int         0
    relative_order      str         "key-query"
    relative_values     bool        true
    num_buckets         int         0
    two_sided           bool
    alibi_slopes        list        []
    rotary_width        int         0
    rotary_base         float       10000.0
    rotary_scaling      dict        {}
    rotary_trained      int         0
    rotary_context      int         0
    score               str         "dot"
    cross_score         str         "dot"
    cross_score_scale   float|str
""")
# What a description must say, or its preset.
_NEEDED = words("heads position norm_place embedding_scale score_scale final_norm")
_NUMBERS = ("alibi_slopes",)  # lists of numbers; every other list is one of ids
_MODEL_KEYS = _keys_of("""
    name     str         ""
    author   str         ""
    license  str         ""
    credit   str         ""
    origin   str         ""
    preset   str
    stack    str         "encoder-decoder"
    output   str         "own"
    output_scale  float|str  "one"
    head_activation  str  "none"
""")
_SIDE_KEYS = _keys_of("""
    vocabulary        int         0
    tokenizer         str         ""
    pad               int         -1
    unknown           int         -1
    start             int         -1
    end               list        []
    decoder_start     int         -1
    forced_first      int         -1
    mask              int         -1
    prefix            list        []
    suffix            list        []
    embedding_shared  bool        false
""")
KEYS = {**_MODEL_KEYS, **_STACK_KEYS}
# nn.Transformer has a norm after each stack wherever the blocks' norms are; attention divides by
# √(head width). Published code of the style "separate" divides scores by √(head width) or by
# √heads: the description must say which.
_PRESET_DEFAULTS = {
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


@dataclass
class Description:
    """What a TOML says. `stacks` has the keys of _STACK_KEYS for each stack there is, `sides` those
    of _SIDE_KEYS."""

    path: Path
    model: dict[str, Any]
    stacks: dict[str, dict[str, Any]]
    sides: dict[str, dict[str, Any]]
    names: dict[str, str] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    ignore: list[str] = field(default_factory=list)

    @property
    def stack(self) -> int:
        return STACKS[self.model["stack"]]

    @property
    def preset(self) -> str:
        return self.model["preset"]


def _typed(where: str, key: str, value: Any, kinds: tuple[type, ...]) -> Any:
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise PhasorError(
            f"{where}{key}: {shown(value)}, expected {' or '.join(k.__name__ for k in kinds)}"
        )
    if type(value) is int and abs(value) > _MOST_NUMBER:
        raise PhasorError(f"{where}{key}: {shown(value)}, expected at most {_MOST_NUMBER}")
    if key == "layers" and value > D.MAX_LAYERS:
        raise PhasorError(f"{where}{key}: {value}, expected at most {D.MAX_LAYERS}")
    if isinstance(value, float) and not math.isfinite(value):
        raise PhasorError(f"{where}{key}: {value!r}, expected a finite number")
    if key in _NUMBERS:
        if not all(map(is_number, value)):
            raise PhasorError(f"{where}{key}: expected a list of finite numbers")
    elif isinstance(value, list) and not all(is_whole(v, 0, _MOST_NUMBER) for v in value):
        raise PhasorError(f"{where}{key}: expected a list of ids")
    if key in CHOICES and value not in CHOICES[key]:
        other = {"position": "attention_position", "attention_position": "position"}.get(key)
        hint = f'; did you mean {other} = "{value}"?' if other and value in CHOICES[other] else ""
        raise PhasorError(
            f"{where}{key}: {shown(value)}, expected {' or '.join(CHOICES[key])}{hint}"
        )
    return value


def _table(content: dict, name: str) -> dict:
    value = content.pop(name, {})
    if not isinstance(value, dict):
        raise PhasorError(f"{name}: expected a table")
    return value


def _keys(where: str, content: dict, known: dict) -> dict[str, Any]:
    for key in content:
        if key not in known:
            raise PhasorError(
                f"{where}{printable(key)}: no key is called so here; there are {', '.join(known)}"
            )
    return {key: _typed(where, key, value, known[key][0]) for key, value in content.items()}


def _texts(name: str, table: dict) -> dict[str, str]:
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


def _stack(name: str, shared: dict, own: dict, preset: str, also: str) -> dict[str, Any]:
    """The keys of one stack: its own, else the model's, else the preset's, else the default. also:
    what else a description lacks, said with the keys that are missing here."""
    given, preset_values = {**shared, **own}, _PRESET_DEFAULTS[preset]
    out = {key: default for key, (_, default) in _STACK_KEYS.items()}
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
    for key, (kinds, _) in _STACK_KEYS.items():
        if int in kinds and out[key] < (key == "heads"):
            raise PhasorError(f"{name}: {key}: {out[key]} is too small")
    if out["norm_eps"] < 0:
        raise PhasorError(f"{name}: norm_eps: {out['norm_eps']} is negative")
    if out["two_sided"] is None:
        out["two_sided"] = name == "encoder"
    return out


def _scales(out: dict[str, Any], given: dict, preset: float | str | None) -> None:
    """What the scores are divided by where it is not said: an additive score by 1; cross-attention
    as self-attention, where the scores are of one kind."""
    for key in ("", "cross_"):
        additive, scale = out[f"{key}score"] == "additive", given.get(f"{key}score_scale")
        if scale is None and key and out["score"] == out["cross_score"]:
            scale = out["score_scale"]
        out[f"{key}score_scale"] = scale if scale is not None else 1.0 if additive else preset


def scale_of(where: str, value: float | str, names: dict[str, float]) -> float:
    """A number, or one of the names."""
    if isinstance(value, str):
        if value not in names:
            raise PhasorError(f"{where}: {value!r}, expected a number or {' or '.join(names)}")
        return names[value]
    return value


def read_description(path: os.PathLike | str) -> Description:
    """Reads and checks a description; PhasorError names the file and the key."""
    path = Path(path)
    text = read_text(path, _MOST_BYTES)
    try:
        return parse_description(_parse(text), path)
    except PhasorError as error:
        raise named(path, error) from error


def _parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text. PhasorError for one that is none, or that is nested deeper than
    any description."""
    dots = max(line.partition("=")[0].count(".") for line in text.split("\n"))
    if dots > _MOST_DOTS:  # tomllib takes the square of them
        raise PhasorError(f"not TOML that is built: a key with {dots} dots")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PhasorError(f"not TOML: {printable(str(error), 200)}") from error
    except RecursionError as error:
        raise PhasorError("not TOML that is built: it is nested too deep") from error
    except ValueError as error:  # of int() and of datetime
        raise PhasorError(
            f"not TOML: a number or a date that cannot be: {printable(str(error))}"
        ) from error
    todo = [(content, 0)]
    while todo:
        inside, depth = todo.pop()
        if depth > JSON_DEPTH:
            raise PhasorError("not TOML that is built: it is nested too deep")
        todo += [
            (child, depth + 1)
            for child in (inside.values() if isinstance(inside, dict) else inside)
            if isinstance(child, (dict, list))
        ]
    return content


def parse_description(content: dict, path: Path = Path("description")) -> Description:
    """The same from a dictionary, as a TOML reader gives it."""
    content = dict(content)
    tables = {
        name: _table(content, name)
        for name in ("encoder", "decoder", "source", "target", "names", "rename", "checkpoint")
    }
    given = _keys("", content, KEYS)
    model = {key: given.get(key, default) for key, (_, default) in _MODEL_KEYS.items()}
    for key, known in (("preset", PRESETS), ("stack", STACKS)):
        if model[key] not in known:
            found = "missing" if model[key] is None else shown(model[key])
            raise PhasorError(f"{key}: {found}, expected one of {', '.join(known)}")
    wanted = STACKS[model["stack"]]
    shared = {key: value for key, value in given.items() if key in _STACK_KEYS}
    begins = wanted != D.ENCODER_DECODER or {"start", "decoder_start"} & tables["target"].keys()
    also = "" if begins else "; target.start: missing too, the id that an output begins with"
    stacks, sides = {}, {}
    for name, side, absent in (("encoder", "source", D.DECODER), ("decoder", "target", D.ENCODER)):
        if wanted == absent:
            for table in (name, side):
                if tables[table]:
                    raise PhasorError(f"{table}: a model of stack {model['stack']!r} has none")
            continue
        stacks[name] = _stack(
            name, shared, _keys(f"{name}.", tables[name], _STACK_KEYS), model["preset"], also
        )
        given_side = _keys(f"{side}.", tables[side], _SIDE_KEYS)
        for key, value in given_side.items():
            if type(value) is int and value < 0:
                raise PhasorError(f"{side}.{key}: {value} is not an id")
        if not is_below(given_side.get("tokenizer", "")):
            raise PhasorError(
                f"{side}.tokenizer: {shown(given_side['tokenizer'])} is not beside the description "
                "or in a folder there (--tokenizer takes any file)"
            )
        sides[side] = {**{key: default for key, (_, default) in _SIDE_KEYS.items()}, **given_side}
    checkpoint = tables["checkpoint"]
    key, ignore = checkpoint.pop("key", None), checkpoint.pop("ignore", [])
    if checkpoint:
        raise PhasorError(
            f"checkpoint.{printable(next(iter(checkpoint)))}: no key is called so here; there are "
            "key, ignore"
        )
    if (
        not (key is None or isinstance(key, str))
        or not isinstance(ignore, list)
        or not all(isinstance(p, str) for p in ignore)
    ):
        raise PhasorError("checkpoint: key is text and ignore a list of patterns")
    if any(c in pattern for pattern in ignore for c in "[]"):
        raise PhasorError(
            "checkpoint.ignore: in a pattern * is any text and ? any character; [ and ] are not "
            "built"
        )
    for where, rules in (("checkpoint.ignore", ignore), ("rename", tables["rename"])):
        if len(rules) > _MOST_RULES:
            raise PhasorError(f"{where}: {len(rules)} entries, expected at most {_MOST_RULES}")
    return Description(
        path,
        model,
        stacks,
        sides,
        names=_texts("names", tables["names"]),
        rename=_texts("rename", tables["rename"]),
        key=key,
        ignore=ignore,
    )
