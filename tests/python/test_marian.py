"""Marian's .npz: the weights where they belong, and what cannot be in a line. What the model
computes is in tests/reference/test_marian.py."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import translators
from conversions import convert_to, refused
from marian_model import LAYERS, ROWS, WIDTH, Model
from phasor import convert
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.sources.marian.vocabulary import read_vocabulary
from phasor.tokenizers.section import read_section

pytestmark = pytest.mark.usefixtures("no_program")


def made(model: Model, folder: Path, *flags: str) -> PhasorFile:
    (folder / "m.npz").write_bytes(model.bytes())
    return PhasorFile(convert_to(folder / "m.npz", folder / "m.phasor", *flags))


def said(model: Model, folder: Path, capsys, *flags: str) -> str:
    (folder / "m.npz").write_bytes(model.bytes())
    line = refused(folder / "m.npz", folder / "m.phasor", capsys, *flags)
    assert line.startswith(f"convert: {folder}"), line
    return line


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


# ---- Its vocabularies

OWN = [("</s>", 0.0, 3), ("<unk>", 0.0, 2)]  # as Marian trains a .spm
LETTERS = [(chr(ord("a") + i), -1.0 - i, 1) for i in range(ROWS - 2)]


def opus(folder: Path, *names: str) -> list[str]:
    """source.spm and target.spm as in a zip of OPUS-MT, and their vocabulary under these names; the
    flags that name them. The pieces lie the other way round in it."""
    files = translators.marian_files()
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(files[f"{side}.spm"])
    for name in names:
        (folder / name).write_text(yml(vocabulary()))
    return [
        word for s in ("source", "target") for word in ("--tokenizer", str(folder / f"{s}.spm"))
    ]


def vocabulary() -> list[str]:
    pieces = dict.fromkeys(translators.SOURCE_PIECES + translators.TARGET_PIECES)
    words = ["</s>", "<unk>", *reversed(pieces), *translators.LANGUAGES]
    return words + [f"w{i}" for i in range(ROWS - len(words))]


def yml(words: list[str]) -> str:
    """As yaml-cpp writes it: what may begin another thing in quotes."""
    texts = [f'"{word}"' if word.startswith(">") else word for word in words]
    return "".join(f"{text}: {id_}\n" for id_, text in enumerate(texts))


def pieces(file: PhasorFile, side: str) -> list[str]:
    section = file.section(file.descriptor[side]["tokenizer"])
    return [text.decode() for text, _, _ in read_section(section)["pieces"]]


@pytest.mark.parametrize("name", ["opus.spm32k-spm32k.vocab.yml", "vocab.yml"])
def test_a_zip_of_opus_mt(name, tmp_path):
    """The ids are the vocabulary's, not those of the .spm."""
    flags = opus(tmp_path, name)
    file = made(Model(), tmp_path, *flags)
    for side in ("source", "target"):
        assert pieces(file, side)[:ROWS] == vocabulary()
    d = file.descriptor
    assert d["source"]["tokenizer"] != d["target"]["tokenizer"]
    assert d["source"]["unknown"] == d["target"]["unknown"] == 1


def test_a_vocabulary_of_each_side(tmp_path):
    flags = opus(tmp_path, "m.src.vocab.yml")
    other = vocabulary()
    other[5:8] = other[7:4:-1]
    (tmp_path / "m.trg.vocab.yml").write_text(yml(other))
    file = made(Model(tied=False), tmp_path, *flags)
    assert pieces(file, "source")[:ROWS] == vocabulary()
    assert pieces(file, "target")[:ROWS] == other
    file = made(Model(tied=False), tmp_path, *flags[:2])  # one .spm, numbered twice
    assert pieces(file, "source")[:ROWS] == vocabulary()
    assert pieces(file, "target")[:ROWS] == other


def test_a_sentencepiece_vocabulary_of_marians_own(tmp_path):
    (tmp_path / "vocab.spm").write_bytes(translators.proto([*OWN, *LETTERS]))
    file = made(Model(), tmp_path, "--tokenizer", str(tmp_path / "vocab.spm"))
    assert file.descriptor["source"]["tokenizer"] == file.descriptor["target"]["tokenizer"]
    assert pieces(file, "source") == [text for text, _, _ in [*OWN, *LETTERS]]


def test_a_list_of_words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\n" for word in vocabulary()))
    file = made(Model(), tmp_path, "--tokenizer", str(path))
    assert pieces(file, "target") == vocabulary()


SPOILT = {
    "own ids": ([*translators.CONTROLS, *LETTERS[1:]], "unknown piece is id 0, the model's is 1"),
    "end": ([OWN[1], OWN[0], *LETTERS], "unknown piece is id 0, the model's is 1"),
    "no end": ([("x", 0.0, 1), *OWN[1:], *LETTERS], "ends with id 0, which is the piece 'x'"),
    "few": ([*OWN, *LETTERS[1:]], f"has {ROWS - 1} pieces, the source embedding of {ROWS} rows"),
    "many": ([*OWN, *LETTERS, ("?", 0.0, 1)], f"begins with id {ROWS}, which is the piece '?'"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_sentencepiece_model_with_other_ids(name, tmp_path, capsys):
    given, says = SPOILT[name]
    path = tmp_path / "source.spm"
    path.write_bytes(translators.proto(given))
    assert says in said(Model(), tmp_path, capsys, "--tokenizer", str(path))


@pytest.mark.parametrize(
    "words, says",
    [
        (["<unk>", "<s>", "</s>"], "'<unk>' is id 0, the model's is 1"),
        (["a", "<unk>", "</s>"], "'</s>' is id 2, the model's is 0"),
        (["</s>", "<unk>"], f"has 2 pieces, the source embedding of {ROWS} rows"),
    ],
)
def test_a_list_of_words_with_other_ids(words, says, tmp_path, capsys):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\n" for word in words))
    assert says in said(Model(), tmp_path, capsys, "--tokenizer", str(path))


FORMS = {
    "quotes": ('"a\\"b": 0', ['a"b']),
    "escapes": (r'"\\\x41\u00e9\U0001F600\t\L": 0', ["\\Aé😀\t\u2028"]),
    "single": ("'it''s': 0", ["it's"]),
    "colons": ("a:b: 0\n::c: 1\n-: 2\n-x: 3".replace("-: 2", '"-": 2'), ["a:b", "::c", "-", "-x"]),
    "two lines": ('? a\n: 0\n? "b"\n: 1', ["a", "b"]),
    "spaces": ("---\na\u3000b: 0\r\n\n\xa0: 1\r", ["a\u3000b", "\xa0"]),
    "any order": ("b: 1\na: 0\n", ["a", "b"]),
    "marks": ("a#b: 0\n=: 1\n1: 2\ntrue: 3", ["a#b", "=", "1", "true"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_a_vocabulary(name, tmp_path):
    """Behind its first two entries; beside it what yaml-cpp's grammar says."""
    text, words = FORMS[name]
    rows = re.sub(r": (\d)(?=\r?$)", lambda id_: f": {int(id_[1]) + 2}", text, flags=re.MULTILINE)
    (tmp_path / "vocab.yml").write_bytes(f"</s>: 0\n<unk>: 1\n{rows}".encode())
    listed = read_vocabulary(tmp_path / "vocab.yml")
    assert [listed.texts[i] for i in range(listed.count)] == ["</s>", "<unk>", *words]


HOSTILE_YML = {
    "no ids": ("a\n", "line 3: 'a', expected a piece and its id"),
    "not a number": ("a: x\n", "line 3: 'a: x', expected a piece and its id"),
    "negative": ("a: -2\n", "expected a piece and its id"),
    "a large number": ("a: " + "9" * 400 + "\n", "line 3: "),
    "a list": ("- a\n", "expected a piece and its id"),
    "an anchor": ("&a b: 2\n", "'&a b', expected a piece"),
    "an alias": ("*a : 2\n", "expected a piece"),
    "a tag": ("!!python/object:os.system a: 2\n", "expected a piece"),
    "a flow": ("{a: 2}\n", "expected a piece"),
    "a comment": ("a #b: 2\n", "'a #b', expected a piece"),
    "a table": ("a:\n  b: 2\n", "expected a piece"),
    "nested": ("  b: 2\n", "expected a piece"),
    "an escape": (r'"\q": 2', "is no escape"),
    "an escape of too few": (r'"\x4": 2', "is no escape"),
    "half a pair": (r'"\ud800": 2', "is no escape"),
    "beyond": (r'"\Uffffffff": 2', "is no escape"),
    "an open quote": ('"a: 2\n', "expected a piece"),
    "twice": ("a: 2\na: 3\n", "line 4: 'a' is there twice"),
    "an id twice": ("a: 2\nb: 2\n", "the ids of the 4 pieces are not 0, 1, 2"),
    "a gap": ("a: 3\n", "the ids of the 3 pieces are not"),
    "half of two lines": ("? a", "'a' has no id"),
    "two lines of another": ("? a\nb: 2\n", "expected a colon and an id"),
    "empty": ('"": 2\n', "piece 2 is empty"),
    "no UTF-8": ("\udcff: 2\n", "is not UTF-8: byte 17"),
    "another end": ("swap", "id 0 is '<unk>', expected </s>"),
    "nothing": ("nothing", "id 0 is no piece, expected </s>"),
}


@pytest.mark.parametrize("name", HOSTILE_YML)
def test_a_hostile_vocabulary(name, tmp_path, capsys):
    text, says = HOSTILE_YML[name]
    flags = opus(tmp_path)
    whole = {"swap": "</s>: 1\n<unk>: 0\n", "nothing": ""}.get(text, f"</s>: 0\n<unk>: 1\n{text}")
    (tmp_path / "vocab.yml").write_bytes(whole.encode(errors="surrogateescape"))
    assert says in said(Model(), tmp_path, capsys, *flags)


def test_vocabularies_of_which_none_is_said(tmp_path, capsys):
    flags = opus(tmp_path, "a.vocab.yml", "b.vocab.yml")
    says = "a.vocab.yml, b.vocab.yml are beside it, expected one, or one with src or source in"
    assert says in said(Model(), tmp_path, capsys, *flags)
    for name in ("a.src.vocab.yml", "b.src.vocab.yml"):
        (tmp_path / name).write_text(yml(vocabulary()))
    assert "are beside it" in said(Model(), tmp_path, capsys, *flags)


def test_a_vocabulary_is_not_written_over(tmp_path, capsys):
    flags = opus(tmp_path, "vocab.yml")
    (tmp_path / "m.npz").write_bytes(Model().bytes())
    out = tmp_path / "vocab.yml"
    assert convert.main([str(tmp_path / "m.npz"), "-o", str(out), "--quiet", *flags]) == 1
    assert "vocab.yml: is the input" in capsys.readouterr().err
    assert out.read_text() == yml(vocabulary())


def _option(name: str, value):
    return lambda model: model.options.update({name: value})


def _drop(name: str):
    return lambda model: model.arrays.pop(name)


WRONG = {
    "type": (_option("type", "amun"), "type: 'amun' is not supported"),
    "gelu": (_option("transformer-ffn-activation", "gelu"), "'gelu' is not supported"),
    "ssru": (_option("transformer-decoder-autoreg", "rnn"), "autoreg: 'rnn' is not supported"),
    "backwards": (_option("right-left", "true"), "right-left: True is not supported"),
    "depth": (_option("transformer-ffn-depth", 3), "ffn-depth: 3 is not supported"),
    "factors": (_option("lemma-dim-emb", 64), "lemma-dim-emb: 64 is not supported"),
    "shared layers": (_option("transformer-tied-layers", [1, 1]), "tied-layers"),
    "norms": (_option("transformer-preprocess", "n"), "is not supported with the others"),
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
    line = said(model, tmp_path, capsys)
    assert says in line and line.startswith(f"convert: {tmp_path / 'm.npz'}")
