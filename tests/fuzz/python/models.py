"""A tiny valid directory of every family that the converter knows: its own defaults with small
sizes, and the tensors that it asks for."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import translators
from phasor.checkpoints.tensors import Checkpoint, Shape, Stored, contiguous
from phasor.families import encoder_decoder, encoder_decoders, encoders, joined
from phasor.families.decoder import Decoder
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.hf_config import Config
from phasor.format import descriptor as D
from phasor.sources.hugging_face import directory as hugging_face

ROWS, WIDTH, HEADS, HIDDEN, LAYERS, POSITIONS = 24, 16, 2, 24, 2, 16
_SIZES = {
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": POSITIONS,
    "head_dim": WIDTH // HEADS,
    "embedding_size": WIDTH,
    "rotary_dim": 4,
    "word_embed_proj_dim": WIDTH,
}
# What no default says.
_OWN: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "albert": {"embedding_size": 8},
    "codegen": {"n_head": 4},
    "esm": {"pad_token_id": 1, "token_dropout": False},
    "eurobert": {"classifier_pooling": "mean"},
    "granitemoehybrid": {"num_local_experts": 0, "layer_types": ["attention"] * LAYERS},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": "p2c|c2p",
        "position_buckets": 6,
        "norm_rel_ebd": "layer_norm",
    },
    "lfm2": {"layer_types": ["conv", *["full_attention"] * (LAYERS - 1)]},
    "gemma4_text": {
        "layer_types": ["full_attention"] * LAYERS,
        "global_head_dim": WIDTH // HEADS,
        "hidden_size_per_layer_input": 3,
        "vocab_size_per_layer_input": ROWS,
        "num_kv_shared_layers": LAYERS - 1,
    },
    "n_embd": {  # the family that is told by this field
        "vocab_size": ROWS,
        "n_embd": WIDTH,
        "n_head": HEADS,
        "n_layer": LAYERS,
        "n_inner": HIDDEN,
        "n_positions": POSITIONS,
        "rotary_emb_fraction": 1.0,
        "activation_function": "swiglu",
    },
}
_SQUARE = (WIDTH, WIDTH)


def _of_each_layer(**shapes: Shape) -> dict[str, Shape]:
    return {
        f"encoder.layer.{i}.attention.self.{name.replace('__', '.')}": shape
        for i in range(LAYERS)
        for name, shape in shapes.items()
    }


# The tensors that are read before any is asked for.
_FIRST: dict[str, dict[str, Shape]] = {
    "mpnet": {"encoder.relative_attention_bias.weight": (32, HEADS)},
    "deberta": {
        "encoder.rel_embeddings.weight": (2 * POSITIONS, WIDTH),
        **_of_each_layer(
            in_proj__weight=(3 * WIDTH, WIDTH),
            q_bias=(WIDTH,),
            v_bias=(WIDTH,),
            pos_proj__weight=_SQUARE,
            pos_q_proj__weight=_SQUARE,
            pos_q_proj__bias=(WIDTH,),
        ),
    },
    "deberta-v2": {
        "encoder.rel_embeddings.weight": (12, WIDTH),
        "encoder.LayerNorm.weight": (WIDTH,),
        "encoder.LayerNorm.bias": (WIDTH,),
        **_of_each_layer(
            pos_key_proj__weight=_SQUARE,
            pos_key_proj__bias=(WIDTH,),
            pos_query_proj__weight=_SQUARE,
            pos_query_proj__bias=(WIDTH,),
        ),
    },
    "lfm2": {"layers.0.conv.conv.weight": (WIDTH, 1, 3)},
    "apertus": {
        f"layers.{i}.mlp.act_fn.{name}": shape
        for i in range(LAYERS)
        for name, shape in {"alpha_p": (1,), "alpha_n": (1,), "beta": (), "eps": ()}.items()
    },
}


class Directory(NamedTuple):
    """config.json, and the tensors' shapes."""

    config: dict[str, Any]
    shapes: dict[str, Shape]
    asked: frozenset[str]  # every field that was looked for

    def arrays(self, seed: int = 3) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            name: rng.normal(float("norm" in name.lower()), 0.3, shape).astype("<f4")
            for name, shape in self.shapes.items()
        }


def _zeros(shapes: dict[str, Shape]) -> Checkpoint:
    return Checkpoint(
        Path("model.safetensors"),
        {
            name: Stored(
                np.zeros(4 * int(np.prod(shape)), np.uint8), "<f4", shape, contiguous(shape), 0
            )
            for name, shape in shapes.items()
        },
    )


def _built(family: Any, config: Config, shapes: dict[str, Shape]) -> Any:
    if family.stack == D.DECODER:
        return Decoder(family, config).build("m", _zeros(shapes))
    head = hugging_face._head(config, family)
    return Encoder(family, config, _zeros(shapes), head).build("m")


def _translator(kind: str, class_name: str, **more: Any) -> Directory:
    every = encoders.FAMILIES + encoder_decoders.FAMILIES
    family = next(f for f in every if kind in f.types and class_name.startswith(f.classes))
    values = translators.configuration(kind, architectures=[class_name], **more)
    config = Config(Path("config.json"), dict(values), family.defaults, family.newer)
    shapes = {name: value.shape for name, value in translators.tensors(kind).items()}
    if family.half_of:
        joined.read_halves(Path("m"), config, family, _zeros(shapes))
    elif family.stack == D.ENCODER_DECODER:
        encoder_decoder.EncoderDecoder(family, config, _zeros(shapes))
    else:  # its encoder alone
        _built(family, config, shapes)
    return Directory(values, shapes, frozenset(config.asked))


def _joined(**more: Any) -> Directory:
    values = translators.joined_configuration(**more)
    shapes = {name: value.shape for name, value in translators.joined_tensors().items()}
    config = Config(Path("config.json"), json.loads(json.dumps(values)))
    joined.read(Path("m"), config, _zeros(shapes))
    return Directory(values, shapes, frozenset(config.asked))


ALONE = ("bert", "BertLMHeadModel")  # a decoder with cross-attention


def _alone(**more: Any) -> Directory:
    values = translators.alone_configuration(**more)
    shapes = {name: value.shape for name, value in translators.alone_tensors().items()}
    config = Config(Path("config.json"), json.loads(json.dumps(values)))
    joined.read_alone(Path("m"), config, _zeros(shapes))
    return Directory(values, shapes, frozenset(config.asked))


def _has_class(family: Family, class_name: str) -> bool:
    return any(class_name == start + end for start in family.classes for end in ("", *family.heads))


@functools.cache
def directory(kind: str, class_name: str, **more: Any) -> Directory:
    """Of a model type and a class of transformers; `more` goes into config.json."""
    if (kind, class_name) == ALONE:
        return _alone(**more)
    if kind in joined.FAMILY.types:
        return _joined(**more)
    if any(kind in f.types for f in encoder_decoders.FAMILIES):
        return _translator(kind, class_name, **more)
    families = [f for f in hugging_face.FAMILIES if kind in f.types]
    family = next((f for f in families if _has_class(f, class_name)), families[0])
    values: dict[str, Any] = {"model_type": kind, "architectures": [class_name]}
    for name, value in _SIZES.items():
        if (field := family.fields.get(name, name)) in family.defaults:
            values[field] = value
    values |= {**_OWN.get(family.told_by or kind, {}), "transformers_version": "4.57.6", **more}
    shapes: dict[str, Shape] = {}
    if family.stack == D.DECODER:
        pass
    elif class_name not in [f"{start}Model" for start in family.classes]:
        shapes = {family.trunk + "x": (1,)}  # a model with a head has its trunk's names
    trunk = family.trunk if shapes else ""
    shapes |= {trunk + name: shape for name, shape in _FIRST.get(kind, {}).items()}
    config = Config(
        Path("config.json"), json.loads(json.dumps(values)), family.defaults, family.newer
    )
    model = _built(family, config, shapes)
    found = {part.name: part.shape for parts in model.parts.values() for part in parts if part.name}
    shapes.pop(family.trunk + "x", None)
    return Directory(values, {**shapes, **found}, frozenset(config.asked))


def classes() -> list[tuple[str, str]]:
    """(model_type, class) of everything that is built."""
    out = []
    for family in hugging_face.FAMILIES:
        if family.stack == D.ENCODER_DECODER:
            continue
        own = family.stack == D.DECODER
        names = family.classes if own else [family.classes[0] + head for head in family.heads]
        out += [(family.types[0], name) for name in names]
        out += [(kind, names[0]) for kind in family.types[1:] if own or len(family.classes) == 1]
    every = (*encoder_decoders.FAMILIES, joined.FAMILY)
    return out + [(kind, f.classes[0]) for f in every for kind in f.types] + [ALONE]
