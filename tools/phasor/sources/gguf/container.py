"""A GGUF file: its metadata, its tensors where they lie, and what their types mean (the format's
own definition, versions 2 and 3). numpy only.

Everything a file says is checked before it is used: a count is compared with the bytes that are
left, a tensor's place with the end of the file.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor import mistaken
from phasor.checkpoints.tensors import Checkpoint, Shape, check_apart
from phasor.errors import Damaged, PhasorError, named, shown
from phasor.files import map_bytes, open_regular
from phasor.format import layout as L
from phasor.format import minima
from phasor.format.layout import round_up
from phasor.ignored import without
from phasor.values import is_whole, table

MAGIC, VERSIONS, ALIGNMENT = b"GGUF", (2, 3), 32
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_MAX_DIMENSIONS, _MAX_ELEMENTS = 4, 1 << 40
# Of all metadata together: the largest vocabularies have 2 million values (pieces, scores, types,
# merges), in 10 MB.
_MAX_KEYS, _MAX_TENSORS, _MAX_VALUES, _MAX_TEXT = 1 << 16, 1 << 16, 1 << 23, 128 << 20

# ---- Types of elements


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
        result: np.ndarray = out + _halves(blocks, "m") if "m" in blocks.dtype.names else out
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


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    scale, least = _k_scales(blocks)
    result: np.ndarray = (scale * _fours_k(blocks).astype(np.float32) - least).reshape(-1, 256)
    return result


def _q5_k(blocks: np.ndarray) -> np.ndarray:
    scale, least = _k_scales(blocks)
    bits = blocks["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _fours_k(blocks) | bits << 4
    result: np.ndarray = (scale * q.astype(np.float32) - least).reshape(-1, 256)
    return result


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    low = _nibbles(blocks["q"].reshape(-1, 64)).reshape(-1, 8, 32)
    bits = blocks["high"].reshape(-1, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    q = (low | bits.reshape(-1, 8, 32) << 4).astype(np.float32) - 32
    scale = _halves(blocks, "d") * blocks["scales"].astype(np.float32)
    result: np.ndarray = (scale[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, 256)
    return result


# (B) blocks -> scales (B) and integers (B, size) of the same values, as a .phasor file has them.
Packed = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _one_scale(values: Callable[[np.ndarray], np.ndarray], zero: int = 0) -> Packed:
    return lambda b: (b["d"], values(b).astype(np.int8) - np.int8(zero))


def _records(blocks: np.ndarray, kind: int) -> np.ndarray:
    """The scales and minima of blocks; a minimum is added, Q4_K subtracts it."""
    records = np.empty(blocks.shape, minima.record_of(kind))
    records["d"], records["m"] = blocks["d"], blocks["m"]
    if kind == L.Q4K:
        records["m"], records["codes"] = -blocks["m"], blocks["scales"]
    return records


class Type(NamedTuple):
    """How elements lie: blocks of `size` values, and what they are in f32."""

    name: str
    size: int
    block: np.dtype
    widen: Callable[[np.ndarray], np.ndarray]  # (B) blocks -> (B, size)
    keeps: int = L.F32  # the type of a .phasor file that has the same values
    packed: Packed | None = None  # of a type that is quantized in both
    nearest: int | None = None  # what is taken in place of F32, rounded

    def bytes(self, count: int) -> int:
        return count // self.size * self.block.itemsize


def _type(
    name: str,
    size: int,
    widen: Callable[..., Any],
    keeps: int,
    *fields: tuple[Any, ...],
    packed: Packed | None = None,
    nearest: int | None = None,
) -> Type:
    return Type(name, size, np.dtype(list(fields)), widen, keeps, packed=packed, nearest=nearest)


# Fields of the blocks: scale and minimum, nibbles, scales of sub-blocks.
_D, _M, _Q = ("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)
_SCALES, _Q_K = ("scales", "u1", 12), ("q", "u1", 128)
TYPES = {
    0: _type("F32", 1, lambda b: b["x"][:, None], L.F32, ("x", "<f4")),
    1: _type("F16", 1, lambda b: b["x"].astype(np.float32)[:, None], L.F16, ("x", "<f2")),
    2: _type("Q4_0", 32, _scaled(_fours, 8), L.Q4, _D, _Q, packed=_one_scale(_fours, 8)),
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
        L.Q8,
        _D,
        ("high", "<u4"),
        _Q,
        packed=_one_scale(_fives, 16),
    ),
    7: _type("Q5_1", 32, _scaled(_fives), L.F32, _D, _M, ("high", "<u4"), _Q, nearest=L.Q8),
    8: _type(
        "Q8_0",
        32,
        _scaled(lambda b: b["q"]),
        L.Q8,
        _D,
        ("q", "i1", 32),
        packed=_one_scale(lambda b: b["q"]),
    ),
    12: _type(
        "Q4_K",
        256,
        _q4_k,
        L.Q4K,
        _D,
        _M,
        _SCALES,
        _Q_K,
        packed=lambda b: (_records(b, L.Q4K), _fours_k(b)),
    ),
    13: _type("Q5_K", 256, _q5_k, L.F32, _D, _M, _SCALES, ("high", "u1", 32), _Q_K, nearest=L.Q8),
    14: _type(
        "Q6_K",
        256,
        _q6_k,
        L.F32,
        _Q_K,
        ("high", "u1", 64),
        ("scales", "i1", 16),
        _D,
        nearest=L.Q8,
    ),
    30: _type(
        "BF16", 1, lambda b: (b["x"].astype("<u4") << 16).view("<f4")[:, None], L.BF16, ("x", "<u2")
    ),
}
# Names of the types that are not read, for the message.
_OTHERS = {
    int(number): name
    for number, name in table("""
        9 Q8_1
        10 Q2_K
        11 Q3_K
        15 Q8_K
        16 IQ2_XXS
        17 IQ2_XS
        18 IQ3_XXS
        19 IQ1_S
        20 IQ4_NL
        21 IQ3_S
        22 IQ2_S
        23 IQ4_XS
        24 I8
        25 I16
        26 I32
        27 I64
        28 F64
        29 IQ1_M
        34 TQ1_0
        35 TQ2_0
        39 MXFP4
        40 NVFP4
        41 Q1_0
    """).items()
}


class Tensor(NamedTuple):
    """A tensor where it lies. `shape` is (rows, columns), the opposite of the file's order."""

    type: Type
    shape: Shape
    data: np.ndarray  # u8
    is_float: bool = True

    def load(self) -> np.ndarray:
        """The values in f32."""
        return self.type.widen(self.data.view(self.type.block)).reshape(self.shape)

    def is_finite(self) -> bool:
        """Of a quantized type: whether its scales are; their products with a block's integers do
        not leave f32."""
        blocks = self.data.view(self.type.block)
        if self.type.keeps == L.BF16:
            return not (blocks["x"] & 0x7F80 == 0x7F80).any()
        return all(
            np.isfinite(blocks[name]).all()
            for name in ("x", "d", "m")
            if name in (self.type.block.names or ())
        )

    def quantized(self) -> tuple[np.ndarray, np.ndarray]:
        """Of a type that is quantized in .phasor files too: scales or records (N, G or R) and int8
        values (N, K), as they have them."""
        scales, values = self.type.packed(self.data.view(self.type.block))
        rows = self.shape[0]
        return scales.reshape(rows, -1), values.astype(np.int8, copy=False).reshape(rows, -1)


# ---- Reading


class _Reader:
    """A position in the file's bytes that never passes their end."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.at = memoryview(data), 0
        self.values = self.text_bytes = 0  # of the metadata so far

    def take(self, size: int, what: str) -> memoryview:
        if size > len(self.data) - self.at:
            raise Damaged(f"{what}: the file ends in it (it has {len(self.data)} bytes)")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str, what: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code), what))[0]

    def count(self, least: int, what: str) -> int:
        """How many things of `least` bytes and more follow."""
        value = self.number("<Q", what)
        if value > (len(self.data) - self.at) // least:
            raise Damaged(f"{what}: {value}, more than the file's {len(self.data)} bytes can hold")
        result: int = value
        return result

    def text(self, what: str) -> str:
        size = self.count(1, f"{what}, the length of a text")
        self.text_bytes += size
        if self.text_bytes > _MAX_TEXT:
            raise PhasorError(
                f"{what}: a text of {size} bytes, expected at most {_MAX_TEXT} in all metadata"
            )
        raw = bytes(self.take(size, what))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Damaged(f"{what}: is not UTF-8") from error

    def value(self, kind: int, what: str) -> Any:
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            return self.array(what)
        if kind not in _SCALARS:
            raise PhasorError(f"{what}: values of type {kind} are not known")
        return self.number(_SCALARS[kind], what)

    def array(self, what: str) -> list[Any]:
        kind = self.number("<I", what)
        if kind != _STRING and kind not in _SCALARS:
            raise PhasorError(f"{what}: an array of values of type {kind} is not supported")
        item = np.dtype("<u8" if kind == _STRING else _SCALARS[kind])
        count = self.count(item.itemsize, f"{what}, the number of values")
        self.values += count
        if self.values > _MAX_VALUES:
            raise PhasorError(
                f"{what}: {count} values, expected at most {_MAX_VALUES} in all metadata"
            )
        if kind == _STRING:
            return [self.text(what) for _ in range(count)]
        result: list[Any] = np.frombuffer(
            self.take(count * item.itemsize, what), dtype=item
        ).tolist()
        return result


def _printable(name: str) -> str:
    return name if name.isprintable() and len(name) <= 80 else ascii(name[:80])


class GGUF(Checkpoint):
    """A file that was read: `metadata` by key, the tensors as a checkpoint. PhasorError names the
    file and the thing that is wrong."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, {})
        self.data = map_bytes(path)
        try:
            self._read(_Reader(self.data))
        except PhasorError as error:
            raise named(path, error) from error

    def under(self, prefix: str) -> dict[str, Any]:
        """The metadata whose keys begin so, by the rest of the key."""
        start = len(prefix)
        return {k[start:]: value for k, value in self.metadata.items() if k.startswith(prefix)}

    def _read(self, r: _Reader) -> None:
        if bytes(r.take(4, "the header")) != MAGIC:
            instead = mistaken.of_bytes(self.data[: mistaken.START_BYTES].tobytes())
            raise PhasorError(instead or "not a GGUF file: it does not begin with the letters GGUF")
        version = r.number("<I", "the version")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            raise PhasorError(
                f"version {swapped} in big-endian order is not supported"
                if swapped in VERSIONS
                else f"version {version} is not supported, expected 2 and 3"
            )
        tensors = r.count(24, "the number of tensors")
        keys = r.count(13, "the number of keys")
        for what, count, most in (("tensors", tensors, _MAX_TENSORS), ("keys", keys, _MAX_KEYS)):
            if count > most:
                raise PhasorError(f"the number of {what}: {count}, expected at most {most}")
        self.metadata = without(self.path, self._read_metadata(r, keys))
        alignment = self.metadata.get("general.alignment", ALIGNMENT)
        if not is_whole(alignment, 1, 1 << 20) or alignment & alignment - 1:
            raise PhasorError(f"general.alignment: {shown(alignment)}, expected a power of two")
        entries = [self._read_entry(r) for _ in range(tensors)]
        self._place(entries, round_up(r.at, alignment), alignment)

    def _read_metadata(self, r: _Reader, count: int) -> dict[str, Any]:
        out = {}
        for i in range(count):
            key = _printable(r.text(f"the name of key {i}"))
            if key in out:
                raise Damaged(f"{key}: is there twice")
            out[key] = r.value(r.number("<I", key), key)
        return out

    def _read_entry(self, r: _Reader) -> tuple[str, Type, Shape, int]:
        name = _printable(r.text("the name of a tensor"))
        dimensions = r.number("<I", name)
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise PhasorError(
                f"{name}: has {dimensions} dimensions, expected 1 to {_MAX_DIMENSIONS}"
            )
        shape = tuple(r.number("<Q", name) for _ in range(dimensions))
        kind, offset = r.number("<I", name), r.number("<Q", name)
        if kind not in TYPES:
            raise PhasorError(
                f"{name}: has type {_OTHERS.get(kind, kind)}, which is not supported, expected "
                f"{', '.join(t.name for t in TYPES.values())}"
            )
        if not all(shape) or math.prod(shape) > _MAX_ELEMENTS:
            raise Damaged(f"{name}: has shape {' x '.join(map(str, shape))}, which is no tensor's")
        if shape[0] % TYPES[kind].size:
            raise PhasorError(
                f"{name}: has rows of {shape[0]} values, {TYPES[kind].name} needs a multiple of "
                f"{TYPES[kind].size}"
            )
        return name, TYPES[kind], shape[::-1], offset

    def _place(self, entries: list[Any], start: int, alignment: int) -> None:
        left = self.data.size - start
        places = [
            (at, at + kind.bytes(math.prod(shape)), name) for name, kind, shape, at in entries
        ]
        for offset, end, name in sorted(places):
            if offset % alignment:
                raise PhasorError(f"{name}: begins at {offset}, expected a multiple of {alignment}")
            if end > left:
                raise Damaged(
                    f"{name}: has {end - offset} bytes from {offset} on, the file has "
                    f"{max(left, 0)} for all tensors"
                )
        check_apart(places)
        for (name, kind, shape, _), (offset, end, _) in zip(entries, places):
            if name in self.tensors:
                raise Damaged(f"{name}: is there twice")
            self.tensors[name] = Tensor(kind, shape, self.data[start + offset : start + end])


def is_gguf(path: Path) -> bool:
    """Whether a file calls itself one, by its name or its first bytes."""
    if path.suffix == ".gguf":
        return True
    with open_regular(path) as file:
        return file.read(4) == MAGIC
