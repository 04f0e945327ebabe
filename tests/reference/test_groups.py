"""Diverse beam search beside transformers' BeamSearchScorer and HammingDiversityLogitsProcessor,
with the loop that its documentation gives around them: all outputs in their order and their scores,
also with the library's other processors, in the order in which generate() had them. (It has no
groups any more in the pinned version.)"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers.generation.logits_process as processors
from test_beam import NAMES, described, ours, seq2seq, some, weights_of

from random_models import write_random

beam_search = pytest.importorskip("transformers.generation.beam_search", reason="of version 4")
BeamSearchScorer = beam_search.BeamSearchScorer
Hamming = processors.HammingDiversityLogitsProcessor
SCORE, NEAR = 1e-4, 1e-5
START, PAD, END = 1, 1, 2
CASES = [
    (4, 2, 0.5, 1.0, False, 12),
    (6, 3, 1.3, 0.0, True, 14),
    (6, 2, 0.2, 0.6, "never", 10),
    (4, 4, 2.0, 1.0, True, 16),
    (8, 4, 0.7, 2.0, False, 9),
]
_REPETITION = processors.RepetitionPenaltyLogitsProcessor
_SUPPRESSED = [5, 6, 30, 31]
# Processors behind that of diversity, and the flags that ask for the same.
RULES = {
    "repetition": ([_REPETITION(1.7)], ["--repeat-penalty", 1.7]),
    "repetition below one": ([_REPETITION(0.6)], ["--repeat-penalty", 0.6]),
    "n-grams": ([processors.NoRepeatNGramLogitsProcessor(2)], ["--no-repeat-ngram", 2]),
    "repetition, no token twice": (
        [_REPETITION(1.4), processors.NoRepeatNGramLogitsProcessor(1)],
        ["--repeat-penalty", 1.4, "--no-repeat-ngram", 1],
    ),
    "renormalized": ([processors.LogitNormalization()], ["--renormalize", "yes"]),
    "all, renormalized": (
        [
            _REPETITION(1.3),
            processors.NoRepeatNGramLogitsProcessor(2),
            processors.SuppressTokensLogitsProcessor(_SUPPRESSED),
            processors.LogitNormalization(),
        ],
        ["--repeat-penalty", 1.3, "--no-repeat-ngram", 2, "--renormalize", "yes"]
        + ["--suppress", ",".join(map(str, _SUPPRESSED))],
    ),
}


@pytest.fixture(scope="module", params=["marian", "bart"])
def model(request, tmp_path_factory):
    made = seq2seq(request.param)
    with torch.no_grad():
        made.final_logits_bias[0, PAD] = -1e4  # a group that is over says pad, which would count
    path = tmp_path_factory.mktemp(request.param) / "m.phasor"
    write_random(path, described(made), weights=weights_of(made))
    return made, path


def theirs(model, source, case, rules=()):
    beams, groups, diversity, penalty, early, most = case
    each = beams // groups
    scorer = BeamSearchScorer(
        batch_size=1,
        num_beams=beams,
        device=torch.device("cpu"),
        length_penalty=penalty,
        do_early_stopping=early,
        num_beam_hyps_to_keep=beams,
        num_beam_groups=groups,
        max_length=most + 1,
    )
    hamming = Hamming(diversity, beams, groups)
    memory = model.get_encoder()(torch.tensor([source]))[0].repeat(beams, 1, 1)
    ids = torch.full((beams, 1), START)
    scores = torch.full((1, beams), -1e9)
    scores[:, ::each] = 0
    scores = scores.view(-1)
    with torch.no_grad():
        for _ in range(most):
            logits = model(encoder_outputs=(memory,), decoder_input_ids=ids).logits[:, -1]
            tokens, index = torch.zeros(beams, dtype=torch.long), torch.zeros(beams).long()
            for g in range(groups):
                own = slice(g * each, (g + 1) * each)
                p = torch.log_softmax(logits[own], -1)
                p = hamming(ids[own], p, current_tokens=tokens, beam_group_idx=g)
                for rule in rules:
                    p = rule(ids[own], p)
                sums = (p + scores[own, None]).view(1, -1)
                top, at = torch.topk(sums, 2 * each, dim=1, sorted=True)
                vocabulary = logits.shape[-1]
                made = scorer.process(
                    ids[own],
                    top,
                    at % vocabulary,
                    at // vocabulary,
                    pad_token_id=PAD,
                    eos_token_id=END,
                    group_index=g,
                    decoder_prompt_len=1,
                )
                scores[own] = made["next_beam_scores"]
                tokens[own] = made["next_beam_tokens"]
                index[own] = made["next_beam_indices"] + g * each
                # the group's sequences, before the next group looks at its own
            ids = torch.cat([ids[index], tokens[:, None]], 1)
            if scorer.is_done:
                break
    done = scorer.finalize(
        ids,
        scores,
        tokens,
        index,
        max_length=most + 1,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_prompt_len=1,
    )
    rows = []
    for row in done["sequences"].tolist():
        row = row[1:]
        cut = row.index(END) + 1 if END in row else len(row)
        rows.append(row[: min(cut, most)])
    return done["sequence_scores"].tolist(), rows


def in_order(scores: list[float], rows: list[list[int]]) -> list[list[list[int]]]:
    """The outputs, best first; those whose scores are nearer than NEAR may change places, as the
    same output of several groups does."""
    out: list[list[list[int]]] = []
    for i, row in enumerate(rows):
        if i == 0 or scores[i - 1] - scores[i] > NEAR:
            out.append([])
        out[-1].append(row)
    return [sorted(some) for some in out]


def compare(phasor, model, case, lists, rules, *flags) -> list:
    """What the program finds, which is what the library does."""
    made, path = model
    beams, groups, diversity, penalty, early, most = case
    options = dict(
        num_beams=beams, length_penalty=penalty, early_stopping=early, max_new_tokens=most
    )
    assert early in NAMES
    asked = ["--groups", groups, "--diversity", diversity, *flags]
    got = ours(phasor, path, lists, options, *asked)
    for source, (scores, rows) in zip(lists, got):
        want_scores, want = theirs(made, source, case, rules)
        assert np.abs(np.subtract(scores, want_scores)).max() < SCORE, (source, scores, want_scores)
        said = (source, list(zip(want_scores, want)), list(zip(scores, rows)))
        assert in_order(want_scores, rows) == in_order(want_scores, want), said
    return got


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_scores_are_transformers(phasor, model, case):
    lists = some(53, 24, 4)
    got = compare(phasor, model, case, lists, [])
    beams, _, _, penalty, early, most = case
    options = dict(
        num_beams=beams, length_penalty=penalty, early_stopping=early, max_new_tokens=most
    )
    assert ours(phasor, model[1], lists, options) != got


@pytest.mark.parametrize("case", [CASES[0], CASES[4]])
@pytest.mark.parametrize("rule", RULES)
def test_rules_with_groups_are_transformers(phasor, model, rule, case):
    rules, flags = RULES[rule]
    lists = some(53, 12, 5)
    got = compare(phasor, model, case, lists, rules, *flags)
    assert got != compare(phasor, model, case, lists, []), "the rule changes nothing here"
