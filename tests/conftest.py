"""Shared by the Python tests: the tools on the path, and the phasor program."""

import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "tools", ROOT / "tests" / "support"):
    sys.path.insert(0, str(folder))

from sample import pytest_collection_modifyitems, pytest_report_header  # noqa: F401


@pytest.fixture
def usual_signals():
    """Signals that a shell or nohup ignores for what it runs, and children inherit, are as
    usual."""
    before = {}
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            before[number] = signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def phasor() -> Path:
    """The phasor program: $PHASOR or build/phasor. Skips without it, but with PHASOR_REQUIRED=1
    that is a failure."""
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
