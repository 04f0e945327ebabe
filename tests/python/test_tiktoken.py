"""Vocabularies of tiktoken and tekken.json: ids by the algorithm as published, and what cannot be
be in a line. tests/reference/test_tiktoken.py has the package itself."""

from __future__ import annotations

import base64
import json
import random
import re
import struct
from pathlib import Path

import pytest
import test_llama2c

import tekken_model
from conversions import refused
from phasor import convert
from phasor.errors import PhasorError
from phasor.tokenizers import tiktoken
from places import program, told

ROWS = 290


def tekken(change=None) -> bytes:
    tree = tekken_model.tree(ROWS)
    if change is not None:
        change(tree)
    return json.dumps(tree).encode()


def made(folder: Path, data: bytes) -> Path:
    test_llama2c.write_small(folder / "m.bin", True, ROWS)
    (folder / "tekken.json").write_bytes(data)
    words = [folder / "m.bin", "-o", folder / "m.phasor", "--quiet"]
    assert convert.main([str(w) for w in (*words, "--tokenizer", folder / "tekken.json")]) == 0
    return folder / "m.phasor"


def test_words_as_the_algorithm_is_published(tmp_path):
    """Of letters and spaces the rule's words are a space with letters."""
    model = made(tmp_path, tekken())
    rng = random.Random(4)
    texts = ["".join(rng.choice("aaabthein .") for _ in range(30)) for _ in range(300)]
    texts = [" ".join(text.replace(".", "").split()) for text in texts]
    command = [program(), "tokenize", model]
    done = told(*command, stdin="\n".join(texts) + "\n")
    ranks = {token: rank for rank, token in enumerate(tekken_model.tokens(ROWS - 5))}
    blocks = done.rstrip("\n").split("\n\n")
    assert sum(map(bool, texts)) > 250
    for text, block in zip(texts, blocks, strict=True):
        found = [int(line.split("\t")[0]) for line in block.split("\n")]
        words = re.findall(r" ?[a-z]+", text)
        ids = [5 + id_ for word in words for id_ in tekken_model.encode(word.encode(), ranks)]
        assert found == [1, *ids], text


def test_a_pattern_of_its_own(tmp_path):
    """What no match has is left out, as tiktoken does it."""
    regex = r"[ab]+|[t-z]{1,2}+|e(?!r)"
    model = made(tmp_path, tekken(lambda tree: tree["config"].update(pattern=regex)))
    rng = random.Random(6)
    texts = ["".join(rng.choice("aabtthee rn.") for _ in range(30)) for _ in range(100)]
    done = told(program(), "tokenize", model, stdin="\n".join(texts) + "\n")
    ranks = {token: rank for rank, token in enumerate(tekken_model.tokens(ROWS - 5))}
    for text, block in zip(texts, done.rstrip("\n").split("\n\n"), strict=True):
        found = [int(line.split("\t")[0]) for line in block.split("\n")]
        words = re.findall(r"[ab]+|[t-z]{1,2}|e(?!r)", text)
        ids = [5 + id_ for word in words for id_ in tekken_model.encode(word.encode(), ranks)]
        assert found == [1, *ids], text


def test_every_way_to_make_a_token_is_a_merge():
    ranks = {token: i for i, token in enumerate([b"a", b"b", b"ab", b"ba", b"aba"])}
    pairs = tiktoken.merges(ranks)
    assert pairs == [("a", "b"), ("b", "a"), ("a", "ba"), ("ab", "a")]


def _config(name: str, value):
    return lambda tree: tree["config"].update({name: value})


WRONG = {
    "pattern": (_config("pattern", 7), "config.pattern: 7, expected a regular expression"),
    "look-ahead": (_config("pattern", "a(?=bc)"), "config.pattern 'a.*look-ahead of anything but"),
    "size": (_config("default_vocab_size", 10**9), "expected default_num_special_tokens"),
    "special": (_config("default_num_special_tokens", -1), "expected default_num_special_tokens"),
    "few": (_config("default_vocab_size", 2000), "tokens, default_vocab_size is 2000"),
    "small": (_config("default_vocab_size", 100), "expected default_num_special_tokens"),
    "no vocab": (lambda t: t.pop("vocab"), "expected a config and a vocab"),
    "rank": (lambda t: t["vocab"][3].update(rank=9), "vocab: expected a table with the rank 3"),
    "base64": (lambda t: t["vocab"][3].update(token_bytes="é"), "vocab 3: 'é', expected base64"),
    "empty": (lambda t: t["vocab"][3].update(token_bytes=""), "vocab 3: 0 bytes"),
    "number": (lambda t: t["vocab"][3].update(token_bytes=7), "vocab 3: 7, expected base64"),
    "twice": (lambda t: t["vocab"][300 - 40].update(token_bytes="AA=="), "a token is there twice"),
    "no byte": (lambda t: t["vocab"][7].update(token_bytes="enp6"), "a byte is no token"),
    "text": (lambda t: t["special_tokens"][1].update(token_str=3), "expected a text as token_str"),
    "same": (lambda t: t["special_tokens"][1].update(token_str="<unk>"), "is there twice"),
    "many": (
        lambda t: t["special_tokens"].append({"rank": 5, "token_str": "x"}),
        "expected at most 5 texts",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_tekken_that_cannot_be(name):
    change, says = WRONG[name]
    with pytest.raises(PhasorError, match=says):
        tiktoken.from_tekken(tekken(change))


def lines(tokens: list[bytes]) -> bytes:
    rows = (f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(tokens))
    return "".join(rows).encode()


def test_a_file_of_tiktoken(tmp_path):
    good = lines(tekken_model.tokens(270))
    path = Path("r50k_base.tiktoken")
    assert tiktoken.from_tiktoken(good, path)
    for data, where, says in (
        (good, Path("mine.tiktoken"), "does not say how a text is cut"),
        (good.replace(b" 7\n", b" 8\n"), path, "line 8: expected a token and the rank 7"),
        (good[:40], path, "a byte is no token|expected a token"),
        (b"\xff\n", path, "line 1"),
        (b"", path, "line 1"),
        (lines([b"a" * 600]), path, "line 1: 600 bytes"),
        (good, Path("o200k_base.tiktoken"), "a special token has the id"),
    ):
        with pytest.raises(PhasorError, match=says):
            tiktoken.from_tiktoken(data, where)


def test_a_special_token_between_the_tokens():
    """p50k_base has one: its rank is no token's."""
    tokens = [bytes([a]) for a in range(256)]
    tokens += [bytes([a, b]) for a in range(256) for b in range(256)][:50000]
    rows = lines(tokens).splitlines(keepends=True)
    behind = base64.b64encode(b"abc") + b" 50257\n"
    section = tiktoken.from_tiktoken(b"".join(rows) + behind, Path("p50k_base.tiktoken"))
    count, table, text = (struct.unpack_from("<I", section, at)[0] for at in (8, 32, 48))
    assert count == 50258
    for id_, piece in ((50256, b"<|endoftext|>"), (50257, b"abc")):
        offset, size = struct.unpack_from("<II", section, table + 16 * id_)
        assert section[text + offset : text + offset + size] == piece
    with pytest.raises(PhasorError, match="line 50257: expected a token and the rank 50257"):
        wrong = behind.replace(b"50257", b"50258")
        tiktoken.from_tiktoken(b"".join(rows) + wrong, Path("p50k_base.tiktoken"))


def test_more_ids_than_rows(tmp_path, capsys):
    test_llama2c.write_small(tmp_path / "m.bin", True, ROWS)
    path = tmp_path / "r50k_base.tiktoken"
    path.write_bytes(lines(tekken_model.tokens(270)))
    line = refused(tmp_path / "m.bin", tmp_path / "m.phasor", capsys, "--tokenizer", path)
    assert line.startswith(f"convert: {path}: has 50257 pieces")
