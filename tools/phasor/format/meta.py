"""The bytes of META: the typed keys of a descriptor (descriptor.py). numpy is not needed here."""

from __future__ import annotations

import struct
from typing import Any, Iterator

from phasor.errors import PhasorError
from phasor.format.descriptor import MAX_VALUE, SCOPES, Field, check, scopes_of, with_defaults
from phasor.format.fields import FLOAT, FLOATS, IDS, MAX_KINDS, STRING, U32
from phasor.format.types import round_up

_LARGEST = (2 - 2.0**-23) * 2.0**127  # of float32


def _check_value(where: str, field: Field, value: Any) -> None:
    """PhasorError unless the value has the field's type and lies in its range."""
    name = f"{where}.{field.name}"
    if field.type == U32:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not field.low <= value <= field.high
        ):
            raise PhasorError(
                f"{name}: {value!r}, expected a whole number from {field.low} to {field.high}"
            )
    elif field.type == FLOAT:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not abs(value) <= _LARGEST
        ):
            raise PhasorError(f"{name}: {value!r}, expected a finite number of float32")
    elif field.type == STRING:
        if not isinstance(value, str):
            raise PhasorError(f"{name}: expected text")
        if len(value.encode()) > MAX_VALUE:
            raise PhasorError(f"{name}: expected at most {MAX_VALUE:,} bytes of text")
    else:
        if not isinstance(value, (list, tuple)) or not field.low <= len(value) <= field.high:
            raise PhasorError(f"{name}: expected {field.low} to {field.high} values")
        if not all(isinstance(v, int) and 0 <= v < 1 << 32 for v in value):
            raise PhasorError(f"{name}: expected whole numbers")


def _encode(field: Field, value: Any) -> bytes:
    if field.type == STRING:
        result: bytes = value.encode()
        return result
    if field.type == IDS:
        return struct.pack(f"<{len(value)}I", *value)
    return struct.pack("<I" if field.type == U32 else "<f", value)


def _entry(key: int, kind: int, required: bool, value: bytes) -> bytes:
    return (
        struct.pack("<IBBHI", key, kind, required, 0, len(value)) + value + bytes(-len(value) % 4)
    )


def encode_meta(descriptor: dict[str, Any]) -> bytes:
    """The META section. Fields that are absent, None or an empty string or list are left out."""
    out = []
    for where, first, values, fields in scopes_of(descriptor):
        unknown = [name for name in values if name not in (field.name for field in fields)]
        if unknown:
            raise PhasorError(f"{where}: no field is called {unknown[0]!r}")
        for field in fields:
            value = values.get(field.name)
            if value is None or value == "" or (field.type == IDS and len(value) == 0):
                continue
            _check_value(where, field, value)
            key, required = first | field.number, field.type != STRING
            out.append(_entry(key, field.type, required, _encode(field, value)))
    check(with_defaults(descriptor))
    return b"".join(out)


def _entries(data: bytes) -> Iterator[tuple[int, int, bool, bytes]]:
    """(key, type, required, value), with the framing checked."""
    at, last = 0, -1
    while at < len(data):
        if at + 12 > len(data):
            raise PhasorError("metadata: an entry is cut off")
        key, kind, flags, reserved, size = struct.unpack_from("<IBBHI", data, at)
        if key <= last:
            raise PhasorError(f"metadata: key {key} is not above the one before it")
        if flags & ~1 or reserved:
            raise PhasorError(f"metadata: key {key} has reserved bits set")
        if at + 12 + round_up(size, 4) > len(data):
            raise PhasorError(f"metadata: key {key} is cut off")
        if not U32 <= kind <= FLOATS:
            raise PhasorError(f"metadata: key {key} has type {kind}, which is not known")
        scalar, array = kind in (U32, FLOAT), kind in (IDS, FLOATS)
        if size > MAX_VALUE or (scalar and size != 4) or (array and size % 4):
            raise PhasorError(f"metadata: key {key} has {size} bytes, not what its type asks for")
        value = data[at + 12 : at + 12 + size]
        if any(data[at + 12 + size : at + 12 + round_up(size, 4)]):
            raise PhasorError(f"metadata: key {key}: padding is not zero")
        yield key, kind, bool(flags), value
        at += 12 + round_up(size, 4)
        last = key


def _decode(where: str, field: Field, value: bytes) -> Any:
    if field.type == STRING:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise PhasorError(f"{where}.{field.name}: not UTF-8") from error
    numbers = struct.unpack(f"<{len(value) // 4}{'f' if field.type == FLOAT else 'I'}", value)
    return list(numbers) if field.type == IDS else numbers[0]


def decode_meta(data: bytes) -> dict[str, Any]:
    """The descriptor of a META section, checked, without defaults filled in. Unknown optional keys
    are skipped."""
    out: dict[str, Any] = {}
    scopes = list(SCOPES.items())
    for key, kind, required, value in _entries(data):
        scope, index, number = key >> 24, key >> 12 & 0xFFF, key & 0xFFF
        name, fields = scopes[scope] if scope < len(scopes) else ("", ())
        field = next((field for field in fields if field.number == number), None)
        if field is None:
            if required:
                raise PhasorError(
                    f"metadata: key {key} (scope {scope}, field {number}) is required and not "
                    "known here"
                )
            continue
        where = f"{name}{index}" if name == "kinds" else name
        if kind != field.type:
            raise PhasorError(f"{where}.{field.name}: has type {kind}, expected {field.type}")
        decoded = _decode(where, field, value)
        _check_value(where, field, decoded)
        values = out.setdefault(name, [] if name == "kinds" else {})
        most = len(values) if name == "kinds" else 0
        if index > most or index >= MAX_KINDS:
            raise PhasorError(f"metadata: index {index} of scope {scope}, expected {most}")
        if name == "kinds":
            values += [{}] if index == most else []
            values = values[index]
        values[field.name] = decoded
    check(with_defaults(out))
    return out


def as_stored(descriptor: dict[str, Any]) -> dict[str, Any]:
    """The descriptor as a file of it would give it, with defaults."""
    return with_defaults(decode_meta(encode_meta(descriptor)))
