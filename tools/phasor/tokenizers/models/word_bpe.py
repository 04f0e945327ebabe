"""Byte-pair encoding of words (7, with the flag for it): fastBPE and subword-nmt, with the ids of a
dictionary of fairseq, or those of BlenderbotSmall's vocab.json."""

from __future__ import annotations

from typing import Any, Sequence

from phasor.errors import shown
from phasor.tokenizers import unicode
from phasor.tokenizers.charsmap import build_map, put_map
from phasor.tokenizers.classes import PADDED, SPACE, class_runs, of_ranges
from phasor.tokenizers.merges import put_merges
from phasor.tokenizers.model import Model
from phasor.tokenizers.section import LONGEST_PIECE, NO_ID, TokenizerError
from phasor.tokenizers.vocabulary import PackageSection, Vocabulary, special_token

ENDS, GOES_ON = "</w>", "@@"  # of a merge's part, and of a token
WORD_ENDS, LOWER_WORDS = 1024, 16384  # flags
CASED, PASSED_OVER = 256, 512  # classes
# \s of Python's re, by which fairseq and the classes of transformers cut.
_WHITE_SPACE = (
    *((0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
    *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)
# What BlenderbotSmall's words are made of: lower case, and these signs begin words. A capital sigma
# depends on its neighbors; an apostrophe, with PADDED, is a word of its own.
_LOWER = {
    **{code: text for code, text in unicode.MAPS["lower"].items() if chr(code) != "\u03a3"},
    **{ord(sign): " " + sign for sign in ".,!?()"},
}


class Words(dict[str, Any]):
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
    ids = {token: id_ for id_, token in enumerate(tokens, 4)}
    order = sorted(special, key=special.__getitem__)
    return _section(ids, merges, [special_token(text, special[text]) for text in order], "<unk>")


def _section(
    tokens: dict[str, int],
    merges: Sequence[tuple[str, str]],
    added: list[dict[str, Any]],
    unknown: str,
    lower: bool = False,
) -> tuple[bytes, Vocabulary, int]:
    """The same. tokens: with their ids; added: the special ones, which are none of them; lower:
    words are those of BlenderbotSmall."""
    special = {token["content"]: token["id"] for token in added}
    ids = dict(special)
    for token, id_ in tokens.items():
        piece = piece_of(token)
        if token == GOES_ON or piece in ids:
            raise TokenizerError(f"the token {shown(token)} is there before, or has no text")
        ids[piece] = id_
    following = own = max(ids.values()) + 1
    parts = [(_part(left), _part(right)) for left, right in merges]
    for left, right in parts:
        made = left + right
        for piece in (left, right, made):
            if piece in special or piece.removesuffix(" ") in special:
                raise TokenizerError(f"a merge makes the special token {shown(piece)}")
            if piece not in ids:
                ids[piece], following = following, following + 1
        # Such a text would be one word's end and another's middle.
        if made.endswith(GOES_ON + " ") and made[:-1] in tokens:
            raise TokenizerError(f"a merge makes the word {shown(made[:-1])}, which is a token")
    vocabulary = Vocabulary(ids, added)
    section = PackageSection(MODEL.number, vocabulary, LONGEST_PIECE)
    section.flags = WORD_ENDS
    section.word_chars = following - own  # rows that have no id
    section.put_unknown(special[unknown], unknown, str.encode)
    put_merges(section, {"merges": parts}, [NO_ID] * 256, lambda left, right: True)
    section.expansion = 1
    classes: dict[str, int] = {}
    more = [(SPACE, of_ranges(_WHITE_SPACE))]
    if lower:
        section.flags |= LOWER_WORDS
        put_map(section, *build_map(_LOWER))
        classes = {"space": SPACE, "cased": CASED, "passed_over": PASSED_OVER}
        more = [(PADDED, of_ranges([(ord("'"), ord("'"))]))]
    section.runs = class_runs(classes, more)
    section.added = vocabulary.rows(str)
    made = section.bytes(section.pieces(str.encode, lambda piece: 0))
    vocabulary.size = own
    for id_ in range(own, following):
        del vocabulary.texts[id_]
    return made, vocabulary, special[unknown]


def from_json(spec: dict[str, Any]) -> tuple[bytes, Vocabulary, int]:
    model = spec["model"]
    if "unknown" in model:
        added = spec["added_tokens"]
        return _section(model["tokens"], model["merges"], added, model["unknown"], lower=True)
    return from_dictionary(model["tokens"], model["merges"], model["special"])


def takes(spec: dict[str, Any]) -> bool:
    return isinstance(spec["model"], Words)


MODEL = Model(7, "bpe", json_type="words", takes=takes, from_json=from_json)
