"""Readers of checkpoints: PyTorch's old format, shards, directories; damage is one clear error, and
no code of a file runs."""

import json
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

import torch_legacy
import torch_zip
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format.layout import PhasorError


@pytest.fixture()
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "layer.weight": rng.normal(size=(3, 5)).astype("<f4"),
        "layer.bias": rng.normal(size=3).astype("<f4"),
        "scalar": np.asarray(2.5, "<f4"),
        "half": rng.normal(size=(2, 2)).astype("<f2"),
        "ids": np.arange(4, dtype="<i8")[None],
    }


def same(checkpoint, arrays) -> bool:
    return list(checkpoint) == list(arrays) and all(
        np.array_equal(checkpoint.tensors[n].load(), a) and checkpoint.shape(n) == a.shape
        for n, a in arrays.items()
    )


# ---- PyTorch before 1.6


def test_the_old_format(arrays, tmp_path):
    assert same(open_checkpoint(torch_legacy.save(tmp_path / "m.bin", arrays)), arrays)


def test_old_tensors_that_share_a_storage(tmp_path):
    array = np.arange(12, dtype="<f4").reshape(3, 4)
    program = torch_zip.state_dict(
        {
            "top": torch_legacy.tensor(array, "7", shape=(1, 4), strides=(4, 1)),
            "rest": torch_legacy.tensor(array, "7", offset=4, shape=(4, 2), strides=(1, 4)),
        }
    )
    checkpoint = open_checkpoint(torch_legacy.write(tmp_path / "m.bin", program, {"7": array}))
    assert checkpoint.load("top").tolist() == [[0, 1, 2, 3]] and checkpoint.load(
        "rest"
    ).tolist() == [[4, 8], [5, 9], [6, 10], [7, 11]]


def test_python_2s_tables(tmp_path):
    array = np.arange(4, dtype="<f4")
    program = (
        b"\x80\x02ccollections\nOrderedDict\n(]]"
        + torch_zip.text("w")
        + b"a"
        + torch_legacy.tensor(array, "0")
        + b"aatR."
    )
    assert open_checkpoint(torch_legacy.write(tmp_path / "m.bin", program, {"0": array})).load(
        "w"
    ).tolist() == [0, 1, 2, 3]


def test_old_files_that_do_not_agree_with_themselves(tmp_path):
    array = np.zeros((4, 4), "<f4")

    def refused(message, change=None, **other):
        program = torch_zip.state_dict({"w": torch_legacy.tensor(array, "0", **(change or {}))})
        with pytest.raises(PhasorError, match=message):
            open_checkpoint(torch_legacy.write(tmp_path / "m.bin", program, {"0": array}, **other))

    refused("do not cover", {"shape": (4, 3)})
    refused("do not cover", {"strides": (3, 1)})
    refused("beyond its storage", {"offset": 1})
    refused("cannot be", {"offset": -1})
    refused("more than the file", {"count": 1 << 30})
    refused("than its tensors say", {"count": 17})
    refused("asks for torch.Storage", {"kind": "Storage"})
    refused("is cut off", {"kind": "DoubleStorage"})
    refused("not those of the tensors", keys=["1"])
    refused("not those of the tensors", keys={"0": 1})
    refused("follow the last", more=b"\0")
    refused("not of protocol 1001", protocol=1000)
    refused("neither", magic=torch_legacy.MAGIC + 1)
    refused("big-endian", machine={**torch_legacy.MACHINE, "little_endian": False})
    refused("big-endian", machine=[])


def test_code_in_an_old_file_is_named_and_not_run(tmp_path):
    mark = tmp_path / "it-ran"
    with pytest.raises(PhasorError, match="asks for posix.system.*refused, nothing was run"):
        open_checkpoint(
            torch_legacy.write(tmp_path / "m.bin", torch_zip.evil_program(f"touch {mark}"), {})
        )
    evil = pickle.dumps({"protocol_version": torch_zip.Evil(f"touch {mark}")}, protocol=2)
    path = tmp_path / "n.bin"
    path.write_bytes(pickle.dumps(torch_legacy.MAGIC, 2) + pickle.dumps(1001, 2) + evil)
    with pytest.raises(PhasorError, match="asks for posix.system"):
        open_checkpoint(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "program,message",
    [
        (
            b"\x80\x02Nr\xff\xff\xff\x7f.",
            "no tensors|state_dict",
        ),  # a memo of two thousand million places
        (
            b"\x80\x02}" + b"N" + b"\x85" * 200_000 + b"Ns.",
            "neither text nor",
        ),  # a key that hashes deeper than the stack
        (b"\x80\x02(N" + b"\x85" * 200_000 + b"\x91.", "object of builtins.frozenset"),
        (b"\x80\x02\x8a\xff" + b"\xff" * 8, "damaged"),
        (b"\x80\x02X\xff\xff\xff\x7fabc", "damaged"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "calls what is no function"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02Pstorage\n.", "opcode PERSID"),
        (b"\x80\x02(icollections\nOrderedDict\n.", "opcode INST"),
        (b"\x80\x05\x97.", "opcode NEXT_BUFFER"),
    ],
)
def test_pickles_that_would_harm(tmp_path, program, message):
    with pytest.raises(PhasorError, match=message):
        open_checkpoint(torch_zip.write_zip(tmp_path / "m.pt", program, {}))
    with pytest.raises(PhasorError, match=message + "|is cut off|list of storages"):
        open_checkpoint(torch_legacy.write(tmp_path / "m.bin", program, {}))


def test_every_byte_of_an_old_file_damaged(arrays, tmp_path):
    """An error of ours, or the same shapes: a changed name or a changed value is another matter."""
    del arrays["ids"]
    data = torch_legacy.save(tmp_path / "m.bin", arrays).read_bytes()
    shapes = [a.shape for a in arrays.values()]
    rng = np.random.default_rng(2)
    path, errors = tmp_path / "d.bin", 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        try:
            checkpoint = open_checkpoint(path)
        except PhasorError as error:
            errors += 1
            assert str(error).startswith(str(path)) and len(str(error).splitlines()) == 1
            continue
        assert [checkpoint.tensors[n].load().shape for n in checkpoint] == shapes, at
    assert errors > len(data) // 2


def _safetensors(path, arrays):
    save_file(arrays, path)
    return path


@pytest.mark.parametrize("save", [torch_legacy.save, torch_zip.save, _safetensors])
def test_every_truncation_says_what_to_do(arrays, tmp_path, save):
    """And that works: the file is read once it is saved again."""
    path = save(tmp_path / "m.bin", arrays)
    data = path.read_bytes()
    for size in [*range(0, len(data), 3), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(PhasorError) as refused:
            open_checkpoint(path)
        if size > 32:  # else the start may be anything's
            assert "download it again" in str(refused.value), size
    read = open_checkpoint(save(path, arrays))
    assert all(np.array_equal(read.tensors[name].load(), arrays[name]) for name in arrays)


# ---- Directories and shards


def write_shards(folder, arrays):
    """Two shards with their index; -> the weight map."""
    names = list(arrays)
    split = {
        "model-00001-of-00002.safetensors": names[:2],
        "model-00002-of-00002.safetensors": names[2:],
    }
    for file, own in split.items():
        save_file({n: arrays[n] for n in own}, folder / file)
    return {n: file for file, own in split.items() for n in own}


def write_index(folder, places):
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": places})
    )


def test_shards(arrays, tmp_path):
    write_index(tmp_path, write_shards(tmp_path, arrays))
    assert same(open_checkpoint(tmp_path), arrays)
    assert same(open_checkpoint(tmp_path / "model.safetensors.index.json"), arrays)


def test_faults_of_shards(arrays, tmp_path):
    places = write_shards(tmp_path, arrays)
    first = places["layer.weight"]

    def refused(message, changed):
        write_index(tmp_path, changed)
        with pytest.raises(PhasorError, match=message):
            open_checkpoint(tmp_path)

    refused("layer.weight is not in model-00002", {**places, "layer.weight": places["scalar"]})
    refused("other is not in model-00001", {**places, "other": first})
    refused(
        "has layer.weight, which the index does not place there",
        {n: f for n, f in places.items() if n != "layer.weight"},
    )
    refused("not a file beside the index", {**places, "layer.weight": "../" + first})
    refused("not a file beside the index", {**places, "layer.weight": 3})
    refused(
        "the shard absent is not beside it: download it too", {**places, "layer.weight": "absent"}
    )
    refused("weight_map", {})
    (tmp_path / "model.safetensors.index.json").write_text("[")
    with pytest.raises(PhasorError, match="index.json: not a JSON object"):
        open_checkpoint(tmp_path)


def test_a_directory(arrays, tmp_path):
    with pytest.raises(PhasorError, match="directory without weights"):
        open_checkpoint(tmp_path)
    torch_legacy.save(tmp_path / "pytorch_model.bin", arrays)
    assert same(open_checkpoint(tmp_path), arrays)
    fewer = {"layer.bias": arrays["layer.bias"]}
    save_file(fewer, tmp_path / "model.safetensors")
    assert same(open_checkpoint(tmp_path), fewer)
