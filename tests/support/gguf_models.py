"""Small random models as GGUF files, written by the gguf package, for every architecture that
tools/phasor/sources/gguf/architectures.py has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import gguf
import numpy as np

VOCABULARY, WIDTH, HIDDEN, HEADS, LAYERS, CONTEXT = 96, 64, 96, 4, 3, 64
Q = gguf.GGMLQuantizationType

_SWIGLU = {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
_PLAIN = {"ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}


def _attention(kv_heads: int = HEADS, head: int = WIDTH // HEADS) -> dict[str, tuple]:
    return {
        "attn_q": (HEADS * head, WIDTH),
        "attn_k": (kv_heads * head, WIDTH),
        "attn_v": (kv_heads * head, WIDTH),
        "attn_output": (WIDTH, HEADS * head),
    }


def _fused(kv_heads: int = HEADS) -> dict[str, tuple]:
    head = WIDTH // HEADS
    return {"attn_qkv": ((HEADS + 2 * kv_heads) * head, WIDTH), "attn_output": (WIDTH, WIDTH)}


_TWO = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
_LFM2 = {"rope.freq_base": 1000.0, "shortconv.l_cache": 3}


def _short(taps: int) -> dict[str, tuple]:
    """A block with a short convolution."""
    return {
        "shortconv.in_proj": (3 * WIDTH, WIDTH),
        "shortconv.conv": (WIDTH, taps),
        "shortconv.out_proj": (WIDTH, WIDTH),
        **_SWIGLU,
        **_TWO,
    }


_GEMMA = {**_attention(1, 16), **_SWIGLU, **_TWO}
_POST = {"post_attention_norm": (WIDTH,), "post_ffw_norm": (WIDTH,)}
_KEYS = ("attn_k", "attn_v", "attn_k_norm")


def _gemma4(kv_heads: int, head: int, each: int = 0, wide: int = 1) -> dict[str, tuple]:
    """A block; each: the values of its per-layer embedding."""
    rows = HIDDEN * wide
    per_layer = {"inp_gate": (each, WIDTH), "proj": (WIDTH, each), "post_norm": (WIDTH,)}
    return {
        **{**_attention(kv_heads, head), **_TWO, **_POST},
        **{"ffn_gate": (rows, WIDTH), "ffn_up": (rows, WIDTH), "ffn_down": (WIDTH, rows)},
        **{"attn_q_norm": (head,), "attn_k_norm": (head,), "layer_output_scale": (1,)},
        **(per_layer if each else {}),
    }


_RMS, _EPS = {"attention.layer_norm_rms_epsilon": 1e-5}, {"attention.layer_norm_epsilon": 1e-5}
_FREQS = {"rope_freqs": (8,)}


def _case(
    architecture: str,
    block: dict,
    keys: dict,
    biases: tuple = (),
    ends: tuple = ("output_norm", "output"),
    **more: Any,
) -> dict:
    """biases: the parts that have one."""
    return {
        "architecture": architecture,
        "block": block,
        "keys": keys,
        "biases": biases,
        "ends": ends,
        **more,
    }


_LN = ("attn_norm", "ffn_norm", "output_norm")
_ALL = (
    *_LN,
    "attn_qkv",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_up",
    "ffn_down",
    "token_embd_norm",
)
_GQA = {**_RMS, "attention.head_count_kv": 2, "rope.freq_base": 10000.0}
_GEMMA4 = {
    **{**_RMS, "rope.freq_base": 10000.0, "rope.freq_base_swa": 1000.0},
    **{"attention.key_length": 32, "attention.value_length": 32, "rope.dimension_count": 32},
    **{"attention.key_length_swa": 16, "attention.value_length_swa": 16},
    **{"rope.dimension_count_swa": 16, "attention.sliding_window": 7},
    "attention.sliding_window_pattern": [True, False, True, False, True, False],
}
_YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
}
CASES = {
    "llama": _case("llama", {**_attention(2), **_SWIGLU, **_TWO}, _GQA),
    "llama, tied, biases": _case(
        "llama",
        {**_attention(), **_SWIGLU, **_TWO},
        {**_RMS, "rope.freq_base": 500.0},
        ("attn_q", "attn_k", "attn_v", "attn_output"),
        ("output_norm",),
    ),
    "llama, head of its own width": _case(
        "llama",
        {**_attention(2, 32), **_SWIGLU, **_TWO},
        {
            **_GQA,
            "attention.key_length": 32,
            "attention.value_length": 32,
            "rope.dimension_count": 32,
        },
    ),
    "llama, linear": _case(
        "llama",
        {**_attention(2), **_SWIGLU, **_TWO},
        {**_GQA, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "llama, yarn": _case("llama", {**_attention(2), **_SWIGLU, **_TWO}, {**_GQA, **_YARN}),
    "llama, llama3": _case("llama", {**_attention(2), **_SWIGLU, **_TWO}, _GQA, extra=_FREQS),
    "qwen2": _case(
        "qwen2", {**_attention(2), **_SWIGLU, **_TWO}, _GQA, ("attn_q", "attn_k", "attn_v")
    ),
    "qwen2, yarn": _case(
        "qwen2",
        {**_attention(2), **_SWIGLU, **_TWO},
        {**_GQA, **_YARN},
        ("attn_q", "attn_k", "attn_v"),
    ),
    "qwen3": _case(
        "qwen3",
        {**_attention(2, 32), **_SWIGLU, **_TWO, "attn_q_norm": (32,), "attn_k_norm": (32,)},
        {**_GQA, "attention.key_length": 32, "attention.value_length": 32},
    ),
    "gemma": _case(
        "gemma",
        _GEMMA,
        {
            **_GQA,
            "attention.head_count_kv": 1,
            "attention.key_length": 16,
            "attention.value_length": 16,
        },
        (),
        ("output_norm",),
    ),
    "gemma2": _case(
        "gemma2",
        {**_GEMMA, **_POST},
        {
            **_GQA,
            "attention.head_count_kv": 1,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "attention.sliding_window": 7,
        },
        (),
        ("output_norm",),
    ),
    "gemma3": _case(
        "gemma3",
        {**_GEMMA, **_POST, "attn_q_norm": (16,), "attn_k_norm": (16,)},
        {
            **_GQA,
            "attention.head_count_kv": 1,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.sliding_window": 7,
            "rope.freq_base": 100000.0,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
        (),
        ("output_norm",),
        layers=7,
    ),
    "gemma4": _case(
        "gemma4",
        _gemma4(1, 16, 8),
        {**_GEMMA4, "embedding_length_per_layer_input": 8, "attention.shared_kv_layers": 2}
        | {"feed_forward_length": [HIDDEN] * 4 + [2 * HIDDEN] * 2, "attention.head_count_kv": 1},
        (),
        ("output_norm",),
        layers=6,
        blocks={
            1: _gemma4(1, 32, 8),
            3: _gemma4(1, 32, 8),
            4: _gemma4(1, 16, 8, wide=2),
            5: {k: v for k, v in _gemma4(1, 32, 8, wide=2).items() if k not in _KEYS},
        },
        extra={
            **{"rope_freqs": (16,), "per_layer_token_embd": (VOCABULARY, 48)},
            **{"per_layer_model_proj": (48, WIDTH), "per_layer_proj_norm": (8,)},
        },
        given={"rope_freqs.weight": np.float32([1.0] * 4 + [1e30] * 12)},
        times={"attn_q_norm": 0.3},
    ),
    "gemma4, keys as values": _case(
        "gemma4",
        _gemma4(2, 16),
        {**_GEMMA4, "embedding_length_per_layer_input": 0, "final_logit_softcapping": 3.0}
        | {"attention.head_count_kv": [2, 2, 1], "rope.dimension_count_swa": 8}
        | {"attention.sliding_window_pattern": [True, True, False]},
        (),
        blocks={2: {k: v for k, v in _gemma4(1, 32).items() if k != "attn_v"}},
        extra={"rope_freqs": (16,)},
    ),
    "phi2": _case(
        "phi2",
        {**_fused(), **_PLAIN, "attn_norm": (WIDTH,)},
        {**_EPS, "rope.dimension_count": 8},
        (*_ALL, "output"),
    ),
    "phi2, separate": _case(
        "phi2",
        {**_attention(), **_PLAIN, "attn_norm": (WIDTH,)},
        {**_EPS, "rope.dimension_count": 8},
        (*_ALL, "output"),
    ),
    "phi3": _case(
        "phi3",
        {**_fused(2), **_TWO, "ffn_up": (2 * HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)},
        _GQA,
    ),
    "phi3, longrope": _case(
        "phi3",
        {**_fused(2), **_TWO, "ffn_up": (2 * HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)},
        {**_GQA, "rope.scaling.original_context_length": 1024, "rope.scaling.attn_factor": 1.19},
        extra={"rope_factors_short": (8,), "rope_factors_long": (8,)},
        context=2048,
    ),
    "gpt2": _case("gpt2", {**_fused(), **_PLAIN, **_TWO}, _EPS, _ALL, positions=True),
    "gptneox": _case(
        "gptneox",
        {**_fused(), **_PLAIN, **_TWO},
        {**_EPS, "rope.dimension_count": 4, "use_parallel_residual": True},
        _ALL,
    ),
    "gptneox, serial": _case(
        "gptneox",
        {**_fused(), **_PLAIN, **_TWO},
        {**_EPS, "rope.dimension_count": 16, "use_parallel_residual": False},
        _ALL,
    ),
    "falcon": _case(
        "falcon",
        {**_fused(1), **_PLAIN, "attn_norm": (WIDTH,)},
        {**_EPS, "attention.head_count_kv": 1},
        _LN,
    ),
    "falcon, two norms": _case(
        "falcon",
        {**_fused(2), **_PLAIN, "attn_norm": (WIDTH,), "attn_norm_2": (WIDTH,)},
        {**_EPS, "attention.head_count_kv": 2},
        (*_LN, "attn_norm_2"),
        ("output_norm",),
    ),
    "bloom": _case(
        "bloom", {**_fused(), **_PLAIN, **_TWO}, _EPS, _ALL, extra={"token_embd_norm": (WIDTH,)}
    ),
    "mpt": _case(
        "mpt",
        {**_fused(), **_PLAIN, **_TWO},
        {**_EPS, "attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 0.3},
        (),
        ("output_norm",),
    ),
    "stablelm": _case(
        "stablelm",
        {**_attention(), **_SWIGLU, **_TWO},
        {**_EPS, "rope.dimension_count": 4, "use_parallel_residual": False},
        (*_LN, "attn_q", "attn_k", "attn_v"),
    ),
    "stablelm, parallel": _case(
        "stablelm",
        {
            **_attention(2),
            **_SWIGLU,
            "attn_norm": (WIDTH,),
            "attn_q_norm": (HEADS, 16),
            "attn_k_norm": (2, 16),
        },
        {
            **_EPS,
            "rope.dimension_count": 4,
            "use_parallel_residual": True,
            "attention.head_count_kv": 2,
        },
        _LN,
    ),
    "olmo": _case(
        "olmo",
        {**_attention(2), **_SWIGLU},
        {**_EPS, "attention.head_count_kv": 2, "attention.clamp_kqv": 0.3},
        (),
        (),
    ),
    "olmo2": _case(
        "olmo2",
        {
            **_attention(2),
            **_SWIGLU,
            **_POST,
            "attn_q_norm": (WIDTH,),
            "attn_k_norm": (WIDTH // 2,),
        },
        _GQA,
    ),
    "command-r": _case(
        "command-r",
        {**_attention(2), **_SWIGLU, "attn_norm": (WIDTH,)},
        {**_EPS, "attention.head_count_kv": 2, "logit_scale": 0.0625, "rope.scaling.type": "none"},
        (),
        ("output_norm",),
    ),
    "granite": _case(
        "granite",
        {**_attention(2), **_SWIGLU, **_TWO},
        {
            **_GQA,
            "embedding_scale": 3.0,
            "residual_scale": 0.4,
            "attention.scale": 0.1,
            "logit_scale": 2.5,
        },
    ),
    "granite, one scale": _case(
        "granite",
        {**_attention(2), **_SWIGLU, **_TWO},
        {**_GQA, "logit_scale": 8.0},
        (),
        ("output_norm",),
    ),
    "lfm2": _case(
        "lfm2",
        {**_attention(2), **_SWIGLU, **_TWO, "attn_q_norm": (16,), "attn_k_norm": (16,)},
        {**_RMS, "attention.head_count_kv": [0, 0, 2, 0], **_LFM2},
        (),
        (),
        layers=4,
        blocks=dict.fromkeys((0, 1, 3), _short(3)),
        extra={"token_embd_norm": (WIDTH,)},
    ),
    "lfm2, own output, five taps": _case(
        "lfm2",
        {**_attention(4), **_SWIGLU, **_TWO, "attn_q_norm": (16,), "attn_k_norm": (16,)},
        {**_RMS, "attention.head_count_kv": [4, 0, 4], **_LFM2, "shortconv.l_cache": 5},
        (),
        ("output",),
        blocks={1: _short(5)},
        extra={"token_embd_norm": (WIDTH,)},
    ),
    "bitnet": _case(
        "bitnet",
        {
            **{**_attention(2), **_SWIGLU, **_TWO},
            **{"attn_sub_norm": (WIDTH,), "ffn_sub_norm": (HIDDEN,)},
        },
        _GQA,
        (),
        ("output_norm",),
    ),
    "smollm3": _case(
        "smollm3", {**_attention(2), **_SWIGLU, **_TWO}, _GQA, (), ("output_norm",), layers=6
    ),
    "internlm2": _case("internlm2", {**_attention(2), **_SWIGLU, **_TWO}, _GQA),
    "exaone": _case("exaone", {**_attention(2), **_SWIGLU, **_TWO}, _GQA),
    "exaone, llama3": _case("exaone", {**_attention(2), **_SWIGLU, **_TWO}, _GQA, extra=_FREQS),
    "starcoder2": _case(
        "starcoder2",
        {**_attention(2), **_PLAIN, **_TWO},
        {**_EPS, "attention.head_count_kv": 2},
        _ALL,
    ),
}


def tensors_of(case: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random values: matrices that keep a vector's size, norms around 1, small biases."""
    rng = np.random.default_rng(seed)

    def value(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if "norm" in name or "rope" in name or "scale" in name:
            return (1 + rng.uniform(-0.3, 0.6, shape)).astype(np.float32)
        scale = 1.5 / shape[-1] ** 0.5 if len(shape) == 2 else 0.1
        return (rng.normal(size=shape) * scale).astype(np.float32)

    rows = case.get("rows", VOCABULARY)
    shapes = {
        "token_embd": (rows, WIDTH),
        **case.get("extra", {}),
        **(
            {"position_embd": (case.get("context", CONTEXT), WIDTH)}
            if case.get("positions")
            else {}
        ),
        **{name: {"output_norm": (WIDTH,), "output": (rows, WIDTH)}[name] for name in case["ends"]},
    }
    for i in range(case.get("layers", LAYERS)):
        block = case.get("blocks", {}).get(i, case["block"])
        shapes.update({f"blk.{i}.{name}": shape for name, shape in block.items()})
    out = {}
    for name, shape in shapes.items():
        times = case.get("times", {}).get(name.split(".")[-1], 1.0)  # scores that are less sharp
        out[f"{name}.weight"] = value(name, shape) * np.float32(times)
        if name.split(".")[-1] in case["biases"]:
            out[f"{name}.bias"] = value("bias", shape[:1])
    return out | case.get("given", {})


def write(
    path: Path,
    case: dict,
    tensors: dict[str, np.ndarray] | None = None,
    types: dict[str, Q] | None = None,
    keys: dict[str, Any] | None = None,
    tokenizer: Callable[[gguf.GGUFWriter], None] = lambda writer: writer.add_tokenizer_model(
        "no_vocab"
    ),
    quantize: Callable[[np.ndarray, Q], np.ndarray] = gguf.quants.quantize,
) -> dict[str, np.ndarray]:
    """A file of the case. types: the GGUF types of tensors that are not F32, by name; keys: more
    metadata, or other; tokenizer writes its keys; quantize: (N, K) f32 to rows of bytes."""
    writer = gguf.GGUFWriter(path, case["architecture"])
    prefix = case["architecture"]
    values = {
        "block_count": case.get("layers", LAYERS),
        "context_length": case.get("context", CONTEXT),
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "vocab_size": case.get("rows", VOCABULARY),
        **case["keys"],
        **(keys or {}),
    }
    put = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for name, value in values.items():
        put[type(value)](f"{prefix}.{name}", value)
    tokenizer(writer)
    tensors = tensors_of(case) if tensors is None else tensors
    for name, value in tensors.items():
        kind = (types or {}).get(name, Q.F32)
        data = value if kind == Q.F32 else quantize(value, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def widen(source: Path, target: Path) -> None:
    """The same file with every tensor in F32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            writer.add_key_value(
                name,
                0 if name == "general.file_type" else field.contents(),
                field.types[0],
                field.types[-1] if len(field.types) > 1 else None,
            )
    for tensor in reader.tensors:
        writer.add_tensor_info(
            tensor.name,
            tuple(int(n) for n in tensor.shape[::-1]),
            np.dtype(np.float32),
            int(tensor.n_elements) * 4,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        writer.write_tensor_data(
            gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        )
    writer.close()
