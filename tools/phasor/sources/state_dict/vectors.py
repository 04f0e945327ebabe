"""A described model that reads vectors in place of ids, or puts a class token before a sequence.

The format has an embedding in either case. Of a model that reads vectors its rows are those that
stand around a sequence, and the vectors of the tests. A class token is no vector, so that it gets a
value of its own behind those of one: the projection's column for it makes the token.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.sources.state_dict.positions import Positions

_SAMPLES = 64  # rows for test vectors
_EMBEDDING = R.key_of(R.SOURCE, 0, R.EMBEDDING)
_PROJECTION = R.key_of(R.SOURCE, 0, R.PROJECTION)
_CLASS = "source.class_token"


def _samples(count: int) -> np.ndarray:
    """(count) numbers of deviation 1, the same with every version of every library (SplitMix64:
    Steele et al. 2014)."""
    n = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    n = (n ^ n >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    n = (n ^ n >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    share = (n ^ n >> np.uint64(31)) >> np.uint64(40)
    return ((share / 2.0**23 - 1) * math.sqrt(3)).astype(np.float32)


class Vectors(Positions):
    @property
    def reads_vectors(self) -> bool:
        result: bool = self.description.model["input"] == "vectors"
        return result

    def vector_side(self) -> dict[str, Any]:
        """The source's fields beside its ids."""
        if self.description.sides["source"]["tokenizer"]:
            raise PhasorError("source.tokenizer: a model that reads vectors reads no text")
        first = int(_CLASS in self.names)
        out = {"vocabulary": first + _SAMPLES, "vectors": self.vector_sizes()[0]}
        return {**out, "prefix": [0]} if first else out

    def vector_sizes(self) -> tuple[int, int, int]:
        """Values of a vector, of a row of the embedding, and of the stack."""
        width = self.description.stacks["encoder"]["width"]
        if "source.projection" not in self.names:
            width = width or self.rows("encoder.ffn_in", 1)
            return width, width, width
        inputs, width = self.rows("source.projection", 1), width or self.rows("source.projection")
        row = inputs + (_CLASS in self.names)
        return inputs, row + (row == width), width  # as wide as the stack it were no projection

    def vector_stack(self) -> dict[str, Any]:
        """The fields of the encoder's input."""
        _, row, width = self.vector_sizes()
        out = {"width": width}
        if "source.projection" in self.names:
            bias = int(self.has_bias("source.projection", 1))
            out.update(embedding_width=row, projection_place=1, projection_bias=bias)
        return out

    def whole(self, part: str) -> np.ndarray:
        """A matrix as [names] has it, in float64."""
        said, turned = self.said(part), self.turned(part)
        pieces = [self.load(name).astype(np.float64) for name in self.tensors(part)]
        value = np.concatenate([piece.T if turned else piece for piece in pieces])
        return value * said.factor + said.offset

    def class_row(self, width: int) -> np.ndarray:
        value = self.load(name := self.need(_CLASS)).astype(np.float64).ravel()
        if value.size != width:
            raise self.misshapen(_CLASS, name, f"{value.size} values, expected {width}")
        return value

    def vectors(self, d: dict[str, Any]) -> None:
        """The rows of the embedding, and the projection, of a model that reads vectors; else a row
        for a class token."""
        if self.reads_vectors:
            self.read_vectors(d)
        elif _CLASS in self.names:
            self.add_class(d)

    def read_vectors(self, d: dict[str, Any]) -> None:
        stack, (inputs, row, width) = d["encoder"], self.vector_sizes()
        first = int(_CLASS in self.names)
        table = np.zeros((first + _SAMPLES, row), np.float32)
        table[first:, :inputs] = _samples(_SAMPLES * inputs).reshape(_SAMPLES, inputs)
        scale, token = stack["embedding_scale"], self.class_row(width) if first else None
        if "source.projection" in self.names:
            matrix, bias = np.zeros((width, row)), np.zeros(width)
            matrix[:, :inputs] = self.whole("source.projection") * scale
            if stack["projection_bias"]:
                (name,) = self.bias("source.projection")
                bias = self.load(name).astype(np.float64) * scale
                self.values[_PROJECTION + 1] = bias.astype(np.float32)
            if first:
                table[0, inputs] = 1
                matrix[:, inputs] = token - bias.astype(np.float32)
            self.values[_PROJECTION] = matrix.astype(np.float32)
            stack["embedding_scale"] = 1.0
        elif first:
            table[0] = token / scale
        self.values[_EMBEDDING] = table

    def add_class(self, d: dict[str, Any]) -> None:
        side, stack, output = d["source"], d["encoder"], d["output"]
        if output["output"] == D.LOGITS and output.get("tied") != D.TIED_OWN:
            raise PhasorError(f"{_CLASS}: the output's matrix is the embedding, without such a row")
        if d.get("target", {}).get("embedding_shared"):
            raise PhasorError(f"{_CLASS}: the target shares the embedding, without such a row")
        if "source.projection" in self.names:
            raise PhasorError(f'{_CLASS}: beside a projection only with input = "vectors"')
        rows = self.whole("source.embedding")
        row = self.class_row(stack["width"]) / stack["embedding_scale"]
        self.inside = (side["vocabulary"],)
        side["prefix"] = [*self.inside, *side.get("prefix", ())]
        side["vocabulary"] += 1
        self.values[_EMBEDDING] = np.concatenate([rows, row[None]]).astype(np.float32)
