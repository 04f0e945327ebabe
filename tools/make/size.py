#!/usr/bin/env python3
"""The engine's code size, room by room, against a record: a change that goes over a recorded number
fails.

    size.py RECORD DIRECTORY…    each directory has the engine.map of one build (tools/make/size.mk)

.text is code, .rodata constants, .data and .bss writable memory (the core has none; what is there
is the measured program's own blocks).
"""

import collections
import re
import sys
from pathlib import Path

from phasor.entry import front_door

SECTIONS = ("text", "rodata", "data", "bss")
MEMBER = re.compile(r"^ \.(text|rodata|data|bss)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(\S+)$", re.M)


def rooms_of(path):
    """{room: {section: bytes}} from a linker's map. A long section name stands on a line of its
    own."""
    text = path.read_text().split("Linker script and memory map", 1)[1]
    text = re.sub(r"^( \.\S+)\n\s+(0x)", r"\1 \2", text, flags=re.M)
    rooms = collections.defaultdict(collections.Counter)
    for section, size, member in MEMBER.findall(text):
        source = re.search(r"/src/(?:(\w+)/(?:\w+/)*)?\w+\.o$", member)
        room = (
            (source[1] or "src")
            if source
            else "compiler's library"
            if "libgcc" in member
            else "the program"
        )
        rooms[room][section] += int(size, 16)
    if "format" not in rooms:
        sys.exit(f"{path}: no room of the engine is in it")
    return rooms


def read_record(path):
    """{name: {section: bytes}}"""
    record = {}
    for line in path.read_text().splitlines():
        word = line.split("#")[0].split()
        if word:
            record[word[0]] = {word[i]: int(word[i + 1]) for i in range(1, len(word), 2)}
    return record


@front_door("size")
def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    record, failed = read_record(Path(sys.argv[1])), 0
    for folder in map(Path, sys.argv[2:]):
        rooms = rooms_of(folder / "engine.map")
        print(f"{folder.name:20}" + "".join(f"{section:>10}" for section in SECTIONS))
        for room in sorted(rooms, key=lambda r: -rooms[r]["text"]):
            print(f"  {room:18}" + "".join(f"{rooms[room][section]:10,}" for section in SECTIONS))
        engine = {
            section: sum(sizes[section] for room, sizes in rooms.items() if room != "the program")
            for section in SECTIONS
        }
        print(f"  {'engine':18}" + "".join(f"{engine[section]:10,}" for section in SECTIONS))
        if folder.name not in record:
            sys.exit(f"{sys.argv[1]} has no line for {folder.name}")
        for section in SECTIONS:
            limit = record[folder.name].get(section, 0)
            if engine[section] > limit:
                failed += 1
                print(
                    f"FAIL {folder.name}: .{section} takes {engine[section]:,} bytes, the record "
                    f"allows {limit:,}"
                )
    print(f"size: {len(sys.argv) - 2 - min(failed, len(sys.argv) - 2)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
