"""Tests of tools/train_positions.py: the split, the windows, equal beginnings, resuming, learning,
the export and its conversion."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import numpy as np
import pytest
import torch

from conversions import convert_to
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from train import positions as tp

TINY = tp.Recipe(
    seed=3,
    vocabulary=36,
    width=16,
    layers=1,
    heads=2,
    hidden=24,
    length=16,
    batch=8,
    steps=60,
    warmup=5,
    peak_rate=2e-2,
)


@pytest.fixture(autouse=True)
def one_thread():
    """The same arithmetic wherever the tests run."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A text of 40 articles in a language of three-word sentences."""
    rng, words = (
        random.Random(1),
        [["the", "a", "one"], ["cat", "dog", "bird", "fish"], ["sits", "runs", "sings"]],
    )
    lines = []
    for i in range(40):
        lines += ["", f" = Article {i} = ", ""]
        lines += [" ".join(rng.choice(part) for part in words) + " ." for _ in range(14)]
    path = tmp_path_factory.mktemp("text") / "text.raw"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """(folder of the checkpoints, text) with every encoding trained."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("out")
    recipe = [
        word
        for f in dataclasses.fields(TINY)
        for word in ("--" + f.name.replace("_", "-"), str(getattr(TINY, f.name)))
    ]
    assert tp.main(["train", "--text", str(corpus), "--out", str(out), *recipe]) == 0
    return out, tp.obtain_text([corpus], out, TINY), recipe


def test_every_tenth_article_is_held_out(corpus):
    articles = tp.read_articles([corpus])
    train, valid = tp.split(articles)
    titles = [line for line in valid if line.startswith("= ")]
    assert titles == [f"= Article {i} =" for i in (9, 19, 29, 39)]
    assert sorted(train + valid) == sorted(line for article in articles for line in article)


def test_a_window_is_the_start_and_the_text(trained):
    _, text, _ = trained
    given, targets = tp.windows(text.train, [0, 5], 8)
    assert given[:, 0].tolist() == [tp.START] * 2
    assert (
        given[1, 1:].tolist() == text.train[5:12].tolist()
        and targets[1].tolist() == text.train[5:13].tolist()
    )


def test_the_encodings_begin_alike():
    models = {
        name: dict(tp.make_model(TINY, e).named_parameters())
        for name, e in tp.encodings(TINY).items()
    }
    for name, parameters in models.items():
        for key, value in models["none"].items():
            assert torch.equal(parameters[key], value), (name, key)


@pytest.mark.parametrize("name", list(tp.encodings(TINY)))
def test_no_model_sees_the_future(name):
    model = tp.make_model(TINY, tp.encodings(TINY)[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += (
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.3
            )
        ids = torch.randint(36, (1, 8), generator=torch.Generator().manual_seed(2))
        changed = ids.clone()
        changed[0, 5] = (ids[0, 5] + 1) % 36
        a, b = model(None, ids), model(None, changed)
    assert torch.equal(a[:, :5], b[:, :5]) and not torch.equal(a[:, 5:], b[:, 5:])


def test_a_resumed_run_repeats_an_uninterrupted_one(trained, tmp_path):
    _, text, _ = trained
    encoding = tp.encodings(TINY)["alibi"]

    class Stopped(Exception):
        pass

    calls = 0
    original = tp.loss_of

    def stop(*arguments):
        nonlocal calls
        calls += 1
        if calls == 45:
            raise Stopped
        return original(*arguments)

    whole = tp.train("alibi", encoding, TINY, text, tmp_path / "a", every=20)
    tp.loss_of = stop
    try:
        with pytest.raises(Stopped):
            tp.train("alibi", encoding, TINY, text, tmp_path / "b", every=20)
    finally:
        tp.loss_of = original
    again = tp.train("alibi", encoding, TINY, text, tmp_path / "b", every=20)
    for (name, a), b in zip(whole.state_dict().items(), again.state_dict().values()):
        assert torch.equal(a, b), name


def test_every_encoding_learns_and_says_where_it_ends(trained):
    out, text, _ = trained
    results = tp.measured(out, TINY, text)
    assert list(results) == list(tp.encodings(TINY))
    for name, row in results.items():
        assert row["loss"]["16"] < 0.6 * math.log(36), name
        ends = row["loss"]["32"] is None
        assert (
            ends
            == (row["loss"]["64"] is None)
            == (name in ("learned", "relative-key", "relative-key-query", "three-way"))
        )
    table = tp.as_table(results)
    assert table.count("no position there") == 8 and len(table.splitlines()) == 2 + len(results)


def test_losses_of_all_lengths_are_over_the_same_tokens(trained):
    """A model that knows nothing of its context has one loss for every length."""
    _, text, _ = trained
    model = tp.make_model(TINY, tp.encodings(TINY)["none"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "fc_o" in name or "fc_2" in name:
                parameter.zero_()
    count = len(text.valid) // 64 * 64
    each = [tp.held_out_loss(model, text.valid, n, 64) for n in (16, 32, 64)]
    first = [
        torch.nn.functional.cross_entropy(
            model(None, torch.tensor([[tp.START]]))[0], text.valid[i : i + 1]
        ).item()
        for i in range(0, count, 16)
    ]
    assert len(first) == count // 16 and all(math.isfinite(v) for v in each)
    targets = [
        tp.windows(text.valid, range(0, count, n), n)[1].flatten().tolist() for n in (16, 32, 64)
    ]
    assert targets[0] == targets[1] == targets[2] == text.valid[:count].tolist()


def test_the_export_converts(trained, corpus, tmp_path):
    out, text, recipe = trained
    to = tmp_path / "to"
    assert (
        tp.main(["export", "--text", str(corpus), "--out", str(out), "--to", str(to), *recipe]) == 0
    )
    assert json.loads((to / "losses.json").read_text())["models"]["alibi"]["parameters"] > 0
    ids = [tp.START, *text.valid[:7].tolist()]
    for name, encoding in tp.encodings(TINY).items():
        convert_to(to / f"{name}.pt", to / f"{name}.phasor")
        model = tp.make_model(TINY, encoding)
        model.load_state_dict(torch.load(to / f"{name}.pt", weights_only=True))
        with torch.no_grad():
            want = model.double()(None, torch.tensor([ids]))[0].numpy()
        got = Reference(PhasorFile(to / f"{name}.phasor")).decode(ids).logits
        assert np.abs(got - want).max() < 1e-5 * np.abs(want).max(), (
            name
        )  # the scale and the norms' epsilon are f32 in the file


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["train", "nonsense"], "no encoding is called nonsense"),
        (["table"], "no trained model"),
    ],
)
def test_faults_are_one_line(corpus, tmp_path, capsys, arguments, message):
    command, *names = arguments
    assert (
        tp.main(
            [command, "--text", str(corpus), "--out", str(tmp_path), "--vocabulary", "36", *names]
        )
        == 1
    )
    error = capsys.readouterr().err
    assert message in error and error.startswith("train_positions: ") and error.count("\n") == 1


def test_a_text_without_articles(tmp_path, capsys):
    (tmp_path / "text").write_text("one line\n")
    assert tp.main(["table", "--text", str(tmp_path / "text"), "--out", str(tmp_path)]) == 1
    assert "expected at least 10" in capsys.readouterr().err
    assert tp.main(["table", "--text", str(tmp_path / "absent"), "--out", str(tmp_path)]) == 1
    assert "cannot read" in capsys.readouterr().err
