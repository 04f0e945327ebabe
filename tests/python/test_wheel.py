"""`pip install .`: what is in the wheel, that it works where no checkout is, and that nothing is
left of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

from make import wheels
from phasor.errors import PhasorError
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*command, **kw) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CXXFLAGS", "PHASOR")}
    made = subprocess.run(
        [str(c) for c in command],
        env=clean | {"CC": "gcc", "CXX": "g++"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
        **kw,
    )
    assert made.returncode == 0, f"{command}\n{made.stdout[-4000:]}"
    return made.stdout


def test_what_builds_the_wheel_is_locked():
    [wanted] = PROJECT["build-system"]["requires"]
    assert wanted in (ROOT / "tools/requirements-wheel.txt").read_text(encoding="utf-8").split()


def test_extras_are_what_the_lists_of_packages_name():
    names = {
        line.partition("==")[0]
        for path in (ROOT / "tools").glob("requirements*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    extras = PROJECT["project"]["optional-dependencies"]
    assert {"torch", "plot"} <= set(extras)
    assert {name for extra in extras.values() for name in extra} <= names


def test_zig_gets_the_processor_in_its_own_words():
    given = ["-O3", "-march=armv8.2-a+dotprod+i8mm", "-mavx2", "-march=native"]
    c = ["c++", "-target", "aarch64-linux-gnu.2.17", "-O3"]
    have = wheels.of_zig("aarch64-linux-gnu", given)
    assert have == [*c, "-mcpu=generic+v8_2a+dotprod+i8mm", "-mavx2", "-march=native"]


def made_up_wheel(folder: Path, tag: str = "", lacks: str = "", size: int = 0) -> Path:
    """A wheel as `make wheels` looks at it, in which nothing runs."""
    target = wheels.TARGETS["x86_64"]
    path = folder / f"phasor_engine-0.2.0-{tag or target.tag}.whl"
    tracked = run("git", "-C", ROOT, "ls-files", "tools/phasor").split()
    levels = [n for n in wheels.levels(target.machine) if n != lacks]
    with zipfile.ZipFile(path, "w") as archive:
        for name in tracked:
            if name != lacks:
                archive.writestr(name.removeprefix("tools/"), "")
        archive.writestr("phasor/runtime/libphasor.so", "\0".join(["", *levels, ""]))
        archive.writestr("large", bytes(size))
    return path


@pytest.mark.parametrize(
    "wheel, found, says",
    [
        ({"tag": "py3-none-linux_x86_64"}, "2_17", "linux_x86_64.whl: expected"),
        ({"size": 3 << 20}, "2_17", "bytes; expected fewer than 3,145,728"),
        ({"lacks": "tools/phasor/py.typed"}, "2_17", "phasor/py.typed is missing"),
        ({"lacks": "avxvnni"}, "2_17", "levels avxvnni are missing"),
        ({"lacks": "amx"}, "2_17", "levels amx are missing"),
        ({}, "2_28", "auditwheel: consistent"),
        ({}, "2_5", None),
    ],
)
def test_a_wheel_that_is_not_good_is_refused(wheel, found, says, tmp_path, monkeypatch):
    def told(*_):
        return f'consistent with the following platform\ntag: "manylinux_{found}_x86_64"'

    monkeypatch.setattr(wheels, "auditwheel", told)
    path = made_up_wheel(tmp_path, **wheel)
    if says is None:
        assert wheels.look(path).machine == "x86_64"
        return
    with pytest.raises(PhasorError) as refused:
        wheels.look(path)
    assert says in str(refused.value)


def unpacked(sources: Path, folder: Path) -> Path:
    """The source distribution: what is built from and no more, without git."""
    assert sources.stat().st_size < 3 << 19
    with tarfile.open(sources) as archive:
        archive.extractall(folder, filter="data")
    [tree] = folder.iterdir()
    parts = {p.name for p in tree.iterdir()}
    parts |= {f"tools/{p.name}" for p in (tree / "tools").iterdir()}
    assert parts == {
        *("CMakeLists.txt", "cmake", "include", "src", "tools", "tools/phasor"),
        *("pyproject.toml", "LICENSE", "CHANGELOG.md", "PKG-INFO"),
    }
    return tree


@pytest.mark.long
def test_install_use_uninstall(phasor, tmp_path):
    """From the source distribution, where no checkout is. Built at one level: the levels are those
    of CMake's build (test_cmake.py)."""
    start = time.monotonic()
    python = tmp_path / "v/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "v")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    before = sorted(p for p in (tmp_path / "v").rglob("*"))
    builder = tmp_path / "builder/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "builder")
    lock = ROOT / "tools/locks/requirements-wheel.txt"
    run(builder, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock)
    options = ["--no-build-isolation", "--no-deps", "-C", "cmake.define.PHASOR_CONFIG=scalar"]
    sdist = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    run(builder, "-c", sdist, tmp_path, cwd=ROOT)
    [sources] = tmp_path.glob("phasor_engine-*.tar.gz")
    tree = unpacked(sources, tmp_path / "sources")
    run(builder, "-m", "pip", "wheel", *options, "-w", tmp_path, tree)
    shutil.rmtree(tree)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"phasor_engine-{PROJECT['project']['version']}-py3-none-linux_")
    assert wheel.stat().st_size < 3 << 20
    names = zipfile.ZipFile(wheel).namelist()
    tracked = run("git", "-C", ROOT, "ls-files", "tools/phasor").split()
    expected = {n.removeprefix("tools/") for n in tracked} | {"phasor/runtime/libphasor.so"}
    assert expected <= set(names)
    others = {n.split("/")[0] for n in names} - {"phasor"}
    assert others == {n.split("/")[0] for n in names if n.startswith("phasor_engine-")}

    run(*pip, "install", "-q", "--no-deps", "--no-index", wheel)
    text = ["run", ROOT / "models/zh-en.phasor", "--quiet", "我有一只猫。"]
    assert run(python.parent / "phasor", *text, cwd=tmp_path) == run(phasor, *text)
    # The converter's packages are those of this environment; the program is the installed one.
    site = next((tmp_path / "v").rglob("site-packages"))
    (site / "own.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n", encoding="utf-8")
    out, golden = tmp_path / "out.phasor", ROOT / "tests/golden/pytorch/separate.pt"
    run(python.parent / "phasor-convert", golden, "-o", out, "--quiet", cwd=tmp_path)
    code = "import phasor, sys; print(phasor.load(sys.argv[1]).translate(sys.argv[2]))"
    model, _, said = text[1:]
    own = run(python, "-c", code, model, said, cwd=tmp_path)
    assert own == run(phasor, *text)  # by the shared library of the wheel
    # The same bytes as from the checkout, the hashes that the installed program records among them.
    again = tmp_path / "again.phasor"
    run(sys.executable, ROOT / "tools/convert.py", golden, "-o", again, "--quiet", cwd=ROOT)
    assert out.read_bytes() == again.read_bytes()
    assert run(python.parent / "phasor-verify", "--help").startswith("usage: phasor-verify ")
    plot = subprocess.run([python.parent / "phasor-plot", "--help"], capture_output=True, text=True)
    missing = f"is missing; install it with: {python} -m pip install matplotlib\n"
    assert plot.stdout.startswith("usage: phasor-plot ") or plot.stderr.endswith(missing)
    (site / "own.pth").unlink()

    sizes = f"{sources.stat().st_size:,} and {wheel.stat().st_size:,} bytes"
    print(f"source distribution and wheel {sizes}, used after {time.monotonic() - start:.0f} s")
    run(*pip, "uninstall", "-q", "-y", "phasor-engine")
    left = {p for p in (tmp_path / "v").rglob("*") if "__pycache__" not in p.parts}
    assert left - set(before) == set()
