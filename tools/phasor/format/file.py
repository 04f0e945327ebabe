"""Writes and reads `.phasor` files (docs/format.md). numpy only.

`write_model` streams: it holds one tensor at a time (with files.replacing a file is there whole or
not at all). `PhasorFile` checks a file's structure when it is opened, and everything with `check`.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, NamedTuple, Union

import numpy as np

from phasor.errors import named

# write_model is used with replacing, which is found here too.
from phasor.files import map_bytes, replacing  # noqa: F401
from phasor.format import descriptor as phasor_descriptor
from phasor.format import layout as L
from phasor.format.layout import PhasorError, crc32c, round_up
from phasor.format.tensors import Slot, slots, tensor_name

MAGIC = b"\x89PHASOR\n"
VERSION, ENDIAN, ALIGNMENT = 1, 0x01020304, 64
HEADER_BYTES, SECTION_BYTES, ENTRY_BYTES = 64, 32, 48
META, DIRECTORY, SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, CHAT, DATA = 1, 2, 3, 4, 5, 8, 15
SECTIONS = {
    META: "META",
    DIRECTORY: "DIRECTORY",
    SOURCE_TOKENIZER: "source TOKENIZER",
    TARGET_TOKENIZER: "target TOKENIZER",
    VECTORS: "VECTORS",
    CHAT: "CHAT",
    DATA: "DATA",
}
_REQUIRED = (META, DIRECTORY, DATA)


class Quantized(NamedTuple):
    """A matrix that is quantized already: stored as it is."""

    scales: np.ndarray  # f16 (N, G); of q8r f32 (N, 1); of q4m and q4k records (minima.py)
    values: np.ndarray  # int8 (N, 32·G); of q8r (N, 64·⌈K/64⌉)
    type: int = L.Q8  # q4: the values are −8 … 7; q4m and q4k: 0 … 15


Weights = Union[np.ndarray, Quantized]
Source = Callable[[Slot], Weights]  # true rows (N, K) or (N,) of a slot, in f32 or f64


class Entry(NamedTuple):
    """One tensor of the directory."""

    key: int
    type: int
    layout: int
    offset: int
    bytes: int
    rows: int
    cols: int
    panels: int
    crc: int


class Rounding(NamedTuple):
    """What storing did to the values of one type: the largest |stored − given|, and as a share of
    the tensor's largest |value|."""

    type: int
    bytes: int
    largest: float
    share: float
    where: str


# ---- Encoding of one tensor


def _exact(slot: Slot, given: np.ndarray) -> np.ndarray:
    """The values as f32 (f64 for a table of frequencies), shape and finiteness checked."""
    shape = (sum(slot.parts),) if slot.layout == L.VECTOR else (sum(slot.parts), slot.cols)
    if given.shape != shape:
        raise PhasorError(f"{slot.name}: has shape {tuple(given.shape)}, expected {shape}")
    if slot.type == L.F64:
        values = given.astype("<f8")
    else:
        with np.errstate(over="ignore"):
            values = given.astype("<f4")
    if not np.isfinite(values).all():
        raise PhasorError(f"{slot.name}: a weight is not finite in {L.TYPES[slot.type]}")
    return values


def _encode_vector(slot: Slot, values: np.ndarray) -> bytes:
    if slot.type == L.F64:
        return values.tobytes()
    values = L.flush_subnormals(values)
    out = np.zeros(slot.rows, dtype="<f4")
    for true, padded in (
        L.part_rows(slot.parts) if len(slot.parts) > 1 else [(slice(0, slot.rows),) * 2]
    ):
        out[padded] = values[true]
    return out.tobytes()


def _quantized(
    slot: Slot, kind: int, given: Weights, moments: np.ndarray | None
) -> tuple[Quantized, np.ndarray]:
    """The quantized form and the error of each value, f32 (N, K) (zeros where it was that already;
    of q8rh beside the rotated weights)."""
    if isinstance(given, Quantized):
        rows = sum(slot.parts)
        shapes = [(rows, count) for count in L.counts_of(slot.cols, given.type)]
        if [given.scales.shape, given.values.shape] != shapes:
            raise PhasorError(
                f"{slot.name}: the {L.TYPES[given.type]} values have another shape than "
                f"{sum(slot.parts)} x {slot.cols}"
            )
        if given.type == kind:
            return given, np.zeros((1, 1), dtype=np.float32)
        given = L.dequantize(given.scales, given.values, slot.cols, given.type)
    values = _exact(slot, given)
    try:
        scales, q = L.quantize(values, kind, moments)
    except PhasorError as error:
        raise PhasorError(f"{slot.name}: {error}") from error
    given, as_stored = (L.rotate_weights(values), L.Q8R) if kind == L.Q8RH else (values, kind)
    stored = L.dequantize(scales, q, slot.cols, as_stored, np.float32)
    return Quantized(scales, q, kind), stored - given


def _encode(
    slot: Slot, kind: int, given: Weights, moments: np.ndarray | None = None
) -> Iterator[tuple[bytes, float]]:
    """The tensor's bytes in pieces, each with the largest error in it."""
    if slot.layout == L.VECTOR:
        yield _encode_vector(slot, _exact(slot, given)), 0.0
    elif kind in L.QUANTIZED:
        q, error = _quantized(slot, kind, given, moments)
        yield from _encode_quantized(slot, q, float(np.abs(error).max()))
    else:
        if isinstance(given, Quantized):
            given = L.dequantize(given.scales, given.values, slot.cols, given.type)
        yield from _encode_numbers(slot, kind, _exact(slot, given))


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
        error = 0.0 if kind == L.F32 else float(np.abs(L.widen(stored, kind) - part).max(initial=0))
        yield stored.tobytes() if rows else L.pack_numbers(stored, kind), error


# ---- Writing


class _Plan(NamedTuple):
    sections: dict[int, tuple[int, int]]  # kind -> offset, bytes
    entries: list[Entry]  # crc still 0
    head_bytes: int
    file_bytes: int


def _plan(meta: bytes, wanted: list[tuple[Slot, int]], extra: dict[int, bytes]) -> _Plan:
    """Where everything lies. wanted: (slot, type) in the file's order."""
    count = 3 + len(extra)
    places: dict[int, tuple[int, int]] = {}
    at = round_up(HEADER_BYTES + SECTION_BYTES * count, ALIGNMENT)
    for kind, size in [(META, len(meta)), (DIRECTORY, 8 + ENTRY_BYTES * len(wanted))]:
        places[kind] = (at, size)
        at = round_up(at + size, ALIGNMENT)
    head = at
    for kind in sorted(extra):
        if kind not in (SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, CHAT):
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
            int(kind in _REQUIRED),
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
            "<IBBHQQIIIIQ",
            out,
            at + 8 + ENTRY_BYTES * i,
            e.key,
            e.type,
            e.layout,
            0,
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
    descriptor: dict,
    source: Source,
    kind: int | Callable[[Slot], int] = L.F32,
    extra: dict[int, bytes] | None = None,
    progress: Callable[[Slot], None] = lambda slot: None,
    moments: Callable[[Slot], np.ndarray | None] | None = None,
) -> list[Rounding]:
    """Writes a whole file from its first byte on; `file` is seekable and empty.

    source gives the weights of each slot, in the file's order; kind is the type of the matrices,
    one for all or a function of the slot; extra are the sections after the head; moments (K) of a
    matrix's inputs say how much each counts in q8 and q4. Returns the rounding of each type.
    PhasorError when a weight does not fit the descriptor.
    """
    meta, extra = phasor_descriptor.encode_meta(descriptor), extra or {}
    type_of = kind if callable(kind) else lambda slot: kind
    wanted = [
        (slot, type_of(slot) if slot.matrix else slot.type)
        for slot in slots(phasor_descriptor.with_defaults(descriptor))
    ]
    plan = _plan(meta, wanted, extra)
    file.write(bytes(plan.head_bytes))
    crcs = {}
    for section in sorted(extra):
        _pad_to(file, plan.sections[section][0])
        file.write(extra[section])
        crcs[section] = crc32c(extra[section])
    _pad_to(file, plan.sections[DATA][0])
    entries, data_crc, worst = [], 0, {}
    for (slot, type_), entry in zip(wanted, plan.entries):
        progress(slot)
        data_crc = crc32c(_pad_to(file, entry.offset), data_crc)
        given, crc = source(slot), 0
        largest, error = _largest(given), 0.0
        for piece, piece_error in _encode(
            slot, type_, given, moments(slot) if moments and slot.matrix else None
        ):
            file.write(piece)
            crc, error = crc32c(piece, crc), max(error, piece_error)
        if file.tell() != entry.offset + entry.bytes:
            raise AssertionError(
                f"{slot.name}: {file.tell() - entry.offset} bytes were written, {entry.bytes} "
                "planned"
            )
        data_crc = L.crc32c_join(data_crc, crc, entry.bytes)
        entries.append(entry._replace(crc=crc))
        _note(worst, type_, entry.bytes, error, largest, slot.name)
    crcs[DATA] = data_crc
    file.seek(0)
    file.write(_head(plan, meta, entries, crcs))
    file.seek(0, os.SEEK_END)
    return [worst[type_] for type_ in sorted(worst)]


def _largest(given: Weights) -> float:
    return 0.0 if isinstance(given, Quantized) else float(np.abs(given).max(initial=0.0))


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


def replace_section(file: BinaryIO, kind: int, content: bytes) -> None:
    """Puts other bytes of the same size into a section, and mends its checksum and the head's."""
    file.seek(0)
    header = _read_exactly(file, HEADER_BYTES)
    sections, head_bytes = (
        struct.unpack_from("<I", header, 20)[0],
        struct.unpack_from("<Q", header, 32)[0],
    )
    file.seek(0)
    head = bytearray(_read_exactly(file, head_bytes))
    for i in range(sections):
        at = HEADER_BYTES + SECTION_BYTES * i
        found, _, offset, size = struct.unpack_from("<IIQQ", head, at)
        if found != kind:
            continue
        if size != len(content):
            raise AssertionError(f"section {kind} has {size} bytes, not {len(content)}")
        file.seek(offset)
        file.write(content)
        struct.pack_into("<I", head, at + 24, crc32c(content))
        struct.pack_into("<I", head, 40, 0)
        struct.pack_into("<I", head, 40, crc32c(head))
        file.seek(0)
        file.write(head)
        file.flush()
        return
    raise AssertionError(f"the file has no section {kind}")


# ---- Reading


class PhasorFile:
    """A file whose header, section table, metadata and directory are sound, and fit each other.

    `descriptor` has every default filled in; `slots` says what the tensors are. Damage of the data
    is found by `check`.
    """

    def __init__(self, path: os.PathLike | str) -> None:
        self.path = Path(path)
        self.bytes = map_bytes(self.path)
        try:
            if self.bytes.size == 0:
                raise PhasorError("the file is empty")
            self._open()
        except PhasorError as error:
            raise named(path, error) from error

    def _open(self) -> None:
        self.head_bytes = self._read_header()
        self.sections = self._read_sections()
        self.meta = phasor_descriptor.decode_meta(self.section(META))
        self.descriptor = phasor_descriptor.with_defaults(self.meta)
        self.entries = self._read_directory()
        self.slots = {slot.key: slot for slot in slots(self.descriptor)}
        self._fit()

    def _read_header(self) -> int:
        data = self.bytes
        if data.size < HEADER_BYTES or data[:8].tobytes() != MAGIC:
            raise PhasorError("not a Phasor file (no magic at its start)")
        version, endian, alignment, self.section_count, file_bytes, head_bytes, crc, reserved = (
            struct.unpack_from("<IIIIQQII", data, 8)
        )
        if version != VERSION:
            raise PhasorError(f"version {version}, this reader knows {VERSION}")
        if endian != ENDIAN or alignment != ALIGNMENT:
            raise PhasorError("header: the endian mark or the alignment is wrong")
        if file_bytes != data.size:
            raise PhasorError(f"the file has {data.size} bytes, its header says {file_bytes}")
        if head_bytes % ALIGNMENT or not HEADER_BYTES < head_bytes <= file_bytes:
            raise PhasorError(f"header: head_bytes is {head_bytes}")
        head = bytearray(data[:head_bytes].tobytes())
        struct.pack_into("<I", head, 40, 0)
        if crc32c(head) != crc:
            raise PhasorError("the head's checksum does not match: the file is damaged")
        if reserved or any(head[48:64]):
            raise PhasorError("header: a reserved field is not zero")
        if (
            not 2 <= self.section_count <= 16
            or HEADER_BYTES + SECTION_BYTES * self.section_count > head_bytes
        ):
            raise PhasorError(f"header: {self.section_count} sections, expected 2 to 16")
        return head_bytes

    def _read_sections(self) -> dict[int, tuple[int, int, int]]:
        out, last_kind, end = {}, 0, HEADER_BYTES + SECTION_BYTES * self.section_count
        for i in range(self.section_count):
            kind, flags, offset, size, crc, reserved = struct.unpack_from(
                "<IIQQII", self.bytes, HEADER_BYTES + SECTION_BYTES * i
            )
            name = SECTIONS.get(kind, str(kind))
            if kind <= last_kind or flags & ~1 or reserved:
                raise PhasorError(
                    f"section table: entry {i} is out of order or has reserved bits set"
                )
            if kind not in SECTIONS and flags & 1:
                raise PhasorError(f"section {kind} is required and not known here")
            if (
                offset % ALIGNMENT
                or offset < end
                or size == 0
                or size > self.bytes.size - min(offset, self.bytes.size)
            ):
                raise PhasorError(
                    f"section {name}: offset {offset} and size {size} do not fit the file"
                )
            if (kind in (META, DIRECTORY)) != (offset < self.head_bytes):
                raise PhasorError(f"section {name}: lies on the wrong side of the head's end")
            if kind in (META, DIRECTORY) and crc:
                raise PhasorError(f"section {name}: a checksum of its own, which the head has")
            out[kind], last_kind, end = (offset, size, crc), kind, offset + size
        for kind in _REQUIRED:
            if kind not in out:
                raise PhasorError(f"section {SECTIONS[kind]} is missing")
        if round_up(out[DIRECTORY][0] + out[DIRECTORY][1], ALIGNMENT) != self.head_bytes:
            raise PhasorError("header: head_bytes is not the directory's end")
        table_end = HEADER_BYTES + SECTION_BYTES * self.section_count
        ends = (table_end, *(sum(out[kind][:2]) for kind in (META, DIRECTORY)))
        starts = (out[META][0], out[DIRECTORY][0], self.head_bytes)
        if any(self.bytes[a:b].any() for a, b in zip(ends, starts)):
            raise PhasorError("a byte between the sections of the head is not zero")
        return out

    def section(self, kind: int) -> bytes:
        """The bytes of a section; empty when the file does not have it."""
        offset, size, _ = self.sections.get(kind, (0, 0, 0))
        return self.bytes[offset : offset + size].tobytes()

    def _read_directory(self) -> dict[int, Entry]:
        data = self.section(DIRECTORY)
        count = struct.unpack_from("<I", data)[0] if len(data) >= 8 else -1
        if len(data) != 8 + ENTRY_BYTES * count or struct.unpack_from("<I", data, 4)[0]:
            raise PhasorError("directory: its size does not match its count")
        first, size, _ = self.sections[DATA]
        out, last, end = {}, -1, first
        for i in range(count):
            key, type_, layout, reserved, offset, nbytes, rows, cols, panels, crc, reserved2 = (
                struct.unpack_from("<IBBHQQIIIIQ", data, 8 + ENTRY_BYTES * i)
            )
            name = tensor_name(key)
            if key <= last or reserved or reserved2:
                raise PhasorError(
                    f"directory: entry {i} ({name}) is out of order or has reserved bits set"
                )
            L.require_built(type_, layout)
            if (
                offset % ALIGNMENT
                or offset < end
                or nbytes > first + size - min(offset, first + size)
            ):
                raise PhasorError(f"{name}: offset {offset} and size {nbytes} do not fit DATA")
            if nbytes != L.tensor_bytes(type_, layout, rows, cols, panels):
                raise PhasorError(
                    f"{name}: {nbytes} bytes, its shape asks for "
                    f"{L.tensor_bytes(type_, layout, rows, cols, panels)}"
                )
            out[key], last, end = (
                Entry(
                    key, type_, layout, offset, nbytes, rows=rows, cols=cols, panels=panels, crc=crc
                ),
                key,
                offset + nbytes,
            )
        return out

    def _fit(self) -> None:
        """Every tensor has a use, and every use a tensor of its shape."""
        for key in self.entries:
            if key not in self.slots:
                raise PhasorError(f'tensor "{tensor_name(key)}" has no use in this model')
        for key, slot in self.slots.items():
            e = self.entries.get(key)
            if e is None:
                raise PhasorError(f'no tensor "{slot.name}", the descriptor asks for it')
            layouts = (
                (L.ROWS, L.PANEL16) if slot.role == 1 and slot.layout == L.ROWS else (slot.layout,)
            )
            panels = L.panels_of(slot.parts) if e.layout == L.PANEL16 else 0
            if (
                e.layout not in layouts
                or (e.rows, e.cols, e.panels) != (slot.rows, slot.cols, panels)
                or (not slot.matrix and e.type != slot.type)
            ):
                raise PhasorError(
                    f"{slot.name}: {L.LAYOUTS[e.layout]} {e.rows}x{e.cols}/{e.panels}, expected "
                    f"{slot.rows}x{slot.cols}/{panels}"
                )

    def raw(self, key: int) -> np.ndarray:
        """The bytes of a tensor, u8, where they lie."""
        e = self.entries[key]
        return self.bytes[e.offset : e.offset + e.bytes]

    def quantized(self, key: int) -> Quantized:
        """The true rows of a quantized matrix."""
        e, data = self.entries[key], np.asarray(self.raw(key))
        if e.layout == L.ROWS:
            return Quantized(*L.unpack_rows(data, e.rows, e.cols, e.type), e.type)
        scales, values = L.unpack_panels(data, e.cols, e.type)
        return Quantized(self._true_rows(key, scales), self._true_rows(key, values), e.type)

    def _true_rows(self, key: int, padded: np.ndarray) -> np.ndarray:
        """Without the rows that pad the parts of a matrix, or of the bias of a fused layer."""
        return np.concatenate([padded[rows] for _, rows in L.part_rows(self.slots[key].parts)])

    def weights(self, key: int) -> np.ndarray:
        """The true rows of a tensor as stored, dequantized, in float64: (N, K), or (N,) of a
        vector."""
        e, data = self.entries[key], np.asarray(self.raw(key))
        if e.type in L.QUANTIZED:
            q = self.quantized(key)
            return L.dequantize(q.scales, q.values, e.cols, e.type)
        if e.type == L.F64:
            return data.view("<f8").astype(np.float64)
        if e.layout == L.PANEL16:
            values = self._true_rows(key, L.unpack_numbers(data, e.type, e.cols))
        else:
            values = data.view("<f4" if e.type == L.F32 else "<u2")
            values = values.reshape(e.rows, e.cols) if e.layout == L.ROWS else values
            if e.layout == L.VECTOR and len(self.slots[key].parts) > 1:
                values = self._true_rows(key, values)
        return (values if e.type == L.F32 else L.widen(values, e.type)).astype(np.float64)

    def check(self) -> None:
        """Reads everything: checksums, zeros between the parts, finite weights. PhasorError names
        the first thing that is wrong."""
        try:
            self._check()
        except PhasorError as error:
            raise PhasorError(f"{self.path}: {error}") from error

    def _check(self) -> None:
        for kind, (offset, size, crc) in self.sections.items():
            if kind not in (META, DIRECTORY) and crc32c(self.bytes[offset : offset + size]) != crc:
                raise PhasorError(
                    f"section {SECTIONS.get(kind, kind)}: the checksum does not match"
                )
        for e in self.entries.values():
            if crc32c(self.raw(e.key)) != e.crc:
                raise PhasorError(f"{tensor_name(e.key)}: the checksum does not match")
            if not np.isfinite(self.weights(e.key)).all():
                raise PhasorError(f"{tensor_name(e.key)}: a weight is not finite")
        spans = [(0, HEADER_BYTES + SECTION_BYTES * self.section_count)]
        spans += [(o, o + s) for kind, (o, s, _) in self.sections.items() if kind != DATA]
        spans += [(e.offset, e.offset + e.bytes) for e in self.entries.values()]
        for (_, end), (start, _) in zip(spans, spans[1:] + [(self.bytes.size, 0)]):
            if self.bytes[end:start].any():
                raise PhasorError(f"bytes {end} to {start} are between two parts and not zero")
