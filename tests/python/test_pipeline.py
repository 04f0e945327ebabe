"""A tokenizer.json as its own parts (model 9): every normalizer, pre-tokenizer, model and decoder
of the tokenizers package, as it is stored in tests/golden/tokenizers/parts.json, through the
converter and the engine; what is refused, by name; bounds of size and time. Needs a C++ compiler
($CXX, default g++) and build/libphasor.a beside the program.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from golden_sections import golden_section
from phasor.errors import PhasorError
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.tokenizers import charsmap
from phasor.tokenizers.charsmap import build_trie
from phasor.tokenizers.json_parts import MOST_STEPS_WRITTEN, package_float
from phasor.tokenizers.models import pipeline
from phasor.tokenizers.vocabulary import special_token
from places import ROOT

PARTS = json.loads((ROOT / "tests/golden/tokenizers/parts.json").read_text())
TEXT_TOO_LONG, UNKNOWN_WORD = 1, 2
SECONDS = 60  # of processor time that a hostile part may take on a busy machine
BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}


@pytest.fixture(scope="module")
def program(tmp_path_factory, phasor) -> Path:
    compiler, library = shutil.which(os.environ.get("CXX", "g++")), phasor.parent / "libphasor.a"
    if compiler is None or not library.is_file():
        pytest.skip(f"no C++ compiler, or no {library.name} beside the program")
    out = tmp_path_factory.mktemp("pipeline") / "tokenizer_driver"
    flags = ["-std=c++17", "-O0", "-ffp-contract=off", f"-I{ROOT}/include", f"-I{ROOT}/src"]
    source = ROOT / "tests/cpp/tokenizer_driver.cpp"
    subprocess.run([compiler, *flags, source, library, "-pthread", "-o", out], check=True)
    return out


def _told(program: Path, section: bytes, what: str, data: bytes) -> bytes:
    file = program.parent / "section.bin"
    file.write_bytes(section)
    done = subprocess.run([program, file, what], input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def encoded(program: Path, section: bytes, texts: list[str]) -> list[list[int] | None]:
    """The ids of each text; None where the tokenizer has none."""
    data = [text.encode() for text in texts]
    out, at = [], 0
    said = _told(program, section, "encode", b"".join(struct.pack("<I", len(d)) + d for d in data))
    for _ in texts:
        status, count = struct.unpack_from("<II", said, at)
        assert status in (0, UNKNOWN_WORD)
        out.append(list(struct.unpack_from(f"<{count}I", said, at + 8)) if status == 0 else None)
        at += 8 + 4 * count
    assert at == len(said)
    return out


def decoded(program: Path, section: bytes, sequences: list[list[int]]) -> list[str]:
    data = b"".join(struct.pack(f"<{1 + len(ids)}I", len(ids), *ids) for ids in sequences)
    said, out, at = _told(program, section, "decode", data), [], 0
    for _ in sequences:
        (size,) = struct.unpack_from("<I", said, at)
        out.append(said[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return out


def spec(**parts: object) -> dict:
    plain = {"added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": None}
    return {**plain, "model": words(["a"]), **parts}


def words(texts: list[str]) -> dict:
    vocabulary = {text: i for i, text in enumerate(texts)}
    return {"type": "WordLevel", "unk_token": texts[0], "vocab": vocabulary}


def section_of(**parts: object) -> bytes:
    return pipeline.from_json(spec(**parts))[0]


def cut(program: Path, texts: list[str], **parts: object) -> list[str]:
    """The words that a normalizer and a pre-tokenizer leave, a | behind each: the model spells
    them."""
    model = {
        "type": "BPE", "vocab": BYTES, "merges": [], "byte_fallback": True,
        "end_of_word_suffix": "|",
    }  # fmt: skip
    section = section_of(model=model, **parts)
    return [bytes(ids).decode() for ids in encoded(program, section, texts)]


def _names(rows: list) -> list[str]:
    return [f"{i}-{(row[0] or {'type': 'none'})['type']}" for i, row in enumerate(rows)]


# ---- The package's parts


@pytest.mark.parametrize("step,results", PARTS["normalizers"], ids=_names(PARTS["normalizers"]))
def test_a_normalizer(program, step, results):
    found = cut(program, PARTS["texts"], normalizer=step)
    assert found == [f"{result}|" if result else "" for result in results]


@pytest.mark.parametrize("step,rows", PARTS["pre_tokenizers"], ids=_names(PARTS["pre_tokenizers"]))
def test_a_pre_tokenizer(program, step, rows):
    found = cut(program, PARTS["texts"], pre_tokenizer=step)
    assert found == ["".join(f"{word}|" for word in row if word) for row in rows]


@pytest.mark.parametrize("model,rows", PARTS["models"], ids=_names(PARTS["models"]))
def test_a_model(program, model, rows):
    section = section_of(model=model, pre_tokenizer={"type": "WhitespaceSplit"})
    assert encoded(program, section, PARTS["words"]) == rows


@pytest.mark.parametrize("step,texts", PARTS["decoders"], ids=_names(PARTS["decoders"]))
def test_a_decoder(program, step, texts):
    section = section_of(model=words(PARTS["tokens"]), decoder=step)
    assert decoded(program, section, PARTS["ids"]) == texts


def test_the_parts_are_all_there_are():
    """Of the package: a kind that is missing in parts.json is not compared above."""
    kinds = {
        room: {step["type"] for step, _ in PARTS[room] if step is not None}
        for room in ("normalizers", "pre_tokenizers", "models", "decoders")
    }
    assert kinds == {
        "normalizers": set(
            "NFC NFD NFKC NFKD Lowercase StripAccents Nmt ByteLevel BertNormalizer Strip Replace "
            "Prepend Precompiled Sequence".split()
        ),
        "pre_tokenizers": set(
            "Whitespace WhitespaceSplit BertPreTokenizer UnicodeScripts Punctuation Digits "
            "CharDelimiterSplit FixedLength Split Metaspace ByteLevel Sequence".split()
        ),
        "models": {"BPE", "WordPiece", "WordLevel", "Unigram"},
        "decoders": set(
            "Fuse ByteFallback ByteLevel WordPiece CTC BPEDecoder Metaspace Replace Strip "
            "Sequence".split()
        ),
    }


def test_a_text_without_ids(program):
    section = section_of(
        model={"type": "WordLevel", "unk_token": "<unk>", "vocab": {"a": 0}},
        pre_tokenizer={"type": "WhitespaceSplit"},
    )
    assert encoded(program, section, ["a", "b", "a a"]) == [[0], None, [0, 0]]


# ---- What is refused


def replace(**pattern: object) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": "b"}


def sequence(inside: str, *steps: dict) -> dict:
    return {"type": "Sequence", inside: list(steps)}


def joined(*steps: dict) -> dict:
    return sequence("decoders", {"type": "Fuse"}, *steps)


def added(content: str, id_: int, **more: bool) -> dict:
    return special_token(content, id_, **{"normalized": True, **more})


def metaspace(**more: object) -> dict:
    return {"type": "Metaspace", "replacement": "\u2581", **more}


def bpe(**more: object) -> dict:
    return {"type": "BPE", "vocab": {"a": 0}, "merges": [], **more}


CTC = {"type": "CTC", "pad_token": "_", "word_delimiter_token": "|", "cleanup": True}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FALLBACK = {"type": "ByteFallback"}
LETTERS = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
BEHIND = "behind another that joins the tokens"
LONG = "a" * 513
BYTE_TOKENS = words(["a", "<0x41>"])
PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": ""}

# part, its value and other parts, what the line says
REFUSED: dict[str, tuple[dict, str]] = {
    "normalizer": ({"normalizer": {"type": "Other"}}, "normalizer Other"),
    "normalizer_field": ({"normalizer": {"type": "NFC", "x": 1}}, "normalizer.x"),
    "bert_field": ({"normalizer": {"type": "BertNormalizer", "x": 1}}, "normalizer.x"),
    "strip_missing": ({"normalizer": {"type": "Strip"}}, "normalizer.strip_left is missing"),
    "replace_kind": ({"normalizer": replace(Char="a")}, "normalizer Replace at 'Char': 'a'"),
    "replace_two": ({"normalizer": replace(String="a", Regex="b")}, "Replace at 'String': 'a'"),
    "replace_number": ({"normalizer": replace(String=1)}, "normalizer Replace at 'String': 1"),
    "replace_none": ({"normalizer": replace()}, "normalizer Replace at '': None"),
    "replace_empty": ({"normalizer": replace(String="")}, "normalizer Replace at an empty text"),
    "replace_long": ({"normalizer": replace(String=LONG)}, "Replace at a text of 513 characters"),
    "replace_content": (
        {"normalizer": {**replace(String="a"), "content": LONG}},
        "normalizer Replace by a text of 513 characters",
    ),
    "replace_regex": ({"normalizer": replace(Regex="(a)\\1")}, "a reference back"),
    "replace_regex_long": (
        {"normalizer": replace(Regex="a" * 100_000)},
        "with a regular expression of 100000 characters",
    ),
    "prepend_long": (
        {"normalizer": {"type": "Prepend", "prepend": LONG}},
        "normalizer Prepend with a text of 513 characters",
    ),
    "charsmap": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "\u00e9"}},
        "normalizer.precompiled_charsmap: not base64",
    ),
    "steps": (
        {"normalizer": sequence("normalizers", *[{"type": "NFC"}] * (MOST_STEPS_WRITTEN + 1))},
        f"normalizer of more than {MOST_STEPS_WRITTEN} steps",
    ),
    "pre_tokenizer": ({"pre_tokenizer": {"type": "Other"}}, "pre_tokenizer Other"),
    "behavior": (
        {"pre_tokenizer": {"type": "Punctuation", "behavior": "Odd"}},
        "pre_tokenizer Punctuation with behavior 'odd'",
    ),
    "split_behavior": (
        {"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "x"}},
        "pre_tokenizer Split with behavior 'x'",
    ),
    "split_at": (
        {"pre_tokenizer": {"type": "Split", "pattern": {}, "behavior": "Removed"}},
        "pre_tokenizer Split at '': None",
    ),
    "whitespace_field": ({"pre_tokenizer": {"type": "Whitespace", "x": 1}}, "pre_tokenizer.x"),
    "delimiter": (
        {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "ab"}},
        "pre_tokenizer CharDelimiterSplit at 'ab'",
    ),
    "length_0": (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "pre_tokenizer FixedLength of 0 characters",
    ),
    "length_513": ({"pre_tokenizer": {"type": "FixedLength", "length": 513}}, "of 513 characters"),
    "metaspace_sign": (
        {"pre_tokenizer": {**metaspace(), "replacement": "__"}},
        "pre_tokenizer Metaspace with replacement '__'",
    ),
    "metaspace_scheme": (
        {"pre_tokenizer": metaspace(prepend_scheme="last")},
        "pre_tokenizer.prepend_scheme 'last'",
    ),
    "metaspace_old": (
        {"pre_tokenizer": metaspace(add_prefix_space=False, prepend_scheme="first")},
        "pre_tokenizer.add_prefix_space with prepend_scheme first",
    ),
    "growth": (
        {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 300}},
        "a normalizer and a pre_tokenizer that make",
    ),
    "changes": (
        {"normalizer": sequence("normalizers", *[{"type": "NFKD"}, {"type": "Lowercase"}] * 30)},
        "a normalizer whose steps change more than 2,000,000 characters",
    ),
    "model": ({"model": {"type": "Other"}}, "model 'Other'"),
    "model_type": ({"model": {}}, "model.type is missing"),
    "model_field": ({"model": bpe(x=1)}, "model.x"),
    "dropout": ({"model": bpe(dropout=0.5)}, "model.dropout 0.5"),
    "prefix": (
        {"model": bpe(continuing_subword_prefix="#" * 33)},
        "model.continuing_subword_prefix of 33 bytes",
    ),
    "suffix": (
        {"model": bpe(end_of_word_suffix="\u00e9" * 17)},
        "model.end_of_word_suffix of 34 bytes",
    ),
    "bpe_unknown": (
        {"model": bpe(unk_token="[UNK]")},
        "model.unk_token '[UNK]' is not in the vocabulary",
    ),
    "words_unknown": (
        {"model": {"type": "WordLevel", "unk_token": None, "vocab": {"a": 0}}},
        "model.unk_token: null, expected text",
    ),
    "unigram_empty": (
        {"model": {"type": "Unigram", "unk_id": None, "vocab": []}},
        "model.vocab: is empty",
    ),
    "unigram_unknown": (
        {"model": {"type": "Unigram", "unk_id": 1, "vocab": [["a", 0.0]]}},
        "model.unk_id: 1, there are 1 pieces",
    ),
    "unigram_twice": (
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["a", -1.0]]}},
        "model.unk_id of a piece 'a' that is there twice",
    ),
    "decoder": ({"decoder": {"type": "Other"}}, "decoder Other"),
    "decoder_pattern": ({"decoder": replace(Char="a")}, "decoder Replace at"),
    "decoder_joined": ({"decoder": joined(replace(Regex="ab|c"))}, BEHIND),
    "decoder_letters": (
        {"decoder": sequence("decoders", LETTERS, replace(Regex="[\u00e9]"))},
        BEHIND,
    ),
    "decoder_joined_long": ({"decoder": joined(replace(String="a" * 256))}, "a decoder's step of"),
    "decoder_strip": ({"decoder": {**STRIP, "content": "ab"}}, "decoder Strip of 'ab'"),
    "decoder_strip_behind": (
        {"decoder": joined({**STRIP, "content": "\u2581"})},
        "decoder Strip of '\u2581', 1 and 0, from a whole text",
    ),
    "decoder_metaspace": (
        {"decoder": metaspace(replacement="ab")},
        "decoder Metaspace with replacement 'ab'",
    ),
    "decoder_suffix": (
        {"decoder": {"type": "BPEDecoder", "suffix": ""}},
        "decoder BPEDecoder without a suffix",
    ),
    "decoder_steps": (
        {"decoder": joined(*[replace(String="a")] * 25)},
        "0 bits of state behind what joins the tokens, expected at most 24 and 64",
    ),
    "decoder_ctc_twice": (
        {"decoder": sequence("decoders", CTC, metaspace(), CTC), "model": words(["\u2581a"])},
        "decoder CTC twice behind what a text's beginning makes of a token",
    ),
    "decoder_ctc_many": (
        {"decoder": sequence("decoders", CTC, {"type": "Fuse"}, *[replace(String="a" * 200)] * 5)},
        "a decoder of 5 steps with 40 bits of state",
    ),
    "decoder_ctc_pad": ({"decoder": {**CTC, "pad_token": ""}}, "decoder CTC"),
    "decoder_ctc_delimiter": (
        {"decoder": {**CTC, "word_delimiter_token": ""}},
        "decoder CTC without a pad token or a word delimiter",
    ),
    "decoder_ctc_end": (
        {
            "decoder": sequence("decoders", {"type": "BPEDecoder", "suffix": "b"}, CTC),
            "model": words(["ab"]),
        },
        "decoder CTC behind what the end of a text makes of the token 'ab'",
    ),
    "decoder_ctc_first": (
        {
            "decoder": sequence("decoders", metaspace(), CTC, metaspace()),
            "model": words(["\u2581a", "_"]),
        },
        "decoder CTC behind what a text's beginning makes of a token, one being nothing,",
    ),
    "decoder_end_many": (
        {
            "decoder": sequence(
                "decoders",
                {"type": "BPEDecoder", "suffix": "b"},
                {"type": "Fuse"},
                *[replace(String="a" * 200)] * 5,
            ),
            "model": words(["abb"]),
        },
        "a decoder of 5 steps with 40 bits of state",
    ),
    "decoder_bytes_joined": (
        {"decoder": joined(FALLBACK, FALLBACK), "model": BYTE_TOKENS},
        f"decoder ByteFallback twice {BEHIND}",
    ),
    "decoder_bytes_then": (
        {"decoder": sequence("decoders", FALLBACK, metaspace()), "model": BYTE_TOKENS},
        "decoder Metaspace right behind ByteFallback",
    ),
    "decoder_bytes_class": (
        {
            "decoder": joined(FALLBACK, {**replace(Regex="[ae]"), "content": "e"}),
            "model": BYTE_TOKENS,
        },
        f"decoder Replace of '[ae]' {BEHIND}",
    ),
    "decoder_bytes_odd": (
        {"decoder": FALLBACK, "model": words(["a", "<0x4a>"])},
        "the token '<0x4a>', which the decoder ByteFallback reads as a byte,",
    ),
    "decoder_letters_behind": (
        {"decoder": joined(LETTERS), "model": words(["a b"])},
        f"decoder ByteLevel {BEHIND}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_name(name):
    parts, says = REFUSED[name]
    with pytest.raises(PhasorError) as error:
        section_of(**parts)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_tokens_that_decode_otherwise_at_the_end(program):
    """Held back until another one comes, or the text ends."""
    decoder = {"type": "BPEDecoder", "suffix": "b"}
    section = section_of(decoder=decoder, model=words(["abb", "c", "bcb"]))
    said = decoded(program, section, [[0], [0, 0], [1, 0, 1, 2], [2]])
    assert said == ["a", "a  a", "ca  cc", "c"]


def test_tokens_that_come_again_behind_the_beginning_of_a_text(program):
    decoder = sequence("decoders", metaspace(), {**CTC, "cleanup": False})
    section = section_of(decoder=decoder, model=words(["\u2581a", "a", "b", " a"]))
    # as the first token of all \u2581a is the text of the second one, then that of the last one
    said = decoded(program, section, [[0, 1], [0, 0], [1, 0], [2, 0, 3, 1], [0, 0, 0, 3, 2]])
    assert said == ["a", "a a", "a a", "b aa", "a ab"]


def test_what_does_the_same_to_a_run_of_bytes(program):
    """Right behind ByteFallback: a step that does nothing, or changes a character."""
    nothing = {**STRIP, "start": 0, "stop": 0}
    swapped = {**replace(String="\u00e9"), "content": "e"}
    decoder = sequence("decoders", FALLBACK, nothing, swapped, {"type": "Fuse"})
    tokens = words(["<0xC3>", "<0xA9>", "\u00e9a"])
    assert decoded(program, section_of(decoder=decoder, model=tokens), [[0, 1, 2, 2]]) == ["eeaea"]
    vowels = {**replace(Regex="[ae]"), "content": "-"}
    tokens = words(["<0x61>", "ebe", "<0x62>", "\u2581", "<0xE2>", "<0x96>", "<0x81>"])
    for steps in ([vowels, metaspace(prepend_scheme="never")], [{"type": "Fuse"}, vowels]):
        section = section_of(decoder=sequence("decoders", FALLBACK, *steps), model=tokens)
        said = decoded(program, section, [[0, 2, 1], [3, 4, 5, 6, 0]])
        space = "\u2581" if len(steps[0]) == 1 else " "
        assert said == ["-b-b-", f"{space}{space}-"]


def test_runs_of_characters_that_go(program):
    """Behind a step that joins the tokens: the same as each of them gone, token by token."""
    gone = {**replace(Regex="\\s+"), "content": ""}
    tokens = words(["a ", "\u3000\u2003b", " "])
    decoder = sequence("decoders", {"type": "Fuse"}, gone)
    assert decoded(program, section_of(decoder=decoder, model=tokens), [[0, 2, 1, 0]]) == ["aba"]
    with pytest.raises(PhasorError, match=BEHIND):
        kept = {**replace(Regex="\\s+"), "content": "-"}
        section_of(decoder=sequence("decoders", {"type": "Fuse"}, kept), model=tokens)


def test_where_inserted_text_comes_from(program):
    """From where the byte before it does: behind two characters that go it is no beginning."""
    steps = {
        "normalizer": {**replace(Regex="^\\s+|x*$"), "content": "y"},
        "pre_tokenizer": metaspace(prepend_scheme="first", replacement="_"),
    }
    texts = ["  b", " b", "b", "x", "xx"]
    # what the package's words are
    assert cut(program, texts, **steps) == ["yby|", "_yby|", "_by|", "_y|", "y|"]


def test_an_added_token_that_the_normalizer_empties(program):
    """Each character is a word of its own then."""
    steps = {"normalizer": {"type": "Nmt"}, "added_tokens": [added("\x01", 256), added("b", 257)]}
    model = {"type": "BPE", "vocab": {**BYTES, "\x01": 256, "b": 257}, "merges": [],
             "byte_fallback": True, "end_of_word_suffix": "|"}  # fmt: skip
    section = section_of(model=model, **steps)
    found = encoded(program, section, ["ac b", "\u00e9"])
    assert found == [[*b"a|c| |", 257], [*"\u00e9|".encode()]]
    # beside longer ones: the package's ids, whose automaton skips places on its way
    tokens = ["\x01", "ab", "cbc"]
    steps["added_tokens"] = [added(token, 256 + id_) for id_, token in enumerate(tokens)]
    model["vocab"] = {**BYTES, "\x01": 256}
    section = section_of(model=model, **steps)
    found = encoded(program, section, ["abcbac", "aab c", "cbx"])
    assert found == [[257, *b"cb|a|c|"], [*b"a|", 257, *b" |c|"], [*b"cb|x|"]]


def charsmap_of(rules: dict[str, str]) -> dict:
    """Precompiled with these rules."""
    texts = list(dict.fromkeys(rules.values()))
    places = {text: sum(len(t.encode()) + 1 for t in texts[:i]) for i, text in enumerate(texts)}
    trie = build_trie({key.encode(): places[to] for key, to in rules.items()})
    data = struct.pack("<I", len(trie)) + trie + b"".join(t.encode() + b"\0" for t in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


def test_maps_of_clusters_one_behind_the_other(program):
    """The same one again adds a row; another one comes with its own."""
    one = charsmap_of({"a": "bb", "e\u0301": "x"})
    other = charsmap_of({"b": "a", "x": "yz"})
    once, twice, both = (
        section_of(normalizer=sequence("normalizers", *steps))
        for steps in ([one], [one, one], [one, other, one])
    )
    assert len(twice) == len(once) + 8
    assert len(both) > len(twice) + 1024
    found = cut(program, ["ab", "e\u0301"], normalizer=sequence("normalizers", one, other, one))
    assert found == ["bbbbbb|", "yz|"]


def test_growth_is_of_what_a_text_becomes():
    """Not of each step by itself: what is decomposed is not decomposed again; and of each split
    that a prefix goes before."""
    form = {"type": "NFKD"}
    once, twice = (
        section_of(normalizer=sequence("normalizers", *steps)) for steps in ([form], [form] * 4)
    )
    assert once[88:92] == twice[88:92] == struct.pack("<I", 11)  # U+FDFA
    always = {**metaspace(), "prepend_scheme": "always"}
    letters = {"type": "FixedLength", "length": 1}
    prefixed = section_of(normalizer=form, pre_tokenizer=sequence("pretokenizers", letters, always))
    # 18 characters of 3 bytes, three of them spaces, each behind a sign of 3 bytes
    assert prefixed[88:92] == struct.pack("<I", -(-(33 + 3 * 2 + 18 * 3) // 3))


def test_a_map_with_too_many_rules(monkeypatch):
    """Keys share their ends: a small trie may have more rules than there are atoms."""
    monkeypatch.setattr(charsmap, "_MOST_RULE_BYTES", 1000)
    charsmap.map_rules.cache_clear()
    with pytest.raises(PhasorError, match="precompiled_charsmap: there are too many rules"):
        section_of(normalizer=charsmap_of({"a" * n: "b" for n in range(1, 80)}))


def test_a_map_whose_rules_are_too_many_to_be_listed():
    """Every node of a block has all nodes of the next as children: 255³ keys in few bytes. The
    reader stops at the bound, not behind the level."""
    units = np.zeros(256 * 5, dtype="<u4")
    units[0] = 256 << 10
    for at in range(256, 256 * 4):
        units[at] = at & 0xFF | (at ^ (at & ~0xFF) + 256) << 10 | 0x100
    units[256::256] = 1 << 31
    begun = time.process_time()
    with pytest.raises(PhasorError, match="precompiled_charsmap: there are too many rules"):
        charsmap.map_rules(units.tobytes(), b"a\0")
    assert time.process_time() - begun < SECONDS


def test_maps_that_make_much_of_what_others_made():
    """Refused before the texts are made that the growth is measured by."""
    many = charsmap_of({chr(0x10000 + i): "a" * 1000 for i in range(2500)})
    line = "a normalizer whose steps make more than 2,000,000 bytes of text in all"
    with pytest.raises(PhasorError, match=line):
        section_of(normalizer=sequence("normalizers", many, charsmap_of({"a": "b" * 255})))
    long = charsmap_of({"a": "b" * 256})
    with pytest.raises(PhasorError, match="the normalizer's map: a rule expands too much"):
        section_of(normalizer=sequence("normalizers", charsmap_of({"c": "a"}), long))


def test_where_a_text_begins_behind_precompiled():
    precompiled = next(step for step, _ in PARTS["normalizers"] if step["type"] == "Precompiled")
    first = metaspace(prepend_scheme="first")
    words = sequence("pretokenizers", {"type": "WhitespaceSplit"}, first)
    assert section_of(normalizer=precompiled, pre_tokenizer=words)
    both = sequence("normalizers", {"type": "NFKC"}, precompiled)
    assert section_of(normalizer=both, pre_tokenizer=first)
    line = "pre_tokenizer Metaspace, first, behind a split and steps before Precompiled"
    for several in (both, sequence("normalizers", precompiled, precompiled)):
        with pytest.raises(PhasorError, match=line):
            section_of(normalizer=several, pre_tokenizer=words)


def test_scores_are_rounded_as_the_package_rounds_them():
    """Digits that fit 64 bits, then a power of ten: two roundings."""
    found = [package_float(text) for text in ("-3.7143658881940826", "1e5", "-0.0", "0e999")]
    assert found == [-3.714365888194082, 100000.0, 0.0, 0.0]
    assert package_float("1e309") == float("inf") and package_float("1e-700") == 0.0
    assert package_float("18446744073709551616.5") == 1844674407370955161 * 10.0
    assert package_float("0." + "0" * 30 + "1") == 1e-31


def test_letters_before_maps_of_many_characters():
    """Their growth is that of the letters of bytes: other characters are not followed."""
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": True, "lowercase": True}  # fmt: skip
    steps = ({"type": "ByteLevel"}, bert, {"type": "Nmt"})
    section = section_of(normalizer=sequence("normalizers", *steps))
    # a byte that is not UTF-8: three letters of U+FFFD, the first of which is decomposed
    assert section[88:92] == struct.pack("<I", 7)
    steps = ({"type": "ByteLevel"}, {"type": "NFC"}, {"type": "StripAccents"})
    letters = {**LETTERS, "add_prefix_space": False}
    section = section_of(normalizer=sequence("normalizers", *steps), pre_tokenizer=letters)
    assert section[88:92] == struct.pack("<I", 12)  # it is composed again, and keeps its accent


def test_a_token_that_becomes_too_long():
    decoder = {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 512}
    assert section_of(model=words(["a" * 127]), decoder=decoder)
    with pytest.raises(PhasorError, match="decoder: the token with id 0 becomes too long a text"):
        section_of(model=words(["a" * 128]), decoder=decoder)


def test_every_refusal_is_here():
    """A line of the converter of pipelines that no case above names."""
    import ast

    sources = [ROOT / "tools/phasor/tokenizers/models/pipeline.py"]
    sources += sorted((ROOT / "tools/phasor/tokenizers/pipeline").glob("*.py"))
    said = " ".join(says for _, says in REFUSED.values())
    tests = Path(__file__).read_text()
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id not in ("refuse", "TokenizerError"):
                continue
            text = ast.unparse(node.args[0])
            parts = [
                part.value.strip(" ,:")
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            longest = max(parts, key=len)
            assert longest and longest in said + tests, (source, text)


# ---- Bounds


def _hostile() -> dict[str, dict]:
    every = {"type": "Replace", "pattern": {"Regex": "[^a]"}, "content": "a" * 512}
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    cuts = {"type": "Split", "pattern": {"Regex": "a*b|a"}, "behavior": "Isolated"}
    letters = {"type": "ByteLevel"}
    many = [f"{'ab' * (i % 100)}{i}" for i in range(30_000)]
    return {
        "a text for each": {"normalizer": every},
        "doubled": {"normalizer": sequence("normalizers", *[twice] * 60)},
        "letters of letters": {"normalizer": sequence("normalizers", *[letters] * 60)},
        "forms": {"normalizer": sequence("normalizers", *[{"type": "NFKD"}, {"type": "NFC"}] * 30)},
        "splits": {"pre_tokenizer": sequence("pretokenizers", *[cuts] * 60)},
        "spaces": {"pre_tokenizer": sequence("pretokenizers", *[metaspace()] * 60)},
        "decoders": {
            "decoder": sequence("decoders", *[replace(Regex="(?:ab)+|b")] * 4),
            "model": words(many[:6000]),
        },
        "tokens": {"decoder": CTC, "model": words(many)},
        "bytes": {"decoder": FALLBACK, "model": words([*many, *BYTES])},
        "a long token": {"decoder": replace(Regex="(a|b)*c"), "model": words(["ab" * 250])},
    }


@pytest.mark.parametrize("name", _hostile())
def test_hostile_parts_take_bounded_time(name):
    parts = _hostile()[name]
    began = time.process_time()
    try:
        section = section_of(**parts)
        assert len(section) < 20_000_000
    except PhasorError as error:
        assert len(str(error)) < 300 and "\n" not in str(error)
    assert time.process_time() - began < SECONDS


# ---- The door

MODELS = {
    "wordpiece": 4, "bytelevel": 5, "composed": 5, "metaspace": 6, "characters": 7, "merged": 8,
    "pipeline": 9,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_no_other_model_takes(name):
    """A file that the models for well-known tokenizers do not take is a pipeline; and the section
    that the engine's tests have is what comes of it."""
    folder = ROOT / "tests/golden/tokenizers"
    section, _ = build_hf_section(folder / f"{name}.json")
    assert struct.unpack_from("<I", section) == (MODELS[name],)
    assert section == golden_section(name)
