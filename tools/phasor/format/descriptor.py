"""The descriptor: the typed keys of META, between a file's bytes and plain dictionaries. numpy is
not needed here.

A descriptor is {"model": {...}, "source": {...}, "target": {...}, "encoder": {...}, "decoder":
{...}, "kinds": [{...}], "output": {...}, "generation": {...}} with the field names of
docs/format.md and numbers as values. A scope that the stack does not have is absent.
`with_defaults` fills every field, so that readers never test for presence; an absent id is None.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Iterator, NamedTuple

from phasor.format.layout import PhasorError, round_up

U32, FLOAT, STRING, IDS, FLOATS = 1, 2, 3, 4, 5
NEEDED = object()  # a field that the file must have
DERIVED = object()  # a default that depends on other fields
ABSENT = 0xFFFFFFFF
MAX_VOCABULARY, MAX_WIDTH, MAX_LAYERS, MAX_KINDS, MAX_IDS = 1 << 24, 65536, 1024, 256, 16

ENCODER, DECODER, ENCODER_DECODER = 1, 2, 3
LAYER_NORM, RMS_NORM = 1, 2
BEFORE, AFTER, BOTH, SUBLAYER = 1, 2, 3, 4  # where norms stand; SUBLAYER: x + norm(f(x))
SERIAL, SHARED_INPUT, TWO_NORMS = (
    0,
    1,
    2,
)  # parallel blocks: one norm for both sub-layers, or one each
HEAD, OWN_HEAD, ALL_HEADS = (
    0,
    1,
    2,
)  # what a norm of q and k goes over: a head, with weights of its own or not, or all heads at once
LEARNED, INTERLEAVED, HALVES = 1, 2, 3
(
    RELATIVE_KEY,
    RELATIVE_KEY_QUERY,
    CLIPPED,
    ROTARY_INTERLEAVED,
    ROTARY_HALVES,
    T5_BIAS,
    ALIBI,
    THREE_WAY,
) = 1, 2, 3, 4, 5, 6, 7, 8
DOT, ADDITIVE = 0, 1
RELU, GELU_ERF, GELU_TANH, SILU = 1, 2, 3, 4
LOGITS, HIDDEN, POOLED, CLASSES = 1, 2, 3, 4
MEAN, FIRST, LAST = 1, 2, 3
TANH = 5  # a head's activation; the others are those of the feed-forward, 0 is none
SOFTMAX, SIGMOID, PLAIN = 0, 1, 2
RECORD_END, UNIT_END = "\x1e", "\x1f"  # of labels and prompts
TIED_OWN, TIED_TARGET, TIED_SOURCE = 0, 1, 2


RELATIVE_KEYS = (
    RELATIVE_KEY,
    RELATIVE_KEY_QUERY,
    CLIPPED,
    THREE_WAY,
)  # positions with a table of keys
BOUNDED = (
    RELATIVE_KEY,
    RELATIVE_KEY_QUERY,
    THREE_WAY,
)  # a sequence has at most max_distance positions


class Field(NamedTuple):
    """One key: its number, type, name, default, and the range of a u32 or of an array's length."""

    number: int
    type: int
    name: str
    default: Any
    low: int = 0
    high: int = 0xFFFFFFFE


def _numbers(*rows: tuple) -> dict[str, Field]:
    return {row[2]: Field(*row) for row in rows}


_SIDE = _numbers(
    (1, U32, "vocabulary", NEEDED, 1, MAX_VOCABULARY),
    (2, U32, "tokenizer", 0, 0, 4),
    (3, U32, "embedding_shared", 0, 0, 1),
    *(
        (n, U32, name, None, 0, MAX_VOCABULARY - 1)
        for n, name in (
            (4, "pad"),
            (5, "unknown"),
            (6, "start"),
            (8, "decoder_start"),
            (9, "forced_first"),
            (10, "mask"),
        )
    ),
    *(
        (n, IDS, name, [], 0, MAX_IDS)
        for n, name in ((7, "end"), (11, "prefix"), (12, "suffix"), (13, "pair"))
    ),
    (14, U32, "pair_segment", 0, 0, 65535),
)
_STACK = _numbers(
    (1, U32, "width", NEEDED, 1, MAX_WIDTH),
    (2, IDS, "layers", NEEDED, 2, 2 * MAX_LAYERS),
    (3, U32, "position", 0, 0, 3),
    (4, U32, "max_positions", 0, 0, 1 << 24),
    (5, FLOAT, "embedding_scale", 1.0),
    (6, U32, "embedding_width", DERIVED, 1, MAX_WIDTH),
    (7, U32, "embedding_norm", 0, 0, 2),
    (8, FLOAT, "embedding_norm_eps", 0.0),
    (9, U32, "segments", 0, 0, 65536),
    (10, U32, "final_norm", 0, 0, 2),
    (11, FLOAT, "final_norm_eps", 0.0),
    (12, U32, "cross_width", DERIVED, 1, MAX_WIDTH),
    (13, U32, "projection_bias", 0, 0, 1),
    (14, U32, "projection_place", 0, 0, 1),
)
SCOPES: dict[str, tuple[int, dict[str, Field]]] = {
    "model": (
        0,
        _numbers(
            (1, U32, "stack", NEEDED, 1, 3),
            *(
                (16 + i, STRING, name, "")
                for i, name in enumerate(
                    ("name", "author", "licence", "credit", "origin", "converter")
                )
            ),
        ),
    ),
    "source": (1, _SIDE),
    "target": (2, _SIDE),
    "encoder": (3, _STACK),
    "decoder": (4, _STACK),
    "kinds": (
        5,
        _numbers(
            (1, U32, "norm", NEEDED, 1, 2),
            (2, U32, "norm_place", NEEDED, 1, 4),
            (3, FLOAT, "norm_eps", NEEDED),
            (4, U32, "parallel", 0, 0, 2),
            (5, U32, "heads", NEEDED, 1, 4096),
            (6, U32, "kv_heads", DERIVED, 1, 4096),
            (7, U32, "head_width", NEEDED, 1, 4096),
            (8, FLOAT, "scale", NEEDED),
            (9, U32, "score", 0, 0, 1),
            (10, U32, "attention_biases", 0, 0, 15),
            (11, U32, "qk_norm", 0, 0, 2),
            (12, U32, "window", 0, 0, 1 << 24),
            (13, FLOAT, "cap", 0.0),
            (14, U32, "position", 0, 0, 8),
            (15, U32, "rotary_width", 0, 0, 4096),
            (16, U32, "max_distance", 0, 0, 1 << 24),
            (17, U32, "hidden", NEEDED, 1, 1 << 20),
            (18, U32, "activation", NEEDED, 1, 4),
            (19, U32, "gated", 0, 0, 1),
            (20, U32, "ffn_biases", 0, 0, 3),
            (21, U32, "cross", 0, 0, 1),
            (22, U32, "cross_heads", DERIVED, 1, 4096),
            (23, U32, "cross_kv_heads", DERIVED, 1, 4096),
            (24, U32, "cross_head_width", DERIVED, 1, 4096),
            (25, FLOAT, "cross_scale", DERIVED),
            (26, U32, "cross_biases", 0, 0, 15),
            (27, FLOAT, "residual_scale", 1.0),
            (28, U32, "norm_biases", DERIVED, 0, 1),
            (29, U32, "score_order", 0, 0, 0xFFFFFFFE),
            (30, U32, "cross_score", 0, 0, 1),
            (31, U32, "attention_norm", 1, 0, 1),
            (32, FLOAT, "rotary_factor", 1.0),
            (33, U32, "input_scales", 0, 0, 3),
            (34, U32, "qk_norm_over", 0, 0, 2),
            (35, FLOAT, "qkv_clip", 0.0),
        ),
    ),
    "output": (
        6,
        _numbers(
            (1, U32, "output", NEEDED, 1, 4),
            (2, U32, "tied", 0, 0, 2),
            (3, FLOAT, "scale", 1.0),
            (4, FLOAT, "cap", 0.0),
            (5, U32, "bias", 0, 0, 1),
            (6, U32, "pooling", 0, 0, 3),
            (7, U32, "normalise", 0, 0, 1),
            (8, U32, "classes", 0, 0, 1 << 24),
            (9, U32, "head_width", 0, 0, MAX_WIDTH),
            (10, U32, "head_activation", 0, 0, 5),
            (11, U32, "head_norm", 0, 0, 2),
            (12, FLOAT, "head_norm_eps", 0.0),
            (13, U32, "head_bias", 0, 0, 1),
            (14, U32, "scores", 0, 0, 2),
            (16, STRING, "labels", ""),
            (17, STRING, "prompts", ""),
        ),
    ),
    "generation": (
        7,
        _numbers(
            (1, U32, "sample", 0, 0, 1),
            (2, FLOAT, "temperature", 0.0),
            (3, U32, "top_k", 0, 0, MAX_VOCABULARY),
            (4, FLOAT, "top_p", 0.0),
            (5, FLOAT, "min_p", 0.0),
            (6, FLOAT, "typical_p", 0.0),
            (7, FLOAT, "repetition_penalty", 0.0),
            (8, U32, "no_repeat_ngram", 0, 0, MAX_VOCABULARY),
            (9, U32, "min_new", 0, 0, MAX_VOCABULARY),
            (10, U32, "max_new", 0, 0, MAX_VOCABULARY),
            (11, IDS, "suppressed", [], 0, 65536),
        ),
    ),
}
_BY_NUMBER = {
    number: (name, {f.number: f for f in fields.values()})
    for name, (number, fields) in SCOPES.items()
}


# ---- Values
# ----------------------------------------------------------------------------------------------------------


def _check_value(where: str, field: Field, value: Any) -> None:
    """PhasorError unless the value has the field's type and lies in its range."""
    name = f"{where}.{field.name}"
    if field.type == U32:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not field.low <= value <= field.high
        ):
            raise PhasorError(
                f"{name}: {value!r}, expected a whole number from {field.low} to {field.high}"
            )
    elif field.type == FLOAT:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            raise PhasorError(f"{name}: {value!r}, expected a finite number")
    elif field.type == STRING:
        if not isinstance(value, str):
            raise PhasorError(f"{name}: expected text")
    else:
        if not isinstance(value, (list, tuple)) or not field.low <= len(value) <= field.high:
            raise PhasorError(f"{name}: expected {field.low} to {field.high} values")
        if not all(isinstance(v, int) and 0 <= v < 1 << 32 for v in value):
            raise PhasorError(f"{name}: expected whole numbers")


def _encode(field: Field, value: Any) -> bytes:
    if field.type == U32:
        return struct.pack("<I", value)
    if field.type == FLOAT:
        return struct.pack("<f", value)
    if field.type == STRING:
        return value.encode()
    return struct.pack(f"<{len(value)}I", *value)


def _entry(key: int, kind: int, required: bool, value: bytes) -> bytes:
    return (
        struct.pack("<IBBHI", key, kind, required, 0, len(value)) + value + bytes(-len(value) % 4)
    )


def _scopes(descriptor: dict) -> Iterator[tuple[str, int, int, dict, dict[str, Field]]]:
    """(name for people, scope, index, values, fields) in the order of the keys."""
    unknown = set(descriptor) - set(SCOPES)
    if unknown:
        raise PhasorError(f"descriptor: no scope is called {sorted(unknown)[0]!r}")
    for name, (number, fields) in SCOPES.items():
        values = descriptor.get(name)
        if values is None:
            continue
        for index, one in enumerate(values if name == "kinds" else [values]):
            yield (f"kind{index}" if name == "kinds" else name), number, index, one, fields


def encode_meta(descriptor: dict) -> bytes:
    """The META section. Fields that are absent, None or an empty string or list are left out."""
    out = []
    for where, scope, index, values, fields in _scopes(descriptor):
        for name in values:
            if name not in fields:
                raise PhasorError(f"{where}: no field is called {name!r}")
        for field in sorted(fields.values()):
            value = values.get(field.name)
            if value is None or value == "" or (field.type == IDS and len(value) == 0):
                continue
            _check_value(where, field, value)
            key = scope << 24 | index << 12 | field.number
            out.append(_entry(key, field.type, field.type != STRING, _encode(field, value)))
    check(with_defaults(descriptor))
    return b"".join(out)


# ---- Reading
# ---------------------------------------------------------------------------------------------------------


def _entries(data: bytes) -> Iterator[tuple[int, int, bool, bytes]]:
    """(key, type, required, value), with the framing checked."""
    at, last = 0, -1
    while at < len(data):
        if at + 12 > len(data):
            raise PhasorError("metadata: an entry is cut off")
        key, kind, flags, reserved, size = struct.unpack_from("<IBBHI", data, at)
        if key <= last:
            raise PhasorError(f"metadata: key {key} is not above the one before it")
        if flags & ~1 or reserved:
            raise PhasorError(f"metadata: key {key} has reserved bits set")
        if at + 12 + round_up(size, 4) > len(data):
            raise PhasorError(f"metadata: key {key} is cut off")
        if not U32 <= kind <= FLOATS:
            raise PhasorError(f"metadata: key {key} has type {kind}, which is not known")
        if (kind in (U32, FLOAT) and size != 4) or (
            kind in (IDS, FLOATS) and (size % 4 or size > 4 * 65536)
        ):
            raise PhasorError(f"metadata: key {key} has {size} bytes, not what its type asks for")
        value = data[at + 12 : at + 12 + size]
        if any(data[at + 12 + size : at + 12 + round_up(size, 4)]):
            raise PhasorError(f"metadata: key {key}: padding is not zero")
        yield key, kind, bool(flags), value
        at += 12 + round_up(size, 4)
        last = key


def _decode(where: str, field: Field, value: bytes) -> Any:
    if field.type == U32:
        return struct.unpack("<I", value)[0]
    if field.type == FLOAT:
        return struct.unpack("<f", value)[0]
    if field.type == STRING:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise PhasorError(f"{where}.{field.name}: not UTF-8") from error
    return list(struct.unpack(f"<{len(value) // 4}I", value))


def decode_meta(data: bytes) -> dict:
    """The descriptor of a META section, checked, without defaults filled in. Unknown optional keys
    are skipped."""
    out: dict[str, Any] = {}
    for key, kind, required, value in _entries(data):
        scope, index, number = key >> 24, key >> 12 & 0xFFF, key & 0xFFF
        name, fields = _BY_NUMBER.get(scope, ("", {}))
        field = fields.get(number)
        if field is None:
            if required:
                raise PhasorError(
                    f"metadata: key {key} (scope {scope}, field {number}) is required and not "
                    "known here"
                )
            continue
        where = f"{name}{index}" if name == "kinds" else name
        if kind != field.type:
            raise PhasorError(f"{where}.{field.name}: has type {kind}, expected {field.type}")
        decoded = _decode(where, field, value)
        _check_value(where, field, decoded)
        if name != "kinds":
            if index:
                raise PhasorError(f"metadata: index {index} of scope {scope}, expected 0")
            out.setdefault(name, {})[field.name] = decoded
            continue
        kinds = out.setdefault("kinds", [])
        if index > len(kinds) or index >= MAX_KINDS:
            raise PhasorError(f"metadata: index {index} of scope {scope}, expected {len(kinds)}")
        if index == len(kinds):
            kinds.append({})
        kinds[index][field.name] = decoded
    check(with_defaults(out))
    return out


# ---- The whole
# -------------------------------------------------------------------------------------------------------


def _filled(where: str, values: dict, fields: dict[str, Field]) -> dict:
    out = dict(values)
    for field in fields.values():
        if out.get(field.name) is not None:
            continue
        if field.default is NEEDED:
            raise PhasorError(f"{where}.{field.name}: is missing")
        out[field.name] = (
            None
            if field.default is DERIVED
            else list(field.default)
            if isinstance(field.default, list)
            else field.default
        )
    return out


def _derive_kind(kind: dict) -> None:
    for name, other in (
        ("kv_heads", "heads"),
        ("cross_heads", "heads"),
        ("cross_kv_heads", "kv_heads"),
        ("cross_head_width", "head_width"),
        ("cross_scale", "scale"),
    ):
        if kind[name] is None:
            kind[name] = kind[other]
    if kind["norm_biases"] is None:
        kind["norm_biases"] = int(kind["norm"] == LAYER_NORM)


def with_defaults(descriptor: dict) -> dict:
    """A copy with every field of every scope that is there; PhasorError for one that must be there
    and is not."""
    for name in ("model", "kinds", "output"):
        if not descriptor.get(name):
            raise PhasorError(f"metadata: scope {name} is missing")
    out: dict[str, Any] = {}
    for where, scope, _, values, fields in _scopes(descriptor):
        filled = _filled(where, values, fields)
        if scope == 5:
            _derive_kind(filled)
            out.setdefault("kinds", []).append(filled)
        else:
            out[where] = filled
    for name in ("encoder", "decoder"):
        if name in out and out[name]["embedding_width"] is None:
            out[name]["embedding_width"] = out[name]["width"]
    if "decoder" in out and out["decoder"]["cross_width"] is None:
        out["decoder"]["cross_width"] = out.get("encoder", {}).get("width")
    return out


def _check_side(name: str, side: dict) -> None:
    ids = [
        side[f]
        for f in ("pad", "unknown", "start", "decoder_start", "forced_first", "mask")
        if side[f] is not None
    ]
    for value in ids + side["end"] + side["prefix"] + side["suffix"] + side["pair"]:
        if value >= side["vocabulary"]:
            raise PhasorError(
                f"{name}: special id {value} is not below the vocabulary {side['vocabulary']}"
            )
    if side["tokenizer"] not in (0, 3, 4):
        raise PhasorError(f"{name}.tokenizer: {side['tokenizer']}, expected 0, 3 or 4")


def _check_stack(name: str, descriptor: dict) -> None:
    stack, kinds, sets = descriptor[name], descriptor["kinds"], 0
    if len(stack["layers"]) % 2:
        raise PhasorError(f"{name}.layers: an odd number of values")
    for i, (kind, weights) in enumerate(layers_of(stack)):
        if kind >= len(kinds):
            raise PhasorError(f"{name}.layers: layer {i} is of kind {kind}, there are {len(kinds)}")
        if weights > sets:
            raise PhasorError(
                f"{name}.layers: sets of weights must be numbered in order of first use"
            )
        sets += weights == sets
        wanted = name == "decoder" and descriptor["model"]["stack"] == ENCODER_DECODER
        if name == "encoder" and kinds[kind]["window"] and kinds[kind]["window"] % 2 == 0:
            raise PhasorError(
                f"kind{kind}.window: {kinds[kind]['window']}, expected an odd number: an encoder's "
                "window has as many keys on both sides"
            )
        if bool(kinds[kind]["cross"]) != wanted:
            raise PhasorError(
                f"{name}.layers: layer {i} "
                + (
                    "has no cross-attention"
                    if wanted
                    else "has a cross-attention without an encoder"
                )
            )
    if stack["position"] == LEARNED and stack["max_positions"] == 0:
        raise PhasorError(f"{name}.max_positions: learned positions need the number of rows")
    if stack["position"] in (INTERLEAVED, HALVES) and input_width(stack) % 2:
        field = "width" if input_width(stack) == stack["width"] else "embedding_width"
        raise PhasorError(
            f"{name}.{field}: {stack[field]} is odd, sine and cosine need an even width"
        )
    for field in ("projection_bias", "projection_place"):
        if stack[field] and stack["embedding_width"] == stack["width"]:
            raise PhasorError(f"{name}.{field}: the embedding is not projected")
    side = "source" if name == "encoder" else "target"
    if descriptor[side]["pair_segment"] and descriptor[side]["pair_segment"] >= stack["segments"]:
        raise PhasorError(
            f"{side}.pair_segment: {descriptor[side]['pair_segment']}, there are "
            f"{stack['segments']} segments"
        )


def _check_kind(i: int, kind: dict) -> None:
    if kind["heads"] % kind["kv_heads"] or kind["cross_heads"] % kind["cross_kv_heads"]:
        raise PhasorError(f"kind{i}.kv_heads: does not divide the heads")
    rotary = kind["position"] in (ROTARY_INTERLEAVED, ROTARY_HALVES)
    width = kind["rotary_width"]
    if rotary and (width == 0 or width % 2 or width > kind["head_width"]):
        raise PhasorError(
            f"kind{i}.rotary_width: {width}, expected an even number up to the head width "
            f"{kind['head_width']}"
        )
    if not rotary and width:
        raise PhasorError(f"kind{i}.rotary_width: nothing is rotary here")
    table = kind["position"] in RELATIVE_KEYS or kind["position"] == T5_BIAS
    if table and not kind["max_distance"]:
        raise PhasorError(f"kind{i}.max_distance: missing, its position needs a table of distances")
    if not table and kind["max_distance"]:
        raise PhasorError(f"kind{i}.max_distance: nothing is relative here")
    if kind["position"] in RELATIVE_KEYS and kind["score"] == ADDITIVE:
        raise PhasorError(f"kind{i}.score: an additive score has no relative keys")
    if kind["cap"] < 0:
        raise PhasorError(f"kind{i}.cap: is negative")
    if kind["qkv_clip"] < 0:
        raise PhasorError(f"kind{i}.qkv_clip: is negative")
    if kind["qk_norm_over"] and not kind["qk_norm"]:
        raise PhasorError(f"kind{i}.qk_norm_over: there is no norm of q and k")
    if kind["parallel"] and (
        kind["norm_place"] != BEFORE or kind["cross"] or not kind["attention_norm"]
    ):
        raise PhasorError(f"kind{i}.parallel: goes with norm_place before, without cross-attention")
    if kind["parallel"] == SHARED_INPUT and kind["input_scales"]:
        raise PhasorError(
            f"kind{i}.input_scales: the sub-layers of this parallel block read one input"
        )
    if not kind["attention_norm"] and kind["norm_place"] != BEFORE:
        raise PhasorError(f"kind{i}.attention_norm: 0, which goes with norm_place before only")


def _check_output(descriptor: dict) -> None:
    o, what, encoder = (
        descriptor["output"],
        descriptor["output"]["output"],
        descriptor["model"]["stack"] == ENCODER,
    )
    head = [name for name in ("head_width", "head_activation", "head_norm", "head_bias") if o[name]]
    alone = [name for name in ("pooling", "normalise", "classes", "scores") if o[name]]
    if not encoder and (what != LOGITS or alone):
        raise PhasorError(
            f"output.{alone[0] if alone else 'output'}: a decoder gives logits, without pooling or "
            "classes"
        )
    if not encoder and o["head_norm"]:
        raise PhasorError(
            "output.head_norm: an encoder's; a decoder's head is a dense layer with an activation"
        )
    if what == POOLED and not o["pooling"]:
        raise PhasorError("output.pooling: missing, a pooled vector needs one")
    if what == CLASSES and not o["classes"]:
        raise PhasorError("output.classes: missing, classes need their number")
    if o["pooling"] and what not in (POOLED, CLASSES):
        raise PhasorError(
            "output.pooling: logits and hidden states are there for each position, they have none"
        )
    for name, wanted in (("classes", CLASSES), ("scores", CLASSES), ("normalise", POOLED)):
        if o[name] and what != wanted:
            raise PhasorError(
                f"output.{name}: goes with {'classes' if wanted == CLASSES else 'a pooled vector'} "
                "only"
            )
    if what == HIDDEN and head:
        raise PhasorError(f"output.{head[0]}: hidden states have no head")
    if o["head_bias"] and not o["head_width"]:
        raise PhasorError("output.head_bias: the head has no dense layer")
    if o["bias"] and what not in (LOGITS, CLASSES):
        raise PhasorError("output.bias: there is no matrix that it could be added to")
    if o["labels"] and (len(labels_of(o)) != o["classes"] or not o["labels"].endswith(RECORD_END)):
        raise PhasorError(
            f"output.labels: {len(labels_of(o))} names, each followed by U+001E, expected "
            f"{o['classes']}"
        )
    prompts_of(o)
    if o["output"] == LOGITS and o["tied"] != TIED_OWN:
        side, name = ("source", "encoder") if o["tied"] == TIED_SOURCE else ("target", "decoder")
        to = "source" if encoder else "target"
        if (
            name not in descriptor
            or descriptor[side]["vocabulary"] != descriptor[to]["vocabulary"]
            or descriptor[name]["embedding_width"] != output_inputs(descriptor)
        ):
            raise PhasorError(
                f"output.tied: the {side} embedding has another shape"
                if name in descriptor
                else f"output.tied: there is no {side} side"
            )


def _check_generation(descriptor: dict) -> None:
    g = descriptor["generation"]
    if descriptor["model"]["stack"] == ENCODER:
        raise PhasorError("generation: present, an encoder generates nothing")
    for name in ("top_p", "min_p", "typical_p"):
        if not 0 <= g[name] <= 1:
            raise PhasorError(f"generation.{name}: {g[name]}, expected 0 to 1")
    for name in ("temperature", "repetition_penalty"):
        if g[name] < 0:
            raise PhasorError(f"generation.{name}: {g[name]} is negative")
    for value in g["suppressed"]:
        if value >= descriptor["target"]["vocabulary"]:
            raise PhasorError(
                f"generation.suppressed: id {value} is not below the vocabulary "
                f"{descriptor['target']['vocabulary']}"
            )


def check(descriptor: dict) -> None:
    """PhasorError for values that do not fit each other. Takes a descriptor with defaults."""
    stack = descriptor["model"]["stack"]
    for side, name, wanted in (
        ("source", "encoder", stack != DECODER),
        ("target", "decoder", stack != ENCODER),
    ):
        for scope in (side, name):
            if (scope in descriptor) != wanted:
                raise PhasorError(
                    f"{scope}: "
                    + ("missing, the stack needs it" if wanted else "present, the stack has none")
                )
        if wanted:
            _check_side(side, descriptor[side])
            _check_stack(name, descriptor)
    for i, kind in enumerate(descriptor["kinds"]):
        _check_kind(i, kind)
    if stack == ENCODER_DECODER:
        if descriptor["decoder"]["cross_width"] != descriptor["encoder"]["width"]:
            raise PhasorError(
                f"decoder.cross_width: {descriptor['decoder']['cross_width']}, the encoder's width "
                f"is {descriptor['encoder']['width']}"
            )
        if descriptor["target"]["decoder_start"] is None:
            raise PhasorError("target.decoder_start: missing, an encoder-decoder needs it")
    if stack != DECODER and descriptor["source"]["embedding_shared"]:
        raise PhasorError("source.embedding_shared: only the target side can share")
    same = (
        stack == ENCODER_DECODER
        and descriptor["source"]["vocabulary"] == descriptor["target"]["vocabulary"]
        and descriptor["encoder"]["embedding_width"] == descriptor["decoder"]["embedding_width"]
    )
    if stack != ENCODER and descriptor["target"]["embedding_shared"] and not same:
        raise PhasorError("target.embedding_shared: the sides differ in vocabulary or width")
    _check_output(descriptor)
    if "generation" in descriptor:
        _check_generation(descriptor)


def input_width(stack: dict) -> int:
    """The width of segments, positions and the embedding's norm: that of the embedding, or of the
    stack where the projection comes first."""
    return stack["width"] if stack["projection_place"] else stack["embedding_width"]


def reach(kind: dict) -> int:
    """Distances that a kind's tables have on each side of 0: entries are 2·reach + 1, and distance
    d = key − query is entry d + reach."""
    return kind["max_distance"] - (kind["position"] not in (CLIPPED, T5_BIAS))


def longest(descriptor: dict, name: str) -> int:
    """Positions of a stack's longest sequence: its own limit, and where its relative tables end; 0:
    no limit."""
    kinds = [descriptor["kinds"][k] for k, _ in layers_of(descriptor[name])]
    limits = [
        descriptor[name]["max_positions"],
        *(k["max_distance"] for k in kinds if k["position"] in BOUNDED),
    ]
    return min([n for n in limits if n], default=0)


def output_inputs(descriptor: dict) -> int:
    """What the output's matrix reads: the head's outputs, or the stack's."""
    name = "encoder" if descriptor["model"]["stack"] == ENCODER else "decoder"
    return descriptor["output"]["head_width"] or descriptor[name]["width"]


def output_width(descriptor: dict) -> int:
    """Values of an output row: the vocabulary, the classes, or the vector."""
    o = descriptor["output"]
    if o["output"] == LOGITS:
        return descriptor["source" if descriptor["model"]["stack"] == ENCODER else "target"][
            "vocabulary"
        ]
    return o["classes"] if o["output"] == CLASSES else output_inputs(descriptor)


def output_rows(descriptor: dict, count: int) -> int:
    """Output rows of `count` positions."""
    return 1 if descriptor["output"]["pooling"] else count


def labels_of(output: dict) -> list[str]:
    """The names of the classes; empty when the file has none."""
    return output["labels"].split(RECORD_END)[:-1]


def prompts_of(output: dict) -> list[tuple[str, str]]:
    """(name, text) of each prefix for texts, the default first. PhasorError when the string is not
    made so."""
    records = [record.split(UNIT_END) for record in output["prompts"].split(RECORD_END)]
    if records.pop() != [""] or any(len(record) != 2 for record in records):
        raise PhasorError("output.prompts: expected a name, U+001F, a text and U+001E for each")
    return [(name, text) for name, text in records]


def layers_of(stack: dict) -> list[tuple[int, int]]:
    """(kind, weights) of each layer."""
    values = stack["layers"]
    return [(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
