"""`phasor rank` beside transformers: a cross-encoder's score of a query with each text."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import torch
import transformers

from phasor import convert
from phasor.format.layout import F32
from phasor.sources.find import read_source

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] how many people live in a town bread is made of flour".split()
)
QUERY = "how many people"
TEXTS = [
    "a town",
    "people live in a town",
    "bread is made of flour",
    "many\tpeople",  # a tab of its own
    "bread bread",
    "",
    "a town",  # as the first, behind it
    "flour of many people in bread",
]


@pytest.fixture(scope="module", params=["sigmoid", "plain"])
def model(request, tmp_path_factory):
    """The program's file, and transformers' scores of QUERY with TEXTS."""
    folder = tmp_path_factory.mktemp("rank")
    torch.manual_seed(5)
    plain = request.param == "plain"
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=32,
        num_labels=1,
    )
    if plain:
        config.sbert_ce_default_activation_function = "torch.nn.modules.linear.Identity"
    net = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.4 + (p.dim() == 1))
        net.classifier.bias.zero_()
    net.save_pretrained(folder / "m")
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder / "m")
    source, own = read_source(folder / "m")
    convert.convert(source, folder / "m.phasor", F32, own, None, quiet=True)
    scores = []
    for text in TEXTS:
        with torch.no_grad():
            # in lists, as sentence-transformers does: alone, an empty text would be no pair
            logit = net(**tokenizer([QUERY], [text], return_tensors="pt")).logits.item()
        scores.append(logit if plain else 1 / (1 + np.exp(-logit)))
    return folder / "m.phasor", np.array(scores)


def ranked(program, model, *arguments, given="", status=0):
    done = subprocess.run(
        [program, "rank", model, *arguments, "--quiet"], input=given.encode(), capture_output=True
    )
    assert done.returncode == status, done.stderr
    rows = [line.split("\t", 2) for line in done.stdout.decode().splitlines()]
    return rows, done.stderr.decode()


def test_scores_and_order(model, phasor):
    path, scores = model
    order = np.argsort(-scores, kind="stable")
    assert np.ptp(scores) > 1e-2
    rows, _ = ranked(phasor, path, QUERY, given="".join(f"{text}\n" for text in TEXTS))
    assert [int(row[1]) - 1 for row in rows] == order.tolist()
    assert [row[2] for row in rows] == [TEXTS[i] for i in order]
    assert np.abs([float(row[0]) for row in rows] - scores[order]).max() < 1e-5
    assert ranked(phasor, path, QUERY, *TEXTS)[0] == rows
    assert ranked(phasor, path, QUERY, *TEXTS, "--batch", "3", "--top", "2")[0] == rows[:2]
    many = "".join(f"{text}\n" for text in TEXTS * 40)
    assert ranked(phasor, path, QUERY, "--top", "2", given=many)[0] == [
        [rows[0][0], str(order[0] + 1 + 8 * i), rows[0][2]] for i in range(2)
    ]


def test_json_and_bad_lines(model, phasor):
    path, scores = model
    given = "a town\n" + "bread " * 40 + "\n\xff\npeople\n"
    rows, said = ranked(phasor, path, QUERY, "--json", given=given, status=1)
    found = [json.loads(row[0]) for row in rows]
    assert sorted(one["line"] for one in found) == [1, 3, 4] and len(said.splitlines()) == 1
    assert "standard input, line 2: 46 tokens, there is room for 32" in said
    assert abs(next(o["score"] for o in found if o["line"] == 1) - scores[0]) < 1e-5
    rows, said = ranked(phasor, path, QUERY, "--truncate", given=given)
    assert len(rows) == 4 and said == ""


def test_what_does_not_rank(model, phasor, golden_models):
    for name, line in (
        ("tiny-classes-f32", "does not rank: it is no classifier with one class"),
        ("tiny-d2l-f32", "expected an encoder"),
    ):
        assert line in ranked(phasor, golden_models / f"{name}.phasor", "a", "b", status=1)[1]
    done = subprocess.run([phasor, "rank", model[0]], capture_output=True)
    assert done.returncode == 2 and b"rank: expected a query" in done.stderr
