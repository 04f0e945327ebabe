"""WordPiece and unigram of Hugging Face's `tokenizers` as tokenizer sections (docs/format.md,
TOKENIZER, models 4 and 6), and what all of that package's models share; phasor_tokenizer_bpe.py has
byte-pair encoding.

Each builder takes what a tokenizer.json says and gives the section's bytes, its vocabulary and the
unknown id. What would change the ids and is not understood is refused by name, never ignored. Needs
numpy only.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from typing import Any, Callable, Iterable

import numpy as np

from phasor.errors import shown
from phasor.tokenizers import tokenizer as pt
from phasor.tokenizers import unicode
from phasor.tokenizers.tokenizer import (
    BYTE,
    CONTROL,
    NO_ID,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    TokenizerError,
)

MODEL_WORDPIECE, MODEL_BYTE_BPE, MODEL_METASPACE, MODEL_CHAR_BPE = 4, 5, 6, 7
META = "\u2581"
(
    ADD_PREFIX,
    PREFIX_FIRST,
    SPLIT_AT_SPACE,
    STRIP_END,
    MERGE_SPACES,
    MERGE_TO_SPACE,
    DROP_FIRST_PREFIX,
) = 1, 32, 64, 128, 256, 512, 1024  # flags
OF_MODEL, JOINED = 1, 2  # marks of a piece
SPACE, LETTER, NUMBER, WORD, PUNCTUATION, REMOVED, PADDED, HANGUL = (1 << bit for bit in range(8))
BREAK_BIT = 4  # of Metaspace's classes: above it the number of what the character is in a cluster
BREAKS = {
    "control": 3,
    "extend": 4,
    "extend_conjunct": 5,
    "linker": 6,
    "spacing": 8,
    "prepend": 9,
    "leading": 10,
    "vowel": 11,
    "trailing": 12,
    "pictographic": 14,
    "consonant": 15,
}
OTHER_BREAKS = ((0x0D, 0x0D, 1), (0x0A, 0x0A, 2), (0x200D, 0x200D, 7), (0xAC00, 0xD7A3, 13))
SINGLE_WORD, STRIP_LEFT, STRIP_RIGHT, NORMALIZED = 1, 2, 4, 8  # flags of an added token
MOST_PIECES = 1 << 24
MOST_STEPS_WRITTEN, LONGEST_REGEX, LONGEST_ADDED = (
    64,
    4096,
    1024,
)  # characters; the longest that are known have a fifth of them
# Fields of tokenizer.json, whatever part they are in, and what they hold; "none" may also be null.
_TEXTS = (
    """behavior content replacement prepend_scheme str_rep precompiled_charsmap prefix""".split()
)
_FLAGS = """invert add_prefix_space trim_offsets use_regex individual_digits split clean_text handle_chinese_chars lowercase cleanup single_word lstrip rstrip
    normalized special strip_left strip_right""".split()
_KINDS: dict[str, tuple[str, tuple]] = {
    **{name: ("text", (str,)) for name in _TEXTS},
    **{name: ("true or false", (bool,)) for name in _FLAGS},
    **{
        name: ("text or null", (str, type(None)))
        for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    },
    **{
        name: ("true, false or null", (bool, type(None)))
        for name in ("strip_accents", "byte_fallback", "fuse_unk", "ignore_merges")
    },
    **{
        name: ("a list", (list,))
        for name in (
            "merges",
            "normalizers",
            "pretokenizers",
            "processors",
            "decoders",
            "single",
            "pair",
            "sep",
            "cls",
            "added_tokens",
        )
    },
    **{name: ("a table", (dict,)) for name in ("pattern", "special_tokens")},
    "vocab": ("a table or a list", (dict, list)),
    "model": ("a table", (dict,)),
    **{
        name: ("a table or null", (dict, type(None)))
        for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation")
    },
    **{name: ("a whole number from 0", (int,)) for name in ("id", "max_input_chars_per_word")},
    "unk_id": ("a whole number or null", (int, type(None))),
}

Text = Callable[[str], str]


def refuse(what: str) -> None:
    raise TokenizerError(f"{what} is not supported")


def fields(part: dict, name: str, known: Iterable[str]) -> dict:
    """The part of tokenizer.json; a field that is not known might change ids, and one of another
    kind is refused here, so that no reader meets it."""
    if not isinstance(part, dict):
        raise TokenizerError(f"{name} is not an object")
    for key, value in part.items():
        if key != "type" and key not in known:
            refuse(f"{name}.{key}")
        wanted, kinds = _KINDS.get(key, ("", (object,)))
        if (
            not isinstance(value, kinds)
            or (type(value) is bool and int in kinds)
            or (type(value) is int and not 0 <= value < 1 << 31 and key != "id")
        ):
            raise TokenizerError(f"{name}.{key}: {shown(value)}, expected {wanted}")
    return part


def steps(part: dict | None, name: str, inside: str) -> list[dict]:
    """A normaliser, pre-tokenizer or other part as a list: a Sequence is its members, null is
    none."""
    waiting, out = [] if part is None else [part], []
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            raise TokenizerError(f"{name}: {shown(step)}, expected a part with a type")
        if step["type"] == "Sequence":
            waiting += reversed(member(fields(step, name, [inside]), inside, name))
        else:
            out.append(step)
        if len(out) + len(waiting) > MOST_STEPS_WRITTEN:
            refuse(f"{name} of more than {MOST_STEPS_WRITTEN} steps")
    return out


def member(part: dict, field: str, name: str) -> Any:
    """A field that must be there."""
    if field not in part:
        raise TokenizerError(f"{name}.{field} is missing")
    return part[field]


# ---- A Darts double array
# --------------------------------------------------------------------------------------------


def build_trie(keys: dict[bytes, int]) -> bytes:
    """The double array that finds the keys (without zero bytes) and gives their values (< 2³¹), in
    whole blocks of 256 units.

    The children of a node lie at base ^ byte, its value at base; no two nodes have the same base,
    and a free unit has a label by which only an unused base could reach it, so no walk goes astray.
    """
    root: dict = {}
    for key, value in keys.items():
        assert 0 not in key
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[-1] = value
    units: list[int | None] = []
    bases = {0}  # or the root would be its own child of byte 0
    taken = Counter({0: 1})  # bases by block: one stays free
    free_from = 0

    def place(labels: list[int]) -> int:
        nonlocal free_from
        while free_from < len(units) and units[free_from] is not None:
            free_from += 1
        at = max(
            free_from, len(units) - 16 * 256
        )  # the older blocks have few places left, and looking takes time
        while True:
            if at >= len(units):
                units.extend([None] * 256)
            base = at ^ labels[0]
            if (
                units[at] is None
                and base not in bases
                and taken[base >> 8] < 255
                and all(units[base ^ x] is None for x in labels)
            ):
                bases.add(base)
                taken[base >> 8] += 1
                return base
            at += 1

    units.extend([None] * 256)
    units[0] = 0
    waiting = [(0, root)]  # (unit, node): the unit gets its base
    for at, node in waiting:
        base = place([max(label, 0) for label in node])
        distance = at ^ base
        assert distance < 1 << 21
        units[at] |= distance << 10 | (0x100 if -1 in node else 0)
        for label, child in node.items():
            if label < 0:
                units[base] = child | 0x80000000
            else:
                units[base ^ label] = label
                waiting.append((base ^ label, child))
    for block in range(0, len(units), 256):
        nobody = next(base for base in range(block, block + 256) if base not in bases)
        for at in range(block, block + 256):
            if units[at] is None:
                units[at] = (at ^ nobody) & 0xFF
    return np.array(units, dtype="<u4").tobytes()


def build_map(replacements: dict[int, str]) -> tuple[bytes, bytes]:
    """The normaliser's trie and strings that replace characters."""
    if not replacements:
        return b"", b""
    strings = bytearray()
    places: dict[str, int] = {}
    keys = {}
    for c, text in replacements.items():
        if text not in places:
            places[text] = len(strings)
            strings += text.encode() + b"\0"
        keys[chr(c).encode()] = places[text]
    return build_trie(keys), bytes(strings)


# ---- Classes of characters
# -------------------------------------------------------------------------------------------


def class_runs(bits: dict[str, int], more: Iterable[tuple[int, int, int]] = ()) -> bytes:
    """The runs of characters of the same classes; bits: set of the package's table → class, more:
    (first, last, class)."""
    classes = np.zeros(0x110000, dtype=np.uint32)
    for name, bit in bits.items():
        for first, last in unicode.SETS[name]:
            classes[first : last + 1] |= bit
    for first, last, bit in more:
        classes[first : last + 1] |= bit
    starts = np.concatenate([[0], np.flatnonzero(np.diff(classes)) + 1])
    return (starts.astype(np.uint32) | classes[starts] << 21).astype("<u4").tobytes()


# ---- The vocabulary with its added tokens
# ----------------------------------------------------------------------------


class Vocabulary:
    """Ids, texts, and the added tokens with the ids that the package gives them."""

    def __init__(self, vocabulary: dict[str, int], added: list[dict], size: int | None = None):
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
        self.added: list[dict] = []
        self.ids: dict[str, int] = {}
        self._add(added)

    def _add(self, tokens: list[dict]) -> None:
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
        return self.ids.get(text, self.of_model.get(text))

    def count(self) -> int:
        return max([self.size - 1, *self.texts]) + 1

    def single_words(self) -> bool:
        return any(token.get("single_word") for token in self.added)

    def rows(self, normalize: Text) -> list[tuple[bytes, int, int]]:
        """(text, id, flags) of the table of added tokens, in its order; of equal texts the package
        takes the first."""
        rows: dict[tuple[bool, bytes], tuple[bytes, int, int]] = {}
        for token in sorted(self.added, key=lambda token: not token.get("special")):
            normalized = bool(token.get("normalized"))
            content = (normalize(token["content"]) if normalized else token["content"]).encode()
            if not content:
                refuse(
                    f"the added token {token['content']!r}, of which the normaliser leaves nothing,"
                )
            flags = (
                SINGLE_WORD * bool(token.get("single_word"))
                | STRIP_LEFT * bool(token.get("lstrip"))
                | STRIP_RIGHT * bool(token.get("rstrip"))
                | NORMALIZED * normalized
            )
            rows.setdefault((normalized, content), (content, self.ids[token["content"]], flags))
        return [rows[key] for key in sorted(rows)]


# ---- The section
# -----------------------------------------------------------------------------------------------------


class Section:
    """What the section says, filled in by the models; `bytes` lays it out."""

    def __init__(self, model: int, vocabulary: Vocabulary):
        self.model, self.vocabulary = model, vocabulary
        self.flags = self.expansion = self.longest_rule = self.word_chars = self.merges = 0
        self.rule = 1
        self.more_steps: list[int] = []  # of the pre-tokenizer, behind the rule
        self.unknown: int | None = None
        self.trie = self.strings = self.runs = self.model_data = self.prefix = self.surface = b""
        self.added: list[tuple[bytes, int, int]] = []
        self.byte_pieces: frozenset[str] = frozenset()

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
        merged = self.model in (MODEL_BYTE_BPE, MODEL_CHAR_BPE)
        longest = pt.LONGEST_PIECE if merged else pt.LONGEST_SEARCHED
        for id_, (piece, _, _) in enumerate(rows):
            if not 0 < len(piece) <= longest:
                raise TokenizerError(f"piece {id_} is empty or longer than {longest} bytes")
        if self.model == MODEL_BYTE_BPE:
            pt.check_alike(piece for piece, _, _ in rows)
        return rows

    def bytes(self, pieces: list[tuple[bytes, int, int]]) -> bytes:
        table, text = bytearray(), bytearray()
        for piece, marks, kind in pieces:
            table += struct.pack("<IIII", len(text), len(piece), marks, kind)
            text += piece
        surface_at = len(text)
        text += self.surface + self.prefix
        added = bytearray()
        starts = np.zeros(16, dtype="<u4")
        for content, id_, flags in self.added:
            if len(content) > pt.LONGEST_SEARCHED:
                raise TokenizerError(
                    f"the added token with id {id_} is longer than {pt.LONGEST_SEARCHED} bytes"
                )
            added += struct.pack("<IIII", len(text), len(content), id_, flags)
            text += content
            starts[(8 if flags & NORMALIZED else 0) + (content[0] >> 5)] |= np.uint32(
                1 << (content[0] & 31)
            )
        if len(text) >= 1 << 32:
            raise TokenizerError("the pieces' text is larger than 4 GiB")
        order = np.array(
            sorted(range(len(pieces)), key=lambda i: (pieces[i][0], i)), dtype="<u4"
        ).tobytes()

        body, offsets = b"", []
        for part in (
            bytes(table),
            order,
            bytes(text),
            self.trie,
            self.strings,
            self.runs,
            self.model_data,
            (starts.tobytes() + added) if added else b"",
        ):
            offsets.append(pt.HEADER_BYTES + len(body) if part or len(offsets) < 3 else 0)
            body += pt._pad(part)
        header = struct.pack(
            "<IIIIfIII QQQQ QQ IIII IIIIII 8s",
            self.model,
            self.flags,
            len(pieces),
            NO_ID if self.unknown is None else self.unknown,
            0.0,
            max(len(piece) for piece, _, _ in pieces),
            len(self.trie),
            len(self.strings),
            *offsets[:3],
            len(text),
            *offsets[3:5],
            surface_at,
            len(self.surface),
            self.expansion,
            self.longest_rule,
            self.rule,
            len(self.runs) // 4,
            self.merges,
            len(self.added),
            self.word_chars,
            len(self.prefix),
            bytes(self.more_steps),
        )
        assert len(header) == pt.HEADER_BYTES
        return header + body


def _bounds(trie: bytes, strings: bytes, escape: bool) -> tuple[int, int]:
    expansion, longest = pt._map_bounds(trie, strings, escape)
    if expansion > 255:
        raise TokenizerError("the normaliser's map: a rule expands too much")
    return expansion, longest


# ---- WordPiece
# -------------------------------------------------------------------------------------------------------


class BertNormalizer:
    """The package's BertNormalizer as one step a character: removed, replaced, padded with
    spaces."""

    def __init__(self, options: dict | None):
        names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        options = {} if options is None else fields(options, "normalizer", names)
        self.clean, self.pad, strip, self.lower = (options.get(name, False) for name in names)
        self.strip = self.lower if strip is None else strip
        self.removed = self._set("removed") * self.clean | self._set("vanished") * self.strip
        self.padded = self._set("padded") * self.pad
        self.replaced = self._replaced()

    @staticmethod
    def _set(name: str) -> np.ndarray:
        out = np.zeros(0x110000, dtype=bool)
        for first, last in unicode.SETS[name]:
            out[first : last + 1] = True
        return out

    def _replaced(self) -> dict[int, str]:
        stripped = unicode.MAPS["stripped"] if self.strip else {}
        lower = unicode.MAPS["lower"] if self.lower else {}
        spaces = (
            [c for first, last in unicode.SETS["space"] for c in range(first, last + 1)]
            if self.clean
            else []
        )
        out = {}
        for c in sorted({*stripped, *lower, *spaces}):
            text = (
                " "
                if c in spaces
                else "".join(lower.get(ord(x), x) for x in stripped.get(c, chr(c)))
            )
            if not self.removed[c] and text != chr(c):
                out[c] = text
        return out

    def char(self, c: str) -> str:
        code = ord(c)
        if self.removed[code]:
            return ""
        text = self.replaced.get(code, c)
        if self.strip and 0xAC00 <= code <= 0xD7A3:
            index = code - 0xAC00
            parts = (0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28)
            text = "".join(chr(part) for part in parts if part != 0x11A7)
        return f" {text} " if self.padded[code] else text

    def __call__(self, text: str) -> str:
        return "".join(map(self.char, text))

    def check_order(self, texts: Iterable[str]) -> None:
        """Marks that stay may change places with each other; it does not matter as long as the
        pieces know one of them at most."""
        marks = self._set("reordered")
        if self.strip and len({c for text in texts for c in text if marks[ord(c)]}) > 1:
            refuse("a vocabulary with several combining characters that strip_accents reorders")


def _clean_up(text: str) -> str:
    """The clean-up of the package's WordPiece decoder, which sees one token at a time."""
    for before, after in (
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ):
        text = text.replace(before, after)
    return text


def _wordpiece_marks(decoder: dict | None) -> Callable[[str], int]:
    """Bits of a piece that say how it decodes: without a space before it, without its first
    bytes."""
    if decoder is None:
        return lambda piece: 0
    if decoder.get("type") != "WordPiece":
        refuse(f"decoder {decoder.get('type')} with WordPiece")
    fields(decoder, "decoder", ("prefix", "cleanup"))
    prefix, clean = (
        member(decoder, "prefix", "decoder"),
        _clean_up if member(decoder, "cleanup", "decoder") else str,
    )
    if len(prefix) > LONGEST_ADDED:
        raise TokenizerError(f"decoder.prefix: {shown(prefix)} is too long")

    def marks(piece: str) -> int:
        joined = piece.startswith(prefix)
        skip = len(prefix.encode()) if joined else 0
        rest = piece[len(prefix) :] if joined else piece
        text = clean(rest if joined else " " + piece)
        if clean(piece) != piece or text not in (rest, " " + rest):
            refuse(f"decoder.cleanup of the token {piece!r}")
        return (0 if text == " " + rest and not joined else JOINED) | skip << 8

    return marks


def build_wordpiece(spec: dict) -> tuple[bytes, Vocabulary, int]:
    model = fields(
        spec["model"],
        "model",
        ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"),
    )
    normalizers = steps(spec.get("normalizer"), "normalizer", "normalizers")
    for step in normalizers:
        if step.get("type") != "BertNormalizer" or len(normalizers) > 1:
            refuse(f"normalizer {step.get('type')} with WordPiece")
    pre_tokenizers = [
        step.get("type")
        for step in steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    ]
    if pre_tokenizers != ["BertPreTokenizer"]:
        refuse(f"pre_tokenizer {pre_tokenizers} with WordPiece")
    normalizer = BertNormalizer(normalizers[0] if normalizers else None)
    vocabulary = Vocabulary(member(model, "vocab", "model"), spec["added_tokens"])
    normalizer.check_order(vocabulary.texts.values())

    section = Section(MODEL_WORDPIECE, vocabulary)
    for name in ("unk_token", "continuing_subword_prefix"):
        if not isinstance(member(model, name, "model"), str):
            raise TokenizerError(f"model.{name}: null, expected text")
    section.unknown = vocabulary.of_model.get(model["unk_token"])
    if section.unknown is None:
        raise TokenizerError(f"model.unk_token {model['unk_token']!r} is not in the vocabulary")
    section.surface = (
        b"" if model["unk_token"] in vocabulary.special else model["unk_token"].encode()
    )
    section.prefix = model["continuing_subword_prefix"].encode()
    section.word_chars = member(model, "max_input_chars_per_word", "model")
    section.trie, section.strings = build_map(normalizer.replaced)
    section.expansion, section.longest_rule = _bounds(section.trie, section.strings, False)
    bits = {"space": SPACE, "punctuation": PUNCTUATION}
    bits.update(
        {"removed": REMOVED} if normalizer.clean else {},
        **({"vanished": REMOVED} if normalizer.strip else {}),
        **({"padded": PADDED} if normalizer.pad else {}),
        **({"word": WORD} if vocabulary.single_words() else {}),
    )
    section.runs = class_runs(bits, [(0xAC00, 0xD7A3, HANGUL)] if normalizer.strip else [])
    section.added = vocabulary.rows(normalizer)
    return (
        section.bytes(section.pieces(str.encode, _wordpiece_marks(spec.get("decoder")))),
        vocabulary,
        section.unknown,
    )


# ---- Unigram with Metaspace
# --------------------------------------------------------------------------------------------


def metaspace(step: dict, name: str) -> tuple[str, bool]:
    """(prepend scheme, split) of a Metaspace, in the older spelling too."""
    fields(step, name, ("replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"))
    if member(step, "replacement", name) != META:
        refuse(f"{name}.replacement {step['replacement']!r}")
    scheme = step.get("prepend_scheme", "always")
    if not step.get("add_prefix_space", True):
        if step.get("prepend_scheme", "never") != "never":
            refuse(f"{name}.add_prefix_space with prepend_scheme {scheme}")
        scheme = "never"
    if scheme not in ("always", "first", "never"):
        refuse(f"{name}.prepend_scheme {scheme}")
    return scheme, step.get("split", True)


def _unigram_words(spec: dict) -> int:
    """The flags of the pre-tokenizer: Metaspace, or WhitespaceSplit and then Metaspace."""
    found = steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    kinds = [step.get("type") for step in found]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        refuse(f"pre_tokenizer {kinds} with Unigram")
    scheme, split = metaspace(found[-1], "pre_tokenizer")
    if not split:
        refuse("pre_tokenizer.split False with Unigram")
    if scheme == "first" and len(found) > 1:
        refuse("pre_tokenizer.prepend_scheme first behind WhitespaceSplit")
    return (
        SPLIT_AT_SPACE * (len(found) > 1)
        | {"always": ADD_PREFIX, "first": ADD_PREFIX | PREFIX_FIRST, "never": 0}[scheme]
    )


def _unigram_decoder(spec: dict) -> int:
    decoder = spec.get("decoder") or {}
    if decoder.get("type") != "Metaspace":
        refuse(f"decoder {decoder.get('type')} with Unigram")
    return 0 if metaspace(decoder, "decoder")[0] == "never" else DROP_FIRST_PREFIX


def _unigram_normalizer(spec: dict, split_at_space: bool) -> tuple[bytes, bytes, int]:
    """(trie, strings, flags) of Precompiled, a strip on the right, runs of spaces that become one ▁
    or space: in this order."""
    trie = strings = b""
    flags, place = 0, 0
    for step in steps(spec.get("normalizer"), "normalizer", "normalizers"):
        kind = step.get("type")
        if kind == "Precompiled" and place < 1:
            charsmap = member(
                fields(step, "normalizer", ("precompiled_charsmap",)),
                "precompiled_charsmap",
                "normalizer",
            )
            try:
                trie, strings = pt._split_charsmap(base64.b64decode(charsmap))
            except ValueError as error:
                raise TokenizerError(
                    f"normalizer.precompiled_charsmap: not base64: {error}"
                ) from error
            place = 1
        elif kind == "Strip" and place < 2:
            if member(step, "strip_left", "normalizer") or not member(
                step, "strip_right", "normalizer"
            ):
                refuse("normalizer Strip on the left")
            flags |= STRIP_END
            place = 2
        elif kind == "Replace" and place < 3:
            pattern, content = (
                member(fields(step, "normalizer", ("pattern", "content")), field, "normalizer")
                for field in ("pattern", "content")
            )
            if pattern != {"Regex": " {2,}"} or content not in (META, " "):
                refuse(f"normalizer Replace of {shown(pattern)} by {shown(content)}")
            # A single space would end a word at WhitespaceSplit, as many do; else it begins one, as
            # ▁ does.
            if step["content"] == META:
                flags |= MERGE_SPACES
            elif not split_at_space:
                flags |= MERGE_SPACES | MERGE_TO_SPACE
            place = 3
        else:
            refuse(f"normalizer {kind} with Unigram in this place")
    return trie, strings, flags


def _unigram_vocabulary(model: dict) -> tuple[dict[str, int], np.ndarray]:
    """Ids by text (of pieces that are there twice the package takes the last), and the scores with
    the unknown's behind them."""
    given = member(model, "vocab", "model")
    for entry in given:
        if (
            type(entry) not in (list, tuple)
            or len(entry) != 2
            or type(entry[0]) is not str
            or type(entry[1]) not in (int, float)
            or not abs(entry[1]) < 1e100
        ):
            raise TokenizerError(
                f"model.vocab: {shown(entry)}, expected a text and a finite score, not very large"
            )
    texts = [text for text, _ in given]
    scores = np.array([score for _, score in given], dtype=np.float64)
    return {text: id_ for id_, text in enumerate(texts)}, scores


def build_unigram(spec: dict) -> tuple[bytes, Vocabulary, int]:
    model = fields(spec["model"], "model", ("unk_id", "vocab", "byte_fallback"))
    if model.get("byte_fallback"):
        refuse("model.byte_fallback with Unigram")
    if model.get("unk_id") is None:
        refuse("model.unk_id null")
    ids, scores = _unigram_vocabulary(model)
    if not 0 <= model["unk_id"] < len(scores):
        raise TokenizerError(f"model.unk_id: {model['unk_id']}, there are {len(scores)} pieces")
    vocabulary = Vocabulary(ids, spec["added_tokens"], len(scores))
    unknown = model["vocab"][model["unk_id"]][0]

    section = Section(MODEL_METASPACE, vocabulary)
    section.unknown = model["unk_id"]
    if ids[unknown] != section.unknown:
        refuse(f"model.unk_id of a piece {unknown!r} that is there twice")
    section.surface = b"" if unknown in vocabulary.special else unknown.encode()
    section.flags = _unigram_words(spec) | _unigram_decoder(spec)
    section.trie, section.strings, more = _unigram_normalizer(
        spec, bool(section.flags & SPLIT_AT_SPACE)
    )
    section.flags |= more
    section.expansion, section.longest_rule = _bounds(section.trie, section.strings, False)
    rest = np.zeros(vocabulary.count() - len(scores))
    section.model_data = (
        np.concatenate([scores, rest, [scores.min() - 10.0]]).astype("<f8").tobytes()
    )
    section.runs = class_runs(
        {
            "space": SPACE,
            **({"word": WORD} if vocabulary.single_words() else {}),
            **{name: number << BREAK_BIT for name, number in BREAKS.items() if section.trie},
        },
        [
            (first, last, number << BREAK_BIT)
            for first, last, number in OTHER_BREAKS
            if section.trie
        ],
    )
    section.added = vocabulary.rows(_precompiled_of(section))
    return section.bytes(section.pieces(str.encode, lambda piece: 0)), vocabulary, section.unknown


def _precompiled_of(section: Section) -> Text:
    """What the normaliser makes of an added token's text: only of plain ASCII, where each character
    is a cluster of its own."""
    units = np.frombuffer(section.trie, dtype="<u4").astype(np.int64).tolist()

    def char(c: str) -> str:
        unit = units[0] if units else 0
        node = (unit >> 10) << ((unit & 0x200) >> 6) ^ ord(c)
        if not units or units[node] & 0x800000FF != ord(c) or not units[node] & 0x100:
            return c
        at = units[node ^ (units[node] >> 10) << ((units[node] & 0x200) >> 6)] & 0x7FFFFFFF
        return section.strings[at : section.strings.index(0, at)].decode()

    def normalize(text: str) -> str:
        changes = section.trie or section.flags & (STRIP_END | MERGE_SPACES)
        if changes and not all("!" <= c <= "~" for c in text):
            refuse(
                f"the added token {text!r}, which is looked for in the normalised text, with such "
                "a normaliser,"
            )
        return "".join(map(char, text))

    return normalize
