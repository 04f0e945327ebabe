"""What tensors a descriptor asks for: key, layout, shape and parts of each, in the order of the
file (docs/reference/file-format.md).

ROLES are the rows of src/facts/roles.toml, of which the engine's table and the page's are made too.
The converter's families fill it, the reference reads by it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator, NamedTuple

from phasor.format import descriptor as D
from phasor.format.layout import F32, LANES, PANEL16, VECTOR, panels_of
from phasor.format.roles import *

KINDS, SOURCE, ENCODER, TARGET, DECODER, OUTPUT = 0, 1, 2, 3, 4, 5  # stacks of tensors
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
    matrix: bool  # takes the type that the user asked for; otherwise `type`
    type: int


ROLES = [Role(*row) for row in ROLE_ROWS]
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


def _value(expression: str, names: dict[str, Any]) -> Any:
    """Of an expression of the table above; no text of a file is one."""
    return eval(_compiled(expression), {"__builtins__": {}}, names)


def _names(kind: dict[str, Any]) -> dict[str, Any]:
    """What the rows of a kind and of its blocks call by a name of its own."""
    place, width, cross = kind["norm_place"], kind["head_width"], kind["cross_head_width"]
    return {
        **kind,
        "q": kind["heads"] * width,
        "kv": kind["kv_heads"] * width,
        "own_kv": 0 if kind["keys_of"] else kind["kv_heads"] * width,
        "cross_q": kind["cross_heads"] * cross,
        "cross_kv": kind["cross_kv_heads"] * cross,
        "entries": 2 * D.reach(kind) + 1,
        "norms_before": place in (D.BEFORE, D.BOTH),
        "norms_after": place != D.BEFORE,
    }


def _slots(stack: int, weights: int, names: dict[str, Any], panels: bool = False) -> Iterator[Slot]:
    """The tensors of one set; panels: a matrix that may have rows or panels has panels."""
    for role in ROLES:
        of_set = stack in role.stacks and (role.number >= FIRST_FINAL) == (weights == FINAL)
        if of_set and (not role.when or _value(role.when, names)):
            rows, cols = _value(role.rows, names), _value(role.cols, names)
            parts = tuple(n for n in rows if n) if isinstance(rows, tuple) else (rows,)
            layout = role.layouts[-1 if panels else 0]
            yield Slot(
                stack, weights, role.number, layout, parts, cols, matrix=role.matrix, type=role.type
            )


def _tied(descriptor: dict[str, Any], stack: int) -> bool:
    """Whether the embedding of this side is the output's matrix too."""
    output = descriptor["output"]
    if output["output"] != D.LOGITS or output["tied"] == D.TIED_OWN:
        return False
    shared = "target" in descriptor and descriptor["target"]["embedding_shared"]
    result: bool = shared or output["tied"] == (D.TIED_TARGET if stack == TARGET else D.TIED_SOURCE)
    return result


def slots(descriptor: dict[str, Any]) -> list[Slot]:
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
        names["per_layer_values"] = s["per_layer_width"] * (len(s["layers"]) // 2)
        out += _slots(stack, 0, names, _tied(descriptor, stack))
        for kind, weights in D.layers_of(s):
            if weights not in seen:
                seen.add(weights)
                widths = {name: s[name] for name in ("width", "cross_width", "per_layer_width")}
                out += _slots(stack + 1, weights, {**kinds[kind], **widths})
        out += _slots(stack + 1, FINAL, s)
    last = descriptor.get("decoder") or descriptor["encoder"]
    inputs, rows = D.output_inputs(descriptor), D.output_width(descriptor)
    names = {**descriptor["output"], "width": last["width"], "inputs": inputs, "rows": rows}
    return out + list(_slots(OUTPUT, 0, names))
