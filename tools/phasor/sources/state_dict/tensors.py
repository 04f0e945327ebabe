"""The tensors of a state_dict by their parts: which the presets and the description name, which are
there, and the line for those that are not."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

import numpy as np

from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, Problems, printable
from phasor.families import names as N
from phasor.families import nearest
from phasor.families.rotary_scaling import Rotary
from phasor.files import fits
from phasor.format import descriptor as D
from phasor.sources.state_dict import keys as K
from phasor.sources.state_dict.description import Description, Named

_STARTS = {"source": K.SIDE_PARTS, "target": K.SIDE_PARTS}
_STARTS |= {"encoder": K.STACK_PARTS, "decoder": K.STACK_PARTS}
PARTS: dict[str, K.Known] = {
    **K.END_PARTS,
    **{f"{start}.{name}": row for start, rows in _STARTS.items() for name, row in rows.items()},
}
BIASES = {f"{part}_bias": part for part, row in PARTS.items() if row.bias}
_ATTENTION = ("qkv", "q", "k", "v")
# {layer}, and {layer*2+1} of a list whose entries are halves of layers.
_LAYER = re.compile(r"\{layer(?:\*(\d{1,2}))?(?:\+(\d{1,3}))?\}")


def has_layer(text: str) -> bool:
    return _LAYER.search(text) is not None


def of_layer(text: str, layer: int) -> str:
    """The name of a layer's tensor."""
    return _LAYER.sub(lambda m: str(layer * int(m[1] or 1) + int(m[2] or 0)), text)


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
        self.names |= {part: named.tensors[0] for part, named in description.implied.items()}
        said = [tensor for part in description.names.values() for tensor in part.tensors]
        asked = (*self.names.values(), *said, *description.rename)
        checkpoint = wrappers.unwrapped(checkpoint, wrappers.LIGHTNING, asked)
        self.checkpoint = (
            checkpoint.renamed(description.rename) if description.rename else checkpoint
        ).as_matrices()
        known = {*PARTS, *BIASES}
        for part, named in description.names.items():
            if part not in known:
                near = nearest.meant(part, known) or "; docs/reference/description-keys.md has them"
                raise PhasorError(
                    f"{description.path}: names.{printable(part)}: no part is called so{near}"
                )
            self._forget_rivals(part)
            self.names[part] = named.tensors[0]
        self._choose_rivals()
        if description.model["input"] is None:
            vectors = "source.projection" in description.names and not self.has("source.embedding")
            description.model["input"] = "vectors" if vectors else "ids"
        if description.sides.get("target", {}).get("embedding_shared") and not self.has(
            "target.embedding"
        ):
            self.names["target.embedding"] = self.names.get("source.embedding", "")
        self.rotary: dict[str, Rotary] = {}
        self.notes: list[str] = self.checkpoint.notes
        self.used: dict[str, str] = {}
        self.inside: tuple[int, ...] = ()  # ids that the model itself puts before a sequence
        self.values: dict[int, np.ndarray] = {}
        # (part, tensor, whose double it is said to be)
        self.doubles: list[tuple[str, str | None, str | None]] = []

    def _forget_rivals(self, part: str) -> None:
        """A name for q, k and v separately takes the place of the preset's fused one, and the other
        way round."""
        stack, cross, what = _fused(part)
        for rival in {"qkv": ("q", "k", "v"), "": ()}.get(what, ("qkv",)):
            if f"{stack}.{cross}{rival}" not in self.description.names:
                self.names.pop(f"{stack}.{cross}{rival}", None)

    def _choose_rivals(self) -> None:
        """Of names for a fused tensor and for its parts, those of what is there."""
        for part in [part for part in self.names if _fused(part)[2] == "qkv"]:
            alone = [part.removesuffix("qkv") + letter for letter in "qkv"]
            if all(name in self.names for name in alone):
                separate = self.has(alone[0]) and not self.has(part)
                for name in (part,) if separate else alone:
                    del self.names[name]

    def name(self, part: str, layer: int = 0) -> str:
        """Its first tensor."""
        if part not in self.names:
            raise PhasorError(
                f"{self.description.path}: names.{part}: missing, the preset "
                f"{self.description.preset!r} has no name for it"
            )
        return of_layer(self.names[part], layer).replace("{head}", "0")

    def said(self, part: str) -> Named:
        """What the description says of a part, or the preset's name. PhasorError without either."""
        self.name(part)
        for names in (self.description.names, self.description.implied):
            if part in names and names[part].tensors[0] == self.names[part]:
                return names[part]
        return Named((self.names[part],))

    def tensors(self, part: str, layer: int = 0) -> list[str]:
        """All of its tensors, one below the other."""
        self.name(part)
        stack, _, letter = _fused(part)
        s = self.description.stacks.get(stack, {"kv_heads": 0, "heads": 1})
        count = (s["kv_heads"] if letter in ("k", "v") else 0) or s["heads"]
        names = (
            of_layer(text, layer).replace("{head}", str(head))
            for text in self.said(part).tensors
            for head in range(count if "{head}" in text else 1)
        )
        return list(names)

    def bias(self, part: str, layer: int = 0) -> list[str]:
        """The tensors of its bias, wherever they are."""
        if f"{part}_bias" in self.names:
            return self.tensors(f"{part}_bias", layer)
        return [N.bias_name(name) for name in self.tensors(part, layer)]

    def turned(self, part: str) -> bool:
        """Whether its matrix is stored as (inputs, outputs)."""
        said, s = self.said(part).transposed, self.description.stacks.get(part.partition(".")[0])
        return bool(s and s["transposed"]) if said is None else said

    def has(self, part: str, layer: int = 0) -> bool:
        return part in self.names and self.name(part, layer) in self.checkpoint

    def has_bias(self, part: str, layers: int) -> bool:
        """Whether any layer has this bias; then every layer must."""
        return part in self.names and any(
            name in self.checkpoint for i in range(layers) for name in self.bias(part, i)
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
            most = self.layer_count(part) if has_layer(self.names[part]) else 1
            for layer in range(most):
                for name in self.tensors(part, layer):
                    yield name, part
                for bias in self.bias(part, layer) if part not in BIASES else ():
                    if bias in self.checkpoint:
                        yield bias, part

    def asks_for(self, part: str, stack: str) -> bool:
        """Whether a model of this description has the part."""
        model, s = self.description.model, self.description.stacks.get(stack)
        what = part.partition(".")[2]
        if s is None:
            own = part == "output" and model["output"] == "own"
            return (own and self.description.stack != D.ENCODER) or self.has(part)
        if part in BIASES:
            return self.has(part) or part in self.description.names
        if part == "source.embedding" and model["input"] == "vectors":
            return False
        row = PARTS[part]
        if row.may and not self.has(part):
            return False
        if row.key and not row.may:
            return s[row.key] in row.values
        crossing = stack == "decoder" and self.description.stack == D.ENCODER_DECODER
        return crossing or not what.startswith("cross_")

    def layer_count(self, part: str) -> int:
        """How many layers of a part's stack there seem to be: as many as any part of it has."""
        stack = part.partition(".")[0]
        keys = self.description.stacks.get(stack, {"layers": 1})
        if said := keys.get("sets") or keys["layers"]:
            result: int = said
            return result
        own = [p for p in self.names if p.startswith(f"{stack}.")]
        parts = [p for p in own if has_layer(self.names[p])]
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
        self.need(part)
        sizes = []
        for name in self.tensors(part):
            shape = self.checkpoint.shape(name) if name in self.checkpoint else (0, 0)
            if len(shape) != 2:
                raise self.misshapen(part, name, f"{len(shape)} dimensions, expected 2")
            sizes.append(shape[axis ^ self.turned(part)])
        halves = 1 if axis or not self.said(part).half else 2
        if sum(sizes) % halves:
            raise self.misshapen(part, self.name(part), f"{sum(sizes)} rows, expected two halves")
        return sizes[0] if axis else sum(sizes) // halves

    def factor(self, part: str, said: Named, d: dict[str, Any]) -> float:
        """What the values of a part are multiplied by."""
        if not isinstance(said.factor, str):
            return said.factor
        side = part.partition(".")[0]
        stack = {"source": "encoder", "target": "decoder"}.get(side, side)
        if stack not in d:
            raise PhasorError(f"names.{part}: factor {said.factor}: only of a stack's part")
        if said.factor == "inverse_sqrt_width":
            own = d[stack].get("embedding_width", 0) if part.endswith(".positions") else 0
            result: float = (own or d[stack]["width"]) ** -0.5
            return result
        result = d["kinds"][D.layers_of(d[stack])[0][0]]["head_width"] ** 0.5
        return result

    def layers(self, stack: str) -> int:
        """How many sets of tensors its layers have."""
        part, s = f"{stack}.ffn_in", self.description.stacks[stack]
        if said := s["sets"] or s["layers"]:
            result: int = said
            return result
        if not has_layer(self.names.get(part, "{layer}")):
            raise PhasorError(
                f"{self.description.path}: names.{part}: has no {{layer}}; say how many layers "
                "there are"
            )
        self.need(part, what=f"{stack} 0")
        return next((i for i in range(D.MAX_LAYERS) if not self.has(part, i)), D.MAX_LAYERS)


def _fused(part: str) -> tuple[str, str, str]:
    """(stack, "cross_" or "", what) of a part of attention: what is qkv, q, k or v, else ""."""
    stack, _, what = part.partition(".")
    cross = "cross_" if what.startswith("cross_") else ""
    letters = what[len(cross) :]
    return stack, cross, letters if letters in _ATTENTION else ""
