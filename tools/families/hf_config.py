"""A `config.json` that is read field by field: one that was never asked for and is not known to be harmless stops the conversion.

So a field that changes the arithmetic cannot go unnoticed: it is understood, or it must have the one value that changes nothing, or it is refused by name.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Iterable, Mapping

import phasor_descriptor as D
from phasor_layout import PhasorError

# transformers' names of the activations (activations.py), those that a block or a head can have.
ACTIVATIONS = {"relu": D.RELU, "gelu": D.GELU_ERF, "gelu_python": D.GELU_ERF, "gelu_new": D.GELU_TANH, "gelu_fast": D.GELU_TANH,
               "gelu_accurate": D.GELU_TANH, "gelu_pytorch_tanh": D.GELU_TANH, "gelu_python_tanh": D.GELU_TANH, "silu": D.SILU, "swish": D.SILU}

# Fields of every configuration that say nothing about the arithmetic of one forward pass: training, generation, book-keeping.
HARMLESS = frozenset("""_name_or_path _commit_hash _attn_implementation attn_implementation architectures bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward decoder_start_token_id diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size
    eos_token_id eos_token_ids exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing
    initializer_range keys_to_ignore_at_inference label2id length_penalty max_length min_length model_type no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_past output_scores pad_token_id prefix problem_type id2label
    num_labels _num_labels remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id cls_token_id mask_token_id
    unk_token_id suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype
    torchscript transformers_version typical_p use_bfloat16 use_cache use_return_dict hidden_dropout_prob attention_probs_dropout_prob
    classifier_dropout classifier_dropout_prob tie_word_embeddings sentence_transformers sbert_ce_default_activation_function
    use_flash_attn language directionality""".split())

# Fields that have one value which changes nothing; any other is refused.
NEUTRAL: dict[str, tuple] = {"is_decoder": (False,), "is_encoder_decoder": (False,), "add_cross_attention": (False,), "pruned_heads": ({},),
                             "cross_attention_hidden_size": (None,), "quantization_config": (None,), "auto_map": (None,)}


# What is not built at all, and the fields that tell it, with the values that say it is not there.
_REFUSED: tuple[tuple[str, tuple[str, ...], tuple], ...] = (
    ("a mixture of experts", ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok"), (None, 0, 1)),
    ("latent attention", ("kv_lora_rank",), (None, 0)),
    ("a state-space layer", ("state_size", "ssm_cfg", "mamba_d_state", "mamba_d_ssm", "ssm_state_size"), (None, 0)),
    ("a model with a part for pictures", ("vision_config", "vision_tower"), (None,)),
    ("a model with a part for sound", ("audio_config",), (None,)),
    ("linear or recurrent attention", ("attention_hidden_size", "linear_num_value_heads", "lru_width", "rwkv_version"), (None,)),
)


def refuse(where: Path, values: Mapping[str, Any]) -> None:
    """PhasorError for an architecture that is not built, in one line."""
    for what, fields, absent in _REFUSED:
        for name in fields:
            if values.get(name) not in absent:
                raise PhasorError(f"{where}: model_type: {values.get('model_type')!r} is {what} ({name}), which is not built")


class Config:
    """The fields of one config.json, with the defaults of its family where it leaves one out."""

    def __init__(self, path: Path, values: dict[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.path, self.values, self.defaults = path, values, dict(defaults or {})
        self.asked: set[str] = set()

    def error(self, name: str, what: str) -> PhasorError:
        return PhasorError(f"{self.path}: {name}: {what}")

    def get(self, name: str) -> Any:
        """The field (null is None), or the family's default where it is left out, or None."""
        self.asked.add(name)
        return self.values[name] if name in self.values else self.defaults.get(name)

    def whole(self, name: str, low: int = 1, high: int = 1 << 24) -> int:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, f"{value!r}, expected a whole number from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise self.error(name, f"{value!r}, expected a number from 0")
        return float(value)

    def base(self, name: str) -> float:
        """Of rotary frequencies."""
        value = self.number(name)
        if value < 1:
            raise self.error(name, f"{value!r}, expected a number from 1")
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.error(name, f"{value!r}, expected true or false")
        return value

    def choice(self, name: str, choices: Mapping[str, Any]) -> Any:
        """What stands for the field's value in a table."""
        value = self.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"{value!r} is not built; there are {', '.join(choices)}")
        return choices[value]

    def activation(self, name: str) -> int:
        return self.choice(name, ACTIVATIONS)

    def must(self, name: str, *wanted: Any) -> None:
        """Refuses the field unless it has one of these values (or is absent and has no default)."""
        value = self.get(name)
        if value is not None and value not in wanted:
            shown = value if isinstance(value, (str, int, float)) else "a value"
            raise self.error(name, f"{shown!r} is not built, expected {' or '.join(repr(w) for w in wanted if w is not None) or 'nothing'}")

    def finish(self, harmless: Iterable[str] = ()) -> None:
        """Refuses what nobody asked for, by name; a field that is null says nothing."""
        for name, wanted in NEUTRAL.items():
            if name not in self.asked:
                self.must(name, *wanted)
        known = self.asked | HARMLESS | set(harmless)
        unknown = [name for name, value in self.values.items() if name not in known and value is not None]
        if unknown:
            raise PhasorError(f"{self.path}: {', '.join(unknown)}: not understood, and it might change the arithmetic")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; PhasorError that names the file."""
    try:
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError
        return value
    except OSError as error:
        raise PhasorError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise PhasorError(f"{path}: not a JSON object") from error
