"""The types of a GGUF file's tensors: how their blocks lie, what these mean in f32, and the type of
a .phasor file that has the same values (the format's own definition). numpy only.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.errors import PhasorError
from phasor.format import coded, minima, records
from phasor.format import layout as L
from phasor.values import table


def _halves(blocks: np.ndarray, field: str) -> np.ndarray:
    """An f16 of each block, (B, 1) f32."""
    return blocks[field].astype(np.float32)[:, None]


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """(B, n) bytes -> (B, 2n): all low nibbles, then all high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fives(blocks: np.ndarray) -> np.ndarray:
    """Nibbles with a fifth bit each."""
    bits = blocks["high"][:, None] >> np.arange(32, dtype=np.uint32) & 1
    return _nibbles(blocks["q"]) | (bits << 4).astype(np.uint8)


def _scaled(values: Callable[[np.ndarray], np.ndarray], zero: int = 0) -> Callable[..., Any]:
    """Integers of a block, less the one that stands for 0, times its scale, and plus its minimum
    where it has one."""

    def widen(blocks: np.ndarray) -> np.ndarray:
        out = (values(blocks).astype(np.float32) - zero) * _halves(blocks, "d")
        has_minimum = "m" in (blocks.dtype.names or ())
        result: np.ndarray = out + _halves(blocks, "m") if has_minimum else out
        return result

    return widen


def _fours(blocks: np.ndarray) -> np.ndarray:
    return _nibbles(blocks["q"])


def _k_scales(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the eight sub-blocks of 32: scale and minimum, (B, 8, 1) f32."""
    scale, least = minima.unpack_codes(blocks["scales"])
    return (_halves(blocks, "d") * scale)[:, :, None], (_halves(blocks, "m") * least)[:, :, None]


def _fours_k(blocks: np.ndarray) -> np.ndarray:
    """(B, 8, 32)."""
    return _nibbles(blocks["q"].reshape(-1, 32)).reshape(-1, 8, 32)


def _fives_k(blocks: np.ndarray) -> np.ndarray:
    """(B, 8, 32)."""
    bits = blocks["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    fives: np.ndarray = _fours_k(blocks) | bits << 4
    return fives


def _with_minima_k(kind: int, codes: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    """Q4_K or Q5_K, whose sub-blocks have scales and minima: codes (B, 8, 32)."""

    def widen(blocks: np.ndarray) -> np.ndarray:
        scale, least = _k_scales(blocks)
        result: np.ndarray = (scale * codes(blocks).astype(np.float32) - least).reshape(-1, 256)
        return result

    return {"widen": widen, "keeps": kind, "packed": lambda b: (_records(b, kind), codes(b))}


def _sixes(blocks: np.ndarray) -> np.ndarray:
    """(B, 16, 16)."""
    low = _nibbles(blocks["q"].reshape(-1, 64)).reshape(-1, 8, 32)
    bits = blocks["high"].reshape(-1, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    q: np.ndarray = (low | bits.reshape(-1, 8, 32) << 4).reshape(-1, 16, 16)
    return q


def _threes(blocks: np.ndarray) -> np.ndarray:
    """(B, 16, 16): two bits of `q`, and the upper one of `high`."""
    low = _fields(blocks["q"], 2, 32).reshape(-1, 8, 32)
    bits = blocks["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q: np.ndarray = (low | bits << 2).reshape(-1, 16, 16)
    return q


def _scales_q3_k(blocks: np.ndarray) -> np.ndarray:
    return records.scale_codes(blocks["scales"], L.Q3)


def _scales_iq4_xs(blocks: np.ndarray) -> np.ndarray:
    """Of eight sub-blocks, (B, 8) int8: nibbles of four bytes, and two bits each of one number."""
    low = _fields(blocks["scales"], 4, 1)
    upper = blocks["upper"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    result: np.ndarray = (low | upper.astype(np.uint8) << 4).astype(np.int8) - np.int8(32)
    return result


def _fours_xs(blocks: np.ndarray) -> np.ndarray:
    """(B, 8, 32)."""
    return _nibbles(blocks["q"].reshape(-1, 16)).reshape(-1, 8, 32)


def _coded(
    kind: int,
    codes: Callable[[np.ndarray], np.ndarray],
    scales: Callable[[np.ndarray], np.ndarray],
) -> dict[str, Any]:
    """A type of the same values as one of ours whose scales are signed codes of a block's number:
    codes (B, S, W), scales (B, S) int8. In ours what has no scale has no codes."""

    def widen(blocks: np.ndarray) -> np.ndarray:
        scale = _halves(blocks, "d") * scales(blocks).astype(np.float32)
        values = coded.integers(codes(blocks), kind).astype(np.float32) * scale[:, :, None]
        result: np.ndarray = values.reshape(-1, 256)
        return result

    def packed(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        of, c = np.empty(blocks.shape, records.record_of(kind)), scales(blocks)
        of["d"], of["codes"] = blocks["d"], records.packed_codes(c, kind)
        used = (c != 0) & (blocks["d"] != 0)[:, None]
        return of, np.where(used[:, :, None], codes(blocks), 0).astype(np.uint8)

    return {"widen": widen, "keeps": kind, "packed": packed}


def _fields(packed: np.ndarray, bits: int, run: int) -> np.ndarray:
    """(B, n) bytes -> (B, 8 / bits · n): of each `run` bytes the lowest fields, then the next."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    parts = packed.reshape(len(packed), -1, 1, run) >> shifts & (1 << bits) - 1
    return parts.reshape(len(packed), -1)


def _trits(packed: np.ndarray, count: int) -> np.ndarray:
    """(B, n) bytes of `count` digits of base 3, the highest first, as ⌈256·x / 3^5⌉ ->
    (B, count·n): all the first digits, then all the next."""
    powers = 3 ** np.arange(count, dtype=np.uint16)[:, None]
    first = (packed[:, None, :] * powers & 255) * 3 >> 8
    return first.astype(np.uint8).reshape(len(packed), -1)


def _tq1(blocks: np.ndarray) -> np.ndarray:
    q = blocks["q"]
    parts = [_trits(q[:, :32], 5), _trits(q[:, 32:], 5), _trits(blocks["high"], 4)]
    return np.concatenate(parts, axis=1)


def _tq2(blocks: np.ndarray) -> np.ndarray:
    return _fields(blocks["q"], 2, 32)


def _twos(blocks: np.ndarray) -> np.ndarray:
    return _fields(blocks["q"], 2, 1)


def _signs(blocks: np.ndarray) -> np.ndarray:
    """±1."""
    return _fields(blocks["q"], 1, 1).astype(np.int8) * 2 - 1


def _of_table(values: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    table = np.array(values, np.int8)
    return lambda blocks: table[_fours(blocks)]


# Of IQ4_NL; and of MXFP4 twice what its floats of 4 bits are, since its scales are halved.
_IQ4 = _of_table(L.ROUNDED_TABLE)
_FP4 = _of_table((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12))


def _power(blocks: np.ndarray) -> np.ndarray:
    """The scales of MXFP4, powers of two, halved: (B) f32."""
    return np.ldexp(np.float32(1), blocks["e"].astype(np.int32) - 128)


def _mxfp4(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = _FP4(blocks)
    scales = np.where(values.any(axis=1), _power(blocks), 0)
    with np.errstate(over="ignore"):
        halves = scales.astype(np.float16)
    if not np.array_equal(halves.astype(np.float32), scales):
        raise PhasorError(
            "a scale of MXFP4 is outside of f16, which q4t's scales are; convert with --type f32"
        )
    return halves, values


def _i2_codes(blocks: np.ndarray) -> np.ndarray:
    """Of the bytes of a block the highest fields, then the next."""
    q = blocks["q"]
    return (q[:, None, :] >> np.arange(6, -1, -2, dtype=np.uint8)[:, None] & 3).reshape(len(q), -1)


def _halves_of_q2(blocks: np.ndarray) -> np.ndarray:
    q = blocks["b"]["q"]
    return _fields(q.reshape(len(q), -1), 2, 1)


def _two_of_64(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = blocks["b"]["d"]
    if (d[:, 0] != d[:, 1]).any():
        raise PhasorError(
            "scales of Q2_0 differ within 128 values, which q2 has one scale for; convert with"
            " --type f32 or q8"
        )
    return d[:, 0], _halves_of_q2(blocks).astype(np.int8) - np.int8(1)


def _q2_64(blocks: np.ndarray) -> np.ndarray:
    d = blocks["b"]["d"].astype(np.float32).repeat(64, axis=1)
    return (_halves_of_q2(blocks).astype(np.float32) - 1) * d


# (B) blocks -> scales (B) and integers (B, size) of the same values, as a .phasor file has them.
Packed = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Also = tuple[tuple[int, Packed], ...]


def _one_scale(values: Callable[[np.ndarray], np.ndarray], zero: int = 0) -> Packed:
    return lambda b: (b["d"], values(b).astype(np.int8) - np.int8(zero))


def _records(blocks: np.ndarray, kind: int) -> np.ndarray:
    """The scales and minima of blocks; a minimum is added, K-quants subtract it."""
    of = np.empty(blocks.shape, records.record_of(kind))
    of["d"], of["m"] = blocks["d"], blocks["m"]
    if "codes" in (of.dtype.names or ()):
        of["m"], of["codes"] = -blocks["m"], blocks["scales"]
    return of


def _q5_0(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With a minimum of −16 scales, which is exact."""
    of = np.empty(blocks.shape, records.record_of(L.Q5M))
    with np.errstate(over="ignore"):
        of["d"], of["m"] = blocks["d"], blocks["d"] * np.float16(-16)
    if np.isinf(of["m"]).any():
        raise PhasorError("a scale of Q5_0 is too large for q5m; convert with --type f32 or q8")
    return of, _fives(blocks)


class Type(NamedTuple):
    """How elements lie: blocks of `size` values, and what they are in f32."""

    name: str
    size: int
    block: np.dtype
    widen: Callable[[np.ndarray], np.ndarray]  # (B) blocks -> (B, size)
    keeps: int = L.F32  # the type of a .phasor file that has the same values
    packed: Packed | None = None  # of a type that is quantized in both
    also: Also = ()  # other types of a .phasor file that hold the values
    tail: int = 0  # bytes behind the blocks; they begin with an f32 scale of all of them

    def bytes(self, count: int) -> int:
        return count // self.size * self.block.itemsize + self.tail


def _type(
    name: str,
    size: int,
    widen: Callable[..., Any],
    keeps: int,
    *fields: tuple[Any, ...],
    packed: Packed,
    also: Also = (),
) -> Type:
    return Type(name, size, np.dtype(list(fields)), widen, keeps, packed=packed, also=also)


def _float(name: str, widen: Callable[..., Any], keeps: int, field: str) -> Type:
    return Type(name, 1, np.dtype([("x", field)]), widen, keeps)


def _scaled_type(
    name: str,
    size: int,
    values: Callable[[np.ndarray], np.ndarray],
    zero: int,
    keeps: int,
    *fields: tuple[Any, ...],
    also: int | None = None,
) -> Type:
    """Integers of a block times its scale."""
    packed = _one_scale(values, zero)
    others = () if also is None else ((also, packed),)
    return _type(name, size, _scaled(values, zero), keeps, *fields, packed=packed, also=others)


def _i2(size: int) -> Type:
    """I2_S, of BitNet's own program: blocks of codes, and behind all of them a scale and zeros."""
    return Type(
        "I2_S",
        size,
        np.dtype([("q", "u1", size // 4)]),
        lambda b: _i2_codes(b).astype(np.float32) - 1,
        L.Q2R,
        packed=lambda b: (np.empty(0), _i2_codes(b).astype(np.int8) - np.int8(1)),
        tail=32,
    )


# Fields of the blocks: scale and minimum, nibbles, scales of sub-blocks.
_D, _M, _Q = ("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)
_SCALES, _Q_K, _HIGH = ("scales", "u1", 12), ("q", "u1", 128), ("high", "<u4")
TYPES = {
    0: _float("F32", lambda b: b["x"][:, None], L.F32, "<f4"),
    1: _float("F16", lambda b: b["x"].astype(np.float32)[:, None], L.F16, "<f2"),
    2: _scaled_type("Q4_0", 32, _fours, 8, L.Q4, _D, _Q, also=L.Q8),
    3: _type(
        "Q4_1",
        32,
        _scaled(_fours),
        L.Q4M,
        _D,
        _M,
        _Q,
        packed=lambda b: (_records(b, L.Q4M), _fours(b)),
    ),
    6: _type(
        "Q5_0",
        32,
        _scaled(_fives, 16),
        L.Q5M,
        _D,
        _HIGH,
        _Q,
        packed=_q5_0,
        also=((L.Q8, _one_scale(_fives, 16)),),
    ),
    7: _type(
        "Q5_1",
        32,
        _scaled(_fives),
        L.Q5M,
        _D,
        _M,
        _HIGH,
        _Q,
        packed=lambda b: (_records(b, L.Q5M), _fives(b)),
    ),
    8: _scaled_type("Q8_0", 32, lambda b: b["q"], 0, L.Q8, _D, ("q", "i1", 32)),
    12: Type(
        "Q4_K",
        256,
        np.dtype([_D, _M, _SCALES, _Q_K]),
        **_with_minima_k(L.Q4K, _fours_k),
    ),
    13: Type(
        "Q5_K",
        256,
        np.dtype([_D, _M, _SCALES, ("high", "u1", 32), _Q_K]),
        **_with_minima_k(L.Q5K, _fives_k),
    ),
    11: Type(
        "Q3_K",
        256,
        np.dtype([("high", "u1", 32), ("q", "u1", 64), _SCALES, _D]),
        **_coded(L.Q3, _threes, _scales_q3_k),
    ),
    14: Type(
        "Q6_K",
        256,
        np.dtype([_Q_K, ("high", "u1", 64), ("scales", "i1", 16), _D]),
        **_coded(L.Q6, _sixes, lambda b: b["scales"]),
    ),
    23: Type(
        "IQ4_XS",
        256,
        np.dtype([_D, ("upper", "<u2"), ("scales", "u1", 4), _Q_K]),
        **_coded(L.Q4X, _fours_xs, _scales_iq4_xs),
    ),
    20: _scaled_type("IQ4_NL", 32, _IQ4, 0, L.Q4T, _D, _Q),
    34: _scaled_type(
        "TQ1_0", 256, _tq1, 1, L.Q2W, ("q", "u1", 48), ("high", "u1", 4), _D, also=L.Q2
    ),
    35: _scaled_type("TQ2_0", 256, _tq2, 1, L.Q2W, ("q", "u1", 64), _D, also=L.Q2),
    36: _i2(128),
    39: _type(
        "MXFP4",
        32,
        lambda b: _FP4(b).astype(np.float32) * _power(b)[:, None],
        L.Q4T,
        ("e", "u1"),
        _Q,
        packed=_mxfp4,
    ),
    41: _scaled_type("Q1_0", 128, _signs, 0, L.Q1, _D, _Q),
    42: _scaled_type("Q2_0", 128, _twos, 1, L.Q2, _D, ("q", "u1", 32)),
    30: _float("BF16", lambda b: (b["x"].astype("<u4") << 16).view("<f4")[:, None], L.BF16, "<u2"),
}
# Type 42 has blocks of 128 values in one program's files and of 64 in another's: two of those here.
Q2_0 = 42
Q2_0_OF_64 = _type("Q2_0", 128, _q2_64, L.Q2, ("b", [_D, ("q", "u1", 16)], 2), packed=_two_of_64)
# I2_S is written in blocks of 128 values on x86, and of 64 on ARM; a file does not say which.
I2_S, I2_S_OF_64 = 36, _i2(64)
# Names of the types that are not read, for the message.
OTHERS = {
    int(number): name
    for number, name in table("""
        9 Q8_1
        10 Q2_K
        15 Q8_K
        16 IQ2_XXS
        17 IQ2_XS
        18 IQ3_XXS
        19 IQ1_S
        21 IQ3_S
        22 IQ2_S
        24 I8
        25 I16
        26 I32
        27 I64
        28 F64
        29 IQ1_M
        40 NVFP4
    """).items()
}
