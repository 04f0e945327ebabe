"""A Hugging Face directory as a source: config.json says the family and the class, the weights lie
beside it.

A directory of sentence-transformers (modules.json) has its encoder's files there or one folder
deeper, and says how the hidden states become one vector. The ids that begin and end a decoder's
texts come from generation_config.json, then config.json, then the tokenizer.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from phasor import side_files
from phasor.checkpoints.checkpoint import has_weights, open_checkpoint
from phasor.checkpoints.tensors import Checkpoint
from phasor.checkpoints.wrappers import unwrapped, within_model
from phasor.errors import PhasorError, printable, shown
from phasor.families import (
    decoders,
    encoder_decoder,
    encoder_decoders,
    encoders,
    generation,
    joined,
    nearest,
    pictures,
)
from phasor.families.decoder import Decoder
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import Config, refuse
from phasor.families.model import Model
from phasor.files import has_file, instead_of, read_json
from phasor.format import descriptor as D
from phasor.sources.hugging_face import packed
from phasor.sources.lora import adapter as lora
from phasor.sources.sentence_transformers import embedder, late, static
from phasor.sources.sentence_transformers import modules as sentence

FAMILIES = (
    *(family for family in encoders.FAMILIES if not family.half),
    *(*decoders.FAMILIES, *encoder_decoders.FAMILIES, joined.FAMILY),
)
_LISTED = "docs/reference/families.md lists what is"
_LONGEST_TYPE = 100  # a model type that others are compared with
# Types that are not supported, and what they are made of where their names do not say it.
_KIN = {
    **{"led": "bart", "prophetnet": "bart", "xlm-prophetnet": "mbart"},
    **{"nllb-moe": "m2m_100", "switch_transformers": "t5"},
}


# What those classes of a decoder do with its hidden states that give no logits of a vocabulary.
_DECODER_HEADS = {
    "ForSequenceClassification": Head(D.CLASSES, D.LAST, last="score", last_bias=False),
    "ForTokenClassification": Head(D.CLASSES, last="score", scores=D.SOFTMAX),
}

_ADAPTER = "adapter_config.json"
_CODE_NOTE = (
    "auto_map: the directory brings code of its own, which is not run; the library's class is"
    " restated, and --expect proves the result"
)


class Directory(NamedTuple):
    """A directory, read."""

    model: Model
    folder: Path  # where the tokenizer's files are
    family: Family
    late: late.Late | None = None
    lowercase: bool = False  # texts become lower case

    @property
    def side(self) -> str:
        """Of the descriptor: whose tokenizer it is."""
        return "source" if "source" in self.model.descriptor else "target"


class Changes(NamedTuple):
    """What the user has done to the model of a directory."""

    context: int = 0  # the longest sequence of a decoder's file; 0: what the directory says
    lora: Path | None = None  # the folder of an adapter that is added
    rank: embedder.Judge | None = None  # a language model becomes one that ranks


def read(path: Path, changes: Changes = Changes()) -> Directory:
    """The model of a directory. PhasorError names the file and the field, or the architecture, that
    is not supported."""
    modules = sentence.read(path) if has_file(path / "modules.json") else None
    folder = modules.folder if modules else path
    if modules and modules.static:
        if changes != Changes():
            flags = "--rope-context, --lora, --rank-template"
            raise PhasorError(f"{flags}: not of static embeddings")
        return Directory(static.read(path, folder, modules.head), folder, static.FAMILY)
    if changes.lora is None and has_file(folder / _ADAPTER):  # which the library would load
        if not has_weights(folder):
            raise PhasorError(f"{folder}: {instead_of(folder)}")
        raise PhasorError(
            f"{folder / _ADAPTER}: is an adapter beside the model's weights: --lora {folder} adds"
            " it; remove this file if the weights have it in them"
        )
    where = folder / "config.json"
    values = read_json(where)
    unpack = packed.unpacking(where, values)
    part = pictures.text_part(where, values)

    @cache
    def opened(folder: Path) -> Checkpoint:
        checkpoint = unpack(_opened(folder))
        return part.within(checkpoint) if part else checkpoint

    side_files.read(folder / "preprocessor_config.json")
    if part and (modules or changes.lora is not None):
        raise PhasorError(
            f"{path}: modules.json and --lora are not supported for a model with pictures"
        )
    if part:
        part.part_ends(opened(folder))
    config = Config(where, part.values, prefix=part.prefix) if part else Config(where, values)
    source = _read(path, config, modules, opened, changes)
    if part:
        part.check_logits(where, source.model.descriptor["output"])
        source.model.notes.append(part.note)
        source.model.ignore |= part.ignore
    if changes.lora is not None:
        source.model.notes.append(f"the adapter {changes.lora} is added to the weights")
    source.model.notes += unpack.notes
    source.model.ignore |= unpack.spare
    return source._replace(lowercase=modules is not None and modules.lowercase)


# Opens a directory's weights, unpacked.
Opener = Callable[[Path], Checkpoint]


def _opened(folder: Path) -> Checkpoint:
    return unwrapped(open_checkpoint(folder))


def _read(
    path: Path,
    given: Config,
    modules: sentence.Modules | None,
    unpacked: Opener,
    changes: Changes,
) -> Directory:
    folder = modules.folder if modules else path
    where, values = given.path, given.values
    if modules is None and joined.is_alone(values):
        if changes != Changes():
            flags = "--rank-template, --rope-context, --lora"
            raise PhasorError(f"{flags}: not of a decoder with cross-attention")
        model = joined.read_alone(path, Config(where, values), unpacked(folder))
        return Directory(model, path, joined.ALONE)
    if modules is None and joined.is_causal(values):
        if changes != Changes():
            flags = "--rank-template, --rope-context, --lora"
            raise PhasorError(f"{flags}: not of an encoder's family as a language model")
        model, family = joined.read_causal(path, Config(where, values), unpacked(folder))
        return Directory(model, path, family)
    family = _family(where, values, modules is not None and not modules.own_class)

    def opened(folder: Path) -> Checkpoint:
        return within_model(unpacked(folder), family.trunk)

    config = Config(where, values, family.defaults, family.newer, given.prefix)
    if modules and family.stack == D.ENCODER_DECODER:
        raise PhasorError(
            f"{path / 'modules.json'}: vectors of {shown(values['model_type'])} are not supported;"
            " without this file the directory is an encoder-decoder"
        )
    if modules and modules.late and family.stack != D.ENCODER:
        raise PhasorError(f"{where}: late interaction of a decoder is not supported")
    if family.stack == D.DECODER:
        return _read_decoder(path, config, family, opened, changes, modules)
    if changes.rank is not None:
        raise PhasorError("--rank-template: goes with a decoder, whose logits it looks at")
    if changes.context:
        raise PhasorError("--rope-context: an encoder's positions are not changed")
    if family.stack == D.ENCODER_DECODER:
        return _read_encoder_decoder(path, config, family, opened(path), changes.lora)
    checkpoint = _modern(opened(folder))
    if changes.lora is not None:
        checkpoint = lora.merged(checkpoint, changes.lora, family.trunk)
    found = modules.late if modules else None
    if not modules and config.get("architectures") == [late.CLASS]:
        found, head = late.stanford(config, checkpoint, family.heads["Model"])
    elif not modules:
        head = _head(config, family)
    elif modules.own_class:
        head = _head(config, family)._replace(**modules.head)
    else:  # whatever class the weights were saved from
        head = family.heads["Model"]._replace(**{"output": D.POOLED, **modules.head})
        checkpoint = Checkpoint(checkpoint.path, {**checkpoint.tensors, **modules.tensors})
    model = Encoder(family, config, checkpoint, head).build(path.resolve().name)
    return Directory(model, folder, family, found)


def _check_class(config: Config, family: Family, more: Sequence[str] = ()) -> None:
    """more: ends of names that are classes too."""
    names = config.get("architectures")
    classes = [*family.classes]
    classes += [re.sub("For[A-Z].*|LMHeadModel", "", c) + end for c in classes for end in more]
    if not isinstance(names, list) or len(names) != 1 or names[0] not in classes:
        kin = [f for f in FAMILIES if f is not family and set(f.types) & set(family.types)]
        classes += [name for other in kin for name in _class_names(other)]
        name = names[0] if isinstance(names, list) and names else names
        raise config.error(
            "architectures", f"{shown(names)} is not supported, {nearest.some(name, classes)}"
        )


def _class_names(family: Family) -> list[str]:
    if family.stack == D.ENCODER:
        return [family.classes[0] + end for end in family.heads]
    return [*family.classes]


def _read_encoder_decoder(
    path: Path,
    config: Config,
    family: Family,
    checkpoint: Checkpoint,
    lora_folder: Path | None,
) -> Directory:
    _check_class(config, family)
    if family is joined.FAMILY:
        if lora_folder is not None:
            raise PhasorError(f"--lora: {family.classes[0]} with an adapter is not supported")
        model, whose = joined.read(path, config, checkpoint)
        return Directory(model, path, whose)
    if lora_folder is not None:
        checkpoint = lora.merged(checkpoint, lora_folder, encoder_decoder.trunk(family))
    read = joined.read_halves if family.half_of else encoder_decoder.read
    return Directory(read(path, config, family, checkpoint), path, family)


def _read_decoder(
    path: Path,
    config: Config,
    family: Family,
    opened: Opener,
    changes: Changes,
    modules: sentence.Modules | None,
) -> Directory:
    """modules: of sentence-transformers; then the stack gives a vector, and no logits."""
    folder, rank = modules.folder if modules else path, changes.rank
    # sentence-transformers saves the class without an output too
    vector = modules is not None and not modules.own_class
    _check_class(config, family, ("Model",) if vector else tuple(_DECODER_HEADS))
    head = Head(D.POOLED) if vector else _decoder_head(config)
    if modules and head is None:
        raise PhasorError(
            f"{path / 'modules.json'}: a language model with these modules is not supported"
        )
    if modules:
        head = head._replace(**modules.head)
    brings_code = _check_code(config, family, head)
    causal = head is None or config.flag("is_causal", default=True)
    made = Decoder(family, config, changes.context)
    if made.both_ways and head is None:
        raise config.error(
            "use_bidirectional_attention",
            "true gives no next tokens; with the modules.json of its publishers it gives vectors",
        )
    causal = causal and not made.both_ways
    made.notes += [_CODE_NOTE] * brings_code
    ids, made.generation = generation.read(config, made.side["vocabulary"], made.notes)
    made.side.update(ids)
    checkpoint = opened(folder)
    if changes.lora is not None:
        ends = lora.Ends(*made.ends(checkpoint), made.tied)
        checkpoint = lora.merged(checkpoint, changes.lora, family.trunk, made.is_transposed, ends)
        made.adapted(checkpoint, lora.parted(checkpoint, ends))
    name = path.resolve().name
    if rank is not None and head is not None:
        raise PhasorError("--rank-template: goes with a decoder that gives logits")
    if head is None and rank is None:
        return Directory(made.build(name, checkpoint), path, family)
    if made.generation:
        made.notes.append("generation_config.json: no use in this output")
        made.generation = {}
    if rank is not None:
        made.side["pad"] = None  # the last position counts, whatever it is
        return Directory(embedder.judge(made, name, checkpoint, folder, rank), folder, family)
    if vector:
        checkpoint = Checkpoint(checkpoint.path, {**checkpoint.tensors, **modules.tensors})
    else:
        name = config.get("architectures")[0]
        own = next((own for end, own in made.heads.items() if name.endswith(end)), None)
        head = own._replace(**(modules.head if modules else {})) if own else head
        if not own and "classifier.weight" in checkpoint:  # GPT-2's, Falcon's and BLOOM's of tokens
            head = head._replace(last="classifier")
        made.side["pad"] = _padding(config, made.side["vocabulary"])
    return Directory(embedder.build(made, name, checkpoint, head, causal=causal), folder, family)


def _check_code(config: Config, family: Family, head: Head | None) -> bool:
    """Whether a decoder's directory brings code of its own (auto_map), of which none is run. What
    gives logits of next tokens is taken for the library's class where it is called so; a vector or
    classes are not, for the code may let a position see those behind it (GTE-Qwen2)."""
    table = config.get("auto_map")
    if table is None:
        return False
    if not isinstance(table, dict):
        raise config.expected("auto_map", table, "a table")
    if head is not None:
        raise config.error(
            "auto_map",
            "the directory brings code of its own, which is not run and may see later positions;"
            ' remove this field if the library\'s class gives the same, and set "is_causal" to'
            " false if each position sees all; --expect then proves it",
        )
    name = table.get("AutoModelForCausalLM")
    if name is not None and not (isinstance(name, str) and name.split(".")[-1] in family.classes):
        raise config.error(
            "auto_map",
            f"{shown(name)} is code of the directory's own, which is not run;"
            f" {nearest.some(name, family.classes)}",
        )
    return True


def _decoder_head(config: Config) -> Head | None:
    """What a decoder's class has behind the stack in place of logits."""
    name = config.get("architectures")[0]
    return next((head for end, head in _DECODER_HEADS.items() if name.endswith(end)), None)


def _padding(config: Config, vocabulary: int) -> int | None:
    """The id behind which a sequence's class does not look: of config.json alone."""
    pad = config.whole("pad_token_id", -1, default=-1)
    return pad if 0 <= pad < vocabulary else None


def _family(where: Path, values: dict[str, Any], vector: bool = False) -> Family:
    """The family of a model type; of several that have it, the one of the class, or of the encoder
    where the model gives a vector."""
    kind, names = values.get("model_type"), values.get("architectures")
    found = [family for family in FAMILIES if kind in family.types]
    text = values.get("text_config")
    if not found and isinstance(text, dict):  # of a model with pictures or sound: its text first
        refuse(where, {**text, "model_type": kind})
    if not any(family.judges for family in found):
        refuse(where, values)
    if not found and "_class_name" in values:
        raise PhasorError(f"{where}: is a part of a pipeline of diffusers: not a model of text")
    if not found:
        raise PhasorError(f"{where}: model_type: {_not_built(kind, FAMILIES)}")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
    found = [family for family in found if family.told_by in ("", *values)] or found
    own = [f for f in found if name.startswith(f.classes) or (vector and f.stack == D.ENCODER)]
    return own[0] if own else found[-1]


def _not_built(kind: Any, families: Sequence[Any]) -> str:
    """That a model type is none of these, and the nearest of them by their names."""
    types = sorted({name for family in families for name in family.types})
    if kind is None:
        return f"is missing; {_LISTED}"
    near = []
    if isinstance(kind, str) and len(kind) < _LONGEST_TYPE:
        near = [_KIN[kind]] if kind in _KIN else sorted((t for t in types if t in kind), key=len)
        near = near[-1:] or get_close_matches(kind, types, 1)
    kin = f", the nearest is {near[0]}" if near else ""
    return f"{shown(kind)} is not supported{kin}; {_LISTED}"


def _head(config: Config, family: Family) -> Head:
    """What the class of `architectures` does with the hidden states."""
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise config.error(
            "architectures",
            f"{shown(names)}, expected the name of one class, such as {family.classes[0]}Model",
        )
    for start in family.classes:
        if names[0].startswith(start) and names[0][len(start) :] in family.heads:
            return family.heads[names[0][len(start) :]]
    raise config.error(
        "architectures",
        f"{printable(names[0])} is not supported, {nearest.some(names[0], _class_names(family))}",
    )


def _modern(checkpoint: Checkpoint) -> Checkpoint:
    """The names of TensorFlow that the first checkpoints kept for the norms, as transformers
    renames them."""
    ends = {".gamma": ".weight", ".beta": ".bias"}
    out = {}
    for name, stored in checkpoint.tensors.items():
        new = next((name[: -len(old)] + to for old, to in ends.items() if name.endswith(old)), name)
        if new in out:
            raise PhasorError(f"{checkpoint.path}: two tensors are called {new}")
        out[new] = stored
    return Checkpoint(checkpoint.path, out)
