"""A description drafted from names and shapes: what is certain, what is guessed and on which
evidence, and what its owner must say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from phasor.checkpoints import wrappers
from phasor.checkpoints.tensors import Checkpoint
from phasor.drafts.ends import SIDES, End, Ends, ends_of, formula, is_buffer
from phasor.drafts.layers import Stack, odd_one, stacks
from phasor.drafts.names import listed, module, place, says
from phasor.errors import PhasorError, printable
from phasor.families.names import bias_name
from phasor.sources.state_dict.tensors import of_layer

_STACKS = {"source": "encoder", "target": "decoder"}
_HEADS = (8, 12, 4, 16, 6, 2, 3, 32, 5, 1, 7, 9, 10, 24)
_ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")
_OF_ATTENTION = ("rotary", "rotary-halves", "alibi")
_MOST_LEFT = 16  # lines
_MOST_NAMED, _MOST_IGNORED = 16, 64  # buffers by their names, and patterns of them
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # a name of a pickle may have it, and no TOML


class Line(NamedTuple):
    """One key. value: None where only its owner can say it; why: the evidence of a guess; others:
    what it may be as well, the likelier first."""

    key: str
    value: Any
    why: str = ""
    others: tuple[Any, ...] = ()
    decided: bool = False  # by outputs of the owner's model

    def entries(self, value: Any) -> dict[str, Any]:
        """The keys of a description with this value in them."""
        if self.key == "position" and value in _OF_ATTENTION:
            return {"position": "none", "attention_position": value}
        return {self.key: value}

    @property
    def readings(self) -> tuple[Any, ...]:
        """All that it may be, the likeliest first."""
        first = () if self.value is None else (self.value,)
        return tuple(dict.fromkeys((*first, *self.others)))


@dataclass
class Draft:
    """Lines of the description, and its tables."""

    lines: dict[str, Line] = field(default_factory=dict)
    sides: dict[str, list[Line]] = field(default_factory=dict)
    exceptions: dict[str, list[list[Line]]] = field(default_factory=dict)  # of some layers
    names: dict[str, Any] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    ordered: list[tuple[str, ...]] = field(default_factory=list)  # parts that their order told
    ignore: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # lines for tensors that are not understood

    def say(self, key: str, value: Any, why: str = "", others: tuple[Any, ...] = ()) -> None:
        self.lines[key] = Line(key, value, why, tuple(o for o in others if o != value))

    def decide(self, key: str, value: Any, why: str) -> None:
        """What is no guess."""
        self.lines[key] = Line(key, value, why, (), True)

    def content(self) -> dict[str, Any]:
        """As a reader of the TOML gives it; an id that is missing is 0."""
        out: dict[str, Any] = {}
        for line in self.lines.values():
            out |= {} if line.value is None else line.entries(line.value)
        for side, lines in self.sides.items():
            out[side] = {one.key: 0 if one.value is None else one.value for one in lines}
        for stack, tables in self.exceptions.items():
            own = [{line.key: line.value for line in table} for table in tables]
            out.setdefault(stack, {})["except"] = own
        out["names"] = dict(self.names)
        if self.rename:
            out["rename"] = dict(self.rename)
        if self.ignore:
            out["checkpoint"] = {"ignore": list(self.ignore)}
        return out


def bare(checkpoint: Checkpoint) -> Checkpoint:
    """The tensors as a description names them: without what held the model, and without
    averages."""
    found = wrappers.unwrapped(checkpoint, wrappers.LIGHTNING).as_matrices()
    averages = tuple(wrappers.AVERAGED)
    kept = {n: t for n, t in found.tensors.items() if not n.startswith(averages)}
    for name in wrappers.COUNTERS:
        kept.pop(name, None)
    return found.holding(kept)


def drafts(checkpoint: Checkpoint) -> list[Draft]:
    """The draft, and behind it another where one stack may be a decoder or an encoder. checkpoint:
    bare. PhasorError where there are no layers that would be a Transformer's."""
    if odd := next(filter(_SURROGATE.search, checkpoint), ""):
        raise PhasorError(f"{printable(odd)}: has half of a surrogate pair, which is no character")
    found = stacks(checkpoint)
    if not 1 <= len(found) <= 2 or len(found) == 2 and not any(s.layer.crosses for s in found):
        odd = printable(odd_one(checkpoint)) if not found else ""
        raise PhasorError(
            f"{len(found) or 'no'} stacks of layers with attention and a feed-forward: expected"
            " one, or an encoder's and a decoder's"
            + f"; not every layer has {odd}, or it has another shape" * bool(odd)
            + ". TRY: a description by hand (docs/reference/description-keys.md)"
        )
    ends = ends_of(checkpoint, found)
    side, why = _side(checkpoint, found, ends)
    sides = [side, *(one for one in SIDES if why and one != side)]
    return [_Drafting(checkpoint, found, ends, one, why).made() for one in sides]


def _side(checkpoint: Checkpoint, found: list[Stack], ends: Ends) -> tuple[str, str]:
    """(which side a single stack is of, the evidence where that is a guess)."""
    if len(found) == 2:
        return "", ""
    inside = [found[0].name(suffix, 0) for suffix in found[0].layer.left]
    if any(n in checkpoint and _is_mask(checkpoint, n) for n in (*inside, *ends.buffers)):
        return "target", ""
    if not ends.embeddings:
        return "source", ""
    rows = [checkpoint.shape(end.name)[0] for end in ends.embeddings]
    if ends.outputs and checkpoint.shape(ends.outputs[-1].name)[0] in rows:
        return "target", "the output has a row for each id of the vocabulary"
    if not ends.outputs:
        return "source", "there is no output matrix"
    return "source", "the output has no row for each id of the vocabulary"


def _is_mask(checkpoint: Checkpoint, name: str) -> bool:
    shape = [n for n in checkpoint.shape(name) if n != 1]
    return len(shape) == 2 and is_buffer(checkpoint, name)


def _form(name: str) -> str:
    """The pattern of a buffer's name: any numbers in its module, and its own last part."""
    held = module(name)
    return re.sub(r"\d+", "*", held) + name[len(held) :]


class _Drafting:
    def __init__(
        self,
        checkpoint: Checkpoint,
        found: list[Stack],
        ends: Ends,
        side: str,
        why: str,
    ) -> None:
        self.checkpoint, self.ends, self.arguments = checkpoint, ends, checkpoint.arguments
        self.draft, self.why_stack = Draft(), why
        self.width = found[-1].layer.width
        ordered = sorted(found, key=lambda stack: stack.layer.crosses)
        self.stacks = dict(zip([side] if side else SIDES, ordered))
        self.torch = any("in_proj_weight" in p for s in found for p in s.layer.parts.values())

    def made(self) -> Draft:
        out = self.draft
        out.say("preset", "none")
        two = len(self.stacks) == 2
        only = _STACKS[next(iter(self.stacks))]
        out.say("stack", "encoder-decoder" if two else only, self.why_stack)
        for side, stack in self.stacks.items():
            self._layers(side, stack)
        self._inputs()
        self._norms()
        self._heads()
        self._blocks()
        self._positions()
        self._output()
        for side in self.stacks:
            if side == "target" and two:
                out.sides[side] = [Line("start", None, "the id that an output begins with")]
        self._rest()
        return out

    def _layers(self, side: str, stack: Stack) -> None:
        name = _STACKS[side]
        for part, suffix in stack.layer.parts.items():
            self.draft.names[f"{name}.{part}"] = stack.template(suffix)
        ordered = tuple(f"{name}.{part}" for part in stack.layer.ordered)
        for at in range(0, len(ordered), 4):
            self.draft.ordered.append(ordered[at : at + 4])
        buffers: list[str] = []
        for suffix in stack.layer.left:
            pattern = stack.pattern(suffix)
            if self._is_buffer(stack, suffix):
                buffers.append(pattern)
            else:
                self.draft.left.append(f"{pattern}: in a layer, not understood")
        self.draft.ignore += dict.fromkeys(buffers)
        if "transposed" in stack.layer.keys:
            self.draft.say("transposed", True)

    def _is_buffer(self, stack: Stack, suffix: str) -> bool:
        name = stack.name(suffix, 0)
        return name in self.checkpoint and is_buffer(self.checkpoint, name)

    # ---- inputs

    def _split(self, found: list[End]) -> dict[str, End]:
        """One for each side that there is: by their words, else by their order; one alone is of
        all sides."""
        if not found:
            return {}
        sides = list(self.stacks)
        if len(sides) == 1 or len(found) == 1:
            return dict.fromkeys(sides, found[0])
        said = {e.side: e for e in reversed(found) if e.side}
        return said if len(said) == 2 else dict(zip(sides, found))

    def _inputs(self) -> None:
        out, ends = self.draft, self.ends
        embeddings = self._split(self._by_size(ends.embeddings))
        for side in self.stacks:
            if side in embeddings:
                out.names[f"{side}.embedding"] = embeddings[side].name
        if len(self.stacks) == 2 and len({e.name for e in embeddings.values()}) == 1:
            out.names.pop("target.embedding")
            out.sides["target"] = [Line("embedding_shared", True)]
        for part, found in (("segments", ends.segments), ("class_token", ends.class_tokens)):
            if found and "source" in self.stacks:
                out.names[f"source.{part}"] = found[0].name
        if ends.projections and "source" in self.stacks:
            out.names["source.projection"] = ends.projections[0].name
            if not embeddings:
                out.say("input", "vectors")
        unused = [e for e in ends.embeddings if e not in embeddings.values()]
        for end in (*unused, *ends.projections[1:]):
            self._not_understood(end.name)

    def _by_size(self, found: list[End]) -> list[End]:
        """The largest matrices in the file's order: as many as sides."""
        largest = sorted(found, key=lambda e: -self.checkpoint.shape(e.name)[0])
        kept = set(largest[: len(self.stacks)])
        return [e for e in found if e in kept]

    def _not_understood(self, name: str) -> None:
        shape = " x ".join(map(str, self.checkpoint.shape(name)))
        self.draft.left.append(f"{name} ({shape}): outside of the layers, not understood")

    # ---- norms

    def _norms(self) -> None:
        """The norms outside of the layers: behind a stack, or of an embedding."""
        out, last = self.draft, list(self.stacks)[-1]
        keys = dict(next(reversed(self.stacks.values())).layer.keys)
        self.final: set[str] = set()
        behind: dict[str, list[End]] = {side: [] for side in self.stacks}
        for end in self.ends.norms:
            parent = module(module(end.name))
            own = [s for s, k in self.stacks.items() if module(k.prefix[:-1]) == parent and parent]
            side = own[0] if len(own) == 1 else end.side if end.side in self.stacks else last
            early = end.place < 0 and not (len(own) == 1 and says(end.name, "ends", "final"))
            if place(end.name, "ends", "embedding") or early and len(own) != 1:
                out.names[f"{side}.embedding_norm"] = end.name
            else:
                behind[side].append(end)
        for side, ends in behind.items():
            if ends:
                out.names[f"{_STACKS[side]}.final_norm"] = ends[0].name
                self.final.add(side)
            if len(ends) > 1 and side == last and self.ends.heads:
                out.names["head_norm"] = ends[1].name
            for end in ends[2 if "head_norm" in out.names else 1 :]:
                self._not_understood(end.name)
        if self.final in (set(), set(self.stacks)):
            out.say("final_norm", bool(self.final))
        else:
            for side in self.stacks:
                out.sides.setdefault(_STACKS[side], []).append(
                    Line("final_norm", side in self.final)
                )
        kind = keys.get("norm")
        if kind:
            out.say("norm", kind)
        else:
            found = any(part.endswith("_norm") for part in out.names)
            why = "norms without a bias" if found else ""
            out.say("norm", "rms", why, ("layer",))
        eps = keys.get("norm_eps", 1e-5)
        why = "the Annotated Transformer's" if eps != 1e-5 else "PyTorch's default"
        out.say("norm_eps", eps, why, (1e-6, 1e-12, 1e-5))

    # ---- blocks

    def _heads(self) -> None:
        out, width = self.draft, self.width
        merged = {s.layer.keys.get("heads") for s in self.stacks.values()} - {None}
        if merged:
            out.say("heads", merged.pop())
            return
        for key in listed("arguments", "heads"):
            value = self.arguments.get(key)
            if type(value) is int and 0 < value <= width and width % value == 0:
                out.say("heads", value)
                return
        divisors = [n for n in _HEADS if width % n == 0]
        if width % 64 == 0 and width >= 128:
            divisors.insert(0, width // 64)
        why = f"no shape says it; it divides {width}"
        if width % 64 == 0 and width >= 256:
            out.say("heads", width // 64, f"{why}, and most heads have 64 values", tuple(divisors))
        else:
            self.draft.lines["heads"] = Line("heads", None, why, tuple(divisors))

    def _blocks(self) -> None:
        out, keys = self.draft, [stack.layer.keys for stack in self.stacks.values()]
        gated = any(part.endswith(".ffn_gate") for part in out.names)
        if all(k.get("norm_place") == "both" for k in keys):
            out.say("norm_place", "both", "", ())
        elif any("parallel" in k for k in keys):
            out.say("norm_place", "before")
            out.say("parallel", "one-norm", "one norm in a layer")
        else:
            first = bool(self.final) and not (self.torch and len(self.stacks) == 2)
            why = "there is a norm behind the last layer" if self.final else "no norm is behind it"
            if self.final and not first:
                why = "nn.Transformer's default; its stacks end with a norm either way"
            out.say("norm_place", "before" if first else "after", why, ("before", "after"))
        first = out.lines["norm_place"].value == "before"
        annotated = any(k.get("norm") == "layer-unbiased" for k in keys)
        first = first and not annotated
        activation = "silu" if gated else "gelu" if first and not self.torch else "relu"
        why = "no tensor says it; " + (
            "a gate's is most often"
            if gated
            else "PyTorch's default"
            if self.torch
            else "the Annotated Transformer's"
            if annotated
            else "usual where norms come first"
            if first
            else "usual where norms come last"
        )
        out.say("activation", activation, why, _ACTIVATIONS)
        why = "as the paper; no tensor says it"
        others = ("sqrt_head_width", "sqrt_heads", 1.0, float(self.width) ** 0.5)
        out.say("score_scale", "sqrt_head_width", why, others)

    def _positions(self) -> None:
        out = self.draft
        tables = self._split(self.ends.positions)
        waves = {e.name: formula(self.checkpoint, e.name) for e in tables.values()}
        for side, end in ((side, tables[side]) for side in self.stacks if side in tables):
            part = "sinusoid" if waves[end.name] else "positions"
            out.names[f"{side}.{part}"] = end.name
        for end in self.ends.positions:
            if end not in tables.values():
                self._not_understood(end.name)
        wave = next((w for w in waves.values() if w), None)
        if tables:
            out.say("position", wave.position if wave else "learned")
            if wave and wave.rates != "paper":
                out.say("position_rates", wave.rates)
        else:
            biased = any(
                bias_name(of_layer(n, 0)) in self.checkpoint
                for p, n in out.names.items()
                if p.endswith((".q", ".qkv"))
            )
            turns = out.lines["norm_place"].value == "before" and not biased
            kind = "rotary" if turns else "sinusoidal"
            why = "no table; q, k without biases and norms first" if turns else "no table of them"
            others = ("sinusoidal", "rotary", "rotary-halves", "sinusoidal-halves", "alibi", "none")
            out.say("position", kind, why, others)
        scaled = wave is not None or out.lines["position"].value[:3] == "sin"
        why = "the paper's, with its sinusoids" if scaled else "usual beside learned positions"
        if not tables and not scaled:
            why = "usual"
        value = "sqrt_width" if scaled else "one"
        out.say("embedding_scale", value, why, ("one", "sqrt_width"))

    def _output(self) -> None:
        out, ends = self.draft, self.ends
        if "source" in self.stacks and len(self.stacks) == 1:
            self._encoder_output()
            return
        if ends.outputs:
            out.names["output"] = ends.outputs[-1].name
        else:
            both = ("target-embedding", "source-embedding")
            own = [
                self.checkpoint.shape(out.names[f"{side}.embedding"])
                for side in SIDES
                if f"{side}.embedding" in out.names
            ]
            why = "there is no output matrix; it is one of the embeddings"
            if len(own) == 2 and own[0] == own[1]:
                out.say("output", both[0], why, both)
            else:
                out.say("output", both["target.embedding" not in out.names])
        if ends.heads:
            out.names["head"] = ends.heads[0].name
        for end in ends.outputs[:-1]:
            self._not_understood(end.name)

    def _encoder_output(self) -> None:
        out, ends = self.draft, self.ends
        rows = [self.checkpoint.shape(e.name)[0] for e in ends.embeddings]
        count = self.checkpoint.shape(ends.outputs[-1].name)[0] if ends.outputs else 0
        if count in rows:
            out.names["output"] = ends.outputs[-1].name
            tied = self.checkpoint.same(out.names["output"], out.names.get("source.embedding"))
            out.say("output", "source-embedding" if tied else "logits")
            return
        if ends.outputs:
            out.names["classifier"] = ends.outputs[-1].name
            out.lines["labels"] = Line("labels", None, f"a name for each of {count} classes")
            what = "none: a class for each position"
        else:
            what = "none: a vector for each position"
        if ends.heads:
            out.names["head"] = ends.heads[0].name
            activations = ("tanh", "gelu", "relu", "none")
            out.say("head_activation", "tanh", "as BERT's pooler; no tensor says it", activations)
        for end in ends.outputs[:-1]:
            self._not_understood(end.name)
        others = ("mean", "first", "last", "none")
        if ends.class_tokens:
            out.say("pooling", "first", "there is a class token", others)
        elif ends.outputs and says(ends.outputs[-1].name, "ends", "tags"):
            out.say("pooling", "none", "the output's name speaks of tags", others)
        else:
            why = f"mean, first or last; without it, {what}"
            out.lines["pooling"] = Line("pooling", None, why, ("mean", "last", "first", "none"))

    def _rest(self) -> None:
        buffers = set(self.ends.buffers)
        for name in self.ends.left:
            if name not in buffers:
                self._not_understood(name)
        patterns = map(_form, self.ends.buffers)
        few = self.ends.buffers if len(self.ends.buffers) <= _MOST_NAMED else patterns
        self.draft.ignore += dict.fromkeys(few)
        if len(self.draft.ignore) > _MOST_IGNORED:
            self.draft.left.insert(0, f"{len(self.draft.ignore)} forms of buffers to ignore")
            del self.draft.ignore[_MOST_IGNORED:]
        more = len(self.draft.left) - _MOST_LEFT
        if more > 0:
            self.draft.left = [*self.draft.left[:_MOST_LEFT], f"and {more} more"]
        self.draft.left = [printable(line, 200) for line in self.draft.left]
