"""A directory of CTranslate2: an encoder-decoder of its TransformerSpec. Its variables become what
a description says of a state_dict (description.py), its vocabularies lists of words.

int8 has one scale for each row: a value is the integer divided by it, which is q8r. int16 has one
for the matrix. The engine's positions are sinusoids from 1 on where the file has no table.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor import side_files
from phasor.checkpoints.packed import Grid, Integers
from phasor.checkpoints.tensors import Checkpoint, Shape, Stored, contiguous
from phasor.errors import PhasorError, named, printable, shown
from phasor.families.hf_config import Config
from phasor.families.model import Model
from phasor.files import has_file, read_text, read_value
from phasor.format import descriptor as D
from phasor.sources.ctranslate2 import container as ctranslate2
from phasor.sources.ctranslate2.container import Variables, scalar
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from phasor.tokenizers.listed import Listed, listed_section
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.models.word_list import build_wordlist_section
from phasor.values import settings, words

_STACKS = ("encoder", "decoder")
# Heads of the models whose name says them.
_HEADS = {"TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 0}
_ACTIVATIONS = ("relu", "gelu-tanh", "silu", "gelu", "gelu_sigmoid")
_MOST_POSITIONS = 1024  # of the sinusoids that the engine computes
_VOCABULARY_BYTES = 64 << 20
_NAMES = settings("""
    qkv             "self_attention.linear_0"
    attention_out   "self_attention.linear_1"
    attention_norm  "self_attention.layer_norm"
    cross_q         "attention.linear_0"
    cross_k         "attention.linear_1.k"
    cross_v         "attention.linear_1.v"
    cross_out       "attention.linear_2"
    cross_norm      "attention.layer_norm"
    ffn_in          "ffn.linear_0"
    ffn_out         "ffn.linear_1"
    ffn_norm        "ffn.layer_norm"
""")
_GATE = "ffn.linear_0_noact"
# Of attention that is shown, and of slopes that are not there: nothing is computed by them.
_LENIENT = words("alignment_layer alignment_heads scale_alibi alibi_use_positive_positions")
_CONFIG = settings("""
    unk_token            "<unk>"
    bos_token            "<s>"
    eos_token            "</s>"
    decoder_start_token  "<s>"
    add_source_bos       false
    add_source_eos       false
""")
_BLANK = ("<blank>", "<pad>", "<zero>")
# The first words of the vocabularies of MarianMT, of BART and its kin, and of T5 and Pegasus.
_OF_TRANSFORMERS = (("</s>", "<unk>"), ("<s>", "<pad>"), ("<pad>", "</s>"))
ZERO_START = _BLANK[-1]  # the row whose embedding is zero, where decoding starts from one
_NEVER = np.float32(-100)  # its logit


class Source(NamedTuple):
    """A directory, read: the words of each side, with the ids that text cannot give."""

    model: Model
    words: dict[str, list[str]]
    config: Config

    def listed(self, side: str) -> Listed:
        """A side's words as the list of ids of a SentencePiece model."""
        ids = {word: id_ for id_, word in enumerate(self.words[side])}
        known = [self.config.text(f"{name}_token") for name in ("bos", "eos", "unk")]
        special = {word: ids[word] for word in (*known, *_BLANK) if word in ids}
        return Listed(dict(enumerate(self.words[side])), ids, special, ids[known[-1]])

    def of_transformers(self) -> bool:
        """Whether it was made from a model of Hugging Face, by the first words of its vocabulary:
        other converters say in config.json that they put an end behind such a text."""
        said = self.model.descriptor["source"]
        first = tuple(self.words["source"][:2])
        return first in _OF_TRANSFORMERS and not said["prefix"] and not said["suffix"]

    def check_pieces(self, side: str, pieces: list[bytes]) -> None:
        """PhasorError where a tokenizer has another text at an id than the vocabulary."""
        letters = {bytes([byte]): letter.encode() for letter, byte in ALPHABET.items()}
        for id_, (word, piece) in enumerate(zip(self.words[side], pieces)):
            spelled = b"".join(letters[piece[i : i + 1]] for i in range(len(piece)))
            holes = piece.startswith((b"<no piece", b"\0<no piece")) or word in _BLANK
            if word.encode() not in (piece, spelled) and not holes:
                raise PhasorError(
                    f"not the {side} vocabulary: id {id_} is"
                    f" {shown(piece.decode(errors='replace'))}, and {shown(word)} in the model's"
                )

    def section(self, side: str, path: Path | None) -> bytes:
        """Of a side's SentencePiece model; None: its words, with spaces between them."""
        if path is not None:
            return listed_section(path, self.listed(side))
        listed = self.listed(side)
        control = [id_ for id_ in listed.special.values() if id_ != listed.unknown]
        try:
            return build_wordlist_section(self.words[side], listed.unknown, control)
        except PhasorError as error:
            raise PhasorError(
                f"{self.model.checkpoint.path}: {side} vocabulary: {error}"
            ) from error


def read(path: Path) -> Source:
    """The model of a directory. PhasorError names the file and the variable."""
    where = path / "model.bin"
    variables = ctranslate2.read(where)
    if variables.spec not in _HEADS:
        raise PhasorError(
            f"{where}: a {variables.spec} is not supported, expected {', '.join(_HEADS)}"
        )
    said = path / "config.json"
    config = Config(said, side_files.read(said, "CTranslate2"), _CONFIG)
    try:
        return _Reader(path, variables, config).source()
    except PhasorError as error:
        raise error if str(path) in str(error) else named(where, error) from error


class _Reader:
    def __init__(self, path: Path, variables: Variables, config: Config) -> None:
        self.path, self.variables, self.config = path, variables, config
        self.tensors: dict[str, Any] = {}
        self.scalars: dict[str, Stored] = {}
        self.same: dict[str, tuple[int, int]] = {}  # by name: which bytes a matrix is of
        for name, stored in variables.tensors.items():
            if not stored.shape and not name.endswith("_scale"):
                self.scalars[name] = stored
            elif not name.endswith("weight_scale"):
                self._tensor(name, stored)

    # ---- tensors

    def _tensor(self, name: str, stored: Stored) -> None:
        new = name.replace("/", ".").replace("layer_norm.gamma", "layer_norm.weight")
        new = new.replace("layer_norm.beta", "layer_norm.bias").replace(
            "embeddings_0", "embeddings"
        )
        new = new.replace("layernorm_embedding.gamma", "layernorm_embedding.weight")
        new = new.replace("layernorm_embedding.beta", "layernorm_embedding.bias")
        original = self.variables.aliases.get(name, name)
        scales = (self.variables.tensors.get(f"{n}_scale") for n in (name, original))
        scale = next((s for s in scales if s is not None), None)
        if new in self.tensors:
            raise PhasorError(f"{printable(name)}: is there twice")
        if ".attention.linear_1." in new and stored.shape and stored.shape[0] % 2 == 0:
            half, (start, end) = stored.shape[0] // 2, new.rsplit(".", 1)
            for part, first in (("k", 0), ("v", half)):
                rows = _rows(stored, first, half)
                kept = scale if scale is None or not scale.shape else _rows(scale, first, half)
                self.tensors[f"{start}.{part}.{end}"] = _value(name, rows, kept)
            return
        self.tensors[new] = _value(name, stored, scale)
        self.same[new] = (stored.data.ctypes.data, stored.offset)

    def _is_one(self, a: str, b: str) -> bool:
        return a in self.same and self.same.get(a) == self.same.get(b)

    # ---- numbers

    def number(self, name: str, default: float) -> float:
        stored = self.scalars.pop(name, None)
        if stored is None:
            return default
        try:
            value = scalar(stored)
        except PhasorError as error:
            raise PhasorError(f"{printable(name)}: {error}") from error
        if not math.isfinite(value):
            raise PhasorError(f"{printable(name)}: {value}, expected a number")
        return value

    def must(self, name: str, wanted: float) -> None:
        if (value := self.number(name, wanted)) != wanted:
            raise PhasorError(f"{printable(name)}: {value:g} is not supported, expected {wanted:g}")

    # ---- the description

    def source(self) -> Source:
        lists = {side: self._words(side) for side in ("source", "target")}
        stacks = {stack: self._stack(stack) for stack in _STACKS}
        names = dict(self._names())
        embeddings = {"source": "encoder.embeddings.weight", "target": "decoder.embeddings.weight"}
        names |= {f"{side}.embedding": name for side, name in embeddings.items()}
        names["output"] = "decoder.projection.weight"
        for name in (*embeddings.values(), names["output"]):
            if len(getattr(self.tensors.get(name), "shape", ())) != 2:
                raise PhasorError(f"{name.replace('.', '/')}: is missing, or no matrix")
        tied = self._is_one(embeddings["target"], names["output"])
        shared = self._is_one(*embeddings.values())
        zero = self._zero_start(lists, tied, shared)
        if tied:
            del self.tensors[names["output"]]
            names["output"] = embeddings["source" if shared else "target"]
        width = {side: self.tensors[name].shape[-1] for side, name in embeddings.items()}
        if shared:
            del self.tensors[names["target.embedding"]]
            names["target.embedding"] = embeddings["target"] = embeddings["source"]
        if (bias := "decoder.projection.bias") in self.tensors:
            names["output_bias"] = bias
        for stack, side in zip(_STACKS, embeddings):
            self._positions(stack, side, width[side], stacks[stack], names)
            self._embedding_norm(stack, side, names)
        for side, name in embeddings.items():
            self._check_words(side, name, lists[side])
        self._finish()
        sides = self._sides(lists, zero)
        output = "source-embedding" if tied and shared else "target-embedding" if tied else "own"
        content = {
            "name": self.path.resolve().name,
            "preset": "torch-transformer",
            "stack": "encoder-decoder",
            "output": output,
            **stacks,
            "source": sides["source"],
            "target": {**sides["target"], "embedding_shared": shared},
        }
        checkpoint = Checkpoint(self.path / "model.bin", self.tensors)
        model = state_dict.read(checkpoint, parse_description(content, self.path), names)
        model.descriptor["generation"] = {"min_new": 1}  # what the engine does unless it is told
        if zero is not None:
            model.notes.append(
                "the output begins behind an embedding of zeros, which is a row of its own here"
            )
            model.descriptor["generation"]["suppressed"] = [zero]
        model.descriptor = D.with_defaults(model.descriptor)
        D.check(model.descriptor)
        return Source(model, lists, self.config)

    def _names(self) -> list[tuple[str, str]]:
        out = []
        for stack in _STACKS:
            gated = f"{stack}.layer_0.{_GATE}.weight" in self.tensors
            for part, name in _NAMES.items():
                if part.startswith("cross_") and stack == "encoder":
                    continue
                out.append((f"{stack}.{part}", f"{stack}.layer_{{layer}}.{name}.weight"))
            if gated:  # linear_0 has the activation
                out.append((f"{stack}.ffn_gate", f"{stack}.layer_{{layer}}.ffn.linear_0.weight"))
                out.append((f"{stack}.ffn_in", f"{stack}.layer_{{layer}}.{_GATE}.weight"))
            out.append((f"{stack}.final_norm", f"{stack}.layer_norm.weight"))
        return out

    def _stack(self, stack: str) -> dict[str, Any]:
        heads = int(self.number(f"{stack}/num_heads", _HEADS[self.variables.spec]))
        before = self.number(f"{stack}/pre_norm", 1) != 0
        act = self.number(f"{stack}/activation", 0)
        if act not in range(len(_ACTIVATIONS)) or _ACTIVATIONS[int(act)] not in _built():
            raise PhasorError(f"{stack}/activation: {act:g} is not supported")
        if not 1 <= heads <= 4096:
            raise PhasorError(f"{stack}/num_heads: {heads}, expected a number of heads")
        kind = self.scalars.get(f"{stack}/scale_embeddings")
        scale = self.number(f"{stack}/scale_embeddings", 1)
        is_flag = kind is None or kind.dtype == "i1"
        for name in _LENIENT:
            self.number(f"{stack}/{name}", 0)
        for name in ("embeddings_merge", "alibi"):
            self.must(f"{stack}/{name}", 0)
        rms = f"{stack}.layer_0.ffn.layer_norm.bias" not in self.tensors
        eps = self.config.number("layer_norm_epsilon", default=1e-6 if rms else 1e-5)
        final = f"{stack}.layer_norm.weight" in self.tensors
        return {
            "heads": heads,
            "norm": "rms" if rms else "layer",
            "norm_eps": eps,
            "norm_place": "before" if before else "after",
            "final_norm": final,
            "activation": _ACTIVATIONS[int(act)],
            "embedding_scale": ("sqrt_width" if scale else "one") if is_flag else scale,
        }

    def _positions(
        self, stack: str, side: str, width: int, values: dict[str, Any], names: dict[str, str]
    ) -> None:
        own = f"{stack}.position_encodings.encodings"
        if own in self.tensors:
            table = self.tensors[own]
            if len(table.shape) == 3 and table.shape[0] == 1:
                table = table._replace(shape=table.shape[1:], strides=table.strides[1:])
            if len(table.shape) != 2 or not table.is_float or 0 in table.shape:
                raise PhasorError(f"{own}: has shape {table.shape}, expected positions x width")
            names[f"{side}.sinusoid"], self.tensors[own] = own, table
            first = table.load()[0]
            values["position"] = (
                "sinusoidal-halves" if not first[: len(first) // 2].any() else "sinusoidal"
            )
            return
        if width < 4 or width % 2:
            raise PhasorError(f"{stack}: {width} channels cannot have the engine's sinusoids")
        name = f"{stack}.positions.weight"
        self.tensors[name] = _sinusoids(_MOST_POSITIONS, width)
        names[f"{side}.positions"] = name
        values |= {"position": "learned", "max_positions": _MOST_POSITIONS}

    def _embedding_norm(self, stack: str, side: str, names: dict[str, str]) -> None:
        name = f"{stack}.layernorm_embedding.weight"
        if name in self.tensors:
            names[f"{side}.embedding_norm"] = name

    def _zero_start(self, lists: dict[str, list[str]], tied: bool, shared: bool) -> int | None:
        """Where the first input of the decoder is zeros: a row for it behind the target's."""
        if self.number("decoder/start_from_zero_embedding", 0) == 0:
            return None
        id_ = len(lists["target"])
        places = ("encoder.embeddings",) * shared + ("decoder.embeddings", "decoder.projection")
        lengthen(self.tensors, [f"{p}.weight" for p in places], "decoder.projection.bias", id_)
        for side in lists if shared else ("target",):
            lists[side] = [*lists[side], ZERO_START]
        return id_

    # ---- words

    def _words(self, side: str) -> list[str]:
        """The list of a side, with the unknown word where it has none, as the engine adds it."""
        for name in (f"{side}_vocabulary", f"{side}_1_vocabulary", "shared_vocabulary"):
            for end in (".json", ".txt"):
                path = self.path / (name + end)
                if has_file(path):
                    out = _word_list(path)
                    unknown = self.config.text("unk_token")
                    return out if unknown in out else [*out, unknown]
        raise PhasorError(f"{self.path}: expected {side}_vocabulary.txt or shared_vocabulary.txt")

    def _check_words(self, side: str, name: str, given: list[str]) -> None:
        shape = self.tensors[name].shape
        if shape[0] != len(given):
            raise PhasorError(
                f"{name}: has shape {shape}, the {side} vocabulary has {len(given)} words"
            )

    def _sides(self, lists: dict[str, list[str]], zero: int | None) -> dict[str, dict[str, Any]]:
        def id_of(side: str, key: str) -> int:
            word = self.config.text(key)
            if word not in lists[side]:
                raise self.config.error(key, f"{word!r} is not in the {side} vocabulary")
            return lists[side].index(word)

        prefix = self._flag("add_source_bos", "with_source_bos")
        suffix = self._flag("add_source_eos", "with_source_eos")
        end = id_of("target", "eos_token")
        out: dict[str, dict[str, Any]] = {"source": {}, "target": {"end": [end]}}
        out["source"]["unknown"] = id_of("source", "unk_token")
        out["target"]["unknown"] = id_of("target", "unk_token")
        if prefix:
            out["source"]["prefix"] = [id_of("source", "bos_token")]
        if suffix:
            out["source"]["suffix"] = [id_of("source", "eos_token")]
        start = id_of("target", "decoder_start_token") if zero is None else zero
        out["target"] |= {"decoder_start": start, "start": start}
        return out

    def _flag(self, name: str, older: str) -> bool:
        """Of config.json, or of a variable in older files."""
        return self.config.flag(name) or self.flags.get(older, 0) != 0

    def _finish(self) -> None:
        """What is left of the numbers: flags of older files, else an error by name."""
        self.flags = {name: self.number(name, 0) for name in ("with_source_bos", "with_source_eos")}
        self.must("with_target_bos", 1)
        for name in list(self.scalars):
            if self.number(name, 0) != 0 or not name.endswith("multi_query_attention"):
                raise PhasorError(f"{printable(name)}: is not supported")


def lengthen(tensors: dict[str, Any], matrices: list[str], bias: str, count: int) -> None:
    """Puts a row of zeros behind matrices of so many rows, and its logit behind the output's
    bias."""
    for name in matrices:
        if name in tensors:
            more = np.zeros((1, tensors[name].shape[-1]), np.float32)
            tensors[name] = _Longer(tensors[name], more)
    values = tensors[bias].load() if bias in tensors else np.zeros(count)
    tensors[bias] = _stored(np.append(values.astype("<f4"), _NEVER))


def _built() -> set[str]:
    return {row.word for row in D.ACTIVATIONS}


def _stored(array: np.ndarray) -> Stored:
    array = np.ascontiguousarray(array, "<f4")
    return Stored(array.reshape(-1).view(np.uint8), "<f4", array.shape, contiguous(array.shape), 0)


def _rows(stored: Stored, first: int, count: int) -> Stored:
    shape = (count, *stored.shape[1:])
    return stored._replace(shape=shape, offset=stored.offset + first * stored.strides[0])


def _value(name: str, stored: Stored, scale: Stored | None) -> Any:
    """A tensor, or one of integers with its scales."""
    if stored.dtype not in ("i1", "<i2"):
        if scale is not None:
            raise PhasorError(f"{printable(name)}: has scales, and is of {stored.dtype}")
        return stored
    rows = stored.shape[0] if stored.shape else 0
    if (
        scale is None
        or scale.dtype != "<f4"
        or len(stored.shape) != 2
        or scale.shape not in ((), (1,), (rows,), (rows, 1))
    ):
        raise PhasorError(f"{printable(name)}: {stored.dtype} of {stored.shape} without its scales")

    def grid() -> Grid:
        values = scale.load().astype(np.float32).reshape(-1, 1)
        if not np.isfinite(values).all() or (values <= 0).any():
            raise PhasorError(f"{printable(name)}: a scale is no number above 0")
        scales = np.broadcast_to(np.float32(1) / values, (rows, 1))
        group = np.zeros(stored.shape[1], np.int64)
        return Grid(stored.load().astype(np.int16), scales, group)

    kind = "INT8" if stored.dtype == "i1" else "INT16"
    return Integers(kind, stored.shape, stored.bytes + scale.bytes, grid)


class _Longer:
    """A matrix with rows behind it."""

    is_float = True

    def __init__(self, tensor: Any, more: np.ndarray) -> None:
        self.shape: Shape = (tensor.shape[0] + len(more), *tensor.shape[1:])
        self.bytes, self._tensor, self._more = tensor.bytes, tensor, more

    def load(self) -> np.ndarray:
        return np.concatenate([self._tensor.load().astype(np.float32), self._more])


def _sinusoids(count: int, width: int) -> Stored:
    """The engine's: sines, then cosines, of (position + 1) · 10000^(−i / (width / 2 − 1)), in
    f32."""
    step = np.float32(math.log(np.float32(10000)) / (width // 2 - 1))
    scales = np.exp(np.arange(width // 2, dtype=np.float32) * -step)
    angles = np.arange(1, count + 1, dtype=np.float32)[:, None] * scales
    return _stored(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def _word_list(path: Path) -> list[str]:
    if path.suffix == ".json":
        out = read_value(path, _VOCABULARY_BYTES)
        if not isinstance(out, list) or not all(isinstance(word, str) for word in out):
            raise PhasorError(f"{path}: expected a list of words")
    else:
        out = read_text(path, _VOCABULARY_BYTES).removesuffix("\n").split("\n")
    if not out or len(out) > D.MAX_VOCABULARY:
        raise PhasorError(f"{path}: {len(out)} words, expected 1 to {D.MAX_VOCABULARY}")
    if len(set(out)) != len(out):
        raise PhasorError(f"{path}: a word is there twice")
    result: list[str] = out
    return result
