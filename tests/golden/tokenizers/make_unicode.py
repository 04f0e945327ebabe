"""Writes tools/phasor/tokenizers/unicode.py: what the `tokenizers` package makes of every code
point, asked from the package itself.

The package mixes several versions of Unicode (each of its libraries has its own), and none is
Python's, so the table is neither Python's nor computed, but for what cases() has. Needs the
tokenizers package (0.22.2 was used). From the repository's root:

    python tests/golden/tokenizers/make_unicode.py
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))
TABLE = HERE.parents[2] / "tools" / "phasor" / "tokenizers" / "unicode.py"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)
BREAK = "\U000e0001"  # a control: a cluster ends before it and behind it

BEGIN, END = (
    '_TABLE = r"""\n',
    '\n"""\n',
)  # of the table in that file, whose other lines stay as they are


def runs(code_points: set[int]) -> list[tuple[int, int]]:
    out: list[list[int]] = []
    for c in sorted(code_points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return [tuple(run) for run in out]


def probe() -> tuple[dict[str, set[int]], dict[str, dict[int, str]]]:
    """The sets and maps of the package that is installed."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

    def bert(**on):
        options = dict(
            clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False
        )
        return normalizers.BertNormalizer(**{**options, **on}).normalize_str

    sets: dict[str, set[int]] = {
        name: set() for name in ("space", "letter", "number", "punctuation")
    }
    clean, pad, strip, lower = (
        bert(clean_text=True),
        bert(handle_chinese_chars=True),
        bert(strip_accents=True),
        bert(lowercase=True),
    )
    sets["removed"] = {c for c in CODE_POINTS if clean(chr(c)) == ""}
    sets["padded"] = {c for c in CODE_POINTS if pad(chr(c)) != chr(c)}
    stripped = {c: text for c in CODE_POINTS if (text := strip(chr(c))) != chr(c)}
    lowered = {c: text for c in CODE_POINTS if (text := lower(chr(c))) != chr(c)}
    sets["vanished"] = {c for c, text in stripped.items() if text == ""}
    sets["reordered"] = reordered(normalizers.NFD().normalize_str) - sets["vanished"]
    for c in HANGUL:
        assert stripped.pop(c) == hangul(c)

    bert_words, byte_words = (
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    for c in CODE_POINTS:
        stretches = [offsets for _, offsets in bert_words.pre_tokenize_str("a" + chr(c) + "b")]
        if stretches == [(0, 1), (2, 3)]:
            sets["space"].add(c)
        elif stretches == [(0, 1), (1, 2), (2, 3)]:
            sets["punctuation"].add(c)
        else:
            assert stretches == [(0, 3)]
        stretches = [offsets for _, offsets in byte_words.pre_tokenize_str("a" + chr(c) + "1")]
        if stretches == [(0, 2), (2, 3)]:
            sets["letter"].add(c)
        elif stretches == [(0, 1), (1, 3)] and c != 0x20:
            sets["number"].add(c)
    assert sets["space"] == space_of(byte_words, sets)

    tokenizer = Tokenizer(models.WordLevel({"[U]": 0}, "[U]"))
    tokenizer.add_tokens([AddedToken("q", single_word=True, normalized=False)])
    for beside in (lambda c: chr(c) + "q", lambda c: "q" + chr(c)):
        encodings = tokenizer.encode_batch([beside(c) for c in CODE_POINTS])
        word = {c for c, encoding in zip(CODE_POINTS, encodings) if len(encoding.ids) == 1}
        assert sets.setdefault("word", word) == word
    sets = {name: sets[name] - ({ord("q")} if name == "word" else set()) for name in sets}
    sets["word"].add(ord("q"))
    sets.update(clusters())
    sets.update(categories(sets))
    sets.update(cases())
    sets.update(scripts())
    accents = normalizers.StripAccents().normalize_str
    sets["accent"] = {c for c in CODE_POINTS if accents(chr(c)) != chr(c)}
    assert all(accents(chr(c)) == "" for c in sets["accent"])
    small = normalizers.Lowercase().normalize_str
    assert lowered == {c: text for c in CODE_POINTS if (text := small(chr(c))) != chr(c)}
    maps = {
        "stripped": {c: text for c, text in stripped.items() if text},
        "lower": lowered,
        **canonical(normalizers),
    }
    maps["compatible"] = compatible(normalizers, maps)
    return sets, maps


def compatible(normalizers, maps: dict[str, dict[int, str]]) -> dict[int, str]:
    """NFKD, where it makes of a character something else than NFD; NFKD of a text orders the marks
    as NFD does."""
    decompose = normalizers.NFKD().normalize_str
    assert all(decompose(chr(c)) == hangul(c) for c in HANGUL)
    assert reordered(decompose) == reordered(normalizers.NFD().normalize_str)
    assert reordered(decompose) >= {*maps["order"]}
    return {
        c: text
        for c in CODE_POINTS
        if c not in HANGUL and (text := decompose(chr(c))) != maps["decomposed"].get(c, chr(c))
    }


def categories(sets: dict[str, set[int]]) -> dict[str, set[int]]:
    """What the package's regular expressions and its Digits know of categories."""
    from tokenizers import Regex, pre_tokenizers

    text = "".join(map(chr, CODE_POINTS))

    def matching(pattern: str) -> set[int]:
        found = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
        return {ord(c) for stretch, _ in found for c in stretch}

    assert (
        matching(r"\p{L}") == sets["letter"]
        and matching(r"\p{N}") == sets["number"]
        and matching(r"\s") == sets["space"]
    )
    upper, lower, other = (
        matching(r"[\p{Lu}\p{Lt}]"),
        matching(r"\p{Ll}"),
        matching(r"[\p{Lm}\p{Lo}]"),
    )
    assert upper | lower | other == sets["letter"] and len(upper) + len(lower) + len(other) == len(
        sets["letter"]
    )
    found = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(
        "".join(f"a{c}a" for c in text if c != "a")
    )
    return {
        "mark": matching(r"\p{M}"),
        "sign": matching(r"\p{P}"),
        "symbol": matching(r"\p{S}"),
        "upper": upper,
        "small": lower,
        "numeric": {ord(stretch) for stretch, _ in found if len(stretch) == 1 and stretch != "a"},
    }


def scripts() -> dict[str, set[int]]:
    """The characters of each script as UnicodeScripts has them; in none is what it takes to any."""
    from tokenizers import pre_tokenizers

    cut = pre_tokenizers.UnicodeScripts().pre_tokenize_str
    text = "".join(chr(c) for c in CODE_POINTS if cut(chr(c)))
    groups: list[str] = []
    for stretch, _ in cut(text):
        for i, group in enumerate(groups):
            if len(cut(group[0] + stretch[0])) == 1:
                groups[i] += stretch
                break
        else:
            groups.append(stretch)
    return {f"script {i:03}": set(map(ord, group)) for i, group in enumerate(groups)}


def cases() -> dict[str, set[int]]:
    """What Python's lower() asks of the neighbors of a capital sigma, asked from Python itself
    (3.11): it is a final one behind a letter with a case, and before none."""
    cased = {c for c in CODE_POINTS if (chr(c) + "\u03a3").lower().endswith("\u03c2")}
    behind = {c for c in CODE_POINTS if ("a" + chr(c) + "\u03a3").lower().endswith("\u03c2")}
    return {"cased": cased, "passed_over": behind - cased}


def canonical(normalizers) -> dict[str, dict[int, str]]:
    """Canonical decomposition, composition and order (Unicode, 3.11), without the syllables of
    Hangul.

    Orders are Python's numbers where the package has the same order: between every character that
    it moves and one of each number.
    """
    import unicodedata

    decompose, compose = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    decomposed = {
        c: text for c in CODE_POINTS if c not in HANGUL and (text := decompose(chr(c))) != chr(c)
    }
    composed = {}
    for c, text in decomposed.items():
        if compose(text) == chr(c):
            pairs = {compose(text[:i]) + compose(text[i:]) for i in range(1, len(text))}
            (pair,) = (p for p in pairs if len(p) == 2 and compose(p) == chr(c))
            composed[c] = pair
    moved = {
        c
        for c in CODE_POINTS
        if c not in decomposed
        and (
            decompose(chr(c) + "\u0334") == "\u0334" + chr(c)
            or decompose("\u0345" + chr(c)) == chr(c) + "\u0345"
        )
    }
    order = {c: unicodedata.combining(chr(c)) for c in moved}
    one_of = {number: chr(c) for c, number in order.items()}
    for c, number in order.items():
        for other, mark in one_of.items():
            assert decompose(mark + chr(c)) == (
                chr(c) + mark if number < other else mark + chr(c)
            ), f"{c:x} {other}"
    return {
        "decomposed": decomposed,
        "composed": composed,
        "order": {c: chr(number) for c, number in order.items()},
    }


def hangul(c: int) -> str:
    """The canonical decomposition of a Hangul syllable (Unicode, 3.12)."""
    index = c - 0xAC00
    parts = [0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28]
    return "".join(chr(p) for p in parts if p != 0x11A7)


def reordered(decompose) -> set[int]:
    """Characters of a canonical combining class: one of class 1 or 240 changes places with them."""
    low, high = "\u0334", "\u0345"
    return {
        c
        for c in CODE_POINTS
        if decompose(chr(c)) == chr(c)
        and (decompose(chr(c) + low) == low + chr(c) or decompose(high + chr(c)) == chr(c) + high)
    }


def space_of(byte_words, sets: dict[str, set[int]]) -> set[int]:
    """White space of the byte-level rule: what is neither letter nor number and does not join a
    sign."""
    out = set()
    for c in CODE_POINTS:
        if c in sets["letter"] or c in sets["number"]:
            continue
        stretches = [offsets for _, offsets in byte_words.pre_tokenize_str("!" + chr(c) + "1")]
        if stretches != [(0, 2), (2, 3)]:
            out.add(c)
    return out


def clusters() -> dict[str, set[int]]:
    """The classes of annex 29, as far as Precompiled can show them.

    It replaces a whole cluster of less than 6 bytes by what its first characters become, and goes
    by characters in a longer one. Here all characters of up to 3 bytes become "<", and U+0301
    becomes nothing else: so it is gone where it ends a short cluster.
    """
    from tokenizers import normalizers

    from phasor.tokenizers.charsmap import build_trie

    acute, heart, joiner, ka, virama = "\u0301", "\u2764", "\u200d", "\u0915", "\u094d"
    trie = build_trie(
        {
            chr(c).encode(): 0
            for c in range(1, 0x10000)
            if not 0xD800 <= c <= 0xDFFF and chr(c) != acute
        }
    )
    normalize = normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + b"<\0").normalize_str
    assert normalize("a" + BREAK + "\u0300" + acute) == "<" + BREAK + "<"  # a control
    others = [c for c in CODE_POINTS if c != 0 and chr(c) != acute and chr(c) != BREAK]

    def normalized(text) -> list[tuple[int, str]]:
        """What each of the others becomes in its text. Many texts go into one call, with a
        character between them that ends every cluster and stays as it is."""
        out = []
        for first in range(0, len(others), 1 << 14):
            some = others[first : first + (1 << 14)]
            found = normalize(BREAK.join(text(chr(c)) for c in some)).split(BREAK)
            out += zip(some, found, strict=True)
        return out

    def kept(text) -> set[int]:
        return {c for c, found in normalized(text) if acute in found}

    def kept_or_one(text) -> set[int]:
        return {c for c, found in normalized(text) if acute in found or found == "<"}

    joined = kept_or_one(lambda c: "a" + acute + c) | {ord(acute)}
    prepend = kept_or_one(lambda c: c + "a" + acute)
    trailing = kept(lambda c: c + "\u11a8" + acute) - prepend
    leading = kept(lambda c: c + "\u1161" + acute) - prepend
    # A mark of 3 or more bytes, or one that goes on with a virama, is in clusters that are longer
    # than 5 bytes.
    extend = (kept(lambda c: heart + c + joiner + heart + acute) & joined) | {ord(acute)}
    conjunct = (kept(lambda c: ka + c + virama + ka + acute) & joined) | {ord(acute)}
    linker = kept(lambda c: ka + c + ka + acute) & joined
    syllables, zwj = set(HANGUL), {ord(joiner)}
    assert zwj <= conjunct and not zwj & linker and linker <= extend
    # Old vowels of 4 bytes cannot be told from syllables by what follows them; they are none.
    return {
        "control": {
            c
            for c, found in normalized(lambda c: c + "\u0300" + acute)
            if found == ("<" if c < 0x10000 else chr(c)) + "<"
        }
        - {0x0A, 0x0D}
        | {0, ord(BREAK)},
        "extend": extend - conjunct - linker - zwj,
        "extend_conjunct": (extend & conjunct) - linker - zwj,
        "linker": linker,
        "spacing": joined - extend - zwj,
        "prepend": prepend,
        "leading": leading - trailing,
        "vowel": (leading & trailing) - syllables,
        "trailing": trailing - leading - syllables,
        "pictographic": kept(lambda c: c + joiner + heart + acute) - joined - prepend,
        "consonant": kept(lambda c: c + virama + ka + acute) - joined - prepend,
    }


def write(sets: dict[str, set[int]], maps: dict[str, dict[int, str]]) -> str:
    lines = [
        f"{name}:" + " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in runs(sets[name]))
        for name in sorted(sets)
    ]
    lines += [
        f"{name}:"
        + " ".join(
            f"{c:x}=" + "+".join(f"{ord(x):x}" for x in text)
            for c, text in sorted(maps[name].items())
        )
        for name in sorted(maps)
    ]
    packed = base64.b85encode(zlib.compress("\n".join(lines).encode("ascii"), 9)).decode("ascii")
    before, rest = TABLE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END, 1)[1]
    return (
        before
        + BEGIN
        + "\n".join(packed[i : i + 100] for i in range(0, len(packed), 100))
        + END
        + after
    )


if __name__ == "__main__":
    TABLE.write_text(write(*probe()), encoding="utf-8")
