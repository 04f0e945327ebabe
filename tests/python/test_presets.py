"""Presets: checkpoints of x-transformers and OpenNMT-py (tests/golden/make_presets.py made them)
against what the packages gave, copies of a preset, and options that have no counterpart. Those of
fairseq are in tests/reference/test_presets.py."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import numpy as np
import pytest

import torch_zip
from phasor import convert
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from phasor.sources.state_dict.presets import FILES, parse

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "presets"
# What names, shapes and arguments do not say.
OWNERS = {
    "x-transformers-decoder": "heads = 2",
    "x-transformers-tied-t5-post": "heads = 2",
    "x-transformers-rotary-glu": 'heads = 2\nkv_heads = 1\nactivation = "silu"',
    "x-transformers-alibi-sandwich": 'heads = 2\nstack = "encoder"\nactivation = "relu2"\n'
    'attention_position = "alibi"',
    "x-transformers-pair": "heads = 2\ntarget.start = 1",
}
NAMES = sorted(path.stem for path in GOLDEN.glob("*.pt"))


def preset_of(name: str) -> str:
    return next(preset for preset in FILES if name.startswith(preset))


def run(folder: Path, checkpoint: Path, toml: str, *flags: str) -> int:
    (folder / "d.toml").write_text(toml)
    words = [str(checkpoint), "--describe", str(folder / "d.toml"), *flags]
    return convert.main([*words, "-o", str(folder / "m.phasor"), "--quiet"])


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_a_package(name, tmp_path):
    """As near to what its package gave as rounding allows, and not without its preset's sense."""
    toml = f'preset = "{preset_of(name)}"\n{OWNERS.get(name, "")}\n'
    expect = np.load(GOLDEN / f"{name}.npz")
    assert run(tmp_path, GOLDEN / f"{name}.pt", toml, "--expect", str(GOLDEN / f"{name}.npz")) == 0
    scaled = expect["logits"] * np.where(np.arange(expect["logits"].shape[-1]), 1, 1.01)
    np.savez(tmp_path / "other.npz", **{**expect, "logits": scaled.astype(np.float32)})
    assert run(tmp_path, GOLDEN / f"{name}.pt", toml, "--expect", str(tmp_path / "other.npz")) == 1


@pytest.mark.parametrize("name", NAMES)
def test_options_that_leave_no_tensor(name, tmp_path, capsys):
    """Nobody sees them in the checkpoint, so that a file needs the model's own outputs, or a line
    that says that nothing is unseen."""
    toml = f'preset = "{preset_of(name)}"\n{OWNERS.get(name, "")}\n'
    unseen, path = preset_of(name) == "x-transformers", GOLDEN / f"{name}.pt"
    for own, status in (("", int(unseen)), ('unseen = ""\n', 0), ('unseen = "dropout"\n', 1)):
        assert run(tmp_path, path, own + toml) == status
        said = capsys.readouterr().err
        assert ("may change the outputs and leave no tensor; give --expect" in said) == bool(status)
        assert (tmp_path / "m.phasor").exists() == (not status)
        (tmp_path / "m.phasor").unlink(missing_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_a_preset_is_a_description(name):
    """With the owner's lines in place of its own."""
    path, owner = GOLDEN / f"{name}.pt", tomllib.loads(OWNERS.get(name, ""))
    opened = functools.partial(open_checkpoint, path)
    found = []
    for content in (
        {"preset": preset_of(name), **owner},
        {**parse(FILES[preset_of(name)].read_text()), **owner},
    ):
        description = parse_description(content, Path("d.toml"), opened)
        model = state_dict.read(opened(description.key, description.beside), description)
        assert model.problems() == []
        found.append((model.descriptor, {key: list(p) for key, p in model.parts.items()}))
    assert found[0][0] == found[1][0] and str(found[0][1]) == str(found[1][1])


def options(preset: str) -> list[tuple[dict[str, object], str]]:
    """(arguments that lead to an option, the option) of a preset, and of what its values add."""
    values = {"true": True, "false": False, "none": None}
    todo, out = [({}, parse(FILES[preset].read_text()).get("options", {}))], []
    while todo:
        before, inside = todo.pop()
        for option, rules in inside.items():
            out += [] if "*" in rules else [(before, option)]
            for text, more in rules.items():
                value = int(text) if text.lstrip("-").isdigit() else values.get(text, text)
                todo.append(({**before, option: value}, more.get("options", {})))
    return out


@pytest.mark.parametrize("preset", FILES)
def test_an_option_without_a_counterpart(preset, tmp_path, capsys):
    """Each is refused by its name and its value, in a line that a terminal holds."""
    for before, option in options(preset):
        arguments = {**before, option: "never"}
        content = {"model": {"w": np.ones((2, 2), np.float32)}, "model_args": arguments}
        path = torch_zip.save_nested(tmp_path / "m.pt", content)
        words = [str(path), "--preset", preset, "-o", str(tmp_path / "m.phasor")]
        assert convert.main(words) == 1
        line = capsys.readouterr().err.strip()
        assert f"was trained with {option} = 'never'" in line and len(line) < 300
        assert len(line.split("--preset ")[1]) <= 200, line


def test_which_presets_ask():
    assert {preset for preset in FILES if options(preset)} == {"fairseq", "opennmt-py"}


def test_a_descriptions_own_option_counts_more(tmp_path, capsys):
    content = {"model": {"w": np.ones((2, 2), np.float32)}, "opt": {"self_attn_type": "average"}}
    path = torch_zip.save_nested(tmp_path / "m.pt", content)
    toml = 'preset = "opennmt-py"\n[options]\nself_attn_type.average.heads = 3\n'
    assert run(tmp_path, path, toml) == 1
    assert "missing: encoder.transformer" in capsys.readouterr().err  # heads are there
    assert run(tmp_path, path, 'preset = "opennmt-py"\nheads = 3\n') == 1
    assert "self_attn_type = 'average', which has no counterpart" in capsys.readouterr().err


@pytest.mark.parametrize(
    "toml, line",
    [
        ("options = 3", "options: expected a table"),
        ("options.x = 3", "options.x: expected a table"),
        ("options.x.y = 3", "options.x.y: expected a table"),
        ("options.x = { z = {} }", "was trained with x = 'y', which has no counterpart here"),
        ("tensors = 3", "tensors: expected a table"),
        ('tensors."*" = 3', "tensors.*: expected a table"),
        ("arguments.hedas = 'x'", "arguments.hedas: no key is called so here; did you mean heads?"),
        ("arguments.source.pad = 'x'", "arguments.source: expected encoder or decoder"),
        ("arguments.heads = 3", "arguments.heads: 3, expected the name"),
        ("arguments.kv_heads = 'x'", "kv_heads: 'y', expected int"),
        ("names.block = 3", "names.block: expected a table"),
        ("names.block.q = 'a'\nnames.encoder = 3", "names.encoder: expected a table"),
        ("checkpoint.beside = ['a']", "checkpoint.beside: needs checkpoint.key"),
        ("checkpoint.beside = 'a'", "checkpoint.beside: expected a list"),
        ("names.block.q = { tensor = 'a', half = 'third' }", "half: 'third', expected first or"),
        ("names.block.q = { tensor = 'a', factor = 'two' }", "factor: 'two', expected inverse_"),
        ("".join(f"options.x{i} = {{}}\n" for i in range(300)), "options: 300 entries, expected"),
    ],
)
def test_rules_that_are_none(toml, line, tmp_path):
    content = {"model": {"w": np.ones((2, 2), np.float32)}, "args": {"x": "y"}}
    path = torch_zip.save_nested(tmp_path / "m.pt", content)
    said = {"preset": "bias-free", "stack": "encoder", "heads": 2, **tomllib.loads(toml)}
    with pytest.raises(PhasorError) as told:
        parse_description(said, Path("d.toml"), functools.partial(open_checkpoint, path))
    assert line in str(told.value)
