"""Types and layouts of tensors by their numbers in a file, and the sizes that they share
(docs/format.md)."""

from __future__ import annotations

F32, F16, BF16, Q8, Q4, F64, Q8R, Q8RH, Q4M, Q4K = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
PANEL16, ROWS, VECTOR = 1, 2, 3
TYPES = {
    F32: "f32",
    F16: "f16",
    BF16: "bf16",
    Q8: "q8",
    Q4: "q4",
    F64: "f64",
    Q8R: "q8r",
    Q8RH: "q8rh",
    Q4M: "q4m",
    Q4K: "q4k",
}
LAYOUTS = {PANEL16: "panel16", ROWS: "rows", VECTOR: "vector"}
LANES = 16  # rows of a panel
GROUP = 32  # columns that share a scale
SUPER = 8  # groups of q4k whose scales and minima share theirs
MINIMA = (Q4M, Q4K)  # types with a scale and a minimum for each group (rule 1.20)
GROUPED = (Q8, Q4)  # types with an f16 scale for each group
WHOLE = (Q8R, Q8RH)  # types with an f32 scale for each row; q8rh: of rotated inputs (rule 1.19)
QUANTIZED = GROUPED + WHOLE + MINIMA
HALVES = (F16, BF16)
MATRICES = (F32, *HALVES, *QUANTIZED)


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
