"""A decoder of a GGUF file: its metadata become a descriptor, its tensors are taken as they lie.

llama.cpp's converter has put q and k of some architectures in the order of interleaved rotary
positions, and added 1 to the norms of others: neither is undone here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from phasor.checkpoints.tensors import Shape
from phasor.errors import PhasorError, named, shown
from phasor.families.model import Model, Part, described, shared_kinds, single
from phasor.families.rotary_scaling import rotary
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import Quantized, Weights
from phasor.format.layout import VECTOR
from phasor.positions import alibi_slopes
from phasor.sources.gguf.container import GGUF, Tensor, Type
from phasor.sources.gguf.keys import Keys, without_heads
from phasor.sources.gguf.tokenizer import Vocabulary
from phasor.values import is_whole, table

# ---- Architectures


@dataclass(frozen=True)
class Architecture:
    """What the metadata do not say. `adapt` changes what is its own."""

    norm: int = D.RMS_NORM
    position: int = D.ROTARY_HALVES  # of the blocks; 0: none
    activation: int = D.SILU
    gated: bool = True
    parallel: int = D.SERIAL
    final_norm: str = "output_norm"
    mixed: bool = False  # some blocks have no heads of keys: what they have is the architecture's
    differ: bool = False  # blocks may differ in hidden values and in heads of keys
    adapt: Callable[["Decoder"], None] = lambda d: None


class Decoder:
    """A descriptor from metadata and from the tensors that are there."""

    def __init__(self, file: GGUF, name: str, own: Architecture) -> None:
        self.file, self.own = file, own
        self.notes: list[str] = []
        values = file.under(f"{name}.")
        self.short, values = without_heads(values) if own.mixed else (frozenset(), values)
        self.keys = k = Keys(file.path, values, f"{name}.")
        self.count = k.whole("block_count", high=D.MAX_LAYERS)
        self.hidden, self.kv_heads = (
            k.of_layers(name, self.count, high) if own.differ else []
            for name, high in (("feed_forward_length", 1 << 20), ("attention.head_count_kv", 4096))
        )
        # The block that tells what the blocks with attention have.
        self.first = next((i for i in range(self.count) if i not in self.short), 0)
        self.width = k.whole("embedding_length", high=D.MAX_WIDTH)
        self.heads = k.whole("attention.head_count", high=4096)
        each = max(1, self.width // self.heads)
        self.head_width = k.whole("attention.key_length", high=4096, default=each)
        values = k.get("attention.value_length", self.head_width)
        if values != self.head_width:
            what = f"{shown(values)}, and attention.key_length is {self.head_width}"
            raise k.error("attention.value_length", what)
        eps = k.number(f"attention.layer_norm{'_rms' * (own.norm == D.RMS_NORM)}_epsilon")
        self.stack = {
            "width": self.width,
            "max_positions": k.whole("context_length"),
            "final_norm": own.norm,
            "final_norm_eps": eps,
        }
        self.kind = self._kind(eps)
        self.per_layer = [self._separate_v(i) for i in range(self.count)]
        self.output = {
            "output": D.LOGITS,
            "tied": D.TIED_OWN if "output.weight" in file else D.TIED_TARGET,
            "bias": int("output.bias" in file),
        }
        self.bare_norms = False  # norms without weights
        self.values_of_keys: set[int] = set()  # blocks whose matrix of k is that of v too
        self.factors: dict[int, float] = {}  # by the role of what comes into the blocks
        self.unread: dict[str, str] = {}  # tensors that say nothing, and why
        self.names = {
            R.ATTENTION_BEFORE: "attn_norm",
            R.FFN_BEFORE: "ffn_norm",
            R.ATTENTION_AFTER: "post_attention_norm",
            R.FFN_AFTER: "post_ffw_norm",
        }
        if own.position:
            self.rotate()
        own.adapt(self)
        self._limit_by_window()
        k.finish()

    def has(self, name: str) -> bool:
        """Whether the first block with attention has a tensor; where the others are different, they
        are missing or left over."""
        return f"blk.{self.first}.{name}" in self.file

    def convolutions(self, taps: int) -> None:
        """Short convolutions in the blocks without heads of keys."""
        share = range(1, self.width + 1)
        heads = next(n for n in share if self.width % n == 0 and self.width // n <= 4096)
        short = {"mixer": D.CONVOLUTION, "window": taps, "position": 0, "rotary_width": 0}
        short |= {"heads": heads, "kv_heads": heads, "head_width": self.width // heads}
        short |= {"scale": 1.0, "qk_norm": 0, "attention_biases": 0}
        for i in self.short:
            self.per_layer[i] = short

    def _kind(self, eps: float) -> dict[str, Any]:
        k, own = self.keys, self.own
        kv_heads = k.whole("attention.head_count_kv", high=self.heads, default=self.heads)
        fused = self.has("attn_qkv.weight")
        parts = ("attn_qkv",) * 3 if fused else ("attn_q", "attn_k", "attn_v")
        biases = [self.has(f"{part}.bias") << i for i, part in enumerate((*parts, "attn_output"))]
        return {
            "norm": own.norm,
            "norm_place": D.BEFORE,
            "norm_eps": eps,
            "norm_biases": int(self.has("attn_norm.bias")),
            "heads": self.heads,
            "kv_heads": kv_heads,
            "head_width": self.head_width,
            "scale": single(self.head_width**-0.5),
            "qk_norm": own.norm * self.has("attn_q_norm.weight"),
            "parallel": own.parallel,
            "attention_biases": sum(biases),
            "hidden": k.whole("feed_forward_length", high=1 << 20),
            "activation": own.activation,
            "gated": int(own.gated),
            "ffn_biases": self.has("ffn_up.bias") | self.has("ffn_down.bias") << 1,
        }

    def _separate_v(self, block: int) -> dict[str, Any]:
        """Where v has another type than q and k: K-quants give it more bits in some blocks."""
        names = (f"blk.{block}.attn_{part}.weight" for part in "qkv")
        tensors = [self.file.tensors.get(name) for name in names]
        if None in tensors:
            return {}
        q, k, v = (tensor.type.keeps for tensor in tensors)
        return {"separate_v": 1} if q == k != v else {}

    # ---- positions

    def rotate(self) -> None:
        """Rotary positions in every block, with the scaling that metadata and tensors say."""
        width = self.keys.whole("rope.dimension_count", 2, self.head_width, self.head_width)
        made = self.frequencies(self.keys.number("rope.freq_base", 1, 10000.0), width)
        self.kind.update(position=self.own.position, rotary_width=width, tables={R.ROTARY: made})

    def frequencies(self, base: float, width: int, scaled: bool = True) -> np.ndarray:
        k = self.keys
        kind = k.get("rope.scaling.type", "linear")
        linear = k.number("rope.scale_linear", default=0.0)
        factor = k.number("rope.scaling.factor", default=linear) or 1.0
        magnitude = k.number("rope.scaling.attn_factor", default=1.0)
        original = "rope.scaling.original_context_length"
        k.get(original)
        scaling: dict[str, Any] | None = None
        if kind == "linear" and scaled:
            scaling = {"type": "linear", "factor": factor}
        elif kind == "yarn" and scaled:
            scaling = {"type": "yarn", "factor": factor}
            scaling["original_max_position_embeddings"] = k.whole(original)
            for name in ("beta_fast", "beta_slow"):
                if k.get(f"rope.scaling.yarn_{name}") is not None:
                    scaling[name] = k.number(f"rope.scaling.yarn_{name}")
        elif kind not in ("none", "linear", "yarn", "longrope"):
            raise k.error(
                "rope.scaling.type",
                f"{shown(kind)} is not supported, expected none, linear, yarn, longrope",
            )
        if width % 2:
            raise k.error("rope.dimension_count", f"{width} is odd")
        made = rotary(width, base, scaling)
        if scaled and made.factor * magnitude != 1:
            self.kind["rotary_factor"] = single(made.factor * magnitude)
        return made.inv_freq / self._divisors(width) if scaled else made.inv_freq

    def _divisors(self, width: int) -> np.ndarray | float:
        """llama3's factors of the frequencies, or longrope's short ones: then the file takes no
        longer sequence than they hold for."""
        names = ("rope_freqs.weight", "rope_factors_short.weight")
        name = next((name for name in names if name in self.file), None)
        if name is None:
            return 1.0
        if self.file.shape(name) != (width // 2,):
            raise PhasorError(
                f"{self.file.path}: {name}: has shape {self.file.shape(name)}, expected "
                f"({width // 2},)"
            )
        values = self.file.load(name).astype(np.float64)
        if not np.isfinite(values).all() or not (values > 0).all():
            raise PhasorError(f"{self.file.path}: {name}: a factor is not a positive number")
        if name == names[1]:
            longest = self.keys.whole("rope.scaling.original_context_length")
            self._limit(
                longest,
                f"the frequencies are those of sequences of up to {longest} positions, and the "
                "file takes no longer ones",
            )
        return values

    def _limit(self, positions: int, note: str) -> None:
        """The file takes no longer sequence, and that is said where it could have."""
        if positions < self.stack["max_positions"]:
            self.stack["max_positions"] = positions
            self.notes.append(note)

    def alibi(self, most: float = 8.0) -> None:
        if most != 8:
            raise self.keys.error(
                "attention.max_alibi_bias", f"{most:g} is not supported, expected 8"
            )
        slopes = alibi_slopes(self.heads).astype(np.float32)
        self.kind.update(position=D.ALIBI, tables={R.ALIBI: slopes})

    def windows(self, period: int) -> list[bool]:
        """Which layers see a window: of each `period` all but the last."""
        name = "attention.sliding_window_pattern"
        pattern = self.keys.values.get(name, period)
        self.keys.asked.add(name)
        if isinstance(pattern, list):
            if len(pattern) != self.count or not all(isinstance(own, bool) for own in pattern):
                what = f"expected true or false for each of {self.count} layers"
                raise self.keys.error(name, what)
            return pattern
        if not is_whole(pattern, 1, 1 << 63):
            raise self.keys.expected(name, pattern, "a whole number from 1")
        return [i % pattern < pattern - 1 for i in range(self.count)]

    def _limit_by_window(self) -> None:
        """A window that some architectures have and llama.cpp does not compute: up to its size it
        changes nothing, and the file takes no longer sequence."""
        name = "attention.sliding_window"
        if name in self.keys.asked or not self.keys.get(name):
            return
        window = self.keys.whole(name)
        self._limit(
            window,
            f"the layers see a window of {window} positions; the file takes no longer sequence, so "
            "that it changes nothing",
        )

    # ---- the model

    def build(self) -> "GGUFModel":
        layers = ({**self.kind, **own} for own in self.per_layer)
        kinds, self.stack["layers"], values = shared_kinds(layers)
        shape = self.file.shape("token_embd.weight") if "token_embd.weight" in self.file else None
        if shape is None or len(shape) != 2:
            what = "is missing" if shape is None else f"has shape {shape}, expected two dimensions"
            raise PhasorError(f"{self.file.path}: token_embd.weight: {what}")
        vocabulary = Vocabulary(self.file, shape[0])
        text = {name: self._text(key) for name, key in _TEXTS.items()}
        descriptor = described(
            D.DECODER,
            {**text, "name": text["name"] or self.file.path.stem},
            target={"vocabulary": shape[0], **vocabulary.ids()},
            decoder=self.stack,
            kinds=kinds,
            output=self.output,
        )
        try:
            D.check(descriptor)
        except PhasorError as error:
            raise named(self.file.path, error) from error
        if self.bare_norms:
            for slot in R.slots(descriptor):
                if slot.layout == VECTOR and slot.stack != R.KINDS:
                    values[slot.key] = np.full(slot.parts, slot.role % 2 == 0, np.float32)
        model = GGUFModel(
            descriptor, self.file, values=values, notes=self.notes, vocabulary=vocabulary
        )
        if self.own.position:
            tables = ("freqs", "factors_short", "factors_long")
            model.used |= dict.fromkeys(
                (f"rope_{name}.weight" for name in tables), "read into the rotary frequencies"
            )
        model.used |= self.unread
        return model.fill(lambda slot: self._parts(slot, descriptor))

    def _text(self, key: str) -> str:
        value = self.file.metadata.get(key, "")
        if not isinstance(value, str):
            raise PhasorError(f"{self.file.path}: {key}: {shown(value)}, expected text")
        return value

    def _parts(self, slot: R.Slot, d: dict[str, Any]) -> list[Part]:
        if slot.stack == R.DECODER:
            return self._block_parts(slot, d)
        name, bias = _ENDS[slot.stack, slot.role]
        factor = self.factors.get(slot.role, 1.0) if slot.stack == R.TARGET else 1.0
        return [self._part(name, bias, (sum(slot.parts),), slot)._replace(factor=factor)]

    def _block_parts(self, slot: R.Slot, d: dict[str, Any]) -> list[Part]:
        role, bias = slot.role & ~1, bool(slot.role & 1)
        if slot.set == R.FINAL:
            return [self._part(self.own.final_norm, bias, slot.parts, slot)]
        kind = d["kinds"][self.stack["layers"][2 * slot.set]]
        fused = {
            R.QKV: ("attn_qkv", ("attn_q", "attn_k", "attn_v")[: len(slot.parts)]),
            R.FFN_IN: ("ffn_up", ("ffn_gate", "ffn_up") if kind["gated"] else ("ffn_up",)),
        }
        alone = {
            R.V: "attn_v",
            R.ATTENTION_OUT: "attn_output",
            R.FFN_OUT: "ffn_down",
            R.Q_NORM: "attn_q_norm",
            R.K_NORM: "attn_k_norm",
            **self.names,
        }
        start = f"blk.{slot.set}."
        if role == R.V_NORM:  # which has no weights
            return [Part(None, slot.parts, offset=float(not bias))]
        if kind["mixer"] == D.CONVOLUTION and role in _CONVOLUTION:
            part = self._part(start + _CONVOLUTION[role], bias, (sum(slot.parts),), slot)
            if role == R.TAPS:
                return [part._replace(shape=part.shape[::-1], transposed=True)]
            if role == R.QKV:  # which lie as k, q, v
                first, second, third = np.split(np.arange(part.shape[0]), 3)
                part = part._replace(rows=np.concatenate([second, first, third]))
            return [part]
        if role not in fused:
            return [self._part(start + alone[role], bias, self._norm_shape(role, slot, kind), slot)]
        whole, names = fused[role]
        if self.has("attn_qkv.weight") if role == R.QKV else not self.has("ffn_gate.weight"):
            return [self._part(start + whole, bias, (sum(slot.parts),), slot)]
        if slot.set in self.values_of_keys and role == R.QKV:
            names = ("attn_q", "attn_k", "attn_k")
        return [
            self._part(start + name, bias, (rows,), slot)
            for name, rows in zip(names, slot.parts)
            if rows
        ]

    def _norm_shape(self, role: int, slot: R.Slot, kind: dict[str, Any]) -> Shape:
        """A norm that each head has weights of its own for is stored as a matrix."""
        if role in (R.Q_NORM, R.K_NORM) and kind["qk_norm_over"] == D.OWN_HEAD:
            return (slot.parts[0] // kind["head_width"], kind["head_width"])
        return slot.parts

    def _part(self, name: str, bias: bool, rows: Shape, slot: R.Slot) -> Part:
        """The tensor of a part; a bias that only the other parts have, or that only the descriptor
        has, is zeros."""
        full = f"{name}.{'bias' if bias else 'weight'}"
        shape = rows if slot.layout == VECTOR else (*rows, slot.cols)
        if bias and full not in self.file:
            return Part(None, (math.prod(shape),))
        return Part(full, shape, flat=slot.layout == VECTOR and len(shape) > 1)


_TEXTS = table("""
    name     general.name
    author   general.organization
    license  general.license
    origin   general.source.url
""")
# Of a short convolution.
_CONVOLUTION = {
    R.QKV: "shortconv.in_proj",
    R.TAPS: "shortconv.conv",
    R.ATTENTION_OUT: "shortconv.out_proj",
}
# Outside of the blocks: the tensor, and whether it is the bias.
_ENDS = {
    (R.TARGET, R.EMBEDDING): ("token_embd", False),
    (R.TARGET, R.POSITIONS): ("position_embd", False),
    (R.TARGET, R.PER_LAYER): ("per_layer_token_embd", False),
    (R.TARGET, R.PER_LAYER_PROJECTION): ("per_layer_model_proj", False),
    (R.TARGET, R.PER_LAYER_NORM): ("per_layer_proj_norm", False),
    (R.TARGET, R.EMBEDDING_NORM): ("token_embd_norm", False),
    (R.TARGET, R.EMBEDDING_NORM + 1): ("token_embd_norm", True),
    (R.OUTPUT, R.OUTPUT_WEIGHT): ("output", False),
    (R.OUTPUT, R.OUTPUT_WEIGHT + 1): ("output", True),
}


# ---- The model


@dataclass
class GGUFModel(Model):
    """Its matrices keep the type that they have where a .phasor file has it too."""

    vocabulary: Vocabulary | None = None

    def type_of(self, slot: R.Slot) -> int:
        """The type asked for; else the one that holds every part of the slot without loss (Q4_0
        beside Q8_0 fits q8), or q8, to which quantized parts of other types are rounded. Any other
        pair is widened."""
        asked = self.asked_for(slot)
        if asked is not None:
            return asked
        types = [tensor.type for tensor in self._tensors(slot).values()]
        kept = {own.keeps for own in types}
        if len(kept) == 1:
            return kept.pop()
        exact = (to for to in kept if all(_exact(own, to) for own in types))
        return next(exact, L.Q8 if kept <= set(L.QUANTIZED) else L.F32)

    def _tensors(self, slot: R.Slot) -> dict[str, Tensor]:
        names = (part.name for part in self.parts.get(slot.key, ()))
        return {name: self.checkpoint.tensors[name] for name in names if name is not None}

    def holds(self, slot: R.Slot) -> bool:
        to = self.type_of(slot)
        return all(_exact(t.type, to) for t in self._tensors(slot).values())

    def stays(self, slot: R.Slot) -> bool:
        return self.type_of(slot) in L.QUANTIZED and self.holds(slot)

    def weights(self, slot: R.Slot) -> Weights:
        stored = self._tensors(slot)
        for name, tensor in stored.items():
            if not tensor.is_finite():
                raise PhasorError(f"{self.checkpoint.path}: {name}: a value is not finite")
        if slot.matrix and self.stays(slot):
            parts = []
            for part in self.parts[slot.key]:  # two may be of one tensor
                if part.name is None:
                    continue
                try:
                    arrays = stored[part.name].quantized(self.type_of(slot))
                    parts.append([array[part.rows] for array in arrays])
                except PhasorError as error:
                    raise named(f"{self.checkpoint.path}: {part.name}", error) from error
            scales, values = zip(*parts)
            return Quantized(np.concatenate(scales), np.concatenate(values), self.type_of(slot))
        return super().weights(slot)

    def packed(self, slot: R.Slot) -> list[tuple[str, float]]:
        stored = self._tensors(slot).values()
        return [(t.type.name, 8 * t.data.size / math.prod(t.shape)) for t in stored]


def _exact(own: Type, to: int) -> bool:
    """Whether a type of the file holds every value of a GGUF type."""
    return to in (L.F32, own.keeps, *dict(own.also))
