"""Archaic and literal turns, which hide what a sentence says. Each row: a pattern, a line that it
must find, and one that it must leave alone."""

from __future__ import annotations

import re

ROWS = (
    (r"where (?:it|they) lies?\b", "used where it lies", "say where it is"),
    (r"of which\b", "two files, of which one is read", "the files which"),
    (r"(?:has|have|had) not(?= (?:a|an|the|any|this|got)\b|[,.;:)]|$)", "ids that a text has not",
     "a sequence that has not been cleared"),
    (r"go(?:es)? on\b", "the output goes on", "go online"),
    (r"stands?(?! for\b|-| alone\b)\b(?= \w)", "the file stands beside it", "KV stands for key"),
    (r"anew\b", "it is read anew", "renew it"),
    (r"may yet\b", "what may yet become one", "may not yet be"),
    (r"so does\b", "and so does the other", "so it does"),
    (r"what (?:it|they|one|its \w+) (?:has|have)\b", "what it has of them goes", "what you have"),
    (r"(?:is|are) of (?:a|an|the|that|this|one|no|its|every|each)\b", "the line is of the first",
     "the size of the file is 3"),
    (r"those (?:that|which) (?:are|is|have|has)\b", "those that are", "files that are long"),
    (r"there (?:is|are) (?:\w+ ){1,3}that\b", "there are two files that differ",
     "there is no such file"),
    (r"(?:thereof|therein|whence|hence|thus)\b", "thus it is", "there it is"),
    (r"unless told otherwise\b", "greedy unless told otherwise", "unless you pass --beam"),
)  # fmt: skip
TURNS = re.compile("|".join(rf"\b(?:{row[0]})" for row in ROWS), re.I)


def turns(text: str) -> list[str]:
    """The turns of a text, over the ends of lines."""
    return TURNS.findall(re.sub(r"\s+", " ", text))
