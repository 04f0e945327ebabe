"""A handful of what `make faults` tries, and that its table has every command and every tool."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hostile

ROOT = hostile.ROOT
FAULTS = ROOT / "tests" / "machines" / "faults"
TRACER = ROOT / "build" / "faults" / "inject"


def literals() -> dict:
    tree = ast.parse((FAULTS / "rows.py").read_text(encoding="utf-8"))
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    }


def test_every_command_and_every_class_of_calls_has_a_row():
    rows = literals()
    table = (ROOT / "src/cli/commands/commands.h").read_text(encoding="utf-8")
    commands = re.findall(r"^  ROW\(([a-z]+)\)", table, re.M)
    words = [row["words"].split() for row in rows["COMMANDS"].values()]
    assert len(commands) > 8 and not set(commands) - {w[1] for w in words if w[0] == "phasor"}
    tracer = (FAULTS / "inject.c").read_text(encoding="utf-8")
    kinds = set(re.findall(r'^    \{"([a-z]+)", "[a-z0-9]+", SYS_', tracer, re.M))
    assert kinds == set(rows["FAULTS"]) and len(kinds) > 12


@pytest.mark.skipif(
    not TRACER.is_file() or not TRACER.stat().st_size, reason="no tracer: make build/faults/inject"
)
def test_a_handful_of_faults(phasor):
    sys.path.insert(0, str(FAULTS))
    import faults

    with faults.Campaign(TRACER, phasor, 1) as campaign:
        for name, share in (("run arrays", 29), ("quantize", 23)):
            clean, problem = campaign.clean(name)
            assert problem == ""
            trials = [t for t in faults.trials_of(name, clean) if t.kind != "stop"][::share]
            assert len(trials) > 10
            wrong = [(t.label, problem) for t, problem in campaign.tried(trials) if problem]
            assert wrong == []
            write = faults.calls.one(name, clean, "write", 1, "error=EIO")
            assert campaign.at_a_place(write) == ""
            broken = clean._replace(out=b"something else")  # a judge that accepts all is none
            write = faults.calls.one(name, broken, "write", 1, "error=EINTR")
            assert "another standard output" in campaign.at_a_place(write)


@pytest.mark.usefixtures("usual_signals")
def test_an_interrupt_while_a_tool_is_imported():
    """It ends by the signal, and no traceback tells of modules."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "tools" / "convert.py", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPYCACHEPREFIX": ""},
    )
    maps, end = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 30
    while maps.exists() and "_multiarray" not in maps.read_text() and time.monotonic() < end:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert b"Traceback" not in error and process.returncode in (-signal.SIGINT, 0), error
