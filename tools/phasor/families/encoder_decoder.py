"""Encoder-decoders of Hugging Face directories: a family is a table (`Family`) and a function;
config.json becomes what a description says of a state_dict (sources/state_dict), whose reader
does the rest. The tensors' parts are named as there (names.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, printable, shown
from phasor.families import generation
from phasor.families.heads import labels_of, scores_of
from phasor.families.hf_config import ACTIVATIONS, Config
from phasor.families.model import BUFFER, Model, Part, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from phasor.values import words

STACKS = ("encoder", "decoder")
_HARMLESS = words("""
    max_length_generation static_position_embeddings tokenizer_name model_max_length
""")
_WORDS = {row.number: row.word for row in D.ACTIVATIONS}
_LONGEST_PROMPT, _MOST_PROMPTS = 200, 64  # characters; tasks of a configuration
# Biases of every layer, as a descriptor has them, of families whose blocks have all of them.
_ALL_BIASES = {"attention_biases": 15, "ffn_biases": 3, "norm_biases": 1, "cross_biases": 15}


_TRUNK = "model."


@dataclass(frozen=True)
class Family:
    """One architecture as a table."""

    types: tuple[str, ...]  # model_type of config.json
    classes: tuple[str, ...]  # the classes that give logits
    names: Mapping[str, str]
    # The names that one embedding of both sides may have; the first that is there is taken, and the
    # others may not differ.
    embeddings: tuple[str, ...]
    defaults: Mapping[str, Any]  # of transformers, for fields that config.json leaves out
    adapt: Callable[["EncoderDecoder"], None]
    keys: Mapping[str, Any] = field(default_factory=dict)  # of the description, beside `adapt`'s
    harmless: tuple[str, ...] = ()
    neutral: Mapping[str, list] = field(default_factory=dict)  # values that change nothing
    unused: tuple[str, ...] = ()  # patterns of tensors that are buffers
    newer: Mapping[str, Any] = field(default_factory=dict)  # defaults that transformers 5 changed
    biased: bool = True  # blocks have all biases, else none
    without: tuple[str, ...] = ()  # parts of `names` that the class has not
    # Whether the logits are scaled where nothing says it, before transformers 5 and from then on.
    scaled: tuple[bool, bool] = (False, False)
    tokenizer: str = ""  # the kind of its files (side_tokenizers.py)
    classifier: str = ""  # modules of a head with classes, in place of the output: their beginning


class EncoderDecoder:
    """What a description says, from a configuration; `adapt` fills in what a family has of its
    own."""

    def __init__(self, family: Family, config: Config) -> None:
        self.family, self.config = family, config
        config.must("is_encoder_decoder", True)
        self.names = {k: v for k, v in family.names.items() if k not in family.without}
        self.notes: list[str] = []
        self.shared = True  # both sides have one embedding
        self.untied_where_twice = False  # the output's matrix is its own where it differs
        self.tied = config.flag("tie_word_embeddings", default=True)
        self.model: dict[str, Any] = {
            "preset": "torch-transformer",
            "stack": "encoder-decoder",
            **family.keys,
        }
        self.stacks: dict[str, dict[str, Any]] = {stack: {} for stack in STACKS}
        vocabulary = config.whole("vocab_size", 1, D.MAX_VOCABULARY)
        self.sides = {side: {"vocabulary": vocabulary} for side in ("source", "target")}
        family.adapt(self)
        ids, self.generation = generation.read(
            config, self.sides["target"]["vocabulary"], self.notes, True
        )
        self.sides["target"].update(ids)
        self.sides["source"].update(
            (name, ids[name]) for name in ("pad", "start", "end") if name in ids
        )
        self.prompts = _prompts(config)
        if family.classifier:  # read as if it had the logits of its embedding
            self.tied = True
            self.labels = labels_of(config)
            self.scores = scores_of(config, len(self.labels))
        config.finish((*family.harmless, *_HARMLESS), family.neutral)

    # ---- for adapt

    def activation(self, name: str) -> str:
        return _WORDS[self.config.activation(name)]

    def gated(self, name: str) -> tuple[str, bool]:
        """T5's feed-forward: "relu", or gated, as "gated-gelu", which is the approximation by
        tanh."""
        words = self.config.text(name).split("-")
        gated = words[0] == "gated" and len(words) == 2
        act = "gelu_new" if words == ["gated", "gelu"] else words[-1]
        if act not in ACTIVATIONS or len(words) != 1 + gated:
            raise self.config.expected(name, self.config.get(name), "such as relu or gated-gelu")
        self.config.must("dense_act_fn", act)
        return _WORDS[ACTIVATIONS[act]], gated

    def heads(self, stack: str, width: int, name: str) -> None:
        """Heads that share the width."""
        heads = self.config.whole(name, high=4096)
        if width % heads:
            raise self.config.error(name, f"{heads} does not divide the width {width}")
        self.stacks[stack].update(heads=heads, head_width=width // heads)

    # ---- the model

    def _embeddings(self, checkpoint: Checkpoint) -> list[tuple[str, str]]:
        """Names the embeddings and the output's matrix; (double, tensor) of those that are said to
        be one."""
        names, doubles = self.names, []
        one = [*self.family.embeddings] * self.shared
        one += [names.get("target.embedding", ""), names["output"]] * self.tied
        if checkpoint.alone(*one):
            raise checkpoint.parts_tied(*(name for name in one if name in checkpoint))
        if self.shared:
            alike = [name for name in self.family.embeddings if name in checkpoint]
            if self.untied_where_twice and alike and not checkpoint.same(names["output"], alike[0]):
                self.tied = names["output"] not in checkpoint
            if self.tied and names["output"] in checkpoint:
                alike.append(names["output"])
            first = alike[0] if alike else self.family.embeddings[0]
            names["source.embedding"] = names["target.embedding"] = first
            doubles = [(name, first) for name in alike[1:]]
        elif self.tied and names["output"] in checkpoint:
            if names["target.embedding"] not in checkpoint:
                names["target.embedding"] = names["output"]
            doubles = [(names["output"], names["target.embedding"])]
        if self.tied:
            names["output"] = names["target.embedding"]
        return doubles

    def content(self, name: str) -> dict[str, Any]:
        """What a description's TOML would say."""
        target = {**self.sides["target"], "embedding_shared": self.shared}
        tied = "source-embedding" if self.shared else "target-embedding"
        return {
            **self.model,
            "name": name,
            "output": tied if self.tied else "own",
            **self.stacks,
            "source": self.sides["source"],
            "target": target,
        }

    def build(self, name: str, checkpoint: Checkpoint) -> Model:
        doubles = self._embeddings(checkpoint)
        content = self.content(name)
        content["checkpoint"] = {"ignore": list(self.family.unused)}
        model = state_dict.read(
            checkpoint, parse_description(content, self.config.path), self.names
        )
        model.ignore = dict.fromkeys(model.ignore, BUFFER)
        self._check_biases(model)
        self._check_positions(model)
        for double, original in doubles:
            model.must_be_same(double, original, "and the configuration says that they are one")
        if self.prompts:
            model.descriptor["output"]["prompts"] = self.prompts
        if self.family.classifier:
            self._classify(model)
        elif self.generation:
            model.descriptor["generation"] = self.generation
            model.descriptor = D.with_defaults(model.descriptor)
            D.check(model.descriptor)
        model.notes += self.notes
        return model

    def _classify(self, model: Model) -> None:
        """Puts classes in place of the vocabulary's logits: out(tanh(dense(x))) of each position of
        the decoder."""
        d, start = model.descriptor, self.family.classifier
        model.parts = {key: part for key, part in model.parts.items() if key >> 24 != R.OUTPUT}
        d["output"] = {
            "output": D.CLASSES,
            "classes": len(self.labels),
            "labels": "".join(label + D.RECORD_END for label in self.labels),
            "prompts": self.prompts,
            "scores": self.scores,
            "head_width": d["decoder"]["width"],
            "head_bias": 1,
            "head_activation": D.TANH,
            "bias": 1,
        }
        model.descriptor = D.with_defaults(d)
        D.check(model.descriptor)
        for slot in R.slots(model.descriptor):
            if slot.stack == R.OUTPUT:
                module = "dense" if slot.role in (R.HEAD, R.HEAD + 1) else "out_proj"
                kind = "weight" if slot.role in (R.HEAD, R.CLASSIFIER) else "bias"
                model.parts[slot.key] = [Part(f"{start}.{module}.{kind}", shape_of(slot))]

    def _check_biases(self, model: Model) -> None:
        """PhasorError for a checkpoint without biases that its class has."""
        for kind in model.descriptor["kinds"]:
            for name, value in _ALL_BIASES.items():
                wanted = value * self.family.biased * (name != "cross_biases" or kind["cross"])
                if kind[name] != wanted:
                    stack = "decoder" if kind["cross"] else "encoder"
                    raise PhasorError(
                        f"{model.checkpoint.path}: {name} of the {stack}: {kind[name]}, "
                        f"{self.family.classes[0]} has {wanted}: tensors are missing or left over"
                    )

    def _check_positions(self, model: Model) -> None:
        """PhasorError where one layer's table would stand for those that are not there."""
        for stack in STACKS:
            name = self.names.get(f"{stack}.position_bias", "")
            for layer in range(self.stacks[stack]["layers"]):
                if name.format(layer=layer) not in model.checkpoint and name:
                    raise PhasorError(
                        f"{model.checkpoint.path}: missing: {name.format(layer=layer)} "
                        f"({stack} {layer} position bias)"
                    )


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
    """The model of a directory. PhasorError names the file and the field, or what is not built."""
    made = EncoderDecoder(family, config)
    return made.build(path.resolve().name, _with_trunk(checkpoint, family))


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
