"""Byte-pair encoding of Hugging Face's `tokenizers` as tokenizer sections (docs/format.md,
TOKENIZER, models 5 and 7).

`build_bpe` takes what a tokenizer.json says: byte-level BPE (GPT-2, Llama 3, Qwen2, …) or BPE of
characters (Llama 2, Mistral, Gemma, …). A pre-tokenizer is known by its structure and by its
regular expressions, letter by letter; any other is refused with the expression in the message.
PRE_TOKENIZERS has those that GGUF names. Needs numpy only.
"""

from __future__ import annotations

import unicodedata
from typing import Callable, Iterable, NamedTuple

import numpy as np

from phasor.errors import shown
from phasor.tokenizers import tokenizer as pt
from phasor.tokenizers import unicode
from phasor.tokenizers.models import (
    ADD_PREFIX,
    LETTER,
    LONGEST_ADDED,
    LONGEST_REGEX,
    META,
    MODEL_BYTE_BPE,
    MODEL_CHAR_BPE,
    NUMBER,
    PREFIX_FIRST,
    SPACE,
    WORD,
    Section,
    Vocabulary,
    build_trie,
    class_runs,
    fields,
    member,
    metaspace,
    refuse,
    steps,
)
from phasor.tokenizers.tokenizer import NO_ID, TokenizerError

WHOLE_WORDS, COMPOSE = 2, 4  # flags of model 5
BYTE_FALLBACK, FUSE_UNKNOWN, ESCAPE_FIRST, CUT_AT_SPACES, DROP_FIRST_SPACE, CUT_AT_EACH = (
    8,
    16,
    64,
    128,
    256,
    512,
)  # of model 7
MERGE_INDEX = 2048  # of both
INDEX_FROM = 4096  # merges: a small model's are found as fast without
WHOLE = 4  # mark of a piece: a word that is this piece is it

# ---- Steps of a pre-tokenizer
# ------------------------------------------------------------------------------------------

(
    GPT2,
    NOTHING,
    LLAMA3,
    QWEN2,
    O200K,
    TEKKEN,
    DEEPSEEK3,
    LINE_END,
    QWEN35,
    BYTE_DIGITS,
    BYTE_DIGIT,
    LLAMA3_PLAIN,
    QWEN2_PLAIN,
    SEED,
) = range(1, 15)
MOST_STEPS = 9
UPPER_BIT, LOWER_BIT, MARK_BIT, SIGN_BIT = (
    4,
    5,
    6,
    7,
)  # classes of O200K and TEKKEN, QWEN35 and DEEPSEEK3, DEEPSEEK3
CLASS_BITS = 11
RUN, ONE, UP_TO_THREE, THREE, SPACE_RUN, BLANK_RUN = (
    0x80 | form << 4 for form in range(6)
)  # X+, X, X{1,3}, XXX, \s?X+, ' '?X+

GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_FOLDED, _PLAIN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
)
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s|"
_CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_REGEX = _FOLDED + _WORDS + r"\p{N}{1,3}" + _REST
QWEN2_REGEX = _FOLDED + _WORDS + r"\p{N}" + _REST
QWEN35_REGEX = (
    _FOLDED
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K_REGEX = _CASED.replace("%s", _FOLDED + "?") + r"\p{N}{1,3}" + _CASED_REST
TEKKEN_REGEX = _CASED.replace("%s", "") + r"\p{N}" + _CASED_REST
DEEPSEEK3_REGEX = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED_REGEX = _FOLDED + _WORDS + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
# tiktoken's spellings: a possessive quantifier changes nothing where what follows can match none of
# what it took.
_TIKTOKEN = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|%s| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"

# Every character is in a match of these but of LINE_END and DEEPSEEK3.
NAMED = {
    GPT2_REGEX: GPT2,
    LLAMA3_REGEX: LLAMA3,
    QWEN2_REGEX: QWEN2,
    QWEN35_REGEX: QWEN35,
    O200K_REGEX: O200K,
    TEKKEN_REGEX: TEKKEN,
    DEEPSEEK3_REGEX: DEEPSEEK3,
    r"\s+$": LINE_END,
    SEED_REGEX: SEED,
    _PLAIN + _WORDS + r"\p{N}{1,3}" + _REST: LLAMA3_PLAIN,
    _PLAIN + _WORDS + r"\p{N}" + _REST: QWEN2_PLAIN,
    _TIKTOKEN % r"\p{N}{1,3}": LLAMA3,
    _TIKTOKEN % r"\p{N}": QWEN2,
}
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_OTHER_SPELLINGS = {r" ?[^(\s|[.,!?…。，、।۔،])]+": _BLOOM, "[0-9][0-9][0-9]": "[0-9]{3}"}


class Step(NamedTuple):
    code: int
    members: np.ndarray | None = None  # (0x110000) bool: the class of a run


def _set(*names: str) -> np.ndarray:
    out = np.zeros(0x110000, dtype=bool)
    for name in names:
        for first, last in unicode.SETS[name]:
            out[first : last + 1] = True
    return out


_CATEGORIES = {
    r"\p{L}": "letter",
    r"\p{N}": "number",
    r"\p{M}": "mark",
    r"\p{P}": "sign",
    r"\p{S}": "symbol",
    r"\s": "space",
}


def _class_at(regex: str, at: int) -> tuple[np.ndarray, int] | None:
    """The set of characters that a category or a plain [class] means, and where it ends; None for
    another expression."""
    for name, members in _CATEGORIES.items():
        if regex.startswith(name, at):
            return _set(members), at + len(name)
    if regex[at : at + 1] != "[":
        return None
    at += 1
    negated = regex[at : at + 1] == "^"
    at += negated
    out = np.zeros(0x110000, dtype=bool)
    empty = True
    while at < len(regex) and regex[at] != "]":
        empty = False
        category = next((name for name in _CATEGORIES if regex.startswith(name, at)), None)
        if category is not None:
            out |= _set(_CATEGORIES[category])
            at += len(category)
            continue
        first, at = _char_at(regex, at)
        last = first
        if regex[at : at + 1] == "-" and regex[at + 1 : at + 2] not in ("", "]"):
            last, at = _char_at(regex, at + 1)
        if first is None or last is None or last < first:
            return None
        out[first : last + 1] = True
    if at >= len(regex) or empty:
        return None
    return (~out if negated else out), at + 1


def _char_at(regex: str, at: int) -> tuple[int | None, int]:
    """A character of a class, itself or escaped; None for what may mean more than one."""
    c = regex[at]
    if c != "\\":
        return (None if c in "[&" else ord(c)), at + 1
    escaped = regex[at + 1 : at + 2]
    if escaped in ("r", "n", "t"):
        return {"r": 13, "n": 10, "t": 9}[escaped], at + 2
    return (ord(escaped) if escaped and not escaped.isalnum() else None), at + 2


def _run(regex: str) -> Step | None:
    """A run of a class: X+, X, X{1,3}, X{3}, \\s?X+, ' '?X+."""
    lead = next((lead for lead in ("\\s?", " ?") if regex.startswith(lead)), "")
    found = _class_at(regex, len(lead))
    if found is None:
        return None
    members, at = found
    form = {
        ("", "+"): RUN,
        ("", ""): ONE,
        ("", "{1}"): ONE,
        ("", "{1,3}"): UP_TO_THREE,
        ("", "{3}"): THREE,
        ("\\s?", "+"): SPACE_RUN,
        (" ?", "+"): BLANK_RUN,
    }.get((lead, regex[at:]))
    return None if form is None else Step(form, members)


def _split(step: dict, before: list[Step]) -> Step:
    fields(step, "pre_tokenizer", ("pattern", "behavior", "invert"))
    pattern, behavior = (member(step, field, "pre_tokenizer") for field in ("pattern", "behavior"))
    regex = pattern.get("Regex")
    if len(pattern) != 1 or not isinstance(regex, str):
        refuse(f"pre_tokenizer Split at {shown(pattern)}")
    if len(regex) > LONGEST_REGEX:
        refuse(f"pre_tokenizer Split with a regular expression of {len(regex)} characters")
    spelled = regex.replace("\r", "\\r").replace("\n", "\\n")
    spelled = _OTHER_SPELLINGS.get(spelled, spelled)
    code = NAMED.get(spelled)
    found = Step(code) if code is not None else _run(spelled)
    if found is None:
        refuse(f"pre_tokenizer Split with the regular expression {regex}")
    matches = (behavior.lower(), bool(step.get("invert", False)))
    everything = code is not None and code not in (DEEPSEEK3, LINE_END)
    if matches not in {("isolated", False), ("isolated", True)} and not (
        everything and matches == ("removed", True)
    ):
        refuse(
            f"pre_tokenizer Split with behavior {behavior}, invert {step.get('invert')}, regular "
            f"expression {regex}"
        )
    lines = Step(ONE, _runs_of([(10, 10), (13, 13)]))
    if code == LINE_END and not any(
        s.code == lines.code and np.array_equal(s.members, lines.members) for s in before
    ):
        refuse(
            f"pre_tokenizer Split with the regular expression {regex} where lines were not split "
            "before"
        )  # $ is also before a line's end
    return found


def _runs_of(ranges: Iterable[tuple[int, int]]) -> np.ndarray:
    out = np.zeros(0x110000, dtype=bool)
    for first, last in ranges:
        out[first : last + 1] = True
    return out


def _byte_words(spec: dict) -> tuple[list[Step], int]:
    """(steps, flags) of the pre-tokenizer: what comes before ByteLevel sees the text, what comes
    behind it GPT-2's letters for bytes."""
    found: list[Step] = []
    level = None
    for step in steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers"):
        kind = step.get("type")
        if kind == "ByteLevel" and level is None:
            level = fields(step, "pre_tokenizer", ("add_prefix_space", "trim_offsets", "use_regex"))
            if member(level, "add_prefix_space", "pre_tokenizer") and found:
                refuse("pre_tokenizer ByteLevel with add_prefix_space behind another")
            found += [Step(GPT2)] if level.get("use_regex", True) else []
        elif kind == "Digits":
            single = member(
                fields(step, "pre_tokenizer", ("individual_digits",)),
                "individual_digits",
                "pre_tokenizer",
            )
            found.append(
                Step(ONE if single else RUN, _set("numeric"))
                if level is None
                else Step(BYTE_DIGIT if single else BYTE_DIGITS)
            )
        elif kind == "Punctuation" and level is None:
            behavior = member(
                fields(step, "pre_tokenizer", ("behavior",)), "behavior", "pre_tokenizer"
            ).lower()
            if behavior not in ("isolated", "contiguous"):
                refuse(f"pre_tokenizer Punctuation with behavior {behavior}")
            found.append(Step(ONE if behavior == "isolated" else RUN, _set("punctuation")))
        elif kind == "Split":
            found.append(_split(step, found))
            if level is not None and (found[-1].members is None or found[-1].members[128:].any()):
                refuse(
                    f"pre_tokenizer Split with the regular expression {step['pattern']['Regex']} "
                    "behind ByteLevel"
                )
        else:
            refuse(f"pre_tokenizer {kind} with BPE")
    if level is None:
        refuse("byte-level BPE without the pre_tokenizer ByteLevel")
    if len(found) > MOST_STEPS:
        refuse(f"a pre_tokenizer of {len(found)} steps")
    return found or [Step(NOTHING)], ADD_PREFIX * bool(level["add_prefix_space"])


def _classes(found: list[Step], single_words: bool) -> tuple[list[int], bytes]:
    """The steps' bytes, and the runs of the classes that they ask for."""
    bits = {
        "space": SPACE,
        "letter": LETTER,
        "number": NUMBER,
        **({"word": WORD} if single_words else {}),
    }
    codes = {step.code for step in found}
    taken = set(range(4))
    more: list[tuple[int, np.ndarray]] = []
    if codes & {O200K, TEKKEN}:
        more += [
            (UPPER_BIT, _set("upper", "mark") | (_set("letter") & ~_set("small"))),
            (LOWER_BIT, _set("mark") | (_set("letter") & ~_set("upper"))),
        ]
    if codes & {QWEN35, DEEPSEEK3}:
        more.append((MARK_BIT, _set("mark")))
    if DEEPSEEK3 in codes:
        more.append((SIGN_BIT, _set("sign", "symbol")))
    taken |= {bit for bit, _ in more}
    known = [(0, _set("space")), (1, _set("letter")), (2, _set("number")), *more]
    out = []
    for step in found:
        if step.members is None:
            out.append(step.code)
            continue
        bit = next((bit for bit, members in known if np.array_equal(members, step.members)), None)
        if bit is None:
            bit = next((bit for bit in range(CLASS_BITS) if bit not in taken), None)
            if bit is None:
                refuse("a pre_tokenizer with so many classes of characters")
            taken.add(bit)
            known.append((bit, step.members))
            more.append((bit, step.members))
        out.append(step.code | bit)
    return out, class_runs(
        bits, [(first, last, 1 << bit) for bit, members in more for first, last in _ranges(members)]
    )


def _ranges(members: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], members, [False]]).astype(np.int8)))
    return [(int(first), int(last) - 1) for first, last in zip(edges[::2], edges[1::2])]


# ---- Canonical composition
# --------------------------------------------------------------------------------------------


def canonical_map() -> tuple[bytes, bytes]:
    """Trie and strings of NFC: of a character a byte, 1 + its combining class, and its full
    decomposition if it has one; of two characters the one that they become."""
    decomposed, order = unicode.MAPS["decomposed"], unicode.MAPS["order"]
    texts = {
        chr(c).encode(): bytes([1 + ord(order.get(c, "\0"))]) + decomposed.get(c, "").encode()
        for c in sorted({*decomposed, *order})
    }
    texts.update({pair.encode(): chr(c).encode() for c, pair in unicode.MAPS["composed"].items()})
    strings = bytearray()
    places: dict[bytes, int] = {}
    for text in texts.values():
        if text not in places:
            places[text] = len(strings)
            strings += text + b"\0"
    return build_trie({key: places[text] for key, text in texts.items()}), bytes(strings)


def _composes(spec: dict) -> bool:
    kinds = [
        step.get("type") for step in steps(spec.get("normalizer"), "normalizer", "normalizers")
    ]
    if kinds not in ([], ["NFC"]):
        refuse(f"normalizer {kinds[0] if len(kinds) == 1 else kinds} with byte-level BPE")
    return bool(kinds)


def _composed(text: str) -> str:
    if unicodedata.normalize("NFC", text) != text:
        refuse(f"the added token {text!r}, which NFC changes,")
    return text


# ---- Byte-level BPE
# ---------------------------------------------------------------------------------------------------


def _alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others for letters from
    U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{chr(byte): byte for byte in plain},
        **{chr(0x100 + i): byte for i, byte in enumerate(others)},
    }


ALPHABET = _alphabet()


def _as_bytes(piece: str) -> bytes:
    """What the package's decoder makes of a token: bytes where every letter is of the alphabet,
    else the text itself."""
    try:
        return bytes(ALPHABET[c] for c in piece)
    except KeyError:
        return piece.encode()


def _merge_pairs(merges: list) -> dict[tuple[str, str], int]:
    """The rank of each merge; of one that is there twice the package takes the last."""
    ranks = {}
    for rank, merge in enumerate(merges):
        pair = tuple(
            merge.split(" ")
            if isinstance(merge, str)
            else merge
            if isinstance(merge, (list, tuple))
            else ()
        )
        if len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise TokenizerError(f"model.merges: {shown(merge)} is not a pair")
        ranks[pair] = rank
    return ranks


def _byte_ids(model: dict, vocabulary: Vocabulary) -> list[int]:
    """The id of each byte; one that the vocabulary lacks is unknown, or dropped where there is no
    unknown token."""
    ids = {byte: vocabulary.of_model.get(letter) for letter, byte in ALPHABET.items()}
    unknown = model.get("unk_token")
    if None in ids.values() and model.get("byte_fallback"):
        refuse("model.byte_fallback with bytes that the vocabulary lacks")
    if None in ids.values() and unknown is not None:
        if model.get("fuse_unk"):
            refuse("model.fuse_unk with bytes that the vocabulary lacks")
        if unknown not in vocabulary.of_model:
            raise TokenizerError(f"model.unk_token {shown(unknown)} is not in the vocabulary")
        ids = {
            byte: vocabulary.of_model[unknown] if id_ is None else id_ for byte, id_ in ids.items()
        }
    return [NO_ID if ids[byte] is None else ids[byte] for byte in range(256)]


def _put_merges(
    section: Section, model: dict, ids: list[int], reachable: Callable[[str], bool]
) -> None:
    """The ids of bytes; the merges by (left, right) with their ranks, then the results by rank,
    those that no text can reach left out; of many merges, where those of each left part begin."""
    vocabulary = section.vocabulary
    rows, results = [], []
    for (left, right), _ in sorted(
        _merge_pairs(member(model, "merges", "model")).items(), key=lambda item: item[1]
    ):
        for piece in (left, right, left + right):
            if piece not in vocabulary.of_model:
                raise TokenizerError(f"model.merges: {piece!r} is not in the vocabulary")
        if reachable(left + right):
            rows.append((vocabulary.of_model[left], vocabulary.of_model[right], len(rows)))
            results.append(vocabulary.of_model[left + right])
    section.merges = len(rows)
    rows.sort()
    section.model_data = b"".join(
        np.array(part, dtype="<u4").tobytes() for part in (ids, rows, results)
    )
    if len(rows) >= INDEX_FROM:
        section.flags |= MERGE_INDEX
        section.model_data += (
            np.searchsorted(np.array(rows)[:, 0], np.arange(vocabulary.count() + 1))
            .astype("<u4")
            .tobytes()
        )


def _of_alphabet(piece: str) -> bool:
    return all(c in ALPHABET for c in piece)


def _unknown(section: Section, model: dict, as_bytes: Callable[[str], bytes]) -> None:
    unknown = model.get("unk_token")
    if unknown is None:
        return
    section.unknown = section.vocabulary.of_model.get(unknown)
    if section.unknown is None:
        raise TokenizerError(f"model.unk_token {unknown!r} is not in the vocabulary")
    section.surface = b"" if unknown in section.vocabulary.special else as_bytes(unknown)


def _model(spec: dict) -> dict:
    model = fields(
        spec["model"],
        "model",
        (
            "dropout",
            "unk_token",
            "continuing_subword_prefix",
            "end_of_word_suffix",
            "fuse_unk",
            "byte_fallback",
            "ignore_merges",
            "vocab",
            "merges",
        ),
    )
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            refuse(f"model.{name} {model[name]!r}")
    return model


def _build_byte_bpe(spec: dict) -> tuple[bytes, Vocabulary, int | None]:
    model = _model(spec)
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    section = Section(MODEL_BYTE_BPE, vocabulary)
    found, section.flags = _byte_words(spec)
    composes = _composes(spec)
    section.flags |= COMPOSE * composes | WHOLE_WORDS * bool(model.get("ignore_merges"))
    _unknown(section, model, _as_bytes)
    _put_merges(section, model, _byte_ids(model, vocabulary), _of_alphabet)
    section.expansion = 1
    if composes:
        section.trie, section.strings = canonical_map()
        section.expansion = max(
            -(-len(text.encode()) // len(chr(c).encode()))
            for c, text in unicode.MAPS["decomposed"].items()
        )
        section.longest_rule = 8
    codes, section.runs = _classes(found, vocabulary.single_words())
    section.rule, section.more_steps = codes[0], codes[1:]
    section.added = vocabulary.rows(_composed if composes else str)

    def marks(piece: str) -> int:
        return (
            WHOLE
            if section.flags & WHOLE_WORDS and piece in vocabulary.of_model and _of_alphabet(piece)
            else 0
        )

    return section.bytes(section.pieces(_as_bytes, marks)), vocabulary, section.unknown


def _is_byte_level(spec: dict) -> bool:
    decoders = [step.get("type") for step in steps(spec.get("decoder"), "decoder", "decoders")]
    if "ByteLevel" in decoders and len(decoders) > 1:
        refuse(f"decoder {decoders}")
    kinds = [
        step.get("type")
        for step in steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    ]
    if "ByteLevel" in kinds and decoders != ["ByteLevel"]:
        refuse(f"decoder {decoders[0] if len(decoders) == 1 else decoders} with byte-level BPE")
    return decoders == ["ByteLevel"]


def build_bpe(spec: dict) -> tuple[bytes, Vocabulary, int | None]:
    return _build_byte_bpe(spec) if _is_byte_level(spec) else _build_char_bpe(spec)


# ---- BPE of characters
# ---------------------------------------------------------------------------------------------------


BYTE_PIECES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
_REPLACE_SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": META}
_PREPEND = {"type": "Prepend", "prepend": META}
_DECODERS = [
    {"type": "Replace", "pattern": {"String": META}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def _escaping(spec: dict) -> int:
    """The flags of what makes ▁ of spaces and begins words: the normaliser, or Metaspace behind
    it."""
    normalizers = steps(spec.get("normalizer"), "normalizer", "normalizers")
    words = steps(spec.get("pre_tokenizer"), "pre_tokenizer", "pretokenizers")
    for step in normalizers:
        if step not in (_REPLACE_SPACE, _PREPEND):
            refuse(
                f"normalizer {step.get('type')} {step.get('pattern', '')} with BPE of characters"
            )
    if normalizers:
        if normalizers.count(_REPLACE_SPACE) != 1 or normalizers.count(_PREPEND) > 1:
            refuse(
                f"normalizer {[step.get('type') for step in normalizers]} with BPE of characters"
            )
        for step in words:  # no space is left at which it could cut
            if (
                step.get("type") != "Split"
                or step.get("pattern") != {"String": " "}
                or step.get("invert")
            ):
                refuse(f"pre_tokenizer {step.get('type')} behind a normalizer that replaces spaces")
        return ESCAPE_FIRST | ADD_PREFIX * (_PREPEND in normalizers)
    if [step.get("type") for step in words] != ["Metaspace"]:
        refuse(f"pre_tokenizer {[step.get('type') for step in words]} with BPE of characters")
    scheme, cut = metaspace(words[0], "pre_tokenizer")
    return {"always": ADD_PREFIX, "first": ADD_PREFIX | PREFIX_FIRST, "never": 0}[
        scheme
    ] | CUT_AT_EACH * bool(cut)


def _char_decoder(spec: dict, byte_fallback: bool) -> int:
    found = steps(spec.get("decoder"), "decoder", "decoders")
    known = (
        _DECODERS
        if byte_fallback
        else [step for step in _DECODERS if step["type"] != "ByteFallback"]
    )
    if found not in (known, [*known, _STRIP]):
        refuse(f"decoder {[step.get('type') for step in found]} with BPE of characters")
    return DROP_FIRST_SPACE * (_STRIP in found)


def _build_char_bpe(spec: dict) -> tuple[bytes, Vocabulary, int | None]:
    model = _model(spec)
    if model.get("ignore_merges"):
        refuse("model.ignore_merges with BPE of characters")
    vocabulary = Vocabulary(
        member(model, "vocab", "model"), spec["added_tokens"], spec.get("pieces")
    )
    fallback = bool(model.get("byte_fallback"))
    if fallback and not BYTE_PIECES <= vocabulary.of_model.keys():
        refuse("model.byte_fallback with bytes that the vocabulary lacks")
    section = Section(MODEL_CHAR_BPE, vocabulary)
    section.flags = (
        _escaping(spec)
        | _char_decoder(spec, fallback)
        | BYTE_FALLBACK * fallback
        | FUSE_UNKNOWN * bool(model.get("fuse_unk"))
    )
    section.byte_pieces = BYTE_PIECES if fallback else frozenset()
    _unknown(section, model, str.encode)
    # Where no merge goes over the beginning of a word, words can be merged one by one.
    if META in vocabulary.of_model and not any(
        META in (left + right).lstrip(META)
        for left, right in _merge_pairs(member(model, "merges", "model"))
    ):
        section.flags |= CUT_AT_SPACES
    ids = [vocabulary.of_model[f"<0x{byte:02X}>"] if fallback else NO_ID for byte in range(256)]
    _put_merges(section, model, ids, lambda piece: True)
    escapes = bool(section.flags & ESCAPE_FIRST)
    section.expansion = 3 if escapes else 1
    section.runs = class_runs(
        {"space": SPACE, **({"word": WORD} if vocabulary.single_words() else {})}
    )
    prefix = META if section.flags & ADD_PREFIX else ""
    section.added = vocabulary.rows(
        (lambda text: prefix + text.replace(" ", META)) if escapes else str
    )
    return section.bytes(section.pieces(str.encode, lambda piece: 0)), vocabulary, section.unknown


# ---- Vocabularies of other sources (GGUF)
# --------------------------------------------------------------------------------


def split(regex: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex: bool, prefix: bool = False) -> dict:
    return {
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


DIGITS = {"type": "Digits", "individual_digits": True}
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Cased letters, by their code points: some look like others, and an editor may compose them.
_CASED_LETTERS = (
    "b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c "
    "38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 "
    "10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 "
    "1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 "
    "1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb "
    "1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 "
    "210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e "
    "2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee "
    "2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 "
    "ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
_DEEPSEEK_LETTERS = (
    r"\s?[A-Za-z"
    + "".join("-".join(chr(int(c, 16)) for c in run.split("-")) for run in _CASED_LETTERS.split())
    + "]+"
)
_DEEPSEEK_LLM = [
    split(r"[\r\n]"),
    split(_DEEPSEEK_LETTERS),
    split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
    split(r"\s+$"),
    split(_CJK),
]


class Pre(NamedTuple):
    """A pre-tokenizer as GGUF names it: the steps of the model's tokenizer.json, whether it
    composes (NFC), whether words that are pieces stay whole."""

    steps: list[dict]
    nfc: bool = False
    whole_words: bool = False


def _named(pre: Pre, *names: str) -> dict[str, Pre]:
    return dict.fromkeys(names, pre)


_LEVEL, _WORDS_LEVEL = byte_level(False), byte_level(True)
_OF_LLAMA3, _OF_QWEN2 = [split(LLAMA3_REGEX), _LEVEL], [split(QWEN2_REGEX), _LEVEL]
PRE_TOKENIZERS: dict[str, Pre] = {
    **_named(
        Pre([_WORDS_LEVEL]),
        "gpt-2",
        "phi-2",
        "jina-es",
        "jina-de",
        "jina-v2-es",
        "jina-v2-de",
        "gigachat",
        "roberta-bpe",
        "jina-v1-en",
        "jais",
        "mellum",
        "modern-bert",
        "a.x-4.0",
    ),
    **_named(Pre([_WORDS_LEVEL], nfc=True), "olmo", "mpt"),
    **_named(
        Pre(_OF_LLAMA3, whole_words=True),
        "llama-bpe",
        "llama3",
        "llama-v3",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
    ),
    **_named(Pre(_OF_LLAMA3), "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
    **_named(Pre(_OF_QWEN2, nfc=True), "qwen2", "stablelm2"),
    **_named(Pre(_OF_QWEN2), "deepseek-r1-qwen", "megrez", "hunyuan"),
    **_named(Pre([split(QWEN35_REGEX), _LEVEL], nfc=True), "qwen35"),
    **_named(
        Pre([DIGITS, _WORDS_LEVEL]),
        "smollm",
        "starcoder",
        "refact",
        "codeshell",
        "exaone",
        "minerva-7b",
    ),
    **_named(Pre([DIGITS, _WORDS_LEVEL], nfc=True), "command-r"),
    **_named(Pre([*_DEEPSEEK_LLM, DIGITS, _LEVEL]), "deepseek-llm"),
    **_named(
        Pre(
            [
                split(r"[\r\n]"),
                split(r"\s?\p{L}+"),
                split(r"\s?\p{P}+"),
                split(_CJK),
                DIGITS,
                _LEVEL,
            ]
        ),
        "deepseek-coder",
    ),
    **_named(
        Pre(
            [
                split(r"\p{N}{1,3}"),
                split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                split(DEEPSEEK3_REGEX),
                _LEVEL,
            ]
        ),
        "deepseek-v3",
        "hunyuan-dense",
    ),
    **_named(
        Pre(
            [
                {"type": "Punctuation", "behavior": "Contiguous"},
                _WORDS_LEVEL,
                {"type": "Digits", "individual_digits": False},
                split("[0-9][0-9][0-9]"),
            ]
        ),
        "falcon",
    ),
    **_named(Pre([split(TEKKEN_REGEX), _LEVEL], whole_words=True), "tekken"),
    **_named(Pre([split(O200K_REGEX), _LEVEL]), "gpt-4o", "llama4"),
    **_named(Pre([split(_BLOOM), _LEVEL]), "bloom", "poro-chat", "gpt3-finnish"),
    **_named(Pre([split(_BLOOM), DIGITS, _LEVEL]), "viking"),
    **_named(Pre([split(SEED_REGEX), _LEVEL]), "seed-coder"),
    # What llama.cpp does where a file names none.
    **_named(
        Pre(
            [
                split(r"[\p{P}\$\+<=>\^~\|]+"),
                split(GPT2_REGEX),
                split(r"\p{N}+"),
                split("[0-9][0-9][0-9]"),
                _LEVEL,
            ]
        ),
        "default",
    ),
}


def build_bpe_section(
    pieces: list[str],
    merges: list,
    *,
    pre: str = "default",
    types: list[int] | None = None,
    nfc: bool | None = None,
    whole_words: bool | None = None,
    add_prefix_space: bool = False,
    unknown_id: int | None = None,
) -> bytes:
    """Builds the section for a byte-level BPE vocabulary as GGUF has it ("gpt2" models).

    pieces: texts by id, in GPT-2's letters for bytes; merges: "left right" or pairs, earliest
    first; types: GGUF's token types (1 normal, 2 unknown, 3 control, 4 user defined, 5 unused):
    control and user-defined pieces are found in the text as they are, before the model sees it, and
    control pieces decode to nothing. pre is tokenizer.ggml.pre, a key of PRE_TOKENIZERS; it also
    says whether text is composed first (nfc) and whether a word that is a piece stays whole
    (whole_words, tokenizer.json's ignore_merges), which may be given in its place. Raises
    TokenizerError, naming the thing, for what is not known.
    """
    if pre not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"the pre-tokenizer {pre!r} is not supported; there are "
            f"{', '.join(sorted(PRE_TOKENIZERS))}"
        )
    known = PRE_TOKENIZERS[pre]
    kinds = [pt.NORMAL] * len(pieces) if types is None else list(types)
    if len(kinds) != len(pieces):
        raise TokenizerError(f"there are {len(pieces)} pieces and {len(kinds)} types")
    words = [dict(step) for step in known.steps]
    if add_prefix_space:
        words = [
            {**step, "add_prefix_space": True} if step["type"] == "ByteLevel" else step
            for step in words
        ]
    vocabulary: dict[str, int] = {}
    added = []
    for id_, (piece, kind) in enumerate(zip(pieces, kinds)):
        if kind not in (pt.NORMAL, pt.UNKNOWN, pt.CONTROL, pt.USER_DEFINED, pt.UNUSED):
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) has type {kind}, which a byte-level vocabulary does "
                "not have"
            )
        if kind == pt.UNUSED:
            continue
        if piece in vocabulary:
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) is already defined as piece {vocabulary[piece]}"
            )
        vocabulary[piece] = id_
        if kind in (pt.CONTROL, pt.USER_DEFINED):
            added.append(
                {
                    "id": id_,
                    "content": piece,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": kind == pt.CONTROL,
                }
            )
    spec = {
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if (known.nfc if nfc is None else nfc) else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "unk_token": None if unknown_id is None else pieces[unknown_id],
            "vocab": vocabulary,
            "merges": merges,
            "ignore_merges": known.whole_words if whole_words is None else whole_words,
        },
    }
    return _build_byte_bpe_of(spec, len(pieces))


def _build_byte_bpe_of(spec: dict, count: int) -> bytes:
    try:
        return _build_byte_bpe({**spec, "pieces": count})[0]
    except (KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"the vocabulary: a part is missing or of another kind than it should be: {error}"
        ) from error


def build_sentencepiece_like(
    pieces: list[str | bytes],
    scores: list[float],
    types: list[int],
    *,
    model: str = "bpe",
    add_space_prefix: bool = True,
    remove_extra_whitespaces: bool = False,
    escape_whitespaces: bool = True,
    charsmap: bytes = b"",
    unknown_surface: bytes = b" \xe2\x81\x87 ",
    find_control: bool = False,
) -> bytes:
    """Builds the section for a SentencePiece vocabulary as GGUF has it ("llama": model "bpe"; "t5":
    model "unigram").

    pieces, scores, types by id, the types SentencePiece's (which are GGUF's); byte fallback where
    there are byte pieces. Control pieces are not looked for in the text, user-defined ones are.
    Encoding gives the ids of the `sentencepiece` package. With find_control, which a chat template
    asks for, both are found in the text, as in the tokenizer.json that transformers makes of such a
    vocabulary: the section is model 7, the merges all pairs of pieces that make a piece, the best
    score first, and each stretch between them gets the prefix (model "bpe" without a map only).
    Raises TokenizerError, naming the thing.
    """
    if not len(pieces) == len(scores) == len(types):
        raise TokenizerError(
            f"there are {len(pieces)} pieces, {len(scores)} scores and {len(types)} types"
        )
    rows = [
        (piece if isinstance(piece, bytes) else piece.encode(), float(score), int(kind))
        for piece, score, kind in zip(pieces, scores, types)
    ]
    if model not in ("bpe", "unigram"):
        raise TokenizerError(f"model {model!r}: there are bpe and unigram")
    if find_control:
        if model != "bpe" or charsmap or remove_extra_whitespaces or not escape_whitespaces:
            refuse(
                "find_control with a unigram model, a map, or white space that is removed or not "
                "escaped"
            )
        return _build_llama(
            [text.decode() for text, _, _ in rows],
            [score for _, score, _ in rows],
            [kind for _, _, kind in rows],
            add_space_prefix,
        )
    return pt.build_proto_section(
        {
            "pieces": rows,
            "model_type": 2 if model == "bpe" else 1,
            "byte_fallback": any(kind == pt.BYTE for _, _, kind in rows),
            "suffix": False,
            "unknown_surface": unknown_surface,
            "charsmap": charsmap,
            "dummy_prefix": add_space_prefix,
            "remove_extra": remove_extra_whitespaces,
            "escape": escape_whitespaces,
        }
    )


def _merges_of(pieces: list[str], scores: list[float], types: list[int]) -> list[tuple[str, str]]:
    """All pairs of pieces that make a piece, the best score first; of equal scores in the order of
    transformers' conversion."""
    ids = {piece: id_ for id_, (piece, kind) in enumerate(zip(pieces, types)) if kind == pt.NORMAL}
    found = []
    if not all(np.isfinite(scores)):
        raise TokenizerError("a score is not finite")
    for piece, id_ in ids.items():
        if len(piece) > LONGEST_ADDED // 2:  # as many pairs as characters are tried
            raise TokenizerError(
                f"piece {id_} has {len(piece)} characters, expected at most {LONGEST_ADDED // 2}"
            )
        pairs = [
            (piece[:i], piece[i:])
            for i in range(1, len(piece))
            if piece[:i] in ids and piece[i:] in ids
        ]
        found += [
            (scores[id_], len(left), len(right), left, right)
            for left, right in sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        ]
    found.sort(key=lambda merge: merge[:3], reverse=True)
    return [(left, right) for *_, left, right in found]


def _build_llama(pieces: list[str], scores: list[float], types: list[int], prefix: bool) -> bytes:
    unknown = [piece for piece, kind in zip(pieces, types) if kind == pt.UNKNOWN]
    if len(unknown) != 1:
        raise TokenizerError(f"there are {len(unknown)} unknown pieces, expected one")
    vocabulary: dict[str, int] = {}
    for id_, (piece, kind) in enumerate(zip(pieces, types)):
        if piece in vocabulary:
            raise TokenizerError(
                f"piece {id_} ({shown(piece)}) is already defined as piece {vocabulary[piece]}"
            )
        if kind != pt.UNUSED:
            vocabulary[piece] = id_
    added = [
        {
            "id": id_,
            "content": piece,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind != pt.USER_DEFINED,
        }
        for id_, (piece, kind) in enumerate(zip(pieces, types))
        if kind in (pt.UNKNOWN, pt.CONTROL, pt.USER_DEFINED)
    ]
    fallback = pt.BYTE in types
    decoders = [step for step in _DECODERS if fallback or step["type"] != "ByteFallback"]
    return _build_char_bpe(
        {
            "pieces": len(pieces),
            "added_tokens": added,
            "normalizer": {
                "type": "Sequence",
                "normalizers": [_PREPEND] * prefix + [_REPLACE_SPACE],
            },
            "decoder": {"type": "Sequence", "decoders": decoders + [_STRIP] * prefix},
            "model": {
                "type": "BPE",
                "unk_token": unknown[0],
                "fuse_unk": True,
                "byte_fallback": fallback,
                "vocab": vocabulary,
                "merges": _merges_of(pieces, scores, types),
            },
        }
    )[0]
