"""The converter and the float64 reference against PyTorch: three presets, odd sizes, both norm
places, padding, tied and own output."""

import numpy as np
import pytest
import torch

from conversions import convert_to
from phasor.format.file import PhasorFile
from phasor.reference import torch_models
from phasor.reference.forward import Reference
from presets import Config, make_module, write_checkpoint

CONFIGS = [
    Config("torch-transformer"),
    Config(
        "torch-transformer",
        width=48,
        heads=1,
        hidden=37,
        layers=(3, 1),
        place="before",
        output="target-embedding",
    ),
    Config(
        "torch-transformer",
        width=36,
        heads=3,
        hidden=20,
        layers=(1, 2),
        position="learned",
        biases=False,
        place="before",
    ),
    Config("torch-transformer", final=False, position="sinusoidal-halves", activation="gelu"),
    Config("torch-transformer", width=33, heads=3, hidden=17, position="learned", layers=(1, 1)),
    Config("separate", position="learned"),
    Config(
        "separate",
        width=60,
        heads=3,
        hidden=75,
        layers=(3, 3),
        position="learned",
        score="sqrt_heads",
        vocabularies=(50, 50),
    ),
    Config(
        "separate",
        width=20,
        heads=1,
        hidden=31,
        place="before",
        layers=(1, 3),
        position="sinusoidal",
        output="target-embedding",
    ),
    Config("bias-free", width=100, heads=5, hidden=64),
    Config("bias-free", width=100, heads=5, hidden=64, place="before", layers=(1, 1)),
    Config("bias-free", width=24, heads=1, hidden=15, layers=(3, 2), vocabularies=(17, 16)),
]


BOUND = 1e-10


def to_float64(module: torch.nn.Module, d: dict) -> torch.nn.Module:
    """The module in double, with the scales and the epsilon that the file has: f32, so 2⁻²⁵ from
    those of the module."""
    module = module.double()
    module.d = d
    for part in module.modules():
        if isinstance(part, torch.nn.LayerNorm):
            part.eps = d["kinds"][0]["norm_eps"]
        elif isinstance(part, torch_models.Attention):
            part.scale = d["kinds"][0]["scale"]
        elif isinstance(
            part, torch.nn.MultiheadAttention
        ):  # divides by √w itself: what is left is put on q
            ratio = d["kinds"][0]["scale"] * np.sqrt(part.head_dim)
            with torch.no_grad():
                part.in_proj_weight[: part.embed_dim] *= ratio
                if part.in_proj_bias is not None:
                    part.in_proj_bias[: part.embed_dim] *= ratio
    return module


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda c: c.name)
def converted(request, tmp_path_factory):
    """(config, module in float64, reference)"""
    folder = tmp_path_factory.mktemp("model")
    module, path = write_checkpoint(request.param, folder)
    output = folder / "model.phasor"
    convert_to(path, output)
    file = PhasorFile(output)
    file.check()
    reference = Reference(file)
    return request.param, to_float64(module, reference.d), reference


def test_descriptor_is_what_was_built(converted):
    config, _, reference = converted
    ours, expected = reference.d, config.descriptor()
    for scope in ("source", "target", "encoder", "decoder", "output"):
        assert {k: v for k, v in ours[scope].items() if not isinstance(v, float)} == {
            k: v for k, v in expected[scope].items() if not isinstance(v, float)
        }
    for mine, theirs in zip(ours["kinds"], expected["kinds"], strict=True):
        assert mine["scale"] == pytest.approx(theirs["scale"], rel=1e-7)
        assert {k: v for k, v in mine.items() if not isinstance(v, float)} == {
            k: v for k, v in theirs.items() if not isinstance(v, float)
        }


@pytest.mark.parametrize("lengths", [(1, 1), (7, 5), (40, 40)], ids=str)
def test_every_layer_and_the_logits(converted, lengths):
    config, module, reference = converted
    rng = np.random.default_rng(3)
    source = rng.integers(0, config.vocabularies[0], lengths[0])
    target = rng.integers(0, config.vocabularies[1], lengths[1])
    with torch.no_grad():
        logits = module(torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
    encoded = reference.encode(source)
    decoded = reference.decode(target, encoded.output)
    for name, trace in (("encoder", encoded), ("decoder", decoded)):
        assert len(trace.residuals) == len(module.seen[name])
        for ours, theirs in zip(trace.residuals, module.seen[name]):
            assert relative(ours, theirs[0].numpy()) < BOUND
    assert relative(decoded.logits, logits) < BOUND


def test_padding_in_the_batch_changes_nothing(converted):
    config, module, reference = converted
    rng = np.random.default_rng(4)
    lengths = [3, 11, 1]
    source = np.zeros((3, 11), dtype=np.int64)
    for row, n in enumerate(lengths):
        source[row, :n] = rng.integers(1, config.vocabularies[0], n)
    target = rng.integers(0, config.vocabularies[1], (3, 6))
    with torch.no_grad():
        logits = module(
            torch.from_numpy(source), torch.from_numpy(target), torch.tensor(lengths)
        ).numpy()
    for row, n in enumerate(lengths):
        ours = reference.decode(target[row], reference.encode(source[row, :n]).output).logits
        assert relative(ours, logits[row]) < BOUND


def test_greedy_is_the_plain_loop(converted):
    config, module, reference = converted
    rng = np.random.default_rng(5)
    for n in (1, 4, 9):
        source = rng.integers(0, config.vocabularies[0], n).tolist()
        assert reference.greedy(source, 12) == module.greedy(source, 12)


def test_modules_have_no_parameter_at_its_default():
    for config in CONFIGS:
        for name, parameter in make_module(config).named_parameters():
            assert parameter.abs().max() > 0 and not torch.equal(
                parameter, torch.ones_like(parameter)
            ), name
