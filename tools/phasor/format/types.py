"""Types and layouts of tensors by their numbers in a file, and the sizes that they share
(docs/reference/file-format.md)."""

from __future__ import annotations

from phasor.format.codes import *

PANEL16, ROWS, VECTOR = 1, 2, 3
LAYOUTS = {PANEL16: "panel16", ROWS: "rows", VECTOR: "vector"}
LANES = 16  # rows of a panel
GROUP = 32  # columns that share a scale
INPUTS16 = 1  # of a matrix: its inputs have 16 bits (rule 1.21); 0: 8, or those of a float type
TABLE = 16  # int8 values of a table of q4t
SUPER = 8  # groups of q4k whose scales and minima share theirs


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
