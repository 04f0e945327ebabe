"""`pip install .`: what is in the wheel, that it works where no checkout is, and that nothing is
left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from places import ROOT

pytestmark = pytest.mark.long
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


def test_install_use_uninstall(phasor, tmp_path):
    """Built at one level: the levels are those of CMake's build (test_cmake.py)."""
    python = tmp_path / "v/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "v")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    before = sorted(p for p in (tmp_path / "v").rglob("*"))
    builder = tmp_path / "builder/bin/python"
    run(sys.executable, "-m", "venv", tmp_path / "builder")
    lock = ROOT / "tools/locks/requirements-wheel.txt"
    run(builder, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock)
    options = ["--no-build-isolation", "--no-deps", "-C", "cmake.define.PHASOR_CONFIG=scalar"]
    run(builder, "-m", "pip", "wheel", *options, "-w", tmp_path, ROOT)
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

    run(*pip, "uninstall", "-q", "-y", "phasor-engine")
    left = {p for p in (tmp_path / "v").rglob("*") if "__pycache__" not in p.parts}
    assert left - set(before) == set()
