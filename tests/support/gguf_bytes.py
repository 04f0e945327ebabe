"""The bytes of a GGUF file, from the format's definition: any keys and tensors, sound or not."""

from __future__ import annotations

import struct
from typing import Any

U16, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 2, 4, 5, 6, 7, 8, 9, 10
_CODES = {U16: "<H", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(kind: int, given: Any) -> bytes:
    if kind == STRING:
        return text(given)
    if kind == ARRAY:
        inner, values = given
        return struct.pack("<IQ", inner, len(values)) + b"".join(value(inner, v) for v in values)
    return struct.pack(_CODES[kind], given)


def container(
    keys: dict[str, tuple[int, Any]],
    given: dict[str, tuple[tuple[int, ...], int, bytes]],
    offsets: dict[str, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """A file. keys: type and value by name; given: dimensions in the file's order, type and bytes
    by name; offsets: those that are not where the bytes are."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(given), len(keys))
    out += b"".join(
        text(key) + struct.pack("<I", kind) + value(kind, v) for key, (kind, v) in keys.items()
    )
    data = b""
    for name, (dimensions, kind, raw) in given.items():
        data += bytes(-len(data) % alignment)
        out += text(name) + struct.pack(
            f"<I{len(dimensions)}QIQ",
            len(dimensions),
            *dimensions,
            kind,
            (offsets or {}).get(name, len(data)),
        )
        data += raw
    return out + bytes(-len(out) % alignment) + data
