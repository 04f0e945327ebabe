"""What a person does who follows the line that a wrong input gets (wrong_inputs.py): changes of the
folder, and the words of each command that must then work."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Callable

import numpy as np
from safetensors.numpy import save_file

import torch_zip
from wrong_inputs import LLAMA, SPLIT, arrays, directory, gguf, put

Follow = Callable[[Path], list[str]]
_WORDS = {"<unk>": 0, **{f"w{i}": i for i in range(1, 29)}}
TOKENIZER = {
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": _WORDS, "unk_token": "<unk>"},
}


def _sound(folder: Path, name: str = "model") -> None:
    put(folder / name, {"config.json": LLAMA})
    save_file(arrays(), folder / name / "model.safetensors")


def _adapter(to: Path) -> None:
    """One of rank 2 for a matrix of the model."""
    rng, name = np.random.default_rng(8), "base_model.model.model.layers.0.self_attn.q_proj"
    shapes = {f"{name}.lora_A.weight": (2, 8), f"{name}.lora_B.weight": (8, 2)}
    config = {
        "peft_type": "LORA",
        "r": 2,
        "lora_alpha": 4,
        "task_type": "CAUSAL_LM",
        "bias": "none",
        "target_modules": ["q_proj"],
        "inference_mode": True,
        "base_model_name_or_path": "a/b",
    }
    put(to, {"adapter_config.json": config})
    save_file(
        {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()},
        to / "adapter_model.safetensors",
    )


def beside(folder: Path) -> list[str]:
    """The sound model is put into the directory, and what was there stays."""
    _sound(folder)
    return ["model"]


def another(folder: Path) -> list[str]:
    """The model in a form that is read, in place of what was there."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return beside(folder)


def weights_again(folder: Path) -> list[str]:
    for path in (folder / "model").iterdir():
        if path.name != "config.json":
            path.unlink()
    return beside(folder)


def the_gguf(*names: str) -> Follow:
    def follow(folder: Path) -> list[str]:
        put(folder, {name: gguf() for name in names})
        return list(names)

    return follow


def in_it(name: str) -> Follow:
    def follow(folder: Path) -> list[str]:
        _sound(folder, name)
        return [name]

    return follow


def _here(folder: Path) -> list[str]:
    _sound(folder, ".")
    put(folder, {"tokenizer.json": TOKENIZER})
    return ["."]


def _shard(folder: Path) -> list[str]:
    shard = "model-00001-of-00002.safetensors"
    save_file(arrays(), folder / "model" / shard)
    index = {"weight_map": dict.fromkeys(arrays(), shard)}
    put(folder / "model", {"model.safetensors.index.json": index})
    return ["model"]


def _variant(folder: Path) -> list[str]:
    save_file(arrays(), folder / "model/model.fp16.safetensors")
    (folder / "model/model.fp16.safetensors").rename(folder / "model/model.safetensors")
    return ["model"]


def _unzipped(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "model.zip") as archive:
        archive.extractall(folder)
    return ["model"]


def _gunzipped(folder: Path) -> list[str]:
    (folder / "m.gguf").write_bytes(gzip.decompress((folder / "m.gguf.gz").read_bytes()))
    return ["m.gguf"]


def _state_dict(folder: Path) -> list[str]:
    put(folder / "model", {"config.json": LLAMA})
    torch_zip.save(folder / "model/pytorch_model.bin", arrays())
    return ["model"]


def _without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "model/config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({n: v for n, v in config.items() if n not in names}))

    return change


def not_packed(folder: Path) -> list[str]:
    _without("quantization_config", "quantization")(folder)
    return ["model --type q4", "model --type q8"]


def _no_field(folder: Path) -> list[str]:
    _without("attention_sinks")(folder)
    return ["model"]


def a_tokenizer(folder: Path) -> list[str]:
    put(folder, {"mine/tokenizer.json": TOKENIZER})
    return ["model --tokenizer none", "model --tokenizer mine/tokenizer.json"]


def _saved_tokenizer(folder: Path) -> list[str]:
    put(folder / "model", {"tokenizer.json": TOKENIZER})
    return ["model"]


def _sentencepiece(folder: Path) -> list[str]:
    """A list of pieces: field 1 of each is its text, 2 its score, 3 its type (2: unknown)."""
    pieces = b""
    for i in range(29):
        text = b"<unk>" if i == 0 else chr(96 + i).encode()
        piece = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", -i)
        piece += b"\x18\x02" * (i == 0)
        pieces += b"\x0a" + bytes([len(piece)]) + piece
    put(folder, {"t.model": pieces})
    return ["model --tokenizer t.model"]


def _added(folder: Path) -> list[str]:
    _adapter(folder / "model")
    return ["model --lora model"]


def _not_added(folder: Path) -> list[str]:
    (folder / "model/adapter_config.json").unlink()
    return ["model"]


def _base(adapter: str) -> Follow:
    def follow(folder: Path) -> list[str]:
        directory()(folder)
        _adapter(folder / adapter)
        return [f"model --lora {adapter}"]

    return follow


def _base_of_model(folder: Path) -> list[str]:
    _adapter(folder / "model")
    _sound(folder, "base")
    return ["base --lora model"]


def _merged(folder: Path) -> list[str]:
    (folder / "m.gguf").write_bytes(gguf(**SPLIT))
    put(folder, {"merged.gguf": gguf()})
    return ["m.gguf --ignore-key m.gguf:split.count", "merged.gguf"]


# By what is given (Wrong.what). A line that gives advice has a row here.
FOLLOWED: dict[str, tuple[Follow, ...]] = {
    "a directory of something else": (beside,),
    "the directory above the model": (in_it("models/llama"),),
    "the cache's directory of a model": (in_it("models--a--b/snapshots/0af1"),),
    **dict.fromkeys(
        (
            "weights of TensorFlow alone",
            "weights of Flax alone",
            "a directory with ONNX alone",
            "a checkpoint of TensorFlow 1",
            "a SavedModel of TensorFlow",
            "a page saved as weights",
            "a directory of OpenVINO",
            "weights of MLX",
            "a directory as Meta gave it",
            "a download that did not end",
        ),
        (beside,),
    ),
    "an adapter without its model": (_base_of_model,),
    "a directory with a GGUF file": (the_gguf("model/m.gguf"),),
    "its config.json": (lambda folder: ["model"],),
    "weights without a description": (lambda folder: ["model"],),
    "a tokenizer": (_here,),
    **dict.fromkeys(
        (
            "a shard that is cut",
            "a pointer of Git LFS",
            "a page saved as config.json",
            "an empty file",
            "an empty config.json",
            "weights that are a link to a lost blob",
        ),
        (weights_again,),
    ),
    "a GGUF in several files": (_merged,),
    "a shard that is missing": (_shard,),
    "a shard without its index": (_shard,),
    "a variant alone": (_variant,),
    **dict.fromkeys(
        (
            "a file of ONNX",
            "a file of Keras",
            "an empty file of weights",
            "a text in place of weights",
            "a file of TensorFlow 1",
            "a graph of TensorFlow",
            "a file of Flax",
            "a mixture of experts",
            "a model of pictures and texts",
        ),
        (another,),
    ),
    "a zip file of a model": (_unzipped,),
    "a packed file": (_gunzipped,),
    **dict.fromkeys(("a module in place of its weights", "a pickle of Python"), (_state_dict,)),
    "arrays of NumPy": (another,),
    **dict.fromkeys(
        ("a file of GGML", "a GGUF that is cut", "a pointer of Git LFS named .gguf"),
        (the_gguf("m.gguf"),),
    ),
    **dict.fromkeys(
        ("weights packed by HQQ", "weights packed as MXFP4", "weights packed by MLX"),
        (not_packed,),
    ),
    "a field that is not known": (_no_field,),
    **dict.fromkeys(
        (
            "a tokenizer of an unknown kind",
            "a vocabulary of tiktoken",
            "a pointer of Git LFS in place of a tokenizer",
            "a pointer of Git LFS in place of a vocabulary",
            "a directory in place of a tokenizer",
        ),
        (a_tokenizer,),
    ),
    "a slow tokenizer that is not supported": (a_tokenizer, _saved_tokenizer),
    "a page in place of a tokenizer": (_sentencepiece,),
    "an adapter beside its model": (_added, _not_added),
    "the weights of an adapter": (_base("adapter"),),
}
