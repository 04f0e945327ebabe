"""The layers of a stack in a description: their keys with the evidence, and their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasor.drafts.draft import Line
from phasor.errors import PhasorError
from phasor.families.names import bias_name
from phasor.live.attention import Attention, Third
from phasor.live.distances import buckets_of
from phasor.live.names import Names, template
from phasor.live.stream import BY_HAND, Stack, SubLayer
from phasor.live.trace import Ref
from phasor.sources.state_dict import keys as K
from phasor.sources.state_dict.description import ONE_FOR_ALL

_SAME = 1e-6
_SIZES = {"hidden", "head_width"}  # said where layers differ; else tensors say them
_LINE = 2e-5  # between what is added to the scores and a line of the distance


def same(a: float, b: float) -> bool:
    return abs(a - b) <= _SAME * max(abs(b), 1e-30)


def _value(keys: dict[str, tuple[Any, str]], key: str) -> Any:
    """Of a layer, where nothing says it the default; what hangs on another key as it is then."""
    if key in keys:
        return keys[key][0]
    if key.removeprefix("cross_") == "kv_heads" and key.removesuffix("kv_heads") + "heads" in keys:
        return keys[key.removesuffix("kv_heads") + "heads"][0]
    return K.STACK[key].default


class Layers(Names):
    def _layers(self, name: str, stack: Stack) -> None:
        made = [self._layer(name, layer) for layer in stack.layers]
        keys, all_parts = [one[0] for one in made], [one[1] for one in made]
        self._differences(name, keys)
        names: dict[str, Any] = {}
        for part in dict.fromkeys(part for one in all_parts for part in one):
            if any(part not in one for one in all_parts):
                raise PhasorError(f"{name}: not every layer has {part}: {BY_HAND}")
        for part in all_parts[0]:
            texts = [one.get(part) for one in all_parts]
            names[part] = self._one_for_all(f"{name}.{part}", texts)
        if stack.final is not None:
            self._norm("final_norm", stack.final, names)
        self.draft.names |= {f"{name}.{part}": said for part, said in names.items()}
        count = len(made)
        plain = [said for part, said in names.items() if part.startswith(("ffn", "q", "attention"))]
        if not any("{layer" in str(said) for said in plain):
            if count > 1:
                self._say(name, "sets", 1, "every layer has the same tensors")
            self._say(name, "layers", count, f"{count} times attention and feed-forward")
        final = stack.final
        same = final is not None and final.kind == keys[0]["norm"][0]
        value = final is not None if final is None or same else final.kind
        where = final.node.where if final is not None else "no norm is behind the last layer"
        self._say(name, "final_norm", value, where)
        if final is not None and final.eps != keys[0]["norm_eps"][0]:
            self._say(name, "final_norm_eps", final.eps, where)

    def _differences(self, stack: str, keys: list[dict[str, tuple[Any, str]]]) -> None:
        """What all layers have, as the first does, and the keys of those that differ from it."""
        varied = {
            key
            for own in keys
            for key in {**keys[0], **own}
            if _value(own, key) != _value(keys[0], key)
        }
        for key in _SIZES - varied:
            for own in keys:
                own.pop(key, None)
        self.tables[stack] |= keys[0]
        alike: dict[str, tuple[list[int], list[Line]]] = {}
        for i, own in enumerate(keys[1:], 1):
            lines = []
            for key in sorted(varied):
                first, here = _value(keys[0], key), _value(own, key)
                if first == here:
                    continue
                both = key == "norm_place" and "both" in (first, here)
                if key in ONE_FOR_ALL or both or here is None:
                    raise PhasorError(
                        f"{stack}: {key} is {first} in layer 0 and {here} in layer {i}: a file has"
                        f" one for all layers: {BY_HAND}"
                    )
                why = own.get(key, (None, "as no call of these layers says another"))[1]
                lines.append(Line(key, here, why, (), True))
            if lines:
                said = repr([line[:2] for line in lines])
                alike.setdefault(said, ([], lines))[0].append(i)
        tables = [
            [Line("layers", at, "differ from the first", (), True), *lines]
            for at, lines in alike.values()
        ]
        if tables:
            self.draft.exceptions[stack] = tables

    def _layer(self, stack: str, subs: list[SubLayer]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(keys with their evidence, parts) of a layer."""
        keys: dict[str, tuple[Any, str]] = {}
        parts: dict[str, Any] = {}
        norms = [n for sub in subs for n in (sub.before, sub.after, sub.behind) if n is not None]
        if not norms:
            raise PhasorError(f"{subs[0].node.where}: a layer without norms: {BY_HAND}")
        for norm in norms[1:]:
            if (norm.kind, norm.eps) != (norms[0].kind, norms[0].eps):
                raise PhasorError(
                    f"{norm.node.where}: a norm {norm.kind} with epsilon {norm.eps:g} beside one"
                    f" {norms[0].kind} with {norms[0].eps:g}: {BY_HAND}"
                )
        where = norms[0].node.where
        keys["norm"] = norms[0].kind, f"{where}, by its values"
        keys["norm_eps"] = norms[0].eps, where
        self._places(subs, keys, parts)
        for sub in subs:
            if not same(sub.scale, subs[0].scale):
                raise PhasorError(f"{sub.node.where}: sub-layers with different factors: {BY_HAND}")
            if sub.attention is not None:
                self._attention(stack, sub, keys, parts)
            else:
                self._feed_forward(sub, keys, parts)
        if subs[0].scale != 1:
            keys["residual_scale"] = subs[0].scale, subs[0].node.where
        return keys, parts

    def _places(self, subs: list[SubLayer], keys: dict[str, Any], parts: dict[str, Any]) -> None:
        kinds = {(s.before is not None, s.after is not None, s.behind is not None) for s in subs}
        known = {
            (True, False, False): ("before", "x + f(norm(x))"),
            (False, False, True): ("after", "norm(x + f(x))"),
            (True, True, False): ("both", "x + norm(f(norm(x)))"),
            (False, True, False): ("sublayer", "x + norm(f(x))"),
        }
        kind = next(iter(kinds))
        if len(kinds) != 1 or kind not in known:
            raise PhasorError(
                f"{subs[0].node.where}: the norms of a layer's sub-layers are in places that have"
                f" no key: {BY_HAND}"
            )
        place, formula = known[kind]
        keys["norm_place"] = place, f"{formula}: {subs[0].node.where}"
        for sub in subs:
            name = sub.what
            first = sub.before or sub.behind or sub.after
            assert first is not None
            self._norm(f"{name}_norm", first, parts)
            if sub.before is not None and sub.after is not None:
                self._norm(f"{name}_after", sub.after, parts)
        attention, fed = subs[0], subs[-1]
        if fed.input is not fed.residual:
            shared = attention.before and fed.before and attention.before.node is fed.before.node
            if len(subs) != 2 or fed.input is not attention.input or not fed.before:
                raise PhasorError(f"{fed.node.where}: this residual is not one of the stack's")
            keys["parallel"] = "one-norm" if shared else "two-norms", fed.node.where
            if shared:
                parts.pop("ffn_norm")
                parts.pop("ffn_norm_bias", None)

    def _feed_forward(self, sub: SubLayer, keys: dict[str, Any], parts: dict[str, Any]) -> None:
        active = sub.active
        assert active is not None
        keys["activation"] = active.name, active.tried
        hidden = sub.out.weight.shape[0 if sub.out.turned else 1]
        keys["hidden"] = hidden, f"the feed-forward has {hidden} values: {sub.node.where}"
        if active.half:
            said = self._whole(active.inner.weight, "ffn_in", active.inner.turned)
            table = said if isinstance(said, dict) else {"tensor": said}
            other = "second" if active.half == "first" else "first"
            parts["ffn_gate"] = {**table, "half": active.half}
            parts["ffn_in"] = {**table, "half": other}
            if active.inner.bias is not None:
                raise PhasorError(f"{sub.node.where}: a gate with a bias in one matrix: {BY_HAND}")
        else:
            self._linear("ffn_in", active.inner, parts)
            if active.gate is not None:
                self._linear("ffn_gate", active.gate, parts)
        self._linear("ffn_out", sub.out, parts)

    # ---- attention

    def _attention(
        self, stack: str, sub: SubLayer, keys: dict[str, Any], parts: dict[str, Any]
    ) -> None:
        found = sub.attention
        assert found is not None
        cross = "cross_" if sub.what == "cross" else ""
        width = len(found.q.rows[0])
        why = f"{found.heads} heads of {width} values: {found.where}"
        keys[f"{cross}heads"] = found.heads, why
        if not cross:
            keys["head_width"] = width, why
        if found.kv_heads != found.heads:
            keys[f"{cross}kv_heads"] = found.kv_heads, found.where
        scale: Any = 1 / found.factor if found.factor else 0.0
        why = f"the scores are q · k times {found.factor:.6g}: {found.where}"
        if same(scale, math.sqrt(width)):
            scale = "sqrt_head_width"
        elif same(scale, math.sqrt(found.heads)):
            scale = "sqrt_heads"
        keys[f"{cross}score_scale"] = scale, why
        self._mask(stack, sub, found, keys)
        self._added(sub, found, keys, parts)
        self._turns(sub, found, keys)
        self._thirds(cross, found, keys, parts)
        self._own_norms(cross, found, keys, parts)
        if found.cap:
            keys["cap"] = found.cap, f"the scores pass a tanh times {found.cap:g}: {found.where}"
        self._linear(f"{cross}out" if cross else "attention_out", sub.out, parts)

    def _own_norms(
        self, cross: str, found: Attention, keys: dict[str, Any], parts: dict[str, Any]
    ) -> None:
        """The norms of q and k."""
        q, k, v = found.q.norm, found.k.norm, found.v.norm
        if q is None and k is None and v is None:
            return
        if q is None or k is None or v is not None or cross or found.own:
            raise PhasorError(
                f"{found.where}: norms of q, k or v: expected one of q and one of k, in"
                f" self-attention: {BY_HAND}"
            )
        if (q.kind, q.eps) != (k.kind, k.eps) or q.eps != keys["norm_eps"][0]:
            raise PhasorError(
                f"{q.node.where}: the norms of q and k have epsilon {q.eps:g} and {k.eps:g}, those"
                f" of the layer {keys['norm_eps'][0]:g}: {BY_HAND}"
            )
        keys["qk_norm"] = q.kind, f"{q.node.where}, by its values"
        if q.node.shape[-1] != len(found.q.rows[0]):
            keys["qk_norm_over"] = "all-heads", f"it has {q.node.shape[-1]} values"
        self._norm("q_norm", q, parts)
        self._norm("k_norm", k, parts)

    def _mask(self, stack: str, sub: SubLayer, found: Attention, keys: dict[str, Any]) -> None:
        causal, _, window = found.mask.partition("window ")
        if sub.what == "cross":
            if found.mask:
                raise PhasorError(f"{found.where}: cross-attention with a mask: {BY_HAND}")
            return
        if stack == "decoder" and not causal:
            raise PhasorError(f"{found.where}: attention of a decoder sees later positions")
        if stack == "encoder" and causal:
            keys["causal"] = True, f"no later position is seen: {found.where}"
        if window:
            keys["window"] = int(window), f"the farthest position that is seen: {found.where}"

    def _turns(self, sub: SubLayer, found: Attention, keys: dict[str, Any]) -> None:
        q, k = found.q, found.k
        if q.angles != k.angles and not np.allclose(q.angles, k.angles, atol=1e-5):
            raise PhasorError(f"{found.where}: q and k turn by different angles: {BY_HAND}")
        if not q.angles:
            return
        if sub.what == "cross":
            raise PhasorError(f"{found.where}: cross-attention with positions: {BY_HAND}")
        angles = np.array([a for a in q.angles if abs(a) > 1e-12])
        width = 2 * len(angles)
        base = float(angles[1] ** (-width / 2)) if len(angles) > 1 else 10000.0
        base = float(round(base)) if abs(base - round(base)) < 1e-3 * base else base
        wanted = base ** (-2 * np.arange(len(angles)) / width)
        if not np.allclose(angles, wanted, rtol=1e-4):
            raise PhasorError(
                f"{found.where}: q and k turn by {angles[0]:.4g}, {angles[-1]:.4g} … at position 1,"
                f" which are no powers of one base: {BY_HAND}"
            )
        kind = "rotary-halves" if q.halves else "rotary"
        pair = "of the two halves" if q.halves else "of neighbors"
        keys["attention_position"] = kind, f"q and k turn in pairs {pair}: {found.where}"
        if base != 10000.0:
            keys["rotary_base"] = base, f"the second pair turns by {angles[1]:.6g} at position 1"
        if width != len(q.rows[0]):
            keys["rotary_width"] = width, f"{width} of {len(q.rows[0])} values turn"

    def _added(
        self, sub: SubLayer, found: Attention, keys: dict[str, Any], parts: dict[str, Any]
    ) -> None:
        """What is added to the scores: rows of T5's buckets, or lines of the distance."""
        if found.bias is None:
            return
        if sub.what == "cross":
            raise PhasorError(f"{found.where}: cross-attention with positions: {BY_HAND}")
        if found.q.angles:
            raise PhasorError(
                f"{found.where}: q and k turn with positions, and distances are added to the"
                f" scores: {BY_HAND}"
            )
        made = buckets_of(found, self.read)
        if made is None:
            self._slopes(found, keys)
            return
        keys["attention_position"] = "t5", made.why
        keys["max_distance"] = made.most, "where the last bucket begins, by the rows looked up"
        both = "have" if made.two_sided else "have no"
        keys["two_sided"] = made.two_sided, f"later keys {both} buckets of their own"
        name = self._name(made.table)
        parts["position_bias"] = (
            name if made.factor == 1 else {"tensor": name, "factor": made.factor}
        )

    def _slopes(self, found: Attention, keys: dict[str, Any]) -> None:
        assert found.bias is not None
        bias = found.bias.double().expand(found.heads, *found.length).numpy()
        rows, cols = np.indices(found.length)
        seen = cols <= rows if found.mask.startswith("causal") else rows >= 0
        distance = np.abs(rows - cols)
        slopes = [-float(one[1, 0]) for one in bias]
        for one, slope in zip(bias, slopes):
            if np.abs(np.where(seen, one + slope * distance, 0)).max() > _LINE * max(slope, 1e-3):
                raise PhasorError(
                    f"{found.where}: what is added to the scores is no line of the distance: a"
                    f" table of distances is not read from calls: {BY_HAND}"
                )
        keys["attention_position"] = "alibi", f"the scores fall with the distance: {found.where}"
        keys["alibi_slopes"] = slopes, "one for each head"

    def _thirds(
        self, cross: str, found: Attention, keys: dict[str, Any], parts: dict[str, Any]
    ) -> None:
        thirds = {"q": found.q, "k": found.k, "v": found.v}
        if found.v.angles:
            raise PhasorError(f"{found.where}: v turns with positions: {BY_HAND}")
        if not same(found.v.scale, 1):
            raise PhasorError(f"{found.where}: v is multiplied by {found.v.scale:.4g}: {BY_HAND}")
        if found.own:
            for letter in thirds:
                each = [getattr(one, letter).linear for one in found.own]
                said = [self._whole(one.weight, letter, one.turned) for one in each]
                made = template(said, "head") if all(isinstance(s, str) for s in said) else None
                if made is None or any(one.bias is not None for one in each):
                    parts[f"{cross}{letter}"] = said
                else:
                    parts[f"{cross}{letter}"] = made
            return
        refs = {letter: self._ref(one.linear.weight, letter) for letter, one in thirds.items()}
        rows = {
            letter: [
                _first(refs[letter], one) + r for head in dict.fromkeys(one.rows) for r in head
            ]
            for letter, one in thirds.items()
        }
        tensors = {ref.names for ref in refs.values()}
        if len(tensors) == 1:
            self._fused(cross, found, rows, keys, parts)
            return
        for letter, third in thirds.items():
            self._alone(f"{cross}{letter}", third, refs[letter], rows[letter], parts)

    def _alone(
        self, part: str, third: Third, ref: Ref, rows: list[int], parts: dict[str, Any]
    ) -> None:
        name = self._name(ref)
        said: dict[str, Any] = {"tensor": name}
        if ref.turned != third.linear.turned:
            said["transposed"] = True
        half, over = divmod(ref.of, 2)
        if rows == list(range(ref.of)):
            pass
        elif not over and rows == list(range(half)):
            said["half"] = "first"
        elif not over and rows == list(range(half, ref.of)):
            said["half"] = "second"
        else:
            raise PhasorError(f"{part}: its heads are rows of {name} in an order without a key")
        parts[part] = said if len(said) > 1 else name
        if third.linear.bias is not None:
            bias = self._ref(third.linear.bias, f"the bias of {part}")
            whole = self._name(bias)
            if bias_name(name) in bias.names:
                return
            if bias.rows != (0, bias.of):
                part = f"{part[: part.rfind('_') + 1]}qkv"
            parts[f"{part}_bias"] = whole

    def _fused(
        self,
        cross: str,
        found: Attention,
        rows: dict[str, list[int]],
        keys: dict[str, Any],
        parts: dict[str, Any],
    ) -> None:
        linear, width = found.q.linear, len(found.q.rows[0])
        ref = self._ref(linear.weight, "qkv")
        name = self._name(ref)
        turned = ref.turned != linear.turned
        parts[f"{cross}qkv"] = {"tensor": name, "transposed": True} if turned else name
        firsts = {letter: own[0] for letter, own in rows.items()}
        order = "".join(sorted(firsts, key=lambda letter: firsts[letter]))
        sizes = {letter: len(own) for letter, own in rows.items()}
        by_head = any(own != list(range(own[0], own[0] + len(own))) for own in rows.values())
        groups = found.kv_heads if by_head else 1
        count = linear.outputs if turned else ref.of
        table = np.arange(count).reshape(groups, -1)
        at = 0
        for letter in order:
            size = sizes[letter] // groups
            if (
                sum(sizes.values()) != count
                or table[:, at : at + size].ravel().tolist() != rows[letter]
            ):
                raise PhasorError(
                    f"{found.where}: the heads of {letter} are rows of {name} in an order without a"
                    f" key: {BY_HAND}"
                )
            at += size
        why = f"which rows of {name} each head of {width} values has"
        if order != "qkv":
            keys["qkv_order"] = order, why
        if by_head and found.heads > 1:
            keys["qkv_by_head"] = True, why
        if linear.bias is not None:
            bias = self._ref(linear.bias, "the bias of qkv")
            whole = self._name(bias)
            if bias_name(name) not in bias.names:
                parts[f"{cross}qkv_bias"] = whole


def _first(ref: Ref, third: Third) -> int:
    """The row of its tensor that a product's first output is; its outputs may be columns."""
    return 0 if ref.turned != third.linear.turned else ref.rows[0]
