"""Positions of a stack's blocks, from a configuration: rotary ones with what scales them, and the
windows that layers see."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from phasor.errors import PhasorError
from phasor.families.family import Family
from phasor.families.hf_config import (
    FULL,
    NEWER,
    SLIDING,
    Config,
    layer_types,
    rope_table,
    rope_value,
)
from phasor.families.model import single
from phasor.families.rotary_scaling import PROPORTIONAL, Rotary, rotary, scaling_type
from phasor.families.stack import Stack
from phasor.format import descriptor as D
from phasor.format import tensors as R


class Positioned(Stack):
    """A stack whose positions a configuration says. context: the longest sequence that the file is
    to take, 0: what the configuration says."""

    family: Family
    context: int = 0
    # Keys of a table of rotary positions that are not its scaling's.
    beside_scaling: frozenset[str] = frozenset()

    def field(self, name: str) -> str:
        return self.family.fields.get(name, name)

    def size(self, name: str, low: int = 1, high: int = 1 << 24) -> int:
        return self.config.whole(self.field(name), low, high)

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
        head: int = 0,
    ) -> dict[str, Any]:
        """What a kind with rotary positions has: `width` values of a head (all) turn. head: its
        width, where it is not the stack's.

        Their theta is that of the configuration's tables or of the field `beside` them (`fixed`:
        that of the code, which reads no configuration). Layers that are not `scaled` have a scaling
        only where rope_parameters has a table for their type.
        """
        c, all_values = self.config, head or self.kind["head_width"]
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
            if not width and table.get("rope_type") != PROPORTIONAL:
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
        newer = _within(c, table).startswith("rope_parameters")
        own = {"rope_theta", "partial_rotary_factor"} if newer else set()
        if table.values.get("rope_type") == PROPORTIONAL:
            own.discard("partial_rotary_factor")
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
                    _within(c, table).rstrip("."), str(error).removeprefix("rope_scaling: ")
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
                    _within(c, table) + "factor",
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
                f"{_within(self.config, table)}partial_rotary_factor" if within else name,
                f"{factor:g} of {self.kind['head_width']} values of a head are not supported",
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


def _within(config: Config, table: Config) -> str:
    """How the names of a configuration's table begin in it."""
    return table.prefix.removeprefix(config.prefix)
