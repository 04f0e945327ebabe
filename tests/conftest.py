"""Shared by the Python tests: the tools on the path, and the phasor program."""

import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "tools", ROOT / "tests" / "support"):
    sys.path.insert(0, str(folder))

from places import program
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
    return program()


@pytest.fixture
def no_program(monkeypatch, tmp_path):
    """A phasor program that happens to be built does not record hashes here."""
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")


@pytest.fixture(scope="session")
def golden_models() -> Path:
    return ROOT / "tests" / "golden" / "models"
