"""The stacks of layers in a checkpoint, found by their numbers, and the parts of one layer, found
by shapes and words."""

from __future__ import annotations

import re
from collections import Counter
from typing import Container, Iterator, NamedTuple

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.drafts.names import NORM_WEIGHTS, module, place, says, words_of
from phasor.families.names import bias_name
from phasor.format import descriptor as D
from phasor.sources.state_dict.tensors import of_layer

LONGEST_NAME, _MOST_NUMBERS = 512, 8  # of a name that is looked at, and of numbers in it
_MOST_TRIED = 256  # groups of tensors that may be layers
_MOST_MEMBERS = 512  # tensors of a layer
_FEWEST_MEMBERS = 4
_NORM_WORDS = ("norm", "ln", "layernorm", "layer", "rms", "rmsnorm")
_PERIODS = (1, 2, 3)  # entries of a list of modules that make one layer


class Layer(NamedTuple):
    """The parts of a layer: what of a name stands behind the layer's number."""

    width: int
    parts: dict[str, str]  # without the stack's name: q, attention_norm, ffn_in, …
    keys: dict[str, object]  # of a description, that follow for certain
    ordered: tuple[str, ...]  # parts that only their order tells: what q, k and v are is a guess
    left: tuple[str, ...]

    @property
    def crosses(self) -> bool:
        return any(part.startswith("cross_") for part in self.parts)


class Stack(NamedTuple):
    """Layers: `prefix`, a number, and what is in `layer`."""

    prefix: str
    count: int
    period: int
    layer: Layer

    def template(self, suffix: str) -> str:
        """The name with {layer}. With a period it begins with the place in the layer."""
        if self.period == 1:
            return f"{self.prefix}{{layer}}{suffix}"
        place_, _, rest = suffix.partition("|")
        more = f"+{place_}" if place_ != "0" else ""
        return f"{self.prefix}{{layer*{self.period}{more}}}{rest}"

    def name(self, suffix: str, layer: int) -> str:
        """Of one layer, of a tensor that is no head's."""
        return of_layer(self.template(suffix), layer)

    def pattern(self, suffix: str) -> str:
        """The names of a tensor in every layer, and of every head."""
        rest = suffix if self.period == 1 else suffix.partition("|")[2]
        return f"{self.prefix}*" + re.sub(r"\.\d+\.", ".*.", rest)


Members = dict[str, Shape]


def stacks(checkpoint: Checkpoint) -> list[Stack]:
    """The outermost groups of equal layers, in the file's order."""
    groups = _groups(checkpoint)
    found: list[Stack] = []
    tried = 0
    for prefix in sorted(groups, key=lambda p: (p.count("."), len(p))):
        numbers, inside = groups[prefix], tuple(stack.prefix for stack in found)
        if inside and prefix.startswith(inside) or sorted(numbers) != list(range(len(numbers))):
            continue
        if len(numbers) > D.MAX_LAYERS * max(_PERIODS) or tried >= _MOST_TRIED:
            continue
        for period in _PERIODS:
            members = _periodic(numbers, period)
            if members and _FEWEST_MEMBERS <= len(members) <= _MOST_MEMBERS:
                tried += 1
                layer = classified(members)
                if layer is not None:
                    found.append(Stack(prefix, len(numbers) // period, period, layer))
                    break
    firsts: dict[str, int] = {}
    for at, name in enumerate(checkpoint):
        for stack in found:
            if name.startswith(stack.prefix):
                firsts.setdefault(stack.prefix, at)
    return sorted(found, key=lambda stack: firsts[stack.prefix])


def odd_one(checkpoint: Checkpoint) -> str:
    """A tensor of one layer that another has not, or has in another shape, of the largest group of
    layers that are not equal; or none."""
    groups = _groups(checkpoint).items()
    for prefix, numbers in sorted(groups, key=lambda item: -sum(map(len, item[1].values()))):
        first = numbers.get(0, {})
        if len(first) < _FEWEST_MEMBERS:
            continue
        for number, members in sorted(numbers.items()):
            if odd := sorted(dict(first.items() ^ members.items())):
                return f"{prefix}{number if odd[0] in members else 0}{odd[0]}"
    return ""


def _groups(checkpoint: Checkpoint) -> dict[str, dict[int, Members]]:
    """What stands before a number in names: each number's tensors, by what stands behind it."""
    groups: dict[str, dict[int, Members]] = {}
    for name, stored in checkpoint.tensors.items():
        if stored.is_float and len(name) <= LONGEST_NAME:
            for prefix, number, rest in _numbers(name):
                groups.setdefault(prefix, {}).setdefault(number, {})[rest] = stored.shape
    return groups


def _numbers(name: str) -> Iterator[tuple[str, int, str]]:
    """(before, number, behind) for each number that ends a component of the name."""
    for i, match in enumerate(re.finditer(r"(\d{1,4})(?=\.)", name)):
        if i < _MOST_NUMBERS:
            yield name[: match.start()], int(match[1]), name[match.end() :]


def _periodic(numbers: dict[int, Members], period: int) -> Members | None:
    """The tensors of a layer that `period` entries make, where all layers are equal."""
    if len(numbers) % period:
        return None
    if period == 1:
        first = numbers[0]
        return first if all(one == first for one in numbers.values()) else None
    for place_ in range(period):
        if any(numbers[i] != numbers[place_] for i in range(place_, len(numbers), period)):
            return None
    return {f"{i}|{rest}": shape for i in range(period) for rest, shape in numbers[i].items()}


def classified(members: Members) -> Layer | None:
    """The parts of a layer; None where it has no attention, or not one feed-forward."""
    members, heads = _merged_heads(members)
    matrices = {name: shape for name, shape in members.items() if len(shape) == 2}
    vectors = {name: shape[0] for name, shape in members.items() if len(shape) == 1}
    biases = {bias_name(name) for name in matrices} & vectors.keys()
    norms = _norms(vectors, biases)
    width = _width(matrices, [vectors[name] for name in norms])
    masks = {n for n, s in matrices.items() if s[0] == s[1] != width or width not in s}
    for name in masks:
        del matrices[name]
    found = _sub_layers(matrices, width)
    if found is None:
        return None
    attention, feed_forward = found
    parts: dict[str, str] = {}
    keys: dict[str, object] = {"heads": heads} if heads else {}
    ordered: list[str] = []
    fused = [matrices[n] for names in attention for n in names if 3 * width in matrices[n]]
    turned = {shape == (width, 3 * width) for shape in fused}
    for prefix, cluster in zip(("", "cross_"), attention):
        roles = _attention(cluster, matrices, width)
        if roles is None:
            return None
        named, by_order = roles
        ordered += [_part(prefix, part) for part in named] * by_order
        parts |= {_part(prefix, part): name for part, name in named.items()}
    fed = _feed_forward(feed_forward, matrices, width, next(iter(turned), None))
    if fed is None:
        return None
    into, transposed = fed
    parts |= into
    if transposed:
        keys["transposed"] = True
    for prefix in ("", "cross_"):
        shared = [n for n in vectors if n.endswith("in_proj_bias") and n not in biases]
        alone = parts.get(f"{prefix}q", "")
        parts |= {f"{prefix}qkv_bias": n for n in shared if alone and module(n) == module(alone)}
    if not _place_norms(norms, vectors, width, [*attention, feed_forward], parts, keys=keys):
        return None
    used = {*parts.values(), *map(bias_name, parts.values())}
    left = tuple(name for name in members if name not in used)
    return Layer(width, parts, keys, tuple(ordered), left)


def _part(prefix: str, part: str) -> str:
    return ("cross_out" if prefix else "attention_out") if part == "out" else prefix + part


def _merged_heads(members: Members) -> tuple[Members, int]:
    """A module for each head becomes one tensor with {head} in its name; and how many there are."""
    forms: dict[tuple[str, str], dict[int, tuple[str, Shape]]] = {}
    for name, shape in members.items():
        for before, number, behind in _numbers(name):
            forms.setdefault((before, behind), {})[number] = name, shape
    out, heads = dict(members), 0
    for (before, behind), found in forms.items():
        shapes = {shape for _, shape in found.values()}
        shape = next(iter(shapes))
        if len(found) < 2 or len(shapes) > 1 or sorted(found) != list(range(len(found))):
            continue
        if not any(says(behind, "attention", part) for part in ("q", "k", "v")) or not shape:
            continue
        if len(shape) == 2 and len(found) * shape[0] > 2 * shape[1]:
            continue
        for name, _ in found.values():
            out.pop(name, None)
        out[f"{before}{{head}}{behind}"] = (len(found) * shape[0], *shape[1:])
        heads = len(found)
    return out, heads


def _width(matrices: Members, norms: list[int]) -> int:
    count = Counter(n for shape in matrices.values() for n in set(shape))
    count.update(norms)
    return max(count, key=lambda n: (count[n], n), default=0)


def _norms(vectors: dict[str, int], biases: set[str]) -> list[str]:
    """The weights of norms: vectors that belong to no matrix."""
    return [n for n in vectors if n not in biases and n.rpartition(".")[2] in NORM_WEIGHTS]


def _sub_layers(matrices: Members, width: int) -> tuple[list[list[str]], list[str]] | None:
    """(the matrices of self-attention, and of cross-attention where there is one; those of the
    feed-forward)."""
    attention: dict[str, list[str]] = {}
    feed_forward: list[str] = []
    for key, cluster in _clusters(list(matrices)).items():
        if len(cluster) > 1 and _is_attention(cluster, matrices, width):
            attention[key] = cluster
        else:
            for name in cluster:
                if len(cluster) == 1 and _is_attention(cluster, matrices, width):
                    one = "cross" if says(name, "block", "cross") else "self"
                    attention.setdefault(f"loose {one}", []).append(name)
                else:
                    feed_forward.append(name)
    found = sorted(attention.items(), key=lambda item: _crosses(item[1]))
    if not 1 <= len(found) <= 2 or not feed_forward:
        return None
    return [names for _, names in found], feed_forward


def _crosses(names: list[str]) -> int:
    """0: says self; 2: says cross; 1: its order tells."""
    if any(says(name, "block", "cross") for name in names):
        return 2
    return 0 if any("self" in name for name in names) else 1


def _clusters(names: list[str]) -> dict[str, list[str]]:
    """By the first component in which they differ."""
    split = {name: re.split(r"[.|]", name) for name in names}
    at = 0
    while len({tuple(p[: at + 1]) for p in split.values()}) == 1 and all(
        len(p) > at + 1 for p in split.values()
    ):
        at += 1
    out: dict[str, list[str]] = {}
    for name, pieces in split.items():
        out.setdefault(".".join(pieces[: at + 1]), []).append(name)
    return out


def _is_attention(cluster: list[str], matrices: Members, width: int) -> bool:
    if any(says(n, "attention", part) for n in cluster for part in ("qkv", "q", "k", "v")):
        return True
    if len(cluster) == 1:
        name = cluster[0]
        square = matrices[name] == (width, width)
        feeds = says(name, "block", "feed_forward") and not says(name, "block", "attention")
        return square and not feeds and says(name, "attention", "out")
    squares = [n for n in cluster if matrices[n] == (width, width)]
    return len(squares) == 4 or any(says(n, "block", "attention") for n in cluster)


def _attention(
    cluster: list[str], matrices: Members, width: int
) -> tuple[dict[str, str], bool] | None:
    """(the parts of an attention, whether only their order told them)."""
    roles: dict[str, str] = {}
    rest = []
    for name in cluster:
        leaf = name.removesuffix(".weight")
        letters = [part for part in "qkv" if says(leaf, "attention", part)]
        fused = says(leaf, "attention", "qkv") or len(letters) == 3
        if fused and not (len(letters) == 1 and matrices[name] == (width, width)):
            roles.setdefault("qkv", name)
        elif letters:
            part = max(letters, key=lambda one: place(leaf, "attention", one))
            if part in roles:
                return None
            roles[part] = name
        else:
            rest.append(name)
    if not roles and len(rest) == 4:
        return dict(zip(("q", "k", "v", "out"), rest)), True
    if not roles:
        threes = [name for name in rest if 3 * width in matrices[name]]
        if len(threes) != 1:
            return None
        roles["qkv"] = threes[0]
        rest.remove(threes[0])
    if len(rest) != 1 or roles.keys() not in ({"qkv"}, {"q", "k", "v"}):
        return None
    return {**roles, "out": rest[0]}, False


def _feed_forward(
    names: list[str], matrices: Members, width: int, turned: bool | None
) -> tuple[dict[str, str], bool] | None:
    """(the parts of a feed-forward, whether matrices are stored as (inputs, outputs)). turned: that
    of attention, where its shapes tell."""
    if len(names) == 2:
        first, second = names
        if matrices[first] != matrices[second][::-1]:
            return None
        lower = says(first, "feed_forward", "out") and not says(first, "feed_forward", "in")
        if lower and says(second, "feed_forward", "in"):
            first, second = second, first
        if turned is None:
            turned = matrices[first][0] == width != matrices[first][1]
        elif (matrices[first][0] == width != matrices[first][1]) != turned:
            first, second = second, first
        return {"ffn_in": first, "ffn_out": second}, turned
    if len(names) != 3:
        return None
    shapes = Counter(matrices[name] for name in names)
    pair = next((s for s, n in shapes.items() if n == 2), None)
    if pair is None or pair[::-1] not in shapes:
        return None
    ins = [name for name in names if matrices[name] == pair]
    (out,) = (name for name in names if matrices[name] != pair)
    gates = sorted(ins, key=lambda name: -place(name, "feed_forward", "gate"))
    return {"ffn_gate": gates[0], "ffn_in": gates[1], "ffn_out": out}, pair[0] == width


def _place_norms(
    norms: list[str],
    vectors: dict[str, int],
    width: int,
    matrices: list[list[str]],
    parts: dict[str, str],
    *,
    keys: dict[str, object],
) -> bool:
    """Puts the norms of a layer into its parts, and what they say into its keys."""
    beside = {f"{letter}_norm": n for n in norms for letter in "qk" if _of_head(n, letter)}
    parts |= beside
    blocks = [n for n in norms if n not in beside.values() and vectors[n] == width]
    subs = ["attention", "cross", "ffn"] if len(matrices) == 3 else ["attention", "ffn"]
    found = _clusters([*sum(matrices, []), *blocks])
    key_of = {name: key for key, names in found.items() for name in names}
    clusters = [{key_of[name] for name in one} for one in matrices]
    owner: dict[str, list[str]] = {sub: [] for sub in subs}
    loose = []
    for name in blocks:
        at = [i for i, mine in enumerate(clusters) if key_of[name] in mine]
        sub = subs[at[0]] if len(at) == 1 else _by_words(name, subs)
        owner[sub].append(name) if sub else loose.append(name)
    if len({re.sub(r"\d+", "#", name) for name in loose}) == 1:  # by their numbers
        loose.sort(key=lambda name: [int(n) for n in re.findall(r"\d{1,9}", name)])
    each, over = divmod(len(blocks), len(subs))
    _pass_on(owner, subs, each)
    if len(blocks) == 1 and len(subs) == 2:
        parts["attention_norm"] = blocks[0]
        keys["parallel"] = "one-norm"
    elif over or each not in (1, 2) or any(len(mine) > each for mine in owner.values()):
        return False
    else:
        for sub in subs:
            while len(owner[sub]) < each:
                owner[sub].append(loose.pop(0))
            if each == 2:
                first, last = sorted(owner[sub], key=lambda n: says(n, "block", "after"))
                parts[f"{sub}_norm"], parts[f"{sub}_after"] = first, last
                keys["norm_place"] = "both"
            else:
                parts[f"{sub}_norm"] = owner[sub][0]
    keys.update(_kind_of_norm(blocks[0], vectors))
    return True


def _pass_on(owner: dict[str, list[str]], subs: list[str], each: int) -> None:
    """A norm "behind attention" is the next sub-layer's where attention has one of its own."""
    for sub, following in zip(subs, subs[1:]):
        mine = sorted(owner[sub], key=lambda name: says(name, "block", "after"))
        if len(mine) > each and says(mine[-1], "block", "after"):
            owner[sub], owner[following] = mine[:-1], [mine[-1], *owner[following]]


def _kind_of_norm(weight: str, names: Container[str]) -> dict[str, object]:
    """What the names of a norm's tensors say of it."""
    if weight.endswith("a_2"):
        return {"norm": "layer-unbiased", "norm_eps": 1e-6}
    return {"norm": "layer"} if bias_name(weight) in names else {}


def _of_head(name: str, letter: str) -> bool:
    words = words_of(name.replace("qnorm", "q_norm").replace("knorm", "k_norm"))
    pairs = zip(words, words[1:])
    return any(first == letter and last in _NORM_WORDS for first, last in pairs)


def _by_words(name: str, subs: list[str]) -> str:
    if says(name, "block", "cross"):
        return "cross" if "cross" in subs else ""
    if says(name, "block", "feed_forward"):
        return "ffn"
    if says(name, "block", "input"):
        return "attention"
    return "attention" if says(name, "block", "attention") else ""
