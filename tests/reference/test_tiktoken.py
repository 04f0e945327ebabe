"""The engine's ids of a tiktoken vocabulary against the package, where it is installed: one that
the package's own trainer made, texts of every kind."""

from __future__ import annotations

import os
import random

import pytest
from test_tokenizer import Driver, driver  # noqa: F401
from test_tokenizer_hf import UNICODE, golden, random_texts

from phasor.tokenizers import tiktoken as ours
from phasor.tokenizers.pre_tokenizers import (
    GPT2_REGEX,
    LLAMA3_REGEX,
    O200K_REGEX,
    TEKKEN_REGEX,
)

# The package's own spelling of r50k_base.
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
# And of cl100k_base.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
RULES = {
    "gpt-2": R50K,
    "gpt-4o": O200K_REGEX,
    "tekken": TEKKEN_REGEX,
    "llama-bpe": LLAMA3_REGEX,
    "cl100k_base": CL100K,
}


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


def trained(tiktoken, rule: str, texts: list[str]):
    """The package's encoding of a vocabulary trained here, and its tokens by rank."""
    from tiktoken._educational import bpe_train

    corpus = " ".join(texts[:400]) + "aaaaaaaabaaab " * 100
    ranks = bpe_train(corpus, 500, GPT2_REGEX, visualise=None)
    tokens = sorted(ranks, key=ranks.__getitem__)
    end = {"<|endoftext|>": len(tokens)}
    encoding = tiktoken.Encoding(
        "x", pat_str=RULES[rule], mergeable_ranks=ranks, special_tokens=end
    )
    return encoding, tokens, end


@pytest.mark.parametrize("rule", RULES)
def test_the_package(driver, rule):  # noqa: F811
    tiktoken = pytest.importorskip("tiktoken")
    texts = sentences()
    encoding, tokens, end = trained(tiktoken, rule, texts)
    path = driver.section(ours._section(tokens, end, 0, rule))
    found = driver.encode(path, [text.encode() for text in texts])
    for text, ids in zip(texts, found, strict=True):
        assert ids == encoding.encode(text, disallowed_special=()), text
    assert len(texts) > 2000


@pytest.mark.parametrize("name", ours.ENCODINGS)
def test_special_tokens_are_the_packages(name, monkeypatch):
    """Its tables without the vocabularies, which it would download."""
    public = pytest.importorskip("tiktoken_ext.openai_public")
    monkeypatch.setattr(public, "load_tiktoken_bpe", lambda *_, **__: {})
    theirs = public.ENCODING_CONSTRUCTORS[name]()
    assert ours.ENCODINGS[name].special == theirs["special_tokens"]


def pairs_of_bytes() -> dict[bytes, int]:
    """A vocabulary in which every two bytes of one word would merge, so that each boundary
    shows."""
    every = [bytes([byte]) for byte in range(256)]
    return {token: i for i, token in enumerate([*every, *(a + b for a in every for b in every)])}


@pytest.mark.parametrize("rule", RULES)
def test_every_code_point(driver, rule):  # noqa: F811
    """Beside letters, digits, signs, white space and line ends, also at a text's end."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = pairs_of_bytes()
    encoding = tiktoken.Encoding("x", pat_str=RULES[rule], mergeable_ranks=ranks, special_tokens={})
    path = driver.section(ours._section(list(ranks), {}, 0, rule))
    rng = random.Random(8)
    some = UNICODE if "PHASOR_TOKENIZER_FULL" in os.environ else UNICODE[::11]
    forms = ("a{0}A1 {0}\n{0}", " {0}{0}.{0}'S{0}  ")
    texts = [form.format(c) for form in forms for c in dict.fromkeys([*UNICODE[:0x3000], *some])]
    ends = [*" \t\n\r\u2003\x85", "  ", "\n\n", "\r\n", "a", "1", ".", "'LL", "'\u017f"]
    texts += ["".join(rng.choices(ends, k=rng.randrange(1, 9))) for _ in range(20000)]
    found = driver.encode(path, [text.encode() for text in texts])
    wrong = [
        text
        for text, ids in zip(texts, found, strict=True)
        if ids != encoding.encode(text, disallowed_special=())
    ]
    assert not wrong, (len(wrong), [text.encode("unicode_escape") for text in wrong[:40]])
