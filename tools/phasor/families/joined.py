"""EncoderDecoderModel of Hugging Face directories (Rothe et al. 2020): an encoder of one family,
and a decoder of another that has cross-attention beside what its own table says. And such a decoder
alone, whose source is what another encoder gives.

Each half is read as the model that it is by itself, from its table in config.json and from the
tensors below its name; then they become one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import numpy as np

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, shown
from phasor.families import encoder_decoder, generation
from phasor.families.bert_like import SIZES
from phasor.families.decoder import Decoder
from phasor.families.decoders.gpt import GPT2
from phasor.families.encoder import Encoder, Family
from phasor.families.encoders import FAMILIES as WHOLE_ENCODERS
from phasor.families.encoders.bert import BERT
from phasor.families.encoders.electra import ELECTRA
from phasor.families.encoders.roberta import ROBERTA
from phasor.families.encoders.roformer import ROFORMER
from phasor.families.heads import Head
from phasor.families.hf_config import Config
from phasor.families.model import NO_BLOCK, Model, Part, shape_of
from phasor.families.names import bias_name, tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words


def _bert_generation(e: Encoder) -> None:
    """Its code adds the table of positions beside relative ones, too."""
    e.config.must("position_embedding_type", "absolute")


# Half of a model only: BERT without token types, and with RoBERTa's names of an output's bias.
BERT_GENERATION = Family(
    ("bert-generation",),
    ("BertGeneration",),
    "bert.",
    {part: name for part, name in BERT.names.items() if part != "segments"},
    {
        "Model": Head(unused=("lm_head.*",)),
        "ForMaskedLM": Head(
            D.LOGITS, last="lm_head.decoder", biases=("lm_head.bias", "lm_head.decoder.bias")
        ),
    },
    settings(
        """
        vocab_size           50358
        hidden_size          1024
        num_hidden_layers    24
        num_attention_heads  16
        intermediate_size    4096
        bos_token_id         2
        eos_token_id         1
        pad_token_id         0
        """,
        {name: value for name, value in SIZES.items() if name != "type_vocab_size"},
    ),
    harmless=("type_vocab_size",),
    adapt=_bert_generation,
)
ENCODERS = (*WHOLE_ENCODERS, BERT_GENERATION)
FAMILY = encoder_decoder.Family(
    ("encoder-decoder",),
    ("EncoderDecoderModel",),
    names={},
    embeddings=(),
    defaults={},
    adapt=lambda made: None,
    tokenizer="package",
)
# A decoder alone: its tokenizer is the target's.
ALONE = replace(FAMILY, types=(), classes=(), tokenizer="target-package")
# What only the halves say.
_HARMLESS = words("vocab_size hidden_size num_hidden_layers num_attention_heads max_length")
_TARGET = {R.SOURCE: R.TARGET, R.ENCODER: R.DECODER}  # an encoder's tensors as a decoder's
_TIED, _OF_STACK = "tie_encoder_decoder", ("embeddings", "encoder.")
_BRIDGE = "enc_to_dec_proj.weight"  # from the encoder's width to that of a decoder with another


class Crossing(NamedTuple):
    """Cross-attention of a decoder's class: its names; and whether matrices are stored as (inputs,
    outputs)."""

    names: Mapping[str, str]
    transposed: bool = False


BERT_CROSSING = Crossing(
    tensor_names(
        "encoder.layer.{layer}",
        """
        cross_q     .crossattention.self.query
        cross_k     .crossattention.self.key
        cross_v     .crossattention.self.value
        cross_out   .crossattention.output.dense
        cross_norm  .crossattention.output.LayerNorm
        """,
    )
)
_GPT2 = Crossing(
    tensor_names(
        "h.{layer}",
        """
        cross_q     .crossattention.q_attn
        cross_kv    .crossattention.c_attn
        cross_out   .crossattention.c_proj
        cross_norm  .ln_cross_attn
        """,
    ),
    transposed=True,
)
_BERTS = (BERT, ROBERTA, BERT_GENERATION, ELECTRA, ROFORMER)
_CROSSINGS = {kind: BERT_CROSSING for family in _BERTS for kind in family.types} | {"gpt2": _GPT2}
_ROLES = {
    R.CROSS_BEFORE: ("cross_norm",),
    R.CROSS_AFTER: ("cross_norm",),
    R.CROSS_Q: ("cross_q",),
    R.CROSS_KV: ("cross_k", "cross_v"),
    R.CROSS_OUT: ("cross_out",),
}


class Half(NamedTuple):
    """One of the two: its table, its tensors, and how the names of its stack begin."""

    config: Config
    checkpoint: Checkpoint
    start: str

    @property
    def kind(self) -> str:
        return self.config.values["model_type"]


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


def _with_defaults(half: Half, family: Any) -> Half:
    config = Config(
        half.config.path, dict(half.config.values), family.defaults, family.newer, half.start
    )
    return half._replace(config=config)


def _shared(config: Config, halves: list[Half]) -> list[Half]:
    """The halves of a model whose decoder's stack has the encoder's weights: each tensor of the
    one that the other lacks, under that one's name. Cross-attention is the decoder's own."""
    source, target = halves
    if source.kind != target.kind:
        raise config.error(
            _TIED, f"true is not built of {shown(source.kind)} and {shown(target.kind)}"
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


def _encoder(half: Half, name: str) -> Model:
    family = next((f for f in ENCODERS if half.kind in f.types and not f.custom_code), None)
    if family is None:
        types = [t for f in ENCODERS if not f.custom_code for t in f.types]
        raise half.config.error(
            "model_type", f"{shown(half.kind)} is not built here; there are {', '.join(types)}"
        )
    half = _with_defaults(half, family)
    return Encoder(family, half.config, half.checkpoint, family.heads["Model"]).build(name)


def _decoder(half: Half, name: str) -> tuple[Model, str]:
    """The decoder as a model by itself, and how the names of its stack begin."""
    if half.kind not in _CROSSINGS:
        raise half.config.error(
            "model_type",
            f"{shown(half.kind)} is not built with cross-attention; there are"
            f" {', '.join(_CROSSINGS)}",
        )
    family = next(f for f in (*ENCODERS, GPT2) if half.kind in f.types)
    half = _with_defaults(half, family)
    config = half.config
    config.must("add_cross_attention", True)
    config.must("position_embedding_type", "absolute")
    if family is GPT2:
        config.must("is_decoder", True, False)  # it is one
        decoder = Decoder(family, config)
        return decoder.build(name, half.checkpoint), decoder.trunk
    config.must("is_decoder", True)
    encoder = Encoder(family, config, half.checkpoint, family.heads["ForMaskedLM"])
    return encoder.build(name), encoder.trunk


def _moved(key: int, kinds: int) -> int:
    """The key of a decoder's tensor, of whose kinds so many come before its own."""
    stack = key >> 24
    if stack == R.KINDS:
        return key + (kinds << 8)
    return _TARGET.get(stack, stack) << 24 | key & 0xFFFFFF


def _crossing_kind(kind: dict[str, Any]) -> dict[str, Any]:
    """A kind of the decoder's blocks, with cross-attention like its self-attention."""
    own = {f"cross_{n}": kind[n] for n in ("heads", "kv_heads", "head_width", "scale")}
    return {**kind, **own, "cross": 1, "cross_biases": 15}


def _descriptor(
    source: dict[str, Any], target: dict[str, Any], side: dict[str, Any], said: dict[str, Any]
) -> dict[str, Any]:
    """Of both halves. side: ids of the target; said: what is recommended."""
    name = "decoder" if "decoder" in target else "encoder"
    own = "target" if "decoder" in target else "source"
    kinds = source["kinds"]
    stack = {key: value for key, value in target[name].items() if key != "cross_width"}
    stack["layers"] = [
        n for kind, weights in D.layers_of(stack) for n in (kind + len(kinds), weights)
    ]
    tied = target["output"]["tied"] != D.TIED_OWN
    return D.with_defaults(
        {
            "model": {**source["model"], "stack": D.ENCODER_DECODER},
            "source": source["source"],
            "target": {**target[own], **side},
            "encoder": source["encoder"],
            "decoder": stack,
            "kinds": [*kinds, *map(_crossing_kind, target["kinds"])],
            "output": {**target["output"], "tied": D.TIED_TARGET if tied else D.TIED_OWN},
            **({"generation": said} if said else {}),
        }
    )


def _crossing_parts(slot: R.Slot, crossing: Crossing, start: str, cols: int) -> list[Part]:
    """Where the values of a slot of cross-attention come from. cols: inputs of k and v as the
    checkpoint has them."""
    bias, role, shape = bool(slot.role & 1), slot.role & ~1, shape_of(slot)
    wanted, parts = _ROLES[role], slot.parts
    if role == R.CROSS_KV:
        shape = (*shape[:1], *([] if bias else [cols]))
        if "cross_kv" in crossing.names:
            wanted, parts = ("cross_kv",), (sum(parts),)
    turned = crossing.transposed and len(shape) == 2
    out = []
    for part, rows in zip(wanted, parts):
        name = start + crossing.names[part].format(layer=slot.set)
        whole = (rows, *shape[1:])
        out.append(
            Part(
                bias_name(name) if bias else name,
                whole[::-1] if turned else whole,
                transposed=turned,
            )
        )
    return out


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
                    for value in [model.checkpoint.load(part.name).astype(np.float64)]
                ]
            )
            for key in (slot.key, slot.key + 1)
        )
        model.values[slot.key] = matrix @ weight
        model.values[slot.key + 1] = matrix @ offset + own


def _ids(config: Config, half: Half, vocabulary: int, notes: list[str]) -> tuple[dict, dict]:
    """What generation.read says; ids that the directory leaves out are the decoder's."""
    for name in words("bos_token_id eos_token_id pad_token_id"):
        if config.values.get(name) is None and half.config.values.get(name) is not None:
            config.values[name] = half.config.values[name]
    ids, said = generation.read(config, vocabulary, notes, True)
    if half.kind in ROBERTA.types and ids["decoder_start"] == ids.get("pad"):
        raise config.error(
            "decoder_start_token_id",
            f"{ids['decoder_start']} is the pad too, which {half.kind} gives no position",
        )
    return ids, said


def read(
    path: Path, config: Config, checkpoint: Checkpoint
) -> tuple[Model, encoder_decoder.Family]:
    """The model of a directory, and how its tokenizer is found. PhasorError names the file and the
    field, or what is not built."""
    config.must("is_encoder_decoder", True)
    name = path.resolve().name
    halves = [_half(config, checkpoint, stack) for stack in encoder_decoder.STACKS]
    if config.flag(_TIED, default=False):
        halves = _shared(config, halves)
    source = _encoder(halves[0], name)
    target, trunk = _decoder(halves[1], name)
    first, last = source.descriptor, target.descriptor
    notes = [*source.notes, *target.notes]
    own = "target" if "target" in last else "source"
    ids, said = _ids(config, halves[1], last[own]["vocabulary"], notes)
    config.finish(_HARMLESS)
    d = _descriptor(first, last, ids, said)
    D.check(d)
    tensors = dict(checkpoint.tensors)
    model = Model(d, Checkpoint(checkpoint.path, tensors), notes=notes)
    parts: dict[int, list[Part]] = {}
    for half, one in zip(halves, (source, target)):
        kinds = len(first["kinds"]) if one is target else 0
        key_of = (lambda key: _moved(key, kinds)) if one is target else (lambda key: key)
        model.values |= {key_of(key): value for key, value in one.values.items()}
        model.used |= {half.start + n: why for n, why in one.used.items()}
        model.ignore |= {half.start + n: why for n, why in one.ignore.items()}
        parts |= {
            key_of(key): [
                part if part.name is None else part._replace(name=half.start + part.name)
                for part in found
            ]
            for key, found in one.parts.items()
        }
        names = {part.name for found in one.parts.values() for part in found} | one.used.keys()
        tensors |= {half.start + n: t for n, t in half.checkpoint.tensors.items() if n in names}
    width, start = d["decoder"]["width"], halves[1].start + trunk
    crossing = _CROSSINGS[halves[1].kind]
    model.fill(lambda slot: parts.get(slot.key) or _crossing_parts(slot, crossing, start, width))
    if d["encoder"]["width"] != width:
        _bridge(model, width)
    one = d["source"]["vocabulary"] == d["target"]["vocabulary"]
    if one and halves[0].kind == halves[1].kind:
        return model, FAMILY
    return model, replace(FAMILY, tokenizer="source-package")


# ---- A decoder alone

_ENDS = ("LMHeadModel", "ForCausalLM", "BertGenerationDecoder")  # of the classes


def is_alone(values: Mapping[str, Any]) -> bool:
    """Whether a configuration is of a decoder with cross-attention, and of no encoder."""
    names = values.get("architectures")
    return (
        values.get("add_cross_attention") is True
        and values.get("model_type") in _CROSSINGS
        and isinstance(names, list)
        and len(names) == 1
        and isinstance(names[0], str)
        and names[0].endswith(_ENDS)
    )


def read_alone(path: Path, config: Config, checkpoint: Checkpoint) -> Model:
    """The model of such a decoder's directory. Its source is given as states; one of ids is their
    rows of the decoder's own embedding, as encoder_hidden_states. PhasorError as read() has it."""
    half = Half(config, checkpoint, "")
    target, trunk = _decoder(half, path.resolve().name)
    last = target.descriptor
    own, name = ("target", "decoder") if "target" in last else ("source", "encoder")
    width, vocabulary = last[name]["width"], last[own]["vocabulary"]
    notes = [
        *target.notes,
        "the source is what another encoder gives (--embeddings FILE.npy); one of ids is their rows"
        " of the decoder's embedding",
    ]
    ids, said = _ids(Config(config.path, dict(config.values)), half, vocabulary, notes)
    source = D.with_defaults(
        {
            "model": {**last["model"], "stack": D.ENCODER},
            "source": {"vocabulary": vocabulary},
            "encoder": {"width": width, "layers": [0, 0]},
            "kinds": [NO_BLOCK],
            "output": {"output": D.HIDDEN},
        }
    )
    d = _descriptor(source, last, {**ids, "embedding_shared": 1}, said)
    D.check(d)
    model = Model(d, checkpoint, used=target.used, ignore=target.ignore, notes=notes)
    model.values = {_moved(key, 1): value for key, value in target.values.items()}
    parts = {_moved(key, 1): found for key, found in target.parts.items()}
    parts[R.key_of(R.SOURCE, 0, R.EMBEDDING)] = parts.pop(R.key_of(R.TARGET, 0, R.EMBEDDING))
    crossing = _CROSSINGS[half.kind]

    def parts_of(slot: R.Slot) -> list[Part]:
        if slot.key in parts:
            return parts[slot.key]
        if slot.stack == R.ENCODER:
            return [Part(None, shape_of(slot))]
        return _crossing_parts(slot, crossing, trunk, width)

    return model.fill(parts_of)
