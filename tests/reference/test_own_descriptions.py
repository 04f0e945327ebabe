"""The ten models of own_modules.py become files by their descriptions (tests/golden/own), which
--expect proves; and by none that says something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from own_modules import NAMES, make
from phasor import convert

OWN = Path(__file__).resolve().parents[1] / "golden" / "own"
# Single changes, each of a model that computes something else.
CHANGES = {
    "heads": "2",
    "norm_place": '"sublayer"',
    "activation": '"silu"',
    "embedding_scale": "1.7",
    "score_scale": "1.3",
    "norm_eps": "0.3",
    "residual_scale": "0.9",
    "qkv_clip": "0.5",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The checkpoints, made once."""
    folder = tmp_path_factory.mktemp("own")
    for name in NAMES:
        torch.save(make(name).saved, folder / f"{name}.pt")
    return folder


def run(saved: Path, name: str, toml: str) -> int:
    (saved / f"{name}.toml").write_text(toml)
    arguments = [saved / f"{name}.pt", "-o", saved / f"{name}.phasor"]
    return convert.main([*map(str, arguments), "--expect", str(OWN / f"{name}.npz"), "--quiet"])


def changed(toml: str, name: str, key: str) -> str:
    """A description with another value of one key."""
    value = {"translator-learned": "4", "tagger": "4"}.get(name) if key == "heads" else None
    top, tables, behind = toml.partition("\n[")
    lines = [line for line in top.splitlines() if line.split(" = ")[0] != key]
    return "\n".join([*lines, f"{key} = {value or CHANGES[key]}", ""]) + tables + behind


@pytest.mark.parametrize("name", NAMES)
def test_a_description_is_proved(saved, name):
    assert run(saved, name, (OWN / f"{name}.toml").read_text()) == 0


@pytest.mark.parametrize("key", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_another_description_is_refused(saved, capsys, name, key):
    assert run(saved, name, changed((OWN / f"{name}.toml").read_text(), name, key)) == 1
    line = "left over" if (name, key) == ("characters", "heads") else "gives something else"
    assert line in capsys.readouterr().err
