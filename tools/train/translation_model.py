"""The Transformer that translation.py trains ("Attention is all you need", Vaswani et al., 2017),
its loss, and its greedy output."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from train.translation_data import BOS, EOS, PAD, Batch, Recipe, Segmenters, pad


def sinusoids(length: int, d_model: int) -> Tensor:
    """The paper's table: sine in even columns, cosine in odd ones, base 10000."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(
        torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model)
    )
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.float()


class ByteDropout(nn.Module):
    """Dropout whose mask costs one random byte an element.

    torch draws its CPU masks one number at a time in one thread, a quarter of a training step;
    eight bytes of each number serve as well. The rate is rounded to a multiple of 1/256.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.threshold = round(rate * 256)

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of the elements in training and scale up the others."""
        if not self.training or self.threshold == 0:
            return x
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * keep.to(x.dtype).mul_(256 / (256 - self.threshold))


class Translator(nn.Module):
    """Encoder-decoder Transformer of torch's own layers; the output projection is the target
    embedding."""

    def __init__(self, source_vocab: int, target_vocab: int, recipe: Recipe) -> None:
        super().__init__()
        d = recipe.d_model
        common = {
            "d_model": d,
            "nhead": recipe.heads,
            "dim_feedforward": recipe.ffn,
            "dropout": 0.0,
            "activation": "relu",
            "batch_first": True,
            "norm_first": recipe.norm_first,
            "layer_norm_eps": 1e-5,
        }
        final = (lambda: nn.LayerNorm(d, eps=1e-5)) if recipe.norm_first else (lambda: None)
        self.src_embedding = nn.Embedding(source_vocab, d, padding_idx=PAD)
        self.tgt_embedding = nn.Embedding(target_vocab, d, padding_idx=PAD)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**common),
            recipe.encoder_layers,
            final(),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**common), recipe.decoder_layers, final()
        )
        self.dropout = ByteDropout(recipe.dropout)
        self.scale = math.sqrt(d)
        self.register_buffer("positions", sinusoids(recipe.max_length, d), persistent=False)
        self._initialize(recipe)

    def _initialize(self, recipe: Recipe) -> None:
        for name, parameter in self.named_parameters():
            if "embedding" in name:
                nn.init.normal_(parameter, std=recipe.d_model**-0.5)
                with torch.no_grad():
                    parameter[PAD].zero_()
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for layer in (*self.encoder.layers, *self.decoder.layers):
            layer.dropout = ByteDropout(recipe.activation_dropout)
            for name in ("dropout1", "dropout2", "dropout3"):
                if hasattr(layer, name):
                    setattr(layer, name, ByteDropout(recipe.dropout))

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Token embedding times the root of the width, plus positions."""
        return self.dropout(embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The memory and its padding mask (True where there is nothing to attend to)."""
        mask = source == PAD
        return self.encoder(self.embed(self.src_embedding, source), src_key_padding_mask=mask), mask

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Hidden states of the target, each position blind to those after it."""
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.decoder(
            self.embed(self.tgt_embedding, target),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,
            memory_key_padding_mask=memory_mask,
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the target vocabulary."""
        return F.linear(hidden, self.tgt_embedding.weight)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Logits for every target position."""
        return self.logits(self.decode(target_in, *self.encode(source)))


def batch_loss(model: Translator, batch: Batch, smoothing: float) -> Tensor:
    """Mean label-smoothed cross-entropy over the positions that are not padding."""
    real = batch.target_out != PAD
    hidden = model.decode(batch.target_in, *model.encode(batch.source))[real]
    return F.cross_entropy(
        model.logits(hidden).float(), batch.target_out[real], label_smoothing=smoothing
    )


def output_limit(source_pieces: int, recipe: Recipe) -> int:
    """The most pieces to produce for a source of so many: a stop for a model that repeats
    itself."""
    return min(recipe.max_length - 1, 3 * source_pieces + 10)


@torch.no_grad()
def greedy(
    model: Translator,
    segmenters: Segmenters,
    sentences: Sequence[str],
    recipe: Recipe,
    batch_size: int = 64,
) -> list[str]:
    """The likeliest next piece at each step, until </s>."""
    model.eval()
    rows = [segmenters.source.encode(s)[: recipe.max_length - 1] for s in sentences]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    output = [""] * len(rows)
    for start in range(0, len(order), batch_size):
        chunk = order[start : start + batch_size]
        source = pad([[*rows[i], EOS] for i in chunk])
        memory, mask = model.encode(source)
        limits = torch.tensor([output_limit(len(rows[i]), recipe) for i in chunk])
        ids = torch.full((len(chunk), 1), BOS)
        done = torch.zeros(len(chunk), dtype=torch.bool)
        for produced in range(1, int(limits.max()) + 1):
            scores = model.logits(model.decode(ids, memory, mask)[:, -1])
            scores[:, [PAD, BOS]] = -math.inf
            best = scores.argmax(-1).masked_fill(done, EOS)
            ids = torch.cat([ids, best[:, None]], 1)
            done |= (best == EOS) | (limits <= produced)
            if bool(done.all()):
                break
        for i, row in zip(chunk, ids[:, 1:].tolist(), strict=True):
            output[i] = segmenters.target.decode(row[: row.index(EOS)] if EOS in row else row)
    return output
