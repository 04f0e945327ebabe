"""Cross-attention and `phasor run --align` beside transformers' `cross_attentions`: every weight of
every layer and head, and the pairs that follow from them."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import torch
from test_beam import described, seq2seq, some, weights_of

from random_models import write_random

TOLERANCE = 1e-5
END = 2


@pytest.fixture(scope="module", params=["marian", "bart"])
def model(request, tmp_path_factory):
    made = seq2seq(request.param)
    made.set_attn_implementation("eager")  # the others keep no weights
    with torch.no_grad():  # heads that look at one place more than at others
        for layer in made.model.decoder.layers:
            layer.encoder_attn.q_proj.weight.mul_(5)
    path = tmp_path_factory.mktemp(request.param) / "m.phasor"
    write_random(path, described(made), weights=weights_of(made))
    return made, path


def attentions(model, source: list[int], out: list[int]) -> np.ndarray:
    """(layers, heads, tokens of the output, of the source): where each token was chosen."""
    read = [model.config.decoder_start_token_id, *out[:-1]]
    with torch.no_grad():
        seen = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([read]),
            output_attentions=True,
        ).cross_attentions
    return np.stack([layer[0].double().numpy() for layer in seen])


def check_pairs(pairs: list[list[int]], weights: np.ndarray, source: list[int], out: list[int]):
    """Of (output, source): each token but the end, at the best place of the source, which has no
    special tokens here; another only where the weights are nearer than the tolerance."""
    special = {END, 1}
    assert pairs == sorted(pairs)
    assert sorted(t for _, t in pairs) == [t for t, token in enumerate(out) if token not in special]
    for s, t in pairs:
        assert weights[t, s] > weights[t].max() - TOLERANCE


@pytest.mark.parametrize("heads", [[], [(1, 2)], [(0, 0), (1, 1)]])
def test_weights_and_pairs_are_transformers(phasor, model, tmp_path, heads):
    model, path = model
    given = ["--align=pieces", "-n", "12", "--no-repeat-ngram", "1", "--json", "--quiet"]
    given += ["--min-new", "7"]

    def mean(want: np.ndarray) -> np.ndarray:
        return np.mean([want[h] for h in heads] if heads else want.reshape(-1, *want.shape[2:]), 0)

    if heads:
        given += ["--align-heads", ",".join(f"{layer}:{head}" for layer, head in heads)]
    seen, tokens = set(), set()
    for source in (ids + [END] for ids in some(53, 12, 8)):
        file = tmp_path / "a.npy"
        ids = ["--ids", ",".join(map(str, source))]

        def run(*flags):
            done = subprocess.run(
                [phasor, "run", path, *ids, *flags], stdout=subprocess.PIPE, check=True, timeout=60
            )
            return done.stdout

        line = json.loads(run(*given))
        want = attentions(model, source, line["ids"])
        if not heads:
            run(*given[1:], "--attention", file)
            assert np.load(file).shape == want.shape
            assert np.abs(np.load(file) - want).max() < TOLERANCE
        check_pairs(line["alignment"]["pairs"], mean(want), source, line["ids"])
        seen |= {tuple(pair) for pair in line["alignment"]["pairs"]}
        tokens |= set(line["ids"])
        beams = json.loads(run("--beam", "3", "--n-best", "3", *given))["outputs"]
        for one in beams:
            want = attentions(model, source, one["ids"])
            check_pairs(one["alignment"]["pairs"], mean(want), source, one["ids"])
    assert len({s for s, _ in seen}) > 4 and len(tokens) > 15  # not one place throughout
