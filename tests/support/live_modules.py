"""Live modules beyond the ten: other ways to write the same parts, and what is refused."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(1 + 0.2 * torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


def turned(x: Tensor, base: float) -> Tensor:
    """(B, H, T, w): the halves turn together."""
    half = x.size(-1) // 2
    rates = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(x.size(-2))[:, None] * rates
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class GroupedBlock(nn.Module):
    """Grouped queries, rotary positions, a gate in one matrix with what it gates."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = RmsNorm(32), RmsNorm(32)
        self.q, self.kv = nn.Linear(32, 32, bias=False), nn.Linear(32, 32, bias=False)
        self.o = nn.Linear(32, 32, bias=False)
        self.up, self.down = nn.Linear(32, 96, bias=False), nn.Linear(48, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x)
        q = self.q(h).view(*h.shape[:2], 4, 8).transpose(1, 2)
        k, v = (y.view(*h.shape[:2], 2, 8).transpose(1, 2) for y in self.kv(h).chunk(2, -1))
        q, k = turned(q, 500000.0), turned(k, 500000.0)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        a, b = self.up(self.two(x)).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


class Grouped(nn.Module):
    """Layers that are no list; logits of the last position alone, in a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.early, self.late = GroupedBlock(), GroupedBlock()
        self.end = RmsNorm(32)

    def forward(self, ids: Tensor) -> tuple[Tensor, None]:
        x = self.end(self.late(self.early(self.words(ids))))
        return F.linear(x[:, [-1], :], self.words.weight), None


class Sums(nn.Module):
    """Attention by einsum, slopes of ALiBi, a dense layer before the classes, rows first."""

    def __init__(self, pad: int | None = None) -> None:
        super().__init__()
        self.pad = pad
        self.words, self.into = nn.Embedding(40, 24), nn.Linear(24, 24)
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))
        self.o, self.one, self.two = nn.Linear(24, 24), nn.LayerNorm(24), nn.LayerNorm(24)
        self.up, self.down = nn.Linear(24, 40), nn.Linear(40, 24)
        self.dense, self.out = nn.Linear(24, 24), nn.Linear(24, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        q, k, v = (f(x).unflatten(-1, (4, 6)) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(6)
        places = torch.arange(ids.size(1))
        slopes = torch.tensor([2.0 ** (-2 * (i + 1)) for i in range(4)])
        scores = scores - slopes[:, None, None] * (places[:, None] - places).abs()
        if self.pad is not None:
            scores = scores.masked_fill((ids == self.pad)[:, None, None], -1e9)
        y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)
        x = self.one(x + self.o(y))
        x = self.two(x + self.down(0.5 * (h := self.up(x)) * (1 + torch.erf(h / math.sqrt(2)))))
        return self.out(torch.tanh(self.dense(x[:, 0])))


class Tutorial(nn.Module):
    """PyTorch's tutorial of translation: (T, B) ids, and masks that are given."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(24, 3, 1, 2, 32, 0.0, activation="gelu", norm_first=True)
        self.a, self.b, self.out = nn.Embedding(30, 24), nn.Embedding(33, 24), nn.Linear(24, 33)

    def forward(self, src: Tensor, trg: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.out(self.net(self.a(src), self.b(trg), tgt_mask=tgt_mask))


class Parallel(nn.Module):
    """Attention and feed-forward beside each other, computed sinusoids, a window, Conv1D's
    matrices with q, k and v of each head together."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 24)
        self.norms = nn.ModuleList(nn.LayerNorm(24, eps=1e-3) for _ in range(3))
        shapes = {"qkv": (24, 72), "o": (24, 24), "up": (24, 40), "down": (40, 24)}
        self.sets = nn.ModuleList(
            nn.ParameterDict({k: nn.Parameter(0.3 * torch.randn(n)) for k, n in shapes.items()})
            for _ in range(2)
        )

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.size(1))
        angles = places[:, None] * 1000.0 ** (-torch.arange(12) / 11)
        x = self.words(ids) + torch.cat((angles.sin(), angles.cos()), -1)
        far = places[:, None] - places
        hidden = (far < 0) | (far >= 4)
        for norm, own in zip(self.norms, self.sets):
            h = norm(x)
            q, k, v = (h @ own["qkv"]).unflatten(-1, (3, 3, 8)).permute(3, 0, 2, 1, 4)
            scores = (q @ k.mT / math.sqrt(8)).masked_fill(hidden, float("-inf"))
            y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ own["o"]
            x = x + y + F.gelu(h @ own["up"], approximate="tanh") @ own["down"]
        return self.norms[2](x) @ self.words.weight.T


class Capped(nn.Module):
    """Norms of q and k, of a head or of all; caps of the scores and of the logits."""

    def __init__(self, wide: bool = False, norm: type[nn.Module] = RmsNorm) -> None:
        super().__init__()
        self.words, self.wide = nn.Embedding(40, 24), wide
        size = 24 if wide else 6
        self.sets = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{name: nn.Linear(24, 24, bias=False) for name in "abcd"},
                    "up": nn.Linear(24, 40),
                    "down": nn.Linear(40, 24),
                    "one": norm(24),
                    "two": norm(24),
                    "first": norm(size),
                    "second": norm(size),
                }
            )
            for _ in range(2)
        )
        self.end = norm(24)
        for own in self.modules():
            if isinstance(own, nn.LayerNorm):
                nn.init.normal_(own.weight, 1.0, 0.2)
                nn.init.normal_(own.bias, 0.0, 0.2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        hidden = torch.ones(ids.size(1), ids.size(1)).triu(1).bool()
        for own in self.sets:
            h = own["one"](x)
            q, k, v = (own[name](h) for name in "abc")
            if self.wide:
                q, k = own["first"](q), own["second"](k)
            q, k, v = (y.unflatten(-1, (4, 6)).transpose(1, 2) for y in (q, k, v))
            if not self.wide:
                q, k = own["first"](q), own["second"](k)
            q, k = turned(q, 10000.0), turned(k, 10000.0)
            scores = 5.0 * torch.tanh(q @ k.mT / math.sqrt(6) / 5.0)
            y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
            x = x + own["d"](y.transpose(1, 2).flatten(2))
            x = x + own["down"](F.silu(own["up"](own["two"](x))))
        logits = F.linear(self.end(x), self.words.weight)
        return torch.tanh(logits / 3.0) * 3.0


class Branching(Sums):
    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        if ids.max() > 20:
            x = x * 2
        return x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.net = nn.Embedding(40, 16), nn.GRU(16, 16, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.net(self.words(ids))[0]
