"""A Hugging Face directory as a source: config.json says the family and the class, the weights lie beside it.

A directory of sentence-transformers (modules.json) has its encoder's files there or one folder deeper, and says how the hidden states become one vector.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import phasor_descriptor as D
from checkpoint import Checkpoint, open_checkpoint
from phasor_layout import PhasorError

from . import sentence
from .encoder import Encoder, Family, Head
from .hf_config import Config, read_json
from .hf_encoders import FAMILIES
from .model import Model


def is_source(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in ("config.json", "modules.json"))


class Source(NamedTuple):
    """A directory, read."""

    model: Model
    folder: Path  # where the tokenizer's files are


def read(path: Path) -> Source:
    """The model of a directory. PhasorError names the file and the field, or the architecture, that is not built."""
    modules = sentence.read(path) if (path / "modules.json").is_file() else None
    folder = modules.folder if modules else path
    where = folder / "config.json"
    values = read_json(where)
    family = _family(where, values)
    config = Config(where, values, family.defaults)
    checkpoint = _modern(open_checkpoint(folder))
    head = _head(config, family)
    if modules:
        head = family.heads["Model"]._replace(output=D.POOLED, **modules.head)
        checkpoint = Checkpoint(checkpoint.path, {**checkpoint.tensors, **modules.tensors})
    return Source(Encoder(family, config, checkpoint, head).build(path.resolve().name), folder)


def _family(where: Path, values: dict[str, Any]) -> Family:
    kind = values.get("model_type")
    for family in FAMILIES:
        if kind in family.types:
            return family
    known = ", ".join(t for f in FAMILIES for t in f.types)
    raise PhasorError(f"{where}: model_type: {kind!r} is not built; there are {known}" if kind is not None else f"{where}: model_type: is missing; there are {known}")


def _head(config: Config, family: Family) -> Head:
    """What the class of `architectures` does with the hidden states."""
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise config.error("architectures", f"{names!r}, expected the name of one class, such as {family.classes[0]}Model")
    for start in family.classes:
        if names[0].startswith(start) and names[0][len(start):] in family.heads:
            return family.heads[names[0][len(start):]]
    raise config.error("architectures", f"{names[0]} is not built; there are {', '.join(family.classes[0] + end for end in family.heads)}")


def _modern(checkpoint: Checkpoint) -> Checkpoint:
    """The names of TensorFlow that the first checkpoints kept for the norms, as transformers renames them."""
    ends = {".gamma": ".weight", ".beta": ".bias"}
    out = {}
    for name, stored in checkpoint.tensors.items():
        new = next((name[:-len(old)] + to for old, to in ends.items() if name.endswith(old)), name)
        if new in out:
            raise PhasorError(f"{checkpoint.path}: two tensors are called {new}")
        out[new] = stored
    return Checkpoint(checkpoint.path, out)
