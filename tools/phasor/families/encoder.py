"""Encoders of Hugging Face directories: a family's table, a config.json and the weights become a
`Model`. Beside the parts of a stack (family.py) a table may name

    relative_keys t5_bias                                          tables of positions
    {group} {inner}                                                numbers of ALBERT's layers

and the names of what follows the stack are its head's (`Head`).
"""

from __future__ import annotations

import numpy as np

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError
from phasor.families import heads
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import NEWER, Config
from phasor.families.model import BUFFER, Model, Part, shape_of, single
from phasor.families.positioned import Positioned
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import float32_powers

_BUFFERS = ["*position_ids", "*token_type_ids"]  # that PyTorch's older versions saved


class Encoder(Positioned):
    """Collects a model's descriptor and the places of its tensors; `adapt` changes what a family
    has of its own. role: R.DECODER where its blocks look at what another stack gives."""

    def __init__(
        self,
        family: Family,
        config: Config,
        checkpoint: Checkpoint,
        head: Head,
        role: int = R.ENCODER,
    ) -> None:
        super().__init__(role, config, family.names, checkpoint, family.trunk)
        self.family, self.head, self.crossing = family, head, role == R.DECODER
        patterns = (*_BUFFERS, *(self.trunk + pattern for pattern in family.unused))
        self.ignore = dict.fromkeys(patterns, BUFFER)
        self.relative_factor = 1.0
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
        self.blocks(self.size("num_hidden_layers", high=D.MAX_LAYERS))
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
            "attention_biases": D.ATTENTION_BIASES,
            "hidden": self.size("intermediate_size"),
            "activation": config.choice(self.field("hidden_act"), family.activations),
            "ffn_biases": D.FFN_BIASES,
        }

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
                f"{rows} rows, expected more than the {count} before position 0",
            )
        self.position_rows = count
        self.stack["max_positions"] = rows - count

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
            tied=self._own_tie() if tied else D.TIED_OWN, bias=int(bool(self.head.biases))
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

    def _own_tie(self) -> int:
        return D.TIED_SOURCE if self.role == R.ENCODER else D.TIED_TARGET

    # ---- the model

    def relative_tables(self) -> None:
        """transformers' tables, by i − j, a distance a row: here by j − i, the distances side by
        side."""
        for own, weights in zip(self.per_layer, self.sets):
            kind, key = {**self.kind, **own}, R.key_of(self.role, weights, R.RELATIVE_KEYS)
            if kind.get("position") in D.BOUNDED and key not in self.values:
                shape = (2 * kind["max_distance"] - 1, kind["head_width"])
                table = self.load(self.name("relative_keys", weights), "relative keys", shape)
                self.values[key] = np.ascontiguousarray(table[::-1].T * self.relative_factor)

    def parts(self, slot: R.Slot) -> list[Part]:
        if slot.stack != R.OUTPUT:
            return super().parts(slot)
        if slot.role == R.HEAD_NORM + 1 and "head_norm" in self.bias_free:
            return [Part(None, shape_of(slot))]
        return heads.parts(self.head, slot, self.checkpoint)

    def build(self, name: str) -> Model:
        self.complete()
        return self.model(name)

    def complete(self, first: int = 0) -> None:
        """All of the stack; first: so many kinds are another stack's."""
        self.family.adapt(self)
        self.add_head()
        self.config.finish(self.family.harmless, self.family.neutral)
        self.finish(first)
        self.relative_tables()
        if self.head.longest_text:
            self.side["longest_text"] = self.head.longest_text


def float32_frequencies(width: int, base: float) -> np.ndarray:
    """1 / base^(2i/w) as PyTorch's models compute it, in float32: width/2 values, as float64."""
    power = np.arange(0, width, 2).astype(np.float32) / np.float32(width)
    return (np.float32(1) / float32_powers(base, power)).astype(np.float64)
