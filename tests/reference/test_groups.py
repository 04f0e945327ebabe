"""Diverse beam search beside transformers' BeamSearchScorer and HammingDiversityLogitsProcessor,
with the loop that its documentation gives around them: all outputs and their scores. (generate()
itself has no groups any more in the pinned version.)"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers.generation.logits_process as processors
from random_models import write_random
from test_beam import NAMES, described, ours, seq2seq, some, weights_of

beam_search = pytest.importorskip("transformers.generation.beam_search", reason="of version 4")
BeamSearchScorer = beam_search.BeamSearchScorer
Hamming = processors.HammingDiversityLogitsProcessor
SCORE = 1e-4
START, PAD, END = 1, 1, 2
CASES = [
    (4, 2, 0.5, 1.0, False, 12),
    (6, 3, 1.3, 0.0, True, 14),
    (6, 2, 0.2, 0.6, "never", 10),
    (4, 4, 2.0, 1.0, True, 16),
    (8, 4, 0.7, 2.0, False, 9),
]


@pytest.fixture(scope="module", params=["marian", "bart"])
def model(request, tmp_path_factory):
    made = seq2seq(request.param)
    with torch.no_grad():
        made.final_logits_bias[0, PAD] = -1e4  # a group that is over says pad, which would count
    path = tmp_path_factory.mktemp(request.param) / "m.phasor"
    write_random(path, described(made), weights=weights_of(made))
    return made, path


def theirs(model, source, beams, groups, diversity, penalty, early, most):
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


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_scores_are_transformers(phasor, model, case):
    made, path = model
    beams, groups, diversity, penalty, early, most = case
    lists = some(53, 12, 4)
    options = dict(
        num_beams=beams, length_penalty=penalty, early_stopping=early, max_new_tokens=most
    )
    assert early in NAMES
    got = ours(phasor, path, lists, options, "--groups", groups, "--diversity", diversity)
    plain = ours(phasor, path, lists, options)
    different = 0
    for source, (scores, rows) in zip(lists, got):
        want_scores, want = theirs(made, source, beams, groups, diversity, penalty, early, most)
        assert np.abs(np.subtract(scores, want_scores)).max() < SCORE, (source, scores, want_scores)
        # outputs of equal scores, and the same one of several groups, may change places
        if sorted(map(tuple, rows)) != sorted(map(tuple, want)):
            different += 1
            print(source, list(zip(want_scores, want)), list(zip(scores, rows)))
    assert different <= 1
    assert plain != got
