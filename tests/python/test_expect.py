"""--expect: the outputs of the user's own model become the file's vectors, and a description that
is another model is refused. tests/reference/test_expect.py has PyTorch for the user's model."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from test_convert import transformer_in_a_class

import torch_zip
from described import MUTATIONS, RIGHT, right
from phasor import convert
from phasor import vectors as V
from phasor.format.file import VECTORS, PhasorFile
from phasor.reference.forward import Reference
from places import PROGRAM, program

SOURCE, TARGET = [[4, 9, 3, 30, 7], [1, 2, 2, 8, 0]], [[1, 5, 6, 32], [1, 1, 7, 3]]


class User:
    """A checkpoint, its description, and what its model gives."""

    def __init__(self, folder: Path, description: str = RIGHT) -> None:
        weights = transformer_in_a_class()
        if "-embedding" in description:  # an output that is tied, and could be tied to either
            weights = {n: w for n, w in weights.items() if not n.startswith("generator.")}
            weights["src_tok_emb.weight"] = np.flip(weights["tgt_tok_emb.weight"], 0).copy()
        self.path = torch_zip.save(folder / "model.pt", weights)
        self.npz, self.out = folder / "expect.npz", folder / "m.phasor"
        self.describe(description)
        assert self.run() == 0
        model = Reference(PhasorFile(self.out), dtype=np.float32)
        encoded = [model.encode(np.array(row)) for row in SOURCE]
        decoded = [model.decode(np.array(row), e.output) for row, e in zip(TARGET, encoded)]
        self.arrays = {
            "ids": np.array(SOURCE),
            "target": np.array(TARGET),
            "logits": np.stack([d.logits for d in decoded]).astype(np.float32),
            "hidden": np.stack(
                [np.stack([d.embedding, *d.residuals]) for d in decoded], axis=1
            ).astype(np.float32),
        }

    def describe(self, text: str) -> None:
        self.path.with_suffix(".toml").write_text(text)

    def run(self, *more: object) -> int:
        words = (self.path, "-o", self.out, "--quiet", *more)
        if PROGRAM.is_file():
            words += ("--phasor", PROGRAM)
        return convert.main([str(word) for word in words])

    def expect(self, *more: object, **changed: np.ndarray | None) -> int:
        arrays = {**self.arrays, **changed}
        np.savez(self.npz, **{k: v for k, v in arrays.items() if v is not None})
        return self.run("--expect", self.npz, *more)


@pytest.fixture()
def user(tmp_path):
    return User(tmp_path)


@pytest.mark.parametrize("kind", ["f32", "q8"])
def test_the_outputs_become_the_vectors(user, kind):
    assert user.expect("--type", kind) == 0
    file = PhasorFile(user.out)
    section = V.read(file.section(VECTORS), file.descriptor)
    assert section.author == "the model's own outputs"
    for i, vector in enumerate(section.vectors):
        logits = user.arrays["logits"][i]
        assert vector.source.tolist() == SOURCE[i] and vector.target.tolist() == TARGET[i]
        assert np.array_equal(vector.logits, logits[:, vector.logit_ids])
        assert np.array_equal(vector.argmax, logits.argmax(axis=1))


def test_the_program_says_which_proof_it_is(user):
    told = []
    for run in (user.run, user.expect):
        assert run() == 0
        for command in ("verify", "inspect"):
            done = subprocess.run([program(), command, user.out], capture_output=True, text=True)
            told.append("against your model's outputs" in done.stdout)
            assert told[-1] != ("against the description" in done.stdout) and done.returncode == 0
    assert told == [False, False, True, True]


@pytest.mark.parametrize("name", MUTATIONS)
def test_another_model_is_refused(tmp_path, name, capsys):
    """One line, with the first row and, where hidden states are given, where these begin to
    differ."""
    change = MUTATIONS[name]
    description = right(change.beside)
    assert description.count(change.old) == 1
    user = User(tmp_path, description)
    assert user.expect() == 0
    user.out.unlink()
    user.describe(description.replace(change.old, change.new))
    start = (
        f"convert: {user.npz}: input 0, row {change.row}: the model that was described gives"
        " something else: a difference of "
    )
    for arrays in {}, {"hidden": None}:
        assert user.expect(**arrays) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(start), line
        assert line.endswith(f"; the hidden states differ {change.where}") == (not arrays), line
        assert not user.out.exists()


def test_the_first_row_and_input_that_differ_are_named(user, capsys):
    logits = user.arrays["logits"].copy()
    logits[1, 2, 7] += 1.0
    assert user.expect(logits=logits) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "input 1, row 2: the model that was described gives something else" in line, line


def test_the_first_layer_that_differs_is_named(user, capsys):
    """Hidden states that differ from the second layer's input on."""
    arrays = {name: user.arrays[name].copy() for name in ("logits", "hidden")}
    arrays["logits"] += np.linspace(0, 1, 33)
    arrays["hidden"][1:] += 0.5
    assert user.expect(**arrays) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; the hidden states differ from layer 0 on"), line


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"ids": None}, "ids: is missing"),
        ({"target": None}, "target: is missing"),
        ({"logits": None}, "expected one of output, logits"),
        ({"pooled": np.zeros(3, "f4")}, "expected one of output, logits"),
        ({"more": np.zeros(3, "f4")}, "more: no array is called so"),
        ({"ids": np.array([[31, 2]])}, "ids: id 31, the vocabulary has 31"),
        ({"ids": np.array([[-1, 2]])}, "ids: id -1"),
        ({"ids": np.array([[1.5, 2]])}, "ids: has <f8 of shape (1, 2), expected rows of int64"),
        ({"ids": np.zeros((2, 21), int)}, "ids: 21 ids, the model takes 20"),
        ({"ids": np.zeros((2, 0), int)}, "expected rows of int64"),
        ({"ids": np.zeros((3, 5), int)}, "expected 1 to 64 rows"),
        (
            {"logits": np.zeros((2, 4, 32), "f4")},
            "logits: has shape (2, 4, 32), expected (2, 4, 33)",
        ),
        ({"logits": np.full((2, 4, 33), np.nan, "f4")}, "logits: a value is not finite"),
        ({"logits": np.zeros((2, 4, 33), "c8")}, "logits: has elements of type complex64"),
        ({"logits": np.array([None])}, "logits: cannot be read as a NumPy array: its head"),
        (
            {"hidden": np.zeros((2, 2, 4, 16), "f4")},
            "hidden: has shape (2, 2, 4, 16), expected (3,",
        ),
    ],
)
def test_a_bad_file_is_one_line(user, capsys, changed, message):
    user.out.unlink()
    assert user.expect(**changed) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(user.npz) in line and message in line, line
    assert not user.out.exists()


def test_a_zip_that_is_no_npz_is_one_line(user, capsys):
    assert user.expect() == 0
    whole = user.npz.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ids.npy", b"x" * 1000)
    for data, message in (
        (b"", "the zip file is damaged"),
        (whole[: len(whole) // 2], "the zip file is damaged"),
        (packed.getvalue(), "a compressed record is not supported"),
        (whole.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09", 1), "not a .npy file of version 1"),
        (whole.replace(b"'shape': (2, 5)", b"'shape': (2, 9)", 1), "has others"),
        (whole.replace(b"False", b"exit(", 1), "its head is not one"),
    ):
        user.npz.write_bytes(data)
        assert user.run("--expect", user.npz) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert str(user.npz) in line and message in line, line
