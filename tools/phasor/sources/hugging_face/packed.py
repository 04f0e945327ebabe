"""quantization_config of a Hugging Face directory: which form its packed matrices have, and the
checkpoint with those matrices in place of their pieces. What is not supported is refused by its
name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, NamedTuple

from phasor.checkpoints import packed
from phasor.checkpoints.packed import Module, Packed
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, printable, shown
from phasor.families.hf_config import Config
from phasor.values import settings, words

Unpack = Callable[[Module], Packed]
_MOST_GROUPS = 64  # of compressed-tensors' config_groups
# How a matrix was found, which modules were left as they are, and what runs it.
_HARMLESS = frozenset(
    words("""
    quant_method damp_percent damp_auto_increment true_sequential static_groups model_seqlen
    block_name_to_quantize module_name_preceding_first_block batch_size dataset tokenizer
    max_input_length use_cuda_fp16 use_exllama exllama_config disable_exllama
    cache_block_outputs modules_in_block_to_quantize model_name_or_path model_file_base_name
    meta backend pack_dtype lm_head hyb_act offload_to_disk sym desc_act modules_to_not_convert
    do_fuse fuse_max_seq_len modules_to_fuse w_bit zero_point activation_scheme ignored_layers
    quantization_status global_compression_ratio ignore version load_in_8bit load_in_4bit
    _load_in_8bit _load_in_4bit llm_int8_threshold llm_int8_skip_modules
    llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight bnb_4bit_compute_dtype
    bnb_4bit_quant_type bnb_4bit_use_double_quant run_compressed rms_norm_eps
""")
)
_TABLES = ("nf4", "fp4")
_SIZES = (-1, *(1 << n for n in range(3, 13)))


def _bits(config: Config, *built: int) -> int:
    bits = config.whole("bits", 1, 64)
    if bits not in built:
        raise config.error(
            "bits", f"{bits} is not supported, expected {' or '.join(map(str, built))}"
        )
    return bits


def _group_size(config: Config) -> int:
    size = config.get("group_size")
    if type(size) is not int or size not in _SIZES:
        raise config.error("group_size", f"{shown(size)}, expected -1 or a power of two from 8")
    return size


def _gptq(config: Config) -> Unpack:
    bits, size = _bits(config, 2, 4, 8), _group_size(config)
    plus = config.choice("checkpoint_format", {"gptq": 1, "gptq_v2": 0})
    config.must("is_marlin_format", False)
    config.must("dynamic", {})
    config.must("adapter", {})
    config.must("rotation", "")
    return lambda module: packed.gptq(module, bits, size, plus)


def _awq(config: Config) -> Unpack:
    bits, size = _bits(config, 4), _group_size(config)
    config.must("version", "gemm", "GEMM")
    return lambda module: packed.awq(module, bits, size)


def _compressed(config: Config) -> Unpack:
    config.must("format", "pack-quantized", "int-quantized", "naive-quantized", "float-quantized")
    for name in ("kv_cache_scheme", "sparsity_config", "transform_config"):
        if (value := config.get(name)) not in (None, {}) and not (
            name == "sparsity_config" and isinstance(value, dict) and value.get("format") == "dense"
        ):
            raise config.error(name, f"{shown(value)} is not supported, expected nothing")
    groups = config.get("config_groups")
    if not isinstance(groups, dict) or not 0 < len(groups) <= _MOST_GROUPS:
        raise config.error("config_groups", f"expected a table of up to {_MOST_GROUPS} groups")
    choices = []
    for name, group in groups.items():
        prefix = f"{config.prefix}config_groups.{name}."
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            raise PhasorError(f"{config.path}: {prefix}weights: expected a table")
        table = Config(config.path, weights, prefix=f"{prefix}weights.")
        bits = table.whole("num_bits", 1, 64)
        table.choice("type", {"int": 0, "float": 0})
        table.choice("strategy", {"tensor": 0, "channel": 0, "group": 0})
        table.must("dynamic", False)
        if bits not in (2, 4, 8) or (weights.get("type") == "float" and bits != 8):
            raise table.error("num_bits", f"{bits} of {weights.get('type')} is not supported")
        size = table.get("group_size")
        if weights["strategy"] == "group":
            size = table.whole("group_size", 1, 1 << 20)
        choices.append((bits, size if type(size) is int else -1, table.flag("symmetric", True)))
    return lambda module: packed.compressed(module, choices)


def _bitsandbytes(config: Config) -> Unpack:
    config.must("bnb_4bit_quant_storage", "uint8")

    def unpack(module: Module) -> Packed:
        if module.has("SCB"):
            return packed.bitsandbytes_8(module)
        kinds = [k for k in _TABLES if module.has(f"weight.quant_state.bitsandbytes__{k}")]
        if len(kinds) != 1:
            raise module.error("has no quant_state of nf4 or fp4")
        return packed.bitsandbytes_4(module, kinds[0])

    return unpack


def _fp8(config: Config) -> Unpack:
    block = config.get("weight_block_size")
    config.must("fmt", "e4m3", "e5m2")
    if (
        not isinstance(block, list)
        or len(block) != 2
        or not all(type(n) is int and 1 <= n <= 1 << 20 for n in block)
    ):
        raise config.error("weight_block_size", f"{shown(block)}, expected two whole numbers")
    return lambda module: packed.fp8(module, (block[0], block[1]))


def _bitnet(config: Config) -> Unpack:
    divides = config.choice("linear_class", {"bitlinear": True, "autobitlinear": False})
    config.must("quantization_mode", "offline")
    config.must("use_rms_norm", False)

    def unpack(module: Module) -> Packed:
        if not divides and module.has("bias"):
            raise module.error("has a bias, which autobitlinear multiplies by weight_scale")
        return packed.bitnet(module, divides)

    return unpack


class Method(NamedTuple):
    """A quant_method: how its table is read, its defaults, and the ends of names that say that a
    matrix is packed."""

    read: Callable[[Config], Unpack]
    ends: tuple[str, ...]
    defaults: dict[str, Any] = {}


_METHODS = {
    "gptq": Method(_gptq, ("qweight",), settings('checkpoint_format "gptq"')),
    "awq": Method(_awq, ("qweight",), settings('version "gemm"')),
    "compressed-tensors": Method(_compressed, ("weight_packed", "weight_scale")),
    "bitsandbytes": Method(
        _bitsandbytes,
        ("SCB", *(f"weight.quant_state.bitsandbytes__{kind}" for kind in _TABLES)),
    ),
    "fp8": Method(_fp8, ("weight_scale_inv",)),
    "bitnet": Method(
        _bitnet,
        ("weight_scale",),
        {
            "linear_class": "bitlinear",
            "quantization_mode": "offline",
            "use_rms_norm": False,
        },
    ),
}
_PACKED = tuple(f".{end}" for method in _METHODS.values() for end in method.ends)
_INSTEAD = (
    f", which is not supported, expected {', '.join(_METHODS)}: give the model that they were made"
    " from, and say --type q4 or q8"
)
# Tensors beside a packed matrix that concern the rounding of activations alone.
_ACTIVATIONS = words("input_scale input_zero_point output_scale input_global_scale")


class Unpacking:
    """Makes a directory's checkpoint one of plain matrices. notes: what was done; spare: tensors
    that a model may have no use for, and why."""

    def __init__(self, method: str = "", unpack: Unpack | None = None) -> None:
        self.method, self._unpack = method, unpack
        self.notes: list[str] = []
        self.spare: dict[str, str] = {}

    def __call__(self, checkpoint: Checkpoint) -> Checkpoint:
        if self._unpack is None:
            if name := next((n for n in checkpoint if n.endswith(_PACKED)), None):
                raise PhasorError(
                    f"{checkpoint.path}: {printable(name)}: the weights are packed, and config.json"
                    f" has no quantization_config that says how{_INSTEAD}"
                )
            return checkpoint
        out, made, ignored = dict(checkpoint.tensors), 0, 0
        for name in list(checkpoint):
            end = next((e for e in _METHODS[self.method].ends if name.endswith(f".{e}")), None)
            if end is None or isinstance(out.get(name[: -len(end)] + "weight"), Packed):
                continue
            module = Module(checkpoint, name[: -len(end) - 1])
            matrix, weight = self._unpack(module), f"{module.name}.weight"
            if weight in checkpoint and weight not in module.taken:
                raise module.error(f"has a weight beside its {end}")
            for part in _ACTIVATIONS:
                ignored += out.pop(f"{module.name}.{part}", None) is not None
            for piece in module.taken:
                out.pop(piece, None)
            out[weight] = matrix
            made += 1
            self._note_bias(checkpoint, f"{module.name}.bias")
        if not made:
            raise PhasorError(
                f"{checkpoint.path}: quantization_config says {self.method}, and no matrix is"
                " packed so"
            )
        self.notes.append(f"{made} matrices of {self.method} unpacked")
        if ignored:
            self.notes.append(f"passed over: {ignored} tensors that round activations")
        return Checkpoint(checkpoint.path, out)

    def _note_bias(self, checkpoint: Checkpoint, name: str) -> None:
        """AutoGPTQ gives every matrix a bias, of zeros where its model has none."""
        if name in checkpoint and not any(c in name for c in "*?"):
            if not checkpoint.load(name).any():
                self.spare[name] = "a bias of zeros that the quantizer put there"


def unpacking(where: Path, values: dict[str, Any]) -> Unpacking:
    """Of a directory, whose configuration's values lose quantization_config."""
    mlx = values.get("quantization")
    if isinstance(mlx, dict) and {"bits", "group_size"} <= mlx.keys():
        bits, size = shown(mlx["bits"]), shown(mlx["group_size"])
        how = f"by MLX, {bits} bits in groups of {size}"
        raise PhasorError(f"{where}: quantization: the weights are packed ({how}){_INSTEAD}")
    name = "quantization_config" if "quantization_config" in values else "compression_config"
    table = values.pop(name, None)
    if table is None:
        return Unpacking()
    if not isinstance(table, dict):
        raise PhasorError(f"{where}: {name}: {shown(table)}, expected a table")
    method = table.get("quant_method")
    if not isinstance(method, str) or method not in _METHODS:
        raise PhasorError(f"{where}: {name}: the weights are packed ({shown(method)}){_INSTEAD}")
    config = Config(where, table, _METHODS[method].defaults, prefix=f"{name}.")
    unpack = _METHODS[method].read(config)
    config.finish(_HARMLESS)
    return Unpacking(method, unpack)
