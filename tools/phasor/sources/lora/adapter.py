"""An adapter of PEFT, added to the weights: W + (alpha / r) · B · A (Hu et al. 2021, section 4.1),
or alpha / √r (rsLoRA, Kalajdzievski 2023); of DoRA (Liu et al. 2024, equation 5) each row of that
sum divided by its length, times the row's magnitude.

The directory has adapter_config.json and adapter_model.safetensors or .bin. Sums are computed in
float64 and rounded once. Every tensor of the adapter has its place in the checkpoint, or the
conversion stops with its name.

PEFT changes one module at a time. Where a base's output matrix is its embedding, an adapter with a
change or a copy (modules_to_save) of one of the two leaves the other as it was. A matrix that PEFT
saves without a copy (base_layer, save_embedding_layers) is the base's own, and so both.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor import side_files
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, printable, shown
from phasor.families.hf_config import Config
from phasor.files import has_file
from phasor.values import is_number, settings

_FILES = ("adapter_model.safetensors", "adapter_model.bin")
_PREFIX, _MAGNITUDE = "base_model.model.", "lora_magnitude_vector"
_MOST_PATTERNS, _LONGEST_PATTERN = 4096, 256
_DEFAULTS = settings("""
    r               8
    lora_alpha      8
    bias            "none"
    use_rslora      false
    use_dora        false
    rank_pattern    {}
    alpha_pattern   {}
""")
# Initializations that leave the base's weights as they are; others (PiSSA, OLoRA, LoftQ, CorDA)
# change them.
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")


class Change(NamedTuple):
    """What is added to one tensor: factor · B · A, turned over where the tensor is stored as
    (inputs, outputs); and of DoRA the magnitude of each output (outputs)."""

    a: np.ndarray  # (r, inputs)
    b: np.ndarray  # (outputs, r)
    factor: float
    turned: bool
    magnitude: np.ndarray | None = None

    def added(self, base: np.ndarray) -> np.ndarray:
        delta = np.zeros((len(self.b), self.a.shape[1]))
        # Rank by rank: the order of a library's sums is another on another machine.
        for column, row in zip(self.b.T.astype(np.float64), self.a.astype(np.float64)):
            delta += np.multiply.outer(column, row)
        delta *= self.factor
        out = base.astype(np.float64) + (delta.T if self.turned else delta)
        if self.magnitude is not None:
            inputs = 0 if self.turned else 1
            lengths = np.sqrt((out * out).sum(axis=inputs, keepdims=True))
            if not lengths.all():
                raise PhasorError("DoRA: the weights of an output are all zeros")
            out *= np.expand_dims(self.magnitude.astype(np.float64), inputs) / lengths
        return out.astype(np.float32)


class Own:
    """A tensor that the adapter has changed, or brought, for one module alone (`alone`)."""

    alone = True

    def __init__(self, stored: Any, change: Change | None = None) -> None:
        self.stored, self.change = stored, change
        self.shape, self.is_float = stored.shape, stored.is_float
        self.dtype = getattr(stored, "dtype", None)

    def load(self) -> np.ndarray:
        value = self.stored.load()
        return value if self.change is None else self.change.added(value)


class Ends(NamedTuple):
    """The names of a language model's embedding and of its output's matrix, and whether its
    configuration says that they are one."""

    embedding: str
    output: str
    tied: bool


def merged(
    base: Checkpoint,
    folder: Path,
    trunk: str,
    transposed: Callable[[str], bool] = lambda _: False,
    ends: Ends | None = None,
) -> Checkpoint:
    """The checkpoint with an adapter. transposed: which tensors of the base are stored as (inputs,
    outputs); ends: those of a language model, whose vocabulary the adapter may change. Of tied ones
    both names are there if, and only if, the adapter has parted them, or the base has both."""
    if not has_file(folder / "adapter_config.json"):
        raise PhasorError(f"{folder}: --lora: expected a directory with adapter_config.json")
    config = _config(folder)
    path = next((folder / name for name in _FILES if has_file(folder / name)), None)
    if path is None:
        raise PhasorError(f"{folder}: expected {' or '.join(_FILES)}")
    adapter = open_checkpoint(path)
    tensors: dict[str, Any] = dict(base.tensors)
    names = ends[:2] if ends and ends.tied else ()
    for name, other in (names, names[::-1]) if names else ():
        if other in base:
            tensors.setdefault(name, base.tensors[other])
    whole = Checkpoint(base.path, tensors, base.notes)
    pairs: dict[str, Any] = {}
    replaced: dict[str, Any] = {}
    for name in adapter:
        place, part = _place(name)
        if part is None:
            target = _found(whole, place, trunk, path, name)
            stored = adapter.tensors[name]
            _check_shape(whole, target, stored.shape, path, ends)
            replaced[target] = Own(stored) if _is_copy(config, place, name) else stored
        else:
            pairs.setdefault(place, {})[part] = name
    for name, other in (names, names[::-1]) if names else ():
        _replace_both(replaced, name, other, path)
    tensors.update(replaced)
    for module, parts in pairs.items():
        target = _found(whole, module + ".weight", trunk, path, next(iter(parts.values())))
        stored, turned = tensors[target], transposed(target)
        tensors[target] = Own(stored, _change(adapter, module, parts, config, stored.shape, turned))
    kept = ends is not None and parted(whole, ends)
    for name in names:
        if name not in base and not kept:
            del tensors[name]
    return whole


def parted(checkpoint: Checkpoint, ends: Ends) -> bool:
    """Whether an adapter has made two matrices of a tied one."""
    names = ends[:2]
    both = ends.tied and all(name in checkpoint for name in names)
    return both and checkpoint.alone(*names) and not checkpoint.same(*names)


def _replace_both(replaced: dict[str, Any], name: str, other: str, path: Path) -> None:
    """A matrix of the base's own is both where the base has one for both."""
    found = replaced.get(name)
    if found is None or isinstance(found, Own):
        return
    beside = replaced.setdefault(other, found)
    if not isinstance(beside, Own) and not np.array_equal(beside.load(), found.load()):
        raise PhasorError(f"{path}: {name} and {other} differ, and are one matrix of the base")


def _check_shape(
    base: Checkpoint, target: str, shape: tuple[int, ...], path: Path, ends: Ends | None
) -> None:
    """PhasorError for a tensor of another shape; of a language model's ends the rows may be more
    or fewer."""
    wanted = base.shape(target)
    rows = ends is not None and target in ends[:2] and len(shape) == 2 and shape[0] > 0
    if shape != wanted and not (rows and shape[1:] == wanted[1:]):
        raise PhasorError(f"{path}: {target} has shape {shape}, expected {wanted}")


def _is_copy(config: Config, place: str, name: str) -> bool:
    """Whether a tensor of the adapter is of a module that PEFT has copied (modules_to_save, which
    has ends of the modules' names)."""
    if ".modules_to_save." in name or ".base_layer." in name:
        return ".base_layer." not in name
    parts = place.split(".")
    modules = [".".join(parts[:n]) for n in range(1, len(parts))]
    ends = tuple(config.get("modules_to_save", []))
    return any(module.endswith(ends) for module in modules)


def _config(folder: Path) -> Config:
    path = folder / "adapter_config.json"
    config = Config(path, side_files.read(path), _DEFAULTS)
    if config.get("peft_type") is None:
        raise config.error("peft_type", "is missing")
    config.must("peft_type", "LORA")
    start = config.get("init_lora_weights")
    if start not in _PLAIN_STARTS:
        raise config.error(
            "init_lora_weights",
            f"{shown(start)} changes the weights that it is added to, which are not in the adapter",
        )
    config.choice("bias", {"none": 0, "all": 1, "lora_only": 1})
    for name in ("rank_pattern", "alpha_pattern"):
        table = config.get(name)
        if not isinstance(table, dict) or len(table) > _MOST_PATTERNS:
            raise config.error(name, f"expected a table of at most {_MOST_PATTERNS} patterns")
        for pattern in table:
            _tokens(config, name, pattern)
    saved = config.get("modules_to_save", [])
    if not isinstance(saved, list) or not all(isinstance(end, str) for end in saved):
        raise config.expected("modules_to_save", saved, "a list of names")
    return config


def _place(name: str) -> tuple[str, str | None]:
    """(module, A or B or their forms for an embedding), or (tensor, None) of a tensor that replaces
    the base's."""
    short = name.removeprefix(_PREFIX).replace(".base_layer.", ".")
    for part in ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", _MAGNITUDE):
        module, found, rest = short.partition(f".{part}")
        if found and rest in ("", ".weight", ".default", ".default.weight"):
            return module, part
    if "lora_" in short or "dora" in short:
        raise PhasorError(
            f"the adapter's tensor {printable(name)} has a kind that is not supported"
        )
    return short.replace(".modules_to_save.default.", ".").replace(".modules_to_save.", "."), None


def _found(base: Checkpoint, name: str, trunk: str, path: Path, original: str) -> str:
    """The tensor's name in the base, which may be without the trunk's."""
    for candidate in (name, name.removeprefix(trunk), trunk + name):
        if candidate in base:
            return candidate
    raise PhasorError(f"{path}: {original}: the checkpoint has no {name} to add it to")


def _change(
    adapter: Checkpoint,
    module: str,
    parts: dict[str, str],
    config: Config,
    shape: tuple[int, ...],
    transposed: bool,
) -> Change:
    embedding = "lora_embedding_A" in parts
    wanted = ("lora_embedding_A", "lora_embedding_B") if embedding else ("lora_A", "lora_B")
    if config.flag("use_dora"):
        if embedding:
            raise config.error("use_dora", "of an embedding is not supported")
        wanted = (*wanted, _MAGNITUDE)
    if sorted(parts) != sorted(wanted):
        raise PhasorError(
            f"{adapter.path}: {module}: expected {' and '.join(wanted)}, found "
            f"{', '.join(sorted(parts))}"
        )
    a, b = (adapter.load(parts[name]) for name in wanted[:2])
    turned = embedding or transposed
    delta = (b.shape[0], a.shape[1]) if a.ndim == b.ndim == 2 and a.shape[0] == b.shape[1] else ()
    if (delta[::-1] if turned else delta) != shape:
        raise PhasorError(
            f"{adapter.path}: {module}: A {a.shape} and B {b.shape} do not make a change of shape "
            f"{shape}"
        )
    rank = _by_pattern(config, "rank_pattern", module, "r")
    if rank != a.shape[0]:
        raise PhasorError(f"{adapter.path}: {module}: A has {a.shape[0]} rows, r is {rank:g}")
    alpha = _by_pattern(config, "alpha_pattern", module, "lora_alpha")
    factor = alpha / math.sqrt(rank) if config.flag("use_rslora") else alpha / rank
    magnitude = adapter.load(parts[_MAGNITUDE]) if _MAGNITUDE in parts else None
    if magnitude is not None and magnitude.size != b.shape[0]:
        raise PhasorError(
            f"{adapter.path}: {module}: {_MAGNITUDE} has {magnitude.size} values, expected "
            f"{b.shape[0]}"
        )
    return Change(a, b, factor, turned, None if magnitude is None else magnitude.ravel())


def _by_pattern(config: Config, name: str, module: str, default: str) -> float:
    """The number that a pattern has for a module, or the one for all."""
    table: dict[str, Any] = config.get(name)
    for pattern, value in table.items():
        if _is_end(_tokens(config, name, pattern), module):
            if not is_number(value) or not 0 < value < 1 << 31:
                raise config.error(name, f"{shown(value)}, expected a number above 0")
            return float(value)
    return config.positive(default)


# PEFT takes a pattern for a regular expression of the end of a module's name, from its start or
# from behind a dot. A stranger's expression is not given to Python's matcher, some of which never
# end: what is built are characters of a name, "." for any one, "\\." for a dot, ".*" for any text,
# and "^" at the start for the whole name. Everything else is refused by name.


def _tokens(config: Config, name: str, pattern: str) -> tuple[bool, list[str]]:
    """(whether it begins at the name's start, the tokens: a character, or "any", or "some")."""
    whole, at, out = pattern.startswith("^"), int(pattern.startswith("^")), []
    while at < len(pattern) and len(pattern) <= _LONGEST_PATTERN:
        c = pattern[at]
        if pattern.startswith("\\.", at):
            out.append(".")
            at += 1
        elif c == ".":
            some = pattern.startswith(".*", at)
            out.append("some" if some else "any")
            at += some
        elif c.isalnum() or c in "_-":
            out.append(c)
        else:
            break
        at += 1
    if at < len(pattern) or not out:
        raise config.error(
            name,
            f"{shown(pattern)} is not supported; a pattern is a module's name, in which . is any "
            "character and .* any text",
        )
    return whole, out


def _is_end(pattern: tuple[bool, list[str]], module: str) -> bool:
    """Whether the tokens fit the module's name, or what is behind one of its dots: at most
    len(tokens)·len(module) steps."""
    whole, tokens = pattern
    starts = {0} if whole else {0, *(i + 1 for i, c in enumerate(module) if c == ".")}
    reached = [
        at in starts for at in range(len(module) + 1)
    ]  # where a part of the name that fits the tokens so far may end
    for token in tokens:
        if token == "some":
            first = next((at for at, here in enumerate(reached) if here), len(reached))
            reached = [at >= first for at in range(len(reached))]
        else:
            reached = [
                False,
                *(here and (token == "any" or token == c) for here, c in zip(reached, module)),
            ]
    return reached[-1]
