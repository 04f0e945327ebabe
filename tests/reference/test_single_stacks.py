"""An encoder alone and a decoder alone, from torch.nn.TransformerEncoder: the converter, the
reference, and phasor's replay."""

import json
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

from conversions import convert_to
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from phasor.reference.torch_models import sinusoids

WIDTH, VOCABULARY, LAYERS = 24, 37, 2


class Stack(nn.Module):
    """Embedding, sinusoids, nn.TransformerEncoder; with a mask and an output matrix it is a
    language model."""

    def __init__(self, place: str, lone_decoder: bool) -> None:
        super().__init__()
        self.src_embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 3, 29, 0.0, batch_first=True, norm_first=place == "before", activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(
            layer, LAYERS, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        self.output = nn.Linear(WIDTH, VOCABULARY) if lone_decoder else None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.src_embedding(ids) * WIDTH**0.5 + sinusoids(ids.shape[1], WIDTH).to(
            self.src_embedding.weight.dtype
        )
        mask = (
            torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
            if self.output is not None
            else None
        )
        x = self.encoder(x, mask=mask)
        return x if self.output is None else self.output(x)


@pytest.fixture(
    scope="module",
    params=[
        ("encoder", "before"),
        ("encoder", "after"),
        ("decoder", "before"),
        ("decoder", "after"),
    ],
    ids=str,
)
def converted(request, tmp_path_factory):
    """(stack, module in float64, path of the file)"""
    stack, place = request.param
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(1)
    module = Stack(place, stack == "decoder").eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    torch.save(module.state_dict(), folder / "m.pt")
    rename = '[rename]\n"encoder." = "decoder."\n"src_" = "tgt_"\n' if stack == "decoder" else ""
    side = "target" if stack == "decoder" else "source"
    (folder / "m.toml").write_text(
        f'preset = "torch-transformer"\nstack = "{stack}"\nheads = 3\nnorm_place = '
        f'"{place}"\nposition = "sinusoidal"\n'
        f'embedding_scale = "sqrt_width"\nactivation = "gelu"\n[{side}]\nstart = 2\nend = '
        f"[3]\n{rename}"
    )
    convert_to(folder / "m.pt", folder / "m.phasor")
    return stack, module.double(), folder / "m.phasor"


@pytest.mark.parametrize("count", [1, 13])
def test_against_pytorch(converted, count):
    stack, module, path = converted
    model = Reference(PhasorFile(path))
    assert model.d["model"]["stack"] == (D.ENCODER if stack == "encoder" else D.DECODER)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, count)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        want = module(torch.from_numpy(ids)[None])[0].numpy()
    got = model.encode(ids).output if stack == "encoder" else model.decode(ids).logits
    assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max()


def test_phasor_replays_the_vectors(converted, phasor):
    done = subprocess.run(
        [phasor, "verify", "--json", converted[2]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
