#!/usr/bin/env python3
"""What the project is made of, as CycloneDX 1.6 (`make sbom`): the engine and the one library whose
headers are compiled into it, what only the tests use, the Python packages of tools/locks with the
hashes of their files, and the trained models with the license of their data.

    python3 tools/make/sbom.py [--xsimd /usr/include] [--doctest /usr/include]

Made from the tree and the headers of this machine alone, no network. The same tree and headers give
the same bytes; a time is in it only if SOURCE_DATE_EPOCH gives one.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from make import lock
from phasor.entry import front_door
from phasor.errors import PhasorError

# Which lists are whose: what the converter runs with, and what tests and comparisons use.
RUN_TIME = {"requirements": {"numpy", "safetensors", "jinja2", "markupsafe"}}


def properties(**values: str) -> list[dict[str, str]]:
    return [{"name": f"phasor:{key}", "value": value} for key, value in sorted(values.items())]


def version_of(header: Path, prefix: str) -> str:
    """A version that a header defines as PREFIX_MAJOR, _MINOR and _PATCH."""
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise PhasorError(f"{header}: cannot be read: {error.strerror}") from error
    numbers = dict(re.findall(r"#\s*define\s+\w+_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", text))
    if len(numbers) != 3:
        raise PhasorError(f"{header}: says no version of {prefix}")
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))


def engine() -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": "phasor",
        "name": "phasor",
        "version": version_of(ROOT / "include/phasor.h", "phasor"),
        "licenses": [{"license": {"id": "MIT"}}],
    }


def headers(xsimd: Path, doctest: Path) -> list[dict[str, Any]]:
    """The two libraries of C++: only headers, nothing is linked."""
    return [
        {
            "type": "library",
            "bom-ref": "xsimd",
            "name": "xsimd",
            "version": version_of(xsimd / "xsimd/config/xsimd_config.hpp", "xsimd"),
            "scope": "required",
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            "properties": properties(use="headers compiled into the engine's vector levels"),
        },
        {
            "type": "library",
            "bom-ref": "doctest",
            "name": "doctest",
            "version": version_of(doctest / "doctest/doctest.h", "doctest"),
            "scope": "excluded",
            "licenses": [{"license": {"id": "MIT"}}],
            "properties": properties(use="header of the C++ tests"),
        },
    ]


def packages() -> list[dict[str, Any]]:
    """The Python packages of all locks; a package in two versions is there twice."""
    found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for path in sorted(lock.LOCKS.glob("*.txt")):
        for entry in lock.entries_of(path.read_text(encoding="utf-8")):
            hashes, lists = found.setdefault(entry.pin[:2], (set(), set()))
            hashes.update(entry.hashes)
            lists.add(path.stem)
    out = []
    for (name, version), (hashes, lists) in sorted(found.items()):
        required = any(name in RUN_TIME.get(item, ()) for item in lists)
        purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
        out.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "scope": "optional" if required else "excluded",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(hashes)],
                "purl": purl,
                "properties": properties(
                    locks=" ".join(sorted(lists)),
                    use="the converter" if required else "tests, training or comparisons",
                ),
            }
        )
    return out


def models() -> list[dict[str, Any]]:
    """The trained models; each must have a description with license and credit."""
    out = []
    for path in sorted((ROOT / "models").rglob("*.phasor")):
        described = path.with_suffix(".toml")
        where = path.relative_to(ROOT).as_posix()
        try:
            says = tomllib.loads(described.read_text(encoding="utf-8"))
            license, credit, origin = (says[key] for key in ("license", "credit", "origin"))
        except (OSError, KeyError, ValueError) as error:
            raise PhasorError(f"{where}: no license, credit and origin beside it: {error}") from (
                error
            )
        out.append(
            {
                "type": "machine-learning-model",
                "bom-ref": where,
                "name": says.get("name", path.stem),
                "hashes": [
                    {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
                ],
                "licenses": [{"license": {"name": f"data: {license}"}}],
                "properties": properties(credit=credit, file=where, origin=origin),
            }
        )
    return out


def bill(xsimd: Path, doctest: Path) -> dict[str, Any]:
    libraries, python, trained = headers(xsimd, doctest), packages(), models()
    metadata: dict[str, Any] = {"component": engine()}
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        if not epoch.isascii() or not epoch.isdigit() or len(epoch) > 11:
            raise PhasorError(f"SOURCE_DATE_EPOCH: {epoch[:40]!r}, expected seconds since 1970")
        when = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        metadata["timestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    components = [*libraries, *python, *trained]
    return {
        "$schema": "http" + "://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": [
            {"ref": "phasor", "dependsOn": ["xsimd"]},
            *({"ref": c["bom-ref"]} for c in components),
        ],
    }


@front_door("sbom")
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--xsimd", type=Path, default=Path("/usr/include"))
    parser.add_argument("--doctest", type=Path, default=Path("/usr/include"))
    args = parser.parse_args(argv)
    text = json.dumps(bill(args.xsimd, args.doctest), indent=1, ensure_ascii=False)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
