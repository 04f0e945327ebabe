"""What the libraries do with pieces that nearly are those of bytes; the readers are held to it by
tests/python/test_byte_pieces.py."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest
from test_tokenizer import Driver, driver  # noqa: F401

from byte_pieces import BYTES, ODD, READ, tokenizer_json
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.sources.llama2c import tokenizer as llama2c
from phasor.tokenizers.section import BYTE, NORMAL, UNKNOWN, TokenizerError
from phasor.tokenizers.tokenizer import build_sentencepiece_section
from translators import proto

tokenizers = pytest.importorskip("tokenizers")
sentencepiece = pytest.importorskip("sentencepiece")


def test_what_the_package_reads_as_a_byte():
    fallback = tokenizers.decoders.ByteFallback()
    assert [text for text in ODD if fallback.decode([text]) != text] == list(READ)
    assert all(fallback.decode([piece]) != piece for piece in BYTES)


@pytest.mark.parametrize("text", ODD)
def test_a_tokenizer_json_is_refused_or_gives_the_packages_text(driver: Driver, tmp_path, text):
    path = tmp_path / "tokenizer.json"
    for tree in (tokenizer_json(["a", text]), tokenizer_json(["a"], [{"content": text}])):
        path.write_text(json.dumps({"version": "1.0", **tree}))
        package = tokenizers.Tokenizer.from_file(str(path))
        try:
            section = driver.section(build_hf_section(path)[0])
        except TokenizerError:
            assert text in READ
            continue
        texts = [text, f"a{text}a", f"{text}{text}", "aAa"]
        expected = [one.ids for one in package.encode_batch(texts)]
        assert driver.encode(section, [one.encode() for one in texts]) == expected
        sequences = [[package.token_to_id(text)], *expected]
        assert driver.decode(section, sequences) == [
            package.decode(ids).encode() for ids in sequences
        ]


_FUSE = {"type": "Fuse"}


def _replace(pattern: str, content: str) -> dict:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _metaspace(scheme: str) -> dict:
    return {
        "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "steps",
    [
        [_replace("[aeiou]", "")],
        [_replace("[aeiou]", "<z>")],
        [_replace("-", "--"), _replace("[a-e]", "x"), _replace("x", "_")],
        [_FUSE, _replace("[ae]", ".")],
        [_metaspace("never"), _replace("[ab]", "")],
        [_metaspace("never"), _FUSE, {"type": "Strip", "content": " ", "start": 1, "stop": 0}],
        [_FUSE, _metaspace("first")],
    ],
)
def test_decoders_behind_byte_fallback(driver: Driver, tmp_path, steps):
    tokens = ["[UNK]", "a", "e\u2581b", "\u2581", "xay", "-", "\u00e9", "o-"]
    tokens += [f"<0x{byte:02X}>" for byte in b"ae -\xe2\x96\x81\xc3\xa9"]
    model = {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(tokens)}}
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, *steps]}
    path = tmp_path / "tokenizer.json"
    tree = {"version": "1.0", "added_tokens": [], "decoder": decoder}
    path.write_text(json.dumps({**tree, "model": {**model, "unk_token": "[UNK]"}}))
    package = tokenizers.Tokenizer.from_file(str(path))
    random = np.random.default_rng(7)
    sequences = [random.integers(1, len(tokens), n % 5 + 1).tolist() for n in range(900)]
    # of a run of bytes that is not UTF-8 the package makes U+FFFD for each one
    said = [(ids, text) for ids in sequences if "\ufffd" not in (text := package.decode(ids))]
    assert len(said) > 200
    section = driver.section(build_hf_section(path)[0])
    assert driver.decode(section, [ids for ids, _ in said]) == [t.encode() for _, t in said]


@pytest.mark.parametrize("text", ODD)
def test_sentencepiece_takes_what_is_taken(driver: Driver, text):
    for kind in (NORMAL, BYTE):
        pieces = [("<unk>", 0.0, UNKNOWN), *((piece, 0.0, BYTE) for piece in BYTES)]
        model = proto([*pieces, ("a", -1.0, 1), (text, -2.0, kind)], 2) + b"\x12\x03\x98\x02\x01"
        try:
            package = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            with pytest.raises(TokenizerError):
                build_sentencepiece_section(model)
            continue
        ids = [len(BYTES) + 2]
        section = driver.section(build_sentencepiece_section(model))
        assert driver.decode(section, [ids]) == [package.decode(ids).encode()]


def test_what_run_c_prints_as_a_byte():
    """The C library's own sscanf, whose format run.c has."""
    library, byte = ctypes.CDLL(None), ctypes.c_ubyte()
    for text in (*ODD, *BYTES, "<0x41", "<0x1z", "<0x0x", "<0x \t+f", "a<0x41>", "<0x--"):
        is_byte = library.sscanf(text.encode(), b"<0x%02hhX>", ctypes.byref(byte)) == 1
        refused = llama2c._READS_AS_BYTE.match(text.encode()) is not None
        assert refused or not is_byte, text
        assert is_byte or not refused or text == "<0x0x", text
