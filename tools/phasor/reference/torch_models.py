"""The three published styles of Transformer in PyTorch, with the names of their state_dicts. For
training, verify.py and the tests.

`build(descriptor, preset)` makes the module of a descriptor; `forward(source, target, lengths)`
gives logits (B, T, V), or the output (B, S, D) of a lone encoder, and leaves the residual after
each block in `seen`. They are written plainly, as the tutorials have them: a mask is a large
negative score, padding is computed. Letters: B batch, S source positions, T target positions, D
width, H heads.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phasor.format import descriptor as D
from phasor.reference import torch_positions as P

_ACTIVATIONS = {
    D.RELU: F.relu,
    D.GELU_ERF: F.gelu,
    D.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    D.SILU: F.silu,
    D.RELU2: lambda x: F.relu(x).square(),
}


def sinusoids(count: int, width: int, layout: int = D.INTERLEAVED) -> Tensor:
    """(count, width) in float64 (Vaswani et al. 2017, section 3.5)."""
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angle = torch.arange(count, dtype=torch.float64)[:, None] * rate
    if layout == D.HALVES:
        return torch.cat([angle.sin(), angle.cos()], dim=1)
    return torch.stack([angle.sin(), angle.cos()], dim=2).reshape(count, width)


class Base(nn.Module):
    """What the styles share: embeddings with positions, masks, and the record of residuals."""

    def __init__(self, descriptor: dict[str, Any]) -> None:
        super().__init__()
        self.d = descriptor
        self.seen: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
        kind = descriptor["kinds"][0]
        for i, k in enumerate(descriptor["kinds"]):
            if (
                k["norm"] != D.LAYER_NORM
                or k["gated"]
                or k["kv_heads"] != k["heads"]
                or k["window"]
                or k["cap"]
                or k["causal"]
            ):
                raise ValueError(
                    f"kind{i}: the PyTorch modules here have layer norm, plain feed-forward and a "
                    "key head for each head only"
                )
        self.activation = _ACTIVATIONS[kind["activation"]]

    def embed(self, ids: Tensor, stack: str, embedding: nn.Embedding, learned: Any) -> Tensor:
        """(B, T) -> (B, T, D)."""
        s = self.d[stack]
        x = embedding(ids) * s["embedding_scale"]
        if s["position"] == D.LEARNED:
            return x + learned(torch.arange(ids.shape[1]))
        if s["position"]:
            return x + sinusoids(ids.shape[1], s["width"], s["position"]).to(x.dtype)
        return x

    def keep(self, stack: str, x: Tensor) -> Tensor:
        self.seen[stack].append(x.detach())
        return x

    def project(self, x: Tensor, own: Any, source: nn.Embedding, target: nn.Embedding) -> Tensor:
        """The logits, by an own or a tied matrix."""
        tied = self.d["output"]["tied"]
        if tied == D.TIED_OWN:
            return own(x)
        return F.linear(x, (target if tied == D.TIED_TARGET else source).weight)

    def forward(
        self, source: Tensor | None, target: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        """source (B, S), target (B, T), lengths (B) of the sources -> logits (B, T, V); a lone
        stack has one of the two, None for the other."""
        self.seen = {"encoder": [], "decoder": []}
        absent = future = None
        if source is not None:
            here = torch.arange(source.shape[1])[None, :]
            absent = (
                here >= lengths[:, None]
                if lengths is not None
                else torch.zeros_like(source, dtype=torch.bool)
            )
        if target is not None:
            future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.run(source, target, absent, future)

    def run(self, source: Tensor, target: Tensor, absent: Tensor, future: Tensor) -> Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def greedy(self, source: list[int], most: int, exclude: tuple[int, ...] = ()) -> list[int]:
        """The tutorial's loop: the whole prefix again at each step."""
        target = self.d["target"]
        made: list[int] = []
        while len(made) < most:
            ids = torch.tensor([[target["decoder_start"], *made]])
            row = self(torch.tensor([source]), ids)[0, -1].clone()
            row[list(exclude)] = -math.inf
            made.append(int(row.argmax()))
            if made[-1] in target["end"]:
                break
        return made


def _learned(descriptor: dict[str, Any], stack: str) -> nn.Embedding | None:
    s = descriptor[stack]
    return nn.Embedding(s["max_positions"], s["width"]) if s["position"] == D.LEARNED else None


class TorchTransformer(Base):
    """torch.nn.Transformer's own encoder and decoder."""

    def __init__(self, descriptor: dict[str, Any]) -> None:
        super().__init__(descriptor)
        if descriptor["model"]["stack"] != D.ENCODER_DECODER or any(
            k["position"] or k["score"] for k in descriptor["kinds"]
        ):
            raise ValueError("torch.nn.Transformer is an encoder-decoder with plain attention")
        encoder, decoder = descriptor["encoder"], descriptor["decoder"]
        self.src_embedding = nn.Embedding(descriptor["source"]["vocabulary"], encoder["width"])
        self.tgt_embedding = nn.Embedding(descriptor["target"]["vocabulary"], decoder["width"])
        self.src_positions, self.tgt_positions = (
            _learned(descriptor, "encoder"),
            _learned(descriptor, "decoder"),
        )
        with warnings.catch_warnings():  # about a fast path that is switched off below
            warnings.filterwarnings("ignore", message="enable_nested_tensor")
            whole = self._whole(descriptor)
        self.encoder, self.decoder = whole.encoder, whole.decoder
        self.encoder.enable_nested_tensor = False
        for stack in ("encoder", "decoder"):
            if not descriptor[stack]["final_norm"]:
                getattr(self, stack).norm = None
        output = descriptor["output"]
        self.output = (
            nn.Linear(
                decoder["width"], descriptor["target"]["vocabulary"], bias=bool(output["bias"])
            )
            if output["tied"] == D.TIED_OWN
            else None
        )

    def _whole(self, descriptor: dict[str, Any]) -> nn.Transformer:
        encoder, decoder, kind = (
            descriptor["encoder"],
            descriptor["decoder"],
            descriptor["kinds"][0],
        )
        return nn.Transformer(
            d_model=encoder["width"],
            nhead=kind["heads"],
            num_encoder_layers=len(encoder["layers"]) // 2,
            num_decoder_layers=len(decoder["layers"]) // 2,
            dim_feedforward=kind["hidden"],
            dropout=0.0,
            activation=self.activation,
            layer_norm_eps=kind["norm_eps"],
            batch_first=True,
            norm_first=kind["norm_place"] == D.BEFORE,
            bias=bool(kind["norm_biases"]),
        )

    def run(self, source: Tensor, target: Tensor, absent: Tensor, future: Tensor) -> Tensor:
        hooks = [
            layer.register_forward_hook(lambda module, given, out, name=name: self._hook(name, out))
            for name in ("encoder", "decoder")
            for layer in getattr(self, name).layers
        ]
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            memory = self.encoder(
                self.embed(source, "encoder", self.src_embedding, self.src_positions),
                src_key_padding_mask=absent,
            )
            x = self.decoder(
                self.embed(target, "decoder", self.tgt_embedding, self.tgt_positions),
                memory,
                tgt_mask=future,
                memory_key_padding_mask=absent,
            )
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for hook in hooks:
                hook.remove()
        return self.project(x, self.output, self.src_embedding, self.tgt_embedding)

    def _hook(self, name: str, out: Tensor) -> None:
        self.keep(name, out)


class Attention(nn.Module):
    """Section 3.2.2 with a matrix each for q, k, v and out, called by `names`; scores are
    multiplied by `scale`.

    position: what the encoding does to q, k, scores and values. additive: scores are v·tanh(q + k)
    (Bahdanau et al. 2015), v for each head.
    """

    def __init__(
        self,
        names: tuple[str, str, str, str],
        width: int,
        memory: int,
        inner: int,
        heads: int,
        scale: float,
        biases: int,
        position: P.Position | None = None,
        additive: bool = False,
    ) -> None:
        super().__init__()
        self.names, self.heads, self.scale = names, heads, scale
        shapes = ((width, inner, 1), (memory, inner, 2), (memory, inner, 4), (inner, width, 8))
        for name, (inputs, outputs, bit) in zip(names, shapes):
            setattr(self, name, nn.Linear(inputs, outputs, bias=bool(biases & bit)))
        self.position = position or P.Position()
        self.score = P.Additive(heads, inner // heads) if additive else None

    def forward(self, x: Tensor, memory: Tensor, masked: Tensor) -> Tensor:
        """x (B, T, D), memory (B, S, D), masked: broadcast to (B, H, T, S)."""
        q, k, v, out = (getattr(self, name) for name in self.names)

        def heads(y: Tensor) -> Tensor:
            return y.reshape(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

        turn = self.position.turn
        scores = (self.score or self.position.scores)(
            turn(heads(q(x))), turn(heads(k(memory)))
        ) * self.scale
        weights = self.position.add(scores).masked_fill(masked, -1e10).softmax(dim=-1)
        return out(
            self.position.mix(weights, heads(v(memory)))
            .transpose(1, 2)
            .reshape(x.shape[0], x.shape[1], -1)
        )


class _Feed(nn.Module):
    """Section 3.3, its two layers called by `names`."""

    def __init__(
        self, names: tuple[str, str], width: int, hidden: int, biases: int, activation: Any
    ) -> None:
        super().__init__()
        self.names, self.activation = names, activation
        setattr(self, names[0], nn.Linear(width, hidden, bias=bool(biases & 1)))
        setattr(self, names[1], nn.Linear(hidden, width, bias=bool(biases & 2)))

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, self.names[1])(self.activation(getattr(self, self.names[0])(x)))


class _Norm(nn.Module):
    """A layer norm one level down, as `addnorm1.ln`."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln(x)


class _Block(nn.Module):
    """One block. parts: (attention, its norm, cross-attention or None, its norm, feed-forward, its
    norm) by name."""

    def __init__(self, parts: dict[str, nn.Module], order: tuple[Any, ...], before: bool) -> None:
        super().__init__()
        for name, module in parts.items():
            self.add_module(name, module)
        self.order, self.before = order, before

    def _sub(self, x: Tensor, norm: str, f: Callable[[Tensor], Tensor]) -> Tensor:
        norm_ = getattr(self, norm)
        return x + f(norm_(x)) if self.before else norm_(x + f(x))

    def forward(
        self, x: Tensor, memory: Tensor | None, own_mask: Tensor, memory_mask: Tensor
    ) -> Tensor:
        attention, norm1, cross, norm2, feed, norm3 = self.order
        x = self._sub(x, norm1, lambda h: getattr(self, attention)(h, h, own_mask))
        if cross is not None:
            x = self._sub(x, norm2, lambda h: getattr(self, cross)(h, memory, memory_mask))
        return self._sub(x, norm3, getattr(self, feed))


class _Stack(nn.Module):
    """An encoder or decoder of the last two styles: children by name, and the blocks in order."""

    def __init__(
        self,
        children: dict[str, nn.Module | None],
        blocks: str,
        names: list[str],
        embedding: str,
        positions: str,
    ) -> None:
        super().__init__()
        for name, module in children.items():
            if module is not None:
                self.add_module(name, module)
        self.where, self.block_names, self.embedding_name, self.positions_name = (
            blocks,
            names,
            embedding,
            positions,
        )

    @property
    def blocks(self) -> list[nn.Module]:
        return [getattr(self, self.where).get_submodule(name) for name in self.block_names]


_SIDES = (("encoder", "source"), ("decoder", "target"))


class _Split(Base):
    """Attention with separate matrices, any stack: the last two styles differ in names only."""

    def __init__(self, descriptor: dict[str, Any], style: str, buckets: int) -> None:
        super().__init__(descriptor)
        separate = self.separate = style == "separate"
        for stack, side in _SIDES:
            if stack not in descriptor:
                continue
            s = descriptor[stack]
            kind = descriptor["kinds"][s["layers"][0]]
            position = (
                P.of_kind(kind, stack == "encoder", buckets)
                if kind["position"] == D.T5_BIAS
                else None
            )  # all layers share it
            names = [str(i) if separate else f"block{i}" for i in range(len(s["layers"]) // 2)]
            blocks = {
                name: self._block(kind, s, position or P.of_kind(kind, stack == "encoder"))
                for name in names
            }
            holder = nn.ModuleDict(blocks) if not separate else nn.ModuleList(blocks.values())
            embedding, positions, where = (
                ("tok_embedding", "pos_embedding", "layers")
                if separate
                else ("embedding", "positions", "blks")
            )
            children = {
                embedding: nn.Embedding(descriptor[side]["vocabulary"], s["width"]),
                positions: _learned(descriptor, stack),
                where: holder,
            }
            if s["final_norm"]:
                children["norm"] = nn.LayerNorm(s["width"], eps=s["final_norm_eps"])
            if stack == "decoder" and descriptor["output"]["tied"] == D.TIED_OWN:
                children["fc_out" if separate else "dense"] = nn.Linear(
                    s["width"],
                    descriptor[side]["vocabulary"],
                    bias=bool(descriptor["output"]["bias"]),
                )
            self.add_module(stack, _Stack(children, where, names, embedding, positions))

    def _block(self, kind: dict[str, Any], s: dict[str, Any], position: P.Position) -> _Block:
        width, eps, cross = s["width"], kind["norm_eps"], bool(kind["cross"])
        letters = (
            ("fc_q", "fc_k", "fc_v", "fc_o") if self.separate else ("W_q", "W_k", "W_v", "W_o")
        )
        own = Attention(
            letters,
            width,
            width,
            kind["heads"] * kind["head_width"],
            heads=kind["heads"],
            scale=kind["scale"],
            biases=kind["attention_biases"],
            position=position,
            additive=bool(kind["score"]),
        )
        feed = _Feed(
            ("fc_1", "fc_2") if self.separate else ("dense1", "dense2"),
            width,
            kind["hidden"],
            kind["ffn_biases"],
            self.activation,
        )
        if self.separate:
            order = (
                "self_attention",
                "self_attn_layer_norm",
                *(("encoder_attention", "enc_attn_layer_norm") if cross else (None, None)),
                "positionwise_feedforward",
                "ff_layer_norm",
            )
        elif cross:
            order = ("attention1", "addnorm1", "attention2", "addnorm2", "ffn", "addnorm3")
        else:
            order = ("attention", "addnorm1", None, None, "ffn", "addnorm2")
        norm = (
            (lambda: nn.LayerNorm(width, eps=eps)) if self.separate else (lambda: _Norm(width, eps))
        )
        parts = {order[0]: own, order[1]: norm(), order[4]: feed, order[5]: norm()}
        if cross:
            inner = kind["cross_heads"] * kind["cross_head_width"]
            parts[order[2]] = Attention(
                letters,
                width,
                s["cross_width"],
                inner,
                heads=kind["cross_heads"],
                scale=kind["cross_scale"],
                biases=kind["cross_biases"],
                additive=bool(kind["cross_score"]),
            )
            parts[order[3]] = norm()
        return _Block(parts, order, kind["norm_place"] == D.BEFORE)

    def run(
        self,
        source: Tensor | None,
        target: Tensor | None,
        absent: Tensor | None,
        future: Tensor | None,
    ) -> Tensor:
        keys = absent[:, None, None, :] if absent is not None else None
        memory = out = None
        for stack, ids, own_mask in (("encoder", source, keys), ("decoder", target, future)):
            if stack not in self.d:
                continue
            part = getattr(self, stack)
            out = self.embed(
                ids,
                stack,
                getattr(part, part.embedding_name),
                getattr(part, part.positions_name, None),
            )
            for block in part.blocks:
                out = self.keep(stack, block(out, memory, own_mask, keys))
            out = memory = part.norm(out) if self.d[stack]["final_norm"] else out
        if "decoder" not in self.d:
            return out
        own = getattr(self.decoder, "fc_out" if self.separate else "dense", None)
        return self.project(
            out,
            own,
            *(
                getattr(part, part.embedding_name) if part is not None else None
                for part in (getattr(self, "encoder", None), self.decoder)
            ),
        )


def build(descriptor: dict[str, Any], preset: str, buckets: int = 32) -> Base:
    """The module of a descriptor (with defaults) in one of the styles; ValueError for what the
    style does not have. buckets: of a T5 bias."""
    result: Base = (
        TorchTransformer(descriptor)
        if preset == "torch-transformer"
        else _Split(descriptor, preset, buckets)
    ).eval()
    return result
