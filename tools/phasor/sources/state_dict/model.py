"""A plain PyTorch state_dict with its description: presets, and any naming by the description's
[names]."""

from __future__ import annotations

import math
from typing import Iterator, Mapping

import numpy as np

from phasor import positions
from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import Problems, printable
from phasor.families import names as N
from phasor.families import nearest
from phasor.families.model import INPUTS, ROLES, Model, Part, same_sides, shape_of
from phasor.families.rotary_scaling import Rotary, rotary
from phasor.files import fits
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.reference.functions import sinusoid
from phasor.sources.state_dict.description import CHOICES, Description, scale_of
from phasor.values import words

_TEXTS = words("name author license credit origin")
# Parts that a stack has when a key of it has one of these values.
_WHEN: dict[str, tuple[str, tuple]] = {
    "final_norm": ("final_norm", (True,)),
    "positions": ("position", ("learned",)),
    "relative_keys": (
        "attention_position",
        ("relative_key", "relative_key_query", "three-way", "clipped"),
    ),
    "relative_values": ("attention_position", ("clipped",)),
    "position_bias": ("attention_position", ("t5",)),
    "score": ("score", ("additive",)),
    "cross_score": ("cross_score", ("additive",)),
}
_SIDES = {"encoder": "source", "decoder": "target"}
_OUTPUTS = {R.OUTPUT_WEIGHT: "output", R.HEAD: "head", R.HEAD_NORM: "head_norm"}
_MOST_POSITIONS = 1 << 26  # values of a table of sinusoids
_SINUSOID_TOLERANCE = 1e-5  # of a value of the table, over the positions that the model may use


class _Reader:
    """Builds the Model: first the descriptor from the shapes that are found, then the parts of each
    slot."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        description: Description,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.description, self.preset = description, names is None
        self.names = dict(
            N.PRESETS[description.preset](description.stack) if names is None else names
        )
        asked = (*self.names.values(), *description.names.values(), *description.rename)
        checkpoint = wrappers.unwrapped(checkpoint, wrappers.LIGHTNING, asked)
        self.checkpoint = (
            checkpoint.renamed(description.rename) if description.rename else checkpoint
        ).as_matrices()
        for part, name in description.names.items():
            if part not in N.ALL:
                raise PhasorError(
                    f"{description.path}: names.{part}: no part is called so; there are "
                    f"{', '.join(sorted(N.ALL))}"
                )
            self._forget_rivals(part)
            self.names[part] = name
        if description.sides.get("target", {}).get("embedding_shared") and not self.has(
            "target.embedding"
        ):
            self.names["target.embedding"] = self.names.get("source.embedding", "")
        self.rotary: dict[str, Rotary] = {}
        self.notes: list[str] = self.checkpoint.notes
        self.used: dict[str, str] = {}
        self.values: dict[int, np.ndarray] = {}
        # (part, tensor, whose double it is said to be)
        self.doubles: list[tuple[str, str | None, str | None]] = []

    def _forget_rivals(self, part: str) -> None:
        """A name for q, k and v separately takes the place of the preset's fused one, and the other
        way round."""
        stack, _, what = part.partition(".")
        cross = "cross_" if what.startswith("cross_") else ""
        rivals = {"qkv": ("q", "k", "v"), "q": ("qkv",), "k": ("qkv",), "v": ("qkv",)}
        for rival in rivals.get(what[len(cross) :], ()):
            self.names.pop(f"{stack}.{cross}{rival}", None)

    # ---- looking into the checkpoint

    def name(self, part: str, layer: int = 0) -> str:
        if part not in self.names:
            raise PhasorError(
                f"{self.description.path}: names.{part}: missing, the preset "
                f"{self.description.preset!r} has no name for it"
            )
        return self.names[part].replace("{layer}", str(layer))

    def has(self, part: str, layer: int = 0) -> bool:
        return part in self.names and self.name(part, layer) in self.checkpoint

    def has_bias(self, part: str, layers: int) -> bool:
        """Whether any layer has this bias; then every layer must."""
        return part in self.names and any(
            N.bias_name(self.name(part, i)) in self.checkpoint for i in range(layers)
        )

    def need(self, part: str, layer: int = 0, what: str = "") -> str:
        """The name of a tensor that must be there."""
        name = self.name(part, layer)
        if name not in self.checkpoint:
            raise self.missing_tensors(name, what or part)
        return name

    def missing_tensors(self, name: str, what: str) -> Problems:
        """The error for a tensor without which nothing more is known: with every other that the
        description asks for and every one that nothing asks for."""
        missing = [n for n in (name, *dict(self.expected())) if n not in self.checkpoint]
        start, first = nearest.under(missing, self.checkpoint), []
        if start and not any(start + name in self.checkpoint for name in self.checkpoint):
            there = [n for n in missing if start + n in self.checkpoint]
            first = [
                f"missing: {there[0]}, and {len(there) - 1} more that this file has after"
                f' {printable(start)}: say [rename] "{printable(start)}" = "" in the description'
            ]
            self.checkpoint = self.checkpoint.renamed({start: ""})
        wanted = {name: what, **dict(self.expected())}
        left = [n for n in self.checkpoint if n not in wanted and n not in self.used]
        left = [n for n in left if not any(fits(p, n) for p in self.description.ignore)]
        absent, unused = nearest.lines(
            self.checkpoint,
            {n: what for n, what in wanted.items() if n not in self.checkpoint},
            left,
            each=False,
        )
        if self.preset:
            absent = [f"{line} ([names] of the description)" for line in absent]
        return Problems([f"{self.checkpoint.path}: {line}" for line in (*first, *absent, *unused)])

    def expected(self) -> Iterator[tuple[str, str]]:
        """(tensor, part) of all that this description may ask for; biases only where they are."""
        for part in self.names:
            stack = part.partition(".")[0]
            if not self.asks_for(
                part, {"source": "encoder", "target": "decoder"}.get(stack, stack)
            ):
                continue
            most = self.layer_count(part) if "{layer}" in self.names[part] else 1
            for name in dict.fromkeys(self.name(part, i) for i in range(most)):
                yield name, part
                if (bias := N.bias_name(name)) in self.checkpoint:
                    yield bias, part

    def asks_for(self, part: str, stack: str) -> bool:
        """Whether a model of this description has the part."""
        model, s = self.description.model, self.description.stacks.get(stack)
        what = part.partition(".")[2]
        if s is None:
            own = part == "output" and model["output"] == "own"
            return (own and self.description.stack != D.ENCODER) or self.has(part)
        if what in _WHEN:
            key, values = _WHEN[what]
            return s[key] in values
        crossing = stack == "decoder" and self.description.stack == D.ENCODER_DECODER
        optional = what in ("sinusoid", "alibi_slopes", "inv_freq") and not self.has(part)
        return not optional and (crossing or not what.startswith("cross_"))

    def layer_count(self, part: str) -> int:
        """How many layers of a part's stack there seem to be: as many as any part of it has."""
        stack = part.partition(".")[0]
        if said := self.description.stacks[stack]["layers"]:
            return said
        parts = [p for p in self.names if p.startswith(f"{stack}.") and "{layer}" in self.names[p]]
        layers = range(D.MAX_LAYERS)
        return next((i for i in layers if not any(self.has(p, i) for p in parts)), len(layers)) or 1

    def misshapen(self, part: str, name: str, what: str) -> PhasorError:
        return PhasorError(f"{self.checkpoint.path}: misshapen: {name} ({part}) has {what}")

    def load(self, name: str) -> np.ndarray:
        """A tensor that is not stored as it is; it counts as used."""
        self.used[name] = "read and made into a table, or compared with one"
        return self.checkpoint.load(name)

    def rows(self, part: str, axis: int = 0) -> int:
        """The size of a matrix that gives the model a dimension."""
        shape = self.checkpoint.shape(name := self.need(part))
        if len(shape) != 2:
            raise self.misshapen(part, name, f"{len(shape)} dimensions, expected 2")
        return shape[axis]

    def layers(self, stack: str) -> int:
        part = f"{stack}.ffn_in"
        if said := self.description.stacks[stack]["layers"]:
            return said
        if "{layer}" not in self.names.get(part, "{layer}"):
            raise PhasorError(
                f"{self.description.path}: names.{part}: has no {{layer}}; say how many layers "
                "there are"
            )
        self.need(part, what=f"{stack} 0")
        return next((i for i in range(D.MAX_LAYERS) if not self.has(part, i)), D.MAX_LAYERS)

    # ---- the descriptor

    def descriptor(self) -> dict:
        d, model = self.description, self.description.model
        texts = {key: model[key] for key in _TEXTS if model[key]}
        out = {
            "model": {"stack": d.stack, **texts, "converter": "tools/convert.py"},
            "kinds": [],
        }
        for stack in d.stacks:
            out[_SIDES[stack]] = self.side(_SIDES[stack])
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
        s, side = self.description.stacks[stack], _SIDES[stack]
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
        out_bias = 8 * self.has_bias(f"{name}attention_out" if not prefix else f"{name}out", layers)
        first, units, width = f"{name}q", heads, s["head_width"]
        bits = sum(self.has_bias(name + part, layers) << i for i, part in enumerate("qkv"))
        if f"{name}qkv" in self.names:
            first, units = f"{name}qkv", heads + 2 * kv
            bits = 7 * self.has_bias(first, layers)
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

    # ---- positions inside attention

    def attention_position(self, stack: str, head_width: int) -> dict:
        """The fields of a kind that say how self-attention knows positions."""
        s = self.description.stacks[stack]
        position = CHOICES["attention_position"][s["attention_position"]]
        out = {"position": position}
        if position in D.RELATIVE_KEYS:
            if s["score"] == "additive":
                raise PhasorError(
                    f"{stack}: attention_position {s['attention_position']!r} needs q·k, not the "
                    "additive score"
                )
            out["max_distance"] = self.table_distance(stack, position)
        elif position == D.T5_BIAS:
            out["max_distance"] = s["max_distance"] or 128  # as Raffel et al. have it
        elif position in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            width = out["rotary_width"] = s["rotary_width"] or head_width
            if width % 2 or width > head_width:
                raise PhasorError(
                    f"{stack}: rotary_width {width}, expected an even number of the head's "
                    f"{head_width} values"
                )
            if s["rotary_scaling"]:
                out["rotary_factor"] = self.scaled(stack, width).factor
        return out

    def table_distance(self, stack: str, position: int) -> int:
        """M of a table of relative keys, from its rows."""
        part, s = f"{stack}.relative_keys", self.description.stacks[stack]
        rows = self.rows(part)
        form, most = (
            ("2·M + 1", (rows - 1) // 2) if position == D.CLIPPED else ("2·M − 1", (rows + 1) // 2)
        )
        if rows % 2 == 0:
            what = f"{rows} rows, expected an odd number, {form}"
            raise self.misshapen(part, self.name(part), what)
        if s["max_distance"] not in (0, most):
            raise PhasorError(
                f"{stack}: max_distance {s['max_distance']}, but {self.name(part)} has {rows} "
                f"rows, {form} for M = {most}"
            )
        return most

    def kind_tables(
        self, stack: str, kind: dict, layers: int
    ) -> list[tuple[int, np.ndarray | None]]:
        """(role, table) for each layer of what a kind has of its own; (0, None) where it has
        nothing."""
        s, position = self.description.stacks[stack], kind["position"]
        if position == D.T5_BIAS:
            biases = self.of_layers(
                f"{stack}.position_bias", layers, (s["num_buckets"] or None, kind["heads"])
            )
            most, two_sided = kind["max_distance"], s["two_sided"]
            try:
                positions.check_t5_size(most, kind["heads"], layers)
                return [(R.T5_BIAS, positions.t5_table(bias, most, two_sided)) for bias in biases]
            except PhasorError as error:
                raise PhasorError(f"{stack}: {error}") from error
        if position == D.ALIBI:
            return [(R.ALIBI, slopes) for slopes in self.slopes(stack, kind["heads"], layers)]
        if position in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            return [(R.ROTARY, f) for f in self.frequencies(stack, kind["rotary_width"], layers)]
        return [(0, None)] * layers

    def of_layers(self, part: str, layers: int, shape: tuple[int | None, ...]) -> list[np.ndarray]:
        """A tensor of each layer; one that only layer 0 has, or whose name has no {layer}, is that
        of all. None: any size."""
        alone = "{layer}" not in self.names.get(part, "") or not any(
            self.has(part, i) for i in range(1, layers)
        )
        out = []
        for layer in range(1 if alone else layers):
            name = self.need(part, layer)
            found = self.checkpoint.shape(name)
            if len(found) != len(shape) or any(
                want not in (None, n) for want, n in zip(shape, found)
            ):
                want = " x ".join("any" if n is None else str(n) for n in shape)
                what = f"shape ({' x '.join(map(str, found))}), expected ({want})"
                raise self.misshapen(part, name, what)
            out.append(self.load(name))
        return out * layers if alone else out

    def slopes(self, stack: str, heads: int, layers: int) -> list[np.ndarray]:
        """ALiBi's slopes for each layer: a tensor of the checkpoint, the description's, or the
        paper's."""
        given = self.description.stacks[stack]["alibi_slopes"]
        if f"{stack}.alibi_slopes" in self.names:
            return self.of_layers(f"{stack}.alibi_slopes", layers, (heads,))
        if given and len(given) != heads:
            raise PhasorError(
                f"{stack}: alibi_slopes has {len(given)} numbers, there are {heads} heads"
            )
        return [np.asarray(given) if given else positions.alibi_slopes(heads)] * layers

    def frequencies(self, stack: str, width: int, layers: int) -> list[np.ndarray]:
        """The rotary frequencies of each layer: a tensor of the checkpoint where the description
        names it, else from the base."""
        s, own = self.description.stacks[stack], f"{stack}.inv_freq"
        if own in self.names:
            found = self.of_layers(own, layers, (width // 2,))
            return [value.astype(np.float64) for value in found]
        if s["rotary_scaling"]:
            return [self.scaled(stack, width).inv_freq] * layers
        return [positions.inverse_frequencies(width, s["rotary_base"])] * layers

    def scaled(self, stack: str, width: int) -> Rotary:
        """The frequencies under the description's scaling."""
        s = self.description.stacks[stack]
        if stack in self.rotary:
            return self.rotary[stack]
        lengths = (s["rotary_trained"], s["rotary_context"], s["max_positions"])
        try:
            self.rotary[stack] = rotary(width, s["rotary_base"], s["rotary_scaling"], *lengths)
        except PhasorError as error:
            raise PhasorError(f"{stack}: {error}") from error
        return self.rotary[stack]

    def score_vector(self, part: str, layer: int, heads: int, width: int) -> np.ndarray:
        """v of the additive score, (H·w); one for all heads, (w), is repeated."""
        value = self.load(name := self.need(part, layer)).reshape(-1)
        if value.size not in (width, heads * width):
            what = f"{value.size} values, expected {heads} heads x {width}, or {width} for all"
            raise self.misshapen(part, name, what)
        return value if value.size == heads * width else np.tile(value, heads)

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

    # ---- sharing and positions

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

    def positions(self, d: dict, stack: str) -> None:
        """max_positions of a learned table; a sinusoid that the model brings is compared with
        ours."""
        side, s, out = _SIDES[stack], self.description.stacks[stack], d[stack]
        self.limit(d, stack)
        if out["position"] == D.LEARNED:
            total = self.rows(f"{side}.positions")
            rows = total - s["position_offset"]
            if not s["max_positions"] and total == self.rows(f"{side}.embedding"):
                raise PhasorError(
                    f"{stack}: {self.name(f'{side}.positions')} has {total} rows, as many as the "
                    "vocabulary: positions are counted from 0, not looked up by token ids; say "
                    "max_positions if the table is one of positions"
                )
            if rows < 1 or s["max_positions"] > rows:
                raise PhasorError(
                    f"{stack}: max_positions {s['max_positions']} with offset "
                    f"{s['position_offset']}, the table has {total} rows"
                )
            out["max_positions"] = s["max_positions"] or rows
        if out["position"] not in (D.INTERLEAVED, D.HALVES):
            return
        candidates = _inverse_frequencies(out["width"], s["position_base"])
        stack_id = R.SOURCE if stack == "encoder" else R.TARGET
        chosen = candidates[0]
        if self.has(f"{side}.sinusoid"):
            table = self.own_table(f"{side}.sinusoid", out["width"], s)
            differences = [
                float(np.abs(table - _sinusoid(c, len(table), out["position"])).max())
                for c in candidates
            ]
            best = int(np.argmin(differences))
            chosen = candidates[best]
            if differences[best] > _SINUSOID_TOLERANCE:
                self.notes.append(
                    f"{stack}: the model's own table of positions differs from the sinusoid by "
                    f"{differences[best]:.3g}: stored as it is, as {len(table)} learned positions"
                )
                out.update(position=D.LEARNED, max_positions=len(table))
                self.values[R.key_of(stack_id, 0, R.POSITIONS)] = table
                return
            self.notes.append(
                f"{stack}: the model's own table of positions is the sinusoid within "
                f"{differences[best]:.3g}"
            )
        if s["position_offset"] and not self.has(f"{side}.sinusoid"):
            self.values[R.key_of(stack_id, 0, R.POSITIONS)] = self.later_positions(stack, out)
            out["position"] = D.LEARNED
            return
        self.values[R.key_of(stack_id, 0, R.SINUSOID)] = chosen

    def later_positions(self, stack: str, out: dict) -> np.ndarray:
        """(positions, D) of sinusoids whose positions do not begin at 0: the format has those that
        do, so they are kept as a table."""
        s, most = self.description.stacks[stack], out.get("max_positions", 0)
        if not 0 < most * out["width"] <= _MOST_POSITIONS:
            raise PhasorError(
                f"{stack}: position_offset {s['position_offset']} of sinusoids: they are kept as a"
                f" table, max_positions of 1 to {_MOST_POSITIONS // out['width']} says how long"
            )
        rates = positions.inverse_frequencies(out["width"], s["position_base"])
        places = np.arange(most) + s["position_offset"]
        return sinusoid(rates, places, out["position"]).astype(np.float32)

    def limit(self, d: dict, stack: str) -> None:
        """A table of unclipped distances ends: so does a sequence."""
        kind = d["kinds"][d[stack]["layers"][0]]
        most, wanted = kind.get("max_distance", 0), self.description.stacks[stack]["max_positions"]
        if kind["position"] in D.BOUNDED and wanted > most:
            raise PhasorError(
                f"{stack}: max_positions {wanted}, the table of distances has rows for {most} "
                "positions"
            )

    def own_table(self, part: str, width: int, s: dict) -> np.ndarray:
        """The model's table (positions, D), of the positions that it may use."""
        table = self.load(name := self.name(part))
        table = table.reshape([n for n in table.shape if n != 1] or [1])
        if table.ndim == 1 and width == table.size:
            table = table[None]
        if table.ndim != 2 or table.shape[1] != width:
            what = f"shape {self.checkpoint.shape(name)}, expected positions x {width}"
            raise self.misshapen(part, name, what)
        table = table[s["position_offset"] :]
        if len(table) < max(s["max_positions"], 1):
            raise PhasorError(
                f"{self.checkpoint.path}: {name} ({part}) has {len(table)} positions, "
                f"max_positions is {s['max_positions']}"
            )
        return table[: s["max_positions"] or len(table)]

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
        return model.fill(lambda slot: self.parts(d, slot))


def _inverse_frequencies(width: int, base: float) -> list[np.ndarray]:
    """base^(−2i/D) in float64; and as published code has it in float32, by exp and by pow, which
    differ in the last bits."""
    even = np.arange(0, width, 2).astype(np.float32)
    exponents = (even * np.float32(-math.log(base) / width)).astype(np.float64)
    by_exp = np.exp(exponents).astype(np.float32)
    by_pow = np.float32(1) / positions.float32_powers(base, even / np.float32(width))
    return [
        positions.inverse_frequencies(width, base),
        by_exp.astype(np.float64),
        by_pow.astype(np.float64),
    ]


def _sinusoid(inv_freq: np.ndarray, count: int, layout: int) -> np.ndarray:
    return sinusoid(inv_freq, np.arange(count), layout)


def read(
    checkpoint: Checkpoint, description: Description, names: Mapping[str, str] | None = None
) -> Model:
    """The Model of a state_dict; names: its tensors, by part, in place of the preset's. PhasorError
    when a dimension cannot be found; `Model.problems` names every other fault."""
    return _Reader(checkpoint, description, names).read()
