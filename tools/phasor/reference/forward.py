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
import math
import sys
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, Sequence

import numpy as np

from phasor.entry import front_door
from phasor.errors import named
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format import layout as L
from phasor.format.layout import GROUP, PhasorError

Array = np.ndarray
_erf = np.frompyfunc(math.erf, 1, 1)
# A larger model is dequantized tensor by tensor each time: slower, and never whole in memory.
_KEPT_VALUES = 1 << 26
_SMALLEST_AMAX = 2.0**-80
_INVERSE_127 = float(np.float32(1) / np.float32(127))


@dataclass
class Trace:
    """What a stack computed for T positions."""

    embedding: Array = None  # (T, D) with positions, before the first block
    residuals: list[Array] = field(default_factory=list)  # (T, D) after each block
    output: Array = None  # (T, D) after the final norm, where there is one
    logits: Array = None  # (T, V), of a decoder


def round_activations(x: Array, kind: int = L.Q8) -> Array:
    """x (T, K) as the int8 path of a type sees it: groups of 32 along K, or of q8r whole rows, q·s
    with s = amax/127 and q rounded half to even. Of q8rh the rotated rows are rounded, and rotated
    back here."""
    if kind == L.Q8RH:
        return L.rotate_weights(round_activations(L.rotate_inputs(x), L.Q8R))
    rows, cols = x.shape
    size = cols if kind == L.Q8R else GROUP
    groups = -(-cols // size)
    padded = np.zeros((rows, groups * size), dtype=x.dtype)
    padded[:, :cols] = x
    grouped = padded.reshape(rows, groups, size)
    amax = np.abs(grouped).max(axis=2, keepdims=True)
    live = amax >= _SMALLEST_AMAX
    inverse = np.divide(x.dtype.type(127), amax, where=live, out=np.zeros_like(amax))
    q = np.clip(np.rint(grouped * inverse), -127, 127)
    scale = np.where(live, amax * x.dtype.type(_INVERSE_127), 0)
    return (q * scale).reshape(rows, groups * size)[:, :cols]


def _cache_q8(x: Array) -> Array:
    """x (S, KV, w) in a cache of q8: groups of 32 along the head's width, within a position and a
    head."""
    return round_activations(x.reshape(-1, x.shape[-1])).reshape(x.shape)


CACHES: dict[str, Callable[[Array], Array]] = {
    "f32": lambda x: x,
    "f16": lambda x: x.astype(np.float16).astype(x.dtype),
    "q8": _cache_q8,
}


def layer_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> Array:
    """Ba et al. 2016, over the last axis."""
    centered = x - x.mean(axis=-1, keepdims=True)
    return rms_norm(centered, weight, bias, eps)


def rms_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> Array:
    """Zhang and Sennrich 2019, over the last axis."""
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(eps)) * weight
    return y if bias is None else y + bias


NORMS = {D.LAYER_NORM: layer_norm, D.RMS_NORM: rms_norm}


def softmax(scores: Array) -> Array:
    """Over the last axis; −inf is an absent key, and a row without keys gives zeros."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, where=total > 0, out=np.zeros_like(e))


def _gelu_erf(x: Array) -> Array:
    return x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype)) / 2


def _gelu_tanh(x: Array) -> Array:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-np.clip(x, -700 if x.dtype == np.float64 else -80, None)))


def _xielu(x: Array, above: float, below: float, beta: float, eps: float) -> Array:
    """Huang and Schlag 2024."""
    bent = np.expm1(np.minimum(x, eps)) - x
    return np.where(x > 0, above * x * x, below * bent) + beta * x


ACTIVATIONS: dict[int, Callable[[Array], Array]] = {
    D.RELU: lambda x: np.maximum(x, 0),
    D.GELU_ERF: _gelu_erf,
    D.GELU_TANH: _gelu_tanh,
    D.SILU: _silu,
    D.TANH: np.tanh,
    D.RELU2: lambda x: np.maximum(x, 0) ** 2,
}


def check_positions(positions: Array, rows: int = 0) -> Array:
    """positions (T) as they are, or PhasorError in one line. They count the tokens one by one, from
    0 for a whole sequence; token ids do not.

    rows: of a table that the positions are looked up in; 0 = no table.
    """
    positions = np.asarray(positions)
    if positions.ndim != 1 or (positions.size and positions.dtype.kind not in "iu"):
        raise PhasorError(
            f"positions: expected whole numbers in one row, got {positions.dtype} of shape "
            f"{positions.shape}"
        )
    wrong = np.flatnonzero(positions[1:] != positions[:-1] + 1)
    if wrong.size:
        before, after = positions[wrong[0] : wrong[0] + 2]
        raise PhasorError(
            f"positions: {after} follows {before}; positions count the tokens one by one, they are "
            "not token ids"
        )
    if positions.size and positions[0] < 0:
        raise PhasorError(f"positions: {positions[0]} is negative")
    if positions.size and 0 < rows <= positions[-1]:
        raise PhasorError(f"positions: {positions[-1]} is past the table of {rows} positions")
    return positions


def sinusoid(inv_freq: Array, positions: Array, layout: int) -> Array:
    """(T, D) for inv_freq (D/2) and positions (T): sin at even and cos at odd places, or sin in the
    first half and cos in the second."""
    angle = check_positions(positions)[:, None].astype(np.float64) * inv_freq
    if layout == D.HALVES:
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(positions), -1)


def learned(table: Array, positions: Array) -> Array:
    """(T, D): the rows of table (P, D) at positions (T)."""
    return table[check_positions(positions, len(table))]


def rotate(x: Array, inv_freq: Array, positions: Array, halves: bool, factor: float = 1.0) -> Array:
    """Su et al. 2021: x (T, H, w); the first 2·len(inv_freq) values of each head turn by
    position·inv_freq, as pairs or as halves."""
    width = 2 * len(inv_freq)
    angle = (check_positions(positions)[:, None].astype(np.float64) * inv_freq)[:, None, :]
    c, s = (np.cos(angle) * factor).astype(x.dtype), (np.sin(angle) * factor).astype(x.dtype)
    turned = x.copy()
    first, second = (
        (slice(0, width // 2), slice(width // 2, width))
        if halves
        else (slice(0, width, 2), slice(1, width, 2))
    )
    turned[..., first] = x[..., first] * c - x[..., second] * s
    turned[..., second] = x[..., second] * c + x[..., first] * s
    return turned


class Terms(NamedTuple):
    """What positions and an additive score bring to an attention of T queries over S keys; None
    where there is nothing."""

    keys: Array | None = None  # (T, S, w) relative keys
    values: Array | None = None  # (T, S, w) relative values
    bias: Array | None = None  # (H, T, S)
    additive: Array | None = None  # (H, w)
    key_query: bool = False  # k·a too
    three_way: bool = False  # (q ∘ k)·a in place of q·k
    # Tables a and b of each head, (H, w, E), and the entry of each pair, (T, S).
    disentangled: tuple[Array, Array, Array] | None = None


NO_TERMS = Terms()


class Reference:
    """The model of one file. dtype float32 is for measuring how far rounding moves a result;
    everything else is float64.

    cache: the type that a decoder's keys and values are rounded to before their first use, one of
    CACHES; cross-attention's too.
    """

    def __init__(
        self, file: PhasorFile, emulate: bool = True, dtype: type = np.float64, cache: str = "f32"
    ) -> None:
        self.file, self.emulate = file, emulate
        self.dtype, self.cached = np.dtype(dtype), CACHES[cache]
        self.d = file.descriptor
        self.seen = 0  # keys of an encoder that all see, 0: all of them
        self._weights: dict[int, Array] = {}
        self._keep = sum(e.rows * e.cols for e in file.entries.values()) <= _KEPT_VALUES

    # ---- tensors

    def tensor(self, stack: int, weights: int, role: int) -> Array | None:
        """A tensor as stored, or None when the model has none."""
        key = stack << 24 | weights << 8 | role
        if key not in self.file.entries:
            return None
        value = self._weights.get(key)
        if value is None:
            value = self.file.weights(key)
            if not (role == R.SINUSOID and stack in (R.SOURCE, R.TARGET)):
                value = value.astype(self.dtype, copy=False)
            if self._keep:
                self._weights[key] = value
        return value

    def scaled(self, x: Array, stack: int, weights: int, role: int) -> Array:
        """What a matrix reads of x: x itself, or times the block's input scale."""
        if stack not in (R.ENCODER, R.DECODER) or role not in R.INPUT_SCALES:
            return x
        scale = self.tensor(stack, weights, R.INPUT_SCALES[role])
        return x if scale is None else x * scale

    def linear(self, x: Array, stack: int, weights: int, role: int) -> Array:
        """x (T, K) · Wᵀ + b -> (T, N)."""
        x = self.scaled(x, stack, weights, role)
        y, bias = self.product(x, stack, weights, role), self.tensor(stack, weights, role + 1)
        return y if bias is None else y + bias

    def product(self, x: Array, stack: int, weights: int, role: int) -> Array:
        """x (T, K) · Wᵀ -> (T, N), x rounded where W is quantized."""
        key = stack << 24 | weights << 8 | role
        kind = self.file.entries[key].type
        if self.emulate and kind in L.QUANTIZED:
            x = round_activations(x, kind)
        return x @ self.tensor(stack, weights, role).T

    def norm(self, x: Array, kind: int, eps: float, stack: int, weights: int, role: int) -> Array:
        """The norm with these tensors; x itself where the model has none."""
        weight = self.tensor(stack, weights, role)
        if weight is None:
            return x
        return NORMS[kind](x, weight, self.tensor(stack, weights, role + 1), eps)

    # ---- parts of a block

    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        scale: float,
        cap: float,
        seen: Array | None,
        terms: Terms = NO_TERMS,
    ) -> Array:
        """Section 3.2.1. q (T, H, w), k and v (S, KV, w), seen (T, S) bool or None for all -> (T,
        H·w)."""
        group = q.shape[1] // k.shape[1]  # query heads that share a key head
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        if terms.additive is not None:  # Bahdanau et al. 2015: v·tanh(q + k)
            scores = np.einsum(
                "htsw,hw->hts",
                np.tanh(q.transpose(1, 0, 2)[:, :, None] + k.transpose(1, 0, 2)[:, None]),
                terms.additive,
            )
        elif terms.three_way:  # Huang et al. 2020, method 3
            scores = np.einsum("thw,shw,tsw->hts", q, k, terms.keys, optimize=True)
        else:
            scores = np.einsum("thw,shw->hts", q, k)
            if terms.keys is not None:  # Shaw et al. 2018, equation 4
                scores = scores + np.einsum("thw,tsw->hts", q, terms.keys)
            if terms.key_query:  # Huang et al. 2020, method 4
                scores = scores + np.einsum("shw,tsw->hts", k, terms.keys)
            if terms.disentangled is not None:  # He et al. 2021, equation 2
                a, b, entry = terms.disentangled
                rows, columns = np.indices(entry.shape)
                scores = scores + np.einsum("thw,hwe->hte", q, a)[:, rows, entry]
                scores = scores + np.einsum("shw,hwe->hse", k, b)[:, columns, entry]
        scores = scores * self.dtype.type(scale)
        if terms.bias is not None:
            scores = scores + terms.bias
        if cap:
            scores = cap * np.tanh(scores / self.dtype.type(cap))
        if seen is not None:
            scores = np.where(seen, scores, -np.inf)
        weights = softmax(scores)
        mixed = np.einsum("hts,shw->thw", weights, v)
        if terms.values is not None:  # Shaw et al. 2018, equation 3
            mixed = mixed + np.einsum("hts,tsw->thw", weights, terms.values)
        return mixed.reshape(q.shape[0], -1)

    def terms(self, kind: dict, index: int, stack: int, weights: int, count: int) -> Terms:
        """What positions add to the scores and the values of `count` queries and keys."""
        position, at = kind["position"], np.arange(count)
        distance = at[None, :] - at[:, None]  # key − query
        additive = self.tensor(stack, weights, R.SCORE)
        if additive is not None:
            additive = additive.reshape(kind["heads"], kind["head_width"])
        if position == D.ALIBI:  # Press et al. 2022
            return Terms(
                additive=additive,
                bias=-np.abs(distance).astype(self.dtype)
                * self.tensor(R.KINDS, index, R.ALIBI)[:, None, None],
            )
        if position not in (*D.RELATIVE_KEYS, D.T5_BIAS):
            return Terms(additive=additive)
        if position in D.BOUNDED and count > kind["max_distance"]:
            raise PhasorError(
                f"{count} positions, kind{index}'s table of distances ends at "
                f"{kind['max_distance']}"
            )
        entry = np.clip(distance, -D.reach(kind), D.reach(kind)) + D.reach(kind)
        if position == D.T5_BIAS:
            return Terms(additive=additive, bias=self.tensor(R.KINDS, index, R.T5_BIAS)[:, entry])
        values = self.tensor(stack, weights, R.RELATIVE_VALUES)
        if position == D.DISENTANGLED:
            a, b = (
                self.tensor(stack, weights, role).reshape(kind["heads"], kind["head_width"], -1)
                for role in (R.RELATIVE_KEYS, R.RELATIVE_QUERIES)
            )
            return Terms(disentangled=(a, b, entry))
        return Terms(
            keys=self.tensor(stack, weights, R.RELATIVE_KEYS).T[entry],
            values=None if values is None else values[entry],
            key_query=position == D.RELATIVE_KEY_QUERY,
            three_way=position == D.THREE_WAY,
        )

    def self_attention(self, h: Array, kind: dict, index: int, stack: int, weights: int) -> Array:
        heads, kv, w, count = kind["heads"], kind["kv_heads"], kind["head_width"], h.shape[0]
        fused = self.linear(h, stack, weights, R.QKV)
        if kind["separate_v"]:
            fused = np.concatenate([fused, self.linear(h, stack, weights, R.V)], axis=1)
        if kind["qkv_clip"]:
            most = self.dtype.type(kind["qkv_clip"])
            fused = np.clip(fused, -most, most)
        q, k, v = np.split(fused, [heads * w, (heads + kv) * w], axis=1)
        first = kind["qk_norm_place"] == D.NORM_FIRST
        if kind["qk_norm"] and first:
            q = self.qk_norm(q, kind, stack, weights, R.Q_NORM)
            k = self.qk_norm(k, kind, stack, weights, R.K_NORM)
        q, k, v = q.reshape(count, heads, w), k.reshape(count, kv, w), v.reshape(count, kv, w)
        at = np.arange(count)
        if kind["position"] in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            inv_freq = self.file.weights(R.KINDS << 24 | index << 8 | R.ROTARY)
            q, k = (
                rotate(x, inv_freq, at, kind["position"] == D.ROTARY_HALVES, kind["rotary_factor"])
                for x in (q, k)
            )
        if kind["qk_norm"] and not first:
            q, k = (
                self.qk_norm(x.reshape(count, -1), kind, stack, weights, role).reshape(x.shape)
                for x, role in ((q, R.Q_NORM), (k, R.K_NORM))
            )
        distance, seen = at[None, :] - at[:, None], None  # key − query
        if stack == R.DECODER:
            k, v = self.cached(k), self.cached(v)
        if stack == R.DECODER or kind["causal"]:
            seen = distance <= 0
            if kind["window"]:
                seen &= distance > -kind["window"]
        elif kind["window"]:
            seen = np.abs(distance) <= kind["window"] // 2
        if self.seen:
            seen = (at < self.seen)[None, :] & (True if seen is None else seen)
        terms = self.terms(kind, index, stack, weights, count)
        mixed = self.attention(q, k, v, kind["scale"], kind["cap"], seen, terms)
        return self.linear(mixed, stack, weights, R.ATTENTION_OUT)

    def qk_norm(self, x: Array, kind: dict, stack: int, weights: int, role: int) -> Array:
        """x (T, H·w), normalized head by head (the heads share their weights, or have each their
        own) or all heads at once."""
        if kind["qk_norm_over"] == D.ALL_HEADS:
            return self.norm(x, kind["qk_norm"], kind["norm_eps"], stack, weights, role)
        heads = x.reshape(len(x), -1, kind["head_width"])
        own = kind["qk_norm_over"] == D.OWN_HEAD
        shape = heads.shape[1:] if own else heads.shape[2:]
        weight, bias = self.tensor(stack, weights, role), self.tensor(stack, weights, role + 1)
        bias = None if bias is None else bias.reshape(shape)
        y = NORMS[kind["qk_norm"]](heads, weight.reshape(shape), bias, kind["norm_eps"])
        return y.reshape(x.shape)

    def cross_attention(self, h: Array, memory: Array, kind: dict, weights: int) -> Array:
        heads, kv, w = kind["cross_heads"], kind["cross_kv_heads"], kind["cross_head_width"]
        q = self.linear(h, R.DECODER, weights, R.CROSS_Q).reshape(-1, heads, w)
        k, v = np.split(self.linear(memory, R.DECODER, weights, R.CROSS_KV), 2, axis=1)
        additive = self.tensor(R.DECODER, weights, R.CROSS_SCORE)
        terms = Terms(additive=None if additive is None else additive.reshape(heads, w))
        k, v = (self.cached(x.reshape(-1, kv, w)) for x in (k, v))
        mixed = self.attention(q, k, v, kind["cross_scale"], kind["cap"], None, terms)
        return self.linear(mixed, R.DECODER, weights, R.CROSS_OUT)

    def feed_forward(self, h: Array, kind: dict, stack: int, weights: int) -> Array:
        """Section 3.3, or the gated form of Shazeer 2020."""
        h = self.linear(h, stack, weights, R.FFN_IN)
        if kind["activation"] == D.XIELU:
            numbers = self.tensor(stack, weights, R.XIELU)
            activation = lambda x: _xielu(x, *numbers)  # noqa: E731
        else:
            activation = ACTIVATIONS[kind["activation"]]
        if kind["gated"]:
            gate, up = np.split(h, 2, axis=1)
            h = activation(gate) * up
        else:
            h = activation(h)
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
                return x + norm(given, after)
            return norm(x + given, after)

        before = norm(x, R.ATTENTION_BEFORE)
        attended = self.self_attention(before, kind, index, stack, weights)
        if kind["parallel"]:
            other = before if kind["parallel"] == D.SHARED_INPUT else norm(x, R.FFN_BEFORE)
            return add(
                x, attended + self.feed_forward(other, kind, stack, weights), R.ATTENTION_AFTER
            )
        x = add(x, attended, R.ATTENTION_AFTER)
        if kind["cross"]:
            x = add(
                x,
                self.cross_attention(norm(x, R.CROSS_BEFORE), memory, kind, weights),
                R.CROSS_AFTER,
            )
        return add(x, self.feed_forward(norm(x, R.FFN_BEFORE), kind, stack, weights), R.FFN_AFTER)

    # ---- the whole

    def embed(
        self, ids: Array, name: str, stack: int, segments: Sequence[int] | None = None
    ) -> Array:
        """Section 3.4: projection(norm(embedding × scale + segment + position)), or the projection
        first. ids and segments (T) -> (T, D)."""
        s, side = self.d[name], self.d["source" if name == "encoder" else "target"]
        if ids.size == 0 or ids.min() < 0 or ids.max() >= side["vocabulary"]:
            raise PhasorError(f"ids: expected at least one, all from 0 to {side['vocabulary'] - 1}")
        most = D.longest(self.d, name)
        if most and ids.size > most:
            raise PhasorError(f"{ids.size} ids, the model allows {most} positions")
        types = np.zeros(ids.size, np.int64) if segments is None else np.asarray(segments, np.int64)
        if types.shape != ids.shape or types.min() < 0 or types.max() >= max(s["segments"], 1):
            raise PhasorError(
                f"segments: expected {ids.size} values from 0 to {max(s['segments'], 1) - 1}"
            )
        x = self.tensor(R.SOURCE if side["embedding_shared"] else stack, 0, R.EMBEDDING)[
            ids
        ] * self.dtype.type(s["embedding_scale"])
        projected = s["embedding_width"] != s["width"]
        if projected and s["projection_place"]:
            x = self.linear(x, stack, 0, R.PROJECTION)
        how = s["embedding_norm"], s["embedding_norm_eps"], stack, 0, R.EMBEDDING_NORM
        if s["embedding_norm_place"]:
            x = self.norm(x, *how)
        if s["segments"]:
            x = x + self.tensor(stack, 0, R.SEGMENTS)[types]
        if s["position"] == D.LEARNED:
            x = x + learned(self.tensor(stack, 0, R.POSITIONS), np.arange(ids.size))
        elif s["position"]:
            x = x + sinusoid(
                self.tensor(stack, 0, R.SINUSOID), np.arange(ids.size), s["position"]
            ).astype(self.dtype)
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
    ) -> Trace:
        s, trace = self.d[name], Trace()
        x = trace.embedding = self.embed(np.asarray(ids, dtype=np.int64), name, inputs, segments)
        for index, weights in D.layers_of(s):
            x = self.block(x, memory, index, stack, weights)
            trace.residuals.append(x)
        trace.output = self.norm(
            x, s["final_norm"], s["final_norm_eps"], stack, R.FINAL, R.FINAL_NORM
        )
        return trace

    def encode(
        self, ids: Sequence[int], segments: Sequence[int] | None = None, seen: int = 0
    ) -> Trace:
        """The encoder over S source ids, with their token types. seen: the first ids that all
        attend to, 0 = all."""
        if "encoder" not in self.d:
            raise PhasorError("this model is a decoder: there is nothing to encode")
        self.seen = seen
        try:
            return self._run(ids, None, "encoder", R.SOURCE, R.ENCODER, segments)
        finally:
            self.seen = 0

    def pool(self, hidden: Array, pooling: int) -> Array:
        """(S, D) -> (S, D) without pooling, else one row (1, D)."""
        if pooling == D.MEAN:
            return hidden.mean(axis=0, keepdims=True)
        return hidden[:1] if pooling == D.FIRST else hidden[-1:] if pooling == D.LAST else hidden

    def output(self, trace: Trace) -> Array:
        """What the model gives for a trace: (T, V) of a decoder; of an encoder its output rows (R,
        W) as docs/format.md has them. Classes are not made scores."""
        o = self.d["output"]
        if "decoder" in self.d:
            return trace.logits
        y = self.head(self.pool(trace.output, o["pooling"]))
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
        if "decoder" not in self.d:
            raise PhasorError("this model is an encoder: it has no decoder")
        if (memory is None) != (self.d["model"]["stack"] == D.DECODER):
            raise PhasorError("an encoder-decoder needs a source, a decoder has none")
        trace = self._run(ids, memory, "decoder", R.TARGET, R.DECODER, segments)
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
        ids = list(prefix) or [start_token(target)]
        if ids == [None]:
            raise PhasorError("an empty prompt, and the model has no start token")
        made: list[int] = []
        limit = D.longest(self.d, "decoder") or sys.maxsize
        while len(made) < most and len(ids) <= limit:
            row = self.decode(ids, memory).logits[-1].copy()
            row[list(exclude)] = -np.inf
            best = int(np.argmax(row))
            if not made and not prefix and target["forced_first"] is not None:
                best = target["forced_first"]
            made.append(best)
            ids.append(best)
            if best in target["end"]:
                break
        return made


def start_token(target: dict) -> int | None:
    """What a decoder reads before its first token."""
    own = target["decoder_start"]
    return target["start"] if own is None else own


# ---- Command line


def parse_ids(text: str) -> list[int]:
    """ "1,2,3" as numbers."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected ids such as 1,2,3") from error


@front_door("reference")
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The float64 forward pass of a .phasor file.")
    parser.add_argument("model")
    parser.add_argument("--source-ids", type=parse_ids)
    parser.add_argument(
        "--target-ids",
        type=parse_ids,
        default=[],
        help="the decoder's input; empty: its start token",
    )
    parser.add_argument(
        "--segments", type=parse_ids, help="the segment of each source id; without it all are 0"
    )
    parser.add_argument(
        "--greedy", type=int, metavar="N", help="continue with at most N new tokens"
    )
    parser.add_argument(
        "--exclude", type=parse_ids, default=[], help="ids that greedy decoding never chooses"
    )
    parser.add_argument(
        "--cache",
        choices=CACHES,
        default="f32",
        help="the type of the decoder's keys and values (f32)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="do not round the activations of quantized layers"
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
