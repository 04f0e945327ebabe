"""What people give to the converter by mistake: each made small, with the words of the command.
docs/reference/messages.md has the line that each gets."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np
from safetensors.numpy import save_file

import torch_zip
from gguf_bytes import F32, STRING, U16, U32, container

OUT = ("-o", "out.phasor")
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 29,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "transformers_version": "4.57.0",
}
POINTER = (
    b"version https://git-lfs.example/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 538090408\n"
)
PAGE = b"<!DOCTYPE html>\n<html><head><title>Not found</title></head></html>\n"


class Wrong(NamedTuple):
    """A wrong input. make: puts it into the folder in which the command runs."""

    what: str
    words: tuple[str, ...]
    make: Callable[[Path], None]


def _module(folder: Path) -> None:
    """As torch.save(model) writes it."""
    torch_zip.write_zip(folder / "m.pt", b"\x80\x02c__main__\nNet\n)\x81}b.", {})


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    at = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (29, 8),
        "lm_head.weight": (29, 8),
        "model.norm.weight": (8,),
        f"{at}self_attn.q_proj.weight": (8, 8),
        f"{at}self_attn.k_proj.weight": (4, 8),
        f"{at}self_attn.v_proj.weight": (4, 8),
        f"{at}self_attn.o_proj.weight": (8, 8),
        f"{at}mlp.gate_proj.weight": (12, 8),
        f"{at}mlp.up_proj.weight": (12, 8),
        f"{at}mlp.down_proj.weight": (8, 12),
        f"{at}input_layernorm.weight": (8,),
        f"{at}post_attention_layernorm.weight": (8,),
    }
    return {n: rng.normal(0, 0.3, shape).astype(np.float32) for n, shape in shapes.items()}


def directory(
    more: dict[str, Any] | None = None, files: dict[str, Any] | None = None, weights: bool = True
) -> Callable[[Path], None]:
    """A Llama's directory with other fields (None: without one) and other files: bytes, or what is
    written as JSON."""

    def make(folder: Path) -> None:
        to = folder / "model"
        to.mkdir()
        config = {n: v for n, v in {**LLAMA, **(more or {})}.items() if v is not None}
        (to / "config.json").write_text(json.dumps(config))
        if weights:
            save_file(arrays(), to / "model.safetensors")
        put(to, files or {})

    return make


def put(to: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (to / name).write_bytes(data)


def _files(**files: Any) -> Callable[[Path], None]:
    """Files in the folder itself; a name's __ is a dot, its ___ a slash."""
    return lambda folder: put(
        folder, {n.replace("___", "/").replace("__", "."): v for n, v in files.items()}
    )


def _cut(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        directory()(folder)
        data = (folder / "model" / name).read_bytes()
        (folder / "model" / name).write_bytes(data[: len(data) // 2])

    return make


def _zip(name: str) -> Callable[[Path], None]:
    """The directory, packed."""

    def make(folder: Path) -> None:
        directory()(folder)
        with zipfile.ZipFile(folder / name, "w") as archive:
            for file in sorted((folder / "model").iterdir()):
                archive.write(file, f"model/{file.name}")
        shutil.rmtree(folder / "model")

    return make


def _gguf(architecture: str, **more: tuple[int, Any]) -> bytes:
    """A GGUF file with nothing but the name of its architecture, and other keys."""
    return container({"general.architecture": (STRING, architecture), **more}, {})


def gguf(**more: tuple[int, Any]) -> bytes:
    """The directory's model as a GGUF file, and other keys."""
    sizes = {
        "block_count": 1,
        "context_length": 16,
        "embedding_length": 8,
        "feed_forward_length": 12,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
    }
    names = {
        "model.embed_tokens": "token_embd",
        "lm_head": "output",
        "model.norm": "output_norm",
        "model.layers.": "blk.",
        "self_attn.o_proj": "attn_output",
        "self_attn.": "attn_",
        "mlp.": "ffn_",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "_proj": "",
    }
    given = {}
    for name, values in arrays().items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        given[name] = (values.shape[::-1], 0, values.tobytes())
    keys = {f"llama.{name}": (U32, value) for name, value in sizes.items()}
    keys["llama.attention.layer_norm_rms_epsilon"] = (F32, 1e-6)
    return container({"general.architecture": (STRING, "llama"), **keys, **more}, given)


def _row(what: str, words: str, make: Callable[[Path], None]) -> Wrong:
    return Wrong(what, (*words.split(), *OUT), make)


def _linked(name: str, to: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        if "/" in name:
            directory(weights=False)(folder)
        (folder / name).symlink_to(to)

    return make


_ST = "sentence_transformers.models"
_INDEX = {"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}
_NOTHING = {"num_hidden_layers": 2}
SPLIT = {"split.count": (U16, 3)}  # a GGUF file that says that it is one of three
_Q = {"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}}
_AWQ = {
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemv"}
}
_MLX = {"quantization": {"group_size": 64, "bits": 4}}
_TIKTOKEN = b"".join(base64.b64encode(bytes([i])) + f" {i}\n".encode() for i in range(29))
_QWEN = {
    "vocab.json": {"a": 0},
    "merges.txt": b"#version: 0.2\n",
    "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer"},
}
_HQQ = {"quantization_config": {"quant_method": "hqq"}}
_MX = {"quantization_config": {"quant_method": "mxfp4"}}

WRONG = [
    _row("a name that is not there", "modle", lambda folder: None),
    _row("an empty directory", "model", lambda folder: (folder / "model").mkdir()),
    _row("a directory of something else", "model", _files(model___notes__txt=b"x")),
    _row(
        "the directory above the model",
        "models",
        _files(models___llama___config__json=LLAMA),
    ),
    _row(
        "the cache's directory of a model",
        "models--a--b",
        lambda folder: put(
            folder / "models--a--b",
            {"refs/main": b"0af1", "snapshots/0af1/config.json": LLAMA},
        ),
    ),
    _row("a directory without weights", "model", directory(weights=False)),
    _row(
        "weights of TensorFlow alone",
        "model",
        directory(weights=False, files={"tf_model.h5": b"\x89HDF\r\n\x1a\n"}),
    ),
    _row(
        "weights of Flax alone",
        "model",
        directory(weights=False, files={"flax_model.msgpack": b"\x80"}),
    ),
    _row(
        "a directory with ONNX alone",
        "model",
        directory(weights=False, files={"model.onnx": b"\x08\x08"}),
    ),
    _row(
        "a checkpoint of TensorFlow 1",
        "model",
        _files(
            model___model__ckpt__index=b"\0", model___model__ckpt__data_00000_of_00001=b"\0" * 9
        ),
    ),
    _row("a SavedModel of TensorFlow", "model", _files(model___saved_model__pb=b"\x08\x01")),
    _row(
        "a pipeline of diffusers",
        "model",
        _files(model___model_index__json={"_class_name": "StableDiffusionPipeline"}),
    ),
    _row(
        "an adapter without its model",
        "model",
        _files(
            model___adapter_config__json={"peft_type": "LORA", "base_model_name_or_path": "a/b"}
        ),
    ),
    _row("a directory with a GGUF file", "model", _files(model___m__gguf=_gguf("llama"))),
    _row("its config.json", "model/config.json", directory()),
    _row("a tokenizer", "tokenizer.json", _files(tokenizer__json={"model": {}})),
    _row("config.json that is cut", "model", _cut("config.json")),
    _row("a shard that is cut", "model", _cut("model.safetensors")),
    _row(
        "a shard that is missing",
        "model",
        directory(weights=False, files={"model.safetensors.index.json": _INDEX}),
    ),
    _row(
        "a pointer of Git LFS",
        "model",
        directory(weights=False, files={"model.safetensors": POINTER}),
    ),
    _row(
        "a page saved as weights",
        "model",
        directory(weights=False, files={"pytorch_model.bin": PAGE}),
    ),
    _row("a page saved as config.json", "model", directory(files={"config.json": PAGE})),
    _row(
        "an empty file",
        "model",
        directory(weights=False, files={"model.safetensors": b""}),
    ),
    _row("a file of ONNX", "model.onnx", _files(model__onnx=b"\x08\x08\x12\x07pytorch")),
    _row("a file of Keras", "model.h5", _files(model__h5=b"\x89HDF\r\n\x1a\n" + bytes(99))),
    _row("a zip file of a model", "model.zip", _zip("model.zip")),
    _row("a packed file", "m.gguf.gz", _files(m__gguf__gz=gzip.compress(gguf(), mtime=0))),
    _row("a module in place of its weights", "m.pt", _module),
    _row("a pickle of Python", "model.pkl", _files(model__pkl=b"\x80\x04}q\x00.")),
    _row("arrays of NumPy", "model.npy", _files(model__npy=b"\x93NUMPY\x01\x00" + bytes(99))),
    _row("a .phasor file", "m.phasor", _files(m__phasor=b"\x89PHASOR\n" + bytes(99))),
    _row("a file of GGML", "ggml-model.bin", _files(**{"ggml-model__bin": b"tjgg" + bytes(99)})),
    _row("a GGUF of an unknown architecture", "m.gguf", _files(m__gguf=_gguf("rwkv7"))),
    _row("a GGUF that is cut", "m.gguf", _files(m__gguf=_gguf("llama")[:40])),
    _row("weights without a description", "model/model.safetensors", directory()),
    _row(
        "a model with pictures",
        "model",
        directory({"model_type": "paligemma", "vision_config": {"image_size": 336}}),
    ),
    _row(
        "a picture encoder",
        "model",
        directory({"model_type": "vit", "architectures": ["ViTForImageClassification"]}),
    ),
    _row(
        "a model of speech",
        "model",
        directory({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}),
    ),
    _row(
        "a mixture of experts",
        "model",
        directory({"model_type": "mixtral", "num_local_experts": 8}),
    ),
    _row(
        "a state-space model",
        "model",
        directory({"model_type": "mamba", "state_size": 16}),
    ),
    _row("config.json without a model_type", "model", directory({"model_type": None})),
    _row("an architecture of its own", "model", directory({"model_type": "my-llm"})),
    _row("another class", "model", directory({"architectures": ["LlamaForImageClassification"]})),
    _row("weights packed by GPTQ in 3 bits", "model", directory(_Q)),
    _row("weights packed by AWQ for gemv", "model", directory(_AWQ)),
    _row("weights packed by HQQ", "model", directory(_HQQ)),
    _row("weights packed as MXFP4", "model", directory(_MX)),
    _row("weights packed by MLX", "model", directory(_MLX)),
    _row("a field that is not known", "model", directory({"attention_sinks": 4})),
    _row("a wrong type of a field", "model", directory({"hidden_size": "8"})),
    _row("a tokenizer that is not there", "model --tokenizer t.json", directory()),
    _row(
        "a page in place of a tokenizer",
        "model --tokenizer t.model",
        lambda folder: (directory()(folder), put(folder, {"t.model": PAGE}))[0],
    ),
    _row(
        "a tokenizer of an unknown kind",
        "model",
        directory(files={"tokenizer.json": {"model": {"type": "Words"}}}),
    ),
    _row(
        "a vocabulary of tiktoken",
        "model",
        directory(files={"tokenizer.model": _TIKTOKEN}),
    ),
    _row("a slow tokenizer that is not supported", "model", directory(files=_QWEN)),
    _row("two tokenizers for one side", "model --tokenizer a --tokenizer b", directory()),
    _row("an adapter that is none", "model --lora model", directory()),
    _row(
        "an adapter beside its model",
        "model",
        directory(files={"adapter_config.json": {"peft_type": "LORA"}}),
    ),
    _row("a program that is not there", "model --phasor none", directory()),
    _row(
        "a pointer of Git LFS in place of a tokenizer",
        "model",
        directory(files={"tokenizer.model": POINTER}),
    ),
    _row(
        "a pointer of Git LFS in place of a vocabulary",
        "model",
        directory(files={"tokenizer.json": POINTER}),
    ),
    _row("a pointer of Git LFS named .gguf", "m.gguf", _files(m__gguf=POINTER)),
    _row("a link that leads nowhere", "model", _linked("model", "snapshots")),
    _row("a link that leads to itself", "model", _linked("model", "model")),
    _row(
        "weights that are a link to a lost blob",
        "model",
        _linked("model/model.safetensors", "../blobs/0af1"),
    ),
    _row(
        "a shard without its index",
        "model",
        directory(weights=False, files={"model-00001-of-00002.safetensors": b"x"}),
    ),
    _row(
        "a variant alone",
        "model",
        directory(weights=False, files={"model.fp16.safetensors": b"x"}),
    ),
    _row(
        "a download that did not end",
        "model",
        directory(weights=False, files={"model.safetensors.incomplete": b"x"}),
    ),
    _row("an empty config.json", "model", directory(files={"config.json": b""})),
    _row("an empty file of weights", "m.pt", _files(m__pt=b"")),
    _row("a text in place of weights", "README.md", _files(README__md=b"# Model card")),
    _row(
        "a file of TensorFlow 1",
        "model.ckpt.index",
        _files(model__ckpt__index=bytes(40)),
    ),
    _row("a graph of TensorFlow", "saved_model.pb", _files(saved_model__pb=b"\x08\x01\x12\x04")),
    _row(
        "a file of Flax",
        "flax_model.msgpack",
        _files(flax_model__msgpack=b"\x81\xa5param\x80"),
    ),
    _row(
        "a directory of OpenVINO",
        "model",
        directory(weights=False, files={"openvino_model.xml": b"<?xml?>"}),
    ),
    _row("weights of MLX", "model", directory(weights=False, files={"weights.npz": b"PK"})),
    _row(
        "a directory as Meta gave it",
        "model",
        _files(model___params__json={"dim": 8}, model___consolidated__00__pth=b"x"),
    ),
    _row(
        "a part of a pipeline of diffusers",
        "model",
        _files(model___config__json={"_class_name": "UNet2DConditionModel"}),
    ),
    _row(
        "the weights of an adapter",
        "adapter_model.safetensors",
        _files(adapter_model__safetensors=b"\x02" + bytes(7) + b"{}"),
    ),
    _row(
        "a module of sentence-transformers that is not supported",
        "model",
        directory(
            {"architectures": ["BertModel"], "model_type": "bert"},
            {"modules.json": [{"idx": 0, "name": "0", "path": "", "type": f"{_ST}.CNN"}]},
        ),
    ),
    _row("a picture's part of a GGUF", "mmproj.gguf", _files(mmproj__gguf=_gguf("clip"))),
    _row("a GGUF in several files", "m.gguf", _files(m__gguf=_gguf("llama", **SPLIT))),
    _row("a mixture of experts in a GGUF", "m.gguf", _files(m__gguf=_gguf("qwen3moe"))),
    _row(
        "a model of pictures and texts",
        "model",
        directory({"model_type": "blip", "text_config": {}, "vision_config": {}}),
    ),
    _row("a directory in place of a tokenizer", "model --tokenizer model", directory()),
]
