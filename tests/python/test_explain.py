"""`convert.py --explain`: a description drafted from names and shapes, the readings that are tried
against outputs, and what a stranger's checkpoint does to either."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest

import torch_zip
from conversions import contents
from phasor import convert
from phasor.drafts import trial
from phasor.format.file import PhasorFile

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "pytorch"
WIDTH, HIDDEN, LAYERS, ROWS = 24, 40, 2, 31


def given_of(name: str, to: Path) -> Path:
    """The outputs of a golden model, as --expect takes them."""
    arrays = np.load(GOLDEN / f"{name}.npz")
    np.savez(to, ids=arrays["source"], target=arrays["target"], logits=arrays["logits"])
    return to


def explained(path: Path, capsys, *flags: object) -> str:
    assert convert.main([str(path), "--explain", *map(str, flags)]) == 0
    return capsys.readouterr().out


def with_lines(toml: str, **lines: object) -> str:
    """A draft with what its owner says; target_start is `start` of [target]."""
    top, table, rest = toml.partition("\n\n[")
    for key, value in lines.items():
        if key == "target_start":
            rest = rest.replace("# start =", f"start = {value}  #", 1)
        else:
            kept = [line for line in top.splitlines() if line.lstrip("# ").split(" ")[0] != key]
            top = "\n".join([*kept, f"{key} = {value}"])
    return top + table + rest


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    torch_zip.save(folder / "m.pt", arrays)
    return folder / "m.pt"


def block(form: dict[str, tuple[int, ...]], layers: int = LAYERS) -> dict[str, np.ndarray]:
    """Layers, of shapes by names with {i} in them."""
    rng = np.random.default_rng(1)
    return {
        name.replace("{i}", str(i)): rng.normal(size=shape).astype(np.float32)
        for i in range(layers)
        for name, shape in form.items()
    }


W = WIDTH
PLAIN = {
    "l.{i}.attn.qkv.weight": (3 * W, W),
    "l.{i}.attn.out.weight": (W, W),
    "l.{i}.up.weight": (HIDDEN, W),
    "l.{i}.down.weight": (W, HIDDEN),
    "l.{i}.n1.weight": (W,),
    "l.{i}.n2.weight": (W,),
}
ENDS = {"tok.weight": (ROWS, W), "head.weight": (ROWS, W)}


def ends(**more: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    shapes = {**ENDS, **more}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


# Layers in the forms that people write: names and shapes, parts that must be found, and lines.
FORMS = {
    "gated": (
        {
            "model.layers.{i}.self_attn.q_proj.weight": (W, W),
            "model.layers.{i}.self_attn.k_proj.weight": (W // 2, W),
            "model.layers.{i}.self_attn.v_proj.weight": (W // 2, W),
            "model.layers.{i}.self_attn.o_proj.weight": (W, W),
            "model.layers.{i}.mlp.gate_proj.weight": (HIDDEN, W),
            "model.layers.{i}.mlp.up_proj.weight": (HIDDEN, W),
            "model.layers.{i}.mlp.down_proj.weight": (W, HIDDEN),
            "model.layers.{i}.input_layernorm.weight": (W,),
            "model.layers.{i}.post_attention_layernorm.weight": (W,),
        },
        {
            "decoder.k": "model.layers.{layer}.self_attn.k_proj.weight",
            "decoder.ffn_gate": "model.layers.{layer}.mlp.gate_proj.weight",
            "decoder.ffn_in": "model.layers.{layer}.mlp.up_proj.weight",
            "decoder.attention_norm": "model.layers.{layer}.input_layernorm.weight",
            "decoder.ffn_norm": "model.layers.{layer}.post_attention_layernorm.weight",
        },
        ('norm = "rms"', 'activation = "silu"'),
    ),
    "convolutions": (
        {
            "h.{i}.attn.c_attn.weight": (W, 3 * W),
            "h.{i}.attn.c_attn.bias": (3 * W,),
            "h.{i}.attn.c_proj.weight": (W, W),
            "h.{i}.attn.c_proj.bias": (W,),
            "h.{i}.mlp.c_fc.weight": (W, 4 * W),
            "h.{i}.mlp.c_fc.bias": (4 * W,),
            "h.{i}.mlp.c_proj.weight": (4 * W, W),
            "h.{i}.mlp.c_proj.bias": (W,),
            "h.{i}.ln_1.weight": (W,),
            "h.{i}.ln_1.bias": (W,),
            "h.{i}.ln_2.weight": (W,),
            "h.{i}.ln_2.bias": (W,),
        },
        {
            "decoder.qkv": "h.{layer}.attn.c_attn.weight",
            "decoder.attention_out": "h.{layer}.attn.c_proj.weight",
            "decoder.ffn_in": "h.{layer}.mlp.c_fc.weight",
            "decoder.ffn_out": "h.{layer}.mlp.c_proj.weight",
        },
        ("transposed = true", 'norm = "layer"'),
    ),
    "flat": (
        {
            "blocks.{i}.wq": (W, W),
            "blocks.{i}.wk": (W, W),
            "blocks.{i}.wv": (W, W),
            "blocks.{i}.wo": (W, W),
            "blocks.{i}.w1": (HIDDEN, W),
            "blocks.{i}.w2": (W, HIDDEN),
            "blocks.{i}.norm1.weight": (W,),
            "blocks.{i}.norm2.weight": (W,),
        },
        {
            "decoder.q": "blocks.{layer}.wq",
            "decoder.attention_out": "blocks.{layer}.wo",
            "decoder.ffn_in": "blocks.{layer}.w1",
            "decoder.ffn_norm": "blocks.{layer}.norm2.weight",
        },
        (),
    ),
    "as BERT": (
        {
            "bert.layer.{i}.attention.self.query.weight": (W, W),
            "bert.layer.{i}.attention.self.key.weight": (W, W),
            "bert.layer.{i}.attention.self.value.weight": (W, W),
            "bert.layer.{i}.attention.output.dense.weight": (W, W),
            "bert.layer.{i}.attention.output.LayerNorm.weight": (W,),
            "bert.layer.{i}.intermediate.dense.weight": (HIDDEN, W),
            "bert.layer.{i}.output.dense.weight": (W, HIDDEN),
            "bert.layer.{i}.output.LayerNorm.weight": (W,),
        },
        {
            "decoder.attention_out": "bert.layer.{layer}.attention.output.dense.weight",
            "decoder.ffn_out": "bert.layer.{layer}.output.dense.weight",
            "decoder.attention_norm": "bert.layer.{layer}.attention.output.LayerNorm.weight",
            "decoder.ffn_norm": "bert.layer.{layer}.output.LayerNorm.weight",
        },
        ('norm_place = "after"',),
    ),
    "norms before and behind": (
        PLAIN | {"l.{i}.post_attn_norm.weight": (W,), "l.{i}.post_ffn_norm.weight": (W,)},
        {
            "decoder.attention_after": "l.{layer}.post_attn_norm.weight",
            "decoder.ffn_after": "l.{layer}.post_ffn_norm.weight",
        },
        ('norm_place = "both"',),
    ),
    "norms of heads": (
        PLAIN | {"l.{i}.attn.q_norm.weight": (8,), "l.{i}.attn.k_norm.weight": (8,)},
        {
            "decoder.q_norm": "l.{layer}.attn.q_norm.weight",
            "decoder.k_norm": "l.{layer}.attn.k_norm.weight",
        },
        (),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_layers_in_the_forms_that_people_write(form, tmp_path, capsys):
    shapes, wanted, lines = FORMS[form]
    toml = explained(saved(tmp_path, {**block(shapes), **ends()}), capsys)
    names = tomllib.loads(toml)["names"]
    inner = {stack: parts for stack, parts in names.items() if isinstance(parts, dict)}
    flat = {f"{stack}.{part}": v for stack, parts in inner.items() for part, v in parts.items()}
    assert wanted.items() <= flat.items()
    assert all(line in toml for line in lines)
    assert "not understood" not in toml


@pytest.mark.parametrize("name", ["bias-free", "separate", "torch-transformer"])
def test_a_draft_converts_with_its_owners_lines(name, tmp_path, capsys):
    """Against the outputs of the model: of the readings that there are, the one that it has."""
    expect = given_of(name, tmp_path / "e.npz")
    checkpoint = GOLDEN / f"{name}.pt"
    toml = explained(checkpoint, capsys, "--expect", expect)
    assert "this one agrees within" in toml and "guess" not in toml.partition("[names]")[0].replace(
        "evidence of a guess", ""
    )
    (tmp_path / "d.toml").write_text(with_lines(toml, target_start=2))
    words = [checkpoint, "--describe", tmp_path / "d.toml", "--expect", expect]
    assert convert.main([*map(str, words), "-o", str(tmp_path / "m.phasor"), "--quiet"]) == 0
    assert PhasorFile(tmp_path / "m.phasor").descriptor["target"]["start"] == 2


def test_what_is_certain_guessed_and_missing(tmp_path, capsys):
    toml = explained(saved(tmp_path, {**block(PLAIN), **ends(**{"scale": (3, 3)})}), capsys)
    assert '\nstack = "decoder"' in toml
    assert "# heads =                         # missing: no shape says it; it divides 24" in toml
    assert 'norm_place = "after"              # guess: no norm is behind it' in toml
    assert "# missing: scale (3 x 3): outside of the layers, not understood" in toml


def test_outputs_that_no_reading_gives(tmp_path, capsys, monkeypatch):
    """The nearest is printed, nothing is written, and the line says how near it is."""
    monkeypatch.setattr(trial, "_MOST", 12)
    path = saved(tmp_path, {**block(PLAIN, 1), **ends()})
    ids = np.arange(6)[None]
    output = np.random.default_rng(3).normal(size=(1, 6, ROWS)).astype(np.float32)
    np.savez(tmp_path / "e.npz", ids=ids, logits=output)
    words = [str(path), "--explain", "--expect", str(tmp_path / "e.npz")]
    assert convert.main([*words, "-o", str(tmp_path / "d.toml")]) == 1
    line = capsys.readouterr().err
    assert "24 readings tried with e.npz: the nearest, this one, is" in line  # of two stacks
    assert not (tmp_path / "d.toml").exists()


def test_the_draft_goes_to_a_file(tmp_path, capsys):
    path = saved(tmp_path, {**block(PLAIN), **ends()})
    toml = explained(path, capsys)
    assert convert.main([str(path), "--explain", "-o", str(tmp_path / "d.toml")]) == 0
    assert (tmp_path / "d.toml").read_text("utf-8") == toml
    assert convert.main([str(path), "--explain", "-o", str(path)]) == 1  # which it reads
    with pytest.raises(SystemExit):
        convert.main([str(path), "--explain", "--type", "q8"])
    assert "--explain: goes without --type" in capsys.readouterr().err


HOSTILE = {
    "nothing numbered": ({"a.weight": (W, W)}, "no stacks of layers"),
    "layers that differ": (
        {"l.0.attn.odd.weight": (W, W)},
        "not every layer has l.0.attn.odd.weight, or it has another shape",
    ),
    "two decoders": (
        {name.replace("l.", "m."): shape for name, shape in PLAIN.items()},
        "2 stacks of layers",
    ),
    "numbers without end": ({f"{'0.' * 300}w{i}": (W,) for i in range(9)}, ""),
    "a long name": ({"x" * 5000 + ".weight": (W, W)}, ""),
    "a name that is TOML": ({'tok"]\n[names]\nx = "': (W, 2)}, ""),
    "letters that turn": ({"tok\u202e\x1b[31m.weight": (W, 2)}, ""),
    "half of a surrogate pair": ({"tok\ud800.weight": (W, 2)}, "has half of a surrogate pair"),
    "many buffers": ({f"b{i}.mask": (2, 2) for i in range(600)}, ""),
    "many layers": ({f"z.{i}.weight": (2, 2) for i in range(500)}, ""),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_checkpoints(kind, tmp_path, capsys):
    """A line that refuses it, or TOML that is one description, whatever the names are."""
    shapes, line = HOSTILE[kind]
    base = {} if kind == "nothing numbered" else {**block(PLAIN), **ends()}
    more = block(shapes) if kind == "two decoders" else block(shapes, 1)
    path = saved(tmp_path, {**base, **more})
    status = convert.main([str(path), "--explain"])
    out, err = capsys.readouterr()
    assert status == bool(line) and line in err and len(err.splitlines()) == bool(line)
    assert line or tomllib.loads(out)["names"]["output"] == "head.weight"


@pytest.mark.parametrize("name", ["*", "mask?", "masks[0]"])
def test_a_buffer_whose_name_is_a_pattern(name, tmp_path, capsys):
    """It is not ignored: no pattern that may be fits it alone."""
    more = {name: np.zeros(3, np.int64), "other.mask": np.zeros(3, np.int64)}
    toml = explained(saved(tmp_path, {**block(PLAIN), **ends(), **more}), capsys)
    assert tomllib.loads(toml)["checkpoint"]["ignore"] == ["other.mask"]
    assert f"# missing: {name} (3): outside of the layers, not understood" in toml


def test_masks_are_buffers_and_their_like_are_not(tmp_path, capsys):
    seen = np.tril(np.ones((9, 9), np.float32))
    hidden = np.where(seen == 1, 0, -np.inf).astype(np.float32)
    masks = {"a": seen, "b": seen.T, "c": hidden, "d": 1 - seen, "e": seen.reshape(1, 1, 9, 9)}
    more = {f"{name}.mask": mask for name, mask in masks.items()}
    for name in masks:
        changed = masks[name].copy()
        changed[..., 8, 3] = 0.5
        more[f"{name}.other"] = changed
    toml = explained(saved(tmp_path, {**block(PLAIN), **ends(), **more}), capsys)
    assert tomllib.loads(toml)["checkpoint"]["ignore"] == [f"{name}.mask" for name in masks]


def test_many_buffers_that_are_called_by_numbers(tmp_path, capsys):
    """What is ignored for them fits no tensor of another name."""
    more = {f"{i}": np.zeros(3, np.int64) for i in range(9)}
    more |= {f"at.{i}.mask": np.zeros(3, np.int64) for i in range(9)}
    toml = explained(saved(tmp_path, {**block(PLAIN), **ends(), **more}), capsys)
    assert tomllib.loads(toml)["checkpoint"]["ignore"] == [*"012345678", "at.*.mask"]


def nanogpt(folder: Path, **arguments: object) -> Path:
    """A checkpoint as nanoGPT's train.py saves it."""
    form = {
        "transformer.h.{i}.ln_1.weight": (W,),
        "transformer.h.{i}.attn.c_attn.weight": (3 * W, W),
        "transformer.h.{i}.attn.c_proj.weight": (W, W),
        "transformer.h.{i}.ln_2.weight": (W,),
        "transformer.h.{i}.mlp.c_fc.weight": (4 * W, W),
        "transformer.h.{i}.mlp.c_proj.weight": (W, 4 * W),
    }
    outer = {"transformer.wte.weight": (ROWS, W), "transformer.wpe.weight": (12, W)}
    arrays = {**block({**outer, "transformer.ln_f.weight": (W,)}, 1), **block(form)}
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"]
    content = {"model": arrays, "model_args": {"n_layer": LAYERS, "bias": 0, **arguments}}
    return torch_zip.save_nested(folder / "ckpt.pt", content)


def test_a_preset_without_a_description(tmp_path, capsys):
    """The heads are those that the training kept; the vocabulary is meta.pkl's."""
    path, out = nanogpt(tmp_path, n_head=3), tmp_path / "m.phasor"
    letters = {chr(97 + i): i for i in range(ROWS)}
    table = {"stoi": letters, "itos": {i: c for c, i in letters.items()}, "vocab_size": ROWS}
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(table))
    words = [path, "--preset", "nanogpt", "--tokenizer", tmp_path / "meta.pkl", "-o", out]
    assert convert.main([*map(str, words), "--quiet"]) == 0
    assert PhasorFile(out).descriptor["kinds"][0]["heads"] == 3
    (tmp_path / "ckpt.toml").write_text('preset = "nanogpt"\nheads = 4\n')  # counts more
    assert convert.main([str(path), "-o", str(out), "--quiet"]) == 0
    assert PhasorFile(out).descriptor["kinds"][0]["heads"] == 4


@pytest.mark.parametrize(
    "arguments, flags, line",
    [
        ({}, ("--preset", "nanogpt"), "--preset nanogpt: heads: missing"),
        ({"n_head": "3"}, ("--preset", "nanogpt"), "heads: '3', expected int"),
        ({"n_head": 5}, ("--preset", "nanogpt"), "not divisible by"),
        ({"n_head": 1 << 30}, ("--preset", "nanogpt"), "expected at most 16777216"),
        ({}, ("--preset", "nanogtp"), "--preset nanogtp: preset: 'nanogtp', expected one of"),
        ({}, ("--preset", "nanogpt", "--describe", "x.toml"), "--preset: goes without --describe"),
    ],
)
def test_presets_that_cannot_be(arguments, flags, line, tmp_path, capsys):
    path = nanogpt(tmp_path, **arguments)
    assert convert.main([str(path), *flags, "-o", str(tmp_path / "m.phasor")]) == 1
    assert line in capsys.readouterr().err
    assert not (tmp_path / "m.phasor").exists()


def test_a_list_whose_entries_are_halves_of_layers(tmp_path, capsys):
    """Attention and feed-forward in turn: the same model as with a number for each layer."""
    halves = {
        "l.{i}.attn.qkv.weight": "l.{a}.1.to_qkv.weight",
        "l.{i}.attn.out.weight": "l.{a}.1.to_out.weight",
        "l.{i}.up.weight": "l.{b}.1.ff.0.weight",
        "l.{i}.down.weight": "l.{b}.1.ff.3.weight",
        "l.{i}.n1.weight": "l.{a}.0.0.weight",
        "l.{i}.n2.weight": "l.{b}.0.0.weight",
    }
    plain, listed = block(PLAIN), {}
    for old, new in halves.items():
        for i in range(LAYERS):
            name = new.replace("{a}", str(2 * i)).replace("{b}", str(2 * i + 1))
            listed[name] = plain[old.replace("{i}", str(i))]
    files = []
    for number, arrays in enumerate((plain, listed)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = saved(folder, {**arrays, **ends()})
        toml = explained(path, capsys)
        assert ('"l.{layer*2+1}.1.ff.0.weight"' in toml) == bool(number)
        (folder / "m.toml").write_text(with_lines(toml, heads=3))
        words = [str(path), "-o", str(folder / "m.phasor"), "--quiet"]
        assert convert.main(words) == 0, capsys.readouterr().err
        files.append(contents(folder / "m.phasor"))
    assert files[0] == files[1]
