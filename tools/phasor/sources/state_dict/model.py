"""A plain PyTorch state_dict with its description: presets, and any naming by the description's
[names]."""

from __future__ import annotations

import math
from typing import Mapping

import numpy as np

from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.families import names as N
from phasor.families.model import INPUTS, ROLES, Model, Part, same_sides, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.sources.state_dict import checks
from phasor.sources.state_dict.description import CHOICES, UNBIASED, Description, scale_of
from phasor.sources.state_dict.positions import SIDES, Positions
from phasor.values import words

_TEXTS = words("name author license credit origin")
_NORMS = {
    *{R.ATTENTION_BEFORE, R.ATTENTION_AFTER, R.CROSS_BEFORE, R.CROSS_AFTER},
    *{R.FFN_BEFORE, R.FFN_AFTER, R.FINAL_NORM},
}
_OUTPUTS = {R.OUTPUT_WEIGHT: "output", R.HEAD: "head", R.HEAD_NORM: "head_norm"}


class _Reader(Positions):
    """Builds the Model: first the descriptor from the shapes that are found, then the parts of each
    slot."""

    def descriptor(self) -> dict:
        d, model = self.description, self.description.model
        texts = {key: model[key] for key in _TEXTS if model[key]}
        out = {
            "model": {"stack": d.stack, **texts, "converter": "tools/convert.py"},
            "kinds": [],
        }
        for stack in d.stacks:
            out[SIDES[stack]] = self.side(SIDES[stack])
            out[stack] = self.stack(stack)
            kinds, s = self.kinds(stack, out["kinds"]), d.stacks[stack]
            out[stack]["layers"] = [n for i, kind in enumerate(kinds) for n in (kind, i)]
            if s["rotary_scaling"]:
                width = out["kinds"][kinds[0]].get("rotary_width")
                if not width:
                    raise PhasorError(f"{stack}: rotary_scaling: attention_position is not rotary")
                limits = (self.scaled(stack, width).most, s["max_positions"])
                s["max_positions"] = min(filter(None, limits), default=0)
                if s["max_positions"]:
                    out[stack]["max_positions"] = s["max_positions"]
        out["output"] = self.output()
        return out

    def side(self, side: str) -> dict:
        given = self.description.sides[side]
        out = {
            "vocabulary": given["vocabulary"] or self.rows(f"{side}.embedding"),
            "embedding_shared": int(given["embedding_shared"]),
        }
        for key in ("pad", "unknown", "start", "decoder_start", "forced_first", "mask"):
            if given[key] >= 0:
                out[key] = given[key]
        out.update({key: given[key] for key in ("end", "prefix", "suffix") if given[key]})
        if (
            side == "target"
            and self.description.stack == D.ENCODER_DECODER
            and "decoder_start" not in out
            and "start" in out
        ):
            out["decoder_start"] = out["start"]
        return out

    def stack(self, stack: str) -> dict:
        """The fields of a stack but its layers."""
        s, side = self.description.stacks[stack], SIDES[stack]
        width = s["width"] or self.rows(f"{side}.embedding", 1)
        scales = {"sqrt_width": math.sqrt(width), "one": 1.0}
        out = {
            "width": width,
            "position": CHOICES["position"][s["position"]],
            "embedding_scale": scale_of("embedding_scale", s["embedding_scale"], scales),
        }
        if s["final_norm"]:
            out.update(final_norm=CHOICES["norm"][s["norm"]], final_norm_eps=s["norm_eps"])
        if f"{side}.embedding_norm" in self.names:
            out.update(embedding_norm=CHOICES["norm"][s["norm"]], embedding_norm_eps=s["norm_eps"])
        if CHOICES["embedding_norm_place"][s["embedding_norm_place"]]:
            out["embedding_norm_place"] = 1
        if s["max_positions"]:
            out["max_positions"] = s["max_positions"]
        if out["position"] in (D.INTERLEAVED, D.HALVES) and width % 2:
            raise PhasorError(f"{stack}: width {width} is odd, sine and cosine need an even width")
        return out

    def attention(self, stack: str, prefix: str, layers: int) -> tuple[int, int, int]:
        """(head width, kv heads, bias bits) of self- ("") or cross-attention ("cross_")."""
        s, name = self.description.stacks[stack], f"{stack}.{prefix}"
        kv, heads = s["kv_heads"] or s["heads"], s["heads"]
        out_bias = D.BIAS_OUT * self.has_bias(
            f"{name}attention_out" if not prefix else f"{name}out", layers
        )
        first, units, width = f"{name}q", heads, s["head_width"]
        bits = sum(self.has_bias(name + part, layers) << i for i, part in enumerate("qkv"))
        if f"{name}qkv" in self.names:
            first, units = f"{name}qkv", heads + 2 * kv
            bits = D.QKV_BIASES * self.has_bias(first, layers)
        rows = units * width or self.rows(first)
        if rows % units:
            raise PhasorError(
                f"{stack}: {rows} rows of {self.name(first)} are not divisible by {units} heads"
            )
        return rows // units, kv, bits | out_bias

    def kinds(self, stack: str, kinds: list[dict]) -> list[int]:
        """The kind of each layer, put behind `kinds`: one, or several where layers differ in a
        table that belongs to a kind."""
        layers = self.layers(stack)
        kind = self.kind(stack, layers)
        tables, out = [], []
        for role, table in self.kind_tables(stack, kind, layers):
            same = next(
                (i for i, other in enumerate(tables) if np.array_equal(other, table)), len(tables)
            )
            if same == len(tables):
                tables.append(table)
                if role:
                    self.values[R.key_of(R.KINDS, len(kinds) + same, role)] = table
            out.append(len(kinds) + same)
        kinds.extend(dict(kind) for _ in tables)
        return out

    def kind(self, stack: str, layers: int) -> dict:
        s = self.description.stacks[stack]
        head_width, kv, bits = self.attention(stack, "", layers)
        gated = f"{stack}.ffn_gate" in self.names
        out = {
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
        if stack == "decoder" and self.description.stack == D.ENCODER_DECODER:
            cross_width, cross_kv, cross_bits = self.attention(stack, "cross_", layers)
            out.update(
                cross=1,
                cross_heads=s["heads"],
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
        roots = {"sqrt_head_width": math.sqrt(head_width), "sqrt_heads": math.sqrt(s["heads"])}
        divisor = scale_of(key, s[key], roots)
        if divisor == 0:
            raise PhasorError(f"{stack}: {key}: the scores cannot be divided by 0")
        return 1 / divisor

    def output(self) -> dict:
        model, encoder = self.description.model, self.description.stack == D.ENCODER
        if encoder and model["output"] == "own":
            if {"head", "head_norm", "output_bias"} & self.names.keys():
                raise PhasorError(
                    f"{self.description.path}: names: an encoder that gives hidden states has no"
                    ' head, head_norm and output_bias; say output = "source-embedding" for logits'
                )
            return {"output": D.HIDDEN}
        width = self.stack("encoder" if encoder else "decoder")["width"]
        scales = {"one": 1.0, "inverse_sqrt_width": width**-0.5}
        return {
            "output": D.LOGITS,
            "tied": CHOICES["output"][model["output"]],
            "scale": scale_of("output_scale", model["output_scale"], scales),
            "bias": int(self.output_bias()),
            **self.head("encoder" if encoder else "decoder"),
        }

    def head(self, stack: str) -> dict:
        """A dense layer with an activation, and a norm, before the output's matrix; each where
        [names] has it."""
        out, s = {}, self.description.stacks[stack]
        word = self.description.model["head_activation"]
        if "head" not in self.names and word != "none":
            raise PhasorError(
                f"{self.description.path}: head_activation: {word}, and names.head is missing"
            )
        if "head" in self.names:
            out.update(
                head_width=self.rows("head"),
                head_bias=int(self.has_bias("head", 1)),
                head_activation=CHOICES["head_activation"][word],
            )
        if "head_norm" in self.names:
            out.update(head_norm=CHOICES["norm"][s["norm"]], head_norm_eps=s["norm_eps"])
        return out

    def output_bias(self) -> bool:
        """Whether there is one; of zeros, as most of those with a name of their own are, it is
        none."""
        if "output_bias" not in self.names:
            return self.has_bias("output", 1)
        return self.has("output_bias") and bool(self.load(self.name("output_bias")).any())

    # ---- sharing

    def find_sharing(self, d: dict) -> None:
        """Stores once what the checkpoint has twice, and checks what the description says is
        shared."""
        if d["model"]["stack"] == D.ENCODER:
            if d["output"]["output"] == D.LOGITS:
                names = self.names.get("output"), self.names.get("source.embedding")
                self.doubles.append(("output", *names))
            return
        source, target, output = (
            self.names.get(p) for p in ("source.embedding", "target.embedding", "output")
        )
        same = self.checkpoint.same
        if same_sides(d) and not d["target"]["embedding_shared"] and same(source, target):
            d["target"]["embedding_shared"] = 1
            self.notes.append("the target's embedding is the source's: stored once")
        if d["target"]["embedding_shared"]:
            self.doubles.append(("target.embedding", target, source))
        tied_to = {D.TIED_TARGET: target, D.TIED_SOURCE: source}
        if d["output"]["tied"] == D.TIED_OWN and same(output, target):
            d["output"]["tied"] = D.TIED_TARGET
            self.notes.append("the output matrix is the target's embedding: stored once")
        if d["output"]["tied"] != D.TIED_OWN:
            self.doubles.append(("output", output, tied_to[d["output"]["tied"]]))

    # ---- the parts

    def parts(self, d: dict, slot: R.Slot) -> list[Part]:
        """Where the values of a slot come from."""
        if slot.stack in (R.SOURCE, R.TARGET):
            return self.input_parts(d, slot)
        if slot.key == R.key_of(R.OUTPUT, 0, R.OUTPUT_WEIGHT + 1) and self.has("output_bias"):
            name = self.name("output_bias")
            shape = self.checkpoint.shape(name)
            stored = (1, slot.rows) if len(shape) == 2 else (slot.rows,)
            return [Part(name, stored, flat=True)]
        if slot.stack == R.OUTPUT:
            first = max(role for role in _OUTPUTS if role <= slot.role)
            return [self.part(_OUTPUTS[first], 0, slot.role != first, shape_of(slot))]
        stack = "encoder" if slot.stack == R.ENCODER else "decoder"
        bias, role = slot.role & 1, slot.role & ~1
        if slot.role in (R.RELATIVE_KEYS, R.RELATIVE_VALUES):
            return self.relative_parts(slot, stack)
        if role in (R.QKV, R.CROSS_Q, R.CROSS_KV):
            return self.attention_parts(d, slot, stack, role, bool(bias))
        if role == R.FFN_IN and len(slot.parts) == 2:
            wanted = [f"{stack}.ffn_gate", f"{stack}.ffn_in"]
        else:
            wanted = [f"{stack}.{ROLES[role]}"]
        shape = (slot.parts[0], *shape_of(slot)[1:])
        if (
            role == R.FINAL_NORM
            and bias
            and not d["kinds"][D.layers_of(d[stack])[0][0]]["norm_biases"]
            and not self.has_bias(wanted[0], 1)
        ):
            # Norms without biases throughout; the format gives a final layer norm one.
            return [Part(None, shape)]
        return [self.part(part, slot.set, bool(bias), shape) for part in wanted]

    def relative_parts(self, slot: R.Slot, stack: str) -> list[Part]:
        """Tables of distances: (entries, w) in the checkpoint; the file has keys transposed, the
        distance fastest."""
        s, keys = self.description.stacks[stack], slot.role == R.RELATIVE_KEYS
        shape = (slot.cols, slot.rows) if keys else (slot.rows, slot.cols)
        if not keys and not s["relative_values"]:
            return [Part(None, shape)]
        name = self.name(f"{stack}.relative_keys" if keys else f"{stack}.relative_values", slot.set)
        backwards = CHOICES["relative_order"][s["relative_order"]]
        return [Part(name, shape, transposed=keys, reversed=backwards)]

    def part(
        self, part: str, layer: int, bias: bool, shape: tuple[int, ...], rows: slice = slice(None)
    ) -> Part:
        name = self.name(part, layer)
        return Part(N.bias_name(name) if bias else name, shape, rows)

    def input_parts(self, d: dict, slot: R.Slot) -> list[Part]:
        side, stack = ("source", "encoder") if slot.stack == R.SOURCE else ("target", "decoder")
        if slot.role == R.POSITIONS:
            offset = self.description.stacks[stack]["position_offset"]
            name = f"{side}.positions"
            rows = slice(offset, offset + slot.rows)
            return [self.part(name, 0, False, (self.rows(name), slot.cols), rows)]
        part, bias = INPUTS[slot.role]
        return [self.part(f"{side}.{part}", 0, bias, shape_of(slot))]

    def attention_parts(
        self, d: dict, slot: R.Slot, stack: str, role: int, bias: bool
    ) -> list[Part]:
        """q, k and v: rows of a fused tensor, or tensors of their own."""
        prefix = "" if role == R.QKV else "cross_"
        kind = d["kinds"][D.layers_of(d[stack])[slot.set][0]]
        width = kind[f"{prefix}head_width"]
        kv = kind[f"{prefix}kv_heads"] * width
        sizes = {"q": kind[f"{prefix}heads"] * width, "k": kv, "v": kv}
        wanted = {R.QKV: "qkv", R.CROSS_Q: "q", R.CROSS_KV: "kv"}[role]
        fused = f"{stack}.{prefix}qkv"
        if fused in self.names:
            shape = (sum(sizes.values()), *shape_of(slot)[1:])
            start = 0 if "q" in wanted else sizes["q"]
            rows = slice(start, start + sum(slot.parts))
            return [self.part(fused, slot.set, bias, shape, rows)]
        bits = kind[f"{prefix}biases" if prefix else "attention_biases"]
        out = []
        for letter in wanted:
            shape = (sizes[letter], *shape_of(slot)[1:])
            absent = bias and not bits >> "qkv".index(letter) & 1
            name = f"{stack}.{prefix}{letter}"
            out.append(Part(None, shape) if absent else self.part(name, slot.set, bias, shape))
        return out

    def scores(self, d: dict, stack: str) -> None:
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
        )
        for part, name, original in self.doubles:
            model.must_be_same(name, original, "which the description says it shares", part)
        model.fill(lambda slot: self.parts(d, slot))
        for stack, width in unbiased.items():
            self.scale_norms(model, stack, math.sqrt((width - 1) / width))
        if self.preset:
            checks.check(self, model)
        return model

    def unbiased(self, d: dict) -> dict[str, int]:
        """The stacks with norms that divide by √(Σ(x − mean)² / (N − 1)) + eps, and their N. The
        format's have √(Σ(x − mean)² / N + eps): eps becomes its square, less the factor that the
        weights get, so that the two are the same but for eps beside the deviation."""
        out = {}
        for stack in self.description.stacks:
            if self.description.stacks[stack]["norm"] != UNBIASED:
                continue
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
        own = {"encoder": (R.SOURCE, R.ENCODER), "decoder": (R.TARGET, R.DECODER)}[stack]
        if stack == "decoder" or model.descriptor["model"]["stack"] == D.ENCODER:
            own = (*own, R.OUTPUT)
        for slot in R.slots(model.descriptor):
            head = slot.stack == R.OUTPUT and slot.role == R.HEAD_NORM
            side = slot.stack in (R.SOURCE, R.TARGET) and slot.role == R.EMBEDDING_NORM
            block = slot.stack in (R.ENCODER, R.DECODER) and slot.role in _NORMS
            if slot.stack in own and (head or side or block):
                (part,) = model.parts.pop(slot.key)
                if part.name in self.checkpoint and self.checkpoint.shape(part.name) == part.shape:
                    values = self.load(part.name).astype(np.float64) * factor
                    model.values[slot.key] = values.astype(np.float32)
                else:
                    model.parts[slot.key] = [part]  # said by Model.problems


def read(
    checkpoint: Checkpoint, description: Description, names: Mapping[str, str] | None = None
) -> Model:
    """The Model of a state_dict; names: its tensors, by part, in place of the preset's. PhasorError
    when a dimension cannot be found; `Model.problems` names every other fault."""
    return _Reader(checkpoint, description, names).read()
