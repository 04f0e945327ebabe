"""A GGUF file: its metadata and its tensors where they lie (versions 2 and 3); types.py has what
their types mean. numpy only.

Everything a file says is checked before it is used: a count is compared with the bytes that are
left, a tensor's place with the end of the file.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor import mistaken
from phasor.checkpoints.tensors import Checkpoint, Shape, check_apart
from phasor.errors import Damaged, PhasorError, named, shown
from phasor.files import map_bytes, open_regular
from phasor.format import layout as L
from phasor.format.layout import round_up
from phasor.ignored import without
from phasor.sources.gguf.types import I2_S, I2_S_OF_64, OTHERS, Q2_0, Q2_0_OF_64, TYPES, Type
from phasor.values import is_whole

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


class Tensor(NamedTuple):
    """A tensor where it lies. `shape` is (rows, columns), the opposite of the file's order."""

    type: Type
    shape: Shape
    data: np.ndarray  # u8
    is_float: bool = True

    def blocks(self) -> np.ndarray:
        return self.data[: self.data.size - self.type.tail].view(self.type.block)

    def scale(self) -> np.float32:
        """Of all blocks, of a type that has one."""
        tail = self.data[self.data.size - self.type.tail :]
        return np.float32(tail[:4].view("<f4")[0]) if self.type.tail else np.float32(1)

    def load(self) -> np.ndarray:
        """The values in f32."""
        values = self.type.widen(self.blocks()).reshape(self.shape)
        return values * self.scale() if self.type.tail else values

    def is_finite(self) -> bool:
        """Of a quantized type: whether its scales are; their products with a block's integers do
        not leave f32."""
        if self.type.tail:
            return bool(np.isfinite(self.scale() * np.float32(2)))
        blocks = self.blocks()
        if self.type.keeps == L.BF16:
            return not (blocks["x"] & 0x7F80 == 0x7F80).any()
        names = self.type.block.names or ()
        if "e" in names:  # the powers of MXFP4, whose products fit
            return bool((blocks["e"] < 252).all())
        blocks = blocks["b"] if "b" in names else blocks
        return all(
            np.isfinite(blocks[name]).all()
            for name in ("x", "d", "m")
            if name in (blocks.dtype.names or ())
        )

    def quantized(self, to: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Of a type that is quantized in .phasor files too: scales or records (N, G or R) and int8
        values (N, K), as they have them. to: another type of theirs that has the values, with a
        scale for as many columns or fewer."""
        to = self.type.keeps if to is None else to
        scales, values = dict(self.type.also).get(to, self.type.packed)(self.blocks())
        rows, cols = self.shape
        if self.type.tail:
            scale = self.scale()
            if not (scale == 0 or scale >= L.SMALLEST_ROW_SCALE):
                raise PhasorError(
                    f"has the scale {scale:g}, expected 0 or a number from 2^-38 on; convert with"
                    " --type f32"
                )
            values = np.where(scale == 0, 0, values).astype(np.int8).reshape(rows, cols)
            width = L.counts_of(cols, self.type.keeps)[1]
            return np.full((rows, 1), scale), np.pad(values, ((0, 0), (0, width - cols)))
        own = L.SPANS.get(self.type.keeps, L.GROUP)
        scales = np.repeat(scales.reshape(rows, -1), own // L.SPANS.get(to, L.GROUP), axis=1)
        return scales, values.astype(np.int8, copy=False).reshape(rows, -1)


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


def twos_of(entries: list[Any], left: int, alignment: int) -> Type:
    """Which blocks type 42 has in a file: what fits the places of its tensors. entries: (name,
    type, shape, offset) of all tensors, which have `left` bytes together."""
    ends = dict(zip(offsets := sorted(at for _, _, _, at in entries), [*offsets[1:], left]))

    def fits(kind: Type) -> bool:
        return all(
            ends[at] - alignment < at + kind.bytes(math.prod(shape)) <= ends[at]
            for _, own, shape, at in entries
            if own is TYPES[Q2_0]
        )

    fitting = [kind for kind in (TYPES[Q2_0], Q2_0_OF_64) if fits(kind)]
    if len(fitting) != 1:
        raise Damaged(
            "tensors of type Q2_0 have the places of blocks of "
            + ("64 and of 128 values alike" if fitting else "neither 64 nor 128 values")
        )
    return fitting[0]


class GGUF(Checkpoint):
    """A file that was read: `metadata` by key, the tensors as a checkpoint. i2s_blocks: the values
    of a block of I2_S, 128 or 64. PhasorError names the file and the thing that is wrong."""

    def __init__(self, path: Path, i2s_blocks: int = 128) -> None:
        super().__init__(path, {})
        self._types = {**TYPES, **({I2_S: I2_S_OF_64} if i2s_blocks == 64 else {})}
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
        if kind not in self._types:
            raise PhasorError(
                f"{name}: has type {OTHERS.get(kind, kind)}, which is not supported, expected "
                f"{', '.join(t.name for t in TYPES.values())}. TRY: the model in one of these, or "
                "llama-quantize --allow-requantize with F32 of this file"
            )
        if not all(shape) or math.prod(shape) > _MAX_ELEMENTS:
            raise Damaged(f"{name}: has shape {' x '.join(map(str, shape))}, which is no tensor's")
        own = self._types[kind]
        if shape[0] % own.size:
            raise PhasorError(
                f"{name}: has rows of {shape[0]} values, {own.name} needs a multiple of {own.size}"
            )
        return name, own, shape[::-1], offset

    def _place(self, entries: list[Any], start: int, alignment: int) -> None:
        left = self.data.size - start
        if any(kind is TYPES[Q2_0] for _, kind, _, _ in entries):
            twos = twos_of(entries, left, alignment)
            entries = [
                (name, twos if kind is TYPES[Q2_0] else kind, shape, at)
                for name, kind, shape, at in entries
            ]
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
