"""A plain PyTorch state_dict with its description: presets, and any naming by the description's
[names]."""

from __future__ import annotations

import math
from typing import Any, Mapping

import numpy as np

from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError
from phasor.families.model import INPUTS, ROLES, Model, Part, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.sources.state_dict import checks
from phasor.sources.state_dict import keys as K
from phasor.sources.state_dict.description import (
    CHOICES,
    UNBIASED,
    Description,
    Named,
    fields_of,
    is_at,
    scale_of,
)
from phasor.sources.state_dict.outputs import Outputs
from phasor.sources.state_dict.positions import SIDES
from phasor.values import words

_TEXTS = words("name author license credit origin")
_NORMS = {
    *{R.ATTENTION_BEFORE, R.ATTENTION_AFTER, R.CROSS_BEFORE, R.CROSS_AFTER},
    *{R.FFN_BEFORE, R.FFN_AFTER, R.FINAL_NORM},
}
_OUTPUTS = {R.OUTPUT_WEIGHT: "output", R.HEAD: "head", R.HEAD_NORM: "head_norm"}
_OUTPUTS |= {R.CLASSIFIER: "classifier"}
_AFTER = {
    R.ATTENTION_AFTER: "attention_after",
    R.CROSS_AFTER: "cross_after",
    R.FFN_AFTER: "ffn_after",
}
_RELATIVE = {
    R.RELATIVE_KEYS: "relative_keys",
    R.RELATIVE_VALUES: "relative_values",
    R.RELATIVE_QUERIES: "relative_queries",
}


class _Reader(Outputs):
    """Builds the Model: first the descriptor from the shapes that are found, then the parts of each
    slot."""

    def descriptor(self) -> dict[str, Any]:
        d, model = self.description, self.description.model
        texts = {key: model[key] for key in _TEXTS if model[key]}
        out: dict[str, Any] = {
            "model": {"stack": d.stack, **texts, "converter": "tools/convert.py"},
            "kinds": [],
        }
        for stack in d.stacks:
            out[SIDES[stack]] = self.side(SIDES[stack])
            out[stack] = self.stack(stack)
            layers, s = self.kinds(stack, out["kinds"]), d.stacks[stack]
            out[stack]["layers"] = [n for layer in layers for n in layer]
            if s["rotary_scaling"]:
                width = out["kinds"][layers[0][0]].get("rotary_width")
                if not width:
                    raise PhasorError(f"{stack}: rotary_scaling: attention_position is not rotary")
                limits = (self.scaled(stack, width).most, s["max_positions"])
                s["max_positions"] = min(filter(None, limits), default=0)
                if s["max_positions"]:
                    out[stack]["max_positions"] = s["max_positions"]
        last = out["encoder" if d.stack == D.ENCODER else "decoder"]
        out["output"] = self.output(last["width"])
        if d.generation:
            out["generation"] = fields_of("", K.GENERATION, d.generation)
        return out

    def side(self, side: str) -> dict[str, Any]:
        given = self.description.sides[side]
        if side == "source" and self.reads_vectors:
            return {**fields_of("", K.SIDE, given), **self.vector_side()}
        out = {
            "vocabulary": given["vocabulary"] or self.rows(f"{side}.embedding"),
            "embedding_shared": int(given["embedding_shared"]),
        }
        out.update(fields_of("", K.SIDE, given))
        if (
            side == "target"
            and self.description.stack == D.ENCODER_DECODER
            and "decoder_start" not in out
            and "start" in out
        ):
            out["decoder_start"] = out["start"]
        return out

    def stack(self, stack: str) -> dict[str, Any]:
        """The fields of a stack but its layers."""
        s, side = self.description.stacks[stack], SIDES[stack]
        out = {}
        if side == "source" and self.reads_vectors:
            out = self.vector_stack()
            width = inner = out["width"]
        elif f"{side}.projection" in self.names:
            inner = self.rows(f"{side}.embedding", 1)
            width = s["width"] or self.rows(f"{side}.projection")
            place = CHOICES["projection_place"][s["projection_place"]]
            out.update(embedding_width=inner, projection_place=place)
            out["projection_bias"] = int(self.has_bias(f"{side}.projection", 1))
            inner = width if place else inner
        else:
            width = inner = s["width"] or self.rows(f"{side}.embedding", 1)
        scales = {"sqrt_width": math.sqrt(width), "one": 1.0}
        out.update(
            width=width,
            position=CHOICES["position"][s["position"]],
            embedding_scale=scale_of("embedding_scale", s["embedding_scale"], scales),
        )
        if s["final_norm"]:
            out.update(final_norm=self.norm(s, "final_norm"), final_norm_eps=s["final_norm_eps"])
        if f"{side}.embedding_norm" in self.names:
            eps = s["embedding_norm_eps"]
            out.update(embedding_norm=self.norm(s, "embedding_norm"), embedding_norm_eps=eps)
        if f"{side}.segments" in self.names:
            out["segments"] = self.rows(f"{side}.segments")
        if CHOICES["embedding_norm_place"][s["embedding_norm_place"]]:
            out["embedding_norm_place"] = 1
        if s["max_positions"]:
            out["max_positions"] = s["max_positions"]
        if out["position"] in (D.INTERLEAVED, D.HALVES) and inner % 2:
            raise PhasorError(f"{stack}: width {inner} is odd, sine and cosine need an even width")
        return out

    def norm(self, s: dict[str, Any], key: str) -> int:
        """A kind of norm: what the key says, else the blocks'."""
        own = s[key] if isinstance(s[key], str) else s["norm"]
        result: int = CHOICES["norm"][own]
        return result

    def attention(self, stack: str, prefix: str, layers: int) -> tuple[int, int, int]:
        """(head width, kv heads, bias bits) of self- ("") or cross-attention ("cross_")."""
        s, name = self.description.stacks[stack], f"{stack}.{prefix}"
        heads = prefix and s["cross_heads"] or s["heads"]
        kv = s["kv_heads"] if heads == s["heads"] else 0
        kv = prefix and s["cross_kv_heads"] or kv or heads
        out_bias = D.BIAS_OUT * self.has_bias(
            f"{name}attention_out" if not prefix else f"{name}out", layers
        )
        first, units = f"{name}q", heads
        width = prefix and s["cross_head_width"] or s["head_width"]
        bits = sum(self.has_bias(name + part, layers) << i for i, part in enumerate("qkv"))
        if f"{name}qkv" in self.names:
            first, units = f"{name}qkv", heads + 2 * kv
            bits = D.QKV_BIASES * self.has_bias(first, layers)
        elif self.has(f"{name}qkv_bias"):
            bits = D.QKV_BIASES
        rows = units * width or self.rows(first)
        if rows % units:
            raise PhasorError(
                f"{stack}: {rows} rows of {self.name(first)} are not divisible by {units} heads"
            )
        return rows // units, kv, bits | out_bias

    def kinds(self, stack: str, kinds: list[dict[str, Any]]) -> list[tuple[int, int]]:
        """(kind, set) of each layer, the kinds put behind `kinds`: one, or several where layers
        differ in a table that belongs to a kind, or are exceptions."""
        d, sets = self.description, self.layers(stack)
        plain, first, out = d.stacks[stack], len(kinds), []
        count = plain["layers"] or sets
        made: dict[tuple[int, ...], Any] = {}
        tables: list[Any] = []
        for i, one in enumerate(d.exceptions.get(stack, ())):
            if not any(is_at(one, layer) for layer in range(count)):
                raise PhasorError(f"{stack}.except: number {i + 1} is of none of {count} layers")
        for layer in range(count):
            at = [i for i, one in enumerate(d.exceptions.get(stack, ())) if is_at(one, layer)]
            if tuple(at) not in made:
                d.stacks[stack] = {**plain, **self.exception(stack, at)}
                self.rotary.pop(stack, None)
                kind = self.kind(stack, sets)
                made[tuple(at)] = kind, self.kind_tables(stack, kind, sets)
                d.stacks[stack] = plain
                self.rotary.pop(stack, None)
            kind, own = made[tuple(at)]
            role, table = own[layer * sets // count]
            same = next(
                (
                    i
                    for i, other in enumerate(tables)
                    if kinds[first + i] == kind and np.array_equal(other, table)
                ),
                len(tables),
            )
            if same == len(tables):
                tables.append(table)
                kinds.append(dict(kind))
                if role:
                    self.values[R.key_of(R.KINDS, first + same, role)] = table
            out.append((first + same, layer * sets // count))
        of_set = dict((number, kind) for kind, number in out)
        if any(of_set[number] != kind for kind, number in out):
            raise PhasorError(f"{stack}: sets: layers that share a set must have one kind")
        return out

    def exception(self, stack: str, at: list[int]) -> dict[str, Any]:
        """The keys of a layer that are its own."""
        own: dict[str, Any] = {}
        for i in at:
            own |= self.description.exceptions[stack][i]
        return {key: value for key, value in own.items() if key in K.STACK and key != "layers"}

    def kind(self, stack: str, layers: int) -> dict[str, Any]:
        s = self.description.stacks[stack]
        head_width, kv, bits = self.attention(stack, "", layers)
        gated = f"{stack}.ffn_gate" in self.names
        out = {
            **fields_of("kinds", K.STACK, s),
            "norm": CHOICES["norm"][s["norm"]],
            "norm_place": CHOICES["norm_place"][s["norm_place"]],
            "norm_eps": s["norm_eps"],
            "heads": s["heads"],
            "kv_heads": kv,
            "head_width": head_width,
            "scale": self.scale(stack, "", head_width),
            "attention_biases": bits,
            "hidden": s["hidden"] or self.rows(f"{stack}.ffn_in"),
            "activation": CHOICES["activation"][s["activation"]],
            "gated": int(gated),
            "ffn_biases": self.has_bias(f"{stack}.ffn_in", layers)
            + 2 * self.has_bias(f"{stack}.ffn_out", layers),
            "norm_biases": int(self.has_bias(f"{stack}.attention_norm", layers)),
        }
        if f"{stack}.q_norm" in self.names:
            out["qk_norm"] = self.norm(s, "qk_norm")
        if stack == "decoder" and self.description.stack == D.ENCODER_DECODER:
            cross_width, cross_kv, cross_bits = self.attention(stack, "cross_", layers)
            out.update(
                cross=1,
                cross_heads=s["cross_heads"] or s["heads"],
                cross_kv_heads=cross_kv,
                cross_head_width=cross_width,
                cross_scale=self.scale(stack, "cross_", cross_width),
                cross_biases=cross_bits,
                cross_score=CHOICES["cross_score"][s["cross_score"]],
            )
        out.update(score=CHOICES["score"][s["score"]], **self.attention_position(stack, head_width))
        return out

    def scale(self, stack: str, prefix: str, head_width: int) -> float:
        """What the scores are multiplied by."""
        s, key = self.description.stacks[stack], f"{prefix}score_scale"
        if s[key] is None:
            raise PhasorError(
                f"{self.description.path}: {key}: missing for the {stack}: self- and "
                "cross-attention have scores of different kinds"
            )
        heads = prefix and s["cross_heads"] or s["heads"]
        roots = {"sqrt_head_width": math.sqrt(head_width), "sqrt_heads": math.sqrt(heads)}
        divisor = scale_of(key, s[key], roots)
        if divisor == 0:
            raise PhasorError(f"{stack}: {key}: the scores cannot be divided by 0")
        return 1 / divisor

    # ---- the parts

    def parts(self, d: dict[str, Any], slot: R.Slot) -> list[Part]:
        """Where the values of a slot come from."""
        if slot.stack in (R.SOURCE, R.TARGET):
            return self.input_parts(d, slot)
        if slot.stack == R.OUTPUT:
            first = max(role for role in _OUTPUTS if role <= slot.role)
            return self.part(_OUTPUTS[first], 0, slot.role != first, shape_of(slot), d)
        stack = "encoder" if slot.stack == R.ENCODER else "decoder"
        bias, role = slot.role & 1, slot.role & ~1
        if slot.role in _RELATIVE:
            return self.relative_parts(slot, stack)
        if role in (R.QKV, R.CROSS_Q, R.CROSS_KV):
            return self.attention_parts(d, slot, stack, role, bool(bias))
        shape = (slot.parts[0], *shape_of(slot)[1:])
        if role == R.FFN_IN and len(slot.parts) == 2:
            wanted = ["ffn_gate", "ffn_in"]
        elif self.description.stacks[stack]["norm_place"] == "both" and role in _AFTER:
            wanted = [_AFTER[role]]
        else:
            wanted = ["xielu" if role == R.XIELU else ROLES[role]]
        parts = [self.part(f"{stack}.{p}", slot.set, bool(bias), shape, d) for p in wanted]
        return [one for several in parts for one in several]

    def relative_parts(self, slot: R.Slot, stack: str) -> list[Part]:
        """Tables of distances: (entries, w) in the checkpoint; the file has keys transposed, the
        distance fastest."""
        s, values = self.description.stacks[stack], slot.role == R.RELATIVE_VALUES
        shape = (slot.rows, slot.cols) if values else (slot.cols, slot.rows)
        if values and not s["relative_values"]:
            return [Part(None, shape)]
        name = self.name(f"{stack}.{_RELATIVE[slot.role]}", slot.set)
        backwards = bool(CHOICES["relative_order"][s["relative_order"]])
        return [Part(name, shape, transposed=not values, reversed=backwards)]

    def part(
        self,
        part: str,
        layer: int,
        bias: bool,
        shape: tuple[int, ...],
        d: dict[str, Any],
        rows: slice | np.ndarray = slice(None),
    ) -> list[Part]:
        """The tensors that a part is made of, one below the other."""
        if bias and self.no_bias(part, d):
            return [Part(None, shape)]
        own = f"{part}_bias" if bias and f"{part}_bias" in self.names else part
        said = Named(()) if bias and own == part else self.said(own)
        names = self.bias(part, layer) if bias else self.tensors(part, layer)
        if half := self.said(part).half:
            rows = slice(0, shape[0]) if half == "first" else slice(shape[0], 2 * shape[0])
            shape = (2 * shape[0], *shape[1:])
        turned = not bias and len(shape) == 2 and self.turned(part)
        out = []
        for name in names:
            there = self.checkpoint.shape(name) if name in self.checkpoint else shape
            stored = shape[::-1] if turned else shape
            if len(names) > 1 and len(there) == len(shape):  # the rows of all are compared later
                stored = (*shape[1:], there[-1]) if turned else (there[0], *shape[1:])
            flat = len(shape) == 1 and len(there) == 2 and there == (1, shape[0])
            stored = there if flat else stored
            more = (said.offset, flat, self.factor(part, said, d))
            out.append(Part(name, stored, rows, turned, False, *more))
        if len(names) > 1 and not (isinstance(rows, slice) and rows == slice(None)):
            raise PhasorError(f"{self.description.path}: names.{part}: expected one tensor here")
        return out

    def no_bias(self, part: str, d: dict[str, Any]) -> bool:
        """Whether this is the bias of a norm in a model whose norms have none, though the format
        gives it one."""
        if not part.endswith("_norm"):
            return False
        side = part.partition(".")[0]
        last = "decoder" if "decoder" in d else "encoder"
        stack = {"source": "encoder", "target": "decoder", "head_norm": last}.get(side, side)
        kind = d["kinds"][D.layers_of(d[stack])[0][0]]
        layers = len(d[stack]["layers"]) // 2
        return not kind["norm_biases"] and not self.has_bias(part, layers)

    def input_parts(self, d: dict[str, Any], slot: R.Slot) -> list[Part]:
        side, stack = ("source", "encoder") if slot.stack == R.SOURCE else ("target", "decoder")
        if slot.role == R.POSITIONS:
            offset = self.description.stacks[stack]["position_offset"]
            name = f"{side}.positions"
            rows = slice(offset, offset + slot.rows)
            return self.part(name, 0, False, (self.rows(name), slot.cols), d, rows)
        part, bias = INPUTS[slot.role]
        return self.part(f"{side}.{part}", 0, bias, shape_of(slot), d)

    def fused_rows(self, kind: dict[str, Any], stack: str, prefix: str) -> dict[str, np.ndarray]:
        """The rows of q, of k and of v in a fused tensor."""
        s, width = self.description.stacks[stack], kind[f"{prefix}head_width"]
        heads, kv = kind[f"{prefix}heads"], kind[f"{prefix}kv_heads"]
        groups = kv if s["qkv_by_head"] else 1
        sizes = {"q": heads * width // groups, "k": kv * width // groups, "v": kv * width // groups}
        rows = np.arange(groups * sum(sizes.values())).reshape(groups, -1)
        out, at = {}, 0
        for letter in s["qkv_order"]:
            out[letter] = rows[:, at : at + sizes[letter]].ravel()
            at += sizes[letter]
        return out

    def attention_parts(
        self, d: dict[str, Any], slot: R.Slot, stack: str, role: int, bias: bool
    ) -> list[Part]:
        """q, k and v: rows of a fused tensor, or tensors of their own."""
        prefix = "" if role == R.QKV else "cross_"
        kind = d["kinds"][next(k for k, number in D.layers_of(d[stack]) if number == slot.set)]
        wanted = {R.QKV: "qkv", R.CROSS_Q: "q", R.CROSS_KV: "kv"}[role]
        fused, own = f"{stack}.{prefix}qkv", self.fused_rows(kind, stack, prefix)
        bits = kind[f"{prefix}biases" if prefix else "attention_biases"]
        if fused in self.names or bias and self.has(f"{fused}_bias", slot.set):
            shape = (sum(map(len, own.values())), *shape_of(slot)[1:])
            rows = np.concatenate([own[letter] for letter in wanted])
            if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
                rows = slice(int(rows[0]), int(rows[0]) + len(rows))
            if fused not in self.names:
                return self.part(f"{fused}_bias", slot.set, False, shape, d, rows)
            return self.part(fused, slot.set, bias, shape, d, rows)
        out = []
        for letter in wanted:
            shape = (len(own[letter]), *shape_of(slot)[1:])
            absent = bias and not bits >> "qkv".index(letter) & 1
            name = f"{stack}.{prefix}{letter}"
            out += [Part(None, shape)] if absent else self.part(name, slot.set, bias, shape, d)
        return out

    def scores(self, d: dict[str, Any], stack: str) -> None:
        """The vectors of additive scores."""
        for index, layer in D.layers_of(d[stack]):
            kind = d["kinds"][index]
            for prefix, role in (("", R.SCORE), ("cross_", R.CROSS_SCORE)):
                if kind.get(f"{prefix}score"):
                    heads, width = kind[f"{prefix}heads"], kind[f"{prefix}head_width"]
                    key = R.key_of(R.ENCODER if stack == "encoder" else R.DECODER, layer, role)
                    part = f"{stack}.{prefix}score"
                    self.values[key] = self.score_vector(part, layer, heads, width)

    def read(self) -> Model:
        d = self.descriptor()
        for stack in self.description.stacks:
            self.positions(d, stack)
            self.scores(d, stack)
        self.find_sharing(d)
        self.vectors(d)
        unbiased = self.unbiased(d)
        d = D.with_defaults(d)
        D.check(d)
        model = Model(
            d,
            self.checkpoint,
            values=self.values,
            used=self.used,
            ignore={
                **dict.fromkeys(self.description.ignore, "the description ignores it"),
                **{f"{start}*": wrappers.AVERAGE for start in wrappers.AVERAGED},
                **dict.fromkeys(wrappers.COUNTERS, wrappers.AVERAGE),
            },
            notes=self.notes,
            unproved=self.description.unproved,
            inside=self.inside,
        )
        for part, name, original in self.doubles:
            model.must_be_same(name, original, "which the description says it shares", part)
        model.fill(lambda slot: self.parts(d, slot))
        for stack, width in unbiased.items():
            self.scale_norms(model, stack, math.sqrt((width - 1) / width))
        if self.preset:
            checks.check(self, model)
        return model

    def unbiased(self, d: dict[str, Any]) -> dict[str, int]:
        """The stacks with norms that divide by √(Σ(x − mean)² / (N − 1)) + eps, and their N. The
        format's have √(Σ(x − mean)² / N + eps): eps becomes its square, less the factor that the
        weights get, so that the two are the same but for eps beside the deviation."""
        out = {}
        for stack in self.description.stacks:
            s = self.description.stacks[stack]
            if s["norm"] != UNBIASED:
                continue
            said = [k for k in ("final_norm", "embedding_norm", "qk_norm") if type(s[k]) is str]
            if said or f"{stack}.q_norm" in self.names:
                raise PhasorError(
                    f"{stack}: {(said or ['names.q_norm'])[0]}: does not go with norm {UNBIASED}"
                )
            width = out[stack] = d[stack]["width"]
            if width < 2:
                raise PhasorError(f"{stack}: norm: {UNBIASED} of a width of {width}")
            tables = [d[stack], *(d["kinds"][kind] for kind, _ in D.layers_of(d[stack]))]
            if stack == "decoder" or d["model"]["stack"] == D.ENCODER:
                tables.append(d["output"])
            for table in {id(table): table for table in tables}.values():
                for key in ("norm_eps", "final_norm_eps", "embedding_norm_eps", "head_norm_eps"):
                    if key in table:
                        table[key] = table[key] ** 2 * (width - 1) / width
            self.notes.append(
                f"{stack}: the factor of N − 1 is in the norms' weights; what is left is eps beside"
                " the deviation"
            )
        return out

    def scale_norms(self, model: Model, stack: str, factor: float) -> None:
        """Multiplies the weights of a stack's norms."""
        sides = {"encoder": (R.SOURCE, R.ENCODER), "decoder": (R.TARGET, R.DECODER)}
        own: tuple[int, ...] = sides[stack]
        if stack == "decoder" or model.descriptor["model"]["stack"] == D.ENCODER:
            own = (*own, R.OUTPUT)
        for slot in R.slots(model.descriptor):
            head = slot.stack == R.OUTPUT and slot.role == R.HEAD_NORM
            side = slot.stack in (R.SOURCE, R.TARGET) and slot.role == R.EMBEDDING_NORM
            block = slot.stack in (R.ENCODER, R.DECODER) and slot.role in _NORMS
            if slot.stack in own and (head or side or block):
                parts = model.parts[slot.key]
                model.parts[slot.key] = [p._replace(factor=p.factor * factor) for p in parts]


def read(
    checkpoint: Checkpoint, description: Description, names: Mapping[str, str] | None = None
) -> Model:
    """The Model of a state_dict; names: its tensors, by part, in place of the preset's. PhasorError
    when a dimension cannot be found; `Model.problems` names every other fault."""
    return _Reader(checkpoint, description, names).read()
