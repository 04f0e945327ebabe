"""The flags of the program, on command-line.md: what `phasor COMMAND --help` says of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from make import entries
from make.facts import Region, page_table
from phasor.errors import PhasorError

PAGE = "docs/reference/command-line.md"
# Regions of the page: of run its groups of flags, of the encoders' commands one table, and one of
# each other command.
RUN = ["Input", "Output", "Choosing tokens", "Beam search", "Arrays for NumPy", "States"]
RUN.append("Memory and speed")
EXAMPLES = "Examples"  # a part of the help that has no flags
ENCODERS = "embed fill classify tag answer rank".split()


def help_of(program: Path, command: str) -> dict[str, list[tuple[str, str]]]:
    """{title: [(flag with its value, help)]}."""
    if not program.is_file():
        raise PhasorError(f"{program}: is not there, and says what its flags are. TRY: make")
    said = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True)
    groups: dict[str, list[tuple[str, str]]] = {}
    for part in said.stdout.split("\n\n")[1:-1]:
        joined = re.sub(r"\n {10,}", "  ", part)  # a flag's help has several lines
        title, *rows = joined.splitlines()
        if title == EXAMPLES:
            continue
        found = [re.fullmatch(r"  (-\S*(?: \S+)?)  +(\S.*)", row) for row in rows]
        groups[title] = [(row[1], re.sub(" +", " ", row[2])) for row in found if row]
        if len(groups[title]) != len(rows):
            raise PhasorError(f"{program}: the help of {command} has a line that is no flag")
    return groups


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _rows(flags: list[tuple[str, str]]) -> list[list[str]]:
    return [[_code(flag), text] for flag, text in flags]


def outputs(build: Path) -> list[Region]:
    def groups(command: str) -> dict[str, list[tuple[str, str]]]:
        return help_of(build / "phasor", command)

    head = ["flag", ""]
    run = groups("run")
    if list(run) != RUN:
        titles = f"{', '.join(run)}, expected {', '.join(RUN)}"
        raise PhasorError(f"{PAGE}: the help of run has {titles}")
    made = [Region(PAGE, f"run, {title}", page_table(head, _rows(run[title]))) for title in run]
    for command in sorted({*entries.commands()} - {"run", *ENCODERS}):
        flags = [row for rows in groups(command).values() for row in rows]
        made.append(Region(PAGE, command, page_table(head, _rows(flags))))
    who: dict[tuple[str, str], list[str]] = {}
    for command in ENCODERS:
        for rows in groups(command).values():
            for row in rows:
                who.setdefault(row, []).append(command)
    table = [
        [_code(flag), "all" if names == ENCODERS else ", ".join(names), text]
        for (flag, text), names in who.items()
    ]
    made.append(Region(PAGE, "encoders", page_table(["flag", "commands", ""], table)))
    return made
