"""The locks of the Python packages: each is of its list, and no file without its hash is
installed."""

import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from make import lock
from places import ROOT


def test_every_list_has_a_lock_that_agrees():
    assert lock.check() == []


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """The list of the converter's packages and its lock, to be spoilt."""
    locks = tmp_path / "tools" / "locks"
    locks.mkdir(parents=True)
    for name in ("requirements.txt", "requirements-reference.txt", "requirements-plot.txt"):
        (locks.parent / name).write_bytes((ROOT / "tools" / name).read_bytes())
    for name in ("requirements.txt", "torch-cpu.txt"):
        (locks / name).write_bytes((ROOT / "tools/locks" / name).read_bytes())
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    monkeypatch.setattr(lock, "TOOLS", locks.parent)
    monkeypatch.setattr(lock, "LOCKS", locks)
    monkeypatch.setattr(lock, "CPU_TORCH", locks / "torch-cpu.txt")
    assert lock.problems_of("requirements") == []
    return locks / "requirements.txt"


def without(text: str, name: str) -> str:
    """A lock without a package."""
    start = text.index(f"\n{name}==") + 1
    end = next(
        (
            start + i
            for i, c in enumerate(text[start:])
            if c == "\n" and text[start + i + 1].isalpha()
        ),
        len(text) - 1,
    )
    return text[:start] + text[end + 1 :]


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda t: without(t, "numpy"), "no numpy=="),
        (lambda t: t.replace("numpy==2", "numpy==1"), "no numpy==2"),
        (lambda t: without(t, "jinja2"), "markupsafe is there for jinja2"),
        (
            lambda t: t + "idna==3.20 \\\n    --hash=sha256:" + "0" * 64 + "\n",
            "nobody asks for idna",
        ),
        (lambda t: t + "idna==3.20\n    # via pytest\n", "idna has no hash"),
        (lambda t: t + "triton==3.7.1\n    # via pytest\n", "triton"),
        (lambda t: t + "--index-url https" + "://somewhere/simple\n", "not a line"),
    ],
)
def test_a_spoilt_lock_is_found(copy, spoil, said):
    copy.write_text(spoil(copy.read_text()))
    try:
        problems = lock.problems_of("requirements")
    except lock.PhasorError as error:
        problems = [str(error)]
    assert any(said in problem for problem in problems), problems


def test_a_changed_list_asks_for_a_new_lock(copy):
    path = copy.parent.parent / "requirements.txt"
    path.write_text(path.read_text() + "idna==3.20\n")
    assert "make lock" in lock.problems_of("requirements")[0]


def test_a_comment_in_a_list_asks_for_nothing(copy):
    path = copy.parent.parent / "requirements.txt"
    path.write_text("# A word.\n" + path.read_text())
    assert lock.problems_of("requirements") == []


def test_a_list_that_pins_nothing_is_refused(copy):
    (copy.parent.parent / "requirements.txt").write_text("numpy>=2\n")
    with pytest.raises(lock.PhasorError, match="NAME==VERSION"):
        lock.problems_of("requirements")


def wheel(folder: Path) -> str:
    """A package of nothing; its SHA-256."""
    info = "lonely-1.0.dist-info"
    path = folder / "lonely-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lonely.py", "x = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lonely\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.long
def test_only_a_file_with_its_hash_is_installed(tmp_path):
    digest = wheel(tmp_path)
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    for name, text, ok in (
        ("right", f"lonely==1.0 --hash=sha256:{digest}\n", True),
        ("wrong", f"lonely==1.0 --hash=sha256:{'0' * 64}\n", False),
        ("none", "lonely==1.0\n", False),
    ):
        (tmp_path / f"{name}.txt").write_text(text)
        run = subprocess.run(
            ["bash", ROOT / "tools/make/venv.sh", tmp_path / name, tmp_path / f"{name}.txt"],
            env=env, capture_output=True, text=True,
        )  # fmt: skip
        assert (run.returncode == 0) == ok, run.stderr
        assert (tmp_path / name / "ready").exists() == ok
        assert ok or "hash" in run.stderr.lower()
