"""llama2.c's files (karpathy/llama2.c, `export.py`, `train.py`): `.bin` of version 0, 1 (f32) and 2
(Q8_0), and the checkpoints of its trainer, `.pt`.

Version 0 is seven int32, then f32 weights in a fixed order; it has no magic number: a file is one
when its size is exactly what its header implies. Versions 1 and 2 have one, a header of 256 bytes,
and the norms before the matrices; of version 2 a matrix is int8 in groups with an f32 scale each. A
checkpoint has the tensors under `model` and the sizes under `model_args`, the optimizer's state
beside them. One model gives one file, whichever of these it is in.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from phasor.checkpoints.checkpoint import read_content
from phasor.checkpoints.tensors import Checkpoint, Shape, Stored
from phasor.errors import PhasorError, printable, shown
from phasor.families.model import Model, described, single
from phasor.files import map_bytes, open_regular
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import inverse_frequencies
from phasor.values import table, words

HEADER = struct.Struct("<7i")
MAGIC, HEADER_BYTES = 0x616B3432, 256
BEGIN, STOP = 1, 2  # <s> also ends a story: the training data have it between stories
_EPS = 1e-5
_UNWANTED = "_orig_mod."  # that torch.compile puts before each name


# The arrays of a file of version 0, and of the others.
_ORDER = (
    words("""
        embedding attention_norm q k v out ffn_norm gate down up final_norm cosines sines output
    """),
    words("attention_norm ffn_norm final_norm embedding q k v out gate down up output"),
)


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

    def shapes(self) -> dict[str, Shape]:
        """The arrays in the order of the file."""
        n, d, h, kv = self.layers, self.width, self.hidden, self.kv_heads * self.head_width
        table, square = (self.positions, self.head_width // 2), (n, d, d)
        shapes = {
            **dict.fromkeys(("attention_norm", "ffn_norm"), (n, d)),
            **dict.fromkeys(("q", "out"), square),
            **dict.fromkeys(("k", "v"), (n, kv, d)),
            **dict.fromkeys(("gate", "up"), (n, h, d)),
            **dict.fromkeys(("embedding", "output"), (self.vocabulary, d)),
            **dict.fromkeys(("cosines", "sines"), table),
            "down": (n, d, h),
            "final_norm": (d,),
        }
        order = _ORDER[min(self.version, 1)]
        return {name: shapes[name] for name in order if self.own_output or name != "output"}

    def bytes(self) -> int:
        """The size of a file with this header."""
        sizes = {name: math.prod(shape) for name, shape in self.shapes().items()}
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
    numbers: Shape, own_output: Callable[[int], bool], version: int = 0, group: int = 0
) -> Config | None:
    sizes: Any = numbers
    c = Config(*sizes, own_output(numbers[5]), version, group)
    c = c._replace(vocabulary=abs(c.vocabulary))
    if min(c[:7]) < 1 or c.width % c.heads or c.heads % c.kv_heads:
        return None
    return c


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
    if version == 2 and (group < 1 or any(math.prod(shape) % group for shape in matrices)):
        raise PhasorError(
            f"{path}: llama2.c: groups of {group}, which the matrices cannot be cut into"
        )
    if path.stat().st_size != config.bytes():
        raise PhasorError(
            f"{path}: llama2.c: {path.stat().st_size} bytes, the header implies {config.bytes()}"
        )
    return config


def _arrays(path: Path, config: Config) -> dict[str, np.ndarray]:
    out, at, whole = {}, HEADER_BYTES if config.version else HEADER.size, map_bytes(path)
    if whole.size != config.bytes():
        raise PhasorError(f"{path}: became shorter while it was read")
    for name, shape in config.shapes().items():
        if config.version == 2 and not name.endswith("norm"):
            out[name], at = _groups(whole, at, shape, config)
            continue
        bytes_ = 4 * math.prod(shape)
        out[name] = whole[at : at + bytes_].view("<f4").reshape(shape)
        at += bytes_
    return out


def _groups(whole: np.ndarray, at: int, shape: Shape, config: Config) -> tuple[np.ndarray, int]:
    """One matrix of each layer (or the only one): its int8 values, then its scales."""
    count = math.prod(shape[-2:])
    groups, layers = count // config.group, []
    for _ in range(math.prod(shape[:-2])):
        end = at + count
        values = whole[at:end].view(np.int8).reshape(groups, config.group)
        scales = whole[end : end + 4 * groups].view("<f4").reshape(groups, 1)
        layers.append(values.astype(np.float32) * scales)
        at = end + 4 * groups
    return np.stack(layers).reshape(shape), at


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
_ARGUMENTS = words("""
    dim n_layers n_heads n_kv_heads vocab_size hidden_dim multiple_of norm_eps max_seq_len dropout
    max_batch_size
""")


def is_checkpoint(path: Path) -> bool:
    return _checkpoint(path) is not None


def _checkpoint(path: Path) -> tuple[dict[str, Any], Checkpoint] | None:
    """The arguments and the tensors of a trainer's checkpoint, or None for another file."""
    if path.suffix not in (".pt", ".pth", ".bin"):
        return None
    content = read_content(path)
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name), dict) for name in ("model_args", "model")
    ):
        return None
    tensors = {
        name.removeprefix(_UNWANTED): value
        for name, value in content["model"].items()
        if isinstance(name, str) and isinstance(value, Stored)
    }
    if "tok_embeddings.weight" not in tensors:
        return None
    kept = {name: value for name, value in tensors.items() if name not in _BUFFERS}
    return content["model_args"], Checkpoint(path, kept)


def _of_arguments(path: Path, arguments: dict[str, Any], checkpoint: Checkpoint) -> Config:
    unknown = [printable(str(name)) for name in arguments if name not in _ARGUMENTS]
    if unknown:
        raise PhasorError(
            f"{path}: model_args: {printable(', '.join(unknown), 500)}: not understood, and it "
            "might change the arithmetic"
        )
    if arguments.get("norm_eps", _EPS) != _EPS:
        raise PhasorError(
            f"{path}: model_args: norm_eps: {shown(arguments['norm_eps'])} is not supported,"
            f" expected {_EPS}"
        )
    layers, heads = arguments.get("n_layers", 0), arguments.get("n_heads", 0)
    kv_heads, positions = arguments.get("n_kv_heads"), arguments.get("max_seq_len", 2048)
    numbers = (layers, heads, heads if kv_heads is None else kv_heads, positions)
    first = "layers.0.feed_forward.w1.weight"
    embedding, gate = (
        checkpoint.shape(name) if name in checkpoint else ()
        for name in ("tok_embeddings.weight", first)
    )
    if not all(type(n) is int for n in numbers) or len(embedding) != 2 or len(gate) != 2:
        raise PhasorError(
            f"{path}: model_args: the sizes of a Llama are not there, or {first} is not"
        )
    sizes = (embedding[1], gate[0], *numbers[:3], embedding[0], positions)
    config = _sizes(sizes, lambda _: False)
    if config is None:
        raise PhasorError(f"{path}: model_args: not the sizes of a model")
    name = "output.weight"
    own = name in checkpoint and not checkpoint.same(name, "tok_embeddings.weight")
    return config._replace(own_output=own)


def _named(checkpoint: Checkpoint, config: Config) -> dict[str, np.ndarray]:
    """The arrays by the names of a .bin's; PhasorError for a tensor that is missing, misshapen or
    left over."""
    shapes, used, out = config.shapes(), {"output.weight"}, {}

    def take(name: str, shape: Shape) -> np.ndarray:
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
    """The model of an export, or of a trainer's checkpoint."""
    config = read_config(path)
    if config is None and (found := _checkpoint(path)) is not None:
        arguments, checkpoint = found
        config = _of_arguments(path, arguments, checkpoint)
        return _model(path, config, _named(checkpoint, config))
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
    model = Model(_descriptor(config, path.name.split(".")[0]), Checkpoint(path, {}))
    put = model.values
    # Exactly what run.c computes: 1 / 10000^(2i / head width).
    put[R.key_of(R.KINDS, 0, R.ROTARY)] = inverse_frequencies(config.head_width)
    put[R.key_of(R.TARGET, 0, R.EMBEDDING)] = arrays["embedding"]
    for role, names in _ROLES.items():
        for i in range(config.layers):
            parts = [arrays[name][i] for name in names]
            put[R.key_of(R.DECODER, i, role)] = (
                parts[0] if len(parts) == 1 else np.concatenate(parts)
            )
    put[R.key_of(R.DECODER, R.FINAL, R.FINAL_NORM)] = arrays["final_norm"]
    if config.own_output:
        put[R.key_of(R.OUTPUT, 0, R.OUTPUT_WEIGHT)] = arrays["output"]
    return model


_ROLES = {
    R.ATTENTION_BEFORE: ("attention_norm",),
    R.QKV: ("q", "k", "v"),
    R.ATTENTION_OUT: ("out",),
    R.FFN_BEFORE: ("ffn_norm",),
    R.FFN_IN: ("gate", "up"),
    R.FFN_OUT: ("down",),
}


def _descriptor(c: Config, name: str) -> dict[str, Any]:
    kind = {
        "norm": D.RMS_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": _EPS,
        "heads": c.heads,
        "kv_heads": c.kv_heads,
        "head_width": c.head_width,
        "scale": single(c.head_width**-0.5),
        "position": D.ROTARY_INTERLEAVED,
        "rotary_width": c.head_width,
        "hidden": c.hidden,
        "activation": D.SILU,
        "gated": 1,
    }
    target = {"vocabulary": c.vocabulary, "start": BEGIN, "end": [BEGIN, STOP], "prefix": [BEGIN]}
    decoder = {
        "width": c.width,
        "layers": [x for i in range(c.layers) for x in (0, i)],
        "max_positions": c.positions,
        "final_norm": D.RMS_NORM,
        "final_norm_eps": _EPS,
    }
    output = {"output": D.LOGITS, "tied": D.TIED_OWN if c.own_output else D.TIED_TARGET}
    scopes = {"target": target, "decoder": decoder, "kinds": [kind], "output": output}
    return described(D.DECODER, {"name": name}, **scopes)
