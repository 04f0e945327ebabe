"""--expect with PyTorch as the user's model: torch.nn.Transformer inside of a class, in float32."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from phasor import convert
from phasor.errors import PhasorError
from phasor.format.layout import F32

RIGHT = """\
preset = "torch-transformer"
heads = 2
position = "sinusoidal"
embedding_scale = "sqrt_width"
max_positions = 20
[target]
start = 1
[rename]
"transformer." = ""
"src_tok_emb." = "src_embedding."
"tgt_tok_emb." = "tgt_embedding."
"generator." = "output."
"""
WIDTH = 16


class Translator(torch.nn.Module):
    """As tutorials write it; activation, norm_first, heads: of torch.nn.Transformer."""

    def __init__(self, base: float = 10000.0, heads: int = 2, **how: object) -> None:
        super().__init__()
        self.src_tok_emb = torch.nn.Embedding(31, WIDTH)
        self.tgt_tok_emb = torch.nn.Embedding(33, WIDTH)
        self.transformer = torch.nn.Transformer(
            WIDTH, heads, 2, 2, 24, dropout=0.0, batch_first=True, **how
        )
        self.generator = torch.nn.Linear(WIDTH, 33)
        rates = base ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.arange(20)[:, None] * rates
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(20, WIDTH)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.src_tok_emb(source) * math.sqrt(WIDTH) + self.table[: source.shape[1]]
        y = self.tgt_tok_emb(target) * math.sqrt(WIDTH) + self.table[: target.shape[1]]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.generator(self.transformer(x, y, tgt_mask=mask))


def converted(folder: Path, model: torch.nn.Module) -> None:
    torch.save(model.state_dict(), folder / "m.pt")
    (folder / "m.toml").write_text(RIGHT)
    ids, target = (
        torch.tensor([[4, 9, 3, 30, 7], [1, 2, 2, 8, 0]]),
        torch.tensor([[1, 5, 6, 32]] * 2),
    )
    output = model.eval()(ids, target)
    np.savez(folder / "expect.npz", ids=ids, target=target, logits=output.detach())
    read, sections = convert.read_source(folder / "m.pt", None, [])
    convert.convert(
        read, folder / "m.phasor", F32, sections, None, quiet=True, expect=folder / "expect.npz"
    )


def test_the_model_that_was_described(tmp_path):
    torch.manual_seed(3)
    converted(tmp_path, Translator())
    assert (tmp_path / "m.phasor").is_file()


@pytest.mark.parametrize(
    "how", [{"activation": "gelu"}, {"norm_first": True}, {"heads": 4}, {"base": 5000.0}], ids=str
)
def test_another_model_under_the_same_names(tmp_path, how):
    torch.manual_seed(3)
    with pytest.raises(PhasorError, match="the model that was described gives something else"):
        converted(tmp_path, Translator(**how))
    assert not (tmp_path / "m.phasor").exists()
