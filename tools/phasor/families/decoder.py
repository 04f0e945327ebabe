"""Decoders of Hugging Face directories: a family is a table (`Family`) and a function; config.json
becomes a descriptor, then the weights a `Model`.

The first step reads the configuration alone (`Decoder`), so that another container of the same
models (GGUF) can have its descriptors made here. The second (`Decoder.build`) knows the tensors'
names. Parts of a model, as a table names them (the weight; its bias is called the same with
`bias`):

    embedding positions embedding_norm projection                  the input
    qkv | q k v, q_norm k_norm attention_out attention_norm attention_after ffn_in ffn_gate ffn_out
    ffn_norm ffn_after
                                                                   of a block, {layer} is its number
    final_norm output head                                         after the last block
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import numpy as np

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.errors import shown
from phasor.families.hf_config import (
    ACTIVATIONS,
    FULL,
    NEWER,
    SLIDING,
    Config,
    layer_types,
    rope_table,
    rope_value,
    same,
)
from phasor.families.model import (
    BUFFER,
    INPUTS,
    ROLES,
    Model,
    Part,
    described,
    shape_of,
    shared_kinds,
    single,
)
from phasor.families.names import bias_name
from phasor.families.rotary_scaling import Rotary, rotary, scaling_type
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.values import settings, words

# Fields that published configurations have beside those of their family, with the values that
# change nothing; a family that asks for one decides itself.
_NEUTRAL: dict[str, list] = settings("""
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


@dataclass(frozen=True)
class Family:
    """One architecture as a table."""

    types: tuple[str, ...]  # model_type of config.json
    classes: tuple[str, ...]  # the classes that give logits
    trunk: str  # how the names of the stack's tensors begin
    names: Mapping[str, str]
    defaults: Mapping[str, Any]  # of transformers, for fields that config.json leaves out
    adapt: Callable[["Decoder"], None]  # what is its own
    # Where config.json has another name than most.
    fields: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # patterns of tensors that are buffers
    norm: int = D.RMS_NORM
    activation: int = 0  # of the code; 0: config.json says it
    gated: bool = False
    grouped: bool = True  # num_key_value_heads and head_dim are its fields
    # The feed-forward's width where config.json has none, as a multiple of the width.
    hidden_factor: int = 0
    positions: bool = True  # config.json says how many there are
    activations: Mapping[str, int] = field(default_factory=lambda: ACTIVATIONS)
    # A second name of a field: the two may not differ.
    aliases: Mapping[str, str] = field(default_factory=dict)
    newer: Mapping[str, Any] = field(default_factory=dict)  # defaults that transformers 5 changed
    wordpiece: bool = False
    tokenizer_code: str = ""


class Decoder:
    """A descriptor from a configuration, and how its tensors lie; `adapt` changes what a family has
    of its own.

    context: the longest sequence that the file is to take, 0: what the configuration says.
    """

    def __init__(self, family: Family, config: Config, context: int = 0) -> None:
        self.family, self.config, self.context = family, config, context
        self.names = dict(family.names)
        self.notes: list[str] = []
        self._join_aliases()
        width = self.size("hidden_size", high=D.MAX_WIDTH)
        heads = self.size("num_attention_heads", high=4096)
        self.count = self.size("num_hidden_layers", high=D.MAX_LAYERS)
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
        # What a layer has otherwise.
        self.per_layer = [{} for _ in range(self.count)]
        self.output = {"output": D.LOGITS}
        self.generation: dict[str, Any] = {}
        self.tied = config.flag("tie_word_embeddings", default=True)
        self.alone = False  # tied, and only the output's name is in the file
        # Keys of a table of rotary positions that are not its scaling's.
        self.beside_scaling: frozenset[str] = frozenset()
        # Parts whose matrices are stored as (inputs, outputs).
        self.transposed: frozenset[str] = frozenset()
        self.norm_offset = 0.0  # added to the weights of all norms
        self.bare_norms: frozenset[str] = frozenset()  # norms without weights
        self.qkv_rows: np.ndarray | None = None  # of the fused tensor: the rows of q, of k, of v
        self.position_rows = 0  # of the learned table, before position 0
        self.own_norms: dict[str, str] = {}  # q_norm, k_norm: a tensor for each {head}
        # Of norms whose weights are not stored as a vector.
        self.norm_shapes: dict[str, Shape] = {}
        # Norms of the layer kind that are stored without their bias.
        self.bias_free: set[str] = set()
        family.adapt(self)
        if context:
            self._limit(context)
        config.finish((*family.harmless, *_HARMLESS), _NEUTRAL)
        layers = ({**self.kind, **own} for own in self.per_layer)
        self.kinds, self.stack["layers"], self.values = shared_kinds(layers)
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

    def field(self, name: str) -> str:
        return self.family.fields.get(name, name)

    def size(self, name: str, low: int = 1, high: int = 1 << 24) -> int:
        return self.config.whole(self.field(name), low, high)

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

    # ---- for adapt

    @property
    def positions(self) -> int:
        return self.stack.get("max_positions", 0)

    def flag(self, name: str) -> int:
        return int(self.config.flag(name))

    def rotation(
        self,
        beside: str = "rope_theta",
        fixed: float = 0,
        scaled: bool = True,
        width: int = 0,
        interleaved: bool = False,
        layer_type: str = "",
    ) -> dict[str, Any]:
        """What a kind with rotary positions has: `width` values of a head (all) turn.

        Their theta is that of the configuration's tables or of the field `beside` them (`fixed`:
        that of the code, which reads no configuration). Layers that are not `scaled` have a scaling
        only where rope_parameters has a table for their type.
        """
        c, all_values = self.config, self.kind["head_width"]
        turned = width or all_values
        if turned % 2 or turned > all_values:
            raise c.error(
                self.field("num_attention_heads"),
                f"{turned} of {all_values} values of a head cannot be rotated in pairs",
            )
        if fixed:
            made = rotary(turned, fixed)
        else:
            table = rope_table(c, layer_type, scaled)
            if not width:
                table.must("partial_rotary_factor", 1)
            theta = c.checked_base(beside, rope_value(c, table, "rope_theta", beside))
            made = self._scaled(table, turned, theta, layer_type)
        if made.most:
            self.stack["max_positions"] = min(self.positions, made.most) or made.most
            self.notes.append(
                f"rope_scaling: the frequencies depend on the length, and are those of {made.most} "
                "positions, the longest that the file takes"
                " (--rope-context N makes it another)"
            )
        out = {
            "position": D.ROTARY_INTERLEAVED if interleaved else D.ROTARY_HALVES,
            "rotary_width": turned,
            "tables": {R.ROTARY: made.inv_freq},
        }
        return {**out, "rotary_factor": single(made.factor)} if made.factor != 1 else out

    def _scaled(self, table: Config, width: int, theta: float, layer_type: str) -> Rotary:
        """The frequencies with the scaling of a table, whose every key counts."""
        c = self.config
        newer = table.prefix.startswith("rope_parameters")
        own = {"rope_theta", "partial_rotary_factor"} if newer else set()
        own |= self.beside_scaling
        scaling = {name: value for name, value in table.values.items() if name not in own}
        table.asked.update(scaling)
        try:
            trained = self._trained(table, scaling)
            if layer_type and newer and scaling_type(scaling) == "yarn":
                table.must("truncate", True)  # which transformers looks for where it is not
            return rotary(width, theta, scaling, trained, self.context, self.positions)
        except PhasorError as error:
            if str(error).startswith("rope_scaling"):
                raise c.error(
                    table.prefix.rstrip("."), str(error).removeprefix("rope_scaling: ")
                ) from error
            raise

    def _trained(self, table: Config, scaling: Mapping[str, Any]) -> int:
        """The positions before the extension, which are inside of a scaling's table or beside it.

        Which of them counts changed with transformers 5; where that matters, nothing is guessed.
        """
        c, name, kind = self.config, "original_max_position_embeddings", scaling_type(scaling)
        inside, beside = scaling.get(name), c.get(name)
        beside = None if beside is None else c.whole(name)
        if kind not in ("yarn", "longrope", "llama3"):
            return beside or self.positions
        if None not in (inside, beside) and inside != beside:
            raise c.error(name, f"{beside}, and {table.prefix}{name} is another; leave one of them")
        if (c.version or 0) < NEWER:
            alone = {
                "yarn": beside if inside is None else None,
                "longrope": inside if beside is None else None,
            }.get(kind)
            if alone is not None and alone != self.positions:
                raise c.error(
                    name,
                    f"{kind} of transformers before {NEWER} does not read it where it is;"
                    " have it in both places",
                )
            factor = scaling.get("factor")
            counts = kind == "longrope" and scaling.get("attention_factor") is None
            if counts and None not in (factor, beside) and factor != self.positions / beside:
                raise c.error(
                    table.prefix + "factor",
                    f"is not max_position_embeddings / {name}, which transformers before {NEWER}"
                    " takes for it",
                )
        return beside or self.positions

    def rotate(self, **how: Any) -> None:
        """Rotary positions in every layer."""
        self.kind.update(self.rotation(**how))

    def share(self, name: str = "partial_rotary_factor") -> int:
        """An even number of a head's values: this share of them, cut down to a whole number.

        `name`: of its field beside rope_parameters.
        """
        table = rope_table(self.config)
        factor = rope_value(self.config, table, "partial_rotary_factor", name)
        width = int(self.kind["head_width"] * factor)
        if width < 2 or width % 2 or width > self.kind["head_width"]:
            within = "partial_rotary_factor" in table.values and name not in self.config.values
            raise self.config.error(
                f"{table.prefix}partial_rotary_factor" if within else name,
                f"{factor:g} of {self.kind['head_width']} values of a head are not built",
            )
        return width

    def sliding(
        self, chosen: Callable[[int], Any], near: dict[str, Any], far: Mapping[str, Any] = {}
    ) -> None:
        """What those layers have otherwise that see a window, and what the others: layer_types says
        which they are, or else `chosen` of the layer's number."""
        made = (SLIDING if chosen(i) else FULL for i in range(self.count))
        for own, name in zip(self.per_layer, layer_types(self.config, self.count, made)):
            own.update(near if name == SLIDING else far)

    def window(self, name: str = "sliding_window") -> dict[str, int]:
        """What a kind has that sees a window: itself and the keys before it, as many as the field
        says."""
        return {} if self.config.get(name) is None else {"window": self.config.whole(name)}

    def learned(self, before: int = 0) -> None:
        """A table of positions, of whose rows `before` come before position 0."""
        self.stack["position"] = D.LEARNED
        self.position_rows = before

    def fused(self) -> None:
        """q, k and v in one tensor, for each key/value head: its heads' q, then its k, then its
        v."""
        heads, kv_heads, width = (self.kind[name] for name in ("heads", "kv_heads", "head_width"))
        group = heads // kv_heads
        places = np.arange(kv_heads * (group + 2) * width).reshape(kv_heads, group + 2, width)
        self.qkv_rows = np.concatenate(
            [places[:, :group].ravel(), places[:, group].ravel(), places[:, group + 1].ravel()]
        )

    # ---- the descriptor

    def descriptor(self, name: str) -> dict:
        """With defaults, and checked."""
        output = {**self.output, "tied": D.TIED_TARGET if self.tied else D.TIED_OWN}
        more = {"generation": self.generation} if self.generation else {}
        d = described(
            D.DECODER,
            {"name": name},
            target=self.side,
            decoder=self.stack,
            kinds=self.kinds,
            output=output,
            **more,
        )
        D.check(d)
        return d

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
        self.trunk = next(
            trunk
            for trunk in _shorter(self.family.trunk)
            if any(n.startswith(trunk) for n in checkpoint) or not trunk
        )
        embedding, output = self.trunk + self.names["embedding"], self.names["output"]
        self.alone = self.tied and embedding not in checkpoint and output in checkpoint
        return embedding, output

    def adapted(self, checkpoint: Checkpoint, parted: bool) -> None:
        """Takes the vocabulary of a checkpoint with an adapter. parted: it has changed one of two
        tied matrices, or both otherwise."""
        names, untied = self.ends(checkpoint), parted or not self.tied
        rows = [checkpoint.shape(name)[0] for name in names[: 1 + untied] if name in checkpoint]
        if len(set(rows)) > 1:
            raise PhasorError(
                f"{checkpoint.path}: with the adapter {names[0]} has {rows[0]} rows and {names[1]}"
                f" {rows[1]}: the adapter was trained on a model with another vocabulary, of which"
                " it does not have both; save it with both (modules_to_save), or merge it in PEFT"
            )
        if rows:
            self.side["vocabulary"] = rows[0]
        if parted:
            self.tied = False
            self.notes.append(
                f"the adapter gives {' and '.join(n for n in names if checkpoint.alone(n))} values"
                f" of its own: {names[0]} and {names[1]}, which are one in the model, are two here"
            )

    def build(self, name: str, checkpoint: Checkpoint) -> Model:
        self.ends(checkpoint)
        d = self.descriptor(name)
        ignore = {self.trunk + pattern: BUFFER for pattern in self.family.unused}
        model = Model(d, checkpoint, values=self.values, ignore=ignore, notes=self.notes)
        for layer in range(self.count) if "xielu" in self.names else ():
            key = R.key_of(R.DECODER, layer, R.XIELU)
            model.values[key] = _xielu_numbers(model, self.trunk, self.names["xielu"], layer)
        if self.tied:
            model.must_be_same(
                self.names["output"],
                self._name("embedding"),
                "and tie_word_embeddings says that they are one",
            )
        return model.fill(lambda slot: self._parts(slot, d))

    def _name(self, part: str, layer: int = 0) -> str:
        part = "output" if part == "embedding" and self.alone else part
        name = self.names[part].format(layer=layer, head="{head}")
        return name if part == "output" else self.trunk + name

    def _part(
        self, part: str, bias: bool, shape: Shape, layer: int = 0, rows: Any = slice(None)
    ) -> Part:
        name, turned = self._name(part, layer), part in self.transposed and not bias
        return Part(
            bias_name(name) if bias else name, shape[::-1] if turned else shape, rows, turned
        )

    def _parts(self, slot: R.Slot, d: dict) -> list[Part]:
        """Where the values of a slot come from."""
        if slot.stack == R.TARGET:
            return self._input(slot)
        if slot.stack == R.OUTPUT:
            return [self._part(*_OUTPUTS[slot.role], shape_of(slot))]
        bias, role = bool(slot.role & 1), slot.role & ~1
        layer = 0 if slot.set == R.FINAL else slot.set
        if role == R.QKV:
            return self._attention(slot, d, bias)
        part = _ROLES[role]
        if role in _NORMS:
            return self._norm(part, layer, bias, slot)
        if role == R.FFN_IN and len(slot.parts) == 2:
            if self.names["ffn_gate"] == self.names["ffn_in"]:  # one tensor, gate first
                return [self._part("ffn_in", bias, shape_of(slot), layer)]
            return [
                self._part(p, bias, (slot.parts[0], *shape_of(slot)[1:]), layer)
                for p in ("ffn_gate", "ffn_in")
            ]
        return [self._part(part, bias, shape_of(slot), layer)]

    def _input(self, slot: R.Slot) -> list[Part]:
        if slot.role == R.POSITIONS:
            before = self.position_rows
            shape = (before + slot.rows, slot.cols)
            return [self._part("positions", False, shape, rows=slice(before, None))]
        if slot.role == R.EMBEDDING_NORM and "embedding_norm" in self.bare_norms:
            return [Part(None, shape_of(slot), offset=1.0)]
        return [self._part(*INPUTS[slot.role], shape_of(slot))]

    def _norm(self, part: str, layer: int, bias: bool, slot: R.Slot) -> list[Part]:
        shape = shape_of(slot)
        if part in self.bare_norms or bias and part in self.bias_free:
            return [Part(None, shape, offset=float(not bias))]
        if part in self.own_norms:
            width = self.kind["head_width"]
            name = self.trunk + self.own_norms[part].format(layer=layer, head="{head}")
            return [Part(name.format(head=h), (width,)) for h in range(shape[0] // width)]
        found = self._part(part, bias, shape, layer)
        stored = self.norm_shapes.get(part)
        if stored is not None:
            found = found._replace(shape=stored, flat=True)
        return [found if bias else found._replace(offset=self.norm_offset)]

    def _attention(self, slot: R.Slot, d: dict, bias: bool) -> list[Part]:
        if "qkv" in self.names:
            rows = slice(None) if self.qkv_rows is None else self.qkv_rows
            return [self._part("qkv", bias, shape_of(slot), slot.set, rows)]
        biases = d["kinds"][self.stack["layers"][2 * slot.set]]["attention_biases"]
        out = []
        for i, (letter, rows) in enumerate(zip("qkv", slot.parts)):
            shape = (rows,) if bias else (rows, slot.cols)
            out.append(
                Part(None, shape)
                if bias and not biases >> i & 1
                else self._part(letter, bias, shape, slot.set)
            )
        return out


_ROLES = {**ROLES, R.ATTENTION_AFTER: "attention_after", R.FFN_AFTER: "ffn_after"}
_OUTPUTS = {
    R.OUTPUT_WEIGHT: ("output", False),
    R.OUTPUT_WEIGHT + 1: ("output", True),
    R.HEAD: ("head", False),
    R.HEAD + 1: ("head", True),
}
_NORMS = {
    R.ATTENTION_BEFORE,
    R.ATTENTION_AFTER,
    R.FFN_BEFORE,
    R.FFN_AFTER,
    R.FINAL_NORM,
    R.Q_NORM,
    R.K_NORM,
}
NORMS = frozenset(_ROLES[role] for role in _NORMS)


def _xielu_numbers(model: Model, trunk: str, names: str, layer: int) -> np.ndarray:
    """αp, αn, β and ε of a layer's xIELU, float32: αp is the softplus of what is trained, αn is
    that of its own and β more."""
    found = {}
    for part in ("alpha_p", "alpha_n", "beta", "eps"):
        name = trunk + names.format(layer=layer) + part
        if name not in model.checkpoint:
            raise PhasorError(f"{model.checkpoint.path}: missing: {name} (xIELU)")
        value = model.checkpoint.load(name).astype(np.float64)
        if value.size != 1 or not np.isfinite(value).all():
            raise PhasorError(f"{model.checkpoint.path}: {name}: expected one finite number")
        model.used[name] = "made into the numbers of xIELU"
        found[part] = float(value.reshape(-1)[0])
    above, below = (np.logaddexp(0.0, found[part]) for part in ("alpha_p", "alpha_n"))
    return np.array([above, found["beta"] + below, found["beta"], found["eps"]], np.float32)


def _shorter(trunk: str) -> list[str]:
    """ "model.decoder." with less and less before it: a checkpoint may be of a part of the
    class."""
    parts = trunk.split(".")
    return [".".join(parts[i:]) for i in range(len(parts))]
