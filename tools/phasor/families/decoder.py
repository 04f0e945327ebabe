"""Decoders of Hugging Face directories: config.json becomes a descriptor, then the weights a
`Model`.

The first step reads the configuration alone (`Decoder`), so that a descriptor can be made without
weights. The second (`Decoder.build`) knows the tensors' names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, shown
from phasor.families.family import Family
from phasor.families.heads import Head
from phasor.families.hf_config import Config, same
from phasor.families.model import BUFFER, Model, Part, shape_of, single
from phasor.families.positioned import Positioned
from phasor.families.stack import trunk_of
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words

# Fields that published configurations have beside those of their family, with the values that
# change nothing; a family that asks for one decides itself.
_NEUTRAL: dict[str, list[Any]] = settings("""
    attention_bias                            [false]
    mlp_bias                                  [false]
    lm_head_bias                              [false]
    use_mrope                                 [false]
    rope_interleaved                          [false]
    interpolate_factor                        [1]
    full_attn_mod                             [1]
    apply_residual_connection_post_layernorm  [false]
    partial_rotary_factor                     [1]
    rotary_pct                                [1]
    use_qk_norm                               [false]
    use_bidirectional_attention               [false]
    position_embedding_type                   ["rope_gptj"]
    use_gated_activation                      [true]
    use_parallel_block                        [true]
    is_causal                                 [true]
""")
_HARMLESS = words("""
    is_llama_config tokenizer_name model_max_length max_sequence_length
    layer_switch attention_softmax_in_fp32 scale_attention_softmax_in_fp32 max_window_layers
    cache_implementation
""")


class Decoder(Positioned):
    """A descriptor from a configuration, and how its tensors lie; `adapt` changes what a family has
    of its own.

    context: the longest sequence that the file is to take, 0: what the configuration says.
    crossing: its blocks look at what another stack gives. role: R.ENCODER where it is the half of
    an encoder-decoder that is looked at.
    """

    both_ways = False  # each position sees those behind it too, and its windows have two sides

    def __init__(
        self,
        family: Family,
        config: Config,
        context: int = 0,
        crossing: bool = False,
        role: int = R.DECODER,
    ) -> None:
        super().__init__(role, config, family.names, trunk=family.trunk)
        self.family, self.context, self.crossing = family, context, crossing
        self.unread: dict[str, str] = {}  # patterns of tensors that its class does not read: why
        self.heads: dict[str, Head] = {}  # other than all decoders', by the class's end
        self._join_aliases()
        width = self.size("hidden_size", high=D.MAX_WIDTH)
        heads = self.size("num_attention_heads", high=4096)
        self.blocks(self.size("num_hidden_layers", high=D.MAX_LAYERS))
        eps = config.number(self.field("rms_norm_eps"))
        head_width = self._head_width(width, heads)
        self.side = {"vocabulary": self.size("vocab_size", high=D.MAX_VOCABULARY)}
        self.stack = {
            "width": width,
            "final_norm": family.norm,
            "final_norm_eps": eps,
        }
        if family.positions:
            self.stack["max_positions"] = self.size("max_position_embeddings")
        self.kind = {
            "norm": family.norm,
            "norm_place": D.BEFORE,
            "norm_eps": eps,
            "heads": heads,
            "kv_heads": self._kv_heads(heads),
            "head_width": head_width,
            "scale": single(head_width**-0.5),
            "hidden": self._hidden(width),
            "activation": family.activation
            or config.choice(self.field("hidden_act"), family.activations),
            "gated": int(family.gated),
        }
        self.tied = config.flag("tie_word_embeddings", default=True)
        tied = D.TIED_TARGET if self.tied else D.TIED_OWN
        self.output.update(output=D.LOGITS, tied=tied)
        family.adapt(self)
        if context:
            self._limit(context)
        config.finish((*family.harmless, *_HARMLESS), {**_NEUTRAL, **family.neutral})
        self.finish()
        if len(self.kinds) > D.MAX_KINDS:
            raise config.error(
                self.field("num_hidden_layers"),
                f"{len(self.kinds)} kinds of layer, the format has {D.MAX_KINDS}",
            )

    # ---- sizes

    def _join_aliases(self) -> None:
        values = self.config.values
        for second, first in self.family.aliases.items():
            value = self.config.get(second)
            if value is not None and first in values and not same(values[first], value):
                raise self.config.error(
                    second, f"{shown(value)}, and {first} is {shown(values[first])}"
                )
            if value is not None:
                values[first] = value

    def _head_width(self, width: int, heads: int) -> int:
        if self.family.grouped and self.config.get("head_dim") is not None:
            return self.config.whole("head_dim", 1, 4096)
        if width % heads:
            raise self.config.error(
                self.field("num_attention_heads"), f"{heads} does not divide the width {width}"
            )
        return width // heads

    def _kv_heads(self, heads: int) -> int:
        name = self.field("num_key_value_heads")
        if not self.family.grouped or self.config.get(name) is None:
            return heads
        kv_heads = self.config.whole(name, 1, heads)
        if heads % kv_heads:
            raise self.config.error(name, f"{kv_heads} does not divide the {heads} heads")
        return kv_heads

    def _hidden(self, width: int) -> int:
        if self.family.hidden_factor and self.config.get(self.field("intermediate_size")) is None:
            return self.family.hidden_factor * width
        return self.size("intermediate_size")

    def _limit(self, context: int) -> None:
        """The longest sequence is the user's."""
        if self.stack.get("position") == D.LEARNED:
            raise PhasorError(
                "--rope-context: this model has a table of positions, and no rotary ones"
            )
        if not any("rotary_width" in layer for layer in [self.kind, *self.per_layer]):
            raise PhasorError("--rope-context: this model has no rotary positions")
        self.stack["max_positions"] = context

    # ---- tensors

    def is_transposed(self, name: str) -> bool:
        """Whether a tensor is a matrix that is stored as (inputs, outputs)."""
        return any(
            name.endswith("." + self.names[part].rpartition("{layer}.")[2])
            for part in self.transposed
        )

    def ends(self, checkpoint: Checkpoint) -> tuple[str, str]:
        """The names of the embedding and of the output's matrix. Of tied ones a file may have one
        name alone, whichever."""
        self.alone, self.trunk = "", trunk_of(self.family.trunk, checkpoint)
        embedding, output = self.name("embedding"), self.names["output"]
        if self.tied and embedding not in checkpoint and output in checkpoint:
            self.alone = output
        return embedding, output

    def adapted(self, checkpoint: Checkpoint, parted: bool) -> None:
        """Takes the vocabulary of a checkpoint with an adapter. parted: it has changed one of two
        tied matrices, or both otherwise."""
        names, untied = self.ends(checkpoint), parted or not self.tied
        rows = [checkpoint.shape(name)[0] for name in names[: 1 + untied] if name in checkpoint]
        if len(set(rows)) > 1:
            raise PhasorError(
                f"{checkpoint.path}: with the adapter {names[0]} has {rows[0]} rows and {names[1]}"
                f" {rows[1]}: the adapter was trained on a model with another vocabulary, and"
                " lacks one. TRY: save it with both (modules_to_save), or merge it in PEFT"
            )
        if rows:
            self.side["vocabulary"] = rows[0]
        if parted:
            self.tied, self.output["tied"] = False, D.TIED_OWN
            self.notes.append(
                f"the adapter gives {' and '.join(n for n in names if checkpoint.alone(n))} values"
                f" of its own: {names[0]} and {names[1]}, which are one in the model, are two here"
            )

    def open(self, checkpoint: Checkpoint) -> None:
        """The tensors, without which the descriptor can be made."""
        self.checkpoint = checkpoint
        self.ends(checkpoint)
        self.ignore = {self.trunk + pattern: BUFFER for pattern in self.family.unused}
        self.ignore.update((self.trunk + pattern, why) for pattern, why in self.unread.items())
        if self.tied:
            self.doubles = [(self.names["output"], self.name("embedding"))]
        for layer in self.convolutions:
            shape = (self.stack["width"], 1, self.per_layer[layer]["window"])
            found = self.load(self.name("taps", layer), "taps of the convolution", shape)
            self.values[R.key_of(self.role, layer, R.TAPS)] = found[:, 0].T.astype(np.float32)
        for layer in range(self.count) if "xielu" in self.names else ():
            self.values[R.key_of(self.role, layer, R.XIELU)] = self._xielu_numbers(layer)

    def build(self, name: str, checkpoint: Checkpoint) -> Model:
        self.open(checkpoint)
        return self.model(name)

    def name(self, part: str, weights: int = 0) -> str:
        return self.names[part] if part in _OUTSIDE else super().name(part, weights)

    def parts(self, slot: R.Slot) -> list[Part]:
        if slot.stack == R.OUTPUT:
            part, bias = _OUTPUTS[slot.role]
            part = "output_head" if part == "head" and "output_head" in self.names else part
            if part == "output_norm":
                return self._norm(part, bias, shape_of(slot))
            return [self.part(part, bias, shape_of(slot))]
        return super().parts(slot)

    def _xielu_numbers(self, layer: int) -> np.ndarray:
        """αp, αn, β and ε of a layer's xIELU, float32: αp is the softplus of what is trained, αn is
        that of its own and β more."""
        found, path = {}, self.checkpoint.path
        for part in ("alpha_p", "alpha_n", "beta", "eps"):
            name = self.name("xielu", layer) + part
            if name not in self.checkpoint:
                raise PhasorError(f"{path}: missing: {name} (xIELU)")
            value = self.checkpoint.load(name).astype(np.float64)
            if value.size != 1 or not np.isfinite(value).all():
                raise PhasorError(f"{path}: {name}: expected one finite number")
            self.used[name] = "made into the numbers of xIELU"
            found[part] = float(value.reshape(-1)[0])
        above, below = (np.logaddexp(0.0, found[part]) for part in ("alpha_p", "alpha_n"))
        return np.array([above, found["beta"] + below, found["beta"], found["eps"]], np.float32)


_OUTPUTS = {
    R.OUTPUT_WEIGHT: ("output", False),
    R.OUTPUT_WEIGHT + 1: ("output", True),
    R.HEAD: ("head", False),
    R.HEAD + 1: ("head", True),
    R.HEAD_NORM: ("output_norm", False),
    R.HEAD_NORM + 1: ("output_norm", True),
}
# What comes behind the stack: names without the beginning of the stack's.
_OUTSIDE = ("output", "output_head", "output_norm")
