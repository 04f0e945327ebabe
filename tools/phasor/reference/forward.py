"""The forward pass of any descriptor in float64, from the papers (Vaswani et al. 2017 and those
named below). numpy only.

It reads a `.phasor` file and computes with the weights as they are stored. For
quantized layers it also rounds the activations as the engine does (rules 1.3, 1.18 and 1.19),
unless told otherwise; so what differs from the engine is arithmetic.

    reference.py MODEL --source-ids 1,2,3 --target-ids 2,5    the best token and the largest logits
                                                              at each position
    reference.py MODEL --source-ids 1,2,3 [--segments 0,0,1]  an encoder: the largest values of each
    output row
    reference.py MODEL --source-ids 1,2,3 --greedy 20         the plain loop: the whole prefix again
                                                              at each step

Letters: S source positions, T positions of the rows at hand, D width, H heads, w head width, V
vocabulary.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Generator, Sequence

import numpy as np

from phasor.arguments import Parser
from phasor.entry import front_door
from phasor.errors import PhasorError, named
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference.attention import Attention, there
from phasor.reference.functions import ACTIVATIONS, CACHES, Array, learned, sinusoid, xielu


def _nothing() -> Array:
    return np.zeros((0, 0))


@dataclass
class Trace:
    """What a stack computed for T positions."""

    # (T, D) with positions, before the first block
    embedding: Array = field(default_factory=_nothing)
    residuals: list[Array] = field(default_factory=list)  # (T, D) after each block
    # (T, D) after the final norm, where there is one
    output: Array = field(default_factory=_nothing)
    logits: Array | None = None  # (T, V), of a decoder


_STACKS = {"encoder": R.ENCODER, "decoder": R.DECODER}
# A run of a stack that pauses before each layer and before what follows the last one.
Run = Generator[None, None, Trace]


def _end_of(run: Run) -> Trace:
    while True:
        try:
            next(run)
        except StopIteration as end:
            result: Trace = end.value
            return result


class Reference(Attention):
    """The model of one file. dtype float32 is for measuring how far rounding moves a result;
    everything else is float64.

    cache: the type that a decoder's keys and values are rounded to before their first use, one of
    CACHES; cross-attention's too.
    """

    per_layer: Array  # (T, L·P) of the decoder's run, where it has them

    def activation(
        self, kind: dict[str, Any], stack: int, weights: int
    ) -> Callable[[Array], Array]:
        """That of a layer's feed-forward."""
        if kind["activation"] == D.XIELU:
            numbers = self.need(stack, weights, R.XIELU)
            return lambda x: xielu(x, *numbers)
        result: Callable[[Array], Array] = ACTIVATIONS[kind["activation"]]
        return result

    def feed_forward(self, h: Array, kind: dict[str, Any], stack: int, weights: int) -> Array:
        """Section 3.3, or the gated form of Shazeer 2020."""
        h = self.linear(h, stack, weights, R.FFN_IN)
        activation = self.activation(kind, stack, weights)
        if kind["gated"]:
            gate, up = np.split(h, 2, axis=1)
            h = activation(gate) * up
        else:
            h = activation(h)
        h = self.norm(h, kind["norm"], kind["norm_eps"], stack, weights, R.FFN_INNER)
        return self.linear(h, stack, weights, R.FFN_OUT)

    def block(self, x: Array, memory: Array | None, index: int, stack: int, weights: int) -> Array:
        """x (T, D) -> (T, D). Norm before: x + f(norm(x)); after: norm(x + f(x)); both: x +
        norm(f(norm(x))); of the sub-layer: x + norm(f(x)).

        A parallel block is x + attention(norm(x)) + feed_forward(norm(x)), with one norm or two.
        """
        kind = self.d["kinds"][index]

        def norm(value: Array, role: int) -> Array:
            return self.norm(value, kind["norm"], kind["norm_eps"], stack, weights, role)

        def add(x: Array, given: Array, after: int) -> Array:
            given = given * self.dtype.type(kind["residual_scale"])
            if kind["norm_place"] in (D.BOTH, D.SUBLAYER):
                result: Array = x + norm(given, after)
                return result
            return norm(x + given, after)

        before = norm(x, R.ATTENTION_BEFORE)
        attended = self.self_attention(before, kind, index, stack, weights, memory)
        if kind["parallel"]:
            other = before if kind["parallel"] == D.SHARED_INPUT else norm(x, R.FFN_BEFORE)
            given = attended + self.feed_forward(other, kind, stack, weights)
            return self._end(add(x, given, R.ATTENTION_AFTER), add, kind, stack, weights)
        x = add(x, attended, R.ATTENTION_AFTER)
        if kind["cross"] == D.OWN_CROSS:
            x = add(
                x,
                self.cross_attention(norm(x, R.CROSS_BEFORE), there(memory), kind, weights),
                R.CROSS_AFTER,
            )
        x = add(x, self.feed_forward(norm(x, R.FFN_BEFORE), kind, stack, weights), R.FFN_AFTER)
        return self._end(x, add, kind, stack, weights)

    def _end(
        self, x: Array, add: Callable[..., Array], kind: dict[str, Any], stack: int, weights: int
    ) -> Array:
        """Behind the feed-forward: the layer's part of the per-layer embeddings, behind a gate,
        and the layer's scale (rule 1.26)."""
        if stack == R.DECODER and self.d["decoder"]["per_layer_width"]:
            width = self.d["decoder"]["per_layer_width"]
            own = self.per_layer[:, self.layer * width : (self.layer + 1) * width]
            gate = self.product(x, stack, weights, R.PER_LAYER_GATE)
            h = self.activation(kind, stack, weights)(gate) * own
            x = add(x, self.product(h, stack, weights, R.PER_LAYER_OUT), R.PER_LAYER_AFTER)
        return x * self.need(stack, weights, R.LAYER_SCALE) if kind["layer_scale"] else x

    def _per_layer(self, x: Array, ids: Array) -> Array:
        """The per-layer embeddings (T, L·P) of ids, whose embeddings are x (T, D)."""
        s = self.d["decoder"]
        width, eps = s["per_layer_width"], s["per_layer_norm_eps"]
        y = self.product(x, R.TARGET, 0, R.PER_LAYER_PROJECTION).reshape(len(x), -1, width)
        y = self.norm(y, s["per_layer_norm"], eps, R.TARGET, 0, R.PER_LAYER_NORM)
        rows = self.rows_at(R.TARGET, 0, R.PER_LAYER, ids) * self.dtype.type(s["per_layer_scale"])
        result: Array = y.reshape(len(x), -1) + rows
        return result

    # ---- the whole

    def embed(
        self, ids: Array, name: str, stack: int, segments: Sequence[int] | None = None
    ) -> Array:
        """Section 3.4: projection(norm(embedding × scale + segment + position)), or the projection
        first. ids and segments (T) -> (T, D)."""
        places = np.arange(ids.size)
        lengths = [len(places[span]) for span in self.spans[_STACKS[name]]]
        s, side = self.d[name], self.d["source" if name == "encoder" else "target"]
        if ids.size == 0 or ids.min() < 0 or ids.max() >= side["vocabulary"]:
            raise PhasorError(f"ids: expected at least one, all from 0 to {side['vocabulary'] - 1}")
        most = D.longest(self.d, name)
        if most and max(lengths) > most:
            raise PhasorError(f"{max(lengths)} ids, the model allows {most} positions")
        types = np.zeros(ids.size, np.int64) if segments is None else np.asarray(segments, np.int64)
        if types.shape != ids.shape or types.min() < 0 or types.max() >= max(s["segments"], 1):
            raise PhasorError(
                f"segments: expected {ids.size} values from 0 to {max(s['segments'], 1) - 1}"
            )
        whose = R.SOURCE if side["embedding_shared"] else stack
        x = self.rows_at(whose, 0, R.EMBEDDING, ids)
        if side["own_row"]:
            x[ids == side["own_row"] - 1] = self.need(stack, 0, R.OWN_ROW)
        x = x * self.dtype.type(s["embedding_scale"])
        projected = s["embedding_width"] != s["width"]
        if projected and s["projection_place"]:
            x = self.linear(x, stack, 0, R.PROJECTION)
        how = s["embedding_norm"], s["embedding_norm_eps"], stack, 0, R.EMBEDDING_NORM
        if s["embedding_norm_place"]:
            x = self.norm(x, *how)
        if s["segments"]:
            x = x + self.need(stack, 0, R.SEGMENTS)[types]
        if s["position"] == D.LEARNED:
            table = self.need(stack, 0, R.POSITIONS)
            x = x + np.concatenate([learned(table, np.arange(length)) for length in lengths])
        elif s["position"]:
            table = self.need(stack, 0, R.SINUSOID)
            rows = [sinusoid(table, np.arange(length), s["position"]) for length in lengths]
            x = x + np.concatenate(rows).astype(self.dtype)
        if not s["embedding_norm_place"]:
            x = self.norm(x, *how)
        return (
            self.linear(x, stack, 0, R.PROJECTION) if projected and not s["projection_place"] else x
        )

    def _run(
        self,
        ids: Sequence[int],
        memory: Array | None,
        name: str,
        inputs: int,
        stack: int,
        segments: Sequence[int] | None = None,
    ) -> Run:
        s, trace = self.d[name], Trace()
        x = trace.embedding = self.embed(np.asarray(ids, dtype=np.int64), name, inputs, segments)
        if stack == R.DECODER and s["per_layer_width"]:
            self.per_layer = self._per_layer(x, np.asarray(ids, dtype=np.int64))
        for self.layer, (index, weights) in enumerate(D.layers_of(s)):
            yield
            x = self.block(x, memory, index, stack, weights)
            trace.residuals.append(x)
        yield
        trace.output = self.norm(
            x, s["final_norm"], s["final_norm_eps"], stack, R.FINAL, R.FINAL_NORM
        )
        return trace

    def encode(
        self, ids: Sequence[int], segments: Sequence[int] | None = None, seen: int = 0
    ) -> Trace:
        """The encoder over S source ids, with their token types. seen: the first ids that all
        attend to, 0 = all."""
        self.seen = seen
        try:
            return _end_of(self.encoding(ids, segments))
        finally:
            self.seen = 0

    def encoding(
        self,
        ids: Sequence[int],
        segments: Sequence[int] | None = None,
        spans: Sequence[slice] = (slice(None),),
    ) -> Run:
        """encode() layer by layer, of the ids of one sequence or of several (spans)."""
        if "encoder" not in self.d:
            raise PhasorError("this model is a decoder: there is nothing to encode")
        self.spans[R.ENCODER] = spans
        return (yield from self._run(ids, None, "encoder", R.SOURCE, R.ENCODER, segments))

    def pool(self, hidden: Array, pooling: int) -> Array:
        """(S, D) -> (S, D) without pooling, else one row (1, D)."""
        if pooling == D.MAX:
            result: Array = hidden.max(axis=0, keepdims=True)
            return result
        if pooling == D.MEAN:
            result = hidden.mean(axis=0, keepdims=True)
            return result
        return hidden[:1] if pooling == D.FIRST else hidden[-1:] if pooling == D.LAST else hidden

    def output(self, trace: Trace) -> Array:
        """What the model gives for a trace: (T, V) of a decoder; of an encoder its output rows (R,
        W) as docs/reference/file-format.md has them. Classes are not made scores."""
        o = self.d["output"]
        if "decoder" in self.d:
            return there(trace.logits)
        pooled = [self.pool(trace.output[span], o["pooling"]) for span in self.spans[R.ENCODER]]
        y = self.head(np.concatenate(pooled))
        if o["output"] in (D.LOGITS, D.CLASSES):
            return self.scores(y)
        return (
            y / np.maximum(np.sqrt((y * y).sum(axis=1, keepdims=True)), 1e-12)
            if o["normalize"]
            else y
        )

    def head(self, y: Array) -> Array:
        """norm(activation(dense(y))), each step where the output has it."""
        o = self.d["output"]
        if o["head_width"]:
            y = self.linear(y, R.OUTPUT, 0, R.HEAD)
        if o["head_activation"]:
            y = ACTIVATIONS[o["head_activation"]](y)
        if o["head_norm"]:
            y = self.norm(y, o["head_norm"], o["head_norm_eps"], R.OUTPUT, 0, R.HEAD_NORM)
        return y

    def decode(
        self,
        ids: Sequence[int],
        memory: Array | None = None,
        segments: Sequence[int] | None = None,
    ) -> Trace:
        """The decoder over T target ids, causal, with their token types; memory (S, D) is the
        encoder's output."""
        return _end_of(self.decoding(ids, memory, segments))

    def decoding(
        self,
        ids: Sequence[int],
        memory: Array | None = None,
        segments: Sequence[int] | None = None,
        spans: Sequence[slice] = (slice(None),),
    ) -> Run:
        """decode() layer by layer, of the ids of one sequence or of several (spans)."""
        if "decoder" not in self.d:
            raise PhasorError("this model is an encoder: it has no decoder")
        if (memory is None) != (self.d["model"]["stack"] == D.DECODER):
            raise PhasorError("an encoder-decoder needs a source, a decoder has none")
        self.spans[R.DECODER] = spans
        trace = yield from self._run(ids, memory, "decoder", R.TARGET, R.DECODER, segments)
        if self.d["output"]["output"] in (D.LOGITS, D.CLASSES):
            trace.logits = self.scores(self.head(trace.output))
        return trace

    def scores(self, y: Array) -> Array:
        """Rows behind the head (T, D) -> logits (T, V), or classes (T, C) before they are
        scores."""
        if self.d["output"]["output"] == D.CLASSES:
            return self._capped(self.linear(y, R.OUTPUT, 0, R.CLASSIFIER))
        return self.logits(y)

    def logits(self, y: Array) -> Array:
        """y (T, D) -> (T, V)."""
        o = self.d["output"]
        if o["tied"] == D.TIED_OWN:
            logits = self.linear(y, R.OUTPUT, 0, R.OUTPUT_WEIGHT)
        else:
            shared = (
                o["tied"] == D.TIED_SOURCE
                or "target" not in self.d
                or self.d["target"]["embedding_shared"]
            )
            logits = self.product(y, R.SOURCE if shared else R.TARGET, 0, R.EMBEDDING)
            bias = self.tensor(R.OUTPUT, 0, R.OUTPUT_WEIGHT + 1)
            logits = logits if bias is None else logits + bias
        return self._capped(logits)

    def _capped(self, logits: Array) -> Array:
        o = self.d["output"]
        if o["scale"] != 1:
            logits = logits * self.dtype.type(o["scale"])
        return o["cap"] * np.tanh(logits / self.dtype.type(o["cap"])) if o["cap"] else logits

    def greedy(
        self,
        source: Sequence[int] | None,
        most: int,
        prefix: Sequence[int] = (),
        exclude: Sequence[int] = (),
    ) -> list[int]:
        """The tutorial's loop: the whole prefix again at each step; ties to the lowest id. At most
        `most` new ids, an end id last.

        exclude: ids that are never chosen. An encoder-decoder begins with its start token, which is
        not returned.
        """
        target = self.d["target"]
        memory = self.encode(source).output if source is not None else None
        start = start_token(target)
        if not prefix and start is None:
            raise PhasorError("an empty prompt, and the model has no start token")
        ids = [*prefix] if prefix or start is None else [start]
        made: list[int] = []
        limit = D.longest(self.d, "decoder") or sys.maxsize
        while len(made) < most and len(ids) <= limit:
            row = self.output(self.decode(ids, memory))[-1].copy()
            row[list(exclude)] = -np.inf
            best = int(np.argmax(row))
            if not made and not prefix and target["forced_first"] is not None:
                best = target["forced_first"]
            made.append(best)
            ids.append(best)
            if best in target["end"]:
                break
        return made


def start_token(target: dict[str, Any]) -> int | None:
    """What a decoder reads before its first token."""
    own = target["decoder_start"]
    result: int | None = target["start"] if own is None else own
    return result


# ---- Command line


def parse_ids(text: str) -> list[int]:
    """ "1,2,3" as numbers."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected ids such as 1,2,3") from error


@front_door("reference")
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description="Runs the float64 forward pass of a .phasor file.")
    parser.add_argument("model")
    parser.add_argument("--source-ids", type=parse_ids)
    parser.add_argument(
        "--target-ids",
        type=parse_ids,
        default=[],
        help="Input of the decoder. Empty: its start token.",
    )
    parser.add_argument("--segments", type=parse_ids, help="Segment of each source id. Default: 0.")
    parser.add_argument("--greedy", type=int, metavar="N", help="Generate at most N new tokens.")
    parser.add_argument("--exclude", type=parse_ids, default=[], help="Never choose these ids.")
    parser.add_argument(
        "--cache",
        choices=CACHES,
        default="f32",
        help="Type of the KV cache. Default: f32.",
    )
    parser.add_argument(
        "--exact", action="store_true", help="Do not round the activations of quantized layers."
    )
    args = parser.parse_args(argv)
    try:
        return _answer(args)
    except PhasorError as error:
        raise named(args.model, error) from error


def _answer(args: argparse.Namespace) -> int:
    """What the model computes for the ids, printed."""
    model = Reference(PhasorFile(args.model), emulate=not args.exact, cache=args.cache)
    if args.greedy is not None:
        print(
            ",".join(
                map(str, model.greedy(args.source_ids, args.greedy, args.target_ids, args.exclude))
            )
        )
        return 0
    memory = None
    if args.source_ids is not None:
        trace = model.encode(args.source_ids, args.segments)
        memory = trace.output
        print(
            f"encoder output: {memory.shape[0]} x {memory.shape[1]}, largest "
            f"{np.abs(memory).max():.6g}"
        )
    if "decoder" in model.d:
        trace = model.decode(args.target_ids or [start_token(model.d["target"])], memory)
    elif args.source_ids is None:
        raise PhasorError("an encoder needs --source-ids")
    for position, row in enumerate(model.output(trace)):
        best = np.argsort(-row, kind="stable")[:5]
        print(f"{position}: best {best[0]}; " + ", ".join(f"{i}: {row[i]:.6g}" for i in best))
    return 0


if __name__ == "__main__":
    sys.exit(main())
