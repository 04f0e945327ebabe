"""llama2.c's own tokenizer (karpathy/llama2.c, `tokenizer.py`), `tokenizer.bin`.

A uint32, the longest piece's bytes; then for each piece an f32 score, an int32 length and its text,
with a space where SentencePiece has ▁. What the pieces are is in their places: the unknown one,
<s> and </s> with line ends around them, 256 bytes, and BPE's pieces.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from phasor.tokenizers.section import BYTE, CONTROL, NORMAL, UNKNOWN, TokenizerError
from phasor.tokenizers.tokenizer import build_proto_section

_PIECE = struct.Struct("<fi")
_CONTROLS = {b"\n<s>\n": b"<s>", b"\n</s>\n": b"</s>"}
_FIRST = (b"<unk>", *_CONTROLS, *(b"<0x%02X>" % value for value in range(256)))
# What run.c's sscanf("<0x%02hhX>") takes for a byte, behind <s> without the piece's first space.
_READS_AS_BYTE = re.compile(rb" ?<0x\s*[+-]?[0-9A-Fa-f]")
_BPE = 2  # trainer_spec.model_type
_SPACE = "\u2581".encode()


def read_tokenizer_bin(data: bytes) -> dict[str, Any]:
    """The ModelProto that the file was exported from, as sentencepiece.read_model_proto has it:
    BPE with bytes, and a space before a text. TokenizerError for a file that is none."""
    if len(data) < 4:
        raise TokenizerError("llama2.c's tokenizer: the header is cut off")
    (longest,) = struct.unpack_from("<I", data)
    pieces: list[Any] = []
    at = 4
    while at < len(data):
        label = f"llama2.c's tokenizer: piece {len(pieces)}"
        if len(data) - at < _PIECE.size:
            raise TokenizerError(f"{label} is cut off")
        score, length = _PIECE.unpack_from(data, at)
        at += _PIECE.size
        if not 0 < length <= min(longest, len(data) - at):
            raise TokenizerError(
                f"{label} has {length} bytes; the header says at most {longest}, and"
                f" {len(data) - at} are left"
            )
        pieces.append(_piece(len(pieces), data[at : at + length], score))
        at += length
    if len(pieces) < len(_FIRST):
        raise TokenizerError(
            f"llama2.c's tokenizer: {len(pieces)} pieces, expected at least {len(_FIRST)}"
        )
    return {
        "pieces": pieces,
        "model_type": _BPE,
        "byte_fallback": True,
        "suffix": False,
        "unknown_surface": " \u2047 ".encode(),
        "charsmap": b"",
        "dummy_prefix": True,
        "remove_extra": False,
        "escape": True,
    }


def _piece(id_: int, text: bytes, score: float) -> tuple[bytes, float, int]:
    if id_ >= len(_FIRST):
        if _READS_AS_BYTE.match(text):
            raise TokenizerError(
                f"llama2.c's tokenizer: piece {id_} is {text[:40]!r}, which run.c prints as a byte"
            )
        return text.replace(b" ", _SPACE), score, NORMAL
    if text != _FIRST[id_]:
        raise TokenizerError(
            f"not llama2.c's tokenizer: piece {id_} is {text[:40]!r}, expected {_FIRST[id_]!r}"
        )
    return _CONTROLS.get(text, text), score, (UNKNOWN, CONTROL, CONTROL)[id_] if id_ < 3 else BYTE


def build_llama2c_section(data: bytes) -> bytes:
    """Builds the section for llama2.c's tokenizer.bin: that of the .model that it was exported
    from. TokenizerError for damage, and for another file."""
    return build_proto_section(read_tokenizer_bin(data))
