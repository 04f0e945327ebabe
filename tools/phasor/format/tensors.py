"""What tensors a descriptor asks for: key, layout, shape and parts of each, in the order of the
file (docs/format.md).

ROLES is the one table of roles in Python, row for row that of docs/format.md and of
src/format/tensors.cpp: a test compares the three. The converter's families fill it, the reference
reads by it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator, NamedTuple

from phasor.format import descriptor as D
from phasor.format.layout import F32, F64, LANES, PANEL16, ROWS, VECTOR, panels_of

KINDS, SOURCE, ENCODER, TARGET, DECODER, OUTPUT = 0, 1, 2, 3, 4, 5  # stacks of tensors
STACK_NAMES = ("kind", "source", "encoder", "target", "decoder", "output")
FINAL = 0xFFFF  # the set of a stack's final norm
FIRST_FINAL = 0xF0  # the first role of that set


class Role(NamedTuple):
    """One row: a tensor that a model may have. Its expressions are of the fields of its kind or its
    stack, and of what `_names` adds to them."""

    stacks: tuple[int, ...]
    number: int
    name: str
    layouts: tuple[int, ...]
    rows: str  # true rows, of each part of a fused layer
    cols: str
    when: str  # a model has it where this is true; empty: always
    matrix: bool = False  # takes the type that the user asked for; otherwise `type`
    type: int = F32


ROLES: list[Role] = []


def _row(*values: Any) -> int:
    """Adds a row, and returns its number."""
    ROLES.append(Role(*values))
    return ROLES[-1].number


def _vector(stacks, number, name, rows, when="", kind=F32) -> int:
    return _row(stacks, number, name, (VECTOR,), rows, "1", when, False, kind)


def _table(stacks, number, name, rows, cols, when) -> int:
    return _row(stacks, number, name, (ROWS,), rows, cols, when)


def _both(when: str, bias: str) -> str:
    return f"{when} and {bias}" if when else bias


def _linear(stacks, number, name, rows, cols, when, bias) -> int:
    """A weight, and its bias behind it where `bias` is true."""
    _row(stacks, number, f"{name} weight", (PANEL16,), rows, cols, when, True)
    return _vector(stacks, number + 1, f"{name} bias", rows, _both(when, bias)) - 1


def _norm(stacks, number, name, rows, when, bias) -> int:
    _vector(stacks, number, f"{name} weight", rows, when)
    return _vector(stacks, number + 1, f"{name} bias", rows, _both(when, bias)) - 1


_KIND, _INPUT, _BLOCK, _CROSS, _OUT = (
    (KINDS,),
    (SOURCE, TARGET),
    (ENCODER, DECODER),
    (DECODER,),
    (OUTPUT,),
)
# fmt: off
ROTARY = _vector(_KIND, 1, "rotary inv_freq", "rotary_width // 2", "rotary_width", F64)
T5_BIAS = _table(_KIND, 2, "T5 bias", "heads", "entries", "position == 6")
ALIBI = _vector(_KIND, 3, "ALiBi slopes", "heads", "position == 7")

EMBEDDING = _row(_INPUT, 1, "embedding", (ROWS, PANEL16), "vocabulary", "embedding_width",
    "not embedding_shared", True)
POSITIONS = _table(_INPUT, 2, "positions", "max_positions", "inner", "position == 1")
SEGMENTS = _table(_INPUT, 3, "segments", "segments", "inner", "segments")
EMBEDDING_NORM = _norm(_INPUT, 4, "embedding norm", "inner", "embedding_norm",
    "embedding_norm == 1")
PROJECTION = _linear(_INPUT, 6, "embedding projection", "width", "embedding_width",
    "embedding_width != width", "projection_bias")
SINUSOID = _vector(_INPUT, 8, "sinusoid inv_freq", "inner // 2", "position in (2, 3)", F64)

ATTENTION_BEFORE = _norm(_BLOCK, 0x10, "norm before attention,", "width",
    "norms_before and attention_norm", "norm_biases")
QKV = _linear(_BLOCK, 0x20, "q,k,v", "(q, kv) if separate_v else (q, kv, kv)", "width", "",
    "attention_biases & (3 if separate_v else 7)")
QKV_SCALE = _vector(_BLOCK, 0x22, "scale of the input of q,k,v", "width", "input_scales & 1")
V = _linear(_BLOCK, 0x24, "v", "kv", "width", "separate_v", "attention_biases & 4")
RELATIVE_KEYS = _table(_BLOCK, 0x30, "relative keys", "q if position == 9 else head_width",
    "entries", "position in (1, 2, 3, 8, 9)")
RELATIVE_VALUES = _table(_BLOCK, 0x31, "relative values", "entries", "head_width", "position == 3")
RELATIVE_QUERIES = _table(_BLOCK, 0x32, "relative queries", "q", "entries", "position == 9")
Q_NORM = _norm(_BLOCK, 0x38, "q norm", "q if qk_norm_over else head_width", "qk_norm",
    "qk_norm == 1")
K_NORM = _norm(_BLOCK, 0x3A, "k norm", "kv if qk_norm_over else head_width", "qk_norm",
    "qk_norm == 1")
SCORE = _vector(_BLOCK, 0x3C, "v of the additive score", "q", "score == 1")
ATTENTION_OUT = _linear(_BLOCK, 0x40, "attention out", "width", "q", "", "attention_biases & 8")
ATTENTION_AFTER = _norm(_BLOCK, 0x48, "norm after attention,", "width", "norms_after",
    "norm_biases")
CROSS_BEFORE = _norm(_CROSS, 0x50, "norm before cross-attention,", "width",
    "cross and norms_before", "norm_biases")
CROSS_Q = _linear(_CROSS, 0x58, "cross q", "cross_q", "width", "cross", "cross_biases & 1")
CROSS_KV = _linear(_CROSS, 0x60, "cross k,v", "cross_kv, cross_kv", "cross_width", "cross",
    "cross_biases & 6")
CROSS_SCORE = _vector(_CROSS, 0x64, "v of the additive cross score", "cross_q",
    "cross and cross_score == 1")
CROSS_OUT = _linear(_CROSS, 0x68, "cross out", "width", "cross_q", "cross", "cross_biases & 8")
CROSS_AFTER = _norm(_CROSS, 0x70, "norm after cross-attention,", "width", "cross and norms_after",
    "norm_biases")
FFN_BEFORE = _norm(_BLOCK, 0x80, "norm before feed-forward,", "width",
    "norms_before and parallel != 1", "norm_biases")
FFN_IN = _linear(_BLOCK, 0x88, "feed-forward in", "(hidden, hidden) if gated else hidden", "width",
    "", "ffn_biases & 1")
FFN_SCALE = _vector(_BLOCK, 0x8A, "scale of the input of the feed-forward", "width",
    "input_scales & 2")
XIELU = _vector(_BLOCK, 0x8C, "numbers of xIELU", "4", "activation == 7")
FFN_OUT = _linear(_BLOCK, 0x90, "feed-forward out", "width", "hidden", "", "ffn_biases & 2")
FFN_AFTER = _norm(_BLOCK, 0x98, "norm after feed-forward,", "width", "norms_after", "norm_biases")
FINAL_NORM = _norm(_BLOCK, 0xF0, "final norm", "width", "final_norm", "final_norm == 1")

OUTPUT_WEIGHT = _row(_OUT, 1, "output weight", (PANEL16,), "rows", "inputs",
    "output == 1 and tied == 0", True)
_vector(_OUT, 2, "output bias", "rows", "output == 1 and bias")
HEAD = _linear(_OUT, 3, "head", "head_width", "width", "head_width", "head_bias")
HEAD_NORM = _norm(_OUT, 5, "head norm", "inputs", "head_norm", "head_norm == 1")
CLASSIFIER = _linear(_OUT, 7, "classifier", "rows", "inputs", "output == 4", "bias")
# fmt: on
INPUT_SCALES = {QKV: QKV_SCALE, V: QKV_SCALE, FFN_IN: FFN_SCALE}  # of a block's matrices


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
    stack, weights, number = key >> 24, key >> 8 & 0xFFFF, key & 0xFF
    place = STACK_NAMES[stack] if stack < len(STACK_NAMES) else "?"
    names = [role.name for role in ROLES if stack in role.stacks and number == role.number]
    name = names[0] if names else f"role 0x{number:02X}"
    if weights != FINAL and stack in (KINDS, ENCODER, DECODER):
        place += f" {weights}"
    return name if name.startswith(place) else f"{place} {name}"


@lru_cache(maxsize=None)
def _compiled(expression: str) -> Any:
    return compile(expression, "a row of ROLES", "eval")


def _value(expression: str, names: dict) -> Any:
    """Of an expression of the table above; no text of a file is one."""
    return eval(_compiled(expression), {"__builtins__": {}}, names)


def _names(kind: dict) -> dict:
    """What the rows of a kind and of its blocks call by a name of its own."""
    place, width, cross = kind["norm_place"], kind["head_width"], kind["cross_head_width"]
    return {
        **kind,
        "q": kind["heads"] * width,
        "kv": kind["kv_heads"] * width,
        "cross_q": kind["cross_heads"] * cross,
        "cross_kv": kind["cross_kv_heads"] * cross,
        "entries": 2 * D.reach(kind) + 1,
        "norms_before": place in (D.BEFORE, D.BOTH),
        "norms_after": place != D.BEFORE,
    }


def _slots(stack: int, weights: int, names: dict, panels: bool = False) -> Iterator[Slot]:
    """The tensors of one set; panels: a matrix that may have rows or panels has panels."""
    for role in ROLES:
        of_set = stack in role.stacks and (role.number >= FIRST_FINAL) == (weights == FINAL)
        if of_set and (not role.when or _value(role.when, names)):
            rows, cols = _value(role.rows, names), _value(role.cols, names)
            parts = rows if isinstance(rows, tuple) else (rows,)
            layout = role.layouts[-1 if panels else 0]
            yield Slot(
                stack, weights, role.number, layout, parts, cols, matrix=role.matrix, type=role.type
            )


def _tied(descriptor: dict, stack: int) -> bool:
    """Whether the embedding of this side is the output's matrix too."""
    output = descriptor["output"]
    if output["output"] != D.LOGITS or output["tied"] == D.TIED_OWN:
        return False
    shared = "target" in descriptor and descriptor["target"]["embedding_shared"]
    return shared or output["tied"] == (D.TIED_TARGET if stack == TARGET else D.TIED_SOURCE)


def slots(descriptor: dict) -> list[Slot]:
    """Every tensor of the file, in its order. Takes a descriptor with defaults."""
    kinds = [_names(kind) for kind in descriptor["kinds"]]
    out: list[Slot] = []
    for i, names in enumerate(kinds):
        out += _slots(KINDS, i, names)
    for side, name, stack in (("source", "encoder", SOURCE), ("target", "decoder", TARGET)):
        if name not in descriptor:
            continue
        s, seen = descriptor[name], set()
        names = {**descriptor[side], **s, "inner": D.input_width(s)}
        out += _slots(stack, 0, names, _tied(descriptor, stack))
        for kind, weights in D.layers_of(s):
            if weights not in seen:
                seen.add(weights)
                widths = {"width": s["width"], "cross_width": s["cross_width"]}
                out += _slots(stack + 1, weights, {**kinds[kind], **widths})
        out += _slots(stack + 1, FINAL, s)
    last = descriptor.get("decoder") or descriptor["encoder"]
    inputs, rows = D.output_inputs(descriptor), D.output_width(descriptor)
    names = {**descriptor["output"], "width": last["width"], "inputs": inputs, "rows": rows}
    return out + list(_slots(OUTPUT, 0, names))
