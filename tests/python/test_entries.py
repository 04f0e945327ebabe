"""The check that knows every reader of foreign bytes sees one that is new, and a proof that is
gone."""

import shutil
from pathlib import Path

import pytest

from make import entries
from places import ROOT

COPIED = ("include", "src/cli", "tools/phasor", "tests/fuzz", "tests/machines/faults")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of what the check looks at."""
    for folder in COPIED:
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=left_out)
    table = entries.literals(ROOT / entries.TABLE)
    tests = {row[1] for name in ("LIBRARY", "PROGRAM") for row in table[name].values()}
    tests |= {row[0] for row in table["CONVERTER"].values()} | {entries.TABLE}
    for name in tests:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(entries, "ROOT", tmp_path)
    for name in ("FUZZ", "PYTHON_FUZZ", "FAULTS"):
        path = getattr(entries, name).relative_to(ROOT)
        monkeypatch.setattr(entries, name, tmp_path / path)
    assert entries.problems() == []
    return tmp_path


def added(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_a_new_function_of_bytes(tree):
    added(tree / "include/phasor.h", "phasor_status phasor_new(const void* data, size_t bytes);\n")
    assert any("function phasor_new has no row" in p for p in entries.problems())


def test_a_new_function_of_a_struct_with_a_text(tree):
    struct = "typedef struct {\n  const char* text;\n} phasor_said;\n"
    added(
        tree / "include/phasor.h", f"{struct}phasor_status phasor_new(const phasor_said* said);\n"
    )
    assert any("function phasor_new has no row" in p for p in entries.problems())


def test_a_function_that_gives_a_text_is_no_reader(tree):
    added(tree / "include/phasor.h", "const char* phasor_new(uint32_t index, size_t* bytes);\n")
    assert entries.problems() == []


@pytest.mark.parametrize(
    "text",
    [
        "from phasor.files import read_bytes\n",
        "import struct\n\n\ndef f(b):\n    return struct.unpack('<I', b)\n",
        "def f(p):\n    with open(p, 'rb') as file:\n        return file.read()\n",
        "import json\n\n\ndef f(t):\n    return json.loads(t)\n",
    ],
)
def test_a_new_module_that_reads(tree, text):
    (tree / "tools/phasor/checkpoints/new.py").write_text(text)
    assert any("module tools/phasor/checkpoints/new.py has no row" in p for p in entries.problems())


def test_a_new_front_door(tree):
    (tree / "tools/phasor/new.py").write_text("@front_door('new')\ndef main():\n    return 0\n")
    assert any("phasor.new has no row in tests/machines/faults" in p for p in entries.problems())


def test_a_new_source_and_a_new_command_of_the_program(tree):
    (tree / "src/cli/new.cpp").write_text("int f() { return ::open(path, 0); }\n")
    rows = tree / entries.COMMANDS
    rows.write_text(rows.read_text().replace("  ROW(run) ", "  ROW(new) \\\n  ROW(run) "))
    found = entries.problems()
    assert any("source src/cli/new.cpp has no row" in p for p in found)
    assert any("phasor new has no row in tests/machines/faults" in p for p in found)


def test_a_target_that_is_nobodys(tree):
    path = tree / "tests/fuzz/targets.cpp"
    path.write_text(
        path.read_text().replace('{"open", Shape', '{"new", Shape::bytes, f},\n    {"open", Shape')
    )
    assert any("fuzz target new is nobody's" in p for p in entries.problems())


def test_proofs_that_are_gone(tree):
    shutil.rmtree(tree / "tests/fuzz/corpus/state")
    (tree / "tests/fuzz/chat.cpp").unlink()
    (tree / "tests/cpp/test_chat.cpp").write_text("")
    (tree / "tests/python/test_chat_trust.py").unlink()
    rows = tree / "tests/machines/faults/rows.py"
    rows.write_text(rows.read_text().replace('"convert gguf"', '"convert ggml"'))
    found = entries.problems()
    for said in (
        "tests/fuzz/corpus/state has no seeds",
        "tests/fuzz/chat.cpp is not there",
        "phasor_chat_to_text: tests/cpp/test_chat.cpp does not name it",
        "chat-template: tests/python/test_chat_trust.py is not there",
        "gguf: no command convert gguf",
    ):
        assert any(said in p for p in found), (said, found)


def test_rows_of_what_is_not_there(tree):
    (tree / "tools/phasor/values.py").unlink()
    header = tree / "include/phasor.h"
    header.write_text(header.read_text().replace("phasor_quantize_size(", "phasor_other_size("))
    found = entries.problems()
    assert any("tools/phasor/values.py is in tests/entries.py and not there" in p for p in found)
    assert any("phasor_quantize_size is in tests/entries.py and not there" in p for p in found)
