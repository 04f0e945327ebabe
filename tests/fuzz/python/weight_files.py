"""Hostile weight files for the reader in Python: golden models with their metadata, tables and data
changed, and most of them sealed again."""

from __future__ import annotations

import functools
import random
import struct

import raw
from source import GOLDEN, Source

from phasor.format import file as F
from phasor.format.checksum import crc32c

_MODELS = (
    *(
        "tiny-lm-q8",
        "tiny-alibi-tokens-q8",
        "tiny-classes-q8",
        "tiny-modernbert-q8",
        "tiny-gptj-q4",
    ),
    *(
        "tiny-albert-q8",
        "tiny-olmo2-q4",
        "tiny-relative-lm-q8",
        "tiny-alibi-tokens-f32",
        "tiny-t5-q8",
    ),
    *("tiny-three-way-q8", "tiny-additive-q8", "tiny-bert-q4", "tiny-neox-q8"),
    *("tiny-gptj-q8r", "tiny-rotary-q8rh", "tiny-gptj-q4m", "tiny-rotary-q4k", "tiny-gptj-q6"),
    *("tiny-gptj-rotated-q4t", "tiny-rotary-rotated-q8", "tiny-gptj-q5k"),
)
_ENTRIES = {F.SECTION_BYTES: "<IIQQII", F.ENTRY_BYTES: "<IBBHQQIIIIQ"}


@functools.cache
def _golden(name: str) -> bytes:
    return (GOLDEN / "models" / f"{name}.phasor").read_bytes()


@functools.cache
def _stacks(name: str) -> dict:
    return F.PhasorFile(GOLDEN / "models" / f"{name}.phasor").descriptor


def _sections(data: bytes) -> list[tuple[int, int, int, int]]:
    """(place in the table, kind, offset, size)."""
    out = []
    for i in range(struct.unpack_from("<I", data, 20)[0]):
        at = F.HEADER_BYTES + F.SECTION_BYTES * i
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, at)
        out.append((at, kind, offset, size))
    return out


def _field(rng: random.Random, out: bytearray, at: int, row: int) -> None:
    """One number of a row of a table."""
    codes = "<" + _ENTRIES[row][1:]
    fields, where = [], 0
    for code in codes[1:]:
        fields.append((where, "<" + code))
        where += struct.calcsize("<" + code)
    where, code = rng.choice(fields)
    old = struct.unpack_from(code, out, at + where)[0]
    new = raw.packed(code, raw.number(rng, old))
    out[at + where : at + where + len(new)] = new


def _entries(meta: bytes) -> list[bytes]:
    out, at = [], 0
    while at + 12 <= len(meta):
        size = struct.unpack_from("<I", meta, at + 8)[0]
        end = at + 12 + (size + 3) // 4 * 4
        out.append(meta[at:end])
        at = end
    return out


_FLOATS = (0.0, -1.0, 1e-30, 1e-5, 0.5, 1.0, 2.0, 1e30, 3e38, float("inf"), float("nan"))


def _changed_entry(rng: random.Random, entry: bytes) -> bytes:
    out, how = bytearray(entry), rng.random()
    kind = entry[4]
    if how < 0.7 and len(out) > 12:
        at = 12 + 4 * rng.randrange((len(out) - 12) // 4)
        old = struct.unpack_from("<I", out, at)[0]
        small = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 64, 4096))
        number = struct.pack("<f", rng.choice(_FLOATS)) if kind == 2 or rng.random() < 0.1 else b""
        other = small if rng.random() < 0.5 else raw.number(rng, old)
        out[at : at + 4] = number or raw.packed("<I", other)
    elif how < 0.8:
        at = rng.randrange(12)
        out[at] = rng.choice((0, 1, 2, 3, 4, 5, 6, 255, out[at] ^ 1))
    elif how < 0.9:
        size = rng.choice((0, 4, 8, 12, 400))
        out[8:] = struct.pack("<I", size) + bytes(rng.randrange(3) for _ in range(size))
    else:
        out[12:] = raw.changed(rng, bytes(out[12:]))
    return bytes(out)


def _changed_meta(rng: random.Random, meta: bytes, room: int) -> bytes:
    entries = _entries(meta)
    for _ in range(min(5, 1 + int(rng.expovariate(0.9)))):
        at, how = rng.randrange(len(entries)), rng.random()
        if how < 0.75:
            entries[at] = _changed_entry(rng, entries[at])
        elif how < 0.88:
            del entries[at]
        else:
            key = struct.unpack_from("<I", entries[at])[0]
            added = rng.choice((key + 1, key - 1, key + (1 << 12), key + (1 << 24)))
            head = raw.packed("<I", added) + bytes([rng.choice((1, 2, 3, 4, 5)), 1, 0, 0])
            entries.insert(at + 1, head + struct.pack("<II", 4, rng.choice((0, 1, 2, 5, 999))))
        if not entries:
            break
    out = b"".join(entries)
    return out if len(out) <= room else meta


def _sealed(data: bytearray) -> bytes:
    """With the checksums that belong to it, as far as its tables lead somewhere."""
    head_bytes = struct.unpack_from("<Q", data, 32)[0]
    try:
        for at, kind, offset, size in _sections(bytes(data)):
            if size < 1 << 20 and kind not in (F.META, F.DIRECTORY):
                struct.pack_into("<I", data, at + 24, crc32c(bytes(data[offset : offset + size])))
    except struct.error:
        pass
    if head_bytes <= len(data):
        struct.pack_into("<I", data, 40, 0)
        struct.pack_into("<I", data, 40, crc32c(bytes(data[:head_bytes])))
    return bytes(data)


def _hostile(rng: random.Random, data: bytes) -> bytes:
    out, how = bytearray(data), rng.random()
    sections = {kind: (at, offset, size) for at, kind, offset, size in _sections(data)}
    at, offset, size = sections[F.META]
    directory_at, directory, directory_size = sections[F.DIRECTORY]
    if how < 0.55:
        meta = _changed_meta(rng, data[offset : offset + size], directory - offset)
        out[offset:directory] = meta + bytes(directory - offset - len(meta))
        struct.pack_into("<Q", out, at + 16, len(meta))
    elif how < 0.75:
        for _ in range(rng.choice((1, 1, 2))):
            row = rng.randrange((directory_size - 8) // F.ENTRY_BYTES)
            _field(rng, out, directory + 8 + F.ENTRY_BYTES * row, F.ENTRY_BYTES)
    elif how < 0.85:
        _field(rng, out, rng.choice(list(sections.values()))[0], F.SECTION_BYTES)
    elif how < 0.92:
        place = rng.choice((8, 12, 16, 20, 24, 32, 40, 44, 48, 60))
        code = "<Q" if place in (24, 32) else "<I"
        old = struct.unpack_from(code, out, place)[0]
        new = raw.packed(code, raw.number(rng, old))
        out[place : place + len(new)] = new
    else:
        out = bytearray(raw.changed(rng, data))
    return _sealed(out) if rng.random() < 0.9 and len(out) > 64 else bytes(out)


def make_weight_file(rng: random.Random, words: tuple[str, ...]) -> Source:
    name = rng.choice(_MODELS)
    data = _hostile(rng, _golden(name))
    if rng.random() < 0.3:
        return Source({"m.phasor": data}, ("@m.phasor",), "check")
    source, target = ("--source-ids", "1,2"), ("--target-ids", "1,2,1")
    stacks = _stacks(name)
    ids = source * ("encoder" in stacks) + target * ("decoder" in stacks)
    return Source({"m.phasor": data}, ("@m.phasor", *ids), "reference")
