"""`convert.py --explain`: the draft of a checkpoint, on standard output or in a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.drafts.draft import bare, drafts
from phasor.drafts.text import text_of
from phasor.drafts.trial import tried
from phasor.errors import PhasorError, named
from phasor.files import check_output, write_text

_HELP = (
    "Print a description drafted from the names and shapes of SOURCE: certain, guessed and missing"
    " parts. -o writes it to a file. With --expect: the reading that agrees."
)
_FLAGS = {"source", "output", "explain", "expect", "quiet"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--explain", action="store_true", help=_HELP)


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """A draft is no file of a model: the flags of one go without it, and only it needs no -o."""
    if not args.explain:
        if args.output is None:
            parser.error("the following arguments are required: -o/--output")
        return
    for action in parser._actions:
        name = action.dest
        if name in vars(args).keys() - _FLAGS and getattr(args, name) != action.default:
            flag = action.option_strings[-1]
            parser.error(f"--explain: goes without {flag}: it drafts a description, and no file")


def draft(args: argparse.Namespace, inputs: list[Path]) -> int:
    """Prints the draft, or writes it. PhasorError where no reading agrees with the outputs given:
    nothing is written then, and the nearest is printed all the same."""
    if args.output is not None:
        check_output(args.output, *inputs)
    text, wrong = explained(args.source, args.expect)
    if args.output is None:
        sys.stdout.write(text)
    elif not wrong:
        write_text(args.output, text)
    if wrong:
        raise PhasorError(f"{args.source}: {wrong}")
    return 0


def explained(path: Path, expect: Path | None) -> tuple[str, str]:
    """(the TOML; what is wrong with it yet, a line, or nothing)."""
    checkpoint = bare(open_checkpoint(path))
    try:
        made = drafts(checkpoint)
    except PhasorError as error:
        raise named(path, error) from error
    if expect is None:
        return text_of(made[0], path.name), ""
    found = tried(made[0], checkpoint, expect)
    count = found.count
    for other in made[1:]:
        if not found.agrees:
            second = tried(other, checkpoint, expect)
            count += second.count
            found = min(found, second, key=lambda one: one.gap)
    line = f"{count} readings tried with {expect.name}: "
    if found.agrees:
        line += f"this one agrees within {found.gap:.2g} of a row's range."
        return text_of(found.draft, path.name, (line,)), ""
    if found.gap < float("inf"):
        line += f"the nearest, this one, is {found.gap:.2g} of a row's range away"
    else:
        line += f"none can be converted; the first: {found.problem}"
    return text_of(found.draft, path.name, (f"{line}.",)), line
