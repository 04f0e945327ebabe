"""llama2.c's .bin files: the real one tells its story, a small one with an output of its own agrees with the reference."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import convert  # noqa: E402
from families import llama2c  # noqa: E402
from phasor_file import PhasorFile  # noqa: E402
from reference import Reference  # noqa: E402

SHARED = ROOT.parent / "shared" / "data" / "llama2c"
PROGRAM = Path(os.environ.get("PHASOR", ROOT / "build" / "phasor")).absolute()


def phasor(*arguments: object) -> bytes:
    if not PROGRAM.is_file():
        pytest.skip(f"{PROGRAM} is missing: run make")
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def write_small(path: Path, own_output: bool) -> None:
    c = llama2c.Config(20, 28, 2, 5, 5, 33, 24, own_output)
    rng = np.random.default_rng(3)
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", c.width, c.hidden, c.layers, c.heads, c.kv_heads, -c.vocabulary if own_output else c.vocabulary, c.positions))
        for shape in c.shapes().values():
            file.write(rng.normal(0, 0.3, shape).astype("<f4").tobytes())


@pytest.mark.parametrize("own_output", [False, True])
def test_a_small_file_gives_the_references_tokens(tmp_path: Path, own_output: bool) -> None:
    write_small(tmp_path / "small.bin", own_output)
    assert convert.main([str(tmp_path / "small.bin"), "-o", str(tmp_path / "small.phasor"), "--quiet"]) == 0
    want = Reference(PhasorFile(tmp_path / "small.phasor")).greedy(None, 12, prefix=[7, 3])
    got = phasor("run", tmp_path / "small.phasor", "--ids", "7,3", "--print-ids", "-n", 12, "--quiet")
    assert [int(x) for x in got.split(b",")] == list(want)
    phasor("verify", tmp_path / "small.phasor")


def test_a_file_of_another_size_is_not_taken_for_one(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_small(tmp_path / "small.bin", False)
    data = (tmp_path / "small.bin").read_bytes()
    (tmp_path / "cut.bin").write_bytes(data[:-4])
    assert llama2c.read_config(tmp_path / "cut.bin") is None
    assert convert.main([str(tmp_path / "cut.bin"), "-o", str(tmp_path / "cut.phasor")]) == 1
    assert not (tmp_path / "cut.phasor").exists()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_stories260K_tells_its_story(tmp_path: Path) -> None:
    """Rotary positions with real weights: 200 greedy tokens, byte for byte."""
    if not SHARED.is_dir():
        pytest.skip(f"the checkpoint is not here: {SHARED}")
    out = tmp_path / "stories.phasor"
    assert convert.main([str(SHARED / "stories260K.bin"), "--tokenizer", str(SHARED / "tok512.model"), "-o", str(out), "--quiet"]) == 0
    expected = (SHARED / "stories260K.expected.txt").read_bytes()
    assert phasor("run", out, "--ids", 1, "-n", 200, "--quiet") == expected + b"\n"
    assert phasor("run", out, "--ids", 1, "-n", 200, "--quiet", "--threads", 2, "--isa", "scalar") == expected + b"\n"
    text = phasor("run", out, "Once upon a time", "-n", 20, "--quiet")
    assert expected.startswith(b"Once upon a time" + text.rstrip(b"\n")[:40])


def test_llama2xs_tells_its_story(tmp_path: Path) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the checkpoint is not here: {SHARED}")
    out = tmp_path / "xs.phasor"
    assert convert.main([str(SHARED / "llama2xs.model.bin"), "--tokenizer", str(SHARED / "tok512.model"), "-o", str(out), "--quiet"]) == 0
    expected = (SHARED / "llama2xs.runc-greedy200.txt").read_bytes()
    got = phasor("run", out, "--ids", 1, "-n", 200, "--quiet")
    assert got.rstrip(b"\n") == expected.rstrip(b"\n")
