"""The command line of a tool: what is mistyped gets the words that are near. Standard library
only."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any, Iterable, NoReturn


def near(word: str, words: Iterable[str]) -> str:
    """ ", did you mean WORD?", or nothing."""
    known = {name: other for other in words if len(name := other.lstrip("-")) > 1}
    plain = word.lstrip("-").lower()
    found = difflib.get_close_matches(plain, known, n=1, cutoff=0.5) or [
        other for other in known if plain.startswith(other)
    ]
    return f", did you mean {known[found[0]]}?" if found else ""


class Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A flag that there is not is said before what else is missing or too much."""
        words = [] if self._subparsers else sys.argv[1:] if args is None else args
        for word in map(str, words):
            if word == "--":
                break
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and not self._known(name):
                self.error(f"unknown flag {name}{near(name, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)

    def _known(self, name: str) -> bool:
        return any(flag.startswith(name) for flag in self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"{value}: expected one of: {' '.join(words)}{near(str(value), words)}"
            )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help lists the flags)\n")
