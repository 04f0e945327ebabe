"""The modules of a sentence-transformers directory that follow the encoder: a pooling, a dense
layer or none, a norm or none, division by the length or none, SetFit's head; or what makes a
cross-encoder or a sparse vector (SPLADE) of the class's own output. Files of its versions up to
5.7."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor import side_files
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.checkpoints.tensors import Checkpoint, Stored, stored
from phasor.errors import PhasorError, printable, shown
from phasor.families import heads
from phasor.families.hf_config import Config
from phasor.files import has_file, is_below, read_json, read_value
from phasor.format import descriptor as D
from phasor.sources.sentence_transformers import late, setfit
from phasor.values import is_number, is_whole, words

_POOLINGS = {
    "pooling_mode_cls_token": D.FIRST,
    "pooling_mode_mean_tokens": D.MEAN,
    "pooling_mode_lasttoken": D.LAST,
    "pooling_mode_max_tokens": D.MAX,
}
_NEWER_POOLINGS = {"cls": D.FIRST, "mean": D.MEAN, "lasttoken": D.LAST, "max": D.MAX}
# The sum of n vectors divided by √n.
_SQUARE_ROOTS = {"pooling_mode_mean_sqrt_len_tokens": D.MEAN, "mean_sqrt_len_tokens": D.MEAN}
_ACTIVATIONS = {"Identity": 0, **{row.module: row.number for row in D.ACTIVATIONS if row.module}}
# Book-keeping; what is done with two vectors.
_PROMPTS_HARMLESS = ("__version__", "similarity_fn_name")
_MOST_IDS = 1 << 24  # of a text
_ORDER = words("Transformer Pooling Dense LayerNorm Normalize")
_DROPOUT, _MANY = "Dropout", "Dense"  # the module that may be there more than once
_MOST_PRODUCT, _MOST_WORK = 1 << 26, 1 << 36  # of two matrices: values, multiplications
# What the encoder's file is called, the first that is there: older versions had a name a model.
_ENCODER_FILES = [
    f"sentence_{kind}_config.json"
    for kind in words("bert roberta distilbert camembert albert xlm-roberta xlnet")
]
# What the encoder gives, by transformer_task; a directory without it has vectors.
_VECTORS, _CLASSES, _WORDS = words("feature-extraction sequence-classification fill-mask")
_TASKS = {_VECTORS: "last_hidden_state", _CLASSES: "logits", _WORDS: "logits"}
_WHOLE = "CLIPModel"  # the text part of whose folder gives the same vectors
_SPARSE = ("MLMTransformer", "SpladePooling")


class Modules(NamedTuple):
    """What modules.json says."""

    folder: Path  # of the encoder
    head: dict[str, Any]  # fields of a heads.Head
    tensors: dict[str, Stored]
    lowercase: bool = False  # texts become lower case
    own_class: bool = False  # the output is that of the class in config.json
    static: bool = False  # no encoder, but a table
    late: late.Late | None = None  # vectors of positions


def read(path: Path) -> Modules:
    """The modules of a directory; PhasorError for one that is not supported, by its name."""
    where = path / "modules.json"
    found: dict[str, list[Path]] = {}
    modules = _modules(where)
    special = _static(path, modules) or _own_class(path, modules) or _late(path, modules)
    if special and setfit.is_there(path):
        raise PhasorError(
            f"{path / setfit.FILE}: a head needs Transformer and Pooling in modules.json; without"
            " this file the directory is converted as it is"
        )
    if special:
        return special
    if [kind for kind, _ in modules] == [_WHOLE]:
        raise PhasorError(f"{where}: {_WHOLE} is a whole model: give its folder, {modules[0][1]}")
    for kind, folder in modules:
        if kind not in _ORDER:
            raise PhasorError(
                f"{where}: the module {printable(kind)} is not supported, expected"
                f" {', '.join(_ORDER)}"
            )
        again = kind in found and kind != _MANY
        if again or any(_ORDER.index(kind) < _ORDER.index(other) for other in found):
            raise PhasorError(
                f"{where}: the module {kind} is not where it can be; the order is "
                f"{', '.join(_ORDER)}, and only {_MANY} may be there more than once"
            )
        found.setdefault(kind, []).append(path / folder)
    if "Transformer" not in found or "Pooling" not in found:
        raise PhasorError(f"{where}: an encoder and a pooling are needed")
    (encoder,), (pooling,) = found["Transformer"], found["Pooling"]
    longest, lowercase = _encoder(encoder, _VECTORS)
    divided = "Normalize" in found and not {"Dense", "LayerNorm"} & found.keys()
    head = {
        "pooling": _pooling(pooling, divided),
        "normalize": "Normalize" in found,
        "prompts": _prompts(path),
        "longest_text": longest,
    }
    tensors: dict[str, Any] = {}
    if "Dense" in found:
        more, tensors = _denses(found["Dense"])
        head.update(more)
    for norm in found.get("LayerNorm", ()):
        side_files.read(norm / "config.json", "LayerNorm")
        # torch.nn.LayerNorm's epsilon, which the module does not change
        head.update(norm=norm.name + ".norm", norm_eps=1e-5)
        tensors.update(_weights(norm))
    _truncate(path, pooling, head, tensors)
    if setfit.is_there(path):
        head = setfit.classified(path, head, tensors)
    return Modules(encoder, head, tensors, lowercase)


def _static(path: Path, modules: list[tuple[str, str]]) -> Modules | None:
    """A StaticEmbedding, and division by the length or not."""
    kinds = tuple(kind for kind, _ in modules)
    if kinds not in (("StaticEmbedding",), ("StaticEmbedding", "Normalize")):
        return None
    head = {
        "normalize": len(kinds) == 2,
        "prompts": _prompts(path),
        "truncate": _truncate_dim(path, len(kinds) == 2),
    }
    return Modules(path / modules[0][1], head, {}, static=True)


def _own_class(path: Path, modules: list[tuple[str, str]]) -> Modules | None:
    """A cross-encoder, which is a Transformer alone, or a masked language model with
    SpladePooling; None for others."""
    kinds = tuple(kind for kind, _ in modules)
    if kinds not in (("Transformer",), _SPARSE, ("Transformer", _SPARSE[1])):
        return None
    folder = path / modules[0][1]
    if len(kinds) == 1:
        where = path / "config_sentence_transformers.json"
        config = Config(where, side_files.read(where))
        if config.get("model_type") != "CrossEncoder":
            return None
        longest, lowercase = _encoder(folder, _CLASSES)
        head: dict[str, Any] = {"longest_text": longest, "ranks": True}
        if config.get("activation_fn") is not None:
            head["scores"] = config.class_name("activation_fn", heads.FUNCTIONS)
        if config.get("prompts"):
            raise config.error("prompts", "of a cross-encoder, are not supported")
        config.must("default_prompt_name")
        config.finish(_PROMPTS_HARMLESS)
        return Modules(folder, head, {}, lowercase, True)
    where = path / modules[1][1] / "config.json"
    config = Config(where, side_files.read(where, "SpladePooling"))
    config.must("pooling_strategy", "max")
    config.must("activation_function", "relu")
    longest, lowercase = _encoder(folder, _WORDS)
    head = {"prompts": _prompts(path, "SparseEncoder"), "longest_text": longest}
    return Modules(folder, head, {}, lowercase, True)


def _late(path: Path, modules: list[tuple[str, str]]) -> Modules | None:
    """PyLate's: an encoder, and a matrix that makes a vector of each position."""
    if tuple(kind for kind, _ in modules) != ("Transformer", "Dense"):
        return None
    folder, dense = (path / name for _, name in modules)
    where = path / "config_sentence_transformers.json"
    config = Config(where, side_files.read(where))
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or any(prompts.values()):
        raise config.error("prompts", f"{shown(prompts)}, with late interaction expected none")
    config.must("default_prompt_name")
    found = late.pylate(where, config)
    config.finish(("__version__", "model_type"))
    _, lowercase = _encoder(folder, _VECTORS)  # the lengths are those above
    matrix = _dense(dense, "token_embeddings")
    if matrix["activation"]:
        raise PhasorError(
            f"{dense / 'config.json'}: an activation behind the matrix is not supported"
        )
    head = late.head(matrix["dense"], matrix["dense_width"], matrix["dense_bias"])
    return Modules(folder, head, _weights(dense), lowercase, late=found)


def _modules(where: Path) -> list[tuple[str, str]]:
    """(class, folder) of each module in order, but for Dropout, which only training has."""
    entries = read_value(where)
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and _is_module(entry) for entry in entries
    ):
        raise PhasorError(f"{where}: not a list of modules with idx, path and type")
    side_files.check(where, entries)
    found = [
        (entry["type"].rsplit(".", 1)[-1], entry["path"])
        for entry in sorted(entries, key=lambda entry: entry["idx"])
    ]
    for folder in [folder for kind, folder in found if kind == _DROPOUT]:
        side_files.read(where.parent / folder / "config.json", _DROPOUT)
    return [module for module in found if module[0] != _DROPOUT]


def _is_module(entry: dict[str, Any]) -> bool:
    """Its folder is one of the directory's own."""
    kind, folder = entry.get("type"), entry.get("path")
    if not isinstance(kind, str) or not isinstance(folder, str):
        return False
    return is_below(folder) and is_whole(entry.get("idx"), 0, 1 << 16)


def _pooling(folder: Path, divided: bool) -> int:
    """pooling_mode counts more than the fields of older versions. divided: the vector is divided by
    its length at once, so that what the sum is divided by makes no difference."""
    where = folder / "config.json"
    config = Config(where, side_files.read(where, "Pooling"))
    newer = config.get("pooling_mode")
    older = [n for n, value in config.values.items() if n.startswith("pooling_mode_") and value]
    given = newer if isinstance(newer, list) else older if newer is None else [newer]
    built = _POOLINGS if newer is None else _NEWER_POOLINGS
    built = {**built, **(_SQUARE_ROOTS if divided else {})}
    if len(given) != 1 or not isinstance(given[0], str) or given[0] not in built:
        if newer is not None:
            raise config.error(
                "pooling_mode", f"{shown(newer)} is not supported, expected {', '.join(built)}"
            )
        said = " and ".join(map(printable, older[:4])) or "no pooling_mode"
        raise PhasorError(f"{config.path}: {said} is not supported, expected {', '.join(built)}")
    if newer is None:
        config.flag(given[0])
    config.must("include_prompt", True)
    return built[given[0]]


def _dense(folder: Path, of: str = "sentence_embedding") -> dict[str, Any]:
    """of: what goes through it."""
    config = Config(
        folder / "config.json",
        side_files.read(folder / "config.json", "Dense"),
        {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh"},
    )
    out = {
        "dense": folder.name + ".linear",
        "dense_width": config.whole("out_features"),
        "dense_bias": config.flag("bias"),
        "activation": config.class_name("activation_function", _ACTIVATIONS),
    }
    for name in ("module_input_name", "module_output_name"):
        config.must(name, of)
    return out


def _denses(folders: list[Path]) -> tuple[dict[str, Any], dict[str, Stored]]:
    """The fields and the tensors of the Dense modules. Several are one, their product: only the
    last may have an activation."""
    each = [_dense(folder) for folder in folders]
    if len(each) == 1:
        return each[0], _weights(folders[0])
    for folder, one in zip(folders[:-1], each):
        if one["activation"]:
            raise PhasorError(
                f"{folder / 'config.json'}: activation_function: between two Dense modules is not"
                " supported, expected torch.nn.modules.linear.Identity"
            )
    matrix, bias = None, np.zeros(1)
    for folder, one in zip(folders, each):
        own, offset = _linear(folder, one["dense_bias"])
        bias = _product(own, bias[:, None])[:, 0] + offset if matrix is not None else offset
        matrix = own if matrix is None else _product(own, matrix)
    name = "+".join(folder.name for folder in folders) + ".linear"
    fields = {**each[-1], "dense": name, "dense_bias": any(one["dense_bias"] for one in each)}
    tensors = {f"{name}.weight": stored(matrix)}
    if fields["dense_bias"]:
        tensors[f"{name}.bias"] = stored(bias)
    return fields, tensors


def _linear(folder: Path, biased: bool) -> tuple[np.ndarray, np.ndarray]:
    """(the matrix, the bias) of a Dense, in float64."""
    checkpoint = open_checkpoint(folder)
    names = ["linear.weight", *["linear.bias"] * biased]
    if missing := [name for name in names if name not in checkpoint]:
        raise PhasorError(f"{checkpoint.path}: {missing[0]} is missing")
    values = [checkpoint.load(name).astype(np.float64) for name in names]
    matrix = values[0]
    bias = values[1] if biased else np.zeros(len(matrix))
    if matrix.ndim != 2 or bias.shape != matrix.shape[:1]:
        raise PhasorError(f"{checkpoint.path}: linear.weight is not a matrix with a bias a row")
    return matrix, bias


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a · b, column by column: the order of a library's sums is another on another machine."""
    values = a.shape[0] * b.shape[1]
    if a.shape[1] != b.shape[0]:
        raise PhasorError(f"Dense: {a.shape} behind {b.shape}: the sizes do not fit")
    if values > _MOST_PRODUCT or values * a.shape[1] > _MOST_WORK:
        raise PhasorError(f"Dense: the product of {a.shape} and {b.shape} is too large")
    out = np.zeros((a.shape[0], b.shape[1]))
    for column, row in zip(a.T, b):
        out += np.multiply.outer(column, row)
    return out


def _truncate_dim(path: Path, divided: bool) -> int:
    """truncate_dim of config_sentence_transformers.json: how many of a vector's first values are
    kept; 0: all. divided: by the length of all, which is not supported."""
    where = path / "config_sentence_transformers.json"
    config = Config(where, side_files.read(where))
    if config.get("truncate_dim") is None:
        return 0
    kept = config.whole("truncate_dim", high=D.MAX_WIDTH)
    if divided:
        raise config.error(
            "truncate_dim",
            f"{kept} values of a vector that LayerNorm or Normalize made of all is not supported"
            f" ({side_files.ignoring(where, 'truncate_dim')} keeps them all)",
        )
    return kept


def _truncate(path: Path, pooling: Path, head: dict[str, Any], tensors: dict[str, Stored]) -> None:
    """Keeps the first values of a vector: rows of the last matrix, or of the unit matrix."""
    kept = _truncate_dim(path, bool(head["normalize"] or "norm" in head))
    if not kept:
        return
    if "dense" in head:
        name, weights = head["dense"], Checkpoint(path, tensors)
        if kept < head["dense_width"]:
            for part in [f"{name}.weight", *[f"{name}.bias"] * head["dense_bias"]]:
                if part not in weights:
                    raise PhasorError(f"{path}: {part} is missing")
                tensors[part] = stored(weights.load(part)[:kept])
            head["dense_width"] = kept
        return
    where = pooling / "config.json"
    config = Config(where, side_files.read(where, "Pooling"))
    names = ("word_embedding_dimension", "embedding_dimension")
    width = config.whole(next((n for n in names if n in config.values), names[1]), high=D.MAX_WIDTH)
    if kept < width:
        if kept * width > _MOST_PRODUCT:
            raise config.error(names[1], f"{width} is too large")
        head.update(dense="truncate_dim", dense_width=kept, dense_bias=False, activation=0)
        tensors["truncate_dim.weight"] = stored(np.eye(kept, width))


def _weights(folder: Path) -> dict[str, Stored]:
    """A module's tensors, under the name of its folder."""
    return {
        f"{folder.name}.{name}": stored for name, stored in open_checkpoint(folder).tensors.items()
    }


def _encoder(folder: Path, task: str) -> tuple[int, bool]:
    """(the ids that texts are cut to, whether texts become lower case), as
    sentence_bert_config.json says."""
    there = (folder / name for name in _ENCODER_FILES if has_file(folder / name))
    path = next(there, folder / _ENCODER_FILES[0])
    config = Config(path, side_files.read(path, _ENCODER_FILES[0]), {"do_lower_case": False})
    lowercase = config.flag("do_lower_case")
    config.must("transformer_task", task)
    _check_modality(config, task)
    if config.get("max_seq_length") is not None:
        return config.whole("max_seq_length", high=_MOST_IDS), lowercase
    return _longest_text(folder), lowercase


def _longest_text(folder: Path) -> int:
    """What the tokenizer says and the positions allow; 0 where nothing says it."""
    said = []
    for name, keys in (
        ("tokenizer_config.json", ("model_max_length", "max_len")),
        ("config.json", ("max_position_embeddings",)),
    ):
        values = read_json(folder / name) if has_file(folder / name) else {}
        value = next((values[key] for key in keys if values.get(key) is not None), None)
        if not is_number(value) or value < 1:
            return 0
        said.append(value)  # a tokenizer without a length has 1e30
    return int(min(said)) if min(said) <= _MOST_IDS else 0


def _check_modality(config: Config, task: str) -> None:
    """modality_config: a text goes through `forward`, which gives what the task says."""
    table = config.table("modality_config")
    if table is None:
        return
    text = table.table("text")
    if text is not None:
        text.must("method", "forward")
        text.must("method_output_name", _TASKS[task])


def _prompts(path: Path, kind: str = "SentenceTransformer") -> str:
    """The prompts of config_sentence_transformers.json, the default one first; without a default,
    an empty one is."""
    where = path / "config_sentence_transformers.json"
    if not has_file(where):
        return ""
    config = Config(where, side_files.read(where))
    config.must("model_type", kind)  # and not a sparse one
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if kind == "SentenceTransformer":
        config.get("truncate_dim")  # which _truncate_dim reads
    config.finish(_PROMPTS_HARMLESS)
    if (
        not isinstance(prompts, dict)
        or not all(isinstance(text, str) for text in prompts.values())
        or (default is not None and not (isinstance(default, str) and default in prompts))
    ):
        raise PhasorError(
            f"{where}: prompts: expected a table of texts, and default_prompt_name one of its names"
        )
    if any(c in name + text for name, text in prompts.items() for c in (D.UNIT_END, D.RECORD_END)):
        raise PhasorError(f"{where}: prompts: a prompt with a separator of the format")
    if not any(prompts.values()):
        return ""
    first = [("", "")] if default is None else [(default, prompts[default])]
    rest = [(name, text) for name, text in prompts.items() if name != default]
    return "".join(f"{name}{D.UNIT_END}{text}{D.RECORD_END}" for name, text in first + rest)
