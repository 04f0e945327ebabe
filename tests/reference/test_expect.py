"""--expect with PyTorch as the user's model: torch.nn.Transformer inside of a class, in float32."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from described import RIGHT, right

from phasor import convert
from phasor.errors import PhasorError
from phasor.format.layout import F32

WIDTH = 16


class Attention(torch.nn.MultiheadAttention):
    """The same attention whose scores are multiplied once more."""

    times = 1.0

    def forward(self, query: torch.Tensor, *others: torch.Tensor, **how: object) -> tuple:
        heads, width = self.num_heads, self.embed_dim // self.num_heads
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            torch.nn.functional.linear(x, w, b).unflatten(-1, (heads, width)).transpose(1, 2)
            for x, w, b in zip((query, *others), weights, biases)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=how["attn_mask"], scale=self.times / math.sqrt(width)
        )
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), None


class Translator(torch.nn.Module):
    """As tutorials write it. how: of torch.nn.Transformer; the rest is what a description can get
    wrong."""

    def __init__(
        self,
        base: float = 10000.0,
        heads: int = 2,
        offset: int = 0,
        masked: bool = True,
        tied: str = "",
        times: float = 0.0,
        **how: object,
    ) -> None:
        super().__init__()
        self.masked = masked
        self.src_tok_emb = torch.nn.Embedding(33, WIDTH)
        self.tgt_tok_emb = torch.nn.Embedding(33, WIDTH)
        self.transformer = torch.nn.Transformer(
            WIDTH, heads, 2, 2, 24, dropout=0.0, batch_first=True, **how
        )
        if times:
            for module in self.modules():
                if isinstance(module, torch.nn.MultiheadAttention):
                    module.__class__, module.times = Attention, times
        self.generator = torch.nn.Linear(WIDTH, 33)
        if tied:
            self.generator.weight = getattr(self, tied).weight
        rates = base ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = (offset + torch.arange(20))[:, None] * rates
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(20, WIDTH)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.src_tok_emb(source) * math.sqrt(WIDTH) + self.table[: source.shape[1]]
        y = self.tgt_tok_emb(target) * math.sqrt(WIDTH) + self.table[: target.shape[1]]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.generator(self.transformer(x, y, tgt_mask=mask if self.masked else None))


def converted(folder: Path, model: torch.nn.Module, description: str = RIGHT) -> None:
    """What a user does who has this model: three lines save what it gives, here with the hidden
    states of the decoder, and the description says what it is."""
    weights = model.state_dict()
    if "-embedding" in description:
        del weights["generator.weight"]
    torch.save(weights, folder / "m.pt")
    (folder / "m.toml").write_text(description)
    hidden = []
    for layer in model.transformer.decoder.layers:
        if not hidden:
            layer.register_forward_pre_hook(lambda _, given: hidden.append(given[0]))
        layer.register_forward_hook(lambda _, given, output: hidden.append(output))
    ids, target = (
        torch.tensor([[4, 9, 3, 30, 7], [1, 2, 2, 8, 0]]),
        torch.tensor([[1, 5, 6, 32]] * 2),
    )
    output = model.eval()(ids, target)
    np.savez(
        folder / "expect.npz",
        ids=ids,
        target=target,
        logits=output.detach(),
        hidden=torch.stack(hidden[: 1 + 2]).detach(),
    )
    read, sections = convert.read_source(folder / "m.pt", None, [])
    convert.convert(
        read, folder / "m.phasor", F32, sections, None, quiet=True, expect=folder / "expect.npz"
    )


TIED = right('output = "target-embedding"')


@pytest.mark.parametrize(
    "description, how",
    [(RIGHT, {}), (RIGHT, {"times": 1.0}), (TIED, {"tied": "tgt_tok_emb"})],
    ids=str,
)
def test_the_model_that_was_described(tmp_path, description, how):
    torch.manual_seed(3)
    converted(tmp_path, Translator(**how), description)
    assert (tmp_path / "m.phasor").is_file()


# What the user's model is, against what the description says; the hidden states differ from there.
OTHERS = {
    "scale": ({"times": 2.0}, "from layer 0 on"),
    "norm place": ({"norm_first": True}, "from layer 0 on"),
    "offset": ({"offset": 1}, "from the embedding on"),
    "heads": ({"heads": 4}, "from layer 0 on"),
    "mask": ({"masked": False}, "from layer 0 on"),
    "tie": ({"tied": "src_tok_emb"}, "in the last layer or behind it"),
    "activation": ({"activation": "gelu"}, "from layer 0 on"),
    "theta": ({"base": 5000.0}, "from the embedding on"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_model_under_the_same_names(tmp_path, name):
    """Each of the eight ways in which a description can be another model."""
    how, where = OTHERS[name]
    torch.manual_seed(3)
    with pytest.raises(PhasorError) as told:
        converted(tmp_path, Translator(**how), TIED if name == "tie" else RIGHT)
    line = str(told.value)
    assert f"{tmp_path / 'expect.npz'}: input 0, row 0: the model that was described gives" in line
    assert line.endswith(f"; the hidden states differ {where}"), line
    assert not (tmp_path / "m.phasor").exists()
