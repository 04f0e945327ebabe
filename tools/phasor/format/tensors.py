"""What tensors a descriptor asks for: key, layout, shape and parts of each, in the order of the
file (docs/format.md).

This is the one place in Python that knows the roles; the converter's families fill it, the
reference reads by it.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from phasor.format import descriptor as D
from phasor.format.layout import F32, F64, LANES, PANEL16, ROWS, VECTOR, panels_of

KINDS, SOURCE, ENCODER, TARGET, DECODER, OUTPUT = 0, 1, 2, 3, 4, 5  # stacks of tensors
STACK_NAMES = {
    KINDS: "kind",
    SOURCE: "source",
    ENCODER: "encoder",
    TARGET: "target",
    DECODER: "decoder",
    OUTPUT: "output",
}
FINAL = 0xFFFF  # the set of a stack's final norm

EMBEDDING, POSITIONS, SEGMENTS, EMBEDDING_NORM, PROJECTION, SINUSOID = 1, 2, 3, 4, 6, 8
ROTARY, T5_BIAS, ALIBI = 1, 2, 3
ATTENTION_BEFORE, QKV, ATTENTION_OUT, ATTENTION_AFTER = 0x10, 0x20, 0x40, 0x48
RELATIVE_KEYS, RELATIVE_VALUES, Q_NORM, K_NORM, SCORE, CROSS_SCORE = (
    0x30,
    0x31,
    0x38,
    0x3A,
    0x3C,
    0x64,
)
CROSS_BEFORE, CROSS_Q, CROSS_KV, CROSS_OUT, CROSS_AFTER = 0x50, 0x58, 0x60, 0x68, 0x70
FFN_BEFORE, FFN_IN, FFN_OUT, FFN_AFTER = 0x80, 0x88, 0x90, 0x98
FINAL_NORM = 0xF0
OUTPUT_WEIGHT, HEAD, HEAD_NORM, CLASSIFIER = 1, 3, 5, 7
_NAMES = {
    ATTENTION_BEFORE: "norm before attention",
    QKV: "q,k,v",
    Q_NORM: "q norm",
    K_NORM: "k norm",
    ATTENTION_OUT: "attention out",
    ATTENTION_AFTER: "norm after attention",
    CROSS_BEFORE: "norm before cross-attention",
    CROSS_Q: "cross q",
    CROSS_KV: "cross k,v",
    CROSS_OUT: "cross out",
    CROSS_AFTER: "norm after cross-attention",
    FFN_BEFORE: "norm before feed-forward",
    FFN_IN: "feed-forward in",
    FFN_OUT: "feed-forward out",
    FFN_AFTER: "norm after feed-forward",
    FINAL_NORM: "final norm",
}
_INPUT_NAMES = {
    EMBEDDING: "embedding",
    POSITIONS: "positions",
    SEGMENTS: "segments",
    EMBEDDING_NORM: "embedding norm weight",
    EMBEDDING_NORM + 1: "embedding norm bias",
    PROJECTION: "embedding projection weight",
    PROJECTION + 1: "embedding projection bias",
    SINUSOID: "sinusoid inv_freq",
}
_OUTPUT_NAMES = {
    OUTPUT_WEIGHT: "weight",
    HEAD: "head weight",
    HEAD_NORM: "head norm weight",
    CLASSIFIER: "classifier weight",
}
_SINGLE_NAMES = {
    QKV + 2: "scale of the input of q,k,v",
    FFN_IN + 2: "scale of the input of the feed-forward",
    RELATIVE_KEYS: "relative keys",
    RELATIVE_VALUES: "relative values",
    SCORE: "v of the additive score",
    CROSS_SCORE: "v of the additive cross score",
}


def key_of(stack: int, weights: int, role: int) -> int:
    """A directory key; `weights` is the set."""
    return stack << 24 | weights << 8 | role


class Slot(NamedTuple):
    """One tensor that the descriptor asks for. A fused tensor has several parts, in rows; a vector
    of a fused layer too."""

    stack: int
    set: int
    role: int
    layout: int
    parts: tuple[int, ...]  # true rows of each part
    cols: int
    matrix: bool  # takes the type that the user asked for; otherwise `type`
    type: int = F32

    @property
    def key(self) -> int:
        return key_of(self.stack, self.set, self.role)

    @property
    def rows(self) -> int:
        """N of the directory: true rows, but padded for the bias of a fused layer."""
        if self.layout == VECTOR and len(self.parts) > 1:
            return LANES * panels_of(self.parts)
        return sum(self.parts)

    @property
    def panels(self) -> int:
        return panels_of(self.parts) if self.layout == PANEL16 else 0

    @property
    def name(self) -> str:
        return tensor_name(self.key)


def tensor_name(key: int) -> str:
    """ "decoder 2 q,k,v weight": a directory key for people."""
    stack, weights, role = key >> 24, key >> 8 & 0xFFFF, key & 0xFF
    place = STACK_NAMES.get(stack, "?")
    if stack in (SOURCE, TARGET):
        return f"{place} {_INPUT_NAMES.get(role, f'role {role}')}"
    if stack == OUTPUT:
        return (
            f"{place} "
            f"{_OUTPUT_NAMES.get(role) or _OUTPUT_NAMES.get(role - 1, f'role {role}').replace('weight', 'bias')}"
        )
    if stack == KINDS:
        return (
            f"{place} {weights} "
            f"{({1: 'rotary inv_freq', 2: 'T5 bias', 3: 'ALiBi slopes'}).get(role, f'role {role}')}"
        )
    if role in _SINGLE_NAMES:
        return f"{place} {weights} {_SINGLE_NAMES[role]}"
    name = _NAMES.get(role & ~1)
    what = f"{name} {'bias' if role & 1 else 'weight'}" if name else f"role 0x{role:02X}"
    return f"{place} {what}" if weights == FINAL else f"{place} {weights} {what}"


class _Slots:
    """Collects slots of one stack and set."""

    def __init__(self, stack: int, weights: int) -> None:
        self.stack, self.set, self.out = stack, weights, []

    def add(
        self,
        role: int,
        layout: int,
        parts: tuple[int, ...],
        cols: int = 1,
        matrix: bool = False,
        kind: int = F32,
    ) -> None:
        self.out.append(Slot(self.stack, self.set, role, layout, parts, cols, matrix, kind))

    def norm(self, role: int, width: int, bias: bool) -> None:
        self.add(role, VECTOR, (width,))
        if bias:
            self.add(role + 1, VECTOR, (width,))

    def linear(self, role: int, parts: tuple[int, ...], cols: int, bias: bool) -> None:
        self.add(role, PANEL16, parts, cols, True)
        if bias:
            self.add(role + 1, VECTOR, parts)


def _input_slots(descriptor: dict, side: str, name: str, stack: int) -> list[Slot]:
    s, d, out = descriptor[side], descriptor[name], _Slots(stack, 0)
    width, inner = d["embedding_width"], D.input_width(d)
    tied = descriptor["output"]["output"] == D.LOGITS and descriptor["output"]["tied"] != D.TIED_OWN
    shared = "target" in descriptor and descriptor["target"]["embedding_shared"]
    own = tied and (
        descriptor["output"]["tied"] == (D.TIED_TARGET if stack == TARGET else D.TIED_SOURCE)
        or shared
    )
    if not s["embedding_shared"]:
        out.add(EMBEDDING, PANEL16 if own else ROWS, (s["vocabulary"],), width, True)
    if d["position"] == D.LEARNED:
        out.add(POSITIONS, ROWS, (d["max_positions"],), inner)
    if d["segments"]:
        out.add(SEGMENTS, ROWS, (d["segments"],), inner)
    if d["embedding_norm"]:
        out.norm(EMBEDDING_NORM, inner, d["embedding_norm"] == D.LAYER_NORM)
    if width != d["width"]:
        out.linear(PROJECTION, (d["width"],), width, bool(d["projection_bias"]))
    if d["position"] in (D.INTERLEAVED, D.HALVES):
        out.add(SINUSOID, VECTOR, (inner // 2,), kind=F64)
    return out.out


def _layer_slots(kind: dict, width: int, cross_width: int, stack: int, weights: int) -> list[Slot]:
    out = _Slots(stack, weights)
    before, after, biases = (
        kind["norm_place"] in (D.BEFORE, D.BOTH),
        kind["norm_place"] != D.BEFORE,
        bool(kind["norm_biases"]),
    )
    q, kv = kind["heads"] * kind["head_width"], kind["kv_heads"] * kind["head_width"]
    if before and kind["attention_norm"]:
        out.norm(ATTENTION_BEFORE, width, biases)
    out.linear(QKV, (q, kv, kv), width, bool(kind["attention_biases"] & 7))
    if kind["input_scales"] & 1:
        out.add(QKV + 2, VECTOR, (width,))
    if kind["position"] in D.RELATIVE_KEYS:
        out.add(RELATIVE_KEYS, ROWS, (kind["head_width"],), 2 * D.reach(kind) + 1)
    if kind["position"] == D.CLIPPED:
        out.add(RELATIVE_VALUES, ROWS, (2 * D.reach(kind) + 1,), kind["head_width"])
    if kind["qk_norm"]:
        for role, width_ in ((Q_NORM, q), (K_NORM, kv)):
            out.norm(
                role,
                width_ if kind["qk_norm_over"] else kind["head_width"],
                kind["qk_norm"] == D.LAYER_NORM,
            )
    if kind["score"] == D.ADDITIVE:
        out.add(SCORE, VECTOR, (q,))
    out.linear(ATTENTION_OUT, (width,), q, bool(kind["attention_biases"] & 8))
    if after:
        out.norm(ATTENTION_AFTER, width, biases)
    if kind["cross"]:
        q, kv = (
            kind["cross_heads"] * kind["cross_head_width"],
            kind["cross_kv_heads"] * kind["cross_head_width"],
        )
        if before:
            out.norm(CROSS_BEFORE, width, biases)
        out.linear(CROSS_Q, (q,), width, bool(kind["cross_biases"] & 1))
        out.linear(CROSS_KV, (kv, kv), cross_width, bool(kind["cross_biases"] & 6))
        if kind["cross_score"] == D.ADDITIVE:
            out.add(CROSS_SCORE, VECTOR, (q,))
        out.linear(CROSS_OUT, (width,), q, bool(kind["cross_biases"] & 8))
        if after:
            out.norm(CROSS_AFTER, width, biases)
    if before and kind["parallel"] != D.SHARED_INPUT:
        out.norm(FFN_BEFORE, width, biases)
    hidden = kind["hidden"]
    out.linear(
        FFN_IN,
        (hidden, hidden) if kind["gated"] else (hidden,),
        width,
        bool(kind["ffn_biases"] & 1),
    )
    if kind["input_scales"] & 2:
        out.add(FFN_IN + 2, VECTOR, (width,))
    out.linear(FFN_OUT, (width,), hidden, bool(kind["ffn_biases"] & 2))
    if after:
        out.norm(FFN_AFTER, width, biases)
    return out.out


def _stack_slots(descriptor: dict, name: str, stack: int) -> Iterator[Slot]:
    s, seen = descriptor[name], set()
    for kind, weights in D.layers_of(s):
        if weights not in seen:
            seen.add(weights)
            yield from _layer_slots(
                descriptor["kinds"][kind], s["width"], s["cross_width"], stack, weights
            )
    if s["final_norm"]:
        final = _Slots(stack, FINAL)
        final.norm(FINAL_NORM, s["width"], s["final_norm"] == D.LAYER_NORM)
        yield from final.out


def slots(descriptor: dict) -> list[Slot]:
    """Every tensor of the file, in its order. Takes a descriptor with defaults; PhasorError for
    what is not built yet."""
    out: list[Slot] = []
    for i, kind in enumerate(descriptor["kinds"]):
        if kind["position"] in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            out.append(Slot(KINDS, i, ROTARY, VECTOR, (kind["rotary_width"] // 2,), 1, False, F64))
        if kind["position"] == D.T5_BIAS:
            out.append(
                Slot(KINDS, i, T5_BIAS, ROWS, (kind["heads"],), 2 * D.reach(kind) + 1, False)
            )
        if kind["position"] == D.ALIBI:
            out.append(Slot(KINDS, i, ALIBI, VECTOR, (kind["heads"],), 1, False))
    if "encoder" in descriptor:
        out += _input_slots(descriptor, "source", "encoder", SOURCE)
        out += _stack_slots(descriptor, "encoder", ENCODER)
    if "decoder" in descriptor:
        out += _input_slots(descriptor, "target", "decoder", TARGET)
        out += _stack_slots(descriptor, "decoder", DECODER)
    return out + _output_slots(descriptor)


def _output_slots(descriptor: dict) -> list[Slot]:
    o, out = descriptor["output"], _Slots(OUTPUT, 0)
    inputs, width = D.output_inputs(descriptor), D.output_width(descriptor)
    if o["output"] == D.LOGITS:
        if o["tied"] == D.TIED_OWN:
            out.add(OUTPUT_WEIGHT, PANEL16, (width,), inputs, True)
        if o["bias"]:
            out.add(OUTPUT_WEIGHT + 1, VECTOR, (width,))
    if o["head_width"]:
        out.linear(
            HEAD,
            (o["head_width"],),
            descriptor["encoder" if descriptor["model"]["stack"] == D.ENCODER else "decoder"][
                "width"
            ],
            bool(o["head_bias"]),
        )
    if o["head_norm"]:
        out.norm(HEAD_NORM, inputs, o["head_norm"] == D.LAYER_NORM)
    if o["output"] == D.CLASSES:
        out.linear(CLASSIFIER, (width,), inputs, bool(o["bias"]))
    return out.out
