"""The ten models of own_modules.py become files by a draft of `--explain` and at most three lines
of their owner's: of names and shapes alone, and with outputs, by which no other one passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_own_descriptions import CHANGES, OWN, changed

from own_modules import NAMES, make
from phasor import convert

# What names and shapes do not say, and the owner does, at most three lines each.
OWNERS = {
    "translator-sinusoidal": {"heads": "4", "start": "1"},
    "translator-learned": {"heads": "3", "embedding_scale": '"sqrt_width"', "start": "1"},
    "translator-rotary": {"heads": "4", "start": "1"},
    "classifier": {"heads": "4", "embedding_scale": '"sqrt_width"', "pooling": '"mean"'},
    "tagger": {"heads": "5", "activation": '"gelu"'},
    "time-series": {"heads": "4", "pooling": '"last"'},
    "vision": {"heads": "4"},
    "characters": {"activation": '"relu"'},
    "nanogpt": {},
    "annotated": {"heads": "4", "start": "1"},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The checkpoints, made once."""
    folder = tmp_path_factory.mktemp("drafts")
    for name in NAMES:
        torch.save(make(name).saved, folder / f"{name}.pt")
    return folder


@pytest.fixture(scope="module")
def drafts():
    """What --explain has said with outputs, by the model's name."""
    return {}


def with_lines(toml: str, lines: dict[str, str]) -> str:
    """The draft with the owner's lines, each in place of the draft's own or missing one."""
    out, left = [], dict(lines)
    for line in toml.splitlines():
        key = line.lstrip("# ").split(" =")[0]
        out.append(f"{key} = {left.pop(key)}" if key in left else line)
    assert not left
    return "\n".join(out) + "\n"


def run(saved: Path, name: str, toml: str) -> int:
    (saved / f"{name}.toml").write_text(toml)
    words = [saved / f"{name}.pt", "-o", saved / f"{name}.phasor"]
    return convert.main([*map(str, words), "--expect", str(OWN / f"{name}.npz"), "--quiet"])


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_of_names_and_shapes(saved, capsys, name):
    assert len(OWNERS[name]) <= 3
    assert convert.main([str(saved / f"{name}.pt"), "--explain"]) == 0
    assert run(saved, name, with_lines(capsys.readouterr().out, OWNERS[name])) == 0


def tried(saved: Path, drafts: dict[str, str], capsys, name: str) -> str:
    if name not in drafts:
        words = [str(saved / f"{name}.pt"), "--explain", "--expect", str(OWN / f"{name}.npz")]
        assert convert.main(words) == 0
        toml = capsys.readouterr().out
        start = {"start": "1"} if "# start =" in toml else {}
        drafts[name] = with_lines(toml, start)
    return drafts[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_that_outputs_decided(saved, drafts, capsys, name):
    """Its owner says nothing but the id that an output begins with."""
    assert run(saved, name, tried(saved, drafts, capsys, name)) == 0


@pytest.mark.parametrize("key", CHANGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_draft_is_refused(saved, drafts, capsys, name, key):
    toml = tried(saved, drafts, capsys, name)
    capsys.readouterr()
    assert run(saved, name, changed(toml, name, key)) == 1
    line = "left over" if (name, key) == ("characters", "heads") else "gives something else"
    assert line in capsys.readouterr().err


def test_nanogpt_by_its_preset_alone(saved):
    """The heads are those of its model_args."""
    words = [saved / "nanogpt.pt", "--preset", "nanogpt", "--expect", OWN / "nanogpt.npz"]
    assert convert.main([*map(str, words), "-o", str(saved / "p.phasor"), "--quiet"]) == 0
