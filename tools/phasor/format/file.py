"""A weight file (file-format.md): its parts, and the reader. `PhasorFile` checks a file's structure
when it is opened, and everything with `check`. numpy only."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

import numpy as np

from phasor.errors import PhasorError, named
from phasor.files import map_bytes
from phasor.format import descriptor as phasor_descriptor
from phasor.format import layout as L
from phasor.format.checksum import crc32c
from phasor.format.layout import round_up
from phasor.format.meta import decode_meta
from phasor.format.tensors import Slot, slots, tensor_name

MAGIC = b"\x89PHASOR\n"
VERSION, ENDIAN, ALIGNMENT = 1, 0x01020304, 64
HEADER_BYTES, SECTION_BYTES, ENTRY_BYTES = 64, 32, 48
ENTRY_FORMAT = "<IBBHQQIIIIQ"
META, DIRECTORY, SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, CHAT, DATA = 1, 2, 3, 4, 5, 8, 15
SOURCE_EXPORT, TARGET_EXPORT, RECORD = 10, 11, 12
EXPORTS = {SOURCE_TOKENIZER: SOURCE_EXPORT, TARGET_TOKENIZER: TARGET_EXPORT}
SECTIONS = {
    META: "META",
    DIRECTORY: "DIRECTORY",
    SOURCE_TOKENIZER: "source TOKENIZER",
    TARGET_TOKENIZER: "target TOKENIZER",
    VECTORS: "VECTORS",
    CHAT: "CHAT",
    SOURCE_EXPORT: "source EXPORT",
    TARGET_EXPORT: "target EXPORT",
    RECORD: "RECORD",
    DATA: "DATA",
}
REQUIRED = (META, DIRECTORY, DATA)


class Quantized(NamedTuple):
    """A matrix that is quantized already: stored as it is."""

    scales: np.ndarray  # f16 (N, S); of q8r f32 (N, 1); of types of L.RECORDS records
    values: np.ndarray  # int8 (N, 32·G); of q8r (N, 64·⌈K/64⌉)
    type: int = L.Q8  # values of types without records as they are; else codes
    rotated: bool = False  # the rotated matrix's, for rotated inputs (L.INPUTS_ROTATED)

    def widened(self, cols: int, dtype: Any = np.float64) -> np.ndarray:
        """The values that they stand for (N, cols), rotated back."""
        if not self.rotated:
            return L.dequantize(self.scales, self.values, cols, self.type, dtype)
        stored = L.dequantize(self.scales, self.values, cols, self.type)
        return L.rotate_inputs(stored).astype(dtype)


class Narrow(NamedTuple):
    """The values of a tensor in a type that has them exactly; times a scale of each row where there
    are any."""

    values: np.ndarray  # (N, K) or (N,): int8, f32 or f64
    scales: np.ndarray | None = None  # (N, 1)

    def widened(self) -> np.ndarray:
        """In float64."""
        values = self.values.astype(np.float64)
        return values if self.scales is None else values * self.scales.astype(np.float64)


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
    inputs: int = 0  # INPUTS16, INPUTS_ROTATED, or 0: the type's own form


class PhasorFile:
    """A file whose header, section table, metadata and directory are sound, and fit each other.

    `descriptor` has every default filled in; `slots` says what the tensors are. Damage of the data
    is found by `check`.
    """

    def __init__(self, path: os.PathLike[str] | str) -> None:
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
        self.meta = decode_meta(self.section(META))
        self.descriptor = phasor_descriptor.with_defaults(self.meta)
        self.entries = self._read_directory()
        self.slots = {slot.key: slot for slot in slots(self.descriptor)}
        self._fit()

    def _read_header(self) -> int:
        data = self.bytes
        if data.size < HEADER_BYTES or data[:8].tobytes() != MAGIC:
            raise PhasorError("not a Phasor file (no magic at its start)")
        version, endian, alignment, self.section_count, file_bytes, head_bytes, crc, reserved = (
            struct.unpack_from("<IIIIQQII", data.data, 8)
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
        result: int = head_bytes
        return result

    def _read_sections(self) -> dict[int, tuple[int, int, int]]:
        out, last_kind, end = {}, 0, HEADER_BYTES + SECTION_BYTES * self.section_count
        for i in range(self.section_count):
            kind, flags, offset, size, crc, reserved = struct.unpack_from(
                "<IIQQII", self.bytes.data, HEADER_BYTES + SECTION_BYTES * i
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
        for kind in REQUIRED:
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
            key, type_, layout, inputs, offset, nbytes, rows, cols, panels, crc, reserved = (
                struct.unpack_from(ENTRY_FORMAT, data, 8 + ENTRY_BYTES * i)
            )
            name = tensor_name(key)
            own = {L.INPUTS16: L.QUANTIZED, L.INPUTS_ROTATED: L.IN_GROUPS}.get(inputs, ())
            if inputs and not (type_ in own and layout == L.PANEL16):
                raise PhasorError(
                    f"{name}: inputs {inputs}, only panels of a quantized type have {L.INPUTS16}, "
                    f"and {L.INPUTS_ROTATED} of a type in groups"
                )
            if key <= last or reserved:
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
                    key,
                    type_,
                    layout,
                    offset,
                    nbytes,
                    rows=rows,
                    cols=cols,
                    panels=panels,
                    crc=crc,
                    inputs=inputs,
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
        parts = self._true_rows(key, scales), self._true_rows(key, values)
        return Quantized(*parts, e.type, e.inputs == L.INPUTS_ROTATED)

    def _true_rows(self, key: int, padded: np.ndarray) -> np.ndarray:
        """Without the rows that pad the parts of a matrix, or of the bias of a fused layer."""
        return np.concatenate([padded[rows] for _, rows in L.part_rows(self.slots[key].parts)])

    def weights(self, key: int) -> np.ndarray:
        """The true rows of a tensor as stored, dequantized, in float64: (N, K), or (N,) of a
        vector."""
        return self.narrow(key).widened()

    def narrow(self, key: int) -> Narrow:
        """The same in the narrowest type that has its values exactly."""
        e, data = self.entries[key], np.asarray(self.raw(key))
        if e.type in L.QUANTIZED:
            q = self.quantized(key)
            if e.type in L.WHOLE and e.type not in L.ROTATED:
                return Narrow(q.values[:, : e.cols], q.scales)
            exact = e.type in L.GROUPED + L.CODED and not q.rotated
            return Narrow(q.widened(e.cols, np.float32 if exact else np.float64))
        if e.type == L.F64:
            return Narrow(data.view("<f8"))
        if e.layout == L.PANEL16:
            values = self._true_rows(key, L.unpack_numbers(data, e.type, e.cols))
        else:
            values = data.view("<f4" if e.type == L.F32 else "<u2")
            values = values.reshape(e.rows, e.cols) if e.layout == L.ROWS else values
            if e.layout == L.VECTOR and len(self.slots[key].parts) > 1:
                values = self._true_rows(key, values)
        return Narrow(values if e.type == L.F32 else L.widen(values, e.type))

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
