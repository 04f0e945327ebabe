"""The engine's ids of a tiktoken vocabulary against the package, where it is installed: one that
the package's own trainer made, texts of every kind."""

from __future__ import annotations

import random

import pytest
from test_tokenizer import Driver, driver  # noqa: F401
from test_tokenizer_hf import golden, random_texts

from phasor.tokenizers import tiktoken as ours
from phasor.tokenizers.pre_tokenizers import (
    GPT2_REGEX,
    LLAMA3_REGEX,
    O200K_REGEX,
    TEKKEN_REGEX,
)

# The package's own spelling of r50k_base.
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
RULES = {"gpt-2": R50K, "gpt-4o": O200K_REGEX, "tekken": TEKKEN_REGEX, "llama-bpe": LLAMA3_REGEX}


def sentences() -> list[str]:
    rng = random.Random(7)
    runs = [
        "".join(rng.choice("aaaab thein\n") for _ in range(rng.randrange(90))) for _ in range(800)
    ]
    return [
        *golden.sentences()[:200],
        *runs,
        *random_texts(["a", "é", "世", "'s", "1", " ", "\n"], 1200),
    ]


@pytest.mark.parametrize("rule", RULES)
def test_the_package(driver, rule):  # noqa: F811
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken._educational import bpe_train

    texts = sentences()
    corpus = " ".join(texts[:400]) + "aaaaaaaabaaab " * 100
    ranks = bpe_train(corpus, 500, GPT2_REGEX, visualise=None)
    tokens = sorted(ranks, key=ranks.__getitem__)
    end = len(tokens)
    encoding = tiktoken.Encoding(
        "x", pat_str=RULES[rule], mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end}
    )
    section = ours._section(tokens, {"<|endoftext|>": end}, 0, rule)
    path = driver.section(section)
    found = driver.encode(path, [text.encode() for text in texts])
    for text, ids in zip(texts, found, strict=True):
        assert ids == encoding.encode(text, disallowed_special=()), text
    assert len(texts) > 2000
