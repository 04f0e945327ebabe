"""The description of what was read of a module, with the evidence of each line."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from phasor.drafts.draft import Draft, Line
from phasor.errors import PhasorError
from phasor.live.asked import Said
from phasor.live.layers import same
from phasor.live.pieces import Linear
from phasor.live.positions import SIDES, Inputs
from phasor.live.stream import BY_HAND, Read


class Describing(Inputs):
    def __init__(self, read: Read, said: Said) -> None:
        super().__init__(read, said)
        self.stack_word = self._stack_word()
        if "" in read.stacks:
            read.stacks = {self.stack_word: read.stacks[""]}

    def made(self) -> Draft:
        self.draft.say("preset", "none")
        self.draft.decide("stack", self.stack_word, self.why_stack)
        for name, stack in self.read.stacks.items():
            self.tables[name] = {}
            self._input(name, stack)
            self._layers(name, stack)
        self._keys()
        self._output()
        self._ids()
        self._rest()
        return self.draft

    def _stack_word(self) -> str:
        stacks, out = self.read.stacks, self.read.output
        if len(stacks) == 2:
            self.why_stack = "the second stack's cross-attention reads the first one's output"
            return "encoder-decoder"
        stack = next(iter(stacks.values()))
        first = stack.layers[0][0].attention
        assert first is not None
        causal = first.mask.startswith("causal")
        table, linear = stack.embedded.table, out.linear
        rows = table.shape[0] if table is not None else 0
        if causal and out.pooling in ("", "last") and linear and linear.outputs == rows:
            self.read.last_only, self.read.output = bool(out.pooling), out._replace(pooling="")
            self.why_stack = "attention is causal, and the output has a row for each id"
            return "decoder"
        self.why_stack = f"attention sees {'earlier positions' if causal else 'all positions'}"
        return "encoder"

    def _keys(self) -> None:
        """Keys that all stacks have alike are at the top, the others in their tables."""
        tables = self.tables
        for key in {key: 0 for table in tables.values() for key in table}:
            values = [table.get(key) for table in tables.values()]
            if all(v is not None and v[0] == values[0][0] for v in values if values[0]):
                if values[0] is not None:
                    self.draft.decide(key, *values[0])
                    continue
            for name, table in tables.items():
                if key in table:
                    line = Line(key, table[key][0], table[key][1], (), True)
                    if key.startswith("cross_"):
                        self.draft.decide(key, *table[key])
                    else:
                        self.draft.sides.setdefault(name, []).append(line)

    def _output(self) -> None:
        out, draft = self.read.output, self.draft
        decoder = "decoder" in self.read.stacks
        parts: dict[str, Any] = {}
        if out.pooling:
            if decoder:
                raise PhasorError("a decoder that gives one row for a sequence: not supported")
            why = f"{out.pooling} of the positions: {out.stream.where}"
            draft.decide("pooling", out.pooling, why)
        if out.linear is None:
            if decoder:
                raise PhasorError(
                    "the module gives a decoder's hidden states: expected logits. TRY: a module"
                    " that ends in its output matrix"
                )
        else:
            self._last(out.linear, parts)
        if out.head is not None:
            self._linear("head", out.head.inner, parts)
            draft.decide("head_activation", out.head.name, out.head.tried)
            if out.head_norm is not None:
                self._norm("head_norm", out.head_norm, parts)
        if not same(out.scale, 1):
            draft.decide("output_scale", out.scale, "times it at the end")
        if out.cap:
            draft.decide("output_cap", out.cap, "a tanh at the end, times it")
        draft.names |= parts

    def _last(self, linear: Linear, parts: dict[str, Any]) -> None:
        """The matrix that ends the module: of logits, or of classes."""
        out, draft, sides = self.read.output, self.draft, self.read.stacks
        ref = self._ref(linear.weight, "the output's matrix")
        tied = {
            SIDES[name]: stack.embedded.table
            for name, stack in sides.items()
            if stack.embedded.table is not None
            and set(self._ref(stack.embedded.table, "the embedding").names) & set(ref.names)
        }
        rows = [s.embedded.table.shape[0] for s in sides.values() if s.embedded.table is not None]
        logits = "decoder" in sides or not out.pooling and linear.outputs in rows
        if not logits:
            self._linear("classifier", linear, parts)
            self._labels(linear.outputs)
            return
        side = "target" if "target" in tied else next(iter(tied), "")
        but = draft.names.get(f"{side}.embedding", draft.names.get("source.embedding", ""))
        if side and (set(ref.names) == {but} or "encoder" in sides and len(sides) == 1):
            draft.decide("output", f"{side}-embedding", "the output's matrix is the embedding")
            self._bias("output", linear, but, parts)
            return
        if "decoder" not in sides:
            draft.decide("output", "logits", "a row of the output for each id")
        self._linear("output", linear, parts)
        if side and parts["output"] == but:
            name = self._name(ref, but)
            parts["output"] = name
            self._bias("output", linear, name, parts)

    def _labels(self, count: int) -> None:
        labels, task, draft = self.said.labels, self.said.task, self.draft
        if task == "values":
            draft.decide("scores", "plain", "as task says")
        elif labels is None:
            raise PhasorError(
                f"labels=: missing: the module gives {count} classes: expected a name for each, or"
                ' task="values" where they are numbers'
            )
        if labels is not None:
            if len(labels) != count:
                raise PhasorError(f"labels=: {len(labels)} names, the module gives {count} classes")
            draft.decide("labels", list(labels), "as given")
        if task == "multi-label":
            draft.decide("scores", "sigmoid", "as task says")

    def _ids(self) -> None:
        said, draft = self.said, self.draft
        last = "target" if "decoder" in self.read.stacks else "source"
        lines: dict[str, list[Line]] = {}
        if len(self.read.stacks) == 2 and said.start is None:
            raise PhasorError(
                "start=: missing: the id that an output begins with, which no call says"
            )
        for key, value in (("start", said.start), ("end", said.end)):
            if value is not None:
                lines.setdefault(last, []).append(Line(key, value, "as given", (), True))
        if said.pad is not None:
            for name in self.read.stacks:
                lines.setdefault(SIDES[name], []).append(
                    Line("pad", said.pad, "as given", (), True)
                )
        for side, own in lines.items():
            draft.sides.setdefault(side, []).extend(own)

    def _rest(self) -> None:
        refs = self.pieces.refs
        read = {n.value.data_ptr() for n in self.pieces.trace.nodes if isinstance(n.value, Tensor)}
        for name, tensor in refs.tensors.items():
            if name in self.used or not isinstance(tensor, Tensor):
                continue
            known = name not in refs.parameters or tensor.data_ptr() not in read
            if not known and tensor.numel() > 1:
                raise PhasorError(
                    f"{name} {tuple(tensor.shape)}: is read by the module, and by nothing that was"
                    f" understood: {BY_HAND}"
                )
            self.draft.ignore.append(name)
