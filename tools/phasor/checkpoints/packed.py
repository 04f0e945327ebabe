"""Matrices that a quantizer of Hugging Face directories packed (GPTQ, AWQ, compressed-tensors,
bitsandbytes, FP8, BitNet): where their integers and scales lie, what they mean in f32, and which
type of a .phasor file has the same grid.

A value is (integer − zero) · scale in f32, each operation rounded once. Shapes and types are
compared with each other before anything is read; a tensor is unpacked when it is loaded.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import Checkpoint, Shape, Stored
from phasor.errors import PhasorError, printable
from phasor.files import parse_object
from phasor.format import layout as L
from phasor.values import is_number, is_whole

# Of bitsandbytes (int8_vectorwise_dequant): one by 127 in f32.
_BY_127 = np.float32(7.874015718698502e-3)
# The columns that AWQ's eight nibbles of a word are, from the lowest.
_AWQ_ORDER = np.array([0, 2, 4, 6, 1, 3, 5, 7])
_MOST_STATE = 4096  # bytes of the description that bitsandbytes keeps in a tensor


class Kind(NamedTuple):
    """What the report calls it."""

    name: str


class Grid(NamedTuple):
    """A matrix as integers (N, K), i16, without their zeros; scales (N, G), f32; and of each column
    the group, (K)."""

    integers: np.ndarray
    scales: np.ndarray
    group: np.ndarray

    def values(self) -> np.ndarray:
        result: np.ndarray = self.integers.astype(np.float32) * self.scales[:, self.group]
        return result


class Packed:
    """A matrix (N, K) of a checkpoint that is stored in another form. bytes: of what it is made of,
    as a Stored has them."""

    is_float = True

    def __init__(self, kind: str, shape: Shape, size: int, values: Callable[..., Any]) -> None:
        self.type, self.shape, self.bytes, self._values = Kind(kind), shape, size, values

    def load(self) -> np.ndarray:
        result: np.ndarray = self._values()
        return result

    keeps = L.F32

    def quantized(self, to: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Scales and integers as a file of this type has them, if that has the same values."""
        return None


class Integers(Packed):
    """One whose values are integers with scales. factor: multiplies every value once more. keeps: a
    type that is more than its grid, since its inputs are rounded as the quantizer's."""

    def __init__(
        self,
        kind: str,
        shape: Shape,
        size: int,
        grid: Callable[[], Grid],
        factor: np.float32 | None = None,
        keeps: int | None = None,
    ) -> None:
        super().__init__(kind, shape, size, self._load)
        self._grid, self._factor, self._keeps = grid, factor, keeps

    def _load(self) -> np.ndarray:
        values = self._grid().values()
        return values if self._factor is None else values * self._factor

    @property
    def keeps(self) -> int:
        """The smallest type of a .phasor file that has the same grid, F32 where none has."""
        if self._keeps is None:
            grid = self._grid()
            whole = grid.scales.shape[1] == 1
            wide = whole and (grid.integers.min(initial=0) < -8 or grid.integers.max(initial=0) > 7)
            order = (L.Q8R, L.Q4, L.Q8) if wide else (L.Q4, L.Q8, L.Q8R)
            self._keeps = next((t for t in order if self._as(grid, t) is not None), L.F32)
        return self._keeps

    def quantized(self, to: int) -> tuple[np.ndarray, np.ndarray] | None:
        return self._as(self._grid(), to)

    def _as(self, grid: Grid, to: int) -> tuple[np.ndarray, np.ndarray] | None:
        low, high = {L.Q4: (-8, 7), L.Q2R: (-1, 2)}.get(to, (-128, 127))
        integers, (_, cols) = grid.integers, self.shape
        if integers.size == 0 or integers.min() < low or integers.max() > high:
            return None
        scales = grid.scales if self._factor is None else grid.scales * self._factor
        if to in (L.Q8R, L.Q2R):
            if scales.shape[1] != 1 or cols > L.MOST_IN_ROW:
                return None
            if not np.all((scales == 0) | (scales >= L.SMALLEST_ROW_SCALE)):
                return None
            width = L.counts_of(cols, to)[1]
            kept = np.where(scales == 0, 0, integers).astype(np.int8)
            return scales, np.pad(kept, ((0, 0), (0, width - cols)))
        if to not in (L.Q4, L.Q8) or self._factor is not None or cols % L.GROUP:
            return None
        heads = grid.group[:: L.GROUP]  # of each group of 32
        if not np.array_equal(np.repeat(heads, L.GROUP), grid.group):
            return None
        with np.errstate(over="ignore"):
            halves = scales.astype(np.float16)
        if not np.array_equal(halves.astype(np.float32), scales):
            return None
        if to == L.Q8 and (scales < 0).any():
            return None
        halves = halves[:, heads]
        kept = np.where(np.repeat(halves == 0, L.GROUP, axis=1), 0, integers)
        return halves, kept.astype(np.int8)


# ---- Parts of a tensor in its pieces


class Module:
    """The tensors of one matrix: those that begin with its name. `taken`: what it is made of."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self.checkpoint, self.name = checkpoint, name
        self.taken: list[str] = []

    def error(self, what: str) -> PhasorError:
        return PhasorError(f"{self.checkpoint.path}: {printable(self.name)}: {what}")

    def has(self, part: str) -> bool:
        return f"{self.name}.{part}" in self.checkpoint

    def take(
        self, part: str, types: tuple[str, ...], shape: tuple[Any, ...] | None = None
    ) -> Stored:
        """A tensor of one of these types. shape: with None for what may be any number."""
        name = f"{self.name}.{part}"
        if name not in self.checkpoint:
            raise self.error(f"has no {part}, which its quantization needs")
        stored = self.checkpoint.tensors[name]
        if stored.dtype not in types:
            raise self.error(f"{part} has elements of type {stored.dtype}, expected {types[0]}")
        if shape is not None and (
            len(stored.shape) != len(shape)
            or any(n is not None and n != m for n, m in zip(shape, stored.shape))
        ):
            wanted = " x ".join("any" if n is None else str(n) for n in shape)
            raise self.error(f"{part} has shape {stored.shape}, expected {wanted}")
        self.taken.append(name)
        return stored

    def size(self) -> int:
        return sum(self.checkpoint.tensors[name].bytes for name in self.taken)

    def finite(self, part: str, stored: Stored) -> np.ndarray:
        """Values in f32."""
        with np.errstate(over="ignore"):
            values = stored.load().astype(np.float32)
        if not np.isfinite(values).all():
            raise self.error(f"{part}: a value is not finite")
        return values


_WORDS, _SCALES = ("<i4", "<u4"), ("<f2", "bf16", "<f4", "<f8")
_FLOATS_8 = ("e4m3", "e5m2", "e4m3z", "e5m2z")


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """(R, C) words of 32 bits -> (R, 32 / bits · C) numbers, the lowest bits first."""
    words = np.ascontiguousarray(words).view(np.uint32)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    numbers = words[:, :, None] >> shifts & np.uint32((1 << bits) - 1)
    return numbers.astype(np.int16).reshape(len(words), -1)


def _group_of(module: Module, part: str, cols: int, groups: int, size: int) -> np.ndarray:
    """The group of each column: of g_idx where it is there and says something, else columns in
    their order."""
    if not module.has(part):
        return np.arange(cols) // size
    index = module.take(part, ("<i4", "<i8"), (cols,)).load().astype(np.int64)
    if cols and (index == -1).all():
        return np.arange(cols) // size
    if cols and not (0 <= index.min() and index.max() < groups):
        raise module.error(f"{part}: a group that is none of {groups}")
    return index


def _groups(module: Module, cols: int, size: int) -> int:
    """How many groups of `size` columns there are; -1 is one for all."""
    if size == -1:
        return 1
    if cols % size:
        raise module.error(f"{cols} columns are not divided by group_size {size}")
    return cols // size


# ---- The forms


def gptq(module: Module, bits: int, size: int, plus: int) -> Integers:
    """Frantar et al. 2022, as AutoGPTQ and GPTQModel store it: qweight (K · bits / 32, N) packed
    along K; qzeros (G, N · bits / 32) packed along N, less `plus`; scales (G, N); g_idx (K)."""
    weight = module.take("qweight", _WORDS, (None, None))
    rows, cols = weight.shape[1], weight.shape[0] * 32 // bits
    groups = _groups(module, cols, size)
    if rows * bits % 32:
        raise module.error(f"{rows} outputs do not fill words of 32 bits")
    zeros = module.take("qzeros", _WORDS, (groups, rows * bits // 32))
    scales = module.take("scales", _SCALES, (groups, rows))
    group = _group_of(module, "g_idx", cols, groups, cols if size == -1 else size)

    def grid() -> Grid:
        zero = unpack(zeros.load(), bits).T
        if plus and (zero == (1 << bits) - 1).any():
            raise module.error(
                "qzeros: a zero point that GPTQ's kernels read in two ways (0 and 2^bits); quantize"
                " with checkpoint_format gptq_v2, or symmetrically"
            )
        integers = unpack(weight.load().T, bits) - (zero + plus)[:, group].astype(np.int16)
        return Grid(integers, module.finite("scales", scales).T, group)

    return Integers(f"GPTQ{bits}", (rows, cols), module.size(), grid)


def awq(module: Module, bits: int, size: int) -> Integers:
    """Lin et al. 2023, AutoAWQ's version gemm: qweight (K, N / 8) and qzeros (G, N / 8) packed
    along N in the order of _AWQ_ORDER; scales (G, N)."""
    weight = module.take("qweight", _WORDS, (None, None))
    cols, rows = weight.shape[0], weight.shape[1] * 32 // bits
    groups = _groups(module, cols, size)
    zeros = module.take("qzeros", _WORDS, (groups, weight.shape[1]))
    scales = module.take("scales", _SCALES, (groups, rows))
    group = np.arange(cols) // (cols if size == -1 else size)

    def ordered(words: np.ndarray) -> np.ndarray:
        nibbles = unpack(words, bits).reshape(len(words), -1, 8)
        out = np.empty_like(nibbles)
        out[:, :, _AWQ_ORDER] = nibbles
        return out.reshape(len(words), -1)

    def grid() -> Grid:
        integers = ordered(weight.load()).T - ordered(zeros.load()).T[:, group]
        return Grid(integers, module.finite("scales", scales).T, group)

    return Integers("AWQ", (rows, cols), module.size(), grid)


def _scale_shape(module: Module, shape: Shape, rows: int, cols: int, size: int) -> int:
    """The groups of a weight_scale: of one number, of one for each row, or of groups."""
    if math.prod(shape) == 1 or shape in ((rows,), (rows, 1)):
        return 1
    groups = _groups(module, cols, size) if size > 0 else 0
    if shape != (rows, groups):
        raise module.error(f"weight_scale has shape {shape}, for {rows} x {cols}")
    return groups


def _spread(scales: np.ndarray, rows: int) -> np.ndarray:
    """(N, G) of one number, of (N) or of (N, G)."""
    scales = scales.reshape(-1, 1) if scales.ndim < 2 else scales
    return np.broadcast_to(scales, (rows, scales.shape[1]))


def compressed(module: Module, choices: list[tuple[int, int, bool]]) -> Packed:
    """compressed-tensors. choices: (bits, group size, whether there are no zeros) of the
    config's groups. pack-quantized: weight_packed (N, K · bits / 32) of integers plus
    2^(bits − 1), weight_shape, weight_zero_point packed along N; int-quantized: weight in int8;
    float-quantized: weight in 8-bit floats."""
    if module.has("weight_packed"):
        return _pack_quantized(module, choices)
    weight = module.take("weight", ("i1", *_FLOATS_8), (None, None))
    rows, cols = weight.shape
    stored = module.take("weight_scale", _SCALES)
    sizes = [size for bits, size, _ in choices if bits == 8]
    groups = _scale_shape(module, stored.shape, rows, cols, max(sizes, default=0))
    group = np.arange(cols) // max(1, cols // groups)
    zeros = None
    if module.has("weight_zero_point"):
        zeros = module.take("weight_zero_point", ("i1", "<i4", "<i8", *_FLOATS_8), stored.shape)
    elif weight.dtype == "i1" and not any(symmetric for _, _, symmetric in choices):
        raise module.error("has no weight_zero_point, and the weights are not symmetric")

    def scales() -> np.ndarray:
        return _spread(module.finite("weight_scale", stored), rows)

    if weight.dtype != "i1":
        if zeros is not None and zeros.load().any():
            raise module.error("weight_zero_point: not supported for floats of 8 bits")
        return Packed(
            "FP8",
            (rows, cols),
            module.size(),
            lambda: module.finite("weight", weight) * scales()[:, group],
        )

    def grid() -> Grid:
        integers = weight.load().astype(np.int16)
        if zeros is not None:
            zero = zeros.load()
            if zero.size and (zero.min() < -128 or zero.max() > 127):
                raise module.error("weight_zero_point: a zero that is no int8")
            integers = integers - _spread(zero.astype(np.int16), rows)[:, group]
        return Grid(integers, scales(), group)

    return Integers("INT8", (rows, cols), module.size(), grid)


def _pack_quantized(module: Module, choices: list[tuple[int, int, bool]]) -> Integers:
    weight = module.take("weight_packed", _WORDS, (None, None))
    wanted = module.take("weight_shape", ("<i8", "<i4"), (2,)).load().tolist()
    rows, cols = wanted
    if rows != weight.shape[0] or not 0 < cols <= weight.shape[1] * 16:
        raise module.error(f"weight_shape {rows} x {cols} is not that of {weight.shape} words")
    fitting = {c for c in choices if -(-cols * c[0] // 32) == weight.shape[1]}
    if len(fitting) != 1:
        raise module.error(
            f"{len(fitting)} of the config's groups fit {weight.shape[1]} words for {cols} columns"
        )
    bits, size, symmetric = fitting.pop()
    stored = module.take("weight_scale", _SCALES)
    groups = _scale_shape(module, stored.shape, rows, cols, size)
    group = _group_of(module, "weight_g_idx", cols, groups, max(1, cols // groups))
    half, zeros = 1 << bits - 1, None
    if not symmetric:
        zeros = module.take("weight_zero_point", _WORDS, (-(-rows * bits // 32), groups))

    def grid() -> Grid:
        integers = unpack(weight.load(), bits)[:, :cols]
        if zeros is None:
            integers = integers - np.int16(half)
        else:  # both have the half added
            integers = integers - unpack(zeros.load().T, bits)[:, :rows].T[:, group]
        return Grid(integers, _spread(module.finite("weight_scale", stored), rows), group)

    return Integers(f"INT{bits}", (rows, cols), module.size(), grid)


def bitsandbytes_8(module: Module) -> Integers:
    """Dettmers et al. 2022 (LLM.int8()): weight (N, K) int8 and SCB (N), the largest value of each
    row; a value is weight · SCB · (1 / 127)."""
    weight = module.take("weight", ("i1",), (None, None))
    rows, cols = weight.shape
    scales = module.take("SCB", ("<f4",), (rows,))
    if module.has("weight_format"):
        if module.take("weight_format", ("u1",)).load().any():
            raise module.error("weight_format: only row-major (0) is supported")

    def grid() -> Grid:
        return Grid(
            weight.load().astype(np.int16),
            module.finite("SCB", scales)[:, None],
            np.zeros(cols, np.int64),
        )

    return Integers("LLM.int8", (rows, cols), module.size(), grid, _BY_127)


def bitsandbytes_4(module: Module, kind: str) -> Packed:
    """Dettmers et al. 2023 (QLoRA): weight, two values a byte, the first in the high bits, of a
    table of 16 (quant_map), times absmax of a block; absmax itself in 8 bits of a table of 256
    with a nested absmax and an offset where it is quantized too."""
    state_tensor = module.take(f"weight.quant_state.bitsandbytes__{kind}", ("u1",), (None,))
    if state_tensor.bytes > _MOST_STATE:
        raise module.error(f"quant_state has {state_tensor.bytes} bytes, at most {_MOST_STATE}")
    try:
        state = parse_object(state_tensor.load().tobytes())
    except PhasorError as error:
        raise module.error(f"quant_state: {error}") from error
    shape, block = state.get("shape"), state.get("blocksize")
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or not all(is_whole(n, 1, 1 << 30) for n in shape)
        or not is_whole(block, 1, 1 << 20)
        or state.get("quant_type", kind) != kind
    ):
        raise module.error("quant_state: expected a shape of two numbers, a blocksize, quant_type")
    count = math.prod(shape)
    weight = module.take("weight", ("u1",))
    if math.prod(weight.shape) != -(-count // 2):
        raise module.error(f"weight has {math.prod(weight.shape)} bytes for {count} values")
    blocks, table = -(-count // block), module.take("weight.quant_map", ("<f4",), (16,))
    nested = module.has("weight.nested_absmax")
    absmax = module.take("weight.absmax", ("u1",) if nested else ("<f4",), (blocks,))
    if nested:
        inner, offset = state.get("nested_blocksize"), state.get("nested_offset")
        if not is_whole(inner, 1, 1 << 20) or not is_number(offset):
            raise module.error("quant_state: expected nested_blocksize and nested_offset")
        nested_table = module.take("weight.nested_quant_map", ("<f4",), (256,))
        nested_absmax = module.take("weight.nested_absmax", ("<f4",), (-(-blocks // inner),))

    def scales() -> np.ndarray:
        if not nested:
            return module.finite("absmax", absmax)
        largest = module.finite("nested_absmax", nested_absmax)[np.arange(blocks) // inner]
        codes = module.finite("nested_quant_map", nested_table)[absmax.load()]
        result: np.ndarray = codes * largest + np.float32(offset)
        return result

    def values() -> np.ndarray:
        raw = weight.load().ravel()
        codes = np.stack([raw >> 4, raw & 15], axis=1).ravel()[:count]
        numbers = module.finite("quant_map", table)[codes]
        return (numbers * np.repeat(scales(), block)[:count]).reshape(shape)

    return Packed(kind.upper(), tuple(shape), module.size(), values)


def fp8(module: Module, block: tuple[int, int]) -> Packed:
    """DeepSeek-AI 2024: weight (N, K) in 8-bit floats, times weight_scale_inv of its block."""
    weight = module.take("weight", _FLOATS_8, (None, None))
    rows, cols = weight.shape
    shape = (-(-rows // block[0]), -(-cols // block[1]))
    scales = module.take("weight_scale_inv", _SCALES, shape)

    def values() -> np.ndarray:
        each = module.finite("weight_scale_inv", scales)
        each = each[np.arange(rows) // block[0]][:, np.arange(cols) // block[1]]
        result: np.ndarray = module.finite("weight", weight) * each
        return result

    return Packed("FP8", (rows, cols), module.size(), values)


def bitnet(module: Module, divides: bool) -> Integers:
    """Ma et al. 2024, as transformers packs it: weight (N / 4, K), whose bits 2i and 2i + 1 are the
    codes n of rows i·N/4 …; weight_scale, one number s. A value is (n − 1) · s, or with `divides`
    (n − 1) / s. Its inputs are int8 a token, as those of q2r."""
    weight = module.take("weight", ("u1",), (None, None))
    stored = module.take("weight_scale", _SCALES)
    if math.prod(stored.shape) != 1:
        raise module.error(f"weight_scale has shape {stored.shape}, expected one number")
    rows, cols = 4 * weight.shape[0], weight.shape[1]
    if cols > L.MOST_IN_ROW:
        raise module.error(f"{cols} inputs, expected at most {L.MOST_IN_ROW}")

    def grid() -> Grid:
        scale = module.finite("weight_scale", stored).reshape(1, 1)
        with np.errstate(divide="ignore", over="ignore"):
            scale = 1 / scale if divides else scale
        if not L.SMALLEST_ROW_SCALE <= scale[0, 0] < np.float32(2.0**126):
            raise module.error("weight_scale: the values are none that q2r has")
        planes = weight.load() >> np.arange(0, 8, 2, dtype=np.uint8)[:, None, None] & 3
        integers = planes.reshape(rows, cols).astype(np.int16) - 1
        return Grid(integers, np.broadcast_to(scale, (rows, 1)), np.zeros(cols, np.int64))

    return Integers("BITNET", (rows, cols), module.size(), grid, keeps=L.Q2R)
