"""Static embeddings (sentence-transformers' StaticEmbedding, model2vec): the vector of a text is
the mean of its tokens' rows of a table. The one block of these files adds zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError
from phasor.families.family import Family
from phasor.families.model import NO_BLOCK, Model, Part, described, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R

FAMILY = Family(D.ENCODER, ("static",), (), "", {}, {})
_NAMES = ("embedding.weight", "embeddings")  # sentence-transformers', model2vec's
_MOST_VALUES = 1 << 29  # of a table that a mapping makes


def read(path: Path, folder: Path, head: dict[str, Any]) -> Model:
    """The model of a directory. head: fields of a heads.Head, from the modules."""
    checkpoint = open_checkpoint(folder)
    found = [name for name in _NAMES if name in checkpoint]
    if len(found) != 1 or len(checkpoint.shape(found[0])) != 2:
        raise PhasorError(f"{checkpoint.path}: expected one table, {' or '.join(_NAMES)}")
    name, notes, values, used = found[0], [], {}, {}
    rows, width = checkpoint.shape(name)
    more = [n for n in ("mapping", "weights") if n in checkpoint]
    if more:
        table = _table(checkpoint, name, more)
        rows = len(table)
        values[R.key_of(R.SOURCE, 0, R.EMBEDDING)] = table
        used = dict.fromkeys((name, *more), "read and made into the embedding")
    if 0 < head["truncate"] < width:
        width = head["truncate"]
        key = R.key_of(R.SOURCE, 0, R.EMBEDDING)
        table = values[key] if key in values else checkpoint.load(name)
        values[R.key_of(R.SOURCE, 0, R.EMBEDDING)] = np.ascontiguousarray(table[:, :width])
        used = used or {name: "its first columns, as many as truncate_dim says, are the embedding"}
    if name == _NAMES[1]:
        notes.append(
            "model2vec leaves unknown tokens out of the mean; this file counts their row, as"
            " sentence-transformers does"
        )
    output = {"output": D.POOLED, "pooling": D.MEAN, "normalize": int(head["normalize"])}
    side = {"vocabulary": rows}
    if head["prompts"]:
        output["prompts"] = head["prompts"]
    descriptor = described(
        D.ENCODER,
        {"name": path.resolve().name},
        source=side,
        encoder={"width": width, "layers": [0, 0]},
        kinds=[NO_BLOCK],
        output=output,
    )
    D.check(descriptor)
    model = Model(descriptor, checkpoint, values=values, used=used, notes=notes)

    def parts(slot: R.Slot) -> list[Part]:
        table = slot.key == R.key_of(R.SOURCE, 0, R.EMBEDDING)
        return [Part(name if table else None, shape_of(slot))]

    return model.fill(parts)


def _table(checkpoint: Any, name: str, more: list[str]) -> np.ndarray:
    """model2vec's rows: of each token the one that `mapping` says, times its weight."""
    table = checkpoint.load(name)
    if "mapping" in more:
        mapping = checkpoint.tensors["mapping"].load()
        if (
            mapping.ndim != 1
            or mapping.dtype.kind not in "iu"
            or not mapping.size
            or mapping.min() < 0
            or mapping.max() >= len(table)
        ):
            raise PhasorError(
                f"{checkpoint.path}: mapping: expected a row of {name} for each token"
            )
        if mapping.size * table.shape[1] > _MOST_VALUES:
            raise PhasorError(f"{checkpoint.path}: mapping: more than {_MOST_VALUES} values in all")
        table = table[mapping.astype(np.int64)]
    if "weights" in more:
        weights = checkpoint.load("weights").astype(np.float32)
        if weights.shape != (len(table),):
            raise PhasorError(f"{checkpoint.path}: weights: expected one for each token")
        table = table * weights[:, None]
    return np.ascontiguousarray(table, dtype=np.float32)
