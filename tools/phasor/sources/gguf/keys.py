"""The metadata under one architecture's prefix."""

from __future__ import annotations

from typing import Any

from phasor.errors import PhasorError, printable, shown
from phasor.families.fields import Fields
from phasor.families.model import single
from phasor.values import is_whole, settings, words

# Keys that say nothing about the arithmetic, under the prefix of an architecture.
_HARMLESS = words("""
    vocab_size tensor_data_layout rope.scaling.finetuned expert_used_count context_length
    block_count
""")
# Keys that have one value which changes nothing; any other is refused.
_NEUTRAL: dict[str, list[Any]] = settings("""
    expert_count                      [0]
    attention.causal                  [true]
    pooling_type                      [0]
    attention.scale                   [0.0]
    logit_scale                       [0.0, 1.0]
    embedding_scale                   [0.0, 1.0]
    residual_scale                    [0.0, 1.0]
    attn_logit_softcapping            [0.0]
    final_logit_softcapping           [0.0]
    attention.clamp_kqv               [0.0]
    attention.shared_kv_layers        [0]
    rope.scaling.yarn_log_multiplier  [0.0]
    rope.scaling.yarn_ext_factor      [1.0]
    rope.scaling.yarn_attn_factor     [1.0]
""")


class Keys(Fields):
    """The metadata under one architecture's prefix, read key by key."""

    def expected(self, name: str, value: Any, what: str) -> PhasorError:
        return (
            self.error(name, "is missing") if value is None else super().expected(name, value, what)
        )

    def get(self, name: str, default: Any = None) -> Any:
        """The key's value; a list of equal values, one for each layer, is one value."""
        value = super().get(name, default)
        if isinstance(value, list):
            if not value or any(v != value[0] for v in value):
                raise self.error(name, "values that differ from layer to layer are not supported")
            value = value[0]
        return value

    def single(self, name: str, default: float | None = None) -> float:
        """A number from 0, as a descriptor keeps it."""
        return single(self.number(name, default=default))

    def of_layers(self, name: str, count: int, high: int) -> list[int]:
        """A whole number from 1 for each of `count` layers, where a list says so; the first is
        then the key's value. Else nothing."""
        value = self.values.get(name)
        if not isinstance(value, list):
            return []
        if len(value) != count or not all(is_whole(own, 1, high) for own in value):
            raise self.error(name, f"expected a whole number for each of {count} layers")
        self.values = {**self.values, name: value[0]}
        return value

    def finish(self) -> None:
        """Refuses what nobody asked for, by name."""
        for name, wanted in _NEUTRAL.items():
            if name in self.values and name not in self.asked and self.get(name) not in wanted:
                raise self.error(
                    name, f"{shown(self.get(name))} is not supported for this architecture"
                )
        unknown = [
            self.prefix + name
            for name in self.values
            if name not in self.asked and name not in _HARMLESS
        ]
        if unknown:
            raise PhasorError(
                f"{self.path}: {printable(', '.join(unknown), 500)}: not understood, and it might "
                "change the arithmetic"
            )


def without_heads(values: dict[str, Any]) -> tuple[frozenset[int], dict[str, Any]]:
    """The blocks without heads of keys, which a list of their numbers says, and the metadata of the
    others."""
    name = "attention.head_count_kv"
    listed = values.get(name)
    if not isinstance(listed, list) or len(listed) != values.get("block_count"):
        return frozenset(), values
    with_heads = [n for n in listed if n != 0]
    others = {key: value for key, value in values.items() if key != name or with_heads}
    short = frozenset(i for i, n in enumerate(listed) if n == 0)
    return short, {**others, **({name: with_heads} if with_heads else {})}
