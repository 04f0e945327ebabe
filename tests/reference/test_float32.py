"""phasor itself against PyTorch in float32, for the three presets: logits within 1e-4 of the range,
and the same greedy tokens."""

import subprocess

import numpy as np
import pytest
import torch

from conversions import convert_to
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from presets import Config, write_checkpoint
from texts import ids_text

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
    Config(
        "separate",
        width=60,
        heads=3,
        hidden=75,
        layers=(3, 3),
        position="learned",
        score="sqrt_heads",
    ),
    Config(
        "separate",
        width=20,
        heads=1,
        hidden=31,
        place="before",
        layers=(1, 3),
        output="target-embedding",
    ),
    Config("bias-free", width=100, heads=5, hidden=64),
]
TIE = 1e-4  # of the range: nearer candidates may change places


def run(phasor, *arguments: str) -> str:
    done = subprocess.run(
        [phasor, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda c: c.name)
def converted(request, tmp_path_factory, phasor):
    """(config, module, path); the hashes of phasor's logits are recorded, so converting has run
    `phasor verify`."""
    folder = tmp_path_factory.mktemp("model")
    module, path = write_checkpoint(request.param, folder)
    output = folder / "model.phasor"
    convert_to(path, output, "--phasor", phasor)
    return request.param, module, output


@pytest.mark.parametrize("lengths", [(1, 1), (7, 5), (40, 40)], ids=str)
def test_logits(converted, phasor, lengths, tmp_path):
    config, module, path = converted
    rng = np.random.default_rng(3)
    source = rng.integers(0, config.vocabularies[0], lengths[0])
    target = np.concatenate([[2], rng.integers(4, config.vocabularies[1], lengths[1] - 1)])
    out = tmp_path / "logits.npy"
    arguments = ["--prefix-ids", ids_text(target[1:])] if lengths[1] > 1 else []
    run(
        phasor,
        "run",
        str(path),
        "--ids",
        ids_text(source),
        *arguments,
        "-n",
        str(lengths[1]),
        "--logits",
        str(out),
        "--quiet",
    )
    ours = np.load(out)
    with torch.no_grad():
        theirs = module(torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
    ours = ours.reshape(-1, ours.shape[-1])[: lengths[1]]
    assert ours.shape == theirs.shape
    assert (np.abs(ours - theirs).max(axis=1) / np.ptp(theirs, axis=1)).max() <= 1e-4


def test_greedy_tokens(converted, phasor):
    config, module, path = converted
    exact = Reference(PhasorFile(path))
    rng = np.random.default_rng(5)
    for n in (1, 4, 12):
        source = rng.integers(0, config.vocabularies[0], n).tolist()
        printed = run(
            phasor,
            "run",
            str(path),
            "--ids",
            ids_text(source),
            "--print-ids",
            "-n",
            "20",
            "--quiet",
        )
        ours = [int(word) for word in printed.replace(",", " ").split()]
        theirs = module.greedy(source, 20)
        theirs = theirs if len(ours) == len(theirs) or theirs[-1] != 3 else theirs[:-1]
        if ours != theirs:
            at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
            row = exact.decode([2, *theirs[:at]], exact.encode(source).output).logits[-1]
            assert abs(row[ours[at]] - row[theirs[at]]) <= TIE * np.ptp(row), (ours, theirs)
