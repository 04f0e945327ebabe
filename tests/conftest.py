"""Shared by the Python tests: the tools on the path, and the phasor program."""

import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "tools", ROOT / "tests"):
    sys.path.insert(0, str(folder))

# A shell ignores these for what it runs in the background, and children inherit it.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def phasor() -> Path:
    """The phasor program: $PHASOR or build/phasor. Skips without it, but with PHASOR_REQUIRED=1 that is a failure."""
    path = Path(os.environ.get("PHASOR", ROOT / "build" / "phasor")).absolute()
    if path.is_file():
        return path
    message = f"no phasor program at {path}: run make, or set PHASOR"
    if os.environ.get("PHASOR_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def golden_models() -> Path:
    return ROOT / "tests" / "golden" / "models"
