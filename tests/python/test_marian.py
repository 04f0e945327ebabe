"""Marian's .npz: the weights where they belong, and what cannot be in a line. What the model
computes is in tests/reference/test_marian.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from marian_model import LAYERS, ROWS, WIDTH, Model

from phasor import convert
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_program(monkeypatch, tmp_path):
    """A phasor program that happens to be built does not record hashes here."""
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")


def made(model: Model, folder: Path, *flags: str) -> PhasorFile:
    (folder / "m.npz").write_bytes(model.bytes())
    out = folder / "m.phasor"
    assert convert.main([str(folder / "m.npz"), "-o", str(out), "--quiet", *flags]) == 0
    return PhasorFile(out)


def said(model: Model, folder: Path, capsys, *flags: str) -> str:
    (folder / "m.npz").write_bytes(model.bytes())
    out = folder / "m.phasor"
    assert convert.main([str(folder / "m.npz"), "-o", str(out), "--quiet", *flags]) == 1
    assert not out.exists()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"convert: {folder / 'm.npz'}"), lines
    return lines[0]


def weights(file: PhasorFile) -> dict[str, np.ndarray]:
    return {slot.name: file.weights(slot.key) for slot in R.slots(file.descriptor)}


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_weights(before, tied, tmp_path):
    model = Model(before, tied)
    file = made(model, tmp_path)
    found, given = weights(file), model.arrays
    for stack in ("encoder", "decoder"):
        for i in range(LAYERS):
            layer = f"{stack}_l{i + 1}"
            qkv = np.concatenate([given[f"{layer}_self_W{x}"].T for x in "qkv"])
            np.testing.assert_array_equal(found[f"{stack} {i} q,k,v weight"], qkv)
            inner = given[f"{layer}_ffn_W1"].T
            np.testing.assert_array_equal(found[f"{stack} {i} feed-forward in weight"], inner)
    kind, target = file.descriptor["kinds"][0], file.descriptor["target"]
    assert kind["norm_place"] == (D.BEFORE if before else D.AFTER)
    assert kind["norm_eps"] == np.float32(1e-6)
    assert target["vocabulary"] == ROWS + 1 and target["decoder_start"] == ROWS
    assert target["end"] == [0] and file.descriptor["source"]["suffix"] == [0]
    assert file.descriptor["source"]["vocabulary"] == ROWS + tied
    assert file.descriptor["generation"]["suppressed"] == [ROWS]
    name = "source embedding" if tied else "target embedding"
    embedding = given["Wemb" if tied else "decoder_Wemb"]
    np.testing.assert_array_equal(found[name], np.pad(embedding, ((0, 1), (0, 0))))
    bias = given["decoder_ff_logit_out_b"][0]
    np.testing.assert_array_equal(found["output bias"], np.append(bias, np.float32(-100)))
    assert ("output weight" in found) == (not tied)


def test_trained_positions(tmp_path):
    model = Model()
    model.options["transformer-train-position-embeddings"] = "true"
    table = np.random.default_rng(1).normal(size=(12, WIDTH)).astype(np.float32)
    model.arrays["Wpos"] = table
    found = weights(made(model, tmp_path))
    np.testing.assert_array_equal(found["source positions"], table)
    np.testing.assert_array_equal(found["target positions"], table)


def test_its_sentencepiece_vocabulary(tmp_path):
    path = ROOT / "tests" / "golden" / "tokenizers" / "bpe.model"
    spm = tmp_path / "vocab.spm"
    spm.write_bytes(path.read_bytes())
    (tmp_path / "m.npz").write_bytes(Model().bytes())
    words = [str(tmp_path / "m.npz"), "-o", str(tmp_path / "m.phasor"), "--quiet"]
    assert convert.main([*words, "--tokenizer", str(spm)]) == 1  # more pieces than rows
    small = tmp_path / "words.txt"
    small.write_text("".join(f"{word}\n" for word in ["</s>", "<unk>", "a", "b"]))
    file = made(Model(), tmp_path, "--tokenizer", str(small))
    assert file.descriptor["source"]["tokenizer"] == file.descriptor["target"]["tokenizer"]


def _option(name: str, value):
    return lambda model: model.options.update({name: value})


def _drop(name: str):
    return lambda model: model.arrays.pop(name)


WRONG = {
    "type": (_option("type", "amun"), "type: 'amun' is not built"),
    "gelu": (_option("transformer-ffn-activation", "gelu"), "'gelu' is not built"),
    "ssru": (_option("transformer-decoder-autoreg", "rnn"), "autoreg: 'rnn' is not built"),
    "backwards": (_option("right-left", "true"), "right-left: True is not built"),
    "depth": (_option("transformer-ffn-depth", 3), "ffn-depth: 3 is not built"),
    "factors": (_option("lemma-dim-emb", 64), "lemma-dim-emb: 64 is not built"),
    "shared layers": (_option("transformer-tied-layers", [1, 1]), "tied-layers"),
    "norms": (_option("transformer-preprocess", "n"), "is not built with the others"),
    "embedding steps": (_option("transformer-postprocess-emb", "a"), "postprocess-emb"),
    "unknown": (_option("transformer-new-thing", 3), "transformer-new-thing: not known"),
    "heads": (_option("transformer-heads", 3), "are not divisible by 3 heads"),
    "no heads": (_option("transformer-heads", "x"), "transformer-heads: 'x', expected"),
    "layers": (_option("enc-depth", 100000), "enc-depth: 100000, expected"),
    "width": (_option("dim-emb", 17), "width 17 is odd"),
    "no embedding": (_drop("Wemb"), "neither Wemb nor encoder_Wemb"),
    "no matrix": (_drop("encoder_l2_ffn_W2"), "missing: encoder.1.ffn_out.weight"),
    "left over": (
        lambda model: model.arrays.update({"decoder_l1_extra_W": np.ones((2, 2), "<f4")}),
        "left over: decoder_l1_extra_W",
    ),
    "deep": (_option("a", "b\n  c: d"), "expected a new name and a value"),
    "twice": (_option("a", "1\ntype: transformer\ntype: x"), "expected a new name"),
    "no positions": (_option("transformer-train-position-embeddings", "true"), "Wpos is missing"),
    "long": (_option("a", "x" * (1 << 20)), "bytes of options"),
    "lines": (_option("a", list(range(5000))), "lines of options"),
    "bytes": (_option("a", "\udcff"), "is not UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_in_a_line(name, tmp_path, capsys, monkeypatch):
    change, says = WRONG[name]
    model = Model()
    change(model)
    if name == "bytes":
        import marian_model

        plain = marian_model.yaml({k: v for k, v in model.options.items() if k != "a"})
        monkeypatch.setattr(marian_model, "yaml", lambda _: b"a: \xff\n" + plain)
    assert says in said(model, tmp_path, capsys)
