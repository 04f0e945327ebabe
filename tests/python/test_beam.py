"""Beam search: the float64 one of tools/phasor/reference/beam.py has the properties of its
definition, and `phasor run --beam` is that one, for whole models."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest
from test_cli import LANGUAGE, MODELS, TRANSLATOR, bad, good, levels

from phasor.format.file import PhasorFile
from phasor.reference import beam
from phasor.reference.forward import Reference
from texts import ids_text

SCORE = 1e-5


def made_up(seed: int, vocabulary: int, whole: bool = False):
    """Logits that depend on the whole output so far; with `whole`, small numbers with many ties."""

    def logits(ids: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, 7, *ids])
        return (
            rng.integers(0, 3, vocabulary).astype(float)
            if whole
            else rng.normal(size=vocabulary) * 2
        )

    return logits


def every_output(logits, ends, most: int, penalty: float) -> dict[tuple[int, ...], float]:
    """Scores of all outputs that there are."""
    vocabulary, out = len(logits(())), {}
    for length in range(1, most + 1):
        for ids in itertools.product(range(vocabulary), repeat=length):
            if any(i in ends for i in ids[:-1]) or (ids[-1] not in ends and length < most):
                continue
            total = sum(beam.log_softmax(logits(ids[:at]))[i] for at, i in enumerate(ids))
            out[ids] = total / length**penalty
    return out


PENALTIES = (0.0, 0.6, 1.0, 2.0, -0.5)


@pytest.fixture(params=range(60))
def case(request):
    """(seed, vocabulary, tokens at most, length penalty, early stopping, beams)"""
    rng = random.Random(request.param)
    return (
        request.param,
        rng.randint(2, 4),
        rng.randint(1, 4),
        rng.choice(PENALTIES),
        rng.choice(beam.EARLY),
        rng.randint(1, 6),
    )


def test_one_beam_is_greedy(case):
    seed, vocabulary, most, penalty, early, _ = case
    logits, ids = made_up(seed, vocabulary), ()
    while len(ids) < most and (not ids or ids[-1] != 0):
        ids += (int(np.argmax(logits(ids))),)
    one = beam.beam_search(logits, [0], 1, most, penalty, early)
    assert len(one) == 1
    # An end that is found is an output; the best other token goes on, and may end better.
    if early == "yes":
        assert one[0].ids == ids
    else:
        assert (
            one[0].score
            >= sum(beam.log_softmax(logits(ids[:at]))[i] for at, i in enumerate(ids))
            / len(ids) ** penalty
            - 1e-12
        )


def test_as_many_beams_as_outputs_find_them_all(case):
    seed, vocabulary, most, penalty, early, _ = case
    logits = made_up(seed, vocabulary)
    every = every_output(logits, [0], most, penalty)
    found = beam.beam_search(logits, [0], vocabulary**most + len(every), most, penalty, early)
    assert {o.ids for o in found} == set(every)
    assert np.allclose([o.score for o in found], sorted(every.values(), reverse=True), atol=1e-12)


def test_outputs_are_sound(case):
    seed, vocabulary, most, penalty, early, beams = case
    logits = made_up(seed, vocabulary, whole=True)
    found = beam.beam_search(logits, [0, 1], beams, most, penalty, early)
    assert 1 <= len(found) <= beams and len({o.ids for o in found}) == len(found)
    assert [o.score for o in found] == sorted((o.score for o in found), reverse=True)
    every = every_output(logits, [0, 1], most, penalty)
    for o in found:
        assert np.isclose(o.score, every[o.ids], atol=1e-12) and np.isclose(
            o.score * len(o.ids) ** penalty, o.log_probability, atol=1e-9
        )


def outputs(*arguments) -> list[dict]:
    return json.loads(good("run", *arguments, "--json", "--quiet"))["outputs"]


def agree(ours: list[dict], theirs: list[beam.Output]) -> bool:
    """The same outputs and scores; those whose scores are closer than SCORE may change places."""
    assert len(ours) == len(theirs)
    assert np.allclose([o["score"] for o in ours], [o.score for o in theirs], atol=SCORE)
    assert np.allclose(
        [o["log_probability"] for o in ours], [o.log_probability for o in theirs], atol=SCORE * 20
    )
    near = any(a.score - b.score < SCORE for a, b in zip(theirs, theirs[1:]))
    return near or [tuple(o["ids"]) for o in ours] == [o.ids for o in theirs]


@pytest.mark.parametrize(
    "name",
    [
        "tiny-d2l-f32",
        "tiny-post-sin-f32",
        "tiny-t5-f32",
        "tiny-lm-f32",
        "tiny-rotary-f32",
        "tiny-alibi-f32",
    ],
)
def test_the_program_is_the_float64_search(name):
    path, rng = MODELS / f"{name}.phasor", random.Random(name)
    model = Reference(PhasorFile(path))
    vocabulary, close = model.d["target"]["vocabulary"], 0
    for case in range(12):
        beams, most, penalty, early = (
            rng.choice([1, 2, 3, 4]),
            rng.randint(1, 7),
            rng.choice([1.0, 0.0, 0.6, 2.0, -1.0]),
            rng.choice(beam.EARLY),
        )
        ids = [
            rng.randrange(3, 40 if "source" in model.d else vocabulary)
            for _ in range(rng.randint(1, 9))
        ]
        want = beam.search_model(
            model,
            ids,
            [] if "source" in model.d else ids,
            beams,
            most,
            length_penalty=penalty,
            early_stopping=early,
        )
        got = outputs(
            path,
            "--ids",
            ids_text(ids),
            "--beam",
            beams,
            "--n-best",
            beams,
            "-n",
            most,
            f"--length-penalty={penalty}",
            "--early-stopping",
            early,
        )
        close += not agree(got, want)
    assert close == 0


def test_lines_and_formats():
    text = good("run", TRANSLATOR, "source5 source6", "--beam", "3", "-n", "5", "--quiet")
    assert text.count("\n") == 1
    best = good(
        "run", TRANSLATOR, "source5 source6", "--beam", "3", "--n-best", "3", "-n", "5", "--quiet"
    ).splitlines()
    assert len(best) == 3 and best[0].split("\t")[1] == text.rstrip("\n")
    scores = [float(line.split("\t")[0]) for line in best]
    assert scores == sorted(scores, reverse=True)
    ids = good(
        "run", TRANSLATOR, "source5 source6", "--beam", "3", "-n", "5", "--print-ids", "--quiet"
    ).strip()
    assert ids == ids_text(
        outputs(TRANSLATOR, "source5 source6", "--beam", "3", "-n", "5")[0]["ids"]
    )
    lines = good(
        "run", TRANSLATOR, "--beam", "2", "-n", "5", "--quiet", stdin="source5\n\nsource5 source6\n"
    ).splitlines()
    assert (
        lines[0]
        == good("run", TRANSLATOR, "source5", "--beam", "2", "-n", "5", "--quiet").rstrip("\n")
        and lines[1] == ""
        and len(lines) == 3
    )


def test_bans_and_prefixes():
    def best(*flags):
        return outputs(LANGUAGE, "--ids", "5,6,7", "-n", "12", "--beam", "3", *flags)[0]["ids"]

    plain = best()
    assert plain[0] not in best("--suppress", str(plain[0]))
    assert (
        best("--end", str(plain[3]), "--early-stopping", "yes")[-1] == plain[3]
        or plain[3] not in best("--end", str(plain[3]))[:-1]
    )
    once = best("--no-repeat-ngram", "1")
    assert len({5, 6, 7, *once}) == 3 + len(once)
    assert best("--prefix-ids", "9,10")[:2] == [9, 10]
    forced = outputs(LANGUAGE, "--ids", "5,6,7", "-n", "12", "--beam", "3", "--prefix-ids", "9,10")[
        0
    ]
    later = outputs(LANGUAGE, "--ids", "5,6,7,9,10", "-n", "10", "--beam", "3")[0]
    assert forced["ids"][2:] == later["ids"] and forced["score"] == later["score"]
    bad(
        1,
        "run",
        LANGUAGE,
        "--ids",
        "5",
        "--beam",
        "2",
        "--prefix-ids",
        "9,10",
        "-n",
        "2",
        says=["--prefix-ids: 2 tokens, there is room for 1 (-n)"],
    )


def test_every_level_and_number_of_threads():
    flags = [LANGUAGE, "--ids", "5,6,7", "-n", "15", "--beam", "4", "--n-best", "4"]
    first = outputs(*flags)
    for level in levels():
        assert outputs(*flags, "--isa", level) == first
    assert outputs(*flags, "--threads", "3") == first


def test_the_memory_is_that_of_inspect():
    plan = json.loads(good("inspect", TRANSLATOR, "--beam", "4", "--json"))
    used = json.loads(good("run", TRANSLATOR, "source5", "--beam", "4", "--json", "--quiet"))
    assert plan["arena_bytes"] == used["arena_bytes"]
    assert json.loads(good("inspect", TRANSLATOR, "--json"))["arena_bytes"] < plan["arena_bytes"]


def three_best(path, *flags) -> list[dict]:
    return json.loads(good("run", path, "--json", "--quiet", "--beam", 3, "--n-best", 3, *flags))[
        "outputs"
    ]


def test_a_stop_string_is_cut_from_the_text():
    chat = MODELS / "tiny-chat-f32.phasor"
    flags = ["--ids", "5,6,7", "-n", "12"]
    text = three_best(chat, *flags)[0]["text"]
    stop = text[len(text) // 2 : len(text) // 2 + 2]
    found = three_best(chat, *flags, "--stop", stop)
    assert "stop string" in [o["finish"] for o in found]
    for one in found:
        assert stop not in one["text"]
    assert good("run", chat, "--quiet", "--beam", 3, *flags, "--stop", stop) == (
        found[0]["text"] + "\n"
    )


def test_what_a_file_recommends_and_flags_that_override_it(tmp_path):
    from random_models import translator, write_random

    asked = {
        "--repeat-penalty": 1.5,
        "--source-no-repeat-ngram": 1,
        "--bad-words": "3,4",
        "--forced-last": 6,
        "--min-new": 3,
        "--renormalize": "yes",
    }
    advice = {
        "repetition_penalty": 1.5,
        "source_no_repeat_ngram": 1,
        "bad_words": [2, 3, 4],
        "forced_last": 6,
        "min_new": 3,
        "renormalize": 1,
    }
    plain, advised = tmp_path / "plain.phasor", tmp_path / "advised.phasor"
    write_random(plain, translator())
    write_random(advised, translator() | {"generation": advice})
    shown = good("inspect", advised)
    assert all(f"generation.{name} = " in shown for name in advice)
    flags = ["--ids", "5,8,9,7,11,4", "-n", "9"]
    every = [x for flag in asked.items() for x in flag]
    want = three_best(plain, *flags, *every)
    assert three_best(advised, *flags) == want != three_best(plain, *flags)
    assert three_best(advised, *flags, "--renormalize", "no") != want
    assert any(o["ids"][-1] == 6 and len(o["ids"]) == 9 for o in want)
    nothing = ["--repeat-penalty", 1, "--source-no-repeat-ngram", 0, "--bad-words", ""]
    nothing += ["--forced-last", "", "--min-new", 0, "--renormalize", "no"]
    assert three_best(advised, *flags, *nothing) == three_best(plain, *flags)
    greedy = ["--print-ids", "--quiet", *flags]
    assert good("run", advised, *greedy) == good("run", plain, *greedy, *every[:-2])
    assert good("run", advised, *greedy) != good("run", plain, *greedy)


def test_the_norm_of_a_score():
    for one, gnmt in zip(
        three_best(TRANSLATOR, "--ids", "5,6,7", "--length-penalty", "0.6", "-n", "6"),
        three_best(TRANSLATOR, "--ids", "5,6,7", "--length-penalty", "0.6", "-n", "6",
                "--length-norm", "gnmt"),
    ):  # fmt: skip
        n = len(one["ids"])
        assert one["score"] == pytest.approx(one["log_probability"] / n**0.6, rel=1e-5)
        n = (5 + len(gnmt["ids"])) / 6
        assert gnmt["score"] == pytest.approx(gnmt["log_probability"] / n**0.6, rel=1e-5)


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--beam", "4", "--groups", "2"], ["--groups", "needs --diversity"]),
        (["--coverage-penalty", "1"], ["--coverage-penalty", "needs --beam"]),
        (["--beam", "4", "--coverage-penalty", "-1"], ["--coverage-penalty -1", "0 to 1000"]),
        (["--renormalize", "yes"], ["--renormalize", "needs --beam"]),
        (["--beam", "4", "--renormalize", "maybe"], ["--renormalize maybe", "no yes"]),
        (["--beam", "4", "--diversity", "1"], ["--diversity", "needs --groups"]),
        (["--beam", "4", "--groups", "3", "--diversity", "1"], ["--groups 3", "divisor", "4"]),
        (["--groups", "2", "--diversity", "1"], ["--groups", "needs --beam"]),
        (["--beam", "4", "--groups", "2", "--diversity", "0"], ["--diversity 0", "above 0"]),
    ],
)
def test_groups_that_cannot_be(flags, says):
    bad(2, "run", TRANSLATOR, "source5", *flags, says=says)
