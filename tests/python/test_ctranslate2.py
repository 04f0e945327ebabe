"""CTranslate2's model.bin: every version and type gives the same weights, and what cannot be is
refused in a line. tests/reference/test_ctranslate2.py has the package itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import translators as T
from conversions import convert_to, refused
from ctranslate2_model import LAYERS, WIDTH, WORDS, Model
from phasor import convert
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import SOURCE_TOKENIZER, PhasorFile
from phasor.tokenizers.section import read_section
from phasor.tokenizers.sentencepiece import read_model_proto
from places import DATA, ROOT, program, told
from texts import read_json, write_json

AREN = DATA / "opennmt-aren"


pytestmark = pytest.mark.usefixtures("no_program")


def made(folder: Path, *flags: str) -> PhasorFile:
    return PhasorFile(convert_to(folder, folder.with_suffix(".phasor"), *flags))


def weights(file: PhasorFile) -> dict[str, np.ndarray]:
    slots = R.slots(file.descriptor)
    return {slot.name: file.weights(slot.key).astype(np.float32) for slot in slots}


@pytest.mark.parametrize("version", range(2, 7))
def test_every_version(version, tmp_path):
    model = Model()
    file = made(model.write(tmp_path / "m", version))
    found, values = weights(file), model.values
    for stack in ("encoder", "decoder"):
        for i in range(LAYERS):
            start = f"{stack}/layer_{i}"
            wanted = values[f"{start}/self_attention/linear_0/weight"]
            np.testing.assert_array_equal(found[f"{stack} {i} q,k,v weight"], wanted)
    cross = values["decoder/layer_1/attention/linear_1/weight"]
    np.testing.assert_array_equal(found["decoder 1 cross k,v weight"], cross)
    np.testing.assert_array_equal(found["output weight"], values["decoder/projection/weight"])
    kind = file.descriptor["kinds"][0]
    assert kind["norm_place"] == D.BEFORE and kind["heads"] == 4
    target = file.descriptor["target"]
    assert target["decoder_start"] == 1 and target["end"] == [2]
    assert target["unknown"] == len(WORDS["target"])


@pytest.mark.parametrize("kind,kept", [("i1", "q8r"), ("<i2", "f32")])
def test_integers(kind, kept, tmp_path):
    """As f32 the values that they mean, bit for bit; int8 stays, with the same values."""
    model = Model()
    model.quantize(kind)
    folder, plain = model.write(tmp_path / "m"), Model()
    plain.values = model.meaning()
    whole = made(plain.write(tmp_path / "p"))
    assert made(folder, "--type", "f32").bytes.tobytes() != b""
    widened, wanted = weights(made(folder, "--type", "f32")), weights(whole)
    file = made(folder)
    found = weights(file)
    for slot in R.slots(file.descriptor):
        np.testing.assert_array_equal(widened[slot.name], wanted[slot.name], slot.name)
        np.testing.assert_array_equal(found[slot.name], wanted[slot.name], slot.name)
        if slot.matrix and "position" not in slot.name:
            assert L.TYPES[file.entries[slot.key].type] == kept, slot.name


@pytest.mark.parametrize("kind", ["<f2", "bf16"])
def test_halves(kind, tmp_path):
    model = Model()
    for name in [n for n in model.values if n.endswith(("weight", "bias", "gamma", "beta"))]:
        model.kinds[name] = kind
        half = model.values[name].astype(np.float16).astype(np.float32)
        model.values[name] = (half.view("<u4") & 0xFFFF0000).view("<f4") if kind == "bf16" else half
    found = weights(made(model.write(tmp_path / "m")))
    model.kinds = {n: k for n, k in model.kinds.items() if not model.values[n].ndim}
    wanted = weights(made(model.write(tmp_path / "n")))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_names_that_stand_for_others(tmp_path):
    """The output is the target's embedding."""
    model = Model()
    del model.values["decoder/projection/weight"]
    model.aliases["decoder/projection/weight"] = "decoder/embeddings/weight"
    found = weights(made(model.write(tmp_path / "m")))
    embedding = model.values["decoder/embeddings/weight"]
    np.testing.assert_array_equal(found["target embedding"], embedding)
    assert "output weight" not in found and "output bias" in found
    model.values["encoder/embeddings_0/weight"] = model.values.pop("decoder/embeddings/weight")
    model.aliases |= {
        "decoder/embeddings/weight": "encoder/embeddings_0/weight",
        "decoder/projection/weight": "encoder/embeddings_0/weight",
    }
    folder = model.write(tmp_path / "n")
    shutil.copy(folder / "target_vocabulary.json", folder / "source_vocabulary.json")
    file = made(folder)
    assert file.descriptor["target"]["embedding_shared"] == 1
    assert not {"output weight", "target embedding"} & weights(file).keys()


def test_ids_around_a_text(tmp_path):
    config = {"add_source_bos": True, "add_source_eos": True, "decoder_start_token": "</s>"}
    source = made(Model().write(tmp_path / "m", 6, config)).descriptor
    assert source["source"]["prefix"] == [1] and source["source"]["suffix"] == [2]
    assert source["target"]["decoder_start"] == 2


def test_a_start_of_zeros(tmp_path):
    model = Model()
    model.number("decoder/start_from_zero_embedding", 1, "i1")
    file = made(model.write(tmp_path / "m"))
    target, found = file.descriptor["target"], weights(file)
    row = len(WORDS["target"]) + 1
    assert target["vocabulary"] == row + 1 and target["decoder_start"] == row
    assert not found["target embedding"][row].any()
    assert found["output bias"][row] == -100
    assert file.descriptor["generation"]["suppressed"] == [row]
    np.testing.assert_array_equal(
        found["output weight"][:row], model.values["decoder/projection/weight"]
    )


def sinusoids(count: int) -> np.ndarray:
    out = np.zeros((count, WIDTH), np.float32)
    for position in range(count):
        for i in range(WIDTH // 2):
            angle = (position + 1) * 10000.0 ** (-i / (WIDTH // 2 - 1))
            out[position, i], out[position, WIDTH // 2 + i] = np.sin(angle), np.cos(angle)
    return out


def test_positions(tmp_path):
    found = weights(made(Model().write(tmp_path / "m")))
    assert found["source positions"].shape == (1024, WIDTH)
    np.testing.assert_allclose(found["source positions"], sinusoids(1024), atol=2e-4)
    np.testing.assert_allclose(found["source positions"][:64], sinusoids(64), atol=1e-5)
    model = Model()
    table = np.random.default_rng(1).normal(size=(1, 30, WIDTH)).astype(np.float32)
    model.values["encoder/position_encodings/encodings"] = table
    model.aliases["decoder/position_encodings/encodings"] = "encoder/position_encodings/encodings"
    found = weights(made(model.write(tmp_path / "n")))
    np.testing.assert_array_equal(found["target positions"], table[0])


# ---- What is refused


def said(folder: Path, capsys, *flags: str) -> str:
    line = refused(folder, folder.with_suffix(".phasor"), capsys, *flags)
    assert line.startswith(f"convert: {folder}"), line
    return line


def _number(name: str, value: float):
    return lambda model: model.number(name, value)


def _value(name: str, change):
    def apply(model: Model) -> None:
        model.values[name] = change(model.values[name])

    return apply


QKV = "encoder/layer_0/self_attention/linear_0/weight"
WRONG = {
    "whisper": (lambda m: setattr(m, "spec", "WhisperSpec"), "a WhisperSpec is not supported"),
    "alibi": (_number("decoder/alibi", 1), "decoder/alibi: 1 is not supported"),
    "two sources": (_number("encoder/embeddings_merge", 1), "embeddings_merge: 1 is not supported"),
    "sigmoid": (_number("encoder/activation", 4), "encoder/activation: 4 is not supported"),
    "unknown number": (_number("encoder/rotary_dim", 8), "encoder/rotary_dim: is not supported"),
    "no heads": (_number("encoder/num_heads", 0), "num_heads: 0, expected"),
    "heads": (_number("encoder/num_heads", 7), "are not divisible by"),
    "NaN": (_number("encoder/pre_norm", np.nan), "pre_norm: nan, expected a number"),
    "vocabulary": (_value("encoder/embeddings_0/weight", lambda v: v[1:]), "vocabulary has"),
    "scales without": (_number(f"{QKV}_scale", 3), "has scales, and is of <f4"),
    "unknown tensor": (
        lambda m: m.values.update({"encoder/layer_0/extra/weight": np.ones((2, 2))}),
        "left over: encoder.layer_0.extra.weight",
    ),
    "relative": (
        lambda m: m.values.update(
            {"encoder/layer_0/self_attention/relative_position_keys": np.ones((3, 4))}
        ),
        "left over: encoder.layer_0.self_attention.relative_position_keys",
    ),
    "missing": (lambda m: m.values.pop("decoder/layer_1/ffn/linear_1/weight"), "missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_in_a_line(name, tmp_path, capsys):
    change, says = WRONG[name]
    model = Model()
    change(model)
    assert says in said(model.write(tmp_path / "m"), capsys)


def test_integers_that_cannot_be(tmp_path, capsys):
    model = Model()
    model.quantize("i1")
    model.values[f"{QKV}_scale"] = np.zeros(3 * WIDTH, np.float32)
    assert "a scale is no number above 0" in said(model.write(tmp_path / "m"), capsys)
    model.values[f"{QKV}_scale"] = np.ones(5, np.float32)
    assert "without its scales" in said(model.write(tmp_path / "m"), capsys)
    del model.values[f"{QKV}_scale"]
    assert "without its scales" in said(model.write(tmp_path / "m"), capsys)


def test_vocabularies_and_flags(tmp_path, capsys):
    folder = Model().write(tmp_path / "m")
    line = said_flag(folder, capsys, "--source-lang", "en")
    assert f"--source-lang: {folder}: its files know no languages: give --tokenizer DIR" in line
    (folder / "config.json").write_text('{"eos_token": "<end>"}')
    assert "eos_token: '<end>' is not in the target vocabulary" in said(folder, capsys)
    (folder / "config.json").write_text('{"a_new_field": 1}')
    assert "a_new_field (1): not known" in said(folder, capsys)
    (folder / "config.json").unlink()
    path = folder / "source_vocabulary.json"
    for text, says in (
        ("[1]", "expected a list of words"),
        ('["a", "a"]', "a word is there twice"),
        ("{}", "expected a list of words"),
        ("[", "not JSON"),
    ):
        path.write_text(text)
        assert says in said(folder, capsys)
    path.unlink()
    assert "expected source_vocabulary.txt" in said(folder, capsys)


def said_flag(folder: Path, capsys, *flags: str) -> str:
    out = folder.with_suffix(".phasor")
    assert convert.main([str(folder), "-o", str(out), "--quiet", *flags]) == 1
    return capsys.readouterr().err


def test_the_tokenizer_of_the_original(tmp_path, capsys, monkeypatch):
    """Of a directory that was made from MarianMT: the end behind a text and the languages are in
    the original's files alone, whose pieces must be the vocabulary's words."""
    files = T.marian_files()
    texts = [*json.loads(files["vocab.json"])]
    for side in WORDS:
        monkeypatch.setitem(WORDS, side, texts[:-1])  # as many rows as texts
    tokens = {"unk_token": "<unk>", "decoder_start_token": "</s>", "eos_token": "</s>"}
    folder = Model().write(tmp_path / "m", config=tokens)
    original = T.write(tmp_path / "hf", "marian", files)
    for side in WORDS:
        write_json(folder / f"{side}_vocabulary.json", texts)
    spm = ("--tokenizer", str(original / "source.spm"))
    assert "give --tokenizer DIRECTORY, that of this model" in said_flag(folder, capsys, *spm)
    language = next(text for text in texts if text.startswith(">>"))
    asked = ["--tokenizer", str(original), "--target-lang", language[2:-2]]
    out = tmp_path / "m.phasor"
    convert_to(folder, out, *asked)
    source = PhasorFile(out).descriptor["source"]
    assert (source["prefix"], source["suffix"]) == ([texts.index(language)], [0])
    swapped = [*texts[:6], texts[7], texts[6], *texts[8:]]
    write_json(folder / "source_vocabulary.json", swapped)
    line = said_flag(folder, capsys, *asked)
    assert f"{original}: not the source vocabulary: id 6 is {texts[6]!r}, and" in line
    write_json(tmp_path / "words.json", texts)
    line = said_flag(folder, capsys, "--tokenizer", str(tmp_path / "words.json"))
    assert "words.json: expected a tokenizer.json, or the directory of one" in line


def test_every_truncation(tmp_path):
    """And bytes behind the last variable: an error of ours that names the file."""
    from phasor.errors import PhasorError
    from phasor.sources.ctranslate2 import container as ctranslate2

    data = Model().bytes()
    path = tmp_path / "model.bin"
    rng = np.random.default_rng(3)
    for size in [*range(0, 400), *rng.integers(0, len(data), 100), len(data) - 1, len(data) + 1]:
        path.write_bytes((data + b"\0")[:size])
        with pytest.raises(PhasorError, match="model.bin: "):
            ctranslate2.read(path)
    for _ in range(400):
        damaged = bytearray(data)
        damaged[int(rng.integers(0, 600))] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        try:
            ctranslate2.read(path)
        except PhasorError as error:
            assert str(error).startswith(f"{path}: ") and str(error).isprintable()


@pytest.mark.skipif(not AREN.is_dir(), reason="no checkpoints beside the checkout")
@pytest.mark.parametrize("kind,limit", [("f32", 1e-4), ("int8", 1e-4), ("int8 as q8r", 0.02)])
def test_names_that_the_package_gives(kind, limit, tmp_path, capsys):
    """Recorded from CTranslate2 4.8.5 with compute_type float32 and four beams. Beyond the best
    output the two searches end by other rules: those that both found have the same scores."""
    recorded = read_json(ROOT / "tests/reference/ctranslate2_aren.json")
    folder = AREN / ("aren-transliteration" + "-i8" * kind.startswith("int8"))
    out = tmp_path / "m.phasor"
    flags = [] if kind.endswith("q8r") else ["--type", "f32"]
    convert_to(folder, out, *flags)
    text = "".join(" ".join(name) + "\n" for name in recorded["names"])
    command = [program(), "run", out, "--beam", "4", "--n-best", "4", "--json"]
    done = told(*command, stdin=text)
    worst, both = 0.0, 0
    wanted = recorded["int8" if kind.startswith("int8") else "f32"]
    for line, outputs in zip(done.splitlines(), wanted, strict=True):
        found = {one["text"].replace(" ", ""): one["score"] for one in json.loads(line)["outputs"]}
        assert next(iter(found)) == outputs[0][0]
        scores = [abs(found[name] - score) for name, score in outputs if name in found]
        worst, both = max(worst, *scores), both + len(scores)
    with capsys.disabled():
        print(f"{kind}: {both} of 64 outputs, largest difference of a score {worst:.2g}")
    assert both >= 60 and worst < limit


def test_a_sentencepiece_model_numbered_by_the_vocabulary(tmp_path):
    """The ids are those of the list, whatever order the model has."""
    path = ROOT / "tests" / "golden" / "tokenizers" / "bpe.model"
    pieces = [text.decode() for text, _, _ in read_model_proto(path.read_bytes())["pieces"]]
    words = ["<s>", "</s>", *(word for word in reversed(pieces) if word not in ("<s>", "</s>"))]
    model = Model()
    rng = np.random.default_rng(1)
    for name in ("encoder/embeddings_0", "decoder/embeddings", "decoder/projection"):
        model.values[f"{name}/weight"] = rng.normal(size=(len(words), WIDTH)).astype(np.float32)
    model.values["decoder/projection/bias"] = np.zeros(len(words), np.float32)
    folder = model.write(tmp_path / "m")
    for side in ("source", "target"):
        write_json(folder / f"{side}_vocabulary.json", words)
    file = made(folder, "--tokenizer", str(path))
    found = read_section(file.section(SOURCE_TOKENIZER))["pieces"]
    assert [text.decode() for text, *_ in found[: len(words)]] == words
