"""Pieces that nearly are those of bytes: each reader takes them as the library does whose format it
reads, or refuses them by name. tests/reference/test_byte_pieces.py asks the libraries."""

from __future__ import annotations

import json
import struct

import pytest

from byte_pieces import BYTES, ODD, READ, TEXT, tokenizer_json
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.sources.llama2c.tokenizer import build_llama2c_section
from phasor.tokenizers.pieces import build_sentencepiece_like
from phasor.tokenizers.section import BYTE, CONTROL, NORMAL, UNKNOWN, TokenizerError
from phasor.tokenizers.sentencepiece import proto_section, read_model_proto
from phasor.tokenizers.tokenizer import build_sentencepiece_section
from translators import proto


def types_of(section: bytes) -> dict[str, int]:
    """The types of a section's pieces by their texts."""
    table, _, text = struct.unpack_from("<3Q", section, 32)
    (count,) = struct.unpack_from("<I", section, 8)
    rows = (struct.unpack_from("<4I", section, table + 16 * i) for i in range(count))
    return {section[text + at : text + at + size].decode(): kind for at, size, _, kind in rows}


def of_json(tmp_path, *arguments) -> dict[str, int]:
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(*arguments)))
    return types_of(build_hf_section(tmp_path)[0])


# ---- tokenizer.json


@pytest.mark.parametrize("text", TEXT)
def test_a_piece_that_the_package_takes_for_text(tmp_path, text):
    types = of_json(tmp_path, [text])
    assert types[text] == NORMAL and all(types[piece] == BYTE for piece in BYTES)


@pytest.mark.parametrize("text", READ)
@pytest.mark.parametrize("added", [False, True])
def test_a_piece_that_the_package_reads_as_a_byte(tmp_path, text, added):
    """The section could only have it as text, and its text would be another one."""
    with pytest.raises(TokenizerError) as caught:
        of_json(tmp_path, *([[], [{"content": text}]] if added else [[text]]))
    assert str(caught.value).endswith(
        f"the token {text!r}, which the decoder ByteFallback reads as a byte, is not supported"
    )


def test_a_special_token_adds_nothing_whatever_it_is_called(tmp_path):
    types = of_json(tmp_path, [], [{"content": "<0xff>", "special": True}])
    assert types["<0xff>"] == CONTROL


def test_a_byte_that_is_an_added_token_too(tmp_path):
    assert of_json(tmp_path, [], [{"content": "<0x41>"}])["<0x41>"] == BYTE


def test_the_byte_of_a_character_that_has_a_piece(tmp_path):
    """Gemma's tab has no piece <0x09>: a token of that name is a byte to the decoder, and only a
    pipeline (9) can say so."""
    for added, model in (([], 7), ([{"content": "<0x09>"}], 9)):
        tree = tokenizer_json(["\t"])
        vocabulary = tree["model"]["vocab"]
        vocabulary["\t"] = vocabulary.pop("<0x09>")
        tree["added_tokens"] = [{"id": len(vocabulary), **token} for token in added]
        (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
        assert build_hf_section(tmp_path)[0][0] == model


# ---- GGUF


def of_gguf(*more: tuple[str, int], bytes_: list[str] = BYTES) -> dict[str, int]:
    pieces = [("<unk>", UNKNOWN), *((piece, BYTE) for piece in bytes_), *more]
    texts, types = zip(*pieces)
    return types_of(build_sentencepiece_like(list(texts), [0.0] * len(texts), list(types)))


@pytest.mark.parametrize("text", ODD)
def test_a_byte_of_a_gguf_file_is_one(text):
    """llama.cpp would take strtol of two characters: 0 of <0xG0>, 16 of <0x100>, 255 of <0x-1>."""
    with pytest.raises(TokenizerError, match=r"has type 6; type 6 has <0x00> to <0xFF>"):
        of_gguf((text, BYTE))


@pytest.mark.parametrize("kind", [NORMAL, CONTROL])
@pytest.mark.parametrize("others", [0, 255])
def test_a_byte_s_text_with_another_type(kind, others):
    """llama.cpp finds it by its text and prints it by its type."""
    with pytest.raises(TokenizerError, match=rf"'<0xFF>'.* has type {kind}; type 6 has"):
        of_gguf(("a", NORMAL), ("<0xFF>", kind), bytes_=BYTES[:others])


def test_text_of_a_gguf_file():
    assert all(of_gguf(*((text, NORMAL) for text in TEXT))[text] == NORMAL for text in TEXT)


def test_a_byte_that_is_there_twice():
    with pytest.raises(TokenizerError, match=r"'<0x41>'.* is already defined as piece 66"):
        of_gguf(("<0x41>", BYTE))


# ---- SentencePiece


def model(*more: tuple[str, int], bytes_: list[str] = BYTES) -> bytes:
    pieces = [("<unk>", 0.0, UNKNOWN), *((piece, 0.0, BYTE) for piece in bytes_), ("a", -1.0, 1)]
    fallback = b"\x12\x03\x98\x02\x01"  # trainer_spec.byte_fallback
    return proto([*pieces, *((text, -2.0, kind) for text, kind in more)], 2) + fallback


@pytest.mark.parametrize("text", ODD)
def test_a_piece_of_sentencepiece(text):
    """The package knows exactly 256 texts of bytes; what is no byte by its type is text."""
    with pytest.raises(TokenizerError, match="is not a byte piece"):
        build_sentencepiece_section(model((text, BYTE)))
    assert types_of(build_sentencepiece_section(model((text, NORMAL))))[text] == NORMAL


@pytest.mark.parametrize("kind", [BYTE, NORMAL])
def test_a_byte_of_sentencepiece_that_is_there_twice(kind):
    with pytest.raises(TokenizerError, match="'<0x41>'.* is already defined as piece 66"):
        build_sentencepiece_section(model(("<0x41>", kind)))


def test_a_byte_of_sentencepiece_that_is_lacking():
    with pytest.raises(TokenizerError, match="there are 255 of 256 byte pieces"):
        proto_section(2, read_model_proto(model(bytes_=BYTES[1:])))


# ---- llama2.c


def of_llama2c(*more: bytes) -> bytes:
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(text.encode() for text in BYTES), *more]
    rows = (struct.pack("<fi", 0.0, len(text)) + text for text in pieces)
    return build_llama2c_section(struct.pack("<I", 9) + b"".join(rows))


@pytest.mark.parametrize(
    "text", [*READ, "<0x-1>", "<0x100>", "<0xFFF>", "<0x 1>", "<0x4>", "<0x41", " <0xff>", "<0x1z"]
)
def test_a_piece_that_run_c_prints_as_a_byte(text):
    """Its sscanf("<0x%02hhX>") looks at no more than the digits."""
    with pytest.raises(TokenizerError, match="which run.c prints as a byte"):
        of_llama2c(b"a", text.encode())


def test_a_piece_that_run_c_prints_as_text():
    texts = ["<0xG0>", "<0x>", "<0X41>", "0x41>", "<0x++>", "  <0x41>"]
    types = types_of(of_llama2c(*(text.encode() for text in texts)))
    assert all(types[text.replace(" ", "\u2581")] == NORMAL for text in texts)
