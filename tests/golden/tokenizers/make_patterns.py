"""Writes tools/phasor/tokenizers/patterns/unicode.py: what Oniguruma in the `tokenizers` package
and fancy-regex in `tiktoken` know of Unicode, asked from both engines.

Needs tokenizers (0.22.2 was used), tiktoken (0.14.0) and the regex module, whose names of
categories, scripts and properties are tried. From the repository's root:

    python tests/golden/tokenizers/make_patterns.py
"""

from __future__ import annotations

import base64
import functools
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[2] / "tools" / "phasor" / "tokenizers" / "patterns" / "unicode.py"


def _asked(c: int) -> bool:
    """Planes 4 to 13 have no characters, 15 and 16 private ones, 14 few: there one of 256 is asked,
    and the ends of each plane; the others are as their neighbors."""
    if 0xD800 <= c < 0xE000:
        return False
    return c < 0x40000 or 0xE0000 <= c < 0xE2000 or c % 256 == 0 or c % 0x10000 >= 0xFFFD


CODE_POINTS = [c for c in range(0x110000) if _asked(c)]
EVERY = "".join(map(chr, CODE_POINTS))
PLANES = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
BEGIN, END = '_TABLE = r"""\n', '\n"""\n'
PROPERTIES = """alphabetic lowercase uppercase whitespace cased caseignorable math dash hyphen
    emoji emojicomponent emojimodifier emojimodifierbase emojipresentation extendedpictographic
    ideographic unifiedideograph radical hexdigit asciihexdigit joincontrol diacritic extender
    idstart idcontinue xidstart xidcontinue quotationmark regionalindicator variationselector
    defaultignorablecodepoint noncharactercodepoint terminalpunctuation sentenceterminal
    softdotted patternsyntax patternwhitespace graphemebase graphemeextend""".split()
POSIX = "alnum alpha blank cntrl digit graph lower print punct space upper xdigit word".split()


@functools.lru_cache
def _normalized(text: str):
    from tokenizers import NormalizedString

    return NormalizedString(text)


def oniguruma(pattern: str, text: str = EVERY) -> list[str] | None:
    """What a text has between the matches of a pattern; None: it is no pattern."""
    from tokenizers import Regex

    try:
        regex = Regex(pattern)
    except Exception:
        return None
    return [stretch.normalized for stretch in _normalized(text).split(regex, "removed")]


def fancy(pattern: str, text: str = EVERY) -> str | None:
    """The characters of all matches."""
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    try:
        encoding = tiktoken.Encoding(
            "bytes", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )
    except ValueError:
        return None
    return bytes(encoding.encode_ordinary(text)).decode()


def members(inside: str, text: str) -> frozenset[int] | None:
    """The characters of a text that are of a class, in Oniguruma."""
    found = oniguruma(f"[^{inside}]+", text)
    if found is None:
        return None
    out = set(map(ord, "".join(found)))
    for c, then in zip(CODE_POINTS, CODE_POINTS[1:]):
        if then > c + 1 and c in out and then in out and c >> 16 > 3:
            out.update(range(c, then))
    return frozenset(out)


def sets() -> tuple[dict[str, frozenset[int]], dict[str, str]]:
    """(sets by name, those of fancy-regex where they are others behind a "~"; other name → name).

    fancy-regex is asked at both ends of every run of every set of Oniguruma, and for the whole set
    where they differ."""
    from regex._regex_core import PROPERTIES as known

    found: dict[str, frozenset[int]] = {}
    names: dict[str, str] = {}
    spelled: dict[str, str] = {}

    def add(name: str, inside: str, text: str = EVERY) -> bool:
        ours = members(inside, text)
        if ours is not None:
            found[name], spelled[name] = ours, inside
        return ours is not None

    assigned = "".join(oniguruma(r"[\p{Cn}\p{Co}]+"))  # what may have a script
    for kind, prefix, text in (("GENERALCATEGORY", "gc", EVERY), ("SCRIPT", "sc", assigned)):
        values: dict[int, list[str]] = {}
        for name, value in known[kind][1].items():
            values.setdefault(value, []).append(name.lower())
        for same in values.values():
            short = min(same, key=len)
            if short in ("cs", "zzzz"):
                continue
            if any(add(f"{prefix}={short}", rf"\p{{{name}}}", text) for name in same):
                names |= {f"{prefix}={name}": f"{prefix}={short}" for name in same}
    for name in PROPERTIES:
        if add(name, rf"\p{{{name}}}"):
            number = known[name.upper()][0]
            names |= {n.lower(): name for n, (i, _) in known.items() if i == number}
    for name in "wsd":
        assert add(f"\\{name}", f"\\{name}")
    # Oniguruma's \w outside of brackets, and \b, have six of Latin-1 that [\w] has not
    word = frozenset(map(ord, "".join(oniguruma(r"\W+"))))
    found["bare=w"] = found["\\w"] | {c for c in word if c < 256}
    assert word == {c for c in CODE_POINTS if c in found["bare=w"]}
    ends = {end + more for one in found.values() for end in edges(one) for more in (-1, 0)}
    some = "".join(chr(c) for c in sorted(ends) if 0 <= c < 0x110000 and not 0xD800 <= c < 0xE000)
    for name, inside in spelled.items():
        theirs = fancy(f"[{inside}]+", some)
        if theirs is not None and set(theirs) != {c for c in some if ord(c) in found[name]}:
            found["~" + name] = frozenset(map(ord, fancy(f"[{inside}]+", PLANES)))
            print("fancy-regex differs in", name)
    for name in POSIX:
        found[f"posix={name}"] = members(f"[:{name}:]", EVERY)
    return found, names


def edges(code_points: frozenset[int]) -> set[int]:
    """Where runs begin, and behind their ends."""
    return {c for c in code_points if c - 1 not in code_points} | {
        c + 1 for c in code_points if c + 1 not in code_points
    }


def candidates() -> list[str]:
    import regex
    import regex._regex_core

    module = regex._regex_core._regex
    flags = regex.IGNORECASE | regex.UNICODE
    return [
        c
        for c in EVERY
        if c.casefold() != c
        or c.lower() != c
        or c.upper() != c
        or len(module.get_all_cases(int(flags), ord(c))) > 1
    ]


def folds() -> tuple[list[str], list[str], dict[str, str]]:
    """Groups of characters that are the same without case, of Oniguruma, then of fancy-regex; and
    of Oniguruma characters that are several others."""
    cased = candidates()
    text = "\n".join(cased)

    def groups(matches) -> list[str]:
        out: dict[str, None] = {}
        for c in cased:
            same = "".join(sorted(matches(rf"(?i:\x{{{ord(c):x}}})") - {"\n"}))
            assert c in same, hex(ord(c))
            if len(same) > 1:
                out[same] = None
        assert len(set("".join(out))) == sum(map(len, out))
        return list(out)

    several: dict[str, str] = {}
    for c in cased:
        folded = c.casefold()
        if len(folded) > 1 and oniguruma(rf"(?i:\x{{{ord(c):x}}})", folded) == []:
            several[c] = folded
    ours = groups(lambda pattern: set(text) - set("".join(oniguruma(pattern, text))))
    return ours, groups(lambda pattern: set(fancy(pattern, text))), several


def runs(code_points: frozenset[int]) -> str:
    """Runs as (gap to the run before, length − 1), in base 36."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"

    def written(n: int) -> str:
        return (written(n // 36) if n >= 36 else "") + digits[n % 36]

    out, at = [], 0
    ordered = sorted(code_points)
    first = 0
    for i, c in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != c + 1:
            gap, more = ordered[first] - at, i - first
            out.append(written(gap) + ("+" + written(more) if more else ""))
            at, first = c + 1, i + 1
    return " ".join(out)


def write() -> str:
    found, names = sets()
    ours, theirs, several = folds()
    lines = [f"{name} {runs(found[name])}" for name in sorted(found)]
    other: dict[str, list[str]] = {}
    for name, main in names.items():
        if name != main:
            other.setdefault(main, []).append(name)
    lines.append("names " + " ".join(f"{main}:" + ",".join(other[main]) for main in sorted(other)))
    lines.append("fold " + " ".join(ours))
    lines.append("~fold " + " ".join(theirs))
    lines.append("several " + " ".join(f"{c}:{text}" for c, text in several.items()))
    data = zlib.compress("\n".join(lines).encode(), 9)
    packed = base64.b85encode(data).decode("ascii")
    print(len(found), "sets,", len(packed), "characters", len(several), "several")
    before, rest = TABLE.read_text(encoding="utf-8").split(BEGIN)
    rest = "\n" + rest
    after = rest.split(END, 1)[1]
    table = "\n".join(packed[i : i + 100] for i in range(0, len(packed), 100))
    return before + BEGIN + table + END + after


if __name__ == "__main__":
    TABLE.write_text(write(), encoding="utf-8")
