"""The modules of a sentence-transformers directory that follow the encoder: a pooling, a dense
layer or none, a norm or none, division by the length or none; or what makes a cross-encoder or a
sparse vector (SPLADE) of the class's own output. Files of its versions up to 5.7."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.checkpoints.tensors import Stored
from phasor.errors import printable, shown
from phasor.families.hf_config import Config
from phasor.files import is_below, read_json, read_value
from phasor.format import descriptor as D
from phasor.format.layout import PhasorError
from phasor.sources.sentence_transformers import late
from phasor.values import is_number, is_whole, words

_POOLINGS = {
    "pooling_mode_cls_token": D.FIRST,
    "pooling_mode_mean_tokens": D.MEAN,
    "pooling_mode_lasttoken": D.LAST,
}
_NEWER_POOLINGS = {"cls": D.FIRST, "mean": D.MEAN, "lasttoken": D.LAST}
_ACTIVATIONS = {"Identity": 0, **{row.module: row.number for row in D.ACTIVATIONS if row.module}}
# Book-keeping; what is done with two vectors.
_PROMPTS_HARMLESS = ("__version__", "similarity_fn_name")
_MOST_IDS = 1 << 24  # of a text
_ORDER = words("Transformer Pooling Dense LayerNorm Normalize")
# What the encoder gives, by transformer_task; a directory without it has vectors.
_VECTORS, _CLASSES, _WORDS = words("feature-extraction sequence-classification fill-mask")
_TASKS = {_VECTORS: "last_hidden_state", _CLASSES: "logits", _WORDS: "logits"}
_SCORES = {"Sigmoid": D.SIGMOID, "Identity": D.PLAIN}
_SPARSE = ("MLMTransformer", "SpladePooling")


class Modules(NamedTuple):
    """What modules.json says."""

    folder: Path  # of the encoder
    head: dict[str, Any]  # fields of a heads.Head
    tensors: dict[str, Stored]
    own_class: bool = False  # the output is that of the class in config.json
    static: bool = False  # no encoder, but a table
    late: late.Late | None = None  # vectors of positions


def read(path: Path) -> Modules:
    """The modules of a directory; PhasorError for one that is not built, by its name."""
    where = path / "modules.json"
    found = {}
    modules = _modules(where)
    special = _static(path, modules) or _own_class(path, modules) or _late(path, modules)
    if special:
        return special
    for kind, folder in modules:
        if kind not in _ORDER:
            raise PhasorError(
                f"{where}: the module {printable(kind)} is not built; there are {', '.join(_ORDER)}"
            )
        if kind in found or any(_ORDER.index(kind) < _ORDER.index(other) for other in found):
            raise PhasorError(
                f"{where}: the module {kind} is not where it can be; the order is "
                f"{', '.join(_ORDER)}, each at most once"
            )
        found[kind] = path / folder
    if "Transformer" not in found or "Pooling" not in found:
        raise PhasorError(f"{where}: an encoder and a pooling are needed")
    head = {
        "pooling": _pooling(found["Pooling"]),
        "normalize": "Normalize" in found,
        "prompts": _prompts(path),
        "longest_text": _longest_text(found["Transformer"], _VECTORS),
    }
    tensors = {}
    if "Dense" in found:
        head.update(_dense(found["Dense"]))
        tensors.update(_weights(found["Dense"]))
    if "LayerNorm" in found:
        head.update(
            norm=found["LayerNorm"].name + ".norm", norm_eps=1e-5
        )  # torch.nn.LayerNorm's, which the module does not change
        tensors.update(_weights(found["LayerNorm"]))
    return Modules(found["Transformer"], head, tensors)


def _static(path: Path, modules: list[tuple[str, str]]) -> Modules | None:
    """A StaticEmbedding, and division by the length or not."""
    kinds = tuple(kind for kind, _ in modules)
    if kinds not in (("StaticEmbedding",), ("StaticEmbedding", "Normalize")):
        return None
    head = {"normalize": len(kinds) == 2, "prompts": _prompts(path)}
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
        config = Config(where, read_json(where) if where.is_file() else {})
        if config.get("model_type") != "CrossEncoder":
            return None
        head: dict[str, Any] = {"longest_text": _longest_text(folder, _CLASSES)}
        if config.get("activation_fn") is not None:
            head["scores"] = config.class_name("activation_fn", _SCORES)
        if config.get("prompts"):
            raise config.error("prompts", "of a cross-encoder, are not built")
        config.must("default_prompt_name")
        config.finish(_PROMPTS_HARMLESS)
        return Modules(folder, head, {}, True)
    where = path / modules[1][1] / "config.json"
    config = Config(where, read_json(where))
    config.must("pooling_strategy", "max")
    config.must("activation_function", "relu")
    config.finish(("embedding_dimension", "word_embedding_dimension", "chunk_size"))
    head = {
        "prompts": _prompts(path, "SparseEncoder"),
        "longest_text": _longest_text(folder, _WORDS),
    }
    return Modules(folder, head, {}, True)


def _late(path: Path, modules: list[tuple[str, str]]) -> Modules | None:
    """PyLate's: an encoder, and a matrix that makes a vector of each position."""
    if tuple(kind for kind, _ in modules) != ("Transformer", "Dense"):
        return None
    folder, dense = (path / name for _, name in modules)
    where = path / "config_sentence_transformers.json"
    config = Config(where, read_json(where))
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or any(prompts.values()):
        raise config.error("prompts", f"{shown(prompts)}, with late interaction expected none")
    config.must("default_prompt_name")
    found = late.pylate(where, config)
    config.finish(("__version__", "model_type"))
    _longest_text(folder, _VECTORS)  # what else the file says; the lengths are those above
    matrix = _dense(dense, "token_embeddings")
    if matrix["activation"]:
        raise PhasorError(f"{dense / 'config.json'}: an activation behind the matrix is not built")
    head = late.head(matrix["dense"], matrix["dense_width"], matrix["dense_bias"])
    return Modules(folder, head, _weights(dense), late=found)


def _modules(where: Path) -> list[tuple[str, str]]:
    """(class, folder) of each module in order."""
    entries = read_value(where)
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and _is_module(entry) for entry in entries
    ):
        raise PhasorError(f"{where}: not a list of modules with idx, path and type")
    return [
        (entry["type"].rsplit(".", 1)[-1], entry["path"])
        for entry in sorted(entries, key=lambda entry: entry["idx"])
    ]


def _is_module(entry: dict[str, Any]) -> bool:
    """Its folder is one of the directory's own."""
    kind, folder = entry.get("type"), entry.get("path")
    if not isinstance(kind, str) or not isinstance(folder, str):
        return False
    return is_below(folder) and is_whole(entry.get("idx"), 0, 1 << 16)


def _pooling(folder: Path) -> int:
    config = Config(folder / "config.json", read_json(folder / "config.json"))
    modes = [
        name for name, value in config.values.items() if name.startswith("pooling_mode_") and value
    ]
    newer = config.get("pooling_mode")
    if newer is not None and not modes:
        given = newer if isinstance(newer, list) else [newer]
        if len(given) != 1 or not isinstance(given[0], str) or given[0] not in _NEWER_POOLINGS:
            raise config.error(
                "pooling_mode",
                f"{shown(newer)} is not built; there are {', '.join(_NEWER_POOLINGS)}",
            )
        config.must("include_prompt", True)
        config.finish(("embedding_dimension",))
        return _NEWER_POOLINGS[given[0]]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        given = " and ".join(map(printable, modes[:4])) or "no pooling_mode"
        raise PhasorError(f"{config.path}: {given} is not built; there are {', '.join(_POOLINGS)}")
    config.flag(modes[0])
    config.must("include_prompt", True)
    config.finish(
        (
            "word_embedding_dimension",
            *(name for name in config.values if name.startswith("pooling_mode_")),
        )
    )
    return _POOLINGS[modes[0]]


def _dense(folder: Path, of: str = "sentence_embedding") -> dict[str, Any]:
    """of: what goes through it."""
    config = Config(
        folder / "config.json",
        read_json(folder / "config.json"),
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
    config.must("use_residual", False)
    config.finish(("in_features",))
    return out


def _weights(folder: Path) -> dict[str, Stored]:
    """A module's tensors, under the name of its folder."""
    return {
        f"{folder.name}.{name}": stored for name, stored in open_checkpoint(folder).tensors.items()
    }


def _longest_text(folder: Path, task: str) -> int:
    """max_seq_length of sentence_bert_config.json, to which its texts are cut; without it, what the
    tokenizer says and the positions allow; 0 where nothing says it. Lower case would be another
    tokenizer."""
    path = folder / "sentence_bert_config.json"
    if path.is_file():
        config = Config(path, read_json(path))
        config.must("do_lower_case", False)
        config.must("transformer_task", task)
        _check_modality(config, task)
        config.finish(("max_seq_length", "module_output_name"))
        if config.get("max_seq_length") is not None:
            return config.whole("max_seq_length", high=_MOST_IDS)
    said = []
    for name, key in (
        ("tokenizer_config.json", "model_max_length"),
        ("config.json", "max_position_embeddings"),
    ):
        value = read_json(folder / name).get(key) if (folder / name).is_file() else None
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
    if not where.is_file():
        return ""
    config = Config(where, read_json(where))
    config.must("model_type", kind)  # and not a sparse one
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
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
