"""The vocabulary of a tokenizer.json with its added tokens, and what the sections of the models of
Hugging Face's package share.
"""

from __future__ import annotations

from typing import Any, Callable

from phasor.errors import shown
from phasor.tokenizers.classes import WORD
from phasor.tokenizers.json_parts import fields, member, refuse
from phasor.tokenizers.section import (
    BYTE,
    CONTROL,
    LONGEST_SEARCHED,
    NORMAL,
    NORMALIZED,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Section,
    TokenizerError,
)

OF_MODEL = 1  # mark of a piece
SINGLE_WORD, STRIP_LEFT, STRIP_RIGHT = 1, 2, 4  # flags of an added token
MOST_PIECES = 1 << 24
LONGEST_ADDED = 1024  # characters

Text = Callable[[str], str]


def special_token(content: str, id_: int, **options: bool) -> dict[str, Any]:
    return {
        "id": id_,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
        **options,
    }


class Vocabulary:
    """Ids, texts, and the added tokens with the ids that the package gives them."""

    def __init__(
        self, vocabulary: dict[str, int], added: list[dict[str, Any]], size: int | None = None
    ):
        self.of_model = vocabulary
        self.size = (
            len(vocabulary) if size is None else size
        )  # ids of the model, with those that nothing has
        self.texts: dict[int, str] = {}
        if not isinstance(vocabulary, dict):
            raise TokenizerError("model.vocab: expected a table from text to id")
        most = min(
            MOST_PIECES, 2 * (self.size + len(added)) + 65536
        )  # ids that nothing has cost as much as others
        for text, id_ in vocabulary.items():
            if type(id_) is not int or not 0 <= id_ < MOST_PIECES:
                raise TokenizerError(f"model.vocab: {shown(text)} has the id {shown(id_)}")
            if id_ >= most:
                raise TokenizerError(
                    f"model.vocab: {shown(text)} has the id {id_}, of {len(vocabulary)} pieces"
                )
            if id_ in self.texts:
                raise TokenizerError(
                    f"model.vocab: {text!r} and {self.texts[id_]!r} have the same id {id_}"
                )
            self.texts[id_] = text
        self.added: list[dict[str, Any]] = []
        self.ids: dict[str, int] = {}
        self._add(added)

    def _add(self, tokens: list[dict[str, Any]]) -> None:
        known = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
        following = self.size
        for token in tokens:
            fields(token, "added_tokens", known)
            content = member(token, "content", "added_tokens")
            if not content:
                continue
            if len(content) > LONGEST_ADDED:
                raise TokenizerError(
                    f"added_tokens: {shown(content)} has {len(content)} characters, expected at "
                    f"most {LONGEST_ADDED}"
                )
            if content in self.ids:
                raise TokenizerError(f"added_tokens: {content!r} is there twice")
            id_ = self.of_model.get(content, following)
            if id_ != member(token, "id", "added_tokens"):
                raise TokenizerError(
                    f"added_tokens: {content!r} has the id {shown(token['id'])}, the package would "
                    f"give it {id_}"
                )
            following = max(following, id_ + 1)
            self.ids[content] = id_
            self.texts[id_] = content
            self.added.append(token)
        self.special = {token["content"] for token in self.added if token.get("special")}

    def id(self, text: str | None) -> int | None:
        return None if text is None else self.ids.get(text, self.of_model.get(text))

    def count(self) -> int:
        return max([self.size - 1, *self.texts]) + 1

    def word_class(self) -> dict[str, int]:
        """The class of what is part of a word, where an added token asks for it."""
        return {"word": WORD} if any(token.get("single_word") for token in self.added) else {}

    def rows(self, normalize: Text, may_be_empty: bool = False) -> list[tuple[bytes, int, int]]:
        """(text, id, flags) of the table of added tokens, in its order; of equal texts the package
        takes the first."""
        rows: dict[tuple[bool, bytes], tuple[bytes, int, int]] = {}
        for token in sorted(self.added, key=lambda token: not token.get("special")):
            normalized = bool(token.get("normalized"))
            content = (normalize(token["content"]) if normalized else token["content"]).encode()
            if not content and not may_be_empty:
                refuse(f"the added token {token['content']!r}, which the normalizer empties,")
            flags = (
                SINGLE_WORD * bool(token.get("single_word"))
                | STRIP_LEFT * bool(token.get("lstrip"))
                | STRIP_RIGHT * bool(token.get("rstrip"))
                | NORMALIZED * normalized
            )
            rows.setdefault((normalized, content), (content, self.ids[token["content"]], flags))
        return [rows[key] for key in sorted(rows)]


class PackageSection(Section):
    """A section with a vocabulary."""

    def __init__(self, model: int, vocabulary: Vocabulary, longest_piece: int = LONGEST_SEARCHED):
        super().__init__(model)
        self.vocabulary, self.longest_piece = vocabulary, longest_piece
        self.rule = 1
        self.byte_pieces: frozenset[str] = frozenset()

    def put_unknown(self, id_: int, text: str, as_bytes: Callable[[str], bytes]) -> None:
        self.unknown = id_
        self.surface = b"" if text in self.vocabulary.special else as_bytes(text)

    def pieces(
        self, text: Callable[[str], bytes], marks: Callable[[str], int]
    ) -> list[tuple[bytes, int, int]]:
        """(text, marks, type) by id; ids that nothing has get a text that nothing else has."""
        rows = []
        texts, special = self.vocabulary.texts, self.vocabulary.special
        for id_ in range(self.vocabulary.count()):
            if id_ not in texts:
                rows.append((b"\0<no piece %d>" % id_, 0, UNUSED))
                continue
            piece = texts[id_]
            of_model = self.vocabulary.of_model.get(piece) == id_
            kind = (
                UNKNOWN
                if id_ == self.unknown
                else CONTROL
                if piece in special
                else NORMAL
                if of_model
                else USER_DEFINED
            )
            if kind == NORMAL and piece in self.byte_pieces:
                kind = BYTE
            rows.append((text(piece), OF_MODEL * of_model | marks(piece), kind))
        if not rows:
            raise TokenizerError("model.vocab: is empty, and there are no added tokens")
        for id_, (written, _, _) in enumerate(rows):
            if not 0 < len(written) <= self.longest_piece:
                raise TokenizerError(
                    f"piece {id_} is empty or longer than {self.longest_piece} bytes"
                )
        return rows
