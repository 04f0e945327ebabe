"""Choices beside transformers: the processors that its own generate() would build, in its order,
for every option and for many together.

The kept set is the same and probabilities agree within 1e-6; drawn tokens have these frequencies
(chi-square, fixed seeds). Greedy outputs with penalties and bans are those of its generate(), and
perplexity is that of its loop.
"""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from transformers import (
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
)

from conversions import convert_to
from places import ROOT, told
from random_models import lm, write_random
from texts import ids_text

V, PROMPT = 1000, 30
END = [2, 17]

OPTIONS = {
    "temperature": [dict(temperature=0.7), dict(temperature=1.7)],
    "top_k": [dict(top_k=5), dict(top_k=200)],
    "top_p": [dict(top_p=0.5), dict(top_p=0.95), dict(top_p=0.001)],
    "min_p": [dict(min_p=0.05), dict(min_p=0.9)],
    "typical_p": [dict(typical_p=0.3), dict(typical_p=0.95), dict(typical_p=0.001)],
    "repetition_penalty": [dict(repetition_penalty=1.3), dict(repetition_penalty=0.8)],
    "no_repeat_ngram": [dict(no_repeat_ngram=n) for n in (1, 2, 3, 40)],
    "min_new": [dict(min_new=5), dict(min_new=50)],
    "suppressed": [dict(suppressed=[3, 5, 7, 900])],
    "together": [
        dict(temperature=0.8, top_k=40, top_p=0.9),
        dict(temperature=1.4, top_p=0.9, min_p=0.02, typical_p=0.9),
        dict(
            temperature=0.6,
            top_k=300,
            top_p=0.99,
            min_p=0.001,
            typical_p=0.7,
            repetition_penalty=1.2,
            no_repeat_ngram=2,
            min_new=20,
            suppressed=[1, 100],
        ),
        dict(repetition_penalty=1.5, top_k=3, no_repeat_ngram=1),
    ],
}
NAMES = {
    "no_repeat_ngram": "no_repeat_ngram_size",
    "min_new": "min_new_tokens",
    "suppressed": "suppress_tokens",
}
OFF = dict(
    temperature=1.0,
    top_k=0,
    top_p=0.0,
    min_p=0.0,
    typical_p=0.0,
    repetition_penalty=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    no_repeat_ngram=0,
    min_new=0,
)


@pytest.fixture(scope="module")
def choose(phasor, tmp_path_factory):
    """choose(cases): [(probabilities, drawn ids)] of (options, ids, new, logits, draws, seed)."""
    folder = tmp_path_factory.mktemp("sampling")
    library = phasor.parent / "libphasor.a"
    if not library.is_file():
        pytest.skip(f"no {library}: run make")
    descriptor = lm()
    descriptor["target"] |= {"vocabulary": V, "end": END}
    write_random(folder / "m.phasor", descriptor)
    told(
        os.environ.get("CXX", "g++"),
        "-std=c++17",
        "-O1",
        f"-I{ROOT / 'include'}",
        ROOT / "tests" / "cpp" / "sampling_driver.cpp",
        library,
        "-o",
        folder / "driver",
    )

    def run(cases):
        lines = []
        for options, ids, new, logits, draws, seed in cases:
            o = OFF | options
            row = [
                *(f"{np.float32(o[k]):.9g}" if isinstance(o[k], float) else o[k] for k in OFF),
                new,
                draws,
                seed,
            ]
            for some in ([], o.get("suppressed", []), ids):
                row += [len(some), *some]
            lines.append(
                " ".join(map(str, row)) + " " + " ".join(f"{b:08x}" for b in logits.view(np.uint32))
            )
        done = told(folder / "driver", folder / "m.phasor", stdin="\n".join(lines), timeout=300)
        out = done.splitlines()
        assert len(out) == 2 * len(cases)
        return [
            (
                np.array([int(w, 16) for w in out[2 * i].split()], np.uint32).view(np.float32),
                [int(w) for w in out[2 * i + 1].split()],
            )
            for i in range(len(cases))
        ]

    return run


@pytest.fixture(scope="module")
def processors():
    """transformers' own list for a configuration, in its own order."""
    model = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=8, n_layer=1, n_head=1))

    def make(options):
        config = GenerationConfig(
            do_sample=True,
            eos_token_id=END,
            pad_token_id=0,
            **({"top_k": 0} | {NAMES.get(k, k): v for k, v in options.items()}),
        )
        model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device="cpu")
        return model._get_logits_processor(
            config,
            input_ids_seq_length=PROMPT,
            encoder_input_ids=None,
            prefix_allowed_tokens_fn=None,
            logits_processor=LogitsProcessorList(),
            device="cpu",
        )

    return make


def a_case(seed: int):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, V if seed % 2 else 40, PROMPT + 10).tolist()
    return ids, (rng.normal(size=V) * rng.uniform(0.5, 4)).astype(np.float32)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_distribution_is_that_of_transformers(choose, processors, name):
    cases, wanted = [], []
    for options in OPTIONS[name]:
        chain = processors(options)
        assert len(chain) == len(options), (options, chain)
        for seed in range(25):
            ids, logits = a_case(seed)
            cases.append((options, ids, 10, logits, 1, seed))
            scores = chain(torch.tensor([ids]), torch.tensor(logits, dtype=torch.float64)[None])
            wanted.append(torch.softmax(scores, -1)[0].numpy())
    for (p, drawn), want, case in zip(choose(cases), wanted, cases):
        other = ((p > 0) & (want == 0)) | (
            (p == 0) & (want > 1e-11)
        )  # a weight is a whole number of 2^-39
        assert not other.any(), (case[0], case[5], np.flatnonzero(other), want[other])
        assert np.abs(p - want).max() <= 1e-6, case[0]
        assert p[drawn[0]] > 0


def test_presence_and_frequency_are_openais(choose):
    """mu[j] − c[j]·frequency − (c[j] > 0)·presence over the tokens made so far."""
    cases, wanted = [], []
    for presence, frequency in ((0.5, 0.0), (0.0, 0.4), (-1.0, 0.3), (1.5, -0.2)):
        for seed in range(0, 20, 2):
            ids, logits = a_case(seed)
            cases.append(
                (
                    dict(presence_penalty=presence, frequency_penalty=frequency),
                    ids,
                    10,
                    logits,
                    1,
                    seed,
                )
            )
            counts = np.bincount(ids[-10:], minlength=V)
            scores = torch.tensor(
                logits.astype(np.float64) - counts * frequency - (counts > 0) * presence
            )
            wanted.append(torch.softmax(scores, -1).numpy())
    for (p, _), want in zip(choose(cases), wanted):
        assert np.abs(p - want).max() <= 1e-6


@pytest.mark.parametrize(
    "options", [dict(top_k=20), dict(temperature=0.8, top_p=0.8), dict(typical_p=0.5)]
)
def test_drawn_frequencies(choose, options):
    """Chi-square of 50,000 draws, tokens that are expected less than ten times taken together;
    within four standard deviations of its mean."""
    ids, logits = a_case(3)
    draws = 50000
    # The driver seeds once a case, so that one case is one stream.
    ((p, drawn),) = choose([(options, ids, 10, logits, draws, 99)])
    want, got = p.astype(np.float64) * draws, np.bincount(drawn, minlength=V)
    often = want >= 10
    want = np.append(want[often], want[~often].sum())
    got = np.append(got[often], got[~often].sum())
    if want[-1] == 0:
        assert got[-1] == 0
        want, got = want[:-1], got[:-1]
    degrees = len(want) - 1
    chi = ((got - want) ** 2 / want).sum()
    assert abs(chi - degrees) < 4 * np.sqrt(2 * degrees), (chi, degrees)


# ---- Whole outputs


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A small random Llama and its converted file."""
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(5)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=150,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    )
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(
                    torch.randn_like(p)
                    * (1.0 if p is model.model.embed_tokens.weight else p.shape[-1] ** -0.5)
                )
    model.eval().save_pretrained(folder / "source")
    convert_to(folder / "source", folder / "m.phasor")
    return model, folder / "m.phasor"


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(repetition_penalty=1.2),
        dict(repetition_penalty=0.9, no_repeat_ngram_size=3),
        dict(no_repeat_ngram_size=2),
        dict(no_repeat_ngram_size=1),
        dict(suppress_tokens=list(range(40, 90))),
        dict(min_new_tokens=30, eos_token_id=[2, 77, 31, 90, 101, 140, 12, 55]),
        dict(eos_token_id=[2, 77, 31, 90, 101, 140, 12, 55]),
        dict(
            repetition_penalty=1.3,
            no_repeat_ngram_size=2,
            min_new_tokens=10,
            suppress_tokens=[3, 4],
        ),
    ],
)
def test_greedy_outputs_are_transformers(phasor, llama, options):
    """Token for token its generate() with the same processors, plain and with lookahead."""
    model, path = llama
    flags = []
    for name, flag in (
        ("repetition_penalty", "--repeat-penalty"),
        ("no_repeat_ngram_size", "--no-repeat-ngram"),
        ("min_new_tokens", "--min-new"),
    ):
        flags += [flag, str(options[name])] if name in options else []
    for name, flag in (("suppress_tokens", "--suppress"), ("eos_token_id", "--end")):
        flags += [flag, ",".join(map(str, options[name]))] if name in options else []
    for seed in range(6):
        ids = np.random.default_rng(seed).integers(3, 150, 3 + 2 * seed)
        batch = torch.tensor(ids)[None]
        config = GenerationConfig(
            do_sample=False, max_new_tokens=40, pad_token_id=0, **({"eos_token_id": 2} | options)
        )
        want = model.generate(
            batch, attention_mask=torch.ones_like(batch), generation_config=config
        )[0, len(ids) :].tolist()
        for more in ([], ["--lookahead"]):
            done = subprocess.run(
                [
                    phasor,
                    "run",
                    path,
                    "--ids",
                    ids_text(ids),
                    "-n",
                    "40",
                    "--print-ids",
                    "--quiet",
                    *flags,
                    *more,
                ],
                stdout=subprocess.PIPE,
                check=True,
                timeout=60,
            )
            assert [int(i) for i in done.stdout.split(b",")] == want, (seed, more)


def test_perplexity_is_that_of_the_usual_loop(phasor, llama):
    """transformers' page on perplexity: a stride, labels of −100 for what was scored before, the
    model's own loss."""
    model, path = llama
    ids = torch.tensor(np.random.default_rng(1).integers(3, 150, 300))[None]
    for window, stride in ((64, 32), (100, 7), (256, 200)):
        nll, count, previous = 0.0, 0, 0
        for begin in range(0, ids.shape[1], stride):
            end = min(begin + window, ids.shape[1])
            part, labels = ids[:, begin:end], ids[:, begin:end].clone()
            labels[:, : -(end - previous)] = -100
            with torch.no_grad():
                loss = model(part, labels=labels).loss
            scored = int((labels[:, 1:] != -100).sum())
            nll += float(loss) * scored
            count += scored
            previous = end
            if end == ids.shape[1]:
                break
        done = subprocess.run(
            [
                phasor,
                "score",
                path,
                "--ids",
                ids_text(ids[0].tolist()),
                "--context",
                str(window),
                "--stride",
                str(stride),
                "--json",
                "--quiet",
            ],
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        got = json.loads(done.stdout)
        assert got["tokens"] == count and got["nll"] == pytest.approx(nll, rel=1e-5)
        assert got["perplexity"] == pytest.approx(np.exp(nll / count), rel=1e-5)
