"""--embeddings: sequences of vectors for embed, classify, tag and run, and the models that read
nothing else; beside the float64 reference."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_descriptions import tensors

import torch_zip
from phasor import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from places import ROOT

WIDTH, INPUTS, LENGTH = 32, 6, 7
MODELS = ROOT / "tests" / "golden" / "models"
TOML = """
preset = "torch-transformer"
stack = "encoder"
heads = 4
final_norm = false
embedding_scale = 2.0
position = "learned"
"""
NAMES = """
[names]
source.projection = "proj.weight"
source.positions = "places"
"""
CLASS = 'source.class_token = "cls"\n'
CLASSIFIER = 'classifier = "fc.weight"\n'


def given(inputs: int = INPUTS, token: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    out = {n: v for n, v in tensors().items() if n != "src_embedding.weight"}
    shapes = {"proj.weight": (WIDTH, inputs), "proj.bias": (WIDTH,), "places": (1, 20, WIDTH)}
    shapes |= {"fc.weight": (3, WIDTH), "fc.bias": (3,)}
    shapes |= {"cls": (1, 1, WIDTH)} if token else {}
    return out | {n: rng.normal(size=s).astype(np.float32) * 0.3 for n, s in shapes.items()}


def without_classes(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value for name, value in weights.items() if "fc" not in name}


def make(folder: Path, tables: str, given: dict, keys: str = "", *flags: object) -> int:
    torch_zip.save(folder / "m.pt", given)
    (folder / "m.toml").write_text(TOML + keys + tables)
    words = [folder / "m.pt", "-o", folder / "m.phasor", *flags]
    return convert.main([str(word) for word in words])


def run(phasor: Path, *arguments: object) -> subprocess.CompletedProcess:
    words = [phasor, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, input="")


def said(phasor: Path, *arguments: object) -> str:
    done = run(phasor, *arguments, "--quiet")
    assert done.returncode == 0, done.stderr
    return done.stdout


def hidden(path: Path, vectors: np.ndarray, given: dict, token: bool) -> np.ndarray:
    """Of one sequence, from the tensors as the module would have them."""
    reference = Reference(PhasorFile(path))
    x = vectors.astype(np.float64) @ given["proj.weight"].astype(np.float64).T + given["proj.bias"]
    x = x * 2.0
    if token:
        x = np.concatenate([given["cls"].reshape(1, -1).astype(np.float64), x])
    x = x + given["places"][0, : len(x)]
    for index, weights in D.layers_of(reference.d["encoder"]):
        x = reference.block(x, None, index, 2, weights)
    return x


@pytest.mark.parametrize("inputs", [1, INPUTS, WIDTH - 1, WIDTH, 40])
@pytest.mark.parametrize("token", [False, True])
def test_a_model_that_reads_vectors(phasor, tmp_path, token, inputs):
    """Its projection, scale, positions and class token, as the module computes them."""
    weights = given(inputs, token)
    assert make(tmp_path, NAMES + CLASS * token, without_classes(weights)) == 0
    vectors = np.random.default_rng(3).normal(size=(3, LENGTH, inputs)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    model = tmp_path / "m.phasor"
    assert "ok, structure" in said(phasor, "verify", model)
    flags = ("--pooling", "mean", "--npy", tmp_path / "out.npy")
    said(phasor, "embed", model, "--embeddings", tmp_path / "v.npy", *flags)
    out = np.load(tmp_path / "out.npy")
    for row, one in zip(out, vectors):
        want = hidden(model, one, weights, token).mean(axis=0)
        assert np.abs(row - want).max() < 1e-5 * np.ptp(want)
    np.save(tmp_path / "one.npy", vectors[1])
    flags = ("--pooling", "mean", "--hidden", tmp_path / "h.npy")
    line = said(phasor, "embed", model, "--embeddings", tmp_path / "one.npy", *flags)
    assert np.array_equal(np.array(line.split(), np.float32), out[1])
    assert np.load(tmp_path / "h.npy").shape == (3, LENGTH + token, WIDTH)


def test_classes_of_vectors(phasor, tmp_path):
    weights = given(token=True)
    keys = 'pooling = "first"\nlabels = ["a", "b", "c"]\n'
    assert make(tmp_path, NAMES + CLASS + CLASSIFIER, weights, keys) == 0
    vectors = np.random.default_rng(4).normal(size=(2, LENGTH, INPUTS)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    flags = ("--embeddings", tmp_path / "v.npy", "--json")
    lines = said(phasor, "classify", tmp_path / "m.phasor", *flags).splitlines()
    for line, one in zip(lines, vectors, strict=True):
        first = hidden(tmp_path / "m.phasor", one, weights, True)[0]
        logits = first @ weights["fc.weight"].astype(np.float64).T + weights["fc.bias"]
        want = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        got = {label["label"]: label["score"] for label in json.loads(line)["labels"]}
        assert all(abs(got[name] - share) < 1e-5 for name, share in zip("abc", want))


def test_tags_of_vectors(phasor, tmp_path):
    """A stretch is of positions, and has no text."""
    keys = 'labels = ["O", "B-x", "I-x"]\n'
    assert make(tmp_path, NAMES + CLASSIFIER, given(), keys) == 0
    np.save(tmp_path / "v.npy", np.random.default_rng(5).normal(size=(9, INPUTS)).astype("<f4"))
    flags = (tmp_path / "m.phasor", "--embeddings", tmp_path / "v.npy", "--json")
    tokens = json.loads(said(phasor, "classify", *flags))["tokens"]
    best = [token["labels"][0]["label"] for token in tokens]
    assert [token["place"] for token in tokens] == [*range(9)] and "id" not in tokens[0]
    entities = json.loads(said(phasor, "tag", *flags))["entities"]
    covered = {i for e in entities for i in range(e["start"], e["end"])}
    assert covered == {i for i, label in enumerate(best) if label != "O"}
    assert all(e["label"] == "x" and e["text"] == "" for e in entities) and entities


def test_rows_of_an_embedding_are_its_ids(phasor, tmp_path):
    """Of a model that reads ids: the vectors of some ids are these ids."""
    model, ids = MODELS / "tiny-albert-f32.phasor", [5, 1, 9, 9, 2]
    file = PhasorFile(model)
    np.save(tmp_path / "v.npy", file.weights(1 << 24 | 1)[ids].astype("<f4"))
    words = ("embed", model, "--pooling", "mean")
    own = said(phasor, *words, "--ids", ",".join(map(str, ids)))
    assert said(phasor, *words, "--embeddings", tmp_path / "v.npy") == own


@pytest.mark.parametrize(
    "array, line",
    [
        (np.zeros((3, 5), "<f4"), "expected an array of (positions, 6) or (sequences, positions"),
        (np.zeros((0, 6), "<f4"), "expected an array of (positions, 6)"),
        (np.zeros((2, 0, 6), "<f4"), "expected an array of (positions, 6)"),
        (np.zeros(6, "<f4"), "expected an array of (positions, 6)"),
        (np.zeros((1, 1, 1, 6), "<f4"), "expected an array of (positions, 6)"),
        (np.zeros((3, 6)), "expected an array of little-endian f32"),
        (np.zeros((6, 3), "<f4").T, "expected an array of little-endian f32, in C's order"),
        (np.full((3, 6), np.nan, "<f4"), "sequence 0, position 0 has a value that is not finite"),
        (np.zeros((21, 6), "<f4"), "21 positions, the model has 20"),
        (b"\x93NUMPY\x01\x00\xff\xff", "not a NumPy file of version 1.0"),
    ],
)
def test_arrays_that_cannot_be(phasor, tmp_path, array, line):
    weights = without_classes(given())
    assert make(tmp_path, NAMES, weights) == 0
    if isinstance(array, bytes):
        (tmp_path / "v.npy").write_bytes(array)
    else:
        np.save(tmp_path / "v.npy", array)
    words = ("embed", tmp_path / "m.phasor", "--pooling", "mean")
    done = run(phasor, *words, "--embeddings", tmp_path / "v.npy")
    assert done.returncode == 1 and line in done.stderr and len(done.stderr.splitlines()) == 1


def test_lines_of_numbers(phasor, tmp_path):
    """CSV and JSON lines give what the same array gives; what is none is refused by its line."""
    assert make(tmp_path, NAMES, without_classes(given())) == 0
    values = np.random.default_rng(7).normal(size=(3, 6)).astype("<f4")
    np.save(tmp_path / "v.npy", values)
    rows = [[repr(float(x)) for x in row] for row in values]
    texts = {
        "v.csv": "".join(",".join(row) + "\r\n" for row in rows),
        "v.jsonl": "\n".join(f"[{', '.join(row)}]" for row in rows),
        "v.txt": "".join(" ".join(row) + "\n" for row in rows),
    }
    words = ("embed", tmp_path / "m.phasor", "--pooling", "mean", "--embeddings")
    wanted = run(phasor, *words, tmp_path / "v.npy")
    for name, text in texts.items():
        (tmp_path / name).write_text(text, newline="")
        done = run(phasor, *words, tmp_path / name)
        assert done.returncode == 0 and done.stdout == wanted.stdout, done.stderr
    for text, line in (
        ("", "is empty, expected an array of NumPy, or lines of numbers"),
        ("a,b\n1,2\n", "line 1: expected numbers with commas between them"),
        ("1,2\n\n3,4\n", "line 2: an empty line"),
        ("1,2\n3\n", "line 2: another number of values than line 1"),
        ("1,2\n[3,4\n", "line 2: expected numbers"),
        ("1,,2\n", "line 1: expected numbers"),
        ("1,2,\n", "line 1: expected numbers"),
        ("nan,1\n", "line 1: expected numbers"),
        ("0x10,1\n", "line 1: expected numbers"),
        ("1" * 65 + "\n", "line 1: expected numbers"),
        ("1e99,0,0,0,0,0\n", "position 0 has a value that is not finite"),
        ("1,2\n", "expected an array of (positions, 6)"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        done = run(phasor, *words, tmp_path / "bad.csv")
        assert done.returncode == 1 and line in done.stderr, (text, done.stderr)
        assert len(done.stderr.splitlines()) == 1


def test_what_does_not_go_together(phasor, tmp_path):
    weights = without_classes(given())
    assert make(tmp_path, NAMES, weights) == 0
    np.save(tmp_path / "v.npy", np.zeros((3, 6), "<f4"))
    words = ("embed", tmp_path / "m.phasor", "--pooling", "mean")
    for flags, status, line in (
        (("--ids", "1,2"), 1, "reads vectors and no text. TRY: --embeddings FILE"),
        (("--embeddings", tmp_path / "v.npy", "--ids", "1"), 2, "--ids: does not go with --embedd"),
        (("--embeddings", tmp_path / "v.npy", "a"), 2, "a text: does not go with --embeddings"),
    ):
        done = run(phasor, *words, *flags)
        assert done.returncode == status and line in done.stderr


@pytest.mark.parametrize("token", [False, True])
def test_the_proof_of_a_model_of_vectors(phasor, tmp_path, capsys, token):
    """--expect takes vectors, which become the test vectors' rows; another output is refused."""
    weights = without_classes(given(token=token))
    names = NAMES + CLASS * token
    assert make(tmp_path, names, weights) == 0
    vectors = np.random.default_rng(6).normal(size=(2, LENGTH, INPUTS)).astype(np.float32)
    rows = [hidden(tmp_path / "m.phasor", one, weights, token) for one in vectors]
    for share, status in ((1.0, 0), (1.1, 1)):
        np.savez(tmp_path / "e.npz", vectors=vectors, output=np.stack(rows) * share)
        assert make(tmp_path, names, weights, "", "--expect", tmp_path / "e.npz") == status
    assert "gives something else" in capsys.readouterr().err
    np.savez(tmp_path / "e.npz", vectors=vectors, output=np.stack(rows))
    assert make(tmp_path, names, weights, "", "--expect", tmp_path / "e.npz") == 0
    assert "against your model's outputs" in said(phasor, "verify", tmp_path / "m.phasor")
    np.savez(tmp_path / "e.npz", ids=np.zeros((2, 3), int), output=np.stack(rows))
    assert make(tmp_path, names, weights, "", "--expect", tmp_path / "e.npz") == 1
    assert "vectors: is missing: this model reads vectors" in capsys.readouterr().err


def test_a_class_token_before_ids(tmp_path, capsys):
    """It is a row of the embedding behind the others, and --expect's ids do not have it."""
    weights = tensors(cls=np.random.default_rng(8).normal(size=(1, WIDTH)).astype(np.float32))
    keys, names = 'pooling = "first"\n', '[names]\nsource.class_token = "cls"\n'
    toml = keys.join(("", names))
    torch_zip.save(tmp_path / "m.pt", weights)
    (tmp_path / "m.toml").write_text(TOML.replace("learned", "none") + toml)
    words = [str(tmp_path / "m.pt"), "-o", str(tmp_path / "m.phasor")]
    assert convert.main(words) == 0, capsys.readouterr().err
    file = PhasorFile(tmp_path / "m.phasor")
    assert file.descriptor["source"]["prefix"] == [50]
    assert file.descriptor["source"]["vocabulary"] == 51
    reference = Reference(file)
    out = reference.output(reference.encode([50, 4, 5]))
    np.savez(tmp_path / "e.npz", ids=np.array([[4, 5]]), pooled=out)
    assert convert.main([*words, "--expect", str(tmp_path / "e.npz")]) == 0
    (tmp_path / "m.toml").write_text(
        TOML.replace("learned", "none") + 'output = "source-embedding"\n' + names
    )
    assert convert.main(words) == 1
    assert "source.class_token: the output's matrix is the embedding" in capsys.readouterr().err


def test_an_encoder_decoder_that_reads_vectors(phasor, tmp_path):
    """run takes its vectors, and the decoder attends to what its own encoder makes of them."""
    rng = np.random.default_rng(9)
    weights = {n: v for n, v in without_classes(given()).items() if n != "places"}
    layer = {n.split("layers.0.")[1]: v for n, v in weights.items() if "layers.0." in n}
    for name, value in layer.items():
        weights[f"decoder.layers.0.{name}"] = rng.permutation(value)
        if name.startswith("self_attn."):
            cross = name.replace("self_attn", "multihead_attn")
            weights[f"decoder.layers.0.{cross}"] = rng.permutation(value)
    for end, value in (("weight", 1), ("bias", 0)):
        weights[f"decoder.layers.0.norm3.{end}"] = np.full(WIDTH, value, np.float32)
    for name in ("tgt_embedding.weight", "output.weight"):
        weights[name] = rng.normal(size=(11, WIDTH)).astype(np.float32)
    toml = TOML.replace('stack = "encoder"', "").replace("learned", "none")
    toml += "[target]\nstart = 1\nend = [2]\n" + NAMES.replace('source.positions = "places"', "")
    torch_zip.save(tmp_path / "m.pt", weights)
    (tmp_path / "m.toml").write_text(toml)
    assert convert.main([str(tmp_path / "m.pt"), "-o", str(tmp_path / "m.phasor")]) == 0
    vectors = rng.normal(size=(LENGTH, INPUTS)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    words = ("run", tmp_path / "m.phasor", "-n", 6, "--print-ids")
    line = said(phasor, *words, "--embeddings", tmp_path / "v.npy")
    made = [int(one) for one in line.strip().split(",")]
    reference = Reference(PhasorFile(tmp_path / "m.phasor"))
    x = vectors.astype(np.float64) @ weights["proj.weight"].T + weights["proj.bias"]
    x = x * 2.0
    for index, number in D.layers_of(reference.d["encoder"]):
        x = reference.block(x, None, index, 2, number)
    ids = [1]
    while len(ids) <= 6 and ids[-1] != 2:
        ids.append(int(np.argmax(reference.decode(ids, x).logits[-1])))
    assert made == ids[1:]
    done = run(phasor, *words)
    assert done.returncode == 1 and "reads vectors and no text" in done.stderr
    np.save(tmp_path / "v.npy", np.stack([vectors, vectors]))
    done = run(phasor, *words, "--embeddings", tmp_path / "v.npy")
    assert done.returncode == 1 and "2 sequences, run takes one" in done.stderr
