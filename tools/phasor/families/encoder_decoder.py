"""Encoder-decoders: two stacks of one model (`Pair`), and those of Hugging Face directories, whose
stacks one family's table names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, printable, shown
from phasor.families import generation, sinusoids
from phasor.families.family import Family
from phasor.families.heads import labels_of, scores_of
from phasor.families.hf_config import ACTIVATIONS, Config
from phasor.families.model import BUFFER, Model, Part, described, same_sides, shape_of
from phasor.families.stack import Stack
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import words

_HARMLESS = words("""
    max_length_generation static_position_embeddings tokenizer_name model_max_length
""")
_TRUNK = "model."
_LONGEST_PROMPT, _MOST_PROMPTS = 200, 64  # characters; tasks of a configuration


class Pair:
    """An encoder's stack and a decoder's, which looks at what the first gives."""

    def __init__(self, encoder: Stack, decoder: Stack, checkpoint: Checkpoint) -> None:
        self.encoder, self.decoder, self.checkpoint = encoder, decoder, checkpoint
        self.stacks = (encoder, decoder)
        decoder.crossing = True
        self.output: dict[str, Any] = {"output": D.LOGITS}
        self.generation: dict[str, Any] = {}
        self.notes: list[str] = []
        # Tensors that are said to be others'.
        self.doubles: list[tuple[str, str]] = []
        self.ignore: dict[str, str] = {}

    def find_sharing(self) -> None:
        """Stores once what the checkpoint has twice."""
        same, target = self.checkpoint.same, self.decoder.name("embedding")
        d = self.descriptor("")
        if same_sides(d) and not d["target"]["embedding_shared"]:
            if same(self.encoder.name("embedding"), target):
                self.decoder.side["embedding_shared"] = 1
                self.decoder.used[target] = "the same values as the source's"
                self.notes.append("the target's embedding is the source's: stored once")
        if self.output.get("tied") == D.TIED_OWN and same(self.decoder.names["output"], target):
            self.output["tied"] = D.TIED_TARGET
            self.decoder.used[self.decoder.names["output"]] = "the same values as the target's"
            self.notes.append("the output matrix is the target's embedding: stored once")

    def descriptor(self, name: str) -> dict[str, Any]:
        scopes = {**self.encoder.scopes(), **self.decoder.scopes()}
        kinds = [*self.encoder.kinds, *self.decoder.kinds]
        more = {"generation": self.generation} if self.generation else {}
        return described(
            D.ENCODER_DECODER, {"name": name}, **scopes, kinds=kinds, output=self.output, **more
        )

    def finish(self) -> None:
        """The kinds of both stacks."""
        self.encoder.finish()
        self.decoder.finish(len(self.encoder.kinds))

    def parts(self, slot: R.Slot) -> list[Part]:
        if slot.stack == R.OUTPUT:
            return self.output_parts(slot)
        return self.stacks[slot.stack in (R.TARGET, R.DECODER)].parts(slot)

    def output_parts(self, slot: R.Slot) -> list[Part]:
        """Of the logits: the matrix, or its bias, which may be stored as a row."""
        shape = shape_of(slot)
        if slot.role == R.OUTPUT_WEIGHT:
            return [Part(self.decoder.names["output"], shape)]
        name = self.decoder.names["output_bias"]
        row = name in self.checkpoint and len(self.checkpoint.shape(name)) == 2
        return [Part(name, (1, *shape) if row else shape, flat=True)]

    def has_output_bias(self) -> bool:
        """Whether there is one; of zeros, as most are, it is none."""
        name = self.decoder.names.get("output_bias")
        if name is None or name not in self.checkpoint:
            return False
        self.decoder.used[name] = "the bias of the logits"
        return bool(self.checkpoint.load(name).any())

    def model(self, name: str) -> Model:
        d = self.descriptor(name)
        D.check(d)
        encoder, decoder = self.stacks
        model = Model(
            d,
            self.checkpoint,
            values={**encoder.values, **decoder.values},
            used={**encoder.used, **decoder.used},
            ignore=self.ignore,
            notes=[*encoder.notes, *decoder.notes, *self.notes],
        )
        for double, original in self.doubles:
            model.must_be_same(double, original, "and the configuration says that they are one")
        return model.fill(self.parts)


class EncoderDecoder(Pair):
    """Both stacks from one configuration; `adapt` fills in what a family has of its own."""

    def __init__(self, family: Family, config: Config, checkpoint: Checkpoint) -> None:
        super().__init__(
            Stack(R.ENCODER, config, family.names, checkpoint),
            Stack(R.DECODER, config, family.names, checkpoint),
            checkpoint,
        )
        self.family, self.config = family, config
        config.must("is_encoder_decoder", True)
        self.shared = True  # both sides have one embedding
        self.untied_where_twice = False  # the output's matrix is its own where it differs
        self.tied = config.flag("tie_word_embeddings", default=True)
        vocabulary = config.whole("vocab_size", 1, D.MAX_VOCABULARY)
        for stack in self.stacks:
            stack.side = {"vocabulary": vocabulary}
        family.adapt(self)
        vocabulary = self.decoder.side["vocabulary"]
        ids, said = generation.read(config, vocabulary, self.notes, True)
        self.decoder.side.update(ids)
        self.encoder.side.update((k, ids[k]) for k in ("pad", "start", "end") if k in ids)
        self.prompts = _prompts(config)
        if family.classifier:  # read as if it had the logits of its embedding
            self.tied = True
            self.labels = labels_of(config)
            self.scores = scores_of(config, len(self.labels))
        else:
            self.generation = said
        config.finish((*family.harmless, *_HARMLESS), family.neutral)

    # ---- for adapt

    def gated(self, name: str) -> tuple[int, bool]:
        """T5's feed-forward: "relu", or gated, as "gated-gelu", which is the approximation by
        tanh."""
        words = self.config.text(name).split("-")
        gated = words[0] == "gated" and len(words) == 2
        act = "gelu_new" if words == ["gated", "gelu"] else words[-1]
        if act not in ACTIVATIONS or len(words) != 1 + gated:
            raise self.config.expected(name, self.config.get(name), "such as relu or gated-gelu")
        self.config.must("dense_act_fn", act)
        return ACTIVATIONS[act], gated

    def heads(self, width: int, name: str) -> dict[str, Any]:
        """Heads that share the width."""
        heads = self.config.whole(name, high=4096)
        if width % heads:
            raise self.config.error(name, f"{heads} does not divide the width {width}")
        each = width // heads
        return {"heads": heads, "kv_heads": heads, "head_width": each, "scale": 1 / math.sqrt(each)}

    def sinusoids(self, base: float = 10000.0, offset: int = 0) -> None:
        """Sines, then cosines, in both stacks; a table that a stack brings is compared with
        them."""
        for stack in self.stacks:
            own = stack.names.get("sinusoid", "").format(stack=stack.place)
            width, most = stack.stack["width"], stack.positions
            if width % 2:
                raise self.config.expected("d_model", width, "an even number, for sine and cosine")
            rows = None
            if own in self.checkpoint:
                stack.used[own] = "read and made into a table, or compared with one"
                try:
                    rows = sinusoids.own_rows(self.checkpoint.load(own), width, offset, most)
                except PhasorError as error:
                    what = f"misshapen: {own} ({stack.place} positions) has {error}"
                    raise PhasorError(f"{self.checkpoint.path}: {what}") from error
            made = sinusoids.added(rows, width, D.HALVES, base, offset, most)
            stack.stack["position"] = made.position
            stack.values[R.key_of(stack.input, 0, made.role)] = made.values
            if made.note:
                stack.notes.append(f"{stack.place}: {made.note}")

    # ---- the model

    def _embeddings(self) -> None:
        """Names the embeddings and the output's matrix, and those that are said to be one."""
        names, checkpoint = self.decoder.names, self.checkpoint
        one = [*self.family.embeddings] * self.shared
        if self.tied:
            one += [names["output"], *(self.decoder.name(p) for p in ["embedding"] if p in names)]
        if checkpoint.alone(*one):
            raise checkpoint.parts_tied(*(name for name in one if name in checkpoint))
        if self.shared:
            alike = [name for name in self.family.embeddings if name in checkpoint]
            if self.untied_where_twice and alike and not checkpoint.same(names["output"], alike[0]):
                self.tied = names["output"] not in checkpoint
            if self.tied and names["output"] in checkpoint:
                alike.append(names["output"])
            first = alike[0] if alike else self.family.embeddings[0]
            for stack in self.stacks:
                stack.names["embedding"] = first
            self.doubles += [(name, first) for name in alike[1:]]
        elif self.tied and names["output"] in checkpoint:
            if self.decoder.name("embedding") not in checkpoint:
                names["embedding"] = names["output"]
            self.doubles.append((names["output"], self.decoder.name("embedding")))
        self.decoder.side["embedding_shared"] = int(self.shared)
        tied = D.TIED_SOURCE if self.shared else D.TIED_TARGET
        self.output["tied"] = tied if self.tied else D.TIED_OWN

    def build(self, name: str) -> Model:
        self.finish()
        self.ignore = dict.fromkeys(self.family.unused, BUFFER)
        self._embeddings()
        if self.family.classifier:
            self._classify()
        else:
            self.output["bias"] = int(self.has_output_bias())
            self.find_sharing()
        if self.prompts:
            self.output["prompts"] = self.prompts
        return self.model(name)

    def _classify(self) -> None:
        """Classes in place of the vocabulary's logits: out(tanh(dense(x))) of each position of the
        decoder."""
        self.output = {
            "output": D.CLASSES,
            "classes": len(self.labels),
            "labels": "".join(label + D.RECORD_END for label in self.labels),
            "scores": self.scores,
            "head_width": self.decoder.stack["width"],
            "head_bias": 1,
            "head_activation": D.TANH,
            "bias": 1,
        }

    def output_parts(self, slot: R.Slot) -> list[Part]:
        if not self.family.classifier:
            return super().output_parts(slot)
        module = "dense" if slot.role in (R.HEAD, R.HEAD + 1) else "out_proj"
        kind = "weight" if slot.role in (R.HEAD, R.CLASSIFIER) else "bias"
        return [Part(f"{self.family.classifier}.{module}.{kind}", shape_of(slot))]


def _prompts(config: Config) -> str:
    """The prefixes of tasks that config.json has, as T5's do, in the form of the file."""
    tasks, out = config.table("task_specific_params", {}), []
    tasks.finished = True  # what else a task says is a choice of whoever generates
    for name, task in tasks.values.items():
        prefix = task.get("prefix") if isinstance(task, dict) else None
        if not prefix:
            continue
        for text in (name, prefix):
            if not isinstance(text, str) or not text.isprintable() or len(text) > _LONGEST_PROMPT:
                raise tasks.error(
                    printable(name), f"{shown(text)}, expected a text of at most {_LONGEST_PROMPT}"
                )
        out.append(f"{name}{D.UNIT_END}{prefix}{D.RECORD_END}")
    if len(out) > _MOST_PROMPTS:
        raise config.error("task_specific_params", f"{len(out)} tasks, at most {_MOST_PROMPTS}")
    return "".join(out)


def read(path: Path, config: Config, family: Family, checkpoint: Checkpoint) -> Model:
    """The model of a directory. PhasorError names the file and the field."""
    made = EncoderDecoder(family, config, _with_trunk(checkpoint, family))
    return made.build(path.resolve().name)


def trunk(family: Family) -> str:
    """The beginning of the names that a class without an output leaves out."""
    return _TRUNK * family.embeddings[0].startswith(_TRUNK)


def _with_trunk(checkpoint: Checkpoint, family: Family) -> Checkpoint:
    """With the beginning of the names that a class without an output leaves out."""
    start, parts = trunk(family), ("shared.", "encoder.", "decoder.")
    if not start or any(name.startswith(start) for name in checkpoint):
        return checkpoint
    names = {name: start * name.startswith(parts) + name for name in checkpoint}
    tensors = {names[name]: stored for name, stored in checkpoint.tensors.items()}
    return Checkpoint(checkpoint.path, tensors, checkpoint.notes)
