"""Types whose groups share records of scales, and how those lie (file-format.md). numpy only.

A record is what values share. Of q4m and q5m it is a group's f16 scale d and minimum m; of q4k and
q5k both of eight groups, and in the twelve bytes of GGUF's Q4_K for each group two codes of six
bits that multiply them; of coded types (coded.py) an f16 number d of eight groups, and for each few
columns a signed code of eight bits or six.
Letters: N rows, K columns, G groups of 32, R records of a row.
"""

from __future__ import annotations

import numpy as np

from phasor.format.types import *

_NUMBERS = {kind: [("d", "<f2"), ("m", "<f2")] for kind in MINIMA}
_NUMBERS |= {kind: [("d", "<f2")] for kind in CODED}


def _dtype(kind: int) -> np.dtype:
    numbers, bytes_of_codes = _NUMBERS[kind], RECORDS[kind][0] - 2 * len(_NUMBERS[kind])
    codes = [("codes", "u1", bytes_of_codes)] if bytes_of_codes else []
    return np.dtype(numbers + codes)


_DTYPES = {kind: _dtype(kind) for kind in MINIMA + CODED}


# The fields of a code of so many bits, the lowest first.
_FIELDS = {4: (4,), 6: (4, 2), 5: (4, 1), 3: (2, 1)}


def record_of(kind: int) -> np.dtype:
    return _DTYPES[kind]


def scale_codes(packed: np.ndarray, kind: int) -> np.ndarray:
    """Bytes of records (…, B) -> their S codes of scales, int8 (…, S). Codes of six bits have 32
    added; their low four bits are the nibbles of S/2 bytes, the upper two fields of S/4 bytes."""
    if SCALE_BITS[kind] == 8:
        return packed.view(np.int8)
    half = packed.shape[-1] * 2 // 3
    low = np.concatenate([packed[..., :half] >> i & 15 for i in (0, 4)], axis=-1)
    upper = np.concatenate([packed[..., half:] >> i & 3 for i in range(0, 8, 2)], axis=-1)
    result: np.ndarray = (low | upper << 4).astype(np.int8) - np.int8(32)
    return result


def packed_codes(codes: np.ndarray, kind: int) -> np.ndarray:
    """Back: int8 (…, S) -> bytes (…, B)."""
    if SCALE_BITS[kind] == 8:
        return codes.view(np.uint8)
    bits = (codes + np.int8(32)).view(np.uint8)
    low = (bits & 15).reshape(*bits.shape[:-1], 2, -1)
    upper = (bits >> 4).reshape(*bits.shape[:-1], 4, -1)
    return np.concatenate([_join(low, 4), _join(upper, 2)], axis=-1)


def groups_of(cols: int) -> int:
    return -(-cols // GROUP)


def records_of(cols: int, kind: int) -> int:
    """Records of a row."""
    return -(-groups_of(cols) // RECORDS[kind][1])


def plane_bytes(rows: int, cols: int, kind: int) -> int:
    """Bytes of the records of so many rows, in front of their values."""
    return round_up(rows * records_of(cols, kind) * record_of(kind).itemsize, 64)


def group_bytes(kind: int) -> int:
    """Of the values of a row's group."""
    return GROUP * BITS[kind] // 8


def tensor_bytes(rows: int, cols: int, kind: int) -> int:
    """Of a panel (16 rows), or of a table in rows."""
    return plane_bytes(rows, cols, kind) + rows * groups_of(cols) * group_bytes(kind)


def _join(fields: np.ndarray, bits: int) -> np.ndarray:
    """u8 (…, 8/bits, B) -> bytes (…, B), the first in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    joined: np.ndarray = np.bitwise_or.reduce(fields << shifts, axis=-2)
    return joined


def _bytes_of(n: np.ndarray, kind: int) -> np.ndarray:
    """Codes (N, 32·G) -> bytes (N, G, group_bytes): the fields of a byte are values that lie as
    many bytes apart as there are. Of codes of six and five bits the low four are so, and behind
    them the upper two or one; of codes of three the low two, then the upper one."""
    by_group = n.view(np.uint8).reshape(len(n), -1, GROUP)
    parts, below = [], 0
    for bits in _FIELDS[BITS[kind]]:
        fields = by_group >> below & (1 << bits) - 1
        parts.append(_join(fields.reshape(*by_group.shape[:2], 8 // bits, -1), bits))
        below += bits
    return np.concatenate(parts, axis=2)


def _codes_of(data: np.ndarray, kind: int) -> np.ndarray:
    """Back, int8."""
    n, below, first = np.zeros((*data.shape[:2], GROUP), np.uint8), 0, 0
    for bits in _FIELDS[BITS[kind]]:
        part = data[:, :, first : first + GROUP * bits // 8]
        fields = [part >> i & (1 << bits) - 1 for i in range(0, 8, bits)]
        n |= np.concatenate(fields, axis=2) << below
        below, first = below + bits, first + part.shape[2]
    return n.reshape(len(data), -1).view(np.int8)


def _numbers(kind: int) -> list[str]:
    """The f16 fields of a record."""
    return [name for name in record_of(kind).names or () if name != "codes"]


def pack_panels(records: np.ndarray, n: np.ndarray, cols: int, kind: int) -> bytes:
    """Whole panels (16·P rows): of each its records, the 16 rows' numbers and bytes side by side,
    then [G][bits][16][4]."""
    by_panel = records.reshape(-1, LANES, records.shape[1]).transpose(0, 2, 1)
    count, of_row = by_panel.shape[:2]
    numbers = np.stack([by_panel[name] for name in _numbers(kind)], axis=2)  # (P, R, 1 or 2, 16)
    parts = np.ascontiguousarray(numbers).view(np.uint8).reshape(count, of_row, -1)
    if "codes" in (records.dtype.names or ()):
        codes = np.ascontiguousarray(by_panel["codes"].transpose(0, 1, 3, 2)).view(np.uint8)
        parts = np.concatenate([parts, codes.reshape(count, of_row, -1)], axis=2)
    flat = parts.reshape(count, -1)
    plane = np.pad(flat, ((0, 0), (0, plane_bytes(LANES, cols, kind) - flat.shape[1])))
    body = _bytes_of(n, kind).reshape(-1, LANES, groups_of(cols), BITS[kind], 4)
    body = body.transpose(0, 2, 3, 1, 4).reshape(count, -1)
    return np.concatenate([plane, body], axis=1).tobytes()


def unpack_panels(data: np.ndarray, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 of P panels -> records (16·P, R), n (16·P, 32·G)."""
    panels = data.reshape(-1, tensor_bytes(LANES, cols, kind))
    count, names = len(panels), _numbers(kind)
    shape = (count, records_of(cols, kind), LANES * record_of(kind).itemsize)
    planes = panels[:, : shape[1] * shape[2]].reshape(shape)
    records = np.zeros((count, LANES, shape[1]), record_of(kind))
    end = 2 * len(names) * LANES
    numbers = np.ascontiguousarray(planes[:, :, :end]).view("<f2").reshape(*shape[:2], -1, LANES)
    for i, name in enumerate(names):
        records[name] = numbers[:, :, i].transpose(0, 2, 1)
    if end < shape[2]:
        codes = planes[:, :, end:].reshape(*shape[:2], -1, LANES).transpose(0, 3, 1, 2)
        records["codes"] = codes
    body = panels[:, plane_bytes(LANES, cols, kind) :].reshape(count, -1, BITS[kind], LANES, 4)
    body = np.ascontiguousarray(body.transpose(0, 3, 1, 2, 4))
    values = _codes_of(body.reshape(count * LANES, -1, group_bytes(kind)), kind)
    return records.reshape(count * LANES, -1), values


def pack_rows(records: np.ndarray, n: np.ndarray, cols: int, kind: int) -> bytes:
    """All records, zeros to a multiple of 64 bytes, then 4·bits bytes a group."""
    plane = np.ascontiguousarray(records).tobytes()
    size = plane_bytes(len(records), cols, kind)
    return plane.ljust(size, b"\0") + _bytes_of(n, kind).tobytes()


def unpack_rows(data: np.ndarray, rows: int, cols: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """u8 -> records (N, R), n (N, 32·G)."""
    count, size = records_of(cols, kind), record_of(kind).itemsize
    records = np.ascontiguousarray(data[: rows * count * size]).view(record_of(kind))
    values = data[plane_bytes(rows, cols, kind) :].reshape(rows, groups_of(cols), group_bytes(kind))
    return records.reshape(rows, count), _codes_of(np.ascontiguousarray(values), kind)
