"""`phasor run --samples N`: what N single runs draw with the seeds that command-line.md names,
whatever N, with and without --batch."""

from __future__ import annotations

import json

import pytest
from test_batch import CHAT, lines, lists
from test_cli import LANGUAGE, TRANSLATOR, bad, good, phasor

from random_models import lm, write_random

SEED = 7
COUNT = 3
NAMES = ("line", "text", "ids", "finish", "input_tokens", "tokens", "seed", "outputs", "error")


def seed_of(line: int, sample: int, first: int = SEED) -> int:
    """Both from 1, as in docs/reference/command-line.md."""
    return (first + line - 1 + (sample - 1) * 2**32) % 2**64


def single(path, given, line: int, sample: int, text: str, first: int = SEED) -> dict:
    """Alone: no other line, no other sample."""
    flags = ["--quiet", "--json", "--seed", seed_of(line, sample, first)]
    return json.loads(good("run", path, *given, *flags, stdin=text + "\n"))


@pytest.mark.parametrize(
    "path, given, text",
    [
        (TRANSLATOR, ["--temperature", "1.4"], lines(11, 2)),
        (TRANSLATOR, ["--top-k", "9", "--align", "--prefix-ids", "5,6"], lines(12, 2)),
        (LANGUAGE, ["--ids", "-", "--context", "30"], lists(13, 2)),
        (CHAT, ["--ids", "-", "--stop", "a", "--repeat-penalty", "1.3", "-n", "20"], lists(14, 2)),
    ],
)
def test_samples_are_those_of_single_runs(path, given, text):
    run = ["run", path, *given, "--quiet", "--seed", SEED]
    reports = [
        [
            json.loads(line)
            for line in good(*run, "--json", "--samples", COUNT, *more, stdin=text).splitlines()
        ]
        for more in ([], ["--batch", "2"], ["--batch", "16"])
    ]
    printed = good(*run, "--samples", COUNT, stdin=text)
    assert printed == good(*run, "--samples", COUNT, "--batch", "3", stdin=text)
    texts = ""
    drawn = set()
    for number, source in enumerate(text.splitlines(), 1):
        one = reports[0][number - 1]
        assert len(one["outputs"]) == COUNT and one["line"] == number
        assert (one["ids"], one["seed"]) == (one["outputs"][0]["ids"], seed_of(number, 1))
        assert one["tokens"] == sum(len(output["ids"]) for output in one["outputs"])
        for sample, output in enumerate(one["outputs"], 1):
            alone = single(path, given, number, sample, source)
            assert set(output) == set(alone) & {"seed", "text", "ids", "finish", "alignment"}
            assert output == {name: alone[name] for name in output}
            assert one["input_tokens"] == alone["input_tokens"]
            plain = ["--seed", seed_of(number, sample), "--quiet", *given]
            texts += good("run", path, *plain, stdin=source + "\n")
            drawn.add((number, *output["ids"]))
        for other in reports[1:]:
            for name in NAMES:
                assert other[number - 1].get(name) == one.get(name), name
    assert printed == texts
    assert len(drawn) > COUNT + 1  # they differ


def test_any_number_of_samples_begins_with_the_same():
    run = ["run", TRANSLATOR, "--quiet", "--temperature", "1.5", "--seed", SEED, "source5 source9"]
    many = good(*run, "--samples", 256, "--batch", 3).splitlines()
    assert len(many) == 256 and len(set(many)) > 100
    for count in (1, 20):
        for more in ([], ["--batch", "4"]):
            assert good(*run, "--samples", count, *more).splitlines() == many[:count]
    assert good(*run).splitlines() == many[:1]  # the first is what a run without the flag draws


def test_the_sums_of_the_largest_seed_begin_again_at_zero():
    first = 2**64 - 1
    run = ["run", LANGUAGE, "--ids", "-", "--quiet", "--json", "-n", "9", "--seed", first]
    for more in ([], ["--batch", "2"]):
        out = good(*run, "--samples", 3, *more, stdin="5,6\n7,8\n").splitlines()
        for number, source in enumerate(("5,6", "7,8"), 1):
            for sample, output in enumerate(json.loads(out[number - 1])["outputs"], 1):
                alone = single(LANGUAGE, ["--ids", "-", "-n", "9"], number, sample, source, first)
                assert (output["ids"], output["seed"]) == (alone["ids"], alone["seed"])


def test_a_line_that_is_bad_or_empty_has_its_place():
    text = "source5\n\n" + "source5 " * 300 + "\nsource6 source7\n"
    run = ["run", TRANSLATOR, "--quiet", "--seed", SEED, "--samples", "3"]
    one = phasor(*run, stdin=text)
    assert one.returncode == 1 and b"line 3: " in one.stderr
    out = one.stdout.split(b"\n")
    assert [bool(line) for line in out] == [True] * 3 + [False] * 6 + [True] * 3 + [False]
    many = phasor(*run, "--batch", "3", stdin=text)
    assert (many.stdout, many.stderr, many.returncode) == (one.stdout, one.stderr, 1)
    for more in ([], ["--batch", "3"]):
        reports = [
            json.loads(line)
            for line in phasor(*run, "--json", *more, stdin=text).stdout.splitlines()
        ]
        assert len(reports) == 4 and reports[1]["outputs"] == [] and "error" in reports[2]


@pytest.mark.parametrize("kind", [{}, {"window": 6}])
def test_lookahead_and_a_context_that_slides(tmp_path, kind):
    path = tmp_path / "m.phasor"
    write_random(path, lm({"max_positions": 24}, **kind))
    prompt = ",".join(str(3 + i % 7) for i in range(17))
    for flags in (["--lookahead"], ["--keep", "2", "-n", "60"]):
        given = ["--ids", "-", "--temperature", "6", *flags]
        run = ["run", path, *given, "--quiet", "--json", "--seed", SEED, "--samples", 3]
        report = json.loads(good(*run, stdin=prompt + "\n"))
        alone = [single(path, given, 1, i, prompt) for i in range(1, 4)]
        assert [one["ids"] for one in report["outputs"]] == [one["ids"] for one in alone]
        assert len({tuple(one["ids"]) for one in alone}) > 1
        for name in ("steps", "proposed", "accepted", "slides"):
            assert report.get(name, 0) == sum(one.get(name, 0) for one in alone), name
        assert report.get("slides", 1) > 0


def test_they_go_on_from_a_saved_state(tmp_path):
    state = tmp_path / "state"
    good("run", LANGUAGE, "--ids", "5,6,7", "-n", "4", "--quiet", "--save-state", state)
    run = [
        "run",
        LANGUAGE,
        "--ids",
        "9",
        "-n",
        "9",
        "--quiet",
        "--print-ids",
        "--load-state",
        state,
    ]
    out = good(*run, "--seed", SEED, "--samples", "3").splitlines()
    assert out == [good(*run, "--seed", seed_of(1, i)).strip() for i in (1, 2, 3)]
    assert len(set(out)) > 1


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--samples", "0"], ["--samples 0", "from 1 to 256"]),
        (["--samples", "257"], ["--samples 257", "from 1 to 256"]),
        (["--samples", "2", "--temperature", "0"], ["--samples", "no effect at --temperature 0"]),
        (["--samples", "2", "--beam", "2"], ["--samples", "--beam"]),
        (["--samples", "2", "--split", "sentences"], ["--samples", "--split"]),
        (["--samples", "2", "--logits", "x.npy"], ["--logits", "--samples"]),
        (["--samples", "2", "--save-state", "x"], ["--save-state", "--samples"]),
    ],
)
def test_what_does_not_go_with_it(flags, says):
    bad(2, "run", TRANSLATOR, *flags, "x", says=says)
