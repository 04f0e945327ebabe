"""`phasor run --embeddings`: files that it refuses, and what it does not go with."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import translators as T
from phasor import convert
from phasor.format.layout import F32
from phasor.sources.find import read_source


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    read, _ = read_source(T.write(folder / "m", "bart"))
    convert.convert(read, folder / "m.phasor", F32, {}, None, quiet=True)
    return folder / "m.phasor"


def run(phasor, model, *argv):
    words = [phasor, "run", model, "--print-ids", "--quiet", "-n", "3", *argv]
    return subprocess.run(list(map(str, words)), input="", capture_output=True, text=True)


def test_states_give_tokens(model, tmp_path, phasor):
    np.save(tmp_path / "s.npy", np.ones((T.POSITIONS, T.WIDTH), np.float32))
    done = run(phasor, model, "--embeddings", tmp_path / "s.npy")
    assert done.returncode == 0 and 1 <= len(done.stdout.split(",")) <= 3, done.stderr


INFINITE = np.ones((3, T.WIDTH), np.float32)
INFINITE[1, 4] = np.inf
BAD = {
    "another width": (np.ones((3, T.WIDTH + 1), np.float32), f"of (positions, {T.WIDTH})"),
    "one dimension": (np.ones(T.WIDTH, np.float32), f"of (positions, {T.WIDTH})"),
    "three dimensions": (np.ones((1, 3, T.WIDTH), np.float32), f"of (positions, {T.WIDTH})"),
    "no positions": (np.ones((0, T.WIDTH), np.float32), f"of (positions, {T.WIDTH})"),
    "too many": (np.ones((T.POSITIONS + 1, T.WIDTH), np.float32), "17 positions, the model has 16"),
    "infinite": (INFINITE, "position 1 has a value that is not finite"),
    "not a number": (INFINITE * np.nan, "position 0 has a value that is not finite"),
    "doubles": (np.ones((3, T.WIDTH)), "expected an array of little-endian f32"),
    "in another order": (np.ones((3, T.WIDTH), np.float32, order="F"), "in C's order"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_source(name, model, tmp_path, phasor):
    array, line = BAD[name]
    np.save(tmp_path / "s.npy", array)
    done = run(phasor, model, "--embeddings", tmp_path / "s.npy")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and done.stdout == ""
    assert "s.npy: " in done.stderr and line in done.stderr, done.stderr


def test_a_file_that_is_cut_off_or_not_there(model, tmp_path, phasor):
    np.save(tmp_path / "s.npy", np.ones((3, T.WIDTH), np.float32))
    whole = (tmp_path / "s.npy").read_bytes()
    (tmp_path / "s.npy").write_bytes(whole[:-1])
    assert "the array is cut off" in run(phasor, model, "--embeddings", tmp_path / "s.npy").stderr
    assert run(phasor, model, "--embeddings", tmp_path / "none").returncode == 1


@pytest.mark.parametrize(
    "argv",
    [["text"], ["--ids", "5"], ["--hidden", "h.npy"], ["--split", "sentences"], ["--batch", "2"]],
    ids=lambda argv: argv[0],
)
def test_what_it_does_not_go_with(argv, model, tmp_path, phasor):
    np.save(tmp_path / "s.npy", np.ones((3, T.WIDTH), np.float32))
    done = run(phasor, model, "--embeddings", tmp_path / "s.npy", *argv)
    assert done.returncode == 2 and "does not go with" in done.stderr, done.stderr
    assert not (tmp_path / "h.npy").exists()
