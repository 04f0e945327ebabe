"""`phasor run --align`: pairs of words as the pieces join into them, for every kind of tokenizer;
the same ones with beams and side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_cli import LANGUAGE, ROOT, TRANSLATOR, bad, good, phasor

from phasor.format import descriptor as D
from phasor.format import file as F
from random_models import block, write_random

SHIPPED = ROOT / "models" / "zh-en.phasor"
TEXTS = [
    "I am short",
    "the translations of unbelievable sentences",
    "He is strong and she was not",
    "strength",
]
# How a piece says that it begins a word.
BEGINS = {
    "unigram": lambda p: p.startswith("\u2581"),
    "bpe": lambda p: p.startswith("\u2581"),
    "wordpiece": lambda p: not p.startswith("##"),
    "bytelevel": lambda p: p.startswith((" ", "\u0120")),
}


def write_translator(path, name: str):
    section = (ROOT / f"tests/golden/tokenizers/{name}.bin").read_bytes()
    rows = int.from_bytes(section[8:12], "little")
    side = {"vocabulary": rows}
    write_random(
        path,
        {
            "model": {"stack": D.ENCODER_DECODER},
            "source": {**side, "tokenizer": F.SOURCE_TOKENIZER},
            "target": {**side, "tokenizer": F.TARGET_TOKENIZER, "decoder_start": 1},
            "encoder": {"width": 24, "layers": [0, 0]},
            "decoder": {"width": 24, "layers": [1, 0, 1, 1]},
            "kinds": [block(), block(cross=1)],
            "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
        },
        extra={F.SOURCE_TOKENIZER: section, F.TARGET_TOKENIZER: section},
    )


def pieces_of(path, text: str) -> list[str]:
    return [line.split("\t", 1)[1] for line in good("tokenize", path, text).splitlines() if line]


@pytest.mark.parametrize("name", BEGINS)
def test_words_are_joined_pieces(tmp_path, name):
    path, file = tmp_path / "m.phasor", tmp_path / "a.npy"
    write_translator(path, name)
    several = 0
    for text in TEXTS:
        words = json.loads(good("run", path, text, "-n", "9", "--align", "--json", "--quiet"))
        good("run", path, text, "-n", "9", "--attention", file, "--quiet")
        weights = np.load(file).mean(axis=(0, 1))
        made = json.loads(good("run", path, text, "-n", "9", "--align=pieces", "--json", "--quiet"))
        pieces, assigned, word = pieces_of(path, text), [], -1
        for i, piece in enumerate(pieces):
            word += i == 0 or BEGINS[name](piece)
            assigned.append(word)
        several += word + 1 < len(pieces)
        assert made["alignment"]["source"] == pieces
        assert len(words["alignment"]["source"]) == word + 1
        assert words["alignment"]["target"] == words["text"].split()
        # the source's words of the pairs are those of the pieces that are looked at most
        looked = {int(np.argmax(row)) for row in weights}
        assert {s for s, _ in made["alignment"]["pairs"]} <= looked
        for s, t in made["alignment"]["pairs"]:
            assert weights[t, s] == max(weights[t])
        assert {s for s, _ in words["alignment"]["pairs"]} <= {assigned[i] for i in looked}
        targets = {t for _, t in words["alignment"]["pairs"]}
        assert targets == set(range(len(words["alignment"]["target"])))
    assert several > 1


def test_the_shipped_translator():
    assert good("run", SHIPPED, "--quiet", "--align=pieces", "我有一只猫") == (
        "I have a cat.\t0-0 0-1 0-4 1-2 1-3\n"
    )
    got = good("run", SHIPPED, "--quiet", "--align", "我有一只猫", "", "我 有 一只 猫")
    lines = got.split("\n")
    assert lines[0] == "I have a cat.\t0-0 0-1 0-2 0-3" and lines[1] == ""
    pairs = [pair.split("-") for pair in lines[2].split("\t")[1].split()]
    assert {int(t) for _, t in pairs} == set(range(len(lines[2].split("\t")[0].split())))
    assert max(int(s) for s, _ in pairs) <= 3


@pytest.mark.parametrize("flags", [[], ["--beam", "3"], ["--beam", "3", "--n-best", "2"]])
@pytest.mark.parametrize("heads", [[], ["--align-heads", "0:1,0:0"]])
def test_the_same_side_by_side(flags, heads):
    rng = np.random.default_rng(4)
    text = "".join(
        " ".join(f"source{i}" for i in rng.integers(4, 42, rng.integers(0, 9))) + "\n"
        for _ in range(30)
    )
    given = ["run", TRANSLATOR, "--quiet", "-n", "6", "--align", *flags, *heads]
    one = phasor(*given, "--batch", "1", stdin=text)
    many = phasor(*given, "--batch", "7", stdin=text)
    assert one.returncode == many.returncode == 0, one.stderr
    assert one.stdout == many.stdout and one.stdout.count(b"\t") > 20
    plain = phasor(*(x for x in given if not str(x).startswith("--align")), stdin=text)
    if not heads:
        cut = [b"\t".join(x.split(b"\t")[:-1]) if x else x for x in one.stdout.split(b"\n")]
        assert cut == plain.stdout.split(b"\n")


@pytest.mark.parametrize(
    "model, flags, says",
    [
        (TRANSLATOR, ["--align=letters"], ["letters", "words pieces"]),
        (TRANSLATOR, ["--align-heads", "0:0"], ["--align-heads", "needs --align"]),
        (TRANSLATOR, ["--align", "--align-heads", "0"], ["--align-heads 0", "layer:head"]),
        (TRANSLATOR, ["--align", "--align-heads", "0:0,"], ["layer:head"]),
        (TRANSLATOR, ["--align", "--align-heads", "0:123456"], ["layer:head"]),
        (TRANSLATOR, ["--align", "--align-heads", "9:0"], ["9:0", "1 layer,"]),
        (TRANSLATOR, ["--align", "--align-heads", "0:99"], ["0:99", "heads"]),
        (TRANSLATOR, ["--align", "--split", "sentences"], ["--split", "--align"]),
        (TRANSLATOR, ["--align", "--logits", "x.npy"], ["--logits", "--align"]),
        (LANGUAGE, ["--align"], ["--align", "encoder-decoder"]),
    ],
)
def test_what_does_not_go_with_it(model, flags, says):
    bad(2, "run", model, *flags, "source5", says=says)
