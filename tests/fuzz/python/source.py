"""A hostile input: files in memory, and the command that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
IN, OUT = "in", "out"


class Source(NamedTuple):
    """Files by their paths below the folder of inputs, and the arguments, in which "@NAME" is the
    path of one of them."""

    files: dict[str, bytes]
    arguments: tuple[str, ...]
    door: str = "convert"  # the tool whose front door reads them

    def write(self, folder: Path) -> list[str]:
        """Puts the files into FOLDER/in and gives the arguments. A converter writes
        FOLDER/out/m.phasor."""
        for name, data in self.files.items():
            path = folder / IN / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        out = [
            str(folder / IN / word[1:]) if word.startswith("@") else word for word in self.arguments
        ]
        if self.door == "convert":
            out += ["-o", str(folder / OUT / "m.phasor"), "--quiet"]
        return out
