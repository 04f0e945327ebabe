"""The shipped language models of models/positions, one for each encoding: they verify, they
generate, and they score a sentence as the float64 reference does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from texts import ids_text, read_json

FOLDER = Path(__file__).resolve().parents[2] / "models" / "positions"
MODELS = sorted(FOLDER.glob("*.phasor"))
SCORES = read_json(FOLDER / "scores.json")
LOSSES = read_json(FOLDER / "losses.json")
LONGEST = 64
# The two differ by some 3e-8. Where rounding moves an activation of q8 across the border between
# two integers they can differ by 3e-5: the sentence has none such.
BOUND = 1e-5


def run(phasor: Path, *arguments) -> str:
    done = subprocess.run(
        [phasor, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_for_each_encoding():
    assert {path.stem for path in MODELS} == set(LOSSES["models"]) == set(SCORES["log_probability"])
    kinds = {path.stem: PhasorFile(path).descriptor["kinds"][0] for path in MODELS}
    assert {kind["position"] for kind in kinds.values()} == {
        0,
        D.RELATIVE_KEY,
        D.RELATIVE_KEY_QUERY,
        D.THREE_WAY,
        D.CLIPPED,
        D.T5_BIAS,
        D.ALIBI,
        D.ROTARY_INTERLEAVED,
        D.ROTARY_HALVES,
    }
    assert [name for name, kind in kinds.items() if kind["score"]] == ["additive"]


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
class TestModel:
    def test_is_small_and_says_whose_it_is(self, path):
        model = PhasorFile(path).descriptor["model"]
        assert path.stat().st_size < 200_000
        assert (
            model["license"] == "CC BY-SA 3.0"
            and "WikiText-2" in model["credit"]
            and model["origin"]
            and model["converter"]
        )

    def test_verifies(self, path, phasor):
        result = json.loads(run(phasor, "verify", "--json", path))
        assert result["ok"] and len(result["vectors"]) == 3

    def test_generates(self, path, phasor):
        text = run(phasor, "run", path, "The game was", "-n", 30, "--quiet")
        assert len(text.split()) >= 5
        ids = run(phasor, "run", path, "The game was", "-n", 12, "--quiet", "--print-ids")
        prompt = [
            int(line.split("\t")[0])
            for line in run(phasor, "tokenize", path, "The game was").splitlines()
            if line
        ]
        wanted = Reference(PhasorFile(path)).greedy(None, 12, prompt)
        assert [int(i) for i in ids.split(",")] == wanted

    def test_scores_as_the_reference(self, path, phasor):
        want = SCORES["log_probability"][path.stem]
        by_text = json.loads(run(phasor, "score", "--json", path, SCORES["text"]))
        by_ids = json.loads(run(phasor, "score", "--json", path, "--ids", ids_text(SCORES["ids"])))
        assert (
            by_text["log_probability"]
            == by_ids["log_probability"]
            == pytest.approx(want, rel=BOUND)
        )
        assert by_text["tokens"] == len(SCORES["ids"]) - 1

    def test_goes_as_far_as_its_positions(self, path, phasor):
        """A table ends at the trained length, and the program says so; every other encoding goes
        on."""
        ids = ",".join(["5"] * (LONGEST + 2))
        done = subprocess.run(
            [phasor, "score", path, "--ids", ids],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        ends = LOSSES["models"][path.stem]["loss"]["128"] is None
        assert (done.returncode != 0) == ends
        if ends:
            assert str(LONGEST) in done.stderr and done.stderr.count("\n") == 1
