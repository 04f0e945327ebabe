"""The page that `make bench` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import page


def result(name: str, machine: str) -> dict:
    aim = {"claim": f"{name} is fast", "against": "a peer", "kind": "more"}
    case = {"what": "step", "type": "q8", "threads": 1, "unit": "tokens/s", "engine": "Phasor"}
    return {
        "name": name,
        "date": "2026-01-02 03:04",
        "seconds": 1.0,
        "load": [0.1, 0.2],
        "machine": machine,
        "compiler": "cc",
        "commit": "abc",
        "python": "3.11",
        "facts": {},
        "aims": [aim | {"ours": 3.0, "theirs": 2.0, "ratio": 1.5, "least": 1.4}],
        "cases": [case | {"spread": 0.0, "runs": 1, "median": 3.0}],
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    for machine, names in (("one", ("step", "q8r")), ("another", ("q4m",))):
        parts = {name: result(name, machine) for name in names}
        (folder / f"2026-01-02-{machine}.json").write_text(json.dumps(parts))
    return folder


def test_aims_of_another_machine_stand_in_their_section(results: Path, tmp_path: Path) -> None:
    page.write(tmp_path / "page.md", results)
    parts = (tmp_path / "page.md").read_text().split("\n## ")
    found = {part.split("\n")[0]: part for part in parts[1:]}
    aimed = [name for name, part in found.items() if " is fast | a peer | 3.00 | 2.00" in part]
    assert aimed == ["What was aimed at", "Four bits with a minimum: q4m"]
    both = found["What was aimed at"]
    assert "q8r is fast" in both and "step is fast" in both and "q4m is fast" not in both
    assert "performance-log.md" in parts[0] and "Machine: one" in parts[0]


def test_a_page_of_some_rows_has_nothing_by_hand(results: Path, tmp_path: Path) -> None:
    page.write(tmp_path / "page.md", results, ["q8r"])
    text = (tmp_path / "page.md").read_text()
    assert "performance-log.md" not in text and "q4m" not in text and "q8r is fast" in text
