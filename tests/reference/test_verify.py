"""tools/verify.py on random models: without a phasor program always, with one where it is."""

import pytest

from conversions import convert_to
from phasor import verify
from presets import Config, write_checkpoint

CONFIGS = [
    Config("torch-transformer", place="before", output="target-embedding"),
    Config("separate", position="learned", score="sqrt_heads"),
    Config("bias-free", width=100, heads=5),
]


@pytest.fixture(params=CONFIGS, ids=lambda c: c.name)
def model(request, tmp_path):
    """(converted file, checkpoint)"""
    _, path = write_checkpoint(request.param, tmp_path)
    convert_to(path, tmp_path / "m.phasor")
    return tmp_path / "m.phasor", path


def run(model, *more) -> int:
    return verify.main([str(model[0]), "--checkpoint", str(model[1]), *map(str, more)])


def test_without_phasor(model, capsys):
    assert run(model, "--no-phasor") == 0
    out = capsys.readouterr().out
    assert (
        out.count("encoder layer 1") == 3
        and out.count("decoder layer 1") == 3
        and out.count("logits (of the range)") == 3
    )
    assert "best token at 0 of 9 positions" in out


def test_with_phasor(model, phasor, capsys):
    assert run(model, "--phasor", phasor) == 0
    assert "—" not in capsys.readouterr().out


def test_given_ids(model, capsys):
    assert run(model, "--no-phasor", "--source-ids", "5,6,7,3", "--target-ids", "2,8,9") == 0
    assert "4 source and 3 target ids" in capsys.readouterr().out


def test_another_checkpoint_is_found_out(model, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    config = next(c for c in CONFIGS if c.preset in model[1].with_suffix(".toml").read_text())
    _, path = write_checkpoint(config, other, seed=1)
    assert run((model[0], path), "--no-phasor") == 1
    assert "larger than they may be" in capsys.readouterr().err


def test_names_of_the_description(tmp_path):
    import torch

    module, path = write_checkpoint(CONFIGS[1], tmp_path)
    state = {
        name.replace("self_attention.fc_q", "query"): value
        for name, value in module.state_dict().items()
    }
    torch.save(state, path)
    path.with_suffix(".toml").write_text(
        path.with_suffix(".toml").read_text()
        + "[names]\n"
        + "".join(
            f'{stack}.q = "{stack}.layers.{{layer}}.query.weight"\n'
            for stack in ("encoder", "decoder")
        )
    )
    convert_to(path, tmp_path / "m.phasor")
    assert run((tmp_path / "m.phasor", path), "--no-phasor") == 0


def test_errors_are_one_line(model, tmp_path, capsys):
    capsys.readouterr()
    for arguments in (
        [str(tmp_path / "absent"), "--checkpoint", str(model[1])],
        [str(model[0]), "--checkpoint", str(tmp_path / "absent.pt")],
    ):
        assert verify.main(arguments) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_where_two_outputs_part():
    assert verify.first_difference([5, 6, 3], [5, 6, 3], {3}) is None
    assert verify.first_difference([5, 6], [5, 6, 3], {3}) is None
    assert verify.first_difference([5, 6, 7], [5, 8, 3], {3}) == 1
    assert verify.first_difference([5], [5, 8, 3], {3}) == 1
