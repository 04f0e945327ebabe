"""Named values of a stranger's file, read one by one: each has a type and a range, and a fault is
one line with the file, the name and the value."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from phasor.errors import PhasorError, shown
from phasor.values import is_number, is_whole


class Fields:
    """The values of one table, and which of them were asked for. A `default` counts where there is
    none."""

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        self.path, self.values, self.prefix = path, values, prefix
        self.asked: set[str] = set()

    def error(self, name: str, what: str) -> PhasorError:
        return PhasorError(f"{self.path}: {self.prefix}{name}: {what}")

    def expected(self, name: str, value: Any, what: str) -> PhasorError:
        return self.error(name, f"{shown(value)}, expected {what}")

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        value = self.values.get(name)
        return default if value is None else value

    def whole(self, name: str, low: int = 1, high: int = 1 << 24, default: Any = None) -> int:
        value = self.get(name, default)
        if not is_whole(value, low, high):
            raise self.expected(name, value, f"a whole number from {low} to {high}")
        result: int = value
        return result

    def number(self, name: str, low: float = 0, default: Any = None) -> float:
        value = self.get(name, default)
        if not is_number(value) or value < low:
            raise self.expected(name, value, f"a number from {low:g}")
        return float(value)

    def positive(self, name: str) -> float:
        value = self.number(name)
        if value <= 0:
            raise self.error(name, f"{value!r}, expected a number above 0")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise self.expected(name, value, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.get(name, default)
        if not isinstance(value, str):
            raise self.expected(name, value, "a text")
        return value

    def choice(self, name: str, choices: Mapping[str, Any]) -> Any:
        """What stands for the field's value in a table."""
        value = self.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.error(
                name, f"{shown(value)} is not supported, expected {', '.join(choices)}"
            )
        return choices[value]
