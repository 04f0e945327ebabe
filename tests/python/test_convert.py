"""The converter: PyTorch's own goldens, every kind of fault in one line, no code of a pickle, whole
or not at all."""

import json
import re
import struct
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import torch_zip
from conversions import contents
from phasor import convert
from phasor import vectors as phasor_vectors
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import VECTORS, PhasorFile
from phasor.format.layout import PhasorError
from phasor.reference.forward import Reference
from presets import Config

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "pytorch"
PRESETS = ("torch-transformer", "separate", "bias-free")


pytestmark = pytest.mark.usefixtures("no_program")


def run(source, output, *more) -> int:
    return convert.main([str(source), "-o", str(output), "--quiet", *map(str, more)])


def errors(capsys) -> str:
    return capsys.readouterr().err


@pytest.fixture()
def golden(tmp_path):
    """A copy of one golden checkpoint that a test may change: (arrays, save) with save() ->
    path."""
    checkpoint = open_checkpoint(GOLDEN / "separate.pt")
    arrays = {name: checkpoint.load(name) for name in checkpoint}
    path = tmp_path / "model.pt"
    path.with_suffix(".toml").write_text((GOLDEN / "separate.toml").read_text())
    return arrays, lambda: torch_zip.save(path, arrays)


# ---- What PyTorch says


@pytest.mark.parametrize("preset", PRESETS)
def test_pytorchs_goldens(preset, tmp_path):
    output = tmp_path / "m.phasor"
    assert run(GOLDEN / f"{preset}.pt", output) == 0
    file = PhasorFile(output)
    file.check()
    model, want = Reference(file), np.load(GOLDEN / f"{preset}.npz")
    encoded = model.encode(want["source"])
    decoded = model.decode(want["target"], encoded.output)
    for ours, theirs in (
        (encoded.residuals, want["encoder"]),
        (decoded.residuals, want["decoder"]),
        (decoded.logits, want["logits"]),
    ):
        assert np.abs(np.stack(ours) - theirs).max() <= 1e-6 * np.abs(theirs).max()
    assert model.greedy(want["source"], 12) == want["greedy"].tolist()


@pytest.mark.parametrize("preset", PRESETS)
def test_q8_and_its_vectors(preset, tmp_path):
    output = tmp_path / "m.phasor"
    assert run(GOLDEN / f"{preset}.pt", output, "--type", "q8") == 0
    file = PhasorFile(output)
    section = phasor_vectors.read(file.section(VECTORS), file.descriptor)
    assert section.numerics == 0 and [v.hash for v in section.vectors] == [0, 0, 0]
    assert run(GOLDEN / f"{preset}.pt", tmp_path / "exact.phasor") == 0
    exact = PhasorFile(tmp_path / "exact.phasor")
    model, worst = (
        Reference(exact),
        phasor_vectors.read(exact.section(VECTORS), exact.descriptor).tolerance,
    )
    assert (
        worst < section.tolerance < 0.2
    )  # the values are those of the exact weights, the tolerance has room for what q8 costs
    for vector in section.vectors:
        encoded = model.encode(vector.source)
        decoded = model.decode(vector.target, encoded.output)
        assert np.array_equal(decoded.logits.argmax(axis=1), vector.argmax)
        assert np.array_equal(decoded.logits[:, vector.logit_ids].astype(np.float32), vector.logits)
        assert np.array_equal(
            np.stack(encoded.residuals)[:, vector.positions[0], vector.source_places].astype(
                np.float32
            ),
            vector.source_residuals,
        )
        assert np.array_equal(
            np.stack(decoded.residuals)[:, vector.positions[1], vector.target_places].astype(
                np.float32
            ),
            vector.target_residuals,
        )


def test_the_report(tmp_path, capsys, monkeypatch):
    command = [str(GOLDEN / "separate.pt"), "-o", str(tmp_path / "m.phasor"), "--type", "q8"]
    assert convert.main(command) == 0
    out = capsys.readouterr()
    assert f"{(tmp_path / 'm.phasor').stat().st_size:,} bytes" in out.out
    assert "q8 " in out.out and "largest rounding error" in out.out and "stored exactly" in out.out
    assert "\r" not in out.err  # progress is for a person who watches
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert convert.main(command) == 0 and "tensor" in errors(capsys)


def test_a_handmade_checkpoint_is_torchs(golden, tmp_path):
    arrays, save = golden
    assert run(save(), tmp_path / "a.phasor") == 0
    assert run(GOLDEN / "separate.pt", tmp_path / "b.phasor") == 0
    assert contents(tmp_path / "a.phasor") == contents(tmp_path / "b.phasor")


def test_safetensors(golden, tmp_path):
    from safetensors.numpy import save_file

    arrays, save = golden
    save_file(
        {k: np.ascontiguousarray(v) for k, v in arrays.items()}, tmp_path / "model.safetensors"
    )
    assert run(tmp_path / "model.safetensors", tmp_path / "a.phasor") == 0
    assert run(save(), tmp_path / "b.phasor") == 0
    assert contents(tmp_path / "a.phasor") == contents(tmp_path / "b.phasor")


def test_half_precision_and_nested(golden, tmp_path):
    arrays, save = golden
    half = {name: value.astype(np.float16) for name, value in arrays.items()}
    widened = {name: value.astype(np.float32) for name, value in half.items()}
    arrays.update(widened)
    assert run(save(), tmp_path / "a.phasor") == 0
    entries = {
        name: torch_zip.tensor(value, str(i)) for i, (name, value) in enumerate(half.items())
    }
    inner = torch_zip.state_dict(entries)[2:-1]
    program = (
        b"\x80\x02}("
        + torch_zip.text("epoch")
        + torch_zip.number(3)
        + torch_zip.text("state_dict")
        + inner
        + b"u."
    )
    torch_zip.write_zip(
        tmp_path / "model.pt", program, {str(i): v.tobytes() for i, v in enumerate(half.values())}
    )
    assert run(tmp_path / "model.pt", tmp_path / "b.phasor") == 0
    assert contents(tmp_path / "a.phasor") == contents(tmp_path / "b.phasor")


# ---- Faults of a checkpoint


def test_missing_left_over_and_misshapen_are_all_named(golden, tmp_path, capsys):
    arrays, save = golden
    del arrays["encoder.layers.1.self_attention.fc_k.weight"]
    arrays["decoder.layers.0.ff_layer_norm.bias"] = np.zeros(7, np.float32)
    arrays["extra.weight"] = np.zeros((2, 3), np.float32)
    assert run(save(), tmp_path / "m.phasor") == 1
    lines = errors(capsys).splitlines()
    assert len(lines) == 3
    assert (
        "missing: encoder.layers.1.self_attention.fc_k.weight (encoder 1 q,k,v weight)" in lines[0]
    )
    assert (
        "misshapen: decoder.layers.0.ff_layer_norm.bias" in lines[1]
        and "(7), expected (20)" in lines[1]
    )
    assert "left over: extra.weight (2 x 3)" in lines[2]
    assert not (tmp_path / "m.phasor").exists()


def transformer_in_a_class() -> dict[str, np.ndarray]:
    """The names and shapes of torch.nn.Transformer(16, 2, 2, 2, 24) inside of a user's module."""
    width, hidden = 16, 24
    out = {
        "src_tok_emb.weight": (31, width),
        "tgt_tok_emb.weight": (33, width),
        "generator.weight": (33, width),
        "generator.bias": (33,),
    }
    for stack, attentions in (
        ("encoder", ["self_attn"]),
        ("decoder", ["self_attn", "multihead_attn"]),
    ):
        for layer in range(2):
            start = f"transformer.{stack}.layers.{layer}."
            for attention in attentions:
                out[start + attention + ".in_proj_weight"] = (3 * width, width)
                out[start + attention + ".in_proj_bias"] = (3 * width,)
                out[start + attention + ".out_proj.weight"] = (width, width)
                out[start + attention + ".out_proj.bias"] = (width,)
            out |= {start + "linear1.weight": (hidden, width), start + "linear1.bias": (hidden,)}
            out |= {start + "linear2.weight": (width, hidden), start + "linear2.bias": (width,)}
            for norm in range(1, 2 + len(attentions)):
                out |= {f"{start}norm{norm}.{what}": (width,) for what in ("weight", "bias")}
        out |= {f"transformer.{stack}.norm.{what}": (width,) for what in ("weight", "bias")}
    rng = np.random.default_rng(5)
    return {n: rng.normal(0, 0.2, shape).astype(np.float32) for n, shape in out.items()}


def test_a_transformer_inside_of_a_class_takes_three_attempts(tmp_path, capsys):
    """Every key that is missing at once, then every tensor with the name that may be meant."""
    path = torch_zip.save(tmp_path / "model.pt", transformer_in_a_class())
    said = 'preset = "torch-transformer"\n'
    path.with_suffix(".toml").write_text(said)
    assert run(path, tmp_path / "m.phasor") == 1
    told = errors(capsys)
    assert "heads, position, embedding_scale: missing for the encoder" in told
    assert "target.start: missing too" in told

    said += 'heads = 2\nposition = "sinusoidal"\nembedding_scale = "sqrt_width"\n'
    path.with_suffix(".toml").write_text(said)
    assert run(path, tmp_path / "m.phasor") == 1
    lines = errors(capsys).splitlines()
    assert (
        "in_proj_weight, and 16 more that this file has after transformer.: say [rename]"
        in lines[0]
    )
    assert "missing: src_embedding.weight (source.embedding); is it src_tok_emb.weight?" in lines[1]
    assert "missing: tgt_embedding.weight (target.embedding); is it tgt_tok_emb.weight?" in lines[2]
    assert "missing: output.weight (output)" in lines[3]
    assert "left over: generator.weight (33 x 16) has no use in this model" in lines[-1]
    assert len(lines) == 7

    path.with_suffix(".toml").write_text(
        f"{said}max_positions = 20\n[target]\nstart = 1\n"
        '[rename]\n"transformer." = ""\n"src_tok_emb." = "src_embedding."\n'
        '"tgt_tok_emb." = "tgt_embedding."\n"generator." = "output."\n'
    )
    assert run(path, tmp_path / "m.phasor") == 0, errors(capsys)


def test_a_fault_has_the_name_that_may_be_meant(golden, tmp_path, capsys):
    arrays, save = golden
    value = arrays.pop("decoder.layers.0.positionwise_feedforward.fc_2.weight")
    arrays["decoder.layers.0.feedforward.fc_2.weight"] = value
    assert run(save(), tmp_path / "m.phasor") == 1
    first, second = errors(capsys).splitlines()
    assert "; is it decoder.layers.0.feedforward.fc_2.weight?" in first
    assert "; is it decoder.layers.0.positionwise_feedforward.fc_2.weight?" in second


def test_advice_is_bounded(golden, tmp_path, capsys):
    """Thousands of names that are like none and unlike each other cost seconds, not minutes."""
    arrays, save = golden
    for i in range(3000):
        name = "".join(chr(97 + (i * 31 + j * j * 7) % 26) for j in range(90))
        arrays[f"x{name}{'y' * (i % 40)}{'z' * (i // 40)}.weight"] = np.zeros(1, np.float32)
    for name in [n for n in arrays if "fc_" in n]:
        del arrays[name]
    path, before = save(), time.process_time()
    assert run(path, tmp_path / "m.phasor") == 1
    assert time.process_time() - before < 6
    lines = errors(capsys).splitlines()
    assert len(lines) == 21 and re.fullmatch(r"convert: and \d+ more", lines[-1])


def test_a_long_list_is_cut_and_the_report_has_all_of_it(golden, tmp_path, capsys):
    arrays, save = golden
    more = [f"more{i}.weight" for i in range(33)]
    arrays.update((name, np.zeros(1, np.float32)) for name in more)
    path, report = save(), tmp_path / "all.tsv"
    assert run(path, tmp_path / "m.phasor") == 1
    lines = errors(capsys).splitlines()
    assert len(lines) == 21 and lines[-1] == "convert: and 13 more (--report FILE lists all)"
    assert run(path, tmp_path / "m.phasor", "--report", report) == 1
    listed = [line.split("\t") for line in report.read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in listed if row[-1] == "NO USE in this model"] == more


def test_a_bias_that_one_layer_lacks_is_missing(golden, tmp_path, capsys):
    arrays, save = golden
    del arrays["encoder.layers.1.self_attention.fc_q.bias"]
    assert run(save(), tmp_path / "m.phasor") == 1
    assert "missing: encoder.layers.1.self_attention.fc_q.bias" in errors(capsys)


def test_a_last_layer_that_is_missing(golden, tmp_path, capsys):
    arrays, save = golden
    for name in [n for n in arrays if n.startswith("encoder.layers.1.")]:
        del arrays[name]
    path = save()
    text = path.with_suffix(".toml").read_text()
    path.with_suffix(".toml").write_text(text + "[encoder]\nlayers = 2\n")
    assert run(path, tmp_path / "m.phasor") == 1
    assert "missing: encoder.layers.1.self_attention.fc_q.weight" in errors(capsys)


def test_ignored_tensors(golden, tmp_path):
    arrays, save = golden
    arrays["scratch.a"] = np.zeros(3, np.float32)
    path = save()
    path.with_suffix(".toml").write_text(
        path.with_suffix(".toml").read_text() + '[checkpoint]\nignore = ["scratch.*"]\n'
    )
    assert run(path, tmp_path / "m.phasor") == 0


def test_not_finite(golden, tmp_path, capsys):
    arrays, save = golden
    arrays["decoder.fc_out.bias"] = arrays["decoder.fc_out.bias"] * np.float32(np.nan)
    (tmp_path / "m.phasor").write_bytes(b"before")
    assert run(save(), tmp_path / "m.phasor") == 1
    assert "output bias: a weight is not finite" in errors(capsys)
    assert (tmp_path / "m.phasor").read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.phasor", "model.pt", "model.toml"]


def test_integers_are_not_weights(golden, tmp_path, capsys):
    arrays, save = golden
    arrays["decoder.fc_out.bias"] = np.zeros(33, np.int64)
    assert run(save(), tmp_path / "m.phasor") == 1
    assert "decoder.fc_out.bias: has elements of type int64" in errors(capsys)


def test_a_pickle_with_code_is_refused_and_nothing_runs(tmp_path, capsys):
    mark = tmp_path / "it-ran"
    path = torch_zip.write_zip(tmp_path / "model.pt", torch_zip.evil_program(f"touch {mark}"), {})
    (tmp_path / "model.toml").write_text((GOLDEN / "separate.toml").read_text())
    assert run(path, tmp_path / "m.phasor") == 1
    text = errors(capsys)
    assert "posix.system" in text and "refused" in text and len(text.splitlines()) == 1
    assert not mark.exists() and not (tmp_path / "m.phasor").exists()


@pytest.mark.parametrize(
    "module,name,says",
    [
        ("builtins", "eval", "asks for"),
        ("builtins", "getattr", "asks for"),
        ("torch", "load", "holds an object of"),
        ("numpy.core.multiarray", "_reconstruct", "holds an object of"),
        ("collections", "defaultdict", "holds an object of"),
        ("torch.jit", "ScriptModule", "holds an object of"),
        ("torch._utils", "_rebuild_device_tensor_from_numpy", "holds an object of"),
    ],
)
def test_other_globals_are_named(tmp_path, module, name, says):
    path = torch_zip.write_zip(
        tmp_path / "m.pt", b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(tR.", {}
    )
    with pytest.raises(PhasorError, match=f"{says} {module}.{name}"):
        open_checkpoint(path)


def test_the_readers_own_objects_cannot_be_changed(tmp_path):
    """BUILD on an allowed global, and calling one with nonsense, are errors and nothing else."""
    programs = {
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}(" + torch_zip.text("_function") + b"Nub.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}("
        + torch_zip.text("_function")
        + b"Nu\x86b.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x02tR.",
        b"\x80\x02ctorch\nFloatStorage\n(tR.",
        b"\x80\x02ccollections\nOrderedDict\n}b.",
        b"\x80\x02" + torch_zip.text("x") + b"Q.",
        b"\x80\x02(lp1\nh\x01a",
        b"",
    }
    for program in programs:
        with pytest.raises(PhasorError):
            open_checkpoint(torch_zip.write_zip(tmp_path / "m.pt", program, {}))


def test_views_stay_inside_their_storage(tmp_path):
    array = np.zeros((4, 4), np.float32)
    for change in (
        {"offset": 1},
        {"shape": (4, 5)},
        {"strides": (8, 1)},
        {"offset": -1},
        {"strides": (-4, 1)},
        {"count": 99},
        {"shape": (2**30, 4), "strides": (0, 1)},
        {"kind": "DoubleStorage"},
    ):
        program = torch_zip.state_dict({"w": torch_zip.tensor(array, "0", **change)})
        with pytest.raises(PhasorError):
            path = torch_zip.write_zip(tmp_path / "m.pt", program, {"0": array.tobytes()})
            open_checkpoint(path).load("w")  # an expanded tensor may be there, unread
    program = torch_zip.state_dict(
        {"w": torch_zip.tensor(array, "0", shape=(2, 3), strides=(4, 1), offset=5)}
    )
    view = open_checkpoint(
        torch_zip.write_zip(tmp_path / "m.pt", program, {"0": np.arange(16, dtype="<f4").tobytes()})
    ).load("w")
    assert view.tolist() == [[5, 6, 7], [9, 10, 11]]


def test_other_files(tmp_path, golden):
    arrays, save = golden
    good = save().read_bytes()
    legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + b"\x80\x02M\xe9\x03."
    cases = {
        "empty": (b"", "is empty"),
        "text": (b"hello world, this is not a model", "neither"),
        "legacy": (legacy, "writer's machine is damaged"),
        "cut": (good[: len(good) // 2], "damaged"),
        "safetensors": (struct.pack("<Q", 10**9) + b"{}  ", "header is said"),
        "json": (struct.pack("<Q", 4) + b"{nul", "not a JSON object"),
    }
    for name, (data, message) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(PhasorError, match=message):
            open_checkpoint(tmp_path / name)
    with pytest.raises(PhasorError, match="directory"):
        open_checkpoint(tmp_path)
    with pytest.raises(PhasorError, match="cannot be read"):
        open_checkpoint(tmp_path / "absent")
    torch_zip.write_zip(tmp_path / "deflated", torch_zip.state_dict({}), {}, zipfile.ZIP_DEFLATED)
    with pytest.raises(PhasorError, match="compressed"):
        open_checkpoint(tmp_path / "deflated")
    torch_zip.write_zip(
        tmp_path / "script",
        torch_zip.state_dict({}),
        {},
        extra={"code/a.py": b"", "constants.pkl": b""},
    )
    with pytest.raises(PhasorError, match="TorchScript"):
        open_checkpoint(tmp_path / "script")
    torch_zip.write_zip(tmp_path / "none", torch_zip.state_dict({}), {})
    with pytest.raises(PhasorError, match="no tensors"):
        open_checkpoint(tmp_path / "none")


def test_damaged_checkpoints_never_crash(golden, tmp_path):
    arrays, save = golden
    data = save().read_bytes()
    rng = np.random.default_rng(6)
    program_at = data.find(b"data.pkl") + 8
    for i in range(300):
        damaged = bytearray(data)
        at = program_at + int(rng.integers(0, 6000)) if i % 2 else int(rng.integers(0, len(data)))
        damaged[at] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "d.pt").write_bytes(damaged)
        try:
            checkpoint = open_checkpoint(tmp_path / "d.pt")
            for name in checkpoint:
                checkpoint.tensors[name].load()
        except PhasorError:
            pass


# ---- Faults of a description and of the command line


@pytest.mark.parametrize(
    "old,new,message",
    [
        ('preset = "separate"', 'preset = "other"', "preset: 'other', expected one of"),
        ('preset = "separate"', "", "preset: missing"),
        ("heads = 2", "", "heads: missing for the encoder"),
        ("heads = 2", 'heads = "two"', "heads: 'two', expected int"),
        ("heads = 2", "heads = 3", "not divisible by 3 heads"),
        ("heads = 2", "haeds = 2", "haeds: no key is called so"),
        ('score_scale = "sqrt_heads"', "", "score_scale: missing"),
        ('score_scale = "sqrt_heads"', 'score_scale = "sqrt"', "score_scale: 'sqrt', expected"),
        ('score_scale = "sqrt_heads"', "score_scale = 0", "cannot be divided by 0"),
        ('position = "learned"', 'position = "rope"', "position: 'rope', expected"),
        ("max_positions = 40", "max_positions = 41", "max_positions 41"),
        ("start = 2", "start = 99", "special id 99 is not below the vocabulary"),
        ("start = 2", "start = -2", "start: -2 is not an id"),
        ("heads = 2", "heads = 2\nheads = 2", "not TOML"),
        (
            'output = "own"',
            'output = "target-embedding"',
            "left over: decoder.fc_out.bias|differs from",
        ),
        (
            "[source]",
            '[names]\nencoder.nose = "x"\n[source]',
            "names.encoder.nose: no part is called so",
        ),
        ("[source]", '[names]\nencoder.q = "x.{layer}.weight"\n[source]', "missing: x.0.weight"),
        ("[source]", "[colors]\n[source]", "colors: no key is called so"),
        ("[source]", 'stack = "decoder"\n[source]', "source: a model of stack 'decoder' has none"),
    ],
)
def test_faults_of_a_description(golden, tmp_path, capsys, old, new, message):
    import re

    arrays, save = golden
    path = save()
    text = path.with_suffix(".toml").read_text()
    assert old in text
    path.with_suffix(".toml").write_text(text.replace(old, new, 1))
    assert run(path, tmp_path / "m.phasor") == 1
    assert re.search(message, errors(capsys))
    assert not (tmp_path / "m.phasor").exists()


def test_command_line(golden, tmp_path, capsys):
    arrays, save = golden
    path = save()
    for arguments in (
        [],
        [str(path)],
        [str(path), "-o", "x", "--type", "f31"],
        [str(path), "-o", "x", "--nonsense"],
    ):
        with pytest.raises(SystemExit) as stop:
            convert.main(arguments)
        assert stop.value.code == 2
    assert run(tmp_path / "absent.pt", tmp_path / "m") == 1 and "no such file" in errors(capsys)
    assert run(path, tmp_path / "no" / "m") == 1 and "cannot be written" in errors(capsys)
    assert run(
        path, tmp_path / "m", "--describe", tmp_path / "absent.toml"
    ) == 1 and "cannot be read" in errors(capsys)
    assert run(
        path, tmp_path / "m", "--phasor", tmp_path / "absent"
    ) == 1 and "is not a file" in errors(capsys)
    path.with_suffix(".toml").unlink()
    assert run(path, tmp_path / "m") == 1 and "there is no description" in errors(capsys)


@pytest.mark.parametrize("kind", ["f16", "bf16", "q8", "q4"])
def test_types(golden, tmp_path, kind):
    """Matrices have the type, everything else is f32; the file verifies in the program and in
    Python."""
    arrays, save = golden
    assert run(save(), tmp_path / "m", "--type", kind) == 0
    file = PhasorFile(tmp_path / "m")
    file.check()
    assert {e.type for key, e in file.entries.items() if file.slots[key].matrix} == {
        L.type_code(kind)
    }
    assert {e.type for key, e in file.entries.items() if not file.slots[key].matrix} <= {
        L.F32,
        L.F64,
    }


def test_another_type_of_the_output(golden, tmp_path):
    """--output-type is of the embeddings and the output's matrix, --type of the other matrices."""
    arrays, save = golden
    assert run(save(), tmp_path / "m", "--type", "q4", "--output-type", "f16") == 0
    file = PhasorFile(tmp_path / "m")
    file.check()
    ends = {
        e.type
        for key, e in file.entries.items()
        if file.slots[key].matrix and file.slots[key].stack in (R.SOURCE, R.TARGET, R.OUTPUT)
    }
    others = {
        e.type
        for key, e in file.entries.items()
        if file.slots[key].matrix and file.slots[key].stack in (R.ENCODER, R.DECODER)
    }
    assert ends == {L.F16} and others == {L.Q4}


def test_types_of_another_file(golden, tmp_path, capsys):
    """--types-of writes what the types themselves would; a file of another model is refused."""
    arrays, save = golden
    path, chosen = save(), tmp_path / "chosen"
    assert run(path, chosen, "--type", "q4", "--output-type", "f16") == 0
    assert run(path, tmp_path / "m", "--types-of", chosen) == 0
    assert (tmp_path / "m").read_bytes() == chosen.read_bytes()
    other = GOLDEN.parent / "models" / "tiny-gptj-q8.phasor"
    assert run(path, tmp_path / "n", "--types-of", other) == 1
    said = errors(capsys)
    assert "is of another model" in said and "TRY: a file that phasor quantize made" in said
    assert not (tmp_path / "n").exists()
    for flag in ("--type", "--output-type"):
        with pytest.raises(SystemExit):
            run(path, tmp_path / "n", "--types-of", chosen, flag, "q8")
        assert "goes without" in errors(capsys)


# ---- Naming, sharing, positions


def renamed_golden(golden, tmp_path, rename, toml):
    arrays, save = golden
    for name in list(arrays):
        arrays[rename(name)] = arrays.pop(name)
    path = save()
    path.with_suffix(".toml").write_text(path.with_suffix(".toml").read_text() + toml)
    assert run(path, tmp_path / "m.phasor") == 0
    assert run(GOLDEN / "separate.pt", tmp_path / "g.phasor") == 0
    assert contents(tmp_path / "m.phasor") == contents(tmp_path / "g.phasor")


def test_names_can_be_anything(golden, tmp_path):
    def rename(name):
        return name.replace("self_attention.fc_q", "att.query").replace(
            "encoder.tok_embedding", "words"
        )

    renamed_golden(
        golden,
        tmp_path,
        rename,
        '[names]\nencoder.q = "encoder.layers.{layer}.att.query.weight"\n'
        'decoder.q = "decoder.layers.{layer}.att.query.weight"\nsource.embedding = '
        '"words.weight"\n',
    )


def test_prefixes_can_be_renamed(golden, tmp_path):
    renamed_golden(
        golden, tmp_path, lambda name: "module.net." + name, '[rename]\n"module.net." = ""\n'
    )


def sharing_model(tmp_path, change, more=""):
    config = Config(
        "separate",
        width=16,
        heads=2,
        hidden=9,
        layers=(1, 1),
        vocabularies=(25, 25),
        longest=8,
        position="learned",
    )
    rng = np.random.default_rng(9)
    arrays = {}
    from phasor.families import names

    table = names.PRESETS["separate"](D.ENCODER_DECODER)
    for stack in ("encoder", "decoder"):
        for part, shape in (
            ("q", (16, 16)),
            ("k", (16, 16)),
            ("v", (16, 16)),
            ("attention_out", (16, 16)),
            ("attention_norm", (16,)),
            ("ffn_in", (9, 16)),
            ("ffn_out", (16, 9)),
            ("ffn_norm", (16,)),
            ("cross_q", (16, 16)),
            ("cross_k", (16, 16)),
            ("cross_v", (16, 16)),
            ("cross_out", (16, 16)),
            ("cross_norm", (16,)),
        ):
            if part.startswith("cross") and stack == "encoder":
                continue
            name = table[f"{stack}.{part}"].replace("{layer}", "0")
            arrays[name] = rng.normal(size=shape).astype(np.float32)
            arrays[names.bias_name(name)] = rng.normal(size=shape[:1]).astype(np.float32)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        arrays[table[f"{side}.embedding"]] = rng.normal(size=(25, 16)).astype(np.float32)
        arrays[table[f"{side}.positions"]] = rng.normal(size=(8, 16)).astype(np.float32)
    arrays[table["output"]] = rng.normal(size=(25, 16)).astype(np.float32)
    arrays["decoder.fc_out.bias"] = rng.normal(size=25).astype(np.float32)
    change(arrays)
    path = torch_zip.save(tmp_path / "model.pt", arrays)
    path.with_suffix(".toml").write_text(config.toml() + more)
    return path


def test_equal_matrices_are_stored_once(tmp_path, capsys):
    def change(arrays):
        arrays["decoder.tok_embedding.weight"] = arrays["encoder.tok_embedding.weight"]
        arrays["decoder.fc_out.weight"] = arrays["encoder.tok_embedding.weight"]

    path = sharing_model(tmp_path, change)
    assert convert.main([str(path), "-o", str(tmp_path / "m.phasor")]) == 0
    assert errors(capsys).count("stored once") == 2
    file = PhasorFile(tmp_path / "m.phasor")
    assert (
        file.descriptor["target"]["embedding_shared"] == 1
        and file.descriptor["output"]["tied"] == D.TIED_TARGET
    )
    assert (
        R.TARGET << 24 | R.EMBEDDING not in file.entries and R.OUTPUT << 24 | 1 not in file.entries
    )
    assert np.isfinite(
        Reference(file).decode([2, 5], Reference(file).encode([4, 3]).output).logits
    ).all()


def test_sharing_that_is_not_so_is_refused(tmp_path, capsys):
    path = sharing_model(tmp_path, lambda arrays: None)
    path.with_suffix(".toml").write_text(
        path.with_suffix(".toml")
        .read_text()
        .replace("[target]\n", "[target]\nembedding_shared = true\n")
    )
    assert run(path, tmp_path / "m.phasor") == 1
    assert "differs from encoder.tok_embedding.weight" in errors(capsys)


def table(count, dtype):
    """The sinusoid as published code computes it."""
    position = np.arange(count, dtype=dtype)[:, None]
    rate = np.exp(np.arange(0, 16, 2).astype(dtype) * dtype(-np.log(10000.0) / 16))
    out = np.zeros((1, count, 16), np.float32)
    out[0, :, 0::2], out[0, :, 1::2] = np.sin(position * rate), np.cos(position * rate)
    return out


@pytest.mark.parametrize(
    "dtype,shift,expected",
    [(np.float32, 0, D.INTERLEAVED), (np.float64, 0, D.INTERLEAVED), (np.float64, 1e-3, D.LEARNED)],
)
def test_a_models_own_sinusoid_is_compared(tmp_path, capsys, dtype, shift, expected):
    def change(arrays):
        for stack in ("encoder", "decoder"):
            del arrays[f"{stack}.pos_embedding.weight"]
            arrays[f"{stack}.pe"] = table(8, dtype) + np.float32(shift)

    path = sharing_model(
        tmp_path,
        change,
        '[names]\nsource.sinusoid = "encoder.pe"\ntarget.sinusoid = "decoder.pe"\n',
    )
    path.with_suffix(".toml").write_text(
        path.with_suffix(".toml")
        .read_text()
        .replace('position = "learned"', 'position = "sinusoidal"')
    )
    assert convert.main([str(path), "-o", str(tmp_path / "m.phasor")]) == 0
    file = PhasorFile(tmp_path / "m.phasor")
    assert file.descriptor["encoder"]["position"] == expected
    assert ("differs from the sinusoid" in errors(capsys)) == (expected == D.LEARNED)
    if expected == D.LEARNED:
        assert np.array_equal(
            file.weights(R.SOURCE << 24 | R.POSITIONS), (table(8, dtype) + np.float32(shift))[0]
        )


def test_an_odd_width_has_no_sinusoid(tmp_path, capsys):
    arrays = {
        "encoder.embedding.weight": np.ones((5, 7), np.float32),
        "decoder.embedding.weight": np.ones((5, 7), np.float32),
    }
    arrays |= {
        f"{s}.blks.block0.ffn.dense1.weight": np.ones((4, 7), np.float32)
        for s in ("encoder", "decoder")
    }
    path = torch_zip.save(tmp_path / "model.pt", arrays)
    path.with_suffix(".toml").write_text('preset = "bias-free"\nheads = 1\n')
    assert run(path, tmp_path / "m") == 1
    assert "width 7 is odd" in errors(capsys)


def test_position_offset_drops_rows(tmp_path):
    path = sharing_model(tmp_path, lambda arrays: None)
    text = (
        path.with_suffix(".toml")
        .read_text()
        .replace("max_positions = 8", "max_positions = 5\nposition_offset = 2")
    )
    path.with_suffix(".toml").write_text(text)
    assert run(path, tmp_path / "m.phasor") == 0
    file, want = (
        PhasorFile(tmp_path / "m.phasor"),
        open_checkpoint(path).load("encoder.pos_embedding.weight"),
    )
    assert np.array_equal(file.weights(R.SOURCE << 24 | R.POSITIONS), want[2:7])


# ---- Positions inside attention


def with_positions(golden, lines: str, tables: dict[str, np.ndarray], sections: str = "") -> Path:
    """The golden checkpoint with these keys in its description and these tensors in each layer,
    `{stack}` and `{layer}` in their names."""
    arrays, save = golden
    for name, value in tables.items():
        arrays.update(
            {
                name.format(stack=stack, layer=layer): value
                for stack, layers in (("encoder", 2), ("decoder", 1))
                for layer in range(layers)
            }
        )
    path = save()
    path.with_suffix(".toml").write_text(lines + path.with_suffix(".toml").read_text() + sections)
    return path


KEYS = "{stack}.layers.{layer}.self_attention.position.keys.weight"
BIAS = "{stack}.layers.{layer}.self_attention.position.bias.weight"
V = "{stack}.layers.{layer}.self_attention.score.v"


def ones(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


@pytest.mark.parametrize(
    "lines,tables,message",
    [
        (
            'attention_position = "relative_key"\n',
            {},
            "missing: encoder.layers.0.self_attention.position.keys.weight",
        ),
        (
            'attention_position = "relative_key"\n',
            {KEYS: ones(80, 10)},
            r"has 80 rows, expected an odd number, 2·M − 1",
        ),
        (
            'attention_position = "relative_key"\nmax_distance = 39\n',
            {KEYS: ones(79, 10)},
            "max_distance 39, but .* has 79 rows, 2·M − 1 for M = 40",
        ),
        (
            'attention_position = "relative_key"\n',
            {KEYS: ones(77, 10)},
            "max_positions 40, the table of distances has rows for 39 positions",
        ),
        (
            'attention_position = "relative_key"\n',
            {KEYS: ones(79, 9)},
            r"misshapen: .*keys.weight .* has shape \(79 x 9\), expected \(79 x 10\)",
        ),
        (
            'attention_position = "clipped"\n',
            {KEYS: ones(9, 10)},
            "missing: .*position.values.weight",
        ),
        (
            'attention_position = "relative_key"\nscore = "additive"\n',
            {KEYS: ones(79, 10), V: ones(2, 10)},
            "needs q·k, not the additive score",
        ),
        ('attention_position = "t5"\n', {}, "missing: .*position.bias.weight"),
        (
            'attention_position = "t5"\n',
            {BIAS: ones(32, 3)},
            r"misshapen: .* has shape \(32 x 3\), expected \(any x 2\)",
        ),
        (
            'attention_position = "t5"\nnum_buckets = 16\n',
            {BIAS: ones(32, 2)},
            r"expected \(16 x 2\)",
        ),
        (
            'attention_position = "t5"\nmax_distance = 8\n',
            {BIAS: ones(32, 2)},
            "32 buckets up to max_distance 8",
        ),
        (
            'attention_position = "alibi"\nalibi_slopes = [0.5]\n',
            {},
            "alibi_slopes has 1 numbers, there are 2 heads",
        ),
        (
            'attention_position = "alibi"\nalibi_slopes = ["a"]\n',
            {},
            "alibi_slopes: expected a list of finite numbers",
        ),
        (
            'attention_position = "rotary"\nrotary_width = 5\n',
            {},
            "rotary_width 5, expected an even number of the head's 10 values",
        ),
        (
            'attention_position = "rotary"\nrotary_width = 12\n',
            {},
            "rotary_width 12, expected an even number of the head's 10 values",
        ),
        (
            'attention_position = "learned"\n',
            {},
            "attention_position: 'learned', expected .*; did you mean position = \"learned\"",
        ),
        ('score = "additive"\n', {}, "cross_score_scale: missing for the decoder"),
        (
            'score = "additive"\ncross_score_scale = 1\n',
            {},
            "missing: encoder.layers.0.self_attention.score.v",
        ),
        (
            'score = "additive"\ncross_score_scale = 1\n',
            {V: ones(3)},
            "has 3 values, expected 2 heads x 10, or 10 for all",
        ),
    ],
)
def test_faults_of_positions(golden, tmp_path, capsys, lines, tables, message):
    import re

    assert run(with_positions(golden, lines, tables), tmp_path / "m.phasor") == 1
    assert re.search(message, errors(capsys))


def test_the_wrong_key_for_a_position_is_pointed_out(golden, tmp_path, capsys):
    arrays, save = golden
    path = save()
    path.with_suffix(".toml").write_text(
        path.with_suffix(".toml").read_text().replace('position = "learned"', 'position = "alibi"')
    )
    assert run(path, tmp_path / "m.phasor") == 1
    assert (
        "position: 'alibi', expected none or learned or sinusoidal or sinusoidal-halves; did you "
        'mean attention_position = "alibi"?' in errors(capsys)
    )


def test_positions_looked_up_by_token_ids(golden, tmp_path, capsys):
    """A beginner's mistake: a table of positions as long as the vocabulary."""
    arrays, save = golden
    arrays["encoder.pos_embedding.weight"] = ones(29, 20)
    path = save()
    text = path.with_suffix(".toml").read_text()
    path.with_suffix(".toml").write_text(text.replace("max_positions = 40\n", ""))
    assert run(path, tmp_path / "m.phasor") == 1
    message = errors(capsys)
    assert (
        "has 29 rows, as many as the vocabulary: positions are counted from 0, not looked up by "
        "token ids"
        in message
        and message.count("\n") == 1
    )
    path.with_suffix(".toml").write_text(
        text.replace("max_positions = 40\n", "max_positions = 29\n")
    )
    assert run(path, tmp_path / "m.phasor") == 0


def test_slopes_that_are_given(golden, tmp_path):
    assert (
        run(
            with_positions(golden, 'attention_position = "alibi"\nalibi_slopes = [0.25, 3]\n', {}),
            tmp_path / "m.phasor",
        )
        == 0
    )
    assert PhasorFile(tmp_path / "m.phasor").weights(R.KINDS << 24 | R.ALIBI).tolist() == [0.25, 3]


def test_the_paper_s_slopes_and_frequencies(golden, tmp_path):
    sections = (
        '[encoder]\nattention_position = "alibi"\n[decoder]\nattention_position = '
        '"rotary"\nrotary_width = 4\nrotary_base = 100\n'
    )
    assert run(with_positions(golden, "", {}, sections), tmp_path / "m.phasor") == 0
    file = PhasorFile(tmp_path / "m.phasor")
    assert file.weights(R.KINDS << 24 | R.ALIBI).tolist() == [2**-4, 2**-8]
    assert file.weights(R.KINDS << 24 | 1 << 8 | R.ROTARY) == pytest.approx([1, 0.1])


SCALED = (
    'attention_position = "rotary"\nrotary_width = 8\nrotary_trained = 16\nrotary_context = 30\n'
    'rotary_scaling = { type = "TYPE", factor = 4.0 }\n'
)


@pytest.mark.parametrize(
    "kind, factor, most", [("yarn", 0.1 * np.log(4) + 1, 40), ("dynamic", 1, 30), ("linear", 1, 40)]
)
def test_scaled_frequencies(golden, tmp_path, kind, factor, most):
    """YaRN's factor is in the file; a scaling that depends on the length fixes the longest
    sequence."""
    assert run(with_positions(golden, SCALED.replace("TYPE", kind), {}), tmp_path / "m.phasor") == 0
    file = PhasorFile(tmp_path / "m.phasor")
    assert [k["rotary_factor"] for k in file.descriptor["kinds"]] == [pytest.approx(factor)] * 2
    assert [file.descriptor[s]["max_positions"] for s in ("encoder", "decoder")] == [most, most]
    Reference(file).encode([4, 5, 6])


@pytest.mark.parametrize(
    "lines, message",
    [
        ('rotary_scaling = { type = "yarn", factor = 4.0 }\n', "attention_position is not rotary"),
        (SCALED.replace("TYPE", "mrope"), "encoder: rope_scaling: type 'mrope', expected one of"),
    ],
)
def test_faults_of_scalings(golden, tmp_path, capsys, lines, message):
    assert run(with_positions(golden, lines, {}), tmp_path / "m.phasor") == 1
    assert message in errors(capsys)


def test_one_additive_vector_for_all_heads(golden, tmp_path):
    assert (
        run(
            with_positions(golden, 'score = "additive"\ncross_score_scale = 2\n', {V: ones(10)}),
            tmp_path / "m.phasor",
        )
        == 0
    )
    file = PhasorFile(tmp_path / "m.phasor")
    assert file.weights(R.ENCODER << 24 | R.SCORE).tolist() == [*range(1, 11), *range(1, 11)]
    said = 2**-0.5  # the golden description divides by √heads
    assert [(k["scale"], k["cross_scale"]) for k in Reference(file).d["kinds"]] == [
        pytest.approx((said, said)),
        pytest.approx((said, 0.5)),
    ]


# ---- Tokenizers


def test_word_lists(golden, tmp_path):
    arrays, save = golden
    path = save()
    specials = ["<pad>", "<unk>", "<s>", "</s>"]
    (tmp_path / "source.txt").write_text(
        "\n".join(specials + [f"s{i}" for i in range(4, 29)]) + "\n"
    )
    (tmp_path / "target.json").write_text(
        json.dumps({w: i for i, w in enumerate(specials + [f"t{i}" for i in range(4, 33)])})
    )
    assert (
        run(
            path,
            tmp_path / "m.phasor",
            "--tokenizer",
            tmp_path / "source.txt",
            "--tokenizer",
            tmp_path / "target.json",
        )
        == 0
    )
    file = PhasorFile(tmp_path / "m.phasor")
    assert (file.descriptor["source"]["tokenizer"], file.descriptor["target"]["tokenizer"]) == (
        3,
        4,
    )
    from phasor.tokenizers import section

    assert section.read_section(file.section(4))
    assert run(path, tmp_path / "m.phasor", "--tokenizer", tmp_path / "source.txt") == 0
    file = PhasorFile(tmp_path / "m.phasor")
    assert (file.descriptor["source"]["tokenizer"], file.descriptor["target"]["tokenizer"]) == (
        3,
        3,
    ) and not file.section(4)


def test_bad_tokenizers(golden, tmp_path, capsys):
    arrays, save = golden
    path = save()
    (tmp_path / "long.txt").write_text("\n".join(f"w{i}" for i in range(30)))
    (tmp_path / "holes.json").write_text('{"a": 0, "b": 2}')
    (tmp_path / "bad.model").write_bytes(b"not a model")
    (tmp_path / "bad.xyz").write_bytes(b"")
    for name, message in (
        ("long.txt", "30 pieces, the source embedding has 29"),
        ("holes.json", "are not 0, 1, 2"),
        ("bad.model", "bad.model"),
        ("bad.xyz", "expected a tokenizer.json"),
        ("absent.txt", "cannot be read"),
    ):
        assert run(path, tmp_path / "m.phasor", "--tokenizer", tmp_path / name) == 1
        assert message in errors(capsys)
    assert run(path, tmp_path / "m.phasor", *["--tokenizer", tmp_path / "long.txt"] * 3) == 1
    assert "3 files, the model has 2 sides" in errors(capsys)


# ---- The hashes of phasor's own logits


def fake_phasor(tmp_path, script: str) -> Path:
    path = tmp_path / "phasor"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_hashes_are_recorded(tmp_path):
    program = fake_phasor(
        tmp_path,
        "echo "
        '\'{"numerics":1,"vectors":[{"hash":"00000000000000ff"},'
        '{"hash":"fedcba9876543210"},{"hash":"1"}]}\'\n',
    )
    assert run(GOLDEN / "separate.pt", tmp_path / "m.phasor", "--phasor", program) == 0
    file = PhasorFile(tmp_path / "m.phasor")
    file.check()
    section = phasor_vectors.read(file.section(VECTORS), file.descriptor)
    assert section.numerics == 1 and [v.hash for v in section.vectors] == [
        255,
        0xFEDCBA9876543210,
        1,
    ]


@pytest.mark.parametrize(
    "script,message",
    [
        ("echo 'phasor: vector 0: differs' >&2; exit 1\n", "vector 0: differs"),
        ("echo nonsense\n", "printed something else"),
        ('echo \'{"numerics":1,"vectors":[]}\'\n', "3 vectors"),
    ],
)
def test_a_phasor_that_disagrees_stops_the_conversion(tmp_path, capsys, script, message):
    assert (
        run(
            GOLDEN / "separate.pt", tmp_path / "m.phasor", "--phasor", fake_phasor(tmp_path, script)
        )
        == 1
    )
    assert message in errors(capsys) and not (tmp_path / "m.phasor").exists()
