"""What a description says in vain, or loses: names that the model has no use for, and patterns to
ignore that drop a bias or a norm of it."""

from __future__ import annotations

from phasor.errors import PhasorError, printable
from phasor.families import nearest
from phasor.families.model import Model
from phasor.files import fits
from phasor.sources.state_dict.description import KEYS
from phasor.sources.state_dict.keys import Key
from phasor.sources.state_dict.tensors import PARTS, Tensors

_MOST_NAMES = 4  # in a message
_SIDES = {"source": "encoder", "target": "decoder"}


def check(tensors: Tensors, model: Model) -> None:
    """PhasorError for a name without a use, and for a pattern that loses something; a note of what
    the description ignores."""
    used = {part.name for parts in model.parts.values() for part in parts} | set(model.used)
    used |= {name for _, name, _ in tensors.doubles}
    _check_keys(tensors)
    _check_names(tensors, model, used)
    _check_ignored(tensors, model, used)


def _check_keys(tensors: Tensors) -> None:
    """PhasorError for a key that speaks of what no stack of the model has."""
    d = tensors.description
    for where, keys in d.given.items():
        stacks = [where] if where else list(d.stacks)
        for key in sorted(keys):
            row = KEYS[key]
            if row.of and not _any_speaks(tensors, row, stacks):
                asks = ", ".join(f'"{v}"' for v in row.among if v is not True) or "true"
                what = f"{row.of} = {asks}" if row.among else f"names.{row.of}"
                raise PhasorError(
                    f"{d.path}: {where}{'.' * bool(where)}{key}: the model that is described has no"
                    f" use for it: it speaks of {what}{_meant(tensors, key, stacks)}"
                )


def _meant(tensors: Tensors, key: str, stacks: list[str]) -> str:
    """The key that may be meant: the same one of self-attention, or the most similar in use."""
    used = {k for k, row in KEYS.items() if not row.of or _any_speaks(tensors, row, stacks)}
    return nearest.meant(key.removeprefix("cross_"), used)


def _any_speaks(tensors: Tensors, row: Key, stacks: list[str]) -> bool:
    return any(_speaks(tensors, row, stack) for stack in stacks)


def _speaks(tensors: Tensors, row: Key, stack: str) -> bool:
    d = tensors.description
    if row.of in d.model:
        return stack == "decoder" and d.model[row.of] in row.among
    if row.among:
        tables = [d.stacks[stack], *d.exceptions.get(stack, ())]
        return any(table.get(row.of) in row.among for table in tables)
    side = {"encoder": "source", "decoder": "target"}[stack]
    return not {row.of, f"{stack}.{row.of}", f"{side}.{row.of}"}.isdisjoint(tensors.names)


def _check_names(tensors: Tensors, model: Model, used: set[str | None]) -> None:
    for part in tensors.description.names:
        stack = part.partition(".")[0]
        layers = len(model.descriptor.get(_SIDES.get(stack, stack), {}).get("layers", [0])) // 2
        names = [n for layer in range(max(layers, 1)) for n in tensors.tensors(part, layer)]
        if not any(name in used for name in names):
            raise PhasorError(
                f"{tensors.description.path}: names.{part}: the model that is described has no use"
                f" for it{_why(tensors, part)}{nearest.meant(part, _useful(tensors) - {part})}"
            )


def _why(tensors: Tensors, part: str) -> str:
    """What a description would have to say for it."""
    stack = part.partition(".")[0]
    s, row = tensors.description.stacks.get(_SIDES.get(stack, stack)), PARTS.get(part)
    if s is None or row is None or not row.key or s[row.key] in row.values:
        return ""
    asks = "true" if True in row.values else " or ".join(f'"{v}"' for v in row.values)
    own = str(s[row.key]).lower() if isinstance(s[row.key], bool) else f'"{s[row.key]}"'
    return f": {row.key} is {own}, and {asks} asks for it"


def _useful(tensors: Tensors) -> set[str]:
    out = set()
    for part, row in PARTS.items():
        side = part.partition(".")[0]
        stack = _SIDES.get(side, side)
        s = tensors.description.stacks.get(stack)
        may = s is not None and row.key and s[row.key] in row.values
        if may or tensors.asks_for(part, stack):
            out.add(part)
    return out


def _check_ignored(tensors: Tensors, model: Model, used: set[str | None]) -> None:
    checkpoint, ignore = tensors.checkpoint, tensors.description.ignore
    modules = {name.rpartition(".")[0]: name for name in used if name}
    widths = {(model.descriptor[s]["width"],) for s in tensors.description.stacks}
    ignored = [
        name
        for name in checkpoint
        if name not in used
        and checkpoint.tensors[name].is_float
        and any(fits(pattern, name) for pattern in ignore)
    ]
    for name in ignored:
        module = name.rpartition(".")[0]
        beside = modules.get(module) if module else None
        norm = checkpoint.shape(name) in widths and _is_norm(module.rpartition(".")[2])
        if name not in ignore and (beside or norm):
            what = f"beside {printable(beside)}, which the model uses" if beside else "a norm"
            raise PhasorError(
                f"{tensors.description.path}: checkpoint.ignore drops {printable(name)}, {what}:"
                " if it is the model's, [names] or [rename] takes it in; the whole name, without *"
                " and ?, ignores it all the same"
            )
    if ignored:
        names = ", ".join(map(printable, ignored[:_MOST_NAMES]))
        more = len(ignored) - _MOST_NAMES
        model.notes.append(
            f"ignored, as the description says: {names}" + (f" and {more} more" if more > 0 else "")
        )


def _is_norm(module: str) -> bool:
    word = module.lower()
    return "norm" in word or word.startswith("ln")
