"""`phasor.export` of modules with T5's relative distances and of modules whose layers differ: found
in their calls, equal to 1e-5, with a proof that catches changes; what a file cannot say is refused
by name."""

from __future__ import annotations

import tomllib

import pytest
import torch
import torch.nn.functional as F
from test_live_export import proved

import phasor
from live_layers import Distances, Fixed, Layered, Line, Mixed, Pair
from phasor import vectors as V
from phasor.format import descriptor as D
from phasor.format.file import VECTORS, PhasorFile

IDS = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(0))
LONG = torch.cat((IDS, IDS[:, :5]), 1)
CLASSES = {"labels": ["a", "b", "c"]}
LAYERS = "layers = [1, 3]"

# A module, its example, what its owner says, lines of the description, and changes of them that
# the file's test vectors catch.
MODULES = {
    "t5 encoder": (
        lambda: Distances(True),
        IDS,
        CLASSES,
        [
            'attention_position = "t5"',
            "max_distance = 128",
            "score_scale = 1.0",
            'encoder.position_bias = "body.near.0.rows.weight"',
            "two_sided = true",
        ],
        [("two_sided = true", "two_sided = false"), ("score_scale = 1.0", "score_scale = 2.0")],
    ),
    "t5 decoder": (
        lambda: Distances(False, fused=True),
        LONG,
        {},
        [
            'attention_position = "t5"',
            "max_distance = 128",
            "two_sided = false",
            'decoder.position_bias = "body.near.0.rows.weight"',
        ],
        [("two_sided = false", "two_sided = true")],
    ),
    "a table a layer": (
        lambda: Distances(True, each=True, count=8, most=20),
        IDS,
        CLASSES,
        [
            "max_distance = 24",
            'encoder.position_bias = "body.near.{layer}.rows.weight"',
        ],
        [("max_distance = 24", "max_distance = 5"), ("{layer}.rows", "0.rows")],
    ),
    "t5": (
        Pair,
        (IDS, IDS[:, :7]),
        {"start": 1},
        [
            "max_distance = 128",
            "max_distance = 20",
            "two_sided = true",
            "two_sided = false",
            'encoder.position_bias = "reads.near.0.rows.weight"',
            'decoder.position_bias = "writes.near.0.rows.weight"',
        ],
        [("reads.near.0.rows", "writes.near.0.rows")],
    ),
    "windows in turn": (
        lambda: Layered(
            *(
                Mixed(window=4 * (i % 2), base=500.0 if i % 2 else 10000.0, cap=5.0)
                for i in range(4)
            )
        ),
        IDS,
        {},
        [
            "[[decoder.except]]",
            LAYERS,
            "window = 4",
            "rotary_base = 500.0",
            "cap = 5.0",
        ],
        [
            ("window = 4", "window = 3"),
            (LAYERS, "layers = [1]"),
            ("rotary_base = 500.0", "rotary_base = 600.0"),
        ],
    ),
    "widths": (
        lambda: Layered(Mixed(hidden=80, act=F.relu), Mixed(), Mixed()),
        IDS,
        {},
        [
            "hidden = 80",
            "hidden = 48",
            'activation = "silu"',
            'activation = "relu"',
            "layers = [1, 2]",
        ],
        [('activation = "silu"', 'activation = "gelu"')],
    ),
    "heads": (
        lambda: Layered(Mixed(), Mixed(8, 2, 4), Mixed(2, 2, 16)),
        IDS,
        {},
        [
            "heads = 4",
            "heads = 8",
            "kv_heads = 2",
            "head_width = 16",
            "layers = [2]",
        ],
        [("norm_eps = 1e-06", "norm_eps = 0.1")],
    ),
    "norms in two places": (
        lambda: Layered(Mixed(), Mixed(last=True)),
        IDS,
        {},
        [
            'norm_place = "before"',
            'norm_place = "after"',
            "layers = [1]",
        ],
        [('norm_place = "after"', 'norm_place = "before"')],
    ),
}


def made(kind) -> torch.nn.Module:
    torch.manual_seed(3)
    return kind()


@pytest.mark.parametrize("name", MODULES)
def test_what_is_found_is_proved(tmp_path, name):
    kind, example, said, lines, changes = MODULES[name]
    module = made(kind)
    found = phasor.export(module, tmp_path / "m.phasor", example=example, quiet=True, **said)
    assert found.gap <= 1e-5 and found.precision == "float64"
    plain = "\n".join(line.split("#")[0].rstrip() for line in found.description.splitlines())
    for line in lines:
        assert line in plain, plain
    file = PhasorFile(found.path)
    section = V.read(file.section(VECTORS), file.descriptor)

    class Own:
        net, given = module, {}

    assert proved(Own, tomllib.loads(found.description), section)
    for old, new in changes:
        assert old in plain + "\n"
        changed = tomllib.loads((plain + "\n").replace(old, new))
        assert not proved(Own, changed, section), new


def test_the_farthest_distance_is_beyond_the_example(tmp_path):
    """An example of 9 positions sees none of the wide buckets: the module is asked again."""
    for most in (64, 128, 200):
        found = phasor.export(
            made(lambda: Distances(True, most=most)),
            tmp_path / "m.phasor",
            example=IDS,
            quiet=True,
            **CLASSES,
        )
        kind = PhasorFile(found.path).descriptor["kinds"][0]
        assert (kind["position"], kind["max_distance"]) == (D.T5_BIAS, most)


class Stretched(Mixed):
    """Rotary angles that are smaller in a long text."""

    def look(self, h):
        self.base = 10000.0 if h.size(1) <= 16 else 40000.0
        return super().look(h)


class Last(Layered):
    def forward(self, ids):
        x = self.words(ids)
        for row in self.rows:
            x = row(x)
        return self.out(self.end(x)[:, -1])


@pytest.mark.parametrize("form", [Layered, Last])
def test_a_window_is_longer_than_the_example(tmp_path, form):
    """A file of what 9 positions show would give something else from position 12 on."""
    module = made(lambda: form(Mixed(window=12), Mixed()))
    line = "has 9 positions; for [0-9]+ the module gives something else .* TRY: a longer example"
    with pytest.raises(phasor.Error, match=line):
        phasor.export(module, tmp_path / "m.phasor", example=IDS, quiet=True)
    assert not list(tmp_path.iterdir())
    found = phasor.export(module, tmp_path / "m.phasor", example=LONG, quiet=True)
    assert "window = 12" in found.description and "for up to 1024 positions" in found.description


def test_angles_that_change_with_the_length(tmp_path):
    with pytest.raises(phasor.Error, match="positions that change with the length"):
        phasor.export(
            made(lambda: Layered(Stretched(), Mixed())),
            tmp_path / "m.phasor",
            example=IDS,
            quiet=True,
        )


REFUSED = {
    "another formula": (
        lambda: Line(),
        IDS,
        CLASSES,
        "has 9 rows for distances, by another formula",
    ),
    "no long text": (
        lambda: Fixed(True),
        IDS,
        CLASSES,
        r"example=: has 9 positions, too few to see how far the 32 distances",
    ),
    "norms": (
        lambda: Layered(Mixed(), Other()),
        IDS,
        {},
        r"decoder: norm is rms in layer 0 and layer in layer 1: a file has one for all layers",
    ),
    "a part": (
        lambda: Layered(Mixed(), Gated()),
        IDS,
        {},
        r"decoder: not every layer has ffn_gate",
    ),
}


class Other(Mixed):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (torch.nn.LayerNorm(32, 1e-6, bias=False) for _ in range(2))


class Gated(Mixed):
    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(32, 48, bias=False)

    def forward(self, x):
        x = x + self.look(self.one(x))
        h = self.two(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_file_cannot_say_is_refused(tmp_path, name):
    kind, example, said, line = REFUSED[name]
    with pytest.raises(phasor.Error, match=line):
        phasor.export(made(kind), tmp_path / "m.phasor", example=example, quiet=True, **said)
    assert not list(tmp_path.iterdir())


def test_an_example_that_is_too_short_says_what_to_give(tmp_path):
    module = made(lambda: Fixed(True))
    with pytest.raises(phasor.Error, match="reach: give a longer one"):
        phasor.export(module, tmp_path / "m.phasor", example=IDS, quiet=True, **CLASSES)
    long = torch.arange(2 * 128).reshape(2, 128) % 40
    found = phasor.export(module, tmp_path / "m.phasor", example=long, quiet=True, **CLASSES)
    assert found.gap <= 1e-5 and "max_distance = 128" in found.description
