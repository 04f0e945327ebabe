"""The tokenizer.json that `phasor tokenize --export` makes of a section."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Mapping

from phasor.format import file as F
from phasor.tokenizers.section import Exportable, id_count
from random_models import lm, write_random

_AROUND = ("prefix", "suffix", "pair", "pair_segment")


def weight_file(path: Path, section: bytes, around: Mapping[str, Any] = {}) -> None:
    """A small decoder with this tokenizer, and these ids around a text."""
    descriptor = lm({"width": 4, "segments": 8}, heads=1, head_width=2, hidden=2)
    side = descriptor["target"]
    side.update({name: around[name] for name in _AROUND if around.get(name)})
    side.update(tokenizer=F.TARGET_TOKENIZER, start=0, end=[0], vocabulary=id_count(section))
    extra = {F.TARGET_TOKENIZER: bytes(section)}
    if isinstance(section, Exportable) and section.text:
        extra[F.TARGET_EXPORT] = section.text
    write_random(path, descriptor, extra=extra)


def exported(
    phasor: Path | str, folder: Path, section: bytes, around: Mapping[str, Any] = {}
) -> Path:
    """The file; AssertionError with the program's line where it makes none."""
    model, out = folder / "exported.phasor", folder / "exported.json"
    weight_file(model, section, around)
    command = [str(phasor), "tokenize", str(model), "--export", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out
