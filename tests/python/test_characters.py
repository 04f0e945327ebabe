"""Tables of characters and of bytes: ids as nanoGPT's own two lines give them, the same table in
every form, and what cannot be in a line."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import test_llama2c

from phasor import convert
from phasor.errors import PhasorError
from phasor.format.file import PhasorFile
from phasor.sources.tokenizer_files import tokenizer_section
from phasor.tokenizers import characters
from places import ROOT, program
from texts import ids_text, write_json

TEXT = "\n !$&',-.3:;?ABCZabcxyz\u00e9\u732b\u2581\U0001f431\t"
CHARS = sorted(set(TEXT))
TEXTS = ["Zab ", "  a\tb?", "\u732b\u2581 \u00e9\U0001f431", "a\n\nb\n", "", "zyx" * 50]


def meta(protocol: int = 4) -> bytes:
    """As data/shakespeare_char/prepare.py of nanoGPT writes it."""
    stoi = {ch: i for i, ch in enumerate(CHARS)}
    itos = {i: ch for i, ch in enumerate(CHARS)}
    return pickle.dumps({"vocab_size": len(CHARS), "itos": itos, "stoi": stoi}, protocol)


FORMS = {
    "meta.pkl": meta(),
    "chars.txt": "".join(c + "\n" for c in CHARS).encode(),
    "vocab.txt": "".join(c + "\n" for c in CHARS).encode(),  # a space has its own line
    "chars.json": json.dumps(CHARS).encode(),
    "vocab.json": json.dumps({c: i for i, c in enumerate(CHARS)}).encode(),
}


def converted(folder: Path, tokenizer: Path | str, rows: int) -> Path:
    test_llama2c.write_small(folder / "m.bin", True, rows)
    words = [folder / "m.bin", "-o", folder / "m.phasor", "--quiet", "--tokenizer", tokenizer]
    assert convert.main([str(w) for w in words]) == 0
    return folder / "m.phasor"


def section(folder: Path, name: str, data: bytes, rows: int = len(CHARS)) -> bytes:
    (folder / name).write_bytes(data)
    return PhasorFile(converted(folder, folder / name, rows)).section(4)


def phasor(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([program(), *map(str, words)], capture_output=True, timeout=60)


def ids(model: Path, text: str) -> list[int]:
    done = phasor("tokenize", model, "--print-ids", text)
    assert done.returncode == 0, done.stderr.decode()
    return [int(word) for word in done.stdout.decode().strip().split(",") if word]


def text_of(model: Path, found: list[int]) -> bytes:
    done = phasor("tokenize", model, "--decode", "--ids", ids_text(found))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_the_same_table_in_every_form(tmp_path):
    sections = {name: section(tmp_path, name, data) for name, data in FORMS.items()}
    assert set(sections.values()) == {sections["meta.pkl"]}
    for protocol in range(6):
        assert section(tmp_path, "meta.pkl", meta(protocol)) == sections["meta.pkl"]


def test_ids_are_those_of_nanogpt(tmp_path):
    (tmp_path / "meta.pkl").write_bytes(meta())
    model = converted(tmp_path, tmp_path / "meta.pkl", len(CHARS))
    stoi = pickle.loads(meta())["stoi"]
    for text in TEXTS:
        found = ids(model, text)
        assert found[-len(text) or len(found) :] == [stoi[c] for c in text]  # encode of sample.py
        if text:
            assert text_of(model, [stoi[c] for c in text]).decode() == text + "\n"
    done = phasor("tokenize", model, "a~b")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"the word at byte 1 is not in the word list" in done.stderr


def test_names_are_ids_that_no_text_gives(tmp_path):
    table = ["<pad>", "[UNK]", "<|end|>", " ", "a", "<", "?"]
    write_json(tmp_path / "chars.json", table)
    model = converted(tmp_path, tmp_path / "chars.json", len(table))
    assert ids(model, "a<pad>")[-6:] == [4, 5, 1, 4, 1, 1]
    assert ids(model, "?b ")[-3:] == [6, 1, 3]
    assert text_of(model, [0, 4, 2, 1, 3, 4]) == b"a[UNK] a\n"


def test_bytes_with_and_without_an_offset(tmp_path):
    for name, first in (("bytes", 0), ("bytes+6", 6), ("bytes+64", 64)):
        model = converted(tmp_path, name, first + 256)
        for text in TEXTS[:3]:
            want = [first + byte for byte in text.encode()]
            found = ids(model, text)
            assert found[-len(want) :] == want
            assert text_of(model, want) == text.encode() + b"\n"
    with pytest.raises(PhasorError, match="has 262 pieces, the target embedding has 261 rows"):
        convert_error(tmp_path, "bytes+6", 261)


def convert_error(folder: Path, tokenizer: str, rows: int) -> None:
    test_llama2c.write_small(folder / "m.bin", True, rows)
    words = [folder / "m.bin", "-o", folder / "m.phasor", "--tokenizer", tokenizer]
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "convert.py", *map(str, words)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    raise PhasorError(done.stderr)


class Evil:
    def __reduce__(self):
        return (os.system, ("touch was-run",))


NAMED = "expected one character, or a name in <> or \\[\\]"
WRONG = {
    "no table": ("meta.pkl", pickle.dumps([1, 2]), "expected stoi"),
    "no stoi": ("meta.pkl", pickle.dumps({"itos": {}}), "expected stoi"),
    "code": ("meta.pkl", pickle.dumps({"stoi": Evil()}), "nothing was run"),
    "cut": ("meta.pkl", meta()[:-20], "is damaged"),
    "large": ("meta.pkl", bytes(9 << 20), "larger than|is not|longer"),
    "gap": ("meta.pkl", pickle.dumps({"stoi": {"a": 0, "b": 2}}), "stoi: the ids are not"),
    "same": ("meta.pkl", pickle.dumps({"stoi": {"a": 0, "b": 0}}), "stoi: the ids are not"),
    "truth": ("meta.pkl", pickle.dumps({"stoi": {"a": False}}), "stoi: the ids are not"),
    "huge": ("meta.pkl", pickle.dumps({"stoi": {"a": 1 << 70}}), "stoi: the ids are not"),
    "other": (
        "meta.pkl",
        pickle.dumps({"stoi": {"a": 0, "b": 1}, "itos": {0: "b", 1: "a"}}),
        "not those of stoi",
    ),
    "size": ("meta.pkl", pickle.dumps({"stoi": {"a": 0}, "vocab_size": 2}), "not those of stoi"),
    "half": ("meta.pkl", pickle.dumps({"stoi": {"\ud800": 0}}, 0), "half of a surrogate|damaged"),
    "word": ("chars.txt", b"a\nbc\n", f"entry 1: 'bc', {NAMED}"),
    "line ends of Windows": ("chars.txt", b"a\r\nb\r\n", f"entry 0: 'a.r', {NAMED}"),
    "a mark at its start": ("chars.txt", b"\xef\xbb\xbfa\n", NAMED),
    "an empty line": ("chars.txt", b"a\n\nb\n", "line 2 is empty: a line feed leaves two"),
    "an empty end": ("chars.txt", b"a\nb\n\n", "line 3 is empty: a line feed leaves two"),
    "twice": ("chars.txt", b"a\nb\na\n", "entry 2: 'a' is there before"),
    "nothing": ("chars.txt", b"", "a table of 0 characters"),
    "not UTF-8": ("chars.txt", b"a\n\xff\n", "is not UTF-8: byte 2"),
    "no name": ("chars.json", b'["a", "<b"]', NAMED),
    "an empty entry": ("chars.json", b'["a", ""]', NAMED),
    "ids": ("chars.json", b'{"a": 1}', "ids of the words are not"),
    "a page": ("chars.txt", b"<!DOCTYPE html>\n<html>\n", "is a page of HTML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_table_that_cannot_be(tmp_path, name, monkeypatch):
    file, data, says = WRONG[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_bytes(data)
    side = {"unknown": None, "pad": None, "start": None, "decoder_start": None, "mask": None}
    with pytest.raises(PhasorError, match=says) as error:
        tokenizer_section(tmp_path / file, {**side, "end": []})
    assert "\n" not in str(error.value) and str(error.value).startswith(str(tmp_path / file))
    assert not (tmp_path / "was-run").exists()


def test_a_list_of_words_stays_one(tmp_path):
    """Letters without white space among them, and words with it, are looked up between spaces."""
    for words in (["<unk>", "a", "b"], ["<unk>", "cat", " "]):
        assert not characters.is_table(tmp_path / "words.txt", words)
    assert characters.is_table(tmp_path / "words.txt", ["<unk>", "a", " "])
