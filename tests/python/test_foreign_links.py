"""Names in a source's directory that are links, pipes and devices. A link to a file is that file,
as in Hugging Face's cache; what cannot be read is refused, never taken for a file that is not
there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "python"))

import readers  # noqa: E402
import watch  # noqa: E402
from source import IN, OUT, Source  # noqa: E402

from phasor.errors import PhasorError  # noqa: E402
from phasor.files import read_bytes  # noqa: E402

# Readers whose sources are several files; what they read beside the first is found by its name.
DIRECTORIES = (
    *("shards", "adapter", "sentence", "tokenizer-config", "generation", "ctranslate2", "fairseq"),
    "translator-tokenizer",
)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


# What has a file's name -> what the line says.
BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda path: path.symlink_to("gone"), "a link to what is not there|No such file"),
    "itself": (lambda path: path.symlink_to(path.name), "Too many levels|is a link to what is"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a device, expected a file"),
    "a pipe": (_pipe, "is a pipe, expected a file"),
    "a directory": (lambda path: path.symlink_to(path.parent), "is a directory|a directory with"),
}


def read(source: Source, folder: Path, change: Callable[[Path], None] | None = None, name="m"):
    """(exit status, lines, the output's bytes) of a source, one file of which was changed."""
    watch.clear(folder)
    words = source.write(folder)
    if change is not None:
        change(folder / IN / name)
    with watch._timed():
        status, said = watch._call(source, words)
    out = folder / OUT / "m.phasor"
    return status, said.splitlines(), out.read_bytes() if out.exists() else b""


def accepted(reader: str, folder: Path) -> tuple[Source, bytes]:
    """The first of a reader's inputs that gives a model."""
    for number in range(100):
        source = readers.source(reader, number)
        if source.door == "convert" and (found := read(source, folder))[0] == 0:
            return source, found[2]
    raise AssertionError(f"{reader}: nothing is accepted")


def elsewhere(path: Path) -> None:
    """As Hugging Face's cache has it: a relative link out of the directory, to a name that says
    nothing."""
    blobs = path.parents[1] / "blobs"
    blobs.mkdir(exist_ok=True)
    blob = blobs / f"{abs(hash(path.name)):x}"
    path.rename(blob)
    path.symlink_to(os.path.relpath(blob, path.parent))


def hard(path: Path) -> None:
    os.link(path, path.with_name(".other"))


@pytest.mark.parametrize("reader", DIRECTORIES)
def test_names_that_lead_elsewhere(tmp_path, monkeypatch, reader):
    monkeypatch.setattr(watch, "WALL", 60)
    source, whole = accepted(reader, tmp_path)
    needed = 0
    for name in source.files:
        for link in (elsewhere, hard):
            assert read(source, tmp_path, link, name) == (0, [], whole), (name, link)
        if read(source, tmp_path, Path.unlink, name)[2] == whole:
            continue  # nothing reads it
        needed += 1
        for kind, (put, says) in BAD.items():

            def change(path: Path) -> None:
                path.unlink()
                put(path)

            status, lines, made = read(source, tmp_path, change, name)
            assert (status, made, len(lines)) == (1, b"", 1), (name, kind, lines)
            assert name in lines[0] and re.search(says, lines[0]), (name, kind, lines)
    assert needed > 1


def test_a_file_that_the_system_makes_up():
    """Its size is said to be 0, and there is no end of some of them."""
    for path in ("/proc/self/pagemap", "/proc/self/status", "/proc/self/mem"):
        if not os.path.exists(path):
            continue
        with pytest.raises(PhasorError, match="became longer|cannot be read"):
            read_bytes(path)


def test_outputs_that_are_the_input(tmp_path):
    """By a link of either kind, to any file of the source."""
    source, whole = accepted("shards", tmp_path)
    for name in source.files:
        for make in (Path.symlink_to, Path.hardlink_to):
            watch.clear(tmp_path)
            words = source.write(tmp_path)
            make(tmp_path / OUT / "m.phasor", tmp_path / IN / name)
            status, said = watch._call(source, words)
            assert status == 1 and "give the output another name" in said, (name, said)
            assert (tmp_path / IN / name).read_bytes() == source.files[name]
    watch.clear(tmp_path)
    words = source.write(tmp_path)
    (tmp_path / OUT / "m.phasor").symlink_to("m.phasor")
    assert watch._call(source, words)[0] == 1


def test_readers_ask_one_place_whether_a_file_is_there():
    """Path.is_file() and exists() say no of a link that leads nowhere, of a pipe and of a loop: a
    file beside the weights would be left out without a word."""
    asks = re.compile(r"\.(is_file|exists)\(\)")
    allowed = {
        "program.py": "the engine's own program",
        "runtime/library.py": "the engine's own library",
        "mistaken.py": "a hint in a message",
        "start.py": "whether the converter is installed or a checkout",
        "sources/find.py": "the path that was given, which is opened next",
        "sources/tokenizer_files.py": "the same",
        "tokenizers/characters.py": "the same",
    }
    package = ROOT / "tools" / "phasor"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if asks.search(path.read_text())
    }
    assert found == set(allowed)
