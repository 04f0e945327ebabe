"""`mypy --strict` over tools/phasor (`make check`, row types), but for the modules that
pyproject.toml lists as not strict yet; and ruff over all Python sources (row layout). Both are in
.venv/types (tools/requirements-types.txt)."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

from make import lock
from phasor.errors import PhasorError
from phasor.files import write_text

ROOT = Path(__file__).resolve().parents[2]
_ERROR = re.compile(r"tools/(\S+?)(?:/__init__)?\.py:\d+: error: ")


def listed(text: str) -> set[str]:
    """The modules that a pyproject.toml excepts."""
    overrides = tomllib.loads(text)["tool"]["mypy"]["overrides"]
    return {name for part in overrides if part.get("ignore_errors") for name in part["module"]}


def said_by(name: str, *arguments: str | Path) -> str:
    """What mypy or ruff prints. PhasorError where it is not there or does not run."""
    folder = ROOT / ".venv/types"
    (pin,) = (pin for pin in lock.pins_of("requirements-types") if pin.name == name)
    if not (folder / f"{name}-{pin.version}.dist-info").is_dir():
        raise PhasorError(f"{name} {pin.version} is not there: make .venv/types/ready")
    run = subprocess.run(
        [ROOT / ".venv/bin/python", "-m", name, *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip
    if run.returncode not in (0, 1) or run.stderr:
        raise PhasorError(f"{name} fails: {(run.stderr or run.stdout).strip()[:500]}")
    return run.stdout


def mypy(*arguments: str | Path) -> str:
    return said_by("mypy", "--no-error-summary", *arguments)


def unlike_ruff(*paths: str | Path) -> list[str]:
    """A line for each finding of `ruff check`, and for each file that `ruff format` would change;
    of all sources, or of these files."""
    concise = ("--quiet", "--output-format=concise", *paths)
    said = said_by("ruff", "check", *concise) + said_by("ruff", "format", "--check", *concise)
    return said.splitlines()


def problems(build: Path) -> tuple[list[str], int]:
    """What is wrong, and how many modules are excepted. build: a folder for what mypy keeps."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    loose = listed(text)
    # Without the exceptions, so that a module that has become strict is found too.
    config = build / "mypy.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    write_text(config, text.replace("ignore_errors = true", ""))
    found: dict[str, list[str]] = {}
    for line in mypy("--config-file", config).splitlines():
        if match := _ERROR.match(line):
            found.setdefault(match[1].replace("/", "."), []).append(line)
    strict = [line for name, lines in found.items() if name not in loose for line in lines]
    off = [f"pyproject.toml: {name} is strict: off the list" for name in loose - found.keys()]
    return sorted(strict) + sorted(off), len(loose)
