"""Live modules whose scores have T5's distances, and modules whose layers differ."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from live_modules import RmsNorm, turned


def bucket(distance: Tensor, count: int, most: int, both: bool) -> Tensor:
    """Raffel et al. 2020, section 2.1, as published code has it."""
    out = torch.zeros_like(distance)
    if both:
        count //= 2
        out = out + (distance > 0).long() * count
        away = distance.abs()
    else:
        away = -torch.minimum(distance, torch.zeros_like(distance))
    exact = count // 2
    far = torch.log(away.clamp(min=1).float() / exact) / math.log(most / exact) * (count - exact)
    grown = torch.minimum(exact + far.long(), torch.full_like(away, count - 1))
    return out + torch.where(away < exact, away, grown)


class Near(nn.Module):
    """Rows of a table for each distance."""

    def __init__(self, count: int, most: int, both: bool) -> None:
        super().__init__()
        self.rows, self.count, self.most, self.both = nn.Embedding(count, 4), count, most, both

    def forward(self, length: int) -> Tensor:
        at = torch.arange(length)
        return self.rows(bucket(at[None] - at[:, None], self.count, self.most, self.both)).permute(
            2, 0, 1
        )[None]


class Look(nn.Module):
    """Attention whose scores are not divided, with what is added to them."""

    def __init__(self, fused: bool = False) -> None:
        super().__init__()
        self.ask, self.key, self.give = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.back, self.fused = nn.Linear(32, 32, bias=False), fused

    def forward(self, x: Tensor, y: Tensor, added: Tensor | None) -> Tensor:
        q, k, v = (
            f(z).unflatten(-1, (4, 8)).transpose(1, 2)
            for f, z in ((self.ask, x), (self.key, y), (self.give, y))
        )
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, added, scale=1.0)
        else:
            scores = q @ k.transpose(-1, -2)
            out = (scores if added is None else scores + added).softmax(-1) @ v
        return self.back(out.transpose(1, 2).flatten(2))


class Part(nn.Module):
    def __init__(self, crosses: bool, fused: bool) -> None:
        super().__init__()
        self.one, self.two, self.look = RmsNorm(32), RmsNorm(32), Look(fused)
        self.up, self.down = nn.Linear(32, 48, bias=False), nn.Linear(48, 32, bias=False)
        if crosses:
            self.mid, self.other = RmsNorm(32), Look(fused)

    def forward(self, x: Tensor, added: Tensor, memory: Tensor | None) -> Tensor:
        h = self.one(x)
        x = x + self.look(h, h, added)
        if memory is not None:
            x = x + self.other(self.mid(x), memory, None)
        return x + self.down(F.relu(self.up(self.two(x))))


class Half(nn.Module):
    """A stack. each: every layer has a table of its own."""

    def __init__(
        self, both: bool, crosses: bool = False, fused: bool = False, each: bool = False,
        count: int = 32, most: int = 128,
    ) -> None:  # fmt: skip
        super().__init__()
        self.parts = nn.ModuleList(Part(crosses, fused) for _ in range(2))
        self.near = nn.ModuleList(Near(count, most, both) for _ in range(2 if each else 1))
        self.both, self.end = both, RmsNorm(32)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        length = x.size(1)
        hidden = torch.zeros(length, length)
        if not self.both:
            hidden = torch.triu(torch.full((length, length), -1e30), 1)
        for i, part in enumerate(self.parts):
            x = part(x, self.near[i % len(self.near)](length) + hidden, memory)
        return self.end(x)


class Distances(nn.Module):
    """T5's encoder with classes, or a decoder alone with T5's distances."""

    def __init__(self, both: bool, **how) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(40, 32), Half(both, **how)
        self.out = nn.Linear(32, 3 if both else 40)
        self.both = both

    def forward(self, ids: Tensor) -> Tensor:
        x = self.body(self.words(ids))
        return self.out(x.mean(1) if self.both else x)


class Pair(nn.Module):
    """T5: one embedding, tied to logits that are divided by √width."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 32)
        self.reads, self.writes = Half(True), Half(False, crosses=True, count=16, most=20)

    def forward(self, ids: Tensor, made: Tensor) -> Tensor:
        x = self.writes(self.words(made), self.reads(self.words(ids)))
        return F.linear(x * 32**-0.5, self.words.weight)


class Line(nn.Module):
    """A table whose buckets are no logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Distances(True)
        self.inner.body.near = nn.ModuleList([Clipped()])

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(ids)


class Clipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(9, 4)

    def forward(self, length: int) -> Tensor:
        at = torch.arange(length)
        return self.rows((at[None] - at[:, None]).clamp(-4, 4) + 4).permute(2, 0, 1)[None]


class Fixed(Distances):
    """Takes short texts and long ones, and no others."""

    def forward(self, ids: Tensor) -> Tensor:
        if 9 < ids.size(1) < 120:
            raise ValueError("neither short nor long")
        return super().forward(ids)


class Mixed(nn.Module):
    """A layer of a decoder with sizes of its own."""

    def __init__(
        self, heads: int = 4, kv: int = 4, width: int = 8, hidden: int = 48, window: int = 0,
        base: float = 10000.0, cap: float = 0.0, act=F.silu, last: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.one, self.two = RmsNorm(32), RmsNorm(32)
        self.ask = nn.Linear(32, heads * width, bias=False)
        self.key, self.give = (nn.Linear(32, kv * width, bias=False) for _ in range(2))
        self.back = nn.Linear(heads * width, 32, bias=False)
        self.up, self.down = nn.Linear(32, hidden, bias=False), nn.Linear(hidden, 32, bias=False)
        self.heads, self.kv, self.window, self.base, self.cap = heads, kv, window, base, cap
        self.act, self.last = act, last
        if last:
            self.one, self.two = nn.RMSNorm(32, 1e-6), nn.RMSNorm(32, 1e-6)

    def look(self, h: Tensor) -> Tensor:
        q = self.ask(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (f(h).unflatten(-1, (self.kv, -1)).transpose(1, 2) for f in (self.key, self.give))
        q, k = turned(q, self.base), turned(k, self.base)
        k, v = (x.repeat_interleave(self.heads // self.kv, 1) for x in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if self.cap:
            scores = self.cap * torch.tanh(scores / self.cap)
        at = torch.arange(h.size(1))
        away = at[:, None] - at
        seen = (away >= 0) & (away < self.window) if self.window else away >= 0
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.last:
            x = self.one(x + self.look(x))
            return self.two(x + self.down(self.act(self.up(x))))
        x = x + self.look(self.one(x))
        return x + self.down(self.act(self.up(self.two(x))))


class Layered(nn.Module):
    """A decoder of these layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.words, self.end = nn.Embedding(50, 32), RmsNorm(32)
        self.rows = nn.ModuleList(layers)
        self.out = nn.Linear(32, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for row in self.rows:
            x = row(x)
        return self.out(self.end(x))
