"""What comes out of a described model: logits, hidden states, a vector or classes; and which
matrices are one."""

from __future__ import annotations

from typing import Any

from phasor.errors import PhasorError
from phasor.families.model import same_sides
from phasor.format import descriptor as D
from phasor.sources.state_dict import keys as K
from phasor.sources.state_dict.description import CHOICES, fields_of, scale_of
from phasor.sources.state_dict.vectors import Vectors


class Outputs(Vectors):
    def output(self, width: int) -> dict[str, Any]:
        """What comes out: of an encoder hidden states, unless a key or a name says otherwise.
        width: of the last stack."""
        model, encoder = self.description.model, self.description.stack == D.ENCODER
        what, stack = model["output"], "encoder" if encoder else "decoder"
        if what == "classes":
            self.as_classifier()
        out = fields_of("output", K.MODEL, model)
        if not encoder and ("classifier" in self.names or what in ("hidden", "pooled", "classes")):
            raise PhasorError(
                f"{self.description.path}: output: a decoder gives logits, expected own,"
                " target-embedding or source-embedding, and no names.classifier"
            )
        if model["labels"] and "classifier" not in self.names:
            raise PhasorError(
                f"{self.description.path}: labels: the model gives no classes: names.classifier is"
                " their matrix"
            )
        if "classifier" in self.names:
            out.update(
                output=D.CLASSES,
                classes=self.rows("classifier"),
                bias=int(self.has_bias("classifier", 1)),
                labels="".join(label + D.RECORD_END for label in model["labels"]),
            )
        elif what == "pooled" or encoder and what == "own" and "pooling" in out:
            out["output"] = D.POOLED
        elif what == "hidden" or encoder and what == "own":
            if {"head", "head_norm", "output_bias"} & self.names.keys():
                raise PhasorError(
                    f"{self.description.path}: names: an encoder that gives hidden states has no"
                    ' head, head_norm and output_bias; say output = "source-embedding" for logits'
                )
            out["output"] = D.HIDDEN
        else:
            scales = {"one": 1.0, "inverse_sqrt_width": width**-0.5}
            out.update(
                output=D.LOGITS,
                tied=CHOICES["output"][what],
                scale=scale_of("output_scale", model["output_scale"], scales),
                bias=int(self.output_bias()),
            )
        if model["output_scale"] != "one" and out.get("output") != D.LOGITS:
            raise PhasorError(f"{self.description.path}: output_scale: the model gives no logits")
        prompts = model["prompts"].items()
        ends = {D.RECORD_END, D.UNIT_END}
        if any(not isinstance(text, str) or ends & {*name, *text} for name, text in prompts):
            raise PhasorError(f"{self.description.path}: prompts: expected a text for each name")
        out["prompts"] = "".join(n + D.UNIT_END + text + D.RECORD_END for n, text in prompts)
        return {**out, **self.head(stack)}

    def as_classifier(self) -> None:
        """The matrix that [names] calls `output` is that of the classes."""
        for part, own in (("classifier", "output"), ("classifier_bias", "output_bias")):
            if part not in self.names and own in self.names:
                self.names[part] = self.names.pop(own)
                if own in self.description.names:
                    self.description.names[part] = self.description.names.pop(own)

    def head(self, stack: str) -> dict[str, Any]:
        """A dense layer with an activation, and a norm, before the output's matrix; each where
        [names] has it."""
        s, model = self.description.stacks[stack], self.description.model
        out: dict[str, Any] = {}
        if "head" not in self.names and model["head_activation"] != "none":
            raise PhasorError(
                f"{self.description.path}: head_activation: {model['head_activation']}, and"
                " names.head is missing"
            )
        if "head" in self.names:
            out.update(head_width=self.rows("head"), head_bias=int(self.has_bias("head", 1)))
        if "head_norm" in self.names:
            eps = model["head_norm_eps"]
            out.update(head_norm=CHOICES["norm"][s["norm"]])
            out["head_norm_eps"] = s["norm_eps"] if eps is None else eps
        return out

    def output_bias(self) -> bool:
        """Whether there is one; of zeros, as most of those with a name of their own are, it is
        none."""
        if "output_bias" not in self.names:
            return self.has_bias("output", 1)
        return self.has("output_bias") and bool(self.load(self.name("output_bias")).any())

    def find_sharing(self, d: dict[str, Any]) -> None:
        """Stores once what the checkpoint has twice, and checks what the description says is
        shared."""
        if d["model"]["stack"] == D.ENCODER:
            if d["output"]["output"] == D.LOGITS and d["output"]["tied"] != D.TIED_OWN:
                names = self.names.get("output"), self.names.get("source.embedding")
                self.doubles.append(("output", *names))
            return
        source, target, output = (
            self.names.get(p) for p in ("source.embedding", "target.embedding", "output")
        )
        same = self.checkpoint.same
        if same_sides(d) and not d["target"]["embedding_shared"] and same(source, target):
            d["target"]["embedding_shared"] = 1
            self.notes.append("the target's embedding is the source's: stored once")
        if d["target"]["embedding_shared"]:
            self.doubles.append(("target.embedding", target, source))
        tied_to = {D.TIED_TARGET: target, D.TIED_SOURCE: source}
        if d["output"]["tied"] == D.TIED_OWN and same(output, target):
            d["output"]["tied"] = D.TIED_TARGET
            self.notes.append("the output matrix is the target's embedding: stored once")
        if d["output"]["tied"] != D.TIED_OWN:
            self.doubles.append(("output", output, tied_to[d["output"]["tied"]]))
