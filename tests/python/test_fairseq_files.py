"""Dictionaries of fairseq and their codes: what cannot be in a line, and ids by hand.
tests/reference/test_fairseq.py has PhoBERT's class and subword-nmt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import test_llama2c

from conversions import refused
from phasor import convert
from phasor.errors import PhasorError
from phasor.sources.fairseq import dictionary as fairseq
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.tokenizers.section import id_count
from places import program, told

DICT = "lo 9\nhel@@ 7\no 3\nl@@ 2\n"
CODES = "l o</w> 9\nh e 7\nhe l 5\nhel lo</w> 1\n"

WRONG = {
    "no count": ("lo\n", CODES, "dict.txt: line 1: 'lo', expected a token and its count"),
    "count": ("lo x\n", CODES, "line 1: 'lo x', expected a token and its count"),
    "negative": ("lo -3\n", CODES, "line 1: 'lo -3', expected a token"),
    "overwrite": ("lo 3 #fairseq:overwrite\n", CODES, "expected a token and its count"),
    "empty line": ("lo 3\n\no 2\n", CODES, "line 2: '', expected a token"),
    "twice": ("lo 3\no 2\nlo 1\n", CODES, "line 3: 'lo' is there before"),
    "special": ("<unk> 3\n", CODES, "line 1: '<unk>' is there before"),
    "nothing": ("", CODES, "dict.txt: the dictionary: 0 lines, expected 1"),
    "long": ("x" * 513 + " 1\n", CODES, "expected a token and its count"),
    "only @@": ("@@ 1\n", CODES, "the token '@@' is there before, or has no text"),
    "no codes": (DICT, None, "'hel@@' is not a whole word: its merges are missing beside it"),
    "one part": (DICT, "lo 3\n", "bpe.codes: line 1: 'lo 3', expected two parts and a count"),
    "version": (DICT, "#version: 0.1\nl o\n", "line 1: '#version: 0.1' is not supported"),
    "counts": (DICT, "#version: 0.2\nl o 3\n", "line 2: 'l o 3', expected two parts$"),
    "end left": (DICT, "l</w> o 3\n", "expected </w> at the end of the right part only"),
    "end within": (DICT, "l o</w>o 3\n", "expected </w> at the end of the right part only"),
    "only end": (DICT, "l </w> 3\n", "expected </w> at the end of the right part only"),
    "again": (DICT, "l o 3\nl o 2\n", "line 2: 'l o 2' is there before"),
    "special made": (DICT, "<s > 3\n", "a merge makes the special token '<s>'"),
    "goes on": ("lo 3\nb@@ 2\n", "b@ @</w> 3\n", "a merge makes the word 'b@@', which is a token"),
}


def write(folder: Path, tokens: str, codes: str | None) -> Path:
    (folder / "dict.txt").write_text(tokens)
    if codes is not None:
        (folder / "bpe.codes").write_text(codes)
    return folder / "dict.txt"


@pytest.mark.parametrize("name", WRONG)
def test_files_that_cannot_be(tmp_path, name):
    tokens, codes, says = WRONG[name]
    with pytest.raises(PhasorError, match=says) as error:
        fairseq.dictionary_section(write(tmp_path, tokens, codes))
    assert "\n" not in str(error.value)


def phobert(folder: Path, **files: dict) -> Path:
    write(folder, DICT, CODES).rename(folder / "vocab.txt")
    config = {"tokenizer_config": {"tokenizer_class": "PhobertTokenizer"}, **files}
    for name, content in config.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("kind", ["PhobertTokenizer", "BertweetTokenizer"])
@pytest.mark.parametrize("says", ["tokenizer_config", "config"])
def test_a_directory_of_phobert_or_bertweet(tmp_path, kind, says):
    """Its class reads no tokenizer.json; the mask is behind the tokens."""
    files = {"tokenizer_config": {"normalization": False}, says: {"tokenizer_class": kind}}
    section, info = build_hf_section(phobert(tmp_path, tokenizer={"model": {}}, **files))
    assert id_count(section) == info["pieces"] == 9
    assert (info["prefix"], info["suffix"], info["pair"], info["mask"]) == ([0], [2], [2, 2], 8)


@pytest.mark.parametrize(
    "files, says",
    [
        (
            {"added_tokens": {"<mask>": 8, "<new>": 9}},
            "added_tokens.json: '<new>' is not supported",
        ),
        ({"added_tokens": {"<mask>": 9}}, "added_tokens.json: '<mask>' is not supported"),
        ({"special_tokens_map": {"mask_token": "[MASK]"}}, "mask_token: '\\[MASK\\]', expected"),
        (
            {
                "tokenizer_config": {
                    "tokenizer_class": "PhobertTokenizer",
                    "added_tokens_decoder": [1],
                }
            },
            "added_tokens_decoder: expected a table",
        ),
        (
            {
                "tokenizer_config": {
                    "tokenizer_class": "PhobertTokenizer",
                    "added_tokens_decoder": {"8": {"content": "<mask>", "lstrip": True}},
                }
            },
            "added_tokens_decoder: '8' is not supported",
        ),
        (
            {
                "tokenizer_config": {
                    "tokenizer_class": "BertweetTokenizer",
                    "normalization": True,
                }
            },
            "normalization, which rewrites a tweet's names, links and emoji, is not supported",
        ),
    ],
)
def test_what_phobert_would_do_otherwise_is_refused(tmp_path, files, says):
    with pytest.raises(PhasorError, match=says):
        build_hf_section(phobert(tmp_path, **files))


def test_two_files_of_codes(tmp_path):
    path = write(tmp_path, DICT, CODES)
    (tmp_path / "codes").write_text(CODES)
    with pytest.raises(PhasorError, match="has bpe.codes and codes: one goes"):
        fairseq.dictionary_section(path)


def tokenized(folder: Path, text: str) -> list[tuple[int, str]]:
    words = [folder / "m.bin", "-o", folder / "m.phasor", "--quiet"]
    words += ["--tokenizer", folder / "dict.txt"]
    assert convert.main([str(word) for word in words]) == 0
    done = told(program(), "tokenize", folder / "m.phasor", stdin=text)
    rows = (line.split("\t") for line in done.splitlines() if line)
    return [(int(row[0]), row[1]) for row in rows][1:]


def test_a_dictionary_with_codes(tmp_path):
    """hel and lo merge to hello, and h and e to he, which are no tokens; l goes on before lo."""
    test_llama2c.write_small(tmp_path / "m.bin", True, 33)
    path = write(tmp_path, DICT, CODES)
    assert id_count(fairseq.dictionary_section(path)) == 8
    found = tokenized(tmp_path, "lo hello  helo llo o\n")
    assert [id_ for id_, _ in found] == [4, 3, 3, 4, 7, 4, 6]
    (tmp_path / "bpe.codes").write_text(CODES.replace("hel lo</w> 1\n", ""))
    assert [id_ for id_, _ in tokenized(tmp_path, "hello\n")] == [5, 4]


def test_a_dictionary_of_words(tmp_path):
    test_llama2c.write_small(tmp_path / "m.bin", True, 33)
    write(tmp_path, "the 9\ncat 2\n", None)
    assert [id_ for id_, _ in tokenized(tmp_path, "the dog the cat\n")] == [4, 3, 4, 5]


def test_a_dictionary_under_another_name(tmp_path, capsys):
    """Its lines would be words with a space in them, which no text has."""
    test_llama2c.write_small(tmp_path / "m.bin", True, 33)
    write(tmp_path, DICT, CODES).rename(tmp_path / "words.txt")
    flags = ["--tokenizer", tmp_path / "words.txt"]
    line = refused(tmp_path / "m.bin", tmp_path / "m.phasor", capsys, *flags)
    assert "name fairseq's file dict.txt" in line
