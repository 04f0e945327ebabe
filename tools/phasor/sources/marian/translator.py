"""A model of Marian (Junczys-Dowmunt et al. 2018): a .npz of its parameters, with its options as
YAML in the array special:model.yml. The transformers that it trains are built, by a description
(description.py); other types and options are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasor.checkpoints import npz
from phasor.checkpoints.tensors import Checkpoint, Stored
from phasor.errors import PhasorError, named, shown
from phasor.families.hf_config import Config
from phasor.families.model import Model
from phasor.files import open_regular
from phasor.format import descriptor as D
from phasor.sources.ctranslate2.translator import lengthen
from phasor.sources.marian.vocabulary import END, UNKNOWN
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from phasor.values import settings, words

OPTIONS = "special:model.yml"
_MOST_BYTES, _MOST_LINES = 1 << 20, 4096
_EPSILON = 1e-6  # of its transformers' norms
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}  # its GELU is x · sigmoid(1.702 x)
_DEFAULTS = settings("""
    tied-embeddings                     false
    tied-embeddings-all                 false
    tied-embeddings-src                 false
    transformer-postprocess-top         ""
    transformer-postprocess-emb         ""
    transformer-ffn-depth               2
    transformer-decoder-autoreg         "self-attention"
    transformer-train-position-embeddings  false
""")
_ONE_VALUE: dict[str, list[Any]] = settings("""
    type                         ["transformer"]
    transformer-decoder-autoreg  ["self-attention"]
    transformer-no-projection    [false]
    transformer-no-bias          [false]
    transformer-no-affine        [false]
    transformer-ffn-depth        [2]
    transformer-decoder-ffn-depth  [0, 2]
    transformer-pool             [false]
    transformer-rnn-projection   [false]
    transformer-tied-layers      [[]]
    input-types                  [[], ["sequence", "sequence"]]
    right-left                   [false]
    ulr                          [false]
    lemma-dim-emb                [0]
    lemma-dependency             [""]
    factors-combine              ["sum"]
    factors-dim-emb              [0]
    transformer-train-type-embeddings  [false]
""")
# Of other types of models, of training, and of what a tensor's shape says by itself.
_HARMLESS = frozenset(
    words("""
    version dim-rnn dim-vocabs skip layer-normalization output-omit-bias relative-paths
    enc-cell enc-cell-depth enc-type dec-cell dec-cell-base-depth dec-cell-high-depth
    char-conv-filters-num char-conv-filters-widths char-highway char-stride
    bert-train-type-embeddings
    bert-type-vocab-size bert-mask-symbol bert-sep-symbol bert-class-symbol bert-masking-fraction
    transformer-dim-aan transformer-aan-depth transformer-aan-activation transformer-aan-nogate
    transformer-depth-scaling transformer-guided-alignment-layer transformer-dim-ffn
    transformer-decoder-dim-ffn transformer-flush-stack ulr-dim-emb ulr-dropout ulr-keys-vectors
    ulr-query-vectors ulr-softmax-temperature ulr-trainable-transformation embedding-normalization
    original-type transformer-head-dim tied-embeddings tied-embeddings-src tied-embeddings-all
""")
)
# Parts of a block: where they are, and of which letter; "ln" is a norm.
_BLOCK = settings("""
    q               ["self", "q"]
    k               ["self", "k"]
    v               ["self", "v"]
    attention_out   ["self", "o"]
    attention_norm  ["self_Wo", "ln"]
    cross_q         ["context", "q"]
    cross_k         ["context", "k"]
    cross_v         ["context", "v"]
    cross_out       ["context", "o"]
    cross_norm      ["context_Wo", "ln"]
    ffn_in          ["ffn", "1"]
    ffn_out         ["ffn", "2"]
    ffn_norm        ["ffn_ffn", "ln"]
""")


def is_source(path: Path) -> bool:
    """Whether a file is a .npz with the options of Marian."""
    with open_regular(path) as file:
        start = file.read(4)
    if not npz.is_npz(path, start):
        return False
    return OPTIONS in npz.read(path)


def options(data: bytes) -> dict[str, Any]:
    """The options: lines of a name and a value, or a name and lines of a list's values. No other
    form of YAML."""
    if len(data) > _MOST_BYTES:
        raise PhasorError(f"{len(data)} bytes of options, expected at most {_MOST_BYTES}")
    try:
        lines = data.rstrip(b"\0").decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise PhasorError(f"is not UTF-8: byte {error.start}") from error
    if len(lines) > _MOST_LINES:
        raise PhasorError(f"{len(lines)} lines of options, expected at most {_MOST_LINES}")
    out: dict[str, Any] = {}
    last = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if (
            text.startswith("- ")
            and last
            and out[last] in ("", [])
            or text.startswith("- ")
            and (last and isinstance(out[last], list))
        ):
            out[last] = [*(out[last] or []), _value(text[2:].strip())]
            continue
        name, colon, value = text.partition(":")
        if line != line.lstrip() or not colon or not name or name in out:
            raise PhasorError(f"line {number}: {shown(text)}, expected a new name and a value")
        last, out[name] = name, _value(value.strip())
    return out


def _value(text: str) -> Any:
    if text == "[]":
        return []
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    for kind in (int, float):
        if len(text) < 32:
            try:
                return kind(text)
            except ValueError:
                pass
    return text


def read(path: Path) -> Model:
    """The model of a file. PhasorError names the file and the option or the array."""
    checkpoint = npz.read(path)
    try:
        data = checkpoint.tensors[OPTIONS]
        if data.dtype not in ("i1", "u1"):
            raise PhasorError(f"has elements of type {data.dtype}, expected bytes")
        values = options(data.load().tobytes())
    except PhasorError as error:
        raise named(f"{path}: {OPTIONS}", error) from error
    config = Config(path, values, _DEFAULTS, prefix=f"{OPTIONS}: ")
    return _model(path, config, checkpoint)


def rows(descriptor: dict[str, Any], side: str) -> int:
    """How many pieces a side's vocabulary has: the rows of its embedding, but for that of zeros."""
    target = descriptor["target"]
    zero = side == "target" or target["embedding_shared"]
    result: int = target["start"] if zero else descriptor[side]["vocabulary"]
    return result


def _turned(stored: Stored, wanted: bool = True) -> Stored:
    if len(stored.shape) != 2 or not wanted:
        return stored
    return stored._replace(shape=stored.shape[::-1], strides=stored.strides[::-1])


def _row(stored: Stored) -> Stored:
    """A vector that is stored as one row."""
    if len(stored.shape) == 2 and stored.shape[0] == 1:
        return stored._replace(shape=stored.shape[1:], strides=stored.strides[1:])
    return stored


class _Tensors:
    """The arrays under this project's names."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.given = dict(checkpoint.tensors)
        del self.given[OPTIONS]
        self.made: dict[str, Any] = {}

    def linear(self, name: str, place: str, letter: str) -> None:
        """Weights (inputs, outputs) and their bias, where they are there."""
        if (weight := self.given.pop(f"{place}_W{letter}", None)) is not None:
            self.made[f"{name}.weight"] = _turned(weight)
        if (bias := self.given.pop(f"{place}_b{letter}", None)) is not None:
            self.made[f"{name}.bias"] = _row(bias)

    def norm(self, name: str, place: str, end: str) -> None:
        for part, own in (("weight", "scale"), ("bias", "bias")):
            if (value := self.given.pop(f"{place}_ln_{own}{end}", None)) is not None:
                self.made[f"{name}.{part}"] = _row(value)

    def move(self, name: str, place: str, turned: bool = False) -> bool:
        if (value := self.given.pop(place, None)) is None:
            return False
        self.made[name] = _turned(value, turned)
        return True


def _model(path: Path, config: Config, checkpoint: Checkpoint) -> Model:
    for name, wanted in _ONE_VALUE.items():
        config.must(name, *wanted)
    before = _places(config)
    activation = config.choice("transformer-ffn-activation", _ACTIVATIONS)
    heads = config.whole("transformer-heads", high=4096)
    depths = {
        "encoder": config.whole("enc-depth", high=D.MAX_LAYERS),
        "decoder": config.whole("dec-depth", high=D.MAX_LAYERS),
    }
    width = config.whole("dim-emb")
    learned = config.flag("transformer-train-position-embeddings")
    tensors, names = _Tensors(checkpoint), dict[str, str]()
    end = "_pre" if before else ""
    for stack, depth in depths.items():
        for part, (place, letter) in _BLOCK.items():
            if part.startswith("cross_") and stack == "encoder":
                continue
            names[f"{stack}.{part}"] = f"{stack}.{{layer}}.{part}.weight"
            for i in range(depth):
                own, name = f"{stack}_l{i + 1}_{place}", f"{stack}.{i}.{part}"
                if letter == "ln":
                    tensors.norm(name, own, end)
                else:
                    tensors.linear(name, own, letter)
        tensors.norm(f"{stack}.norm", f"{stack}_top", "")
        tensors.norm(f"{stack}.embedding_norm", f"{stack}_emb", "_pre")
        names[f"{stack}.final_norm"] = f"{stack}.norm.weight"
    shared = _embeddings(path, tensors, names)
    tied = _output(tensors, names)
    if learned:
        if not tensors.move("positions", "Wpos"):
            raise PhasorError(f"{path}: Wpos is missing, the table of trained positions")
        names |= {f"{side}.positions": "positions" for side in ("source", "target")}
    config.finish(_HARMLESS)
    rows = tensors.made[names["target.embedding"]].shape[0]
    matrices = [names["target.embedding"], *([] if tied else [names["output"]])]
    lengthen(tensors.made, matrices, "output.bias", rows)
    if tied:
        names["output_bias"] = "output.bias"
    stack = {
        "heads": heads,
        "norm_place": "before" if before else "after",
        "norm_eps": _EPSILON,
        "activation": activation,
        "width": width,
        "embedding_scale": "sqrt_width",
        "position": "learned" if learned else "sinusoidal-halves",
    }
    stacks = {
        name: {**stack, "layers": depths[name], "final_norm": f"{name}.norm.weight" in tensors.made}
        for name in depths
    }
    for name, side in (("encoder", "source"), ("decoder", "target")):
        if f"{name}.embedding_norm.weight" in tensors.made:
            names[f"{side}.embedding_norm"] = f"{name}.embedding_norm.weight"
    content = {
        "name": path.stem,
        "preset": "torch-transformer",
        "stack": "encoder-decoder",
        "output": ("source-embedding" if shared else "target-embedding") if tied else "own",
        **stacks,
        "source": {"unknown": UNKNOWN, "suffix": [END], "end": [END]},
        "target": {
            "unknown": UNKNOWN,
            "end": [END],
            "start": rows,
            "decoder_start": rows,
            "embedding_shared": shared,
        },
    }
    made = Checkpoint(path, {**tensors.made, **tensors.given})
    model = state_dict.read(made, parse_description(content, path), names)
    model.notes.append(
        "the output begins behind an embedding of zeros, which is a row of its own here"
    )
    model.descriptor["generation"] = {"suppressed": [rows]}
    model.descriptor = D.with_defaults(model.descriptor)
    D.check(model.descriptor)
    return model


def _places(config: Config) -> bool:
    """Whether norms stand before the blocks: the two forms that Marian's recipes have, dropout (d),
    residual (a) and norm (n)."""
    steps = {
        name: config.text(f"transformer-{name}").replace("d", "")
        for name in ("preprocess", "postprocess", "postprocess-top", "postprocess-emb")
    }
    before = steps["preprocess"] == "n"
    wanted = ("n", "a", "n") if before else ("", "an", "")
    for name, value in zip(("preprocess", "postprocess", "postprocess-top"), wanted):
        if steps[name] != value:
            raise config.error(
                f"transformer-{name}",
                f"{shown(config.get(f'transformer-{name}'))} is not supported with the others,"
                " expected preprocess n, postprocess da, top n, and preprocess d, postprocess dan",
            )
    if steps["postprocess-emb"] not in ("", "n"):
        raise config.error("transformer-postprocess-emb", f"{steps['postprocess-emb']!r}")
    return before


def _embeddings(path: Path, tensors: _Tensors, names: dict[str, str]) -> bool:
    """The embeddings by their names; whether both sides have one."""
    if tensors.move("embedding.weight", "Wemb"):
        names |= {f"{side}.embedding": "embedding.weight" for side in ("source", "target")}
        return True
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        names[f"{side}.embedding"] = f"{side}.embedding.weight"
        if not tensors.move(names[f"{side}.embedding"], f"{stack}_Wemb"):
            raise PhasorError(f"{path}: neither Wemb nor {stack}_Wemb is there")
    return False


def _output(tensors: _Tensors, names: dict[str, str]) -> bool:
    """The matrix of the logits; whether it is the target's embedding."""
    if (bias := tensors.given.pop("decoder_ff_logit_out_b", None)) is not None:
        tensors.made["output.bias"] = _row(bias)
    own = tensors.move("output.weight", "decoder_ff_logit_out_Wt") or tensors.move(
        "output.weight", "decoder_ff_logit_out_W", True
    )
    names["output"] = "output.weight" if own else names["target.embedding"]
    return not own
