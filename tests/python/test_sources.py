"""The kinds of source: a path is of one of them, and a flag goes with those that have it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import test_gguf
import test_llama2c

import chat_model
import ctranslate2_model
import marian_model
from conftest import ROOT
from phasor import convert
from phasor.sources.find import OPTIONS, SOURCES, source_of
from phasor.sources.interface import Asked, Source

PHASOR = ROOT / "tools" / "phasor"


def kind(path: Path) -> str:
    """Of a source, by its folder."""
    return path.name.partition(".")[0]


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> list[Path]:
    """One of each kind, called as its folder in tools/phasor/sources."""
    to = tmp_path_factory.mktemp("sources")
    chat_model.write(to / "hugging_face", "{{ messages }}")
    ctranslate2_model.Model().write(to / "ctranslate2", 6, {"eos_token": "</s>"})
    (to / "marian.npz").write_bytes(marian_model.Model().bytes())
    (to / "gguf.gguf").write_bytes(test_gguf.file_bytes())
    test_llama2c.write_small(to / "llama2c.bin", True)
    for end in (".pt", ".toml"):
        shutil.copy(ROOT / f"tests/golden/pytorch/separate{end}", to / f"state_dict{end}")
    return [path for path in to.iterdir() if path.suffix != ".toml"]


def folder_of(source: Source) -> str:
    return source.read.__module__.split(".")[-2]


def test_a_path_is_of_one_kind(paths):
    assert sorted(map(kind, paths)) == sorted(map(folder_of, SOURCES))
    for path in paths:
        found = [folder_of(source) for source in SOURCES if source.recognizes(Asked(path))]
        assert found == [kind(path)]
        assert folder_of(source_of(Asked(path))) == kind(path)


VALUES = {
    "--rope-context": "9",
    "--i2s-blocks": "64",
    "--rank-template": "{query} {document}",
    "--rank-tokens": "yes",
}


def test_a_flag_goes_with_the_kinds_that_have_it(paths, capsys):
    tried = 0
    for path in paths:
        (own,) = (source for source in SOURCES if folder_of(source) == kind(path))
        for option in set(OPTIONS) - set(own.options):
            words = [option.flag, VALUES.get(option.flag, str(path))]
            if option.beside:
                words += [option.beside, VALUES[option.beside]]
            said = convert.main([str(path), "-o", str(path.parent / "o"), *words])
            line = capsys.readouterr().err
            if option.flag in ("--describe", "--preset"):  # which say what any path is
                assert said == 1 and str(path) in line
                continue
            theirs = [source.what for source in SOURCES if option in source.options]
            flag = f"({option.flag}|{option.beside or option.flag})"
            assert re.search(f"{flag}: goes with {' or '.join(theirs)}; {path} is none", line)
            tried += 1
    assert tried > 10


def test_flags_that_need_another(capsys, tmp_path):
    for option in OPTIONS:
        if option.beside:
            with pytest.raises(SystemExit, match="2"):
                convert.main([str(tmp_path), "-o", str(tmp_path / "o"), option.flag, "x"])
            assert "expected both or neither" in capsys.readouterr().err


def test_the_architectures_table_has_every_module():
    page = (ROOT / "docs/design/architecture.md").read_text(encoding="utf-8")
    table = page[page.index("| package | |") :].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    there = {path.stem for path in PHASOR.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - named - {"__init__", "__pycache__"} == set()
    assert named - there - {"NAME"} == set()
