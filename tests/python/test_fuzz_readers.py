"""A sample of `make fuzz-python`, and that its watch sees what must not happen."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from places import ROOT

FUZZ = ROOT / "tests" / "fuzz" / "python"
sys.path.insert(0, str(FUZZ))

import models  # noqa: E402
import readers  # noqa: E402
import watch  # noqa: E402
import words as reader_words  # noqa: E402
from source import Source  # noqa: E402

from phasor.entry import front_door  # noqa: E402
from phasor.errors import PhasorError  # noqa: E402


def sample(*words: str) -> str:
    """What the campaign prints; with one process it runs in its own."""
    command = [sys.executable, FUZZ / "campaign.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def counts(printed: str) -> dict[str, list[int]]:
    rows = [line.split() for line in printed.splitlines()[1:]]
    return {name: [int(word.replace(",", "")) for word in words] for name, *words in rows}


def test_a_sample_of_every_reader():
    found = counts(sample("--count", "2", "--first", "0", "--jobs", "0"))
    assert found.pop("all")[0] == 2 * len(readers.READERS)
    assert list(found) == list(readers.READERS) and all(row[0] == 2 for row in found.values())


@pytest.mark.long
@pytest.mark.parametrize("name", readers.READERS)
def test_every_reader_refuses_and_accepts(name):
    """The inputs are neither nonsense that no reader looks into, nor all sound."""
    found = counts(sample("--count", "120", "--first", "500", "--readers", name))
    inputs, refused, accepted, *_ = found[name]
    assert inputs == 120 and refused > 0 and accepted > 0 and refused + accepted == inputs


def test_an_input_is_the_same_wherever_it_is_made():
    for name in readers.READERS:
        assert readers.source(name, 7) == readers.source(name, 7)


def test_every_class_has_a_sound_directory_to_begin_with():
    for kind, name in models.classes():
        assert models.directory(kind, name).shapes, (kind, name)


def test_the_readers_modules_are_there():
    for modules in readers.READERS.values():
        assert all(reader_words.modules_of([module]) for module in modules)


# ---- The watch


def written(words: list[str], name: str = "m.phasor") -> Path:
    return Path(words[words.index("-o") + 1]).with_name(name)


def spoils_the_source(words):
    Path(words[0]).write_bytes(b"")
    return 1


def leaves_a_file(words):
    written(words, ".m.tmp").write_bytes(b"x")
    raise PhasorError(f"{words[0]}: is bad")


def writes_outside(words):
    (Path(words[0]).parents[1] / "other").write_bytes(b"")
    raise PhasorError(f"{words[0]}: is bad")


def says_two_lines(words):
    print("tool: x", file=sys.stderr)
    raise PhasorError(f"{words[0]}: is bad")


def makes_what_no_engine_opens(words):
    written(words).write_bytes(b"\x89PHASOR\n")


def takes_much(words):
    assert bytes(watch.BYTES).replace(b"\0", b"\1")
    raise PhasorError(f"{words[0]}: is bad")


def sleeps(words):
    time.sleep(9)


def counts_for_ever(words):
    while True:
        try:
            pass
        except Exception:
            continue


def fails(words):
    raise KeyError("x")


def is_dumb(words):
    return 1


def names_nothing(words):
    raise PhasorError("is bad")


def starts_a_program(words):
    subprocess.run([sys.executable, "--version"], capture_output=True)
    raise PhasorError(f"{words[0]}: is bad")


def reads_elsewhere(words):
    with open("/etc/passwd", "rb"):
        raise PhasorError(f"{words[0]}: is bad")


def evaluates(words):
    eval(compile("1 + 1", words[0], "eval"))
    raise PhasorError(f"{words[0]}: is bad")


@pytest.mark.parametrize(
    "tool,says",
    [
        (spoils_the_source, "to write|written over"),
        (leaves_a_file, "is left"),
        (writes_outside, "to write"),
        (says_two_lines, "another form|2 lines"),
        (makes_what_no_engine_opens, "the engine refuses it"),
        (takes_much, "takes .* MB"),
        (sleeps, "does not end .SIGALRM"),
        (counts_for_ever, "does not end .SIGPROF"),
        (fails, "internal error: KeyError"),
        (is_dumb, "without a line"),
        (names_nothing, "names no file"),
        (starts_a_program, "starts"),
        (reads_elsewhere, "to read"),
        (evaluates, "exec|compile"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_watch_sees(tmp_path, monkeypatch, request, tool, says):
    if tool is makes_what_no_engine_opens:
        request.getfixturevalue("phasor")
    monkeypatch.setitem(watch.DOORS, "convert", front_door("convert")(tool))
    monkeypatch.setattr(watch, "BYTES", 32 << 20)
    monkeypatch.setattr(watch, "SECONDS", 0.2 if tool is counts_for_ever else 10)
    monkeypatch.setattr(watch, "WALL", 0.5 if tool is sleeps else 60)
    monkeypatch.delenv("PHASOR_TRACEBACK", raising=False)
    with pytest.raises(watch.Finding, match=says):
        watch.run(Source({"a.bin": b"x" * 9}, ("@a.bin",)), tmp_path)
    assert os.listdir(tmp_path / "in") == ["a.bin"]


def kept_in_the_heap():
    """The C library keeps two blocks that are free, once it has seen a larger one."""
    for sizes in ((32 << 20) - 8192,), (30 << 20, 30 << 20):
        blocks = [b"\1" * size for size in sizes]
        del blocks


def kept_in_a_cycle():
    loop = [b"\1" * (80 << 20)]
    loop.append(loop)


@pytest.mark.parametrize("kept", [kept_in_the_heap, kept_in_a_cycle])
def test_the_watch_sees_memory_that_was_free_before(tmp_path, monkeypatch, kept):
    def takes(words):
        gc.collect()
        takes_much(words)

    monkeypatch.setitem(watch.DOORS, "convert", front_door("convert")(takes))
    monkeypatch.setattr(watch, "BYTES", 30 << 20)
    kept()
    with pytest.raises(watch.Finding, match="takes .* MB"):
        watch.run(Source({"a.bin": b"x"}, ("@a.bin",)), tmp_path)


def test_the_watch_sees_nothing_where_nothing_is(tmp_path, monkeypatch):
    def refuses(words):
        raise PhasorError(f"{words[0]}: is bad")

    monkeypatch.setitem(watch.DOORS, "convert", front_door("convert")(refuses))
    found = watch.run(Source({"a.bin": b"x"}, ("@a.bin",)), tmp_path)
    assert found.status == 1 and found.lines == [f"convert: {tmp_path}/in/a.bin: is bad"]
