"""JSON in files, and ids as the program reads and prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def ids_text(ids: Iterable[Any]) -> str:
    """With commas between them."""
    return ",".join(str(int(id_)) for id_ in ids)
