#!/usr/bin/env python3
"""The rules of the source that a compiler does not enforce, each a named check with one line of
result. The modules of tools/checks have them, by subject.

    python3 tools/check.py [--build build] [NAME…]
"""

import argparse
import os
import sys
import textwrap

from checks import compiled, form, library, repository, rooms
from checks.common import Problem
from phasor.entry import front_door

CHECKS = {
    name.removeprefix("check_").replace("_", "-"): check
    for module in (rooms, form, library, compiled, repository)
    for name, check in vars(module).items()
    if name.startswith("check_")
}


def described(name):
    """The line of --help: a check's docstring."""
    words = f"{name:13} {' '.join(CHECKS[name].__doc__.split())}"
    return textwrap.fill(words, 100, subsequent_indent=" " * 14)


@front_door("check")
def main():
    parser = argparse.ArgumentParser(
        description="\n".join([__doc__, *map(described, CHECKS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--build", default="build")
    parser.add_argument("--nm", default=os.environ.get("NM", "nm"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    for name in args.names:
        if name not in CHECKS:
            parser.error(f"no check {name}: {' '.join(CHECKS)}")
    passed = failed = 0
    for name in args.names or CHECKS:
        try:
            line = f"ok    {CHECKS[name](args)}"
            passed += 1
        except Problem as problem:
            line = f"FAIL  {problem}"
            failed += 1
        print(f"{name:13} {line}", flush=True)
    print(f"check: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
