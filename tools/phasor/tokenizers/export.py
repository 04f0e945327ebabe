"""What a section does not say of the tokenizer.json that it was made of (file-format.md,
TOKENIZER_JSON): the text of which `phasor tokenize --export` makes one, with marks where it puts
what the section has.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from typing import Any, Callable, Iterable

from phasor.tokenizers.json_parts import steps
from phasor.tokenizers.merges import merge_pairs
from phasor.tokenizers.model import Model
from phasor.tokenizers.models import bert_bpe, byte_bpe
from phasor.tokenizers.patterns.scanner import FANCY, ONIGURUMA
from phasor.tokenizers.patterns.table import compiled
from phasor.tokenizers.patterns.tree import PatternError
from phasor.tokenizers.pre_tokenizers import FancyRegex
from phasor.tokenizers.section import Exportable, id_count, piece_texts
from phasor.tokenizers.vocabulary import Vocabulary

MARK, MOST = "\x01", 1 << 20  # bytes of a text; of what needs more there is none
_LETTERS = "".join(sorted(byte_bpe.ALPHABET, key=byte_bpe.ALPHABET.__getitem__))
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_LEVEL = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}


class Inexpressible(Exception):
    """The package's file cannot say it."""


def _of_letters(piece: bytes) -> str:
    return "".join(_LETTERS[byte] for byte in piece)


def _of_words(piece: bytes) -> str:
    return (piece[:-1] + b"</w>" if piece.endswith(b" ") else piece).decode("utf-8", "replace")


# How a piece's text is spelled in the file, by the letter of a mark.
_FORMS: dict[str, Callable[[bytes], str]] = {
    "p": lambda piece: piece.decode("utf-8", "replace"),
    "l": _of_letters,
    "w": _of_words,
}


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(members: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{_dumped(name)}:{value}" for name, value in members) + "}"


def _runs(
    entries: Iterable[tuple[int, bool, str]], mark: Callable[[int, int], str], own: list[int]
) -> str:
    """The entries (number, whether a mark says it, its own text) one after the other: a mark for
    those that follow each other, else their own texts, whose numbers go to own."""
    out: list[str] = []
    first = last = -1
    for number, said, text in entries:
        if said:
            first = number if first < 0 else first
            last = number
            continue
        out += [mark(first, last)] if first >= 0 else []
        out.append(text)
        own.append(number)
        first = -1
    out += [mark(first, last)] if first >= 0 else []
    return ",".join(out)


class _Text:
    def __init__(self, spec: dict[str, Any], section: bytes, vocabulary: Vocabulary, made: Model):
        self.spec, self.section, self.vocabulary = spec, section, vocabulary
        self.form = "l" if made is byte_bpe.MODEL else "w" if made is bert_bpe.MODEL else "p"
        self.texts = piece_texts(section)
        table = struct.unpack_from("<Q", section, 32)[0]
        rows = struct.iter_unpack("<4I", section[table : table + 16 * id_count(section)])
        self.of_model = [bool(marks & 1) for _, _, marks, _ in rows]

    def _spelled(self, id_: int) -> str:
        return _FORMS[self.form](self.texts[id_])

    def _table(self, ids: dict[str, int], own: list[int]) -> str:
        entries = (
            (id_, self._spelled(id_) == text, f"{_dumped(text)}:{id_}")
            for text, id_ in sorted(ids.items(), key=lambda item: item[1])
        )
        return "{" + _runs(entries, lambda a, b: f"{MARK}t{self.form}{a}-{b};", own) + "}"

    def _scored(self, pieces: list[Any]) -> str:
        entries = (
            (id_, self.of_model[id_] and self._spelled(id_) == text, _dumped([text, float(score)]))
            for id_, (text, score) in enumerate(pieces)
        )
        return "[" + _runs(entries, lambda a, b: f"{MARK}s{a}-{b};", []) + "]"

    def _model(self) -> str:
        model, own = self.spec["model"], list[int]()
        out = []
        for name, value in model.items():
            if name == "vocab":
                of_table = isinstance(value, dict)
                out.append((name, self._table(value, own) if of_table else self._scored(value)))
            elif name != "merges":
                out.append((name, _dumped(value)))
        if "merges" in model:
            spelled = set(own)
            ids = self.vocabulary.of_model
            for pair in merge_pairs(model["merges"]):
                if spelled & {ids.get(piece) for piece in pair}:
                    raise Inexpressible
            out.append(("merges", f"[{MARK}m{self.form};]"))
        return _object(out)

    def _added(self) -> str:
        out: list[str] = []
        run: tuple[str, int, int] | None = None
        before = -1  # ids of marks ascend

        def put() -> None:
            nonlocal run, before
            if run is not None:
                flags, first, before = run
                out.append(f"{MARK}a{flags}{first}-{before};")
            run = None

        for token in self.vocabulary.added:
            id_, content = token["id"], token["content"]
            flags = chr(64 + sum(bool(token.get(name)) << i for i, name in enumerate(_FLAGS)))
            if self.texts[id_] == content.encode() and id_ > (before if run is None else run[2]):
                if run is not None and (run[0], run[2] + 1) == (flags, id_):
                    run = (flags, run[1], id_)
                    continue
                put()
                run = (flags, id_, id_)
                continue
            put()
            whole = {"id": id_, "content": content}
            out.append(_dumped({**whole, **{name: bool(token.get(name)) for name in _FLAGS}}))
        put()
        return "[" + ",".join(out) + "]"

    def _normalizer(self) -> str:
        found = steps(self.spec.get("normalizer"), "normalizer", "normalizers")
        types = [step["type"] for step in found]
        texts = [
            self._precompiled(step, kind not in types[:i])
            if kind == "Precompiled"
            else _dumped(step)
            for i, (kind, step) in enumerate(zip(types, found))
        ]
        if len(texts) < 2:
            return "".join(texts) or "null"
        return _object([("type", '"Sequence"'), ("normalizers", "[" + ",".join(texts) + "]")])

    def _precompiled(self, step: dict[str, Any], first: bool) -> str:
        """The section has the map of the first one."""
        (trie_bytes, string_bytes) = struct.unpack_from("<II", self.section, 24)
        trie_at, strings_at = struct.unpack_from("<QQ", self.section, 64)
        raw = base64.b64decode(step["precompiled_charsmap"])
        size = struct.unpack_from("<I", raw)[0] if len(raw) > 4 else 0
        more = len(raw) - 4 - size
        trie = self.section[trie_at : trie_at + min(size, trie_bytes)]
        strings = self.section[strings_at : strings_at + min(max(more, 0), string_bytes)]
        if not first or struct.pack("<I", size) + trie + strings != raw:
            return _dumped(step)
        return _object(
            [("type", '"Precompiled"'), ("precompiled_charsmap", f'"{MARK}c{size}-{more};"')]
        )

    def _plain(self, part: str, inside: str) -> str:
        found = [
            {**_LEVEL, **step} if step["type"] == "ByteLevel" else step
            for step in steps(self.spec.get(part), part, inside)
        ]
        for pattern in (step.get("pattern") for step in found):
            if isinstance(pattern, dict):
                _check_dialect(pattern.get("Regex"))
        if len(found) < 2:
            return _dumped(found[0] if found else None)
        return _dumped({"type": "Sequence", inside: found})

    def _around(self) -> str:
        """What trims offsets, and the ids around a text as the descriptor has them."""
        trims = [
            _dumped({"type": "ByteLevel", **_LEVEL, **{n: s[n] for n in _LEVEL if n in s}})
            for s in steps(self.spec.get("post_processor"), "post_processor", "processors")
            if s["type"] in ("ByteLevel", "RobertaProcessing")
        ]
        texts = ",".join([*trims, f"{MARK}p;"])
        return _object([("type", '"Sequence"'), ("processors", f"[{texts}]")])

    def whole(self) -> str:
        return _object(
            [
                ("version", '"1.0"'),
                ("truncation", "null"),
                ("padding", "null"),
                ("added_tokens", self._added()),
                ("normalizer", self._normalizer()),
                ("pre_tokenizer", self._plain("pre_tokenizer", "pretokenizers")),
                ("post_processor", self._around()),
                ("decoder", self._plain("decoder", "decoders")),
                ("model", self._model()),
            ]
        )


def _check_dialect(regex: Any) -> None:
    """Whether a regular expression of fancy-regex means the same in the package's dialect."""
    if not isinstance(regex, FancyRegex):
        return
    try:
        same = compiled(regex, ONIGURUMA).bytes(0) == compiled(regex, FANCY).bytes(0)
    except PatternError:
        same = False
    if not same:
        raise Inexpressible


def exportable(
    spec: dict[str, Any], section: bytes, vocabulary: Vocabulary, made: Model
) -> Exportable:
    """The section, made of a tokenizer.json or of what stands for one, with the text of which a
    tokenizer.json is made again: none where the package could not read it or would give other
    ids."""
    out, text = Exportable(section), b""
    of_list = "pieces" in spec and not vocabulary.ids.keys() <= vocabulary.of_model.keys()
    if type(spec["model"]) is dict and not of_list:  # else a reader's own kind of vocabulary
        with contextlib.suppress(Inexpressible, UnicodeEncodeError):
            text = _Text(spec, section, vocabulary, made).whole().encode()
    out.text = text if len(text) <= MOST else b""
    return out
