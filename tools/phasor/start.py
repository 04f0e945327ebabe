"""How every script of `tools/` starts, and every command of an installed package: where Python is
too old or a package is missing the user reads one line that says what to install, never a
traceback. Runs on any Python 3; standard library only."""

import importlib
import signal
import sys
from pathlib import Path
from typing import Callable

PYTHON = (3, 11)  # the oldest that runs the tools
_TOOLS = Path(__file__).resolve().parents[1]


def start(script: str, module: str) -> int:
    """Runs `main` of a module as the script of this name. Returns the exit status."""
    if sys.version_info < PYTHON:
        return _refuse(script, "needs Python %d.%d or newer, this is %d.%d" % (
            PYTHON + tuple(sys.version_info[:2])))  # fmt: skip
    # Until its front door stands SIGINT ends a script as it ends other programs, and not with a
    # traceback out of an import.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        main: Callable[[], int] = importlib.import_module(module).main
    except ImportError as error:
        return _refuse(script, missing(error))
    return main()


def missing(error: ImportError) -> str:
    """What to do about an import that failed: which file of requirements lists the package."""
    package = (error.name or "").split(".")[0].replace("_", "-")
    if not (_TOOLS / "requirements.txt").is_file():  # installed, without a checkout
        how = "install it with: %s -m pip install %s" % (sys.executable, package)
        return "the Python package %s is missing; %s" % (package, how)
    for group in ("", "-plot", "-server", "-reference", "-bench"):
        file = "requirements%s.txt" % group
        lines = (_TOOLS / file).read_text(encoding="utf-8").splitlines()
        if package not in [line.split("==")[0] for line in lines if "==" in line]:
            continue
        how = "install it with: %s -m pip install -r tools/locks/%s" % (sys.executable, file)
        if not group:
            how = "`make python` installs it; then run .venv/bin/python"
        return "the Python package %s is missing; %s" % (package, how)
    return "a package is missing: %s" % error


def convert() -> int:
    """The command phasor-convert of an installed package, as those below."""
    return start("phasor-convert", "phasor.convert")


def verify() -> int:
    return start("phasor-verify", "phasor.verify")


def plot() -> int:
    return start("phasor-plot", "phasor.plot")


def _refuse(script: str, why: str) -> int:
    sys.stderr.write("%s: %s\n" % (script, why))
    return 1
