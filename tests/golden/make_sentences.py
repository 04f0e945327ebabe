"""Writes src/cli/generation/sentence_table.h, the classes of code points by which a text is cut
into sentences (Unicode, annex 29), and tests/golden/sentences.txt, texts that Perl has cut. Both
come from Perl's own tables and its \\b{sb} (5.36, Unicode 14.0.0 were used). From the repository's
root:

    python tests/golden/make_sentences.py
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLASSES = (
    *("CR", "LF", "Sep", "Extend", "Format", "Sp", "Lower", "Upper", "OLetter", "Numeric"),
    *("ATerm", "SContinue", "STerm", "Close"),
)
PAIRS = len(CLASSES)  # of a run whose code points are Upper and Lower in turn
VALUES = r"""
my @class = map { qr/\p{SB=$_}/ } qw(CLASSES);
for my $c (0 .. 0x10FFFF) {
  next if $c >= 0xD800 && $c <= 0xDFFF;
  for my $i (0 .. $#class) { if (chr($c) =~ $class[$i]) { print "$c $i\n"; last } }
}
"""
CUT = r"""
binmode STDIN, ":utf8";
while (<STDIN>) {
  my $text = join "", map { chr hex } split;
  my @at; my $length = 0;
  for my $part (split /\b{sb}/, $text) { $length += length $part; push @at, $length }
  print "@at\n";
}
"""


def perl(program: str, text: str = "") -> list[str]:
    program = program.replace("CLASSES", " ".join(CLASSES))
    done = subprocess.run(
        ["perl", "-CO", "-e", program], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def runs(of: dict[int, int]) -> list[list[int]]:
    """(first, last, class), pairs of letters as one run."""
    upper, lower = CLASSES.index("Upper"), CLASSES.index("Lower")
    out: list[list[int]] = []
    for c in sorted(of):
        kind = of[c]
        if out and out[-1][1] == c - 1:
            first, _, before = out[-1]
            turn = (upper, lower)[(c - first) % 2]
            if before == kind or (before == PAIRS and kind == turn):
                out[-1][1] = c
                continue
            if first == c - 1 and before == upper and kind == lower:
                out[-1][1:] = [c, PAIRS]
                continue
        out.append([c, c, kind])
    return out


def number(n: int) -> list[int]:
    """7 bits a byte, the lowest first; the last one has not its highest bit."""
    out = []
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return [*out, n]


def table(of: dict[int, int]) -> str:
    coded: list[int] = []
    next_ = 0
    for first, last, kind in runs(of):
        coded += [*number(first - next_), *number((last - first) * 16 + kind)]
        next_ = last + 1
    rows = [coded[i : i + 18] for i in range(0, len(coded), 18)]
    body = "".join("    " + ", ".join(f"{b:3}" for b in row) + ",\n" for row in rows)
    return f"""\
// Written by tests/golden/make_sentences.py: Sentence_Break of Unicode 14.0.0 as runs of code
// points, each two numbers of 7 bits a byte: the code points before it, and 16 · (length − 1) +
// class. The classes are those of sentences.cpp.
#pragma once

namespace cli {{

constexpr unsigned char kSentenceBreaks[] = {{
    // clang-format off
{body}    // clang-format on
}};

}}  // namespace cli
"""


def texts(of: dict[int, int], count: int) -> list[list[int]]:
    """Code points of every class, those that matter more often than they do in texts."""
    rng = random.Random(1)
    by_class: dict[int, list[int]] = {}
    for c, kind in of.items():
        by_class.setdefault(kind, []).append(c)
    common = [ord(c) for c in "aBc Dé.!?,:;)('\"\n\r 12«»。！？我\u0301\u200b-"]
    out = []
    for i in range(count):
        size = rng.randint(1, 40)
        pool = [rng.choice(by_class[rng.choice(list(by_class))]) for _ in range(6)]
        out.append([rng.choice(common if rng.random() < 0.7 else pool) for _ in range(size)])
    return out


def main() -> None:
    of = {int(c): int(i) for c, i in (line.split() for line in perl(VALUES))}
    (ROOT / "src/cli/generation/sentence_table.h").write_text(table(of))
    made = texts(of, 500)
    given = "".join(" ".join(f"{c:x}" for c in text) + "\n" for text in made)
    cut = perl(CUT, given)
    lines = [f"{text}: {ends}\n" for text, ends in zip(given.splitlines(), cut, strict=True)]
    (ROOT / "tests/golden/sentences.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
