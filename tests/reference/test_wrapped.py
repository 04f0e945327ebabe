"""What PyTorch itself puts around a state_dict, and its floats of 8 bits: DistributedDataParallel,
torch.compile, an averaged model, a trainer's file with an optimizer's state."""

from __future__ import annotations

import argparse
import collections
import datetime
import pathlib

import numpy as np
import pytest
import torch
import torch.nn.utils.prune
from safetensors.torch import save_file

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError
from phasor.format import tensors as R
from phasor.sources.find import read_source

TOML = 'preset = "torch-transformer"\nstack = "encoder"\nheads = 2\nposition = "none"\n'
TOML += 'embedding_scale = "one"\n'


class Net(torch.nn.Module):
    """An embedding and torch.nn.TransformerEncoder, with the names of the preset."""

    def __init__(self) -> None:
        super().__init__()
        self.src_embedding = torch.nn.Embedding(20, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(16), False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.src_embedding(ids))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(3)
    return Net()


def weights(path, content=None) -> list[bytes]:
    if content is not None:
        torch.save(content, path)
    described = path.with_name("d.toml")
    described.write_text(TOML)
    model, _ = read_source(path, describe=described)
    assert model.problems() == []
    return [model.weights(slot).tobytes() for slot in R.slots(model.descriptor)]


def distributed(net: Net, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        return torch.nn.parallel.DistributedDataParallel(net).state_dict()
    finally:
        torch.distributed.destroy_process_group()


def trained(net: Net, tmp_path):
    """As Lightning's ModelCheckpoint writes it, with the state of an optimizer that has stepped."""
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    net(torch.arange(5)[None]).sum().backward()
    optimizer.step()
    schedule.step()
    return {
        "epoch": 1,
        "global_step": 1,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {f"model.{name}": value for name, value in net.state_dict().items()},
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.ones(())}},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [schedule.state_dict()],
        "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 0.1},
    }


WRAPPED = {
    "DistributedDataParallel": distributed,
    "torch.compile": lambda net, _: torch.compile(net).state_dict(),
    "AveragedModel": lambda net, _: torch.optim.swa_utils.AveragedModel(net).state_dict(),
    "Lightning's file": trained,
    "own trainer": lambda net, _: {
        "model": net.state_dict(),
        "optimizer": torch.optim.AdamW(net.parameters()).state_dict(),
        "ema": {name: value + 1 for name, value in net.state_dict().items()},
        "rng_state": torch.get_rng_state(),
        "step": 5,
    },
    "objects beside the weights": lambda net, _: {
        "model": net.state_dict(),
        "args": argparse.Namespace(lr=1),
        "best": np.float64(0.1),
        "history": np.arange(4.0),
        "device": torch.device("cpu"),
        "config": pathlib.PurePosixPath("a"),
        "when": datetime.datetime(2024, 1, 1),
        "loss": collections.defaultdict(list),
        "module": torch.nn.Identity(),
    },
    "DeepSpeed": lambda net, _: {
        "module": net.state_dict(),
        "buffer_names": [],
        "optimizer": None,
        "param_shapes": [
            collections.OrderedDict((name, v.shape) for name, v in net.state_dict().items())
        ],
        "sparse_tensor_module_names": set(),
        "ds_config": {"train_batch_size": 8},
    },
    "parameters with attributes": lambda net, _: attributed(net),
}


def attributed(net: Net) -> dict[str, torch.Tensor]:
    """Of a Parameter and of a plain tensor, which PyTorch writes in two ways."""
    out = {**dict(net.named_parameters()), "encoder.norm.bias": net.encoder.norm.bias.detach()}
    for value in out.values():
        value.no_weight_decay = True
    return out


@pytest.mark.parametrize("zipped", [True, False])
def test_a_whole_module_says_what_to_save(zipped, net, tmp_path):
    """In both formats; and what the line says to save is read."""
    path = tmp_path / "m.pt"
    for content in (net, {"model": net, "epoch": 3}):
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(PhasorError, match=r"Net.* torch.save\(model.state_dict\(\), FILE\)"):
            open_checkpoint(path)
    assert weights(path, net.state_dict())


def test_tensors_that_are_not_plain_are_refused(net, tmp_path):
    sparse = torch.eye(3).to_sparse()
    packed = torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)
    for odd, says in ((sparse, "_rebuild_sparse_tensor"), (packed, "torch.QInt8Storage")):
        torch.save({**net.state_dict(), "odd": odd}, tmp_path / "m.pt")
        with pytest.raises(PhasorError, match=says):
            open_checkpoint(tmp_path / "m.pt")


def parametrized(how: str) -> torch.nn.Linear:
    torch.manual_seed(5)
    layer, utils = torch.nn.Linear(6, 4), torch.nn.utils
    if how == "weight_norm":
        return utils.weight_norm(layer)
    if how == "weight_norm of the whole":
        return utils.weight_norm(layer, dim=None)
    if how == "weight_norm of columns":
        return utils.parametrizations.weight_norm(layer, dim=1)
    if how == "parametrizations":
        return utils.parametrizations.weight_norm(layer)
    if how == "pruning":
        utils.prune.l1_unstructured(layer, "weight", 0.4)
        return layer
    if how == "spectral_norm":
        return utils.spectral_norm(layer)
    return utils.parametrizations.orthogonal(layer)


@pytest.mark.parametrize(
    "how",
    [
        *("weight_norm", "weight_norm of the whole", "weight_norm of columns"),
        *("parametrizations", "pruning"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated:FutureWarning")
def test_factors(how, tmp_path):
    layer = parametrized(how)
    with torch.no_grad():
        for name, value in layer.named_parameters():
            if name.endswith(("_g", "original0")):
                value.mul_(1.5)
        layer(torch.ones(1, 6))  # makes the old form's weight anew
    state = {f"a.{name}": value for name, value in layer.state_dict().items()}
    torch.save(state, tmp_path / "m.pt")
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    assert set(checkpoint) == {"a.weight", "a.bias"}
    np.testing.assert_allclose(
        checkpoint.load("a.weight"), layer.weight.detach().numpy(), rtol=3e-7, atol=0
    )


@pytest.mark.parametrize("how", ["spectral_norm", "orthogonal"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_factors_that_are_not_built(how, tmp_path):
    """Refused where the weight is asked for; after the call that the line names it is read."""
    layer = parametrized(how)
    layer(torch.ones(1, 6))
    state = {f"a.{name}": value for name, value in layer.state_dict().items()}
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(PhasorError, match="a.weight: is made by .* before you save") as error:
        open_checkpoint(tmp_path / "m.pt").load("a.weight")
    if how == "spectral_norm":
        assert "torch.nn.utils.remove_spectral_norm(module)" in str(error.value)
        torch.nn.utils.remove_spectral_norm(layer)
    else:
        assert "utils.parametrize.remove_parametrizations(module, name)" in str(error.value)
        torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    torch.save(layer.state_dict(), tmp_path / "m.pt")
    kept = open_checkpoint(tmp_path / "m.pt").load("weight")
    np.testing.assert_array_equal(kept, layer.weight.detach().numpy())


def test_complex_and_expanded_buffers(net, tmp_path):
    buffers = {"turns": torch.ones(4, dtype=torch.complex64), "mask": torch.ones(1).expand(64, 64)}
    torch.save({**net.state_dict(), **buffers}, tmp_path / "m.pt")
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    assert checkpoint.tensors["turns"].load().tolist() == [1] * 4
    with pytest.raises(PhasorError, match="contiguous"):
        checkpoint.load("mask")
    torch.save({"mask": buffers["mask"].contiguous()}, tmp_path / "m.pt")
    assert open_checkpoint(tmp_path / "m.pt").load("mask").tolist() == [[1] * 64] * 64


@pytest.mark.parametrize("name", WRAPPED)
def test_the_same_model(name, net, tmp_path):
    content = WRAPPED[name](net, tmp_path)
    assert weights(tmp_path / "m.ckpt", content) == weights(tmp_path / "p.pt", net.state_dict())


def test_npz(net, tmp_path):
    np.savez(tmp_path / "m.npz", **{name: t.numpy() for name, t in net.state_dict().items()})
    assert weights(tmp_path / "m.npz") == weights(tmp_path / "p.pt", net.state_dict())


TYPES = [
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_floats_of_every_width(kind, tmp_path):
    """Every code of 8 bits; of wider types, normal, subnormal and large values. Turned over too:
    torch.save keeps the strides."""
    if kind.itemsize == 1:
        tensor = torch.arange(256, dtype=torch.uint8).view(kind).reshape(32, 8)
    else:
        generator = torch.Generator().manual_seed(1)
        tensor = torch.randn(32, 8, generator=generator, dtype=torch.float64)
        tensor = (tensor * torch.logspace(-8, 4, 8, dtype=torch.float64)).to(kind)
    wanted = tensor.to(torch.float64 if kind == torch.float64 else torch.float32).numpy()
    save_file({"w": tensor}, tmp_path / "m.safetensors")
    torch.save({"w": tensor, "t": tensor.t()}, tmp_path / "m.pt")
    given, saved = open_checkpoint(tmp_path / "m.safetensors"), open_checkpoint(tmp_path / "m.pt")
    for value in (given.load("w"), saved.load("w"), saved.load("t").T):
        assert value.dtype == wanted.dtype and np.array_equal(value, wanted, equal_nan=True)
        sign = np.signbit(np.where(np.isnan(value), 1, value))
        np.testing.assert_array_equal(sign, np.signbit(np.where(np.isnan(wanted), 1, wanted)))


@pytest.mark.parametrize(
    "kind",
    [torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.int64, torch.int8, torch.bool],
    ids=str,
)
def test_integers(kind, tmp_path):
    tensor = torch.tensor([0, 1, 1, 0, 1], dtype=torch.int64).to(kind)
    save_file({"w": tensor}, tmp_path / "m.safetensors")
    torch.save({"w": tensor}, tmp_path / "m.pt")
    for name in ("m.safetensors", "m.pt"):
        np.testing.assert_array_equal(
            open_checkpoint(tmp_path / name).tensors["w"].load(), tensor.numpy()
        )
