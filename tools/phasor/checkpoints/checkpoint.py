"""Named tensors of a checkpoint: a file of torch.save (.pt, .pth, .bin), safetensors, or a
directory with either, in one piece or in shards; or the .npz of NumPy.

numpy only, and no code of a file ever runs. What a file says is checked before it is used, and
bounded by the file's size: docs/reference/converter.md has the limits.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Iterator

from phasor import mistaken
from phasor.checkpoints import factors, npz, safetensors, torch_file, wrappers
from phasor.checkpoints.pickles import SAVE, Inert, walk
from phasor.checkpoints.tensors import Checkpoint, Stored
from phasor.errors import Damaged, PhasorError, named, printable, shown
from phasor.files import cannot_read, has_file, instead_of, read_json, read_start

# All tensors together by the size of the file: what is tied is there several times.
_MAX_REPEATS = 8
# Of a directory, the first that is there.
_SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")
# Entries of a training's file that hold what its model was made with.
_ARGUMENTS = ("model_args", "args", "hyper_parameters", "hparams", "config", "cfg", "opt")
_OF_MODEL = "model"  # in one of those: what fairseq keeps of the model, beside other tables
_MOST_NAMES = 8  # in a line
_INDEX_FILES = tuple(f"{name}.index.json" for name in _SINGLE_FILES)


def open_checkpoint(
    path: os.PathLike[str] | str, key: str | None = None, beside: tuple[str, ...] = ()
) -> Checkpoint:
    """Opens a checkpoint of any kind that is known; `key` names the entry that holds the state_dict
    where it is nested, `beside` further entries, whose tensors are called ENTRY.NAME.

    PhasorError names the file and what is wrong with it.
    """
    path = Path(path)
    found = _open_directory(path, key) if path.is_dir() else _open_file(path, key, beside)
    return factors.multiplied(found)


def is_weights(start: bytes) -> bool:
    """Whether a file that begins so may be one of torch.save, or safetensors."""
    return torch_file.is_torch_file(start) or (len(start) > 9 and start[8:9] == b"{")


def has_weights(folder: Path) -> bool:
    """Whether a directory has weights of its own, in one piece or in shards."""
    return any(has_file(folder / name) for name in (*_SINGLE_FILES, *_INDEX_FILES))


def _open_file(
    path: Path, key: str | None = None, beside: tuple[str, ...] = (), index: bool = True
) -> Checkpoint:
    """A checkpoint that is no directory; with index=False no index of shards either."""
    with _names(path):
        start = read_start(path)
        if not start:
            raise PhasorError("the file is empty: download it again")
        notes: list[str] = []
        arguments: dict[str, Any] = {}
        if npz.is_npz(path, start):
            return npz.read(path)
        if torch_file.is_torch_file(start):
            content = torch_file.content(path, start)
            state, notes = _state_dict(content, key, beside)
            arguments = _arguments(content)
            tensors = _bounded(state, path)
        elif index and path.name.endswith(_INDEX_FILES):
            tensors = _read_shards(path)
        elif is_weights(start):
            tensors = safetensors.read(path)
        else:
            raise PhasorError(
                mistaken.of_file(start, path.name)
                or "neither a file of torch.save nor safetensors: give the model's weights or"
                " directory"
            )
        return Checkpoint(path, tensors, notes, arguments)


@contextlib.contextmanager
def _names(path: Path) -> Iterator[None]:
    """The errors in the block name the file."""
    try:
        yield
    except PhasorError as error:
        raise named(path, error) from error
    except OSError as error:
        raise cannot_read(path, error) from error


def read_content(path: Path) -> Any:
    """All that a file of torch.save holds, of whatever kind, as plain containers with its tensors;
    None for another file."""
    with _names(path):
        start = read_start(path)
        return torch_file.content(path, start) if torch_file.is_torch_file(start) else None


def _arguments(content: Any) -> dict[str, Any]:
    """What a file of torch.save says of its model beside the tensors, by known entries' names."""
    out: dict[str, Any] = {}
    for key in _ARGUMENTS if isinstance(content, dict) else ():
        found = _settings(content.get(key))
        out |= {**found, **_settings(found.get(_OF_MODEL))}
    return out


def _settings(value: Any) -> dict[Any, Any]:
    """A table of arguments, or those of a Namespace."""
    out: dict[Any, Any] = {}
    for part in value.parts if isinstance(value, Inert) else [value]:
        out |= part if isinstance(part, dict) else {}
    return out


def _bounded(tensors: dict[str, Stored], path: Path) -> dict[str, Stored]:
    """The tensors, if together they are not many times the file: views of one storage over and over
    would make a large model of a small file."""
    total = sum(tensor.bytes for tensor in tensors.values() if not tensor.repeats)
    size = path.stat().st_size
    if total > _MAX_REPEATS * size:
        raise PhasorError(
            f"the tensors have {total:,} bytes, more than {_MAX_REPEATS} times the file's "
            f"{size:,}: they are views of one storage over and over"
        )
    return tensors


# ---- A directory


def _open_directory(path: Path, key: str | None) -> Checkpoint:
    """The weights of a Hugging Face directory: one file, or shards with an index; safetensors
    before pickles."""
    for single, index in zip(_SINGLE_FILES, _INDEX_FILES):
        if has_file(path / single):
            return _open_file(path / single, key)
        if has_file(path / index):
            return Checkpoint(path / index, _read_shards(path / index))
    instead = instead_of(path)
    found = f"it {instead}" if instead else f"expected {' or '.join(_SINGLE_FILES)}, or shards"
    raise PhasorError(f"{path}: a directory without weights: {found}")


def _read_shards(index: Path) -> dict[str, Stored]:
    """The tensors that an index places in the files beside it, in the index's order."""
    places = read_json(index, safetensors.MAX_HEADER).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise PhasorError(f"{index}: not a JSON object with a weight_map")
    for name, shard in places.items():
        if (
            not isinstance(shard, str)
            or shard in ("", ".", "..")
            or any(c in shard for c in "/\\\0")
        ):
            raise PhasorError(
                f"{index}: {printable(name)} is said to be in {shown(shard)}, which is not a file "
                "beside the index"
            )
    shards = {}
    seen: dict[tuple[int, int], str] = {}
    for shard in dict.fromkeys(places.values()):
        if not has_file(index.parent / shard):
            raise PhasorError(
                f"{index}: the shard {printable(shard)} is not beside it: download it too"
            )
        shards[shard] = _open_file(index.parent / shard, index=False)
        found = (index.parent / shard).stat()
        other = seen.setdefault((found.st_dev, found.st_ino), shard)
        if other != shard:
            raise Damaged(f"{index}: {printable(shard)} and {printable(other)} are one file")
    for name, shard in places.items():
        if name not in shards[shard]:
            raise Damaged(f"{index}: {printable(name)} is not in {shard}")
    for shard, checkpoint in shards.items():
        for name in checkpoint:
            if places.get(name) != shard:
                raise Damaged(
                    f"{index}: {shard} has {printable(name)}, which the index does not place there"
                )
    return {name: shards[shard].tensors[name] for name, shard in places.items()}


# ---- The content of a file of torch.save


def _state_dict(
    content: Any, key: str | None, beside: tuple[str, ...]
) -> tuple[dict[str, Stored], list[str]]:
    """The tensors of the state_dict: `content` itself, its entry `key` with those `beside` it, or
    the usual entry when it is nested in one; and what was passed over."""
    notes, more = _objects(content), {}
    if key is not None:
        if not isinstance(content, dict) or key not in content:
            raise PhasorError(f"there is no entry {key!r} in the file")
        others = [(entry, content.get(entry)) for entry in beside]
        more = {f"{e}.{n}": v for e, o in others if isinstance(o, dict) for n, v in o.items()}
        content = content[key]
    elif isinstance(content, dict):
        content, averages = wrappers.weights_of(content)
        notes += averages
    if isinstance(content, Inert):
        raise PhasorError(f"holds an object of {content}, which is not read: {SAVE}")
    if not isinstance(content, dict):
        raise PhasorError(f"the file does not hold a state_dict: {SAVE}")
    out: dict[str, Stored] = {}
    seen: set[int] = set()
    if twice := more.keys() & content.keys():
        raise PhasorError(f"{printable(min(twice))}: is in two entries of the file")
    for name, value in {**content, **more}.items():
        if isinstance(value, Inert) and value.is_array(seen):
            what = printable(name) if isinstance(name, str) else shown(name)
            raise PhasorError(
                f"{what}: is an object of {value}, not a plain tensor, and is not read: {SAVE}"
            )
        if isinstance(name, str) and isinstance(value, Stored):
            out[name] = value
    if not out:
        raise PhasorError("the state_dict has no tensors (is it nested? then say [checkpoint] key)")
    return out, notes


def _objects(content: Any) -> list[str]:
    """A line that names the classes whose objects are passed over, where there are unusual ones."""
    found = (value for value in walk(content) if isinstance(value, Inert))
    names = sorted({repr(value) for value in found if not value.is_usual})
    more = len(names) - _MOST_NAMES
    listed = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return [f"passed over: objects of {listed}; none of them was made or run"] if names else []
