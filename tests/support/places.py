"""Where the repository is, the phasor program, data beside the checkout, and the newer
transformers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PHASOR", ROOT / "build" / "phasor")).absolute()
DATA = Path(os.environ.get("PHASOR_DATA", ROOT.parent / "shared" / "data"))
NEWER = Path(os.environ.get("TRANSFORMERS5", ROOT / ".venv-reference" / "transformers5")).absolute()
SERVER = Path(os.environ.get("SERVER", ROOT / ".venv-reference" / "server")).absolute()


def there(path: Path, how: str) -> Path:
    """The path. Skips where nothing is there, but with PHASOR_REQUIRED=1 that is a failure. `how`:
    what to do about it."""
    if path.exists():
        return path
    message = f"{path} is missing: {how}"
    pytest.fail(message) if os.environ.get("PHASOR_REQUIRED") == "1" else pytest.skip(message)


def program() -> Path:
    return there(PROGRAM, "run make, or set PHASOR")


def need_newer() -> None:
    there(NEWER / "transformers", "run make test-reference, or set TRANSFORMERS5")


def need_server() -> None:
    """The packages of tools/requirements-server.txt, behind those of the environment."""
    there(SERVER / "starlette", "run make test-reference, or set SERVER")
    if str(SERVER) not in sys.path:
        sys.path.append(str(SERVER))


def run_python(*words: object, newer: bool, **environment: str) -> str:
    """What Python prints, with what this process has on its path; before that, the newer
    transformers."""
    path = [str(NEWER)] * newer + [str(ROOT / "tools"), str(ROOT / "tests" / "support")]
    own = {"PYTHONPATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1", **environment}
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=os.environ | own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_newer(*words: object) -> str:
    need_newer()
    return run_python(*words, newer=True)


def told(*words: object, stdin: str | None = None, timeout: float = 600) -> str:
    """What a program prints, which must end well."""
    argv = [str(word) for word in words]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout
