"""Names of tensors as a description has them: one text for the tensors of all layers and heads."""

from __future__ import annotations

import re
from typing import Any, Sequence

from phasor.drafts.draft import Draft
from phasor.errors import PhasorError
from phasor.families.names import bias_name
from phasor.live.asked import Said
from phasor.live.pieces import Linear, Norm
from phasor.live.stream import BY_HAND, Read
from phasor.live.trace import Node, Ref

_DIGITS = re.compile(r"(\d+)")
_MOST_STEP = 99


def template(names: Sequence[str], what: str) -> str | None:
    """The text that gives each name with its number in {layer} or {head}; None where none does. A
    name that is the same for all is itself."""
    if len(set(names)) == 1:
        return names[0]
    parts = [_DIGITS.split(name) for name in names]
    if len({len(one) for one in parts}) != 1:
        return None
    out = []
    for place, texts in enumerate(zip(*parts)):
        if len(set(texts)) == 1:
            out.append(texts[0])
            continue
        numbers = [int(text) for text in texts] if place % 2 else []
        if not numbers or any(str(n) != text for n, text in zip(numbers, texts)):
            return None
        step, first = numbers[1] - numbers[0], numbers[0]
        if not 1 <= step <= _MOST_STEP or numbers != [first + step * i for i in range(len(texts))]:
            return None
        if what == "head" and (step, first) != (1, 0):
            return None
        times, plus = f"*{step}" * (step > 1), f"+{first}" * (first > 0)
        out.append("{" + what + times + plus + "}")
    return "".join(out)


class Names:
    """A description that is being made: the names of its parts, and the tensors that have one."""

    def __init__(self, read: Read, said: Said) -> None:
        self.read, self.pieces, self.said = read, read.pieces, said
        self.draft = Draft()
        self.used: set[str] = set()
        self.renamed: dict[str, str] = {}
        self.tables: dict[str, dict[str, tuple[Any, str]]] = {}  # of each stack: keys, evidence

    def _say(self, stack: str, key: str, value: Any, why: str) -> None:
        self.tables[stack][key] = value, why

    def _ref(self, node: Node, what: str) -> Ref:
        ref = self.pieces.ref(node)
        if ref is None:
            raise PhasorError(
                f"{node.where or what}: {what} is computed ({node.op}) and is no tensor of the"
                " state_dict: a description has no name for it. TRY: put the computed value in its"
                " place"
            )
        return ref

    def _name(self, ref: Ref, but: str = "") -> str:
        """One of the names of a tensor, another one than `but` where there is one."""
        name = next((n for n in ref.names if n != but), ref.names[0])
        self.used.update(ref.names)
        return name

    def _whole(self, node: Node, what: str, turned: bool = False) -> Any:
        """What [names] says of a matrix or a vector that is used whole."""
        ref = self._ref(node, what)
        if ref.rows != (0, ref.of):
            whole = ref.names[0]
            raise PhasorError(f"{node.where or what}: {what} is a part of {whole}: {BY_HAND}")
        name = self._name(ref)
        return {"tensor": name, "transposed": True} if ref.turned != turned else name

    def _linear(self, part: str, linear: Linear, parts: dict[str, Any]) -> None:
        said = self._whole(linear.weight, part, linear.turned)
        parts[part] = said
        self._bias(part, linear, said, parts)

    def _bias(self, part: str, linear: Linear, said: Any, parts: dict[str, Any]) -> None:
        if linear.bias is None:
            return
        weight = said["tensor"] if isinstance(said, dict) else said
        bias = self._ref(linear.bias, f"the bias of {part}")
        name = self._name(bias)
        if bias_name(weight) not in bias.names:
            parts[f"{part}_bias"] = name

    def _norm(self, part: str, norm: Norm, parts: dict[str, Any]) -> None:
        parts[part] = self._whole(norm.weight, part)
        if norm.bias is not None:
            bias = self._ref(norm.bias, f"the bias of {part}")
            self._name(bias)
            if bias_name(parts[part]) not in bias.names:
                parts[f"{part}_bias"] = bias.names[0]

    def _one_for_all(self, part: str, texts: list[Any]) -> Any:
        """A name with {layer} for those of all layers; one without a pattern is renamed."""
        if any(isinstance(one, dict) for one in texts):
            said = [{**one, "tensor": ""} if isinstance(one, dict) else None for one in texts]
            if any(one != said[0] for one in said):
                raise PhasorError(f"{part}: layers have it stored in different ways: {BY_HAND}")
            inner = [one["tensor"] for one in texts]
            return {**texts[0], "tensor": self._one_for_all(part, inner)}
        made = template(texts, "layer")
        if made is not None:
            return made
        if texts[0] in self.renamed:
            return self.renamed[texts[0]]
        ending = texts[0].rpartition(".")[2]
        new = self.renamed[texts[0]] = f"{part}.{{layer}}.{ending}"
        for layer, name in enumerate(texts):
            self._rename(name, new.replace("{layer}", str(layer)))
        return new

    def _rename(self, old: str, new: str) -> None:
        self.draft.rename[old] = new
        bias = bias_name(old)
        if bias in self.pieces.refs.tensors:
            self.draft.rename[bias] = bias_name(new)
