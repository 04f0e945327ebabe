"""The bill of materials: CycloneDX's required fields, everything that is there named, the same
bytes twice."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

TYPES = {"application", "library", "machine-learning-model"}


@pytest.fixture(scope="module")
def headers(tmp_path_factory) -> Path:
    """Headers that name a version, as the libraries' own do."""
    folder = tmp_path_factory.mktemp("include")
    for name, prefix in (
        ("xsimd/config/xsimd_config.hpp", "XSIMD"),
        ("doctest/doctest.h", "DOCTEST"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(
            "".join(
                f"#define {prefix}_VERSION_{part} {i}\n"
                for i, part in enumerate(("MAJOR", "MINOR", "PATCH"), 7)
            )
        )
    return folder


def made(headers: Path, **environment: str) -> subprocess.CompletedProcess:
    names = ("--xsimd", str(headers), "--doctest", str(headers))
    inherited = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    return subprocess.run(
        [sys.executable, ROOT / "tools/make/sbom.py", *names],
        capture_output=True, text=True, env={**inherited, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def bill(headers) -> dict:
    run = made(headers, PYTHONHASHSEED="1")
    assert run.returncode == 0, run.stderr
    again = made(headers, PYTHONHASHSEED="2", TZ="XYZ-9", LC_ALL="C")
    assert again.stdout == run.stdout
    return json.loads(run.stdout)


def test_what_the_schema_requires(bill):
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["version"] >= 1 and "timestamp" not in bill["metadata"]
    refs = [bill["metadata"]["component"]["bom-ref"]]
    for component in [bill["metadata"]["component"], *bill["components"]]:
        assert component["type"] in TYPES and component["name"]
        assert component.get("scope", "required") in ("required", "optional", "excluded")
        for digest in component.get("hashes", []):
            assert digest["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", digest["content"])
        for license in component.get("licenses", []):
            assert len({"id", "name"} & set(license["license"])) == 1
        for item in component.get("properties", []):
            assert set(item) == {"name", "value"} and item["name"].startswith("phasor:")
    refs += [component["bom-ref"] for component in bill["components"]]
    assert len(set(refs)) == len(refs)
    for edge in bill["dependencies"]:
        assert edge["ref"] in refs and set(edge.get("dependsOn", [])) <= set(refs)


def test_the_engine_needs_xsimd_and_nothing_else(bill):
    (needs,) = [edge["dependsOn"] for edge in bill["dependencies"] if edge["ref"] == "phasor"]
    required = [c["name"] for c in bill["components"] if c.get("scope") == "required"]
    assert needs == required == ["xsimd"]
    (xsimd,) = [c for c in bill["components"] if c["name"] == "xsimd"]
    assert xsimd["version"] == "7.8.9" and xsimd["licenses"][0]["license"]["id"] == "BSD-3-Clause"


def test_every_package_of_every_lock_is_there_with_its_hashes(bill):
    known = {(c["name"], c["version"]): c for c in bill["components"] if "purl" in c}
    count = 0
    for path in (ROOT / "tools/locks").glob("*.txt"):
        text = path.read_text()
        for name, version in re.findall(r"(?m)^([a-z0-9._-]+)==([^ ;\\]+)", text):
            component = known[name, version]
            assert component["hashes"] and path.stem in component["properties"][0]["value"].split()
            count += 1
    assert count > 100
    numpy = next(c for (name, _), c in known.items() if name == "numpy")
    assert numpy["scope"] == "optional"  # what the converter runs with
    assert next(c for (name, _), c in known.items() if name == "pytest")["scope"] == "excluded"


def test_every_trained_model_is_there_with_its_license(bill):
    files = {p.relative_to(ROOT).as_posix() for p in (ROOT / "models").rglob("*.phasor")}
    listed = {c["bom-ref"]: c for c in bill["components"] if c["type"] == "machine-learning-model"}
    assert set(listed) == files
    for component in listed.values():
        assert component["licenses"][0]["license"]["name"].startswith("data: ")


def test_a_time_only_when_one_is_given(headers):
    stamped = json.loads(made(headers, SOURCE_DATE_EPOCH="86400").stdout)
    assert stamped["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"
    refused = made(headers, SOURCE_DATE_EPOCH="today")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1


def test_headers_that_are_not_there_are_named(tmp_path):
    refused = made(tmp_path)
    assert refused.returncode == 1 and refused.stdout == ""
    assert "xsimd_config.hpp: cannot be read" in refused.stderr
