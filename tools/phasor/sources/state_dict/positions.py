"""How a described model knows positions: the fields of a kind and of a stack, and their tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor import positions
from phasor.errors import PhasorError
from phasor.families import sinusoids
from phasor.families.rotary_scaling import Rotary, rotary
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.sources.state_dict.description import CHOICES
from phasor.sources.state_dict.tensors import Tensors, has_layer

SIDES = {"encoder": "source", "decoder": "target"}


class Positions(Tensors):
    def attention_position(self, stack: str, head_width: int) -> dict[str, Any]:
        """The fields of a kind that say how self-attention knows positions."""
        s = self.description.stacks[stack]
        position = CHOICES["attention_position"][s["attention_position"]]
        out = {"position": position}
        if position in D.RELATIVE_KEYS:
            if s["score"] == "additive":
                raise PhasorError(
                    f"{stack}: attention_position {s['attention_position']!r} needs q·k, not the "
                    "additive score"
                )
            out["max_distance"] = self.table_distance(stack, position)
        elif position == D.T5_BIAS:
            out["max_distance"] = s["max_distance"] or 128  # as Raffel et al. have it
        elif position in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            width = s["rotary_width"] or self.turned_width(stack) or head_width
            out["rotary_width"] = width
            if width % 2 or width > head_width:
                raise PhasorError(
                    f"{stack}: rotary_width {width}, expected an even number of the head's "
                    f"{head_width} values"
                )
            if s["rotary_scaling"]:
                out["rotary_factor"] = self.scaled(stack, width).factor
        return out

    def turned_width(self, stack: str) -> int:
        """Two for each frequency that the checkpoint has; 0 where it has none."""
        part = f"{stack}.inv_freq"
        found = self.checkpoint.shape(self.name(part)) if self.has(part) else ()
        return 2 * found[0] if len(found) == 1 else 0

    def table_distance(self, stack: str, position: int) -> int:
        """M of a table of relative keys, from its rows."""
        part, s = f"{stack}.relative_keys", self.description.stacks[stack]
        rows = self.rows(part)
        form, most = (
            ("2·M + 1", (rows - 1) // 2) if position == D.CLIPPED else ("2·M − 1", (rows + 1) // 2)
        )
        if rows % 2 == 0:
            what = f"{rows} rows, expected an odd number, {form}"
            raise self.misshapen(part, self.name(part), what)
        if s["max_distance"] not in (0, most):
            raise PhasorError(
                f"{stack}: max_distance {s['max_distance']}, but {self.name(part)} has {rows} "
                f"rows, {form} for M = {most}"
            )
        return most

    def kind_tables(
        self, stack: str, kind: dict[str, Any], layers: int
    ) -> list[tuple[int, np.ndarray | None]]:
        """(role, table) for each layer of what a kind has of its own; (0, None) where it has
        nothing."""
        s, position = self.description.stacks[stack], kind["position"]
        if position == D.T5_BIAS:
            biases = self.of_layers(
                f"{stack}.position_bias", layers, (s["num_buckets"] or None, kind["heads"])
            )
            said = self.said(f"{stack}.position_bias")
            factor = kind["head_width"] ** 0.5 if isinstance(said.factor, str) else said.factor
            biases = [(bias.astype(np.float64) * factor).astype(bias.dtype) for bias in biases]
            most, two_sided = kind["max_distance"], s["two_sided"]
            try:
                positions.check_t5_size(most, kind["heads"], layers)
                return [(R.T5_BIAS, positions.t5_table(bias, most, two_sided)) for bias in biases]
            except PhasorError as error:
                raise PhasorError(f"{stack}: {error}") from error
        if position == D.ALIBI:
            return [(R.ALIBI, slopes) for slopes in self.slopes(stack, kind["heads"], layers)]
        if position in (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES):
            return [(R.ROTARY, f) for f in self.frequencies(stack, kind["rotary_width"], layers)]
        return [(0, None)] * layers

    def of_layers(self, part: str, layers: int, shape: tuple[int | None, ...]) -> list[np.ndarray]:
        """A tensor of each layer; one that only layer 0 has, or whose name has no {layer}, is that
        of all. None: any size."""
        alone = not has_layer(self.names.get(part, "")) or not any(
            self.has(part, i) for i in range(1, layers)
        )
        out = []
        for layer in range(1 if alone else layers):
            name = self.need(part, layer)
            found = self.checkpoint.shape(name)
            if len(found) != len(shape) or any(
                want not in (None, n) for want, n in zip(shape, found)
            ):
                want = " x ".join("any" if n is None else str(n) for n in shape)
                what = f"shape ({' x '.join(map(str, found))}), expected ({want})"
                raise self.misshapen(part, name, what)
            out.append(self.load(name))
        return out * layers if alone else out

    def slopes(self, stack: str, heads: int, layers: int) -> list[np.ndarray]:
        """ALiBi's slopes for each layer: a tensor of the checkpoint, the description's, or the
        paper's."""
        given = self.description.stacks[stack]["alibi_slopes"]
        if f"{stack}.alibi_slopes" in self.names:
            return self.of_layers(f"{stack}.alibi_slopes", layers, (heads,))
        if given and len(given) != heads:
            raise PhasorError(
                f"{stack}: alibi_slopes has {len(given)} numbers, there are {heads} heads"
            )
        return [np.asarray(given) if given else positions.alibi_slopes(heads)] * layers

    def frequencies(self, stack: str, width: int, layers: int) -> list[np.ndarray]:
        """The rotary frequencies of each layer: a tensor of the checkpoint where the description
        names it, else from the base."""
        s, own = self.description.stacks[stack], f"{stack}.inv_freq"
        if own in self.names:
            found = self.of_layers(own, layers, (width // 2,))
            return [value.astype(np.float64) for value in found]
        if s["rotary_scaling"]:
            return [self.scaled(stack, width).inv_freq] * layers
        return [positions.inverse_frequencies(width, s["rotary_base"])] * layers

    def scaled(self, stack: str, width: int) -> Rotary:
        """The frequencies under the description's scaling."""
        s = self.description.stacks[stack]
        if stack in self.rotary:
            return self.rotary[stack]
        lengths = (s["rotary_trained"], s["rotary_context"], s["max_positions"])
        try:
            self.rotary[stack] = rotary(width, s["rotary_base"], s["rotary_scaling"], *lengths)
        except PhasorError as error:
            raise PhasorError(f"{stack}: {error}") from error
        return self.rotary[stack]

    def score_vector(self, part: str, layer: int, heads: int, width: int) -> np.ndarray:
        """v of the additive score, (H·w); one for all heads, (w), is repeated."""
        value = self.load(name := self.need(part, layer)).reshape(-1)
        if value.size not in (width, heads * width):
            what = f"{value.size} values, expected {heads} heads x {width}, or {width} for all"
            raise self.misshapen(part, name, what)
        return value if value.size == heads * width else np.tile(value, heads)

    def positions(self, d: dict[str, Any], stack: str) -> None:
        """max_positions of a learned table; a sinusoid that the model brings is compared with
        ours."""
        side, s, out = SIDES[stack], self.description.stacks[stack], d[stack]
        self.limit(d, stack)
        if out["position"] == D.LEARNED:
            total = self.rows(f"{side}.positions")
            rows = total - s["position_offset"]
            ids = not d[side].get("vectors")
            if ids and not s["max_positions"] and total == self.rows(f"{side}.embedding"):
                raise PhasorError(
                    f"{stack}: {self.name(f'{side}.positions')} has {total} rows, as many as the "
                    "vocabulary: positions are counted from 0, not looked up by token ids; say "
                    "max_positions if the table is one of positions"
                )
            if rows < 1 or s["max_positions"] > rows:
                raise PhasorError(
                    f"{stack}: max_positions {s['max_positions']} with offset "
                    f"{s['position_offset']}, the table has {total} rows"
                )
            out["max_positions"] = s["max_positions"] or rows
        if out["position"] not in (D.INTERLEAVED, D.HALVES):
            return
        own = None
        inner = out["width"] if out.get("projection_place") else out.get("embedding_width", 0)
        inner = inner or out["width"]
        if self.has(f"{side}.sinusoid"):
            own = self.own_table(f"{side}.sinusoid", inner, s)
        most, how = out.get("max_positions", 0), (s["position_base"], s["position_offset"])
        try:
            rates = CHOICES["position_rates"][s["position_rates"]]
            made = sinusoids.added(own, inner, out["position"], *how, most, rates)
        except PhasorError as error:
            raise PhasorError(f"{stack}: {error}") from error
        out["position"] = made.position
        if made.role == R.POSITIONS:
            out["max_positions"] = len(made.values)
        self.notes += [f"{stack}: {made.note}"] * bool(made.note)
        stack_id = R.SOURCE if stack == "encoder" else R.TARGET
        self.values[R.key_of(stack_id, 0, made.role)] = made.values

    def limit(self, d: dict[str, Any], stack: str) -> None:
        """A table of unclipped distances ends: so does a sequence."""
        kind = d["kinds"][d[stack]["layers"][0]]
        most, wanted = kind.get("max_distance", 0), self.description.stacks[stack]["max_positions"]
        if kind["position"] in D.BOUNDED and wanted > most:
            raise PhasorError(
                f"{stack}: max_positions {wanted}, the table of distances has rows for {most} "
                "positions"
            )

    def own_table(self, part: str, width: int, s: dict[str, Any]) -> np.ndarray:
        """The model's table (positions, D), of the positions that it may use."""
        table = self.load(name := self.name(part))
        try:
            return sinusoids.own_rows(table, width, s["position_offset"], s["max_positions"])
        except PhasorError as error:
            raise self.misshapen(part, name, str(error)) from error
