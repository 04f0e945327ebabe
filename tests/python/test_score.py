"""`phasor score` of long texts: windows and blocks beside the loops of others, written out over the
float64 reference's logits."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from test_cli import LANGUAGE, ROOT, TRANSLATOR, bad, good, phasor

from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference

IDS = [int(i) for i in np.random.default_rng(5).integers(3, 40, 100)]


def score(*arguments, **more) -> dict:
    return json.loads(good("score", *arguments, "--json", "--quiet", **more))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def text(ids) -> str:
    return ",".join(map(str, ids))


@pytest.mark.parametrize(
    "window, stride", [(32, 16), (32, 32), (32, 1), (20, 7), (64, 50), (32, 31)]
)
def test_windows_are_the_usual_loop(window, stride):
    """The loop of transformers' page on perplexity: each window scores the tokens that the one
    before has not reached."""
    model, nll, count, previous = Reference(PhasorFile(LANGUAGE)), 0.0, 0, 0
    for begin in range(0, len(IDS), stride):
        end = min(begin + window, len(IDS))
        ids = IDS[begin:end]
        rows = log_softmax(model.decode(ids).logits)
        for t in range(max(end - previous, 1), 0, -1):
            at = len(ids) - t
            if at > 0:
                nll -= rows[at - 1][ids[at]]
                count += 1
        previous = end
        if end == len(IDS):
            break
    got = score(LANGUAGE, "--ids", text(IDS), "--context", window, "--stride", stride)
    # The loop gives each window's first token up; the windows here do too, unless it was scored
    # before.
    assert (
        got["tokens"]
        == count
        == len(IDS) - 1 - (0 if stride < window else (len(IDS) - 1) // window)
    )
    assert got["nll"] == pytest.approx(nll, rel=1e-5) and got["log_probability"] == -got["nll"]
    assert got["perplexity"] == pytest.approx(math.exp(nll / count), rel=1e-5)


@pytest.mark.parametrize("cache", ["f16", "q8"])
def test_the_perplexity_of_a_smaller_cache(cache):
    """The float64 reference's with keys and values rounded, nearer to it than to the perplexity
    without rounding."""
    ids = IDS[:48]

    def loss(kind):
        rows = log_softmax(Reference(PhasorFile(LANGUAGE), cache=kind).decode(ids[:-1]).logits)
        return -rows[np.arange(len(ids) - 1), ids[1:]].sum()

    got, wanted, exact = (
        score(LANGUAGE, "--ids", text(ids), "--cache", cache)["nll"],
        loss(cache),
        loss("f32"),
    )
    assert abs(got - wanted) < 0.2 * abs(got - exact) and got == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("start", [False, True])
def test_blocks_are_llama_cpps_perplexity(start):
    """first = n_ctx/2; each whole chunk scores tokens first+1 … n_ctx−1; with a start token each
    chunk's first one becomes it."""
    model = Reference(PhasorFile(LANGUAGE))
    bos = model.d["target"]["start"]
    assert bos is not None
    ids, window, nll, count = ([bos] if start else []) + IDS, 24, 0.0, 0
    for chunk in range(len(ids) // window):
        tokens = ids[chunk * window : (chunk + 1) * window]
        if start:
            tokens[0] = bos
        rows = log_softmax(model.decode(tokens).logits)
        for i in range(window // 2, window - 1):
            nll -= rows[i][tokens[i + 1]]
            count += 1
    got = score(LANGUAGE, "--ids", text(ids), "--context", window, "--blocks")
    assert got["tokens"] == count and got["nll"] == pytest.approx(nll, rel=1e-5)


def test_a_window_that_holds_all_is_the_plain_score():
    plain = score(LANGUAGE, "--ids", text(IDS[:30]))
    assert score(LANGUAGE, "--ids", text(IDS[:30]), "--context", 40, "--stride", 20) == plain
    assert score(LANGUAGE, "--ids", text(IDS[:30]), "--threads", 3) == plain


def test_a_long_text_on_standard_input(tmp_path):
    """More bytes than a text may have elsewhere: the arena is made for it."""
    model = ROOT / "models" / "positions" / "rotary.phasor"
    if not model.is_file():
        pytest.skip(f"no {model}")
    lines = "Once upon a time there was a little cat.\n" * 300
    got = score(model, "--stride", 64, "--context", 128, stdin=lines)
    assert got["tokens"] > 1000 and got["perplexity"] > 1
    assert score(model, lines, "--stride", 64, "--context", 128) == got


def test_what_is_refused():
    error = bad(1, "score", LANGUAGE, "--ids", text(IDS), "--context", "32")
    assert "100 tokens" in error and "32" in error and "--stride" in error
    bad(
        2,
        "score",
        LANGUAGE,
        "--ids",
        text(IDS),
        "--context",
        "32",
        "--stride",
        "33",
        says=["--stride 33", "32"],
    )
    bad(
        2,
        "score",
        LANGUAGE,
        "--ids",
        text(IDS),
        "--stride",
        "3",
        "--blocks",
        says=["--stride, --blocks"],
    )
    bad(
        2,
        "score",
        TRANSLATOR,
        "source5",
        "--target",
        "target5",
        "--stride",
        "3",
        says=["--stride", "decoder"],
    )
    bad(
        1,
        "score",
        LANGUAGE,
        "--ids",
        "5,6,7",
        "--context",
        "8",
        "--blocks",
        says=["3 tokens", "window of 8"],
    )


def test_several_texts_are_summed():
    done = phasor("score", LANGUAGE, "--ids", "-", "--json", stdin="5,6,7\n8,9,10,11\n")
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    total = done.stderr.decode().splitlines()[-1]
    assert f"nll {rows[0]['nll'] + rows[1]['nll']:.6f}" in total and "5 tokens" in total
