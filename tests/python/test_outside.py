"""What happens to the program from outside: descriptors that are closed, models that shrink or
change under it, signals, limits and disks that are full, outputs that are inputs. Each time one
line that names the file and the thing, exit status 1, and other files as they were.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from test_cli import LANGUAGE, MODELS, PHASOR, TRANSLATOR, bad, good, phasor, sections

from places import ROOT

SMALL = ROOT / "models" / "zh-en-small.phasor"
DATA = 15
FEW = ("-n", "12")


def line_of(done: subprocess.CompletedProcess, *says: str) -> str:
    """The one line of a failure with status 1."""
    error = done.stderr.decode()
    assert done.returncode == 1, (done.returncode, error)
    assert error.startswith("phasor: ") and error.endswith("\n") and error.count("\n") == 1, error
    for word in says:
        assert word in error, (word, error)
    return error


class Running:
    """The program with a model, as it waits for its next line."""

    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen(
            [PHASOR, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )

    def line(self, text: str) -> bytes:
        """Sends a line, returns the answer's."""
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def asleep(self) -> None:
        """Returns when it waits for its next line, or for who reads its pipe."""
        until(lambda: asleep(self.process.pid))

    def end(self, text: str = "") -> subprocess.CompletedProcess:
        out, error = self.process.communicate(text.encode(), timeout=60)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, error)


def until(what, seconds: float = 100):
    """Waits for something of another process."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.002)
    return found


def asleep(process: int) -> bool:
    """All its threads wait for something, and go on waiting: one that has work to do and gets no
    processor does not."""
    for _ in range(5):
        for thread in Path(f"/proc/{process}/task").iterdir():
            try:
                state = (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:  # it has ended
                return False
            if state != "S":
                return False
        time.sleep(0.01)
    return True


def closing(*descriptors: int):
    return lambda: [os.close(fd) for fd in descriptors]


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part"))


# ---- closed descriptors


def test_standard_output_is_closed(tmp_path):
    """No file becomes descriptor 1; what cannot be written is an error."""
    there = tmp_path / "there.npy"
    there.write_bytes(b"as it was")
    for out in (there, tmp_path / "new.npy"):
        done = phasor(
            "run",
            TRANSLATOR,
            "source5",
            "--logits",
            out,
            "--quiet",
            stdout=None,
            preexec_fn=closing(1),
        )
        line_of(done, "standard output: is closed")
    line_of(
        phasor(
            "run",
            LANGUAGE,
            "--ids",
            "5",
            "--save-state",
            tmp_path / "state",
            "--quiet",
            stdout=None,
            preexec_fn=closing(1),
        ),
        "standard output: is closed",
    )
    line_of(
        phasor(
            "embed",
            MODELS / "tiny-bert-f32.phasor",
            "--ids",
            "5,6",
            "--hidden",
            tmp_path / "h.npy",
            "--pooling",
            "mean",
            "--quiet",
            stdout=None,
            preexec_fn=closing(1),
        ),
        "is closed",
    )
    line_of(
        phasor(
            "quantize", LANGUAGE, tmp_path / "q", "--type", "q8", stdout=None, preexec_fn=closing(1)
        ),
        "standard output: is closed",
    )
    for command in (
        ["inspect", TRANSLATOR],
        ["verify", TRANSLATOR],
        ["--version"],
        ["--help"],
        ["score", LANGUAGE, "--ids", "4,5,6", "--quiet"],
    ):
        line_of(phasor(*command, stdout=None, preexec_fn=closing(1)), "standard output: is closed")
    assert [p.name for p in tmp_path.iterdir()] == [
        "there.npy"
    ] and there.read_bytes() == b"as it was"


@pytest.mark.parametrize("closed", [(1,), (2,), (0,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_files_are_right_with_closed_descriptors(closed, tmp_path):
    """Where nothing goes to standard output, files are what they are with it."""
    phasor("quantize", LANGUAGE, tmp_path / "wanted", "--type", "q8", "--quiet")
    done = subprocess.run(
        [PHASOR, "quantize", LANGUAGE, tmp_path / "made", "--type", "q8", "--quiet"],
        preexec_fn=closing(*closed),
        timeout=60,
    )
    assert (
        done.returncode == 0
        and (tmp_path / "made").read_bytes() == (tmp_path / "wanted").read_bytes()
    )
    # An error that nobody hears is not written to the file.
    done = subprocess.run(
        [PHASOR, "run", TRANSLATOR, "--ids", "99", "--logits", tmp_path / "x.npy"],
        preexec_fn=closing(*closed),
        stdout=None if 1 in closed else subprocess.DEVNULL,
        stderr=None if 2 in closed else subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 1 and sorted(p.name for p in tmp_path.iterdir()) == ["made", "wanted"]


def test_standard_error_is_closed(tmp_path):
    done = phasor(
        "run", TRANSLATOR, "source5", "--logits", tmp_path / "a.npy", preexec_fn=closing(2)
    )
    wanted = good("run", TRANSLATOR, "source5", "--logits", tmp_path / "b.npy")
    assert (
        done.returncode == 0
        and done.stdout.decode() == wanted
        and (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    )


def test_standard_input_is_closed(tmp_path):
    for words in (
        ["run", TRANSLATOR, "--logits", tmp_path / "x.npy"],
        ["run", TRANSLATOR],
        ["tokenize", TRANSLATOR],
        ["score", LANGUAGE, "--ids", "-"],
        ["chat", MODELS / "tiny-chat-f32.phasor", "--greedy"],
        [
            "embed",
            MODELS / "tiny-bert-f32.phasor",
            "--ids",
            "-",
            "--pooling",
            "mean",
            "--npy",
            tmp_path / "x.npy",
        ],
    ):
        done = subprocess.run(
            [PHASOR, *words],
            preexec_fn=closing(0),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        line_of(done, "standard input: is closed")
    assert not list(tmp_path.iterdir())
    folder = os.open(tmp_path, os.O_RDONLY)
    line_of(
        subprocess.run(
            [PHASOR, "run", TRANSLATOR],
            stdin=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
        ),
        "standard input: Is a directory",
    )
    os.close(folder)


def test_a_full_disk_behind_standard_output(tmp_path):
    with open("/dev/full", "wb") as full:
        line_of(
            phasor("run", TRANSLATOR, "source5", "--logits", tmp_path / "x.npy", stdout=full),
            "standard output: No space left",
        )
        line_of(
            phasor("quantize", LANGUAGE, tmp_path / "q", "--type", "q8", stdout=full),
            "standard output: No space left",
        )
        line_of(
            phasor("tokenize", TRANSLATOR, "source5", stdout=full), "standard output: No space left"
        )
    assert not list(tmp_path.iterdir())


def test_a_reader_that_has_gone(tmp_path):
    """Quietly, by SIGPIPE, as programs do; with a line where the caller ignores that signal."""
    for ignored in (False, True):
        read, write = os.pipe()
        os.close(read)
        done = phasor(
            "run",
            TRANSLATOR,
            "source5",
            "--logits",
            tmp_path / "x.npy",
            "--threads",
            2,
            stdout=write,
            preexec_fn=(lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)) if ignored else None,
        )
        os.close(write)
        if ignored:
            line_of(done, "standard output: Broken pipe")
        else:
            assert done.returncode == -signal.SIGPIPE and done.stderr == b""
        assert not list(tmp_path.iterdir())
    done = subprocess.run(
        [
            "bash",
            "-c",
            'yes source5 | head -5000 | "$0" run "$1" --quiet | head -1',
            PHASOR,
            TRANSLATOR,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""


# ---- a model that goes away


def cut(path: Path, size: int = 0) -> None:
    os.truncate(path, size)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("load", ["auto", "map"])
@pytest.mark.parametrize("share", [0, 0.5])
def test_a_model_that_shrinks(load, threads, share, tmp_path):
    model = tmp_path / "m.phasor"
    model.write_bytes(SMALL.read_bytes())
    run = Running("run", model, "--quiet", "--load", load, "--threads", threads)
    assert run.line("你好") != b""
    run.asleep()
    cut(model, int(share * model.stat().st_size))
    line_of(run.end("今天天气很好\n"), str(model), "was cut short while it was in use")


@pytest.mark.parametrize(
    "command",
    [
        ["score", MODELS / "tiny-rotary-f32.phasor", "--ids", "-"],
        [
            "embed",
            MODELS / "tiny-bert-f32.phasor",
            "--ids",
            "-",
            "--pooling",
            "mean",
            "--batch",
            "1",
        ],
        ["classify", MODELS / "tiny-classes-f32.phasor", "--ids", "-", "--batch", "1"],
        ["run", TRANSLATOR, "--beam", "3", "--ids", "-"],
    ],
    ids=lambda c: c[0],
)
def test_other_commands_and_a_model_that_shrinks(command, tmp_path):
    model = tmp_path / "m.phasor"
    model.write_bytes(command[1].read_bytes())
    run = Running(command[0], model, *command[2:], "--quiet", "--load", "map")
    assert run.line("4,5,6") != b""
    run.asleep()
    cut(model)
    line_of(
        run.end("5,4,7\n"), str(model), "while it was in use"
    )  # cut short, or changed, where what is read is in a page of the head


def test_a_model_that_shrinks_leaves_no_part(tmp_path):
    model, out = tmp_path / "m.phasor", tmp_path / "out.npy"
    model.write_bytes(SMALL.read_bytes())
    out.write_bytes(b"as it was")
    run = Running("run", model, "--quiet", "--logits", out)
    until(lambda: parts(tmp_path))
    run.asleep()
    cut(model)
    line_of(run.end("你好\n"), str(model), "was cut short while it was in use")
    assert out.read_bytes() == b"as it was" and sorted(p.name for p in tmp_path.iterdir()) == [
        "m.phasor",
        "out.npy",
    ]


def restored(path: Path, write) -> None:
    """Writes into a file, and puts its time back, so that nothing but the bytes says so."""
    before = path.stat()
    with open(path, "r+b") as file:
        write(file)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "noise": lambda data, rng: rng.bytes(len(data)),
    "zeros": lambda data, rng: bytes(len(data)),
    "ones": lambda data, rng: b"\xff" * len(data),
    "turned": lambda data, rng: data[::-1],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "command",
    [
        ["run", TRANSLATOR, "--ids", "-", "--threads", "2", *FEW],
        ["run", TRANSLATOR, "--ids", "-", "--beam", "3", *FEW],
        [
            "run",
            SMALL,
            "--ids",
            "-",
            "--temperature",
            "1",
            "--top-p",
            "0.9",
            "--typical",
            "0.9",
            "--seed",
            "1",
            *FEW,
        ],
        [
            "run",
            MODELS / "tiny-post-sin-q8.phasor",
            "--ids",
            "-",
            "--lookahead",
            "--repeat-penalty",
            "1.5",
            *FEW,
        ],
        ["score", MODELS / "tiny-rotary-f32.phasor", "--ids", "-"],
        [
            "embed",
            MODELS / "tiny-bert-f16.phasor",
            "--ids",
            "-",
            "--pooling",
            "mean",
            "--batch",
            "1",
        ],
        ["classify", MODELS / "tiny-classes-q8.phasor", "--ids", "-", "--batch", "1"],
        ["run", TRANSLATOR, *FEW],
    ],
    ids=lambda c: f"{c[0]}-{c[1].stem}",
)
def test_a_model_that_is_written_over(command, change, tmp_path):
    """An error that says so; where the file's time does not tell, wrong numbers or an error."""
    rng = np.random.default_rng(len(command) * 10 + len(change))
    data = command[1].read_bytes()
    line = "source5 source6" if command == ["run", TRANSLATOR, *FEW] else "4,5,6,7"
    for told in (True, False):
        model = tmp_path / f"{told}.phasor"
        model.write_bytes(data)
        run = Running(command[0], model, *command[2:], "--quiet", "--load", "map")
        assert run.line(line) != b""
        run.asleep()
        restored(model, lambda file: file.write(CHANGES[change](data, rng)))
        if told:
            os.utime(model)
            line_of(run.end(line + "\n"), str(model), "was changed while it was in use")
        else:
            done = run.end(f"{line}\n{line}\n")
            assert done.returncode in (0, 1), (done.returncode, done.stderr)
            assert done.returncode == 0 or all(
                word in done.stderr for word in (b"phasor: ", b"not ")
            ), done.stderr


@pytest.mark.parametrize(
    "command, model",
    [
        ("tokenize", SMALL),
        ("run", SMALL),
        ("run", TRANSLATOR),
        ("chat", MODELS / "tiny-chat-f32.phasor"),
    ],
    ids=lambda p: getattr(p, "stem", p),
)
@pytest.mark.parametrize("change", CHANGES)
def test_all_but_the_weights_is_the_programs_own(command, model, change, tmp_path):
    """Head, tokenizers, vectors and chat program change, and the results are what they were."""
    data = model.read_bytes()
    end = sections(data)[DATA][0]
    changed = tmp_path / "m.phasor"
    changed.write_bytes(data)
    words, text = (
        [
            command,
            changed,
            *([] if command == "tokenize" else ["--quiet", "--load", "map", *FEW]),
        ],
        ("source5 hello" if model == TRANSLATOR else "hello 你好"),
    )
    wanted = good(*words, stdin=f"{text}\n{text} {text}\n")
    run = Running(*words)
    got = [run.line(text)]
    while command != "run" and got[-1] != b"\n":
        got.append(run.process.stdout.readline())
    run.asleep()
    restored(
        changed, lambda file: file.write(CHANGES[change](data[:end], np.random.default_rng(1)))
    )
    done = run.end(f"{text} {text}\n")
    assert done.returncode == 0 and (b"".join(got) + done.stdout).decode() == wanted, done.stderr


def test_an_input_changes_while_it_is_quantized(tmp_path):
    """A pipe as OUT holds the program back, after IN was checked and before it is converted."""
    data = TRANSLATOR.read_bytes()
    for what, says in (
        ("cut", "was cut short while it was in use"),
        ("changed", "was changed while it was in use"),
    ):
        model, out = tmp_path / f"{what}.phasor", tmp_path / f"{what}.pipe"
        model.write_bytes(data)
        os.mkfifo(out)
        run = Running("quantize", model, out, "--type", "q8", "--quiet")
        run.asleep()
        if what == "cut":
            cut(model)
        else:
            with open(model, "r+b") as file:
                file.seek(sections(data)[DATA][0])
                file.write(np.random.default_rng(0).bytes(4096))
        with open(out, "rb") as reader:
            got = reader.read()
        line_of(run.end(), str(model), says)
        assert got == b""


def test_a_model_with_much_before_its_weights(tmp_path):
    """What becomes the program's own is bounded, whatever a file says. The file is one hole."""
    data = bytearray(LANGUAGE.read_bytes()[:576])
    huge = tmp_path / "huge.phasor"
    size = 3 << 30
    for i in range(struct.unpack_from("<I", data, 20)[0]):
        if struct.unpack_from("<I", data, 64 + 32 * i)[0] == DATA:
            struct.pack_into("<Q", data, 64 + 32 * i + 8, size - 64)
    huge.write_bytes(data)
    os.truncate(huge, size)
    bad(1, "inspect", huge, says=[str(huge), "1 GiB before its weights"])
    for field, value in ((32, 1 << 60), (32, 0), (20, 0), (20, 1 << 31)):  # head_bytes, sections
        other = bytearray(LANGUAGE.read_bytes())
        struct.pack_into("<Q" if field == 32 else "<I", other, field, value)
        huge.write_bytes(other)
        bad(1, "run", huge, "--ids", "5", says=[str(huge)])


# ---- signals

ENDING = [
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGABRT,
    signal.SIGBUS,
]


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", ENDING, ids=lambda n: n.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_signal_leaves_no_part(number, threads, tmp_path):
    old = tmp_path / "old.npy"
    old.write_bytes(b"as it was")
    no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run = Running(
        "run",
        TRANSLATOR,
        "--logits",
        old,
        "--hidden",
        tmp_path / "new.npy",
        "--threads",
        threads,
        preexec_fn=no_core,
    )
    until(lambda: len(parts(tmp_path)) == 2)
    until(lambda: len(os.listdir(f"/proc/{run.process.pid}/task")) == threads)
    run.process.send_signal(number)
    done = run.end()
    assert done.returncode == -number and done.stderr == b""
    assert [p.name for p in tmp_path.iterdir()] == ["old.npy"] and old.read_bytes() == b"as it was"


@pytest.mark.usefixtures("usual_signals")
def test_only_the_main_thread_takes_signals():
    """A signal that another thread may take finds the main thread creating a file, or printing."""
    run = Running("run", TRANSLATOR, "--threads", 3)
    tasks = Path(f"/proc/{run.process.pid}/task")
    until(lambda: len(os.listdir(tasks)) == 3)
    run.asleep()
    for task in tasks.iterdir():
        blocked = int(re.search(r"^SigBlk:\t(\w+)", (task / "status").read_text(), re.M)[1], 16)
        takes = {number for number in signal.valid_signals() if not blocked >> (number - 1) & 1}
        if task.name == str(run.process.pid):
            assert takes >= set(ENDING)
        else:
            assert takes & set(ENDING) == {signal.SIGBUS}, task.name
    run.end()


@pytest.mark.usefixtures("usual_signals")
def test_signals_at_any_time(tmp_path):
    """Also when a part is made and when it is renamed: never a part, never half a file."""
    wanted = (
        good("run", TRANSLATOR, "source5", "--logits", tmp_path / "wanted.npy")
        and (tmp_path / "wanted.npy").read_bytes()
    )
    ended = 0
    for i in range(60):
        out = tmp_path / f"{i}.npy"
        process = subprocess.Popen(
            [PHASOR, "run", TRANSLATOR, "source5", "--logits", out, "--threads", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.0002 * i)
        process.terminate()
        ended += process.wait(60) == -signal.SIGTERM
        assert parts(tmp_path) == [] and (not out.exists() or out.read_bytes() == wanted)
    assert ended > 0


def test_a_signal_that_the_caller_ignores(tmp_path):
    out = tmp_path / "x.npy"
    run = Running(
        "run",
        TRANSLATOR,
        "--logits",
        out,
        "--quiet",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    until(lambda: parts(tmp_path))
    run.process.send_signal(signal.SIGHUP)
    assert run.end("source5\n").returncode == 0 and [p.name for p in tmp_path.iterdir()] == [
        "x.npy"
    ]


# ---- limits and full disks


def outputs(folder: Path) -> dict[str, list]:
    """Every flag by which a file is written."""
    run, bert = (
        [
            "run",
            TRANSLATOR,
            "--ids",
            "5,6,3",
            "-n",
            "20",
            "--print-ids",
            "--quiet",
        ],
        MODELS / "tiny-bert-f32.phasor",
    )
    return {
        "logits": [*run, "--logits"],
        "hidden": [*run, "--hidden"],
        "hidden-decoder": [*run, "--hidden-decoder"],
        "attention": [*run, "--attention"],
        "state": [
            "run",
            LANGUAGE,
            "--ids",
            "5,6,7",
            "-n",
            "20",
            "--print-ids",
            "--quiet",
            "--save-state",
        ],
        "npy": ["embed", bert, "--ids", "5,6", "--pooling", "mean", "--quiet", "--npy"],
        "embed-hidden": ["embed", bert, "--ids", "5,6", "--pooling", "mean", "--quiet", "--hidden"],
        "quantize": ["quantize", LANGUAGE, "OUT", "--type", "q8", "--quiet"],
    }


def command_to(words: list, out) -> list:
    return [out if w == "OUT" else w for w in words] if "OUT" in words else [*words, out]


@pytest.mark.parametrize("kind", list(outputs(Path())))
def test_a_file_that_may_not_grow(kind, tmp_path):
    words = outputs(tmp_path)[kind]
    good(*command_to(words, tmp_path / "wanted"))
    whole = (tmp_path / "wanted").read_bytes()
    for limit in (0, 1, 100, len(whole) // 2, len(whole) - 1, len(whole)):
        out = tmp_path / "out"
        out.write_bytes(b"as it was")
        done = phasor(
            *command_to(words, out),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        if limit < len(whole):
            line_of(done, str(out), "cannot be written", "File too large")
        else:
            assert done.returncode == 0, done.stderr
        assert out.read_bytes() == (whole if limit == len(whole) else b"as it was") and sorted(
            p.name for p in tmp_path.iterdir()
        ) == ["out", "wanted"]


def test_several_files_or_none(tmp_path):
    """Where the largest of a command's files has no room, the others stay as they were."""
    words = ["run", TRANSLATOR, "--ids", "5,6,3", "-n", "20", "--print-ids", "--quiet"]
    state = ["run", LANGUAGE, "--ids", "5,6,7", "-n", "20", "--print-ids", "--quiet"]
    encoder = ["embed", MODELS / "tiny-bert-f32.phasor", "--ids", "5,6", "--pooling", "mean"]
    for command, flags in (
        (words, ("--logits", "--hidden", "--hidden-decoder", "--attention")),
        (state, ("--save-state", "--logits", "--hidden")),
        (encoder, ("--npy", "--hidden", "--attention")),
    ):
        files = {flag: tmp_path / f"{flag}.npy" for flag in flags}
        given = [word for pair in files.items() for word in pair]
        good(*command, *given)
        sizes = sorted((file.stat().st_size, file) for file in files.values())
        for file in files.values():
            file.write_bytes(b"as it was")
        most = sizes[-1][0] - 1
        assert sizes[-2][0] <= most
        done = phasor(
            *command,
            *given,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )
        line_of(done, str(sizes[-1][1]), "File too large")
        assert {file.read_bytes() for file in files.values()} == {b"as it was"}
        assert parts(tmp_path) == []


def test_arrays_of_no_line_or_of_two(tmp_path):
    bert = ["embed", MODELS / "tiny-bert-f32.phasor", "--ids", "-", "--pooling", "mean", "--quiet"]
    for text in ("", "5,6\n7,8\n"):
        outs = ["--hidden", tmp_path / "h.npy", "--npy", tmp_path / "v.npy"]
        done = phasor(*bert, *outs, stdin=text)
        line_of(done, "expected exactly one line of input")
        assert not list(tmp_path.iterdir())


def test_standard_output_that_may_not_grow(tmp_path):
    with open(tmp_path / "text", "wb") as text:
        line_of(
            phasor(
                "inspect",
                TRANSLATOR,
                stdout=text,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
            ),
            "standard output: File too large",
        )


@pytest.mark.parametrize("kind", list(outputs(Path())))
def test_a_device_that_is_full(kind, tmp_path):
    line_of(
        phasor(*command_to(outputs(tmp_path)[kind], "/dev/full")),
        "/dev/full",
        "cannot be written: No space left",
    )


def test_no_memory_leaves_no_part(tmp_path):
    """The arena, and what `new` gives."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (48 << 20, 48 << 20))
    done = phasor(
        "run",
        TRANSLATOR,
        "source5",
        "--logits",
        tmp_path / "x.npy",
        "--context",
        1 << 24,
        preexec_fn=limit,
    )
    line_of(done, "no memory for the arena")
    done = phasor(
        "run", TRANSLATOR, "--logits", tmp_path / "y.npy", stdin=b"x" * (40 << 20), preexec_fn=limit
    )
    line_of(done, "the system gives no more memory")
    assert not list(tmp_path.iterdir())


# ---- places


@pytest.mark.parametrize("kind", list(outputs(Path())))
def test_an_output_that_is_the_model(kind, tmp_path):
    words = outputs(tmp_path)[kind]
    given = tmp_path / "m.phasor"
    data = words[1].read_bytes()
    given.write_bytes(data)
    words = [words[0], given, *words[2:]]
    (tmp_path / "link").symlink_to("m.phasor")
    os.link(given, tmp_path / "hard")
    (tmp_path / "folder").mkdir()
    for path in (
        given,
        tmp_path / "link",
        tmp_path / "hard",
        tmp_path / "folder" / ".." / "m.phasor",
    ):
        done = phasor(*command_to(words, path))
        line_of(done, "is both the model and", "a file of its own")
        assert given.read_bytes() == data and sorted(p.name for p in tmp_path.iterdir()) == [
            "folder",
            "hard",
            "link",
            "m.phasor",
        ]


READ = {"--embeddings", "--shortlist", "--load-state", "--moments", "--text"}


@pytest.mark.parametrize("command", "run embed fill classify chat quantize".split())
def test_no_two_files_of_a_command_are_one_where_it_writes(command, tmp_path):
    """Every flag of the command's help that takes a file, beside every other."""
    here = tmp_path / "here.npy"
    np.save(here, np.ones((1, 4), np.float32))
    kept = here.read_bytes()
    files = re.findall(r"^  (--[a-z-]+) FILE", good(command, "--help"), re.M)
    count = {"run": 8, "embed": 4, "classify": 4, "chat": 0, "quantize": 2}
    assert len(files) == count.get(command, 3)
    for one, other in itertools.combinations(files, 2):
        if not {one, other} <= READ:
            words = [command, LANGUAGE, one, here, other, here]
            bad(1, *words, says=[str(here), "is both", one, other, "own for what is written"])
    for one in set(files) - READ:
        bad(1, command, LANGUAGE, one, LANGUAGE, says=["is both the model and", one])
    assert here.read_bytes() == kept


def test_an_output_that_is_another_file_of_the_command(tmp_path):
    state, moments = tmp_path / "state", tmp_path / "moments.npy"
    good("run", LANGUAGE, "--ids", "5,6", "-n", "2", "--save-state", state)
    np.save(moments, np.ones(3, np.float32))
    kept = state.read_bytes(), moments.read_bytes()
    bad(
        1,
        "run",
        LANGUAGE,
        "--load-state",
        state,
        "--ids",
        "",
        "--save-state",
        state,
        says=[str(state), "both --load-state and --save-state"],
    )
    bad(
        1,
        "quantize",
        LANGUAGE,
        moments,
        "--type",
        "q8",
        "--moments",
        moments,
        says=[str(moments), "both --moments and OUT"],
    )
    assert kept == (state.read_bytes(), moments.read_bytes())
    new = tmp_path / "new.npy"
    bad(
        1,
        "run",
        TRANSLATOR,
        "source5",
        "--logits",
        new,
        "--hidden",
        tmp_path / "." / "new.npy",
        says=[str(new), "both --logits and --hidden"],
    )
    bad(
        1,
        "run",
        TRANSLATOR,
        "source5",
        "--logits",
        "new.npy",
        "--attention",
        tmp_path / "new.npy",
        says=["new.npy", "both --logits and --attention"],
        cwd=tmp_path,
    )
    with open(tmp_path / "text", "w+b") as text:
        text.write(b"source5\n")
        text.seek(0)
        done = subprocess.run(
            [PHASOR, "run", TRANSLATOR, "--logits", tmp_path / "text"],
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        line_of(done, "both --logits and standard input")
        line_of(
            phasor("run", TRANSLATOR, "source5", "--logits", tmp_path / "text", stdout=text),
            "both --logits and standard output",
        )
        done = subprocess.run(
            [PHASOR, "run", TRANSLATOR, "source5", "--logits", tmp_path / "text"],
            stdout=subprocess.PIPE,
            stderr=text,
            timeout=60,
        )
        assert done.returncode == 1
    model = tmp_path / "m.phasor"
    model.write_bytes(TRANSLATOR.read_bytes())
    with open(model, "ab") as end:
        line_of(phasor("run", model, "source5", stdout=end), "both the model and standard output")
    assert model.read_bytes() == TRANSLATOR.read_bytes() and not new.exists()
    for name in ("", "-"):
        bad(
            1,
            "run",
            TRANSLATOR,
            "source5",
            "--logits",
            name,
            says=["--logits", "the name of a file"],
        )
        bad(1, "quantize", LANGUAGE, name, "--type", "q8", says=["OUT", "the name of a file"])
    assert not (Path.cwd() / "-").exists() and parts(tmp_path) == []


def test_outputs_that_are_no_files(tmp_path):
    """Pipes and devices are written where they are, and stay what they are."""
    good(
        "run",
        TRANSLATOR,
        "source5",
        "--logits",
        tmp_path / "x.npy",
        "--attention",
        "/dev/null",
        "--hidden",
        "/dev/null",
    )
    good("quantize", LANGUAGE, "/dev/null", "--type", "q8")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    good("quantize", LANGUAGE, tmp_path / "q", "--type", "q8")
    for command, wanted in (
        (["run", TRANSLATOR, "source5", "--logits"], "x.npy"),
        (["quantize", LANGUAGE, "OUT", "--type", "q8"], "q"),
    ):
        pipe, got = tmp_path / f"{wanted}.pipe", []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
        reader.start()
        good(*command_to(command, pipe))
        reader.join(60)
        assert got == [(tmp_path / wanted).read_bytes()] and stat.S_ISFIFO(pipe.stat().st_mode)
    shell = subprocess.run(
        [
            "bash",
            "-c",
            'cd "$2"; "$0" run "$1" source5 --logits >(cat > y.new; mv y.new y.npy) > /dev/null',
            PHASOR,
            TRANSLATOR,
            tmp_path,
        ],
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert shell.returncode == 0, shell.stderr
    until(lambda: (tmp_path / "y.npy").exists())
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()
    before = os.lstat("/dev/stdout")
    bad(
        1,
        "run",
        TRANSLATOR,
        "source5",
        "--logits",
        "/dev/stdout",
        says=["/dev/stdout", "both --logits and standard output"],
    )
    assert os.lstat("/dev/stdout").st_ino == before.st_ino and not list(Path("/dev").glob("*.part"))
    assert parts(tmp_path) == []


def test_places_that_take_no_file(tmp_path):
    (tmp_path / "file").write_bytes(b"as it was")
    (tmp_path / "dangling").symlink_to("nowhere")
    for words in outputs(tmp_path).values():
        for place, says in (
            (tmp_path / "no" / "x", "No such file"),
            (tmp_path, "is a directory"),
            (tmp_path / "file" / "x", "Not a directory"),
            (tmp_path / "dangling", "link to a file that is not there"),
            (tmp_path / ("n" * 300), "name too long"),
        ):
            line_of(phasor(*command_to(words, place)), str(place), says)
    assert (
        sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "file"]
        and (tmp_path / "file").read_bytes() == b"as it was"
    )


def test_links_and_modes(tmp_path):
    """A link stays one, a new file has the umask's mode, a name may be as long as names are."""
    (tmp_path / "there").mkdir()
    target, link, long = (
        tmp_path / "there" / "x.npy",
        tmp_path / "link.npy",
        tmp_path / ("n" * 251 + ".npy"),
    )
    target.write_bytes(b"as it was")
    link.symlink_to("there/x.npy")
    good("run", TRANSLATOR, "source5", "--logits", link, preexec_fn=lambda: os.umask(0o027))
    assert (
        link.is_symlink()
        and target.read_bytes()[:6] == b"\x93NUMPY"
        and stat.S_IMODE(target.stat().st_mode) == 0o640
    )
    good("run", TRANSLATOR, "source5", "--logits", long)
    assert (
        long.read_bytes() == target.read_bytes()
        and not parts(tmp_path)
        and not parts(tmp_path / "there")
    )


def test_places_without_permission():
    """As a user to whom permissions apply."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        model, program = folder / "m.phasor", folder / "phasor"
        model.write_bytes(TRANSLATOR.read_bytes())
        program.write_bytes(Path(PHASOR).read_bytes())
        os.chmod(program, 0o755)
        (folder / "open").mkdir()
        os.chmod(folder / "open", 0o777)
        kept = folder / "open" / "kept.npy"
        kept.write_bytes(b"as it was")
        os.chmod(kept, 0o444)
        os.chmod(folder, 0o555)
        become = (lambda: os.setuid(65534)) if os.getuid() == 0 else None
        for place in (folder / "x.npy", kept):
            done = subprocess.run(
                [program, "run", model, "source5", "--logits", place],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=become,
                timeout=60,
            )
            line_of(done, str(place), "cannot be written: Permission denied")
        os.chmod(folder, 0o755)
        assert kept.read_bytes() == b"as it was" and sorted(p.name for p in folder.rglob("*")) == [
            "kept.npy",
            "m.phasor",
            "open",
            "phasor",
        ]


def test_two_programs_with_one_output(tmp_path):
    """Each writes a file of its own; what is there at the end is one of them, whole."""
    wanted = []
    for i in range(5):
        good("run", TRANSLATOR, "--ids", f"{4 + i},3", "-n", "10", "--logits", tmp_path / "one.npy")
        wanted.append((tmp_path / "one.npy").read_bytes())
    assert len(set(wanted)) == 5
    (tmp_path / "one.npy").unlink()
    running = [
        Running("run", TRANSLATOR, "--ids", "-", "-n", "10", "--logits", tmp_path / "one.npy")
        for _ in range(5)
    ]
    until(lambda: len(parts(tmp_path)) == 5)
    for i in (3, 0, 4, 1, 2):
        assert running[i].end(f"{4 + i},3\n").returncode == 0
        assert (tmp_path / "one.npy").read_bytes() == wanted[i]
    assert [p.name for p in tmp_path.iterdir()] == ["one.npy"]
    together = [
        subprocess.Popen(
            [
                PHASOR,
                "run",
                TRANSLATOR,
                "--ids",
                f"{4 + i % 5},3",
                "-n",
                "10",
                "--logits",
                tmp_path / "one.npy",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for i in range(10)
    ]
    assert [p.wait(60) for p in together] == [0] * 10
    assert (tmp_path / "one.npy").read_bytes() in wanted and parts(tmp_path) == []


# ---- arrays that are read


def test_an_array_that_is_not_what_it_says(tmp_path):
    header = lambda text: (
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"
    )
    shape = lambda s: header("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % s)
    path = tmp_path / "m.npy"
    words = ("quantize", LANGUAGE, tmp_path / "o", "--type", "q8", "--moments", path)
    for content, says in (
        (b"", "is empty, expected a NumPy file"),
        (shape("(4,)") + bytes(12), "cut off"),
        (shape("(2,)") + bytes(12), "longer than its shape"),
        (shape("(3") + bytes(12), "cut off"),
        (shape("(18446744073709551617, 3)") + bytes(12), "cut off"),
        (shape("(4294967296, 4294967296)") + bytes(12), "cut off"),
        (shape("(-3,)") + bytes(12), "cut off"),
        (shape("(3,)") + bytes(11), "cut off"),
        (shape("(0, 99999999999)") + bytes(4), "longer than its shape"),
        (b"\x93NUMPY\x02\x00" + bytes(20), "version 1.0"),
        (header("{}") + bytes(12), "little-endian f32"),
    ):
        path.write_bytes(content)
        bad(1, *words, says=[str(path), says])
    np.save(path, np.ones((2, 3), np.float32))
    bad(1, *words, says=["6 moments"])
    for count in ("(0,)", "(0, 99999999999)"):  # an array, of no values
        path.write_bytes(shape(count))
        bad(1, *words, says=["0 moments"])
    np.save(path, np.float32(1))
    bad(1, *words, says=["1 moments"])
    assert [p.name for p in tmp_path.iterdir()] == ["m.npy"]
