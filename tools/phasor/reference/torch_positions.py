"""Position encodings of self-attention as PyTorch modules, each from its formula
(docs/reference/positions.md).

An encoding may act in four places: it turns q and k, it makes the scores, it adds to the scaled
scores, and it adds to the values. Tables are indexed by key − query, as the weight file has them.
Letters: B batch, H heads, T queries, S keys, w head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from phasor.format import descriptor as D
from phasor.positions import alibi_slopes, t5_buckets


def distances(queries: int, keys: int) -> Tensor:
    """(T, S): key − query."""
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]


class Position(nn.Module):
    """None: the scores are q·k (Vaswani et al. 2017, section 3.2.1)."""

    def turn(self, x: Tensor) -> Tensor:
        """q or k (B, H, T, w) -> the same."""
        return x

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """q (B, H, T, w), k (B, H, S, w) -> (B, H, T, S), before the scale."""
        return q @ k.transpose(2, 3)

    def add(self, scores: Tensor) -> Tensor:
        """Scaled scores (B, H, T, S) -> the same."""
        return scores

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        """weights (B, H, T, S), v (B, H, S, w) -> (B, H, T, w)."""
        return weights @ v


class Additive(nn.Module):
    """v·tanh(q + k), v for each head (Bahdanau et al. 2015, appendix A.1.2); in the place of
    `Position.scores`."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.ones(heads, width))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (B, H, T, w), k (B, H, S, w) -> (B, H, T, S)."""
        rows = [
            (torch.tanh(q[:, :, i : i + 1] + k) @ self.v[:, :, None])[..., 0]
            for i in range(q.shape[2])
        ]
        return torch.stack(rows, dim=2)


class _Relative(Position):
    """A table a (2·M − 1, w) of keys; the row of (i, j) is j − i + M − 1, so a sequence has at most
    M positions."""

    def __init__(self, width: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.keys = nn.Embedding(2 * most - 1, width)

    def rows(self, queries: int, keys: int) -> Tensor:
        """a for each query and key: (T, S, w)."""
        if max(queries, keys) > self.most:
            raise ValueError(
                f"{max(queries, keys)} positions, the table of distances has {self.most}"
            )
        return self.keys(distances(queries, keys) + self.most - 1)


class RelativeKey(_Relative):
    """q·k + q·a (Shaw et al. 2018, equation 4)."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) + torch.einsum(
            "bhtd,tsd->bhts", q, self.rows(q.shape[2], k.shape[2])
        )


class RelativeKeyQuery(_Relative):
    """q·k + q·a + k·a (Huang et al. 2020, method 4)."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        a = self.rows(q.shape[2], k.shape[2])
        return (
            super().scores(q, k)
            + torch.einsum("bhtd,tsd->bhts", q, a)
            + torch.einsum("bhsd,tsd->bhts", k, a)
        )


class ThreeWay(_Relative):
    """Σ q·k·a over d (Huang et al. 2020, method 3)."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        a = self.rows(q.shape[2], k.shape[2])
        return torch.stack(
            [((k * a[i]) @ q[:, :, i, :, None])[..., 0] for i in range(q.shape[2])], dim=2
        )


class Clipped(Position):
    """Keys a and values b by the distance clipped to ±M: q·k + q·a, and Σ p·v + Σ p·b (Shaw et al.
    2018, equations 3 to 5)."""

    def __init__(self, width: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.keys, self.values = (
            nn.Embedding(2 * most + 1, width),
            nn.Embedding(2 * most + 1, width),
        )

    def index(self, queries: int, keys: int) -> Tensor:
        return distances(queries, keys).clamp(-self.most, self.most) + self.most

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) + torch.einsum(
            "bhtd,tsd->bhts", q, self.keys(self.index(q.shape[2], k.shape[2]))
        )

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return super().mix(weights, v) + torch.einsum(
            "bhts,tsd->bhtd", weights, self.values(self.index(*weights.shape[2:]))
        )


class T5Bias(Position):
    """A learned number for each head and bucket of distances, added to the scaled scores (Raffel et
    al. 2020, section 2.1)."""

    def __init__(self, heads: int, buckets: int, most: int, two_sided: bool) -> None:
        super().__init__()
        self.buckets, self.most, self.two_sided = buckets, most, two_sided
        self.bias = nn.Embedding(buckets, heads)

    def add(self, scores: Tensor) -> Tensor:
        row = t5_buckets(
            distances(*scores.shape[2:]).numpy(), self.buckets, self.most, self.two_sided
        )
        return scores + self.bias(torch.from_numpy(row)).permute(2, 0, 1)


class Alibi(Position):
    """−|i − j|·slope, added to the scaled scores (Press et al. 2022, section 3). Nothing to
    learn."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.from_numpy(alibi_slopes(heads)), persistent=False)

    def add(self, scores: Tensor) -> Tensor:
        return scores - distances(*scores.shape[2:]).abs() * self.slopes[:, None, None].to(
            scores.dtype
        )


class Rotary(Position):
    """The first `turned` values of q and k turn by position·base^(−2i/turned), as pairs or as
    halves (Su et al. 2021, section 3.2)."""

    def __init__(self, turned: int, halves: bool, base: float = 10000.0) -> None:
        super().__init__()
        self.turned, self.halves = turned, halves
        even = torch.arange(0, turned, 2, dtype=torch.float64)
        self.register_buffer("inv_freq", base ** (-even / turned), persistent=False)

    def turn(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * self.inv_freq.double()
        c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        part, rest = x[..., : self.turned], x[..., self.turned :]
        first, second = part.chunk(2, dim=3) if self.halves else (part[..., 0::2], part[..., 1::2])
        pair = (first * c - second * s, second * c + first * s)
        turned = torch.cat(pair, dim=3) if self.halves else torch.stack(pair, dim=4).flatten(3)
        return torch.cat([turned, rest], dim=3)


def of_kind(kind: dict[str, Any], two_sided: bool, buckets: int = 32) -> Position:
    """The encoding of a descriptor's kind (with defaults); T5's buckets are not in it."""
    position, most = kind["position"], kind["max_distance"]
    if position in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
        return Rotary(kind["rotary_width"], position == D.ROTARY_HALVES)
    if position == D.T5_BIAS:
        return T5Bias(kind["heads"], buckets, most, two_sided)
    if position == D.ALIBI:
        return Alibi(kind["heads"])
    tables = {
        D.RELATIVE_KEY: RelativeKey,
        D.RELATIVE_KEY_QUERY: RelativeKeyQuery,
        D.THREE_WAY: ThreeWay,
        D.CLIPPED: Clipped,
    }
    return tables[position](kind["head_width"], most) if position else Position()
