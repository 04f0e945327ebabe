"""Tensors that are missing and tensors that have no use, a line each, with the name that may be
meant."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Iterable, Mapping

from phasor.checkpoints.tensors import Checkpoint, Shape
from phasor.errors import printable

# Layers have one form, so a model has few of them; the rest of a hostile file gets no advice.
_MOST_FORMS, _LONGEST, _LIKE = 96, 120, 0.5
_FEW, _NEAREST = 80, 2  # letters of a list that is given whole, and names of a longer one
_PAGE = "docs/reference/families.md"
_LIKE_PART, _LIKE_NAME = 0.4, 0.7  # of parts, without and with their stack


def lines(
    checkpoint: Checkpoint, missing: Mapping[str, str], left: Iterable[str], each: bool = True
) -> tuple[list[str], list[str]]:
    """(a line for each tensor that is missing, and one for each that has no use). missing: what
    each is for. each: not only the first of those that differ in a number, or are its bias."""
    left = list(left)
    near, asked = nearest(missing, left), nearest(left, missing)
    absent = [
        f"missing: {printable(name)} ({missing[name]})"
        + (f"; is it {printable(near[name])}?" if name in near else "")
        + more
        for name, more in _counted(missing, each)
    ]
    unused = [
        f"left over: {printable(name)} {shape_text(checkpoint.shape(name))} has no use in this"
        " model" + (f"; is it {printable(asked[name])}?" if name in asked else "") + more
        for name, more in _counted(left, each)
    ]
    return absent, unused


def _counted(names: Iterable[str], each: bool) -> list[tuple[str, str]]:
    """(name, what is said of those like it); where each counts, all of them, with nothing."""
    if each:
        return [(name, "") for name in names]
    like: dict[str, list[str]] = {}
    for name in names:
        like.setdefault(_form(name)[0].replace("bias", "weight"), []).append(name)
    return [(n[0], f" (and {len(n) - 1} more like it)" * (len(n) > 1)) for n in like.values()]


def under(missing: Iterable[str], given: Iterable[str]) -> str:
    """What stands before several missing names in a checkpoint of a model inside of a model: the
    most frequent text, or none."""
    found: dict[str, int] = {}
    ends: dict[str, Any] = {}
    for name in given:
        at = name.find(".")
        while at >= 0:
            ends.setdefault(name[at + 1 :], name[: at + 1])
            at = name.find(".", at + 1)
    for name in missing:
        if name in ends:
            found[ends[name]] = found.get(ends[name], 0) + 1
    best = max(found, key=found.__getitem__, default="")
    return best if found.get(best, 0) > 1 else ""


def meant(part: str, parts: Iterable[str]) -> str:
    """`; did you mean X?` of the nearest of these parts of the same stack, else of all."""
    parts = sorted(parts) if len(part) <= _LONGEST else []
    start, _, what = part.rpartition(".")
    own = {p.rpartition(".")[2]: p for p in parts if p.rpartition(".")[0] == start}
    near = get_close_matches(what, own, 1, _LIKE_PART)
    found = [own[near[0]]] if near else get_close_matches(part, parts, 1, _LIKE_NAME)
    return f"; did you mean {found[0]}?" if found else ""


def some(what: object, known: Iterable[str]) -> str:
    """What there is in place of `what`, in few words: all of it, or the nearest by their names."""
    names = list(known)
    if len(text := ", ".join(names)) <= _FEW:
        return f"expected {text}"
    word = str(what)[:_LONGEST]
    near = (get_close_matches(word, names, _NEAREST, 0.0) or names)[:_NEAREST]
    return f"expected {', '.join(near)} or {len(names) - len(near)} more in {_PAGE}"


def shape_text(shape: Shape) -> str:
    return "(" + " x ".join(map(str, shape)) + ")"


def nearest(wanted: Iterable[str], given: Iterable[str]) -> dict[str, str]:
    """For each wanted name the most similar one of those given, of the same layer where there is
    one; a name that is like none is left out."""
    forms: dict[str, dict[tuple[str, ...], str]] = {}
    for name in given:
        form, numbers = _form(name)
        if len(form) <= _LONGEST and (form in forms or len(forms) < _MOST_FORMS):
            forms.setdefault(form, {}).setdefault(numbers, name)
    best: dict[str, str] = {}
    out = {}
    for name in wanted:
        form, numbers = _form(name)
        if form not in best:
            tried = len(form) <= _LONGEST and len(best) < _MOST_FORMS
            best[form] = _closest(form, forms) if tried else ""
        if best[form]:
            same = forms[best[form]]
            out[name] = same.get(numbers) or next(iter(same.values()))
    return out


def _form(name: str) -> tuple[str, tuple[str, ...]]:
    """A name with its numbers taken out, and the numbers."""
    return re.sub(r"\d+", "#", name), tuple(re.findall(r"\d+", name))


def _closest(form: str, forms: Iterable[str]) -> str:
    """The form of a model inside of a model, whose end or beginning is the other's; else the most
    similar one, or none."""
    inner = [o for o in forms if o.endswith("." + form) or form.endswith("." + o)]
    return min(inner, key=len) if inner else (get_close_matches(form, forms, 1, _LIKE) or [""])[0]
