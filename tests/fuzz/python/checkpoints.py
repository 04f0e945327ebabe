"""Hostile checkpoints: safetensors, shards, torch.save's two formats, GGUF, llama2.c, moments."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import pickletools
import random
import re
import struct
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import models
import numpy as np
import raw
import values
from raw import Number, Text
from source import Source

import torch_legacy
import torch_zip
from phasor import vectors as V
from phasor.format.meta import as_stored
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from phasor.sources.gguf import container as gguf_file
from phasor.sources.llama2c import model as llama2c

DTYPES = (
    *("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "f4", ""),
    *("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E8M0", "U64", "U32", "U16", "C64"),
)
KINDS = (("llama", "LlamaForCausalLM"), ("bert", "BertModel"), ("gpt2", "GPT2LMHeadModel"))


@functools.cache
def _arrays(kind: str, name: str) -> dict[str, np.ndarray]:
    return models.directory(kind, name).arrays()


def config_of(kind: str, name: str) -> bytes:
    return json.dumps(models.directory(kind, name).config).encode()


def _some(rng: random.Random) -> tuple[bytes, dict[str, np.ndarray]]:
    """config.json, and the arrays of a small model, a few of them changed."""
    kind = rng.choice(KINDS)
    arrays = dict(_arrays(*kind))
    if rng.random() < 0.2:
        change_arrays(rng, arrays)
    return config_of(*kind), arrays


def change_arrays(rng: random.Random, arrays: dict[str, np.ndarray]) -> None:
    """One of them with another type, shape, name or values, or gone."""
    name = rng.choice(list(arrays))
    array, how = arrays[name], rng.randrange(9)
    if how == 0:
        arrays[name] = array.astype(rng.choice(("<f8", "<f2", "<i8")))
    elif how == 1:
        arrays[name] = array.reshape(rng.choice((-1, (1, *array.shape), array.shape[::-1])))
    elif how == 2:
        arrays[name] = array[: rng.randrange(len(array) + 1)]
    elif how == 3:
        arrays[name] = np.concatenate([array, array])
    elif how == 4:
        del arrays[name]
    elif how == 5:
        arrays[rng.choice((name + "x", "x", "", "lm_head.weight", "é\n"))] = array
    elif how == 6:
        arrays[name] = array * np.float32(rng.choice((1e30, 1e-42, 0, np.nan, np.inf, -1)))
    elif how == 7:
        arrays[name] = arrays[rng.choice(list(arrays))]
    else:  # as factors
        module, _, own = name.rpartition(".")
        ends = ("_g", "_v", "_orig", "_mask", "_u", ".original0", ".original1", ".0")
        start = rng.choice((name, f"{module}.parametrizations.{own}"))
        parts = (array, array[:1], array[:, :1] if array.ndim > 1 else array)
        for end in rng.sample(ends, 2):
            arrays[start + end] = rng.choice(parts)
        arrays.pop(name)


# ---- safetensors


def safetensors_parts(arrays: dict[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes behind it."""
    header, body = {}, b""
    names = {"<f4": "F32", "<f8": "F64", "<f2": "F16", "<i8": "I64", "<i4": "I32"}
    names |= {"|u1": "U8", "|i1": "I8"}
    for name, array in arrays.items():
        data = array.tobytes()
        header[name] = {
            "dtype": names[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    return header, body


def safetensors(header: bytes, body: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def plain(arrays: dict[str, np.ndarray]) -> bytes:
    header, body = safetensors_parts(arrays)
    return safetensors(json.dumps(header).encode(), body)


def hostile_safetensors(rng: random.Random, arrays: dict[str, np.ndarray]) -> bytes:
    header, body = safetensors_parts(arrays)
    header["__metadata__"] = {"format": "pt"}
    kind = rng.random()
    if kind < 0.75:
        if rng.random() < 0.3:
            header[rng.choice(list(arrays))]["dtype"] = rng.choice(DTYPES)
        words = (*DTYPES, *header, "__metadata__", "dtype", "shape", "data_offsets")
        header = values.changed(rng, header, words)
    text = values.encoded(header)
    if rng.random() < 0.1:
        text += b" " * rng.choice((1, 7, 1000)) + rng.choice((b"", b"}", b"\0", b"{}"))
    data = safetensors(text, body)
    if kind > 0.7 and rng.random() < 0.5:
        data = raw.packed("<Q", raw.number(rng, len(text))) + data[8:]
    return raw.changed(rng, data) if kind > 0.8 else data


def make_safetensors(rng: random.Random) -> Source:
    config, arrays = _some(rng)
    files = {"m/config.json": config, "m/model.safetensors": hostile_safetensors(rng, arrays)}
    if rng.random() < 0.05:
        return Source({"m.safetensors": files["m/model.safetensors"]}, ("@m.safetensors",))
    return Source(files, ("@m",))


def make_shards(rng: random.Random) -> Source:
    config, arrays = _some(rng)
    names = list(arrays)
    cut = rng.randrange(len(names) + 1)
    shards = {
        f"model-0000{i}-of-00002.safetensors": {n: arrays[n] for n in part}
        for i, part in ((1, names[:cut]), (2, names[cut:]))
    }
    pickled = rng.random() < 0.2
    places = {name: shard for shard, part in shards.items() for name in part}
    index: Any = {"metadata": {"total_size": 1}, "weight_map": places}
    words = (
        *shards,
        *names[:5],
        "weight_map",
        "config.json",
        "..",
        "../m/config.json",
        "/dev/zero",
    )
    index = values.changed(rng, index, words)
    files = {"m/config.json": config}
    for name, part in shards.items():
        broken = rng.random() < 0.15 and part
        files[f"m/{name}"] = hostile_safetensors(rng, part) if broken else plain(part)
    start = "pytorch_model.bin" if pickled else "model.safetensors"
    files[f"m/{start}.index.json"] = values.encoded(index)
    if rng.random() < 0.1:
        files[f"m/{start}.index.json"] = raw.changed(rng, files[f"m/{start}.index.json"])
    return Source(files, ("@m",))


# ---- torch.save

_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]
_GLOBALS = (
    *(b"ctorch\nFloatStorage\n", b"ctorch\nSize\n", b"ctorch._utils\n_rebuild_tensor_v2\n"),
    *(b"ctorch._utils\n_rebuild_parameter\n", b"ccollections\nOrderedDict\n", b"cos\nsystem\n"),
    *(b"ctorch._utils\n_rebuild_tensor_v3\n", b"ctorch.storage\nUntypedStorage\n"),
    *(b"ctorch\nfloat8_e4m3fn\n", b"ctorch\nuint16\n"),
    *(
        b"cbuiltins\neval\n",
        b"ctorch\nload\n",
        b"ctorch\nBFloat16Storage\n",
        b"cbuiltins\ngetattr\n",
    ),
    *(
        b"cnumpy\nndarray\n",
        b"c__main__\nx\n",
        b"cposix\nsystem\n",
        b"ctorch.serialization\nload\n",
    ),
    *(b"cargparse\nNamespace\n", b"c__builtin__\nset\n", b"ccollections\ndefaultdict\n"),
    *(b"cnumpy.core.multiarray\nscalar\n", b"ctorch\nComplexFloatStorage\n", b"cx.y\nZ\n"),
    *(
        b"ctorch._tensor\n_rebuild_from_type_v2\n",
        b"ctorch._utils\n_rebuild_parameter_with_state\n",
        b"ctorch\nTensor\n",
    ),
)
_PUSHED = (
    *(
        b"N",
        b"\x88",
        b"\x89",
        b"]",
        b"}",
        b")",
        b"(",
        b"K\x00",
        b"K\x01",
        b"K\xff",
        b"J\xff\xff\xff\xff",
    ),
    *(
        b"\x8a\x09" + b"\0" * 8 + b"\x01",
        b"\x8a\x01\xff",
        b"G\x7f\xf0" + bytes(6),
        b"I01\n",
        b"L5L\n",
    ),
    *(b"I" + b"9" * 5000 + b"\n", b"F1e999\n", b"U\x01a", b"X\x01\0\0\0a", b"X\xff\xff\xff\x7fa"),
    *(
        b"\x8e" + b"\xff" * 8,
        b"\x8c\xffa",
        b"B\xff\xff\xff\x7f",
        b"C\x01a",
        b"\x85",
        b"\x86",
        b"\x87",
    ),
    *(
        b"2",
        b"0",
        b"1",
        b"h\x00",
        b"j\xff\xff\xff\x7f",
        b"q\x00",
        b"r\xff\xff\xff\x7f",
        b"\x94",
        b"t",
    ),
    *(
        b"R",
        b"b",
        b"Q",
        b"s",
        b"u",
        b"a",
        b"e",
        b"d",
        b"l",
        b"o",
        b"\x81",
        b"\x92",
        b"\x93",
        b"\x8f",
        b"\x90",
        b"\x91",
    ),
    # Objects: of a name, with arguments, with what is put into them.
    *(b"cx\ny\n)\x81", b"cx\ny\n)}\x92", b"cx\ny\n)R", b"cx\ny\n)R}b", b"\x8f(K\x01\x90"),
    *(
        b"\x95" + b"\xff" * 8,
        b"\x95" + bytes(8),
        b"\x82\x01",
        b"P0\n",
        b"\x97",
        b"\x98",
        b".",
        b"\x80\x05",
    ),
    *(b")" + b"2\x86" * 40, b"]" + b"2a" * 40, b"]" * 3000, b"(" * 3000, b"K\x01" * 3000 + b"t"),
)


@functools.cache
def _pieces(program: bytes) -> tuple[bytes, ...]:
    """The opcodes of a pickle, one by one."""
    places = [place for _, _, place in pickletools.genops(program)] + [len(program)]
    return tuple(program[a:b] for a, b in zip(places, places[1:]))


def hostile_pickle(rng: random.Random, program: bytes) -> bytes:
    """Opcodes put in, taken out, doubled, moved; globals and numbers that are others."""
    if rng.random() < 0.1:
        return raw.changed(rng, program)
    pieces = list(_pieces(program))
    for _ in range(min(6, 1 + int(rng.expovariate(0.9)))):
        at, how = rng.randrange(len(pieces)), rng.random()
        code = pieces[at][:1]
        if how < 0.2 and code in (b"K", b"J", b"M", b"\x8a"):
            size = rng.choice((1, 2, 4, 6, 8, 9))
            number = raw.number(rng, pieces[at][1]) % (1 << 8 * size)
            pieces[at] = b"\x8a" + bytes([size]) + number.to_bytes(size, "little")
        elif how < 0.35 or code == b"c" and how < 0.7:
            pieces[at] = rng.choice(_GLOBALS)
        elif how < 0.6:
            pieces.insert(at, rng.choice(_PUSHED))
        elif how < 0.68:
            pieces.insert(at, rng.choice(_OPCODES))
        elif how < 0.78:
            del pieces[at]
        elif how < 0.86:
            pieces[at:at] = pieces[at : at + rng.choice((1, 2, 8, 30))]
        elif how < 0.93:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        else:
            pieces[at] = rng.choice(_PUSHED)
        if not pieces:
            return b""
    return b"".join(pieces)


@functools.cache
def _zip_content(kind: str, name: str) -> tuple[bytes, dict[str, bytes]]:
    """data.pkl and the storages of a small model."""
    entries, storages = {}, {}
    for i, (key, array) in enumerate(_arrays(kind, name).items()):
        entries[key], storages[str(i)] = torch_zip.tensor(array, str(i)), array.tobytes()
    return torch_zip.state_dict(entries), storages


_NAMES = (
    *("../../outside", "/etc/outside", "archive/data.pkl", "archive/data/0", "archive/code/x.py"),
    *(
        "archive/constants.pkl",
        "data.pkl",
        "other/data.pkl",
        "archive/data/../data.pkl",
        "archive\\data\\0",
    ),
    *(
        "archive/",
        "",
        "archive/é",
        "archive/data/" + "x" * 60000,
        "archive/byteorder",
        "archive/\x1b[1m",
    ),
)


def _members(rng: random.Random, program: bytes, storages: dict[str, bytes]) -> list[list[Any]]:
    out: list[list[Any]] = [["archive/data.pkl", program, zipfile.ZIP_STORED]]
    out += [["archive/byteorder", b"little", 0], ["archive/version", b"3\n", 0]]
    out += [[f"archive/data/{name}", data, 0] for name, data in storages.items()]
    for _ in range(int(rng.expovariate(0.8))):
        at, how = rng.randrange(len(out)), rng.randrange(8)
        if how == 0:
            out.insert(at, list(out[rng.randrange(len(out))]))
        elif how == 1:
            out[at][0] = rng.choice(_NAMES)
        elif how == 2:
            out[at][2] = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        elif how == 3:
            out[at][1:] = [bytes(1 << rng.choice((16, 16, 20))), zipfile.ZIP_DEFLATED]
        elif how == 4:
            del out[at]
        elif how == 5:
            out[at][1] = raw.changed(rng, out[at][1])
        elif how == 6:
            out[at][1] = out[at][1][: rng.randrange(len(out[at][1]) + 1)]
        else:
            out.insert(at, [rng.choice(_NAMES), rng.choice((b"", b"big", b"x" * 99)), 0])
        if not out:
            break
    return out


def _zipped(members: list[list[Any]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive._didModify = True
        for name, data, method in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, data)
    return file.getvalue()


def _change_directory(rng: random.Random, data: bytes) -> bytes:
    """Numbers in the zip's own records."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        mark = rng.choice((b"PK\x01\x02", b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04"))
        places = [found.start() for found in re.finditer(re.escape(mark), out)]
        if not places:
            continue
        at = rng.choice(places) + 4 + 2 * rng.randrange(9 if mark[2] == 5 else 21)
        code = rng.choice(("<H", "<I"))
        size = struct.calcsize(code)
        old = int.from_bytes(out[at : at + size], "little")
        out[at : at + size] = raw.packed(code, raw.number(rng, old))
    return bytes(out)


def hostile_zip(rng: random.Random, program: bytes, storages: dict[str, bytes]) -> bytes:
    kind = rng.random()
    if kind < 0.55:
        program = hostile_pickle(rng, program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, of names that are there twice
        calm = random.Random(0)
        calm.expovariate = lambda _: 0.0  # type: ignore[method-assign]
        data = _zipped(_members(rng if kind > 0.5 else calm, program, storages))
    if 0.7 < kind < 0.85:
        data = _change_directory(rng, data)
    if kind > 0.85:
        data = raw.changed(rng, data)
    if rng.random() < 0.03:
        data = rng.choice((b"#!/bin/sh\n", b"PK\x03\x04", bytes(100))) + data
    return data


def make_torch_zip(rng: random.Random) -> Source:
    kind = rng.choice(KINDS)
    data = hostile_zip(rng, *_zip_content(*kind))
    if rng.random() < 0.05:
        return Source({"m.pt": data}, ("@m.pt",))
    return Source({"m/config.json": config_of(*kind), "m/pytorch_model.bin": data}, ("@m",))


def make_torch_legacy(rng: random.Random) -> Source:
    kind = rng.choice(KINDS)
    arrays = dict(_arrays(*kind))
    program = torch_zip.state_dict(
        {name: torch_legacy.tensor(array, str(i)) for i, (name, array) in enumerate(arrays.items())}
    )
    keys = pickle.dumps([str(i) for i in range(len(arrays))], protocol=2)
    heads = (torch_legacy.MAGIC, 1001, torch_legacy.MACHINE)
    parts: list[bytes] = [*(pickle.dumps(head, protocol=2) for head in heads), program, keys]
    body: list[raw.Part] = []
    for array in arrays.values():
        body += [Number("<q", array.size), array.tobytes()]
    how = rng.random()
    if how < 0.75:
        at = rng.choice((1, 2, 3, 3, 3, 3, 4))
        parts[at] = hostile_pickle(rng, parts[at])
    elif how < 0.9:
        raw.changed_parts(rng, body)
    data = b"".join(parts) + raw.joined(body)
    if how > 0.85:
        data = raw.changed(rng, data)
    return Source({"m/config.json": config_of(*kind), "m/pytorch_model.bin": data}, ("@m",))


# ---- GGUF

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
_CODES = {code: struct_code for code, struct_code in gguf_file._SCALARS.items()}


def _metadata(kind: str = "llama", times: int = 1) -> dict[str, tuple[int, Any]]:
    head = {"general.architecture": (STRING, kind), "general.name": (STRING, "Small")}
    sizes = {
        "block_count": (U32, 1),
        "context_length": (U32, 16),
        "embedding_length": (U32, 32 * times),
        "feed_forward_length": (U32, 32 * times),
        "attention.head_count": (U32, 2),
        "attention.head_count_kv": (U32, 1),
        "attention.layer_norm_rms_epsilon": (F32, 1e-5),
    }
    sizes |= _OWN_KEYS.get(kind, {})
    return {**head, **{f"{kind}.{name}": value for name, value in sizes.items()}}


ROWS = 320
_GGUF_SHAPES = {
    "token_embd": (ROWS, 32),
    "output_norm": (32,),
    "blk.0.attn_norm": (32,),
    "blk.0.attn_q": (32, 32),
    "blk.0.attn_k": (16, 32),
    "blk.0.attn_v": (16, 32),
    "blk.0.attn_output": (32, 32),
    "blk.0.ffn_norm": (32,),
    "blk.0.ffn_gate": (32, 32),
    "blk.0.ffn_up": (32, 32),
    "blk.0.ffn_down": (32, 32),
}
# What an architecture has beside, or None: what it lacks.
_POST = {"blk.0.post_attention_norm": (32,), "blk.0.post_ffw_norm": (32,)}
_GEMMA4_BLOCK = {
    **{f"{name}_norm": (32,) for name in ("attn", "ffn", "post_attention", "post_ffw", "post")},
    **{name: (32, 32) for name in ("ffn_gate", "ffn_up", "ffn_down", "inp_gate", "proj")},
    "layer_output_scale": (1,),
}
_OWN_SHAPES: dict[str, dict[str, tuple[int, ...] | None]] = {
    "bitnet-b1.58": {"blk.0.attn_sub_norm": (32,), "blk.0.ffn_sub_norm": (32,)},
    "qwen3": {"blk.0.attn_q_norm": (16,), "blk.0.attn_k_norm": (16,)},
    "lfm2": {  # behind a block with attention one with a convolution
        "output_norm": None,
        "token_embd_norm": (32,),
        "blk.0.attn_q_norm": (16,),
        "blk.0.attn_k_norm": (16,),
        "blk.1.shortconv.in_proj": (96, 32),
        "blk.1.shortconv.conv": (32, 3),
        "blk.1.shortconv.out_proj": (32, 32),
        **{f"blk.1.{name}_norm": (32,) for name in ("attn", "ffn")},
        **{f"blk.1.ffn_{name}": (32, 32) for name in ("gate", "up", "down")},
    },
    "gemma2": _POST,
    "gemma4": {  # a block with a window, one without, whose values are its keys
        **{f"blk.{i}.{name}": shape for i in (0, 1) for name, shape in _GEMMA4_BLOCK.items()},
        **{"blk.0.attn_q_norm": (16,), "blk.0.attn_k_norm": (16,)},
        **{"blk.1.attn_q_norm": (32,), "blk.1.attn_k_norm": (32,)},
        **{"blk.1.attn_q": (64, 32), "blk.1.attn_k": (32, 32), "blk.1.attn_output": (32, 64)},
        **{"per_layer_token_embd": (ROWS, 64), "per_layer_model_proj": (64, 32)},
        "per_layer_proj_norm": (32,),
    },
    "olmo2": {
        **_POST,
        "blk.0.attn_q_norm": (32,),
        "blk.0.attn_k_norm": (16,),
        "blk.0.attn_norm": None,
        "blk.0.ffn_norm": None,
    },
    "phi3": {
        **dict.fromkeys(("blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.ffn_gate")),
        "blk.0.attn_qkv": (64, 32),
        "blk.0.ffn_up": (64, 32),
        "output": (ROWS, 32),
    },
}
_OWN_KEYS: dict[str, dict[str, tuple[int, Any]]] = {
    "granite": {"logit_scale": (F32, 8.0), "attention.scale": (F32, 0.1)},
    "gemma2": {"attention.sliding_window": (U32, 5), "attn_logit_softcapping": (F32, 2.0)},
    "gemma4": {
        "block_count": (U32, 2),
        "attention.key_length": (U32, 32),
        "attention.key_length_swa": (U32, 16),
        "attention.sliding_window": (U32, 5),
        "attention.sliding_window_pattern": (ARRAY, [BOOL, [True, False]]),
        "attention.shared_kv_layers": (U32, 0),
        "embedding_length_per_layer_input": (U32, 32),
    },
    "llama": {"rope.freq_base": (F32, 500.0), "rope.scaling.type": (STRING, "none")},
    "qwen2": {"rope.scaling.type": (STRING, "linear"), "rope.scaling.factor": (F32, 4.0)},
    "phi3": {"rope.dimension_count": (U32, 16)},
    "lfm2": {
        "block_count": (U32, 2),
        "attention.head_count_kv": (ARRAY, [I32, [1, 0]]),
        "shortconv.l_cache": (U32, 3),
    },
}
# Of a block, in widths of 32.
_SIZES_OF_CODES = {20: 1, 39: 1, 34: 8, 35: 8, 36: 4, 41: 4, 42: 4, 11: 8, 12: 8, 14: 8, 23: 8}


def _gguf_tensors(
    rng: random.Random, architecture: str, kind: int, times: int = 1
) -> list[list[Any]]:
    """[name, dimensions in the file's order, type, bytes]. times: all widths are times that."""
    some, out = np.random.default_rng(5), []
    for name, shape in (_GGUF_SHAPES | _OWN_SHAPES.get(architecture, {})).items():
        if shape is None:
            continue
        shape = tuple(n if n in (ROWS, 3) else n * times for n in shape)
        type_ = kind if len(shape) == 2 and shape[1] != 3 else 0
        values_ = some.normal(0.0 if len(shape) == 2 else 1.0, 0.1, shape)
        if type_ == 0:
            data = values_.astype("<f4").tobytes()
        elif type_ == 1:
            data = values_.astype("<f2").tobytes()
        else:
            own = gguf_file.TYPES[type_]
            blocks = np.zeros(values_.size // own.size, own.block)
            blocks.view(np.uint8)[:] = some.integers(0, 60, blocks.nbytes)
            for field, value in (("d", 0.01), ("e", 120)):
                if field in (own.block.names or ()):
                    blocks[field] = value
            scale = np.float32(0.01).tobytes() if own.tail else b""
            data = blocks.tobytes() + scale.ljust(own.tail, b"\0")
        out.append([f"{name}.weight", list(shape[::-1]), type_, data])
    return out


def _tokenizer_keys(rng: random.Random) -> dict[str, tuple[int, Any]]:
    bpe = rng.random() < 0.5
    if bpe:
        tokens = [chr(33 + i) for i in range(43)] + ["Ġ", '!"', "Ġ!", "<a>", "<b>"]
        more: dict[str, tuple[int, Any]] = {
            "model": (STRING, "gpt2"),
            "pre": (STRING, rng.choice(("smollm", "llama-bpe", "qwen2", "deepseek-llm", "gpt-2"))),
            "merges": (ARRAY, [STRING, ['! "', "Ġ !"]]),
            "token_type": (ARRAY, [I32, [1] * 46 + [3, 3]]),
        }
    else:
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁"]
        tokens += ["a", "b", "ab", "▁a", *(chr(99 + i) for i in range(20))]
        more = {
            "model": (STRING, "llama"),
            "scores": (ARRAY, [F32, [-float(i) for i in range(len(tokens))]]),
            "token_type": (ARRAY, [I32, [2, 3, 3] + [6] * 256 + [1] * 25]),
        }
    more |= {
        "tokens": (ARRAY, [STRING, tokens]),
        "bos_token_id": (U32, 1),
        "eos_token_id": (U32, 2),
        "add_bos_token": (BOOL, True),
    }
    return {f"tokenizer.ggml.{name}": value for name, value in more.items()}


def _fitting(kind: int, given: Any) -> Any:
    """A value that can be written as this type."""
    if kind == STRING:
        return given if isinstance(given, str) else str(given)[:5000]
    whole = int(given) if isinstance(given, (int, float)) and abs(given) < 1e300 else 1
    return float(whole) if kind in (6, 12) else whole


def _value_parts(kind: int, given: Any) -> list[raw.Part]:
    if kind == STRING:
        return [Text("<Q", given.encode("utf-8", errors="surrogatepass"))]
    if kind == ARRAY:
        inner, items = given
        out: list[raw.Part] = [Number("<I", inner), Number("<Q", len(items))]
        for item in items:
            out += _value_parts(inner, item) if inner != ARRAY else []
        return out
    return [Number(_CODES.get(kind, "<I"), given)]


def _change_keys(rng: random.Random, keys: dict[str, tuple[int, Any]], words: tuple) -> None:
    for _ in range(1 + int(rng.expovariate(1.0))):
        name, how = rng.choice(list(keys)), rng.random()
        kind, given = keys[name]
        if how < 0.15:
            del keys[name]
            if not keys:
                return
        elif how < 0.3:
            start = rng.choice(("", "general.", "llama.", "tokenizer.ggml.", "tokenizer."))
            kind = rng.choice((U32, F32, BOOL, STRING, U64, I32))
            value = _fitting(kind, values.hostile(rng, words))
            keys[start + rng.choice(words)] = (kind, value)
        elif kind == ARRAY and how < 0.8:
            inner, items = given
            items = values.changed(rng, items, words)
            items = items if isinstance(items, list) else [1]
            inner = inner if rng.random() < 0.9 else rng.choice((STRING, U32, F32, BOOL))
            keys[name] = (ARRAY, [inner, [_fitting(inner, item) for item in items]])
        elif how < 0.85 and kind != ARRAY:
            value = values.near(rng, given, words) if how < 0.5 else values.hostile(rng, words)
            keys[name] = (kind, _fitting(kind, value))
        elif how < 0.93:
            kind = rng.choice((U32, F32, BOOL, STRING, U64, I32, 0, 1, 2, 3, 11, 12))
            keys[name] = (kind, _fitting(kind, given if kind != ARRAY else 1))
        else:
            keys[name] = (ARRAY, [rng.choice((U32, F32, STRING)), []])


def _change_tensors(rng: random.Random, tensors: list[list[Any]]) -> None:
    for _ in range(1 + int(rng.expovariate(1.2))):
        at, how = rng.randrange(len(tensors)), rng.randrange(7)
        name, shape, kind, data = tensors[at]
        if how == 0:
            tensors[at][0] = rng.choice(("x", name + "x", tensors[0][0], "", "blk.7.attn_q.weight"))
        elif how == 1:
            tensors[at][1] = [raw.number(rng, n) for n in shape]
        elif how == 2:
            tensors[at][1] = rng.choice(([], shape * 2, shape[::-1], shape[:1], [1, *shape], [0]))
        elif how == 3:
            tensors[at][2] = rng.choice((*gguf_file.TYPES, 9, 10, 15, 24, 99, 1 << 31))
        elif how == 4 and len(tensors) > 1:
            del tensors[at]
        elif how == 5:
            tensors.append(list(tensors[at]))
        else:
            tensors[at][3] = raw.changed(rng, data)


def gguf_bytes(
    rng: random.Random, keys: dict[str, tuple[int, Any]], tensors: list[list[Any]], lies: bool
) -> bytes:
    alignment = keys.get("general.alignment", (U32, 32))[1]
    alignment = alignment if isinstance(alignment, int) and 0 < alignment <= 4096 else 32
    parts: list[raw.Part] = [b"GGUF", Number("<I", 3)]
    parts += [Number("<Q", len(tensors)), Number("<Q", len(keys))]
    for key, (kind, given) in keys.items():
        parts += [Text("<Q", key.encode("utf-8", "surrogatepass")), Number("<I", kind)]
        parts += _value_parts(kind, given)
    body = b""
    for name, shape, kind, data in tensors:
        body += bytes(-len(body) % alignment)
        parts += [Text("<Q", name.encode()), Number("<I", len(shape))]
        parts += [Number("<Q", n) for n in shape]
        parts += [Number("<I", kind), Number("<Q", len(body))]
        body += data
    if lies:
        raw.changed_parts(rng, parts)
    head = raw.joined(parts)
    return head + bytes(-len(head) % alignment) + body


def _make_gguf(rng: random.Random, words: tuple[str, ...], tokenizer: bool) -> Source:
    kinds = ("llama", "llama", "qwen2", "qwen3", "gemma2", "gemma4", "olmo2", "granite", "phi3")
    kind = rng.choice((*kinds, "lfm2"))
    codes, times = rng.choice((0, 0, 0, 1, 2, 8, 30)), 1
    if not tokenizer and rng.random() < 0.3:
        kind = rng.choice(("llama", "bitnet-b1.58"))
        codes, times = rng.choice(list(_SIZES_OF_CODES.items()))
    keys, tensors = _metadata(kind, times), _gguf_tensors(rng, kind, codes, times)
    how = rng.random()
    if tokenizer:
        own = _tokenizer_keys(rng)
        if rng.random() < 0.2:
            keys["tokenizer.chat_template"] = (STRING, "{{ messages[0].content }}")
        _change_keys(rng, own, words)
        keys |= own
    elif how < 0.5:
        _change_keys(rng, keys, words)
    elif how < 0.75:
        _change_tensors(rng, tensors)
    data = gguf_bytes(rng, keys, tensors, not tokenizer and 0.7 < how < 0.9 or how > 0.97)
    if how > 0.9 and not tokenizer:
        data = raw.changed(rng, data)
    return Source({"m.gguf": data}, ("@m.gguf",))


def make_gguf(rng: random.Random, words: tuple[str, ...]) -> Source:
    return _make_gguf(rng, words, False)


def make_gguf_tokenizer(rng: random.Random, words: tuple[str, ...]) -> Source:
    return _make_gguf(rng, words, True)


# ---- llama2.c

_SIZES = llama2c.Config(8, 12, 2, 2, 1, 24, 16, False)


def _llama2c(rng: random.Random, version: int) -> list[raw.Part]:
    c = _SIZES._replace(version=version, group=4, own_output=rng.random() < 0.3)
    numbers = [*c[:5], -c.vocabulary if c.own_output and not version else c.vocabulary, c.positions]
    parts: list[raw.Part] = [Number("<i", n) for n in numbers]
    if version:
        parts = [Number("<I", llama2c.MAGIC), Number("<i", version), *parts]
        parts += [Number("<B", int(not c.own_output)), Number("<i", c.group), bytes(215)]
    body = np.random.default_rng(1).normal(0, 0.3, c.bytes() // 4 + 1).astype("<f4").tobytes()
    if version == 2:
        body = bytes(rng.randrange(60) for _ in range(c.bytes()))
    head = len(raw.joined(parts))
    return [*parts, body[: c.bytes() - head]]


def make_llama2c(rng: random.Random, words: tuple[str, ...]) -> Source:
    how = rng.random()
    if how < 0.25:
        return _llama2c_checkpoint(rng, words)
    parts = _llama2c(rng, rng.choice((0, 1, 2)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(parts) - 1)
        if isinstance(parts[at], Number):
            parts[at] = parts[at]._replace(value=raw.number(rng, int(parts[at].value)))
    data = raw.joined(parts)
    if rng.random() < 0.3:
        data = raw.changed(rng, data)
    return Source({"m.bin": data}, ("@m.bin",))


@functools.cache
def _llama2c_content() -> dict[str, Any]:
    rng, c = np.random.default_rng(2), _SIZES
    d, h, kv = c.width, c.hidden, c.kv_heads * c.width // c.heads
    block = {
        **{
            "attention_norm": (d,),
            "ffn_norm": (d,),
            "attention.wq": (d, d),
            "attention.wo": (d, d),
        },
        **{"attention.wk": (kv, d), "attention.wv": (kv, d), "feed_forward.w1": (h, d)},
        **{"feed_forward.w2": (d, h), "feed_forward.w3": (h, d)},
    }
    shapes = {"tok_embeddings.weight": (24, d), "norm.weight": (d,)}
    for i in range(c.layers):
        shapes |= {f"layers.{i}.{name}.weight": shape for name, shape in block.items()}
    arguments = {"dim": d, "n_layers": c.layers, "n_heads": c.heads, "n_kv_heads": c.kv_heads}
    return {
        "model_args": {**arguments, "vocab_size": 24, "max_seq_len": 16, "norm_eps": 1e-5},
        "model": {name: rng.normal(0, 0.3, shape).astype("<f4") for name, shape in shapes.items()},
        "iter_num": 5,
    }


def _llama2c_checkpoint(rng: random.Random, words: tuple[str, ...]) -> Source:
    """A trainer's .pt: its arguments changed by value, its pickle by opcode."""
    content = dict(_llama2c_content())
    if rng.random() < 0.7:
        arguments = content["model_args"]
        content["model_args"] = values.changed(rng, arguments, (*arguments, *words))
    storages: dict[str, bytes] = {}
    program = _nested(content, storages)
    if rng.random() < 0.4:
        program = hostile_pickle(rng, program)
    members = [["archive/data.pkl", program, 0]]
    members += [[f"archive/data/{name}", data, 0] for name, data in storages.items()]
    return Source({"m.pt": _zipped(members)}, ("@m.pt",))


def _nested(content: dict, storages: dict[str, bytes]) -> bytes:
    def opcodes(value: Any) -> bytes:
        if isinstance(value, dict):
            inside = b"".join(opcodes(key) + opcodes(entry) for key, entry in value.items())
            return b"}(" + inside + b"u"
        if isinstance(value, np.ndarray):
            storages[str(len(storages))] = value.tobytes()
            return torch_zip.tensor(value, str(len(storages) - 1))
        if isinstance(value, list):
            return b"](" + b"".join(map(opcodes, value)) + b"e"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, int):
            number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8b" + struct.pack("<i", len(number)) + number
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(data)) + data
        return b"N"

    return b"\x80\x02" + opcodes(content) + b"."


# ---- moments


def make_npy(rng: random.Random) -> Source:
    """An array beside a sound model."""
    kind = KINDS[0]
    count = models.LAYERS * (3 * models.WIDTH + models.HIDDEN) + 2 * models.WIDTH  # columns
    file = io.BytesIO()
    dtype = rng.choice(
        ("<f4", "<f4", "<f4", "<f8", ">f4", "<i4", "|O" if rng.random() < 0.1 else "<f2")
    )
    some = np.random.default_rng(1).uniform(0, 2, count + rng.choice((0, 0, 0, 0, 1, -1)))
    some = some.astype(dtype)
    if rng.random() < 0.2:
        some = some.reshape(rng.choice(((1, -1), (-1, 1))))
    np.save(file, some, allow_pickle=True)
    data = file.getvalue()
    if rng.random() < 0.3:  # a head that says whose inputs these are
        vectors = b"" if rng.random() < 0.2 else rng.choice((b"0", b"a", b"g")) * 64
        text = data[10 : data.index(b"\n")].rstrip() + b"  # vectors sha256 " + vectors + b"\n"
        data = data[:8] + struct.pack("<H", len(text)) + text + data[data.index(b"\n") + 1 :]
    head, how = data[: data.index(b"\n") + 1], rng.random()
    if how < 0.5:
        words = (b"(1, 2)", b"()", b"(-1,)", b"(" + b"9" * 70 + b",)", b"True", b"'<f4'", b"'O'")
        words += (b"__import__('os')", b"{" * 50, b"(" + b"1," * 40 + b")", b"'shape': (5,)")
        at = rng.randrange(10, len(head))
        text = head[10:at] + rng.choice(words) + head[at + rng.randrange(20) :]
        data = head[:8] + struct.pack("<H", len(text)) + text + data[len(head) :]
    elif how < 0.9:
        data = raw.changed(rng, data)
    files = {"m/config.json": config_of(*kind), "m/model.safetensors": plain(_arrays(*kind))}
    kind = rng.choice(("q8", "q4", "q8rh", "q4k", "q6", "q4x", "q3", "q5m", "f32"))
    flags = ("--moments", "@moments.npy", "--type", kind)
    return Source({**files, "moments.npy": data}, ("@m", *flags))


_IDS = [[5, 9, 3], [7, 7, 20]]


@functools.cache
def _outputs() -> dict[str, np.ndarray]:
    """What the first kind's model gives for these ids."""
    os.makedirs(tempfile.gettempdir(), exist_ok=True)  # a campaign's is made for each input
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_bytes(config_of(*KINDS[0]))
        (folder / "model.safetensors").write_bytes(plain(_arrays(*KINDS[0])))
        model, _ = read_source(folder)
        stored = as_stored(model.descriptor)
        reference = Reference(V.ExactWeights(stored, model.weights))
        traces = [reference.decode(ids) for ids in _IDS]
    hidden = [[trace.embedding, *trace.residuals] for trace in traces]
    return {
        "ids": np.array(_IDS),
        "logits": np.array([trace.logits for trace in traces], np.float32),
        "hidden": np.array(hidden).transpose(1, 0, 2, 3).astype(np.float32),
    }


def npy(rng: random.Random, array: np.ndarray, share: float = 0.12) -> bytes:
    """An array's file; this share of them with another word in its head."""
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    if rng.random() < share:
        old = rng.choice((b"(", b"'<f4'", b"'<i8'", b"False", b", ", b"'shape'", b"\x76\x00"))
        new = rng.choice((b"[", b"'|O' ", b"True ", b"9" * 40, b"-", b"\xff\xff"))
        data = data.replace(old, new, 1)
    return data


def make_npz(rng: random.Random) -> Source:
    """Ids with outputs beside a sound model: the model's own, wrong arrays, shapes and elements,
    damaged zips."""
    kind, draws = KINDS[0], np.random.default_rng(rng.randrange(1 << 30))
    rows, length = rng.choice((1, 1, 2, 65)), rng.choice((0, 1, 3, 3, 40))
    arrays: dict[str, np.ndarray] = {
        "ids": draws.integers(-1 if rng.random() < 0.1 else 0, 24, (rows, length)),
        rng.choice(("logits", "output", "hidden", "x" * 300)): draws.normal(
            0, 1, (rows, length, 24)
        ),
        **({"target": np.ones((rows, 2), int)} if rng.random() < 0.1 else {}),
        **({"hidden": np.ones((3, rows, length, 16))} if rng.random() < 0.3 else {}),
    }
    if rng.random() < 0.5:
        arrays = dict(_outputs())
        if rng.random() < 0.3:
            del arrays["hidden"]
    for name in arrays:
        if rng.random() < 0.1:
            dtype = rng.choice(("<f4", ">f4", "<i4", "<c8", "<U3", "?", "<f2", "<i8"))
            arrays[name] = np.asfortranarray(arrays[name].astype(dtype))
        if rng.random() < 0.05 and arrays[name].dtype.kind == "f":
            arrays[name] = np.full_like(arrays[name], rng.choice((np.nan, np.inf, 1e30)))
    file = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", packed) as zipped:
        for name, array in arrays.items():
            zipped.writestr(f"{name}.npy", npy(rng, array))
    data = file.getvalue()
    if rng.random() < 0.2:
        data = raw.changed(rng, data)
    files = {"m/config.json": config_of(*kind), "m/model.safetensors": plain(_arrays(*kind))}
    return Source({**files, "e.npz": data}, ("@m", "--expect", "@e.npz"))
