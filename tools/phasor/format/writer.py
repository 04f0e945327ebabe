"""Writes a weight file (file-format.md), from its first byte on; and puts another section in the
place of one. numpy only.

`write_model` streams: it holds one tensor at a time (with files.replacing a file is there whole or
not at all).
"""

from __future__ import annotations

import os
import struct
from typing import Any, BinaryIO, Callable, Iterator, NamedTuple

import numpy as np

from phasor.errors import PhasorError
from phasor.format import descriptor as phasor_descriptor
from phasor.format import layout as L
from phasor.format import second_order
from phasor.format.checksum import crc32c, crc32c_join
from phasor.format.file import (
    ALIGNMENT,
    DATA,
    DIRECTORY,
    ENDIAN,
    ENTRY_BYTES,
    ENTRY_FORMAT,
    HEADER_BYTES,
    MAGIC,
    META,
    REQUIRED,
    SECTION_BYTES,
    SECTIONS,
    VERSION,
    Entry,
    Quantized,
    Source,
    Weights,
)
from phasor.format.layout import round_up
from phasor.format.meta import encode_meta
from phasor.format.tensors import Slot, slots


class Rounding(NamedTuple):
    """What storing did to the values of one type: the largest |stored − given|, and as a share of
    the tensor's largest |value|."""

    type: int
    bytes: int
    largest: float
    share: float
    where: str


# ---- Encoding of one tensor


def exact_values(slot: Slot, given: Weights) -> np.ndarray:
    """The values as f32 (f64 for a table of frequencies), shape and finiteness checked."""
    shape = (sum(slot.parts),) if slot.layout == L.VECTOR else (sum(slot.parts), slot.cols)
    if isinstance(given, Quantized):
        raise PhasorError(f"{slot.name}: has quantized values, expected numbers")
    if given.shape != shape:
        raise PhasorError(f"{slot.name}: has shape {tuple(given.shape)}, expected {shape}")
    if slot.type == L.F64:
        values = given.astype("<f8")
    else:
        with np.errstate(over="ignore"):
            values = given.astype("<f4", copy=False)
    if not np.isfinite([values.min(initial=0), values.max(initial=0)]).all():
        raise PhasorError(f"{slot.name}: a weight is not finite in {L.TYPES[slot.type]}")
    return values


def encode_vector(slot: Slot, values: np.ndarray) -> bytes:
    """The tensor's bytes: rows that pad parts are zeros."""
    if slot.type == L.F64:
        return values.tobytes()
    values = L.flush_subnormals(values)
    out = np.zeros(slot.rows, dtype="<f4")
    for true, padded in (
        L.part_rows(slot.parts) if len(slot.parts) > 1 else [(slice(0, slot.rows),) * 2]
    ):
        out[padded] = values[true]
    return out.tobytes()


def _rotated_moments(moments: np.ndarray | None) -> np.ndarray | None:
    """The moments (K) of rotated inputs, the mean of each block's, the parts of it summed in f32 in
    their order; of (K, K) R·H·Rᵀ."""
    if moments is None:
        return None
    if moments.ndim == 2:
        return L.rotate_inputs(L.rotate_inputs(moments).T)
    block = L.rotation_block(len(moments))
    parts = moments.astype(np.float32).reshape(-1, block) * np.float32(1 / block)
    return np.cumsum(parts, axis=1, dtype=np.float32)[:, -1].repeat(block)


def _form_of(slot: Slot, kind: int, inputs: int) -> int:
    """The form of the inputs of a matrix of a type, where that form is wanted."""
    own = L.IN_GROUPS if inputs == L.INPUTS_ROTATED else L.QUANTIZED
    return inputs if kind in own and slot.layout == L.PANEL16 else 0


def _quantized(
    slot: Slot, kind: int, given: Weights, moments: np.ndarray | None, inputs: int
) -> tuple[Quantized, float]:
    """The quantized form and its largest error (0 where it was that already; of rotated weights
    beside those)."""
    turned = _form_of(slot, kind, inputs) == L.INPUTS_ROTATED
    if isinstance(given, Quantized):
        rows = sum(slot.parts)
        shapes = [(rows, count) for count in L.counts_of(slot.cols, given.type)]
        if [given.scales.shape, given.values.shape] != shapes:
            raise PhasorError(
                f"{slot.name}: the {L.TYPES[given.type]} values have another shape than "
                f"{sum(slot.parts)} x {slot.cols}"
            )
        if (given.type, given.rotated) == (kind, turned):
            return given, 0.0
        if turned:
            raise PhasorError(
                f"{slot.name}: its values are {L.TYPES[given.type]} already, and not those of the "
                "rotated matrix"
            )
        given = given.widened(slot.cols)
    moments = _rotated_moments(moments) if turned else moments
    values, hessian, quantize = exact_values(slot, given), None, L.quantize
    if moments is not None and moments.ndim == 2:
        hessian, moments = moments, np.ascontiguousarray(np.diagonal(moments))
    parts, worst = [], 0.0
    step = max(1, L.CACHED // slot.cols)
    if hessian is not None and kind in second_order.TYPES:
        rounder = second_order.Rounder(hessian, slot.cols, kind)
        quantize, step = rounder.quantize, rounder.rows
    for first in range(0, len(values), step):
        part = values[first : first + step]
        part = L.rotate_weights(part) if turned else part
        try:
            scales, q = quantize(part, kind, moments)
        except PhasorError as error:
            raise PhasorError(f"{slot.name}: {error}") from error
        part, as_stored = (L.rotate_weights(part), L.Q8R) if kind in L.ROTATED else (part, kind)
        stored = L.dequantize(scales, q, slot.cols, as_stored, np.float32)
        worst = max(worst, float(np.abs(stored - part).max()))
        parts.append((scales, q))
    scales, q = map(np.concatenate, zip(*parts))
    return Quantized(scales, q, kind), worst


def _encode(
    slot: Slot, kind: int, given: Weights, moments: np.ndarray | None = None, inputs: int = 0
) -> Iterator[tuple[bytes, float]]:
    """The tensor's bytes in pieces, each with the largest error in it."""
    if slot.layout == L.VECTOR:
        yield encode_vector(slot, exact_values(slot, given)), 0.0
    elif kind in L.QUANTIZED:
        yield from _encode_quantized(slot, *_quantized(slot, kind, given, moments, inputs))
    else:
        if isinstance(given, Quantized):
            given = given.widened(slot.cols)
        yield from _encode_numbers(slot, kind, exact_values(slot, given))


def _encode_quantized(slot: Slot, q: Quantized, worst: float) -> Iterator[tuple[bytes, float]]:
    if slot.layout == L.ROWS:
        yield L.pack_rows(q.scales, q.values, slot.cols, q.type), worst
        return
    for true, _ in L.part_rows(slot.parts):
        yield L.pack_panels(q.scales[true], q.values[true], slot.cols, q.type), worst


def _encode_numbers(slot: Slot, kind: int, values: np.ndarray) -> Iterator[tuple[bytes, float]]:
    """f32, f16 and bf16."""
    rows = slot.layout == L.ROWS
    for true in [slice(None)] if rows else [true for true, _ in L.part_rows(slot.parts)]:
        part = values[true]
        try:
            stored = L.flush_subnormals(part) if kind == L.F32 else L.halves_of(part, kind)
        except PhasorError as error:
            raise PhasorError(f"{slot.name}: {error}") from error
        worst = 0.0 if kind == L.F32 else float(np.abs(L.widen(stored, kind) - part).max(initial=0))
        yield stored.tobytes() if rows else L.pack_numbers(stored, kind), worst


# ---- Writing


class _Plan(NamedTuple):
    sections: dict[int, tuple[int, int]]  # kind -> offset, bytes
    entries: list[Entry]  # crc still 0
    head_bytes: int
    file_bytes: int


def _plan(
    meta: bytes, wanted: list[tuple[Slot, int]], extra: dict[int, bytes], inputs: int
) -> _Plan:
    """Where everything lies. wanted: (slot, type) in the file's order."""
    count = 3 + len(extra)
    places: dict[int, tuple[int, int]] = {}
    at = round_up(HEADER_BYTES + SECTION_BYTES * count, ALIGNMENT)
    for kind, size in [(META, len(meta)), (DIRECTORY, 8 + ENTRY_BYTES * len(wanted))]:
        places[kind] = (at, size)
        at = round_up(at + size, ALIGNMENT)
    head = at
    for kind in sorted(extra):
        if kind not in SECTIONS or kind in REQUIRED:
            raise PhasorError(f"section {kind} cannot be written")
        if not extra[kind]:
            raise PhasorError(f"section {SECTIONS[kind]} is empty")
        places[kind] = (at, len(extra[kind]))
        at = round_up(at + len(extra[kind]), ALIGNMENT)
    data, entries, end = at, [], at
    for slot, kind in wanted:
        size = L.tensor_bytes(kind, slot.layout, slot.rows, slot.cols, slot.panels)
        entries.append(
            Entry(
                slot.key,
                kind,
                slot.layout,
                at,
                size,
                rows=slot.rows,
                cols=slot.cols,
                panels=slot.panels,
                crc=0,
                inputs=_form_of(slot, kind, inputs),
            )
        )
        end = at + size
        at = round_up(end, ALIGNMENT)
    places[DATA] = (data, end - data)
    return _Plan(places, entries, head, end)


def _head(plan: _Plan, meta: bytes, entries: list[Entry], crcs: dict[int, int]) -> bytes:
    """Header, section table, META and DIRECTORY, with the checksum."""
    out = bytearray(plan.head_bytes)
    struct.pack_into(
        "<8sIIIIQQII",
        out,
        0,
        MAGIC,
        VERSION,
        ENDIAN,
        ALIGNMENT,
        len(plan.sections),
        plan.file_bytes,
        plan.head_bytes,
        0,
        0,
    )
    for i, kind in enumerate(sorted(plan.sections)):
        offset, size = plan.sections[kind]
        struct.pack_into(
            "<IIQQII",
            out,
            HEADER_BYTES + SECTION_BYTES * i,
            kind,
            int(kind in REQUIRED),
            offset,
            size,
            crcs.get(kind, 0),
            0,
        )
    out[plan.sections[META][0] : plan.sections[META][0] + len(meta)] = meta
    at = plan.sections[DIRECTORY][0]
    struct.pack_into("<II", out, at, len(entries), 0)
    for i, e in enumerate(entries):
        struct.pack_into(
            ENTRY_FORMAT,
            out,
            at + 8 + ENTRY_BYTES * i,
            e.key,
            e.type,
            e.layout,
            e.inputs,
            e.offset,
            e.bytes,
            e.rows,
            e.cols,
            e.panels,
            e.crc,
            0,
        )
    struct.pack_into("<I", out, 40, crc32c(out))
    return bytes(out)


def _pad_to(file: BinaryIO, offset: int) -> bytes:
    """Zeros up to `offset`, written."""
    zeros = bytes(offset - file.tell())
    file.write(zeros)
    return zeros


def write_model(
    file: BinaryIO,
    descriptor: dict[str, Any],
    source: Source,
    kind: int | Callable[[Slot], int] = L.F32,
    extra: dict[int, bytes] | None = None,
    progress: Callable[[Slot], None] = lambda slot: None,
    moments: Callable[[Slot], np.ndarray | None] | None = None,
    inputs: int = 0,
) -> list[Rounding]:
    """Writes a whole file from its first byte on; `file` is seekable and empty.

    source gives the weights of each slot, in the file's order; kind is the type of the matrices,
    one for all or a function of the slot; extra are the sections after the head; moments (K) of a
    matrix's inputs say how much each counts in types in groups without minima; with
    all of them (K, K) it is rounded as second_order does; inputs: L.INPUTS16 of the quantized
    matrices, L.INPUTS_ROTATED of those of types in groups, or 0. Returns the rounding of each type.
    PhasorError when a weight does not fit the descriptor.
    """
    meta, extra = encode_meta(descriptor), extra or {}
    type_of = kind if callable(kind) else lambda slot: kind
    wanted = [
        (slot, type_of(slot) if slot.matrix else slot.type)
        for slot in slots(phasor_descriptor.with_defaults(descriptor))
    ]
    plan = _plan(meta, wanted, extra, inputs)
    file.write(bytes(plan.head_bytes))
    crcs = {}
    for section in sorted(extra):
        _pad_to(file, plan.sections[section][0])
        file.write(extra[section])
        crcs[section] = crc32c(extra[section])
    _pad_to(file, plan.sections[DATA][0])
    entries, data_crc = [], 0
    worst: dict[int, Rounding] = {}
    for (slot, type_), entry in zip(wanted, plan.entries):
        progress(slot)
        data_crc = crc32c(_pad_to(file, entry.offset), data_crc)
        given, crc = source(slot), 0
        largest, error = _largest(given), 0.0
        for piece, piece_error in _encode(
            slot, type_, given, moments(slot) if moments and slot.matrix else None, inputs
        ):
            file.write(piece)
            crc, error = crc32c(piece, crc), max(error, piece_error)
        if file.tell() != entry.offset + entry.bytes:
            raise AssertionError(
                f"{slot.name}: {file.tell() - entry.offset} bytes were written, {entry.bytes} "
                "planned"
            )
        data_crc = crc32c_join(data_crc, crc, entry.bytes)
        entries.append(entry._replace(crc=crc))
        _note(worst, type_, entry.bytes, error, largest, slot.name)
    crcs[DATA] = data_crc
    file.seek(0)
    file.write(_head(plan, meta, entries, crcs))
    file.seek(0, os.SEEK_END)
    return [worst[type_] for type_ in sorted(worst)]


def _largest(given: Weights) -> float:
    if isinstance(given, Quantized):
        return 0.0
    return float(max(given.max(initial=0.0), -given.min(initial=0.0)))


def _note(
    worst: dict[int, Rounding], type_: int, size: int, error: float, largest: float, where: str
) -> None:
    old = worst.get(type_, Rounding(type_, 0, 0.0, 0.0, ""))
    share = error / largest if largest > 0 else 0.0
    new = Rounding(
        type_,
        old.bytes + size,
        max(old.largest, error),
        max(old.share, share),
        where if error > old.largest else old.where,
    )
    worst[type_] = new


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise PhasorError(f"{file.name}: became shorter while it was written")
    return data


def _read_head(file: BinaryIO) -> bytearray:
    file.seek(0)
    header = _read_exactly(file, HEADER_BYTES)
    file.seek(0)
    return bytearray(_read_exactly(file, struct.unpack_from("<Q", header, 32)[0]))


def _write_head(file: BinaryIO, head: bytearray) -> None:
    struct.pack_into("<I", head, 40, 0)
    struct.pack_into("<I", head, 40, crc32c(head))
    file.seek(0)
    file.write(head)
    file.flush()


def _section_of(head: bytearray, kind: int) -> tuple[int, int, int]:
    """(where its row of the table is, its offset, its bytes)."""
    for i in range(struct.unpack_from("<I", head, 20)[0]):
        at = HEADER_BYTES + SECTION_BYTES * i
        found, _, offset, size = struct.unpack_from("<IIQQ", head, at)
        if found == kind:
            return at, offset, size
    raise AssertionError(f"the file has no section {kind}")


def replace_section(file: BinaryIO, kind: int, content: bytes) -> None:
    """Puts other bytes of the same size into a section, and mends its checksum and the head's."""
    head = _read_head(file)
    at, offset, size = _section_of(head, kind)
    if size != len(content):
        raise AssertionError(f"section {kind} has {size} bytes, not {len(content)}")
    file.seek(offset)
    file.write(content)
    struct.pack_into("<I", head, at + 24, crc32c(content))
    _write_head(file, head)


def set_inputs(file: BinaryIO, inputs: int, but: tuple[int, ...] = ()) -> None:
    """Gives the quantized matrices of a file that form of inputs: L.INPUTS16, or 0. but: types that
    keep theirs."""
    head = _read_head(file)
    _, offset, size = _section_of(head, DIRECTORY)
    for at in range(offset + 8, offset + size, ENTRY_BYTES):
        kind, layout = head[at + 4], head[at + 5]
        if kind in L.QUANTIZED and kind not in but and layout == L.PANEL16:
            head[at + 6] = inputs
    _write_head(file, head)


# ---- Reading
