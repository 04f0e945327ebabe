"""Sequence models with ids in and ids out, as converter.md describes them: SASRec (Kang and
McAuley 2018) with the names of its PyTorch code, and BERT4Rec (Sun et al. 2019). The modules here
are written from the papers' equations; the logits are theirs, and so are the best next items."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from conversions import convert_to, problems
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from places import told
from texts import ids_text

ITEMS, LONGEST, WIDTH, HEADS, LAYERS = 41, 15, 18, 3, 2
BEST = 5
TOLERANCE = 1e-5  # of the range of a position's logits


class PointWise(nn.Module):
    """Equation 4: two convolutions over one position."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(WIDTH, WIDTH, kernel_size=1)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(torch.relu(self.conv1(x.transpose(-1, -2)))).transpose(-1, -2)


class SASRec(nn.Module):
    """Section III: causal self-attention over items; an item's score is the product with its
    embedding. Item 0 and position 0 are padding."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.item_emb = nn.Embedding(ITEMS, WIDTH, padding_idx=0)
        self.pos_emb = nn.Embedding(LONGEST + 1, WIDTH, padding_idx=0)
        self.attention_layernorms = nn.ModuleList(nn.LayerNorm(WIDTH, 1e-8) for _ in range(LAYERS))
        self.attention_layers = nn.ModuleList(
            nn.MultiheadAttention(WIDTH, HEADS) for _ in range(LAYERS)
        )
        self.forward_layernorms = nn.ModuleList(nn.LayerNorm(WIDTH, 1e-8) for _ in range(LAYERS))
        self.forward_layers = nn.ModuleList(PointWise() for _ in range(LAYERS))
        self.last_layernorm = nn.LayerNorm(WIDTH, 1e-8)

    def forward(self, ids: Tensor) -> Tensor:
        count = ids.shape[1]
        x = self.item_emb(ids) * WIDTH**0.5 + self.pos_emb(torch.arange(1, count + 1))
        later = torch.ones(count, count, dtype=torch.bool).triu(1)
        for norm1, attention, norm2, feed_forward in zip(
            *(self.attention_layernorms, self.attention_layers),
            *(self.forward_layernorms, self.forward_layers),
        ):
            h = (norm1(x) if self.norm_first else x).transpose(0, 1)
            given = attention(h, h, h, attn_mask=later)[0].transpose(0, 1)
            x = x + given if self.norm_first else norm1(x + given)
            given = feed_forward(norm2(x) if self.norm_first else x)
            x = x + given if self.norm_first else norm2(x + given)
        return self.last_layernorm(x) @ self.item_emb.weight.T


class Block(nn.Module):
    """Equations 3 to 6 of BERT4Rec: norms behind the residual, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        share = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        x = self.norm1(x + self.out((share @ v).transpose(1, 2).flatten(2)))
        return self.norm2(x + self.outer(nn.functional.gelu(self.inner(x))))


class BERT4Rec(nn.Module):
    """Section 3: attention to both sides; equation 7 gives a masked item: softmax(GELU(h W + b) E^T
    + b). The mask is the last id."""

    def __init__(self) -> None:
        super().__init__()
        self.item = nn.Embedding(ITEMS, WIDTH)
        self.position = nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.dense = nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.zeros(ITEMS))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.item(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return nn.functional.gelu(self.dense(x)) @ self.item.weight.T + self.bias


SASREC = """preset = "torch-transformer"
stack = "decoder"
heads = 3
norm_place = "PLACE"
norm_eps = 1e-8
position = "learned"
position_offset = 1            # row 0 is padding
embedding_scale = "sqrt_width"
output = "target-embedding"

[target]
pad = 0

[names]
target.embedding = "item_emb.weight"
target.positions = "pos_emb.weight"
decoder.attention_norm = "attention_layernorms.{layer}.weight"
decoder.qkv = "attention_layers.{layer}.in_proj_weight"
decoder.attention_out = "attention_layers.{layer}.out_proj.weight"
decoder.ffn_norm = "forward_layernorms.{layer}.weight"
decoder.ffn_in = "forward_layers.{layer}.conv1.weight"
decoder.ffn_out = "forward_layers.{layer}.conv2.weight"
decoder.final_norm = "last_layernorm.weight"
"""
BERT4REC = f"""preset = "separate"
stack = "encoder"
heads = 3
score_scale = "sqrt_head_width"
activation = "gelu"
embedding_scale = "one"
output = "source-embedding"    # logits at each position, of the items' own matrix
head_activation = "gelu"

[source]
mask = {ITEMS - 1}

[names]
source.embedding = "item.weight"
source.positions = "position.weight"
encoder.q = "blocks.{{layer}}.query.weight"
encoder.k = "blocks.{{layer}}.key.weight"
encoder.v = "blocks.{{layer}}.value.weight"
encoder.attention_out = "blocks.{{layer}}.out.weight"
encoder.attention_norm = "blocks.{{layer}}.norm1.weight"
encoder.ffn_in = "blocks.{{layer}}.inner.weight"
encoder.ffn_out = "blocks.{{layer}}.outer.weight"
encoder.ffn_norm = "blocks.{{layer}}.norm2.weight"
head = "dense.weight"
output_bias = "bias"
"""


def converted(folder, module: nn.Module, description: str) -> Reference:
    """The file of a module whose every weight is drawn, proved against its own outputs."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        for name, parameter in module.named_parameters():
            if name in ("item_emb.weight", "pos_emb.weight"):
                parameter[0] = 0
        ids = torch.from_numpy(drawn(LONGEST)[None])
        np.savez(folder / "expect.npz", ids=ids.numpy(), logits=module.eval()(ids).numpy())
    torch.save(module.state_dict(), folder / "m.pt")
    (folder / "m.toml").write_text(description)
    flags = ("--expect", folder / "expect.npz")
    return Reference(PhasorFile(convert_to(folder / "m.pt", folder / "m.phasor", *flags)))


def drawn(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(1, ITEMS - 1, count)


def logits_of(module: nn.Module, ids: np.ndarray) -> np.ndarray:
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        return module.double()(torch.from_numpy(ids)[None])[0].numpy()


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return (np.abs(ours - theirs).max(axis=1) / np.ptp(theirs, axis=1)).max() <= TOLERANCE


def said(phasor, *words: object) -> str:
    done = told(phasor, *words, timeout=60)
    return done


@pytest.mark.parametrize("place", ["before", "after"])
def test_sasrec(place, tmp_path, phasor):
    module = SASRec(place == "before")
    model = converted(tmp_path, module, SASREC.replace("PLACE", place))
    for count in (1, 7, LONGEST):
        ids = drawn(count)
        want = logits_of(module, ids)
        assert same(model.decode(ids).logits, want)
    ids = drawn(LONGEST - 1)
    best = np.argsort(-logits_of(module, ids)[-1, 1:])[:BEST] + 1
    given = ids_text(ids)
    said_ids = said(
        *(phasor, "run", tmp_path / "m.phasor", "--ids", given, "-n", 1, "--print-ids"),
        *("--suppress", 0, "--beam", BEST, "--n-best", BEST, "--quiet"),
    )
    assert [int(line.split("\t")[1]) for line in said_ids.splitlines()] == best.tolist()


def test_bert4rec(tmp_path, phasor):
    module = BERT4Rec()
    model = converted(tmp_path, module, BERT4REC)
    for count in (1, 7, LONGEST):
        ids = drawn(count)
        assert same(model.output(model.encode(ids)), logits_of(module, ids))
    ids = np.append(drawn(9), ITEMS - 1)
    best = np.argsort(-logits_of(module, ids)[-1])[:BEST]
    lines = said(phasor, "fill", tmp_path / "m.phasor", "--ids", ids_text(ids))
    assert [int(line.split("\t")[1]) for line in lines.split("\n\n")[0].splitlines()] == list(best)


@pytest.mark.parametrize(
    "old, new, line",
    [
        ('output = "source-embedding"', 'output = "own"', 'say output = "source-embedding"'),
        ('head = "dense.weight"', "", "head_activation: gelu, and names.head is missing"),
        ('head_activation = "gelu"', 'head_activation = "sin"', "head_activation: 'sin', expected"),
        ('head = "dense.weight"', 'head = "dens.weight"', "dens.weight"),
    ],
)
def test_a_head_that_is_described_wrong(old, new, line, tmp_path, capsys):
    assert old in BERT4REC
    torch.save(BERT4Rec().state_dict(), tmp_path / "m.pt")
    (tmp_path / "m.toml").write_text(BERT4REC.replace(old, new))
    assert line in problems(tmp_path / "m.pt", tmp_path / "m.phasor", capsys)
