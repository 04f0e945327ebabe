"""Byte-pair encoding of words (7, with the flag for it): fastBPE and subword-nmt, with the ids of a
dictionary of fairseq."""

from __future__ import annotations

from typing import Sequence

from phasor.errors import shown
from phasor.tokenizers.classes import SPACE, class_runs, of_ranges
from phasor.tokenizers.merges import put_merges
from phasor.tokenizers.model import Model
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID, TokenizerError
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary, special_token

ENDS, GOES_ON = "</w>", "@@"  # of a merge's part, and of a token
WORD_ENDS = 1024  # flag
# \s of Python's re, by which fairseq and the classes of transformers cut.
_WHITE_SPACE = (
    *((0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
    *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)


class Words(dict):
    """The model's part of a tokenizer.json that was made here; no file has one."""


def piece_of(token: str) -> str:
    """A token as a piece: one that ends a word has a space at its end."""
    return token.removesuffix(GOES_ON) if token.endswith(GOES_ON) else token + " "


def _part(text: str) -> str:
    return text.removesuffix(ENDS) + " " if text.endswith(ENDS) else text


def from_dictionary(
    tokens: Sequence[str], merges: Sequence[tuple[str, str]], special: dict[str, int]
) -> tuple[bytes, Vocabulary, int]:
    """The section, the vocabulary and the unknown id. tokens: from the id 4 on; special: the ids of
    the special tokens, those below 4 and behind the tokens."""
    ids = dict(special)
    for id_, token in enumerate(tokens, 4):
        piece = piece_of(token)
        if token == GOES_ON or piece in ids:
            raise TokenizerError(f"the token {shown(token)} is there before, or has no text")
        ids[piece] = id_
    own = len(ids)
    parts = [(_part(left), _part(right)) for left, right in merges]
    for left, right in parts:
        made = left + right
        for piece in (left, right, made):
            if piece in special:
                raise TokenizerError(f"a merge makes the special token {shown(piece)}")
            ids.setdefault(piece, len(ids))
        # Such a text would be one word's end and another's middle.
        if made.endswith(GOES_ON + " ") and made[:-1] in tokens:
            raise TokenizerError(f"a merge makes the word {shown(made[:-1])}, which is a token")
    order = sorted(special, key=special.__getitem__)
    added = [special_token(text, special[text]) for text in order]
    vocabulary = Vocabulary(ids, added)
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.flags = WORD_ENDS
    section.word_chars = len(ids) - own  # rows that have no id
    section.put_unknown(special["<unk>"], "<unk>", str.encode)
    put_merges(section, {"merges": parts}, [NO_ID] * 256, lambda left, right: True)
    section.expansion = 1
    section.runs = class_runs({}, [(SPACE, of_ranges(_WHITE_SPACE))])
    section.added = vocabulary.rows(str)
    made = section.bytes(section.pieces(str.encode, lambda piece: 0))
    vocabulary.size = own
    for id_ in range(own, len(ids)):
        del vocabulary.texts[id_]
    return made, vocabulary, special["<unk>"]


def from_json(spec: dict) -> tuple[bytes, Vocabulary, int]:
    model = spec["model"]
    return from_dictionary(model["tokens"], model["merges"], model["special"])


def takes(spec: dict) -> bool:
    return isinstance(spec["model"], Words)


MODEL = Model(7, "bpe", json_type="words", takes=takes, from_json=from_json)
