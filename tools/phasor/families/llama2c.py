"""llama2.c's files (karpathy/llama2.c, `export.py`, `train.py`): `.bin` of version 0, 1 (f32) and 2
(Q8_0), and the checkpoints of its trainer, `.pt`.

Version 0 is seven int32, then f32 weights in a fixed order; it has no magic number: a file is one
when its size is exactly what its header implies. Versions 1 and 2 have one, a header of 256 bytes,
and the norms before the matrices; of version 2 a matrix is int8 in groups with an f32 scale each. A
checkpoint has the tensors under `model` and the sizes under `model_args`, the optimizer's state
beside them. One model gives one file, whichever of these it is in.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.checkpoints.checkpoint import Checkpoint, Stored, read_content
from phasor.errors import printable, shown
from phasor.families.model import Model
from phasor.files import open_regular
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.positions import inverse_frequencies
from phasor.values import table

HEADER = struct.Struct("<7i")
MAGIC, HEADER_BYTES = 0x616B3432, 256
BEGIN, STOP = 1, 2  # <s> also ends a story: the training data have it between stories
_EPS = 1e-5
_UNWANTED = "_orig_mod."  # that torch.compile puts before each name


class Config(NamedTuple):
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int  # negative in a file of version 0 when the output has a matrix of its own
    positions: int
    own_output: bool
    version: int = 0
    group: int = 0  # values that share a scale, version 2

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays in the order of the file."""
        n, d, h, kv = self.layers, self.width, self.hidden, self.kv_heads * self.head_width
        norms = {"attention_norm": (n, d), "ffn_norm": (n, d), "final_norm": (d,)}
        attention = {"q": (n, d, d), "k": (n, kv, d), "v": (n, kv, d), "out": (n, d, d)}
        embedding, output = (
            {"embedding": (self.vocabulary, d)},
            {"output": (self.vocabulary, d)} if self.own_output else {},
        )
        if self.version:
            return {
                **norms,
                **embedding,
                **attention,
                "gate": (n, h, d),
                "down": (n, d, h),
                "up": (n, h, d),
                **output,
            }
        tables = {name: (self.positions, self.head_width // 2) for name in ("cosines", "sines")}
        return {
            **embedding,
            "attention_norm": (n, d),
            **attention,
            "ffn_norm": (n, d),
            "gate": (n, h, d),
            "down": (n, d, h),
            "up": (n, h, d),
            "final_norm": (d,),
            **tables,
            **output,
        }

    def bytes(self) -> int:
        """The size of a file with this header."""
        sizes = {name: int(np.prod(shape, dtype=object)) for name, shape in self.shapes().items()}
        if self.version < 2:
            return (HEADER_BYTES if self.version else HEADER.size) + 4 * sum(sizes.values())
        return HEADER_BYTES + sum(
            4 * count if name.endswith("norm") else count + 4 * (count // self.group)
            for name, count in sizes.items()
        )


# ---- .bin


def read_config(path: Path) -> Config | None:
    """The header, or None when the file is not of this format. PhasorError for a file with the
    magic number that is not sound."""
    with open_regular(path) as file:
        head = file.read(HEADER_BYTES)
    if len(head) < HEADER.size:
        return None
    if struct.unpack_from("<I", head)[0] == MAGIC:
        return _versioned(path, head)
    config = _sizes(HEADER.unpack_from(head), lambda vocabulary: vocabulary < 0)
    return config if config is not None and path.stat().st_size == config.bytes() else None


def _sizes(
    numbers: tuple[int, ...], own_output: Callable[[int], bool], version: int = 0, group: int = 0
) -> Config | None:
    width, hidden, layers, heads, kv_heads, vocabulary, positions = numbers
    if (
        min(width, hidden, layers, heads, kv_heads, positions) < 1
        or vocabulary == 0
        or width % heads
        or heads % kv_heads
    ):
        return None
    return Config(
        width,
        hidden,
        layers,
        heads,
        kv_heads,
        abs(vocabulary),
        positions,
        own_output(vocabulary),
        version,
        group,
    )


def _versioned(path: Path, head: bytes) -> Config:
    if len(head) < HEADER_BYTES:
        raise PhasorError(f"{path}: llama2.c: the header is cut off")
    (version,) = struct.unpack_from("<i", head, 4)
    shared = head[8 + HEADER.size]
    if version not in (1, 2):
        raise PhasorError(f"{path}: llama2.c: version {version}, expected 0, 1 or 2")
    (group,) = struct.unpack_from("<i", head, 9 + HEADER.size) if version == 2 else (0,)
    config = _sizes(HEADER.unpack_from(head, 8), lambda _: not shared, version, group)
    if config is None or config.vocabulary < 1 or shared > 1:
        raise PhasorError(f"{path}: llama2.c: the header's numbers are not those of a model")
    matrices = [shape for name, shape in config.shapes().items() if not name.endswith("norm")]
    if version == 2 and (
        group < 1 or any(int(np.prod(shape, dtype=object)) % group for shape in matrices)
    ):
        raise PhasorError(
            f"{path}: llama2.c: groups of {group}, which the matrices cannot be cut into"
        )
    if path.stat().st_size != config.bytes():
        raise PhasorError(
            f"{path}: llama2.c: {path.stat().st_size} bytes, the header implies {config.bytes()}"
        )
    return config


def _arrays(path: Path, config: Config) -> dict[str, np.ndarray]:
    out, at = {}, HEADER_BYTES if config.version else HEADER.size
    for name, shape in config.shapes().items():
        count = int(np.prod(shape))
        if config.version == 2 and not name.endswith("norm"):
            out[name], at = _groups(path, at, shape, config)
            continue
        out[name] = np.memmap(path, dtype="<f4", mode="r", offset=at, shape=shape)
        at += 4 * count
    return out


def _groups(path: Path, at: int, shape: tuple[int, ...], config: Config) -> tuple[np.ndarray, int]:
    """One matrix of each layer (or the only one): its int8 values, then its scales."""
    each = shape[1:] if len(shape) == 3 else shape
    count = int(np.prod(each))
    layers = []
    for _ in range(shape[0] if len(shape) == 3 else 1):
        values = np.memmap(
            path, dtype=np.int8, mode="r", offset=at, shape=(count // config.group, config.group)
        )
        scales = np.memmap(
            path, dtype="<f4", mode="r", offset=at + count, shape=(count // config.group, 1)
        )
        layers.append((values.astype(np.float32) * scales).reshape(each))
        at += count + 4 * (count // config.group)
    return np.stack(layers) if len(shape) == 3 else layers[0], at


# ---- .pt

_NAMES = table("""
    attention_norm  attention_norm
    q               attention.wq
    k               attention.wk
    v               attention.wv
    out             attention.wo
    ffn_norm        ffn_norm
    gate            feed_forward.w1
    down            feed_forward.w2
    up              feed_forward.w3
""")
_BUFFERS = {"freqs_cos", "freqs_sin", "freqs_cis", "rope.freqs"}
_ARGUMENTS = {
    "dim",
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "vocab_size",
    "hidden_dim",
    "multiple_of",
    "norm_eps",
    "max_seq_len",
    "dropout",
    "max_batch_size",
}


def read_checkpoint(path: Path) -> Model | None:
    """The model of a trainer's checkpoint, or None for another file."""
    if path.suffix not in (".pt", ".pth", ".bin"):
        return None
    content = read_content(path)
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("model_args"), dict)
        or not isinstance(content.get("model"), dict)
    ):
        return None
    tensors = {
        name.removeprefix(_UNWANTED): value
        for name, value in content["model"].items()
        if isinstance(name, str) and isinstance(value, Stored)
    }
    if "tok_embeddings.weight" not in tensors:
        return None
    checkpoint = Checkpoint(
        path, {name: value for name, value in tensors.items() if name not in _BUFFERS}
    )
    config = _of_arguments(path, content["model_args"], checkpoint)
    return _model(path, config, _named(checkpoint, config))


def _of_arguments(path: Path, arguments: dict[str, Any], checkpoint: Checkpoint) -> Config:
    unknown = [printable(str(name)) for name in arguments if name not in _ARGUMENTS]
    if unknown:
        raise PhasorError(
            f"{path}: model_args: {printable(', '.join(unknown), 500)}: not understood, and it "
            "might change the arithmetic"
        )
    if arguments.get("norm_eps", _EPS) != _EPS:
        raise PhasorError(
            f"{path}: model_args: norm_eps: {shown(arguments['norm_eps'])} is not built, expected "
            f"{_EPS}"
        )
    values = {
        name: arguments.get(name, default)
        for name, default in (
            ("n_layers", 0),
            ("n_heads", 0),
            ("n_kv_heads", None),
            ("max_seq_len", 2048),
        )
    }
    values["n_kv_heads"] = (
        values["n_heads"] if values["n_kv_heads"] is None else values["n_kv_heads"]
    )
    first = "layers.0.feed_forward.w1.weight"
    embedding, gate = (
        checkpoint.shape(name) if name in checkpoint else ()
        for name in ("tok_embeddings.weight", first)
    )
    if not all(type(n) is int for n in values.values()) or len(embedding) != 2 or len(gate) != 2:
        raise PhasorError(
            f"{path}: model_args: the sizes of a Llama are not there, or {first} is not"
        )
    config = _sizes(
        (
            embedding[1],
            gate[0],
            values["n_layers"],
            values["n_heads"],
            values["n_kv_heads"],
            embedding[0],
            values["max_seq_len"],
        ),
        lambda _: False,
    )
    if config is None:
        raise PhasorError(f"{path}: model_args: not the sizes of a model")
    name = "output.weight"
    return config._replace(
        own_output=name in checkpoint
        and not np.array_equal(checkpoint.load(name), checkpoint.load("tok_embeddings.weight"))
    )


def _named(checkpoint: Checkpoint, config: Config) -> dict[str, np.ndarray]:
    """The arrays by the names of a .bin's; PhasorError for a tensor that is missing, misshapen or
    left over."""
    shapes, used, out = config.shapes(), {"output.weight"}, {}

    def take(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in checkpoint or checkpoint.shape(name) != shape:
            found = (
                f"has shape {checkpoint.shape(name)}, expected {shape}"
                if name in checkpoint
                else "is missing"
            )
            raise PhasorError(f"{checkpoint.path}: {name} {found}")
        used.add(name)
        return checkpoint.load(name)

    for part, name in _NAMES.items():
        out[part] = np.stack(
            [take(f"layers.{i}.{name}.weight", shapes[part][1:]) for i in range(config.layers)]
        )
    out.update(
        embedding=take("tok_embeddings.weight", shapes["embedding"]),
        final_norm=take("norm.weight", shapes["final_norm"]),
    )
    if config.own_output:
        out["output"] = take("output.weight", shapes["output"])
    left = [name for name in checkpoint if name not in used]
    if left:
        raise PhasorError(f"{checkpoint.path}: left over: {printable(', '.join(left), 500)}")
    return out


# ---- The model


def read(path: Path) -> Model:
    """The model of a file for which read_config gives a configuration."""
    config = read_config(path)
    if config is None:
        raise PhasorError(
            f"{path}: not a llama2.c file of version 0: its size is not what its first seven "
            "numbers imply"
        )
    model = _model(path, config, _arrays(path, config))
    if config.version == 2:
        model.notes.append(
            f"llama2.c's groups of {config.group} int8 with f32 scales become f32 first; as q8 "
            "they are rounded again: its scales are f16, "
            "of groups of 32"
        )
    return model


def _model(path: Path, config: Config, arrays: dict[str, np.ndarray]) -> Model:
    model = Model(
        D.with_defaults(_descriptor(config, path.name.split(".")[0])), Checkpoint(path, {})
    )
    put = model.values
    w = config.head_width
    # Exactly what run.c computes: 1 / 10000^(2i / head width).
    put[_key(R.KINDS, 0, R.ROTARY)] = inverse_frequencies(w)
    put[_key(R.TARGET, 0, R.EMBEDDING)] = arrays["embedding"]
    for i in range(config.layers):
        put[_key(R.DECODER, i, R.ATTENTION_BEFORE)] = arrays["attention_norm"][i]
        put[_key(R.DECODER, i, R.QKV)] = np.concatenate(
            [arrays[name][i] for name in ("q", "k", "v")]
        )
        put[_key(R.DECODER, i, R.ATTENTION_OUT)] = arrays["out"][i]
        put[_key(R.DECODER, i, R.FFN_BEFORE)] = arrays["ffn_norm"][i]
        put[_key(R.DECODER, i, R.FFN_IN)] = np.concatenate([arrays["gate"][i], arrays["up"][i]])
        put[_key(R.DECODER, i, R.FFN_OUT)] = arrays["down"][i]
    put[_key(R.DECODER, R.FINAL, R.FINAL_NORM)] = arrays["final_norm"]
    if config.own_output:
        put[_key(R.OUTPUT, 0, R.OUTPUT_WEIGHT)] = arrays["output"]
    return model


def _key(stack: int, weights: int, role: int) -> int:
    return stack << 24 | weights << 8 | role


def _descriptor(c: Config, name: str) -> dict:
    kind = {
        "norm": D.RMS_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": _EPS,
        "heads": c.heads,
        "kv_heads": c.kv_heads,
        "head_width": c.head_width,
        "scale": float(np.float32(c.head_width**-0.5)),
        "position": D.ROTARY_INTERLEAVED,
        "rotary_width": c.head_width,
        "hidden": c.hidden,
        "activation": D.SILU,
        "gated": 1,
    }
    return {
        "model": {"stack": D.DECODER, "name": name, "converter": "tools/convert.py"},
        "target": {
            "vocabulary": c.vocabulary,
            "start": BEGIN,
            "end": [BEGIN, STOP],
            "prefix": [BEGIN],
        },
        "decoder": {
            "width": c.width,
            "layers": [x for i in range(c.layers) for x in (0, i)],
            "max_positions": c.positions,
            "final_norm": D.RMS_NORM,
            "final_norm_eps": _EPS,
        },
        "kinds": [kind],
        "output": {"output": D.LOGITS, "tied": D.TIED_OWN if c.own_output else D.TIED_TARGET},
    }
