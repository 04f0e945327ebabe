"""A configuration (config.json and its like) that is read field by field: one that was never
asked for and is not known to be harmless stops the conversion.

So a field that changes the arithmetic cannot go unnoticed: it is understood, or it must have the
one value that changes nothing, or it is refused by name. The same holds inside of its tables. What
is read has a type and a range; a field that does not is one line with the name and the value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence, overload

from phasor.errors import PhasorError, printable, shown
from phasor.families.fields import Fields
from phasor.format import descriptor as D
from phasor.values import settings, words

# transformers' names of the activations (activations.py), those that a block or a head can have.
ACTIVATIONS = {name: row.number for row in D.ACTIVATIONS for name in row.configs}

# Fields of every configuration that say nothing about the arithmetic of one forward pass, by the
# reason why. A family has more of its own.
_HARMLESS_BECAUSE: dict[str, str] = {
    "book-keeping: where the file comes from and who wrote it": """
        _name_or_path _model_name_or_path _commit_hash transformers_version model_type architectures
        finetuning_task language directionality task_specific_params sentence_transformers name
        author license unsloth_fixed unsloth_version transformers.js_config
        sbert_ce_default_activation_function""",
    "training: it drops values, draws the first weights or weighs the loss": """
        hidden_dropout_prob attention_probs_dropout_prob classifier_dropout
        classifier_dropout_prob initializer_range gradient_checkpointing tf_legacy_loss
        keys_to_ignore_at_inference problem_type""",
    "how the same numbers are computed, and in what they are kept": """
        _attn_implementation _attn_implementation_autoset attn_implementation use_flash_attn
        _flash_attn_2_enabled use_cache
        chunk_size_feed_forward torchscript use_bfloat16 dtype torch_dtype""",
    "what a forward pass gives beside its result": """
        output_attentions output_hidden_states output_past output_scores return_dict
        return_dict_in_generate use_return_dict""",
    "names of classes: the outputs that have classes ask for them": """
        id2label label2id num_labels _num_labels""",
    "whether two matrices are one: the outputs that have a vocabulary ask for it": """
        tie_word_embeddings""",
    "generation: read by generation.py, or a choice of whoever generates": """
        bos_token_id eos_token_id eos_token_ids pad_token_id bad_words_ids begin_suppress_tokens
        decoder_start_token_id diversity_penalty do_sample early_stopping
        encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id
        forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size
        num_beam_groups num_beams num_return_sequences prefix remove_invalid_values
        repetition_penalty suppress_tokens temperature top_k top_p typical_p""",
    "the tokenizer's, which has files of its own": """
        tokenizer_class sep_token_id cls_token_id mask_token_id unk_token_id""",
}
HARMLESS = frozenset(name for names in _HARMLESS_BECAUSE.values() for name in names.split())

# Fields that have one value which changes nothing; any other is refused.
NEUTRAL: dict[str, list[Any]] = settings("""
    is_decoder                   [false]
    is_encoder_decoder           [false]
    add_cross_attention          [false]
    tie_encoder_decoder          [false]
    pruned_heads                 [{}]
    cross_attention_hidden_size  [null]
    quantization_config          [null]
    auto_map                     [null]
""")


_DENSE = "see docs/reference/families.md"
_TEXT = "take its language model, where that is published by itself"
# What is not supported at all, and the fields that tell, with the values that say it is not there;
# what to do.
_REFUSED: tuple[tuple[str, tuple[str, ...], tuple[Any, ...], str], ...] = (
    (
        "a mixture of experts",
        words("""
            num_local_experts num_experts n_routed_experts moe_num_experts num_experts_per_tok
        """),
        (None, 0, 1),
        "take a dense model of docs/reference/families.md",
    ),
    ("latent attention", ("kv_lora_rank",), (None, 0), _DENSE),
    ("a model with streams of residuals side by side", ("altup_num_inputs",), (None, 0, 1), _DENSE),
    (
        "a model with an embedding for each layer",
        ("hidden_size_per_layer_input",),
        (None, 0),
        _DENSE,
    ),
    (
        "a state-space layer",
        words("state_size ssm_cfg mamba_d_state mamba_d_ssm ssm_state_size"),
        (None, 0),
        _DENSE,
    ),
    ("a model with a part for pictures", ("vision_config", "vision_tower"), (None,), _TEXT),
    ("a model with a part for sound", ("audio_config",), (None,), _TEXT),
    (
        "linear or recurrent attention",
        words("attention_hidden_size linear_num_value_heads lru_width rwkv_version"),
        (None,),
        _DENSE,
    ),
)

_MOST_NAMES = 8  # names in a message
NEWER = 5  # the version of transformers that changed the names and some defaults


def refuse(where: Path, values: Mapping[str, Any]) -> None:
    """PhasorError for an architecture that is not supported, in one line."""
    for what, fields, absent, instead in _REFUSED:
        for name in fields:
            if not any(same(values.get(name), value) for value in absent):
                kind = shown(values.get("model_type"))
                raise PhasorError(
                    f"{where}: model_type: {kind} is {what} ({name}), which is not supported:"
                    f" {instead}"
                )


class Config(Fields):
    """The fields of one table, with the defaults of its family where it leaves one out.

    newer: the defaults that are others from transformers 5 on; transformers_version says which
    count. A table inside is a `Config` of its own (`table`).
    """

    def __init__(
        self,
        path: Path,
        values: dict[str, Any],
        defaults: Mapping[str, Any] | None = None,
        newer: Mapping[str, Any] | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(path, values, prefix)
        self.values: dict[str, Any] = values
        self.defaults, self.changed = dict(defaults or {}), dict(newer or {})
        self.tables: dict[str, Config] = {}
        self.finished = False  # a table that has harmless fields of its own

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or the family's default where it is left out; `default` where that is null."""
        self.asked.add(name)
        value = self.values[name] if name in self.values else self._default(name)
        return default if value is None else value

    def _default(self, name: str) -> Any:
        older = self.defaults.get(name)
        if name not in self.changed:
            return older
        if self.version is None:
            raise self.error(
                name,
                f"is missing: {older!r} before transformers {NEWER}, {self.changed[name]!r} from"
                " then on, and transformers_version does not say which; add it",
            )
        return self.changed[name] if self.version >= NEWER else older

    @property
    def version(self) -> int | None:
        """The first number of the version of transformers that wrote the file; None: nothing says
        it. rope_parameters is a name of the newer ones."""
        text = self.values.get("transformers_version")
        first = text.split(".")[0] if isinstance(text, str) else ""
        if text is not None and not (first.isascii() and first.isdigit() and len(first) < 4):
            raise self.expected("transformers_version", text, "a version, such as '4.57.6'")
        if not first and self.values.get("rope_parameters") is not None:
            return NEWER
        return int(first) if first else None

    @overload
    def table(self, name: str, defaults: Mapping[str, Any]) -> Config: ...
    @overload
    def table(self, name: str, defaults: None = None) -> Config | None: ...
    def table(self, name: str, defaults: Mapping[str, Any] | None = None) -> Config | None:
        """The table that a field is; where nothing says it, None or one with the defaults."""
        value = self.get(name, None if defaults is None else {})
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.expected(name, value, "a table")
        if name not in self.tables:
            self.tables[name] = Config(self.path, value, defaults, prefix=f"{self.prefix}{name}.")
        return self.tables[name]

    def checked_base(self, name: str, value: float) -> float:
        if value < 1:
            raise self.error(name, f"{value!r}, expected a number from 1")
        return value

    def class_name(self, name: str, choices: Mapping[str, Any]) -> Any:
        """The same for the last part of a Python class's name."""
        last = self.text(name).rsplit(".", 1)[-1]
        if last not in choices:
            raise self.error(name, f"{shown(last)} is not supported, expected {', '.join(choices)}")
        return choices[last]

    def activation(self, name: str) -> int:
        result: int = self.choice(name, ACTIVATIONS)
        return result

    def must(self, name: str, *wanted: Any) -> None:
        """Refuses the field unless it has one of these values (or is absent and has no default)."""
        value = self.get(name)
        if value is not None and not any(same(value, other) for other in wanted):
            expected = " or ".join(shown(other) for other in wanted if other is not None)
            raise self.error(
                name, f"{shown(value)} is not supported, expected {expected or 'nothing'}"
            )

    def finish(
        self, harmless: Iterable[str] = (), neutral: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Refuses what nobody asked for, by name, here and in the tables that were read; a field
        that is null says nothing. neutral: fields with the values that change nothing."""
        for name, wanted in {**NEUTRAL, **(neutral or {})}.items():
            if name not in self.asked and name in self.values:
                self.must(name, *wanted)
        self.finished = True
        self._refuse_others(HARMLESS.union(harmless), self._whose())

    def unknown(self, harmless: frozenset[str]) -> list[str]:
        """The fields with a value that nobody asked for and that are not harmless."""
        return [
            name
            for name, value in self.values.items()
            if value is not None and name not in harmless and name not in self.asked
        ]

    def _refuse_others(self, harmless: frozenset[str], whose: str) -> None:
        unknown = self.unknown(harmless)
        if unknown:
            more = len(unknown) - _MOST_NAMES
            names = ", ".join(printable(self.prefix + name) for name in unknown[:_MOST_NAMES])
            names += f" and {more} more" if more > 0 else ""
            raise PhasorError(
                f"{self.path}: {names}: not known for {whose}, and might change what it computes;"
                " if it does not, remove it from the file"
            )
        for table in self.tables.values():
            if not table.finished:
                table._refuse_others(frozenset(), whose)

    def _whose(self) -> str:
        """The class, or what else this file is of."""
        names, kind = self.values.get("architectures"), self.values.get("model_type")
        if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
            return printable(names[0])
        return printable(kind) if isinstance(kind, str) else "this file"


# What a layer's attention sees, as layer_types and rope_parameters call it.
FULL, SLIDING = "full_attention", "sliding_attention"
_OLDER = "rope_scaling."  # how the names in that table begin


def layer_types(config: Config, count: int, made: Iterable[str]) -> list[str]:
    """What each layer's attention sees: layer_types, or where nothing says it `made`."""
    given = config.get("layer_types")
    types = list(made) if given is None else given
    if (
        not isinstance(types, list)
        or len(types) != count
        or any(t not in (FULL, SLIDING) for t in types)
    ):
        raise config.error("layer_types", f"expected {count} times {FULL} or {SLIDING}")
    return types


def rope_table(config: Config, layer_type: str = "", scaled: bool = True) -> Config:
    """What a configuration says of rotary positions in a table; empty where there is none.

    From transformers 5 on rope_parameters is a table with everything, or one for each of the types
    of layers that a model has (`layer_type`: which). Before it is rope_scaling, which those layers
    have that are `scaled`. Both at once must say the same.
    """
    newer, older = config.table("rope_parameters"), config.table("rope_scaling")
    if newer is not None and newer.values and layer_type:
        by_type = {name: newer.table(name) for name in (FULL, SLIDING)}
        if any(table is None or table.get("rope_theta") is None for table in by_type.values()):
            raise config.error(
                "rope_parameters",
                f"expected a table with a rope_theta for each of {FULL} and {SLIDING}",
            )
        newer = by_type[layer_type]
    if newer is None or not newer.values:
        nothing = Config(config.path, {}, prefix=config.prefix + _OLDER)
        return older if older is not None and scaled else nothing
    said = {
        ("rope_type" if name == "type" else name): value
        for name, value in (older.values.items() if scaled and older is not None else ())
    }
    if any(newer.values.get(name) != value for name, value in said.items()):
        raise config.error(
            "rope_scaling", "does not say what rope_parameters says; leave one of them"
        )
    return newer


def rope_value(config: Config, table: Config, name: str, beside: str) -> float:
    """rope_theta or partial_rotary_factor: of a table of transformers 5, or as the field `beside`
    of the configuration, or else its default. Both at once must be the same."""
    if table.prefix.endswith(_OLDER) or table.get(name) is None:
        return config.number(beside)
    value, other = table.number(name), config.values.get(beside)
    config.asked.add(beside)
    if other is not None and not same(other, value):
        raise config.error(
            beside, f"{shown(other)}, and {table.prefix}{name} is {shown(value)}; leave one of them"
        )
    return value


def same(value: Any, wanted: Any) -> bool:
    """Whether two values of a JSON file are equal: true is not 1, 8 is 8.0."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted
