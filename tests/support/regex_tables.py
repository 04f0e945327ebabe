"""Tables of states by their own definition: a runner in Python, patterns and texts to run them on.

The runner follows docs/reference/file-format.md, searches without memo slots, and is quadratic."""

from __future__ import annotations

import random

from phasor.tokenizers.patterns.table import BEHAVIORS, Pattern

# Of the package's Split, for Oniguruma and, as far as it understands them, fancy-regex.
PATTERNS = [
    r"\w+|[^\w\s]+", r"[^\s]+|\s", r"\s+", r"\S+", r"\d+", r"\p{L}+|\p{N}{1,3}|.", r"[a-z]+",
    r"(?i:the|a|an)\b", r"\b\w", r"\w+\b", r"\B.", r"^.|.$", r"^", r"$", r"\A.", r".\z", r"a*b|a",
    r"a+b", r"(?:ab|a)(?:bc|c)?", r"a|ab", r"ab|a", r"a{2,4}", r"a{2,4}?", r"a{2}", r"a{2}?b",
    r"a{,2}b", r"a{3,}", r"(?:ab){1,3}", r"[ab]{1,3}+c", r"a?+b", r"\d++a", r"\s*+x", r"(?>\w+) ",
    r"(?>a)b", r"(?:a|b)*?c", r"a.*?c", r"a.*c", r".+?(?=c)", r"\w+(?=\d)", r"\w+(?!\d)",
    r"(?<=a)b", r"(?<!a)b", r"(?<=\s)\S+", r"(?!a)\w+", r"(?=[ab])\w", r"\s+(?!\S)|\s+",
    r"\s+(?=\S)|\S+", r"[[:alpha:]]+|[[:digit:]]+", r"[[:punct:]]+", r"[[:^space:]]+",
    r"[\p{L}&&[^a-z]]+", r"[a-z&&[aeiou]]+", r"[^a-z\s]+", r"[]a]+", r"[a\]b-]+", r"[\d\-.]+",
    r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+", r"\p{Lu}\p{Ll}*|\p{Ll}+", r"\P{L}+", r"\p{^L}+",
    r"(?i)[k-s]+", r"(?i:ss|st|ff)", r"(?i:ß)", r"(?i:ﬆ)", r"(?i:[^ß]+)", r"(?i:[a-zß]x?)",
    r"(?i:straße|first|office)", r"\p{Emoji_Presentation}+|\p{Extended_Pictographic}", r"\R",
    r"\h+", r"\H+", r"\N+", r"\O", r"\x{4e2d}|\x61|\u0062", r"\t|\n|\r", r"(a)(b)?", r"(?<n>a)b",
    r"(?x: a b # c" "\n" r" | c )", r"(?#c)a(?-i:B)?", r"(?:|a)b", r"(?:a|)+b", r"(?:a?)+", r"a**",
    r"a+?b", r"(?:a+?)*b", r"x*", r"\b", r"\B", r"(?=b)", r"(?!b)", r"", r"a|", r"|a", r"\n^",
    r"\n$", r"[^\n]+$\n?", r"'(?:[sdmt]|ll|ve|re)", r"--+|\.\.\.|[—–]", r"https?://\S+",
    r"[\w.]+@[\w.]+", r"\p{Alphabetic}+", r"\p{Lowercase}+", r"[\p{Greek}\p{Cyrillic}]+",
    r"\p{Mn}+", r"\p{Nd}+|\p{No}", r".{1,5}", r"(?m:.{1,5})", r"(?:[A-Z][a-z]+ ?){2,}",
    r"[+\-*/=<>]|\d+(?:\.\d+)?",
]  # fmt: skip
FANCY_PATTERNS = [
    r"\w+|[^\w\s]+", r"[^\s]+|\s", r"\d{1,3}+\d", r"\d{1,3}+", r"a{2}+", r"a{2}?", r"(?i:k|s)+",
    r"(?m:^.)", r"(?m:.$)", r"^.", r".$", r"(?s:a.)", r"(?i:[^ß])+", r"(?i:ß|st)", r"[[:alpha:]]+",
    r"[[:^alpha:]]", r"[\w--[_\d]]+", r"[a-c~~b-d]", r"[a-z&&[aeiou]x]+", r"\pL+",
    r"\p{Script=Han}+", r"\p{sc=Grek}+", r"\p{gc=Lu}", r"(?i:\p{Lu})+", r"(?i:[\p{Lu}\d])+",
    r"\b\w+\b", r"\B\w", r"(?<=a)b", r"(?<!a)b", r"\w(?=\d)", r"\w+(?!\d)", r"\s+(?!\S)|\s+",
    r"\u{1F600}|\x{41}", r"(?P<n>ab|a)", r"a(?i)b|c", r"(?x: a b | c )", r"\h+", r"a++b|a",
    r"(?>\d+)a", r"\R", r"\Aa|b\z", r"a{x}|b{", r"[^a-z]+", r"[+--]", r"(?i:the)\b", r"\N+",
]  # fmt: skip


def published() -> dict[str, tuple[str, bool]]:
    """Name → (pattern, whether it is fancy-regex's)."""
    from phasor.tokenizers import pre_tokenizers as known

    contracted = known._FOLDED
    tiktoken = {
        "tiktoken r50k": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$"
        r"|\s+(?!\S)|\s",
        "tiktoken cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        "tiktoken o200k": known.O200K_REGEX,
    }
    assert contracted in known.O200K_REGEX
    names = {value: name for name, value in vars(known).items() if name.endswith("_REGEX")}
    out = {
        f"{names.get(regex, f'step {code}')}": (regex, False) for regex, code in known.NAMED.items()
    }
    out["BLOOM"] = known.BLOOM_REGEX, False
    return out | {name: (regex, True) for name, regex in tiktoken.items()}


# ---- Patterns at random

_ATOMS = [
    *"aabbc1 .-'é中", r"\w", r"\d", r"\s", r"\S", r"\p{L}", r"\p{Lu}", r"\p{N}", ".", "[a-c]",
    "[^a]", r"[^\s\d]", "[ab1]", r"\n", "[[:alpha:]]", r"[\p{L}\d_]", "[é-中]",
]  # fmt: skip
_EDGES = [r"\b", r"\B", "^", "$", r"\A", r"\z", r"(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)"]
_TIMES = ["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,2}", "*?", "+?", "??", "{1,3}?"]


def at_random(rng: random.Random, fancy: bool, depth: int = 3) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(_ATOMS)
    if kind < 0.55:
        return "".join(at_random(rng, fancy, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind < 0.7:
        ways = [at_random(rng, fancy, depth - 1) for _ in range(rng.randint(2, 3))]
        return "(?:" + "|".join(ways) + ")"
    if kind < 0.88:
        body = at_random(rng, fancy, depth - 1)
        simple = body in _ATOMS
        times = rng.choice(_TIMES)
        if simple and rng.random() < 0.2:
            return body + rng.choice(("*+", "++", "?+"))
        return (body if simple else f"(?:{body})") + times
    if kind < 0.95:
        edge = rng.choice(_EDGES)
        edge = edge % rng.choice(_ATOMS) if "%" in edge else edge
        return edge + rng.choice(_ATOMS) if rng.random() < 0.5 else rng.choice(_ATOMS) + edge
    return f"(?i:{at_random(rng, fancy, depth - 1)})"


# ---- Texts


def texts(count: int, seed: int = 5) -> list[str]:
    """Short ones over all planes, and long runs."""
    rng = random.Random(seed)
    pools = [
        "aab bc1", "ab", "aabbcc11  \n\n..--''", "the The THE 's 'LL 12345 x.y",
        " \t\r\n\x0b\x85\u00a0\u2028\u3000", "éÉßẞſKkKsSﬆﬀıİiIµΣσς", "中文漢字かなカナ한글",
        "😀👍🏽❤️\u200d🏳️\U0001f1e9\U0001f1ea", "e\u0301o\u0308\u0323n\u0303\u0591", "١٢٣²½Ⅷ٪",
        "_-\u2014$+<>@#", "\x00\x01\x1f\x7f\xad\ufeff\u202e",
    ]  # fmt: skip
    out = ["", "a", " ", "\n", "a" * 120, "a" * 90 + "b", "\u212a\u017f"]
    out += [" " * 60, "ab" * 40, " \n" * 30 + "x", "1" * 50]
    while len(out) < count:
        if rng.random() < 0.15:
            plane = rng.choice((0, 0, 1, 2, 3, 14, 15, 16))
            codes = [plane << 16 | rng.randrange(1 << 16) for _ in range(rng.randint(1, 12))]
            out.append("".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000))
            continue
        pool = rng.choice(pools) + (rng.choice(pools) if rng.random() < 0.4 else "")
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 20))))
    return out


# ---- Running a table


def cut(pattern: Pattern, text: str, behavior: str, inverted: bool) -> list[tuple[int, int]]:
    """What is left of a text, by the definition of the package's Split."""
    assert behavior in BEHAVIORS
    parts = [(begin, end, match != inverted) for begin, end, match in pattern.segments(text)]
    out: list[list] = []
    before = False
    if behavior == "removed":
        out = [[begin, end] for begin, end, match in parts if not match]
    elif behavior == "isolated":
        out = [[begin, end] for begin, end, _ in parts]
    elif behavior == "mergedwithnext":
        for begin, end, match in reversed(parts):
            if match and not before and out:
                out[-1][0] = begin
            else:
                out.append([begin, end])
            before = match
        out.reverse()
    else:
        for begin, end, match in parts:
            joins = match == before if behavior == "contiguous" else match and not before
            if joins and out:
                out[-1][1] = end
            else:
                out.append([begin, end])
            before = match
    return [(begin, end) for begin, end in out if end > begin]
