"""Directories as sentence-transformers itself saves them, and what it makes of their texts: vectors
with every module, cross-encoders, sparse vectors."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save_file
from test_spans import WORDS, _wordpiece

from conversions import convert_to, problems
from phasor import convert
from phasor.errors import PhasorError
from phasor.sources.find import read_source
from places import told
from texts import read_json, write_json

library = pytest.importorskip("sentence_transformers")
M = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
SPARSE = pytest.importorskip("sentence_transformers.sparse_encoder.modules")

TOLERANCE = 1e-5
LINES = ["people live in a town", "Bread is made of FLOUR.", "how many " * 12, "猫"]


def base(kind, folder, **more) -> str:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=40,
        **more,
    )
    net = kind(config).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.4 + (p.dim() == 1))
    net.save_pretrained(folder)
    _wordpiece(folder)
    return str(folder)


def converted(model, folder):
    model.save_pretrained(str(folder / "saved"))
    return convert_to(folder / "saved", folder / "m.phasor")


def by_program(phasor, folder, path, lines, *flags) -> np.ndarray:
    words = [phasor, "embed", path, "--npy", folder / "v.npy", "--quiet", "--truncate", *flags]
    text = "".join(f"{line}\n" for line in lines)
    told(*words, stdin=text)
    return np.load(folder / "v.npy")


def near(a: np.ndarray, b: np.ndarray) -> bool:
    assert a.shape == b.shape
    return float(np.abs(a - b).max()) < TOLERANCE * max(1.0, float(np.abs(b).max()))


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken", "max"])
@pytest.mark.parametrize("more", [False, True])
def test_vectors(tmp_path, phasor, mode, more):
    first = M.Transformer(base(transformers.BertModel, tmp_path / "b"), max_seq_length=17)
    torch.manual_seed(1)
    behind = [M.Dense(24, 11), M.LayerNorm(11), M.Normalize()] if more else []
    modules = [first, M.Pooling(24, mode), *behind]
    model = library.SentenceTransformer(modules=modules, prompts={"query": "how "}, device="cpu")
    path = converted(model, tmp_path)
    for name in (None, "query"):
        flags = ("--prompt", name) if name else ()
        theirs = model.encode(LINES, prompt_name=name, batch_size=2)
        assert near(by_program(phasor, tmp_path, path, LINES, *flags), theirs)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("unit", [False, True])
def test_a_head_of_setfit(tmp_path, phasor, classes, unit):
    """As SetFit saves it: scikit-learn's scores of the library's vectors."""
    joblib, linear = pytest.importorskip("joblib"), pytest.importorskip("sklearn.linear_model")
    first = M.Transformer(base(transformers.BertModel, tmp_path / "b"), max_seq_length=17)
    behind = [M.Normalize()] if unit else []
    modules = [first, M.Pooling(24, "mean"), *behind]
    model = library.SentenceTransformer(modules=modules, device="cpu")
    vectors = model.encode(LINES)
    texts = np.array([f"label {i % classes}" for i in range(len(LINES))])
    head = linear.LogisticRegression(C=30.0).fit(vectors, texts)
    model.save_pretrained(str(tmp_path / "saved"))
    joblib.dump(head, tmp_path / "saved" / "model_head.pkl")
    write_json(tmp_path / "saved" / "config_setfit.json", {"normalize_embeddings": False})
    path = convert_to(tmp_path / "saved", tmp_path / "m.phasor")
    words = [phasor, "classify", path, "--json", "--quiet", "--truncate", "--top", classes, *LINES]
    rows = [json.loads(line) for line in told(*map(str, words)).splitlines()]
    for row, want in zip(rows, head.predict_proba(vectors), strict=True):
        found = {one["label"]: one["score"] for one in row["labels"]}
        assert near(np.array([found[name] for name in head.classes_]), want)


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
def test_cross_encoders(tmp_path, phasor, activation):
    kind = transformers.BertForSequenceClassification
    folder = base(kind, tmp_path / "b", num_labels=1)
    function = getattr(torch.nn, activation)()
    model = library.CrossEncoder(folder, activation_fn=function, device="cpu")
    path = converted(model, tmp_path)
    theirs = model.predict([("how many", line) for line in LINES])
    words = [phasor, "rank", path, "how many", *LINES, "--json", "--quiet"]
    done = told(*words)
    found = {row["text"]: row["score"] for row in map(json.loads, done.splitlines())}
    assert near(np.array([found[line] for line in LINES]), theirs)


def test_sparse_vectors(tmp_path, phasor):
    first = SPARSE.MLMTransformer(
        base(transformers.BertForMaskedLM, tmp_path / "b"), max_seq_length=18
    )
    model = library.SparseEncoder(modules=[first, SPARSE.SpladePooling("max")], device="cpu")
    path = converted(model, tmp_path)
    theirs = model.encode(LINES, batch_size=2, convert_to_sparse_tensor=False).numpy()
    ours = by_program(phasor, tmp_path, path, LINES, "--sparse")
    assert near(ours, theirs) and 0 < (theirs == 0).mean() < 1
    words = [phasor, "embed", path, "--sparse", "--truncate", "--quiet", *LINES]
    done = subprocess.run([*words, "--json"], check=True, capture_output=True, text=True)
    for line, row in zip(map(json.loads, done.stdout.splitlines()), ours, strict=True):
        order = [i for i in np.argsort(-row, kind="stable") if row[i] > 0]
        assert [w["id"] for w in line["weights"]] == order
        assert [w["piece"] for w in line["weights"]] == [WORDS[i] for i in order]
        assert np.array_equal(np.float32([w["weight"] for w in line["weights"]]), row[order])
    done = subprocess.run([*words, "--top", "2"], check=True, capture_output=True, text=True)
    lines = done.stdout.split("\n")
    best = int(np.argmax(ours[0]))
    assert lines[0].split("\t")[:2] == [str(best), WORDS[best]] and lines[2] == ""
    for flags, line in (
        (["--sparse", "--dim", "3"], "--sparse: goes without"),
        (["--top", "3"], "--top: goes with --sparse"),
        ([], "or --sparse"),
    ):
        done = subprocess.run([phasor, "embed", path, "a", *flags], capture_output=True, text=True)
        assert done.returncode == 1 and line in done.stderr
    pooling = tmp_path / "saved" / "1_SpladePooling" / "config.json"
    for name, value in (("pooling_strategy", "sum"), ("activation_function", "log1p_relu")):
        before = read_json(pooling)
        write_json(pooling, {**before, name: value})
        with pytest.raises(PhasorError, match=name):
            read_source(tmp_path / "saved")
        write_json(pooling, before)


@pytest.mark.parametrize("normalize", [False, True])
def test_static_embeddings(tmp_path, phasor, normalize, capsys):
    """sentence-transformers' own, and model2vec's formula with its mapping and weights."""
    words = tmp_path / "t"
    words.mkdir()
    _wordpiece(words)
    own = transformers.AutoTokenizer.from_pretrained(words)
    table = np.random.default_rng(2).normal(size=(len(WORDS), 12)).astype(np.float32)
    first = M.StaticEmbedding(own, embedding_weights=table)
    behind = [M.Normalize()] if normalize else []
    model = library.SentenceTransformer(modules=[first, *behind], device="cpu")
    path = converted(model, tmp_path)
    lines = [*LINES, "people"]
    assert near(by_program(phasor, tmp_path, path, lines), model.encode(lines))

    rng = np.random.default_rng(3)
    mapping, weights = rng.integers(0, 20, len(WORDS)), rng.random(len(WORDS))
    weights = weights.astype(np.float32)
    tensors = {"embeddings": table[:20], "mapping": mapping, "weights": weights}
    (tmp_path / "m2v").mkdir()
    for file in ("modules.json", "tokenizer.json", "config_sentence_transformers.json"):
        (tmp_path / "m2v" / file).write_bytes((tmp_path / "saved" / file).read_bytes())
    save_file(tensors, tmp_path / "m2v" / "model.safetensors")
    path = tmp_path / "m2v.phasor"
    convert_to(tmp_path / "m2v", path)
    for line, ours in zip(lines, by_program(phasor, tmp_path, path, lines)):
        ids = own(line, add_special_tokens=False)["input_ids"]
        theirs = (table[mapping[ids]] * weights[ids][:, None]).mean(0)
        theirs = theirs / np.linalg.norm(theirs) if normalize else theirs
        assert near(ours, theirs)
    for tensor in (
        {"mapping": np.full(len(WORDS), 20)},
        {"mapping": mapping - 1},
        {"weights": weights[1:]},
        {"embedding.weight": table},
        {"embeddings": table[0]},
        {"other": table},
    ):
        save_file({**tensors, **tensor}, tmp_path / "m2v" / "model.safetensors")
        problems(tmp_path / "m2v", tmp_path / "o.phasor", capsys)


def test_what_is_not_built(tmp_path, capsys):
    first = M.Transformer(base(transformers.BertModel, tmp_path / "b"))
    pooling = tmp_path / "saved" / "1_Pooling" / "config.json"
    model = library.SentenceTransformer(modules=[first, M.Pooling(24, "mean")], device="cpu")
    model.save_pretrained(str(tmp_path / "saved"))
    transformer = tmp_path / "saved" / "sentence_bert_config.json"
    for where, name, value, line in (
        (
            pooling,
            "pooling_mode",
            ["mean", "cls"],
            "pooling_mode: ['mean', 'cls'] is not supported",
        ),
        (pooling, "pooling_mode", "weightedmean", "pooling_mode: 'weightedmean' is not supported"),
        (pooling, "pooling_mode", [[]], "pooling_mode: "),
        (pooling, "include_prompt", False, "include_prompt: "),
        (transformer, "transformer_task", "fill-mask", "transformer_task: 'fill-mask'"),
        (transformer, "modality_config", {"image": {}}, "modality_config.image"),
        (transformer, "modality_config", {"text": {"method": "x"}}, "modality_config.text.method"),
    ):
        before = where.read_text()
        write_json(where, {**json.loads(before), name: value})
        said = convert.main([str(tmp_path / "saved"), "-o", str(tmp_path / "o.phasor")])
        assert said == 1 and line in capsys.readouterr().err
        where.write_text(before)
