"""Bytes changed at random, and files made of numbers, texts and blocks that may lie."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple, Sequence, Union

EDGES = (0, 1, 2, 3, 7, 31, 32, 64, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20, 1 << 24)
EDGES += ((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 48, 1 << 60, (1 << 63) - 1)
EDGES += (1 << 63, (1 << 64) - 1)


def number(rng: random.Random, value: int = 0) -> int:
    """A number at an edge, or not far from one that was there."""
    near = (value + 1, value - 1, value * 2, value // 2, value + 64, -value, value ^ 1 << 8)
    return rng.choice(EDGES) * rng.choice((1, 1, 1, -1)) if rng.random() < 0.6 else rng.choice(near)


def packed(code: str, value: float) -> bytes:
    """struct.pack, of a number that need not fit."""
    if code[-1] in "fd?":
        try:
            return struct.pack(code, value)
        except OverflowError:
            return struct.pack(code, float("inf"))
    size = struct.calcsize(code)
    return (int(value) % (1 << 8 * size)).to_bytes(size, "big" if code[0] == ">" else "little")


def changed(rng: random.Random, data: bytes, others: Sequence[bytes] = (), most: int = 6) -> bytes:
    """A copy with a few changes: bits, numbers, cuts, doubles, a part of another file."""
    out = bytearray(data)
    for _ in range(min(most, 1 + int(rng.expovariate(0.7)))):
        at, kind = rng.randrange(len(out) + 1), rng.random()
        if rng.random() < 0.5:  # heads are where structure is
            at = rng.randrange(min(len(out), 256) + 1)
        length = min(rng.choice((1, 1, 2, 4, 8, 16, 64, 300)), len(out) - at)
        if kind < 0.2 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind < 0.35 and at < len(out):
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind < 0.6:
            code = rng.choice(("<B", "<H", "<I", "<I", "<Q", "<Q", ">I", ">Q"))
            size = struct.calcsize(code)
            old = int.from_bytes(out[at : at + size], "little")
            out[at : at + size] = packed(code, number(rng, old))
        elif kind < 0.68:
            del out[at : at + length]
        elif kind < 0.76:
            out[at:at] = out[at : at + length] * rng.choice((1, 1, 2, 50))
        elif kind < 0.84:
            out[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif kind < 0.92:
            del out[at if rng.random() < 0.7 else len(out) - length :]
        elif others:
            other = rng.choice(others)
            begin = rng.randrange(len(other) + 1)
            out[at : at + length] = other[begin : begin + rng.choice((8, 64, 1000))]
        else:
            out += bytes(rng.choice((1, 8, 100)))
    return bytes(out)


class Number(NamedTuple):
    """A number of a file."""

    code: str
    value: float


class Text(NamedTuple):
    """A length, then so many bytes, unless it lies."""

    code: str
    data: bytes
    length: int | None = None


Part = Union[Number, Text, bytes]


def joined(parts: Sequence[Part]) -> bytes:
    out = []
    for part in parts:
        if isinstance(part, Number):
            out.append(packed(*part))
        elif isinstance(part, Text):
            length = len(part.data) if part.length is None else part.length
            out += [packed(part.code, length), part.data]
        else:
            out.append(part)
    return b"".join(out)


def changed_parts(rng: random.Random, parts: list[Part], texts: Sequence[bytes] = ()) -> None:
    """Changes a few of the parts in place."""
    for _ in range(min(6, 1 + int(rng.expovariate(0.9)))):
        at = rng.randrange(len(parts))
        part, kind = parts[at], rng.random()
        if kind < 0.06:
            del parts[at : at + rng.choice((1, 1, 2, 5))]
        elif kind < 0.12:
            parts[at:at] = parts[at : at + rng.choice((1, 1, 2, 5))]
        elif kind < 0.16:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif isinstance(part, Number):
            parts[at] = part._replace(value=number(rng, int(part.value)))
        elif isinstance(part, Text) and kind < 0.5:
            parts[at] = part._replace(length=number(rng, len(part.data)))
        elif isinstance(part, Text):
            data = rng.choice(texts) if texts and kind < 0.8 else changed(rng, part.data)
            parts[at] = part._replace(data=data)
        elif isinstance(part, bytes):
            parts[at] = changed(rng, part)
        if not parts:
            parts.append(b"")
