"""The statuses and the types of the cache, which stand in include/phasor.h: their names."""

from __future__ import annotations

import re
from pathlib import Path

from make.facts import ROOT, File, source, wrapped

HEADER = "include/phasor.h"


def constants(prefix: str) -> list[str]:
    """The names of an enumeration's constants behind `prefix`, in the order of their numbers."""
    text = (ROOT / HEADER).read_text(encoding="utf-8")
    bodies = re.findall(r"enum[^{;]*\{([^}]*)\}", text)
    rows = next(
        found
        for found in (re.findall(r"(PHASOR_\w+) = (\d+)", body) for body in bodies)
        if found and found[0][1] == "0" and found[0][0].startswith(prefix)
    )
    assert [int(number) for _, number in rows] == list(range(len(rows)))
    return [name.removeprefix(prefix) for name, _ in rows]


def _statuses() -> File:
    names = [f'"{name.lower().replace("_", " ")}"' for name in constants("PHASOR_")]
    body = wrapped("constexpr const char* kStatusNames[] = {", names, "};", 4) + "\n"
    return source("src/api/statuses.inc", HEADER, body, "By status, for model.cpp.")


def _caches() -> list[File]:
    """f32 is in every build; the word of PHASOR_ONLY for another is cache- and its name."""
    names = [name.lower() for name in constants("PHASOR_CACHE_")]
    kinds = [name.capitalize() for name in names]
    words = {kind: f'"cache-{name}"' for kind, name in zip(kinds, names) if name != "f32"}
    listed = ", ".join(f'"{name}"' for name in names)
    count = f"constexpr uint32_t kCacheTypes = {len(names)};\n"
    strings = f"constexpr const char* kCacheNames[] = {{{listed}}};\n"
    numbers = ", ".join(f"kCache{kind} = {i}" for i, kind in enumerate(kinds))
    body = '#pragma once\n#include <stdint.h>\n\n#include "build.h"\n\nnamespace phasor {\n\n'
    body += f"enum CacheType : uint32_t {{ {numbers} }};\n"
    body += f"{count}{strings}\n"
    for kind in kinds:
        has = f"built({words[kind]})" if kind in words else "true"
        body += f"constexpr bool kHasCache{kind} = {has};\n"
    counts = " + ".join(f"has_word(PHASOR_ONLY, {word})" for word in words.values())
    body += "// How many words of PHASOR_ONLY are types of the cache.\n"
    body += f"constexpr unsigned kCacheWords =\n    {counts};\n"
    body += f"\n#define PHASOR_CACHES(ROW) {' '.join(f'ROW(Cache{kind})' for kind in kinds)}\n"
    about = "The types of the cache (rule 1.8): the formats of keys and values."
    engine = source("src/caches.h", HEADER, body + "\n}  // namespace phasor\n", about)
    body = f'#pragma once\n#include <stdint.h>\n\n#define CACHE_CHOICES "{"|".join(names)}"\n\n'
    body += f"namespace cli {{\n{count}{strings}}}  // namespace cli\n"
    return [engine, source("src/cli/engine/caches.h", HEADER, body, "What --cache takes.")]


def outputs(_: Path) -> list[File]:
    return [_statuses(), *_caches()]
