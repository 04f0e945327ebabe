"""The descriptor: the fields of META as plain dictionaries, their defaults, and what fits together.
meta.py has their bytes. numpy is not needed here.

A descriptor is {"model": {...}, "source": {...}, "target": {...}, "encoder": {...}, "decoder":
{...}, "kinds": [{...}], "output": {...}, "generation": {...}} with the field names of
docs/reference/file-format.md and numbers as values. A scope that the stack does not have is absent.
`with_defaults` fills every field, so that readers never test for presence; an absent id is None.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from phasor.errors import PhasorError
from phasor.format import per_layer, sides
from phasor.format.convolution import convolution_rules
from phasor.format.fields import *
from phasor.format.merged import merged_rules

MAX_VALUE = 4 * 65536  # bytes of an array or a text
RECORD_END, UNIT_END = "\x1e", "\x1f"  # of labels and prompts
# The prompt that is no prefix: of two texts that are read together, with their places.
PAIR, PAIR_PLACES = "pair", ("{query}", "{document}")
STEEPEST = 4  # length penalty of beams, either way

# Biases of all matrices of attention, of those that read its input, and of the feed-forward.
QKV_BIASES = BIAS_Q | BIAS_K | BIAS_V
ATTENTION_BIASES = QKV_BIASES | BIAS_OUT
FFN_BIASES = BIAS_IN | BIAS_FFN_OUT

# a sequence has at most max_distance
BOUNDED = (RELATIVE_KEY, RELATIVE_KEY_QUERY, THREE_WAY, DISENTANGLED)
RELATIVE_KEYS = (*BOUNDED, CLIPPED)  # positions with a table of keys


class Activation(NamedTuple):
    """One row: an activation of docs/reference/file-format.md, and what others call it."""

    number: int
    name: str  # for people
    word: str  # in a description; empty: of a head only
    configs: tuple[str, ...]  # in a config.json
    module: str  # the class in torch.nn


ACTIVATIONS = [Activation(*row) for row in ACTIVATION_ROWS]


class Field(NamedTuple):
    """One key: its number, type, name, default, and the range of a u32 or of an array's length. A
    default of None is an absent id, or depends on other fields."""

    number: int
    type: int
    name: str
    default: Any
    low: int
    high: int
    origin: str  # the field that has the default, "" or "encoder.width"


_FIELDS = {scope: tuple(Field(*row) for row in rows) for scope, rows in FIELD_ROWS.items()}
# By name, in the order of their numbers from 0.
SCOPES = {name: _FIELDS[scope] for name, scope in SCOPE_NAMES.items()}
_IDS_OF_SIDE = [
    f.name for f in _FIELDS["side"] if f.type == U32 and f.default is None and not f.origin
]


def scopes_of(
    descriptor: dict[str, Any],
) -> Iterator[tuple[str, int, dict[str, Any], tuple[Field, ...]]]:
    """(name for people, first key, values, fields) in the order of the keys."""
    unknown = set(descriptor) - set(SCOPES)
    if unknown:
        raise PhasorError(f"descriptor: no scope is called {sorted(unknown)[0]!r}")
    for number, (name, fields) in enumerate(SCOPES.items()):
        if name == "kinds":
            for index, kind in enumerate(descriptor.get(name, ())):
                yield f"kind{index}", number << 24 | index << 12, kind, fields
        elif descriptor.get(name) is not None:
            yield name, number << 24, descriptor[name], fields


def _filled(where: str, values: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    out = dict(values)
    for field in fields:
        if out.get(field.name) is None:
            if field.default is NEEDED:
                raise PhasorError(f"{where}.{field.name}: is missing")
            out[field.name] = [] if field.type == IDS else field.default
    return out


def _derive(values: dict[str, Any], fields: tuple[Field, ...], others: dict[str, Any]) -> None:
    """Defaults that are another field's, of the same scope or of one in `others`."""
    for field in fields:
        scope, _, name = field.origin.rpartition(".")
        if field.origin and values[field.name] is None:
            values[field.name] = others.get(scope, {}).get(name) if scope else values[name]


def with_defaults(descriptor: dict[str, Any]) -> dict[str, Any]:
    """A copy with every field of every scope that is there; PhasorError for one that must be there
    and is not."""
    for name in ("model", "kinds", "output"):
        if not descriptor.get(name):
            raise PhasorError(f"metadata: scope {name} is missing")
    out: dict[str, Any] = {}
    for where, _, values, fields in scopes_of(descriptor):
        filled = _filled(where, values, fields)
        if fields is SCOPES["kinds"] and filled["norm_biases"] is None:
            filled["norm_biases"] = int(filled["norm"] == LAYER_NORM)
        _derive(filled, fields, out)
        if fields is SCOPES["kinds"]:
            out.setdefault("kinds", []).append(filled)
        else:
            out[where] = filled
    return out


def _refuse(where: str, *rules: tuple[Any, str]) -> None:
    """PhasorError with the text of the first rule that is broken."""
    for broken, text in rules:
        if broken:
            raise PhasorError(where + text)


def _check_side(name: str, side: dict[str, Any]) -> None:
    ids = [side[name] for name in _IDS_OF_SIDE]
    for value in ids + side["end"] + side["prefix"] + side["suffix"] + side["pair"]:
        if value is not None and value >= side["vocabulary"]:
            raise PhasorError(
                f"{name}: special id {value} is not below the vocabulary {side['vocabulary']}"
            )
    if side["tokenizer"] not in (0, 3, 4):
        raise PhasorError(f"{name}.tokenizer: {side['tokenizer']}, expected 0, 3 or 4")


def _check_layers(name: str, descriptor: dict[str, Any]) -> None:
    kinds, sets, width = descriptor["kinds"], 0, descriptor[name]["width"]
    crossing = name == "decoder" and descriptor["model"]["stack"] == ENCODER_DECODER
    if len(descriptor[name]["layers"]) % 2:
        raise PhasorError(f"{name}.layers: an odd number of values")
    for i, (index, weights) in enumerate(layers_of(descriptor[name])):
        if index >= len(kinds):
            raise PhasorError(
                f"{name}.layers: layer {i} is of kind {index}, there are {len(kinds)}"
            )
        kind, layer = kinds[index], f"{name}.layers: layer {i} has "
        _refuse(
            "",
            (
                weights > sets,
                f"{name}.layers: sets of weights must be numbered in order of first use",
            ),
            (
                name == "decoder" and kind["causal"],
                f"kind{index}.causal: a decoder's layers are so by themselves",
            ),
            *per_layer.layer_rules(name, kinds, layers_of(descriptor[name]), i),
            (crossing and not kind["cross"], layer + "no cross-attention"),
            (kind["cross"] and not crossing, layer + "a cross-attention without an encoder"),
            (
                kind["cross"] == MERGED and descriptor[name].get("cross_width") != width,
                f"{name}.cross_width: {descriptor[name].get('cross_width')}, merged attention "
                f"needs the decoder's width {width}",
            ),
        )
        sets += weights == sets


def _check_stack(name: str, descriptor: dict[str, Any]) -> None:
    stack, side = descriptor[name], "source" if name == "encoder" else "target"
    inner = input_width(stack)
    field = "width" if inner == stack["width"] else "embedding_width"
    own = stack["embedding_width"] == stack["width"]
    _refuse(
        f"{name}.",
        (
            stack["position"] == LEARNED and stack["max_positions"] == 0,
            "max_positions: learned positions need the number of rows",
        ),
        (
            stack["position"] in (INTERLEAVED, HALVES) and inner % 2,
            f"{field}: {inner} is odd, sine and cosine need an even width",
        ),
        (own and stack["projection_bias"], "projection_bias: the embedding is not projected"),
        (own and stack["projection_place"], "projection_place: the embedding is not projected"),
        (
            stack["embedding_norm_place"] and not stack["embedding_norm"],
            "embedding_norm_place: the embedding has no norm",
        ),
        *(
            (stack[eps] < 0, f"{eps}: is negative")
            for eps in ("embedding_norm_eps", "final_norm_eps")
        ),
        *per_layer.stack_rules(name, stack),
    )
    sides.check(side, descriptor[side], stack, name == "encoder")


def _check_kind(i: int, kind: dict[str, Any]) -> None:
    position, width, before = kind["position"], kind["rotary_width"], kind["norm_place"] == BEFORE
    rotary = position in (ROTARY_INTERLEAVED, ROTARY_HALVES)
    table = position in (*RELATIVE_KEYS, T5_BIAS)
    _refuse(
        f"kind{i}.",
        (
            kind["heads"] % kind["kv_heads"] or kind["cross_heads"] % kind["cross_kv_heads"],
            "kv_heads: does not divide the heads",
        ),
        (
            rotary and (width == 0 or width % 2 or width > kind["head_width"]),
            f"rotary_width: {width}, expected an even number up to the head width "
            f"{kind['head_width']}",
        ),
        (not rotary and width, "rotary_width: nothing is rotary here"),
        (
            table and not kind["max_distance"],
            "max_distance: missing, its position needs a table of distances",
        ),
        (not table and kind["max_distance"], "max_distance: nothing is relative here"),
        (
            position in RELATIVE_KEYS and kind["score"] == ADDITIVE,
            "score: an additive score has no relative keys",
        ),
        (kind["activation"] == TANH, "activation: tanh is allowed only in a head"),
        (kind["norm_eps"] < 0, "norm_eps: is negative"),
        (kind["cap"] < 0, "cap: is negative"),
        (kind["qkv_clip"] < 0, "qkv_clip: is negative"),
        (
            kind["qk_norm_over"] and not kind["qk_norm"],
            "qk_norm_over: there is no norm of q and k",
        ),
        (
            kind["qk_norm_place"] and not (kind["qk_norm"] and rotary),
            "qk_norm_place: 1 goes with a norm of q and k, and rotary positions",
        ),
        (
            kind["parallel"] and (not before or kind["cross"] or not kind["attention_norm"]),
            "parallel: goes with norm_place before, without cross-attention",
        ),
        (
            kind["parallel"] == SHARED_INPUT and kind["input_scales"],
            "input_scales: the sub-layers of this parallel block read one input",
        ),
        *convolution_rules(kind),
        *merged_rules(kind, position in RELATIVE_KEYS),
        *per_layer.kind_rules(kind),
        (
            not kind["attention_norm"] and not before,
            "attention_norm: 0, which goes with norm_place before only",
        ),
    )


def _check_output(descriptor: dict[str, Any]) -> None:
    o = descriptor["output"]
    what, encoder = o["output"], descriptor["model"]["stack"] == ENCODER
    if o["head_activation"] == XIELU:
        raise PhasorError("output.head_activation: xIELU is allowed only in a feed-forward")
    head = [name for name in ("head_width", "head_activation", "head_norm", "head_bias") if o[name]]
    both = descriptor["model"]["stack"] == ENCODER_DECODER and what == CLASSES
    alone = [
        name
        for name in ("pooling", "normalize", "classes", "scores")
        if o[name] and not (both and name in ("classes", "scores"))
    ]
    labels = labels_of(o)
    _refuse(
        "output.",
        *((o[name] < 0, f"{name}: is negative") for name in ("cap", "head_norm_eps")),
        (
            not encoder and (not (what == LOGITS or both) or alone),
            f"{alone[0] if alone else 'output'}: a decoder gives logits, without pooling, or"
            " classes behind an encoder",
        ),
        (what == POOLED and not o["pooling"], "pooling: missing, a pooled vector needs one"),
        (what == CLASSES and not o["classes"], "classes: missing, classes need their number"),
        (
            o["pooling"] and what not in (POOLED, CLASSES),
            "pooling: logits and hidden states are there for each position, they have none",
        ),
        (o["classes"] and what != CLASSES, "classes: goes with classes only"),
        (o["scores"] and what != CLASSES, "scores: goes with classes only"),
        (o["normalize"] and what != POOLED, "normalize: goes with a pooled vector only"),
        (what == HIDDEN and head, f"{''.join(head[:1])}: hidden states have no head"),
        (o["head_bias"] and not o["head_width"], "head_bias: the head has no dense layer"),
        (
            o["bias"] and what not in (LOGITS, CLASSES),
            "bias: there is no matrix to add it to",
        ),
        (
            o["labels"] and (len(labels) != o["classes"] or not o["labels"].endswith(RECORD_END)),
            f"labels: {len(labels)} names, each followed by U+001E, expected {o['classes']}",
        ),
    )
    prompts_of(o)
    if what != LOGITS or o["tied"] == TIED_OWN:
        return
    side, name = ("source", "encoder") if o["tied"] == TIED_SOURCE else ("target", "decoder")
    if name not in descriptor:
        raise PhasorError(f"output.tied: there is no {side} side")
    to = "source" if encoder else "target"
    if descriptor[side]["vocabulary"] != descriptor[to]["vocabulary"] or descriptor[name][
        "embedding_width"
    ] != output_inputs(descriptor):
        raise PhasorError(f"output.tied: the {side} embedding has another shape")


def _check_late(descriptor: dict[str, Any]) -> None:
    o, side = descriptor["output"], descriptor.get("source", {})
    markers = [o[name] for name in ("query_marker", "document_marker") if o[name] is not None]
    late = o["query_length"] > 0
    _refuse(
        "output.",
        (
            not late and (o["document_length"] or o["expansion"] or markers or o["skipped"]),
            "query_length: missing, late interaction needs it",
        ),
        (
            late
            and (descriptor["model"]["stack"] != ENCODER or o["output"] != CLASSES or o["pooling"]),
            "query_length: late interaction needs an encoder with classes at each position",
        ),
        (late and not o["document_length"], "document_length: missing, late interaction needs it"),
        (
            o["expansion"] and side.get("mask") is None,
            "expansion: the model has no mask token to fill a query with",
        ),
    )
    for value in markers + list(o["skipped"]):
        if value >= side["vocabulary"]:
            raise PhasorError(
                f"output: id {value} is not below the vocabulary {side['vocabulary']}"
            )


def _check_generation(descriptor: dict[str, Any]) -> None:
    g = descriptor["generation"]
    if descriptor["model"]["stack"] == ENCODER:
        raise PhasorError("generation: present, an encoder generates nothing")
    vocabulary = descriptor["target"]["vocabulary"]
    for name in ("top_p", "min_p", "typical_p", "temperature", "repetition_penalty"):
        share = name.endswith("_p")
        if share and not 0 <= g[name] <= 1:
            raise PhasorError(f"generation.{name}: {g[name]}, expected 0 to 1")
        if g[name] < 0:
            raise PhasorError(f"generation.{name}: {g[name]} is negative")
    if not -STEEPEST <= g["length_penalty"] <= STEEPEST:
        raise PhasorError(f"generation.length_penalty: {g['length_penalty']}, expected -4 to 4")
    words, at = g["bad_words"], 0
    sequences: list[int] = []
    while at < len(words):
        left = len(words) - at - 1
        if not 1 <= words[at] <= left:
            raise PhasorError(
                f"generation.bad_words: a sequence of {words[at]} ids, expected 1 to {left}"
            )
        sequences += words[at + 1 : at + 1 + words[at]]
        at += 1 + words[at]
    last = [] if g["forced_last"] is None else [g["forced_last"]]
    for name, ids in (
        ("suppressed", g["suppressed"]),
        ("forced_last", last),
        ("bad_words", sequences),
    ):
        for value in ids:
            if value >= vocabulary:
                raise PhasorError(
                    f"generation.{name}: id {value} is not below the vocabulary {vocabulary}"
                )


def check(descriptor: dict[str, Any]) -> None:
    """PhasorError for values that do not fit each other. Takes a descriptor with defaults."""
    stack = descriptor["model"]["stack"]
    source, target = descriptor.get("source", {}), descriptor.get("target", {})
    encoder, decoder = descriptor.get("encoder", {}), descriptor.get("decoder", {})
    for side, name, absent in (("source", "encoder", DECODER), ("target", "decoder", ENCODER)):
        for scope in (side, name):
            _refuse(
                scope,
                (scope in descriptor and stack == absent, ": present, the stack has none"),
                (scope not in descriptor and stack != absent, ": missing, the stack needs it"),
            )
        if stack != absent:
            _check_side(side, descriptor[side])
            _check_layers(name, descriptor)
            _check_stack(name, descriptor)
    for i, kind in enumerate(descriptor["kinds"]):
        _check_kind(i, kind)
    both = stack == ENCODER_DECODER
    same = (
        both
        and source["vocabulary"] == target["vocabulary"]
        and encoder["embedding_width"] == decoder["embedding_width"]
    )
    _refuse(
        "",
        (
            both and decoder["cross_width"] != encoder["width"],
            f"decoder.cross_width: {decoder.get('cross_width')}, the encoder's width is "
            f"{encoder.get('width')}",
        ),
        (
            both and target["decoder_start"] is None,
            "target.decoder_start: missing, an encoder-decoder needs it",
        ),
        (
            source.get("embedding_shared"),
            "source.embedding_shared: only the target side can share",
        ),
        (
            target.get("embedding_shared") and not same,
            "target.embedding_shared: the sides differ in vocabulary or width",
        ),
    )
    _check_output(descriptor)
    _check_late(descriptor)
    if "generation" in descriptor:
        _check_generation(descriptor)


def input_width(stack: dict[str, Any]) -> int:
    """The width of segments, positions and the embedding's norm: that of the embedding, or of the
    stack where the projection comes first."""
    result: int = stack["width"] if stack["projection_place"] else stack["embedding_width"]
    return result


def reach(kind: dict[str, Any]) -> int:
    """Distances that a kind's tables have on each side of 0: entries are 2·reach + 1, and distance
    d = key − query is entry d + reach."""
    result: int = kind["max_distance"] - (kind["position"] not in (CLIPPED, T5_BIAS))
    return result


def longest(descriptor: dict[str, Any], name: str) -> int:
    """Positions of a stack's longest sequence: its own limit, and where its relative tables end; 0:
    no limit."""
    kinds = [descriptor["kinds"][k] for k, _ in layers_of(descriptor[name])]
    limits = [
        descriptor[name]["max_positions"],
        *(k["max_distance"] for k in kinds if k["position"] in BOUNDED),
    ]
    return min([n for n in limits if n], default=0)


def output_inputs(descriptor: dict[str, Any]) -> int:
    """What the output's matrix reads: the head's outputs, or the stack's."""
    name = "encoder" if descriptor["model"]["stack"] == ENCODER else "decoder"
    result: int = descriptor["output"]["head_width"] or descriptor[name]["width"]
    return result


def output_width(descriptor: dict[str, Any]) -> int:
    """Values of an output row: the vocabulary, the classes, or the vector."""
    o = descriptor["output"]
    if o["output"] == LOGITS:
        result: int = descriptor["source" if descriptor["model"]["stack"] == ENCODER else "target"][
            "vocabulary"
        ]
        return result
    return o["classes"] if o["output"] == CLASSES else output_inputs(descriptor)


def output_rows(descriptor: dict[str, Any], count: int) -> int:
    """Output rows of `count` positions."""
    return 1 if descriptor["output"]["pooling"] else count


def labels_of(output: dict[str, Any]) -> list[str]:
    """The names of the classes; empty when the file has none."""
    result: list[str] = output["labels"].split(RECORD_END)[:-1]
    return result


def prompts_of(output: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of each prefix for texts, the default first. PhasorError when the string is not
    made so."""
    records = [record.split(UNIT_END) for record in output["prompts"].split(RECORD_END)]
    if records.pop() != [""] or any(len(record) != 2 for record in records):
        raise PhasorError("output.prompts: expected a name, U+001F, a text and U+001E for each")
    return [(name, text) for name, text in records]


def layers_of(stack: dict[str, Any]) -> list[tuple[int, int]]:
    """(kind, weights) of each layer."""
    values = stack["layers"]
    return [(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
