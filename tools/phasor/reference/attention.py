"""The tensors of a file as the forward pass reads them, and attention with all that adds to its
scores: Reference (forward.py) without the stack."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference.functions import (
    CACHES,
    NORMS,
    Array,
    rotate,
    round_activations,
    softmax,
)

# A larger model is dequantized tensor by tensor each time: slower, and never whole in memory.
_KEPT_VALUES = 1 << 26


_ALL = (slice(None),)  # one sequence


def there(value: Array | None) -> Array:
    """What the descriptor says is there."""
    assert value is not None
    return value


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
    seen: Array | None = None  # (T, S) bool: the keys that each query sees


class Weights:
    """What the layers of one file compute from its tensors."""

    def __init__(
        self,
        file: PhasorFile,
        emulate: bool = True,
        dtype: type = np.float64,
        cache: str = "f32",
        shared: bool = False,
    ) -> None:
        """shared: the file keeps its tensors for several runs (runs.py), and this run what it made
        of them, until forget(); products take them in blocks."""
        self.file, self.emulate, self._shared = file, emulate, shared
        self.dtype, self.cached = np.dtype(dtype), CACHES[cache]
        self.d = file.descriptor
        self.seen = 0  # keys of an encoder that all see, 0: all of them
        # The rows of each sequence in a stack's run, which attend to each other alone.
        self.spans: dict[int, Sequence[slice]] = {R.ENCODER: _ALL, R.DECODER: _ALL}
        # Of the decoder's run: the layer at hand, and the keys and values of each sequence that
        # the layers before it have made.
        self.layer = 0
        self.kept: dict[int, list[tuple[Array, Array]]] = {}
        self._weights: dict[int, Array] = {}
        small = sum(e.rows * e.cols for e in file.entries.values()) <= _KEPT_VALUES
        self._keep = shared or small

    def forget(self) -> None:
        """Drops the tensors that are in memory."""
        self._weights.clear()

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

    def need(self, stack: int, weights: int, role: int) -> Array:
        """A tensor that the descriptor says is there."""
        return there(self.tensor(stack, weights, role))

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
        entry = self.file.entries[key]
        if self.emulate and entry.type in L.QUANTIZED:
            x = round_activations(x, entry.type, entry.inputs)
        return self.in_blocks(x, key) if self._shared else x @ self.need(stack, weights, role).T

    def in_blocks(self, x: Array, key: int, squared: bool = False) -> Array:
        """x (T, K) · Wᵀ, or (W ∘ W)ᵀ, a part of W at a time in this run's type: W itself stays as
        narrow as it is, and no copy of it leaves the cache."""
        values, scales = self.file.narrow(key)
        out = np.empty((len(x), len(values)), self.dtype)
        step = max(1, L.CACHED // values.shape[1])
        for first in range(0, len(values), step):
            rows = slice(first, first + step)
            # A mapped file's numbers may lie at any byte, where NumPy sums in another order.
            block = np.require(values[rows], self.dtype, ["ALIGNED", "C_CONTIGUOUS"])
            out[:, rows] = x @ (block * block if squared else block).T
        if scales is None:
            return out
        scales = scales.reshape(-1).astype(self.dtype)
        result: Array = out * (scales * scales if squared else scales)
        return result

    def rows_at(self, stack: int, weights: int, role: int, ids: Array) -> Array:
        """Rows of a matrix, ids (T) -> (T, K)."""
        if not self._shared:
            result: Array = self.need(stack, weights, role)[ids]
            return result
        values, scales = self.file.narrow(R.key_of(stack, weights, role))
        found = values[ids].astype(self.dtype)
        result = found if scales is None else found * scales[ids].astype(self.dtype)
        return result

    def norm(self, x: Array, kind: int, eps: float, stack: int, weights: int, role: int) -> Array:
        """The norm with these tensors; x itself where the model has none."""
        weight = self.tensor(stack, weights, role)
        if weight is None:
            return x
        return NORMS[kind](x, weight, self.tensor(stack, weights, role + 1), eps)


class Attention(Weights):
    """The sub-layers that attend."""

    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        scale: float,
        cap: float,
        terms: Terms,
        more: tuple[Array, Array] | None = None,
    ) -> Array:
        """Section 3.2.1. q (T, H, w), k and v (S, KV, w) -> (T, H·w). more: keys and values of
        merged attention, which the same softmax is over (T5Gemma 2, rule 1.25)."""
        group = q.shape[1] // k.shape[1]  # query heads that share a key head
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        if terms.additive is not None:  # Bahdanau et al. 2015: v·tanh(q + k)
            scores = np.einsum(
                "htsw,hw->hts",
                np.tanh(q.transpose(1, 0, 2)[:, :, None] + k.transpose(1, 0, 2)[:, None]),
                terms.additive,
            )
        elif terms.three_way:  # Huang et al. 2020, method 3
            scores = np.einsum("thw,shw,tsw->hts", q, k, there(terms.keys), optimize=True)
        else:
            scores = np.einsum("thw,shw->hts", q, k)
            if terms.keys is not None:  # Shaw et al. 2018, equation 4
                scores = scores + np.einsum("thw,tsw->hts", q, terms.keys)
            if terms.key_query:  # Huang et al. 2020, method 4
                scores = scores + np.einsum("shw,tsw->hts", k, there(terms.keys))
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
        if terms.seen is not None:
            scores = np.where(terms.seen, scores, -np.inf)
        if more is not None:
            k, other = (np.repeat(x, group, axis=1) for x in more)
            behind = np.einsum("thw,shw->hts", q, k) * self.dtype.type(scale)
            if cap:
                behind = cap * np.tanh(behind / self.dtype.type(cap))
            scores, v = np.concatenate([scores, behind], axis=2), np.concatenate([v, other])
        weights = softmax(scores)
        mixed = np.einsum("hts,shw->thw", weights, v)
        if terms.values is not None:  # Shaw et al. 2018, equation 3
            mixed = mixed + np.einsum("hts,tsw->thw", weights, terms.values)
        result: Array = mixed.reshape(q.shape[0], -1)
        return result

    def terms(
        self, kind: dict[str, Any], index: int, stack: int, weights: int, count: int
    ) -> Terms:
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
                * self.need(R.KINDS, index, R.ALIBI)[:, None, None],
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
            return Terms(additive=additive, bias=self.need(R.KINDS, index, R.T5_BIAS)[:, entry])
        values = self.tensor(stack, weights, R.RELATIVE_VALUES)
        if position == D.DISENTANGLED:
            a, b = (
                self.need(stack, weights, role).reshape(kind["heads"], kind["head_width"], -1)
                for role in (R.RELATIVE_KEYS, R.RELATIVE_QUERIES)
            )
            return Terms(disentangled=(a, b, entry))
        return Terms(
            keys=self.need(stack, weights, R.RELATIVE_KEYS).T[entry],
            values=None if values is None else values[entry],
            key_query=position == D.RELATIVE_KEY_QUERY,
            three_way=position == D.THREE_WAY,
        )

    def projected(self, h: Array, kind: dict[str, Any], stack: int, weights: int) -> list[Array]:
        """q (T, H·w), k and v (T, KV·w) of the rows of h."""
        heads, kv, w = kind["heads"], kind["kv_heads"], kind["head_width"]
        fused = self.linear(h, stack, weights, R.QKV)
        if kind["separate_v"]:
            fused = np.concatenate([fused, self.linear(h, stack, weights, R.V)], axis=1)
        if kind["qkv_clip"]:
            most = self.dtype.type(kind["qkv_clip"])
            fused = np.clip(fused, -most, most)
        return np.split(fused, [heads * w, (heads + kv) * w], axis=1)

    def merged(
        self, memory: Array, kind: dict[str, Any], weights: int
    ) -> list[tuple[Array, Array]]:
        """Of each sequence, the keys and values (S, KV, w) that merged attention makes of the
        encoder's output."""
        k, v = self.projected(memory, kind, R.DECODER, weights)[1:]
        if kind["qk_norm"]:
            k = self.qk_norm(k, kind, R.DECODER, weights, R.K_NORM)
        shape = -1, kind["kv_heads"], kind["head_width"]
        k, v = self.cached(k.reshape(shape)), self.cached(v.reshape(shape))
        return [(k[span], v[span]) for span in self.spans[R.ENCODER]]

    def self_attention(
        self,
        h: Array,
        kind: dict[str, Any],
        index: int,
        stack: int,
        weights: int,
        memory: Array | None = None,
    ) -> Array:
        heads, kv, w = kind["heads"], kind["kv_heads"], kind["head_width"]
        q, k, v = self.projected(h, kind, stack, weights)
        if kind["keys_of"]:
            return self._borrowing(q, kind, index, stack, weights)
        if kind["mixer"] == D.CONVOLUTION:
            mixed = [
                self._convolved(q[span], k[span], v[span], weights) for span in self.spans[stack]
            ]
            return self._given(np.concatenate(mixed), kind, stack, weights)
        if kind["qk_norm"] and kind["qk_norm_place"] == D.NORM_FIRST:
            q = self.qk_norm(q, kind, stack, weights, R.Q_NORM)
            k = self.qk_norm(k, kind, stack, weights, R.K_NORM)
        if kind["value_norm"]:
            v = self.qk_norm(v, kind, stack, weights, R.V_NORM)
        q, k, v = q.reshape(-1, heads, w), k.reshape(-1, kv, w), v.reshape(-1, kv, w)
        more: list[Any] = [None] * len(self.spans[stack])
        if kind["cross"] == D.MERGED:
            more = self.merged(there(memory), kind, weights)
        self.kept[self.layer] = []
        mixed = []
        for span, other in zip(self.spans[stack], more):
            turned = self._placed(q[span], kind, index, stack, weights, role=R.Q_NORM)
            keys = self._placed(k[span], kind, index, stack, weights, role=R.K_NORM)
            values = v[span]
            if stack == R.DECODER:
                keys, values = self.cached(keys), self.cached(values)
                self.kept[self.layer].append((keys, values))
            own = keys, values, kind, index, stack
            mixed.append(self._attended(turned, *own, weights=weights, more=other))
        return self._given(np.concatenate(mixed), kind, stack, weights)

    def _borrowing(
        self, q: Array, kind: dict[str, Any], index: int, stack: int, weights: int
    ) -> Array:
        """What queries (T, H·w) give over an earlier layer's keys and values."""
        if kind["qk_norm"] and kind["qk_norm_place"] == D.NORM_FIRST:
            q = self.qk_norm(q, kind, stack, weights, R.Q_NORM)
        q = q.reshape(-1, kind["heads"], kind["head_width"])
        mixed = []
        for span, (keys, values) in zip(self.spans[stack], self.kept[kind["keys_of"] - 1]):
            turned = self._placed(q[span], kind, index, stack, weights, role=R.Q_NORM)
            mixed.append(self._attended(turned, keys, values, kind, index, stack, weights=weights))
        return self._given(np.concatenate(mixed), kind, stack, weights)

    def _placed(
        self,
        x: Array,
        kind: dict[str, Any],
        index: int,
        stack: int,
        weights: int,
        role: int,
    ) -> Array:
        """Queries or keys (T, n, w), rotated by their positions, and their norm where it comes
        after that."""
        if kind["position"] in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            inv_freq = self.file.weights(R.KINDS << 24 | index << 8 | R.ROTARY)
            halves = kind["position"] == D.ROTARY_HALVES
            x = rotate(x, inv_freq, np.arange(len(x)), halves, kind["rotary_factor"])
        if kind["qk_norm"] and kind["qk_norm_place"] != D.NORM_FIRST:
            x = self.qk_norm(x.reshape(len(x), -1), kind, stack, weights, role).reshape(x.shape)
        return x

    def _given(self, mixed: Array, kind: dict[str, Any], stack: int, weights: int) -> Array:
        """What the sub-layer gives of (T, H·w)."""
        inner = kind["norm"], kind["norm_eps"], stack, weights, R.ATTENTION_INNER
        return self.linear(self.norm(mixed, *inner), stack, weights, R.ATTENTION_OUT)

    def _convolved(self, q: Array, k: Array, v: Array, weights: int) -> Array:
        """The short convolution of LFM2 (Liquid AI 2025), of one sequence's rows (T, H·w)."""
        taps = self.tensor(R.DECODER, weights, R.TAPS)  # (K, H·w), the oldest first
        assert taps is not None  # a layer with a convolution has them
        bias = self.tensor(R.DECODER, weights, R.TAPS_BIAS)
        rows = np.concatenate([np.zeros((len(taps) - 1, k.shape[1]), k.dtype), k * v])
        y: Array = np.zeros_like(k)
        for i, tap in enumerate(taps):
            y = y + tap * rows[i : i + len(k)]
        out: Array = q * (y if bias is None else y + bias)
        return out

    def _attended(
        self,
        q: Array,
        k: Array,
        v: Array,
        kind: dict[str, Any],
        index: int,
        stack: int,
        weights: int,
        more: tuple[Array, Array] | None = None,
    ) -> Array:
        """One sequence's rows: q (T, H, w), k and v (T, KV, w) -> (T, H·w). more: of
        attention()."""
        count = len(q)
        at = np.arange(count)
        distance, seen = at[None, :] - at[:, None], None  # key − query
        if stack == R.DECODER or kind["causal"]:
            seen = distance <= 0
            if kind["window"]:
                seen &= distance > -kind["window"]
        elif kind["window"]:
            seen = (distance <= kind["window"] // 2) & (-distance <= (kind["window"] - 1) // 2)
        if self.seen:
            seen = (at < self.seen)[None, :] & (True if seen is None else seen)
        terms = self.terms(kind, index, stack, weights, count)._replace(seen=seen)
        return self.attention(q, k, v, kind["scale"], kind["cap"], terms, more=more)

    def qk_norm(self, x: Array, kind: dict[str, Any], stack: int, weights: int, role: int) -> Array:
        """x (T, H·w), normalized head by head (the heads share their weights, or have each their
        own) or all heads at once."""
        if kind["qk_norm_over"] == D.ALL_HEADS:
            return self.norm(x, kind["qk_norm"], kind["norm_eps"], stack, weights, role)
        heads = x.reshape(len(x), -1, kind["head_width"])
        own = kind["qk_norm_over"] == D.OWN_HEAD
        shape = heads.shape[1:] if own else heads.shape[2:]
        weight, bias = self.need(stack, weights, role), self.tensor(stack, weights, role + 1)
        bias = None if bias is None else bias.reshape(shape)
        y = NORMS[kind["qk_norm"]](heads, weight.reshape(shape), bias, kind["norm_eps"])
        return y.reshape(x.shape)

    def cross_attention(self, h: Array, memory: Array, kind: dict[str, Any], weights: int) -> Array:
        heads, kv, w = kind["cross_heads"], kind["cross_kv_heads"], kind["cross_head_width"]
        q = self.linear(h, R.DECODER, weights, R.CROSS_Q).reshape(-1, heads, w)
        k, v = np.split(self.linear(memory, R.DECODER, weights, R.CROSS_KV), 2, axis=1)
        additive = self.tensor(R.DECODER, weights, R.CROSS_SCORE)
        terms = Terms(additive=None if additive is None else additive.reshape(heads, w))
        k, v = (self.cached(x.reshape(-1, kv, w)) for x in (k, v))
        mixed = [
            self.attention(q[rows], k[keys], v[keys], kind["cross_scale"], kind["cap"], terms)
            for rows, keys in zip(self.spans[R.DECODER], self.spans[R.ENCODER])
        ]
        return self.linear(np.concatenate(mixed), R.DECODER, weights, R.CROSS_OUT)
