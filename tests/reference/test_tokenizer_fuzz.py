"""A few tokenizers composed at random (tokenizer_fuzz.py): the package's ids and text, or refused
by a line that names a part of the composition."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizer_draws as draws
import tokenizer_fuzz
from test_tokenizer import driver  # noqa: F401
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from phasor.sources.hugging_face.added import read_table
from phasor.sources.hugging_face.tokenizer_json import build_hf_section

SEEDS = 25  # `make tokenizer-fuzz` has thousands
TEXTS = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_converted_is_equal(driver, phasor, tmp_path, seed):
    """And what `phasor tokenize --export` makes of it is the tokenizer that was converted."""
    result = tokenizer_fuzz.compare(driver, tmp_path, seed, draws.texts(seed, TEXTS), phasor)
    assert result.what in ("equal", "refused", "raised"), str(result)


# Found wrong once: inserted text before a first word (91066), offsets of characters that a map
# makes of one before Precompiled (the others).
@pytest.mark.parametrize("seed", [61203, 61248, 91066])
def test_what_was_wrong_once(driver, phasor, tmp_path, seed):
    result = tokenizer_fuzz.compare(driver, tmp_path, seed, draws.texts(seed, 30), phasor)
    assert result.what == "equal", str(result)


def _emptied(rng: random.Random) -> tuple[Tokenizer, list[str]]:
    """Added tokens of few letters beside one that the normalizer empties, and texts of the same."""
    letters = {c: id_ for id_, c in enumerate("abcx |")}
    model = models.BPE({**letters, "[U]": 6}, [], unk_token="[U]", end_of_word_suffix="|")
    tokenizer = Tokenizer(model)
    tokens = {"".join(rng.choices("abc", k=rng.randint(1, 5))) for _ in range(rng.randint(1, 6))}
    flags = ("single_word", "lstrip", "rstrip")
    tokenizer.normalizer = normalizers.Nmt()
    for token in ["\x01", *sorted(tokens)]:
        options = {flag: rng.random() < 0.2 for flag in flags}
        tokenizer.add_tokens([AddedToken(token, normalized=True, **options)])
    return tokenizer, ["".join(rng.choices("aaabbcc x", k=rng.randint(0, 24))) for _ in range(60)]


@pytest.mark.parametrize("seed", range(12))
def test_an_emptied_token_beside_others(driver, tmp_path, seed):
    """The package's automaton skips some of the places where such a token could be found."""
    tokenizer, texts = _emptied(random.Random(seed))
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    section = driver.section(build_hf_section(path)[0])
    found = driver.encode(section, [text.encode() for text in texts])
    assert found == [tokenizer.encode(text).ids for text in texts]


def test_scores_are_those_that_the_package_reads(tmp_path):
    """Whose parser rounds twice: in the last bit, which decides between equal sums."""
    rng = random.Random(3)
    scores = [repr(-rng.random() * 10 ** rng.randint(-3, 3)) for _ in range(1500)]
    for sign, ends in (("-", ("", "e5", "E-7", "e-300", "e-318", "e-400")), ("", ("", "e+20"))):
        for _ in range(700):
            parts = (rng.randint(0, 10 ** rng.randint(1, 25)) for _ in range(2))
            scores.append(sign + ".".join(map(str, parts)) + rng.choice(ends))
    vocab = ",".join(f'["{i}",{score}]' for i, score in enumerate(scores))
    path = tmp_path / "tokenizer.json"
    model = f'{{"type":"Unigram","unk_id":0,"vocab":[{vocab}]}}'
    path.write_text('{"version":"1.0","added_tokens":[],"model":' + model + "}")
    theirs = json.loads(Tokenizer.from_file(str(path)).to_str())["model"]["vocab"]
    ours = read_table(path)["model"]["vocab"]
    assert ours == theirs and ours != json.loads(path.read_text())["model"]["vocab"]


def _of_parts(path: Path, **parts: Any) -> Tokenizer:
    spec = {"version": "1.0", "added_tokens": [], **parts}
    path.write_text(json.dumps(spec))
    return Tokenizer.from_file(str(path))


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_where_marks_that_change_places_come_from(driver, tmp_path, form):
    """Metaspace's first sign goes before each split that comes from the first character."""
    first = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": False}
    splits = [{"type": "FixedLength", "length": 1}, first]
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
    tokenizer = _of_parts(
        tmp_path / "tokenizer.json",
        normalizer={"type": form},
        pre_tokenizer={"type": "Sequence", "pretokenizers": splits},
        model={"type": "BPE", "byte_fallback": True, "vocab": vocab, "merges": []},
    )
    section = driver.section(build_hf_section(tmp_path / "tokenizer.json")[0])
    marks = "\u1e9b\u0323\u0307\u0344\u0315\u0327a\u0227\u1ea1\u1ecd\u0328\u0345"
    marks += "\u1fbe\uac01\u11a8"
    rng = random.Random(4)
    texts = ["".join(rng.choices(marks, k=rng.randint(1, 5))) for _ in range(1500)]
    found = driver.encode(section, [text.encode() for text in texts])
    assert found == [tokenizer.encode(text).ids for text in texts]


def test_a_suffix_behind_a_prefix_that_is_all_of_a_token(driver, tmp_path):
    steps = [
        {"type": "WordPiece", "prefix": "##", "cleanup": False},
        {"type": "BPEDecoder", "suffix": "_"},
    ]
    words = ["[UNK]", "a", "##_", "_", "b_", "##c", "c##", "##d_", "##", "x_y", "##e", "##f"]
    vocab = {word: id_ for id_, word in enumerate(words)}
    tokenizer = _of_parts(
        tmp_path / "tokenizer.json",
        decoder={"type": "Sequence", "decoders": steps},
        model={"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocab},
    )
    section = driver.section(build_hf_section(tmp_path / "tokenizer.json")[0])
    ids = range(1, len(words))
    sequences = [list(s) for n in (1, 2, 3) for s in itertools.product(ids, repeat=n)]
    found = driver.decode(section, sequences)
    assert found == [tokenizer.decode(s).encode() for s in sequences]


def _plain() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[UNK]", "[PAD]"], show_progress=False
    )
    tokenizer.train_from_iterator(draws.corpus(), trainer)
    return tokenizer


def _swapped(spec: dict) -> None:
    vocabulary = spec["model"]["vocab"]
    vocabulary["a"], vocabulary["e"] = vocabulary["e"], vocabulary["a"]


def _cased(spec: dict) -> None:
    spec["normalizer"]["lowercase"] = False


def _tidied(spec: dict) -> None:
    spec["decoder"]["cleanup"] = not spec["decoder"]["cleanup"]


def _shortened(spec: dict) -> None:
    spec["truncation"] = dict(max_length=9, strategy="LongestFirst", stride=0, direction="Right")


CHANGES = {
    None: "",
    _swapped: "ids",
    _cased: "ids",
    _tidied: "text",
    _shortened: "truncation",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_part_is_found(driver, tmp_path, change):
    """A harness that compares nothing would find nothing."""
    oracle, path = _plain(), tmp_path / "tokenizer.json"
    spec = json.loads(oracle.to_str())
    if change:
        change(spec)
    path.write_text(json.dumps(spec))
    result = tokenizer_fuzz.checked(driver, path, 1, draws.texts(1, TEXTS), oracle)
    assert (result.what, result.line[: len(CHANGES[change])]) == (
        "wrong" if change else "equal",
        CHANGES[change],
    ), str(result)


def test_the_line_of_a_refusal_names_a_part():
    spec = json.loads(_plain().to_str())
    assert tokenizer_fuzz.refused_part(spec, "t.json: pre_tokenizer BertPreTokenizer") == (
        "pre_tokenizer BertPreTokenizer"
    )
    assert tokenizer_fuzz.refused_part(spec, "t.json: the field clean_text of BertNormalizer") == (
        "normalizer BertNormalizer clean_text"
    )
    assert tokenizer_fuzz.refused_part(spec, "t.json: normalizer NFKC") == "normalizer"
    assert tokenizer_fuzz.refused_part(spec, "t.json: something else") == ""
