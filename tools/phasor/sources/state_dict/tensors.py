"""The tensors of a state_dict by their parts: which the presets and the description name, which are
there, and the line for those that are not."""

from __future__ import annotations

from typing import Iterator, Mapping

import numpy as np

from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, Problems, printable
from phasor.families import names as N
from phasor.families import nearest
from phasor.families.rotary_scaling import Rotary
from phasor.files import fits
from phasor.format import descriptor as D
from phasor.sources.state_dict.description import Description

# Parts that a stack has when a key of it has one of these values.
WHEN: dict[str, tuple[str, tuple]] = {
    "final_norm": ("final_norm", (True,)),
    "positions": ("position", ("learned",)),
    "relative_keys": (
        "attention_position",
        ("relative_key", "relative_key_query", "three-way", "clipped"),
    ),
    "relative_values": ("attention_position", ("clipped",)),
    "position_bias": ("attention_position", ("t5",)),
    "score": ("score", ("additive",)),
    "cross_score": ("cross_score", ("additive",)),
}


class Tensors:
    """The checkpoint as its description names it, and what is made of its tensors."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        description: Description,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.description, self.preset = description, names is None
        self.names = dict(
            N.PRESETS[description.preset](description.stack) if names is None else names
        )
        asked = (*self.names.values(), *description.names.values(), *description.rename)
        checkpoint = wrappers.unwrapped(checkpoint, wrappers.LIGHTNING, asked)
        self.checkpoint = (
            checkpoint.renamed(description.rename) if description.rename else checkpoint
        ).as_matrices()
        for part, name in description.names.items():
            if part not in N.ALL:
                raise PhasorError(
                    f"{description.path}: names.{printable(part)}: no part is called so"
                    f"{nearest.meant(part, N.ALL)}; there are {', '.join(sorted(N.ALL))}"
                )
            self._forget_rivals(part)
            self.names[part] = name
        if description.sides.get("target", {}).get("embedding_shared") and not self.has(
            "target.embedding"
        ):
            self.names["target.embedding"] = self.names.get("source.embedding", "")
        self.rotary: dict[str, Rotary] = {}
        self.notes: list[str] = self.checkpoint.notes
        self.used: dict[str, str] = {}
        self.values: dict[int, np.ndarray] = {}
        # (part, tensor, whose double it is said to be)
        self.doubles: list[tuple[str, str | None, str | None]] = []

    def _forget_rivals(self, part: str) -> None:
        """A name for q, k and v separately takes the place of the preset's fused one, and the other
        way round."""
        stack, _, what = part.partition(".")
        cross = "cross_" if what.startswith("cross_") else ""
        rivals = {"qkv": ("q", "k", "v"), "q": ("qkv",), "k": ("qkv",), "v": ("qkv",)}
        for rival in rivals.get(what[len(cross) :], ()):
            self.names.pop(f"{stack}.{cross}{rival}", None)

    def name(self, part: str, layer: int = 0) -> str:
        if part not in self.names:
            raise PhasorError(
                f"{self.description.path}: names.{part}: missing, the preset "
                f"{self.description.preset!r} has no name for it"
            )
        return self.names[part].replace("{layer}", str(layer))

    def has(self, part: str, layer: int = 0) -> bool:
        return part in self.names and self.name(part, layer) in self.checkpoint

    def has_bias(self, part: str, layers: int) -> bool:
        """Whether any layer has this bias; then every layer must."""
        return part in self.names and any(
            N.bias_name(self.name(part, i)) in self.checkpoint for i in range(layers)
        )

    def need(self, part: str, layer: int = 0, what: str = "") -> str:
        """The name of a tensor that must be there."""
        name = self.name(part, layer)
        if name not in self.checkpoint:
            raise self.missing_tensors(name, what or part)
        return name

    def missing_tensors(self, name: str, what: str) -> Problems:
        """The error for a tensor without which nothing more is known: with every other that the
        description asks for and every one that nothing asks for."""
        missing = [n for n in (name, *dict(self.expected())) if n not in self.checkpoint]
        start, first = nearest.under(missing, self.checkpoint), []
        if start and not any(start + name in self.checkpoint for name in self.checkpoint):
            there = [n for n in missing if start + n in self.checkpoint]
            first = [
                f"missing: {there[0]}, and {len(there) - 1} more that this file has after"
                f' {printable(start)}: say [rename] "{printable(start)}" = "" in the description'
            ]
            self.checkpoint = self.checkpoint.renamed({start: ""})
        wanted = {name: what, **dict(self.expected())}
        left = [n for n in self.checkpoint if n not in wanted and n not in self.used]
        left = [n for n in left if not any(fits(p, n) for p in self.description.ignore)]
        absent, unused = nearest.lines(
            self.checkpoint,
            {n: what for n, what in wanted.items() if n not in self.checkpoint},
            left,
            each=False,
        )
        if self.preset:
            absent = [f"{line} ([names] of the description)" for line in absent]
        return Problems([f"{self.checkpoint.path}: {line}" for line in (*first, *absent, *unused)])

    def expected(self) -> Iterator[tuple[str, str]]:
        """(tensor, part) of all that this description may ask for; biases only where they are."""
        for part in self.names:
            stack = part.partition(".")[0]
            if not self.asks_for(
                part, {"source": "encoder", "target": "decoder"}.get(stack, stack)
            ):
                continue
            most = self.layer_count(part) if "{layer}" in self.names[part] else 1
            for name in dict.fromkeys(self.name(part, i) for i in range(most)):
                yield name, part
                if (bias := N.bias_name(name)) in self.checkpoint:
                    yield bias, part

    def asks_for(self, part: str, stack: str) -> bool:
        """Whether a model of this description has the part."""
        model, s = self.description.model, self.description.stacks.get(stack)
        what = part.partition(".")[2]
        if s is None:
            own = part == "output" and model["output"] == "own"
            return (own and self.description.stack != D.ENCODER) or self.has(part)
        if what in WHEN:
            key, values = WHEN[what]
            return s[key] in values
        crossing = stack == "decoder" and self.description.stack == D.ENCODER_DECODER
        optional = what in ("sinusoid", "alibi_slopes", "inv_freq") and not self.has(part)
        return not optional and (crossing or not what.startswith("cross_"))

    def layer_count(self, part: str) -> int:
        """How many layers of a part's stack there seem to be: as many as any part of it has."""
        stack = part.partition(".")[0]
        if said := self.description.stacks[stack]["layers"]:
            return said
        parts = [p for p in self.names if p.startswith(f"{stack}.") and "{layer}" in self.names[p]]
        layers = range(D.MAX_LAYERS)
        return next((i for i in layers if not any(self.has(p, i) for p in parts)), len(layers)) or 1

    def misshapen(self, part: str, name: str, what: str) -> PhasorError:
        return PhasorError(f"{self.checkpoint.path}: misshapen: {name} ({part}) has {what}")

    def load(self, name: str) -> np.ndarray:
        """A tensor that is not stored as it is; it counts as used."""
        self.used[name] = "read and made into a table, or compared with one"
        return self.checkpoint.load(name)

    def rows(self, part: str, axis: int = 0) -> int:
        """The size of a matrix that gives the model a dimension."""
        shape = self.checkpoint.shape(name := self.need(part))
        if len(shape) != 2:
            raise self.misshapen(part, name, f"{len(shape)} dimensions, expected 2")
        return shape[axis]

    def layers(self, stack: str) -> int:
        part = f"{stack}.ffn_in"
        if said := self.description.stacks[stack]["layers"]:
            return said
        if "{layer}" not in self.names.get(part, "{layer}"):
            raise PhasorError(
                f"{self.description.path}: names.{part}: has no {{layer}}; say how many layers "
                "there are"
            )
        self.need(part, what=f"{stack} 0")
        return next((i for i in range(D.MAX_LAYERS) if not self.has(part, i)), D.MAX_LAYERS)
