"""The archive of weight files: no file is lost or changed, and none is missing of what the format
can say. That each gives its bits on every level is tests/machines/cross/archive_check.py's."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from places import ROOT

GOLDEN = ROOT / "tests/golden"
sys.path[:0] = [str(ROOT / "tests/machines/cross"), str(GOLDEN)]
import archive_check as A
import make_archive
import make_models

from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format.file import SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, VERSION, PhasorFile

ROWS = A.read_index()
TYPES = {L.TYPES[kind] for kind in make_archive.TYPES}
# Fields whose values are a choice have a small range; a tokenizer is absent, or in section 3 or 4,
# and tanh is of a head only.
CHOICES, NOT_VALUES = 8, {("target", "tokenizer"): {1, 2}, ("source", "tokenizer"): {1, 2}}
NOT_VALUES["kinds", "activation"] = {D.TANH}
NOT_VALUES["output", "head_activation"] = {D.XIELU}
SHARED = {"source": "target", "encoder": "decoder"}  # the same fields


@pytest.fixture(scope="module")
def opened() -> list[PhasorFile]:
    return [PhasorFile(path) for path in A.files()]


def test_every_file_has_its_row_and_is_the_file_of_its_row():
    assert {A.name_of(path) for path in A.files()} == set(ROWS)
    for row in ROWS.values():
        data = (GOLDEN / row.file).read_bytes()
        assert A.digest(GOLDEN / row.file) == row.sha256, row.file
        assert int.from_bytes(data[8:12], "little") == row.version, row.file
        assert row.type in L.TYPES.values()
        assert (row.hashes == "-") == row.file.startswith("models/")


def test_the_archive_stays_small():
    sizes = [path.stat().st_size for path in (GOLDEN / "archive").glob("*.phasor")]
    assert sum(sizes) < 6_500_000 and max(sizes) < 80_000


def test_every_family_is_there_in_every_type_of_this_version():
    found = {(row.family, row.type) for row in ROWS.values() if row.version == VERSION}
    for name in make_models.MODELS:
        if name in make_archive.TYPELESS:
            continue
        for kind in TYPES:
            family = name.removeprefix("tiny-")
            assert (family, kind) in found, f"{family} in {kind}: make archive"


def test_a_file_s_matrices_are_of_its_type(opened):
    for file in opened:
        row = ROWS[A.name_of(Path(file.path))]
        kinds = {L.TYPES[e.type] for e in file.entries.values() if e.layout != L.VECTOR}
        assert row.type in kinds, row.file


def test_every_value_that_a_field_can_choose_is_in_some_file(opened):
    seen = defaultdict(set)
    for file in opened:
        for scope, values in file.descriptor.items():
            for part in values if scope == "kinds" else [values]:
                for name, value in part.items():
                    seen[SHARED.get(scope, scope), name].add(value if type(value) is int else None)
    missing = []
    for scope, fields in D.SCOPES.items():
        for field in fields:
            if scope in SHARED or field.type != D.U32 or field.high - field.low > CHOICES:
                continue
            wanted = set(range(field.low, field.high + 1)) - NOT_VALUES.get(
                (scope, field.name), set()
            )
            missing += [
                f"{scope}.{field.name} = {value}"
                for value in sorted(wanted - seen[scope, field.name])
            ]
    assert not missing, f"no file of the archive has {missing}: tests/golden/make_archive.py"


def test_every_tokenizer_s_model_is_in_some_file(opened):
    found = set()
    for file in opened:
        for section in (SOURCE_TOKENIZER, TARGET_TOKENIZER):
            if section in file.sections:
                found.add(int.from_bytes(bytes(file.section(section)[:4]), "little"))
    models = (ROOT / "src/text/models.h").read_text().count("model_row(") - 1  # less its own
    assert found == set(range(1, models + 1))


def test_every_file_has_vectors(opened):
    assert all(VECTORS in file.sections for file in opened)


@pytest.mark.long
def test_every_file_is_whole(opened):
    for file in opened:
        file.check()


@pytest.mark.long
def test_the_script_writes_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_archive.py", str(tmp_path)])
    assert make_archive.main() == 0
    made = sorted(tmp_path.glob("*.phasor"))
    assert [p.name for p in made] == sorted(p.name for p in (GOLDEN / "archive").glob("*.phasor"))
    for path in made:
        ours, kept = PhasorFile(path), PhasorFile(GOLDEN / "archive" / path.name)
        assert ours.meta == kept.meta, path.name
        assert [e._replace(crc=0) for e in ours.entries.values()] == [
            e._replace(crc=0) for e in kept.entries.values()
        ]
        for key, entry in ours.entries.items():
            assert entry.type == L.F64 or entry.crc == kept.entries[key].crc, (path.name, entry)
