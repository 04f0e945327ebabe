"""Models for the benchmarks: random weights in the shapes of published ones, the same for every
engine, kept in build/bench/models.

For speed random weights are as good as trained ones. Llamas are written as .phasor, as GGUF (the
gguf package) and for CTranslate2.
"""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor.files import replacing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import Quantized, Weights
from phasor.format.writer import write_model
from phasor.sources.gguf.container import TYPES as BLOCKS
from phasor.sources.gguf.container import Tensor


class Llama(NamedTuple):
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int = 8192
    base: float = 10000.0

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head


SHAPES = {
    "135m": Llama(576, 1536, 30, 9, 3, 49152, base=1e5),  # SmolLM2-135M
    "15m": Llama(288, 768, 6, 6, 6, 32000),  # stories15M of llama2.c
    "d256": Llama(256, 704, 4, 8, 4, 4096),
    # stories260K of llama2.c, its hidden width in whole groups
    "260k": Llama(64, 160, 5, 8, 4, 512),
    # Six layers of models that were trained with few values, and a vocabulary in proportion.
    "bitnet 2B": Llama(2560, 6912, 6, 20, 5, 32000),
    "bonsai 1.7B": Llama(2048, 6144, 6, 16, 8, 32000),
}
GGUF_TYPES = {
    "f32": "F32",
    "f16": "F16",
    "bf16": "BF16",
    "q8": "Q8_0",
    "q4": "Q4_0",
    "q4m": "Q4_1",
    "q2": "TQ2_0",
    "q2w": "TQ2_0",
    "q1": "Q1_0",
    "q2r": "TQ2_0",
}
CT2_TYPES = {"f32": "float32", "q8": "int8"}
# The type of the peers that ours is measured beside, where it is no type of theirs.
BESIDE = {"q8r": "q8", "q8rh": "q8"}


def beside(kind: str) -> str:
    return BESIDE.get(kind, kind)


# The tensors of a block by their GGUF names: the role, and the sizes (N, K) as fields of a Llama;
# nothing for a norm. Those of one role stand one below the other in our file.
BLOCK = {
    "attn_norm": (R.ATTENTION_BEFORE, ()),
    "attn_q": (R.QKV, ("width", "width")),
    "attn_k": (R.QKV, ("kv_width", "width")),
    "attn_v": (R.QKV, ("kv_width", "width")),
    "attn_output": (R.ATTENTION_OUT, ("width", "width")),
    "ffn_norm": (R.FFN_BEFORE, ()),
    "ffn_gate": (R.FFN_IN, ("hidden", "width")),
    "ffn_up": (R.FFN_IN, ("hidden", "width")),
    "ffn_down": (R.FFN_OUT, ("width", "hidden")),
}
OUTSIDE = {"token_embd": ("vocabulary", "width"), "output_norm": ()}
SIZES = OUTSIDE | {name: sizes for name, (_, sizes) in BLOCK.items()}


def tensor(shape: Llama, name: str) -> np.ndarray:
    """A tensor by its GGUF name, always the same: (N, K), or (N,) of ones."""
    size = [getattr(shape, field) for field in SIZES[name.split(".")[-1]]]
    if not size:
        return np.ones(shape.width, np.float32)
    rng = np.random.default_rng(zlib.crc32(f"{shape}{name}".encode()))
    return rng.standard_normal(size, dtype=np.float32) * np.float32(size[-1] ** -0.5)


def names(shape: Llama) -> list[str]:
    return [*OUTSIDE, *(f"blk.{i}.{part}" for i in range(shape.layers) for part in BLOCK)]


def descriptor(shape: Llama) -> dict:
    kind = {
        "norm": D.RMS_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_width": shape.head,
        "scale": shape.head**-0.5,
        "hidden": shape.hidden,
        "activation": D.SILU,
        "gated": 1,
        "position": D.ROTARY_INTERLEAVED,
        "rotary_width": shape.head,
    }
    return {
        "model": {"stack": D.DECODER, "name": "random weights"},
        "target": {"vocabulary": shape.vocabulary, "start": 1, "end": [2]},
        "decoder": {
            "width": shape.width,
            "layers": [n for i in range(shape.layers) for n in (0, i)],
            "max_positions": shape.context,
            "final_norm": D.RMS_NORM,
            "final_norm_eps": 1e-5,
        },
        "kinds": [kind],
        "output": {"output": D.LOGITS, "tied": 1},
    }


def ternary(x: np.ndarray) -> tuple[np.ndarray, np.float16]:
    """−1, 0 and 1 as int8, and the one scale of a matrix, as BitNet b1.58 rounds (Ma et al., 2024):
    the mean magnitude, here as f16, which TQ2_0 has too."""
    scale = np.float16(np.abs(x).mean())
    return np.clip(np.rint(x / np.float32(scale)), -1, 1).astype(np.int8), scale


def blocks_of(x: np.ndarray, type_: Any) -> np.ndarray:
    """Rows of a GGUF type, u8, as the gguf package rounds them; of Q1_0, which it does not round,
    the signs times the mean of 128 magnitudes."""
    import gguf

    if type_.name != "Q1_0":
        return np.ascontiguousarray(gguf.quants.quantize(x, type_))
    parts = x.reshape(-1, 128)
    blocks = np.zeros(len(parts), BLOCKS[int(type_)].block)
    blocks["d"] = np.abs(parts).mean(axis=1)
    blocks["q"] = np.packbits(parts >= 0, axis=1, bitorder="little")
    return blocks.view(np.uint8).reshape(len(x), -1)


def rounded(x: np.ndarray, kind: str) -> Weights:
    """Quantized types as GGUF's are rounded, so that the engines compute with the same weights."""
    if kind == "q2r":
        values, scale = ternary(x)
        return Quantized(np.full((len(x), 1), scale, np.float32), values, L.Q2R)
    if kind not in ("q8", "q4", "q4m", "q2", "q2w", "q1"):
        return x
    import gguf

    theirs = gguf.GGMLQuantizationType[GGUF_TYPES[kind]]
    given = Tensor(BLOCKS[int(theirs)], x.shape, blocks_of(x, theirs).reshape(-1))
    return Quantized(*given.quantized(L.type_code(kind)), L.type_code(kind))


# Behind a type: with inputs of 16 bits; with rotated ones of 8.
WIDE, ROTATED = "-inputs16", "-rotated"
FORMS = {"inputs16": L.INPUTS16, "rotated": L.INPUTS_ROTATED}


def write_phasor(path: Path, shape: Llama, kind: str) -> None:
    kind, _, word = kind.partition("-")
    form = FORMS.get(word, 0)

    def values(slot: R.Slot) -> Weights:
        if slot.stack == R.KINDS:
            return shape.base ** (-np.arange(0, shape.head, 2) / shape.head)
        if slot.stack == R.TARGET:
            parts = ["token_embd"]
        elif slot.set == R.FINAL:
            parts = ["output_norm"]
        else:
            parts = [f"blk.{slot.set}.{n}" for n, (role, _) in BLOCK.items() if role == slot.role]
        made = [tensor(shape, part) for part in parts]
        if not slot.matrix:
            return np.concatenate(made)
        if kind != "q2r":
            stored = rounded(np.concatenate(made), kind)
            turned = form == L.INPUTS_ROTATED and slot.layout == L.PANEL16
            return stored._replace(rotated=turned) if isinstance(stored, Quantized) else stored
        each = [rounded(part, kind) for part in made]  # parts have scales of their own
        return Quantized(*(np.concatenate(field) for field in list(zip(*each))[:2]), L.Q2R)

    with replacing(path) as file:
        write_model(file, descriptor(shape), values, L.type_code(kind), inputs=form)


def write_gguf(path: Path, shape: Llama, kind: str) -> None:
    import gguf

    with replacing(path) as file:
        type_ = gguf.GGMLQuantizationType[GGUF_TYPES[kind]]
        fill_gguf(gguf.GGUFWriter(file.name, "llama"), shape, type_, kind == "q2r")


def fill_gguf(writer: Any, shape: Llama, type_: Any, with_three: bool = False) -> None:
    """with_three: of −1, 0 and 1 times one scale a matrix."""
    import gguf

    writer.add_tokenizer_model("no_vocab")
    for name, value in {
        "block_count": shape.layers,
        "context_length": shape.context,
        "embedding_length": shape.width,
        "feed_forward_length": shape.hidden,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "vocab_size": shape.vocabulary,
        "rope.dimension_count": shape.head,
    }.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", shape.base)

    f32 = gguf.GGMLQuantizationType.F32
    for name in names(shape):
        value = tensor(shape, name)
        kind = type_ if value.ndim == 2 else f32
        if with_three and value.ndim == 2:
            values, scale = ternary(value)
            value = values * np.float32(scale)
        data = value if kind == f32 else blocks_of(value, kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_ctranslate2(path: Path, shape: Llama, kind: str) -> None:
    from ctranslate2.specs import common_spec, transformer_spec

    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        shape.layers,
        shape.heads,
        activation=common_spec.Activation.SWISH,
        pre_norm=True,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,
        rotary_interleave=True,
        rotary_base=shape.base,
        num_heads_kv=shape.kv_heads,
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = decoder.projection.weight = tensor(shape, "token_embd")
    decoder.layer_norm.gamma = tensor(shape, "output_norm")
    for i, layer in enumerate(decoder.layer):
        part = {name: tensor(shape, f"blk.{i}.{name}") for name in BLOCK}
        attention, ffn = layer.self_attention, layer.ffn
        attention.layer_norm.gamma, ffn.layer_norm.gamma = part["attn_norm"], part["ffn_norm"]
        fused = [part[name] for name in ("attn_q", "attn_k", "attn_v")]
        attention.linear[0].weight = np.concatenate(fused)
        attention.linear[1].weight = part["attn_output"]
        ffn.linear_0.weight, ffn.linear_0_noact.weight = part["ffn_gate"], part["ffn_up"]
        ffn.linear_1.weight = part["ffn_down"]
    spec.register_vocabulary([f"t{i}" for i in range(shape.vocabulary)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "t1", "t2", "t0"
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize(quantization=None if kind == "f32" else CT2_TYPES[kind])
    scratch = path.with_name(path.name + f".{os.getpid()}.part")
    scratch.mkdir(parents=True, exist_ok=True)
    spec.save(str(scratch))
    scratch.replace(path)


WRITERS = {"phasor": write_phasor, "gguf": write_gguf, "ct2": write_ctranslate2}


def model(folder: Path, shape: str, kind: str, form: str) -> Path:
    """The file, made if it is not there. form: phasor, gguf, ct2."""
    path = folder / "models" / f"{shape}-{kind}.{form}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{path.name}.*.part"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        WRITERS[form](path, SHAPES[shape], kind)
    return path
