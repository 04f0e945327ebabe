"""Which form of q8r a model takes best: its inputs as they are, scaled by channel (smoothing.py),
rotated (q8rh), or both.

Each form, and q8, reads the same ids in the float32 reference, weights and activations rounded as
the engine rounds them, and is compared with the exact weights: logits and classes by their
Kullback-Leibler divergence, vectors by 1 − cosine, the mean of all rows. The first form, in that
order, is taken that is no worse than q8, or within a quarter of the best one: scales cost at most a
multiplication an input at run time, a rotation six additions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from phasor import scratch
from phasor import vectors as V
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.files import read_text, writing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import Narrow, PhasorFile, Weights
from phasor.format.meta import as_stored
from phasor.format.writer import write_model
from phasor.moments import inputs as inputs_of_text
from phasor.program import need_phasor
from phasor.runs import Input, run_all
from phasor.smoothing import Smoothed

AUTO = "q8r-auto"
_TOKENS, _WINDOW = 512, 256  # of a text; what a decoder reads at once
_NEAR = 1.25


Source = Callable[[R.Slot], Weights]


class Form(NamedTuple):
    """A type of the matrices, and whether inputs are scaled by channel."""

    kind: int
    smooth: bool


FORMS = (Form(L.Q8R, False), Form(L.Q8R, True), Form(L.Q8RH, False), Form(L.Q8RH, True))


class Pick(NamedTuple):
    """What was chosen, what was measured, and the lines that say why."""

    kind: int
    smoothed: Smoothed | None
    found: dict[Form, float]
    lines: list[str]


class _Rounded(V.ExactWeights):
    """Weights as the types of the model's matrices hold them; f32 ones are exact."""

    def __init__(self, descriptor: dict[str, Any], source: Source, model: Model) -> None:
        super().__init__(as_stored(descriptor), source)
        for slot in self._slots.values():
            if slot.matrix:
                entry = self.entries[slot.key]
                self.entries[slot.key] = entry._replace(type=model.type_of(slot))

    def narrow(self, key: int) -> Narrow:
        given, kind, slot = super().narrow(key), self.entries[key].type, self._slots[key]
        if kind not in L.QUANTIZED:
            return given
        try:
            stored = L.quantize(given.values, kind)
        except PhasorError as error:
            raise PhasorError(f"{slot.name}: {error}") from error
        return Narrow(L.dequantize(*stored, slot.cols, kind, np.float32))


def _outputs(file: V.ExactWeights, inputs: Sequence[Input]) -> np.ndarray:
    """The output rows (R, W) of all inputs."""
    (runs,) = run_all(file, inputs, (np.float32,))
    return np.concatenate([ran.output for ran in runs])


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x = x - x.max(axis=1, keepdims=True)
    result: np.ndarray = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return result


def difference(exact: np.ndarray, got: np.ndarray, output: int) -> float:
    """Of rows (R, W): the mean divergence of classes and logits, of vectors the mean 1 − cosine.
    Infinite where a value is not finite."""
    if not np.isfinite(got).all():
        return np.inf
    if output in (D.LOGITS, D.CLASSES):
        p, q = _log_softmax(exact), _log_softmax(got)
        return float((np.exp(p) * (p - q)).sum(axis=1).mean())
    a, b = exact.astype(np.float64), got.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.divide((a * b).sum(axis=1), lengths, where=lengths > 0, out=np.ones(len(a)))
    return float((1 - cosines).mean())


def calibration(
    model: Model, sections: dict[int, bytes], phasor: Path | None, text: Path | None
) -> list[Input]:
    """The ids that are read: of a text, which the phasor program makes with the model's tokenizer,
    or those of the file's test vectors."""
    d = model.descriptor
    if text is None:
        return V.choose_inputs(d)
    words = read_text(text)
    if not d["source" if "encoder" in d else "target"]["tokenizer"]:
        raise PhasorError("--calibration: the model has no tokenizer to read a text with")
    program = need_phasor(phasor)
    with scratch.file() as path:
        with writing(path) as file:
            write_model(
                file, d, lambda slot: V.as_array(slot, model.weights(slot)), L.F32, sections
            )
        found = inputs_of_text(PhasorFile(path), program, words, _TOKENS, _WINDOW)
        made = [Input(tuple(source), tuple(target)) for source, target in found]
    if not any(given.source or given.target for given in made):
        raise PhasorError(f"{text}: the text has no tokens")
    return made


def _name(form: Form) -> str:
    return f"{L.TYPES[form.kind]}{', smoothing' * form.smooth}"


def pick(
    model: Model, sections: dict[int, bytes], phasor: Path | None, text: Path | None = None
) -> Pick:
    """Measures, and chooses. The descriptor is whole, its tokenizers are among the sections; text:
    that of --calibration. PhasorError where nothing can be measured."""
    d, ends = model.descriptor, model.asked_output

    def plain(slot: R.Slot) -> np.ndarray:
        return V.as_array(slot, model.weights(slot))

    def rows(form: Form | None) -> np.ndarray:
        model.asked = form.kind if form else L.F32
        model.asked_output = ends if form else None
        smooth = form is not None and form.smooth
        given = (smoothed.descriptor, smoothed.weights) if smooth else (d, plain)
        return _outputs(_Rounded(*given, model), inputs)

    model.asked, model.asked_output = L.F32, None
    inputs = calibration(model, sections, phasor, text)
    smoothed = Smoothed(d, plain, inputs)
    exact, q8 = rows(None), Form(L.Q8, d["model"]["stack"] == D.ENCODER)
    found = {form: difference(exact, rows(form), d["output"]["output"]) for form in (*FORMS, q8)}
    model.asked_output = ends
    form = choose(found, q8)
    read = str(text or "the ids of the test vectors")
    lines = reasons(found, form, q8, len(exact), read)
    return Pick(form.kind, smoothed if form.smooth else None, found, lines)


def choose(found: dict[Form, float], q8: Form) -> Form:
    """The first form that is no worse than q8, or within a quarter of the best one. PhasorError
    where none is finite."""
    least = min(found[form] for form in FORMS)
    if not np.isfinite(least):
        raise PhasorError(f"{AUTO}: every form of q8r computes values that are not finite")
    return next(form for form in FORMS if found[form] <= max(found[q8], _NEAR * least))


def reasons(found: dict[Form, float], form: Form, q8: Form, rows: int, read: str) -> list[str]:
    """Lines for the user: what was measured, what was chosen, and whether q8 stays better."""
    lines = [
        f"{AUTO}: differences from the exact weights over {rows} rows of {read}: "
        + ", ".join(f"{_name(each)} {value:.3g}" for each, value in found.items()),
        f"{AUTO}: {_name(form)}: the simplest form that is "
        + (
            "no worse than q8"
            if found[form] <= found[q8]
            else f"within {_NEAR - 1:.0%} of the best one"
        ),
    ]
    if found[form] > _NEAR * found[q8]:
        lines.append(
            f"{AUTO}: q8 stays better, {found[form] / found[q8]:.1f} times as near: prefer --type "
            "q8 unless many rows at once are what matters (encoders, batches, long prompts)"
        )
    return lines
