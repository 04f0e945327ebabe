"""The instructions of chat programs stand in three tables: the engine's, the compiler's, and the
page's. They say the same, row by row."""

import re

from conftest import ROOT
from phasor.chat import instructions as ours

HEADER = (ROOT / "src/text/chat/instructions.h").read_text(encoding="utf-8").replace("\\\n", "\n")
PAGE = (ROOT / "docs/reference/file-format.md").read_text(encoding="utf-8")
PAGE = PAGE.split("## CHAT: the chat program")[1].split("\n## ")[0]


def bits(kinds):
    return sum(ours.BITS[kind] for kind in kinds)


def kinds_of_the_engine():
    """The names of the header's enumeration and their bits."""
    found = {}
    for name, value in re.findall(r"^  (k\w+) = ([^,\n/]+?),?(?: +//.*)?$", HEADER, re.M):
        found[name] = 0
        for part in value.split(" | "):
            found[name] |= found[part] if part in found else int(part)
    return found


def rows_of_the_engine():
    names = kinds_of_the_engine()

    def known(word):
        return sum(names[name] for name in word.split(" | "))

    row = r'  ROW\((\w+),\s+(\w+),\s+(?:\w+|"[^"]*"),\s+([^)]*)\)'
    for name, operand, kinds in re.findall(row, HEADER):
        puts, *takes = (known(word) for word in re.split(r",\s+", kinds))
        yield name.rstrip("_").upper(), operand, puts, takes


def rows_of_the_page():
    """Number, name, whether there is an argument, and how many values are taken and put."""
    rows = re.findall(r"^\| (\d[\d, …]*) \| ([A-Z_a, ]+) \|([^|]*)\|", PAGE, re.M)
    for numbers, names, stack in rows:
        names = names.split(", ")
        first, *more = map(int, re.findall(r"\d+", numbers))
        last = more[-1] if more else first
        assert [first, *more] in (list(range(first, last + 1)), [first, last])
        assert last - first + 1 == len(names), names
        effects = stack.split("; ")
        if len(effects) != len(names):  # one for all, or the longest of several forms
            effects = [max(effects, key=len)] * len(names)
        for number, (name, effect) in enumerate(zip(names, effects), first):
            taken, _, put = effect.partition("→")
            yield (
                number,
                name.removesuffix(" a"),
                name.endswith(" a"),
                len(re.findall(r"\w+", taken)),
                len(re.findall(r"\w+", put)),
            )


def test_the_engine_has_the_compilers_table():
    assert list(rows_of_the_engine()) == [
        (name, row.operand, bits(row.puts), [bits(kinds) for kinds in row.takes])
        for name, row in ours.INSTRUCTIONS.items()
    ]


def test_the_page_has_the_compilers_table():
    assert list(rows_of_the_page()) == [
        (row.number, name, row.operand != "zero", len(row.takes), int(bool(row.puts)))
        for name, row in ours.INSTRUCTIONS.items()
    ]


def test_the_engine_has_the_compilers_limits():
    for theirs, limit in {
        "kMostCode": ours.LIMITS["operations"],
        "kMostStrings": ours.LIMITS["texts"],
        "kMostText": ours.LIMITS["bytes of text"],
        "kMostSlots": ours.LIMITS["variables"],
        "kMostStack": ours.LIMITS["values at once"],
        "kMostLoops": ours.MAX_LOOPS,
        "kStripLeft": ours.STRIP_LEFT,
        "kStripRight": ours.STRIP_RIGHT,
        "kStripChars": ours.STRIP_CHARS,
    }.items():
        value = re.search(rf"\b{theirs} = ([^,;]+)", HEADER)[1]
        base, _, shift = value.replace("u", "").partition(" << ")
        assert int(base) << int(shift or 0) == limit, theirs
