"""CRC-32C of arrays, with numpy only.

A checksum is linear over GF(2): the data is cut into equal lanes, all lanes go through the table
side by side, and the lanes' values are joined in pairs with the operator "append m zero bytes".
"""

from __future__ import annotations

from typing import Any

import numpy as np

_BLOCK_BYTES = 1 << 20  # in the processor's cache, with their registers
_CRC_LANE = 256  # bytes of a lane
_SHORT = 4096  # bytes that are sooner done one by one


def _crc_table8() -> np.ndarray:
    """What one byte does to a register of zeros: u32[256]."""
    table: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(0x82F63B78), np.uint32(0))
    return table


def _crc_table16() -> np.ndarray:
    """What two bytes do to a register of zeros: u32[65536]."""
    table = _crc_table8()
    value = np.arange(65536, dtype=np.uint32)
    once = table[value & 255] ^ (value >> 8)
    result: np.ndarray = table[once & 255] ^ (once >> 8)
    return result


_TABLE16 = _crc_table16()
_TABLE8 = [int(v) for v in _crc_table8()]
_shifts: dict[
    int, np.ndarray
] = {}  # bytes appended -> u32[4][256], one table for each byte of the register


def _apply(tables: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The operator given by u32[4][256] on registers u32[n]."""
    result: np.ndarray = (
        tables[0][value & 255]
        ^ tables[1][value >> 8 & 255]
        ^ tables[2][value >> 16 & 255]
        ^ tables[3][value >> 24]
    )
    return result


def _shift(count: int) -> np.ndarray:
    """The operator "append `count` zero bytes", by squaring."""
    if count in _shifts:
        return _shifts[count]
    single = np.arange(256, dtype=np.uint32)
    basis = np.stack([single << np.uint32(8 * i) for i in range(4)])
    if count == 0:
        tables = basis
    elif count == 1:
        table = np.array(_TABLE8, dtype=np.uint32)
        tables = table[basis & 255] ^ (basis >> 8)
    else:
        half = _shift(count // 2)
        tables = _apply(half, half.reshape(-1)).reshape(4, 256)
        if count % 2:
            tables = _apply(_shift(1), tables.reshape(-1)).reshape(4, 256)
    if len(_shifts) < 256:
        _shifts[count] = tables
    return tables


def _crc_of_block(data: np.ndarray) -> int:
    """The register after u8[n], from a register of zeros. Zeros put in front change nothing."""
    lanes = max(1, -(-data.size // _CRC_LANE))
    padded = np.zeros(lanes * _CRC_LANE, dtype=np.uint8)
    padded[padded.size - data.size :] = data
    words = np.ascontiguousarray(padded.view("<u2").reshape(lanes, _CRC_LANE // 2).T)
    register = np.zeros(lanes, dtype="<u4")
    low, at, entries = register.view("<u2")[::2], np.empty(lanes, np.intp), np.empty(lanes, "u4")
    for word in words:
        np.bitwise_xor(low, word, out=at, casting="unsafe")
        np.take(_TABLE16, at, out=entries, mode="wrap")  # not "raise", which would copy
        np.right_shift(register, 16, out=register)
        np.bitwise_xor(register, entries, out=register)
    length = _CRC_LANE
    while register.size > 1:
        if register.size % 2:
            register = np.concatenate([np.zeros(1, np.uint32), register])
        register = _apply(_shift(length), register[0::2]) ^ register[1::2]
        length *= 2
    return int(register[0])


def crc32c(data: Any, crc: int = 0) -> int:
    """The checksum of what `crc` covers followed by `data` (anything with a buffer); start with
    0."""
    view = (
        np.frombuffer(data, dtype=np.uint8)
        if not isinstance(data, np.ndarray)
        else data.reshape(-1).view(np.uint8)
    )
    register = crc ^ 0xFFFFFFFF
    if view.size <= _SHORT:
        for byte in view.tolist():
            register = register >> 8 ^ _TABLE8[(register ^ byte) & 255]
        return register ^ 0xFFFFFFFF
    for at in range(0, view.size, _BLOCK_BYTES):
        block = view[at : at + _BLOCK_BYTES]
        carried = _apply(_shift(block.size), np.array([register], dtype=np.uint32))
        register = int(carried[0]) ^ _crc_of_block(block)
    return register ^ 0xFFFFFFFF


def crc32c_join(first: int, second: int, length: int) -> int:
    """The checksum of A followed by B, from that of A, that of B, and the bytes of B."""
    return int(_apply(_shift(length), np.array([first], dtype=np.uint32))[0]) ^ second
