"""The forward pass of a file's model in PyTorch and float64, each part as its paper writes it:
slow, plain, and apart from tools/reference.py.

It reads the stored weights and the descriptor, and nothing else of the tools. Letters: T queries, S
keys, D width, H heads, w head width; i is a query's position and j a key's.
"""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile

ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    0: lambda x: x,
    D.RELU: F.relu,
    D.GELU_ERF: F.gelu,
    D.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    D.SILU: F.silu,
    D.TANH: torch.tanh,
    D.RELU2: lambda x: F.relu(x).square(),
}


def rotation(
    inv_freq: Tensor, position: int, width: int, halves: bool, factor: float = 1.0
) -> Tensor:
    """The matrix R of Su et al. 2021, equation 15, (w, w): pairs are neighbors, or lie half of the
    rotated values apart; the rest stays. Peng et al. 2024 (YaRN), section 3.4, multiply what is
    rotated by a factor."""
    out, pairs = torch.eye(width, dtype=torch.float64), len(inv_freq)
    for n, frequency in enumerate(inv_freq.tolist()):
        a, b = (n, n + pairs) if halves else (2 * n, 2 * n + 1)
        c, s = factor * math.cos(position * frequency), factor * math.sin(position * frequency)
        out[a, a], out[a, b], out[b, a], out[b, b] = c, -s, s, c
    return out


def sinusoid(inv_freq: Tensor, count: int, halves: bool) -> Tensor:
    """Vaswani et al. 2017, section 3.5, (T, D): sin and cos of each frequency side by side, or half
    of D apart."""
    out = torch.empty(count, 2 * len(inv_freq), dtype=torch.float64)
    for position in range(count):
        for n, frequency in enumerate(inv_freq.tolist()):
            a, b = (n, n + len(inv_freq)) if halves else (2 * n, 2 * n + 1)
            out[position, a], out[position, b] = (
                math.sin(position * frequency),
                math.cos(position * frequency),
            )
    return out


class Formulas:
    """The model of one file; f32 weights, no rounded activations."""

    def __init__(self, file: PhasorFile) -> None:
        self.file, self.d = file, file.descriptor

    def weight(self, stack: int, weights: int, role: int) -> Tensor | None:
        key = stack << 24 | weights << 8 | role
        return torch.from_numpy(self.file.weights(key)) if key in self.file.entries else None

    def linear(self, x: Tensor, stack: int, weights: int, role: int) -> Tensor:
        return F.linear(x, self.weight(stack, weights, role), self.weight(stack, weights, role + 1))

    def norm(self, x: Tensor, kind: int, eps: float, stack: int, weights: int, role: int) -> Tensor:
        g = self.weight(stack, weights, role)
        if g is None:
            return x
        if kind == D.RMS_NORM:
            return F.rms_norm(x, x.shape[-1:], g, eps) + (
                self.weight(stack, weights, role + 1)
                if self.weight(stack, weights, role + 1) is not None
                else 0
            )
        return F.layer_norm(x, x.shape[-1:], g, self.weight(stack, weights, role + 1), eps)

    # ---- attention

    def relative(self, kind: dict, stack: int, weights: int, role: int, count: int) -> Tensor:
        """a_ij (T, S, w): Shaw et al. 2018, section 3.2. Clipped tables begin at −M, the others at
        −(M − 1)."""
        table, most = self.weight(stack, weights, role), kind["max_distance"]
        if role == R.RELATIVE_KEYS:
            table = table.T
        away = torch.arange(count)[None, :] - torch.arange(count)[:, None]
        return (
            table[away.clamp(-most, most) + most]
            if kind["position"] == D.CLIPPED
            else table[away + most - 1]
        )

    @staticmethod
    def relative_of(table: Tensor, most: int, count: int) -> Tensor:
        """a_ij (T, S, w) of a head's table (w, 2·most − 1)."""
        away = torch.arange(count)[None, :] - torch.arange(count)[:, None]
        return table.T[away + most - 1]

    def scores(
        self, q: Tensor, k: Tensor, kind: dict, index: int, stack: int, weights: int
    ) -> Tensor:
        """q, k (T, H, w) of one sequence -> (H, T, S)."""
        position, count = kind["position"], len(q)
        if kind["score"] == D.ADDITIVE:  # Bahdanau et al. 2015, appendix A.1.2
            v = self.weight(stack, weights, R.SCORE).view(q.shape[1:])
            e = (torch.tanh(q[:, None] + k[None]) * v).sum(-1)
        elif position in (D.RELATIVE_KEY, D.CLIPPED):  # Shaw et al. 2018, equation 4
            a = self.relative(kind, stack, weights, R.RELATIVE_KEYS, count)
            e = (q[:, None] * (k[None] + a[:, :, None])).sum(-1)
        elif position == D.RELATIVE_KEY_QUERY:  # Huang et al. 2020, method 4
            a = self.relative(kind, stack, weights, R.RELATIVE_KEYS, count)[:, :, None]
            e = (q[:, None] * k[None]).sum(-1) + (q[:, None] * a).sum(-1) + (k[None] * a).sum(-1)
        elif position == D.DISENTANGLED:  # He et al. 2021, equations 2 and 4
            a, b = (
                torch.stack(
                    [
                        self.relative_of(table, kind["max_distance"], count)
                        for table in self.weight(stack, weights, role).split(kind["head_width"])
                    ],
                    dim=2,
                )
                for role in (R.RELATIVE_KEYS, R.RELATIVE_QUERIES)
            )
            e = (q[:, None] * k[None]).sum(-1) + (q[:, None] * a).sum(-1) + (k[None] * b).sum(-1)
        elif position == D.THREE_WAY:  # Huang et al. 2020, method 3
            a = self.relative(kind, stack, weights, R.RELATIVE_KEYS, count)[:, :, None]
            e = (q[:, None] * k[None] * a).sum(-1)
        else:
            e = (q[:, None] * k[None]).sum(-1)
        e = e.permute(2, 0, 1) * kind["scale"]
        away = torch.arange(count)[None, :] - torch.arange(count)[:, None]  # j − i
        if (
            position == D.T5_BIAS
        ):  # Raffel et al. 2020, section 2.1, a number for each head and distance
            most = kind["max_distance"]
            e = e + self.weight(R.KINDS, index, R.T5_BIAS)[:, away.clamp(-most, most) + most]
        if position == D.ALIBI:  # Press et al. 2022, section 3
            e = e - self.weight(R.KINDS, index, R.ALIBI)[:, None, None] * away.abs()
        return e

    def mix(
        self, e: Tensor, v: Tensor, kind: dict, seen: Tensor | None, values: Tensor | None = None
    ) -> Tensor:
        """e (H, T, S), v (S, H, w), values a^V (T, S, w) -> (T, H·w). Shaw et al. 2018, equation
        3."""
        if kind["cap"]:
            e = kind["cap"] * torch.tanh(e / kind["cap"])
        if seen is not None:
            e = e.masked_fill(~seen, -math.inf)
        z = v[None] if values is None else v[None] + values[:, :, None]
        return torch.einsum(
            "hts,tshw->thw", e.softmax(-1), z.expand(e.shape[1], *z.shape[1:])
        ).flatten(1)

    def self_attention(self, h: Tensor, kind: dict, index: int, stack: int, weights: int) -> Tensor:
        heads, kv, w, count = kind["heads"], kind["kv_heads"], kind["head_width"], len(h)
        q, k, v = (
            x.view(count, -1, w)
            for x in self.linear(h, stack, weights, R.QKV).split([heads * w, kv * w, kv * w], 1)
        )

        def normed(first: int) -> tuple[Tensor, ...]:
            if not kind["qk_norm"] or kind["qk_norm_place"] != first:
                return q, k
            return tuple(
                self.norm(x, kind["qk_norm"], kind["norm_eps"], stack, weights, role)
                for x, role in ((q, R.Q_NORM), (k, R.K_NORM))
            )

        q, k = normed(0)
        if kind["position"] in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            inv_freq, halves = (
                self.weight(R.KINDS, index, R.ROTARY),
                kind["position"] == D.ROTARY_HALVES,
            )
            turn = [rotation(inv_freq, m, w, halves, kind["rotary_factor"]) for m in range(count)]
            q, k = (torch.einsum("tvw,thw->thv", torch.stack(turn), x) for x in (q, k))
        q, k = normed(1)
        k, v = (x.repeat_interleave(heads // kv, 1) for x in (k, v))
        away = torch.arange(count)[None, :] - torch.arange(count)[:, None]
        seen = away <= 0 if stack == R.DECODER else torch.ones_like(away, dtype=torch.bool)
        if kind["window"]:
            seen = seen & (
                away.abs() < kind["window"]
                if stack == R.DECODER
                else away.abs() <= kind["window"] // 2
            )
        values = (
            self.relative(kind, stack, weights, R.RELATIVE_VALUES, count)
            if kind["position"] == D.CLIPPED
            else None
        )
        return self.linear(
            self.mix(self.scores(q, k, kind, index, stack, weights), v, kind, seen, values),
            stack,
            weights,
            R.ATTENTION_OUT,
        )

    def cross_attention(self, h: Tensor, memory: Tensor, kind: dict, weights: int) -> Tensor:
        heads, kv, w = kind["cross_heads"], kind["cross_kv_heads"], kind["cross_head_width"]
        q = self.linear(h, R.DECODER, weights, R.CROSS_Q).view(-1, heads, w)
        k, v = (
            x.view(-1, kv, w).repeat_interleave(heads // kv, 1)
            for x in self.linear(memory, R.DECODER, weights, R.CROSS_KV).chunk(2, 1)
        )
        if kind["cross_score"] == D.ADDITIVE:
            e = (
                torch.tanh(q[:, None] + k[None])
                * self.weight(R.DECODER, weights, R.CROSS_SCORE).view(heads, w)
            ).sum(-1)
        else:
            e = (q[:, None] * k[None]).sum(-1)
        return self.linear(
            self.mix(e.permute(2, 0, 1) * kind["cross_scale"], v, kind, None),
            R.DECODER,
            weights,
            R.CROSS_OUT,
        )

    # ---- blocks

    def block(
        self, x: Tensor, memory: Tensor | None, index: int, stack: int, weights: int
    ) -> Tensor:
        kind = self.d["kinds"][index]

        def sub(x: Tensor, before: int, after: int, f: Callable[[Tensor], Tensor]) -> Tensor:
            def norm(y: Tensor, role: int) -> Tensor:
                return self.norm(y, kind["norm"], kind["norm_eps"], stack, weights, role)

            given = f(norm(x, before)) * kind["residual_scale"]
            return (
                x + norm(given, after) if kind["norm_place"] == D.BOTH else norm(x + given, after)
            )

        def feed_forward(h: Tensor) -> Tensor:
            h = self.linear(h, stack, weights, R.FFN_IN)
            activation = ACTIVATIONS.get(kind["activation"])
            if kind["activation"] == D.XIELU:
                above, below, beta, eps = self.weight(stack, weights, R.XIELU)
                activation = lambda x: torch.where(  # noqa: E731
                    x > 0,
                    above * x * x + beta * x,
                    (torch.expm1(torch.minimum(x, eps)) - x) * below + beta * x,
                )
            h = activation(h.chunk(2, 1)[0]) * h.chunk(2, 1)[1] if kind["gated"] else activation(h)
            return self.linear(h, stack, weights, R.FFN_OUT)

        x = sub(
            x,
            R.ATTENTION_BEFORE,
            R.ATTENTION_AFTER,
            lambda h: self.self_attention(h, kind, index, stack, weights),
        )
        if kind["cross"]:
            x = sub(
                x,
                R.CROSS_BEFORE,
                R.CROSS_AFTER,
                lambda h: self.cross_attention(h, memory, kind, weights),
            )
        return sub(x, R.FFN_BEFORE, R.FFN_AFTER, feed_forward)

    def stack(
        self,
        name: str,
        ids: Sequence[int],
        memory: Tensor | None = None,
        segments: Sequence[int] | None = None,
    ) -> Tensor:
        """(T, D): projection(norm(embedding × scale + segment + position)), the blocks, the final
        norm."""
        s, inputs, stack = (
            self.d[name],
            *((R.SOURCE, R.ENCODER) if name == "encoder" else (R.TARGET, R.DECODER)),
        )
        shared = name == "decoder" and self.d["target"]["embedding_shared"]
        x = (
            self.weight(R.SOURCE if shared else inputs, 0, R.EMBEDDING)[list(ids)]
            * s["embedding_scale"]
        )
        if s["segments"]:
            x = x + self.weight(inputs, 0, R.SEGMENTS)[list(segments or [0] * len(ids))]
        if s["position"] == D.LEARNED:
            x = x + self.weight(inputs, 0, R.POSITIONS)[: len(ids)]
        elif s["position"]:
            x = x + sinusoid(
                self.weight(inputs, 0, R.SINUSOID), len(ids), s["position"] == D.HALVES
            )
        x = self.norm(x, s["embedding_norm"], s["embedding_norm_eps"], inputs, 0, R.EMBEDDING_NORM)
        if s["embedding_width"] != s["width"]:
            x = self.linear(x, inputs, 0, R.PROJECTION)
        for kind, weights in zip(s["layers"][::2], s["layers"][1::2]):
            x = self.block(x, memory, kind, stack, weights)
        return self.norm(x, s["final_norm"], s["final_norm_eps"], stack, R.FINAL, R.FINAL_NORM)

    # ---- outputs of an encoder

    def output(self, y: Tensor) -> Tensor:
        """Hidden states (S, D) -> the output rows (R, W)."""
        o = self.d["output"]
        y = {0: y, D.MEAN: y.mean(0, keepdim=True), D.FIRST: y[:1], D.LAST: y[-1:]}[o["pooling"]]
        if o["head_width"]:
            y = self.linear(y, R.OUTPUT, 0, R.HEAD)
        y = self.norm(
            ACTIVATIONS[o["head_activation"]](y),
            o["head_norm"],
            o["head_norm_eps"],
            R.OUTPUT,
            0,
            R.HEAD_NORM,
        )
        if o["output"] == D.CLASSES:
            return self.linear(y, R.OUTPUT, 0, R.CLASSIFIER)
        if o["output"] == D.LOGITS:
            matrix = (
                self.weight(R.SOURCE, 0, R.EMBEDDING)
                if o["tied"]
                else self.weight(R.OUTPUT, 0, R.OUTPUT_WEIGHT)
            )
            y = F.linear(y, matrix, self.weight(R.OUTPUT, 0, R.OUTPUT_WEIGHT + 1)) * o["scale"]
            return o["cap"] * torch.tanh(y / o["cap"]) if o["cap"] else y
        return F.normalize(y, dim=1) if o["normalize"] else y


# ---- The program


def call(phasor: Path, *arguments: object, stdin: str = "") -> str:
    """Standard output of a run that must succeed."""
    done = subprocess.run(
        [phasor, *map(str, arguments), "--quiet"],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def text_of(ids: Sequence[int]) -> str:
    return ",".join(str(int(i)) for i in ids)


def program_hidden(
    phasor: Path,
    path: Path,
    stack: str,
    source: Sequence[int],
    target: Sequence[int],
    *more: object,
) -> np.ndarray:
    """The stack's output (T, D) of phasor: of the encoder, or of the decoder that reads
    `target`."""
    out = path.with_suffix(".npy")
    if stack == "encoder":
        call(
            phasor,
            "embed",
            path,
            "--ids",
            text_of(source),
            "--pooling",
            "first",
            "--hidden",
            out,
            *more,
        )
    elif stack == "decoder":
        call(
            phasor,
            "run",
            path,
            "--ids",
            text_of(target),
            "-n",
            1,
            "--print-ids",
            "--hidden",
            out,
            *more,
        )
    else:
        forced = ["--prefix-ids", text_of(target[1:])] if len(target) > 1 else []
        call(
            phasor,
            "run",
            path,
            "--ids",
            text_of(source),
            "-n",
            len(target),
            *forced,
            "--print-ids",
            "--hidden-decoder",
            out,
            *more,
        )
    return np.load(out)[-1][: len(source if stack == "encoder" else target)]


def distance(got: np.ndarray, want: Tensor | np.ndarray) -> float:
    """‖got − want‖ as a share of ‖want‖, of the row where it is largest."""
    want = np.asarray(want)
    return float(
        (np.linalg.norm(got.astype(np.float64) - want, axis=1) / np.linalg.norm(want, axis=1)).max()
    )
