"""EncoderDecoderModel of Hugging Face directories (Rothe et al. 2020): an encoder of one family,
and a decoder of another that has cross-attention beside what its own table says. And such a decoder
alone, whose source is what another encoder gives. And a model whose two stacks are of one decoder's
family (`Family.half_of`).

Each half is read as the stack that it is by itself, from its table in config.json and from the
tensors below its name; then they become one model.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, shown
from phasor.families import generation, nearest
from phasor.families.decoder import Decoder
from phasor.families.decoders import FAMILIES as DECODERS
from phasor.families.encoder import Encoder
from phasor.families.encoder_decoder import Pair
from phasor.families.encoders import FAMILIES as ENCODERS
from phasor.families.family import Family
from phasor.families.hf_config import NEWER, Config
from phasor.families.model import NO_BLOCK, Model, Part, shape_of
from phasor.families.names import bias_name
from phasor.families.stack import STACKS, Stack
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import words

FAMILY = Family(
    D.ENCODER_DECODER,
    ("encoder-decoder",),
    ("EncoderDecoderModel",),
    "",
    {},
    {},
    tokenizer="package",
)
# A decoder alone: its tokenizer is the target's.
ALONE = replace(FAMILY, types=(), classes=(), tokenizer="target-package")
_HARMLESS = words("vocab_size hidden_size num_hidden_layers num_attention_heads max_length")
_TIED, _OF_STACK = "tie_encoder_decoder", ("embeddings", "encoder.")
_BRIDGE = "enc_to_dec_proj.weight"  # from the encoder's width to that of a decoder with another
# The families whose tables name cross-attention.
_CROSSING = [family for family in (*ENCODERS, *DECODERS) if "cross_q" in family.names]


class Half(NamedTuple):
    """One of the two: its table, its tensors, and how the names of its stack begin."""

    config: Config
    checkpoint: Checkpoint
    start: str

    @property
    def kind(self) -> str:
        result: str = self.config.values["model_type"]
        return result


def _half(config: Config, checkpoint: Checkpoint, name: str) -> Half:
    """A half of a directory, without the defaults of a family."""
    inside = config.table(name)
    if inside is None:
        raise config.error(name, f"missing, the configuration of the {name}")
    version = config.values.get("transformers_version")
    values = {"transformers_version": version, **inside.values}
    values.pop(_TIED, None)  # the whole model's alone counts
    if not isinstance(values.get("model_type"), str):
        raise inside.expected("model_type", values.get("model_type"), "the name of a family")
    inside.finished = True  # what it has is asked for below
    start = f"{name}."
    tensors = {
        n.removeprefix(start): t for n, t in checkpoint.tensors.items() if n.startswith(start)
    }
    table = Config(config.path, values, prefix=start)
    return Half(table, Checkpoint(checkpoint.path, tensors), start)


def _with_defaults(half: Half, family: Family) -> Config:
    return Config(
        half.config.path, dict(half.config.values), family.defaults, family.newer, half.start
    )


def _shared(config: Config, halves: list[Half]) -> list[Half]:
    """The halves of a model whose decoder's stack has the encoder's weights: each tensor of the
    one that the other lacks, under that one's name. Cross-attention is the decoder's own."""
    source, target = halves
    if source.kind != target.kind:
        raise config.error(
            _TIED, f"true is not supported of {shown(source.kind)} and {shown(target.kind)}"
        )
    trunk = next((f.trunk for f in ENCODERS if source.kind in f.types), None)
    if trunk is None:
        return halves  # which are refused by their kind
    path = source.checkpoint.path
    first, last = source.checkpoint.tensors, target.checkpoint.tensors
    own = {trunk + name: t for name, t in first.items() if name.startswith(_OF_STACK)}
    for name in sorted(own.keys() & last.keys()):
        if not Checkpoint(path, {"a": own[name], "b": last[name]}).same("a", "b"):
            raise PhasorError(
                f"{path}: {target.start}{name} differs from {source.start}"
                f"{name.removeprefix(trunk)}, and {_TIED} says that they are one"
            )
    theirs = {n.removeprefix(trunk): t for n, t in last.items() if n.startswith(trunk)}
    theirs = {n: t for n, t in theirs.items() if n.startswith(_OF_STACK)}
    return [
        source._replace(checkpoint=Checkpoint(path, {**theirs, **first})),
        target._replace(checkpoint=Checkpoint(path, {**own, **last})),
    ]


def _encoder(half: Half) -> Encoder:
    whole = [family for family in ENCODERS if not family.custom_code]
    family = next((f for f in whole if half.kind in f.types), None)
    if family is None:
        types = nearest.some(half.kind, sorted(t for f in whole for t in f.types))
        raise half.config.error("model_type", f"{shown(half.kind)} is not supported here, {types}")
    config, head = _with_defaults(half, family), family.heads["Model"]
    made = Encoder(family, config, half.checkpoint, head)
    made.complete()
    return made


def _decoder(half: Half, first: int, crossing: bool = True) -> Encoder | Decoder:
    """first: so many kinds are the encoder's. crossing: it looks at what an encoder gives."""
    family = next((f for f in _CROSSING if half.kind in f.types), None)
    if family is None:
        types = nearest.some(half.kind, sorted(t for f in _CROSSING for t in f.types))
        what = f"{shown(half.kind)} is not supported with cross-attention, {types}"
        raise half.config.error("model_type", what)
    config = _with_defaults(half, family)
    config.must("add_cross_attention", crossing)
    config.must("position_embedding_type", "absolute")
    if family.stack == D.DECODER:
        config.must("is_decoder", True, False)  # it is one
        opened = Decoder(family, config, crossing=True)
        opened.open(half.checkpoint)
        opened.finish(first)
        decoder: Decoder | Encoder = opened
    else:
        config.must("is_decoder", True)
        head = family.heads["ForMaskedLM"]
        own = Encoder(family, config, half.checkpoint, head, R.DECODER)
        own.crossing = crossing
        own.complete(first)
        decoder = own
    decoder.cross_cols = decoder.stack["width"]
    return decoder


class _Joined(Pair):
    """Two halves, whose tensors have names of their own below `starts`."""

    def __init__(
        self, encoder: Stack, decoder: Stack, checkpoint: Checkpoint, starts: tuple[str, str]
    ) -> None:
        super().__init__(encoder, decoder, checkpoint)
        self.starts, self.output = starts, decoder.output
        for start, stack in zip(starts, self.stacks):
            stack.used = {start + name: why for name, why in stack.used.items()}
            self.ignore |= {start + name: why for name, why in stack.ignore.items()}
            self.doubles += [(start + a, start + b) for a, b in stack.doubles]

    def parts(self, slot: R.Slot) -> list[Part]:
        target = slot.stack in (R.TARGET, R.DECODER, R.OUTPUT)
        start, found = self.starts[target], self.stacks[target].parts(slot)
        return [p if p.name is None else p._replace(name=start + p.name) for p in found]


def _bridge(model: Model, width: int) -> None:
    """Puts the projection of the encoder's output into the keys and values that read it."""
    bias = bias_name(_BRIDGE)
    for name, shape in (_BRIDGE, (width, model.descriptor["encoder"]["width"])), (bias, (width,)):
        if name not in model.checkpoint:
            raise PhasorError(
                f"{model.checkpoint.path}: missing: {name} (the encoder's width is another than"
                " the decoder's)"
            )
        if model.checkpoint.shape(name) != shape:
            raise PhasorError(
                f"{model.checkpoint.path}: misshapen: {name} has shape"
                f" {model.checkpoint.shape(name)}, expected {shape}"
            )
        model.used[name] = "multiplied into the keys and values of cross-attention"
    if model.problems():
        return  # they are said when the file is written
    weight, offset = (model.checkpoint.load(n).astype(np.float64) for n in (_BRIDGE, bias))
    for slot in R.slots(model.descriptor):
        if slot.stack != R.DECODER or slot.role != R.CROSS_KV:
            continue
        matrix, own = (
            np.concatenate(
                [
                    value.T if part.transposed else value
                    for part in model.parts[key]
                    for value in [model.checkpoint.load(str(part.name)).astype(np.float64)]
                ]
            )
            for key in (slot.key, slot.key + 1)
        )
        model.values[slot.key] = matrix @ weight
        model.values[slot.key + 1] = matrix @ offset + own


def _add_ids(pair: Pair, config: Config, half: Half) -> None:
    """What generation.read says; ids that the directory leaves out are the decoder's."""
    for name in words("bos_token_id eos_token_id pad_token_id"):
        if config.values.get(name) is None and half.config.values.get(name) is not None:
            config.values[name] = half.config.values[name]
    side = pair.decoder.side
    ids, pair.generation = generation.read(config, side["vocabulary"], pair.notes, True)
    if pair.decoder.position_rows and ids["decoder_start"] == ids.get("pad"):
        raise config.error(
            "decoder_start_token_id",
            f"{ids['decoder_start']} is the pad too, which {half.kind} gives no position",
        )
    side.update(ids)


def read(path: Path, config: Config, checkpoint: Checkpoint) -> tuple[Model, Family]:
    """The model of a directory, and how its tokenizer is found. PhasorError names the file and the
    field, or what is not supported."""
    config.must("is_encoder_decoder", True)
    halves = [_half(config, checkpoint, stack) for stack in STACKS]
    if config.flag(_TIED, default=False):
        halves = _shared(config, halves)
    source = _encoder(halves[0])
    target = _decoder(halves[1], len(source.kinds))
    tensors = dict(checkpoint.tensors)
    for half in halves:  # of both, where they share
        tensors |= {half.start + name: t for name, t in half.checkpoint.tensors.items()}
    whole = Checkpoint(checkpoint.path, tensors)
    pair = _Joined(source, target, whole, (halves[0].start, halves[1].start))
    _add_ids(pair, config, halves[1])
    config.finish(_HARMLESS)
    model = pair.model(path.resolve().name)
    if source.stack["width"] != target.stack["width"]:
        _bridge(model, target.stack["width"])
    used = {p.name for parts in model.parts.values() for p in parts} | model.used.keys()
    for name in tensors.keys() - checkpoint.tensors.keys() - used:
        del tensors[name]
    one = source.side["vocabulary"] == target.side["vocabulary"]
    if one and halves[0].kind == halves[1].kind:
        return model, FAMILY
    return model, replace(FAMILY, tokenizer="source-package")


# ---- Two stacks of one decoder's family


def read_halves(path: Path, config: Config, family: Family, checkpoint: Checkpoint) -> Model:
    """The model of such a directory. PhasorError as read() has it."""
    config.must("is_encoder_decoder", True)
    tied = config.flag("tie_word_embeddings", default=True)
    checkpoint = family.texts_of(config, checkpoint)
    made: list[Decoder] = []
    assert family.half_of is not None  # or else it is another reader's
    for role, place in zip((R.ENCODER, R.DECODER), STACKS):
        inside, crossing = _half(config, checkpoint, place).config.values, role == R.DECODER
        own = replace(family.half_of, trunk=f"{family.trunk}{place}.")
        values = {**inside, "tie_word_embeddings": tied and crossing}
        half = Config(config.path, values, own.defaults, own.newer, f"{place}.")
        half.must("model_type", *own.types)
        half.must("is_decoder", crossing)
        half.must("cross_attention_hidden_size", *(stack.stack["width"] for stack in made))
        stack = Decoder(own, half, crossing=crossing, role=role)
        stack.open(checkpoint)
        if (config.version or 0) < NEWER:  # to whose halves the whole model's size goes
            half.must("vocab_size", config.get("vocab_size"))
        made.append(stack)
    source, target = made
    target.finish(len(source.kinds))
    pair = _Joined(source, target, checkpoint, ("", ""))
    _add_ids(pair, config, Half(target.config, checkpoint, ""))
    ids = target.side
    source.side.update((name, ids[name]) for name in ("pad", "start", "end") if name in ids)
    family.pair(pair, config)
    config.finish((*_HARMLESS, *family.harmless), family.neutral)
    return pair.model(path.resolve().name)


# ---- A decoder alone

_ENDS = ("LMHeadModel", "ForCausalLM", "BertGenerationDecoder")  # of the classes


def is_alone(values: Mapping[str, Any]) -> bool:
    """Whether a configuration is of a decoder with cross-attention, and of no encoder."""
    return values.get("add_cross_attention") is True and _decodes(values, D.ENCODER, D.DECODER)


def is_causal(values: Mapping[str, Any]) -> bool:
    """Whether a configuration is of an encoder's family that is used as a language model."""
    says = values.get("is_decoder") is True and values.get("add_cross_attention") is not True
    return says and _decodes(values, D.ENCODER)


def _decodes(values: Mapping[str, Any], *stacks: int) -> bool:
    """Whether the configuration is of a causal language model, in a family that has them."""
    names, kind = values.get("architectures"), values.get("model_type")
    return (
        any(kind in family.types for family in _CROSSING if family.stack in stacks)
        and isinstance(names, list)
        and len(names) == 1
        and isinstance(names[0], str)
        and names[0].endswith(_ENDS)
    )


class _Nothing(Stack):
    """An encoder of one block that adds zeros, with the embedding of a decoder."""

    def __init__(self, decoder: Stack) -> None:
        super().__init__(R.ENCODER, decoder.config, {}, decoder.checkpoint)
        self.decoder = decoder
        self.side = {"vocabulary": decoder.side["vocabulary"]}
        self.stack = {"width": decoder.stack["width"]}
        self.kind = NO_BLOCK
        self.blocks(1)
        self.finish()

    def parts(self, slot: R.Slot) -> list[Part]:
        shape = shape_of(slot)
        if slot.stack == R.SOURCE:
            return [self.decoder.part("embedding", False, shape)]
        return [Part(None, shape)]


def read_alone(path: Path, config: Config, checkpoint: Checkpoint) -> Model:
    """The model of such a decoder's directory. Its source is given as states; one of ids is their
    rows of the decoder's own embedding, as encoder_hidden_states. PhasorError as read() has it."""
    half = Half(config, checkpoint, "")
    target = _decoder(half, 1)
    pair = _Joined(_Nothing(target), target, checkpoint, ("", ""))
    pair.notes.append(
        "the source is what another encoder gives (--embeddings FILE.npy); one of ids is their rows"
        " of the decoder's embedding"
    )
    _add_ids(pair, Config(config.path, dict(config.values)), half)
    target.side["embedding_shared"] = 1
    return pair.model(path.resolve().name)


def read_causal(path: Path, config: Config, checkpoint: Checkpoint) -> tuple[Model, Family]:
    """The language model of a directory whose family is an encoder's. PhasorError as read() has
    it."""
    half = Half(config, checkpoint, "")
    made = _decoder(half, 0, crossing=False)
    whole = Config(config.path, dict(config.values))
    ids, made.generation = generation.read(whole, made.side["vocabulary"], made.notes)
    made.side.update(ids)
    if made.position_rows:
        made.notes.append("positions are those of the class; transformers' generate counts from 0")
    return made.model(path.resolve().name), made.family
