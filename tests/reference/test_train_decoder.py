"""Tests of tools/train_decoder.py: texts without a leak, resuming, and the export beside
transformers and Phasor."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import shutil
import subprocess

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from conversions import convert_to
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from train import decoder as td
from train import decoder_text as tt
from train.split import normalize

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb makes packages")
TINY = td.Recipe(
    seed=3,
    valid_pairs=4,
    test_pairs=8,
    valid_share=0.2,
    test_share=0.2,
    vocab=300,
    width=32,
    heads=4,
    kv_heads=2,
    ffn=48,
    layers=2,
    positions=64,
    length=16,
    batch=4,
    steps=40,
    warmup_steps=5,
    peak_lr=1e-2,
    bf16=False,
)
FLAGS = [
    f"--{'' if value is not False else 'no-'}{name.replace('_', '-')}"
    + (f"={value}" if value is not False else "")
    for name, value in dataclasses.asdict(TINY).items()
]
WORDS = (["the", "a", "one"], ["cat", "dog", "bird", "fish", "hen"], ["sits", "runs", "sings"])


def prose(rng: random.Random) -> str:
    """A paragraph."""
    return " ".join(
        " ".join(rng.choice(part) for part in WORDS) + f" {rng.randrange(50)} times."
        for _ in range(4)
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """(pairs, folder of packages): every package has one file, and one paragraph is in all."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(1)
    lines = [f"The {i} {rng.choice(WORDS[1])} sits.\t第{i}句\tcredit" for i in range(60)]
    (folder / "pairs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    debs = folder / "debs"
    debs.mkdir()
    for package in tt.PACKAGES:
        inside = folder / package.name
        path = inside / ("usr/share" + package.pattern.replace("*/", "/").replace("*", "one"))
        path.parent.mkdir(parents=True)
        texts = [prose(rng) for _ in range(80)] + ["A paragraph that is everywhere, word by word."]
        if package.name == "wordnet-base":
            text = "".join(f"0001 05 n 02 big_cat 0 feline 1 000 | {t}  \n" for t in texts)
        else:
            text = "\n\n".join(texts)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
        (path.parent / "other.bin").write_bytes(b"nothing that a pattern fits")
        control = inside / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            f"Package: {package.name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\n"
            "Description: x\n"
        )
        words = ["dpkg-deb", "--build", str(inside), str(debs / f"{package.name}_1_all.deb")]
        subprocess.run(words, check=True, capture_output=True)
    return folder / "pairs.txt", debs


def run(command: str, corpus, out, *more: object) -> int:
    pairs, debs = corpus
    words = [command, "--pairs", pairs, "--debs", debs, "--out", out, *more]
    return td.main([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    assert run("train", corpus, out, *FLAGS) == 0
    return out


def test_no_paragraph_is_on_two_sides(corpus):
    texts = tt.make_texts(*corpus, TINY)
    sides = [
        {normalize(line) for text in side for line in text.split("\n") if line.strip()}
        for side in (texts.train, texts.valid, texts.test)
    ]
    assert all(len(side) > 20 for side in sides)
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    everywhere = normalize("A paragraph that is everywhere, word by word.")
    assert sum(everywhere in side for side in sides) == 1
    assert any("big cat, feline: " in text for text in texts.train)
    assert len(texts.sources) == 1 + len(tt.PACKAGES) and all(s["license"] for s in texts.sources)
    assert tt.make_texts(*corpus, TINY) == texts


def test_an_epoch_has_every_row_once():
    ids = np.arange(2000)
    rows = (len(ids) - 1) // TINY.length - 1
    assert rows % TINY.batch != 0  # an epoch ends within a batch
    steps = -(-rows // TINY.batch)
    firsts = np.concatenate([td.batch_of(ids, TINY, step)[:, 0].numpy() for step in range(steps)])
    assert len(set((firsts[:rows] // TINY.length).tolist())) == rows
    assert np.ptp(firsts[:rows] % TINY.length) == 0 and len(set(firsts[:rows].tolist())) == rows
    one = td.batch_of(ids, TINY, 3)
    assert one.shape == (TINY.batch, TINY.length + 1) and bool((one.diff(dim=1) == 1).all())


def test_a_resumed_run_is_the_uninterrupted_one(corpus, trained, tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    given, saved = td.save_weights, []

    def save(path, state):
        given(path, state)
        saved.append(state["step"])
        if len(saved) == 1:
            raise Stop

    monkeypatch.setattr(td, "save_weights", save)
    assert run("train", corpus, tmp_path, "--minutes", "0", *FLAGS) != 0  # stopped
    assert saved[0] < TINY.steps and run("train", corpus, tmp_path) == 0
    whole, again = (
        torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (trained, tmp_path)
    )
    assert whole["step"] == again["step"] == TINY.steps
    for name, weight in whole["model"].items():
        assert torch.equal(weight, again["model"][name]), name
    losses = [row["valid_loss"] for row in again["history"]]
    assert losses[-1] < losses[0] - 1  # it learned


def test_the_export_beside_transformers_and_phasor(corpus, trained, tmp_path):
    """Logits of the directory in LlamaForCausalLM, and of the converted file; its texts and
    record."""
    to = tmp_path / "to"
    assert run("export", corpus, trained, "--to", to) == 0
    record = json.loads((to / "record.json").read_text())
    assert record["steps"] == TINY.steps and record["test_loss"] < np.log(TINY.vocab) - 1
    tokenizer = AutoTokenizer.from_pretrained(to)
    text = (to / "test.txt").read_text()
    assert tokenizer.decode(tokenizer(text[:200])["input_ids"]) == text[:200]
    ids = torch.tensor([[0, *tokenizer(text[:60])["input_ids"]]])
    theirs = LlamaForCausalLM.from_pretrained(to, dtype=torch.float64)
    state = torch.load(trained / "checkpoint.pt", weights_only=True)
    model = td.Decoder(TINY)
    model.load_state_dict(state["model"])
    with torch.no_grad():
        want, got = theirs(ids).logits[0].numpy(), model.double()(ids)[0].numpy()
    assert np.abs(want - got).max() < 1e-5 * np.abs(want).max()
    convert_to(to, tmp_path / "m.phasor")
    ours = Reference(PhasorFile(tmp_path / "m.phasor")).decode(ids[0].tolist()).logits
    assert np.abs(want - ours).max() < 1e-5 * np.abs(want).max()


def test_faults_are_one_line(corpus, trained, tmp_path, capsys):
    pairs, debs = corpus
    (tmp_path / "empty").mkdir()
    assert run("train", (pairs, tmp_path / "empty"), tmp_path / "o", *FLAGS) == 1
    error = capsys.readouterr().err
    assert "0 files of package debian-faq, expected one. TRY: " in error and error.count("\n") == 1
    (tmp_path / "bad").mkdir()
    for package in tt.PACKAGES:
        (tmp_path / "bad" / f"{package.name}_1.deb").write_bytes(b"no archive")
    assert run("train", (pairs, tmp_path / "bad"), tmp_path / "o", *FLAGS) == 1
    assert "dpkg-deb cannot read it" in capsys.readouterr().err
    assert run("export", corpus, tmp_path / "none", "--to", tmp_path / "to") == 1
    assert "checkpoint.pt: cannot be read" in capsys.readouterr().err
