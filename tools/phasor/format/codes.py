# Generated from src/facts/types.toml by `make generate`: edit that, not this.
"""The types of tensors by their codes in a file (file-format.md)."""

F32 = 1
F16 = 2
BF16 = 3
Q8 = 4
Q4 = 5
F64 = 6
Q8R = 7
Q8RH = 8
Q4M = 9
Q4K = 10
Q4T = 11
Q2 = 12
Q1 = 13
Q2R = 14
Q6 = 15
Q4X = 16
Q3 = 17
Q2W = 18
Q5M = 19
Q5K = 20
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
    Q4T: "q4t",
    Q2: "q2",
    Q1: "q1",
    Q2R: "q2r",
    Q6: "q6",
    Q4X: "q4x",
    Q3: "q3",
    Q2W: "q2w",
    Q5M: "q5m",
    Q5K: "q5k",
}
BITS = {
    F32: 32,
    F16: 16,
    BF16: 16,
    Q8: 8,
    Q4: 4,
    F64: 64,
    Q8R: 8,
    Q8RH: 8,
    Q4M: 4,
    Q4K: 4,
    Q4T: 4,
    Q2: 2,
    Q1: 1,
    Q2R: 2,
    Q6: 6,
    Q4X: 4,
    Q3: 3,
    Q2W: 2,
    Q5M: 5,
    Q5K: 5,
}
# Of a record of scales, and of minima: its bytes, and the groups that it is of.
RECORDS = {
    Q4M: (4, 1),
    Q4K: (16, 8),
    Q6: (18, 8),
    Q4X: (8, 8),
    Q3: (14, 8),
    Q5M: (4, 1),
    Q5K: (16, 8),
}
# What a code n stands for: step, first of step·n + first.
CODES = {
    Q4: (1, -8),
    Q4M: (1, 0),
    Q4K: (1, 0),
    Q2: (1, -1),
    Q1: (2, -1),
    Q2R: (1, -1),
    Q6: (1, -32),
    Q3: (1, -4),
    Q2W: (1, -1),
    Q5M: (1, 0),
    Q5K: (1, 0),
}
# Columns that share a scale, where they are not a group.
SPANS = {Q2: 128, Q1: 128, Q6: 16, Q3: 16, Q2W: 256}
LOOKUPS = (Q4T, Q4X)  # a code is an index of a table of int8
TABLES = (Q4T,)  # a panel begins with that table
ROUNDED_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
HALVES = (F16, BF16)
PAIRS = (BF16,)  # two columns lie side by side in a panel
GROUPED = (Q8, Q4, Q4T, Q2, Q1, Q2W)  # an f16 scale for each group
WHOLE = (Q8R, Q8RH, Q2R)  # an f32 scale for each row
MINIMA = (Q4M, Q4K, Q5M, Q5K)  # a scale and a minimum for each group (rule 1.20)
# Bits of a scale that is a signed code of an f16 number.
SCALE_BITS = {Q6: 8, Q4X: 6, Q3: 6}
CODED = (Q6, Q4X, Q3)
ROTATED = (Q8RH,)  # of rotated inputs (rule 1.19)
QUANTIZED = (Q8, Q4, Q8R, Q8RH, Q4M, Q4K, Q4T, Q2, Q1, Q2R, Q6, Q4X, Q3, Q2W, Q5M, Q5K)
MATRICES = (
    F32,
    F16,
    BF16,
    Q8,
    Q4,
    Q8R,
    Q8RH,
    Q4M,
    Q4K,
    Q4T,
    Q2,
    Q1,
    Q2R,
    Q6,
    Q4X,
    Q3,
    Q2W,
    Q5M,
    Q5K,
)
ROUNDED = (
    F32,
    F16,
    BF16,
    Q8,
    Q4,
    Q8R,
    Q8RH,
    Q4M,
    Q4K,
    Q4T,
    Q6,
    Q4X,
    Q3,
    Q5M,
    Q5K,
)  # what floats become
