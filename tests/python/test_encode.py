"""`phasor embed`, `fill`, `classify`, `tag`, `answer` and `rank` from outside: results beside the
float64 reference, batches, arrays, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_cli import LANGUAGE, MODELS, bad, good, phasor

import random_models as M
from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.meta import encode_meta
from phasor.reference.forward import Reference
from texts import ids_text

SENTENCE = MODELS / "tiny-modernbert-f32.phasor"  # mean pooling, normalized
HIDDEN = MODELS / "tiny-relative-key-f32.phasor"  # hidden states only
MASKED = MODELS / "tiny-bert-f32.phasor"  # mask id 4, two segments
CLASSIFIER = MODELS / "tiny-classes-f32.phasor"  # three labels, pooled
LABELER = MODELS / "tiny-alibi-tokens-f32.phasor"  # five classes a token, a sigmoid each
IDS = [2, 9, 17, 4, 31, 8, 3]
TEXT = ids_text(IDS)


def reference(path):
    return Reference(PhasorFile(path))


def numbers(line: str) -> np.ndarray:
    return np.array([float(v) for v in line.split()])


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_embed_is_the_reference_s_vector():
    model = reference(SENTENCE)
    want = model.output(model.encode(IDS))[0]
    got = numbers(good("embed", SENTENCE, "--ids", TEXT))
    assert np.abs(got - want).max() < 1e-6 and abs(np.linalg.norm(got) - 1) < 1e-6
    record = json.loads(good("embed", SENTENCE, "--ids", TEXT, "--json"))
    assert record["tokens"] == len(IDS) and np.allclose(record["embedding"], got, atol=1e-8)


@pytest.mark.parametrize("pooling", ["mean", "first", "last", "max"])
def test_pooling_of_hidden_states(pooling):
    model = reference(HIDDEN)
    hidden = model.encode(IDS).output
    means = {"mean": hidden.mean(axis=0), "max": hidden.max(axis=0)}
    want = {**means, "first": hidden[0], "last": hidden[-1]}[pooling]
    assert (
        np.abs(numbers(good("embed", HIDDEN, "--ids", TEXT, "--pooling", pooling)) - want).max()
        < 1e-5
    )
    part = numbers(
        good("embed", HIDDEN, "--ids", TEXT, "--pooling", pooling, "--dim", "8", "--normalize")
    )
    assert np.abs(part - want[:8] / np.linalg.norm(want[:8])).max() < 1e-5


@pytest.mark.parametrize("width, pooling", [(100, D.MEAN), (1031, D.LAST), (4096, D.MEAN)])
def test_a_pooled_vector_wider_than_the_heads(tmp_path, width, pooling):
    """It does not fit where the heads are planned, side by side; verify and quantize replay it."""
    path, source = tmp_path / "m.phasor", (3, 11)
    output = {"output": D.POOLED, "pooling": pooling, "normalize": 1}
    stack = {"width": width, "layers": [0, 0]}
    descriptor = M.encoder(stack, output, heads=1, head_width=1, hidden=1)
    model = Reference(M.write_with_vectors(path, descriptor, [(1,), source]))
    want = model.output(model.encode(source))[0]
    assert np.abs(numbers(good("embed", path, "--ids", "3,11")) - want).max() < 1e-6
    assert good("verify", path).count(": ok") == 3
    for kind in ("f32", "f16", "bf16", "q8", "q4"):
        good("quantize", path, tmp_path / "o.phasor", "--type", kind)
        assert good("verify", tmp_path / "o.phasor").count(": ok") == 3


def test_a_batch_changes_no_bit_and_keeps_the_order(tmp_path):
    lists = [",".join(str((7 * i + j) % 50) for j in range(1 + (5 * i) % 19)) for i in range(11)]
    one_by_one = "".join(good("embed", SENTENCE, "--ids", ids) for ids in lists)
    for batch in ("1", "3", "64"):
        assert (
            good("embed", SENTENCE, "--ids", "-", "--batch", batch, stdin="\n".join(lists) + "\n")
            == one_by_one
        )
    good(
        "embed",
        SENTENCE,
        "--ids",
        "-",
        "--npy",
        tmp_path / "v.npy",
        "--threads",
        "2",
        stdin="\n".join(lists) + "\n",
    )
    assert np.array_equal(
        np.load(tmp_path / "v.npy"),
        np.array([numbers(line) for line in one_by_one.splitlines()], np.float32),
    )


def test_a_bad_line_is_one_error_and_an_empty_line():
    done = phasor("embed", SENTENCE, "--ids", "-", "--quiet", stdin="1,2\n1,99\n3,4\n")
    lines = done.stdout.decode().split("\n")
    assert done.returncode == 1 and len(lines) == 4 and lines[1] == "" and lines[0] and lines[2]
    assert (
        done.stderr.decode()
        == "phasor: standard input, line 2: token id 99 at place 1, the vocabulary has 57\n"
    )


def test_too_long_is_an_error():
    ids = ",".join(["5"] * 49)
    says = ["--ids: 49 tokens, there is room for 48 (the model has no more)"]
    bad(1, "fill", MASKED, "--ids", ids, says=says)
    bad(
        1,
        "fill",
        MASKED,
        "--ids",
        "4,5,6",
        "--source",
        "2",
        says=("--ids", "3 tokens, there is room for 2"),
    )


def test_fill_gives_the_best_tokens_of_each_mask():
    model = reference(MASKED)
    types = [0, 0, 0, 0, 1, 1, 1]
    logits = model.output(model.encode(IDS, types))
    want = softmax(logits[3])
    rows = [
        line.split("\t")
        for line in good(
            "fill", MASKED, "--ids", TEXT, "--segments", ",".join(map(str, types)), "--top", "4"
        ).split("\n")
        if line
    ]
    assert [int(row[0]) for row in rows] == [3] * 4
    assert [int(row[1]) for row in rows] == np.argsort(-want, kind="stable")[:4].tolist()
    assert np.allclose([float(row[3]) for row in rows], np.sort(want)[::-1][:4], atol=2e-6)
    bad(1, "fill", MASKED, "--ids", "5,6", says=("no mask token",))
    bad(1, "fill", MASKED, "--ids", "4,6", "--segments", "0,2", says=("segment 2 at place 1",))


def test_classify_a_text_and_its_tokens():
    model = reference(CLASSIFIER)
    want = softmax(model.output(model.encode(IDS))[0])
    fields = good("classify", CLASSIFIER, "--ids", TEXT).rstrip("\n").split("\t")
    names = ["negative", "neutral", "positive"]
    assert fields[::2] == [names[i] for i in np.argsort(-want)] and np.allclose(
        [float(f) for f in fields[1::2]], np.sort(want)[::-1], atol=2e-6
    )
    assert good("classify", CLASSIFIER, "--ids", TEXT, "--top", "1").count("\t") == 1

    model = reference(LABELER)
    want = 1 / (1 + np.exp(-model.output(model.encode(IDS))))
    record = json.loads(good("classify", LABELER, "--ids", TEXT, "--json"))
    for token, scores in zip(record["tokens"], want):
        assert [l["label"] for l in token["labels"]] == [
            f"class {i}" for i in np.argsort(-scores, kind="stable")
        ]
        assert np.allclose([l["score"] for l in token["labels"]], np.sort(scores)[::-1], atol=1e-6)
    assert [t["id"] for t in record["tokens"]] == IDS


def test_tag_and_answer(tmp_path):
    path = tmp_path / "m.phasor"
    model = Reference(M.write_spans(path))
    text = "  word4 word5  word9"
    places = [(2, 7), (8, 13), (15, 20)]
    logits = model.output(model.encode([1, 7, 8, 12, 2]))
    record = json.loads(good("tag", path, text, "--json"))
    labels = ["start" if row[0] >= row[1] else "end" for row in logits[1:4]]
    want = []
    for label, place in zip(labels, places):
        if want and want[-1][0] == label:
            want[-1][1][1] = place[1]
        else:
            want.append((label, list(place)))
    assert [(e["label"], [e["start"], e["end"]]) for e in record["entities"]] == want
    assert all(e["text"] == text[e["start"] : e["end"]] for e in record["entities"])
    lines = good("tag", path, text, "word7").split("\n")
    assert len(lines) == len(want) + 4 and lines[len(want)] == lines[-2] == lines[-1] == ""
    assert lines[0].split("\t")[2:4] == [str(want[0][1][0]), str(want[0][1][1])]

    logits = model.output(model.encode([1, 4, 2, 7, 8, 12, 2]))
    begin, end = softmax(logits[[0, 3, 4, 5], 0]), softmax(logits[[0, 3, 4, 5], 1])
    spans = [(begin[i] * end[j], i, j) for i in (1, 2, 3) for j in (1, 2, 3) if i <= j]
    spans.sort(reverse=True)
    record = json.loads(good("answer", path, "word1", text, "--json", "--top", "9"))
    for found, (score, i, j) in zip(record["answers"], spans, strict=True):
        assert abs(found["score"] - score) < 1e-6
        assert (found["start"], found["end"]) == (places[i - 1][0], places[j - 1][1])
    one = json.loads(good("answer", path, "word1", text, "--json", "--max-answer", "1"))
    assert one["answers"][0]["score"] == pytest.approx(max(begin[1:] * end[1:]), abs=1e-6)
    with_null = json.loads(good("answer", path, "word1", text, "--json", "--top", "9", "--null"))
    null = [a for a in with_null["answers"] if a["end"] == 0]
    assert len(with_null["answers"]) == 7 and null[0]["score"] == pytest.approx(
        begin[0] * end[0], abs=1e-6
    )
    # A text that is cut has the places of what is left.
    cut = json.loads(good("answer", path, "word1", text, "--json", "--source", "5", "--truncate"))
    assert cut["answers"][0]["text"] == "word4"
    bad(1, "answer", path, "word1", "", says=["no tokens in the text"])
    bad(2, "answer", path, says=["answer: expected a question"])
    bad(1, "answer", LABELER, "a", "b", says=["answers no questions"])
    bad(1, "tag", CLASSIFIER, "a", says=["labels no tokens"])
    bad(2, "tag", path, "a", "--pair", says=["--pair"])
    # A long text without white space has its places too.
    (found,) = json.loads(good("tag", path, "x" * 9000, "--json"))["entities"]
    assert (found["start"], found["end"]) == (0, 9000)


def test_rank(tmp_path):
    path = tmp_path / "m.phasor"
    model = Reference(M.write_ranker(path))
    texts = ["word3", "word4 word5", "word3", "word9\tword1 word1"]
    asked = [[1, 4, 2, *ids, 2] for ids in ([6], [7, 8], [6], [12, 4, 4])]
    want = [float(1 / (1 + np.exp(-model.output(model.encode(ids))[0, 0]))) for ids in asked]
    order = np.argsort(-np.array(want), kind="stable")
    lines = good("rank", path, "word1", stdin="".join(f"{text}\n" for text in texts)).splitlines()
    for line, i in zip(lines, order, strict=True):
        score, number, text = line.split("\t", 2)
        assert (int(number), text) == (i + 1, texts[i]) and abs(float(score) - want[i]) < 2e-6
    assert good("rank", path, "word1", *texts, "--top", "2").splitlines() == lines[:2]
    record = json.loads(good("rank", path, "word1", *texts, "--top", "1", "--json"))
    assert record["text"] == texts[order[0]] and abs(record["score"] - want[order[0]]) < 1e-6
    long = " ".join(["word5"] * 3000)
    bad(1, "rank", path, "word1", long, "word3", says=["argument 1", "tokens"])
    left = phasor("rank", path, "word1", long, "word3").stdout.decode().split("\t")
    assert left[1:] == ["2", "word3\n"] and abs(float(left[0]) - want[0]) < 2e-6
    bad(2, "rank", path, says=["rank: expected a query"])
    bad(1, "rank", CLASSIFIER, "a", "b", says=["no classifier with one class"])
    bad(1, "rank", SENTENCE, "a", "b", says=["no classifier with one class"])
    bad(2, "rank", path, "a", "--ids", "5", says=["--ids"])


@pytest.mark.parametrize("expansion", [D.NO_EXPANSION, D.HIDDEN_EXPANSION, D.SEEN_EXPANSION])
def test_late_interaction(tmp_path, expansion):
    path = tmp_path / "m.phasor"
    more = {"query_marker": 19, "document_marker": 20, "skipped": [6, 8]}
    model = Reference(M.write_late(path, expansion=expansion, **more))

    def vectors(ids, seen=0):
        rows = model.output(model.encode(ids, seen=seen))
        return rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))

    asked = [1, 19, 4, 6, 2]
    whole = asked + [22] * (4 if expansion else 0)
    query = vectors(whole, len(asked) if expansion == D.HIDDEN_EXPANSION else 0)
    texts = ["word3", "word4 word5", "", "word3", "word9\tword1 word3 word5"]
    want = []
    for ids in ([6], [7, 8], [], [6], [12, 4, 6, 8]):
        ids = [1, 20, *ids, 2]
        kept = [i for i, one in enumerate(ids) if one not in (6, 8)]
        want.append(float((query @ vectors(ids)[kept].T).max(axis=1).sum()))
    order = np.argsort(-np.array(want), kind="stable")
    words = ("rank", path, "--late", "word1 word3")
    lines = good(*words, stdin="".join(f"{text}\n" for text in texts)).splitlines()
    for line, i in zip(lines, order, strict=True):
        score, number, text = line.split("\t", 2)
        assert (int(number), text) == (i + 1, texts[i]) and abs(float(score) - want[i]) < 1e-5
    assert good(*words, *texts, "--top", "2", "--batch", "2").splitlines() == lines[:2]
    record = json.loads(good(*words, *texts, "--top", "1", "--json"))
    assert record["text"] == texts[order[0]] and abs(record["score"] - want[order[0]]) < 1e-5
    rows = tmp_path / "rows.npy"  # the vectors themselves
    good("classify", path, "--ids", ids_text(asked), "--quiet", "--logits", rows)
    found, own = np.load(rows), model.output(model.encode(asked))
    assert found.shape == own.shape and np.abs(found - own).max() < 1e-5 * np.abs(own).max()


def test_what_late_interaction_refuses(tmp_path):
    path, all_skipped = tmp_path / "m.phasor", tmp_path / "s.phasor"
    M.write_late(path)
    words = ("rank", path, "--late")
    bad(2, *words, says=["rank: expected a query"])
    bad(1, *words, "word1 " * 8, "word2", says=["the query: 10 tokens, there is room for 9"])
    cut = good(*words, "word1 " * 8, "word2", "--truncate")
    assert cut == good(*words, "word1 " * 7, "word2")
    long = "word3 " * 11
    assert (
        good(*words, "word1", long, "--truncate").split("\t")[0]
        == (good(*words, "word1", "word3 " * 10).split("\t")[0])
    )
    good(*words, "word1", long)
    bad(1, *words, "word1", "word3 " * 3000, "word3", says=["argument 1", "tokens"])
    assert good(*words, b"\xff", "word3") == good(*words, "\ufffd", "word3")  # as every text
    bad(1, *words, "word1", "word2", "--source", "5", says=["the query: ", "limits hold 5"])
    assert good(*words, "word1").splitlines() == []
    for model in (CLASSIFIER, SENTENCE, MASKED):
        bad(1, "rank", model, "--late", "a", "b", says=["has no vectors for late interaction"])
    bad(1, "rank", path, "a", "b", says=["ranks by late interaction"])
    bad(1, "classify", path, "a", says=["is no classifier"])
    bad(1, "tag", path, "a", says=["labels no tokens"])
    bad(1, "embed", path, "a", says=["says nothing of pooling"])
    M.write_late(all_skipped, skipped=[1, 2, 6])
    bad(1, "rank", all_skipped, "--late", "word1", "word3", says=["no token that counts"])
    wide = M.encoder(
        side={"vocabulary": 9, "mask": 3},
        output={"output": D.CLASSES, "classes": 3, "query_length": 5, "document_length": 5},
    )
    for change, line in (
        ({"query_length": 0}, "query_length: missing"),
        ({"document_length": 0}, "document_length: missing"),
        ({"pooling": 1}, "query_length: late interaction needs"),
        ({"skipped": [9]}, "id 9 is not below the vocabulary 9"),
        ({"query_marker": 9}, "id 9 is not below the vocabulary 9"),
        ({"expansion": 3}, "expansion: 3, expected"),
    ):
        with pytest.raises(PhasorError, match=line):
            encode_meta({**wide, "output": {**wide["output"], **change}})
    side = {"vocabulary": 9}
    with pytest.raises(PhasorError, match="expansion: the model has no mask token"):
        encode_meta({**wide, "source": side, "output": {**wide["output"], "expansion": 1}})


@pytest.mark.parametrize(
    "path, command", [(SENTENCE, "embed"), (MASKED, "fill"), (LABELER, "classify")]
)
def test_arrays_for_numpy(tmp_path, path, command):
    model = reference(path)
    trace = model.encode(IDS)
    names = {"hidden": "h.npy", "attention": "a.npy"} | (
        {} if command == "embed" else {"logits": "l.npy"}
    )
    good(
        command,
        path,
        "--ids",
        TEXT,
        *[part for flag, name in names.items() for part in (f"--{flag}", tmp_path / name)],
    )
    hidden = np.load(tmp_path / "h.npy")
    want = np.stack([trace.embedding, *trace.residuals, trace.output])
    assert hidden.shape == want.shape and np.abs(hidden - want).max() < 1e-5 * np.abs(want).max()
    weights = np.load(tmp_path / "a.npy")
    kinds = [model.d["kinds"][k] for k, _ in D.layers_of(model.d["encoder"])]
    assert weights.shape == (len(kinds), kinds[0]["heads"], len(IDS), len(IDS)) and np.allclose(
        weights.sum(axis=3), 1, atol=1e-6
    )
    distance = np.abs(np.subtract.outer(np.arange(len(IDS)), np.arange(len(IDS))))
    for layer, kind in zip(weights, kinds):
        if kind["window"]:
            assert (layer[:, distance > kind["window"] // 2] == 0).all() and (
                layer[:, distance <= kind["window"] // 2] > 0
            ).all()
    if command != "embed":
        assert np.abs(np.load(tmp_path / "l.npy") - model.output(trace)).max() < 1e-4


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["embed", LANGUAGE, "--ids", "1"], ["is a decoder, expected an encoder"]),
        (["embed", HIDDEN, "--ids", "1"], ["says nothing of pooling"]),
        (
            ["embed", HIDDEN, "--ids", "1", "--pooling", "mean", "--dim", "34"],
            ["--dim 34", "33 values"],
        ),
        (
            ["embed", HIDDEN, "--ids", "1", "--pooling", "mean", "--prompt", "query"],
            ["--prompt query", "no prompts"],
        ),
        (["embed", HIDDEN, "--pooling", "mean", "words"], ["argument 1", "no tokenizer"]),
        (["fill", HIDDEN, "--ids", "1"], ["no masked language model"]),
        (["classify", MASKED, "--ids", "1"], ["no classifier"]),
        (["run", HIDDEN, "--ids", "1"], ["is an encoder"]),
    ],
)
def test_what_is_refused(arguments, says):
    bad(1, *arguments, says=tuple(says))


def test_a_pooling_that_there_is_not():
    says = ["expected one of: mean first last max"]
    bad(2, "embed", HIDDEN, "--ids", "1", "--pooling", "median", says=says)
