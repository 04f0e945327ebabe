"""Output files are written whole or not at all, whatever goes away: the disk, the reader, the
user's patience; and never over an input."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import chat_model
import hostile
from phasor import convert
from phasor.errors import PhasorError
from phasor.files import check_output, replacing, write_text
from phasor.format.file import PhasorFile

GOLDEN = hostile.ROOT / "tests" / "golden" / "pytorch" / "separate.pt"
TOOL = hostile.ROOT / "tools" / "convert.py"
WAITS = """
import sys
sys.path.insert(0, sys.argv[1])
import time
from phasor import entry
from phasor import files
@entry.front_door("tool")
def main():
    with files.replacing(sys.argv[2]) as file:
        file.write(b"half")
        file.flush()
        print("begun", flush=True)
        time.sleep(60)
sys.exit(main())
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tool(*arguments, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)],
        text=True,
        timeout=120,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
    )


# ---- Whole or not at all


def test_whole(tmp_path):
    with replacing(tmp_path / "a") as file:
        file.write(b"new")
        assert names(tmp_path) != ["a"] and not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"new" and names(tmp_path) == ["a"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
def test_not_at_all(tmp_path, error):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error):
        with replacing(tmp_path / "a") as file:
            file.write(b"half")
            raise error
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "there" / "b")
    for text in ("first", "second"):
        write_text(tmp_path / "a", text)
        assert (tmp_path / "a").is_symlink() and (tmp_path / "there" / "b").read_text() == text
    assert names(tmp_path / "there") == ["b"]


def test_the_longest_name(tmp_path):
    write_text(tmp_path / ("é" * 127), "x")
    assert names(tmp_path) == ["é" * 127]


def test_two_at_once(tmp_path):
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        first.write(b"1" * 1000)
        second.write(b"2" * 1000)
        assert len(names(tmp_path)) == 2
    assert (tmp_path / "a").read_bytes() == b"1" * 1000 and names(tmp_path) == ["a"]


def test_two_processes_with_one_output(tmp_path):
    """Whoever is last, the file is one that verifies."""
    output = tmp_path / "m.phasor"
    both = [
        subprocess.Popen(
            [sys.executable, str(TOOL), str(GOLDEN), "-o", str(output), "--type", kind, "--quiet"],
            stderr=subprocess.PIPE,
        )
        for kind in ("f32", "q8")
    ]
    assert [process.wait(120) for process in both] == [0, 0]
    PhasorFile(output).check()
    assert names(tmp_path) == ["m.phasor"]
    for process in both:
        process.stderr.close()


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal(tmp_path, number):
    (tmp_path / "a").write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, str(hostile.ROOT / "tools"), str(tmp_path / "a")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "begun\n" and len(names(tmp_path)) == 2
        process.send_signal(number)
        assert process.wait(100) == -number
        assert process.stderr.read() == f"tool: stopped by {number.name}\n"
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_the_converter_stopped_at_any_time(tmp_path):
    """At twelve moments of a conversion: nothing, or all of it."""
    output = tmp_path / "m.phasor"
    for i in range(12):
        with subprocess.Popen(
            [sys.executable, str(TOOL), str(GOLDEN), "-o", str(output), "--quiet"],
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            time.sleep(0.15 * i)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            assert "Traceback" not in process.stderr.read()
        assert names(tmp_path) in ([], ["m.phasor"])
        if output.exists():
            PhasorFile(output).check()
            output.unlink()


SILL = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from phasor import entry
real, moment = signal.signal, sys.argv[2]
def install(number, handler):
    before = real(number, handler)
    usual = handler in (signal.SIG_DFL, signal.default_int_handler)
    if (number, usual) == ((signal.SIGINT, True) if moment == "out" else (signal.SIGTERM, False)):
        os.kill(os.getpid(), signal.SIGTERM)
    return before
signal.signal = install
@entry.front_door("tool")
def main():
    return 0
sys.exit(main())
"""


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("moment", ["in", "out"])
def test_a_signal_while_the_handlers_are_put(moment):
    words = [sys.executable, "-c", SILL, str(hostile.ROOT / "tools"), moment]
    done = subprocess.run(words, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGTERM and done.stderr == b""


def test_an_ignored_signal_stays_ignored(tmp_path):
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            WAITS.replace("sleep(60)", "sleep(1)"),
            str(hostile.ROOT / "tools"),
            str(tmp_path / "a"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        assert process.wait(100) == 0
    assert (tmp_path / "a").read_bytes() == b"half"


# ---- Full, closed, gone


def test_a_full_disk(tmp_path):
    """RLIMIT_FSIZE stands for it: a write fails in the middle."""
    output = tmp_path / "m.phasor"
    output.write_bytes(b"\x89PHASOR\nold")
    done = tool(
        GOLDEN,
        "-o",
        output,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)),
    )
    assert (
        done.returncode == 1
        and done.stderr == f"convert: {output}: cannot be written: File too large\n"
    )
    assert names(tmp_path) == ["m.phasor"] and output.read_bytes() == b"\x89PHASOR\nold"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output(tmp_path):
    with open("/dev/full", "w") as full:
        done = tool(GOLDEN, "-o", tmp_path / "m.phasor", stdout=full)
    assert (
        done.returncode == 1
        and done.stderr.splitlines()[-1]
        == "convert: standard output: cannot be written: No space left on device"
    )


def test_a_reader_that_goes_away(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = tool(GOLDEN, "-o", tmp_path / "m.phasor", stdout=write)
    os.close(write)
    assert (
        done.returncode == 1
        and [line for line in done.stderr.splitlines() if "no phasor program" not in line] == []
    )


@pytest.mark.long
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_closed_standard_streams(tmp_path, closed):
    """No file takes their place: the output is the file that it is with all of them open."""
    assert tool(GOLDEN, "-o", tmp_path / "open.phasor", "--quiet").returncode == 0
    shell = f"exec {sys.executable} {TOOL} {GOLDEN} -o {tmp_path}/m.phasor " + " ".join(
        f"{number}{'<' if number == 0 else '>'}&-" for number in closed
    )
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60)
    assert done.returncode == (1 if 1 in closed else 0)  # what was to be printed could not be
    assert (tmp_path / "m.phasor").read_bytes() == (tmp_path / "open.phasor").read_bytes()
    assert names(tmp_path) == ["m.phasor", "open.phasor"]
    if 1 in closed and 2 not in closed:
        assert (
            done.stderr.splitlines()[-1]
            == "convert: standard output: cannot be written: Bad file descriptor"
        )


# ---- Places that are none


def test_outputs_that_cannot_be(tmp_path, capsys):
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "p")
    before = os.stat("/dev/null")
    for output, says in (
        (tmp_path / "absent" / "m.phasor", "there is no directory"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe" / "p", "is a pipe"),
        (Path("/dev/null"), "is a device"),
        (tmp_path / "pipe" / "p" / "m.phasor", "Not a directory"),
        (tmp_path / ("x" * 300), "name too long"),
    ):
        assert convert.main([str(GOLDEN), "-o", str(output), "--quiet"]) == 1
        said = capsys.readouterr().err
        assert (
            len(said.splitlines()) == 1
            and said.startswith(f"convert: {str(output)[:90]}")
            and says in said
        ), said
    assert (
        stat.S_ISCHR(os.stat("/dev/null").st_mode) and os.stat("/dev/null").st_ino == before.st_ino
    )
    assert names(tmp_path) == ["pipe"] and names(tmp_path / "pipe") == ["p"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_takes_nothing(tmp_path, capsys):
    tmp_path.chmod(0o555)
    assert convert.main([str(GOLDEN), "-o", str(tmp_path / "m.phasor"), "--quiet"]) == 1
    assert (
        capsys.readouterr().err
        == f"convert: {tmp_path}/m.phasor: cannot be written: Permission denied\n"
    )


# ---- Over an input


@pytest.fixture()
def source(tmp_path) -> Path:
    for suffix in (".pt", ".toml"):
        shutil.copy(GOLDEN.with_suffix(suffix), tmp_path / f"m{suffix}")
    return tmp_path / "m.pt"


def refused(capsys, source: Path, output: Path, says: str, *more) -> None:
    files = {path: path.read_bytes() for path in [*source.parent.rglob("*")] if path.is_file()}
    assert convert.main([str(source), "-o", str(output), "--quiet", *map(str, more)]) == 1
    said = capsys.readouterr().err
    assert (
        len(said.splitlines()) == 1 and said.startswith(f"convert: {output}: ") and says in said
    ), said
    assert files == {
        path: path.read_bytes() for path in [*source.parent.rglob("*")] if path.is_file()
    }


def test_over_the_source(source, capsys):
    folder = source.parent
    (folder / "link").symlink_to(source)
    os.link(source, folder / "hard")
    for output in (
        source,
        folder / "." / "m.pt",
        folder / "link",
        folder / "hard",
        folder / "m.toml",
    ):
        refused(capsys, source, output, "is the input")


def test_over_what_is_given(source, capsys):
    folder = source.parent
    for name, flag in (
        ("w.txt", "--tokenizer"),
        ("m.npy", "--moments"),
        ("d.toml", "--describe"),
        ("c.jinja", "--chat"),
    ):
        (folder / name).write_text("x")
        refused(capsys, source, folder / name, "is the input", flag, folder / name)


def test_over_a_tokenizer_that_the_description_names(source, capsys):
    text = source.with_suffix(".toml").read_text()
    (source.parent / "w.txt").write_text("a\nb\n")
    source.with_suffix(".toml").write_text(
        text + ("" if "[source]" in text else "\n[source]") + '\ntokenizer = "w.txt"\n'
        if "[source]" not in text
        else text.replace("[source]", '[source]\ntokenizer = "w.txt"')
    )
    refused(capsys, source, source.parent / "w.txt", "is the input")


def test_over_a_file_of_the_source_s_directory(tmp_path, capsys):
    source = chat_model.write(tmp_path / "model", None)
    os.link(source / "config.json", tmp_path / "elsewhere")
    (source / "deeper").mkdir()
    (source / "deeper" / "notes").write_text("x")
    for output in (
        source / "config.json",
        source / "model.safetensors",
        source / "deeper" / "notes",
        tmp_path / "elsewhere",
    ):
        refused(capsys, source, output, "is a file of the input")
    output = (
        source / "m.phasor"
    )  # a new file there, and a result that is there already, are the user's affair
    for _ in range(2):
        assert convert.main([str(source), "-o", str(output), "--quiet", "--chat", "none"]) == 0
    PhasorFile(output).check()


def test_nothing_is_read_before(tmp_path, capsys):
    """The input need not even be sound: the refusal comes first."""
    path = tmp_path / "m.pt"
    path.write_bytes(b"nonsense")
    with pytest.raises(PhasorError, match="is the input"):
        check_output(path, path)
    refused(capsys, path, path, "is the input")


def test_moments_over_the_model(tmp_path, capsys):
    from phasor import moments

    assert convert.main([str(GOLDEN), "-o", str(tmp_path / "m.phasor"), "--quiet"]) == 0
    data = (tmp_path / "m.phasor").read_bytes()
    (tmp_path / "text").write_text("a")
    assert (
        moments.main(
            [str(tmp_path / "m.phasor"), str(tmp_path / "text"), "-o", str(tmp_path / "m.phasor")]
        )
        == 1
    )
    assert (
        "is the input" in capsys.readouterr().err and (tmp_path / "m.phasor").read_bytes() == data
    )


def test_the_trainers_scratch_is_the_same_helper(tmp_path):
    from train.common import write_atomically

    write_atomically(tmp_path / "deep" / "a.npy", lambda scratch: scratch.write_bytes(b"x"))
    with pytest.raises(RuntimeError):
        write_atomically(
            tmp_path / "deep" / "a.npy",
            lambda scratch: (
                scratch.write_bytes(b"y"),
                np.zeros(1),
                (_ for _ in ()).throw(RuntimeError),
            )[2].__next__(),
        )
    assert (
        names(tmp_path / "deep") == ["a.npy"] and (tmp_path / "deep" / "a.npy").read_bytes() == b"x"
    )
