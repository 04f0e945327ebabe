"""Encoders of Hugging Face directories: a family is a table (`Family`); this turns the table, a
config.json and the weights into a `Model`.

Parts of a model, as a table names their tensors (the weight; its bias is called the same with
`bias`):

    embedding positions segments embedding_norm projection         the input
    qkv | q k v, attention_out attention_norm ffn_in ffn_gate ffn_out ffn_norm relative_keys
                                                                   a set of a block's tensors;
                                                                   {layer}, {group}, {inner} are
                                                                   numbers
    t5_bias final_norm                                             of the stack
    head head_norm output output_bias classifier                   of an output (`Head`)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import numpy as np

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.families import heads
from phasor.families.heads import Head
from phasor.families.hf_config import ACTIVATIONS, NEWER, Config
from phasor.families.model import BUFFER, INPUTS, ROLES, Model, Part, described, shape_of, single
from phasor.families.names import bias_name
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.positions import float32_powers

_BUFFERS = ["*position_ids", "*token_type_ids"]  # that PyTorch's older versions saved


@dataclass(frozen=True)
class Family:
    """One architecture as a table."""

    types: tuple[str, ...]  # model_type of config.json
    classes: tuple[str, ...]  # how the names of its classes begin
    trunk: str  # how the names of the stack's tensors begin where the model has a head
    names: Mapping[str, str]
    heads: Mapping[str, Head]  # by the rest of the class's name
    defaults: Mapping[str, Any]  # of transformers, for fields that config.json leaves out
    # Where config.json has another name than BERT's; head_width: where it says that at all.
    fields: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    # Patterns of tensors without a use in any output, but not worth a note.
    unused: tuple[str, ...] = ()
    adapt: Callable[["Encoder"], None] | None = None  # what is its own
    activations: Mapping[str, int] = field(default_factory=lambda: ACTIVATIONS)
    newer: Mapping[str, Any] = field(default_factory=dict)  # defaults that transformers 5 changed
    wordpiece: bool = False  # a vocab.txt is BERT's WordPiece
    tokenizer_code: str = ""  # what its tokenizer does that no file says
    # Published with code of its own (auto_map), which this family's table restates.
    custom_code: bool = False


class Encoder:
    """Collects a model's descriptor and the places of its tensors; `adapt` changes what a family
    has of its own."""

    def __init__(self, family: Family, config: Config, checkpoint: Checkpoint, head: Head) -> None:
        self.family, self.config, self.checkpoint, self.head = family, config, checkpoint, head
        self.names = dict(family.names)
        self.alone = ""  # the output's name, where a tied matrix has no other
        self.trunk = (
            family.trunk if any(name.startswith(family.trunk) for name in checkpoint) else ""
        )
        self.values: dict[int, np.ndarray] = {}
        self.used: dict[str, str] = {}
        self.notes: list[str] = []
        self.doubles: list[tuple[str, str]] = []  # tensors that are said to be others'
        patterns = (*_BUFFERS, *(self.trunk + pattern for pattern in family.unused))
        self.ignore = dict.fromkeys(patterns, BUFFER)
        self.relative_factor = 1.0
        self.position_rows = slice(0, None)  # of the learned table, those that are used
        if family.custom_code:
            config.get("auto_map")
        width, heads = self.size("hidden_size", high=D.MAX_WIDTH), self.size("num_attention_heads")
        if "head_width" in family.fields:
            head_width = self.size("head_width", high=4096)
        elif width % heads:
            raise config.error(
                self.field("num_attention_heads"), f"{heads} does not divide the width {width}"
            )
        else:
            head_width = width // heads
        self.count = self.size("num_hidden_layers", high=D.MAX_LAYERS)
        eps = config.number(self.field("layer_norm_eps"))
        self._check_positions()
        self.side = {"vocabulary": self.size("vocab_size")}
        pad = config.whole("pad_token_id", -1, default=-1)
        if 0 <= pad < self.side["vocabulary"]:
            self.side["pad"] = pad
        self.stack = {
            "width": width,
            "position": D.LEARNED,
            "max_positions": self.size("max_position_embeddings"),
            "embedding_norm": D.LAYER_NORM,
            "embedding_norm_eps": eps,
        }
        self.kind = {
            "norm": D.LAYER_NORM,
            "norm_place": D.AFTER,
            "norm_eps": eps,
            "heads": heads,
            "head_width": head_width,
            "scale": single(head_width**-0.5),
            "attention_biases": 15,
            "hidden": self.size("intermediate_size"),
            "activation": config.choice(self.field("hidden_act"), family.activations),
            "ffn_biases": 3,
        }
        self.kinds = [self.kind]
        self.layers = [(0, i) for i in range(self.count)]  # (kind, set)
        # Of each set, what stands in its names.
        self.places = [{"layer": i} for i in range(self.count)]
        self.output: dict[str, Any] = {}

    def _check_positions(self) -> None:
        """A table of positions as long as the vocabulary, and no max_position_embeddings: a table
        that its model looks up by ids."""
        name = self.trunk + self.names.get("positions", "")
        if (
            self.config.values.get(self.field("max_position_embeddings")) is None
            and name in self.checkpoint
            and self.checkpoint.shape(name)[:1] == (self.size("vocab_size"),)
        ):
            raise PhasorError(
                f"{self.checkpoint.path}: {name} has as many rows as the vocabulary, and nothing "
                "says how many positions there are: "
                "positions are counted from 0, and not looked up by token ids"
            )

    # ---- for adapt

    def field(self, name: str) -> str:
        return self.family.fields.get(name, name)

    def size(self, name: str, low: int = 1, high: int = 1 << 24) -> int:
        return self.config.whole(self.field(name), low, high)

    def segments(self) -> None:
        """A table of token types, where the configuration has any."""
        count = self.size("type_vocab_size", 0)
        if count:
            self.stack["segments"] = count

    def embedding_width(self) -> None:
        """Embeddings of their own width, then a projection."""
        width = self.config.whole("embedding_size", default=self.stack["width"])
        if width != self.stack["width"]:
            self.stack.update(embedding_width=width, projection_bias=1)

    def relative_keys(self, factor: float = 1.0) -> None:
        """BERT's position_embedding_type (Shaw et al. 2018; Huang et al. 2020, method 4). factor:
        what the table is multiplied by."""
        name = "position_embedding_type"
        kinds = {"relative_key": D.RELATIVE_KEY, "relative_key_query": D.RELATIVE_KEY_QUERY}
        kind = self.config.choice(name, {"absolute": 0, **kinds})
        if kind:
            if (self.config.version or 0) >= NEWER:
                what = f"transformers {NEWER}, which wrote this, has it and does not compute it"
                raise self.config.error(name, what)
            self.stack["position"] = 0
            self.kind.update(position=kind, max_distance=self.stack["max_positions"])
            self.relative_factor = factor
            # Made by transformers, never added.
            self.ignore[self.trunk + self.names["positions"]] = BUFFER

    def skip_positions(self, count: int) -> None:
        """The learned table has `count` rows that come before position 0."""
        rows = self.stack["max_positions"]
        if rows <= count:
            raise self.config.error(
                self.field("max_position_embeddings"),
                f"{rows} rows, of which {count} come before position 0",
            )
        self.position_rows = slice(count, rows)
        self.stack["max_positions"] = rows - count

    # ---- tensors

    def name(self, part: str, weights: int = 0) -> str:
        if part == "embedding" and self.alone:
            return self.alone
        return self.trunk + self.names[part].format(**self.places[weights])

    def load(self, name: str, part: str, shape: Shape) -> np.ndarray:
        """A tensor that is not stored as it is; it counts as used."""
        where = f"{self.checkpoint.path}: "
        if name not in self.checkpoint:
            raise PhasorError(f"{where}missing: {name} ({part})")
        if self.checkpoint.shape(name) != shape:
            raise PhasorError(
                f"{where}misshapen: {name} ({part}) has shape {self.checkpoint.shape(name)}, "
                f"expected {shape}"
            )
        self.used[name] = f"read and made into the {part}, or compared with it"
        return self.checkpoint.load(name)

    # ---- the output

    def add_head(self) -> None:
        """The descriptor of the head's class."""
        # An ELECTRA's words come back to its embedding.
        words = self.head.output == D.LOGITS
        width = self.stack.get("embedding_width") if words else None
        self.output.update(
            heads.fields(
                self.head,
                self.config,
                width or self.stack["width"],
                self.stack.get("embedding_norm_eps", self.kind["norm_eps"]),
            )
        )
        if words:
            self._add_vocabulary()
        unused = heads.unused(self.head, self.checkpoint, self.trunk)
        self.used.update(unused)
        if unused:
            self.notes.append(f"{', '.join(unused)}: no use in this output")

    def _add_vocabulary(self) -> None:
        tied = self.config.flag("tie_word_embeddings", default=True) or not self.head.last
        embedding = self.name("embedding")
        last = self.head.last + ".weight" if self.head.last else embedding
        if tied:
            self._check_tied(embedding, last)
        biases = [name for name in self.head.biases if name in self.checkpoint]
        self.output.update(
            tied=D.TIED_SOURCE if tied else D.TIED_OWN, bias=int(bool(self.head.biases))
        )
        if not tied and len(biases) > 1 and (self.config.version or 0) >= NEWER:
            # transformers 5 adds the last, which is the matrix's own.
            self.used.update(dict.fromkeys(biases[:-1], f"its library adds {biases[-1]}"))
            self.head, biases = self.head._replace(biases=(biases[-1],)), biases[-1:]
        self.doubles += [(name, biases[0]) for name in biases[1:]]
        if tied and self.head.last:
            self.doubles.append((last, embedding))

    def _check_tied(self, embedding: str, last: str) -> None:
        """Of a tied matrix a file may have either name alone; an adapter may not part the two."""
        if self.checkpoint.alone(embedding, last):
            raise self.checkpoint.parts_tied(embedding, last)
        if embedding not in self.checkpoint and last in self.checkpoint:
            self.alone = last

    # ---- the model

    def descriptor(self, name: str) -> dict:
        self.stack["layers"] = [n for pair in self.layers for n in pair]
        if self.head.longest_text:
            self.side["longest_text"] = self.head.longest_text
        return described(
            D.ENCODER,
            {"name": name},
            source=self.side,
            encoder=self.stack,
            kinds=self.kinds,
            output=self.output,
        )

    def relative_tables(self, d: dict) -> None:
        """transformers' tables, by i − j, a distance a row: here by j − i, the distances side by
        side."""
        for kind, weights in dict((w, (k, w)) for k, w in self.layers).values():
            key = R.key_of(R.ENCODER, weights, R.RELATIVE_KEYS)
            if d["kinds"][kind]["position"] in D.BOUNDED and key not in self.values:
                shape = (2 * d["kinds"][kind]["max_distance"] - 1, d["kinds"][kind]["head_width"])
                table = self.load(self.name("relative_keys", weights), "relative keys", shape)
                self.values[key] = np.ascontiguousarray(table[::-1].T * self.relative_factor)

    def parts(self, slot: R.Slot, d: dict) -> list[Part]:
        """Where the values of a slot come from."""
        if slot.stack == R.SOURCE:
            return self.input_parts(slot)
        if slot.stack == R.OUTPUT:
            return self.output_parts(slot)
        bias, role, shape = bool(slot.role & 1), slot.role & ~1, shape_of(slot)
        weights = 0 if slot.set == R.FINAL else slot.set
        if role == R.QKV:
            wanted = ["qkv"] if "qkv" in self.names else ["q", "k", "v"]
        elif role == R.FFN_IN and self.names.get("ffn_gate") not in (None, self.names["ffn_in"]):
            wanted = ["ffn_gate", "ffn_in"]
        else:
            wanted = [ROLES[role]]
        if role == R.FINAL_NORM and self.lacks_bias(bias):
            return [Part(None, shape)]
        if len(wanted) == 1:  # of a fused tensor too: gate first
            return [self.part(wanted[0], weights, bias, shape)]
        return [
            self.part(part, weights, bias, (rows, *shape[1:]))
            for part, rows in zip(wanted, slot.parts)
        ]

    def lacks_bias(self, bias: bool) -> bool:
        """Whether this is the bias of a norm that the format gives one, and the family does not."""
        return bias and not self.kind.get("norm_biases", 1)

    def part(self, part: str, weights: int, bias: bool, shape: Shape) -> Part:
        name = self.name(part, weights)
        return Part(bias_name(name) if bias else name, shape)

    def input_parts(self, slot: R.Slot) -> list[Part]:
        if slot.role == R.POSITIONS:
            rows = self.position_rows
            return [Part(self.name("positions"), (rows.start + slot.rows, slot.cols), rows)]
        part, bias = INPUTS[slot.role]
        if part == "embedding_norm" and self.lacks_bias(bias):
            return [Part(None, shape_of(slot))]
        return [self.part(part, 0, bias, shape_of(slot))]

    def output_parts(self, slot: R.Slot) -> list[Part]:
        if self.lacks_bias(slot.role == R.HEAD_NORM + 1):
            return [Part(None, shape_of(slot))]
        return heads.parts(self.head, slot, self.checkpoint)

    def build(self, name: str) -> Model:
        if self.family.adapt is not None:
            self.family.adapt(self)
        self.add_head()
        self.config.finish(self.family.harmless)
        d = self.descriptor(name)
        D.check(d)
        self.relative_tables(d)
        model = Model(
            d,
            self.checkpoint,
            values=self.values,
            used=self.used,
            ignore=self.ignore,
            notes=self.notes,
        )
        for double in self.doubles:
            model.must_be_same(*double, "with which it is tied")
        return model.fill(lambda slot: self.parts(slot, d))


def float32_frequencies(width: int, base: float) -> np.ndarray:
    """1 / base^(2i/w) as PyTorch's models compute it, in float32: width/2 values, as float64."""
    power = np.arange(0, width, 2).astype(np.float32) / np.float32(width)
    return (np.float32(1) / float32_powers(base, power)).astype(np.float64)
