"""Packs matrices as the quantizers of Hugging Face directories do, written from the formats'
descriptions and not from the reader: each gives the tensors of a module, and what they mean in f32,
value by value."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

# QLoRA's table of 16 (appendix E of Dettmers et al. 2023), rounded to f32.
NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)


class Module(NamedTuple):
    tensors: dict[str, np.ndarray]
    values: np.ndarray  # (N, K) f32


def words(numbers: np.ndarray, bits: int) -> np.ndarray:
    """(R, C) -> (R, C · bits / 32) i4, one number after the other from the lowest bits."""
    each = 32 // bits
    out = np.zeros((len(numbers), -(-numbers.shape[1] // each)), np.uint64)
    for i in range(numbers.shape[1]):
        shift = np.uint64(bits * (i % each))
        out[:, i // each] |= numbers[:, i].astype(np.uint64) << shift
    return out.astype(np.uint32).view(np.int32)


def _meaning(q: np.ndarray, zero: np.ndarray, scale: np.ndarray, group: np.ndarray) -> np.ndarray:
    """q (N, K), zero and scale (N, G): value by value."""
    out = np.zeros(q.shape, np.float32)
    for n in range(q.shape[0]):
        for k in range(q.shape[1]):
            g = group[k]
            out[n, k] = np.float32(int(q[n, k]) - int(zero[n, g])) * np.float32(scale[n, g])
    return out


def _draw(rng: np.random.Generator, rows: int, cols: int, groups: int, bits: int, symmetric: bool):
    q = rng.integers(0, 1 << bits, (rows, cols))
    low, high = max(1, (1 << bits) // 4), 3 * (1 << bits) // 4
    half = np.full((rows, groups), 1 << bits - 1)
    zero = half if symmetric else rng.integers(low, high, (rows, groups))
    scale = rng.uniform(0.01, 0.1, (rows, groups)).astype(np.float16)
    return q, zero, scale


def gptq(
    rng: np.random.Generator,
    rows: int,
    cols: int,
    bits: int = 4,
    size: int = 32,
    symmetric: bool = True,
    order: bool = False,
    version: int = 1,
) -> Module:
    groups = cols // size
    q, zero, scale = _draw(rng, rows, cols, groups, bits, symmetric)
    group = rng.permutation(np.arange(cols) // size) if order else np.arange(cols) // size
    return Module(
        {
            "qweight": np.ascontiguousarray(words(q, bits).T),
            "qzeros": words(zero.T - (version == 1), bits),
            "scales": np.ascontiguousarray(scale.T),
            "g_idx": group.astype(np.int32),
        },
        _meaning(q, zero, scale, group),
    )


def awq(rng: np.random.Generator, rows: int, cols: int, size: int = 32) -> Module:
    groups = cols // size
    q, zero, scale = _draw(rng, rows, cols, groups, 4, False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i holds column order[i] of its eight

    def pack(numbers: np.ndarray) -> np.ndarray:
        turned = numbers.copy()
        for first in range(0, numbers.shape[1], 8):
            for i in range(8):
                turned[:, first + i] = numbers[:, first + order[i]]
        return words(turned, 4)

    return Module(
        {
            "qweight": pack(np.ascontiguousarray(q.T)),
            "qzeros": pack(np.ascontiguousarray(zero.T)),
            "scales": np.ascontiguousarray(scale.T),
        },
        _meaning(q, zero, scale, np.arange(cols) // size),
    )


def compressed(
    rng: np.random.Generator,
    rows: int,
    cols: int,
    bits: int = 4,
    size: int = 32,
    symmetric: bool = True,
    order: bool = False,
) -> Module:
    """pack-quantized. size: 0 is one scale a row."""
    groups = cols // size if size else 1
    q, zero, scale = _draw(rng, rows, cols, groups, bits, symmetric)
    group = np.arange(cols) // (cols // groups)
    group = rng.permutation(group) if order else group
    tensors = {
        "weight_packed": words(q, bits),
        "weight_scale": scale,
        "weight_shape": np.array([rows, cols]),
    }
    if not symmetric:
        tensors["weight_zero_point"] = np.ascontiguousarray(words(zero.T, bits).T)
    if order:
        tensors["weight_g_idx"] = group.astype(np.int32)
    return Module(tensors, _meaning(q, zero, scale, group))


def int8(rng: np.random.Generator, rows: int, cols: int, zeros: bool = False) -> Module:
    """int-quantized, a scale a row in f32."""
    q = rng.integers(-128, 128, (rows, cols))
    zero = rng.integers(-9, 9, (rows, 1)) if zeros else np.zeros((rows, 1), int)
    scale = rng.uniform(0.001, 0.01, (rows, 1)).astype(np.float32)
    tensors = {"weight": q.astype(np.int8), "weight_scale": scale}
    if zeros:
        tensors["weight_zero_point"] = zero.astype(np.int8)
    return Module(tensors, _meaning(q, zero, scale, np.zeros(cols, int)))


def llm_int8(rng: np.random.Generator, rows: int, cols: int) -> Module:
    q = rng.integers(-127, 128, (rows, cols)).astype(np.int8)
    scb = rng.uniform(0.1, 1, rows).astype(np.float32)
    values = np.zeros((rows, cols), np.float32)
    for n in range(rows):
        for k in range(cols):
            values[n, k] = np.float32(q[n, k]) * scb[n] * np.float32(7.874015718698502e-3)
    return Module({"weight": q, "SCB": scb, "weight_format": np.zeros((), np.uint8)}, values)


def nf4(
    rng: np.random.Generator, rows: int, cols: int, block: int = 64, double: bool = True
) -> Module:
    codes = rng.integers(0, 16, rows * cols)
    blocks = -(-codes.size // block)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": block, "dtype": "bfloat16"}
    state["shape"] = [rows, cols]
    tensors: dict[str, np.ndarray] = {"weight.quant_map": NF4}
    if double:
        inner = 256
        table = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
        largest = rng.uniform(0.1, 0.2, -(-blocks // inner)).astype(np.float32)
        number = rng.integers(0, 256, blocks).astype(np.uint8)
        state |= {"nested_blocksize": inner, "nested_dtype": "float32", "nested_offset": 0.55}
        tensors |= {
            "weight.absmax": number,
            "weight.nested_absmax": largest,
            "weight.nested_quant_map": table,
        }
        offset = np.float32(0.55)
        scales = [table[n] * largest[i // inner] + offset for i, n in enumerate(number)]
    else:
        tensors["weight.absmax"] = rng.uniform(0.1, 1, blocks).astype(np.float32)
        scales = list(tensors["weight.absmax"])
    tensors["weight"] = (codes[0::2] << 4 | codes[1::2]).astype(np.uint8)[:, None]
    text = json.dumps(state).encode()
    tensors["weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(text, np.uint8)
    values = np.array([NF4[c] * scales[i // block] for i, c in enumerate(codes)], np.float32)
    return Module(tensors, values.reshape(rows, cols))


def bitnet(rng: np.random.Generator, rows: int, cols: int, divides: bool = True) -> Module:
    """As transformers' pack_weights: plane i of two bits has the rows from i·N/4 on."""
    q = rng.integers(-1, 2, (rows, cols))
    scale = np.float32(rng.uniform(20, 60) if divides else rng.uniform(0.01, 0.1))
    packed = np.zeros((rows // 4, cols), np.uint8)
    values = np.zeros((rows, cols), np.float32)
    for n in range(rows):
        for k in range(cols):
            packed[n % (rows // 4), k] |= int(q[n, k] + 1) << 2 * (n // (rows // 4))
            exact = np.float32(q[n, k])
            values[n, k] = exact / scale if divides else exact * scale
    return Module({"weight": packed, "weight_scale": np.array([scale], np.float32)}, values)


def group(bits: int = 4, **more: Any) -> dict[str, Any]:
    """A configuration of compressed-tensors."""
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group"}
    weights |= {"group_size": 32, "dynamic": False, "actorder": None, "observer": "minmax"}
    weights |= more
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quantization_status": "compressed",
    }


CHANNEL = {"strategy": "channel", "group_size": None}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
BNB = {"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4"}
# name: configuration, what packs a matrix, the type that keeps it.
FORMS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "gptq": (GPTQ, gptq, "q4"),
    "gptq asymmetric": (GPTQ, lambda *a: gptq(*a, symmetric=False), "q8"),
    "gptq desc_act": ({**GPTQ, "desc_act": True}, lambda *a: gptq(*a, order=True), "f32"),
    "gptq 8 bits": ({**GPTQ, "bits": 8}, lambda *a: gptq(*a, bits=8), "q8"),
    "gptq 2 bits": ({**GPTQ, "bits": 2}, lambda *a: gptq(*a, bits=2), "q4"),
    "gptq version 2": (
        {**GPTQ, "checkpoint_format": "gptq_v2"},
        lambda *a: gptq(*a, symmetric=False, version=2),
        "q8",
    ),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}, awq, "q8"),
    "pack-quantized": (group(), compressed, "q4"),
    "pack-quantized asymmetric": (
        group(symmetric=False),
        lambda *a: compressed(*a, symmetric=False),
        "q8",
    ),
    "pack-quantized 8 bits, rows": (
        group(8, **CHANNEL),
        lambda *a: compressed(*a, bits=8, size=0),
        "q8r",
    ),
    "pack-quantized act order": (group(), lambda *a: compressed(*a, order=True), "f32"),
    "int-quantized": ({**group(8, **CHANNEL), "format": "int-quantized"}, int8, "q8r"),
    "int-quantized asymmetric": (
        {**group(8, symmetric=False, **CHANNEL), "format": "int-quantized"},
        lambda *a: int8(*a, zeros=True),
        "f32",
    ),
    "LLM.int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, llm_int8, "q8r"),
    "bitlinear": ({"quant_method": "bitnet", "modules_to_not_convert": None}, bitnet, "q2r"),
    "autobitlinear": (
        {
            "quant_method": "bitnet",
            "linear_class": "autobitlinear",
            "quantization_mode": "offline",
            "use_rms_norm": False,
            "rms_norm_eps": 1e-6,
        },
        lambda *a: bitnet(*a, divides=False),
        "q2r",
    ),
    "nf4": (BNB, lambda *a: nf4(*a, double=False), "f32"),
    "nf4 double": (BNB, nf4, "f32"),
}
