"""Types and layouts of tensors by their numbers in a file, and the sizes that they share
(docs/reference/file-format.md)."""

from __future__ import annotations

from phasor.format.codes import *

PANEL16, ROWS, VECTOR = 1, 2, 3
LAYOUTS = {PANEL16: "panel16", ROWS: "rows", VECTOR: "vector"}
LANES = 16  # rows of a panel
GROUP = 32  # columns that share a scale
# The form of a matrix's inputs: 16 bits (rule 1.21); 8, rotated, of a type in groups (rule 1.29),
# the weights that are stored being the rotated matrix's; 0: 8 bits, or those of a float type.
INPUTS16, INPUTS_ROTATED = 1, 2
IN_GROUPS = GROUPED + MINIMA + CODED  # types whose inputs are rounded in groups (rule 1.3)
TABLE = 16  # int8 values of a table of q4t
SUPER = 8  # groups of q4k and q5k whose scales and minima share theirs


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
