"""What is given in place of a checkpoint: what it seems to be, and what to do. By the first bytes
of a file and the names in a directory alone; nothing more is read. Standard library only."""

from __future__ import annotations

import os
import re
from pathlib import Path

START_BYTES = 512  # of a file that are looked at
_MOST_NAMES = 4096  # of a directory

_DOWNLOAD = "download the file itself"
_CHECKPOINT = "give the checkpoint that it was made from"
# First bytes: what such a file is.
_STARTS = (
    (
        b"version https://git-lfs",
        "a pointer of Git LFS, not the file that it stands for: git lfs pull in its repository"
        " gets it",
    ),
    (b"\x89PHASOR\n", "a .phasor file already; phasor quantize gives it another type"),
    (b"\x89HDF\r\n", "an HDF5 file (Keras, TensorFlow): save it as safetensors or with torch.save"),
    (b"\x93NUMPY", "one array of NumPy: save the tensors by their names, as safetensors"),
    (b"\x1f\x8b", "packed by gzip: unpack it, and give what is in it"),
    (b"\xfd7zXZ", "packed by xz: unpack it, and give what is in it"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it, and give what is in it"),
    (b"BZh", "packed by bzip2: unpack it, and give what is in it"),
    (b"7z\xbc\xaf", "packed by 7z: unpack it, and give what is in it"),
    (b"Rar!", "packed by rar: unpack it, and give what is in it"),
    (b"%PDF", "a PDF, not a model"),
    (b"lmgg", "a file of GGML from before GGUF: take the GGUF file of this model"),
    (b"fmgg", "a file of GGML from before GGUF: take the GGUF file of this model"),
    (b"tjgg", "a file of GGML from before GGUF: take the GGUF file of this model"),
)
_TF = "weights of TensorFlow: save the model as safetensors (from_tf of transformers)"
_ADAPTER = "the weights of an adapter: give the model, and their directory with --lora"
# Ends of names whose first bytes say little.
_ENDS = {
    ".onnx": f"an ONNX file, a graph without the model's configuration: {_CHECKPOINT}",
    ".tflite": f"a TensorFlow Lite file: {_CHECKPOINT}",
    ".msgpack": "weights of Flax: save the model as safetensors (from_flax of transformers)",
    ".mlmodel": f"a Core ML file: {_CHECKPOINT}",
    ".pkl": "a pickle of Python objects: save the model's state_dict with torch.save",
    "adapter_model.safetensors": _ADAPTER,
    "adapter_model.bin": _ADAPTER,
    ".ckpt.index": _TF,
    ".data-00000-of-00001": _TF,
    ".pb": _TF,
}
_FLAX = "weights of Flax: save the model as safetensors (from_flax of transformers)"
# Of a directory: an end of a name that is in it, what it is.
_INSIDE = (
    ("model_index.json", "a pipeline of diffusers, which makes pictures: not a model of text"),
    (
        "adapter_config.json",
        "an adapter without its model: give the model's directory, and this one with --lora",
    ),
    ("tf_model.h5", _TF),
    ("flax_model.msgpack", _FLAX),
    (".ckpt.index", _TF),
    ("saved_model.pb", _TF),
    (".onnx", f"ONNX files alone: {_CHECKPOINT}"),
    ("openvino_model.xml", f"OpenVINO files alone: {_CHECKPOINT}"),
    ("weights.npz", f"weights of MLX: {_CHECKPOINT}"),
    ("params.json", "Meta's or Mistral's own files: give the same model as transformers has it"),
    (".incomplete", "a download that did not end: download it again"),
)
_TIKTOKEN = re.compile(rb"[A-Za-z0-9+/]{2,400}={0,2} \d{1,7}\r?\n")  # a token, its rank
_BASE = re.compile(rb'"base_model_name_or_path"\s*:\s*"([\w./-]{1,200})"')
_VARIANT = re.compile(r"(model|pytorch_model)\.[\w-]{1,32}(\.safetensors|\.bin)")
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}(\.safetensors|\.bin)")


def of_bytes(start: bytes) -> str:
    """What a file that begins so seems to be, in words for a line behind its name; "" where nothing
    tells."""
    for first, what in _STARTS:
        if start.startswith(first):
            return f"is {what}"
    text = start.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return f"is a page of HTML: {_DOWNLOAD}"
    if start[257:262] == b"ustar":
        return "is packed by tar: unpack it, and give what is in it"
    return ""


def of_pieces(start: bytes) -> str:
    """The same of a file in place of a SentencePiece model."""
    if _TIKTOKEN.match(start):
        return (
            "is a vocabulary of tiktoken, which does not say how texts are cut: give the model's"
            " tokenizer.json (--tokenizer FILE)"
        )
    return of_bytes(start)


def of_file(start: bytes, name: str) -> str:
    """The same of a file in place of weights."""
    if instead := of_bytes(start):
        return instead
    for end, what in _ENDS.items():
        if name.lower().endswith(end):
            return f"is {what}"
    if start.lstrip().startswith(b"{"):
        return "is JSON, not weights: give the directory that it is in"
    return ""


def of_directory(path: Path) -> str:
    """The same of a directory without config.json, or with it and without weights."""
    names = _names(path)
    if not names:
        return "is an empty directory"
    for name in names:
        if os.path.islink(path / name) and not os.path.exists(path / name):
            return f"has {name}, a link to what is not there: download it again"
        if shard := _SHARD.fullmatch(name):
            return f"has shards without their index: download {shard[1]}{shard[2]}.index.json too"
        if variant := _VARIANT.fullmatch(name):
            return f"has {name}, a variant: call it {variant[1]}{variant[2]}"
    for end, what in _INSIDE:
        if any(name.endswith(end) for name in names):
            return f"has {what}"
    if "snapshots" in names:
        inside = _names(path / "snapshots")
        which = f"snapshots/{inside[0]}" if len(inside) == 1 else "a directory in snapshots"
        return f"is the cache of a model: give {which}"
    for name in names:
        if name.endswith(".gguf"):
            return f"has a GGUF file: give that file, {name}"
    for name in names:
        if (path / name / "config.json").is_file():
            return f"is not the directory of a model: give the one in it, {name}"
    return ""


def base_of(start: bytes) -> str:
    """The model that the beginning of an adapter's configuration names, or ""."""
    found = _BASE.search(start)
    return found[1].decode("ascii", "replace") if found else ""


def _names(path: Path) -> list[str]:
    """Some names of a directory, in their order."""
    names = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) == _MOST_NAMES:
                    break
    except OSError:
        return []
    return sorted(names)
