"""Views that a pickle describes and torch.save never writes: each is refused in one line, or read
as torch.load(weights_only=True) reads it."""

from __future__ import annotations

import functools
import random
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import torch_legacy
import torch_zip
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError

DATA = np.random.default_rng(5).normal(size=24).astype("<f4")
HUGE = ((1 << 31) - 1, 1 << 47, (1 << 48) - 1, 1 << 48, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, -1)


def number(value: int) -> bytes:
    """LONG1, of any size."""
    data = value.to_bytes(17, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


@pytest.fixture(autouse=True)
def any_number(monkeypatch):
    monkeypatch.setattr(torch_zip, "number", number)


def read_both(path: Path) -> tuple[dict | str, dict | None]:
    """The tensors as the converter reads them, or its line; and as torch does, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = torch.load(path, weights_only=True)
        except Exception:  # it has one for every fault, and an internal error for some
            theirs = None
    try:
        checkpoint = open_checkpoint(path)
        return {name: checkpoint.tensors[name].load() for name in checkpoint}, theirs
    except PhasorError as error:
        line = str(error)
        assert line.startswith(str(path)) and line.isprintable() and len(line) < 2000, line
        return line, theirs


def same(path: Path) -> bool:
    """Whether the file was read; then torch has read the same."""
    ours, theirs = read_both(path)
    if isinstance(ours, str):
        return False
    assert theirs is not None and list(ours) == list(theirs), (ours, theirs)
    for name, values in ours.items():
        tensor = theirs[name]
        assert values.shape == tuple(tensor.shape), name
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        given = tensor.contiguous().numpy()
        assert values.dtype == given.dtype and values.tobytes() == given.tobytes(), name
    return True


WRITERS = {
    "zip": lambda path, program: torch_zip.write_zip(path, program, {"0": DATA.tobytes()}),
    "legacy": lambda path, program: torch_legacy.write(path, program, {"0": DATA}),
}
TENSORS = {"zip": torch_zip.tensor, "legacy": torch_legacy.tensor}


def any_view(rng: random.Random) -> dict:
    dimensions = rng.choice((0, 1, 1, 2, 2, 3, 9))

    def numbers(usual: tuple, odd: float) -> int:
        return rng.choice(HUGE) if rng.random() < odd else rng.choice(usual)

    view = {
        "shape": [numbers((0, 1, 2, 3, 4), 0.03) for _ in range(dimensions)],
        "strides": [numbers((0, 0, 1, 2, 3, 6), 0.03) for _ in range(dimensions)],
        "offset": numbers((0, 0, 1, 5, 23, 24, 25), 0.05),
    }
    if rng.random() < 0.05:
        view["strides"] = view["strides"][1:]
    if rng.random() < 0.1:
        view["count"] = numbers((0, 1, 23, 25, 48, 12), 0.3)
    if rng.random() < 0.15:
        kinds = "Half BFloat16 Double Long Int Short Char Byte Bool Float".split()
        view["kind"] = rng.choice(kinds) + "Storage"
        if rng.random() < 0.7:
            sizes = dict(zip(kinds, (2, 2, 8, 8, 4, 2, 1, 1, 1, 4)))
            view["count"] = DATA.nbytes // sizes[view["kind"].removesuffix("Storage")]
    return view


@pytest.mark.parametrize("form", WRITERS)
def test_any_view(tmp_path, form):
    """With one that covers the storage, which the older format must have."""
    rng, read = random.Random(7), 0
    whole = TENSORS[form](DATA, "0")
    for i in range(700):
        view = any_view(rng)
        entries = {"w": TENSORS[form](DATA, "0", **view), "whole": whole}
        if rng.random() < 0.5:
            entries = dict(reversed(entries.items()))
        WRITERS[form](tmp_path / "m.pt", torch_zip.state_dict(entries))
        try:
            read += same(tmp_path / "m.pt")
        except AssertionError as error:
            raise AssertionError(f"view {i}: {view}") from error
    assert 150 < read < 600, read


@pytest.mark.parametrize(
    "shape, strides, offset",
    [
        ((4, 6), (0, 1), 0),  # expanded
        ((4, 5), (1, 1), 0),  # overlapping
        ((6, 4), (1, 6), 0),  # transposed
        ((3,), (8,), 7),
        ((), (), 23),
        ((1, 1), (1 << 40, 1 << 40), 23),  # strides of one element are not used
    ],
)
@pytest.mark.parametrize("form", WRITERS)
def test_views_that_are_read(tmp_path, form, shape, strides, offset):
    view = {"shape": shape, "strides": strides, "offset": offset}
    entries = {"w": TENSORS[form](DATA, "0", **view), "whole": TENSORS[form](DATA, "0")}
    WRITERS[form](tmp_path / "m.pt", torch_zip.state_dict(entries))
    assert same(tmp_path / "m.pt")


@pytest.mark.parametrize("other", ["BFloat16", "Short"])
@pytest.mark.parametrize("form", WRITERS)
def test_a_storage_of_two_types(tmp_path, form, other):
    """torch takes the first type for both; torch.save refuses to write such tensors."""
    data = DATA.view("<f2")
    tensor = functools.partial(TENSORS[form], data, "0")
    entries = {"w": tensor("HalfStorage"), "v": tensor(f"{other}Storage")}
    path = tmp_path / "m.pt"
    if form == "zip":
        torch_zip.write_zip(path, torch_zip.state_dict(entries), {"0": data.tobytes()})
    else:
        torch_legacy.write(path, torch_zip.state_dict(entries), {"0": data})
    ours, _ = read_both(path)
    assert isinstance(ours, str) and "the storage 0 has two" in ours


@pytest.mark.parametrize("order", [b"big", b"", b"\xff" * 40, b"BIG", b"little", b"little\n"])
def test_an_order_of_bytes(tmp_path, order):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        program = torch_zip.state_dict({"w": torch_zip.tensor(DATA, "0")})
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", order)
        archive.writestr("archive/data/0", DATA.tobytes())
    ours, theirs = read_both(path)
    assert isinstance(ours, dict) == (order == b"little"), ours
    assert isinstance(ours, dict) or ("big-endian" if order == b"big" else "byteorder says") in ours


def test_records_that_are_there_twice(tmp_path):
    path = tmp_path / "m.pt"
    program = torch_zip.state_dict({"w": torch_zip.tensor(DATA, "0")})
    with pytest.warns(UserWarning):
        torch_zip.write_zip(path, program, {"0": DATA.tobytes()}, extra={"data/0": DATA.tobytes()})
    ours, _ = read_both(path)
    assert isinstance(ours, str) and "archive/data/0: is there twice" in ours


@pytest.mark.parametrize("where", range(7))
def test_numbers_of_the_older_format(tmp_path, where):
    """Keys that are there twice, gone or too many; an element count that lies; bytes behind."""
    program = torch_zip.state_dict({"w": torch_legacy.tensor(DATA, "0")})
    keys = [["0", "0"], [], ["0", "1"], ["1"], None, None, None][where]
    path = torch_legacy.write(tmp_path / "m.pt", program, {"0": DATA}, keys=keys)
    data = path.read_bytes()
    at = len(data) - DATA.nbytes - 8
    changed = {
        4: data[:at] + (1 << 62).to_bytes(8, "little") + data[at + 8 :],
        5: data[:at] + (0).to_bytes(8, "little") + data[at + 8 :],
        6: data + bytes(8),
    }
    path.write_bytes(changed.get(where, data))
    ours, _ = read_both(path)
    assert isinstance(ours, str)
