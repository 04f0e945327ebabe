"""What trainers put around the weights, and the .npz of NumPy: the same model gives the same file,
and what is not known is an error."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import functools
import io
import json
import pickle
import pickletools
import re
import struct
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

import torch_legacy
import torch_zip
from conversions import problems
from phasor import tensor_report
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.format import tensors as R
from phasor.sources.find import read_source
from places import ROOT

GOLDEN = ROOT / "tests" / "golden" / "pytorch"


@pytest.fixture(autouse=True)
def no_program(monkeypatch, tmp_path):
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    checkpoint = open_checkpoint(GOLDEN / "torch-transformer.pt")
    return {name: checkpoint.load(name) for name in checkpoint}


@pytest.fixture(scope="module")
def plain(arrays, tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("plain")
    return made(torch_zip.save(folder / "m.pt", arrays))[0]


def read(path: Path, more: str = "") -> Model:
    """A checkpoint with the golden's description."""
    described = path.with_name("d.toml")
    described.write_text((GOLDEN / "torch-transformer.toml").read_text() + more)
    return read_source(path, describe=described)[0]


def made(path: Path, more: str = "") -> tuple[list[bytes], list[str]]:
    """What a checkpoint with the golden's description becomes: the bytes of each tensor, notes."""
    model = read(path, more)
    assert model.problems() == []
    return [model.weights(slot).tobytes() for slot in R.slots(model.descriptor)], model.notes


def said(path: Path, capsys, more: str = "") -> str:
    described = path.with_name("d.toml")
    described.write_text((GOLDEN / "torch-transformer.toml").read_text() + more)
    return problems(path, path.with_name("out.phasor"), capsys, "--describe", described)


def nested(path: Path, entries: dict[str, bytes], arrays: dict[str, np.ndarray]) -> Path:
    """A table of entries, whose tensors are those of `arrays` by their places."""
    body = b"".join(torch_zip.text(name) + value for name, value in entries.items())
    storages = {str(i): array.tobytes() for i, array in enumerate(arrays.values())}
    return torch_zip.write_zip(path, b"\x80\x02}(" + body + b"u.", storages)


def state(arrays: dict[str, np.ndarray], start: str = "") -> bytes:
    return torch_zip.state_dict(
        {
            f"{start}{name}": torch_zip.tensor(a, str(i))
            for i, (name, a) in enumerate(arrays.items())
        }
    )[2:-1]


# ---- Prefixes


@pytest.mark.parametrize("start", ["module.", "_orig_mod.", "module._orig_mod.", "model.module."])
def test_what_holds_the_model_is_no_part_of_its_names(start, arrays, plain, tmp_path):
    wrapped = {start + name: array for name, array in arrays.items()}
    assert made(torch_zip.save(tmp_path / "m.pt", wrapped))[0] == plain


def test_a_moving_average_is_passed_over(arrays, plain, tmp_path):
    beside = {f"model_ema.{name.replace('.', '')}": array + 1 for name, array in arrays.items()}
    wrapped = {"model." + name: array for name, array in arrays.items()}
    both = {**wrapped, **beside, "num_updates": np.array(3)}
    assert made(torch_zip.save(tmp_path / "m.pt", both))[0] == plain
    averaged = {"n_averaged": np.array(3), **{f"module.{n}": a for n, a in arrays.items()}}
    assert made(torch_zip.save(tmp_path / "n.pt", averaged))[0] == plain


def test_an_unknown_prefix_is_named(arrays, tmp_path, capsys):
    wrapped = {"teacher." + name: array for name, array in arrays.items()}
    assert "teacher." in said(torch_zip.save(tmp_path / "m.pt", wrapped), capsys)
    mixed = {"module." * (i % 2) + name: a for i, (name, a) in enumerate(arrays.items())}
    assert "missing" in said(torch_zip.save(tmp_path / "n.pt", mixed), capsys)


def test_a_prefix_that_the_description_asks_for_stays(arrays, plain, tmp_path):
    wrapped = {"module." + name: array for name, array in arrays.items()}
    path = torch_zip.save(tmp_path / "m.pt", wrapped)
    assert made(path, '\n[rename]\n"module." = ""\n')[0] == plain


def test_no_more_prefixes_than_a_name_has_in_reason(arrays, tmp_path, capsys):
    wrapped = {"module." * 5 + name: array for name, array in arrays.items()}
    assert "missing" in said(torch_zip.save(tmp_path / "m.pt", wrapped), capsys)


# ---- Entries


def test_a_trainers_file(arrays, plain, tmp_path):
    """As Lightning writes it: the weights under "model.", optimizer states with tensors beside."""
    tensor = torch_zip.tensor(next(iter(arrays.values())), "0")
    entries = {
        "epoch": b"K\x03",
        "pytorch-lightning_version": torch_zip.text("2.5.0"),
        "state_dict": state(arrays, "model."),
        "loops": b"}",
        "callbacks": b"}(" + torch_zip.text("best") + tensor + b"u",
        "optimizer_states": b"](}" + b"(K\x00" + tensor + b"ue",
        "ema_state_dict": state(arrays),
        "cuda_rng_state": tensor,
    }
    assert made(nested(tmp_path / "m.ckpt", entries, arrays))[0] == plain


def test_entries_that_are_not_known_are_named(arrays, plain, tmp_path, capsys):
    entries = {"model": state(arrays), "teacher": state(arrays)}
    path = nested(tmp_path / "m.pt", entries, arrays)
    assert "has tensors in 'model' and in 'teacher'" in said(path, capsys)
    assert made(path, '\n[checkpoint]\nkey = "model"\n')[0] == plain
    entries = {"state_dict": state(arrays), "model": state(arrays)}
    said_of_both = said(nested(tmp_path / "n.pt", entries, arrays), capsys)
    assert "has tensors in 'state_dict' and in 'model'" in said_of_both
    entries = {"model": state(arrays), "K\n\x1b[1m": state(arrays)}
    said_of_odd = said(nested(tmp_path / "o.pt", entries, arrays), capsys)
    assert said_of_odd.count("\n") == 1 and "\x1b" not in said_of_odd


def test_the_note_of_a_moving_average(arrays, tmp_path):
    entries = {"model": state(arrays), "ema": state(arrays)}
    notes = made(nested(tmp_path / "m.pt", entries, arrays))[1]
    assert any("passed over: 'ema', a moving average" in note for note in notes)


# ---- Objects


def opcodes(value: object, protocol: int = 2) -> bytes:
    """Of Python's own pickle, as torch.save writes it, without its frame and its memo."""
    made = io.BytesIO()
    pickler = pickle.Pickler(made, protocol)
    pickler.fast = True
    pickler.dump(value)
    pieces = _pieces(made.getvalue())
    return b"".join(data for data in pieces if data[:1] not in (b"\x80", b"\x95", b"."))


def _pieces(program: bytes) -> list[bytes]:
    places = [place for _, _, place in pickletools.genops(program)] + [len(program)]
    return [program[a:b] for a, b in zip(places, places[1:])]


class Settings:
    """A class that a trainer's file names and that nobody may make."""

    def __init__(self) -> None:
        self.rate = 1

    def __setstate__(self, state: dict) -> None:
        raise AssertionError("code of the file ran")


class Table(dict):
    """One with entries of its own."""


DEVICE = b"ctorch\ndevice\n" + torch_zip.text("cpu") + b"\x85R"
STORED = functools.partial(torch_zip.tensor, storage="0")
OBJECTS = {
    "args": argparse.Namespace(lr=1, inner=argparse.Namespace()),
    "best": np.float64(0.1),
    "count": np.int64(3),
    "curve": np.arange(4.0),
    "config": Path("a"),
    "when": datetime.datetime(2024, 1, 1),
    "loss": collections.defaultdict(list, a=[1]),
    "last": collections.deque([1, 2], 3),
    "seen": collections.Counter("aab"),
    "names": {"a", "b"},
    "fixed": frozenset((1, 2)),
    "rate": decimal.Decimal("0.1"),
    "raw": bytearray(b"a"),
    "part": functools.partial(dict, a=1),
    "space": types.SimpleNamespace(a=1),
    "complex": 1 + 2j,
}


@pytest.mark.parametrize("protocol", [2, 4])
def test_objects_beside_the_weights_are_data(protocol, arrays, plain, tmp_path):
    """They are read and dropped, in the file's table and in the state_dict, without a line."""
    objects = {name: opcodes(value, protocol) for name, value in OBJECTS.items()}
    objects["device"] = DEVICE
    entries = {"state_dict": state(arrays), **objects}
    tensors, notes = made(nested(tmp_path / "m.pt", entries, arrays))
    assert tensors == plain and not any("passed over" in note for note in notes)
    del objects["curve"]  # an array is no tensor, below
    flat = {name: torch_zip.tensor(a, str(i)) for i, (name, a) in enumerate(arrays.items())}
    assert made(nested(tmp_path / "n.pt", {**flat, **objects}, arrays))[0] == plain


def test_objects_of_own_classes_are_named_and_never_made(arrays, plain, tmp_path):
    odd = b"cnot_installed.anywhere\nThing\nK\x01\x85R"
    entries = {
        "model": state(arrays),
        "args": opcodes(Settings()),
        "table": opcodes(Table(a=Table())),
        "thing": odd,
        "list": b"]" + odd + b"a",
    }
    tensors, notes = made(nested(tmp_path / "m.pt", entries, arrays))
    assert tensors == plain and "not_installed" not in sys.modules
    assert [note for note in notes if "passed over" in note] == [
        f"passed over: objects of not_installed.anywhere.Thing, {__name__}.Settings,"
        f" {__name__}.Table; none of them was made or run"
    ]
    many = {f"a{i}": b"cmany\nT%d\n)\x81" % i for i in range(30)}
    notes = made(nested(tmp_path / "n.pt", {"model": state(arrays), **many}, arrays))[1]
    assert any("many.T15 and 22 more; none" in note for note in notes)


@pytest.mark.parametrize("how", ["with_state", "from_type"])
def test_parameters_with_attributes(how, arrays, plain, tmp_path):
    attributes = opcodes({"no_weight_decay": True})
    flat = {}
    for i, (name, array) in enumerate(arrays.items()):
        tensor = torch_zip.tensor(array, str(i))
        if how == "with_state":
            called, rest = b"ctorch._utils\n_rebuild_parameter_with_state\n", b"\x88N"
        else:
            called = b"ctorch._tensor\n_rebuild_from_type_v2\n"
            function, tensor = b"ctorch._utils\n_rebuild_tensor_v2\n", tensor[:-1]
            assert tensor.startswith(function)
            tensor = function + b"ctorch.nn.parameter\nParameter\n" + tensor[len(function) :]
            rest = b""
        flat[name] = called + b"(" + tensor + rest + attributes + b"tR"
    assert made(nested(tmp_path / "m.pt", flat, arrays))[0] == plain


@pytest.mark.parametrize(
    "value,says",
    [
        (b"cnot\nQuantized\n(%btR", "is an object of not.Quantized, not a plain tensor"),
        (b"ctorch._utils\n_rebuild_sparse_tensor\n(NtR", "torch._utils._rebuild_sparse_tensor"),
        (
            b"ctorch._utils\n_rebuild_parameter\n(cnot\nQuantized\n(%btRtR",
            "is an object of not.Quantized, not a plain tensor",
        ),
        (
            b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
            b"cnot\nTensor\n)NtR",
            "torch._tensor._rebuild_from_type_v2",
        ),
        (opcodes(np.arange(4.0)), "_reconstruct, not a plain tensor"),
    ],
)
def test_tensors_of_other_classes_are_named(value, says, arrays, tmp_path, capsys):
    """In place of a weight, and as one that the model could do without."""
    value = value.replace(b"%b", torch_zip.tensor(next(iter(arrays.values())), "0"))
    flat = {name: torch_zip.tensor(a, str(i)) for i, (name, a) in enumerate(arrays.items())}
    name = next(name for name in flat if name.endswith("bias"))
    for changed in ({**flat, name: value}, {**flat, "more": value}):
        line = said(nested(tmp_path / "m.pt", changed, arrays), capsys)
        assert says in line and line.endswith(
            "is not read: torch.save(model.state_dict(), FILE) writes the weights alone\n"
        )


def test_a_whole_module(arrays, plain, tmp_path, capsys):
    """torch.save(model), alone and in an entry; the way out is what `plain` was made from."""
    module = b"c__main__\nNet\n)\x81}" + torch_zip.text("_parameters") + state(arrays) + b"sb"
    storages = {str(i): array.tobytes() for i, array in enumerate(arrays.values())}
    path = torch_zip.write_zip(tmp_path / "m.pt", b"\x80\x02" + module + b".", storages)
    way_out = "is not read: torch.save(model.state_dict(), FILE) writes the weights alone\n"
    line = said(path, capsys)
    assert line == f"convert: {path}: holds an object of __main__.Net, which {way_out}"
    for key in ("", '\n[checkpoint]\nkey = "model"\n'):
        line = said(nested(path, {"model": module, "epoch": b"K\x03"}, arrays), capsys, key)
        assert "an object of __main__.Net" in line and line.endswith(way_out)
    assert made(torch_zip.save(path, arrays))[0] == plain


def test_a_whole_module_of_the_old_format(arrays, tmp_path):
    """There the class comes with its source, as a reference of its own."""
    source = b"(" + torch_zip.text("module") + b"c__main__\nNet\n"
    source += torch_zip.text("net.py") + torch_zip.text("class Net: pass") + b"tQ"
    tensor = torch_legacy.tensor(np.ones(4, "<f4"), "0")
    program = b"\x80\x02" + source + b")\x81}" + torch_zip.text("w") + tensor + b"sb."
    path = torch_legacy.write(tmp_path / "m.bin", program, {"0": np.ones(4, "<f4")})
    with pytest.raises(PhasorError, match="holds an object of __main__.Net"):
        open_checkpoint(path)


def test_buffers_that_the_description_ignores(arrays, plain, tmp_path, capsys):
    """A complex one, and one that repeats its storage: they may be there, and are no weights."""
    turns = np.exp(1j * np.arange(4)).astype("<c8")
    more = {**arrays, "turns": turns, "mask": np.zeros(1, "<f4")}
    flat = {
        name: torch_zip.tensor(array, str(i), "ComplexFloatStorage" if name == "turns" else None)
        for i, (name, array) in enumerate(more.items())
    }
    flat["mask"] = torch_zip.tensor(
        more["mask"], str(len(more) - 1), shape=(2048, 2048), strides=(0, 0)
    )
    path = nested(tmp_path / "m.pt", flat, more)
    ignored = '\n[checkpoint]\nignore = ["turns", "mask"]\n'
    assert made(path, ignored)[0] == plain
    parts = turns.view("<f4").astype(np.float64)
    report = list(tensor_report.lines(read(path, ignored)))
    assert [line.split("\t")[:9] for line in report if line.startswith(("turns", "mask"))] == [
        ["turns", "C64", "(4)", f"{parts.mean():.6g}", "-0.989992", "1", "-", "0", "0"],
        ["mask", "F32", "(2048x2048)", *"-" * 6],
    ]
    line = said(path, capsys)
    assert "left over: turns" in line and "left over: mask" in line
    checkpoint = open_checkpoint(path)
    with pytest.raises(PhasorError, match="turns: has elements of type complex64, expected"):
        checkpoint.load("turns")
    with pytest.raises(PhasorError, match=r"mask: is expanded.*save tensor.contiguous\(\) in its"):
        checkpoint.load("mask")


# ---- Factors


def norm_of(weight: np.ndarray) -> np.ndarray:
    return np.sqrt((weight.astype(np.float64) ** 2).sum(axis=1, keepdims=True))


FACTORS = {
    "weight_norm": lambda w: {"_g": norm_of(w).astype("<f4"), "_v": w},
    "weight_norm of the whole": lambda w: {
        "_g": np.array(np.sqrt((w.astype(np.float64) ** 2).sum()), "<f4"),
        "_v": w,
    },
    "parametrized": lambda w: {"original0": norm_of(w).astype("<f4"), "original1": w},
    "pruned": lambda w: {"_orig": w, "_mask": np.ones_like(w)},
}


def as_factors(arrays: dict[str, np.ndarray], how: str) -> dict[str, np.ndarray]:
    """Each matrix by its factors, and the rest."""
    out = {}
    for name, array in arrays.items():
        if array.ndim != 2 or not name.endswith("weight"):
            out[name] = array
            continue
        module, _, own = name.rpartition(".")
        start = f"{module}.parametrizations.{own}." if how == "parametrized" else name
        out |= {start + end: factor for end, factor in FACTORS[how](array).items()}
    return out


@pytest.mark.parametrize("how", FACTORS)
def test_weights_that_are_kept_as_factors(how, arrays, tmp_path):
    factors = as_factors(arrays, how)
    assert len(factors) > len(arrays)
    checkpoint = open_checkpoint(torch_zip.save(tmp_path / "m.pt", factors))
    assert set(checkpoint) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_allclose(checkpoint.load(name), array, rtol=3e-7)
    model = read(tmp_path / "m.pt")
    assert model.problems() == []
    model.note_types()
    name = "pruning" if how == "pruned" else "weight_norm"
    assert any(f" {name} to f32 (exactly)" in line for line in model.notes)


def test_a_mask_and_a_length_count(arrays, tmp_path):
    """One factor is not the weight."""
    name = next(n for n, a in arrays.items() if a.ndim == 2 and n.endswith("weight"))
    weight, rng = arrays[name], np.random.default_rng(4)
    mask = rng.integers(0, 2, weight.shape).astype("<f4")
    length = rng.uniform(0.5, 2, (len(weight), 1)).astype("<f4")
    wanted = weight.astype(np.float64) * (length / norm_of(weight))
    for ends, values in (
        ({"_orig": weight, "_mask": mask}, weight * mask),
        ({"_g": length, "_v": weight}, wanted.astype(np.float32)),
    ):
        path = torch_zip.save(tmp_path / "m.pt", {name + end: a for end, a in ends.items()})
        np.testing.assert_array_equal(open_checkpoint(path).load(name), values)


@pytest.mark.parametrize(
    "ends, says",
    [
        (
            ("_orig", "_u", "_v"),
            "spectral_norm from %_orig, %_u, %_v, which is not supported: call",
        ),
        ((".original", ".0._u"), "a parametrization from .*: call torch.nn.utils.parametrize.rem"),
        ((".original0", ".original1"), "a parametrization"),
    ],
)
def test_other_parametrizations_are_named(ends, says, arrays, tmp_path, capsys):
    name = next(n for n, a in arrays.items() if a.ndim == 2 and n.endswith("weight"))
    module, _, own = name.rpartition(".")
    start = f"{module}.parametrizations.{own}" if ends[0][0] == "." else name
    changed = {**arrays, **{start + end: arrays[name] for end in ends}}
    del changed[name]
    line = said(torch_zip.save(tmp_path / "m.pt", changed), capsys)
    assert re.search(says.replace("%", re.escape(name)), line) and line.count("\n") == 1
    assert f"{name}: is made by" in line


def test_names_that_are_like_factors_by_chance(arrays, tmp_path):
    """Shapes that are none of weight_norm's, a factor alone, a weight that is there."""
    more = {
        "a.weight_g": np.ones((4, 4), "<f4"),
        "a.weight_v": np.ones((4, 4), "<f4"),
        "b.weight_orig": np.ones(3, "<f4"),
        "c.weight_orig": np.ones(3, "<f4"),
        "c.weight_mask": np.ones(4, "<f4"),
        "d.weight": np.ones(3, "<f4"),
        "d.weight_orig": np.ones(3, "<f4"),
        "d.weight_mask": np.ones(3, "<f4"),
        "e.w_g": np.ones((3, 1), "<f4"),
        "e.w_v": np.ones((3, 3), "<f4"),
        "parametrizations.weight.original0": np.ones(3, "<f4"),
    }
    assert list(open_checkpoint(torch_zip.save(tmp_path / "m.pt", more))) == list(more)


# ---- .npz


def test_npz(arrays, plain, tmp_path):
    np.savez(tmp_path / "m.npz", **arrays)
    assert made(tmp_path / "m.npz")[0] == plain
    turned = {f"module.{name}": np.asfortranarray(array) for name, array in arrays.items()}
    np.savez(tmp_path / "n.npz", **turned)
    assert made(tmp_path / "n.npz")[0] == plain


def test_an_npz_that_is_none(arrays, tmp_path, capsys):
    np.savez_compressed(tmp_path / "m.npz", **arrays)
    assert "compressed" in said(tmp_path / "m.npz", capsys)
    np.savez(tmp_path / "o.npz", **{**arrays, "o": np.array([object()], dtype=object)})
    assert "o: cannot be read as a NumPy array" in said(tmp_path / "o.npz", capsys)
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as file:
        file.writestr("a.npy", b"")
        file.writestr("a.py", b"")
    assert "without one data.pkl" in said(tmp_path / "p.npz", capsys)


# ---- Floats of 8 bits


def e4m3(code: int) -> float:
    sign, exponent, part = code >> 7, code >> 3 & 15, code & 7
    if code & 127 == 127:
        return float("nan")
    value = part / 8 * 2**-6 if exponent == 0 else (1 + part / 8) * 2.0 ** (exponent - 7)
    return -value if sign else value


def file_of(dtype: str, data: bytes, shape: list[int]) -> bytes:
    header = json.dumps({"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}})
    return struct.pack("<Q", len(header)) + header.encode() + data


def test_every_float_of_8_bits(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of("F8_E4M3", bytes(range(256)), [256]))
    wanted = np.array([e4m3(code) for code in range(256)], np.float32)
    np.testing.assert_array_equal(open_checkpoint(path).load("w"), wanted)
    path.write_bytes(file_of("F8_E5M2", bytes(range(256)), [16, 16]))
    wanted = (np.arange(256, dtype="<u2") << 8).view("<f2").astype(np.float32)
    np.testing.assert_array_equal(open_checkpoint(path).load("w"), wanted.reshape(16, 16))


@pytest.mark.parametrize(
    "dtype,data,shape,says",
    [
        ("F8_E4M3", bytes(4), [8], "do not fit its shape"),
        ("F8_E8M0", bytes(4), [4], "are not supported"),
        ("C64", bytes(8), [2], "do not fit its shape"),
        ("U16", bytes(4), [4], "do not fit its shape"),
    ],
)
def test_floats_of_8_bits_that_do_not_fit(dtype, data, shape, says, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(file_of(dtype, data, shape))
    with pytest.raises(PhasorError, match=says):
        open_checkpoint(path)


def typed(kind: bytes, storage: bytes = b"ctorch.storage\nUntypedStorage\n") -> bytes:
    """torch._utils._rebuild_tensor_v3 of 4 bytes."""
    reference = b"(" + torch_zip.text("storage") + storage + torch_zip.text("0")
    reference += torch_zip.text("cpu") + b"K\x04tQ"
    view = b"K\x00(K\x04t(K\x01t\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v3\n(" + reference + view + kind + b"tR"


@pytest.mark.parametrize(
    "value,says",
    [
        (typed(b"ctorch\nfloat8_e4m3fn\n"), ""),
        (typed(b"ctorch\nfloat4_e2m1fn_x2\n"), "asks for torch.float4_e2m1fn_x2"),
        (typed(b"N"), "cannot be"),
        (typed(b"ctorch\nfloat32\n"), "beyond its storage"),
        (typed(b"cos\nsystem\n"), "asks for os.system"),
        (typed(b"ctorch\nuint16\n"), "beyond its storage"),
        (typed(b"ctorch\nuint8\n", b"ctorch.storage\nTypedStorage\n"), "asks for torch.storage"),
    ],
)
def test_a_pickle_that_names_the_type(value, says, tmp_path):
    path = tmp_path / "m.pt"
    program = torch_zip.state_dict({"w": value})
    torch_zip.write_zip(path, program, {"0": bytes((0x38, 0x40, 0xB8, 0x01))})
    if not says:
        assert open_checkpoint(path).load("w").tolist() == [1.0, 2.0, -1.0, 2.0**-9]
        return
    with pytest.raises(PhasorError, match=says):
        open_checkpoint(path)
